"""The files that a policy means by the `source` of a table: one file, all files in a folder, or those that fit a pattern. In
folders and patterns, names that begin with a dot or an underscore are left out, and a file that has several names is read once.

Files are found once, when the data are opened, and are named to the engine one by one, by absolute paths without links: it is
never given a pattern, and may open nothing else.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpsql.catalog.database_uris import is_duckdb_file
from dpsql.catalog.file_names import is_of_rows, is_of_texts
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, field, replace

FORMS = {"BIGINT": r"0|-?[1-9]\d{0,17}", "DATE": r"\d{4}-\d\d-\d\d"}  # of values in the names of folders, by their type
WILD = frozenset("*?[")  # what the engine takes for a pattern


class FileState(Frozen):
    """What tells that a file is the one that was opened: where it is, its size, and when it was changed (`touched`: or what is
    noted of it, such as the time of change itself)."""

    path: Path
    device: int
    number: int
    size: int
    changed: int
    touched: int

    @classmethod
    def of(cls, path: Path) -> FileState:
        """The present state of a file. Raises OSError if there is no such file."""
        found = path.stat()
        return cls(path=path, device=found.st_dev, number=found.st_ino, size=found.st_size, changed=found.st_mtime_ns,
                   touched=found.st_ctime_ns)

    def as_plain(self) -> dict[str, Any]:
        """The form in a store's manifest. Later versions read it, so its names stay even if the fields are renamed."""
        return {"path": str(self.path), "device": self.device, "number": self.number, "size": self.size, "changed": self.changed,
                "touched": self.touched}

    def stands(self) -> bool:
        """Whether the file is unchanged, as far as can be seen without reading it."""
        try:
            return FileState.of(self.path) == self
        except OSError:
            return False


class SourceFiles(Frozen):
    """The files of a table, all of one kind, in the order of their paths.

    root      the folder below which they are, in whose subfolders `year=2019` a column may be written; None for a single file
    told_by   another file, which says that the table has these files
    relation  the schema and the name of the table in a DuckDB file, which ignores their case; None for files of rows
    """

    table: str
    reader: str
    files: tuple[FileState, ...]
    root: Path | None = None
    told_by: FileState | None = None
    relation: tuple[str, str] | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(file.path for file in self.files)

    @property
    def places(self) -> list[tuple[object, ...]]:
        """Where the rows are, independently of file names: in files, or in one table of a DuckDB file (which may contain public
        tables too)."""
        return [(file.device, file.number, self.relation) for file in self.files]

    def as_plain(self) -> dict[str, Any]:
        """The form in a store's manifest."""
        return {"table": self.table, "reader": self.reader, "files": [file.as_plain() for file in self.files],
                "root": None if self.root is None else str(self.root),
                "told_by": None if self.told_by is None else self.told_by.as_plain(), "relation": self.relation}

    @property
    def is_parquet(self) -> bool:
        return self.reader == "read_parquet"


class DataOrigin(Frozen):
    """Where the tables of a reader come from.

    files    all of the files
    read_as  which table each of them is read for, from which folder, and how: with the engine's version, what the rows rest on
             (`store.origin_text`)
    rows     about how many rows the largest table has
    paths    the paths of the tables in files of their own
    """

    files: tuple[FileState, ...] = ()
    read_as: str = ""
    rows: int = 0
    paths: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)


NOWHERE = DataOrigin()


def files_of(table: str, source: Path, relation: tuple[str, ...] | None = None) -> SourceFiles:
    """The files of a source; `relation` is the name of the table in a DuckDB file, if it differs.

    Raises OperationalError if there are none, of several kinds, or of names that are patterns.
    """
    if is_duckdb_file(str(source)):
        if not source.is_file():
            raise _wrong(f"there is no file {source}", table, "its path")
        *schema, name = relation or (table,)
        whole = files_of_database(Path(os.path.realpath(source)))
        return replace(whole, table=table, relation=((schema or ["main"])[0].lower(), name.lower()))
    named, root = _named(table, source)
    readers = {"read_csv" if is_of_texts(path.name) else "read_parquet" for path in named}
    if len(readers) > 1:
        raise _wrong(f"{source} holds both CSV and Parquet files", table, "a pattern that ends in .csv or .parquet")
    for path in named:
        if set(str(path)) & WILD:
            raise _wrong(f"the engine would read {path} as a pattern for other files too", table, "a path without * ? and [")
    try:
        states = tuple({(state.device, state.number): state for state in map(FileState.of, reversed(named))}.values())[::-1]
    except OSError:
        raise _wrong(f"a file of {source} disappeared while it was opened", table, "opening the data again") from None
    return SourceFiles(table=table, reader=readers.pop(), files=states, root=root)


def files_of_database(path: Path) -> SourceFiles:
    """The files of a database that the engine opens itself: the database file and its write-ahead log, if there is one."""
    log = path.with_name(f"{path.name}.wal")
    return SourceFiles(table="", reader="", files=(FileState.of(path), *([FileState.of(log)] if log.is_file() else [])))


def folder_columns(source: SourceFiles) -> dict[str, str]:
    """The columns that are encoded in the folder names of all files, each with the type of its values there."""
    found: dict[str, list[str]] = {}
    for path in source.paths if source.root is not None else ():
        for part in path.relative_to(source.root or path).parts[:-1] if path.is_relative_to(source.root or path) else ():
            name, _, value = part.partition("=")
            if name and value:
                found.setdefault(name, []).append(value)
    return {name: next((kind for kind, form in FORMS.items() if all(re.fullmatch(form, value) for value in values)), "VARCHAR")
            for name, values in found.items() if len(values) == len(source.paths)}


def _named(table: str, source: Path) -> tuple[list[Path], Path | None]:
    """The paths, absolute and without links, and the folder below which they were looked for."""
    if source.is_file() or not (source.is_dir() or set(str(source)) & WILD):
        if not is_of_rows(source.name):
            raise _wrong(f"{source} is neither CSV nor Parquet", table, "a file that ends in .csv, .tsv, .txt, .dat or .parquet; "
                         "text files may be compressed, as .csv.gz or .csv.zst")
        if not source.is_file():
            raise _wrong(f"there is no file {source}", table, "its path")
        return [Path(os.path.realpath(source))], None
    root = source if source.is_dir() else _fixed_part(source)
    pattern = "**/*" if source.is_dir() else str(source.relative_to(root))
    try:
        found = {Path(os.path.realpath(path)) for path in root.glob(pattern)  # follows no links to folders
                 if is_of_rows(path.name) and path.is_file() and not _is_aside(path.relative_to(root))}
    except ValueError:
        raise _wrong(f"{source} is not a valid pattern: ** must be a folder's whole name", table, "visits/**/*.parquet") from None
    if not found:
        raise _wrong(f"no CSV or Parquet file {'is in' if source.is_dir() else 'fits'} {source}", table,
                     "the path of a file, a folder with files, or a pattern such as visits/*.parquet")
    return sorted(found), Path(os.path.realpath(root))


def _is_aside(path: Path) -> bool:
    """Whether writers keep there what is not data, or not yet: names that begin with a dot or an underscore."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _fixed_part(source: Path) -> Path:
    """The folder in front of a pattern."""
    fixed: list[str] = []
    for part in source.parts[:-1]:
        if set(part) & WILD:
            break
        fixed.append(part)
    return Path(*fixed) if fixed else Path()


def _wrong(reason: str, table: str, try_: str) -> OperationalError:
    return OperationalError(reason, code="no-database", subject=table, try_=try_)


def fingerprint(sources: Iterable[SourceFiles]) -> str:
    """A digest that identifies the content of files without reading them: by their names below the source's folder, their sizes
    and their times of change."""
    parts = [f"{source.table}/{name_below(source.root, file.path)}:{file.size}:{file.changed}"
             for source in sources for file in source.files]
    return hashlib.sha256("|".join(sorted(parts)).encode()).hexdigest()


def name_below(root: Path | None, path: Path) -> str:
    """The part of a file's name that distinguishes it from the other files of its source, wherever they are kept."""
    return str(path.relative_to(root)) if root is not None and path.is_relative_to(root) else path.name
