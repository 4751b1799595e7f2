"""The rows of a table as a bucket of a store holds them: sorted by owner, with owners and places; and what is told of them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any

from dpsql.backends.row_orders import row_order
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.growth import CALENDAR, EARLIEST, LATEST, PeriodRange
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.ranking import Ranking
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.stored import OWNER, PLACE, StoredTable, place_in_bucket
from dpsql.trusted.reader import ReaderFault
from dpsql.types import Type

UNIX = dt.date(1970, 1, 1).toordinal()


class OwnedRows(Frozen):
    """The rows of a table that have an owner: the scan of its declared columns, and the name under which it carries the owner."""

    scan: Scan
    owner: str

    @classmethod
    def of(cls, table: Table) -> OwnedRows:
        way, ids = table.owners[0], {name: f"c{number}" for number, name in enumerate(table.columns)}
        owner = ids[way.column] if way.in_row and way.column in ids else "owner"
        columns = tuple((column, name) for name, column in ids.items())
        return cls(scan=Scan(table=table, columns=columns, owners=(owner,)), owner=owner)

    @property
    def kind(self) -> Type:
        return self.scan.table.owners[0].type

    @property
    def owner_is_declared(self) -> bool:
        """Whether the owner is one of the declared columns."""
        return self.owner in dict(self.scan.columns)

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of the key by which an owner's rows are ordered; none if there is no key, each owner has only one row, or
        the table grows: limits apply to the rows of some periods, and places among all rows say nothing about those."""
        names, grows = dict(self.scan.columns), self.scan.table.growth is not None
        if grows or self.scan.one_row or not self._ranking.distinct:
            return ()
        return tuple(names[column] for column in self._ranking.order)

    @property
    def _day(self) -> list[str]:
        """The day of a row, by which rows of a table that grows are sorted first: the engine then finds those of some periods
        without reading the others."""
        growth = self.scan.table.growth
        column = next((column for column, name in self.scan.columns if growth is not None and name == growth.column), None)
        return [] if column is None else [f"CAST(t0.{quote(column)} AS DATE)"]

    @property
    def _ranking(self) -> Ranking:
        return Ranking(input=self.scan, by=(self.owner,), rows=1, order=row_order(self.scan, self.owner))

    @property
    def raw(self) -> dict[str, str]:
        """Aliases for the declared columns as they are in the table."""
        return {f"r{number}": name for number, (_, name) in enumerate(self.scan.columns)}

    def rows(self, printing: Printing) -> str:
        """The statement that selects the rows, with each column both as it is carried and as it is in the table."""
        return self.scan.rows_where(None, printing, beside={column: f"t0.{quote(name)}" for column, name in self.raw.items()})

    def sql(self, printing: Printing) -> str:
        """The statement that selects what is stored of a scan's rows, sorted by owner and, for each owner, by place; of a
        table that grows, by day and owner.

        Where rows have places, they are sorted once, by owner and in the keyed order, and a place is the number of a row in this
        line less that of the first one of its owner. That the engine keeps the line as it was sorted is nothing to rely on: see
        `told_sql`.
        """
        owner = f"t0.{quote(self.owner)}"
        order = [*self._day, owner, *(self._ranking.keyed(printing) if self.order else [])]
        kept = ", ".join([*(f"t0.{quote(column)}" for column in self.raw), f"{owner} AS \"@\""])
        line = f"SELECT {kept} FROM ({self.rows(printing)}) AS t0 ORDER BY {', '.join(order)}"
        shown = ", ".join(f"t1.{quote(column)} AS {quote(name)}" for column, name in {**self.raw, "@": OWNER}.items())
        if not self.order:
            return f"SELECT {shown} FROM ({line}) AS t1"
        numbered = f'SELECT t1.*, ROW_NUMBER() OVER () AS "#", LAG(t1."@") OVER () AS "#o" FROM ({line}) AS t1'
        first = 'CASE WHEN t1."#o" IS DISTINCT FROM t1."@" THEN t1."#" END'
        place = f't1."#" - MAX({first}) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) + 1'
        return f"SELECT {shown}, {place} AS {quote(PLACE)} FROM ({numbered}) AS t1"

    def told_sql(self, bucket: int, salt: int) -> str:
        """The statement that summarises the rows of a finished bucket in one row: their number, the most rows of one owner, the
        number of misplaced rows, and the ends of numbers."""
        stored = f"{place_in_bucket(self.scan.table.name, bucket)} AS t0"
        if self.order:
            known = [f"COUNT(*), COALESCE(MAX(t0.{quote(PLACE)}), 0), ({self._misplaced(bucket, salt)})"]
            source = stored
        else:
            known = ["CAST(COALESCE(SUM(t1.\"n\"), 0) AS BIGINT), COALESCE(MAX(t1.\"n\"), 0), 0"]
            source = f"(SELECT COUNT(*) AS \"n\" FROM {stored} GROUP BY t0.{quote(OWNER)}) AS t1"
        # one by one: the engine finds each of them without reading rows
        known += [f"(SELECT CAST({end}(t0.{quote(name)}) AS {kind}) FROM {stored})"
                  for name, kind in self._numeric.items() for end in ("MIN", "MAX")]
        return f"SELECT {', '.join(known)} FROM {source}"

    def days_sql(self, bucket: int) -> str:
        """The statement that summarises, of a table that grows, the rows of a finished bucket that are in any period: the most
        rows of one owner in one period, and the first and the last day, as `date.toordinal` numbers them."""
        growth, day = self.scan.table.growth, self._day[0]
        if growth is None:
            raise ReaderFault
        printing = Printing(stored={self.scan.table.name: StoredTable(shape="")}, bucket=bucket)
        always = PeriodRange(period="year", first=EARLIEST.year, last=LATEST.year)
        table = replace(self.scan.table, growth=replace(growth, period="year", calendar=()))
        rows = replace(self.scan, table=table, periods=always).render((), printing)
        grouped = f"t0.{quote(self.owner)}"  # and, but for calendars, which may have periods of any length, the period
        grouped += "" if growth.period == CALENDAR else f", date_trunc('{growth.period}', {day})"
        counted = f"SELECT COUNT(*) AS \"n\", MIN({day}) AS \"d\", MAX({day}) AS \"e\" FROM ({rows}) AS t0 GROUP BY {grouped}"
        first, last = (f"(DATE '1970-01-01' - {end}) * -1 + {UNIX}" for end in ("MIN(t1.\"d\")", "MAX(t1.\"e\")"))
        return f"SELECT COALESCE(MAX(t1.\"n\"), 0), {first}, {last} FROM ({counted}) AS t1"

    def _misplaced(self, bucket: int, salt: int) -> str:
        """The statement of the number of rows that are not in their places.

        LAG puts all rows into a line, whichever one the engine likes, in which each but the first has one before it. Let each row
        that has the owner of the one before be at the next place, and after that in the keyed order; let each other row be at
        place 1, and its owner after the one before. Then owners ascend along the line, so that the rows of each one stand
        together, in the keyed order, at places 1, 2, ...: their ranks in it. That holds whatever the line was, so nothing is
        believed of how rows are stored or read. What was before a row is one value, so that all of it is of the same row.
        """
        printing = Printing(salt=salt, stored={self.scan.table.name: StoredTable(shape="")}, bucket=bucket)
        rows = self.scan.rows_where(None, printing, beside={"#p": f"t0.{quote(PLACE)}"})
        key = ", ".join(f"'k{number}': {term}" for number, term in enumerate(self._ranking.keyed(printing)))
        row = f"{{'o': t0.{quote(self.owner)}, 'p': t0.\"#p\", 'k': {{{key}}}}}"
        line = f"SELECT t1.x AS x, LAG(t1.x) OVER () AS y FROM (SELECT {row} AS x FROM ({rows}) AS t0) AS t1"
        placed = ("CASE WHEN t2.y IS NULL THEN t2.x.p = 1 WHEN t2.x.o = t2.y.o THEN t2.x.p = t2.y.p + 1 AND t2.x.k > t2.y.k "
                  "ELSE t2.x.o > t2.y.o AND t2.x.p = 1 END")
        return (f"SELECT COUNT(*) FILTER (WHERE ({placed}) IS NOT TRUE) + GREATEST(COUNT(*) FILTER (WHERE t2.y IS NULL) - 1, 0) "
                f"FROM ({line}) AS t2")

    def told(self, row: Sequence[Any]) -> StoredTable:
        """The summary in the row of `told_sql`. Raises ReaderFault if rows are misplaced."""
        rows, most, misplaced, *found = row
        if misplaced:
            raise ReaderFault
        pairs = dict(zip(self._numeric, zip(found[::2], found[1::2], strict=True), strict=True))
        return StoredTable(shape="", rows=rows, most=most, ends={
            name: (low, high) if math.isfinite(low) and math.isfinite(high) else None
            for name, (low, high) in pairs.items() if low is not None})

    @property
    def _numeric(self) -> dict[str, str]:
        return {name: column.type.value for name, column in self.scan.table.columns.items() if column.type.numeric}
