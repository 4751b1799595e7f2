"""What a client of PostgreSQL is to the tests, the features that are asked of each, and what the clients share."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.seats import COLUMNS, ROW
from support.wire_servers import PASSWORD

from dpsql.frozen import Frozen, field

FEATURES: Mapping[str, str] = {
    "password": "SCRAM", "binding": "bound TLS", "values": "all types", "parameters": "parameters", "binary": "binary", "columns": "described",
    "prepared": "prepared", "portions": "portions", "notices": "cost shown", "place": "error place", "cancel": "cancel", "ends": "errors = true",
    "copied": "COPY", "tables": "tables", "transactions": "transactions", "pools": "pools", "cursors": "cursors", "arrays": "lists"}
ECHO = "ECHO $1::BIGINT $2::DOUBLE $3::DATE $4::TIMESTAMP $5::VARCHAR $6::BOOLEAN $7::HUGEINT"
ASKED = (-7, 2.5, dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, 4, 5, 6), "o'ä", False, Decimal(10**25))
EXPECTED = {name: Decimal(value) if kind == "HUGEINT" else value for (name, kind), value in zip(COLUMNS, ROW, strict=True)}
COUNTED = "SELECT health, COUNT(*) AS n FROM people GROUP BY health ORDER BY health"
# The questions of all clients are the same few, which are charged once.
OF_LIST = "SELECT COUNT(*) AS n FROM people WHERE health = ANY({})"
OF_SITES = "SELECT COUNT(*) AS n FROM people WHERE site IN ({}, {})"
ENDS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) COUNT(*) AS n FROM people"
HEALTH = ["excellent", "fair", "good", "poor"]
PROGRAMS = Path(__file__).parent / "client_programs"  # those in other languages


class Servers(Frozen):
    """Ports of two servers of ada's, in the database `study`: one of scripted statements, with TLS, and one of the demo."""

    scripted: int
    real: int
    folder: Path

    def dsn(self, port: int, **more: str) -> str:
        return " ".join(f"{name}={value}" for name, value in {
            "host": "localhost", "port": port, "user": "ada", "password": f"'{PASSWORD}'", "dbname": "study", **more}.items())


Asks = Callable[[Servers], Iterator[str]]


class NotAnswered(str):
    """A reason why a client lacks a feature that it has with PostgreSQL."""


class ClientOfPostgres(Frozen):
    """`lacks` gives the reason for each feature that is not there, by the feature: the client has none, leaves it to its driver, or
    was not asked for it, unless it is NotAnswered."""

    name: str
    family: str
    version: Callable[[], str]
    asks: Asks
    lacks: Mapping[str, str] = field(default_factory=dict)

    @property
    def works(self) -> set[str]:
        return FEATURES.keys() - self.lacks.keys()


CLIENTS: dict[str, ClientOfPostgres] = {}


def client(name: str, version: Callable[[], str], *, family: str = "Python", **lacks: str) -> Callable[[Asks], Asks]:
    def listed(asks: Asks) -> Asks:
        CLIENTS[name] = ClientOfPostgres(name=name, family=family, version=version, asks=asks, lacks=lacks)
        return asks

    return listed


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed")


def of_package(name: str) -> Callable[[], str]:
    return lambda: importlib.metadata.version(name)


def of_program(*command: str) -> Callable[[], str]:
    """The version that a program says it has; its last word that begins with a digit, where there is one."""
    def ask() -> str:
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        words = [word.strip("(),v\"") for word in (said.stdout or said.stderr).split("\n")[0].split()]
        return next(word for word in words if word[:1].isdigit())

    return ask


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def told(command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Iterator[str]:
    """The words that a program prints: the features that it found to work. It shows costs too if they are on its standard error."""
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env={**os.environ, **(env or {})})
    assert said.returncode == 0, said.stdout + said.stderr
    yield from said.stdout.split()
    if "NOTICE:  cost" in said.stderr:
        yield "notices"


NO_PREPARE = "prepares nothing by itself"
OF_DRIVER = "as the driver does it"
SAID = "the driver keeps them to itself"
CONSTANTS = "SELECT 42 AS i, 1.5::DOUBLE AS d, true AS b, 'ä\"' AS t, DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:30:01.00025' AS at, NULL::BIGINT AS none"
OF_CONSTANTS = {"i": 42, "d": 1.5, "b": True, "t": 'ä"', "day": dt.date(2024, 2, 29), "at": dt.datetime(2024, 2, 29, 12, 30, 1, 250), "none": None}


AT_ONCE = 10  # statements, of which the server answers four of an account at a time


def ten_at_once(ask: Callable[[Callable[[], Any]], Any]) -> None:
    """Ten threads call `ask`, which connects and then calls what it is given before it asks; all must find the values of health."""
    together, few = threading.Barrier(10), threading.Semaphore(AT_ONCE)

    def turn() -> Any:
        together.wait(60)
        return few

    def asked(_: int) -> Any:
        try:
            return ask(turn)
        except Exception as fault:
            together.abort()  # the others would wait for it
            return fault

    with ThreadPoolExecutor(10) as threads:
        found = [*threads.map(asked, range(10))]
    assert found == [HEALTH] * 10, found


def without(reason: str, *features: str) -> dict[str, str]:
    """That a client lacks these features, all for one reason."""
    return dict.fromkeys(features, reason)
