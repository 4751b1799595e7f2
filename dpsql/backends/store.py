"""A prepared store: the private tables of one kind of entity once more, in buckets.

Each bucket is a DuckDB file with all rows of a set of entities, of every table whose rows belong to one entity each: its declared
columns only, sorted by owner, with what `plan.stored` tells. A manifest says which files these are, from which files they were
made, and what is known of the rows. All of it is private, and so are the files' permissions.

A store saves time, and nothing may rest on what somebody else wrote there. So the manifest counts only if it is remembered beside
the ledger (`kernel.proven_facts`), word by word, and only for the very files that it names: those it was made from, and its own.
Otherwise the data are read where they are, as if there were no store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote as percent_encoded

import duckdb

from dpsql.backends.source_files import FileState
from dpsql.plan.expr.printing import quote
from dpsql.plan.stored import StoredTable

MANIFEST = "manifest-{entity}.json"


class RememberedFacts(Protocol):
    """What was found to hold of files before, and is remembered."""

    def known(self, fact: str) -> bool: ...

    def keep(self, fact: str) -> None: ...


class NothingKnown:
    """Nothing is remembered: whoever checks the data reads them."""

    def known(self, fact: str) -> bool:
        return False

    def keep(self, fact: str) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store of one kind of entity: the files of its buckets, in order, and its tables by name. `sources` are the files that
    it was made from, and `engine` is the version of the engine that made it."""

    engine: str
    sources: tuple[FileState, ...]
    buckets: tuple[FileState, ...]
    tables: Mapping[str, StoredTable]

    def as_json(self) -> str:
        return json.dumps({"engine": self.engine, "sources": files_as_json(self.sources), "buckets": files_as_json(self.buckets),
                           "tables": tables_as_json(self.tables)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Store:
        """Raises ValueError, KeyError or TypeError for anything but what `as_json` gave."""
        found = json.loads(text)
        return cls(engine=found["engine"], sources=as_files(found["sources"]), buckets=as_files(found["buckets"]),
                   tables=tables_of(found["tables"]))


FindStore: TypeAlias = Callable[[Sequence[FileState]], Store | None]
NO_STORE: FindStore = lambda files: None


def bucket_name(number: int) -> str:
    """The name, as SQL, under which a bucket is attached."""
    return quote(f"bucket {number}")


def manifest_of(folder: Path, entity: str) -> Path:
    """The manifest of the store of a kind of entity."""
    return folder / MANIFEST.format(entity=percent_encoded(entity, safe=""))


def find_store(folder: Path, entity: str, sources: Iterable[FileState], facts: RememberedFacts) -> Store | None:
    """The store of a kind of entity that was made from these very files by this version of the engine; None where there is
    none."""
    try:
        text = manifest_of(folder, entity).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if not facts.known(fact_of(text)):
        return None
    store = Store.from_json(text)
    same = store.engine == duckdb.__version__ and set(store.sources) == set(sources)
    return store if same and all(bucket.stands() for bucket in store.buckets) else None


def fact_of(manifest: str) -> str:
    """What is remembered of a store."""
    return f"store {manifest}"


def files_as_json(files: Sequence[FileState]) -> list[dict[str, Any]]:
    return [asdict(file) | {"path": str(file.path)} for file in files]


def as_files(found: Sequence[Mapping[str, Any]]) -> tuple[FileState, ...]:
    """The files, from what `files_as_json` gave."""
    return tuple(FileState(**{**file, "path": Path(file["path"])}) for file in found)


def tables_as_json(tables: Mapping[str, StoredTable]) -> dict[str, Any]:
    return {name: asdict(table) for name, table in tables.items()}


def tables_of(found: Mapping[str, Mapping[str, Any]]) -> dict[str, StoredTable]:
    """The tables, from what `tables_as_json` gave."""
    return {name: StoredTable(**{**table, "order": tuple(table["order"]), "ends": {
        column: None if ends is None else tuple(ends) for column, ends in table["ends"].items()}})
        for name, table in found.items()}
