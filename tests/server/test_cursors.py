"""Cursors in SQL: as drivers use them, their errors and limits, and their moves against those of a PostgreSQL."""

from __future__ import annotations

import asyncio
import importlib
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support import postgres
from support.frontend_messages import FLUSH, SYNC, bind, describe, execute, parse, query
from support.seats import wait_until
from support.wire_servers import PASSWORD, Raw, Running, fields, kinds, running, served

from dpsql.demo import folder
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, RefusedOnWire
from dpsql.server.front.wire.cursors import CursorOnWire, closed_cursor, cursor_move, declared_cursor

COUNTED = "SELECT health, COUNT(*) AS n FROM people GROUP BY health ORDER BY health"
HEALTH = ["excellent", "fair", "good", "poor"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("cursors")) as found:
        yield found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(folder.export(tmp_path_factory.mktemp("demo") / "demo"), budget="study") as found:
        yield found.dsn


@pytest.fixture
def raw(server: Running) -> Iterator[Raw]:
    with Raw(server.port) as found:
        assert found.login(database="study")[-1] == ("Z", b"I")
        yield found


def said(raw: Raw, text: str) -> str:
    """The kinds of the replies to a query, with the SQLSTATE of an error."""
    raw.send(query(text))
    found = raw.until("Z")
    return kinds(found).replace("E", "".join(f"({fields(body)['C']})" for kind, body in found if kind == "E"))


def library(name: str) -> Any:
    pytest.importorskip(name)
    return importlib.import_module(name)


# -- drivers


def test_psycopg_2_named_cursors(demo: str) -> None:
    psycopg2 = library("psycopg2")
    with psycopg2.connect(demo) as con:
        for scrollable in (None, True):
            with con.cursor("named", scrollable=scrollable) as cursor:
                cursor.itersize = 2
                cursor.execute(COUNTED)
                assert [row[0] for row in cursor] == HEALTH
        with con.cursor("named", scrollable=True) as cursor:
            cursor.execute(COUNTED)
            cursor.scroll(2)
            assert cursor.fetchone()[0] == "good" and cursor.fetchmany(5)[0][0] == "poor"
            cursor.scroll(0, "absolute")
            assert cursor.fetchone()[0] == "excellent"
        with con.cursor("held", withhold=True) as cursor:
            cursor.execute(COUNTED)
            con.commit()
            assert len(cursor.fetchall()) == 4
        with con.cursor("forward", scrollable=False) as cursor, pytest.raises(psycopg2.OperationalError):
            cursor.execute(COUNTED)
            cursor.fetchone()
            cursor.scroll(0, "absolute")
        con.rollback()


def test_psycopg_3_server_cursors(demo: str) -> None:
    psycopg = library("psycopg")
    with psycopg.connect(demo) as con:
        for binary in (False, True):
            with con.cursor("named", binary=binary) as cursor:
                cursor.execute(f"{COUNTED.replace('GROUP', 'WHERE site > %s GROUP')}", (0,))
                assert [column.name for column in cursor.description] == ["health", "n"]
                assert [row[0] for row in cursor.fetchmany(3)] == HEALTH[:3] and [row[0] for row in cursor] == HEALTH[3:]
        with con.cursor("named", scrollable=True, withhold=True) as cursor:
            cursor.execute(COUNTED)
            con.commit()
            cursor.scroll(3)
            assert cursor.fetchone()[0] == "poor"
            cursor.scroll(-2)
            assert cursor.fetchone()[0] == "good"
    with psycopg.connect(demo, autocommit=True) as con:
        notices: list[str] = []
        con.add_notice_handler(lambda diag: notices.append(diag.message_primary))
        with con.transaction(), con.cursor("named") as cursor:
            cursor.execute("SELECT COUNT(*) FROM people WHERE income > 12345")
            assert len(cursor.fetchall()) == 1
        assert sum(notice.startswith("cost: ε") for notice in notices) == 1, "charged once, by DECLARE"
        con.execute("SELECT COUNT(*) FROM people WHERE income > 12345")
        assert notices[-1].startswith("cost: nothing")


@pytest.mark.parametrize("driver", ["psycopg2", "psycopg"])
def test_sqlalchemy_streams(driver: str, demo: str) -> None:
    sqlalchemy = library("sqlalchemy")
    library(driver)
    port = demo.split("port=")[1].split()[0]
    engine = sqlalchemy.create_engine(f"postgresql+{driver}://ada@127.0.0.1:{port}/study", connect_args={"password": PASSWORD})
    with engine.connect().execution_options(stream_results=True, max_row_buffer=2) as con:
        assert [row[0] for row in con.execute(sqlalchemy.text(COUNTED))] == HEALTH
        assert [[row[0] for row in part] for part in con.execute(sqlalchemy.text(COUNTED)).partitions(3)] == [HEALTH[:3], HEALTH[3:]]
    engine.dispose()


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_fetches_in_portions(demo: str) -> None:
    found = subprocess.run(["psql", "-X", "-At", demo, "-v", "FETCH_COUNT=2", "-c", COUNTED], capture_output=True, text=True, timeout=60)
    assert [line.split("|")[0] for line in found.stdout.splitlines()] == HEALTH, found.stderr


def test_odbc_declares_and_fetches(demo: str) -> None:
    pyodbc = library("pyodbc")
    if not any(name.startswith("PostgreSQL") for name in pyodbc.drivers()):
        pytest.skip("the ODBC driver of PostgreSQL is not installed")
    port = demo.split("port=")[1].split()[0]
    con = pyodbc.connect(f"Driver=PostgreSQL Unicode;Servername=127.0.0.1;Port={port};Database=study;UID=ada;PWD={PASSWORD};UseDeclareFetch=1;Fetch=2")
    assert [row[0] for row in con.execute(COUNTED).fetchall()] == HEALTH
    assert [row[0] for row in con.execute(COUNTED).fetchmany(3)] == HEALTH[:3]
    con.close()


def test_asyncpg_prepares_and_then_begins(demo: str) -> None:
    asyncpg = library("asyncpg")
    port = int(demo.split("port=")[1].split()[0])

    async def ask() -> None:
        con = await asyncpg.connect(host="127.0.0.1", port=port, user="ada", password=PASSWORD, database="study")
        made = await con.prepare(COUNTED)
        async with con.transaction():
            assert [row["health"] async for row in made.cursor(prefetch=2)] == HEALTH
            cursor = await made.cursor()
            assert await cursor.forward(2) == 2 and (await cursor.fetchrow())["health"] == "good"
        with pytest.raises(asyncpg.exceptions.DataError):
            await con.fetch("SELECT COUNT(*) FROM people WHERE site = $1", "three")
        with pytest.raises(asyncpg.exceptions.UndefinedColumnError):
            async with con.transaction():
                await con.fetch("SELECT nothing FROM people")
        assert await con.fetchval("SELECT 1") == 1
        await con.reset()
        await con.close()

    asyncio.run(ask())


@pytest.mark.parametrize("reset", [("DISCARD ALL",), ("ROLLBACK; CLOSE ALL; UNLISTEN *; RESET ALL", "DEALLOCATE ALL"), (
    "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL; DEALLOCATE ALL",)], ids=["pgbouncer and npgsql", "by hand", "asyncpg"])
def test_resets_of_pools(reset: tuple[str, ...], demo: str) -> None:
    """Cursors, settings and prepared statements of the one before are gone."""
    psycopg = library("psycopg")
    with psycopg.connect(demo, autocommit=True) as con:
        con.execute(f"DECLARE c CURSOR WITH HOLD FOR {COUNTED}")
        con.pgconn.prepare(b"s", b"SELECT 1")
        con.execute("SET epsilon = 0.25")
        for text in reset:
            con.execute(text)
        with pytest.raises(psycopg.errors.InvalidCursorName):
            con.execute("FETCH 1 FROM c")
        assert con.pgconn.describe_prepared(b"s").status == psycopg.pq.ExecStatus.FATAL_ERROR
        assert con.execute("SHOW epsilon").fetchone() == ("as opened",)


def test_discard_all_is_no_part_of_a_transaction(demo: str) -> None:
    psycopg = library("psycopg")
    with psycopg.connect(demo, autocommit=True) as con:
        con.execute("BEGIN")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            con.execute("DISCARD ALL")


# -- messages in any order


def test_a_query_between_messages_of_a_batch(raw: Raw) -> None:
    raw.send(parse("ROWS 2", "s"), describe("S", "s"), FLUSH)
    assert kinds(raw.until("T")) == "1tT"
    raw.send(query("BEGIN"), bind(portal="p", name="s"), execute("p", 1), query("ROWS 1"), execute("p"), SYNC)
    assert [kinds(raw.until("Z")) for _ in range(3)] == ["CZ", "2DsTDCZ", "DCZ"]


def test_after_an_error_a_query_is_ignored_until_sync(raw: Raw, server: Running) -> None:
    executed = server.seats[-1].executed
    raw.send(parse("BOGUS"), query("ROWS 1"), bind(), query("ROWS 2"), SYNC, query("ROWS 3"))
    assert [kinds(raw.until("Z")) for _ in range(2)] == ["EZ", "TDDDCZ"] and server.seats[-1].executed == executed + 1


# -- limits and privacy


def test_held_rows_are_bounded_for_an_account(tmp_path: Path) -> None:
    with running(tmp_path, suspended_bytes=100_000) as found, Raw(found.port) as one, Raw(found.port) as two:
        for raw in (one, two):
            raw.login()
        held = "DECLARE {} CURSOR WITH HOLD FOR SELECT ROWS 1000"
        one.send(parse(held.format("a")), bind(), execute(), SYNC)
        assert kinds(one.until("Z")) == "12CZ"
        two.send(parse(held.format("b")), bind(), execute(), SYNC)
        refused = two.until("Z")
        assert fields(next(body for kind, body in refused if kind == "E"))["C"] == "53400"
        assert said(two, "FETCH 1 FROM b") == "(34000)Z"
        assert said(one, "FETCH 1000 FROM a") == "T" + "D" * 1000 + "CZ"
        assert said(one, "CLOSE a") == "CZ" and not found.server.use._suspended
        assert said(two, held.format("b")) == "CZ" and found.server.use._suspended
        clients = [*found.server._clients.values()]  # so that the end of a connection frees its rows, and not the garbage collector
        two.close()
        wait_until(lambda: clients and not found.server.use._suspended)


def test_a_connection_holds_few_cursors(tmp_path: Path) -> None:
    with running(tmp_path, prepared=3) as found, Raw(found.port) as raw:
        raw.login()
        assert said(raw, "BEGIN") == "CZ"
        assert [said(raw, f"DECLARE c{number} CURSOR FOR SELECT ROWS 1") for number in range(4)] == ["CZ"] * 3 + ["(54000)Z"]


def test_moving_costs_nothing_and_executes_nothing(raw: Raw, server: Running) -> None:
    executed = server.seats[-1].executed
    assert said(raw, "DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT ROWS 5") == "CZ"
    for text in ("FETCH 2 c", "FETCH ALL c", "FETCH BACKWARD ALL c", "MOVE 3 c", "FETCH LAST c", "FETCH FIRST c"):
        assert said(raw, text).endswith("CZ")
    assert server.seats[-1].executed == executed + 1


def test_the_place_of_an_error_is_that_in_the_text_of_declare(raw: Raw) -> None:
    raw.send(query("BEGIN"), query("DECLARE c CURSOR FOR SELECT FAIL"))
    raw.until("Z")
    assert fields(raw.until("Z")[0][1])["P"] == str(len("DECLARE c CURSOR FOR ") + 2)


# -- moves


MOVES = ("NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE {}", "RELATIVE {}", "FORWARD {}", "BACKWARD {}", "{}", "ALL", "FORWARD ALL", "BACKWARD ALL", "FORWARD", "BACKWARD")


def drawn(draw: random.Random, rows: int) -> str:
    return f"{draw.choice(['FETCH', 'FETCH', 'MOVE'])} {draw.choice(MOVES).format(draw.randint(-rows - 2, rows + 2))} FROM c"


@pytest.mark.parametrize("scrolls", [True, False])
def test_moves_are_those_of_postgresql(scrolls: bool) -> None:
    psycopg2 = library("psycopg2")
    theirs = postgres.fresh()
    con = psycopg2.connect(theirs.uri)
    con.autocommit = True
    asked, kind = con.cursor(), "SCROLL" if scrolls else "NO SCROLL"
    for seed in range(120):
        draw = random.Random(seed)
        rows = draw.choice([0, 1, 2, 3, 7])
        text = f"DECLARE c {kind} CURSOR FOR SELECT * FROM generate_series(1, {rows}) AS x"
        asked.execute("BEGIN")
        asked.execute(text)
        ours = CursorOnWire(declared=declared_cursor(text), columns=(ColumnOnWire(name="x", kind="BIGINT"),), formats=(0,), rows=[(at + 1,) for at in range(rows)])
        for _ in range(draw.randint(5, 25)):
            move = drawn(draw, rows)
            try:
                asked.execute(move)
                expected: object = asked.statusmessage, asked.fetchall() if move.startswith("FETCH") else []
            except psycopg2.Error as fault:
                expected = fault.pgcode
            try:
                made = ours.moved(cursor_move(move))
                found: object = made.tag, list(made.rows)
            except RefusedOnWire as refusal:
                found = refusal.sqlstate
            assert found == expected, (seed, rows, move)
            if isinstance(expected, str):
                break
        asked.execute("ROLLBACK")
    con.close()


@pytest.mark.parametrize("text", [
    "DECLARE c CURSOR", "DECLARE CURSOR FOR SELECT 1", "DECLARE c CURSOR FOR SHOW x", "DECLARE c CURSOR FOR", "DECLARE 1 CURSOR FOR SELECT 1"])
def test_declarations_that_are_none(text: str) -> None:
    with pytest.raises(RefusedOnWire) as told:
        declared_cursor(text)
    assert told.value.sqlstate == "42601"


@pytest.mark.parametrize("text", ["FETCH", "FETCH NEXT 2 c", "FETCH ABSOLUTE c", "MOVE RELATIVE ALL c", "FETCH 1 2 c", "FETCH FROM", "FETCH 1 FROM c d"])
def test_moves_that_are_none(text: str) -> None:
    with pytest.raises(RefusedOnWire) as told:
        cursor_move(text)
    assert told.value.sqlstate == "42601"


@pytest.mark.parametrize("text", [
    f"DECLARE c CURSOR FOR SELECT{' ' * 60_000}1", f"DECLARE c CURSOR FOR SELECT /*{'a' * 60_000}*/ 1", f"DECLARE c CURSOR FOR SELECT 1{' FOR READ' * 7_000}"],
    ids=["blanks", "comment", "words"])
def test_the_time_of_a_declaration_is_linear_in_its_length(text: str) -> None:
    """The front parses for everybody: time that grew with the square of the length was minutes for one statement."""
    begun = time.process_time()
    assert declared_cursor(text).query.startswith("SELECT")
    assert time.process_time() - begun < 2


def test_names_and_comments() -> None:
    for text in ("SELECT 1", "SELECT 1 FOR READ ONLY", "SELECT 1\tfor  read\nonly  -- c", "SELECT 1 "):
        assert declared_cursor(f"DECLARE c CURSOR FOR {text}").query == "SELECT 1"
    made = declared_cursor('/* a */ declare "C ""x""" -- b\n no scroll cursor with hold for SELECT \'--\' -- c')
    assert (made.name, made.is_held, made.is_forward, made.query) == ('C "x"', True, True, "SELECT '--'")
    assert cursor_move("FETCH /* a */ - 3 FROM Cc;").number == -3 and cursor_move("FETCH 1 cC").name == "cc"
    assert closed_cursor("CLOSE all") is None and closed_cursor('CLOSE "all x" -- y') == "all x"
