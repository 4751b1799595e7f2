"""What a new day costs: a table of two years by day, and one day more, in Parquet files, a DuckDB file and PostgreSQL.

    python tests/bench/arrival.py [--rows 10000000] [--kinds files duckdb postgresql]

For the first load and for the new day: the seconds of `dpsql refresh`, of connecting, and of a count by sex over the newest day,
and how many megabytes each of these reads (of files; for PostgreSQL also how many rows the server reads for the refresh).
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))

import dpsql
from dpsql.catalog import growing
from dpsql.engine.refreshing import refresh
from dpsql.ledgers.ledger_reports import ReportingLedger

DAYS, PEOPLE, FIRST = 730, 200_000, dt.date(2024, 1, 1)
POLICY = """
version = 1
{database}
[entities.person]
table = "people"
key = "person_id"
[tables.people]
key = "person_id"
{people}
columns = {{ person_id = {{}}, sex = {{ values = ["f", "m"], nullable = false }} }}
[tables.visits]
{visits}
grows_by = "visited_on"
period = "day"
since = 2024-01-01
rows_per_entity_and_period = 4
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
columns = {{ person_id = {{}}, visited_on = {{}}, cost = {{ bounds = [0, 100], decimals = 0 }} }}
[budgets.study]
entity = "person"
epsilon = 1000
per_period = {{ epsilon = 1000 }}
"""
COUNT = ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) sex, COUNT(*) AS n, SUM(cost) AS cost FROM visits JOIN people USING (person_id) "
         "WHERE visited_on = DATE '{}' GROUP BY sex")
PERSONS = f"SELECT i AS person_id, CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END AS sex FROM range({PEOPLE}) AS t(i)"


def visits(day: int, rows: int) -> str:
    """The query of the visits of a day."""
    return (f"SELECT CAST(hash(i + {day} * 1000003) % {PEOPLE} AS INTEGER) AS person_id, DATE '{FIRST + dt.timedelta(day)}' AS visited_on, "
            f"CAST(hash(i * 7 + {day}) % 100 AS INTEGER) AS cost FROM range({rows}) AS t(i)")


class Files:
    """A file for each day."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        (folder / "visits").mkdir()
        duckdb.sql(f"COPY ({PERSONS}) TO '{folder}/people.parquet'")
        for day in range(DAYS):
            self.add(day)

    def add(self, day: int) -> None:
        duckdb.sql(f"COPY ({visits(day, self.rows)}) TO '{self.folder}/visits/{FIRST + dt.timedelta(day)}.parquet'")

    policy = POLICY.format(database="", people='source = "people.parquet"', visits='source = "visits/*.parquet"')


class DuckFile:
    """Two files, of which one has the visits."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        duckdb.sql(f"COPY ({PERSONS}) TO '{folder}/people.parquet'")
        self._run("CREATE TABLE visits (person_id INTEGER, visited_on DATE, cost INTEGER)")
        for day in range(DAYS):
            self.add(day)

    def add(self, day: int) -> None:
        self._run(f"INSERT INTO visits {visits(day, self.rows)}")

    def _run(self, sql: str) -> None:
        with duckdb.connect(self.folder / "visits.duckdb") as connection:
            connection.execute(sql)

    policy = POLICY.format(database="", people='source = "people.parquet"', visits='source = "visits.duckdb"')


class InPostgres:
    """Two tables of a PostgreSQL database, with an index by day."""

    def __init__(self, folder: Path, rows: int) -> None:
        from support.postgres import fresh

        self.rows, self.database = rows, fresh()
        self.database.run("CREATE TABLE people (person_id INTEGER PRIMARY KEY, sex TEXT)",
                          f"INSERT INTO people SELECT i, CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END FROM generate_series(0, {PEOPLE - 1}) AS i",
                          "CREATE TABLE visits (person_id INTEGER, visited_on DATE, cost INTEGER)", self._insert(0, DAYS),
                          "CREATE INDEX ON visits (visited_on)", "ANALYZE")
        source = f'source = "{self.database.uri}"'
        self.policy = POLICY.format(database="", people=source, visits=source)

    def _insert(self, first: int, days: int) -> str:
        return (f"INSERT INTO visits SELECT (abs(hashint4(i)) + d) % {PEOPLE}, DATE '{FIRST}' + d, abs(hashint4(i + d)) % 100 "
                f"FROM generate_series({first}, {first + days - 1}) AS d, generate_series(1, {self.rows}) AS i")

    def add(self, day: int) -> None:
        self.database.run(self._insert(day, 1))

    def rows_read(self) -> int:
        from support.postgres import _connection

        time.sleep(1.5)  # the server's statistics come late
        with _connection(self.database.uri) as connection:
            import pyarrow as pa  # type: ignore[import-untyped]
            from adbc_driver_manager import AdbcStatement

            statement = AdbcStatement(connection)
            statement.set_sql_query("SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables")
            stream, _ = statement.execute_query()
            found = pa.RecordBatchReader._import_from_c(stream.address).read_all().column(0)[0].as_py()
            statement.close()
        return int(found)


KINDS: dict[str, Callable[[Path, int], Any]] = {"files": Files, "duckdb": DuckFile, "postgresql": InPostgres}


def read_so_far() -> int:
    """The bytes that this process has read of files."""
    return int(Path("/proc/self/io").read_text().split()[1])


def measured(name: str, step: Callable[[], Any]) -> tuple[Any, str]:
    begun, before = time.perf_counter(), read_so_far()
    made = step()
    return made, f"{name} {time.perf_counter() - begun:6.2f} s {(read_so_far() - before) / 1e6:8.1f} MB"


def load(folder: Path, source: Any, day: int) -> Iterator[str]:
    """What it costs to see a day, and to ask for it."""
    growing.today = lambda: FIRST + dt.timedelta(day + 1)
    if isinstance(source, InPostgres):
        before = source.rows_read()
        _, told = measured("refresh", lambda: refresh(policy=folder / "dpsql.toml"))
        yield told
        yield f"{source.rows_read() - before:,} rows"
    connection, told = measured("connect", lambda: dpsql.connect(policy=folder / "dpsql.toml", budget="study", analyst="ada"))
    yield told
    with connection:
        text = COUNT.format(FIRST + dt.timedelta(day))
        yield measured("statement", lambda: connection.execute(text).fetchall())[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=[*KINDS])
    terms = parser.parse_args()
    for kind in terms.kinds:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source = KINDS[kind](folder, terms.rows // DAYS)
            (folder / "dpsql.toml").write_text(source.policy, encoding="utf-8")
            ReportingLedger.create(folder / "dpsql.ledger").close()
            print(f"{kind:10} first load:  ", *load(folder, source, DAYS - 1), sep="  ", flush=True)
            for day in (DAYS, DAYS + 1):
                source.add(day)
                print(f"{kind:10} a new day:   ", *load(folder, source, day), sep="  ", flush=True)
            print(f"{kind:10} nothing new: ", *load(folder, source, DAYS + 1), sep="  ", flush=True)


if __name__ == "__main__":
    main()
