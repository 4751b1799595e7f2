"""Recognise questions about the degrees of a graph: numbers of rows by one of the two entities that each row belongs to.

    SELECT degree, COUNT(*) FROM (SELECT a, COUNT(*) AS degree FROM edges GROUP BY a) AS t GROUP BY degree

As a relation the subquery has no bounded stability: one entity may have any number of neighbours, and changes the degrees of all
of them. But the number of entities with each degree can be measured (`degree_histogram.DegreeHistogram`), and whatever the outer
query computes from degrees follows from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpsql.frozen import Frozen, field_names, is_frozen, replace
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Expr, Ref, all_of, columns, rewrite
from dpsql.trusted.plan.node import Field, Node, PublicFacts, fold
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.types import Interval, Span, Type

TAIL, HEAD, DEGREE = "tail", "head", "degree"
MOST_PARTS = 8


class NearlyDegrees(Exception):
    """A query that is nearly one about degrees: why it is not, where in the text, and what to write instead."""

    def __init__(self, because: str, try_: str, span: Span | None) -> None:
        super().__init__(because)
        self.try_, self.span = try_, span


class Graph(Frozen):
    """Arcs; a view that counts them by their tails, in `groups`; and the columns of the view that a question reads."""

    arcs: Arcs
    view: Node
    groups: GroupBy
    read: frozenset[str]

    def over(self, most: int) -> Node:
        """The columns of the view that are read, computed over the degrees 1 .. `most`, each once, instead of the private
        ones. The degree itself is added as the first column.
        """
        fields = tuple(Field(id=name, name=name, facts=Facts(
            type=Type.BIGINT, nullable=False, physical=Interval(1, most), declared=Interval(1, most), whole=True))
            for name in (DEGREE, *(part.id for part in self.groups.folds)))
        return _put(self.view, self.read, Constants(columns=fields, rows=tuple((degree,) * len(fields)
                                                                              for degree in range(1, most + 1))))

    def at_most(self, most: int) -> Graph:
        """The graph, with a view whose counts are known to be at most this."""

        def put(node: Node) -> Node:
            return replace(node, most_rows=most) if isinstance(node, GroupBy) else replace(node, input=put(node.inputs[0]))  # type: ignore[call-arg]

        view = put(self.view)
        return replace(self, view=view, groups=_groups(view) or self.groups)


def _put(node: Node, needed: frozenset[str], numbers: Node) -> Node:
    match node:
        case Filter():
            return replace(node, input=_put(node.input, needed | columns(node.condition), numbers))
        case Project():
            kept = tuple(part for part in node.columns if part[0] in needed)
            below = _put(node.input, frozenset(column for _, _, expr in kept for column in columns(expr)), numbers)
            return Project(input=below, columns=((DEGREE, DEGREE, below.field(DEGREE).ref), *kept))
    return numbers


def degrees_of(view: Node, read: frozenset[str], public: PublicFacts) -> Graph | None:
    """The graph whose degrees a view shows, if a question reads only these columns; None for other views.

    Raises NearlyDegrees if a view of rows that belong to two entities each has groups that are not degrees.
    """
    groups = _groups(view)
    if groups is None or not groups.keys:
        return None
    parts = list(_parts(groups.input))
    owners = [stability(part.base, public).owners for part in parts]
    if any(len(found) != 2 for found in owners):
        return None
    fault = _fault(_read(view, read), groups, parts, owners)
    if fault is not None:
        raise NearlyDegrees(*fault, groups.span)
    key, = groups.keys
    arcs = [_arcs(part, part.columns[key], found) for part, found in zip(parts, owners, strict=True)]
    if len(arcs) == 2 and _same(arcs[0], _turned(arcs[1])):
        return Graph(arcs=Arcs(input=arcs[0], tail=TAIL, head=HEAD, mutual=True), view=view, groups=groups, read=read)
    source = arcs[0] if len(arcs) == 1 else UnionAll(parts=tuple(arcs), columns=((TAIL, TAIL), (HEAD, HEAD)))
    return Graph(arcs=Arcs(input=source, tail=TAIL, head=HEAD), view=view, groups=groups, read=read)


def _groups(node: Node) -> GroupBy | None:
    """The GROUP BY below filters and computed columns; None if there is none."""
    while isinstance(node, Filter | Project):
        node = node.input
    return node if isinstance(node, GroupBy) else None


def _fault(read: frozenset[str], groups: GroupBy, parts: list[_Part], owners: list[tuple[str, ...]]) -> tuple[str, str] | None:
    """Why these groups are not the degrees of a graph, and what to write instead; None if they are."""
    name = groups.input.names[groups.keys[0]]
    wanted = f"(SELECT {name}, COUNT(*) AS degree FROM ... GROUP BY {name}), where {name} names one of the two entities of a row"
    if len(groups.keys) > 1:
        return "rows that belong to two entities each can be counted by one of the two, and by nothing else", wanted
    if any(not isinstance(part.columns[groups.keys[0]], Ref) or part.columns[groups.keys[0]].column not in found  # type: ignore[attr-defined]
           for part, found in zip(parts, owners, strict=True)):
        return f"rows of two entities each are grouped by {name}, which is neither of the two", wanted
    for part in groups.folds:
        if part.function != "count" or (part.column is not None and groups.input.field(part.column).facts.nullable):
            return ("of rows that belong to two entities each, only their number per entity can be used", wanted)
    if set(groups.keys) & read:
        return (f"the number of rows of a particular {name} is never shown", "the number alone: SELECT degree, COUNT(*) FROM "
                f"(SELECT {name}, COUNT(*) AS degree ...) GROUP BY degree")
    if len(parts) > MOST_PARTS:
        return f"this graph is a union of {len(parts)} parts, more than {MOST_PARTS}", "a UNION ALL of fewer parts"
    return None


def _read(node: Node, needed: frozenset[str]) -> frozenset[str]:
    """The columns of the groups that filters and computed columns above them read."""
    while isinstance(node, Filter | Project):
        needed = needed | columns(node.condition) if isinstance(node, Filter) else frozenset(
            column for name, _, expr in node.columns if name in needed for column in columns(expr))
        node = node.input
    return needed


# -- rows as arcs


class _Part(Frozen):
    """A part of a UNION ALL, or the whole relation: the rows of `base` that fulfil the conditions, and columns computed from
    them."""

    base: Node
    conditions: tuple[Expr, ...]
    columns: Mapping[str, Expr]


def _parts(node: Node) -> Iterator[_Part]:
    match node:
        case Project():
            for part in _parts(node.input):
                yield replace(part, columns={column: _put_in(expr, part) for column, _, expr in node.columns})
        case Filter():
            for part in _parts(node.input):
                yield replace(part, conditions=(*part.conditions, _put_in(node.condition, part)))
        case UnionAll():
            for below in node.parts:
                for part in _parts(below):
                    yield replace(part, columns={column: part.columns[field.id] for (column, _), field in
                                                 zip(node.columns, below.fields, strict=True)})
        case _:
            yield _Part(base=node, conditions=(), columns={field.id: field.ref for field in node.fields})


def _put_in(expr: Expr, part: _Part) -> Expr:
    return rewrite(expr, lambda inner: part.columns[inner.column] if isinstance(inner, Ref) else None)


def _arcs(part: _Part, tail: Expr, owners: tuple[str, ...]) -> Node:
    """The rows of a part as arcs: the tail is the entity that they are counted for, the head is the other one."""
    assert isinstance(tail, Ref)
    other = next(owner for owner in owners if owner != tail.column)
    condition = all_of(list(part.conditions))
    rows = part.base if condition is None else Filter(input=part.base, condition=condition)
    return Project(input=rows, columns=((TAIL, rows.names[tail.column], rows.field(tail.column).ref),
                                        (HEAD, rows.names[other], rows.field(other).ref)))


def _turned(arcs: Node) -> Node:
    """The arcs in the other direction."""
    assert isinstance(arcs, Project)
    (_, tail, first), (_, head, second) = arcs.columns
    return Project(input=arcs.input, columns=((TAIL, head, second), (HEAD, tail, first)))


def _same(left: Node, right: Node) -> bool:
    """Whether two plans are equal except for the identifiers and display names of columns.

    No bound depends on this, only the meaning of the numbers.
    """
    return _shape(left, _ids(left), {}) == _shape(right, _ids(right), {})


def _ids(plan: Node) -> frozenset[str]:
    return fold(plan, lambda node, below: frozenset(field.id for field in node.fields).union(*below))


def _shape(value: object, ids: frozenset[str], seen: dict[str, int]) -> object:
    if isinstance(value, str) and value in ids:
        return seen.setdefault(value, len(seen))
    if isinstance(value, Project):
        return "project", _shape(value.input, ids, seen), tuple(_shape(expr, ids, seen) for _, _, expr in value.columns)
    if is_frozen(value) and not isinstance(value, type):
        return type(value).__name__, tuple(_shape(getattr(value, name), ids, seen) for name in field_names(type(value))
                                           if name not in ("span", "text"))
    if isinstance(value, tuple):
        return tuple(_shape(part, ids, seen) for part in value)
    return value
