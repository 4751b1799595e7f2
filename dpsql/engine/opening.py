"""From a policy and a database to a session: the one place where files are found and opened."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import getpass
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import duckdb

from dpsql.backends.all_backends import is_file, open_place
from dpsql.backends.duckdb import DuckReader, open_database
from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.scratch import DuckScratch
from dpsql.backends.source_files import DataOrigin, FileState, SourceFiles, files_of
from dpsql.backends.store import NO_STORE, FindStore, NothingKnown, RememberedFacts, Store, find_store, manifest_of
from dpsql.backends.upload_folders import Uploads
from dpsql.catalog.calendars import has_calendars, with_calendars
from dpsql.catalog.database_uris import fault_of_ledger, one_place_of, place_of, scheme_of
from dpsql.catalog.file_names import is_copied, is_of_rows, usual_format
from dpsql.catalog.foreign_keys import tying_columns
from dpsql.catalog.model import Budget, Catalog, Policy, TablePolicy
from dpsql.catalog.name_faults import LONGEST, fault_of
from dpsql.catalog.policy import read_policy
from dpsql.catalog.price import Price, exact, price, short
from dpsql.catalog.public_lists import Values
from dpsql.catalog.reading import USUAL_CELL, USUAL_CSV
from dpsql.catalog.schema import carried_as, fit
from dpsql.catalog.sections import locate, suggest
from dpsql.engine.promises import check_promise, check_views, compared_with, recorded_elsewhere, rely_on_promise
from dpsql.engine.registry import Served, marks, note, others
from dpsql.engine.session import AwaitedStore, Session
from dpsql.errors import IntegrityError, OperationalError, OptionError
from dpsql.frozen import Frozen, replace
from dpsql.ledgers.ledger_reports import Failure, ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.progress import tell
from dpsql.solvers.usual import USUAL
from dpsql.trusted.accounting.cost import Account
from dpsql.trusted.declarations.growth import Growth, period_of
from dpsql.trusted.declarations.names import normal
from dpsql.trusted.declarations.tables import Scalar
from dpsql.trusted.kernel.event_store import EventStore
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.plan.expr.printing import quote, readable
from dpsql.trusted.reader import Reader

if TYPE_CHECKING:
    from dpsql.backends.snapshots import SnapshotFile, SnapshotTable

USUAL_POLICY = "dpsql.toml"
LARGE = 20_000_000  # rows of a table from which on a store may pay
AwaitStore: TypeAlias = Callable[[Policy, str | Path | None, Budget, ReportingLedger, DuckReader], AwaitedStore]


class ConnectionTerms(Frozen):
    """What a person chooses when they connect; None stands for the choice of the policy, or the default."""

    budget: str | None = None
    analyst: str | None = None
    epsilon: object = None
    delta: object = None
    rho: object = None
    confidence: object = 0.95

    @property
    def price(self) -> Price | None:
        return price(epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    def price_under(self, budget: Budget) -> Price | None:
        """The price of statements that name none: the one given here, or the budget's. An epsilon without a delta is joined by
        the delta that the budget spends on a statement, as some statements need one; delta = 0 says that there is none."""
        given, usual = self.price, budget.per_statement
        if given is None or usual is None:
            return given or usual
        alone = given.epsilon is not None and usual.epsilon is not None and self.delta is None
        return replace(given, delta=usual.delta) if alone else given

    @property
    def exact_confidence(self) -> Fraction:
        return exact(self.confidence, "confidence", least=Fraction(1, 2), most=1 - Fraction(1, 10**9))


def file_named(name: object) -> Path:
    """A path given by a person or a policy. Raises OperationalError if no file can have that name."""
    if not isinstance(name, str | Path):
        raise OperationalError(f"a file name must be a text or a path, not {type(name).__name__}", code="file",
                               try_="the path of a file")
    if scheme_of(str(name)) is not None:  # it is not shown: it may hold a password
        raise OperationalError("a database with a URI is not a file; put it into the policy", code="file",
                               try_='database = "postgresql://host/database" in the policy, and dpsql refresh')
    fault = "" if str(name) else "the name of a file is empty"
    try:
        os.lstat(str(name))
    except ValueError:
        fault = "the name of a file cannot contain NUL"
    except OSError as told:
        if told.errno == errno.ENAMETOOLONG:
            fault = "the name of a file cannot be this long"
    if fault:
        raise OperationalError(fault, code="file", subject=str(name)[:40], try_="the path of a file")
    return Path(str(name))


def find_policy(database: str | Path | None, policy: str | Path | None) -> Path:
    """The policy file: the one given, or otherwise dpsql.toml next to the database or in the working directory."""
    if policy is not None:
        return file_named(policy)
    beside = [file_named(database).parent / USUAL_POLICY] if database is not None else []
    places = [*beside, Path(USUAL_POLICY)]
    return next((place for place in places if place.is_file()), places[0])


def find_ledger(policy: Policy, ledger: str | Path | None = None) -> tuple[Path, Path | None, EventStore | None]:
    """The path of the ledger; the path of its anchor, if the policy names the ledger; and its store, if it is in a PostgreSQL
    database (the path then only locates its other files). The ledger is the one given here or in the policy, or otherwise lies
    next to the policy under its name. Raises OperationalError if the path is not a file name, or the URI not that of such a
    database."""
    folder, beside = Path(policy.path).parent, Path(policy.path).with_suffix(".ledger")
    anchor = file_named(folder / policy.anchor) if policy.anchor else None
    named = str(ledger) if ledger is not None else policy.ledger
    if named is not None and scheme_of(named) is not None:
        if (wrong := fault_of_ledger(named)) is not None:
            raise OperationalError(f"the URI of the ledger: {wrong[0]}", code="ledger-uri", subject="ledger", try_=wrong[1])
        from dpsql.ledgers.postgres_store import PostgresStore

        return beside, anchor, PostgresStore(named)
    path = file_named(ledger if ledger is not None else folder / policy.ledger if policy.ledger else beside)
    if not path.name:
        raise OperationalError(f"{path} names no file", code="file", subject=str(path), try_="the path of a ledger")
    return path, anchor, None


def open_ledger(policy: Policy, budget: Budget, ledger: str | Path | None) -> ReportingLedger:
    """The ledger for a session under a budget."""
    place = find_ledger(policy, ledger)
    if not budget.share_answers:
        return ReportingLedger(*place)
    from dpsql.ledgers.shared_answers import SharingLedger

    return SharingLedger(*place)


def open_session(database: str | Path | None, policy: str | Path | None, ledger: str | Path | None, terms: ConnectionTerms, *,
                 await_store: AwaitStore | None = None, places: bool = True) -> Session:
    """Open the policy, the database and the ledger. `await_store` is given the reader if the data are large and no store of them
    is in force, unless the policy forbids to make one. Without `places`, the session's notes do not say where files are. Raises
    PolicyError, OptionError, OperationalError or LedgerError."""
    confidence = terms.exact_confidence
    declared = read_policy(find_policy(database, policy))
    budget = choose_budget(declared, terms.budget)
    price_of_statements = terms.price_under(budget)
    analyst = analyst_of(terms.analyst, budget)
    book = open_ledger(declared, budget, ledger)
    check_promise(declared, budget, book)
    read_on = _read_on(declared, book)  # before the data are opened
    reader = open_data(declared, database, budget, book, adopting=await_store is not None)
    if has_calendars(declared):
        declared = with_calendars(declared, reader.schema(), public_values(reader))
    catalog = replace(fitted(declared, budget.name, reader), read_on=read_on)
    check_views(declared, _reads(declared, reader), book)
    if _in_spark(declared):
        from dpsql.engine.opening_spark import check_in_spark

        with told_by(declared, ("tables",)):
            check_in_spark(declared, catalog, reader.stored)
    awaited = None
    if (await_store is not None and declared.prepare and isinstance(reader, DuckReader) and not reader.stored
            and _adopts(reader, store_folder(declared, book))):
        awaited = await_store(declared, database, budget, book, reader)
    there = reader.origin.paths if database is None and isinstance(reader, DuckReader) else _files_there(declared)
    notes, fresh = noticed(declared, database, book, budget.name, there, places=places)
    promised = rely_on_promise(declared, budget, book)
    for text in (*promised, *(notes if fresh else ())):
        warnings.warn(text, UserWarning, stacklevel=4)
    return Session(catalog=catalog, budget=budget, analyst=analyst, ledger=book,
                   kernel=Kernel(reader, book, incidents=budget.incidents, late=budget.late, solvers=USUAL,
                                 answers=FactsBesideLedger(book)),
                   scratch=DuckScratch(), price=price_of_statements, confidence=confidence,
                   policy=declared.digest, uploads=_uploads_of(declared, database, book, there), notes=(*promised, *notes),
                   awaited=awaited)


def _read_on(policy: Policy, ledger: ReportingLedger) -> dt.date | None:
    """The day of which the data of growing tables are: today, by the clock of this machine or the ledger, or the day on which
    their snapshot was read; None if no table grows."""
    growing_tables = [table for table in policy.tables.values() if table.growth is not None]
    if not growing_tables:
        return None
    from dpsql.catalog import growing

    today = growing.today() + dt.timedelta(days=ledger.time_state().days_behind)
    if not any(map(in_snapshot, growing_tables)):
        return today
    from dpsql.backends.snapshots import day_of_snapshot

    return min(today, day_of_snapshot(snapshot_folder(policy)) or today)


def open_data(policy: Policy, database: str | Path | None, budget: Budget, ledger: ReportingLedger,
              *, adopting: bool = False) -> Reader:
    """A reader of the data for statements under a budget: from a store if one is in force, otherwise from the source. With
    `adopting`, a reader of large data can change to a store while it is open, unless the policy forbids to make one. See
    `open_session` for the errors."""
    facts, folder = FactsBesideLedger(ledger), store_folder(policy, ledger)
    later = (folder, LARGE) if adopting and policy.prepare and policy.spark is None else None

    def store(origin: DataOrigin) -> Store | None:
        return find_store(folder, budget.entity, origin, facts)

    alone = None
    if _in_spark(policy):
        from dpsql.engine.opening_spark import alone_in_spark

        with told_by(policy, ("spark",)):
            alone = alone_in_spark(policy, folder, budget.entity, facts)

    def opened(tries: int = 3) -> Reader:
        there = alone is None and (
            manifest_of(folder, budget.entity).is_file() or manifest_of(folder, budget.entity, "spark").is_file())
        try:
            return open_reader(policy, database, facts, store if there else NO_STORE, later=later)
        except OperationalError as fault:
            if fault.code not in ("store", "data-changed") or tries == 1:
                raise
        return opened(tries - 1)  # another store was put in its place while it was opened

    reader = opened()
    if policy.spark is not None and isinstance(reader, DuckReader):
        from dpsql.engine.opening_spark import read_by_spark

        with told_by(policy, ("spark",)):
            read_by_spark(policy, reader, folder, budget.entity, facts, alone)
    return reader


def _adopts(reader: DuckReader, folder: Path) -> bool:
    """Whether a reader can attach stores from a folder: it was opened so, or the first connection of this process to the same
    database was."""
    (allowed,), = reader.rows("SELECT current_setting('allowed_directories')")
    return f"{folder}/" in allowed


def store_folder(policy: Policy, ledger: ReportingLedger) -> Path:
    """The folder of the prepared stores of a ledger, inside the folder that the policy names, or next to the ledger. Only dpsql
    writes there."""
    named = f"dpsql-store-{ledger.identity[:16]}"
    beside = ledger.path.with_name(f"{ledger.path.name}.store")
    return Path(os.path.realpath(file_named(Path(policy.path).parent / policy.store / named if policy.store else beside)))


def _uploads_of(policy: Policy, database: str | Path | None, ledger: ReportingLedger,
                there: Mapping[str, tuple[Path, ...]]) -> Uploads:
    """The folders from which the policy allows uploads, and its own files, which may not be uploaded."""
    folder = Path(policy.path).parent
    named = [policy.database, policy.ledger, policy.anchor]
    own = [file_named(folder / name) for name in named if name is not None and scheme_of(name) is None]
    own += [path for paths in there.values() for path in paths]
    own += [_snapshots_of(policy)] if any(map(in_snapshot, policy.tables.values())) else []
    own += [snapshot_file(policy, table).file.path for table in policy.tables.values() if is_copied(table.source)]
    own += [Path(policy.path), ledger.path, ledger.anchor, *([file_named(database)] if database is not None else [])]
    return Uploads(folders=tuple(file_named(folder / name).resolve() for name in policy.uploads),
                   closed=tuple(file.resolve() for file in own))


def incidents(*, policy: str | Path | None = None, database: str | Path | None = None, budget: str | None = None,
              ledger: str | Path | None = None) -> list[Failure]:
    """The statements of a budget that failed after their charge, by all analysts, oldest first. For the owner."""
    chosen, book = _books(database, policy, budget, ledger)
    with contextlib.closing(book):
        return book.failures(chosen.name)


def reopen(analyst: str, *, policy: str | Path | None = None, database: str | Path | None = None, budget: str | None = None,
           ledger: str | Path | None = None) -> int:
    """Forgive the statements of an analyst that failed after their charge, so that new ones are answered, and those that left
    a server late, so that new ones are answered soon. For the owner.

    Returns the number of these statements. What they cost stays charged.
    """
    chosen, book = _books(database, policy, budget, ledger)
    with contextlib.closing(book):
        known = {failure.account.analyst for failure in book.failures(chosen.name)}
        name = normal(analyst) if isinstance(analyst, str) else ""
        if name not in known:  # a recorded name may predate the present rules for names
            name = analyst_of("" if analyst is None else analyst, chosen)
        return book.reopen(Account(budget=chosen.name, analyst=name))


def noticed(declared: Policy, database: str | Path | None, book: ReportingLedger, budget: str,
            there: Mapping[str, tuple[Path, ...]] | None = None, *, places: bool = True) -> tuple[list[str], bool]:
    """Warnings if the data of a policy were served under another ledger or budget, and whether this is not yet recorded. `there`
    are the files of its tables, if already known; without `places`, the ledgers are not named."""
    gone = [name for name in book.budgets if name not in declared.budgets]
    named = f" {book.place}" if places else ""
    notes = [f"the ledger{named} holds charges to {', '.join(gone)}, which the policy does not name; they are not counted "
             "in its budgets, so if a budget was renamed, give it its old name again"] if gone else []
    there = _files_there(declared) if there is None else there
    now = Served(data=marks(_private_files(declared, database, there), _private_places(declared)),
                 entity=declared.budgets[budget].entity, budget=budget, ledger=book.identity,
                 place=str(book.path.resolve()) if book.place == str(book.path) else book.place,
                 policy=str(Path(declared.path).resolve()), promise=recorded_elsewhere(declared, declared.budgets[budget]))
    for old in others(now):
        if old.ledger != book.identity or old.budget not in (*declared.budgets, *gone):
            together = compared_with(declared, declared.budgets[budget], old.promise)
            notes.append(f"these data were served before under {old.in_words(places=places)}, to protect each {old.entity}; what "
                         "was spent there is not counted here, and both together protect less than either promises"
                         f"{f': {together}' if together else ''}")
    return notes, note(now)


def _private_files(policy: Policy, database: str | Path | None, there: Mapping[str, tuple[Path, ...]]) -> list[Path]:
    folder = Path(policy.path).parent
    named = Path(database) if database is not None else folder / policy.database if policy.database is not None else None
    copied = [snapshot_file(policy, table).file.path for table in policy.tables.values()
              if is_copied(table.source) and not table.public]
    return [*([named] if named is not None else []), *(path for path in copied if path.is_file()),
            *(path for name, paths in there.items() if not policy.tables[name].public
              and not in_snapshot(policy.tables[name]) for path in paths)]


def _private_places(policy: Policy) -> list[str]:
    """Where private tables of other databases are, whatever files hold their snapshots."""
    return [f"{place_of(source_of(policy, table))} {'.'.join(relation_of(table))}" for table in policy.tables.values()
            if in_other_database(table) and not table.public] + [
                str(table.source) for table in policy.tables.values() if table.in_spark and not table.public]


def allowed_together(policy: Policy) -> list[str]:
    """For each entity with several budgets, a note on the total that they allow together, as each is kept separately."""
    found = []
    for entity in dict.fromkeys(budget.entity for budget in policy.budgets.values()):
        same = [budget for budget in policy.budgets.values() if budget.entity == entity]
        if len(same) > 1:
            epsilon = sum((budget.total.epsilon for budget in same if budget.total.epsilon is not None), Fraction(0))
            rho = sum((budget.total.rho for budget in same if budget.total.rho is not None), Fraction(0))
            delta = sum((budget.total.delta for budget in same), Fraction(0))
            parts = [f"{sign} = {short(amount)}" for sign, amount in (("ε", epsilon), ("ρ", rho)) if amount]
            names = ", ".join(budget.name for budget in same)
            found.append(f"each {entity} is protected by {len(same)} budgets ({names}), which together allow "
                         f"{' and '.join(parts)}{f', δ = {float(delta):g}' if delta else ''}")
    return found


def _books(database: str | Path | None, policy: str | Path | None, budget: str | None,
           ledger: str | Path | None) -> tuple[Budget, ReportingLedger]:
    declared = read_policy(find_policy(database, policy))
    return choose_budget(declared, budget), ReportingLedger(*find_ledger(declared, ledger))


def fitted(policy: Policy, budget: str, reader: Reader) -> Catalog:
    """The catalog of a budget. The values of public columns are read, but no private rows."""
    found = fit(policy, budget, reader.schema(), public_values(reader))
    if any(table.rules for table in policy.tables.values()):
        from dpsql.engine.table_rules import check_rules_of

        check_rules_of(policy, found)
    if any(column.like is not None for table in policy.tables.values() for column in table.columns.values()):
        from dpsql.engine.new_texts import with_patterns

        found = with_patterns(policy, found)
    return found


def read_calendars(policy: Policy, database: str | Path | None) -> Policy:
    """The policy with the first days of its calendars. A database is opened only if there are some."""
    if not has_calendars(policy):
        return policy
    reader = open_reader(policy, database)
    try:
        return with_calendars(policy, reader.schema(), public_values(reader))
    finally:
        reader.close()


def public_values(reader: Reader) -> Values:
    """A function that lists the values of columns of public tables. It raises ValueError for dates that Python cannot represent
    and would read as other dates."""
    schema = reader.schema()

    def values(table: str, columns: Sequence[str], most: int) -> list[tuple[Scalar | None, ...]]:
        kinds = dict(schema[next(name for name in schema if name.lower() == table.lower())].columns)
        days = [(quote(name), found[0]) for name in columns if (found := carried_as(kinds.get(name, ""))) is not None]
        unread = " OR ".join(f"NOT {test}" for printed, kind in days if (test := readable(printed, kind)))
        if unread and reader.rows(f"SELECT 1 FROM {quote(table)} WHERE {unread} LIMIT 1"):
            raise ValueError("Python cannot represent this day, and would read another one")
        return reader.rows(f"SELECT DISTINCT {', '.join(map(quote, columns))} FROM {quote(table)} LIMIT {most}")

    return values


def choose_budget(policy: Policy, name: str | None) -> Budget:
    """The budget with this name; without a name, the only one."""
    if name is None and len(policy.budgets) == 1:
        return next(iter(policy.budgets.values()))
    if not isinstance(name, str) or name not in policy.budgets:
        known = ", ".join(policy.budgets)
        other = "the policy has several budgets" if name is None else "the name of a budget is a text"
        reason = f"there is no budget {name}" if isinstance(name, str) else other
        raise OptionError(reason, code="unknown-budget", subject="budget", try_=f"one of {known}")
    return policy.budgets[name]


def analyst_of(name: object, budget: Budget) -> str:
    """The analyst's name in normal form. Raises OptionError if it is invalid or not listed in the policy."""
    given = _user() if name is None else name
    found = normal(given) if isinstance(given, str) and len(given) <= 10 * LONGEST else None
    wrong = fault_of(found) if found is not None else "is not a short text"
    if found is None or wrong is not None:
        raise OptionError(f"the name of the analyst {wrong}", code="analyst", subject="analyst",
                          try_='analyst = "ada": letters of one script, digits and . _ @ -')
    if budget.listed is not None and found not in budget.listed:
        raise OptionError(f"the policy does not list {found} among the analysts of the budget {budget.name}", code="analyst",
                          subject="analyst", try_=suggest(found, budget.listed))
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "analyst"


def sources_of(policy: Policy) -> dict[str, SourceFiles]:
    """The files of each table for which the policy names a source. Raises OperationalError, located, if a source has none."""
    with told_by(policy, ("tables",)):
        return {name: _source_of(policy, name, source) for name, source in _named_sources(policy)}


def _files_there(policy: Policy) -> dict[str, tuple[Path, ...]]:
    """The files of each table, as far as they are there: a database that a person names may stand for them."""
    found: dict[str, tuple[Path, ...]] = {}
    for name, source in _named_sources(policy):
        with contextlib.suppress(OperationalError):
            found[name] = _source_of(policy, name, source).paths
    return found


def _named_sources(policy: Policy) -> list[tuple[str, str]]:
    return [(name, table.source) for name, table in policy.tables.items() if table.source is not None and not table.in_spark]


def _source_of(policy: Policy, table: str, source: str) -> SourceFiles:
    declared = policy.tables[table]
    if in_snapshot(declared):
        from dpsql.backends.snapshots import snapshot_files

        return snapshot_files(snapshot_folder(policy), snapshot_file(policy, declared) if is_copied(declared.source)
                              else snapshot_table(policy, declared))
    return files_of(table, file_named(Path(policy.path).parent / source), policy.tables[table].relation)


def _reads(policy: Policy, reader: Reader) -> Callable[[TablePolicy], frozenset[str]]:
    """A function that names the tables of its database that a table reads where it is a view there; none for a table of files.
    The schema is asked for once, when it is first needed."""
    views: dict[str, frozenset[str]] = {}

    def named(table: TablePolicy) -> frozenset[str]:
        if in_other_database(table):
            from dpsql.backends.snapshots import relations_read

            return relations_read(snapshot_folder(policy), snapshot_table(policy, table))
        if table.source is None and not views:
            views.update({name.lower(): held.view or frozenset() for name, held in reader.schema().items()})
        return views.get(table.name.lower(), frozenset()) if table.source is None else frozenset()

    return named


def in_other_database(table: TablePolicy) -> bool:
    """Whether a table is in a database of another kind, which is read through snapshots."""
    return scheme_of(table.source or "") is not None


def in_snapshot(table: TablePolicy) -> bool:
    """Whether a table is read from a snapshot: it is in a database of another kind, or in another program's file format."""
    return in_other_database(table) or is_copied(table.source)


def snapshot_folder(policy: Policy) -> Path:
    """The folder of this policy's snapshots, below the folder where snapshots are kept; no other policy shares it. Its name
    depends on the relative path from there to the policy, so both can be moved together."""
    kept = _snapshots_of(policy)
    way = os.path.relpath(os.path.realpath(policy.path), os.path.realpath(kept))
    return kept / f"dpsql-snapshots-{hashlib.sha256(os.fsencode(way)).hexdigest()[:16]}"


def _snapshots_of(policy: Policy) -> Path:
    """The folder in which snapshots are kept, perhaps of several policies: the one the policy names, or one beside its ledger."""
    if policy.snapshots is not None:
        return file_named(Path(policy.path).parent / policy.snapshots)
    usual, _, _ = find_ledger(policy)
    return usual.with_name(f"{usual.name}.snapshots")


def snapshot_table(policy: Policy, table: TablePolicy, day: dt.date | None = None) -> SnapshotTable:
    """The contents that a snapshot of a table must have; if the table grows, with the periods that are closed on a day, where one
    is given. Where moments are read in a time zone, periods do not end at midnight (UTC), so the table is read as a whole."""
    from dpsql.backends.snapshots import SnapshotTable

    told = table.growth
    cut = told is not None and table.columns[told.column].reading.zone == USUAL_CELL.zone
    growth = None if told is None or not cut else Growth(column=told.column, period=told.period, closes=told.closes,
                                                         since=period_of(told.period, told.since))
    return SnapshotTable(name=table.name, source=source_of(policy, table), relation=relation_of(table), filter=table.filter,
                         public=table.public, columns={name: column.type for name, column in table.columns.items()},
                         ties=tying_columns(policy).get(table.name, {}), growth=growth,
                         last=0 if growth is None or day is None else growth.last_closed(day))


def snapshot_file(policy: Policy, table: TablePolicy) -> SnapshotFile:
    """The contents that a snapshot must have for a table in a file of another program."""
    from dpsql.backends.foreign_rows import ForeignFile
    from dpsql.backends.snapshots import SnapshotFile

    path = file_named(Path(policy.path).parent / (table.source or ""))
    file = ForeignFile(table=table.name, path=Path(os.path.realpath(path)), sheet=table.sheet, how=table.csv or USUAL_CSV)
    return SnapshotFile(file=file, source=table.source or "", row_key=table.row_key, public=table.public,
                        columns=tuple(name for name in table.columns if name != table.row_key))


def relation_of(table: TablePolicy) -> tuple[str, ...]:
    """The name of a table in its database."""
    return table.relation if table.relation is not None else (table.name,)


def source_of(policy: Policy, table: TablePolicy) -> str:
    """The URI of a table's database; a relative file path in it starts from the folder of the policy."""
    source = table.source or ""
    head, slashes, path = source.partition(":///")
    return f"{head}{slashes}{(Path(policy.path).parent / path).absolute()}" if head.lower() == "sqlite" and slashes else source


def open_reader(policy: Policy, database: str | Path | None, facts: RememberedFacts = NothingKnown(),
                store: FindStore = NO_STORE, *, sealed: bool = True, later: tuple[Path, int] | None = None,
                only: Mapping[str, frozenset[Path]] = MappingProxyType({})) -> Reader:
    """A reader of the database: usually a DuckDB file, another back end, or CSV and Parquet files. Of the tables in `only`, it
    reads no other files than these.

    `facts` are what is remembered of files, `store` finds the store that was made from some, which may also come `later`; see
    `open_files`. Raises OperationalError or IntegrityError, located in the policy if it names the file.
    """
    folder, named = Path(policy.path).parent, database
    if _in_spark(policy) and database is not None:
        raise OperationalError("the database given contains all tables, but in the policy some are in Spark", code="no-database",
                               try_="leaving the database out")
    if database is not None and is_copied(str(database)):
        raise OperationalError(f"{Path(database).name} can only be read by dpsql refresh, as a source in the policy",
                               code="no-database", try_=f'source = "{Path(database).name}" in the policy, and no database')
    alone = database is not None and policy.database is None and not is_of_rows(str(database))
    sources = {} if alone else sources_of(policy)  # a database that a person names has all tables
    for name, paths in only.items():
        sources[name] = replace(sources[name], files=tuple(file for file in sources[name].files if file.path in paths))
    if alone and _cleans(policy):
        sources, database = _cleaned_from(policy, str(database)), None
    if database is None and policy.database is not None:
        database = folder / policy.database if is_file(policy.database) else policy.database
    if database is not None and is_file(str(database)):
        database = file_named(database)
    if database is not None and is_of_rows(str(database)):
        table = _table_of(policy, Path(database))
        with told_by(policy, ("tables",)):
            sources[table] = files_of(table, Path(database))
        database = None
    in_spark = [name for name, table in policy.tables.items() if table.in_spark]
    if database is not None and not sources and not in_spark:
        with told_by(policy, ("database",) if named is None else ()):
            if is_file(str(database)) and (store is not NO_STORE or not sealed):
                return open_files([], database=Path(database), facts=facts, memory=policy.memory, find_store=store, sealed=sealed,
                                  later=later)
            return open_database(str(database), later) if is_file(str(database)) else open_place(str(database))
    if not sources and not in_spark:
        raise OperationalError("no database is named", code="no-database",
                               try_='database = "people.duckdb" in the policy, or source = "people.csv" for every table')
    missing = [name for name in policy.tables if name not in sources and name not in in_spark]
    if missing and database is None:
        raise OperationalError(f"table {missing[0]} has no source", code="no-database", subject=missing[0],
                               try_=f'source = "{missing[0]}.csv" in [tables.{missing[0]}]')
    beside = Path(database) if missing and database is not None else None
    with told_by(policy, ("tables",)):
        _check_sources(policy, sources, beside)
        return open_files([file_table(policy.tables[name], files) for name, files in sources.items()], facts=facts,
                          database=beside, memory=policy.memory, find_store=store, sealed=sealed, tell=tell,
                          others=_made_in_spark(policy), later=later)


def _cleans(policy: Policy) -> bool:
    return any(column.reading.cleans for table in policy.tables.values() for column in table.columns.values())


def _cleaned_from(policy: Policy, database: str) -> dict[str, SourceFiles]:
    """All tables of a policy in a database that a person names, whose cells are cleaned as they are where the policy names it:
    who is one entity must not depend on who names the database."""
    if not is_file(database):
        raise OperationalError("the policy cleans cells, so it must also name the database",
                               code="no-database", try_="leaving the database out")
    return {name: files_of(name, file_named(database), table.relation) for name, table in policy.tables.items()}


def _in_spark(policy: Policy) -> bool:
    """Whether Spark alone can see some of the tables."""
    return any(table.in_spark for table in policy.tables.values())


def _made_in_spark(policy: Policy) -> Callable[[duckdb.DuckDBPyConnection], str]:
    """What makes the tables that only Spark can see."""
    if not _in_spark(policy):
        return lambda connection: ""
    from dpsql.backends.spark_tables import make_tables
    from dpsql.engine.opening_spark import cluster_of, tables_in_spark

    def made(connection: duckdb.DuckDBPyConnection) -> str:
        with told_by(policy, ("spark",)), contextlib.closing(cluster_of(policy)) as cluster:
            return make_tables(connection, cluster, list(tables_in_spark(policy).values()))

    return made


def file_table(table: TablePolicy, files: SourceFiles) -> FileTable:
    """A table in files, as the policy declares it. A snapshot already has the declared types."""
    cells = {name: column.reading for name, column in table.columns.items() if name != table.row_key}
    if in_other_database(table):
        cells = {name: replace(how, type=None) for name, how in cells.items()}
    return FileTable(source=files, key=table.key, row_key=table.row_key, columns=(*table.columns,), cells=cells,
                     csv=table.csv or usual_format(files.paths[0]), public=table.public,
                     grows_by=None if table.growth is None else table.growth.column)


def _check_sources(policy: Policy, sources: Mapping[str, SourceFiles], database: Path | None) -> None:
    """Raise OperationalError if a public table has a file of a private one, under whatever name, or if a source is the `database`
    that other tables are in: a table, or a view over it, would be there a second time, public or private as it is not here."""
    state = FileState.of(database) if database is not None and database.is_file() else None
    for name, files in sources.items():
        if state is not None and any((file.device, file.number) == (state.device, state.number) for file in files.files):
            raise OperationalError(f"the source of {name} is the database of other tables", code="policy-schema",
                                   subject=name, try_="leaving this source out, or the same source for each table of that file")
    private = {at: name for name, files in sources.items() if not policy.tables[name].public for at in files.places}
    for name, files in sources.items():
        other = next((private[at] for at in files.places if at in private), None)
        if policy.tables[name].public and other is not None:
            raise OperationalError(f"the public table {name} has the file of {other}, which is private", code="policy-schema",
                                   subject=name, try_="a file without private data")
    if any(table.growth is not None for table in policy.tables.values()):
        from dpsql.engine.same_rows import check_same_rows  # loaded only where tables grow

        check_same_rows(policy, sources, lambda name: _relations_of(policy, policy.tables[name]))


def _relations_of(policy: Policy, table: TablePolicy) -> frozenset[object]:
    """The stored relations that a table in another database is read from, each with its database; none for other tables."""
    if not in_other_database(table):
        return frozenset()
    from dpsql.backends.snapshots import relations_read

    place = one_place_of(source_of(policy, table))
    return frozenset((place, name) for name in relations_read(snapshot_folder(policy), snapshot_table(policy, table)))


@contextlib.contextmanager
def told_by(policy: Policy, path: tuple[str, ...]) -> Iterator[None]:
    """A context that adds positions to errors in files: the place where the policy names the file, or the key that several rows
    share; `path` is used for errors that are about no table."""
    try:
        yield
    except (OperationalError, IntegrityError) as fault:
        place = _place(policy, fault) if fault.subject else path
        fault.span = locate(policy.text, place) if place else None
        raise fault.located(policy.text, policy.path) if fault.span is not None else fault from None


def _place(policy: Policy, fault: OperationalError | IntegrityError) -> tuple[str, ...]:
    """Where in a policy an error about a table, or about one of its columns, is."""
    for name, table in policy.tables.items():
        column = fault.subject.removeprefix(f"{name}.")
        if column in table.columns and fault.subject not in policy.tables:
            return "tables", name, "columns", column
    key = {"filter": "filter", "no-table": "relation"}.get(fault.code, "source")
    return "tables", fault.subject, "key" if isinstance(fault, IntegrityError) else key


def _table_of(policy: Policy, file: Path) -> str:
    """The table held by a file that is given by its path: the one of the same name, or the only one without a source."""
    named = next((name for name in policy.tables if name.lower() == file.stem.lower()), None)
    without = [name for name, table in policy.tables.items() if table.source is None]
    if named is None and len(without) != 1:
        raise OperationalError(f"the policy does not say which table is in {file.name}", code="no-database",
                               try_=f'source = "{file.name}" in [tables.<name>]')
    return named if named is not None else without[0]
