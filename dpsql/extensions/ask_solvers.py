"""Asking solvers, which are handed in from outside: nothing that they say is believed, not even that they answer.

What they are asked hangs on the sets and a level alone, and every answer is read into numbers of the right kind and length, or is
none; what these are worth is worked out in integers on the original rows (`certified`, `removals`, `degrees`). Each call is given
copies, so that a solver which writes into what it was given spoils nothing. Where solvers have said nothing that is near enough,
or nobody handed any in, exact arithmetic answers: the same, and slowly.

One thing is not checked: that a solver keeps nothing from one call to the next. Noise may have a part in which levels are worked
out and in which order (`several.race`), so an answer that hung on earlier questions could hang on noise, within the slack. Those
of `dpsql.solvers` begin anew with each call; nobody but who makes the kernel hands others in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dpsql.extensions.linear_program import LinearProgram, Network, Point, Reals, Truths, numbers
from dpsql.extensions.owned import Integers
from dpsql.extensions.packing import Packing, exact
from dpsql.extensions.removal_program import RemovalProgram, RemovalSolution

MOST_ANSWERS = 16  # that are heard to one question, so that an endless row of them ends

T = TypeVar("T")

Solver: TypeAlias = Callable[[LinearProgram, float], Point]
"""A solver: a program, and the error of the maximum that is tolerated. It may raise anything."""
Exit: TypeAlias = Callable[[RemovalProgram], RemovalSolution]
"""A solver: who has to leave a crowd. It may raise anything."""


def nothing(*given: object) -> Any:
    """What is not there says nothing."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Solvers:
    """What proposes. All of it may be missing, fail and lie.

    `programs` and `crowds` are the doors to try for a program and for a crowd, in order. `packings` gives x and the prices of
    limits of a packing, better and better. `flows` gives what a largest flow keeps of each arc, for a limit of left points;
    `cuts` the left and right points that can be reached from left points with something to spare (the last argument) along arcs
    that are open (the second) and back along those in use (the third).
    """

    programs: Callable[[LinearProgram], Iterable[Solver]] = nothing
    crowds: Callable[[RemovalProgram], Iterable[Exit]] = nothing
    packings: Callable[[Packing], Iterable[tuple[Reals, Reals]]] = nothing
    flows: Callable[[Network, int], Integers] = nothing
    cuts: Callable[[Network, Truths, Truths, Truths], tuple[Truths, Truths]] = nothing


NO_SOLVERS = Solvers()


def heard(read: Callable[[Any], T], solver: Callable[..., Any], *given: object) -> T | None:
    """What `read` makes of the answer of a solver to copies of what is given; None where either fails."""
    return _unless_it_fails(lambda: read(solver(*deepcopy(given))))


def each_heard(read: Callable[[Any], T], solver: Callable[..., Any], *given: object) -> Iterator[T]:
    """The same for a solver that gives one answer after another, up to the first that fails."""
    answers = heard(iter, solver, *given)
    for _ in range(MOST_ANSWERS if answers is not None else 0):
        found = _unless_it_fails(lambda: read(next(answers)))  # type: ignore[arg-type]
        if found is None:
            return
        yield found


def offered(doors: Callable[[Any], Iterable[T]], problem: object) -> tuple[T, ...]:
    """The doors to try for a problem."""
    return heard(lambda found: tuple(islice(found, MOST_ANSWERS)), doors, problem) or ()


def _unless_it_fails(job: Callable[[], T]) -> T | None:
    """A solver that fails is one that says nothing, however it fails; only who sits at the keyboard may stop it."""
    try:
        return job()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def stack_of(program: Packing, solvers: Solvers) -> Iterator[tuple[Reals, Reals]]:
    """x and the prices of `limits`, better and better, the last ones exact but for their rounding to floats."""
    yield from each_heard(lambda found: _pair(program, *found), solvers.packings, program)
    x, y = exact(program)
    yield np.array([float(one) for one in x]), np.array([float(one) for one in y])


def _pair(program: Packing, x: object, y: object) -> tuple[Reals, Reals]:
    return numbers(x, len(program.costs)), numbers(y, len(program.limits))
