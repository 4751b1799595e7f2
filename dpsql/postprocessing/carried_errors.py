"""The errors of SQL over released rows: exact where it is a linear function of noisy numbers, and drawn elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.estimates import Ends, Estimate, NoiseTerm, Numbers, normal
from dpsql.frozen import Frozen
from dpsql.postprocessing.moved_rows import LoadedColumn, MovedRows, Number
from dpsql.trusted.cached import cached_property

LINEAR = 1e-7  # of how far an answer moves: what a linear function of its inputs may leave
NOTHING = 1e-9
ENOUGH = 0.5  # of the draws in which a row must be there
BENT = 0.25  # how far a function may bend where noise moves it by 1

Error = tuple[float | None, tuple[float, float] | None, bool]
"""The standard error of a number, the ends of its interval, and whether these are approximate."""


class CarriedErrors(Frozen):
    """How noise in released rows affects the numbers computed from them. `confidence` is that of intervals."""

    tables: Mapping[str, Mapping[str, LoadedColumn]]
    moved: MovedRows
    confidence: float

    def of(self, answers: Numbers) -> list[Error]:
        """The errors of some numbers, given as versions x numbers; NaN if a version has no such number."""
        weights = self._weights(answers)
        return [self._one(answers[:, i], None if weights is None else weights[:, i]) for i in range(answers.shape[1])]

    def _one(self, answer: Numbers, weights: Numbers | None) -> Error:
        if math.isnan(answer[0]):
            return None, None, False
        same = self._same.get(answer.tobytes())
        if same is not None:
            return self._told(same, 1.0, 0.0)
        if weights is None or np.isnan(weights).any():
            return self._drawn(answer)
        used = [(number, float(weight)) for number, weight in zip(self.moved.numbers, weights, strict=True) if weight]
        if not used:
            return self._drawn(answer)
        if len(used) == 1:
            (number, weight), = used
            return self._told(number, weight, float(answer[0] - weight * self.moved.of(number)[0]))
        return self._sum(used, float(answer[0]))

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

    def _sum(self, used: Sequence[tuple[Number, float]], value: float) -> Error:
        """The error of a weighted sum of noisy numbers; a piece of noise that is in several of them is added up first."""
        slopes: dict[tuple[int, ...], tuple[NoiseTerm, Numbers]] = {}
        names: dict[object, int] = {}
        below = above = 0.0
        exact = True
        for number, weight in used:
            column = self._column(number)
            estimate = column.estimate
            assert estimate is not None
            one = estimate.at(np.array([number.row]))
            sides = float(np.asarray(one.below)[0]), float(np.asarray(one.above)[0])
            low, high = sides if weight > 0 else sides[::-1]
            below, above = below + abs(weight) * low, above + abs(weight) * high
            exact = exact and not one.approximate
            for name, (term, slope) in one.slopes.items():
                key = number.table, name, None if name in column.shared else number.row
                at = (names.setdefault(key, len(names)),)
                slopes[at] = (term, slopes[at][1] + slope * weight if at in slopes else slope * weight)
        made = Estimate(values=np.array([value]), slopes=slopes, linear=exact, below=below, above=above)
        error, (lows, highs) = float(made.deviations[0]), made.ends(self.confidence)
        return error if math.isfinite(error) else None, (float(lows[0]), float(highs[0])), made.approximate

    def _drawn(self, answer: Numbers) -> Error:
        """The error of any function, from the draws.

        The draws differ from the released numbers as these differ from the truth. So an interval may be read off them
        (percentiles), or
        off their reflection at what was released, which takes a bias off that noise gives a function, as to a greatest value.
        As it is unknown which of the two is right, the interval contains both.

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

    def _weights(self, answers: Numbers) -> Numbers | None:
        """Numbers x answers: the derivative of each answer by each noisy number; NaN if the probes show that it is not linear;
        None where there are no probes."""
        probes = self.moved.probes
        if not len(probes):
            return None
        moves = np.stack([self.moved.of(number)[probes.start : probes.stop] - self.moved.of(number)[0]
                          for number in self.moved.numbers], axis=1)
        sizes = np.maximum(np.abs(moves).max(axis=0), 1e-300)
        with np.errstate(invalid="ignore"):
            found = answers[probes.start : probes.stop] - answers[0]
        whole = np.isfinite(found).all(axis=0)
        given = np.where(whole, found, 0.0)
        parts, *_ = np.linalg.lstsq(moves / sizes, given, rcond=None)
        left = np.abs(given - (moves / sizes) @ parts).max(axis=0, initial=0.0)
        scale = np.maximum(np.abs(given).max(axis=0, initial=0.0), NOTHING * np.nan_to_num(np.abs(answers[0])))
        parts = np.where(np.abs(parts) > NOTHING * np.maximum(scale, 1e-300), parts, 0.0)
        return np.where(whole & (left <= LINEAR * scale), parts / sizes[:, None], np.nan)
