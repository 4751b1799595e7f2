"""From a policy and a database to a session: the one place where files are found and opened."""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpsql.backends.duckdb import FILES, DuckReader, open_database, open_files
from dpsql.backends.scratch import DuckScratch
from dpsql.backends.uploads import Uploads
from dpsql.catalog.model import Budget, Catalog, Policy, Scalar
from dpsql.catalog.policy import locate, read_policy
from dpsql.catalog.price import Price, exact, price
from dpsql.catalog.schema import fit
from dpsql.engine import Session
from dpsql.errors import IntegrityError, OperationalError, OptionError
from dpsql.kernel.ledger import Ledger
from dpsql.kernel.run import Kernel
from dpsql.plan.expr.printing import quote

USUAL_POLICY = "dpsql.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a person chooses when they connect; None stands for the policy's or the usual choice."""

    budget: str | None = None
    analyst: str | None = None
    epsilon: object = None
    delta: object = None
    rho: object = None
    confidence: object = 0.95

    @property
    def price(self) -> Price | None:
        return price(epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    @property
    def exact_confidence(self) -> Fraction:
        return exact(self.confidence, "confidence", least=Fraction(1, 2), most=1 - Fraction(1, 10**9))


def file_named(name: object) -> Path:
    """The path that somebody gave. Raises OperationalError where no file can have that name."""
    fault = "" if isinstance(name, str | Path) else f"the name of a file is a text or a path, not {type(name).__name__}"
    try:
        os.lstat(str(name))
    except ValueError:
        fault = "the name of a file holds no NUL"
    except OSError as told:
        if told.errno == errno.ENAMETOOLONG:
            fault = "the name of a file is not so long"
    if fault:
        raise OperationalError(fault, code="file", subject=str(name)[:40], try_="the path of a file")
    return Path(str(name))


def find_policy(database: str | Path | None, policy: str | Path | None) -> Path:
    """The policy file: the one that is named, or dpsql.toml beside the database or here."""
    if policy is not None:
        return file_named(policy)
    beside = [file_named(database).parent / USUAL_POLICY] if database is not None else []
    places = [*beside, Path(USUAL_POLICY)]
    return next((place for place in places if place.is_file()), places[0])


def find_ledger(policy: Policy, ledger: str | Path | None = None) -> tuple[Path, Path | None]:
    """The ledger and, if the policy moves it, its anchor: named, or beside the policy under its name."""
    folder = Path(policy.path).parent
    usual = folder / policy.ledger if policy.ledger else Path(policy.path).with_suffix(".ledger")
    path = file_named(ledger if ledger is not None else usual)
    return path, file_named(folder / policy.anchor) if policy.anchor else None


def open_session(database: str | Path | None, policy: str | Path | None, ledger: str | Path | None, terms: Terms) -> Session:
    """Open everything. Raises PolicyError, OptionError, OperationalError, LedgerError; no statement was served then."""
    first, confidence = terms.price, terms.exact_confidence
    declared = read_policy(find_policy(database, policy))
    budget = choose_budget(declared, terms.budget)
    book = Ledger(*find_ledger(declared, ledger))
    reader = open_reader(declared, database)
    catalog = fitted(declared, budget.name, reader)
    return Session(catalog=catalog, budget=budget, analyst=_analyst(terms.analyst), kernel=Kernel(reader, book), ledger=book,
                   scratch=DuckScratch(), price=first if first is not None else budget.per_statement, confidence=confidence,
                   policy=declared.digest, uploads=uploads_of(declared, database, book))


def uploads_of(policy: Policy, database: str | Path | None, ledger: Ledger) -> Uploads:
    """The folders of uploads that the policy allows, and its own files, which are none."""
    folder = Path(policy.path).parent
    named = [table.source for table in policy.tables.values()] + [policy.database, policy.ledger, policy.anchor]
    own = [file_named(folder / name) for name in named if name is not None]
    own += [Path(policy.path), ledger.path, ledger.anchor, *([file_named(database)] if database is not None else [])]
    return Uploads(folders=tuple(file_named(folder / name).resolve() for name in policy.uploads),
                   closed=tuple(file.resolve() for file in own))


def fitted(policy: Policy, budget: str, reader: DuckReader) -> Catalog:
    """The catalog of a budget. The values of public columns are read; no private row is."""

    def values(table: str, column: str) -> list[Scalar | None]:
        return [row[0] for row in reader.rows(f"SELECT DISTINCT {quote(column)} FROM {quote(table)}")]

    return fit(policy, budget, reader.schema(), values)


def choose_budget(policy: Policy, name: str | None) -> Budget:
    """The budget of this name, or the only one there is."""
    if name is None and len(policy.budgets) == 1:
        return next(iter(policy.budgets.values()))
    if name is None or name not in policy.budgets:
        known = ", ".join(policy.budgets)
        reason = f"there is no budget {name}" if name is not None else "the policy has several budgets"
        raise OptionError(reason, code="unknown-budget", subject="budget", try_=f"one of {known}")
    return policy.budgets[name]


def _analyst(name: str | None) -> str:
    if name is None:
        try:
            name = getpass.getuser()
        except (OSError, KeyError):
            name = "analyst"
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
        raise OptionError("the name of an analyst is a short text", subject="analyst")
    return name


def open_reader(policy: Policy, database: str | Path | None) -> DuckReader:
    """The database: a DuckDB file, or CSV and Parquet files loaded into memory."""
    folder = Path(policy.path).parent
    named = database
    sources = {name: file_named(folder / table.source) for name, table in policy.tables.items() if table.source is not None}
    if database is None and policy.database is not None and not sources:
        database = folder / policy.database
    database = file_named(database) if database is not None else None
    keys: Mapping[str, tuple[str, ...]] = {name: table.key for name, table in policy.tables.items()}
    if database is not None and Path(database).suffix.lower() in FILES:
        sources[_table_of(policy, Path(database))] = Path(database)
    elif database is not None:
        with _told_by(policy, ("database",) if named is None else ()):
            return open_database(database)
    if not sources:
        raise OperationalError("no database is named", code="no-database",
                               try_='database = "people.duckdb" in the policy, or source = "people.csv" for every table')
    missing = [name for name in policy.tables if name not in sources]
    if missing:
        raise OperationalError(f"table {missing[0]} has no source", code="no-database", subject=missing[0],
                               try_=f'source = "{missing[0]}.csv" in [tables.{missing[0]}]')
    with _told_by(policy, ("tables",)):
        return open_files(sources, keys, types={name: declared for name, table in policy.tables.items() if (
            declared := {column: kind.type for column, kind in table.columns.items() if kind.type is not None})})


@contextlib.contextmanager
def _told_by(policy: Policy, path: tuple[str, ...]) -> Iterator[None]:
    """Faults of files are located where the policy names the file, or the key that its rows share."""
    try:
        yield
    except (OperationalError, IntegrityError) as fault:
        place = (*path, fault.subject, "key" if isinstance(fault, IntegrityError) else "source") if fault.subject else path
        fault.span = locate(policy.text, place) if place else None
        raise fault.located(policy.text, policy.path) if fault.span is not None else fault from None


def _table_of(policy: Policy, file: Path) -> str:
    """The table that a file given by its path holds: the one of its name, or the only one without a source."""
    named = next((name for name in policy.tables if name.lower() == file.stem.lower()), None)
    without = [name for name, table in policy.tables.items() if table.source is None]
    if named is None and len(without) != 1:
        raise OperationalError(f"the policy does not say which table {file.name} holds", code="no-database",
                               try_=f'source = "{file.name}" in [tables.<name>]')
    return named if named is not None else without[0]
