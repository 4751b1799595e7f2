"""Snapshots of tables in databases of other kinds and in files of other programs: Parquet files that are then read where they
are, like any others.

A snapshot holds the declared columns of all tables, those of one database as one transaction sees them. It is a folder of its
own, which only the owner of the process may enter, and the file `manifest.json` beside it says that it is in force, and what was
asked for. The folder is written first, then its files are verified, and then the manifest is replaced at once: whatever
interrupts this leaves the snapshot before in force. A connection that is open notices that the manifest is another one
before it charges a statement; for those that run just then, the snapshot before stays until the next one is taken.

Answers that were paid for are of one snapshot, and cost again after the next. So whether there is a next one shows, and must not
depend on private rows: if one person's visit were all that is new, a statement that costs again would tell of it. Only where all
tables are public, and all rows are the ones that were there, the previous snapshot is still used.

Of a table that grows only closed periods are copied, and each once: a refresh reads the rows of those that have closed since the
one before, by a condition on the column of time which the database evaluates as we do (`Dialect.by_day`). Their file stays for
the snapshots that follow, in the folder in which it was written. So late rows and corrections are read only if the owner asks
for all periods again. Tables that grow by a calendar are copied whole.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import itertools
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError

from dpsql.backends.dialects import Dialect, Reading
from dpsql.backends.drivers import DriverFault, SourceDatabase, opened
from dpsql.backends.duckdb import connected, with_memory
from dpsql.backends.foreign_files import columns_in, copy_rows, rows_in
from dpsql.backends.foreign_rows import ForeignFile
from dpsql.backends.key_equality import check_key, check_pairs
from dpsql.backends.manifests import put_in_place
from dpsql.backends.source_files import FileState, SourceFiles
from dpsql.catalog.database_uris import file_of, place_of
from dpsql.catalog.reading_words import format_in_words
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.growth import CALENDAR, Growth, first_day
from dpsql.trusted.plan.expr.printing import quote, text_literal

MANIFEST = "manifest.json"
OWN = re.compile(r"snapshot-[0-9a-f]{16}")  # the name of the folder of a snapshot
FILE = re.compile(r"[0-9]+\.parquet")  # the name of a file in it
TURN = "refreshing"  # the file that is locked by whoever takes a snapshot
FORM = 2  # of the manifest
FIRST = "first"  # the column that tells rows from the one before them that shows their types
CLAUSES = {"expressions", "from", "from_", "where"}  # of the query that a filter is put into, as sqlglot names them
RANDOM = exp.Rand | exp.Seq1 | exp.Seq2 | exp.Seq4 | exp.Seq8
FROM_SOURCE = "reading the Arrow source failed"  # how the engine begins what a driver told it


class SnapshotTable(Frozen):
    """A table to be read: its columns, each with the type that is declared for it, if there is one. `ties` are those that tie its
    rows to entities, each with what foreign keys compare it with, as (table, column). Of a table that grows, only the periods up
    to the `last` one are read."""

    name: str
    source: str
    relation: tuple[str, ...]
    columns: Mapping[str, str | None]
    filter: str | None = None
    public: bool = False
    ties: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    growth: Growth | None = None
    last: int = 0  # the newest period that is closed

    def asked(self) -> dict[str, Any]:
        """The settings of this table in the policy, in the form that the manifest stores."""
        return {"source": self.source, "relation": list(self.relation), "filter": self.filter, "columns": dict(self.columns),
                "public": self.public, "ties": {name: sorted(map(list, others)) for name, others in sorted(self.ties.items())},
                **({} if self.growth is None else {"grows": [self.growth.column, self.growth.period, self.growth.since]})}


class SnapshotDatabase(Frozen):
    """A database, and the tables that are read from it. The password is in no text of this value."""

    uri: str
    tables: tuple[SnapshotTable, ...]
    password: str | None = field(default=None, repr=False)


class SnapshotFile(Frozen):
    """A table in a file of another program: the columns that are read, and the name of the further one that names its rows, if
    there is one. The snapshot holds what the file holds: of which types its columns are, the policy says whenever it is read."""

    file: ForeignFile
    source: str
    columns: tuple[str, ...]
    row_key: str | None = None
    public: bool = False

    @property
    def name(self) -> str:
        return self.file.table

    def asked(self) -> dict[str, Any]:
        """The settings of this table in the policy, in the form that the manifest stores."""
        return {"source": self.source, "sheet": self.file.sheet, "written": format_in_words(self.file.how),
                "columns": [*self.columns], "row_key": self.row_key, "public": self.public}


class _Run(Frozen, kw_only=False):
    """Periods of a table, from the first to the last, and the file that has their rows, below the folder of all snapshots."""

    first: int
    last: int
    file: str

    def path(self, folder: Path) -> Path:
        """Raises ValueError for another file than that of a snapshot."""
        inside, _, name = self.file.partition("/")
        if FILE.fullmatch(name) is None:
            raise ValueError
        return folder / _own(inside) / name


class _Found(Frozen):
    """A table as its database has it: its whole name, what follows it so that all tables are of one moment, how each column is
    read, and the stored relations that are read with it."""

    table: SnapshotTable
    name: tuple[str, ...]
    reads: frozenset[str]
    readings: Mapping[str, Reading]
    at: str


# -- what is in force


def snapshot_files(folder: Path, table: SnapshotTable | SnapshotFile) -> SourceFiles:
    """The files of a table. Raises OperationalError if no snapshot matches the policy."""
    return _in_snapshot(folder, table)[0]


def _in_snapshot(folder: Path, table: SnapshotTable | SnapshotFile) -> tuple[SourceFiles, Mapping[str, Any]]:
    """The files of a table, and what the manifest says of it. Raises as `snapshot_files` does."""
    manifest = folder / MANIFEST
    try:
        state = FileState.of(manifest)
        held = json.loads(manifest.read_text(encoding="utf-8"))
        inside, one = folder / _own(held["folder"]), held["tables"].get(table.name)
    except OSError:
        raise _no_snapshot(f"no snapshot of {table.name} was taken yet", table) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _no_snapshot(f"{manifest} is damaged", table) from None
    if held.get("form") != FORM:
        raise _no_snapshot(f"the snapshot of {table.name} was taken by another version of dpsql", table)
    if one is None or {key: one.get(key) for key in table.asked()} != table.asked():
        raise _no_snapshot(f"the snapshot was taken before the policy changed its declarations for {table.name}", table)
    try:
        paths = [run.path(folder) for run in _runs(one)] or [inside / one["file"]]
        found = tuple(FileState.of(Path(os.path.realpath(path))) for path in paths)
    except OSError:
        raise _no_snapshot(f"the snapshot of {table.name} is incomplete, or was replaced just now", table) from None
    except (ValueError, KeyError, TypeError):
        raise _no_snapshot(f"{manifest} is damaged", table) from None
    return SourceFiles(table=table.name, reader="read_parquet", files=found, told_by=state), one


def _runs(told: Mapping[str, Any]) -> tuple[_Run, ...]:
    """The files of a table that was read by period, of which a manifest tells."""
    return tuple(_Run(int(first), int(last), str(file)) for first, last, file in told.get("runs", ()))


def day_of_snapshot(folder: Path) -> dt.date | None:
    """The day by which periods were closed when the snapshot in force was read; None if an earlier version read it."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return dt.date.fromisoformat(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["day"])
    return None


def relations_read(folder: Path, table: SnapshotTable) -> frozenset[str]:
    """The stored relations from which a table's rows were read, by their names in the database. Raises OperationalError as
    `snapshot_files` does."""
    return frozenset(_in_snapshot(folder, table)[1]["reads"])


def _own(name: str) -> str:
    """The name of the folder of a snapshot. Raises ValueError for any other."""
    if OWN.fullmatch(name) is None:
        raise ValueError
    return name


def _no_snapshot(reason: str, table: SnapshotTable | SnapshotFile) -> OperationalError:
    what = "the file" if isinstance(table, SnapshotFile) else "the database"
    return OperationalError(reason, code="no-snapshot", subject=table.name, try_=f"dpsql refresh, which reads {what}")


# -- taking one


def take_snapshot(folder: Path, databases: Sequence[SnapshotDatabase], others: Sequence[SnapshotFile] = (), *,
                  memory: str | None = None, again: bool = False,
                  tell: Callable[[str], None] = lambda line: None,
                  verify: Callable[[Sequence[SourceFiles]], None] = lambda files: None, day: dt.date | None = None) -> bool:
    """Read all tables, those in databases and the `others` in files, and replace the previous snapshot. If all tables are
    public and no row has changed, the previous snapshot stays. Returns whether it was replaced. Periods of growing tables that
    were read before are read only if they are to be read `again`. `day` is the one by which periods are closed.

    `verify` is given the files before they are in force, and raises where they must not be. Raises OperationalError about a table
    (or `table.column`) where a database or a file cannot be read as the policy says, or the files cannot be written.
    """
    fault: OperationalError | None = None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _turn(folder):
            return _take(folder, databases, others, memory, again, tell, verify, day)
    except OSError as told:
        why = os.strerror(told.errno) if told.errno else "the system gives no reason"
        fault = OperationalError(f"the snapshot cannot be written to {folder}: {why}", code="no-space",
                                 try_="a folder with enough space: snapshots in [store]; the previous snapshot is still used")
    raise fault


def _take(folder: Path, databases: Sequence[SnapshotDatabase], others: Sequence[SnapshotFile], memory: str | None,
          again: bool, tell: Callable[[str], None], verify: Callable[[Sequence[SourceFiles]], None],
          day: dt.date | None) -> bool:
    _check_files(others)
    asked: list[SnapshotTable | SnapshotFile] = [*(table for one in databases for table in one.tables), *others]
    _clear(folder, but=_files_in_force(folder))
    inside = folder / f"snapshot-{secrets.token_hex(8)}"
    inside.mkdir(mode=0o700)
    files: dict[str, str] = {}
    runs: dict[str, tuple[_Run, ...]] = {}
    seen: list[tuple[str, _Found]] = []
    try:
        for database in databases:
            with opened(database.uri, database.password, database.tables[0].name) as source:
                for found in _checked(source, database, databases, seen):
                    name = found.table.name
                    files[name] = f"{len(files)}.parquet"
                    if _is_by_period(source.dialect, found):
                        runs[name] = () if again else _read_before(folder, found.table)
                        new = _next_run(found.table, runs[name], f"{inside.name}/{files[name]}")
                        if new is None:
                            continue
                        runs[name] = *runs[name], new
                    tell(f"reading {name} ..." if len(runs.get(name, ())) < 2 else f"reading new periods of {name} ...")
                    _copy(source, found, inside / files[name], memory, runs.get(name, ())[-1:])
        for other in others:
            tell(f"reading {other.name} ...")
            files[other.name] = f"{len(files)}.parquet"
            copy_rows(other.file, other.columns, inside / files[other.name], row_key=other.row_key, memory=memory)
        if all(table.public for table in asked) and _is_as_before(folder, asked, inside, files, memory):
            shutil.rmtree(inside)
            return False
        paths = {name: [run.path(folder) for run in runs.get(name, ())] or [inside / file] for name, file in files.items()}
        verify([SourceFiles(table=name, reader="read_parquet", files=tuple(
            FileState.of(Path(os.path.realpath(path))) for path in each)) for name, each in paths.items()])
        tables = {it.table.name: {"file": files[it.table.name], "reads": sorted(it.reads), **it.table.asked(), **(
            {"runs": [[run.first, run.last, run.file] for run in runs[it.table.name]]} if it.table.name in runs else {})}
            for _, it in seen}
        tables |= {other.name: {"file": files[other.name], **other.asked()} for other in others}
        told = {"form": FORM, "folder": inside.name, "day": None if day is None else str(day), "tables": tables}
        manifest = json.dumps(told, indent=1)
        put_in_place(folder / MANIFEST, manifest, [*inside.iterdir(), inside])
        return True
    except BaseException:
        if _in_force(folder) != inside.name:  # it may come after the last step
            shutil.rmtree(inside, ignore_errors=True)
        raise


def _is_as_before(folder: Path, tables: Sequence[SnapshotTable | SnapshotFile], inside: Path, files: Mapping[str, str],
                  memory: str | None) -> bool:
    """Whether the snapshot in force has the same rows in each of the tables, of the same types, in whatever order."""
    with contextlib.suppress(OperationalError, duckdb.Error), contextlib.closing(connected(config=with_memory(memory))) as engine:
        return all(_equal(engine, snapshot_files(folder, table).paths[0], inside / files[table.name])
                   for table in tables)
    return False


def _equal(engine: duckdb.DuckDBPyConnection, before: Path, now: Path) -> bool:
    """Whether two files have the same columns and rows, each row as often: as many, and none too often in the first."""
    old, new = (f"read_parquet({text_literal(path)})" for path in (before, now))
    if engine.execute(f"DESCRIBE FROM {old}").fetchall() != engine.execute(f"DESCRIBE FROM {new}").fetchall():
        return False
    found = engine.execute(f"SELECT (SELECT COUNT(*) FROM {old}) = (SELECT COUNT(*) FROM {new}) "
                           f"AND NOT EXISTS (FROM {old} EXCEPT ALL FROM {new})").fetchall()
    return bool(found == [(True,)])


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """One process at a time takes a snapshot. Raises OperationalError if another does."""
    handle = os.open(folder / TURN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        held = False
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        if not held:
            raise OperationalError(f"another process takes a snapshot in {folder}", code="busy", try_="again when it is done")
        yield
    finally:
        os.close(handle)


def _in_force(folder: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["folder"])
    return ""


def _is_by_period(dialect: Dialect, found: _Found) -> bool:
    """Whether the rows of some periods alone can be read. Those of a calendar are closed by its first days, which are not known
    here, and may be read by the same refresh."""
    growth = found.table.growth
    if growth is None or growth.period == CALENDAR:
        return False
    return dialect.by_day is not None and found.readings[growth.column].target in ("DATE", "TIMESTAMP")


def _files_in_force(folder: Path) -> Mapping[str, frozenset[str] | None]:
    """The folders with files of the snapshot in force, each with the names of these files; None for all that it has."""
    found: dict[str, set[str]] = {}
    now = _in_force(folder)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for one in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["tables"].values():
            for run in _runs(one):
                found.setdefault(run.path(folder).parent.name, set()).add(run.path(folder).name)
    return {**{name: frozenset(names) for name, names in found.items()}, now: None}


def _clear(folder: Path, *, but: Mapping[str, frozenset[str] | None]) -> None:
    """Remove the snapshots that are not in force: earlier ones, but for files of theirs that are, and those that were not
    finished."""
    for other in [*folder.iterdir()]:
        if OWN.fullmatch(other.name) is None:
            continue
        if other.name not in but:
            shutil.rmtree(other, ignore_errors=True)
        elif (names := but[other.name]) is not None:
            for file in [*other.iterdir()]:
                if file.name not in names:
                    file.unlink(missing_ok=True)


def _read_before(folder: Path, table: SnapshotTable) -> tuple[_Run, ...]:
    """The periods of a table that the snapshot in force has, each run after the other; none if it has another form. A run with
    periods that are not closed was read by a clock that was ahead, when their rows were not there: it is read again."""
    with contextlib.suppress(OperationalError):
        _, told = _in_snapshot(folder, table)
        return tuple(itertools.takewhile(lambda run: run.last <= table.last, _runs(told)))
    return ()


def _next_run(table: SnapshotTable, before: Sequence[_Run], file: str) -> _Run | None:
    """The periods that are read now; None if all that are closed were read before. At first there may be none in it."""
    assert table.growth is not None
    first = before[-1].last + 1 if before else table.growth.since
    return _Run(first, max(table.last, first - 1), file) if not before or first <= table.last else None


# -- what is read


def check_sources(databases: Sequence[SnapshotDatabase], others: Sequence[SnapshotFile]) -> None:
    """Raise OperationalError about a table or a column, as `take_snapshot` does, if a database or a file cannot be read as the
    policy says. No row is read."""
    _check_files(others)
    seen: list[tuple[str, _Found]] = []
    for database in databases:
        with opened(database.uri, database.password, database.tables[0].name) as source:
            _checked(source, database, databases, seen)


def _check_files(others: Sequence[SnapshotFile]) -> None:
    """Raise OperationalError if a file lacks a column, or if a public table has the same file and sheet as a private one. A table
    that names no sheet may have any sheet of its workbook."""
    for other in others:
        columns_in(other.file, rows_in(other.file), other.columns)
    places = {other.name: FileState.of(other.file.path) for other in others}
    for other in (other for other in others if other.public):
        own = places[other.name]
        private = next((one.name for one in others if not one.public
                        and (places[one.name].device, places[one.name].number) == (own.device, own.number)
                        and (one.file.sheet == other.file.sheet or None in (one.file.sheet, other.file.sheet))), None)
        if private is not None:
            raise OperationalError(f"the public table {other.name} has the file of {private}, which is private",
                                   code="policy-schema", subject=other.name, try_="a file or sheet without private data")


def _checked(source: SourceDatabase, database: SnapshotDatabase, databases: Sequence[SnapshotDatabase],
             seen: list[tuple[str, _Found]]) -> list[_Found]:
    """All tables as the database has them. Those that are seen are added to what was `seen` of other databases, and compared with
    it. Raises OperationalError if the policy does not fit."""
    described = _described(source, database)
    seen += ((_identity(source, database.uri), found) for found in described)
    _check_public(seen)
    ties = {(found.table.name, column): others for _, found in seen for column, others in found.table.ties.items()}
    equalities = {(found.table.name, column): found.readings[column].equality for _, found in seen for column in found.table.ties}
    check_pairs(equalities, ties, frozenset(table.name for one in databases for table in one.tables))
    return described


def _described(source: SourceDatabase, database: SnapshotDatabase) -> list[_Found]:
    """All tables as the database has them, before any is read. Raises OperationalError if the policy does not fit."""
    moment: str | None = ""
    if source.dialect.moment:
        moment = next((str(now) for now, in source.rows_or_none(source.dialect.moment)), None)
    if moment is None:
        raise OperationalError(f"{place_of(database.uri)} does not report the time of the snapshot",
                               code="no-database", subject=database.tables[0].name, try_="a user who may run queries there")
    described = [_found(source, table, source.dialect.at.format(moment)) for table in database.tables]
    if source.dialect.locks:
        for found in described:
            _lock(source, found)
        if [_found(source, table, "") for table in database.tables] != described:
            raise OperationalError(f"tables of {place_of(database.uri)} were replaced just now", code="no-database",
                                   subject=database.tables[0].name, try_="dpsql refresh again")
    return described


def _lock(source: SourceDatabase, found: _Found) -> None:
    """Keep others from replacing or emptying a table before it is read, which no transaction would hide. Raises
    OperationalError."""
    code: str | None = None
    try:
        source.rows(f"{_query(source.dialect, found)} LIMIT 0")
    except DriverFault as told:
        code = told.code
    if code is not None:
        raise _not_read(found.table, code)


def _identity(source: SourceDatabase, uri: str) -> str:
    """What tells a database from all others, by whatever URI it is reached; the URI where nothing better is known."""
    told = source.rows_or_none(source.dialect.itself) if source.dialect.itself else []
    if told:
        return str(told[0][0])
    file = file_of(uri)
    if file is None:
        return place_of(uri)
    state = FileState.of(file)
    return f"{state.device} {state.number}"


def _check_public(seen: Sequence[tuple[str, _Found]]) -> None:
    """Raises OperationalError if a public table shows rows that are private: those of a private table under another name or
    URI, of one of its parts, or of one that it is a part of, or those that a view reads."""
    private = {(place, read): found for place, found in seen if not found.table.public for read in found.reads}
    for place, found in seen:
        other = next((private[place, read] for read in sorted(found.reads) if (place, read) in private), None)
        if found.table.public and other is not None:
            how = "has the rows of" if found.name == other.name else "shows rows of"
            raise OperationalError(f"the public table {found.table.name} {how} {other.table.name}, which is private",
                                   code="policy-schema", subject=found.table.name, try_="a table without private data")


def _found(source: SourceDatabase, table: SnapshotTable, at: str) -> _Found:
    named = _named_by_filter(table, source.dialect)
    shown = ".".join(table.relation)
    rows = source.rows_or_none(source.dialect.columns(table.relation))
    if not rows:
        raise OperationalError(f"the database has no table {shown}, or it may not be seen", code="no-table", subject=table.name,
                               try_='relation = "schema.table", spelled as there')
    if rows[0][2] and not table.public:
        raise OperationalError(f"{shown} is a view or has rows from elsewhere, and it is unknown whose rows these are",
                               code="policy-schema", subject=table.name,
                               try_="the table that it reads, with a filter, or a table made from it")
    types = {str(column): str(kind) for column, kind, *_ in rows}
    _check_names(table, named, types)
    columns = {name: _column(table, name, types) for name in table.columns}
    readings = {name: _reading(table, name, columns[name], types, source.dialect) for name in table.columns}
    name = tuple(map(str, rows[0][3:]))
    reads, unlike = _catalog(source, table, name, stored=not rows[0][2])
    for tie in table.ties:
        check_key(f"{table.name}.{tie}", columns[tie], readings[tie], unlike, source.dialect)
    if reads is None:
        raise OperationalError(f"{shown} is a view or has rows from elsewhere, and may show private data",
                               code="policy-schema", subject=table.name,
                               try_="a table made from it, if everybody may see all of its rows as they are")
    return _Found(table=table, name=name, readings=readings, at=at, reads=reads)


def _catalog(source: SourceDatabase, table: SnapshotTable, name: tuple[str, ...], *,
             stored: bool) -> tuple[frozenset[str] | None, Mapping[str, str]]:
    """The stored relations that a table reads, None where they are not known; and the columns that are compared otherwise than
    their types are, where that matters. Raises OperationalError if the catalog cannot be read."""
    dialect = source.dialect
    with contextlib.suppress(DriverFault):
        own = frozenset([".".join(name)]) if stored else None
        return (dialect.reads(source.rows, name) if dialect.reads is not None else own,
                dialect.unlike(source.rows, name) if table.ties else {})
    raise OperationalError(f"the catalog of the database does not say how keys of {table.name} are compared, or what it reads",
                           code="no-database", subject=table.name, try_="a user who may see it, and a supported version")


def _column(table: SnapshotTable, name: str, types: Mapping[str, str]) -> str:
    """The name that a declared column has in the database; one that differs in case only is taken where no other fits."""
    near = [column for column in types if column.lower() == name.lower()]
    column = name if name in types else near[0] if len(near) == 1 else None
    if column is None:
        raise OperationalError(f"table {table.name} has no column {name} in the database, or it may not be seen",
                               code="no-column", subject=f"{table.name}.{name}", try_="one of " + ", ".join(types))
    return column


def _reading(table: SnapshotTable, name: str, column: str, types: Mapping[str, str], dialect: Dialect) -> Reading:
    """How a declared column is read, which is `column` in the database."""
    declared, subject = table.columns[name], f"{table.name}.{name}"
    found = dialect.reading(column, types[column], declared)
    if found is None:
        why = f"does not fit {declared}" if declared is not None else "must be read as another type"
        raise OperationalError(
            f"{subject} has the type {types[column] or 'of no name'} in the database, which {why}", code="unsupported-type",
            subject=subject, try_=" or ".join(f'type = "{kind}"' for kind in dialect.fitting(types[column])) or "another column")
    return found


def _named_by_filter(table: SnapshotTable, dialect: Dialect) -> list[tuple[str, ...]]:
    """The columns that a filter names, each with what is in front of it.

    Raises OperationalError if a filter looks at other rows: one person's rows would decide over those of others, which no
    accounting knows of. So may functions that sqlglot does not know, such as `query_to_xml` of PostgreSQL, which runs a query.
    """
    if table.filter is None:
        return []
    parsed: list[Any] = []
    with contextlib.suppress(SqlglotError, ValueError, RecursionError):
        parsed = parse(f"SELECT 1 FROM t WHERE ({table.filter}\n)", dialect=dialect.filters, error_level=ErrorLevel.RAISE)
    query = parsed[0] if len(parsed) == 1 else None
    clauses = {key: part for key, part in query.args.items() if part} if isinstance(query, exp.Select) else {}
    where = clauses.get("where")
    if where is None or not isinstance(where.this, exp.Paren) or not clauses.keys() <= CLAUSES:
        raise _wrong_filter(table, "is no condition")
    if any(isinstance(part, exp.Query | exp.AggFunc | exp.Window | RANDOM | exp.Table) for part in where.walk()):
        raise _wrong_filter(table, "reads more than the row itself")
    unknown = next((part.name for part in where.find_all(exp.Anonymous)), None)
    if unknown is not None:
        raise _wrong_filter(table, f"calls {unknown}, which may read more than the row itself")
    return [tuple(part.name for part in column.parts) for column in where.find_all(exp.Column)]


def _check_names(table: SnapshotTable, named: Sequence[tuple[str, ...]], types: Mapping[str, str]) -> None:
    """Raises OperationalError if a filter names what is no column of the table: where a row is (`ctid`, `rowid`) depends on
    others, and SQLite takes a quoted name that it does not know for a text."""
    there = {column.lower() for column in types}
    for parts in named:
        if not any(part.lower() in there for part in parts):
            raise _wrong_filter(table, f"names {'.'.join(parts)}, which is not a column of the table")


def _wrong_filter(table: SnapshotTable, why: str) -> OperationalError:
    return OperationalError(f"the filter of {table.name} {why}", code="filter", subject=table.name,
                            try_="a condition on columns of the row, in SQL of that database, such as filter = \"year >= 2020\"")


def _copy(source: SourceDatabase, found: _Found, path: Path, memory: str | None, runs: Sequence[_Run] = ()) -> None:
    """Write the rows of a table to a file, as they come, or those of some periods. Raises OperationalError."""
    table, sql = found.table, _query(source.dialect, found, runs)
    shown = ", ".join(f"{reading.made.format(f'c{i}')} AS {quote(name)}"
                      for i, (name, reading) in enumerate(found.readings.items()))
    fault: OperationalError | None = None
    engine = connected(config=with_memory(memory))
    try:
        engine.execute("SET preserve_insertion_order = false")  # so that little of a stream is held
        rows = engine.from_arrow(source.stream(sql))
        _write(engine, (rows.filter(f"{FIRST} = 0") if FIRST in rows.columns else rows).project(shown), path)
        path.chmod(0o600)
    except DriverFault as told:
        fault = _not_read(table, told.code)
    except duckdb.OutOfMemoryException:
        fault = OperationalError(f"there is not enough memory to read {table.name}", code="memory", subject=table.name,
                                 try_='memory = "4GB" in [store], or more')
    except duckdb.IOException:
        raise OSError(28, "") from None
    except duckdb.Error as told:
        broken = FROM_SOURCE in str(told)
        reason = "stopped" if broken else "sent a value that cannot be stored, such as a text that is not UTF-8,"
        fault = OperationalError(f"the database {reason} while {table.name} was read", code="no-database", subject=table.name,
                                 try_="dpsql refresh again; the previous snapshot is still used")
    finally:
        engine.close()
    if fault is not None:
        raise fault


def _write(engine: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, path: Path) -> None:
    """Write rows as they come, in a thread of its own: while it writes, the engine does not see Ctrl-C. Raises duckdb.Error."""
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(rows.write_parquet, str(path))
        try:
            written.result()
        finally:
            while not written.done():  # it may not have begun
                engine.interrupt()
                wait([written], timeout=0.1)


def _not_read(table: SnapshotTable, code: str) -> OperationalError:
    """Why a query of a table is refused."""
    if code == "42501":
        return OperationalError(f"table {table.name} may not be read, or row security hides some of it", code="no-database",
                                subject=table.name, try_="a user who may read all of it: GRANT SELECT, and BYPASSRLS if needed")
    shown = f" (SQLSTATE {code})" if code else ""
    if table.filter is not None and (not code or code.startswith("42")):  # all else of the query is ours
        return _wrong_filter(table, f"is not understood by the database{shown}")
    return OperationalError(f"the database does not allow reading {table.name}{shown}",
                            code="no-database", subject=table.name, try_="the same table in a client of that database")


def _query(dialect: Dialect, found: _Found, runs: Sequence[_Run] = ()) -> str:
    """The query of a table's rows, or of those of some periods. Where the driver guesses types from the first rows, one that
    shows them goes before."""
    readings = [*found.readings.values()]
    tests = [] if found.table.filter is None else [f"({found.table.filter}\n)"]  # a comment ends with its line
    tests += [_in_run(dialect, found, run) for run in runs]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    asked = ", ".join(f"{reading.asked} AS c{i}" for i, reading in enumerate(readings))
    if not any(reading.sample for reading in readings):
        return f"SELECT {asked} FROM {dialect.quoted(*found.name)}{found.at}{where}"
    samples = ", ".join(f"{reading.sample} AS c{i}" for i, reading in enumerate(readings))
    return f"SELECT 1 AS {FIRST}, {samples} UNION ALL SELECT 0, {asked} FROM {dialect.quoted(*found.name)}{found.at}{where}"


def _in_run(dialect: Dialect, found: _Found, run: _Run) -> str:
    """The condition that a row is in some periods. Periods begin at midnight (UTC), so it is the same of a day and of a moment of
    which the day is read."""
    growth = found.table.growth
    assert growth is not None and dialect.by_day is not None
    first, after = (first_day(growth.period, number) for number in (run.first, run.last + 1))
    return dialect.by_day.format(found.readings[growth.column].column, first, after)
