"""New snapshots of tables in other databases: for the owner, whenever statements should see what these hold by then."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsql.backends.file_tables import open_files
from dpsql.backends.snapshots import SnapshotDatabase, check_databases, take_snapshot
from dpsql.backends.source_files import SourceFiles
from dpsql.backends.store import NothingKnown, RememberedFacts
from dpsql.catalog.model import Policy
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import (
    file_table,
    find_ledger,
    find_policy,
    in_other_database,
    snapshot_folder,
    snapshot_table,
    source_of,
    sources_of,
    told_by,
)
from dpsql.errors import LedgerError, OperationalError
from dpsql.kernel.ledger import Ledger
from dpsql.kernel.proven_facts import FactsBesideLedger
from dpsql.progress import tell


def refresh(*, policy: str | Path | None = None, ledger: str | Path | None = None) -> list[str]:
    """Take a new snapshot of all tables in other databases, in place of the one before.

    Returns the names of these tables; none where all are public, and have the rows that they had: then the snapshot before stays.
    A connection that is open refuses further statements, uncharged. Raises PolicyError, or
    OperationalError or IntegrityError, located in the policy, where a database cannot be read as it says, or rows share a
    declared key; then the snapshot before stays in force.
    """
    declared = read_policy(find_policy(None, policy))
    with told_by(declared, ()):
        databases = databases_of(declared)
        if not databases:
            raise OperationalError("no table of the policy is in a database of another kind", code="no-database",
                                   try_='source = "postgresql://host/database" in [tables.<name>]')

        def verify(files: Sequence[SourceFiles]) -> None:
            tables = [file_table(declared.tables[found.table], found) for found in files]
            with _facts(declared, ledger) as facts:
                open_files(tables, facts=facts, memory=declared.memory, tell=tell).close()

        taken = take_snapshot(snapshot_folder(declared), databases, memory=declared.memory, tell=tell, verify=verify)
    return [table.name for database in databases for table in database.tables] if taken else []


def check_unread(policy: Policy) -> None:
    """Where the databases of a policy have to be read before it can be used, raise what `refresh` would, as far as their catalogs
    tell; no row is read."""
    try:
        sources_of(policy)
    except OperationalError as fault:
        if fault.code != "no-snapshot":
            raise
    else:
        return
    with told_by(policy, ()):
        check_databases(databases_of(policy))


def databases_of(policy: Policy) -> list[SnapshotDatabase]:
    """The databases of a policy, each with all of its tables. Raises OperationalError if one with a password is not set."""
    sources: dict[str, list[str]] = {}
    for name, table in policy.tables.items():
        if in_other_database(table):
            sources.setdefault(table.source or "", []).append(name)
    return [SnapshotDatabase(uri=source_of(policy, policy.tables[names[0]]), password=password_of(policy, source),
                             tables=tuple(snapshot_table(policy, policy.tables[name]) for name in names))
            for source, names in sources.items()]


def password_of(policy: Policy, source: str) -> str | None:
    """The password of a database, where the policy names the variable that holds it. Raises OperationalError if it is not set."""
    variable = policy.passwords.get(source)
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise OperationalError(f"the variable {variable} of the environment, which should hold a password, is not set",
                               code="no-password", subject="", try_=f"{variable}=... in front of dpsql refresh")
    return os.environ[variable]


@contextlib.contextmanager
def _facts(policy: Policy, ledger: str | Path | None) -> Iterator[RememberedFacts]:
    """What is remembered beside the ledger, so that what was verified is not again; nothing where there is no ledger yet."""
    book: Ledger | None = None
    with contextlib.suppress(LedgerError):
        book = Ledger(*find_ledger(policy, ledger))
    if book is None:
        yield NothingKnown()
        return
    with contextlib.closing(book):
        yield FactsBesideLedger(book)
