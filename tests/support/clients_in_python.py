"""Clients of PostgreSQL in Python, beyond those that come with the tests: other drivers, pools, and what is built on drivers."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.client_terms import (
    CONSTANTS,
    COUNTED,
    ENDS,
    EXPECTED,
    HEALTH,
    NO_PREPARE,
    OF_CONSTANTS,
    OF_DRIVER,
    OF_LIST,
    OF_SITES,
    PROGRAMS,
    NotAnswered,
    Servers,
    client,
    library,
    of_package,
    ten_at_once,
    told,
    without,
)
from support.wire_servers import PASSWORD

WHERE = {"host": "127.0.0.1", "user": "ada", "password": PASSWORD}
DRIVEN = without(OF_DRIVER, "binding", "binary", "columns", "prepared", "portions", "notices", "place", "cancel", "copied")
TEXT_ALONE = "puts values into the text itself; they work"


@client("psycopg_pool", of_package("psycopg_pool"), **without(OF_DRIVER, "binary", "columns", "portions", "notices", "place", "cancel", "copied", "tables"))
def psycopg_pool(servers: Servers) -> Iterator[str]:
    pools = library("psycopg_pool")
    with pytest.raises(pools.PoolTimeout), pools.ConnectionPool(servers.dsn(servers.real, password="wrong"), min_size=1, open=False) as pool:
        pool.wait(2)
    how = servers.dsn(servers.scripted, sslmode="require", channel_binding="require")
    with pools.ConnectionPool(how, min_size=2, check=pools.ConnectionPool.check_connection) as pool:
        pool.wait(30)
        with pool.connection() as con:
            assert con.execute("ALL TYPES").fetchall() == [tuple(EXPECTED.values()), (None,) * 7]
        yield from ("password", "binding", "values")
    with pools.ConnectionPool(servers.dsn(servers.real), min_size=10, timeout=60) as pool:
        pool.wait(30)

        def ask(turn: Callable[[], Any]) -> list[str]:
            with pool.connection() as con, turn():
                return [row[0] for row in con.execute(COUNTED)]

        ten_at_once(ask)
        yield from ("pools", "transactions")  # each loan of a connection is one
        with pool.connection() as con:
            for _ in range(3):
                assert con.execute(OF_SITES.format("%s", "%s"), (1, 2), prepare=True).fetchone()
            yield from ("parameters", "prepared")
            assert con.execute(OF_LIST.format("%s"), (["good", "fair"],)).fetchone()
            yield "arrays"
            assert [column.name for column in con.execute(ENDS).description or ()] == ["n", "n_low", "n_high"]
            yield "ends"
        with pool.connection() as con, con.cursor("named") as cursor:
            cursor.execute(COUNTED)
            assert [row[0] for row in cursor.fetchmany(3) + cursor.fetchmany(3)] == HEALTH
            yield "cursors"


@client("aiopg", of_package("aiopg"), binary="shows text", prepared=NO_PREPARE, columns="asks nothing beforehand", parameters=TEXT_ALONE,
        portions="rows are fetched at once", cancel="not while it waits", copied="not in this driver")
def aiopg(servers: Servers) -> Iterator[str]:
    driver, psycopg2 = library("aiopg"), library("psycopg2")

    async def ask() -> list[str]:
        found = []
        with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
            await driver.connect(servers.dsn(servers.scripted, password="wrong", sslmode="disable"), enable_hstore=False)
        async with driver.connect(servers.dsn(servers.scripted, sslmode="require", channel_binding="require"), enable_hstore=False) as con, con.cursor() as cursor:
            await cursor.execute("ALL TYPES")
            assert await cursor.fetchall() == [tuple(EXPECTED.values()), (None,) * 7]
            found += ["password", "binding", "values"]
            with pytest.raises(psycopg2.errors.SyntaxError) as fault:
                await cursor.execute("BOGUS")
            assert fault.value.diag.statement_position == "1"
            found.append("place")
            with pytest.raises(psycopg2.errors.UndefinedFunction):
                async with cursor.begin():
                    await cursor.execute("FAIL")
            await cursor.execute("ROWS 1")
            found.append("transactions")
        async with driver.create_pool(servers.dsn(servers.real), minsize=10, maxsize=10) as pool:
            few = asyncio.Semaphore(4)

            async def counted() -> list[str]:
                async with pool.acquire() as con, con.cursor() as cursor, few:
                    await cursor.execute(COUNTED)
                    assert con.notices[-2].startswith("NOTICE:  cost"), con.notices
                    return [row[0] async for row in cursor]

            assert await asyncio.gather(*(counted() for _ in range(10))) == [HEALTH] * 10
            found += ["pools", "notices"]
            async with pool.acquire() as con, con.cursor() as cursor:
                await cursor.execute(OF_LIST.format("%s"), (["good", "fair"],))
                await cursor.execute("SELECT COUNT(*) AS n FROM people WHERE site IN %s", ((1, 2),))
                assert len(await cursor.fetchall()) == 1
                found.append("arrays")
                async with cursor.begin():
                    await cursor.execute(f"DECLARE some CURSOR FOR {COUNTED}")
                    await cursor.execute("FETCH 3 FROM some")
                    assert [row[0] for row in await cursor.fetchall()] == HEALTH[:3]
                found.append("cursors")
                await cursor.execute(ENDS)
                assert [column.name for column in cursor.description] == ["n", "n_low", "n_high"]
                found.append("ends")
                await cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", ("public",))
                assert ("people",) in await cursor.fetchall()
        return [*found, "tables"]

    yield from asyncio.run(ask())


@client("pg8000", of_package("pg8000"), binary="shows text", columns="asks nothing beforehand", portions="rows are fetched at once", cancel="not in this driver")
def pg8000(servers: Servers) -> Iterator[str]:
    library("pg8000")
    from pg8000.dbapi import connect
    from pg8000.native import Connection, DatabaseError

    with pytest.raises(DatabaseError, match="28P01"):
        Connection(**{**WHERE, "password": "wrong"}, port=servers.scripted, database="study")
    with Connection(**WHERE, port=servers.scripted, database="study", ssl_context=True) as con:
        yield "password"
        assert con.auth.mechanism_name == "SCRAM-SHA-256-PLUS"
        yield "binding"
        assert con.run("ALL TYPES") == [[*EXPECTED.values()], [None] * 7]
        yield "values"
        asked = (-7, 2.5, "o'ä", False, None)
        marks = "ECHO :a::BIGINT :b::DOUBLE :c::VARCHAR :d::BOOLEAN :e::DATE"
        assert con.run(marks, **dict(zip("abcde", asked, strict=True))) == [[*asked]]
        yield "parameters"
        made = con.prepare("ECHO :a::BIGINT")
        assert [made.run(a=i) for i in (3, 4)] == [[[3]], [[4]]]
        yield "prepared"
        with pytest.raises(DatabaseError) as fault:
            con.run("BOGUS")
        assert (fault.value.args[0]["P"], fault.value.args[0]["H"]) == ("1", "a hint")
        yield "place"
    with Connection(**WHERE, port=servers.real, database="study") as con:
        assert [row[0] for row in con.run(COUNTED)] == HEALTH and any(told[b"M"].startswith(b"cost") for told in con.notices)
        yield "notices"
        made = io.BytesIO()
        con.run(f"COPY ({COUNTED}) TO STDOUT CSV HEADER", stream=made)
        assert made.getvalue().startswith(b"health,n\nexcellent,")
        yield "copied"
        assert con.run(OF_LIST.format(":h"), h=["good", "fair"]) and con.run(OF_SITES.format(":a", ":b"), a=1, b=2)
        yield "arrays"
        assert ["people"] in con.run("SELECT table_name FROM information_schema.tables WHERE table_schema = :s", s="public")
        yield "tables"

    def ask(turn: Callable[[], Any]) -> list[str]:
        with Connection(**WHERE, port=servers.real, database="study") as own, turn():
            return [row[0] for row in own.run(COUNTED)]

    ten_at_once(ask)
    yield "pools"
    with connect(**WHERE, port=servers.real, database="study") as con:
        cursor = con.cursor()
        cursor.execute(f"DECLARE some CURSOR FOR {COUNTED}")
        cursor.execute("FETCH 3 FROM some")
        assert [row[0] for row in cursor.fetchall()] == HEALTH[:3]
        con.rollback()
        yield from ("cursors", "transactions")
        cursor.execute(ENDS)
        assert [column[0] for column in cursor.description] == ["n", "n_low", "n_high"]
        yield "ends"


@client("SQLAlchemy, asyncpg", of_package("sqlalchemy"), **DRIVEN)
def alchemy_asyncpg(servers: Servers) -> Iterator[str]:
    sqlalchemy = library("sqlalchemy")
    library("asyncpg")
    from sqlalchemy.ext.asyncio import create_async_engine

    def described(con: Any) -> Any:
        seen = sqlalchemy.inspect(con)
        assert {"people", "plans"} <= {*seen.get_table_names()} and seen.get_pk_constraint("people")["constrained_columns"] == ["person_id"]
        assert {each["referred_table"] for each in seen.get_foreign_keys("person_years", schema="public")} == {"people"}
        return sqlalchemy.Table("people", sqlalchemy.MetaData(), autoload_with=con)

    async def ask() -> list[str]:
        engine = create_async_engine(f"postgresql+asyncpg://ada@127.0.0.1:{servers.real}/study", connect_args={"password": PASSWORD}, pool_size=10)
        found, together = ["password"], asyncio.Barrier(10)

        async def counted() -> list[str]:
            async with engine.connect() as con:
                await together.wait()
                return [row[0] for row in await con.execute(sqlalchemy.text(COUNTED))]

        assert await asyncio.gather(*(counted() for _ in range(10))) == [HEALTH] * 10
        found.append("pools")
        async with engine.connect() as con:
            assert [*(await con.execute(sqlalchemy.text(CONSTANTS.replace("::", "\\:\\:")))).mappings()] == [OF_CONSTANTS]
            found.append("values")
            assert len((await con.execute(sqlalchemy.text("SELECT COUNT(*) AS n FROM people WHERE site = :site"), {"site": 3})).all()) == 1
            found.append("parameters")
            assert [*(await con.execute(sqlalchemy.text(ENDS))).keys()] == ["n", "n_low", "n_high"]
            found.append("ends")
            assert [len(part) async for part in (await con.stream(sqlalchemy.text(COUNTED))).partitions(3)] == [3, 1]
            found.append("cursors")
            people = await con.run_sync(described)
            found.append("tables")
            some = sqlalchemy.select(sqlalchemy.func.count().label("n")).select_from(people)
            assert len((await con.execute(some.where(people.c.site.in_([1, 2])))).all()) == 1
            assert len((await con.execute(sqlalchemy.text(OF_LIST.format(":h")), {"h": ["good", "fair"]})).all()) == 1
            found.append("arrays")
            await con.rollback()
        async with engine.begin() as con:
            await con.execute(sqlalchemy.text(COUNTED))
        await engine.dispose()
        return [*found, "transactions"]

    yield from asyncio.run(ask())


@client("Django", of_package("django"), tables=NotAnswered("`inspectdb` asks for columns by reading a row, `SELECT * FROM people LIMIT 1`"), **DRIVEN)
def django(servers: Servers) -> Iterator[str]:
    library("django")
    library("psycopg_pool")
    yield from told([sys.executable, PROGRAMS / "ask_django.py", str(servers.real), PASSWORD, COUNTED, CONSTANTS, ENDS])


@client("peewee", of_package("peewee"), **{**DRIVEN, "parameters": TEXT_ALONE})
def peewee(servers: Servers) -> Iterator[str]:
    library("peewee")
    library("psycopg2")
    yield from told([sys.executable, PROGRAMS / "ask_peewee.py", str(servers.real), PASSWORD, COUNTED, CONSTANTS, ENDS])


@client("Ibis", of_package("ibis-framework"), parameters="puts none", pools="has one connection",
        **without(OF_DRIVER, "binding", "binary", "columns", "prepared", "portions", "notices", "place", "cancel", "copied", "transactions"))
def ibis(servers: Servers) -> Iterator[str]:
    backend = library("ibis").postgres
    con = backend.connect(**WHERE, port=servers.real, database="study")
    yield "password"
    assert {"people", "plans"} <= {*con.list_tables()} and con.list_databases() and con.list_catalogs()
    people = con.table("people")
    assert people.health.type().is_string() and people.site.type().is_int64()
    yield "tables"
    counted = people.group_by("health").agg(n=people.count()).order_by("health")
    assert [*counted.execute()["health"]] == HEALTH and counted.to_pyarrow().column_names == ["health", "n"]
    assert con.raw_sql(CONSTANTS).fetchall() == [tuple(OF_CONSTANTS.values())]
    yield "values"
    assert counted.to_pyarrow_batches(chunk_size=3).read_next_batch().num_rows == 3
    yield "cursors"
    assert people.filter(people.site.isin([1, 2])).count().execute() > 0
    yield "arrays"
    assert [column.name for column in con.raw_sql(ENDS).description] == ["n", "n_low", "n_high"]
    yield "ends"
    con.disconnect()


@client("polars, read_database", of_package("polars"), tables="asks for none", transactions="begins none", pools="has one connection",
        **without(OF_DRIVER, "binding", "binary", "columns", "prepared", "portions", "notices", "place", "cancel", "copied"))
def polars(servers: Servers) -> Iterator[str]:
    read, sqlalchemy = library("polars").read_database, library("sqlalchemy")
    psycopg = library("psycopg")
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://ada@localhost:{servers.real}/study", connect_args={"password": PASSWORD})
    with psycopg.connect(servers.dsn(servers.real)) as con, engine.connect() as other:
        assert [*read(COUNTED, con)["health"]] == [*read(COUNTED, other)["health"]] == HEALTH
        yield "password"
        known = CONSTANTS.removesuffix(", NULL::BIGINT AS none")
        assert read(known, con).row(0, named=True) == {name: value for name, value in OF_CONSTANTS.items() if name != "none"}
        yield "values"
        assert len(read(OF_SITES.format(":a", ":b"), other, execute_options={"parameters": {"a": 1, "b": 2}})) == 1
        yield "parameters"
        assert len(read(OF_LIST.format(":h"), other, execute_options={"parameters": {"h": ["good", "fair"]}})) == 1
        yield "arrays"
        assert [len(part) for part in read(COUNTED, other, iter_batches=True, batch_size=3)] == [3, 1]
        with con.cursor("named") as cursor:
            assert [*read(COUNTED, cursor)["health"]] == HEALTH
        yield "cursors"
        assert read(ENDS, con).columns == ["n", "n_low", "n_high"]
        yield "ends"
    engine.dispose()


@client("pgcli", of_package("pgcli"), parameters="puts none", prepared=NO_PREPARE, binary="shows text", columns="asks nothing beforehand",
        portions="rows are fetched at once", cancel="by Ctrl-C at a terminal; not asked", copied="not in this client",
        pools="a process has one connection", binding="as psycopg does it", arrays="puts no parameters")
def pgcli(servers: Servers) -> Iterator[str]:
    library("pgcli")

    def run(text: str, port: int, password: str = PASSWORD) -> str:
        """What it prints. It wants to be asked for nothing, and to keep its files in a folder of its own."""
        environment = {**os.environ, "PGPASSWORD": password, "HOME": str(servers.folder), "XDG_CONFIG_HOME": str(servers.folder), "PAGER": "cat"}
        said = subprocess.run([sys.executable, "-m", "pgcli.main", "-w", "-h", "127.0.0.1", "-p", str(port), "-U", "ada", "-d", "study", "--less-chatty"],
                              input=text, env=environment, capture_output=True, text=True, timeout=60)
        return said.stdout + said.stderr

    assert "password authentication failed" in run("ROWS 1;\n", servers.scripted, "wrong")
    said = run(f"\\d\n\\d people\n{COUNTED};\nSELECT COUNT(* FROM people;\n{CONSTANTS};\n", servers.real)
    assert "| excellent |" in said, said
    yield "password"
    assert "| public | people " in said and "| health " in said and '"people_pkey" PRIMARY KEY' in said, said
    yield "tables"
    assert "cost" in said and "a bracket is not closed" in said and "LINE 1:" in said
    yield from ("notices", "place")
    assert "2024-02-29 12:30:01.00025" in said
    yield "values"
    assert "n_low" in run(f"{ENDS};\n", servers.real)
    yield "ends"
    said = run(f"BEGIN;\nDECLARE some CURSOR FOR {COUNTED};\nFETCH 3 FROM some;\nROLLBACK;\n", servers.real)
    assert "| good " in said and "| poor " not in said, said
    yield from ("cursors", "transactions")
