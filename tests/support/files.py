"""Tables in files, opened without a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.source_files import files_of

NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


def opened_files(sources: Mapping[str, Path], keys: Mapping[str, Sequence[str]] = NONE, *, empty: bool = False,
                 database: Path | None = None) -> DuckReader:
    return open_files([FileTable(source=files_of(name, path), key=tuple(keys.get(name, ()))) for name, path in sources.items()], empty=empty,
                      database=database)
