"""Prepared stores of tables that grow: what is written when files come, what stays, which parts a statement reads, and what is known
of them."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.audit.exact import Exact
from dpsql.backends import manifests, store_parts
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.store import Store, last_store
from dpsql.catalog import growing
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.trusted.declarations.growth import KINDS, PeriodRange, period_of
from dpsql.trusted.plan.stored import StoredPart, StoredTable, bucket_name

BEGIN = dt.date(2025, 1, 1)
POLICY = """
version = 1
[store]
prepare = false
[entities.person]
table = "people"
key = "person_id"
[tables.people]
source = "people.parquet"
key = "person_id"
[tables.people.columns]
person_id = {{}}
sex = {{ values = ["f", "m"], nullable = false }}
[tables.visits]
source = "visits"
{key}grows_by = "visited"
period = "{period}"
since = 2025-01-01
rows_per_entity_and_period = 2
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
[tables.visits.columns]
visit_id = {{}}
person_id = {{}}
visited = {{}}
cost = {{ bounds = [0, 100], decimals = 0 }}
[budgets.study]
entity = "person"
epsilon = 1000
per_period = {{ epsilon = 1000 }}
"""
STATEMENTS = (
    "SELECT COUNT(*) FROM visits WHERE visited = DATE '{}'", "SELECT SUM(cost) FROM visits JOIN people USING (person_id) WHERE visited = DATE '{}' AND sex = 'f'",
    "SELECT COUNT(*) FROM visits WHERE visited >= DATE '{}'", "SELECT COUNT(DISTINCT person_id) FROM visits", "SELECT SUM(cost) FROM visits WHERE visited <= DATE '{}'",
    "SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits WHERE visited <= DATE '{}' GROUP BY person_id) WHERE n > 2",
    "SELECT COUNT(*) FROM (SELECT visited FROM visits WHERE visited <= DATE '{}' GROUP BY visited)",
)


class Project:
    """People, and visits in a file for each day, some days with rows of other days; and what statements count."""

    def __init__(self, folder: Path, *, period: str = "day", key: str = 'key = "visit_id"\n', seed: int = 0) -> None:
        self.folder, self.draw, self.numbers, self.asked = folder, random.Random(seed), itertools.count(), itertools.count()
        (folder / "visits").mkdir()
        self.policy = folder / "dpsql.toml"
        self.policy.write_text(POLICY.format(period=period, key=key))
        self.people(60)
        ReportingLedger.create(folder / "dpsql.ledger").close()

    def people(self, number: int) -> None:
        duckdb.sql(f"COPY (SELECT i AS person_id, ['f', 'm'][1 + i % 2] AS sex FROM range({number}) AS t(i)) TO '{self.folder}/people.parquet'")

    def add(self, name: str, day: int, rows: int = 40, *, late: int = 0, most: int = 60) -> None:
        """A file with rows of a day, of which some are late and one has no day."""
        days: list[Any] = [BEGIN + dt.timedelta(days=day - (self.draw.randrange(9) if at < late else 0)) for at in range(rows)] + [None]
        made = [(next(self.numbers), self.draw.randrange(most), at, self.draw.randrange(-5, 120)) for at in days]
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE t (visit_id INTEGER, person_id INTEGER, visited DATE, cost INTEGER)")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", made)
            (self.folder / "visits" / f"{name}.parquet").unlink(missing_ok=True)
            connection.execute(f"COPY t TO '{self.folder}/visits/{name}.parquet'")

    def prepare(self, buckets: int | None = None) -> Store:
        dpsql.prepare(policy=self.policy, buckets=buckets)
        return self.store()

    def store(self) -> Store:
        ledger = ReportingLedger(self.folder / "dpsql.ledger")
        found = last_store(self.folder / "dpsql.ledger.store", "person", FactsBesideLedger(ledger))
        ledger.close()
        assert found is not None
        return found

    def counted(self, statements: Sequence[str], *, stored: bool) -> list[Any]:
        """What the kernel counts, in the store or in the files."""
        text, policy = self.policy.read_text(), self.folder / ("dpsql.toml" if stored else "files.toml")
        if not stored:
            policy.write_text(text.replace("prepare = false", 'prepare = false\nfolder = "none"'))
        with dpsql.connect(policy=policy, ledger=self.folder / "dpsql.ledger", analyst=f"ada{next(self.asked)}", epsilon=0.001) as connection:
            connection.session.kernel._noise = Exact()
            assert bool(connection.session.kernel._reader.stored) is stored
            return [connection.execute(statement).fetchall() for statement in statements]

    def agrees(self, *days: int) -> list[Any]:
        """Statements count the same in the store and in the files."""
        statements = [statement.format(BEGIN + dt.timedelta(days=day)) for statement in STATEMENTS for day in days]
        found = self.counted(statements, stored=True)
        assert found == self.counted(statements, stored=False)
        return found

    def files(self) -> dict[str, tuple[int, int]]:
        return {str(file): (file.stat().st_ino, file.stat().st_mtime_ns) for file in (self.folder / "dpsql.ledger.store").rglob("*.duckdb")}


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "today", lambda: BEGIN + dt.timedelta(days=40))


def test_a_new_file_is_added_and_the_rows_before_stay_where_they_are(tmp_path: Path) -> None:
    made = Project(tmp_path)
    for day in range(5):
        made.add(f"{day}", day)
    assert len(made.prepare(buckets=2).parts) == 1
    before = made.files()
    made.add("5", 5)
    store = made.prepare()
    assert before.items() <= made.files().items() and len(made.files()) == len(before) + 2
    assert [part.rows for part in store.tables["visits"].parts] == [5 * 41, 41]
    made.agrees(2, 5)


def test_without_new_files_nothing_is_written(tmp_path: Path) -> None:
    made = Project(tmp_path)
    made.add("0", 0)
    made.prepare()
    before = made.files()
    made.prepare()
    assert made.files() == before


def test_new_people_are_written_and_parts_stay(tmp_path: Path) -> None:
    """Also those beyond the range by which entities were put into buckets."""
    made = Project(tmp_path)
    made.add("0", 0)
    made.prepare(buckets=3)
    before = made.files()
    made.people(200)
    made.add("1", 1, most=200)
    made.prepare()
    assert len(before.items() & made.files().items()) == 3 and len(made.files()) == 9
    made.agrees(0, 1)


def test_a_file_that_changed_or_went_away_is_not_read_from_the_store(tmp_path: Path) -> None:
    made = Project(tmp_path)
    for day in range(3):
        made.add(f"{day}", day)
        made.prepare()
    assert len(made.store().parts) == 3
    made.add("1", 1, rows=10)
    (tmp_path / "visits" / "2.parquet").unlink()
    before = made.files()
    assert [part.rows for part in made.prepare().tables["visits"].parts] == [41, 11]
    assert len(before.items() & made.files().items()) == 2
    made.agrees(0, 1)


def test_a_store_is_not_read_between_a_change_and_its_preparation(tmp_path: Path) -> None:
    made = Project(tmp_path)
    made.add("0", 0)
    made.prepare()
    made.add("1", 1)
    assert made.counted(["SELECT COUNT(*) FROM visits WHERE cost > 1000"], stored=False) == [[(0,)]]
    with dpsql.connect(policy=made.policy, epsilon=0.001) as connection:
        assert not connection.session.kernel._reader.stored


@pytest.mark.parametrize("change", ["column", "period", "key"])
def test_another_declaration_writes_all_rows_again(change: str, tmp_path: Path) -> None:
    made = Project(tmp_path)
    for day in range(2):
        made.add(f"{day}", day)
        made.prepare()
    before, text = made.files(), made.policy.read_text()
    made.policy.write_text({"column": text.replace("cost = { bounds = [0, 100], decimals = 0 }\n", ""), "period": text.replace('"day"', '"month"'),
                            "key": text.replace('key = "visit_id"\n', "")}[change])
    assert len(made.prepare().parts) == 1
    assert {*made.files()} & {*before} == {file for file in before if str(made.store().buckets[0].path) == file}


# -- what is known of parts


def test_facts_are_those_of_the_rows_of_a_part(tmp_path: Path) -> None:
    made = Project(tmp_path, period="month")
    for day in (3, 35):
        made.add(f"{day}", day, rows=200, late=150)
        made.prepare(buckets=3)
    store = made.store()
    for part in store.tables["visits"].parts:
        rows = f"(SELECT * FROM read_parquet('{store.parts[part.number].read[0].path}') WHERE person_id IS NOT NULL)"
        assert (part.rows, part.most) == duckdb.sql(f"SELECT SUM(n), MAX(n) FROM (SELECT COUNT(*) AS n FROM {rows} GROUP BY person_id)").fetchall()[0]
        (most, first, last), = duckdb.sql(f"SELECT MAX(n), MIN(d), MAX(e) FROM (SELECT COUNT(*) AS n, MIN(visited) AS d, MAX(visited) AS e FROM {rows} "
                                       "WHERE visited IS NOT NULL GROUP BY person_id, date_trunc('month', visited))").fetchall()
        assert (part.in_period, part.first, part.last) == (most, first.toordinal(), last.toordinal())
        assert part.ends["cost"] == duckdb.sql(f"SELECT MIN(cost), MAX(cost) FROM {rows}").fetchall()[0]


@pytest.mark.parametrize("period", KINDS)
def test_the_most_rows_in_some_periods_are_never_understated(period: Any) -> None:
    """Rows of a person in several parts, over all ranges of periods near the rows."""
    draw = random.Random(KINDS.index(period))
    for _ in range(60):
        wide = {"day": 12, "week": 60, "month": 200, "quarter": 500, "year": 2500}[period]
        rows = [[(draw.randrange(3), BEGIN + dt.timedelta(days=draw.randrange(wide))) for _ in range(draw.randrange(1, 30))] for _ in range(3)]
        parts = []
        for number, found in enumerate(rows):
            owners = [sum(1 for who, _ in found if who == one) for one in range(3)]
            inside = [sum(1 for row in found if (row[0], period_of(period, row[1])) == at) for at in {(who, period_of(period, day)) for who, day in found}]
            parts.append(StoredPart(number=number, rows=len(found), most=max(owners), in_period=max(inside),
                                    first=min(day for _, day in found).toordinal(), last=max(day for _, day in found).toordinal()))
        table = StoredTable(shape="", parts=tuple(parts), most=sum(part.most for part in parts))
        numbers = sorted({period_of(period, BEGIN + dt.timedelta(days=at)) for at in range(-3, wide + 3)})
        for first, last in itertools.combinations_with_replacement(numbers[::max(1, len(numbers) // 9)], 2):
            periods = PeriodRange(period=period, first=first, last=last)
            there = [[who for who, day in found if first <= period_of(period, day) <= last] for found in rows]
            assert {part.number for part in table.read_in(periods)} >= {number for number, found in enumerate(there) if found}
            assert max(sum(found.count(one) for found in there) for one in range(3)) <= table.most_in(periods) <= table.most
    alone = table.most_in(PeriodRange(period=period, first=numbers[3], last=numbers[3]))
    assert alone < table.most  # it does not count the rows of all periods


def test_a_statement_reads_the_parts_of_its_periods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, texts = Project(tmp_path), list[str]()
    for day in range(4):
        made.add(f"{day}", day)
        made.prepare()
    rows = DuckReader._cursor
    monkeypatch.setattr(DuckReader, "_cursor", lambda self, sql="", parts=(): texts.extend([sql, *(text for part in parts for text in part.statements)])
                        or rows(self, sql, parts))
    made.counted([f"SELECT COUNT(*) FROM visits WHERE visited = DATE '{BEGIN + dt.timedelta(days=2)}'"], stored=True)
    read = {part.number for part in made.store().tables["visits"].parts for text in texts if bucket_name(0, part) in text and "CAST('2025-01-03' AS DATE)" in text}
    assert len(read) == 1
    texts.clear()
    made.counted(["SELECT COUNT(*) FROM visits WHERE cost > 1"], stored=True)
    assert {part.number for part in made.store().tables["visits"].parts for text in texts if bucket_name(0, part) in text} == {0, 1, 2, 3}


@pytest.mark.parametrize(("buckets", "period", "key", "seed"), [
    (1, "day", 'key = "visit_id"\n', 0), (3, "month", "", 1), (2, "week", 'key = "visit_id"\n', 2)])
def test_a_store_that_was_added_to_counts_as_its_files(buckets: int, period: str, key: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come, change and go, rows are late, and parts are put together."""
    monkeypatch.setattr(store_parts, "MOST_PARTS", 3)
    made = Project(tmp_path, period=period, key=key, seed=seed)
    numbers = set[int]()
    for day in range(12):
        made.add(f"{day}", day, rows=made.draw.randrange(1, 80), late=made.draw.randrange(20), most=made.draw.choice([5, 60]))
        if day % 5 == 3:
            made.add(f"{day - 2}", day - 2, rows=7)
            (tmp_path / "visits" / f"{day - 3}.parquet").unlink()
        numbers.add(len(made.prepare(buckets).parts))
        if day % 3 == 2:
            made.agrees(day, max(0, day - 4))
    assert max(numbers) == 3


def test_faults_in_facts_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is left out, and a number of rows that is too small, change what is counted."""
    made = Project(tmp_path)
    for day in range(3):
        made.add(f"{day}", day, rows=90, most=10)
        made.prepare()
    made.agrees(1)
    with monkeypatch.context() as patched:
        patched.setattr(StoredTable, "read_in", lambda self, periods: self.parts[:2])
        assert made.counted(["SELECT COUNT(*) FROM visits"], stored=True) != made.counted(["SELECT COUNT(*) FROM visits"], stored=False)
    monkeypatch.setattr(StoredTable, "most_in", lambda self, periods: 1)
    one = ["SELECT COUNT(*) FROM visits WHERE visited = DATE '2025-01-02'"]
    assert made.counted(one, stored=True) != made.counted(one, stored=False)


# -- broken off


KILLED = """
import os, sys
from dpsql.backends import duckdb, manifests, store_parts
left = [int(sys.argv[2])]
def counting(found):
    def counted(*args, **named):
        left[0] -= 1
        if left[0] == 0:
            os._exit(9)
        return found(*args, **named)
    return counted
duckdb.DuckReader.write = counting(duckdb.DuckReader.write)
manifests._sync = counting(manifests._sync)
store_parts.put_in_place = counting(store_parts.put_in_place)
store_parts.tidy = counting(store_parts.tidy)
import dpsql
dpsql.prepare(policy=sys.argv[1], buckets=2)
print(left[0])
"""


def test_a_process_that_is_killed_leaves_the_store_before_or_the_new_one(tmp_path: Path) -> None:
    made, at, ends = Project(tmp_path), 0, list[int]()
    made.add("0", 0)
    first = made.prepare(buckets=1)
    ended = None
    while ended != 0:
        at += 1
        ended = subprocess.run([sys.executable, "-c", KILLED, str(made.policy), str(at)], check=False, capture_output=True).returncode
        store = made.store()
        assert ended in (0, 9) and all(file.stands() for file in store.files.values())
        assert store == first or store.cut != first.cut
        ends.append(store != first)
        if store != first:
            made.agrees(0)
            first = made.prepare(buckets=1)
    assert ends == sorted(ends) and 5 < at < 60 and not all(ends[:-2])
    assert len([place for place in (tmp_path / "dpsql.ledger.store").iterdir() if place.is_dir()]) == 2


def test_an_interruption_removes_what_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Project(tmp_path)
    made.add("0", 0)
    first = made.prepare()
    made.add("1", 1)
    before = made.files()

    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(manifests, "_sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made.prepare()
    assert made.files() == before and made.store() == first
    assert len(made.prepare().parts) == 2
    made.agrees(0, 1)
