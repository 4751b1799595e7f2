"""What clients may know of the tables, as rows of the system catalogue: all of it is declared in the policy, and none is of rows.

A private column that the policy does not name is not there, and neither is a key that needs one. `postgres_types.txt` lists
PostgreSQL's types: oid, name, length, whether they are passed by value, kind, category, and the oids of element, list and
collation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from typing import Any, TypeAlias

from dpsql.answers.listings import described_column, limit_of_rows
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import quoted_if_needed
from dpsql.frozen import Frozen
from dpsql.server.front.catalogue.catalog_lists import listed
from dpsql.server.front.catalogue.catalog_words import words
from dpsql.sql.text.border import PUBLIC, STANDING
from dpsql.sql.text.schemas import schema_and_name
from dpsql.trusted.declarations.tables import Table
from dpsql.types import Type

Facts: TypeAlias = dict[str, list[dict[str, Any]]]
"""The rows of each relation, by its name; a column that a row does not name has the value that means nothing."""

OIDS = {Type.BOOLEAN: 16, Type.BIGINT: 20, Type.VARCHAR: 25, Type.DOUBLE: 701, Type.DATE: 1082, Type.TIMESTAMP: 1114}
SPELLED = {16: "boolean", 18: '"char"', 20: "bigint", 21: "smallint", 23: "integer", 700: "real", 701: "double precision",
           1042: "character", 1043: "character varying", 1083: "time without time zone", 1114: "timestamp without time zone",
           1184: "timestamp with time zone"}
"""Types whose name in SQL is not that of the catalogue."""

_APART = ("date", "time", "timestamp", "timestamptz", "interval", "numeric", "json", "jsonb", "uuid", "record", "void")
"""Types whose functions have a line between the name and what they do: date_in, and textin."""

SYSTEM, INFORMATION, TABLES, SERIES, OWNER, HEAP, BTREE, FIRST = 11, 13_000, 2200, 13_001, 10, 2, 403, 16_384  # oids
NAMESPACES = {SYSTEM: "pg_catalog", INFORMATION: "information_schema", TABLES: PUBLIC}
CLASSES = {"pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_class": 1259, "pg_authid": 1260, "pg_database": 1262,
           "pg_am": 2601, "pg_constraint": 2606, "pg_namespace": 2615, "pg_trigger": 2620, "pg_extension": 3079}
"""The oids of relations by which others name what they are about; they are listed as relations for that."""
OWNER_NAME = "owner"


def facts_of(catalog: Catalog, user: str, database: str) -> Facts:
    """The rows of all non-empty relations."""
    numbers = count(FIRST)
    placed = [Placed(table=table, oid=next(numbers), key=next(numbers)) for table in catalog.tables.values()]
    found = _server(user, database)
    if any(each.schema == STANDING for each in placed):
        for relation, row in _of_series(database):
            found[relation].append(row)
    for each in placed:
        for relation, row in (*_table(each, catalog, database), *_columns(each, database), *_key(each, database)):
            found.setdefault(relation, []).append(row)
    for relation, row in words():
        found.setdefault(relation, []).append(row)
    for each in placed:
        for relation, row in _foreign_keys(each, placed, numbers, database):
            found.setdefault(relation, []).append(row)
    return found


class Placed(Frozen):
    """A table with its oid, and that of its primary key."""

    table: Table
    oid: int
    key: int

    @property
    def places(self) -> dict[str, int]:
        """The position of each of its columns, counted from 1."""
        return {name: place for place, name in enumerate(self.table.columns, 1)}

    @property
    def has_key(self) -> bool:
        """Whether the primary key can be shown, that is whether all of its columns may be queried."""
        return bool(self.table.key) and all(name in self.table.columns for name in self.table.key)

    @property
    def schema(self) -> str:
        return schema_and_name(self.table.name)[0]

    @property
    def name(self) -> str:
        """Its name in its schema."""
        return schema_and_name(self.table.name)[1]

    @property
    def namespace(self) -> int:
        """The oid of its schema."""
        return SERIES if self.schema == STANDING else TABLES

    @property
    def key_name(self) -> str:
        return f"{self.table.name}_pkey"


def _server(user: str, database: str) -> Facts:
    types = [dict(zip(("oid", "typname", "typlen", "typbyval", "typtype", "typcategory", "typelem", "typarray", "typcollation"),
                      line.split(), strict=True)) for line in listed("postgres_types.txt")]
    role = {"rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1}
    own = {"rolname": user, "oid": FIRST - 1}
    return {
        "pg_catalog.pg_type": [{
            **found, "typbyval": found["typbyval"] == "t", **_procedures(found["typname"]),
            "typnamespace": SYSTEM, "typowner": OWNER, "typisdefined": True,
            "typdelim": ",", "typtypmod": -1, "typalign": "i", "typstorage": "p"} for found in types],
        "pg_catalog.pg_namespace": [{"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in NAMESPACES.items()],
        "pg_catalog.pg_description": [{"objoid": TABLES, "classoid": CLASSES["pg_namespace"], "objsubid": 0,
                                       "description": "the tables of the policy"}],
        "pg_catalog.pg_class": [{
            "oid": oid, "relname": name, "relnamespace": SYSTEM, "relowner": OWNER, "relam": HEAP, "relkind": "r",
            "relpersistence": "p", "relispopulated": True, "relreplident": "n"} for name, oid in CLASSES.items()],
        "pg_catalog.pg_am": [{"oid": HEAP, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"},
                             {"oid": BTREE, "amname": "btree", "amhandler": "bthandler", "amtype": "i"}],
        "pg_catalog.pg_database": [{
            "oid": 5, "datname": database, "datdba": OWNER, "encoding": 6, "datlocprovider": "c", "datallowconn": True,
            "datconnlimit": -1, "dattablespace": 1663, "datcollate": "C", "datctype": "C"}],
        "pg_catalog.pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}],
        "pg_catalog.pg_collation": [{
            "oid": oid, "collname": name, "collnamespace": SYSTEM, "collowner": OWNER, "collprovider": "c",
            "collisdeterministic": True, "collencoding": -1} for oid, name in ((100, "default"), (950, "C"))],
        "pg_catalog.pg_roles": [{**role, "rolname": OWNER_NAME, "oid": OWNER}, {**role, **own}],
        "pg_catalog.pg_user": [{"usename": user, "usesysid": FIRST - 1}],
        "information_schema.information_schema_catalog_name": [{"catalog_name": database}],
        "information_schema.enabled_roles": [{"role_name": user}],
        "information_schema.schemata": [{"catalog_name": database, "schema_name": name, "schema_owner": OWNER_NAME}
                                        for name in NAMESPACES.values()],
        "information_schema.character_sets": [{
            "character_set_name": "UTF8", "character_repertoire": "UCS", "form_of_use": "UTF8",
            "default_collate_catalog": database, "default_collate_schema": "pg_catalog", "default_collate_name": "C"}],
    }


def _of_series(database: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema of standing queries, whose tables have no keys."""
    yield "pg_catalog.pg_namespace", {"oid": SERIES, "nspname": STANDING, "nspowner": OWNER}
    yield "pg_catalog.pg_description", {"objoid": SERIES, "classoid": CLASSES["pg_namespace"], "objsubid": 0,
                                        "description": "the numbers of standing queries, which cost nothing"}
    yield "information_schema.schemata", {"catalog_name": database, "schema_name": STANDING, "schema_owner": OWNER_NAME}


def _procedures(kind: str) -> dict[str, str]:
    """The functions by which values of a type are read and written, which drivers know it by."""
    stem = "array_" if kind.startswith("_") else f"{kind}_" if kind in _APART else kind
    return {f"typ{what}": f"{stem}{ending}" for what, ending in (
        ("input", "in"), ("output", "out"), ("receive", "recv"), ("send", "send"))}


def _table(at: Placed, catalog: Catalog, database: str) -> Iterator[tuple[str, dict[str, Any]]]:
    table = at.table
    relation = {"relnamespace": at.namespace, "relowner": OWNER, "relpersistence": "p", "reltuples": -1.0, "relispopulated": True}
    yield "pg_catalog.pg_class", {
        **relation, "oid": at.oid, "relname": at.name, "relam": HEAP, "relkind": "r", "relnatts": len(table.columns),
        "relhasindex": at.has_key, "relreplident": "d"}
    limit = "" if table.rows is None else f", {limit_of_rows(table, catalog.entity.name)}"
    yield "pg_catalog.pg_description", {"objoid": at.oid, "classoid": CLASSES["pg_class"], "objsubid": 0,
                                        "description": "numbers of a standing query" if at.schema == STANDING else
                                        "public" if table.public else f"private{limit}"}
    yield "pg_catalog.pg_tables", {"schemaname": at.schema, "tablename": at.name, "tableowner": OWNER_NAME,
                                   "hasindexes": at.has_key}
    for name in ("pg_stat_user_tables", "pg_stat_all_tables", "pg_statio_user_tables", "pg_statio_all_tables"):
        yield f"pg_catalog.{name}", {"relid": at.oid, "schemaname": at.schema, "relname": at.name}
    yield "information_schema.tables", {
        "table_catalog": database, "table_schema": at.schema, "table_name": at.name, "table_type": "BASE TABLE",
        "is_insertable_into": "NO", "is_typed": "NO"}
    yield "information_schema.table_privileges", {
        "grantor": OWNER_NAME, "grantee": "PUBLIC", "table_catalog": database, "table_schema": at.schema, "table_name": at.name,
        "privilege_type": "SELECT", "is_grantable": "NO", "with_hierarchy": "NO"}


def _columns(at: Placed, database: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, column in enumerate(at.table.columns.values(), 1):
        kind = OIDS[column.type]
        required = not column.nullable or (at.has_key and column.name in at.table.key)
        yield "pg_catalog.pg_attribute", {
            "attrelid": at.oid, "attname": column.name, "atttypid": kind, "attnum": place, "atttypmod": -1, "attstattarget": -1,
            "attcacheoff": -1, "attlen": -1 if column.type is Type.VARCHAR else 8, "attnotnull": required, "attislocal": True,
            "attcollation": 100 if column.type is Type.VARCHAR else 0, "attalign": "i", "attstorage": "p"}
        yield "pg_catalog.pg_description", {"objoid": at.oid, "classoid": CLASSES["pg_class"], "objsubid": place,
                                            "description": described_column(column)}
        name, precision = _in_words(kind), {20: (64, 2, 0), 701: (53, 2, None)}.get(kind, (None, None, None))
        yield "information_schema.columns", {
            "table_catalog": database, "table_schema": at.schema, "table_name": at.name, "column_name": column.name,
            "ordinal_position": place, "is_nullable": "NO" if required else "YES", "data_type": name,
            "character_maximum_length": None, "character_octet_length": 2**30 if column.type is Type.VARCHAR else None,
            "numeric_precision": precision[0],
            "numeric_precision_radix": precision[1], "numeric_scale": precision[2],
            "datetime_precision": {Type.DATE: 0, Type.TIMESTAMP: 6}.get(column.type), "udt_catalog": database,
            "udt_schema": "pg_catalog", "udt_name": _NAMES[kind], "dtd_identifier": str(place), "is_self_referencing": "NO",
            "is_identity": "NO", "is_generated": "NEVER", "is_updatable": "NO"}


_NAMES = {int(line.split()[0]): line.split()[1] for line in listed("postgres_types.txt")}


def _in_words(oid: int) -> str:
    return SPELLED.get(oid, _NAMES[oid])


def type_words() -> Mapping[int, str]:
    """The SQL names of types, by oid."""
    return {oid: _in_words(oid) if not name.startswith("_") else f"{_in_words(_element(name))}[]" for oid, name in _NAMES.items()}


@cache
def type_oids() -> Mapping[str, int]:
    """The oids of types, by all of their names."""
    return {**{name: oid for oid, name in _NAMES.items()}, **{spelled: oid for oid, spelled in type_words().items()}}


def _element(name: str) -> int:
    return next(oid for oid, own in _NAMES.items() if own == name.removeprefix("_"))


def _key(at: Placed, database: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if not at.has_key:
        return
    places = [at.places[name] for name in at.table.key]
    yield "pg_catalog.pg_class", {
        "oid": at.key, "relname": at.key_name, "relnamespace": TABLES, "relowner": OWNER, "relam": BTREE, "relkind": "i",
        "relpersistence": "p", "relnatts": len(places), "relispopulated": True, "relreplident": "n"}
    yield "pg_catalog.pg_index", {
        "indexrelid": at.key, "indrelid": at.oid, "indnatts": len(places), "indnkeyatts": len(places), "indisunique": True,
        "indisprimary": True, "indimmediate": True, "indisvalid": True, "indisready": True, "indislive": True, "indkey": places,
        "indcollation": [0] * len(places), "indclass": [0] * len(places), "indoption": [0] * len(places)}
    index, table = quoted_if_needed(at.key_name), f"{PUBLIC}.{quoted_if_needed(at.table.name)}"
    yield "pg_catalog.pg_indexes", {
        "schemaname": PUBLIC, "tablename": at.table.name, "indexname": at.key_name, "indexdef":
        f"CREATE UNIQUE INDEX {index} ON {table} USING btree ({', '.join(map(quoted_if_needed, at.table.key))})"}
    yield "pg_catalog.pg_constraint", {
        "oid": at.key, "conname": at.key_name, "connamespace": TABLES, "contype": "p", "convalidated": True, "conrelid": at.oid,
        "conindid": at.key, "conislocal": True, "connoinherit": True, "conkey": places}
    for number, place in enumerate(places, 1):
        yield "pg_catalog.pg_attribute", {
            "attrelid": at.key, "attname": at.table.key[number - 1], "attnum": number, "atttypmod": -1, "attislocal": True,
            "atttypid": OIDS[[*at.table.columns.values()][place - 1].type]}
    yield from _constraint(at, at.key_name, "PRIMARY KEY", at.table.key, database)


def _constraint(at: Placed, name: str, kind: str, columns: tuple[str, ...],
                database: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the information schema says of a constraint."""
    own = {"constraint_catalog": database, "constraint_schema": PUBLIC, "constraint_name": name, "table_catalog": database,
           "table_schema": PUBLIC, "table_name": at.table.name}
    yield "information_schema.table_constraints", {
        **own, "constraint_type": kind, "is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
    for number, column in enumerate(columns, 1):
        yield "information_schema.key_column_usage", {
            **own, "column_name": column, "ordinal_position": number,
            "position_in_unique_constraint": number if kind == "FOREIGN KEY" else None}
        if kind == "PRIMARY KEY":
            yield "information_schema.constraint_column_usage", {**own, "column_name": column}


def _foreign_keys(at: Placed, placed: list[Placed], numbers: Iterator[int],
                  database: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The foreign keys whose columns may all be asked about, to the primary keys of tables that may be."""
    for key in at.table.foreign_keys:
        to = next((other for other in placed if other.table.name == key.table and other.has_key), None)
        if to is None or set(key.references) != set(to.table.key) or not set(key.columns) <= set(at.places):
            continue
        name = f"{at.table.name}_{'_'.join(key.columns)}_fkey"
        yield "pg_catalog.pg_constraint", {
            "oid": next(numbers), "conname": name, "connamespace": TABLES, "contype": "f", "convalidated": True,
            "conrelid": at.oid, "conindid": to.key, "confrelid": to.oid, "confupdtype": "a", "confdeltype": "a",
            "confmatchtype": "s", "conislocal": True, "connoinherit": True, "conkey": [at.places[each] for each in key.columns],
            "confkey": [to.places[each] for each in key.references]}
        yield from _constraint(at, name, "FOREIGN KEY", key.columns, database)
        yield "information_schema.referential_constraints", {
            "constraint_catalog": database, "constraint_schema": PUBLIC, "constraint_name": name,
            "unique_constraint_catalog": database, "unique_constraint_schema": PUBLIC, "unique_constraint_name": to.key_name,
            "match_option": "NONE", "update_rule": "NO ACTION", "delete_rule": "NO ACTION"}
