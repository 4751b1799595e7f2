"""Released numbers with their errors.

An `Estimate` is a column of an answer: one number for each cell, and its derivative with respect to each independent noise
term in it. Arithmetic propagates the noise: exactly for sums and multiples, to first order for products, quotients and roots
(the delta method), and then `linear` is False and intervals are approximate.

Intervals cover the noise, widened by known bounds on a bias, and are sharper where more than the first order is known: for
quotients of sums Fieller's interval, or with biased sums that of all quotients; for roots the roots of the ends; and they are
cut off at a range known to contain the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, field, replace
from dpsql.trusted.cached import cached_property

Numbers = NDArray[np.float64]
Ends: TypeAlias = tuple[Numbers, Numbers]


class NoiseTerm(Frozen):
    """One piece of noise, independent of all others and from cell to cell.

    Terms with the same number in `together` may be dependent: they are sums of the same noise. Their standard deviations then
    add up, which bounds that of their sum (Minkowski), and the sum is noise of the same kind.

    kind    laplace (on integers, of this scale), gaussian (on integers, this standard deviation), or of this standard deviation:
            normal, laplaces (a sum of Laplace noise with unknown weights), or approximate
    """

    kind: Literal["laplace", "gaussian", "normal", "laplaces", "approximate"]
    scale: float
    together: int | None = None

    @property
    def variance(self) -> float:
        if self.kind != "laplace":
            return self.scale**2
        return 0.5 / math.sinh(0.5 / self.scale) ** 2 if self.scale > 2e-3 else 0.0


class Estimate(Frozen):
    """Values over cells, NaN where there is none.

    slopes        maps each noise term to the derivative of the value with respect to it
    linear        whether that derivative is exact for noise of any size
    below, above  how far the truth may lie below or above what noise explains: a bound on the bias, infinite if unknown
    drawn         computes the ends of intervals, including bias, for a confidence where they do not follow from the slopes
    """

    values: Numbers
    slopes: Mapping[tuple[int, ...], tuple[NoiseTerm, Numbers]] = field(default_factory=dict)
    linear: bool = True
    below: float | Numbers = 0.0
    above: float | Numbers = 0.0
    drawn: Callable[[float], Ends] | None = field(default=None, compare=False)

    def __add__(self, other: Estimate | float) -> Estimate:
        if not isinstance(other, Estimate):
            return self._moved(1.0, other)
        slopes = dict(self.slopes)
        for name, (error, slope) in other.slopes.items():
            slopes[name] = (error, slopes[name][1] + slope if name in slopes else slope)
        found = Estimate(values=self.values + other.values, slopes=slopes, linear=self.linear and other.linear,
                         below=self.below + other.below, above=self.above + other.above)
        return replace(found, drawn=self._moved(1.0, other.values).drawn) if not other.slopes else found

    def scaled(self, factor: float | Numbers, *, linear: bool = True) -> Estimate:
        """The estimate times a known number; with `linear` False the number is only a first-order slope."""
        return self._moved(factor, 0.0, linear=linear)

    def _moved(self, factor: float | Numbers, added: float | Numbers, *, linear: bool = True) -> Estimate:
        """The estimate times a known number, plus a known number."""
        turned = np.asarray(factor) < 0
        with np.errstate(invalid="ignore"):  # infinity times 0
            below, above = (np.where(np.isinf(part), part, part * np.abs(factor)) for part in (self.below, self.above))
        drawn = self.drawn

        def ends(confidence: float) -> Ends:
            assert drawn is not None
            with np.errstate(invalid="ignore"):
                low, high = (end * factor + added for end in drawn(confidence))
            return np.where(turned, high, low), np.where(turned, low, high)

        return Estimate(values=self.values * factor + added, linear=self.linear and linear,
                        below=np.where(turned, above, below), above=np.where(turned, below, above),
                        drawn=ends if drawn is not None and linear else None,
                        slopes={name: (error, slope * factor) for name, (error, slope) in self.slopes.items()})

    def __mul__(self, other: Estimate | float) -> Estimate:
        if not isinstance(other, Estimate):
            return self.scaled(other)
        if not other.slopes:
            return self.scaled(other.values)
        if not self.slopes:
            return other.scaled(self.values)
        moved = self.scaled(other.values, linear=False) + other.scaled(self.values, linear=False)
        return replace(moved, values=self.values * other.values)

    def __sub__(self, other: Estimate | float) -> Estimate:
        return self + (other * -1.0 if isinstance(other, Estimate) else -other)

    def __truediv__(self, other: Estimate | float) -> Estimate:
        if not isinstance(other, Estimate):
            return self.scaled(1 / other)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(other.values != 0, 1 / other.values, np.nan)
            if not other.slopes:
                return self.scaled(inverse)
            ratio = self.values * inverse
            moved = self.scaled(inverse, linear=False) + other.scaled(-ratio * inverse, linear=False)
        if self.biased or other.biased:
            return replace(moved, values=ratio, below=math.inf, above=math.inf, drawn=partial(_quotients, self, other))
        return replace(moved, values=ratio, drawn=partial(fieller, self, other) if self.linear and other.linear else None)

    def over(self, other: Estimate) -> Estimate:
        """The quotient by a positive number whose independent noise has its own intervals; see `recovered`."""
        return replace(self / other, drawn=partial(recovered, self, other))

    def root(self) -> Estimate:
        """The square root; 0 for negative values."""
        values = np.sqrt(np.maximum(self.values, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(values > 0, 0.5 / values, 0)

        def ends(confidence: float) -> Ends:
            low, high = self.ends(confidence)
            return np.sqrt(np.maximum(low, 0)), np.sqrt(np.maximum(high, 0))

        return replace(self.scaled(slope, linear=False), values=values, drawn=ends)

    def exponential(self) -> Estimate:
        values = np.exp(self.values)

        def ends(confidence: float) -> Ends:
            low, high = self.ends(confidence)
            return np.exp(low), np.exp(high)

        return replace(self.scaled(values, linear=False), values=values, drawn=ends)

    def under(self, place: int) -> Estimate:
        """The same estimate as part of another question of the statement: its noise terms are kept distinct from all others."""
        return replace(self, slopes={(-1 - place, *name): piece for name, piece in self.slopes.items()})

    def spread(self, cells: int) -> Estimate:
        """A single value repeated for each of `cells` cells."""
        def ends(confidence: float) -> Ends:
            low, high = self.ends(confidence)
            return np.repeat(low, cells), np.repeat(high, cells)

        below, above = (np.repeat(np.broadcast_to(part, self.values.shape), cells) for part in (self.below, self.above))
        return replace(self, values=np.repeat(self.values, cells), below=below, above=above, drawn=ends, slopes={
            name: (error, np.repeat(slope, cells)) for name, (error, slope) in self.slopes.items()})

    def at(self, cells: NDArray[np.intp]) -> Estimate:
        """The estimates of some cells, in the given order."""
        def ends(confidence: float) -> Ends:
            low, high = self.ends(confidence)
            return low[cells], high[cells]

        def chosen(numbers: float | Numbers) -> Numbers:
            return np.asarray(np.broadcast_to(numbers, self.values.shape)[cells], dtype=np.float64)

        return Estimate(values=self.values[cells], linear=self.linear, below=chosen(self.below), above=chosen(self.above),
                        drawn=ends if self.drawn is not None else None,
                        slopes={name: (error, chosen(slope)) for name, (error, slope) in self.slopes.items()})

    def beyond(self, below: float | Numbers, above: float | Numbers) -> Estimate:
        """The same values, where the truth may be this much further below or above than noise explains."""
        if not np.any(below) and not np.any(above):
            return self
        found = replace(self, below=self.below + below, above=self.above + above)
        return found if self.drawn is None else replace(found, drawn=partial(_further, self.drawn, below, above))

    def shown_as(self, values: Numbers) -> Estimate:
        """Other values for the same noisy numbers, such as those of a table that was fitted to them. The interval stays that of
        the numbers, which covers the truth however the values were chosen, and is stretched to a value outside of it."""
        def ends(confidence: float) -> Ends:
            low, high = self.ends(confidence)
            return np.minimum(low, values), np.maximum(high, values)

        off = values - self.values
        return replace(self, values=values, drawn=ends,
                       below=self.below + np.maximum(off, 0), above=self.above + np.maximum(-off, 0))

    def open_at(self, low: float, high: float) -> Estimate:
        """The same values for numbers clamped to [low, high]: an interval that reaches one of these ends is open there."""
        def ends(confidence: float) -> Ends:
            lows, highs = self.ends(confidence)
            return np.where(lows <= low, -np.inf, lows), np.where(highs >= high, np.inf, highs)

        return replace(self, drawn=ends)

    def at_least(self) -> Estimate:
        """The same values, where the truth may be any distance above: the whole error probability is assigned to the lower
        end."""
        def ends(confidence: float) -> Ends:
            low, _ = self.ends(max(2 * confidence - 1, 0.0))
            return low, np.full_like(low, np.inf)

        return replace(self, drawn=ends)

    def within(self, low: float, high: float) -> Estimate:
        """Clamp values to a range that is known to contain the truth."""
        return replace(self.known(low, high), values=np.clip(self.values, low, high))

    def known(self, low: float, high: float) -> Estimate:
        """The same values, with intervals and errors limited to a range that is known to contain the truth."""
        def ends(confidence: float) -> Ends:
            lows, highs = self.ends(confidence)
            return np.clip(lows, low, high), np.clip(highs, low, high)

        return replace(self, drawn=ends)._off_within(low, high) if low > -math.inf or high < math.inf else self

    def _off_within(self, low: float, high: float) -> Estimate:
        """With no standard error larger than the distance to the farther end of a range that the truth lies in."""
        if math.isinf(low) or math.isinf(high):
            return self
        held, deviations = np.clip(self.values, low, high), self.deviations
        farthest = np.maximum(held - low, high - held)
        large = np.isfinite(deviations) & (deviations > farthest)
        if not large.any():
            return self
        part = np.divide(farthest, deviations, out=np.ones_like(deviations), where=large)
        return replace(self, slopes={name: (error, slope * part) for name, (error, slope) in self.slopes.items()})

    def where(self, condition: NDArray[np.bool_]) -> Estimate:
        """The same values, with NaN where the condition does not hold."""
        return replace(self, values=np.where(condition, self.values, np.nan))

    @cached_property
    def deviations(self) -> Numbers:
        """The standard error of each value."""
        total = np.zeros_like(self.values)
        shared: dict[int, Numbers] = {}
        for error, slope in self.slopes.values():
            if error.together is None:
                total = total + error.variance * np.asarray(slope) ** 2
            else:
                shared[error.together] = shared.get(error.together, 0.0) + math.sqrt(error.variance) * np.abs(slope)
        return np.sqrt(sum((both**2 for both in shared.values()), total))

    @property
    def biased(self) -> bool:
        """Whether the truth may be further off than noise explains."""
        return bool(np.any(np.asarray(self.below) != 0) or np.any(np.asarray(self.above) != 0))

    @property
    def approximate(self) -> bool:
        return not self.linear or any(error.kind == "approximate" for error, _ in self.slopes.values())

    @cached_property
    def _ends(self) -> dict[float, Ends]:
        return {}

    def ends(self, confidence: float) -> Ends:
        """The ends of the interval that covers the truth with this probability, for each value. One end is infinite if the
        truth may be any distance beyond it; the other then gets the whole error probability."""
        if confidence not in self._ends:
            self._ends[confidence] = self.drawn(confidence) if self.drawn is not None else self._ends_of_noise(confidence)
        return self._ends[confidence]

    def _ends_of_noise(self, confidence: float) -> Ends:
        below, above = (np.broadcast_to(np.asarray(part, dtype=np.float64), self.values.shape)
                        for part in (self.below, self.above))
        width = self.margins(confidence)
        one_sided = np.isinf(below) | np.isinf(above)
        if one_sided.any():
            width = np.where(one_sided, self.margins(max(2 * confidence - 1, 0.0)), width)
        return self.values - width - below, self.values + width + above

    def least(self, confidence: float) -> Numbers:
        """A lower bound on the true value of each cell, with this probability. Noise errs above as often as below; for intervals
        from other methods the side of the error is unknown."""
        low, high = self.ends(confidence)
        return low if self.drawn is not None else np.where(np.isinf(high), low, self.ends(2 * confidence - 1)[0])

    def margins(self, confidence: float) -> Numbers:
        """Half the width of the interval of the noise, for each value."""
        errors = tuple(error for error, _ in self.slopes.values())
        return _margins(errors, self._slopes_of(self.slopes), confidence)

    def _slopes_of(self, names: Iterable[tuple[int, ...]]) -> Numbers:
        """The slopes of each value, a row, with respect to these noise terms."""
        shape = self.values.shape
        found = [np.broadcast_to(self.slopes[name][1] if name in self.slopes else 0.0, shape) for name in names]
        return np.stack(found, axis=1) if found else np.zeros((*shape, 0))


def _margins(errors: tuple[NoiseTerm, ...], slopes: Numbers, confidence: float) -> Numbers:
    """Half the width of the interval of the noise, for each row of slopes."""
    if not errors:
        return np.zeros(len(slopes))
    table = np.abs(slopes)
    if (table == table[:1]).all():  # the case for most answers
        return np.full(len(table), margin(errors, tuple(table[0].tolist()), confidence) if len(table) else 0.0)
    return widths_of(errors, table, confidence)


def joined(parts: Sequence[Estimate]) -> Estimate:
    """Concatenate estimates of different cells."""
    sizes = [len(part.values) for part in parts]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    slopes: dict[tuple[int, ...], tuple[NoiseTerm, Numbers]] = {}
    for part, start in zip(parts, starts, strict=False):
        for name, (error, slope) in part.slopes.items():
            whole = slopes[name][1] if name in slopes else np.zeros(sum(sizes))
            whole[start : start + len(part.values)] = slope
            slopes[name] = error, whole

    def ends(confidence: float) -> Ends:
        lows, highs = zip(*(part.ends(confidence) for part in parts), strict=True)
        return np.concatenate(lows), np.concatenate(highs)

    below, above = (np.concatenate([np.broadcast_to(side, part.values.shape) for part, side in zip(parts, sides, strict=True)])
                    for sides in ([part.below for part in parts], [part.above for part in parts]))
    return Estimate(values=np.concatenate([part.values for part in parts]), slopes=slopes, below=below, above=above,
                    linear=all(part.linear for part in parts), drawn=ends)


def _further(drawn: Callable[[float], Ends], below: float | Numbers, above: float | Numbers, confidence: float) -> Ends:
    low, high = drawn(confidence)
    return low - below, high + above


def _quotients(above: Estimate, below: Estimate, confidence: float) -> Ends:
    """The ends of all quotients of a number in the one interval by a number in the other, of which each covers its truth so often
    that both do with this probability (Bonferroni). Infinite where the lower one may well be 0.
    """
    (low, high), (least, most) = (each.ends((1 + confidence) / 2) for each in (above, below))
    with np.errstate(divide="ignore", invalid="ignore"):
        lows, highs = np.where(low < 0, low / least, low / most), np.where(high > 0, high / least, high / most)
    known = least > 0
    return (np.where(known & np.isfinite(low), lows, -np.inf), np.where(known & np.isfinite(high), highs, np.inf))


def recovered(above: Estimate, below: Estimate, confidence: float) -> Ends:
    """An interval of the quotient q of two independent numbers, from their own intervals, which may be asymmetric. It contains
    every q for which above - q * below may plausibly be 0: its distance from 0 is at most the root of the sum of the squared
    interval widths on that side. Infinite if the denominator may plausibly be 0.

    Source: the method of variance estimates recovery, Donner and Zou, Closed-form confidence intervals for functions of the
    normal mean and standard deviation, Statistical Methods in Medical Research 21, 2012. It is exact for Gaussian noise.
    """
    a, b = above.values, below.values
    (first, last), (least, most) = (each.ends(confidence) for each in (above, below))

    def end(side: float, off: Numbers) -> Numbers:
        """The q at which a - q b is as far from 0 on this `side` as it may be; the sign of q decides which end of b counts."""
        down, up = np.maximum(b - least, 0), np.maximum(most - b, 0)
        outwards = a * side + off > 0  # the quotient is on that side of 0
        with np.errstate(divide="ignore", invalid="ignore"):
            leading = b**2 - np.where(outwards, down, up) ** 2
            root = np.sqrt(np.maximum(a**2 * b**2 - leading * (a**2 - off**2), 0))
            found = (a * b + side * root) / leading
        return np.where((leading > 0) & np.isfinite(off), found, side * np.inf)

    return end(-1.0, np.maximum(a - first, 0)), end(1.0, np.maximum(last - a, 0))


def fieller(above: Estimate, below: Estimate, confidence: float) -> Ends:
    """An interval of the quotient of two sums: all numbers q for which above - q * below = 0 is plausible.

    That difference is a sum of noises too, and its margin is some multiple of its standard deviation, so the ends solve a
    quadratic equation; it is solved again with the multiples at the ends that were found. Where the lower sum may well be 0,
    nothing is ruled out on at least one side, and the ends are infinite. Source: Fieller 1954, for Gaussian noise; the
    argument does not depend on that.
    """
    a, b = above.values, below.values
    squares = above.deviations**2, below.deviations**2, ((above + below).deviations ** 2 - (above - below).deviations ** 2) / 4
    terms = {**above.slopes, **below.slopes}
    errors, ours, theirs = tuple(error for error, _ in terms.values()), above._slopes_of(terms), below._slopes_of(terms)

    def multiple(quotient: Numbers) -> Numbers:
        given = np.where(np.isfinite(quotient), quotient, 0.0)
        spread = np.sqrt(np.maximum(squares[0] - 2 * given * squares[2] + given**2 * squares[1], 0))
        slopes = ours - theirs * given[..., None]
        margins = _margins(errors, slopes.reshape(given.size, len(errors)), confidence).reshape(given.shape)
        return np.where(spread > 0, margins / np.where(spread > 0, spread, 1.0), 0.0)

    low, high = _fieller_ends(a, b, *squares, multiple(a / np.where(b != 0, b, np.nan)))
    at_low, at_high = multiple(np.stack((low, high)))
    return _fieller_ends(a, b, *squares, at_low)[0], _fieller_ends(a, b, *squares, at_high)[1]


def _fieller_ends(a: Numbers, b: Numbers, aa: Numbers, bb: Numbers, ab: Numbers, multiple: Numbers) -> Ends:
    """The q with (a - q b)^2 <= multiple^2 (aa - 2 q ab + q^2 bb)."""
    k = multiple**2
    leading, half = b**2 - k * bb, a * b - k * ab
    inside = k * (a**2 * bb - 2 * a * b * ab + b**2 * aa) - k**2 * (aa * bb - ab**2)  # half^2 - leading * (a^2 - k aa)
    root = np.sqrt(np.maximum(inside, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = (half - root) / leading, (half + root) / leading
    known = (leading > 0) & (inside >= 0)
    return np.where(known, ends[0], -np.inf), np.where(known, ends[1], np.inf)


def constant(values: Numbers) -> Estimate:
    """Numbers without error."""
    return Estimate(values=values)


def released(name: tuple[int, ...], values: Numbers, error: NoiseTerm, *, unit: float = 1.0) -> Estimate:
    """Noisy integers times a unit."""
    return Estimate(values=values * unit, slopes={name: (error, np.full(values.shape, unit))})


HUGE = 1e100  # a slope of no effect
ON_INTEGERS = ("laplace", "gaussian")
FADED = 30.0  # minus the logarithm of a characteristic function beyond which its integral, below 1e-12, is left out
RARE = 1e-5  # below this chance the tail is bounded, as inversion is not that exact
GRID = math.log(1.01)
LEAST = 1e-4  # of relative widths; smaller ones count as this one
NONE = 1023  # steps of no width at all
SUMMED, APART = 6, 1.005  # how many Laplace variables are summed in closed form; the least quotient of widths that are not equal


@lru_cache(maxsize=2**10)  # statements of one price and one sensitivity have the same noise
def margin(errors: tuple[NoiseTerm, ...], slopes: tuple[float, ...], confidence: float) -> float:
    """The width of `widths_of` for a single sum."""
    if len(errors) == 1 and errors[0].kind in ON_INTEGERS and errors[0].together is None and 0 < slopes[0] < HUGE:
        return slopes[0] * _integer(errors[0], confidence) if errors[0].scale > 0 else 0.0
    return float(widths_of(errors, np.array(slopes, dtype=np.float64).reshape(1, -1), confidence)[0])


def widths_of(errors: Sequence[NoiseTerm], slopes: Numbers, confidence: float) -> Numbers:
    """For each row of slopes, the least w (up to rounding upwards) with P(|sum of slope * noise| <= w) >= confidence; infinite
    for slopes that are NaN or huge.

    Exact for one piece of noise on integers. For several pieces the continuous noises are summed, and half a unit of each
    discrete one is added, which makes the interval a little wider than it need be.
    """
    known: NDArray[np.bool_] = np.all(slopes < HUGE, axis=1)
    errors, slopes = _apart(errors, np.where(known[:, None], slopes, 0.0))
    sizes = slopes * np.array([error.scale for error in errors])
    on_integers, laplace, unknown = (np.array([error.kind in kinds for error in errors], dtype=np.bool_)
                                     for kinds in (ON_INTEGERS, ("laplace",), ("laplaces",)))
    units = np.where((sizes > 0) & on_integers, slopes, 0.0).sum(axis=1)
    alone = ((sizes > 0).sum(axis=1) == 1) & (sizes[:, on_integers] > 0).any(axis=1)
    mixed = (sizes[:, unknown] > 0).any(axis=1)
    found, rest = np.zeros(len(slopes)), ~alone & ~mixed & (sizes > 0).any(axis=1)
    for place in np.flatnonzero(on_integers).tolist():
        rows = alone & (sizes[:, place] > 0)
        if rows.any():
            found[rows] = slopes[rows, place] * _integer(errors[place], confidence)
    if mixed.any():
        variances = np.array([error.variance for error in errors])
        found[mixed] = np.sqrt((slopes[mixed] ** 2 * variances).sum(axis=1)) * laplaces(confidence) + units[mixed] / 2
    if rest.any():
        found[rest] = _continuous(sizes[rest][:, laplace], sizes[rest][:, ~laplace], confidence) + units[rest] / 2
    return np.asarray(np.where(known, found, math.inf), dtype=np.float64)


def _apart(errors: Sequence[NoiseTerm], slopes: Numbers) -> tuple[list[NoiseTerm], Numbers]:
    """Dependent terms merged into one."""
    own = [place for place, error in enumerate(errors) if error.together is None]
    shared: dict[int, list[int]] = {}
    for place, error in enumerate(errors):
        if error.together is not None:
            shared.setdefault(error.together, []).append(place)
    merged = [sum(slopes[:, place] * errors[place].scale for place in places) for places in shared.values()]
    return ([*(errors[place] for place in own), *(replace(errors[places[0]], scale=1.0) for places in shared.values())],
            np.column_stack([slopes[:, own], *merged]))


def _continuous(laplace: Numbers, normal: Numbers, confidence: float) -> Numbers:
    """The same for each row: a sum of Laplace variables of these scales and normal variables of these standard deviations, not
    all 0.

    Relative widths are rounded up by one per cent at most, so that few different ones are ever computed.
    """
    unit = np.concatenate((laplace, normal), axis=1).max(axis=1)
    spread: Numbers = unit * np.sqrt(((normal / unit[:, None]) ** 2).sum(axis=1))
    if not (laplace > 0).any():
        return spread * _quantile((), 1.0, confidence)
    widths = -np.sort(-laplace, axis=1)
    unit = np.maximum(unit, spread)
    steps = np.column_stack([_steps(widths / unit[:, None]), np.where(widths[:, 0] > 0, _steps(spread / unit), 0)])
    numbers = np.zeros(len(steps), dtype=np.int64)
    for column in steps.T:
        numbers = np.unique(numbers * (NONE + 1) + column, return_inverse=True)[1].reshape(-1)
    firsts = np.unique(numbers, return_index=True)[1]
    quantiles = [_quantile(tuple(_width(step) for step in row[:-1] if step != NONE), _width(row[-1]), confidence)
                 for row in steps[firsts].tolist()]
    return np.asarray(unit * np.array(quantiles)[numbers], dtype=np.float64)


def _steps(parts: Numbers) -> NDArray[np.int64]:
    """The number of steps of one per cent by which relative widths are below one, rounded towards one; NONE for nought."""
    steps = np.floor(-np.log(np.clip(parts, LEAST, 1.0)) / GRID + 1e-9).astype(np.int64)
    return np.asarray(np.where(parts > 0, steps, NONE), dtype=np.int64)


def _width(step: int) -> float:
    return math.exp(-GRID * step) if step != NONE else 0.0


def _integer(error: NoiseTerm, confidence: float) -> int:
    """The least whole number w with P(|z| <= w) >= confidence, for noise z on integers."""
    if error.kind == "gaussian" and error.scale < 100:
        weights = np.exp(-(np.arange(10 * error.scale + 10) ** 2) / (2 * error.scale**2))
        inside = 2 * np.cumsum(weights) - 1
        return int(np.searchsorted(inside, (confidence - 1e-12) * inside[-1]))
    if error.kind == "gaussian":  # so wide that it is practically a rounded normal variable
        from scipy.special import ndtri
        return max(0, math.ceil(error.scale * float(-ndtri((1 - confidence) / 2)) - 0.5))
    q = math.exp(-1 / error.scale)  # P(|z| > w) = 2 q^(w + 1) / (1 + q)
    return max(0, math.ceil(-error.scale * math.log((1 - confidence) * (1 + q) / 2) - 1 - 1e-9))


@lru_cache(maxsize=2**14)
def _quantile(widths: tuple[float, ...], spread: float, confidence: float) -> float:
    """The w with P(|X| <= w) = confidence, for a sum X of Laplace variables and a normal one."""
    if not widths:
        from scipy.special import ndtri
        return spread * float(-ndtri((1 - confidence) / 2))
    if 1 - confidence < RARE:
        return _tail_bound(widths, spread, 1 - confidence)
    covered = _covered_by_laplace(widths) if spread == 0 and _are_apart(widths) else _coverage(widths, spread)
    low, high = _between(widths, spread, confidence)
    below, above, last = covered(low) - confidence, covered(high) - confidence, 0
    if below > 0 or above < 0:
        low, high = 0.0, _tail_bound(widths, spread, 1 - confidence)
        below, above = -confidence, covered(high) - confidence
    for _ in range(100):  # false position, with the weight of an end that stays halved (Dowell and Jarratt 1971): ten steps or so
        if high - low <= 1e-7 * high or above <= 0:
            break
        middle = (low * above - high * below) / (above - below)
        value = covered(middle) - confidence
        if value < 0:
            low, below, above, last = middle, value, (above / 2 if last < 0 else above), -1
        else:
            high, above, below, last = middle, value, (below / 2 if last > 0 else below), 1
    return high


def _between(widths: tuple[float, ...], spread: float, confidence: float) -> tuple[float, float]:
    """Two numbers that usually enclose the quantile: it is near those of one normal and of one Laplace variable."""
    size = math.sqrt(2 * sum(width**2 for width in widths) + spread**2)
    near = normal(confidence), -math.log(1 - confidence) / math.sqrt(2)
    return 0.97 * min(near) * size, 1.03 * max(near) * size


def _are_apart(widths: tuple[float, ...]) -> bool:
    """Whether widths, from the largest to the smallest, are few, at most two are equal, and others differ enough for a sum that
    would cancel otherwise."""
    return len(widths) <= SUMMED and all(widths.count(width) <= 2 for width in widths) and all(
        width == other or width >= APART * other for width, other in pairwise(widths))


def _covered_by_laplace(widths: tuple[float, ...]) -> Callable[[float], float]:
    """w -> P(|X| <= w), where X has no normal part, and the widths are apart.

    The characteristic function of X is the product of 1 / (1 + b^2 t^2) over the widths b, and by partial fractions P(|X| > w) is
    the sum of exp(-w / b) c(b), with c(b) the product of b^2 / (b^2 - a^2) over the other widths a. For x = 1 / b^2 this is the
    polynomial through the points (x, exp(-w sqrt(x))), at 0: by Newton's divided differences, with the derivative where two
    are equal.
    """
    roots = sorted(1 / width for width in widths)
    points = [root * root for root in roots]

    def covered(w: float) -> float:
        differences = [math.exp(-w * root) for root in roots]
        missed, product = differences[0], 1.0
        for order in range(1, len(points)):
            for place in range(len(points) - order):
                apart = points[place + order] - points[place]
                differences[place] = (differences[place + 1] - differences[place]) / apart if apart else (
                    -w / (2 * roots[place]) * differences[place])
            product *= -points[order - 1]
            missed += differences[0] * product
        return 1 - missed

    return covered


def _coverage(widths: tuple[float, ...], spread: float) -> Callable[[float], float]:
    """w -> P(|X| <= w), by inversion of the characteristic function (Gil-Pelaez 1951) to an error below 1e-6."""
    size = math.sqrt(2 * sum(width**2 for width in widths) + spread**2)
    reach = min(200 / max(widths), 9 / spread if spread > 0 else math.inf)
    squares = np.square(widths)
    while np.log1p(squares * (reach / 2) ** 2).sum() > FADED:  # of many variables, the function is soon next to nothing
        reach /= 2
    t = np.linspace(0, reach, max(500, math.ceil(reach * size / 0.1)))[1:]
    weight = np.exp(-((spread * t) ** 2) / 2)
    for width in widths:
        weight = weight / (1 + (width * t) ** 2)
    weight, step = weight / t, t[1] - t[0]
    across = math.isqrt(len(t)) + 1  # t in rows, so that few sines are computed: sin(a + b) = sin a cos b + cos a sin b
    table = np.pad(weight, (0, -len(t) % across)).reshape(-1, across)
    coarse, fine = step * across * np.arange(len(table)), step * np.arange(1, across + 1)
    last, ending = float(t[-1]), float(weight[-1])

    def covered(w: float) -> float:
        a, b = coarse * w, fine * w
        waves = np.sin(a) @ (table @ np.cos(b)) + np.cos(a) @ (table @ np.sin(b))
        return float(2 / math.pi * step * (waves + (w - math.sin(last * w) * ending) / 2))  # trapezoids; the integrand is w at 0

    return covered


def _tail_bound(widths: tuple[float, ...], spread: float, chance: float) -> float:
    """A w with P(|X| > w) <= chance: for every s below 1 / width, P(X > w) <= exp(-s w) E[exp(s X)] (Chernoff)."""
    parts = np.geomspace(1e-6, 1, 1001)[:-1]
    s = np.concatenate((parts, 1 - parts)) / max(widths)
    exponents = (spread * s) ** 2 / 2 - sum(np.log1p(-((width * s) ** 2)) for width in widths)
    return float(np.min((exponents + math.log(2 / chance)) / s))


def normal(confidence: float) -> float:
    """The z with P(|Z| <= z) = confidence for a standard normal Z."""
    from scipy.special import ndtri
    return float(-ndtri((1 - confidence) / 2))


@lru_cache(maxsize=2**10)
def laplaces(confidence: float, terms: int = 1) -> float:
    """A z with P(|X| <= z) >= confidence for every weighted sum X of independent Laplace variables, of variance 1 together (and
    of a normal one among them, or of normal ones alone), none of which has a variance above 1 / terms.

    Proof. A Laplace variable of variance u is sqrt(u E) Z, with E exponential of mean 1 and Z normal, so X is sqrt(Q) Z with
    Q = sum of u_i E_i (and a constant), the u_i adding up to 1. P(|X| > x) = E g(Q), with g(q) = P(|Z| > x / sqrt(q)), which is
    convex up to q = x^2 / 3 and concave from there on. Let G be g up to there and its tangent from there on: G is convex and
    nowhere below g. Q is a mean of copies of one E with the weights u_i (a constant is the mean of E), so E G(Q) <= E G(E) for
    every convex G (Jensen). E G(E) falls with x, and is computed below. It is only slightly above the tail of one Laplace
    variable, which is one of these sums. If no u_i is above 1 / n, the mean M of n copies of E takes the place of E: the u_i are
    then a mean of permutations of n parts of 1 / n and zeros (majorization), so that E G(Q) <= E G(M) by the same inequality.
    """
    from scipy.optimize import brentq
    return float(brentq(lambda x: _heaviest(x, terms) - (1 - confidence), 0.1, 5 - math.log(1 - confidence), xtol=1e-10)) + 1e-9


def _heaviest(x: float, terms: int) -> float:
    """E G(M) for the mean M of this many E, by the points of Gauss and Legendre in the root of q, where the integrand is
    smooth."""
    from scipy.special import gammaincc, gammaln, ndtr
    points, weights = np.polynomial.legendre.leggauss(200)
    bend = x * x / 3
    r = (points + 1) / 2 * math.sqrt(bend)
    density = np.exp(terms * math.log(terms) + (terms - 1) * np.log(r**2) - terms * r**2 - gammaln(terms))
    inside = float((weights * 2 * ndtr(-x / r) * density * 2 * r).sum() * math.sqrt(bend) / 2)
    height, slope = 2 * float(ndtr(-math.sqrt(3))), math.exp(-1.5) / math.sqrt(2 * math.pi) * x * bend**-1.5
    beyond, mean = gammaincc(terms, terms * bend), gammaincc(terms + 1, terms * bend)
    return float(inside + height * beyond + slope * (mean - bend * beyond))
