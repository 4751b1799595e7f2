"""Tables that grow, read by a cluster of Spark: the condition on time is in the text that each task runs, and decides which rows it
counts. Starting Spark takes ten seconds, and each query about one."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.clusters import needs_spark, spark_policy
from support.growing_worlds import add_visits, project

import dpsql
from dpsql.audit.exact import Exact
from dpsql.backends.spark import SparkBuckets
from dpsql.catalog import growing
from dpsql.trusted.reader import Parts

TODAY = dt.date(2025, 5, 6)  # April is closed
MARCH = "visited_on >= DATE '2025-03-01' AND visited_on < DATE '2025-04-01'"
STATEMENTS = {
    f"SELECT COUNT(*) FROM visits WHERE {MARCH}": {"2025-03-01", "2025-04-01"},
    f"SELECT SUM(cost) FROM visits JOIN people USING (person_id) WHERE sex = 'f' AND {MARCH}": {"2025-03-01", "2025-04-01"},
    f"SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits WHERE {MARCH} GROUP BY person_id) WHERE n > 3": {"2025-03-01", "2025-04-01"},
    "SELECT COUNT(*) FROM visits": {"2025-01-01", "2025-05-01"},
}


def grown(folder: Path) -> Path:
    """Visits of forty people: on the ends of each month, some more often than the limit of four allows, and some without a day."""
    made = project(folder)
    ends = [day for month in range(1, 7) for day in (dt.date(2025, month, 1), dt.date(2025, month + 1, 1) - dt.timedelta(days=1))]
    add_visits(made, itertools.product(range(40), [*ends, None]))
    add_visits(made, [(person, dt.date(2025, 3, 2 + at)) for person in range(15) for at in range(9)])
    return made


def in_files_of_spark(policy: Path) -> None:
    """Let Spark alone see the tables."""
    text = policy.read_text().replace('database = "data.duckdb"\n', "")
    with duckdb.connect(policy.parent / "data.duckdb") as connection:
        for table in ("people", "visits"):
            (policy.parent / table).mkdir()
            connection.execute(f"COPY {table} TO '{policy.parent}/{table}/0.parquet'")
            text = text.replace(f"[tables.{table}]\n", f'[tables.{table}]\nsource = "spark:file://{policy.parent}/{table}"\n')
    policy.write_text(text)


def answers(policy: Path, statements: Iterator[str]) -> list[Any]:
    with dpsql.connect(policy=policy, budget="study", analyst="ada", epsilon=0.25) as connection:
        connection.session.kernel._noise = Exact()
        return [connection.execute(text).fetchall() for text in statements]


@needs_spark
@pytest.mark.parametrize("alone", [False, True], ids=["sent_to_spark", "in_spark_alone"])
def test_tasks_count_the_rows_of_the_periods_that_are_read(alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "today", lambda: TODAY)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = grown(tmp_path / "here"), grown(tmp_path / "there")
    if alone:
        in_files_of_spark(there)
    there.write_text(spark_policy(tmp_path, there.read_text()))
    made, = dpsql.prepare(policy=there, buckets=2)
    assert (made.buckets, {*made.tables}) == (2, {"people", "visits"})
    ran, collect = list[Parts](), SparkBuckets.collect
    monkeypatch.setattr(SparkBuckets, "collect", lambda self, cursor, parts, held: ran.append(parts) or collect(self, cursor, parts, held))
    wanted = answers(here, iter(STATEMENTS))
    assert wanted[0] == [(110,)] and wanted[2] == [(15,)]
    assert answers(there, iter(STATEMENTS)) == wanted
    assert len(ran) == len(STATEMENTS)
    for parts, days in zip(ran, STATEMENTS.values(), strict=True):
        for text in parts.statements:
            assert {day for day in ("2025-01-01", "2025-03-01", "2025-04-01", "2025-05-01") if f"CAST('{day}' AS DATE)" in text} == days, text
