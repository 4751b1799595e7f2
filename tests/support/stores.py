"""Prepared stores of small worlds, and readers that tell what is read in buckets."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from support import worlds
from support.sessions import catalog_of

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import open_files
from dpsql.backends.store import find_store
from dpsql.backends.store_parts import prepare_by_parts
from dpsql.backends.store_writer import prepare
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.trusted.cached import cached_property
from dpsql.trusted.reader import Parts


class BucketReader(DuckReader):
    """A reader that remembers what it reads in buckets, and in the database."""

    @cached_property
    def parts(self) -> list[str]:
        return []

    @cached_property
    def others(self) -> list[str]:
        return []

    def _cursor(self, sql: str = "", parts: Sequence[Parts] = ()) -> Any:
        (self.parts if parts else self.others).append(parts[0].statements[0] if parts else sql)
        return super()._cursor(sql, parts)


def only_whole(only: object) -> AbstractContextManager[tuple[DuckReader, Catalog]]:
    raise AssertionError("a database file is read as a whole")


def stored(database: Path, ledger: ReportingLedger, *, budget: str = "person", buckets: int = 3, policy: str = worlds.POLICY,
           folder: Path | None = None, growing: Callable[[Catalog], Catalog] | None = None) -> BucketReader:
    """A reader of a DuckDB file and of a store that is made of it: in parts, if it has tables that are made `growing`."""
    folder, facts = folder or database.with_name(f"store-{secrets.token_hex(4)}"), FactsBesideLedger(ledger)
    declared = parse_policy(policy)
    reader = open_files([], database=database, sealed=False)
    catalog = catalog_of(reader, declared, budget)
    if growing is None:
        prepare(reader, catalog, folder, salt=ledger.salt, facts=facts, buckets=buckets, tell=lambda line: None)
    else:
        prepare_by_parts(reader, growing(catalog), folder, salt=ledger.salt, facts=facts, buckets=buckets, tell=lambda line: None, narrowed=only_whole)
    reader.close()
    return reopened(database, ledger, folder, budget=budget, policy=policy)


def reopened(database: Path, ledger: ReportingLedger, folder: Path, *, budget: str = "person", policy: str = worlds.POLICY) -> BucketReader:
    """A reader of a DuckDB file, and of the store in a folder if that is in force."""
    entity, facts = parse_policy(policy).budgets[budget].entity, FactsBesideLedger(ledger)
    found = open_files([], database=database, find_store=lambda origin: find_store(folder, entity, origin, facts))
    found.__class__ = BucketReader
    assert isinstance(found, BucketReader)
    return found
