"""Clients as analysts have them, each where it is installed: what they ask for at the start, types, parameters, errors, cancelling."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support.seats import COLUMNS, ROW
from support.wire_servers import PASSWORD, Running, Served, running, served

from dpsql.catalog.model import PACE
from dpsql.demo import folder

EXPECTED = {name: Decimal(value) if kind == "HUGEINT" else value for (name, kind), value in zip(COLUMNS, ROW, strict=True)}
ECHO = "ECHO $1::BIGINT $2::DOUBLE $3::DATE $4::TIMESTAMP $5::VARCHAR $6::BOOLEAN $7::HUGEINT"
ASKED = (-7, 2.5, dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, 4, 5, 6), "o'ä", False, Decimal(10**25))


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("clients")) as found:
        yield found


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demo, served."""
    with served(folder.export(tmp_path_factory.mktemp("real") / "demo"), budget="study") as found:
        yield found


def psql(server: Running | Served, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    return subprocess.run(["psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", "ada", "-d", "study", *arguments], input=text,
                          env={**os.environ, "PGPASSWORD": PASSWORD, "PGCLIENTENCODING": "UTF8"}, capture_output=True, text=True, timeout=60)


def test_psql(server: Running) -> None:
    said = psql(server, "-At", "-c", "ALL TYPES")
    assert said.stdout == "42|1000000000000000000000000000000|1.5|t|ä\"'|2024-02-29|2024-02-29 12:30:01.00025\n||||||\n"
    said = psql(server, "-c", "NOTE; BOGUS")
    assert said.returncode == 1 and "NOTICE:  a note\nDETAIL:  more\nHINT:  less\n" in said.stderr
    assert "ERROR:  no such statement\nLINE 1: NOTE; BOGUS\n             ^\nDETAIL:  a detail\nHINT:  a hint\n" in said.stderr
    said = psql(server, "-At", text="BEGIN;\nFAIL;\nROWS 1;\nROLLBACK;\nROWS 2;\n\\echo :SERVER_VERSION_NAME\n")
    assert said.stdout == "BEGIN\nROLLBACK\n0\n1\n15.0\n" and "current transaction is aborted" in said.stderr
    assert "password authentication failed for user \"ada\"" in subprocess.run(
        ["psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", "ada", "-d", "d", "-c", "SELECT 1"], capture_output=True, text=True,
        env={**os.environ, "PGPASSWORD": "wrong password"}).stderr


def test_psql_asks_the_engine(real: Served) -> None:
    said = psql(real, "-c", "SELECT health, COUNT(*) FROM people GROUP BY health ORDER BY health", "-c", "SELECT COUNT(* FROM people")
    assert "excellent" in said.stdout and "(4 rows)" in said.stdout and "NOTICE:  cost" in said.stderr and "ERROR:" in said.stderr


def test_an_answer_leaves_at_the_pace_of_the_policy_and_a_stored_one_at_once(real: Served) -> None:
    psycopg, taken = library("psycopg"), []
    with psycopg.connect(real.dsn) as connection:
        for _ in range(20):
            begun = time.monotonic()
            connection.execute("SELECT COUNT(*) FROM people WHERE income < 7777")
            taken.append(time.monotonic() - begun)
    assert taken[0] >= PACE and min(taken[1:]) < PACE


def test_pgbench_keeps_what_it_prepared(server: Running, tmp_path: Path) -> None:
    if shutil.which("pgbench") is None:
        pytest.skip("pgbench is not installed")
    (tmp_path / "script.sql").write_text("ROWS 3;\n")
    said = subprocess.run(["pgbench", "-n", "-h", "127.0.0.1", "-p", str(server.port), "-U", "ada", "-f", str(tmp_path / "script.sql"),
                           "-M", "prepared", "-c", "2", "-t", "20", "study"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PGPASSWORD": PASSWORD})
    assert "number of transactions actually processed: 40/40" in said.stdout, said.stderr


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_3(server: Running, binary: bool) -> None:
    psycopg = library("psycopg")
    with psycopg.connect(server.dsn) as con:
        cursor = con.cursor(binary=binary)
        assert cursor.execute("ALL TYPES").fetchall()[0] == tuple(EXPECTED.values())
        marks = ECHO.replace("$", "%$")
        for number in range(1, 8):
            marks = marks.replace(f"%${number}", "%b" if binary else "%s")
        assert cursor.execute(marks, ASKED).fetchall() == [ASKED]
        assert cursor.execute(marks, [None] * 7).fetchall() == [(None,) * 7]
        for i in range(8):  # prepared after five
            assert cursor.execute("ECHO %s::BIGINT", (i,), prepare=i > 2).fetchone() == (i,)
        cursor.executemany("ECHO %s::BIGINT", [(1,), (2,)], returning=True)
        with con.pipeline():
            made = [con.execute("ROWS 2") for _ in range(50)]
        assert [cur.fetchall() for cur in made] == [[(0,), (1,)]] * 50
        with pytest.raises(psycopg.errors.UndefinedFunction) as fault:
            con.execute("FAIL")
        assert fault.value.diag.sqlstate == "42883"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            con.execute("ROWS 1")
        con.rollback()
        with con.transaction(), pytest.raises(psycopg.errors.UndefinedFunction), con.transaction():
            con.execute("FAIL")
        assert con.execute("ROWS 1").fetchall() == [(0,)]
        assert list(con.cursor().stream("ROWS 5")) == [(i,) for i in range(5)]
        with pytest.raises(psycopg.errors.FeatureNotSupported), con.cursor().copy("COPY t TO STDOUT"):
            pass


def test_psycopg_3_cancels(server: Running) -> None:
    psycopg = library("psycopg")
    with psycopg.connect(server.dsn, autocommit=True) as con:
        timer = threading.Timer(0.3, con.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            con.execute("SLEEP 20")
        timer.join()
        assert con.execute("ROWS 1").fetchall() == [(0,)]


def test_psycopg_2(server: Running) -> None:
    psycopg2 = library("psycopg2")
    con = psycopg2.connect(server.dsn)
    cursor = con.cursor()
    cursor.execute("ALL TYPES")
    assert cursor.fetchone() == tuple(EXPECTED.values()) and [column.name for column in cursor.description] == list(EXPECTED)
    cursor.execute("NOTE")
    assert con.notices == ["NOTICE:  a note\nDETAIL:  more\nHINT:  less\n"]
    with pytest.raises(psycopg2.errors.SyntaxError) as fault:
        cursor.execute("BOGUS")
    assert fault.value.diag.statement_position == "1" and fault.value.diag.message_hint == "a hint"
    with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
        cursor.execute("ROWS 1")
    con.rollback()
    cursor.execute("ROWS 1")
    con.commit()
    con.close()


def test_asyncpg(server: Running) -> None:
    asyncpg = library("asyncpg")

    async def ask() -> None:
        con = await asyncpg.connect(host="127.0.0.1", port=server.port, user="ada", password=PASSWORD, database="study")
        assert dict((await con.fetch("ALL TYPES"))[0]) == EXPECTED
        assert tuple(await con.fetchrow(ECHO, *ASKED)) == ASKED
        made = await con.prepare("ECHO $1::BIGINT")
        assert [kind.name for kind in made.get_parameters()] == ["int8"] and await made.fetchval(3) == 3
        async with con.transaction():
            assert [row["n"] async for row in con.cursor("ROWS 120", prefetch=50)] == list(range(120))
        with pytest.raises(asyncpg.exceptions.UndefinedFunctionError):
            await con.fetch("FAIL")
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await con.fetch("SLEEP 20", timeout=0.3)
        assert await con.fetchval("ROWS 1") == 0
        await con.execute("SET x")
        await con.close()

    asyncio.run(ask())


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_sqlalchemy_and_pandas(real: Served, driver: str) -> None:
    alchemy, pandas = library("sqlalchemy"), importlib.import_module("pandas")
    library(driver)
    engine = alchemy.create_engine(f"postgresql+{driver}://ada@127.0.0.1:{real.port}/study", connect_args={"password": PASSWORD},
                                   pool_size=2)
    with engine.connect() as con:
        frame = pandas.read_sql(alchemy.text("SELECT health, COUNT(*) AS n FROM people GROUP BY health ORDER BY health"), con)
        assert {"people", "plans"} <= {*alchemy.inspect(con).get_table_names()}
        assert list(frame["health"]) == ["excellent", "fair", "good", "poor"] and frame["n"].dtype == "int64"
    engine.dispose()


JAVA = """
import java.sql.*;
public class Ask {
  public static void main(String[] given) throws Exception {
    java.util.Properties how = new java.util.Properties();
    how.put("user", "ada"); how.put("password", given[1]); how.put("assumeMinServerVersion", "15");
    how.put("binaryTransfer", given[2]); how.put("prepareThreshold", "2");
    try (Connection con = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + given[0] + "/study", how)) {
      for (int i = 0; i < 5; i++)
        try (PreparedStatement made = con.prepareStatement("ECHO ?::BIGINT ?::DOUBLE ?::DATE ?::VARCHAR ?::BOOLEAN")) {
          made.setLong(1, 7); made.setDouble(2, 2.5); made.setDate(3, Date.valueOf("2020-01-02")); made.setString(4, "x"); made.setBoolean(5, true);
          ResultSet rows = made.executeQuery(); rows.next();
          System.out.println(rows.getLong(1) + " " + rows.getDouble(2) + " " + rows.getDate(3) + " " + rows.getString(4) + " " + rows.getBoolean(5));
        }
      con.setAutoCommit(false);
      try (Statement made = con.createStatement()) {
        made.setFetchSize(50);
        ResultSet rows = made.executeQuery("ROWS 120"); int n = 0; while (rows.next()) n++;
        System.out.println(n);
        try { made.executeQuery("FAIL"); } catch (SQLException fault) { System.out.println(fault.getSQLState()); }
        con.rollback();
        made.setQueryTimeout(1);
        try { made.executeQuery("SLEEP 20"); } catch (SQLException fault) { System.out.println(fault.getSQLState()); }
        con.rollback();
      }
    }
  }
}
"""
JAR = Path("/usr/share/java/postgresql.jar")


@pytest.mark.slow
@pytest.mark.skipif(not JAR.exists() or shutil.which("javac") is None, reason="the JDBC driver of PostgreSQL or javac is not installed")
def test_jdbc(server: Running, tmp_path: Path) -> None:
    (tmp_path / "Ask.java").write_text(JAVA)
    subprocess.run(["javac", "Ask.java"], cwd=tmp_path, check=True, capture_output=True)
    for binary in ("true", "false"):
        said = subprocess.run(["java", "-cp", f"{JAR}{os.pathsep}{tmp_path}", "Ask", str(server.port), PASSWORD, binary], capture_output=True,
                              text=True, timeout=120)
        assert said.stdout.splitlines() == ["7 2.5 2020-01-02 x true"] * 5 + ["120", "42883", "57014"], said.stderr


@pytest.mark.skipif(shutil.which("isql") is None, reason="unixODBC's isql is not installed")
def test_odbc(server: Running, tmp_path: Path) -> None:
    dsn = f"Driver=PostgreSQL Unicode;Servername=127.0.0.1;Port={server.port};Database=study;UID=ada;PWD={PASSWORD}"
    said = subprocess.run(["isql", "-k", dsn, "-b", "-d|"], input="ROWS 2\n", capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == ["0", "1"], said.stdout + said.stderr
