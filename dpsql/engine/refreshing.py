"""New snapshots of tables in other databases, and in files of other programs: for the owner, whenever statements should see what
these hold by then."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsql.backends.file_tables import open_files
from dpsql.backends.snapshots import SnapshotDatabase, SnapshotFile, check_sources, take_snapshot
from dpsql.backends.source_files import SourceFiles
from dpsql.backends.store import NothingKnown, RememberedFacts
from dpsql.catalog import growing
from dpsql.catalog.file_names import is_copied
from dpsql.catalog.model import Policy
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import (
    file_table,
    find_ledger,
    find_policy,
    in_other_database,
    snapshot_file,
    snapshot_folder,
    snapshot_table,
    source_of,
    sources_of,
    told_by,
)
from dpsql.errors import LedgerError, OperationalError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.progress import tell


def refresh(*, policy: str | Path | None = None, ledger: str | Path | None = None, again: bool = False) -> list[str]:
    """Take a new snapshot of all tables in other databases and in other programs' files, replacing the previous one. Periods of
    growing tables in PostgreSQL are read once, when they have closed; `again` reads all of them, after a correction of rows.

    Returns the names of these tables; none if all are public, and have the rows that they had: then the snapshot before stays.
    A connection that is open refuses further statements, uncharged. Raises PolicyError, or
    OperationalError or IntegrityError, located in the policy, if a database or a file cannot be read as it says, or rows share
    a declared key; then the previous snapshot is still used.
    """
    declared = read_policy(find_policy(None, policy))
    with told_by(declared, ()):
        day = _day(declared, ledger)
        databases, others = databases_of(declared, day), copied_files(declared)
        if not databases and not others:
            raise OperationalError("no table of the policy is in a database of another kind, or in a file of another program",
                                   code="no-database",
                                   try_='source = "postgresql://host/database", or "survey.sav", in [tables.<name>]')

        def verify(files: Sequence[SourceFiles]) -> None:
            tables = [file_table(declared.tables[found.table], found) for found in files]
            with _facts(declared, ledger) as facts:
                open_files(tables, facts=facts, memory=declared.memory, tell=tell).close()

        taken = take_snapshot(snapshot_folder(declared), databases, others, memory=declared.memory, again=again, tell=tell,
                              verify=verify, day=day)
    return [*(table.name for one in databases for table in one.tables), *(other.name for other in others)] if taken else []


def check_unread(policy: Policy) -> None:
    """Raise the errors that `refresh` would, as far as they are known without reading a row, if databases or files of other
    programs must be read before the policy can be used."""
    try:
        sources_of(policy)
    except OperationalError as fault:
        if fault.code != "no-snapshot":
            raise
    else:
        return
    with told_by(policy, ()):
        check_sources(databases_of(policy, growing.today()), copied_files(policy))


def copied_files(policy: Policy) -> list[SnapshotFile]:
    """The tables of a policy that are in files of other programs."""
    return [snapshot_file(policy, table) for table in policy.tables.values() if is_copied(table.source)]


def databases_of(policy: Policy, day: dt.date) -> list[SnapshotDatabase]:
    """The databases of a policy, each with all of its tables, growing ones with the periods that are closed on a day.
    Raises OperationalError if the password of one is not set."""
    sources: dict[str, list[str]] = {}
    for name, table in policy.tables.items():
        if in_other_database(table):
            sources.setdefault(table.source or "", []).append(name)
    return [SnapshotDatabase(uri=source_of(policy, policy.tables[names[0]]), password=password_of(policy, source),
                             tables=tuple(snapshot_table(policy, policy.tables[name], day) for name in names))
            for source, names in sources.items()]


def password_of(policy: Policy, source: str) -> str | None:
    """The password of a database, from the environment variable that the policy names. Raises OperationalError if that variable
    is not set."""
    variable = policy.passwords.get(source)
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise OperationalError(f"the variable {variable} of the environment, which should contain a password, is not set",
                               code="no-password", subject="", try_=f"{variable}=... in front of dpsql refresh")
    return os.environ[variable]


def _day(policy: Policy, ledger: str | Path | None) -> dt.date:
    """The day by which statements take periods for closed: that of this machine, or of the ledger's newest event if it is later.
    So a clock that is set back takes no period out of a snapshot."""
    today = growing.today()
    if all(table.growth is None for table in policy.tables.values()):
        return today
    with contextlib.suppress(LedgerError), _book(policy, ledger) as book:
        return today if book is None else today + dt.timedelta(days=book.time_state().days_behind)
    return today


@contextlib.contextmanager
def _facts(policy: Policy, ledger: str | Path | None) -> Iterator[RememberedFacts]:
    """What is remembered beside the ledger, so that what was verified is not again; nothing where there is no ledger yet."""
    with _book(policy, ledger) as book:
        yield NothingKnown() if book is None else FactsBesideLedger(book)


@contextlib.contextmanager
def _book(policy: Policy, ledger: str | Path | None) -> Iterator[ReportingLedger | None]:
    """The ledger; None where there is none yet, or none that can be used."""
    book: ReportingLedger | None = None
    with contextlib.suppress(LedgerError):
        book = ReportingLedger(*find_ledger(policy, ledger))
    with contextlib.nullcontext() if book is None else contextlib.closing(book):
        yield book
