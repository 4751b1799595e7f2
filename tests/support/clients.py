"""The clients of PostgreSQL that analysts have, and what of each of them works with a server of dpsql.

A client is a generator that yields the name of a feature when all that was asked of it held. What a client lacks is declared with
the reason. `tests/server/test_clients.py` compares the two where the client is installed, and the guide with what is declared;

    PYTHONPATH=tests python -m support.clients

prints the tables of the guide, with the versions that are installed here.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import importlib
import importlib.metadata
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support import clients_elsewhere, clients_in_python, clients_of_node  # noqa: F401 - they list themselves
from support.client_terms import (
    ASKED,
    AT_ONCE,
    CLIENTS,
    CONSTANTS,
    COUNTED,
    ECHO,
    ENDS,
    EXPECTED,
    FEATURES,
    HEALTH,
    NO_PREPARE,
    OF_CONSTANTS,
    OF_DRIVER,
    OF_LIST,
    OF_SITES,
    PROGRAMS,
    SAID,
    Asks,
    NotAnswered,
    Servers,
    client,
    library,
    of_package,
    of_program,
    program,
    ten_at_once,
    told,
    without,
)
from support.wire_servers import PASSWORD


@client("psql", of_program("psql", "--version"), family="others", parameters="`\\bind` is of psql 16", binary="shows text", prepared=NO_PREPARE,
        portions="`FETCH_COUNT` declares a cursor", pools="a process has one connection", arrays="puts no parameters")
def psql(servers: Servers) -> Iterator[str]:
    program("psql")

    def run(*arguments: str, port: int = servers.scripted, text: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["psql", "-X", servers.dsn(port, **more), *arguments], input=text, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PGCLIENTENCODING": "UTF8"})

    assert run("-At", "-c", "ROWS 1").stdout == "0\n"
    assert "password authentication failed for user \"ada\"" in run("-c", "ROWS 1", password="wrong").stderr
    yield "password"
    assert run("-At", "-c", "ROWS 1", sslmode="require", channel_binding="require").stdout == "0\n"
    yield "binding"
    assert run("-At", "-c", "ALL TYPES").stdout == (
        "42|1000000000000000000000000000000|1.5|t|ä\"'|2024-02-29|2024-02-29 12:30:01.00025\n||||||\n")
    yield "values"
    said = run("-At", text=f"{COUNTED} \\gdesc\n", port=servers.real)
    assert said.stdout == "health|text\nn|bigint\n", said.stdout + said.stderr
    yield "columns"
    said = run("-c", COUNTED, "-c", "SELECT COUNT(* FROM people", port=servers.real)
    assert "excellent" in said.stdout and "(4 rows)" in said.stdout and "NOTICE:  cost" in said.stderr and "ERROR:" in said.stderr
    yield "notices"
    said = run("-c", "NOTE; BOGUS")
    assert said.returncode == 1 and "NOTICE:  a note\nDETAIL:  more\nHINT:  less\n" in said.stderr
    assert "ERROR:  no such statement\nLINE 1: NOTE; BOGUS\n             ^\nDETAIL:  a detail\nHINT:  a hint\n" in said.stderr
    yield "place"
    asking = subprocess.Popen(["psql", "-X", servers.dsn(servers.scripted), "-c", "SLEEP 20"], stderr=subprocess.PIPE, text=True)
    time.sleep(1.0)
    asking.send_signal(signal.SIGINT)
    assert "canceling statement due to user request" in asking.communicate(timeout=15)[1]
    yield "cancel"
    assert run("-A", "-c", ENDS, port=servers.real).stdout.startswith("n|n_low|n_high\n")
    yield "ends"
    file = servers.folder / "copied.csv"
    assert run("-c", f"\\copy ({COUNTED}) TO '{file}' CSV HEADER", port=servers.real).stdout == "COPY 4\n"
    assert file.read_text() == run("--csv", "-c", COUNTED, port=servers.real).stdout
    yield "copied"
    said = run("-c", "\\d", "-c", "\\d people", port=servers.real)
    assert " public | people " in said.stdout and 'Table "public.people"' in said.stdout and '"people_pkey" PRIMARY KEY' in said.stdout
    yield "tables"
    said = run("-At", text="BEGIN;\nFAIL;\nROWS 1;\nROLLBACK;\nROWS 2;\n\\echo :SERVER_VERSION_NAME\n")
    assert said.stdout == "BEGIN\nROLLBACK\n0\n1\n15.0\n" and "current transaction is aborted" in said.stderr
    yield "transactions"
    assert run("-At", "-v", "FETCH_COUNT=50", "-c", "SELECT ROWS 120").stdout == "".join(f"{i}\n" for i in range(120))
    yield "cursors"


MEASURES = "measures time alone"

@client("pgbench", of_program("pgbench", "--version"), family="others", values=MEASURES, binary=MEASURES, columns=MEASURES, portions=MEASURES, notices=MEASURES,
        place=MEASURES, cancel=MEASURES, ends=MEASURES, copied=MEASURES, tables=MEASURES, transactions=MEASURES, cursors=MEASURES, arrays=MEASURES)
def pgbench(servers: Servers) -> Iterator[str]:
    program("pgbench")
    (servers.folder / "script.sql").write_text("\\set n 3\nECHO :n::BIGINT;\n")
    for mode, features in (("prepared", ("password", "prepared", "parameters")), ("extended", ("binding", "pools"))):
        said = subprocess.run(["pgbench", "-n", "-f", servers.folder / "script.sql", "-M", mode, "-c", "10", "-t", "4", servers.dsn(
            servers.scripted, sslmode="require", channel_binding="require")], capture_output=True, text=True, timeout=60)
        assert "number of transactions actually processed: 40/40" in said.stdout, said.stderr
        yield from features


@client("psycopg 3", of_package("psycopg"))
def psycopg_3(servers: Servers) -> Iterator[str]:
    psycopg = library("psycopg")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(servers.dsn(servers.scripted, password="wrong"))
    with psycopg.connect(servers.dsn(servers.scripted)) as con:
        yield "password"
        for binary in (False, True):
            cursor = con.cursor(binary=binary)
            assert cursor.execute("ALL TYPES").fetchall() == [tuple(EXPECTED.values()), (None,) * 7]
            yield "binary" if binary else "values"
            marks = ECHO.replace("$", "%$")
            for number in range(1, 8):
                marks = marks.replace(f"%${number}", "%b" if binary else "%s")
            assert cursor.execute(marks, ASKED).fetchall() == [ASKED]
            assert cursor.execute(marks, [None] * 7).fetchall() == [(None,) * 7]
        yield "parameters"
        for i in range(8):  # prepared after five
            assert con.execute("ECHO %s::BIGINT", (i,), prepare=i > 2).fetchone() == (i,)
        con.cursor().executemany("ECHO %s::BIGINT", [(1,), (2,)], returning=True)
        with con.pipeline():
            made = [con.execute("ROWS 2") for _ in range(50)]
        assert [cur.fetchall() for cur in made] == [[(0,), (1,)]] * 50
        yield "prepared"
        assert list(con.cursor().stream("ROWS 5")) == [(i,) for i in range(5)]
        assert list(con.cursor().stream("ROWS 5", size=2)) == [(i,) for i in range(5)]
        yield "portions"
        with pytest.raises(psycopg.errors.UndefinedFunction) as fault:
            con.execute("FAIL")
        assert fault.value.diag.sqlstate == "42883" and fault.value.diag.statement_position == "2"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            con.execute("ROWS 1")
        con.rollback()
        with con.transaction(), pytest.raises(psycopg.errors.UndefinedFunction), con.transaction():
            con.execute("FAIL")
        assert con.execute("ROWS 1").fetchall() == [(0,)]
        yield "transactions"
        with pytest.raises(psycopg.errors.FeatureNotSupported), con.cursor().copy("COPY t FROM STDIN"):
            pass
    with psycopg.connect(servers.dsn(servers.scripted, sslmode="require", channel_binding="require"), autocommit=True) as con:
        yield "binding"
        with pytest.raises(psycopg.errors.SyntaxError) as fault:
            con.execute("BOGUS")
        assert (fault.value.diag.message_hint, fault.value.diag.message_detail) == ("a hint", "a detail")
        yield "place"
        timer = threading.Timer(0.3, con.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            con.execute("SLEEP 20")
        timer.join()
        assert con.execute("ROWS 1").fetchall() == [(0,)]
        yield "cancel"
    notices: list[str] = []
    with psycopg.connect(servers.dsn(servers.real), autocommit=True) as con:
        con.pgconn.prepare(b"described", COUNTED.encode())
        described = con.pgconn.describe_prepared(b"described")
        assert [(described.fname(at), described.ftype(at)) for at in range(2)] == [(b"health", 25), (b"n", 20)] and not notices
        yield "columns"
        con.add_notice_handler(lambda diag: notices.append(diag.message_primary))
        assert [row[0] for row in con.execute(COUNTED)] == HEALTH and any(notice.startswith("cost") for notice in notices)
        yield "notices"
        assert [column.name for column in con.execute(ENDS).description] == ["n", "n_low", "n_high"]
        yield "ends"
        counted = con.execute(COUNTED).fetchall()
        with con.cursor().copy(f"COPY ({COUNTED}) TO STDOUT (FORMAT binary)") as copied:
            copied.set_types(["text", "int8"])
            assert [*copied.rows()] == counted
        yield "copied"
        assert ("public", "people") in con.execute("SELECT schemaname, tablename FROM pg_tables").fetchall()
        exact = con.execute("SELECT COUNT(*) FROM people WHERE site = %s", (Decimal(3),)).fetchone()
        assert isinstance(exact[0], int)
        yield "tables"
        assert con.execute(OF_LIST.format("%s"), (["good", "fair"],)).fetchone() and con.execute(OF_SITES.format("%s", "%s"), (1, 2)).fetchone()
        yield "arrays"
        with con.transaction(), con.cursor("named", scrollable=True) as cursor:
            cursor.execute(COUNTED)
            assert cursor.fetchmany(3) + cursor.fetchall() == counted
            cursor.scroll(1, mode="absolute")
            assert cursor.fetchone() == counted[1]
        yield "cursors"

    def ask(turn: Callable[[], Any]) -> list[str]:
        with psycopg.connect(servers.dsn(servers.real)) as own, turn():
            return [row[0] for row in own.execute(COUNTED)]

    ten_at_once(ask)
    yield "pools"


CANCELS = """
import sys, threading, psycopg2
con = psycopg2.connect(sys.argv[1])
threading.Timer(0.3, con.cancel).start()
try:
    con.cursor().execute("SLEEP 20")
except psycopg2.errors.QueryCanceled:
    print("cancel")
"""  # in a process of its own: while psycopg 2 cancels, no other thread of Python runs, and so no server in this process


@client("psycopg 2", of_package("psycopg2-binary"), binary="shows text", prepared=NO_PREPARE, columns="asks nothing beforehand",
        portions="by named cursors", parameters="puts values into the text itself; they work")
def psycopg_2(servers: Servers) -> Iterator[str]:
    psycopg2 = library("psycopg2")
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(servers.dsn(servers.scripted, password="wrong"))
    con = psycopg2.connect(servers.dsn(servers.scripted, sslmode="require", channel_binding="require"))
    yield "password"
    yield "binding"
    cursor = con.cursor()
    cursor.execute("ALL TYPES")
    assert cursor.fetchall() == [tuple(EXPECTED.values()), (None,) * 7] and [column.name for column in cursor.description] == list(EXPECTED)
    yield "values"
    cursor.execute("NOTE")
    assert con.notices == ["NOTICE:  a note\nDETAIL:  more\nHINT:  less\n"]
    yield "notices"
    with pytest.raises(psycopg2.errors.SyntaxError) as fault:
        cursor.execute("BOGUS")
    assert fault.value.diag.statement_position == "1" and fault.value.diag.message_hint == "a hint"
    yield "place"
    with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
        cursor.execute("ROWS 1")
    con.rollback()
    cursor.execute("ROWS 1")
    con.commit()
    yield "transactions"
    con.close()
    yield from told([sys.executable, "-c", CANCELS, servers.dsn(servers.scripted)])
    con = psycopg2.connect(servers.dsn(servers.real))
    cursor = con.cursor()
    cursor.execute(ENDS)
    assert [column.name for column in cursor.description] == ["n", "n_low", "n_high"]
    yield "ends"
    made = io.StringIO()
    cursor.copy_expert(f"COPY ({COUNTED}) TO STDOUT CSV HEADER", made)
    assert made.getvalue().startswith("health,n\nexcellent,")
    yield "copied"
    cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", ("public",))
    assert ("people",) in cursor.fetchall()
    yield "tables"
    cursor.execute(OF_LIST.format("%s"), (["good", "fair"],))
    cursor.execute(OF_SITES.format("%s", "%s"), (1, 2))
    yield "arrays"
    with con.cursor("named") as named:
        named.itersize = 3
        named.execute(COUNTED)
        assert [row[0] for row in named] == HEALTH
    yield "cursors"
    con.close()
    pool = importlib.import_module("psycopg2.pool").ThreadedConnectionPool(10, 10, servers.dsn(servers.real))

    def ask(turn: Callable[[], Any]) -> list[str]:
        own = pool.getconn()
        with turn(), own.cursor() as cursor:
            cursor.execute(COUNTED)
            return [row[0] for row in cursor]

    ten_at_once(ask)
    pool.closeall()
    yield "pools"


@client("asyncpg", of_package("asyncpg"), binding="TLS; it has no channel binding")
def asyncpg(servers: Servers) -> Iterator[str]:
    driver = library("asyncpg")

    async def ask() -> list[str]:
        found, heard = [], list[str]()
        where = {"host": "127.0.0.1", "user": "ada", "password": PASSWORD, "database": "study"}
        with pytest.raises(driver.exceptions.InvalidPasswordError):
            await driver.connect(**{**where, "password": "wrong"}, port=servers.scripted)
        con = await driver.connect(**where, port=servers.scripted, ssl="require")
        found.append("password")
        assert [dict(row) for row in await con.fetch("ALL TYPES")] == [EXPECTED, dict.fromkeys(EXPECTED)]
        assert tuple(await con.fetchrow(ECHO, *ASKED)) == ASKED
        found += ["values", "parameters", "binary"]  # it asks for nothing else
        made = await con.prepare("ECHO $1::BIGINT")
        assert [kind.name for kind in made.get_parameters()] == ["int8"] and [await made.fetchval(i) for i in (3, 4)] == [3, 4]
        assert [column.name for column in made.get_attributes()] == ["c1"]
        found += ["prepared", "columns"]
        async with con.transaction():
            assert [row["n"] async for row in con.cursor("ROWS 120", prefetch=50)] == list(range(120))
        found += ["portions", "transactions"]
        with pytest.raises(driver.exceptions.PostgresSyntaxError) as fault:
            await con.fetch("BOGUS")
        assert (fault.value.hint, fault.value.position) == ("a hint", "1")
        found.append("place")
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await con.fetch("SLEEP 20", timeout=0.3)
        assert await con.fetchval("ROWS 1") == 0
        await con.execute("SET x")
        await con.close()
        found.append("cancel")
        con = await driver.connect(**where, port=servers.real)
        con.add_log_listener(lambda own, message: heard.append(message.message))
        assert [row["health"] for row in await con.fetch(COUNTED)] == HEALTH
        assert (await con.fetchrow(ENDS)).get("n_low") is not None
        found.append("ends")
        made = io.BytesIO()
        assert await con.copy_from_query("SELECT COUNT(*) AS n FROM people WHERE health = $1", "good", output=made, format="csv", header=True) == "COPY 1"
        assert made.getvalue().startswith(b"n\n")
        found.append("copied")
        assert "people" in [row[0] for row in await con.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", "public")]
        found.append("tables")
        assert await con.fetchval(OF_LIST.format("$1"), ["good", "fair"]) and await con.fetchval(OF_SITES.format("$1", "$2"), 1, 2)
        found.append("arrays")
        async with con.transaction():
            await con.execute(f"DECLARE some CURSOR FOR {COUNTED}")
            assert len(await con.fetch("FETCH 3 FROM some")) == 3
        found.append("cursors")
        await con.close()
        async with driver.create_pool(**where, port=servers.real, min_size=10, max_size=10) as pool:
            few = asyncio.Semaphore(AT_ONCE)

            async def counted() -> list[str]:
                async with few:
                    return [row[0] for row in await pool.fetch(COUNTED)]

            assert await asyncio.gather(*(counted() for _ in range(10))) == [HEALTH] * 10
        found.append("pools")
        await asyncio.sleep(0.1)
        assert any(text.startswith("cost") for text in heard)
        return [*found, "notices"]

    yield from asyncio.run(ask())


def of_alchemy(driver: str, package: str) -> Asks:
    def alchemy(servers: Servers) -> Iterator[str]:
        sqlalchemy, pandas = library("sqlalchemy"), importlib.import_module("pandas")
        library(driver)
        engine = sqlalchemy.create_engine(f"postgresql+{driver}://ada@localhost:{servers.real}/study", connect_args={"password": PASSWORD}, pool_size=10)
        with engine.connect() as con:
            yield "password"
            frame = pandas.read_sql(sqlalchemy.text(COUNTED), con)
            assert list(frame["health"]) == HEALTH and frame["n"].dtype == "int64"
            yield "values"
            asked = sqlalchemy.text("SELECT COUNT(*) AS n FROM people WHERE site = :site")
            assert len(pandas.read_sql(asked, con, params={"site": 3})) == 1
            yield "parameters"
            assert list(con.execute(sqlalchemy.text(ENDS)).keys()) == ["n", "n_low", "n_high"]
            yield "ends"
            seen = sqlalchemy.inspect(con)
            assert seen.default_schema_name == "public" and {"people", "plans"} <= {*seen.get_table_names()}
            assert "public" in seen.get_schema_names() and seen.has_table("people", schema="public") and not seen.get_view_names()
            assert seen.get_pk_constraint("people")["constrained_columns"] == ["person_id"]
            assert {each["referred_table"] for each in seen.get_foreign_keys("person_years", schema="public")} == {"people"}
            assert isinstance(seen.get_columns("people")[0]["type"], sqlalchemy.types.BIGINT) and seen.get_indexes("people") is not None
            people = sqlalchemy.Table("people", sqlalchemy.MetaData(schema="public"), autoload_with=con)
            counted = con.execute(sqlalchemy.select(people.c.health, sqlalchemy.func.count()).group_by(people.c.health)).fetchall()
            assert {row[0] for row in counted} == {*HEALTH}
            yield "tables"
            con.rollback()
            with con.begin():
                con.execute(sqlalchemy.text(COUNTED))
            yield "transactions"
            some = sqlalchemy.select(sqlalchemy.func.count().label("n")).select_from(people)
            assert con.execute(some.where(people.c.site.in_([1, 2]))).all() and con.execute(sqlalchemy.text(OF_LIST.format(":h")), {"h": ["good", "fair"]}).all()
            yield "arrays"
            with con.execution_options(stream_results=True).execute(sqlalchemy.text(COUNTED)) as rows:
                assert [len(part) for part in rows.partitions(3)] == [3, 1]
            yield "cursors"

        def ask(turn: Callable[[], Any]) -> list[str]:
            with engine.connect() as con, turn():
                return [row[0] for row in con.execute(sqlalchemy.text(COUNTED))]

        ten_at_once(ask)
        yield "pools"
        engine.dispose()

    return alchemy


for _driver, _package in (("psycopg", "psycopg"), ("psycopg2", "psycopg2-binary"), ("pg8000", "pg8000")):
    client(f"SQLAlchemy and pandas, {_driver}", of_package("sqlalchemy"), binding=OF_DRIVER, binary=OF_DRIVER, columns=OF_DRIVER, prepared=OF_DRIVER,
           portions=OF_DRIVER, notices=OF_DRIVER, place=OF_DRIVER, cancel=OF_DRIVER, copied=OF_DRIVER)(of_alchemy(_driver, _package))


JAR = Path("/usr/share/java/postgresql.jar")
def of_jar() -> str:
    return next(JAR.parent.glob("postgresql-[0-9]*.jar")).stem.removeprefix("postgresql-")


@client("JDBC", of_jar, family="others", binding="TLS; this version has no channel binding")
def jdbc(servers: Servers) -> Iterator[str]:
    program("javac")
    if not JAR.exists():
        pytest.skip("the JDBC driver of PostgreSQL is not installed")
    subprocess.run(["javac", "-cp", JAR, "-d", servers.folder, PROGRAMS / "Ask.java"], check=True, capture_output=True)
    yield from told(["java", "-cp", f"{JAR}{os.pathsep}{servers.folder}", "Ask", str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS])


@client("ODBC (pyodbc)", lambda: f"{of_program('odbcinst', '--version')()}, {of_package('pyodbc')()}", binding="TLS, where libpq of the driver binds; not asked",
        binary="shows text", columns="asks nothing beforehand", portions="by cursors, where `UseDeclareFetch` is set", notices="the driver keeps them to itself",
        place="the driver tells the message alone", copied="not in ODBC")
def odbc(servers: Servers) -> Iterator[str]:
    pyodbc = library("pyodbc")
    if not any(name.startswith("PostgreSQL") for name in pyodbc.drivers()):
        pytest.skip("the ODBC driver of PostgreSQL is not installed")
    how = "Driver=PostgreSQL Unicode;Servername=localhost;Database=study;UID=ada;UseServerSidePrepare=1;"
    with pytest.raises(pyodbc.Error, match="password authentication failed"):
        pyodbc.connect(f"{how}Port={servers.scripted};PWD=wrong")
    con = pyodbc.connect(f"{how}Port={servers.scripted};PWD={PASSWORD};sslmode=require")
    yield "password"
    rows = con.execute("ALL TYPES").fetchall()
    assert rows[0].i == 42 and int(rows[0].h) == 10**30 and rows[0].day == dt.date(2024, 2, 29) and list(rows[1]) == [None] * 7
    yield "values"
    for i in (3, 4):
        row = con.execute("ECHO ?::BIGINT ?::VARCHAR", i, "ä").fetchone()
        assert tuple(row) == (i, "ä"), row
    yield "parameters"
    yield "prepared"
    with pytest.raises(pyodbc.Error) as fault:
        con.execute("FAIL")
    con.rollback()
    assert fault.value.args[0] == "42883" and con.execute("ROWS 1").fetchone()[0] == 0
    yield "transactions"
    cursor = con.cursor()
    timer = threading.Timer(0.5, cursor.cancel)
    timer.start()
    with pytest.raises(pyodbc.Error):
        cursor.execute("SLEEP 20")
    yield "cancel"
    con.close()
    con = pyodbc.connect(f"{how}Port={servers.real};PWD={PASSWORD}")
    assert [column[0] for column in con.execute(ENDS).description] == ["n", "n_low", "n_high"]
    yield "ends"

    def ask(turn: Callable[[], Any]) -> list[str]:
        own = pyodbc.connect(f"{how}Port={servers.real};PWD={PASSWORD}")
        with turn():
            found = [row[0] for row in own.execute(COUNTED)]
        own.close()
        return found

    ten_at_once(ask)
    yield "pools"
    assert ("public", "people") in [(row.table_schem, row.table_name) for row in con.cursor().tables(tableType="TABLE")]
    assert "health" in [row.column_name for row in con.cursor().columns(table="people")]
    yield "tables"
    assert con.execute(OF_LIST.format("?"), "{good,fair}").fetchone() and con.execute(OF_SITES.format("?", "?"), 1, 2).fetchone()
    con.close()
    yield "arrays"
    con = pyodbc.connect(f"{how}Port={servers.real};PWD={PASSWORD};UseDeclareFetch=1;Fetch=3")
    assert [row.health for row in con.execute(COUNTED)] == HEALTH
    con.close()
    yield "cursors"


IN_R = "not in this driver"


@client("R (RPostgreSQL)", of_program("Rscript", "-e", "cat(as.character(packageVersion('RPostgreSQL')))"), family="others", binding="TLS, by libpq; not asked",
        parameters=IN_R, binary="shows text", columns=IN_R, prepared=NO_PREPARE, place=IN_R, cancel=IN_R, copied=IN_R, arrays=IN_R)
def r(servers: Servers) -> Iterator[str]:
    if subprocess.run([program("Rscript"), "-e", "library(RPostgreSQL)"], capture_output=True).returncode:
        pytest.skip("RPostgreSQL is not installed")
    yield from told(["Rscript", PROGRAMS / "ask.R", str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS])




ADBC_CANCELS = """
import sys, threading
from adbc_driver_postgresql import dbapi
with dbapi.connect(sys.argv[1]) as con, con.cursor() as cursor:
    threading.Timer(0.5, cursor.adbc_cancel).start()
    try:
        cursor.execute("SELECT SLEEP 20")
    except dbapi.Error as fault:
        assert "canceling statement" in str(fault), fault
        print("cancel")
"""  # in a process of its own, as CANCELS is


@client("ADBC", of_package("adbc-driver-postgresql"), notices=SAID, cursors="asks by COPY, which takes no FETCH")
def adbc(servers: Servers) -> Iterator[str]:
    library("pyarrow")
    library("adbc_driver_postgresql")
    from adbc_driver_manager import ProgrammingError
    from adbc_driver_postgresql import dbapi

    def to(port: int, password: str = PASSWORD, **more: str) -> Any:
        return dbapi.connect(servers.dsn(port, password=f"'{password}'", **more))

    with pytest.raises(dbapi.Error, match="password authentication failed"):
        to(servers.scripted, "wrong")
    with to(servers.scripted, sslmode="require", channel_binding="require"):
        yield "password"
        yield "binding"
        yield from told([sys.executable, "-c", ADBC_CANCELS, servers.dsn(servers.scripted)])
    def ask(turn: Callable[[], Any]) -> list[str]:
        with to(servers.real) as own, own.cursor() as asking, turn():
            asking.execute(COUNTED)
            return [*asking.fetch_arrow_table().column(0).to_pylist()]

    ten_at_once(ask)
    yield "pools"
    with to(servers.real) as con, con.cursor() as cursor:
        cursor.execute(CONSTANTS)
        assert cursor.fetch_arrow_table().to_pylist() == [OF_CONSTANTS]
        yield from ("values", "binary")  # it asks for nothing else
        assert [(field.name, str(field.type)) for field in cursor.adbc_execute_schema(COUNTED)] == [("health", "string"), ("n", "int64")]
        yield "columns"
        cursor.adbc_prepare("SELECT COUNT(*) AS n FROM people WHERE site = $1")
        for site in (3, 4):
            cursor.execute("SELECT COUNT(*) AS n FROM people WHERE site = $1", (site,))
            assert cursor.fetch_arrow_table().num_rows == 1
        yield from ("parameters", "prepared")
        cursor.execute(COUNTED)
        assert cursor.fetch_record_batch().read_next_batch().column(0).to_pylist() == HEALTH
        yield from ("portions", "copied")
        with pytest.raises(ProgrammingError, match=r"LINE 1: SELECT COUNT\(\* FROM people") as fault:
            cursor.execute("SELECT COUNT(* FROM people")
        assert fault.value.sqlstate == "42601"
        yield "place"
        con.rollback()
        cursor.execute(ENDS)
        assert cursor.fetch_arrow_table().column_names == ["n", "n_low", "n_high"]
        con.commit()
        yield from ("ends", "transactions")
        schema, = con.adbc_get_objects(depth="all", table_name_filter="people").read_all().to_pylist()[0]["catalog_db_schemas"]
        people, = schema["db_schema_tables"]
        assert (schema["db_schema_name"], people["table_name"]) == ("public", "people")
        assert {"health", "site"} <= {column["column_name"] for column in people["table_columns"]}
        assert [each["constraint_type"] for each in people["table_constraints"]] == ["PRIMARY KEY"]
        assert con.adbc_get_table_schema("people").field("health").type == "string"
        yield "tables"
        cursor.execute(OF_LIST.format("$1"), (["good", "fair"],))
        assert cursor.fetch_arrow_table().num_rows == 1
        cursor.execute(OF_SITES.format("$1", "$2"), (1, 2))
        assert cursor.fetch_arrow_table().num_rows == 1
        yield "arrays"


@client("connectorx (polars)", of_package("connectorx"), binding="TLS; it has no channel binding", parameters="puts none", columns=OF_DRIVER, prepared=OF_DRIVER,
        portions="rows are fetched at once", notices=SAID, cancel=OF_DRIVER, tables="asks for none", transactions="begins none",
        **without("asks once", "pools", "cursors", "arrays"))
def connectorx(servers: Servers) -> Iterator[str]:
    library("connectorx")
    polars = library("polars")

    def read(text: str) -> Any:
        return polars.read_database_uri(text, f"postgresql://ada:{PASSWORD.replace(' ', '%20')}@localhost:{servers.real}/study")

    assert list(read(COUNTED)["health"]) == HEALTH  # a wrong password it tries again for half a minute
    yield "password"
    assert read(CONSTANTS.replace(", NULL::BIGINT AS none", "")).row(0, named=True) == {name: value for name, value in OF_CONSTANTS.items() if name != "none"}
    yield from ("values", "binary", "copied")  # it asks by COPY, in binary
    assert read(ENDS).columns == ["n", "n_low", "n_high"]
    yield "ends"
    with pytest.raises(RuntimeError, match="bracket"):
        read("SELECT COUNT(* FROM people")
    yield "place"


DUCKDB = """
import glob, importlib, os, sys, duckdb
scripted, real, password, counted, ends, constants = sys.argv[1:]
made = os.path.dirname(importlib.import_module("duckdb_extension_postgres_scanner").__file__)
extension, = glob.glob(f"{made}/extensions/v{duckdb.__version__}/*")
con = duckdb.connect(config={"allow_unsigned_extensions": True})
con.execute("SET enable_progress_bar = false")
con.execute(f"LOAD '{extension}'")
def attach(port, password, name, more=""):
    con.execute(f"ATTACH 'host=localhost port={port} user=ada password=''{password}'' dbname=study {more}' AS {name} (TYPE postgres)")
def refused(text):
    try:
        con.execute(text).fetchall()
    except duckdb.Error as fault:
        return str(fault)
    raise AssertionError(text)
def ask(text):
    return con.execute("SELECT * FROM postgres_query('pg', $asked)".replace("$asked", "'" + text.replace("'", "''") + "'"))
try:
    attach(real, "wrong", "pg")
except duckdb.Error as fault:
    assert "password authentication failed" in str(fault), fault
attach(real, password, "pg")
print("password")
names = [column[0] for column in ask(constants).description]
assert dict(zip(names, ask(constants).fetchone())) == ROW, ask(constants).fetchone()
print("values binary")
rows = ask(counted).fetchall()
assert [row[0] for row in rows] == ["excellent", "fair", "good", "poor"]
assert ask(counted + "").fetchall() == rows and con.execute("SELECT n FROM postgres_query('pg', '" + counted + "') LIMIT 2").fetchall() == [row[1:] for row in rows[:2]]
print("columns copied")
assert [column[0] for column in ask(ends).description] == ["n", "n_low", "n_high"] and len(ask(ends).fetchone()) == 3
print("ends")
assert "LINE 1: SELECT COUNT(* FROM people" in refused("SELECT * FROM postgres_query('pg', 'SELECT COUNT(* FROM people')")
print("place")
assert ("people",) in con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'pg'").fetchall()
assert ("health", "VARCHAR") in [row[:2] for row in con.execute("DESCRIBE pg.people").fetchall()]
assert con.execute("SELECT COUNT(*) FROM pg.plans WHERE coinsurance > 3").fetchone()[0] > 3  # a public table
assert "rows are never shown" in refused("SELECT COUNT(*) FROM pg.people")
print("tables")
con.execute("BEGIN"); ask(counted).fetchall(); con.execute("ROLLBACK"); ask(counted).fetchall()
con.execute("CALL postgres_execute('pg', 'SET epsilon = 0.1')")
print("transactions")
""".replace("ROW", repr(OF_CONSTANTS).replace("datetime.", "__import__('datetime')."))
DUCKDB_PYTHON = os.environ.get("DUCKDB_PYTHON", sys.executable)  # of an environment where DuckDB is of the same version as its extension


@client("DuckDB (postgres)", of_program(DUCKDB_PYTHON, "-c", "import duckdb; print(duckdb.__version__)"), binding="TLS, where its libpq binds; not asked",
        parameters="puts none", prepared=NO_PREPARE, portions="rows are fetched at once", notices=SAID, cancel=OF_DRIVER,
        pools=OF_DRIVER, cursors="postgres_query takes queries alone", arrays="puts none")
def duckdb(servers: Servers) -> Iterator[str]:
    if subprocess.run([DUCKDB_PYTHON, "-c", "import duckdb, duckdb_extension_postgres_scanner"], capture_output=True).returncode:
        pytest.skip("the extension duckdb-extension-postgres-scanner is not installed; DUCKDB_PYTHON says in which Python it is")
    yield from told([DUCKDB_PYTHON, "-c", DUCKDB, str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS, CONSTANTS])


@client("Ruby (pg)", of_program("ruby", "-e", "require 'pg'; puts PG::VERSION"), family="others", portions="rows come one by one, of one answer")
def ruby(servers: Servers) -> Iterator[str]:
    if subprocess.run([program("ruby"), "-e", "require 'pg'"], capture_output=True).returncode:
        pytest.skip("the gem pg is not installed")
    yield from told(["ruby", "-Ku", PROGRAMS / "ask.rb", str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS], env={"LANG": "C.UTF-8"})


@client("Perl (DBD::Pg)", of_program("perl", "-MDBD::Pg", "-e", "print $DBD::Pg::VERSION"), family="others", binary="shows text", columns="asks nothing beforehand",
        portions="rows are fetched at once")
def perl(servers: Servers) -> Iterator[str]:
    if subprocess.run([program("perl"), "-MDBD::Pg", "-e", "1"], capture_output=True).returncode:
        pytest.skip("DBD::Pg is not installed")
    yield from told(["perl", PROGRAMS / "ask.pl", str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS])


MODULES = os.environ.get("NODE_PATH", "/usr/share/nodejs")


@client("Node.js (pg)", lambda: of_program("node", "-e", "console.log(require('pg/package.json').version)")(), family="Node.js", binding="TLS; bound only if it is asked to",
        columns="asks nothing beforehand", cancel="not in this driver", copied="in a package of its own")
def node(servers: Servers) -> Iterator[str]:
    environment = {"NODE_PATH": MODULES}
    if subprocess.run([program("node"), "-e", "require('pg')"], capture_output=True, env={**os.environ, **environment}).returncode:
        pytest.skip("pg is not installed; NODE_PATH says where it is")
    yield from told(["node", PROGRAMS / "ask.js", str(servers.scripted), str(servers.real), PASSWORD, COUNTED, ENDS], env=environment)


def table(versions: Mapping[str, str]) -> str:
    """The tables of the guide: all clients with their versions, and what they have with PostgreSQL but not here."""
    families: dict[str, list[str]] = {}
    for each in sorted(CLIENTS.values(), key=lambda each: each.name.lower()):
        families.setdefault(each.family, []).append(f"{each.name} {versions.get(each.name, '')}".strip())
    lines = ["| for | clients |", "|---|---|"] + [f"| {family} | {'; '.join(names)} |" for family, names in sorted(families.items())]
    lines += ["", "| client | except | as it |", "|---|---|---|"]
    for each in CLIENTS.values():
        reasons: dict[str, list[str]] = {}
        for feature, reason in each.lacks.items():
            if isinstance(reason, NotAnswered):
                reasons.setdefault(reason, []).append(FEATURES[feature])
        lines += [f"| {each.name} | {', '.join(words) if each.works else 'all'} | {reason} |" for reason, words in reasons.items()]
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """Of the clients that are installed."""
    found = {}
    for each in CLIENTS.values():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, OSError, StopIteration):
            found[each.name] = each.version()
    return found


if __name__ == "__main__":
    print(table(versions()))
