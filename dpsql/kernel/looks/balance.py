"""Choosing the level that balances what is cut off and the noise, and telling the sum held to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.race import drawn
from dpsql.kernel.looks.sets import Sums, read
from dpsql.requests import Balance, Held, Level

MOST = 2**52  # more than any score that is ever drawn


def look(request: Balance | Level, context: Context) -> Held:
    """See `Balance` for the scores, their proof, and the noise."""
    cells = read(request.plan, request.levels, request.cells, context)
    place = chosen(Scores([part for parts in cells for part in parts], request.levels), request.handicaps, request.scale, context)
    if isinstance(request, Level):
        return Held(totals=(), levels=((place,),))
    totals = [sum(sign * part.value(place) for sign, part in zip((1, -1), parts, strict=False)) for parts in cells]
    return Held(totals=tuple(total + drawn(request.noises[place], context) for total in totals),
                levels=tuple((place,) * len(parts) for parts in cells))


class Compared(Protocol):
    """Scores >= 0 of levels, compared without being worked out."""

    def at_least(self, i: int) -> int:
        """A lower bound of s_i."""
        ...

    def at_most(self, i: int, limit: int) -> bool:
        """Whether s_i <= limit."""
        ...


def chosen(scores: Compared, handicaps: Sequence[int], scale: float, context: Context) -> int:
    """A level drawn with probability proportional to exp(-(s + handicap) / scale), with scores worked out only as far as needed.

    Proof. In each round there are lower bounds l_i <= s_i. Level i is proposed with probability exp(-(l_i + h_i) / scale) / Z and
    taken if s_i - l_i <= E, for a whole number E >= 0 with P(E >= d) = exp(-d / scale): so with probability
    exp(-(s_i + h_i) / scale) / Z. Whatever the bounds of a round are, given that some level is taken in it, it is one with the
    right probabilities. A round that takes none has found that s_i > l_i, so a bound was refined, which ends. Bounds are cut
    off where floats stop being exact; that leaves bounds.
    """
    while True:
        bounds = [min(scores.at_least(i), MOST) for i in range(len(handicaps))]
        place = context.noise.exponential([-float(bound + handicap) for bound, handicap in zip(bounds, handicaps, strict=True)],
                                          scale)
        if scores.at_most(place, bounds[place] + patience(scale, context)):
            return place


def patience(scale: float, context: Context) -> int:
    """A whole number E >= 0 with P(E = n) proportional to exp(-n / scale): discrete Laplace noise, given that it is not
    negative.
    """
    while True:
        number = context.noise.laplace([0], scale)[0]
        if number >= 0:
            return number


class Scores:
    """The scores of `Balance`, compared without being worked out."""

    def __init__(self, parts: Sequence[Sums], levels: Sequence[int]) -> None:
        self._parts, self._levels = parts, levels

    def at_least(self, i: int) -> int:
        """A lower bound of s_i."""
        return max(0, *((self._low(j) - self._high(i)) // self._levels[j] for j in range(i, len(self._levels))))

    def at_most(self, i: int, limit: int) -> bool:
        """Whether s_i <= limit.

        Proof. With low <= F <= high, (F_j - F_i) / t_j lies between (low_j - high_i) / t_j and (high_j - low_i) / t_j, rounded
        down. A j that passes the limit at the lower end decides, as do all j if none passes it at the upper end. Otherwise
        a level of a doubtful pair that is not known is refined, the higher one first, as it is the easier; once both are known,
        both ends are the same number.
        """
        while self.at_least(i) <= limit:
            doubtful = [j for j in range(i + 1, len(self._levels)) if (self._high(j) - self._low(i)) // self._levels[j] > limit]
            if not doubtful:
                return True
            place, part = next((place, part) for place in (doubtful[-1], i) for part in self._parts if not part.exact(place))
            part.refine(place)
        return False

    def _low(self, j: int) -> int:
        return sum(part.low[j] for part in self._parts)

    def _high(self, j: int) -> int:
        return sum(part.high[j] for part in self._parts)
