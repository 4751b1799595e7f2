"""Preparing stores for the owner: from a policy and its data to buckets that statements are read from."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.preparing import prepare as make_store
from dpsql.backends.store import Store
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import choose_budget, find_ledger, find_policy, fitted, open_reader, store_folder
from dpsql.errors import OperationalError, OptionError
from dpsql.kernel.ledger import Ledger
from dpsql.kernel.proven_facts import FactsBesideLedger
from dpsql.progress import tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A store that was made: of which entity, where, and what it holds."""

    entity: str
    folder: Path
    store: Store


def prepare(*, policy: str | Path | None = None, database: str | Path | None = None, budget: str | None = None,
            ledger: str | Path | None = None, buckets: int | None = None) -> list[Prepared]:
    """Make the prepared stores of a policy: one for each kind of entity that its budgets protect, or that of one budget.

    A store saves time and memory, and changes no answer. It belongs to the ledger, whose secret decides which rows a limit keeps.
    `buckets` is their number, by default one for each eight million rows.

    Raises PolicyError, OptionError, OperationalError, IntegrityError or LedgerError; stores that were there stay in force then.
    """
    if buckets is not None and (type(buckets) is not int or not 1 <= buckets <= 4096):
        raise OptionError("the number of buckets is a whole number from 1 to 4096", code="option", subject="buckets",
                          try_="buckets = 16")
    declared = read_policy(find_policy(database, policy))
    chosen = [choose_budget(declared, budget)] if budget is not None else list(declared.budgets.values())
    book = Ledger(*find_ledger(declared, ledger))
    with contextlib.closing(book), book.alone("prepare"):
        facts, folder, made = FactsBesideLedger(book), store_folder(declared, book), []
        for first in {one.entity: one for one in reversed(chosen)}.values():
            reader = open_reader(declared, database, facts, sealed=False)
            with contextlib.closing(reader):
                if type(reader) is not DuckReader:
                    raise OperationalError("only files and DuckDB databases can be prepared", code="store")
                catalog = fitted(declared, first.name, reader)
                store = make_store(reader, catalog, folder, salt=book.salt, facts=facts, buckets=buckets, tell=tell)
            made.append(Prepared(entity=first.entity, folder=folder, store=store))
        return made
