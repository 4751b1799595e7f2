"""Wherever the rows are, the same statement has the same exact answer: in memory, in a database file, in Parquet files, in both, and in
snapshots of SQLite and PostgreSQL."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from support.files import opened_files
from support.golden.comparison import FOLDER, PLENTY, released, short, texts
from support.golden.dense import dense
from support.postgres import WHY, program
from support.sessions import open_ledger, reader_of, session_of
from support.snapshots import in_postgres, in_sqlite, snapshot_of, tables_of
from support.worlds import SCHEMA, insert

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, attach_memory, lock_down, open_database
from dpsql.engine.session import Session
from dpsql.errors import SqlError

KEYS = {"households": ["household_id"], "people": ["person_id"], "visits": ["visit_id"], "clinics": ["clinic"]}


def in_files(folder: Path) -> DuckReader:
    """Each table in three files, its rows spread over them, in small blocks."""
    with duckdb.connect(str(dense().save(folder / "world.duckdb"))) as connection:
        for table in SCHEMA:
            (folder / table).mkdir()
            for part in range(3):
                rows = f"SELECT * FROM {table} AS t WHERE hash(t::VARCHAR) % 3 = {part} ORDER BY hash(t::VARCHAR)"
                connection.execute(f"COPY ({rows}) TO '{folder / table / f'{part}.parquet'}' (FORMAT PARQUET, ROW_GROUP_SIZE 2048)")
    shutil.copy(folder / "world.duckdb", folder / "others.duckdb")
    with duckdb.connect(str(folder / "others.duckdb")) as connection:
        connection.execute("DROP TABLE visits; DROP TABLE clinics")
    return opened_files({table: folder / table for table in SCHEMA}, KEYS)


def of_long_numbers() -> DuckReader:
    """In memory, with the types of SQLite, whose whole numbers all have 64 bits."""
    connection = duckdb.connect()
    for table, columns in SCHEMA.items():
        connection.execute(f"CREATE TABLE {table} ({columns.replace('INTEGER', 'BIGINT')})")
        insert(connection, table, dense().rows[table])
    attach_memory(connection)
    lock_down(connection)
    return DuckReader(connection, "v1")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Session]]]:
    """One ledger, so one salt, for all."""
    folder, ledger = tmp_path_factory.mktemp("places"), open_ledger(tmp_path_factory.mktemp("ledger"))
    readers = [reader_of(dense()), in_files(folder), open_database(folder / "world.duckdb"),
               opened_files({name: folder / name for name in ("visits", "clinics")}, KEYS, database=folder / "others.duckdb"),
               *([snapshot_of(in_postgres(tables_of(dense())).uri, folder / "postgres")] if program("initdb") else []),
               of_long_numbers(), snapshot_of(in_sqlite(folder / "world.sqlite", tables_of(dense())), folder / "sqlite")]
    yield {budget: [session_of(folder, reader=reader, noise=Exact(), budget=budget, at=PLENTY, ledger=ledger) for reader in readers]
           for budget in ("person", "household")}
    for reader in readers:
        reader.close()


@pytest.mark.skipif(program("initdb") is None, reason=WHY)
def test_postgres_is_among_them(sessions: dict[str, list[Session]]) -> None:
    assert len(sessions["person"]) == 7


TABLES = re.compile(rf"\b({'|'.join(SCHEMA)})\b")
STATEMENTS = [("person", text) for text in texts(FOLDER / "answers.sql")]
STATEMENTS += [("household", text) for text in texts(FOLDER / "answers_of_households.sql")]


@pytest.mark.parametrize(("budget", "text"), STATEMENTS, ids=[f"{budget}-{short(text)}" for budget, text in STATEMENTS])
def test_answers_are_equal_wherever_the_rows_are(budget: str, text: str, sessions: dict[str, list[Session]]) -> None:
    *others, long, sqlite = sessions[budget]
    first, *answers = [released(text, session)[0] for session in others]
    for answer in answers:
        assert_equal(answer, first, text)
    try:
        first = released(text, long)[0]
    except SqlError as refused:  # numbers of 64 bits may be too large
        with pytest.raises(SqlError, match=re.escape(refused.reason)):
            released(text, sqlite)
    else:
        assert_equal(released(text, sqlite)[0], first, text)


ODD = (  # as SQL of both; of the last ones each has rows that are its own in one engine, and another's or nobody's in the next
    "UPDATE people SET born = 'infinity' WHERE person_id % 7 = 0", "UPDATE people SET born = '-infinity' WHERE person_id % 7 = 1",
    "UPDATE people SET born = '5874897-12-31' WHERE person_id % 7 = 2", "UPDATE people SET weight = 'NaN' WHERE person_id % 5 = 0",
    "UPDATE people SET weight = '-Infinity' WHERE person_id % 5 = 1", "UPDATE people SET weight = '-0.0' WHERE person_id % 5 = 2",
    "UPDATE people SET income = 'Infinity' WHERE person_id % 3 = 0", "UPDATE people SET income = 1e300 WHERE person_id % 3 = 1",
    "UPDATE people SET nickname = 'é' WHERE person_id % 4 = 0", "UPDATE people SET nickname = 'É' WHERE person_id % 4 = 1",
    "UPDATE people SET household_id = NULL WHERE person_id % 6 = 0", "UPDATE visits SET person_id = NULL WHERE visit_id % 6 = 1",
    "UPDATE visits SET person_id = 100000 WHERE visit_id % 6 = 2", "UPDATE visits SET seen = 'infinity' WHERE visit_id % 5 = 0",
    "UPDATE visits SET cost = -99999999.99 WHERE visit_id % 5 = 1")


@pytest.fixture(scope="module")
def odd_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Session]]]:
    """In memory and in a snapshot of PostgreSQL, with values that engines take for one another."""
    folder, ledger = tmp_path_factory.mktemp("odd"), open_ledger(tmp_path_factory.mktemp("odd_ledger"))
    database, memory = in_postgres(tables_of(dense())), duckdb.connect()
    database.run(*ODD)
    dense().fill(memory)
    for sql in ODD:
        memory.execute(sql)
    attach_memory(memory)
    lock_down(memory)
    readers = [DuckReader(memory, "v1"), snapshot_of(database.uri, folder / "postgres")]
    yield {budget: [session_of(folder, reader=reader, noise=Exact(), budget=budget, at=PLENTY, ledger=ledger) for reader in readers]
           for budget in ("person", "household")}
    for reader in readers:
        reader.close()


@pytest.mark.parametrize(("budget", "text"), STATEMENTS, ids=[f"{budget}-{short(text)}" for budget, text in STATEMENTS])
def test_odd_values_are_read_as_in_memory(budget: str, text: str, odd_sessions: dict[str, list[Session]]) -> None:
    first, answer = [released(text, session)[0] for session in odd_sessions[budget]]
    assert_equal(answer, first, text)


def assert_equal(answer: Answer, first: Answer, text: str) -> None:
    assert answer.columns == first.columns
    if set(TABLES.findall(text)) <= {"clinics"}:  # of public rows, whose order is nobody's, and in which numbers are added up
        assert sorted(map(rounded, answer.rows), key=str) == sorted(map(rounded, first.rows), key=str)
    else:
        assert answer.rows == first.rows


def rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(float(f"{value:.12g}") if isinstance(value, float) else value for value in row)
