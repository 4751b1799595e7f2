"""What each entity adds to several sums of a statement, read at once, and what follows from it without reading rows again.

The contributions of an entity are a row for each of its groups: a few totals and numbers of rows. Each stage of the statement,
from the histogram for a limit to the final sums, queries this one relation. So the rows of the table are read only once
(`reading.content`). Where there are groups, and rows are read at little cost, the rows of most entities are added up as they are
instead (`operators.two_parts`), which is faster than to group all rows by entity and group. Two sums over rows are also sums over
entities, and follow from a total S of values x, in steps, and the number n of rows that have one:

    deviations from c    sum of x - c                  = S - c n
    moments              sums of x - low, high - x     = S - low n, high n - S

Only the work is saved: both are limited for each entity afterwards, as if they had been summed over its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.questions.parts import EntityTotals, Part, Sums
from dpsql.trusted.plan.expr.nodes import Call, Expr, Ref, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.contributions import MOST, Contributions
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import cheap
from dpsql.types import Type

WORD = 2**61  # products stay within it, so that differences stay in 64 bits


def read_at_once(view: Node, keys: Sequence[str]) -> bool:
    """Whether the contributions to all sums by these keys are read at once."""
    return not keys or not cheap(view)


def contributions_of(view: Node, owner: str, keys: Sequence[str], part: Sums,
                     together: Sequence[Summand]) -> tuple[Node, tuple[str, ...]]:
    """The contributions of each entity to a part's sums by keys, and their columns; `together` are the summands that are read at
    once."""
    given = Contributions(input=view, owner=owner, keys=tuple(keys), summands=tuple(together))
    if part.totals is None:
        return given, columns_of(given, part.summand)
    derived = _derived(given, part, part.totals)
    columns = tuple((f"d{i}", f"total {i}", value) for i, value in enumerate(derived))
    kept = ((name, view.names[name], given.field(name).ref) for name in (owner, *keys))
    return Project(input=given, columns=(*kept, *columns)), tuple(column for column, _, _ in columns)


def of_totals(moments: Summand, total: GridSum, rows: Part) -> Sums:
    """The part of moments, computed from entities' totals and numbers of rows where both are on the same grid."""
    assert isinstance(moments, Moments) and isinstance(rows, Sums) and isinstance(rows.summand, Count)
    low, high = (Fraction(end) / total.grid.step for end in (total.grid.low, total.grid.high))
    alike = (moments.grid.step, moments.grid.low, moments.grid.high) == (total.grid.step, total.grid.low, total.grid.high) and (
        low.denominator == high.denominator == 1) and moments.degree == 1 and not moments.missing
    return Sums(summand=moments, totals=EntityTotals(total=total, count=rows.summand) if alike else None)


def columns_of(given: Contributions, summand: Summand) -> tuple[str, ...]:
    """The columns with what entities add to a summand."""
    at = given.summands.index(summand)
    return tuple(f"e{at}_{j}" for j in range(summand.components))


def _derived(given: Contributions, part: Sums, known: EntityTotals) -> tuple[Expr, ...]:
    total, rows = (given.field(column).ref for summand in (known.total, known.count) for column in columns_of(given, summand))
    grid = known.total.grid
    if isinstance(part.summand, Moments):
        return _less(total, rows, grid.least), _less(total, rows, grid.most, -1)
    return (_less(total, rows, known.centre),)


def _less(total: Ref, rows: Ref, number: int, sign: int = 1) -> Expr:
    """sign * (total - number * rows), within the range of contributions."""
    many = _call("greatest", _call("least", rows, whole(WORD // max(1, abs(number)))), whole(0))
    product = _call("*", many, whole(number))
    difference = _call("-", total, product) if sign > 0 else _call("-", product, total)
    return _call("greatest", _call("least", difference, whole(MOST)), whole(-MOST))


def _call(function: str, *args: Expr) -> Call:
    return Call(function=function, args=args, type=Type.BIGINT)
