"""Sessions over small worlds, made by hand: any noise, any reader between the kernel and the rows, a ledger in a folder."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
from support import worlds
from support.repeating import Repeating

from dpsql.audit.prepared import Remembering
from dpsql.backends.duckdb import DuckReader, attach_memory, lock_down
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.model import Catalog, Policy
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import price
from dpsql.catalog.schema import fit
from dpsql.engine.opening import public_values
from dpsql.engine.session import Session
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.shared_answers import SharingLedger
from dpsql.solvers.usual import USUAL
from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.kernel.run import Kernel

PRICE: dict[str, object] = {"epsilon": 1, "delta": 1e-6}


def reader_of(world: worlds.World, version: str = "v1") -> DuckReader:
    """A locked database in memory that holds a world."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    world.fill(connection)
    attach_memory(connection)
    lock_down(connection)
    return DuckReader(connection, version)


@lru_cache(maxsize=8)
def shared(pickled: bytes) -> DuckReader:
    """A world for all sessions over it, none of which writes to it: an engine takes longer to start than most statements."""
    return reader_of(pickle.loads(pickled))


@lru_cache(maxsize=16)
def shared_catalog(pickled: bytes, policy: str, budget: str) -> Catalog:
    return catalog_of(shared(pickled), parse_policy(policy), budget)


@cache
def usual() -> worlds.World:
    """The world of sessions that name no other."""
    return worlds.world()


@cache
def usual_scratch() -> DuckScratch:
    return DuckScratch()


def scratch() -> DuckScratch:
    """A door of its own to one engine, as an engine takes longer to start than most statements to be answered."""
    with patch("dpsql.backends.scratch.scratch", usual_scratch()._connection.cursor):
        return DuckScratch()


def cursor_of(reader: DuckReader) -> DuckReader:
    return DuckReader(reader._connection.cursor(), reader.version)


def catalog_of(reader: Any, policy: Policy, budget: str) -> Catalog:
    return fit(policy, budget, reader.schema(), public_values(reader))


def session_of(folder: Path, world: worlds.World | None = None, *, reader: Any = None, noise: Any = None, budget: str = "person",
               policy: str = worlds.POLICY, analyst: str = "ada", at: dict[str, object] | None = None,
               around: Callable[[Any], Any] = lambda reader: reader, ledger: ReportingLedger | None = None, digest: str = "",
               solvers: Solvers = USUAL) -> Session:
    """A session over a world (or a reader). `around` wraps the reader; `at` is the price of a statement that names none.

    One that remembers what it read is for many releases of one statement, which the kernel certifies once.
    """
    declared = parse_policy(policy)
    if reader is None:
        pickled = pickle.dumps(world or usual())
        below, catalog = cursor_of(shared(pickled)), shared_catalog(pickled, policy, budget)
    else:
        below, catalog = reader, catalog_of(reader, declared, budget)
    book = ledger if ledger is not None else open_ledger(folder, share=declared.budgets[budget].share_answers)
    made = Repeating if around is Remembering else Kernel
    return Session(catalog=catalog, budget=declared.budgets[budget], analyst=analyst, kernel=made(
        around(below), book, noise, solvers=solvers),
                   ledger=book, scratch=scratch(), price=price(**(PRICE if at is None else at)), policy=digest)


def open_ledger(folder: Path, *, share: bool = False) -> ReportingLedger:
    path, kind = folder / "test.ledger", SharingLedger if share else ReportingLedger
    return kind(path) if path.exists() else kind.create(path)
