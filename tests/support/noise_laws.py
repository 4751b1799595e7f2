"""Goodness-of-fit tests of noise against its exact law: is its scale the one charged for, its shape right, is it independent?

A lower bound on epsilon hardly detects a scale that is a few percent too small. The likelihood does: the logarithm of the scale
has a standard error of 1 / sqrt(n) or sqrt(1 / (2 n)) from n draws, so with a million draws one percent is 10 to 14 standard
errors.

Draws are counted in cells of whole numbers whose probabilities p are exact: by summation if the noise is narrow; if it is wide,
by the integral between half-way points, which agrees to 1 / (24 scale^2). The tests are

- the score d ln p / d ln scale, whose mean is 0 and whose variance, the Fisher information, is known: the most powerful test of
  a scale that is slightly off (Rao 1948); its mean divided by the information is about the logarithm of the ratio of the scale
  that was drawn with to the one that was paid for;
- the score of the location, in the same way: the noise must be centred;
- Pearson's chi-square over all cells: any other deviation of the shape.

For independence, draws are mapped by their distribution function (at the middle of a cell's jump), which makes them nearly
uniform and bounded, so that the mean product of two draws has a known variance whatever the tails are: noise that is reused, even
in part, is correlated.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property

Numbers = NDArray[np.float64]
Kind: TypeAlias = Literal["laplace", "gaussian", "student"]
CELLS = 24  # cells per scale, if the noise is wide
NARROW = 60.0  # up to this scale probabilities are summed number by number
REACH: dict[Kind, float] = {"laplace": 60.0, "gaussian": 14.0, "student": 4000.0}  # in scales; next to nothing is beyond
RARE = 50  # the smallest expected count of a cell of the chi-square test
STEP = 1e-4  # step in the logarithm of the scale, for derivatives


class Departure(Frozen):
    """How far draws are from a law. The first three numbers are approximately standard normal if the draws follow it.

    `relative` is about (scale drawn with) / (scale of the law) - 1, and `draws` the number of draws.
    """

    scale: float
    centre: float
    shape: float
    relative: float
    draws: int

    def beyond(self, limit: float) -> bool:
        """Whether any of the three is more than `limit` standard deviations out."""
        return max(abs(self.scale), abs(self.centre), self.shape) > limit


class Law(Frozen, kw_only=False):
    """Integer noise of this kind: probabilities proportional to exp(-|z| / scale), exp(-z^2 / (2 scale^2)), or
    1 / (1 + (z / scale)^2)^2."""

    kind: Kind
    scale: float

    @cached_property
    def grain(self) -> int:
        """The number of whole numbers in a cell; odd, so that 0 is in the middle of one."""
        return 2 * int(self.scale / CELLS / 2) + 1

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """The last number of each cell, symmetric about 0; the outermost cells contain everything beyond."""
        far = 8.0 if self.kind == "gaussian" else 30.0
        cells = max(4, math.ceil(far * self.scale / self.grain))
        return (np.arange(-cells, cells) * self.grain + self.grain // 2).astype(np.int64)

    @cached_property
    def mass(self) -> Numbers:
        return _mass(self.kind, self.scale, self._edges)

    def cells(self, draws: ArrayLike) -> NDArray[np.int64]:
        """The cell of each draw."""
        return np.searchsorted(self._edges, np.asarray(draws, dtype=np.int64), side="left")

    def departure(self, draws: ArrayLike) -> Departure:
        """How far draws (released minus exact numbers, whole) are from this law."""
        counts = np.bincount(self.cells(draws), minlength=len(self.mass)).astype(np.float64)
        n, mass = counts.sum(), self.mass
        wide, narrow = (_mass(self.kind, self.scale * math.exp(step), self._edges) for step in (STEP, -STEP))
        score = (_ln(wide) - _ln(narrow)) / (2 * STEP)
        information = float((mass * score**2).sum() - (mass * score).sum() ** 2)
        off = float((counts * score).sum() / n - (mass * score).sum())
        middle = np.arange(len(mass)) - (len(mass) - 1) / 2
        place = np.clip(middle * self.grain / self.scale, -4, 4)
        centre = float((counts * place).sum() / math.sqrt(n * (mass * place**2).sum()))
        return Departure(scale=off * math.sqrt(n / information), centre=centre, shape=_chi_square(counts, mass * n),
                         relative=math.expm1(off / information), draws=int(n))

    def uniform(self, draws: ArrayLike) -> Numbers:
        """The distribution function at each draw, minus 1/2, in standard deviations."""
        upto = np.cumsum(self.mass)
        middle = upto - self.mass / 2 - 0.5
        return np.asarray((middle / math.sqrt(float((self.mass * middle**2).sum())))[self.cells(draws)])

    def correlation(self, first: ArrayLike, second: ArrayLike) -> float:
        """A test statistic for pairs of draws at the same positions: approximately standard normal if they are independent."""
        products = self.uniform(first) * self.uniform(second)
        return float(products.sum() / math.sqrt(products.size))


def _ln(mass: Numbers) -> Numbers:
    return np.asarray(np.log(np.maximum(mass, 1e-300)))


def _mass(kind: Kind, scale: float, edges: NDArray[np.int64]) -> Numbers:
    """The probabilities of the cells: up to the first edge, between edges, and beyond the last; symmetric."""
    positive = edges[edges >= 0]
    beyond = _above(kind, scale, positive)
    right = np.append(beyond[:-1] - beyond[1:], beyond[-1])
    return np.concatenate((right[::-1], [1 - 2 * beyond[0]], right))


def _above(kind: Kind, scale: float, ends: NDArray[np.int64]) -> Numbers:
    """P(Z > end) for whole numbers end >= 0."""
    if kind == "laplace":
        return np.asarray(np.exp(-(ends + 1) / scale) / (1 + math.exp(-1 / scale)))
    if scale <= NARROW:
        above = _summed(kind, scale)
        return np.where(ends < len(above), above[np.minimum(ends, len(above) - 1)], 0.0)
    x = (ends + 0.5) / scale
    if kind == "gaussian":
        from scipy.special import ndtr

        return np.asarray(ndtr(-x))
    far = np.maximum(x, 1e-9)  # 1/2 - (arctan x + x / (1 + x^2)) / pi, without cancelling
    return np.asarray((np.arctan(1 / far) - x / (1 + x * x)) / math.pi)


@lru_cache(maxsize=16)
def _summed(kind: Kind, scale: float) -> Numbers:
    """P(Z > end) for end = 0, 1, ..., by summing all weights within REACH, smallest first."""
    z = np.arange(1, math.ceil(REACH[kind] * scale) + 10, dtype=np.float64)
    weight = np.exp(-((z / scale) ** 2) / 2) if kind == "gaussian" else 1 / (1 + (z / scale) ** 2) ** 2
    above = np.cumsum(weight[::-1])[::-1]
    return np.asarray(np.append(above, 0.0) / (1 + 2 * above[0]))


def _chi_square(counts: Numbers, expected: Numbers) -> float:
    """Pearson's statistic, with cells merged until each expects at least RARE draws; as the normal deviate with the same tail."""
    from scipy.stats import chi2, norm

    groups = np.floor(np.cumsum(expected) / RARE).astype(np.int64)
    _, group = np.unique(groups, return_inverse=True)
    seen, wanted = (np.bincount(group, weights=numbers) for numbers in (counts, expected))
    if len(wanted) > 2 and wanted[-1] < RARE:  # the remainder at the end
        seen, wanted = (np.append(part[:-2], part[-2:].sum()) for part in (seen, wanted))
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    return float(-norm.ppf(max(chi2.sf(statistic, len(wanted) - 1), 1e-300)))
