"""What a release hands to the primitives of `dpsql.trusted.noise`, written down: numbers before noise, and the scales of the noise.

A release on a database and one on a neighbour are compared by what they hand over, step by step, so nothing depends on how a
measurement computes its cost, or on which of its fields that looks at. Primitives that draw in several steps (the sparse vector
technique, a choice among scores that are computed as far as needed) are replaced as a whole, and their arguments are written down.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from dpsql.frozen import Frozen
from dpsql.trusted.measurements import block_sums
from dpsql.trusted.measurements.several import race
from dpsql.trusted.noise import choice, integer, smooth, sparse_vector, tree

MOST_REFINED = 10**4


class Step(Frozen, kw_only=False):
    """A draw: of which kind, the numbers that it is about, and its scales. Numbers are data; scales have to be public."""

    kind: str
    numbers: Any
    scales: tuple[Any, ...]


@dataclasses.dataclass
class Watch:
    """A `noise.source.Source` that adds nothing, and everything that was handed to primitives meanwhile.

    choose   the index that a choice gives, or the last one if there are fewer
    split    whether boxes of a tree are split
    first    what the first number becomes with its noise; None for itself
    """

    choose: int = 0
    split: bool = True
    first: int | None = None
    steps: list[Step] = dataclasses.field(default_factory=list)
    scores: dict[int, list[int]] = dataclasses.field(default_factory=dict)  # of choices, exactly: the same however the release is driven

    def exact(self, known: Callable[[int], int], number: int) -> list[int]:
        """The scores of the choice that comes after these steps."""
        place = len(self.steps)
        if place not in self.scores:
            self.scores[place] = [known(i) for i in range(number)]
        return self.scores[place]

    def note(self, kind: str, numbers: Any, *scales: Any) -> None:
        self.steps.append(Step(kind, numbers, scales))

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        self.note("laplace", list(values), scale)
        return list(values) if self.first is None or len(self.steps) > 1 else [self.first]

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        self.note("gaussian", list(values), sigma)
        return list(values)

    def student(self, values: Sequence[int], scale: float) -> list[int]:
        self.note("student", list(values), scale)
        return list(values)

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        self.note("exponential", list(scores), scale)
        return min(self.choose, len(scores) - 1)

    def flip(self, scores: Sequence[int], scale: float) -> int:
        self.note("flip", list(scores), scale)
        return min(self.choose, len(scores) - 1)

    def below(self, end: int) -> int:
        self.note("below", end)  # none is below 0 or less: an incident, which is one of the outcomes
        return 0

    def above(self, counts: Sequence[int], scale: float, reach: int) -> list[int | None]:
        self.note("above", list(counts), scale, reach)
        return list(counts)


WATCH: list[Watch] = []  # the one that watches, if any


def _exact(scores: Any, i: int) -> int:
    """The score that is computed as far as needed."""
    for _ in range(MOST_REFINED):
        found = scores.at_least(i)
        if scores.at_most(i, found):
            return int(found)
    raise RuntimeError("a score does not become exact")


def _refined(scores: Any, i: int) -> int:
    for _ in range(MOST_REFINED):
        if scores.exact(i):
            return int(scores.at_least(i))
        scores.refine_towards(i)
    raise RuntimeError("a score does not become exact")


def _compared(scores: Any, log_priors: Sequence[int], scale: float, source: Any) -> int:
    exact = source.exact(lambda i: _exact(scores, i), len(log_priors))
    source.note("exponential", [-(score + prior) for score, prior in zip(exact, log_priors, strict=True)], scale)
    return min(source.choose, len(exact) - 1)


def _least(scores: Any, shifts: Sequence[int]) -> int:
    watch = WATCH[-1]
    drawn = [watch.steps.pop() for _ in shifts]
    exact = watch.exact(lambda i: _refined(scores, i), len(shifts))
    watch.note("flip", [-(score + shift) for score, shift in zip(exact, shifts, strict=True)], *dict.fromkeys(step.scales[0] for step in drawn))
    return min(watch.choose, len(exact) - 1)


def _highest(extension: Any, shifts: Sequence[int]) -> tuple[int, int | None]:
    watch = WATCH[-1]
    drawn = [watch.steps.pop() for _ in shifts][::-1]
    for at, step in enumerate(drawn):
        watch.note("hidden " + step.kind.removeprefix("alone "), [extension.value(at)], *step.scales)
    return 0, None


def _first_small(gaps: Any, scale_limit: float, scale_query: float, source: Any) -> int | None:
    source.note("sparse", [*gaps], scale_limit, scale_query)
    return None


def _small(gaps: Any, limits: Sequence[int], scale_limit: float, scale_query: float, most: int, source: Any) -> list[bool]:
    source.note("sparse kinds", [dict(kinds) for kinds in gaps], tuple(limits), scale_limit, scale_query, most)
    return []


def _are_split(counts: Any, depth: int, decay: int, scale: float, source: Any) -> Any:
    import numpy as np

    source.note("tree", [int(count) for count in counts], depth, decay, scale)
    return np.full(len(counts), source.split)


def _drawn(noise: Any, source: Any) -> int:
    found = _originals["drawn"](noise, source)
    last = source.steps.pop()
    source.note(f"alone {last.kind}", [], *last.scales)
    return int(found)


def _one_sided(scale: float, source: Any) -> int:
    source.note("one-sided", [], scale)
    return 0


def _with_noise(exact: Any, noise: Sequence[int]) -> tuple[int, ...]:
    last = WATCH[-1].steps.pop()
    WATCH[-1].note(last.kind, [*map(int, exact)], *last.scales)
    return tuple(map(int, exact))


def _smooth_laplace(value: int, sensitivity: float, epsilon: Any, source: Any) -> int:
    found = _originals["smooth"](value, sensitivity, epsilon, source)
    last = source.steps.pop()
    source.note("dilated", last.numbers, *last.scales)
    return int(found)


REPLACED: Mapping[str, tuple[Any, str, Callable[..., Any]]] = {
    "compared": (choice, "compared", _compared), "least": (choice, "least", _least), "one_sided": (choice, "one_sided", _one_sided),
    "first_small": (sparse_vector, "first_small", _first_small), "small": (sparse_vector, "small", _small),
    "are_split": (tree, "are_split", _are_split), "drawn": (integer, "drawn", _drawn), "highest": (race, "highest", _highest),
    "with_noise": (block_sums, "with_noise", _with_noise), "smooth": (smooth, "laplace", _smooth_laplace)}
"""Each primitive by where it is, and what stands in its place while a release is watched."""
_originals = {name: getattr(module, found) for name, (module, found, _) in REPLACED.items()}


@contextmanager
def watching(watch: Watch) -> Iterator[Watch]:
    """A context in which primitives are those above, wherever they are imported."""
    WATCH.append(watch)
    try:
        yield watch
    finally:
        WATCH.pop()


def _switched(name: str) -> Callable[..., Any]:
    original, instead = _originals[name], REPLACED[name][2]

    def primitive(*args: Any, **kwargs: Any) -> Any:
        return instead(*args, **kwargs) if WATCH else original(*args, **kwargs)

    return primitive


@contextmanager
def replaced() -> Iterator[None]:
    """A context in which the primitives can be watched: whoever imported one has the one that can."""
    with_all = []
    for name, original in _originals.items():
        switched = _switched(name)
        for module in [module for key, module in sys.modules.items() if key.startswith("dpsql.")]:
            with_all += [patch.object(module, given, switched) for given, found in list(vars(module).items()) if found is original]
    for each in with_all:
        each.start()
    try:
        yield
    finally:
        for each in with_all:
            each.stop()
