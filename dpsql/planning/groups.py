"""The groups of a question: all combinations of the values of its keys, for each of its grouping sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import TypeAlias

from dpsql.catalog.model import Catalog
from dpsql.errors import Unsupported
from dpsql.questions.question import Key, Question
from dpsql.sql.binding.domains import MOST_NUMBERS
from dpsql.trusted.plan.cells import MOST_CELLS, Cells, Grid
from dpsql.trusted.plan.expr.nodes import Ref, Value
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.project import Project

Axis: TypeAlias = tuple[tuple[int, ...], Sequence[tuple[Value, ...]]]
"""Positions of keys that vary together, with the combinations of their values, in order."""


def axes_of(question: Question, kept: Sequence[int]) -> list[Axis]:
    """The keys at some positions as axes of all possible groups: each alone, or together with those whose values depend on each
    other."""
    axes: list[Axis] = [((i,), [(value,) for value in question.keys[i].values]) for i in kept]
    for one in question.combinations:
        at = [i for i in kept if question.keys[i].column in one.keys]
        places = [one.keys.index(question.keys[i].column) for i in at]
        there = {tuple(row[place] for place in places) for row in one.rows}
        if at:
            axes = [*(axis for axis in axes if not {*axis[0]} & {*at}),
                    _together([axis for axis in axes if {*axis[0]} & {*at}], at, there, question)]
    return axes


def _together(axes: Sequence[Axis], at: Sequence[int], there: set[tuple[Value, ...]], question: Question) -> Axis:
    """One axis in place of several: the combinations of their values that have one of `there` at some positions."""
    positions = tuple(sorted(place for axis in axes for place in axis[0]))
    if all(len(places) == 1 for places, _ in axes):  # known without all combinations, of which there may be far more
        rows = [tuple(row[at.index(i)] for i in positions) for row in there]
    else:
        rows = [tuple(held[i] for i in positions) for held in combined(axes) if tuple(held[i] for i in at) in there]
    ranks = [_ranks(question.keys[i]) for i in positions]
    kept = [row for row in rows if all(value in rank for value, rank in zip(row, ranks, strict=True))]
    return positions, sorted(kept, key=lambda row: [rank[value] for value, rank in zip(row, ranks, strict=True)])


def combined(axes: Sequence[Axis]) -> Iterator[dict[int, Value]]:
    """All combinations of axes, as values by position."""
    for parts in product(*(values for _, values in axes)):
        yield {place: value for (positions, _), own in zip(axes, parts, strict=True)
               for place, value in zip(positions, own, strict=True)}


def _ranks(key: Key) -> dict[Value, int]:
    return {value: rank for rank, value in enumerate(key.values)}


def groups_of(question: Question) -> Cells:
    """All possible groups, from declared values and the rows of public tables."""
    if not question.combinations:
        return Grid(tuple(key.values for key in question.keys))
    places = range(len(question.keys))
    ranks = [_ranks(key) for key in question.keys]
    cells = [tuple(held[i] for i in places) for held in combined(axes_of(question, places))]
    return tuple(sorted(cells, key=lambda cell: [rank[value] for value, rank in zip(cell, ranks, strict=True)]))


def cells_over(values: Sequence[Sequence[Value]], question: Question) -> Cells:
    """All combinations of values of a question's keys; one set of combinations for each of its grouping sets, if it has any."""
    grids = [Grid((*(tuple(own) if i in kept else (None,) for i, own in enumerate(values)),
                   *((level,) for level in levels_of(question, kept)))) for kept in kept_keys(question)]
    return grids[0] if len(grids) == 1 else tuple(chain.from_iterable(grids))


def possible_places(question: Question) -> list[int] | None:
    """The indices of the cells of `cells_over` that are possible given the rows of public tables; None if all are."""
    if not question.combinations:
        return None
    found: list[bool] = []
    for kept in kept_keys(question):
        there = {tuple(held[i] for i in kept) for held in combined(axes_of(question, kept))}
        found += [cell in there for cell in product(*(question.keys[i].values for i in kept))]
    return [place for place, is_there in enumerate(found) if is_there]


def kept_keys(question: Question) -> tuple[tuple[int, ...], ...]:
    """The grouping sets, as positions of the keys that are not summed out."""
    return (tuple(range(len(question.keys))),) if question.sets is None else question.sets


def levels_of(question: Question, kept: Sequence[int]) -> tuple[int, ...]:
    """The values of the question's GROUPING calls in one grouping set: a bit for each key, 1 if it is summed out."""
    here = {question.keys[i].column for i in kept}
    return tuple(sum((key not in here) << i for i, key in enumerate(reversed(level.keys))) for level in question.levels)


def not_listed(question: Question, key: Key) -> str:
    """Why a key has no list of values."""
    return too_long(question, key) or f"the values of {key.name} are not declared"


def too_long(question: Question, key: Key) -> str | None:
    """A note on a key whose values are known but too many to be listed; None for other keys."""
    known = question.view.field(key.column).facts
    if known.domain is not None:
        return _of_long_range(key.name, len(known.domain)) if len(known.domain) > MOST_CELLS else None
    ends = known.declared.within(known.returned)
    if not ((known.whole or known.type.temporal) and ends.finite and _is_computed(question.view, key.column)):
        return None
    size, of = math.floor(ends.high) - math.ceil(ends.low) + 1, "days" if known.type.temporal else "whole numbers"
    told = f"{key.name} may be any of {size:,} {of}, and at most {MOST_NUMBERS:,} are listed for an expression"
    return told if size > MOST_NUMBERS else None


def long_ranges(catalog: Catalog) -> Iterator[str]:
    """Notes for the owner on columns with too many declared values to be listed."""
    for table in catalog.tables.values():
        for column in table.columns.values() if not table.public else ():
            if column.domain is not None and len(column.domain) > MOST_CELLS:
                yield (f"{_of_long_range(f'{table.name}.{column.name}', len(column.domain))}, so only groups that are selected "
                       "privately are shown of it, which needs a delta")


def _of_long_range(name: str, size: int) -> str:
    return f"the declared range of {name} has {size:,} values, more than the {MOST_CELLS:,} that are listed"


def _is_computed(view: Node, column: str) -> bool:
    return any(name == column and not isinstance(expr, Ref) for node in bottom_up(view) if isinstance(node, Project)
               for name, _, expr in node.columns)


def cells_declared(question: Question) -> int:
    """The number of possible combinations of the values of keys with declared values, including NULL."""
    if question.combinations:
        return math.prod(len(rows) for _, rows in axes_of(question, [
            i for i, key in enumerate(question.keys) if key.domain is not None]))
    return math.prod(len(key.domain) + key.nullable for key in question.keys if key.domain is not None)


def check_cells(question: Question, most: int = MOST_CELLS) -> None:
    """Raises Unsupported, located, if declared values make more than `most` groups, or none."""
    cells = cells_declared(question)
    if cells > most:
        raise Unsupported(f"the declared values of the keys make {cells} groups, more than {most}", code="too-many-groups",
                          span=question.keys[-1].span, try_="fewer or coarser keys")
    check_values(question)


def check_values(question: Question) -> None:
    """Raises Unsupported, located, if conditions exclude all values of a key with declared values."""
    for key in question.keys:
        if key.domain is not None and not key.values:
            raise Unsupported(f"no value of {key.name} is left, so there are no groups", code="no-groups", span=key.span,
                              subject=key.name, try_="conditions that some of its declared values satisfy")
