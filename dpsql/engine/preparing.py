"""Preparing stores for the owner: from a policy and its data to buckets that statements are read from."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.source_files import DataOrigin, FileState
from dpsql.backends.store import RememberedFacts, Store, find_store
from dpsql.catalog.model import Budget, Catalog, Policy
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import choose_budget, find_ledger, find_policy, fitted, open_reader, store_folder, told_by
from dpsql.errors import OperationalError, OptionError
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.progress import tell
from dpsql.trusted.reader import ReaderFault

MARGIN = 4  # of free disk to the size of what is stored, where nobody asked for a store


class Prepared(Frozen):
    """A store that was made: of which entity, where, in how many buckets, and its tables."""

    entity: str
    place: str
    buckets: int
    tables: tuple[str, ...]


def prepare(*, policy: str | Path | None = None, database: str | Path | None = None, budget: str | None = None,
            ledger: str | Path | None = None, buckets: int | None = None) -> list[Prepared]:
    """Make the prepared stores of a policy: one for each kind of entity that its budgets protect, or only that of one budget.

    A store saves time and memory, and changes no answer. It belongs to the ledger, whose secret decides which rows a limit keeps.
    `buckets` is their number, by default one for each twelve million rows.

    Raises PolicyError, OptionError, OperationalError, IntegrityError or LedgerError; stores that were there stay in force then.
    """
    if buckets is not None and (type(buckets) is not int or not 1 <= buckets <= 4096):
        raise OptionError("the number of buckets is a whole number from 1 to 4096", code="option", subject="buckets",
                          try_="buckets = 16")
    declared = read_policy(find_policy(database, policy))
    chosen = [choose_budget(declared, budget)] if budget is not None else list(declared.budgets.values())
    book = ReportingLedger(*find_ledger(declared, ledger))
    with contextlib.closing(book), book.alone("prepare"):
        return [_prepared(declared, database, first, book, buckets)
                for first in {one.entity: one for one in reversed(chosen)}.values()]


def make_store(policy: Policy, database: str | Path | None, budget: Budget, ledger: ReportingLedger, origin: DataOrigin) -> bool:
    """Make the store of one budget's entity, of the data from `origin`, unless it is there. Returns whether there may be one now:
    not if another process prepares one. Nothing is reported, because whoever has connected may be an analyst, and private rows
    decide whether data are large and how many buckets they need."""
    folder = store_folder(policy, ledger)
    with contextlib.suppress(OperationalError, TimeoutError), ledger.alone("prepare", 0):
        if find_store(folder, budget.entity, origin, FactsBesideLedger(ledger)) is None:  # no other process has just made one
            _prepared(policy, database, budget, ledger, None, tell=lambda line: None)
        return True
    return False


def has_room(folder: Path, sources: Sequence[FileState]) -> bool:
    """Whether the disk has plenty of room for a store of some files."""
    there = next(place for place in (folder, *folder.parents) if place.is_dir())
    return shutil.disk_usage(there).free > MARGIN * sum(file.size for file in sources)


def _prepared(policy: Policy, database: str | Path | None, budget: Budget, ledger: ReportingLedger, buckets: int | None,
              tell: Callable[[str], None] = tell) -> Prepared:
    facts, folder = FactsBesideLedger(ledger), store_folder(policy, ledger)
    reader = open_reader(policy, database, facts, sealed=False)
    with contextlib.closing(reader):
        if not isinstance(reader, DuckReader):
            raise OperationalError("only files and DuckDB databases can be prepared", code="store")
        catalog = fitted(policy, budget.name, reader)
        if policy.spark is not None:
            return _in_spark(policy, reader, catalog, folder, salt=ledger.salt, facts=facts, buckets=buckets)
        store = _here(policy, database, budget, reader, catalog, ledger, buckets, tell)
    return Prepared(entity=budget.entity, place=str(folder), buckets=max(table.buckets for table in store.tables.values()),
                    tables=tuple(store.tables))


def _here(policy: Policy, database: str | Path | None, budget: Budget, reader: DuckReader, catalog: Catalog,
          ledger: ReportingLedger, buckets: int | None, tell: Callable[[str], None]) -> Store:
    """A store on this machine; if tables grow, what it had before stays where that is possible."""
    from dpsql.backends.store_parts import prepare_by_parts
    from dpsql.backends.store_writer import prepare as prepare_store
    from dpsql.backends.store_writer import storable

    @contextlib.contextmanager
    def narrowed(only: Mapping[str, frozenset[Path]]) -> Iterator[tuple[DuckReader, Catalog]]:
        some = open_reader(policy, database, facts, sealed=False, only=only)
        with contextlib.closing(some):
            if not isinstance(some, DuckReader):
                raise ReaderFault
            yield some, fitted(policy, budget.name, some)

    facts, folder = FactsBesideLedger(ledger), store_folder(policy, ledger)
    if all(table.growth is None for table in storable(catalog)):
        return prepare_store(reader, catalog, folder, salt=ledger.salt, facts=facts, buckets=buckets, tell=tell)
    return prepare_by_parts(reader, catalog, folder, salt=ledger.salt, facts=facts, buckets=buckets, tell=tell, narrowed=narrowed)


def _in_spark(policy: Policy, reader: DuckReader, catalog: Catalog, folder: Path, *, salt: int, facts: RememberedFacts,
              buckets: int | None) -> Prepared:
    """A store in a file system of Spark, which Spark makes where the data are there, too."""
    from dpsql.backends.spark_shuffle import shuffle
    from dpsql.backends.spark_writer import upload
    from dpsql.engine.opening_spark import check_in_spark, cluster_of, private_in_spark, tables_in_spark

    assert policy.spark is not None
    with told_by(policy, ("spark",)), contextlib.closing(cluster_of(policy)) as cluster:
        if private_in_spark(policy):
            check_in_spark(policy, catalog)
            store = shuffle(cluster, tables_in_spark(policy), catalog, folder, policy.spark.store, salt=salt, facts=facts,
                            buckets=buckets, tell=tell)
        else:
            store = upload(cluster, reader, catalog, folder, policy.spark.store, salt=salt, facts=facts, buckets=buckets,
                           tell=tell)
    return Prepared(entity=catalog.entity.name, place=policy.spark.store, buckets=len(store.digests), tables=tuple(store.tables))
