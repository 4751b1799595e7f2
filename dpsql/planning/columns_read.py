"""Which columns of tables the columns of a plan are made of, and by which of them it chooses or combines rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from dpsql.frozen import Frozen, field_names
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, columns, conjuncts
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan

Source: TypeAlias = tuple[str, str]  # a table and its column


class PlanColumns(Frozen, kw_only=False):
    """The columns of all nodes of a plan, by their identifiers."""

    plan: Node

    def sources(self, columns: Iterable[str], table: str) -> frozenset[str]:
        """The columns of a table of which these columns are made."""
        return frozenset(name for column in columns for of, name in self._sources.get(column, ()) if of == table)

    def passed(self, columns: Iterable[str], table: str) -> frozenset[str]:
        """The columns of a table that these columns are, unchanged."""
        return frozenset(name for column in columns for of, name in self._unchanged.get(column, ()) if of == table)

    @cached_property
    def conditions(self) -> frozenset[str]:
        """The columns by which rows are chosen, joined, grouped or ordered."""
        return frozenset().union(*(_mentioned(node) for node in bottom_up(self.plan) if not isinstance(node, Scan | Project)))

    @cached_property
    def compared(self) -> frozenset[str]:
        """The columns that have one value in all rows, by a condition."""
        parts = (part for node in bottom_up(self.plan) if isinstance(node, Filter) for part in conjuncts(node.condition))
        return frozenset(column for part in parts for column in _one_value(part))

    @cached_property
    def _sources(self) -> Mapping[str, frozenset[Source]]:
        return self._traced(columns, _mentioned)

    @cached_property
    def _unchanged(self) -> Mapping[str, frozenset[Source]]:
        return self._traced(lambda expr: (expr.column,) if isinstance(expr, Ref) else (), lambda _: ())

    def _traced(self, read: Callable[[Expr], Iterable[str]], combined: Callable[[Node], Iterable[str]]) -> Mapping[
            str, frozenset[Source]]:
        """The table columns of each column, followed through what expressions read, and what other nodes combine."""
        found: dict[str, frozenset[Source]] = {}

        def of(columns: Iterable[str]) -> frozenset[Source]:
            return frozenset().union(*(found.get(column, frozenset()) for column in columns))

        for node in bottom_up(self.plan):
            if isinstance(node, Scan):
                found |= {column: frozenset([(node.table.name, name)]) for column, name in node.columns}
            elif isinstance(node, Project):
                found |= {column: of(read(expr)) for column, _, expr in node.columns}
            rest = of(combined(node))
            found |= {field.id: rest for field in node.fields if field.id not in found}
        return found


def _mentioned(node: Node) -> frozenset[str]:
    """The columns of its inputs that a node names; all of them if it combines rows without naming any."""
    inputs = frozenset(field.id for below in node.inputs for field in below.fields)
    named = frozenset(_named([getattr(node, name) for name in field_names(type(node))])) & inputs
    return named or inputs


def _named(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Expr):
        yield from columns(part)
    elif isinstance(part, tuple | list):
        for each in part:
            yield from _named(each)
    elif isinstance(part, Frozen) and not isinstance(part, Node):
        yield from _named([getattr(part, name) for name in field_names(type(part))])


def _one_value(condition: Expr) -> Iterator[str]:
    """The column that has one value where a condition is true: as in `x = 3`, `x` or `NOT x`."""
    match condition:
        case Ref(column=column) | Call(function="not", args=(Ref(column=column),)):
            yield column
        case Call(function="=", args=(Ref(column=column), Literal()) | (Literal(), Ref(column=column))):
            yield column
