"""What the names in a schema suggest: who is protected, and which columns name rows of other tables. No row is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.catalog.foreign_keys import above, graph_of
from dpsql.catalog.model import Entity, ForeignKey, TableSchema
from dpsql.catalog.schema import carried_as, carried_exactly
from dpsql.types import Type

PEOPLE = {"person", "patient", "user", "customer", "client", "member", "employee", "student", "pupil", "subject", "participant",
          "respondent", "individual", "citizen", "resident", "voter", "taxpayer", "worker", "tenant", "driver", "passenger"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """The most likely protected entity, and why."""

    entity: Entity
    why: str


def guess_of(tables: Mapping[str, TableSchema]) -> Guess | None:
    """A table whose name suggests people, or the one that most foreign keys reference, or the only one with a key."""
    keys = {name: key for name, table in tables.items() if (key := entity_key(name, table)) is not None}
    reached = {name: sum(name in tables_above(tables, other) for other in tables if other != name) for name in keys}

    def guess(name: str, why: str) -> Guess:
        return Guess(entity=Entity(name=singular(name), table=name, key=keys[name]), why=why)

    people = [name for name in keys if singular(name) in PEOPLE]
    if people:
        return guess(max(people, key=lambda name: reached[name]), "its name suggests that it holds people")
    most = max(reached.values(), default=0)
    first = [name for name in keys if reached[name] == most]
    if most and len(first) == 1:
        return guess(first[0], "most foreign keys reference it")
    if len(keys) == 1:
        return guess(first[0], "it is the only table with a key of one column")
    return None


def entity_key(name: str, table: TableSchema) -> str | None:
    """The single column that identifies a row: guaranteed by the database or, where it guarantees nothing, judged by its name."""
    usual = {f"{singular(name)}_id", f"{singular(name)}id", f"{name.lower()}_id", singular(name), "id"}
    columns = [column for key in table.unique if key <= table.not_null and len(key) == 1 for column in key]
    columns += [column for column, _ in table.columns if plain_name(column) in usual and not table.unique]
    types = dict(table.columns)
    return next((column for column in columns if name_type(types[column]) is not None), None)


def name_type(sql_type: str) -> Type | None:
    """The type that carries the values of an identifying column, or None where it does not keep them all distinct."""
    carried = carried_as(sql_type)
    return carried[0] if carried is not None and carried[0] is not Type.DOUBLE and carried_exactly(sql_type) else None


def candidates(tables: Mapping[str, TableSchema]) -> str:
    found = [f"{name}.{key}" for name, table in tables.items() if (key := entity_key(name, table)) is not None]
    return "candidates: " + ", ".join(found[:6]) if found else "no table has a key of one column"


def key_of(table: TableSchema) -> tuple[str, ...] | None:
    """The first unique set of columns without NULL, in the order of the columns: the primary key, if there is one."""
    found = next((key for key in table.unique if key <= table.not_null), None)
    if found is None or any(carried_as(kind) is None for column, kind in table.columns if column in found):
        return None
    return tuple(column for column, _ in table.columns if column in found)


def tables_above(tables: Mapping[str, TableSchema], name: str) -> set[str]:
    """The table and every table that its foreign keys lead to."""
    known = {name: [key for key in table.foreign_keys if key.table in tables] for name, table in tables.items()}
    return above(graph_of(known), name)



def plain_name(name: str) -> str:
    """The name of a column, as most people would write it."""
    return re.sub(r"\W", "_", name.lower())


def singular(name: str) -> str:
    name = name.lower()
    if name == "people":
        return "person"
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def references_of(tables: Mapping[str, TableSchema], name: str) -> list[ForeignKey]:
    """The columns of a table that, by name and type, seem to name rows of other tables, and are not declared to: each has the
    name of their key, as `person_id`, or of the table, as `person`."""
    table, found = tables[name], []
    declared = {column for key in table.foreign_keys for column in key.columns}
    for other in tables:
        key = entity_key(other, tables[other])
        if other == name or key is None or name in tables_above(tables, other):
            continue
        names = {plain_name(key), f"{singular(other)}_id", singular(other)} - {"id"}
        kind = name_type(dict(tables[other].columns)[key])
        found += [ForeignKey(columns=(column,), table=other, references=(key,)) for column, own in table.columns
                  if column not in declared and plain_name(column) in names and name_type(own) is kind]
    return found
