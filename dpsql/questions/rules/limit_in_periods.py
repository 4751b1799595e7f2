"""Limits on the rows of an entity in each period of a growing table, and the column that tells the period."""

from __future__ import annotations

import datetime as dt

from dpsql.backends.row_orders import row_order
from dpsql.frozen import replace
from dpsql.questions.rules.rule import rule
from dpsql.trusted.declarations.growth import CALENDAR, Growth, PeriodRange
from dpsql.trusted.kernel.period_certificate import is_fixed
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, predicate, whole
from dpsql.trusted.plan.expr.period_places import place_among
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.types import Type

TIME, PERIOD = "_time", "_period"  # endings of the names of columns; those that statements name have others


def limited_in_periods(scan: Scan, owner: str) -> Node | None:
    """The rows of a growing table that are read in several periods, of which each entity keeps as many in each period as is
    declared; None for another scan. Where an entity has one row only, the numbers of the periods are all that is added.

    A filter by the number of the period leaves out no row; but from it follows how many rows an entity has in all.
    """
    growth, periods, read = scan.table.growth, scan.periods, _numbered(scan, owner)
    if growth is None or periods is None or read is None:
        return None
    if scan.one_row:
        return Project(input=read, columns=tuple(_passed(scan)))
    if growth.rows is None:
        return None
    number = read.field(f"{owner}{PERIOD}").ref
    limited = TruncateKeys(input=read, rows=growth.rows, keys=(owner, number.column), order=row_order(scan, owner))
    within = Filter(input=limited, condition=predicate("and", *(
        predicate(sign, number, whole(end)) for sign, end in ((">=", 0), ("<=", len(growth.first_numbers(periods)) - 1)))))
    return Project(input=within, columns=tuple(_passed(scan)))


def is_in_periods(node: TruncateKeys) -> Scan | None:
    """The scan of a growing table of which a limit keeps some rows of each entity in each period; None for another limit."""
    scan = node.input.input if isinstance(node.input, Project) else None
    of_entity = len(node.keys) == 2 and node.keys[1] == f"{node.keys[0]}{PERIOD}"
    return scan if isinstance(scan, Scan) and scan.periods is not None and of_entity else None


def _numbered(scan: Scan, owner: str) -> Node | None:
    """The rows of a growing table that are read in several periods, with the number of each row's period, from 0 on; None for
    another scan."""
    growth, periods = scan.table.growth, scan.periods
    if growth is None or periods is None or scan.in_one_period:
        return None
    kind = scan.table.columns[growth.column].type
    time = next((column for column, name in scan.columns if name == growth.column), f"{owner}{TIME}")
    read = scan if time in scan.env else replace(scan, columns=(*scan.columns, (time, growth.column)))
    number = _number(growth, periods, Ref(column=time, type=kind))
    return Project(input=read, columns=(*_passed(scan), (f"{owner}{PERIOD}", f"{growth.period} of the row", number)))


def _number(growth: Growth, periods: PeriodRange, time: Ref) -> Expr:
    """The number of the period of a time, from 0 on."""
    if growth.period == CALENDAR:
        return place_among(time, growth.first_numbers(periods))
    start = dt.datetime.combine(periods.start, dt.time()) if time.type is Type.TIMESTAMP else periods.start
    return Call(function=f"date_diff_{growth.period}", type=Type.BIGINT, args=(Literal(value=start, type=time.type), time))


@rule
def show_periods(node: Node) -> Node:
    """A relation that shows the period of each row too, where what is above the limit in periods acts on each row by itself.
    (More columns would change what DISTINCT is, or the order in which rows are kept.)"""
    match node:
        case Project():
            below = show_periods(node.input)
            further = [field for field in below.fields if field.id.endswith(PERIOD) and field.id not in node.env]
            passed = tuple((field.id, field.name, field.ref) for field in further)
            return replace(node, input=below, columns=(*node.columns, *passed)) if passed else node
        case Filter():
            return replace(node, input=below) if (below := show_periods(node.input)) is not node.input else node
        case Lookup() if is_fixed(node.listed):
            return replace(node, input=below) if (below := show_periods(node.input)) is not node.input else node
        case Join() if not node.merged and is_fixed(node.left) is not is_fixed(node.right):
            left, right = (side if is_fixed(side) else show_periods(side) for side in (node.left, node.right))
            return replace(node, left=left, right=right) if (left, right) != (node.left, node.right) else node
    return node


def _passed(node: Node) -> list[tuple[str, str, Expr]]:
    return [(field.id, field.name, field.ref) for field in node.fields]
