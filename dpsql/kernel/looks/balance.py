"""Choosing the level that balances what is cut off and the noise, and telling the sum held to it."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.kernel.extensions.value import Extension
from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.race import drawn
from dpsql.kernel.looks.sets import read
from dpsql.requests import Balance, Held


def look(request: Balance, context: Context) -> Held:
    """See `Balance` for the scores, their proof, and the noise."""
    parts = read(request.plan, request.levels, context)
    place = chosen(Scores(parts, request.levels, request.penalty), request.scale, request.flip, context)
    total = parts[0].value(place) - (parts[1].value(place) if len(parts) == 2 else 0)
    return Held(total=total + drawn(request.noises[place], context), levels=(place,) * len(parts))


def chosen(scores: Scores, scale: float, flip: bool, context: Context) -> int:
    """A level drawn with probability proportional to exp(-s / scale); with `flip`, by permute-and-flip.

    A level is proposed, each as likely, and a whole number E >= 0 with P(E >= s) = exp(-s / scale) is drawn; the level is taken
    if s <= E, else another one is proposed. As some score is 0 this ends, and it is the exponential mechanism by
    rejection: in each round level i is taken with probability exp(-s_i / scale) / L. If levels are not proposed again, it is
    permute-and-flip (McKenna and Sheldon 2020), which flips a coin of that probability for each level in random order; the
    best score is 0. E is drawn before anything is worked out, so a rough bound of s is mostly enough to decide.
    """
    left = list(range(len(scores.levels)))
    while True:
        at = context.noise.below(len(left))
        if scores.at_most(left[at], patience(scale, context)):
            return left[at]
        if flip:
            del left[at]


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

    def __init__(self, parts: Sequence[Extension], levels: Sequence[int], penalty: int) -> None:
        self._parts, self.levels, self._penalty = parts, levels, penalty

    def at_most(self, i: int, limit: int) -> bool:
        """Whether s_i <= limit.

        Proof. s_i <= limit says that no j has floor((q_i - q_j) / (t_i + t_j)) > limit. With low <= F <= high, q_i - q_j lies
        between penalty (t_i - t_j) + low_j - high_i and penalty (t_i - t_j) + high_j - low_i: a j that passes the limit at
        the lower end decides, as do all j if none passes it at the upper end. Otherwise a level of a doubtful pair that is not
        known is refined, the higher one first, as it is the easier; once both are known, both ends are the same number.
        """
        while True:
            doubtful = None
            for j in range(len(self.levels)):
                if j == i:
                    continue
                room = (limit + 1) * (self.levels[i] + self.levels[j]) - self._penalty * (self.levels[i] - self.levels[j])
                if self._low(j) - self._high(i) >= room:
                    return False
                if self._high(j) - self._low(i) >= room:
                    doubtful = j
            if doubtful is None:
                return True
            place, part = next((place, part) for place in sorted((i, doubtful), reverse=True) for part in self._parts
                               if not part.exact(place))
            part.refine(place)

    def _low(self, j: int) -> int:
        return sum(part.low[j] for part in self._parts)

    def _high(self, j: int) -> int:
        return sum(part.high[j] for part in self._parts)
