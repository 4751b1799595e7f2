"""The second certificate of a plan: what one entity in one period moves, beside what it moves with all of its rows.

Without its rows of one period the rest of an entity stays, and certificates of whole entities say nothing about that. This one
holds for relations of which each row is of one entity and of one period:

    A relation is *of pairs* if, without the rows of an entity u in a period p of the growing tables, exactly those of its rows
    are gone that name u and are of p, and no other row changes. Its *period columns* tell the period: rows have the same value
    in one of them exactly if they are of the same period.

So at most as many rows move as agree on the owner and on a period column (`frequency`), and the sums over cells move by at most
so many row vectors; where rows of one entity and one period are in different cells, these are orthogonal (`plan.certificate`).

Proof, by induction over the relations. Each has one owner, which is never NULL: removing u removes exactly the rows that name u.
A relation that reads no growing table is *fixed*: the same with and without the rows of u in p.

  A scan of a growing table is of pairs by definition. Its column of time is not a period column, but
      `date_trunc` and `date_diff` by the kind of the periods are, computed from it; so is a DATE itself where periods are days.
      (Rows that are read have times in periods that begin from 1900 to 2999, where these functions are exact and not NULL;
      `date_diff` counts from a constant day in these years. Between days it counts sevens, rounded towards 0, and no weeks of the
      calendar: so from a Monday only, and none that is later than the first day that is read.) Of a
      calendar, the place of the time among the first days of the periods that are read is one: a row that is read lies in one of
      these periods, and in the one that begins on the last first day not after it.
  A filter and a projection decide by each row alone.
  A join with a fixed relation, whose rows without a partner are not kept: a row is made of one row of pairs and of fixed rows. It
      names the owner of its row of pairs, as it has one owner and would be gone without that one; so it goes with the rows of u
      in p exactly if it names u and is of p. Where rows of pairs without a partner are kept, they too depend on fixed rows alone.
      A lookup in a fixed list marks each row by itself.
  A union: its rows are those of its parts; a column is a period column if it is one in each part, and all of them have the same
      value in it for the same period (not so where months are counted from different days).
  Truncation, grouping and windows by the owner and a period column: what becomes of a group depends on this group alone (the
      owner stays one by the checker's rules, which hold for the groups of an entity), and all of its rows are of one entity and
      one period. So the groups of u in p vanish, and no other changes.

Everything else, such as a group or a limit by the owner alone, is of no pairs: there, rows of one period decide what becomes of
rows of another.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeAlias, cast

from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import CALENDAR, EARLIEST, LATEST, PeriodKind, PeriodRange, period_of
from dpsql.trusted.plan.certificate import Certificate, Sensitivity, root_above
from dpsql.trusted.plan.expr.nodes import Call, Case, Expr, Literal, Ref, walk
from dpsql.trusted.plan.expr.period_places import place_among
from dpsql.trusted.plan.node import Node, Summary, bottom_up
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Clipped, Summand
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type

Numbering: TypeAlias = tuple[str, dt.date | tuple[int, ...] | None]
"""The value that a period column has for each period: which function computes it ("" for a DATE by days), and from which day it
counts, or among which first days of a calendar."""
Told: TypeAlias = Mapping[str, Numbering | None]
"""The columns of a relation of pairs that tell the time: for a period column, its values; None for the time itself."""
Cut: TypeAlias = tuple[PeriodRange, tuple[int, ...]]
"""The periods that are read, from the first to the last; for a calendar, with their first days."""


class KnownRows(Protocol):
    """What is known of the rows of relations: claimed by their operators, or derived by the checker."""

    def owner(self, node: Node) -> str | None:
        """The one column such that removing an entity removes exactly the rows that name it there; None if there is none."""
        ...

    def frequency(self, node: Node, columns: Collection[str]) -> int | None:
        """The largest number of rows that agree on some columns, in any database; None if it is not bounded."""
        ...

    def size(self, node: Node, summand: Summand) -> int:
        """A bound on the l1 norm of what a row of a relation adds to a summand."""
        ...


def certificate_in_period(plan: Summary, whole: Certificate, known: KnownRows) -> Certificate | None:
    """The certificate of grouped sums for an entity in one period of growing tables, given that for all of its rows; None if
    there is none. It bounds the rows and the sums; distances by owners have no bound in it."""
    if type(plan) is not GroupedSums or any(isinstance(part, Clipped) for part in plan.summands):
        return None
    told, owner = period_columns(plan.input, known), known.owner(plan.input)
    if not told or owner is None:
        return None
    rows = _fewest(known.frequency(plan.input, {owner, column}) for column in told)
    if rows is None:
        return None
    apart = any(known.frequency(plan.input, {owner, column, *plan.keys}) == 1 for column in told)
    sizes = [known.size(plan.input, part) for part in plan.summands]
    return Certificate(below=replace(whole.below, rows=rows, owners=(), norm=None), disjoint_cells=apart,
                       numbered_from=_numbered_from(plan, known), summands=tuple(
        Sensitivity(l1=rows * size, l2=root_above(rows * size**2) if apart else rows * size) for size in sizes))


def period_columns(node: Node, known: KnownRows) -> frozenset[str]:
    """The period columns of a relation of pairs; none if it is not one."""
    told = _told(node, known) or {}
    return frozenset(column for column, numbering in told.items() if numbering is not None)


def _told(node: Node, known: KnownRows) -> Told | None:
    """The columns that tell the time in a relation of pairs; None if it is not one."""
    if (owner := known.owner(node)) is None:
        return None
    match node:
        case Scan(periods=periods) if periods is not None:
            return _of_scan(node)
        case Filter():
            return _told(node.input, known)
        case Project():
            below = _told(node.input, known)
            return None if below is None else _computed(node, below, _cut(node))
        case Join():
            return _joined(node, known)
        case Lookup() if is_fixed(node.listed):
            return _told(node.input, known)
        case UnionAll():
            return _united(node, [_told(part, known) for part in node.parts])
        case TruncateKeys():
            return _grouped(node.input, node.keys, owner, known)
        case Window():
            return _grouped(node.input, node.partition, owner, known)
        case GroupBy():
            return _kept(_grouped(node.input, node.keys, owner, known), node.keys)
        case Distinct():
            return _grouped(node.input, tuple(field.id for field in node.fields), owner, known)
    return None


def is_fixed(node: Node) -> bool:
    """Whether a relation reads no table that grows."""
    return all(part.periods is None for part in bottom_up(node) if isinstance(part, Scan))


def _of_scan(node: Scan) -> Told:
    growth = node.table.growth
    return {column: ("", None) if growth.period == "day" and node.table.columns[name].type is Type.DATE else None
            for column, name in node.columns if growth is not None and name == growth.column}


def _cut(node: Node) -> Cut | None:
    """The periods that a relation reads; None if they are of several kinds, or of other periods of a calendar."""
    read = [part for part in bottom_up(node) if isinstance(part, Scan) and part.periods is not None]
    periods = [part.periods for part in read if part.periods is not None]
    days = {tuple(part.table.growth.first_numbers(part.periods)) if part.periods.period == CALENDAR else ()
            for part in read if part.periods is not None and part.table.growth is not None}
    if len({each.period for each in periods}) != 1 or len(days) != 1:
        return None
    return replace(periods[0], first=min(each.first for each in periods), last=max(each.last for each in periods)), days.pop()


def _computed(node: Project, below: Told, cut: Cut | None) -> Told:
    made: dict[str, Numbering | None] = {}
    for column, _, expr in node.columns:
        if isinstance(expr, Ref) and expr.column in below:
            made[column] = below[expr.column]
        elif cut is not None and (found := _numbering(expr, *cut)) is not None and found[0] in below:
            made[column] = found[1]
    return made


def _numbering(expr: Expr, periods: PeriodRange, first_days: tuple[int, ...]) -> tuple[str, Numbering] | None:
    """The column of time of which an expression tells the period, and the values that it has; None for another expression."""
    kind = periods.period
    match expr:
        case Call(function=function, args=(Ref(column=time),)) if function == f"date_trunc_{kind}":
            return time, (function, None)
        case Call(function=function, args=(Literal(value=dt.date() as at), Ref(column=time))) if function == f"date_diff_{kind}":
            day = dt.date(at.year, at.month, at.day)
            counts = kind != "week" or (day.weekday() == 0 and day <= periods.start)
            return (time, (function, day)) if counts and EARLIEST <= day <= LATEST else None
        case Case() if first_days:
            read = next((part for part in walk(expr) if isinstance(part, Ref)), None)
            if read is not None and expr == place_among(read, first_days):
                return read.column, (CALENDAR, first_days)
    return None


def _joined(node: Join, known: KnownRows) -> Told | None:
    if node.merged or is_fixed(node.left) is is_fixed(node.right):
        return None
    side, kept = (node.right, node.keep_left) if is_fixed(node.left) else (node.left, node.keep_right)
    told = None if kept else _told(side, known)
    return None if told is None else _kept(told, [field.id for field in node.fields])


def _united(node: UnionAll, parts: list[Told | None]) -> Told | None:
    found = []
    for part, told in zip(node.parts, parts, strict=True):
        if told is None:
            return None
        found.append([told.get(field.id) for field in part.fields])
    return {column: tells for (column, _), (tells, *others) in zip(node.columns, zip(*found, strict=True), strict=True)
            if tells is not None and all(other == tells for other in others)}


def _grouped(node: Node, keys: Collection[str], owner: str, known: KnownRows) -> Told | None:
    """The columns that tell the time below an operator that acts on groups; None if a group is not of one entity and period."""
    told = _told(node, known)
    return told if told is not None and owner in keys and any(told.get(key) is not None for key in keys) else None


def _kept(told: Told | None, columns: Collection[str]) -> Told | None:
    return None if told is None else {column: numbering for column, numbering in told.items() if column in columns}


def _numbered_from(plan: GroupedSums, known: KnownRows) -> int | None:
    """The period that has the number 0 in the first key; None if that key does not number the periods."""
    function, day = (_told(plan.input, known) or {}).get(plan.keys[0] if plan.keys else "") or ("", None)
    return period_of(cast(PeriodKind, function.removeprefix("date_diff_")), day) if isinstance(day, dt.date) else None


def _fewest(found: Iterable[int | None]) -> int | None:
    return min((number for number in found if number is not None), default=None)
