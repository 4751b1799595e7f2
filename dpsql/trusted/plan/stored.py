"""Tables in a prepared store: in buckets of entities, with precomputed facts about each row."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.growth import PeriodRange, period_of
from dpsql.trusted.declarations.tables import OwnerPath, Table
from dpsql.trusted.plan.expr.printing import quote

OWNER, PLACE = "owner of the row", "place of the row"  # the columns that a bucket has beside those of a table


class StoredPart(Frozen):
    """Some rows of a table that grows, in files of their own, and what is known of exactly these rows.

    number     identifies the part among all parts of the store
    most       the most rows of one owner
    in_period  the most rows of one owner in one period
    first, last  the days (`date.toordinal`) between which all rows lie that are in any period; `first` is later if there are none
    rows, ends  as in `StoredTable`
    """

    number: int
    rows: int
    most: int
    in_period: int
    first: int
    last: int
    ends: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)

    def meets(self, periods: PeriodRange) -> bool:
        """Whether a row may be in one of some periods."""
        return self.first < periods.end.toordinal() and periods.start.toordinal() <= self.last

    def most_in(self, periods: PeriodRange) -> int:
        """At least the most rows of one owner in some periods: there are no more than in all, and in each of the periods that
        the part has days of there are at most `in_period`."""
        if not self.meets(periods):
            return 0
        first, last = (period_of(periods.period, dt.date.fromordinal(day)) for day in (self.first, self.last))
        return min(self.most, self.in_period * (min(last, periods.last) - max(first, periods.first) + 1))


class StoredTable(Frozen):
    """A private table in the buckets of a store: its rows that have an owner, each with the name of its owner and, if a key
    distinguishes rows, its place among the rows of its owner.

    shape  what the table was prepared for; see `shape_of`
    order  the columns of the key by which places go, in a keyed order (`operators.ranking`); none if rows have no places
    rows   the number of rows
    most   at least the most rows of one owner
    ends   the least and the greatest value of each column of numbers; None where there is none, or one is not finite
    buckets  the number of buckets that the rows are in
    at_once  whether a statement can read all buckets; otherwise they are read one by one, elsewhere
    alone    whether the rows are nowhere but in buckets that are elsewhere
    parts    of a table that grows: the parts that its rows are in, each row in one; none if each bucket has all rows together
    grows_by  the column and the kind of periods for which the parts have facts

    Rows of some periods are read from the parts that can have any (`read_in`). The others have none: by a fact about all of
    their rows, which is no more than a reason not to look there. The scan still tests each row that it reads.

    Facts about a table are those of all parts together, so they hold for the rows of any parts. `most_in` adds up those of the
    parts that are read: rows of other periods are not counted where that can be told, and counted where it cannot. A number that
    is too large leaves a limit in the text that would keep every row, and a limit that is left out would have kept every row. So
    rows of other periods change the text, and never its result.
    """

    shape: str
    order: tuple[str, ...] = ()
    rows: int = 0
    most: int = 0
    ends: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)
    buckets: int = 1
    at_once: bool = True
    alone: bool = False
    parts: tuple[StoredPart, ...] = ()
    grows_by: tuple[str, str] | None = None

    def holds(self, table: Table) -> bool:
        """Whether the store was prepared for exactly this table."""
        growth = None if table.growth is None else (table.growth.column, table.growth.period)
        return self.shape == shape_of(table) and (not self.parts or self.grows_by == growth)

    def read_in(self, periods: PeriodRange | None) -> tuple[StoredPart, ...]:
        """The parts that can have rows in some periods, but at least one; all parts if all rows are read."""
        return tuple(part for part in self.parts if periods is None or part.meets(periods)) or self.parts[:1]

    def most_in(self, periods: PeriodRange | None) -> int:
        """At least the most rows of one owner in some periods, or in all."""
        if periods is None or not self.parts:
            return self.most
        return sum(part.most_in(periods) for part in self.read_in(periods))


def bucket_name(number: int, part: StoredPart | None = None) -> str:
    """The SQL name of the database that contains one bucket, or what one part has of it. Tables in it are always qualified by
    this name, so that they are never confused with tables that anybody else can name."""
    return quote(f"bucket {number}" if part is None else f"part {part.number} of bucket {number}")


def place_in_bucket(table: str, number: int, part: StoredPart | None = None) -> str:
    """A table in one bucket, or in what one part has of it, as SQL."""
    return f"{bucket_name(number, part)}.main.{quote(table)}"


def shape_of(table: Table) -> str:
    """The source of a table's rows, owners and positions: a store with another one contains another table. The column by which
    a table grows has no NULL in the periods that are read, and may have some in the table, so it always counts as nullable."""
    time = None if table.growth is None else table.growth.column
    columns = sorted((name, column.sql_type, column.nullable or name == time) for name, column in table.columns.items())
    return json.dumps({"table": table.name, "columns": columns, "unique": sorted(map(sorted, table.unique)),
                       "owners": [_as_plain(path) for path in table.owners]})


def _as_plain(path: OwnerPath) -> dict[str, Any]:
    """The form in a store's manifest. Later versions read it, so its names stay even if the fields are renamed."""
    steps = [{"columns": step.columns, "table": step.table, "references": step.references,
              "types": [kind.value for kind in step.types]} for step in path.steps]
    return {"steps": steps, "column": path.column, "type": path.type.value, "not_null": path.not_null, "beside": path.beside,
            "kind": path.kind, "kinds": path.kinds}
