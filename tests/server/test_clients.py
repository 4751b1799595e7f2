"""Clients as analysts have them, each where it is installed: every feature that the guide says it has."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support.clients import CLIENTS, FEATURES, Servers, table
from support.wire_servers import PASSWORD, certificate, running, served

from dpsql.catalog.model import PACE
from dpsql.demo import folder
from dpsql.guides import page
from dpsql.server.front.wire.listening import TlsFiles, tls_terms

PRICE = {"epsilon": Decimal("0.05"), "delta": Decimal("1e-9")}  # of a statement: low, as all clients spend of one budget


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    own = tmp_path_factory.mktemp("clients")
    demo = folder.export(own / "demo")
    with running(own, tls=tls_terms(TlsFiles(certificate=str(certificate(own))))) as scripted, served(demo, budget="study", price=PRICE) as real:
        scripted.server.failed.FREE = 10**9  # every client tries a wrong password
        yield Servers(scripted=scripted.port, real=real.port, folder=own)


COMPILED = {"JDBC": pytest.mark.slow} | dict.fromkeys(("Go (lib/pq)", "Go (pgx 4)", "C++ (libpqxx)", "Rust (tokio-postgres)"), pytest.mark.long)


@pytest.mark.parametrize("name", [pytest.param(name, marks=COMPILED[name]) if name in COMPILED else name for name in CLIENTS])
def test_features_of_clients(name: str, servers: Servers) -> None:
    client, found = CLIENTS[name], list[str]()
    assert client.lacks.keys() <= FEATURES.keys() and all(client.lacks.values())
    try:
        for feature in client.asks(servers):
            found.append(feature)
    except pytest.skip.Exception:
        raise
    except Exception as fault:
        fault.add_note(f"after {found}")
        raise
    assert set(found) == client.works, "what is declared, and what works"


def test_an_answer_leaves_at_the_pace_of_the_policy_and_a_stored_one_at_once(servers: Servers) -> None:
    psycopg, taken = pytest.importorskip("psycopg"), []
    with psycopg.connect(host="127.0.0.1", port=servers.real, user="ada", password=PASSWORD, dbname="study") as connection:
        for _ in range(20):
            begun = time.monotonic()
            connection.execute("SELECT COUNT(*) FROM people WHERE income < 7777")
            taken.append(time.monotonic() - begun)
    assert taken[0] >= PACE and min(taken[1:]) < PACE


def test_a_list_is_a_parameter(servers: Servers) -> None:
    """As the guides of psycopg and asyncpg tell their users to write, for IN takes no list; the same question, so it is free."""
    psycopg, asyncpg = pytest.importorskip("psycopg"), pytest.importorskip("asyncpg")
    where = {"host": "127.0.0.1", "port": servers.real, "user": "ada", "password": PASSWORD}

    async def asked(text: str, *values: object) -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(**where, database="study")
        try:
            return [tuple(row) for row in await connection.fetch(text, *values)]
        finally:
            await connection.close()

    with psycopg.connect(**where, dbname="study") as connection:
        written = connection.execute("SELECT COUNT(*) FROM people WHERE health IN ('good', 'fair')").fetchall()
        for binary in (False, True):
            found = connection.execute("SELECT COUNT(*) FROM people WHERE health = ANY(%s)", [["good", "fair"]], binary=binary)
            assert found.fetchall() == written
        assert connection.execute("SELECT COUNT(*) FROM person_years WHERE age = ANY(%s) AND age > %s", [[30, 40], 20]).fetchall()
        with pytest.raises(psycopg.Error, match="parameter"):
            connection.execute("SELECT COUNT(*) FROM people WHERE health = ANY(%s)", ["good"])
    assert asyncio.run(asked("SELECT COUNT(*) FROM people WHERE health = ANY($1)", ["good", "fair"])) == written


def test_an_example_asks_from_r(servers: Servers) -> None:
    if shutil.which("Rscript") is None or subprocess.run(["Rscript", "-e", "library(RPostgreSQL)"], capture_output=True).returncode:
        pytest.skip("R with RPostgreSQL is not installed")
    example = Path(__file__).parents[2] / "examples" / "ask_from_r.R"
    said = subprocess.run(["Rscript", example, "127.0.0.1", str(servers.real), "ada", "study"], capture_output=True, text=True, timeout=60,
                          cwd=servers.folder, env={**os.environ, "PGPASSWORD": PASSWORD})
    assert said.returncode == 0, said.stderr
    assert said.stdout.split("\n")[0].split() == ["health", "n", "n_low", "n_high"] and "NOTICE:  cost" in said.stderr


def test_the_guide_shows_what_is_declared() -> None:
    part = "| for | clients |" + page("clients").split("| for | clients |")[1]
    families = part.split("\n\n")[0]
    stated = [each for line in families.splitlines()[2:] for each in line.split(" | ")[1].removesuffix(" |").split("; ")]
    known = {name: next(each.removeprefix(name).strip() for each in stated if re.fullmatch(rf"{re.escape(name)} \d[\d., ]*", each)) for name in CLIENTS}
    assert part.startswith(table(known) + "\n\n")
