"""Grid values near a rank: the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from dpsql.accounting.cost import FREE, Cost, pure
from dpsql.cells import Cells
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.ranks import Ranks
from dpsql.requests.noise import check_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A rank that is looked for among the n values of a segment: `fraction` * n + `offset` values lie below."""

    fraction: Fraction
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Grid values low <= v <= high of one cell, and the rank looked for among the values there."""

    low: int
    high: int
    target: Target


ROUNDING = Fraction(1, 2**40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """For each segment of each cell, a grid value whose rank is near the target: the exponential mechanism.

    The score of v is -d(v), d(v) = max(0, L - (p n + t), G - ((1 - p) n - t)), with L, G the values below and above v, n those
    in the segment, p and t of the target. A value is drawn with probability proportional to exp(-d(v) * b / scale), b the
    denominator of p (so that scores are integers). With `flip`, permute-and-flip draws among the same scores.

    Cost. One value more or less moves L - p n by 1 - p or -p and G - (1 - p) n by p - 1 or p, so d by max(p, 1 - p) at most;
    an entity that moves j values of a segment moves each score by j max(p, 1 - p). Segments are disjoint, so an entity's k
    moved rows are shared out among segments, and the losses add up to the loss of k rows in one: epsilon = 2 k b max(p, 1 - p)
    / scale (McSherry and Talwar 2007; permute-and-flip: McKenna and Sheldon 2020). The exponential mechanism has bounded
    range, so it is (epsilon^2 / 8)-zCDP (Cesar and Rogers 2021). Drawing by intervals weighs each value by exp(ln(width)),
    rounded: each weight is off by a factor within exp(±2^-43), which adds less than `ROUNDING` to the loss of each draw that an
    entity moves, and it moves k draws at most.
    """

    plan: Ranks
    cells: Cells
    segments: tuple[tuple[Segment, ...], ...]
    scale: float
    flip: bool = False

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        if rows is None:
            raise ValueError("the rows that an entity moves are not bounded")
        if len(self.segments) != len(self.cells) or not any(self.segments):
            raise ValueError("segments are listed for every cell")
        check_scale(self.scale)
        for segments in self.segments:
            ordered = sorted(segments, key=lambda segment: segment.low)
            if any(a.high >= b.low for a, b in pairwise(ordered)) or any(s.low > s.high for s in ordered):
                raise ValueError("segments of a cell overlap")
        if rows == 0:
            return FREE
        worst = max(reach(segment.target) for segments in self.segments for segment in segments)
        epsilon = Fraction(2 * rows * worst) / Fraction(self.scale) + (0 if self.flip else rows * ROUNDING)
        return pure(epsilon) if self.flip else Cost(epsilon=epsilon, rho=epsilon**2 / 8)


def reach(target: Target) -> int:
    """How far one row moves the integer score of a target: b * max(p, 1 - p) for p = a / b."""
    return max(target.fraction.numerator, target.fraction.denominator - target.fraction.numerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """For each cell the chosen grid value of each segment."""

    values: tuple[tuple[int, ...], ...]
