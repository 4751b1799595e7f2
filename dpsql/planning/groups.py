"""The groups of a question: all combinations of the values of its keys, for each of its grouping sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from dpsql.plan.cells import MOST_CELLS, Cells, Grid
from dpsql.plan.expr.nodes import Value
from dpsql.plan.question import Key, Question


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
    domain = question.view.field(key.column).facts.domain
    if domain is None or len(domain) <= MOST_CELLS:
        return f"the values of {key.name} are not declared"
    return f"the declared range of {key.name} has {len(domain):,} values, more than the {MOST_CELLS:,} that are listed"
