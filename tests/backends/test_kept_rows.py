"""Rows that several queries read: made once, dropped where memory is short, and never those of other rows than are there."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import cursor_of, reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.store import Store
from dpsql.dbapi import Connection
from dpsql.trusted.plan.stored import StoredTable
from dpsql.trusted.reader import PARTS, Parts, ReaderFault, kept_name


@pytest.fixture
def reader() -> DuckReader:
    return reader_of(dense(people=200))


def kept(text: str) -> Parts:
    return Parts(name=kept_name(text), statements=(text,), kept=True)


def asked(reader: DuckReader, *tables: Parts) -> list[int]:
    return [reader.rows(f"SELECT COUNT(*) FROM {table.name}", tables)[0][0] for table in tables]


def names(reader: DuckReader) -> dict[str, int]:
    return dict(reader._kept._sizes)


def test_it_is_made_once(reader: DuckReader) -> None:
    drawn = kept("SELECT random() AS x FROM visits")
    first = reader.rows(f"SELECT MAX(x) FROM {drawn.name}", [drawn])
    assert reader.rows(f"SELECT MAX(x) FROM {drawn.name}", [drawn]) == first


def test_one_may_read_another(reader: DuckReader) -> None:
    counted = kept("SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id")
    many = kept(f"SELECT * FROM {counted.name} AS t WHERE n > 1")
    people, few = asked(reader, counted, many)
    assert people > few > 0


def test_the_oldest_goes_where_memory_is_short(reader: DuckReader) -> None:
    first, second, third = (kept(f"SELECT {at} AS x, * FROM people") for at in range(3))
    rows, _ = asked(reader, first, second)
    reader._kept._most = sum(names(reader).values())
    asked(reader, first)
    asked(reader, third)
    assert names(reader).keys() == {first.name, third.name}
    reader._kept._most = 0
    assert asked(reader, second) == [rows]  # what is asked for stays for its query
    assert names(reader).keys() == {second.name}


def in_buckets(reader: DuckReader, tables: list[Parts]) -> int:
    """The rows of one table for each bucket, read bucket by bucket."""
    read = Parts(statements=tuple(f"SELECT COUNT(*) AS n FROM {table.name}" for table in tables))
    return int(reader.rows(f"SELECT SUM(n) FROM {PARTS}", [*tables, read])[0][0])


def test_of_one_query_the_first_buckets_stay(reader: DuckReader) -> None:
    """The next query reads the buckets in the same order, and finds those; the last one stays, too, until then."""
    other, tables = kept("SELECT 1 AS x"), [kept(f"SELECT random() + {at} AS x FROM people") for at in range(5)]
    asked(reader, other)
    assert in_buckets(reader, tables) == 5 * 200 and names(reader).keys() == {other.name, *(table.name for table in tables)}
    reader._kept._most = 3 * names(reader)[tables[0].name]
    for _ in range(2):
        in_buckets(reader, tables)
        assert names(reader).keys() == {table.name for table in (*tables[:2], tables[4])}
    reader._kept._most = 0  # where none would stay, they are not made
    assert in_buckets(reader, tables) == 5 * 200 and not names(reader)


def test_buckets_that_read_released_rows_are_not_kept(reader: DuckReader) -> None:
    reader.hold("listed", "first", {"clinic": ("VARCHAR", ["a"])})
    whole, few = kept("SELECT * FROM people"), kept('SELECT v.person_id FROM visits AS v JOIN "listed" AS l ON v.clinic = l.clinic')
    above = kept(f"SELECT * FROM {few.name} AS t, {whole.name} AS u WHERE t.person_id = u.person_id")
    read = Parts(statements=(f"SELECT COUNT(*) AS n FROM {whole.name}", f"SELECT COUNT(*) AS n FROM {above.name}"))
    found = reader.rows(f"SELECT n FROM {PARTS} ORDER BY n DESC", [whole, few, above, read])
    assert found == [(200,), (asked(reader, few)[0],)] and found[1][0] > 0 and not names(reader)


def test_tables_are_compressed_where_memory_is_short(reader: DuckReader) -> None:
    tables = [kept(f"SELECT i AS entity, {at} + i % 1000 AS total FROM range(300000) AS t(i)") for at in range(4)]
    reader._kept._most = size = 2 * 8 * 300_000 * 2
    for table in tables:
        asked(reader, table)
    found = names(reader)
    assert found.keys() == {table.name for table in tables} and sum(found.values()) <= size
    (taken,), = reader.rows("SELECT SUM(memory_usage_bytes) FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'")
    assert taken < size
    assert reader.rows(f"SELECT SUM(total), SUM(entity) FROM {tables[1].name}", tables[1:2]) == [(150_150_000, 44_999_850_000)]


def test_after_a_fault_nothing_is_left(reader: DuckReader) -> None:
    fine, wrong = kept("SELECT 1 AS x"), kept("SELECT error('no') AS x FROM visits")
    asked(reader, fine)
    with pytest.raises(ReaderFault):
        asked(reader, fine, wrong)
    assert not names(reader)
    assert asked(reader, fine) == [1]


def test_released_rows_of_one_name_are_not_mixed_up(reader: DuckReader) -> None:
    joined = kept("SELECT v.person_id FROM visits AS v JOIN \"listed\" AS l ON v.clinic = l.clinic")
    reader.hold("listed", "first", {"clinic": ("VARCHAR", ["a"])})
    few, = asked(reader, joined)
    reader.hold("listed", "second", {"clinic": ("VARCHAR", ["a", "b"])})
    many, = asked(reader, joined)
    assert many > few > 0 and not names(reader)
    above = kept(f"SELECT * FROM {joined.name} AS t")
    assert reader.rows(f"SELECT COUNT(*) FROM {above.name}", [joined, above]) == [(many,)] and not names(reader)


def test_connections_to_one_engine_share_them(reader: DuckReader) -> None:
    other, drawn = cursor_of(reader), kept("SELECT random() AS x FROM visits")
    text = f"SELECT MAX(x) FROM {drawn.name}"
    assert reader.rows(text, [drawn]) == other.rows(text, [drawn])
    assert reader._kept is other._kept and reader_of(dense(people=3))._kept is not reader._kept


def test_one_that_another_reads_stays(reader: DuckReader) -> None:
    """Neither too little memory nor a fault of another's statement takes rows away from one that is under way."""
    other, mine, wrong = cursor_of(reader), kept("SELECT * FROM people"), kept("SELECT error('no') AS x FROM visits")
    reader._kept._most = 0
    with reader._cursor(f"SELECT * FROM {mine.name}", [mine]) as cursor:
        asked(other, kept("SELECT 1 AS x"))
        with pytest.raises(ReaderFault):
            asked(other, wrong)
        assert cursor.execute(f"SELECT COUNT(*) FROM {mine.name}").fetchall() == [(200,)]


def test_many_ask_at_once_and_it_is_made_once(reader: DuckReader) -> None:
    drawn, found = kept("SELECT random() AS x FROM visits AS a, people AS b"), []

    def ask() -> None:
        found.extend(cursor_of(reader).rows(f"SELECT MAX(x) FROM {drawn.name}", [drawn]))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1


def test_a_limit_changes_what_is_read_of_them_not_what_is_kept(reader: DuckReader, tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement asks for histograms and sums of one relation of entities, and the next one, with other limits, for the same."""
    monkeypatch.setattr(DuckReader, "keeps", True)
    policy = worlds.POLICY.replace("{ person = 3, household = 12 }", "{ person = 400, household = 4000 }")
    with Connection(session_of(tmp_path, reader=reader, policy=policy, noise=Exact(), at={"epsilon": 4})) as connection:
        truth, = reader.rows("SELECT SUM(least(greatest(cost, 0), 500)), COUNT(*) FROM visits")
        first = connection.execute("SELECT SUM(cost), COUNT(*) FROM visits").fetchall()
        made = names(reader)
        assert len(made) == 2  # rows by entity, and totals
        second = connection.execute("SELECT SUM(cost), COUNT(*) FROM visits", epsilon=3).fetchall()
        assert names(reader) == made
    assert first == second and float(first[0][0]) == pytest.approx(float(truth[0])) and first[0][1] == truth[1]


def test_nothing_is_kept_of_tables_that_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of small tables, which are read as fast again."""
    for rows, memory, keeps in ((10**5 - 1, "1GB", False), (10**5, "1GB", True), (13 * 10**6, "1GB", False), (12 * 10**6, "1GB", True)):
        reader = DuckReader(duckdb.connect(":memory:", config={"memory_limit": memory}), "v1")
        monkeypatch.setattr(DuckReader, "largest", lambda self, rows=rows: rows)
        assert reader.keeps is keeps
        reader.close()


def test_rows_of_buckets_are_kept_where_memory_has_room_for_one(reader: DuckReader) -> None:
    """And their names tell of which store they are."""
    found = set()
    for rows, buckets, keeps in ((10**5 - 1, 1, False), (10**5, 1, True), (10**11, 1, False), (10**11, 10**6, True)):
        reader._store = Store(entity="person", made_of="", buckets=(), tables={"visits": StoredTable(shape="", rows=rows, buckets=buckets)})
        assert bool(reader.keeps_of) is keeps
        found.add(kept_name("SELECT 1", reader.keeps_of))
    assert len(found) == 3
