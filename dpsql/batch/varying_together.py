"""Columns whose values go together, as one attribute: its cells are the combinations that exist, and no others.

A county lies in one state. Measured as two attributes, 3,142 counties and 51 states would be 160,242 cells, and the count of a
state the sum of 3,142 of them, each with its noise. As one attribute they are 3,142 cells, and what is asked by state is computed
from the county, as what is asked by decade is computed from the year.

Every row of the source, which is what is below the conditions of statements, has one of the combinations without these
(`sql.binding.combinations`). So each expression of some of the columns has one value in each cell. A row that had another
combination would be in no cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice

from dpsql.batch.attributes import AttributeColumn
from dpsql.batch.linear_queries import LinearStatement
from dpsql.frozen import Frozen
from dpsql.trusted.plan.cells import sort_key
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Ref, Value, predicate, whole
from dpsql.trusted.plan.node import Node
from dpsql.types import Type

MOST_BRANCHES = 512  # of the expression that numbers the combinations of several columns, which is evaluated for each row
TRIED = 64  # sets of columns that may tell combinations apart


class VaryingTogether(Frozen):
    """Columns of a source, and the combinations of their values that rows have."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def attribute(self, source: Node) -> AttributeColumn | None:
        """The columns as one attribute; None if evaluating that for every row would take too long."""
        refs = tuple(source.field(name).ref for name in self.columns)
        name = " and ".join(source.field(name).name for name in self.columns)
        places, stands = self._telling_apart(), tuple(zip(*self.rows, strict=True))
        if len(places) == 1:
            return AttributeColumn(name=name, refs=refs, code=refs[places[0]], values=tuple(row[places[0]] for row in self.rows),
                                   stands=stands)
        if len(self.rows) > MOST_BRANCHES:
            return None
        numbered = [(tuple(row[place] for place in places), number) for number, row in enumerate(self.rows)]
        return AttributeColumn(name=name, refs=refs, code=_numbered([refs[place] for place in places], numbered),
                               values=tuple(range(len(self.rows))), stands=stands)

    def _telling_apart(self) -> tuple[int, ...]:
        """A few of the columns whose values tell all combinations apart."""
        every = range(len(self.columns))
        some = (places for size in every for places in combinations(every, size) if places)
        return next((places for places in islice(some, TRIED)
                     if len({tuple(row[place] for place in places) for row in self.rows}) == len(self.rows)), tuple(every))


def varying_together(statements: Sequence[LinearStatement]) -> list[VaryingTogether]:
    """The columns of keys that vary together. Where statements disagree about a column, the first one decides."""
    found: dict[frozenset[str], VaryingTogether] = {}
    for statement in statements:
        exprs = {key.column: expr for key, expr in zip(statement.question.keys, statement.keys, strict=True)}
        for one in statement.question.combinations:
            refs = [expr.column for key in one.keys if isinstance(expr := exprs[key], Ref)]
            if one.enforced and len(set(refs)) == len(one.keys) and not any(set(refs) & other for other in found):
                found[frozenset(refs)] = VaryingTogether(columns=tuple(refs), rows=tuple(sorted(one.unconditioned, key=sort_key)))
    return [one for one in found.values() if one.rows]


def _numbered(refs: Sequence[Ref], rows: Sequence[tuple[tuple[Value, ...], int]]) -> Expr:
    """The number of the combination that a row has, found column by column; NULL for any other."""
    if not refs:
        return whole(rows[0][1])
    ref, *others = refs
    after: dict[Value, list[tuple[tuple[Value, ...], int]]] = {}
    for (value, *rest), number in rows:
        after.setdefault(value, []).append((tuple(rest), number))
    branches = tuple((_has(ref, value), _numbered(others, below)) for value, below in after.items())
    return Case(branches=branches, otherwise=Literal(value=None, type=Type.BIGINT), type=Type.BIGINT)


def _has(ref: Ref, value: Value) -> Expr:
    if value is None:
        return predicate("is null", ref)
    return predicate("=", ref, Literal(value=value, type=ref.type))
