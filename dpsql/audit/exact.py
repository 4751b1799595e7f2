"""No noise at all, to compare the engine with plain SQL.

A kernel is given its source of noise when it is made, by code that has a reader of the private rows; a connection cannot make
one. So an analyst cannot choose this source. Answers made with it are not private.
"""

from __future__ import annotations

from collections.abc import Sequence


class Exact:
    """The `noise.source.Source` that adds nothing: exact sums, the best candidate, every key that some entity has."""

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return list(values)

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        return list(values)

    def student(self, values: Sequence[int], scale: float) -> list[int]:
        return list(values)

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        """The first of the best candidates, so that the result does not depend on the number of ties."""
        return max(range(len(scores)), key=scores.__getitem__)

    def flip(self, scores: Sequence[int], scale: float) -> int:
        return max(range(len(scores)), key=scores.__getitem__)

    def below(self, end: int) -> int:
        """The middle one."""
        return (end - 1) // 2

    def above(self, counts: Sequence[int], scale: float, reach: int) -> list[int | None]:
        """All of them, so that all keys are shown, as in plain SQL."""
        return list(counts)
