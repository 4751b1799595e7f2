"""GROUPING SETS, CUBE and ROLLUP as the lists of keys that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeAlias

from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.sql.text.places import span_of

Sets: TypeAlias = list[list[exp.Expr]]
MOST_SETS = 4096


def sets_of(parts: Sequence[exp.Expr]) -> Sets:
    """The grouping sets of GROUP BY, in DuckDB's order: all combinations of one set from each of its parts."""
    each = [_sets(part, inside=False) for part in parts]
    count = 1
    for part, own in zip(parts, each, strict=True):
        count *= len(own)
        _check_count(count, part)
    return [[key for own in chosen for key in own] for chosen in product(*each)]


def _sets(part: exp.Expr, *, inside: bool) -> Sets:
    """The sets of one part; `inside` GROUPING SETS brackets hold the keys of a set."""
    items = part.expressions
    match part:
        case exp.Cube():
            if len(items) > MOST_SETS.bit_length():
                raise _too_many(part)
            return _subsets([_keys(item) for item in items])
        case exp.Rollup():
            keys = [_keys(item) for item in items]
            return [[key for own in keys[:end] for key in own] for end in range(len(keys) + 1)]
        case exp.GroupingSets():
            found = [own for item in items for own in _sets(item, inside=True)]
            _check_count(len(found), part)
            return found
        case exp.Tuple() if items and not inside:
            raise Unsupported("GROUP BY takes a list of keys without brackets", code="group-by", span=span_of(part),
                              try_="GROUP BY a, b")
    return [_keys(part)]


def _keys(item: exp.Expr) -> list[exp.Expr]:
    """One key, or several in brackets."""
    if isinstance(item, exp.Paren):
        return _keys(item.this)
    return [key for part in item.expressions for key in _keys(part)] if isinstance(item, exp.Tuple) else [item]


def _subsets(items: Sets) -> Sets:
    """All unions of some of the items, in DuckDB's order."""
    return [[], *([*item, *rest] for at, item in enumerate(items) for rest in _subsets(items[at + 1:]))]


def _check_count(count: int, part: exp.Expr) -> None:
    if count > MOST_SETS:
        raise _too_many(part)


def _too_many(part: exp.Expr) -> Unsupported:
    return Unsupported(f"there are more than {MOST_SETS} grouping sets", code="group-by", span=span_of(part),
                       try_="fewer keys, or only the sets that are needed: GROUPING SETS ((a, b), (a), ())")
