"""The solvers that a kernel is given, and their order; libraries are loaded on first use.

Not trusted: every answer is checked in `dpsql.trusted.extensions`, which falls back on exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from dpsql.trusted.extensions.ask_solvers import Exit, Solver, Solvers
from dpsql.trusted.extensions.linear_program import LinearProgram, Network, Reals, Truths
from dpsql.trusted.extensions.owned import NOBODY, Integers
from dpsql.trusted.extensions.packing import Packing
from dpsql.trusted.extensions.removal_program import RemovalProgram
from dpsql.trusted.plan.operators.owner_sets import EXACT_FLOW

PYTHON_ROWS = 2_000  # of flows in Python's own numbers
SIMPLEX_ROWS = 5_000  # more variables than this are given to a first-order method
CUT_ROWS = 100_000  # and more than these first to one that looks at a few of them


def for_program(program: LinearProgram) -> tuple[Solver, ...]:
    """The solvers to try, in order, chosen only by the size of the program."""
    ahead = _for_pairs(program)
    try:
        from dpsql.solvers import highs
    except ImportError:
        from dpsql.solvers import portable
        return (*ahead, portable.solve)
    if len(program.weights) <= SIMPLEX_ROWS:
        return (*ahead, highs.simplex, highs.first_order)
    if len(program.weights) > CUT_ROWS:
        from dpsql.solvers.cutting import by_cuts
        ahead = (*ahead, by_cuts)
    return (*ahead, highs.first_order, highs.finer, highs.simplex)


def _for_pairs(program: LinearProgram) -> tuple[Solver, ...]:
    """What solves rows of two entities exactly, where that is not too much work."""
    from dpsql.solvers.flow import flow, large_flow

    if int((program.owners != NOBODY).sum(axis=1).max(initial=0)) > 2:
        return ()
    if int(program.capacities.max(initial=0)) < EXACT_FLOW:
        return (flow,)
    return (large_flow,) if len(program.weights) <= PYTHON_ROWS else ()


def for_crowd(crowd: RemovalProgram) -> tuple[Exit, ...]:
    """The solvers to try, in order, each with its allowed relative error."""
    try:
        from dpsql.solvers import highs
    except ImportError:
        from dpsql.solvers import portable
        return (partial(portable.leaving, error=0.0),)
    return partial(highs.leaving, error=1e-4), partial(highs.leaving, error=1e-6), partial(highs.leaving_by_simplex, error=0.0)


def for_packing(packing: Packing) -> Iterator[tuple[Reals, Reals]]:
    """The solution of the simplex method in floats, and then its iterative refinements, round by round."""
    from dpsql.solvers.refining import refined
    from dpsql.solvers.simplex import solved

    with suppress(Exception):
        yield solved(packing)
    yield from refined(packing)


def flows(part: Network, limit: int) -> Integers:
    """A largest flow."""
    from dpsql.solvers.graphs import largest

    return largest(part, limit)


def cuts(part: Network, open_: Truths, begun: Truths, spare: Truths) -> tuple[Truths, Truths]:
    """The points that can be reached."""
    from dpsql.solvers.graphs import reached

    return reached(part, open_, begun, spare)


USUAL = Solvers(programs=for_program, crowds=for_crowd, packings=for_packing, flows=flows, cuts=cuts)
