"""The tables of a database of another kind, from its catalog alone: to draft a policy for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dpsql.backends.drivers import DriverFault, SourceDatabase, opened
from dpsql.catalog.database_uris import place_of
from dpsql.catalog.policy import quoted
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.tables import ForeignKey, TableSchema


class DatabaseSchema(Frozen):
    """The tables of a database, by the names that a policy may give them.

    relations  the names in the database, of the tables that are called otherwise there
    types      by table and column, the types that have to be declared, as those of the database have no counterpart
    """

    tables: Mapping[str, TableSchema]
    relations: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def database_schema(uri: str) -> DatabaseSchema:
    """The tables of a database, without reading any row. Raises OperationalError if the database cannot be opened, or if catalogs
    of its kind cannot be read."""
    columns: list[tuple[Any, ...]] | None = None
    keys: list[tuple[Any, ...]] = []
    with opened(uri, None, "") as source:
        if not source.dialect.listed:
            raise OperationalError("dpsql cannot draft a policy for this kind of database", code="no-draft",
                                   try_="a policy written by hand: dpsql help owner shows one")
        try:
            columns, keys = source.rows(source.dialect.listed), source.rows(source.dialect.keys)
        except DriverFault:
            columns = None
    if columns is None:
        raise OperationalError(f"the catalog of {place_of(uri)} cannot be read", code="no-database", try_="a user who may see it")
    return _schema(source, columns, keys)


def _schema(source: SourceDatabase, columns: list[tuple[Any, ...]], keys: list[tuple[Any, ...]]) -> DatabaseSchema:
    places = list(dict.fromkeys((schema, table) for schema, table, *_ in columns))
    names = _names(places, source.dialect.usual)
    types: dict[str, dict[str, str]] = {}
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in names.values()}
    required: dict[str, set[str]] = {name: set() for name in found}
    for schema, table, column, kind, not_null in columns:
        name = names[schema, table]
        reading = source.dialect.reading(column, kind, None)
        if reading is None:
            types.setdefault(name, {})[column] = source.dialect.fitting(kind)[0]
        found[name].append((column, reading.target if reading is not None else types[name][column]))
        required[name] |= {column} if not_null else set()
    unique: dict[str, list[frozenset[str]]] = {name: [] for name in found}
    foreign: dict[str, list[ForeignKey]] = {name: [] for name in found}
    for schema, table, key, own, other_schema, other, theirs in keys:
        child, parent = names.get((schema, table)), names.get((other_schema, other))
        if child is not None and key != "f":
            unique[child].append(frozenset(json.loads(own)))
        elif child is not None and parent is not None and None not in json.loads(theirs):
            foreign[child].append(ForeignKey(columns=tuple(json.loads(own)), table=parent, references=tuple(json.loads(theirs))))
    tables = {name: TableSchema(columns=tuple(pairs), unique=tuple(unique[name]), not_null=frozenset(required[name]),
                                foreign_keys=tuple(foreign[name])) for name, pairs in found.items()}
    relations = {name: ".".join(part if part.isidentifier() else quoted(part) for part in place)
                 for place, name in names.items() if place not in (("", name), (source.dialect.usual, name))}
    return DatabaseSchema(tables=tables, relations=relations, types=types)


def _names(places: list[tuple[str, str]], usual: str) -> dict[tuple[str, str], str]:
    """A name for each table: its own, unless two have the same but for case; then those outside of the usual schema have it in
    front."""
    first: dict[str, tuple[str, str]] = {}
    for place in sorted(places, key=lambda place: place[0] != usual):
        first.setdefault(place[1].lower(), place)
    return {place: place[1] if first[place[1].lower()] == place else "_".join(place) for place in places}
