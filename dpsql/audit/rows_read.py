"""`dpsql explain --rows`: how many rows a statement reads, and about how long that takes, for the owner alone.

Numbers of rows are private, and so is whatever follows from them: into how many buckets a store was cut, and the time. So this
has an entrance of its own, as `policy_on_rows` has: it opens the data itself, asks no kernel, charges and records nothing, and no
statement can reach it.

The time is not calculated from what other machines needed. A sample of the rows (a bucket, or the first rows of a table) is
grouped by entity here and now, which is what most of the time goes to; `FACTORS` says how statements compare with this, and
`tests/bench/scale.py` from what they were measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dpsql.catalog.model import Budget, Policy
from dpsql.engine.opening import find_ledger, fitted, open_data
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, asdict
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.stored import OWNER, place_in_bucket
from dpsql.trusted.reader import Reader, ReaderFault

SAMPLE = 4_000_000  # rows that are grouped to measure the time of one, where there is no store
FACTORS = (2, 12)  # the time of quick statements and of slow ones (medians, limits on rows), in that of grouping all rows once


class TableRead(Frozen):
    """A private table that a statement names: its rows (those with an owner, if it is in a store), and the number of their
    buckets, 0 if it is not in a store. `seconds` is the time of grouping all rows by entity; None if a
    cluster reads them."""

    table: str
    rows: int
    buckets: int
    seconds: float | None


class TablesRead(Frozen):
    """What the tables that a statement names have to give. `memory` is what the database may use before it goes to disk."""

    tables: tuple[TableRead, ...]
    memory: str

    @property
    def seconds(self) -> tuple[float, float] | None:
        """About how long the quickest and the slowest statements over these tables take; None if a cluster reads them."""
        known = [one.seconds for one in self.tables if one.seconds is not None]
        return (FACTORS[0] * sum(known), FACTORS[1] * sum(known)) if len(known) == len(self.tables) else None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": self.seconds}

    def __str__(self) -> str:
        if not self.tables:
            return "PRIVATE: no private rows are read"
        named = "; ".join(f"{one.rows:,} rows of {one.table}, {_where(one.buckets)}" for one in self.tables)
        return f"PRIVATE: reads {named}; {self.memory} of memory, then goes to disk; {_told(self.seconds)}"


def reading(policy: Policy, budget: Budget, database: str | Path | None, ledger: str | Path | None, *,
            named: Collection[str]) -> TablesRead:
    """The rows that statements about these tables read, under a budget. The ledger is opened because a store belongs to it.

    Raises PolicyError, OperationalError or LedgerError as a connection would.
    """
    with contextlib.closing(ReportingLedger(*find_ledger(policy, ledger))) as book, \
            contextlib.closing(open_data(policy, database, budget, book)) as reader:
        catalog = fitted(policy, budget.name, reader)
        tables = {found.name: found for name in named if (found := catalog.table(name)) is not None and not found.public}
        try:
            (memory,), = reader.rows("SELECT current_setting('memory_limit')")
            return TablesRead(memory=memory, tables=tuple(_read(reader, table) for table in tables.values()))
        except ReaderFault:
            raise OperationalError("the rows could not be read", code="no-database") from None


def _read(reader: Reader, table: Table) -> TableRead:
    stored = reader.stored.get(table.name)
    if stored is not None and not stored.at_once:
        return TableRead(table=table.name, rows=stored.rows, buckets=stored.buckets, seconds=None)
    if stored is not None:
        seconds = _seconds(reader, place_in_bucket(table.name, 0), OWNER) * stored.buckets
        return TableRead(table=table.name, rows=stored.rows, buckets=stored.buckets, seconds=seconds)
    (rows,), = reader.rows(f"SELECT COUNT(*) FROM {quote(table.name)}")
    sample = f"(SELECT * FROM {quote(table.name)} LIMIT {SAMPLE})"
    return TableRead(table=table.name, rows=rows, buckets=0,
                     seconds=_seconds(reader, sample, _owner_like(table)) * max(1.0, rows / SAMPLE))


def _owner_like(table: Table) -> str:
    """The column that identifies the owner of each row."""
    way = table.owners[0]
    return way.steps[0].columns[0] if way.steps else way.column


def _seconds(reader: Reader, rows: str, owner: str) -> float:
    begun = time.perf_counter()
    counted = f"SELECT COUNT(*) AS \"n\" FROM {rows} AS t1 GROUP BY t1.{quote(owner)}"
    reader.rows(f"SELECT COUNT(*), MAX(t0.\"n\") FROM ({counted}) AS t0")
    return time.perf_counter() - begun


def _where(buckets: int) -> str:
    return f"in {buckets} bucket{'s' * (buckets != 1)} of a store" if buckets else "where they are"


def _told(seconds: tuple[float, float] | None) -> str:
    if seconds is None:
        return "the time depends on the cluster"
    low, high = (f"{value:.0f}" if value >= 10 else f"{value:.1g}" for value in seconds)
    return f"from about {low} to {high} seconds, depending on the query"
