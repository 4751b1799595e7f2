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
from dpsql.trusted.plan.stored import StoredPart, StoredTable, bucket_name


class RememberedFacts(Protocol):
    """What was found to hold of files before, and is remembered."""

    def known(self, fact: str) -> bool: ...

    def keep(self, fact: str) -> None: ...

    def recall_each(self, questions: Sequence[str]) -> list[str | None]:
        """The answers that were noted for questions about private rows; None for those of which none was."""
        ...

    def note(self, question: str, answer: str) -> None: ...


class NothingKnown:
    """Nothing is remembered: whoever checks the data reads them."""

    def known(self, fact: str) -> bool:
        return False

    def keep(self, fact: str) -> None:
        pass

    def recall_each(self, questions: Sequence[str]) -> list[str | None]:
        return [None for _ in questions]

    def note(self, question: str, answer: str) -> None:
        pass


class PartFiles(Frozen):
    """The files of one part of a growing table, a file for each bucket. `made_of` says how its rows were read, and `read` are
    the files that they were read from; see `store_parts`."""

    table: str
    made_of: str
    read: tuple[FileState, ...]
    buckets: tuple[FileState, ...]

    def as_plain(self) -> dict[str, Any]:
        return {"table": self.table, "made_of": self.made_of, "read": [file.as_plain() for file in self.read],
                "buckets": [file.as_plain() for file in self.buckets]}


class Store(Frozen):
    """A store of one kind of entity: the files of its buckets, in order, and its tables by name. `made_of` says which files it
    was made from, as which tables, and how these were read (`source_files.DataOrigin`).

    Growing tables may be in `parts` instead of the buckets. `cut` and `buckets_of` then say how entities were put into buckets,
    and what the buckets were made from, as it is said of parts.
    """

    entity: str
    made_of: str
    buckets: tuple[FileState, ...]
    tables: Mapping[str, StoredTable]
    parts: tuple[PartFiles, ...] = ()
    cut: Mapping[str, int] | None = None
    buckets_of: str = ""

    @property
    def files(self) -> dict[str, FileState]:
        """All files, by the SQL name of the database that each of them is attached as."""
        whole = {bucket_name(number): file for number, file in enumerate(self.buckets)}
        parts = [part for table in self.tables.values() for part in table.parts]
        return whole | {bucket_name(number, part): file for part in parts
                        for number, file in enumerate(self.parts[part.number].buckets)}

    @cached_property
    def identity(self) -> str:
        """Identifies the files of the buckets and what they were made from, and so the rows."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()

    def as_json(self) -> str:
        in_parts = {} if self.cut is None else {
            "parts": [part.as_plain() for part in self.parts], "cut": self.cut, "buckets_of": self.buckets_of}
        return json.dumps({"entity": self.entity, "made_of": self.made_of, "buckets": [file.as_plain() for file in self.buckets],
                           "tables": tables_as_json(self.tables), **in_parts}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Store:
        """Read a store from JSON. Raises ValueError, KeyError or TypeError for anything that `as_json` did not write."""
        found = json.loads(text)
        parts = tuple(PartFiles(table=part["table"], made_of=part["made_of"], read=states_of(part["read"]),
                                buckets=states_of(part["buckets"])) for part in found.get("parts", ()))
        return cls(entity=found["entity"], made_of=found["made_of"], buckets=states_of(found["buckets"]),
                   tables=tables_of(found["tables"]), parts=parts, cut=found.get("cut"), buckets_of=found.get("buckets_of", ""))


def states_of(found: Sequence[Mapping[str, Any]]) -> tuple[FileState, ...]:
    """Read the states of files from their plain form."""
    return tuple(FileState(**{**file, "path": Path(file["path"])}) for file in found)


def tables_as_json(tables: Mapping[str, StoredTable]) -> dict[str, Any]:
    """The tables of a store. What only growing tables have is left out of others, as in manifests of earlier versions."""
    return {name: {key: value for key, value in asdict(table).items() if table.parts or key not in ("parts", "grows_by")}
            for name, table in tables.items()}


def tables_of(found: Mapping[str, Mapping[str, Any]]) -> dict[str, StoredTable]:
    """Read the tables of a store from the result of `tables_as_json`."""
    def ends_of(told: Mapping[str, Any]) -> dict[str, Any]:
        return {column: None if ends is None else tuple(ends) for column, ends in told["ends"].items()}

    return {name: StoredTable(**{**table, "order": tuple(table["order"]), "ends": ends_of(table), "parts": tuple(
        StoredPart(**{**part, "ends": ends_of(part)}) for part in table.get("parts", ())),
        "grows_by": None if table.get("grows_by") is None else tuple(table["grows_by"])}) for name, table in found.items()}


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
    store = last_store(folder, entity, facts)
    if store is None or store.made_of != origin.read_as:
        return None
    return store if all(map(is_whole, store.files.values())) else None


def last_store(folder: Path, entity: str, facts: RememberedFacts) -> Store | None:
    """The newest store of this kind of entity, even if its source files have changed since; None if there is no store."""
    text = remembered(manifest_of(folder, entity), facts)
    store = None if text is None else Store.from_json(text)
    return store if store is not None and store.entity == entity else None


def remembered(manifest: Path, facts: RememberedFacts) -> str | None:
    """The text of a manifest, if exactly this text was remembered; otherwise None."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = manifest.read_text(encoding="utf-8")
        return text if facts.known(fact_of(text)) else None
    return None


def fact_of(manifest: str) -> str:
    """The text that is remembered of a store."""
    return f"store {manifest}"
