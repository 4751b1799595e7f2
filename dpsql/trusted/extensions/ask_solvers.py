"""Calling solvers, which are passed in from outside: neither their results nor that they return at all is trusted.

Their input depends on the sets and a level alone. Every answer is converted to numbers of the right kind and length, or
discarded, and is then evaluated in integers on the original rows (`certified`, `removal_distance`, `bounded_degrees`). Each
call gets copies, so that a solver which writes into its input does no harm. Where no solver is present or accurate enough,
exact arithmetic gives the same result, slowly.

One thing is not checked: that a solver keeps no state between calls. Noise may influence which levels are computed and in
which order (`several.race`), so an answer that depended on earlier calls could depend on noise, within the slack. The solvers
of `dpsql.solvers` keep no state; only the creator of the kernel can pass in others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.linear_program import LinearProgram, Network, Point, Reals, Truths, numbers
from dpsql.trusted.extensions.owned import Integers
from dpsql.trusted.extensions.packing import Packing, exact
from dpsql.trusted.extensions.removal_program import RemovalProgram, RemovalSolution
from dpsql.trusted.stopping import go_on

MOST_ANSWERS = 16  # most answers used from one call, so that an endless sequence ends

T = TypeVar("T")

Solver: TypeAlias = Callable[[LinearProgram, float], Point]
"""A solver: takes a program, and the tolerated error of the maximum. It may raise anything."""
Exit: TypeAlias = Callable[[RemovalProgram], RemovalSolution]
"""A solver for `RemovalProgram`. It may raise anything."""


def nothing(*given: object) -> Any:
    """A missing solver: it gives no answer."""
    return ()


class Solvers(Frozen):
    """The solvers. Any of them may be missing, fail, or return anything.

    `programs` and `crowds` give the solvers to try for a `LinearProgram` and for a `RemovalProgram`, in order. `packings`
    gives x and the dual prices of a packing, more and more accurate. `flows` gives a maximum flow on each arc, for a limit on
    left nodes; `cuts` gives the left and right nodes reachable from left nodes with spare capacity (the last argument) along
    open arcs (the second) and back along those in use (the third).
    """

    programs: Callable[[LinearProgram], Iterable[Solver]] = nothing
    crowds: Callable[[RemovalProgram], Iterable[Exit]] = nothing
    packings: Callable[[Packing], Iterable[tuple[Reals, Reals]]] = nothing
    flows: Callable[[Network, int], Integers] = nothing
    cuts: Callable[[Network, Truths, Truths, Truths], tuple[Truths, Truths]] = nothing


NO_SOLVERS = Solvers()


def heard(read: Callable[[Any], T], solver: Callable[..., Any], *given: object) -> T | None:
    """The solver's answer to copies of the arguments, converted by `read`; None if either fails. No solver is called once the
    statement must stop; see `stopping.go_on`."""
    go_on()
    return _unless_it_fails(lambda: read(solver(*deepcopy(given))))


def each_heard(read: Callable[[Any], T], solver: Callable[..., Any], *given: object) -> Iterator[T]:
    """The same for a solver that yields several answers, up to its first failure."""
    answers = heard(iter, solver, *given)
    for _ in range(MOST_ANSWERS if answers is not None else 0):
        go_on()
        found = _unless_it_fails(lambda: read(next(answers)))  # type: ignore[arg-type]
        if found is None:
            return
        yield found


def offered(doors: Callable[[Any], Iterable[T]], problem: object) -> tuple[T, ...]:
    """The solvers to try for a problem, as `doors` proposes them."""
    return heard(lambda found: tuple(islice(found, MOST_ANSWERS)), doors, problem) or ()


def _unless_it_fails(job: Callable[[], T]) -> T | None:
    """A solver that fails in any way gives no answer; only KeyboardInterrupt passes through."""
    try:
        return job()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def stack_of(program: Packing, solvers: Solvers) -> Iterator[tuple[Reals, Reals]]:
    """x and the dual prices of `limits`, more and more accurate, the last ones exact up to rounding to floats."""
    yield from each_heard(lambda found: _pair(program, *found), solvers.packings, program)
    x, y = exact(program)
    yield np.array([float(one) for one in x]), np.array([float(one) for one in y])


def _pair(program: Packing, x: object, y: object) -> tuple[Reals, Reals]:
    return numbers(x, len(program.costs)), numbers(y, len(program.limits))
