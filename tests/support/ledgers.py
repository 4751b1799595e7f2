"""Ledgers in PostgreSQL where a test, or a program that it starts, opens ledgers by paths: one schema for each path."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import pytest
from support import postgres

from dpsql.trusted.kernel import ledger as module
from dpsql.trusted.kernel.event_store import EventStore

SERVER = "DPSQL_TEST_LEDGERS"
BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
IN_POSTGRES = pytest.mark.parametrize("store", ["postgres"], indirect=True)


@cache
def database() -> str:
    """The URI of a database for all tests of this process, whose server keeps what it is told."""
    return postgres.fresh(postgres.DURABLE).uri


def uri_of(path: Path, server: str) -> str:
    return f"{server}?options=-csearch_path%3Dt{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:20]}"


def in_postgres(server: str) -> None:
    """From now on, ledgers that are opened by their paths are in this database."""
    from dpsql.ledgers.postgres_store import PostgresStore

    def made(path: Path) -> EventStore:
        return PostgresStore(uri_of(path, server))

    module.SqliteStore = made


def in_programs() -> None:
    """The same in a program that a test has started."""
    if SERVER in os.environ:
        in_postgres(os.environ[SERVER])
