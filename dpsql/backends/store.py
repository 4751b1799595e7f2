"""A prepared store: the private tables of one kind of entity once more, in buckets.

Each bucket is a DuckDB file with all rows of a set of entities, of every table whose rows belong to one entity each: its declared
columns only, sorted by owner, with what `plan.stored` tells. A manifest says which files these are, from which files they were
made, and what is known of the rows. All of it is private, and so are the files' permissions.

A store saves time, and nothing may rest on what somebody else wrote there. So the manifest counts only if it is remembered beside
the ledger (`ledgers.proven_facts`), word by word, and only for the very files that it names: those it was made from, and its own.
Otherwise the data are read where they are, as if there were no store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import duckdb

from dpsql.backends.source_files import DataOrigin, FileState, SourceFiles
from dpsql.frozen import Frozen, asdict
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.stored import StoredTable


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


class Store(Frozen):
    """A store of one kind of entity: the files of its buckets, in order, and its tables by name. `made_of` says which files it
    was made from, as which tables, and how these were read (`source_files.DataOrigin`)."""

    entity: str
    made_of: str
    buckets: tuple[FileState, ...]
    tables: Mapping[str, StoredTable]

    @cached_property
    def identity(self) -> str:
        """Identifies the files of the buckets and what they were made from, and so the rows."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()

    def as_json(self) -> str:
        return json.dumps({"entity": self.entity, "made_of": self.made_of, "buckets": [file.as_plain() for file in self.buckets],
                           "tables": tables_as_json(self.tables)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Store:
        """Read a store from JSON. Raises ValueError, KeyError or TypeError for anything that `as_json` did not write."""
        found = json.loads(text)
        buckets = tuple(FileState(**{**file, "path": Path(file["path"])}) for file in found["buckets"])
        return cls(entity=found["entity"], made_of=found["made_of"], buckets=buckets, tables=tables_of(found["tables"]))


def tables_as_json(tables: Mapping[str, StoredTable]) -> dict[str, Any]:
    return {name: asdict(table) for name, table in tables.items()}


def tables_of(found: Mapping[str, Mapping[str, Any]]) -> dict[str, StoredTable]:
    """Read the tables of a store from the result of `tables_as_json`."""
    return {name: StoredTable(**{**table, "order": tuple(table["order"]), "ends": {
        column: None if ends is None else tuple(ends) for column, ends in table["ends"].items()}})
        for name, table in found.items()}


def origin_text(databases: Sequence[SourceFiles], tables: Sequence[Mapping[str, Any]], others: str = "") -> str:
    """The text in a manifest that identifies the origin of a store: the version of the engine, the database files, and the tables
    in other files (`as_plain`). `others` identifies the rows of tables of another kind."""
    return json.dumps({"engine": duckdb.__version__, "databases": [each.as_plain() for each in databases], "tables": tables,
                       "others": others}, default=dict)


FindStore: TypeAlias = Callable[[DataOrigin], Store | None]
NO_STORE: FindStore = lambda origin: None


def is_whole(bucket: FileState) -> bool:
    """Whether a bucket's file is unchanged since it was made, and has no log of changes beside it."""
    return bucket.stands() and not bucket.path.with_name(f"{bucket.path.name}.wal").exists()


def manifest_of(folder: Path, entity: str, kind: str = "manifest") -> Path:
    """The manifest of the store of a kind of entity."""
    return folder / f"{kind}-{hashlib.sha256(entity.encode()).hexdigest()[:16]}.json"


def find_store(folder: Path, entity: str, origin: DataOrigin, facts: RememberedFacts) -> Store | None:
    """The store of a kind of entity that was made from exactly these files, read as the same tables; None if there is none."""
    text = remembered(manifest_of(folder, entity), facts)
    if text is None:
        return None
    store = Store.from_json(text)
    return store if (store.entity, store.made_of) == (entity, origin.read_as) and all(map(is_whole, store.buckets)) else None


def remembered(manifest: Path, facts: RememberedFacts) -> str | None:
    """The text of a manifest, if exactly this text was remembered; otherwise None."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = manifest.read_text(encoding="utf-8")
        return text if facts.known(fact_of(text)) else None
    return None


def fact_of(manifest: str) -> str:
    """The text that is remembered of a store."""
    return f"store {manifest}"
