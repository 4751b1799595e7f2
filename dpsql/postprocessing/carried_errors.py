"""The errors of SQL over released rows: exact where it is a linear function of noisy numbers, and drawn elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Ends, Estimate, NoiseTerm, Numbers, normal
from dpsql.frozen import Frozen
from dpsql.postprocessing.moved_rows import LoadedColumn, MovedRows, Number, RedrawnRows
from dpsql.trusted.cached import cached_property

LINEAR = 1e-7  # of how far an answer moves: what a linear function of its inputs may leave
NOTHING = 1e-9
SETTLED = 2.0**36  # weights are rounded to 36 binary digits
MOST_TOGETHER = 2_000  # answers that are added up together
ENOUGH = 0.5  # of the draws in which a row must be there
BENT = 0.25  # how far a function may bend where noise moves it by 1

Error = tuple[float | None, tuple[float, float] | None, bool]
"""The standard error of a number, the ends of its interval, and whether these are approximate."""


class CarriedErrors(Frozen):
    """How noise in released rows affects the numbers computed from them. `confidence` is that of intervals.

    Numbers that are computed are given as versions x numbers, NaN if a version has no such number.
    """

    tables: Mapping[str, Mapping[str, LoadedColumn]]
    moved: MovedRows
    confidence: float

    def _as_released(self, answer: Numbers) -> Error | None:
        """The error of a number that is missing, or is a released one; None for any other."""
        if math.isnan(answer[0]):
            return None, None, False
        same = self._same.get(answer.tobytes())
        return None if same is None else self._told(same, 1.0, 0.0)

    @cached_property
    def _same(self) -> Mapping[bytes, Number]:
        """The noisy numbers by the values of all their versions: an answer with these values is that number."""
        return {np.ascontiguousarray(self.moved.of(number)).tobytes(): number for number in self.moved.numbers}

    def _column(self, number: Number) -> LoadedColumn:
        return self.tables[number.table][number.column]

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], tuple[Numbers, Ends]]:
        """The errors and intervals of the noisy columns themselves."""
        return {(table, name): (column.estimate.deviations, column.estimate.ends(self.confidence))
                for table, columns in self.tables.items() for name, column in columns.items()
                if column.moves and column.estimate is not None}

    def _told(self, number: Number, weight: float, added: float) -> Error:
        """The error of a noisy number times a weight, plus a constant."""
        deviations, (lows, highs) = self._known[number.table, number.column]
        error = float(deviations[number.row]) * abs(weight)
        ends = sorted(float(end[number.row]) * weight + added for end in (lows, highs))
        estimate = self._column(number).estimate
        assert estimate is not None
        told = None if any(map(math.isnan, ends)) else (ends[0], ends[1])
        return error if math.isfinite(error) else None, told, estimate.approximate


def _added(sides: Numbers, weights: Numbers) -> Numbers:
    """The sum of numbers times weights, of which those without weight count as nothing, though they be infinite."""
    return np.asarray(np.multiply(sides, np.abs(weights), out=np.zeros_like(weights), where=weights != 0).sum(axis=0))


class LinearErrors(CarriedErrors):
    """The errors of linear functions of the noisy numbers, found by probes."""

    def of(self, answers: Numbers) -> list[Error | None]:
        """The errors of some numbers; None for those that are not linear, or that do not depend on any noisy number."""
        if self.moved.versions == 1:
            return [None] * answers.shape[1]
        weights = self._weights(answers)
        found = [self._simple(answers[:, at], weights[:, at]) for at in range(answers.shape[1])]
        sums = [at for at, one in enumerate(found) if one is None and np.count_nonzero(weights[:, at]) > 1
                and not np.isnan(weights[:, at]).any()]
        for start in range(0, len(sums), MOST_TOGETHER):
            chosen = sums[start:start + MOST_TOGETHER]
            for at, error in zip(chosen, self._sums(weights[:, chosen], answers[0, chosen]), strict=True):
                found[at] = error
        return found

    def _simple(self, answer: Numbers, weights: Numbers) -> Error | None:
        """The error of a released number, or of one times a weight plus a constant; None for any other."""
        used = np.flatnonzero(weights)
        found = self._as_released(answer)
        if found is not None or len(used) != 1 or math.isnan(weights[used[0]]):
            return found
        number, weight = self.moved.numbers[used[0]], float(weights[used[0]])
        return self._told(number, weight, float(answer[0] - weight * self.moved.of(number)[0]))

    def _sums(self, weights: Numbers, values: Numbers) -> Iterator[Error]:
        """The errors of weighted sums of noisy numbers, whose weights are given as numbers x sums. A piece of noise that is in
        several numbers is added up first."""
        below, above = np.zeros(len(values)), np.zeros(len(values))
        approximate = np.zeros(len(values), dtype=np.bool_)
        slopes: dict[object, tuple[NoiseTerm, Numbers]] = {}
        for (table, name), numbers in self._places.items():
            column, own = self.tables[table][name], weights[numbers]
            estimate = column.estimate
            assert estimate is not None
            rows = np.array([self.moved.numbers[number].row for number in numbers])
            low, high = (np.broadcast_to(side, estimate.values.shape)[rows] for side in (estimate.below, estimate.above))
            below += _added(np.where(own > 0, low[:, None], high[:, None]), own)
            above += _added(np.where(own > 0, high[:, None], low[:, None]), own)
            approximate |= estimate.approximate & own.any(axis=0)
            for key, (term, slope) in estimate.slopes.items():
                steps = np.broadcast_to(slope, estimate.values.shape)[rows]
                there = np.flatnonzero(steps)  # of a table of many periods, the noise of one of them moves few rows
                for chosen in [there] if key in column.shared else np.split(there, len(there)):
                    place = table, key, None if key in column.shared else int(rows[chosen[0]])
                    moved = steps[chosen] @ own[chosen]
                    slopes[place] = term, moved + (slopes[place][1] if place in slopes else 0.0)
        pieces: dict[tuple[int, ...], tuple[NoiseTerm, Numbers]] = {(at,): piece for at, piece in enumerate(slopes.values())}
        made = Estimate(values=values, slopes=pieces, below=below, above=above)
        for error, low, high, rough in zip(made.deviations, *made.ends(self.confidence), approximate, strict=True):
            yield float(error) if math.isfinite(error) else None, (float(low), float(high)), bool(rough)

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], NDArray[np.intp]]:
        """The noisy numbers of each column, by their places among all of them."""
        found: dict[tuple[str, str], list[int]] = {}
        for at, number in enumerate(self.moved.numbers):
            found.setdefault((number.table, number.column), []).append(at)
        return {column: np.array(places) for column, places in found.items()}

    def _weights(self, answers: Numbers) -> Numbers:
        """Numbers x answers: the derivative of each answer by each noisy number; NaN if the probes show that it is not linear."""
        from scipy.linalg import lstsq  # whose pivoted QR takes a fifth of the time of numpy's

        moves = np.stack([self.moved.of(number)[1:] - self.moved.of(number)[0] for number in self.moved.numbers], axis=1)
        sizes = np.maximum(np.abs(moves).max(axis=0), 1e-300)
        with np.errstate(invalid="ignore"):
            found = answers[1:] - answers[0]
        whole = np.isfinite(found).all(axis=0)
        given = np.where(whole, found, 0.0)
        parts, *_ = lstsq(moves / sizes, given, lapack_driver="gelsy", check_finite=False)
        left = np.abs(given - (moves / sizes) @ parts).max(axis=0, initial=0.0)
        scale = np.maximum(np.abs(given).max(axis=0, initial=0.0), NOTHING * np.nan_to_num(np.abs(answers[0])))
        parts = np.where(np.abs(parts) > NOTHING * np.maximum(scale, 1e-300), parts, 0.0)
        return np.where(whole & (left <= LINEAR * scale), _settled(parts / sizes[:, None]), np.nan)


def _settled(weights: Numbers) -> Numbers:
    """The weights, rounded: their last digits depend on the probes, so errors of old rows would change when rows are added."""
    parts, exponents = np.frexp(weights)
    return np.asarray(np.ldexp(np.rint(parts * SETTLED) / SETTLED, exponents))


class DrawnErrors(CarriedErrors):
    """The errors of any functions of the noisy numbers, from draws."""

    moved: RedrawnRows

    def of(self, answers: Numbers) -> list[Error]:
        """The errors of some numbers."""
        return [self._as_released(answer) or self._drawn(answer) for answer in answers.T]

    def _drawn(self, answer: Numbers) -> Error:
        """The error of any function, from the draws.

        The draws differ from the released numbers as these differ from the truth. So an interval may be read off them
        (percentiles), or off their reflection at what was released, which takes a bias off that noise gives a function, as to a
        greatest value. As it is unknown which of the two is right, the interval contains both.

        Where a function bends as far as noise reaches, as a greatest value or a rank does among numbers that noise does not tell
        apart, neither need be right. There the interval reaches to the answers at the ends of intervals that hold all numbers
        together: of a function that never falls with any of them, or that falls with all but one, these are its ends.
        """
        draws = answer[self.moved.draws.start : self.moved.draws.stop]
        half = len(draws) // 2
        up, down = draws[:half], draws[half:]
        draws = draws[np.isfinite(draws)]
        if len(draws) < ENOUGH * len(self.moved.draws) or not len(draws) or not math.isfinite(answer[0]) or self._biased:
            return None, (-math.inf, math.inf), True
        tail, value = (1 - self.confidence) / 2, float(answer[0])
        low, high = (float(end) for end in np.quantile(draws, [tail, 1 - tail]))
        low, high = min(low, 2 * value - high), max(high, 2 * value - low)
        error = float(np.sqrt(np.mean((draws - value) ** 2)))
        pairs = np.isfinite(up + down)
        bent = float(np.sqrt(np.mean((up[pairs] + down[pairs] - 2 * value) ** 2))) if pairs.any() else math.inf
        turned = float(np.sqrt(np.mean((up[pairs] - down[pairs]) ** 2))) if pairs.any() else 0.0
        if bent > BENT * turned:
            ends = answer[self.moved.ends.start : self.moved.ends.stop]
            ends = ends[np.isfinite(ends)]
            low, high = min(low, float(ends.min(initial=low))), max(high, float(ends.max(initial=high)))
            error = max(error, (high - low) / 2 / normal(self.confidence))
        return error, (low, high), True

    @cached_property
    def _biased(self) -> bool:
        return any(column.estimate.biased for columns in self.tables.values() for column in columns.values()
                   if column.moves and column.estimate is not None)
