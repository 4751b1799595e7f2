"""The groups of a question: all combinations of the values of its keys, for each of its grouping sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from dpsql.plan.cells import MOST_CELLS, Cells, Grid
from dpsql.plan.expr.nodes import Ref, Value
from dpsql.plan.node import Node, bottom_up
from dpsql.plan.operators.project import Project
from dpsql.plan.question import Key, Question
from dpsql.sql.binding.domains import MOST_NUMBERS


def cells_over(values: Sequence[Sequence[Value]], question: Question) -> Cells:
    """All combinations of values of the keys of a question; for each of its grouping sets in turn, if it has some."""
    grids = [Grid((*(tuple(own) if i in kept else (None,) for i, own in enumerate(values)),
                   *((level,) for level in levels_of(question, kept)))) for kept in kept_keys(question)]
    return grids[0] if len(grids) == 1 else tuple(chain.from_iterable(grids))


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
    """What is told of a key whose values are known, but too many to be listed; None for others."""
    known = question.view.field(key.column).facts
    if known.domain is not None:
        size, most = len(known.domain), MOST_CELLS
        told = f"the declared range of {key.name} has {size:,} values, more than the {most:,} that are listed"
    else:
        ends = known.declared.within(known.returned)
        if not (known.whole and ends.finite and _is_computed(question.view, key.column)):
            return None
        size, most = math.floor(ends.high) - math.ceil(ends.low) + 1, MOST_NUMBERS
        told = f"{key.name} may be any of {size:,} whole numbers, more than the {most:,} that are listed of an expression"
    return told if size > most else None


def _is_computed(view: Node, column: str) -> bool:
    return any(name == column and not isinstance(expr, Ref) for node in bottom_up(view) if isinstance(node, Project)
               for name, _, expr in node.columns)
