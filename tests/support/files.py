"""Tables in files, opened without a policy; CSV files as a draft of one would say that they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from dpsql.backends.csv_drafts import drafted
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.source_files import files_of
from dpsql.backends.store import NothingKnown, RememberedFacts

NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


def opened_files(sources: Mapping[str, Path], keys: Mapping[str, Sequence[str]] = NONE, *, empty: bool = False,
                 database: Path | None = None, facts: RememberedFacts = NothingKnown()) -> DuckReader:
    return open_files([_table(name, path, keys.get(name, ())) for name, path in sources.items()], empty=empty, database=database, facts=facts)


def _table(name: str, path: Path, key: Sequence[str]) -> FileTable:
    source = files_of(name, path)
    if source.is_parquet or source.relation is not None:
        return FileTable(source=source, key=tuple(key))
    found = drafted(source.paths[0], name)
    return FileTable(source=source, key=tuple(key), csv=found.csv, cells=found.readings)
