"""Identifies the rows of a relation, and finds its noisy columns, so that rows can be matched after the noise is redrawn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from dpsql.frozen import Frozen, replace
from dpsql.questions.released_rows import GroupsOfReleased
from dpsql.trusted.declarations.tables import Column
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Expr, Literal, columns
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.statistics import Statistics
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type

PLACE = "#"  # the column of a loaded table that numbers its rows


class Identified(Frozen):
    """A relation with columns that tell its rows apart however its numbers are moved; None where there are none such."""

    node: Node
    ids: tuple[str, ...] | None


class RowIdentity:
    """Adds to a relation the places of the rows below that each of its rows is made of; of groups, their keys."""

    def __init__(self) -> None:
        self._numbers = count()

    def of(self, node: Node) -> Identified:
        match node:
            case Scan():
                new = self._new()
                placed = replace(node.table, columns={**node.table.columns, PLACE: _PLACE})
                return Identified(node=replace(node, table=placed, columns=(*node.columns, (new, PLACE))), ids=(new,))
            case Constants():
                place = Field(id=self._new(), name=PLACE, facts=Facts(type=Type.BIGINT, nullable=False))
                rows = tuple((*row, i) for i, row in enumerate(node.rows))
                return Identified(node=replace(node, columns=(*node.columns, place), rows=rows), ids=(place.id,))
            case Project():
                below = self.of(node.input)
                kept = tuple((name, PLACE, below.node.field(name).ref) for name in below.ids or ()
                             if name not in {column for column, _, _ in node.columns})
                return replace(below, node=replace(node, input=below.node, columns=(*node.columns, *kept)))
            case Filter() | Window() | Lookup():
                below = self.of(node.input)
                return replace(below, node=replace(node, input=below.node))
            case Join():
                left, right = self.of(node.left), self.of(node.right)
                ids = (*left.ids, *right.ids) if left.ids is not None and right.ids is not None and not node.bare else None
                return Identified(node=replace(node, left=left.node, right=right.node), ids=ids)
            case UnionAll():
                return self._union(node)
            case GroupBy() | Statistics():
                return Identified(node=node, ids=node.keys)
            case Distinct():
                return Identified(node=node, ids=tuple(field.id for field in node.fields))
        return Identified(node=node, ids=None)

    def _new(self) -> str:
        return f"r{next(self._numbers)}"

    def _union(self, node: UnionAll) -> Identified:
        """Identify the rows of a union by their part's number and their identity in it."""
        parts = [self.of(part) for part in node.parts]
        if any(part.ids is None for part in parts):
            return Identified(node=node, ids=None)
        places = [(i, part.node.field(name)) for i, part in enumerate(parts) for name in part.ids or ()]
        made = tuple(Project(input=part.node, columns=(
            *((field.id, field.name, part.node.field(field.id).ref) for field in below.fields),
            (self._new(), PLACE, Literal(value=i, type=Type.BIGINT)),
            *((self._new(), PLACE, field.ref if own == i else Literal(value=None, type=field.facts.type))
              for own, field in places),
        )) for i, (part, below) in enumerate(zip(parts, node.parts, strict=True)))
        ids = tuple(self._new() for _ in range(len(places) + 1))
        return Identified(node=replace(node, parts=made, columns=(*node.columns, *((new, PLACE) for new in ids))), ids=ids)


_PLACE = Column(name=PLACE, type=Type.BIGINT, sql_type="BIGINT", nullable=False)


def without_last_filters(node: Node, noisy: Noisy) -> Node:
    """The relation without its outermost conditions on noisy numbers. These conditions decide which rows are shown, but the
    contents of the rows do not depend on them."""
    match node:
        case Project():
            return replace(node, input=without_last_filters(node.input, noisy))
        case Filter():
            below = without_last_filters(node.input, noisy)
            return below if columns(node.condition) & moved(node.input, noisy).columns else replace(node, input=below)
        case UnionAll():
            return replace(node, parts=tuple(without_last_filters(part, noisy) for part in node.parts))
    return node


class Moved(Frozen):
    """What depends on noise in a relation: some columns, and possibly which rows exist."""

    columns: frozenset[str]
    rows: bool = False


Noisy = Mapping[str, frozenset[str]]
"""The noisy columns of each released table, by name."""


def moved(node: Node, noisy: Noisy) -> Moved:
    """The parts of a relation that depend on noise; all of it, if it contains an operator that is unknown here."""
    below = [moved(part, noisy) for part in node.inputs]
    given = frozenset().union(*(part.columns for part in below))
    rows = any(part.rows for part in below)
    match node:
        case Scan():
            own = noisy.get(node.table.name, frozenset())
            return Moved(columns=frozenset(column for column, name in node.columns if name in own))
        case Constants():
            return Moved(columns=frozenset())
        case Project():
            return Moved(columns=frozenset(column for column, _, expr in node.columns if columns(expr) & given), rows=rows)
        case Filter():
            return Moved(columns=given, rows=rows or _reads(node.condition, given))
        case Join():
            merged = {made.id for made in node.merged if {made.left, made.right} & given}
            return Moved(columns=given | merged, rows=rows or _reads(node.condition, given))
        case Lookup():
            read = rows or bool(below[1].columns) or any(_reads(expr, given) for expr, _ in node.keys) or (
                node.condition is not None and _reads(node.condition, given))
            return Moved(columns=below[0].columns | ({node.mark} if read else set()), rows=rows)
        case UnionAll():
            found = {column for i, (column, _) in enumerate(node.columns) for part, known in zip(node.parts, below, strict=True)
                     if part.fields[i].id in known.columns}
            return Moved(columns=frozenset(found), rows=rows)
        case SetOperation():
            return Moved(columns=frozenset(column for column, _ in node.columns) if given else frozenset(),
                         rows=rows or bool(given))
        case Distinct():
            return Moved(columns=given, rows=rows or bool(given))
        case GroupsOfReleased():
            every = rows or bool(set(node.keys) & given)
            found = {call.id for call in node.calls if every or {*call.columns, call.when} & given}
            return Moved(columns=frozenset(found | (set(node.keys) & given)), rows=every)
        case Window():
            every = rows or bool({*node.partition, *(term.column for term in node.order)} & given)
            found = {part.id for part in node.functions if every or {part.column, part.otherwise} & given}
            return Moved(columns=given | found, rows=rows)
    return Moved(columns=frozenset(field.id for field in node.fields), rows=True)


def _reads(expr: Expr, given: frozenset[str]) -> bool:
    return bool(columns(expr) & given)


