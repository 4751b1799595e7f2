"""Guesses from names in a schema, and from rows if they may be read: who is protected, and which columns refer to other tables.

Rows are read for the owner's draft alone. They decide between guesses; nothing that they hold is written down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from dpsql.catalog.column_guesses import ColumnValues
from dpsql.catalog.foreign_keys import above
from dpsql.catalog.model import Entity
from dpsql.catalog.schema import carried_as, carried_exactly
from dpsql.frozen import Frozen
from dpsql.trusted.declarations.tables import ForeignKey, TableSchema
from dpsql.types import Type

PEOPLE = {"person", "patient", "user", "customer", "client", "member", "employee", "student", "pupil", "subject", "participant",
          "respondent", "individual", "citizen", "resident", "voter", "taxpayer", "worker", "tenant", "driver", "passenger",
          "player", "athlete", "applicant", "borrower", "subscriber", "panelist", "donor", "child", "infant", "animal", "pers",
          "subj", "pt"}
UNNAMED = {"id", "idno", "idcode", "idnum", "pid", "uid", "uuid", "nid", "newid", "case", "caseid", "case_id", "caseno", "mrn",
           "ssn", "ident", "identifier", "subno", "hhid", "hh_id", "household_id", "householdid", "family_id", "famid", "firm_id",
           "firmid", "company_id"}
"""Names of columns that name those to be protected, without a word for them."""
FEWEST = 6  # values of a column that names people: fewer are a code
SHORT = {"pers": "person", "subj": "subject", "pt": "patient"}
LOOKUP = 20  # rows of a table that others refer to: one with fewer is a list, such as of airlines
NUMBERED = "row_name", "rownames", "row_names", "column1", "rowid", "row_id", "index", "unnamed__0", "x1"
"""What programs call the numbers of rows that they write into a file."""
PERSON = re.compile(r"(?:id_)?(.+?)_?(id|no|nr|num|number|key|code)?")


class Evidence(Protocol):
    """Evidence from the rows of tables."""

    def is_key(self, table: str, column: str) -> bool:
        """Whether every row has a distinct value in this column."""

    def values(self, table: str, column: str) -> int:
        """The number of distinct values."""

    def rows(self, table: str) -> int:
        """The number of rows."""

    def is_within(self, table: str, column: str, other: str, key: str) -> bool:
        """Whether each value is among those of the `key` of another table."""

    def values_of(self, table: str, columns: Sequence[str]) -> Sequence[ColumnValues]:
        """The values of some columns."""


class Guess(Frozen):
    """The most likely protected entity, and why.

    several  whether rows of the table that share a value of the key belong to one entity: no table has one row for each
    by_row   whether each row is an entity, and no column tells them apart; `key` is a name for a column that does
    """

    entity: Entity
    why: str
    several: bool = False
    by_row: bool = False


def guess_of(tables: Mapping[str, TableSchema], rows: Evidence | None = None) -> Guess | None:
    """A guess at the entity: a table whose name suggests people; a column that names people and repeats; the table that most
    foreign keys reference, or the only one with a key; or each row of the only table, or of the largest."""
    keys = {name: key for name, table in tables.items() if (key := entity_key(name, table, rows)) is not None}
    reached = {name: sum(name in tables_above(tables, other) for other in tables if other != name) for name in keys}

    def guess(name: str, why: str) -> Guess:
        return Guess(entity=Entity(name=singular(name), table=name, key=keys[name]), why=why)

    people = [name for name in keys if singular(name) in PEOPLE]
    if people:
        return guess(max(people, key=lambda name: reached[name]), "its name suggests that it holds people")
    named = next(_named_people(tables, keys, rows), None) if rows is not None else None
    if named is not None:
        return named
    most = max(reached.values(), default=0)
    first = [name for name in keys if reached[name] == most]
    if most and len(first) == 1:
        return guess(first[0], "most foreign keys reference it")
    if rows is not None:
        return _by_references(tables, rows) or _of_one_table(tables, keys, rows)
    return guess(first[0], "it is the only table with a key of one column") if len(keys) == 1 else None


def _named_people(tables: Mapping[str, TableSchema], keys: Mapping[str, str], rows: Evidence) -> Iterator[Guess]:
    """The columns that identify people according to their names, such as user_id; keys come first. Some name a number of people,
    or
    say whether somebody is one: those have few values, or none but numbers under a name in the plural."""
    found = [(name, column, who) for name, table in tables.items() for column, kind in table.columns
             if (who := person_in(column)) is not None and _can_name(column, kind)]
    for name, column, who in sorted(found, key=lambda each: keys.get(each[0]) != each[1]):
        several = keys.get(name) != column
        if not several or rows.values(name, column) >= FEWEST or not rows.rows(name):
            yield _repeated(name, column, who, several=several)


def _repeated(table: str, column: str, who: str, *, several: bool = True) -> Guess:
    why = f"{table}.{column} seems to name {plural(who)}" + (", with several rows each" if several else "")
    return Guess(entity=Entity(name=who, table=table, key=column), why=why, several=several)


def _can_name(column: str, kind: str) -> bool:
    """Whether a column of this type may hold names: a flag does not, nor does a number of workers."""
    carried = name_type(kind)
    return carried is Type.VARCHAR or (carried is Type.BIGINT and not plain_name(column).endswith("s"))


def _by_references(tables: Mapping[str, TableSchema], rows: Evidence) -> Guess | None:
    """The table with more than a list of rows that the values of most other tables seem to refer to."""
    keys: dict[str, tuple[str, set[str]]] = {}
    for name in tables:
        for key in references_of(tables, name, rows):
            keys.setdefault(key.table, (key.references[0], set()))[1].add(name)
    large = {name: (len(others), rows.values(name, key)) for name, (key, others) in keys.items()
             if rows.values(name, key) >= LOOKUP}
    if not large:
        return None
    name = max(large, key=lambda name: large[name])
    return Guess(entity=Entity(name=singular(name), table=name, key=keys[name][0]), why="most other tables seem to refer to it")


def _of_one_table(tables: Mapping[str, TableSchema], keys: Mapping[str, str], rows: Evidence) -> Guess | None:
    """Whom the rows of the only table are about, or those of the largest."""
    name = max(tables, key=rows.rows)
    table, key = tables[name], keys.get(name)
    repeated = next((column for column, kind in table.columns if plain_name(column) in UNNAMED and _can_name(column, kind)
                     and not rows.is_key(name, column) and rows.values(name, column) >= FEWEST), None)
    if repeated is not None and (key is None or plain_name(key) in NUMBERED):
        return _repeated(name, repeated, "household" if plain_name(repeated).startswith(("hh", "household", "fam")) else "person")
    if key is not None:
        return Guess(entity=Entity(name=singular(name), table=name, key=key), why="each of its rows has a key of its own")
    return Guess(entity=Entity(name=singular(name), table=name, key=free_column(table, "row")), by_row=True,
                 why="each row is one, as no column distinguishes them")


def person_in(column: str) -> str | None:
    """The kind of person that a column refers to, from its name: "user" for user_id, UserID and users."""
    match = PERSON.fullmatch(plain_name(column))
    who = singular(match.group(1)) if match is not None else ""
    return SHORT.get(who, who) if who in PEOPLE else None


def _is_of_some(column: str) -> bool:
    """Whether a column of this name identifies the entities to protect."""
    return person_in(column) is not None or plain_name(column) in UNNAMED


def free_column(table: TableSchema, name: str) -> str:
    """A name that no column of the table has."""
    taken = {column.lower() for column, _ in table.columns}
    while name in taken:
        name += "_"
    return name


def entity_key(name: str, table: TableSchema, rows: Evidence | None = None) -> str | None:
    """The single column that identifies a row: guaranteed by the database or, if it guarantees nothing, guessed from its name,
    and from the rows if they may be read."""
    usual = {f"{singular(name)}_id", f"{singular(name)}id", f"{name.lower()}_id", singular(name), "id"}
    columns = [column for key in table.unique if key <= table.not_null and len(key) == 1 for column in key]
    if not table.unique:
        columns += [column for column, _ in table.columns if plain_name(column) in usual and (
            rows is None or rows.is_key(name, column))]
        likely = [column for column, kind in table.columns
                  if plain_name(column) in NUMBERED or (_is_of_some(column) and _can_name(column, kind))]
        likely.sort(key=lambda column: plain_name(column) in NUMBERED)
        columns += [column for column in likely if rows is not None and rows.rows(name) and rows.is_key(name, column)]
    types = dict(table.columns)
    return next((column for column in columns if name_type(types[column]) in (Type.BIGINT, Type.VARCHAR)), None)


def name_type(sql_type: str) -> Type | None:
    """The type that carries the values of an identifying column, or None if it does not keep them all distinct."""
    carried = carried_as(sql_type)
    return carried[0] if carried is not None and carried[0] is not Type.DOUBLE and carried_exactly(sql_type) else None


def candidates(tables: Mapping[str, TableSchema], rows: Evidence | None = None) -> str:
    found = [f"{name}.{key}" for name, table in tables.items() if (key := entity_key(name, table, rows)) is not None]
    return "candidates: " + ", ".join(found[:6]) if found else "no table has a key of one column"


def key_of(table: TableSchema) -> tuple[str, ...] | None:
    """The columns, in table order, of the first unique set without NULL, which is the primary key if there is one."""
    found = next((key for key in table.unique if key <= table.not_null), None)
    if found is None or any(carried_as(kind) is None for column, kind in table.columns if column in found):
        return None
    return tuple(column for column, _ in table.columns if column in found)


def tables_above(tables: Mapping[str, TableSchema], name: str) -> set[str]:
    """The table and every table that its foreign keys lead to."""
    known = {name: [key for key in table.foreign_keys if key.table in tables] for name, table in tables.items()}
    return above(known, name)


def plain_name(name: str) -> str:
    """The name of a column in lower case, with underscores for other signs."""
    return re.sub(r"\W", "_", name.lower())


def singular(name: str) -> str:
    name = name.lower()
    if name == "people":
        return "person"
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and not name.endswith(("ss", "is", "us")) else name


def plural(name: str) -> str:
    return {"person": "people", "child": "children"}.get(name, f"{name}s")


def references_of(tables: Mapping[str, TableSchema], name: str, rows: Evidence | None = None) -> list[ForeignKey]:
    """Undeclared foreign keys of a table, guessed from names and types: the column has the name of the other table's key, such as
    `person_id`, or of that table, such as `person`. If rows may be read, its values must be among those of the key, and any
    column of distinct values with the same name may be that key."""
    table, found = tables[name], dict[str, ForeignKey]()
    declared = {column for key in table.foreign_keys for column in key.columns}
    for other in (other for other in tables if other != name and name not in tables_above(tables, other)):
        for key, names in _names_of_keys(other, tables[other], rows, {plain_name(column) for column, _ in table.columns}):
            kind = name_type(dict(tables[other].columns)[key])
            for column, own in table.columns:
                if column in found or column in declared or plain_name(column) not in names or name_type(own) is not kind:
                    continue
                if rows is None or not rows.rows(name) or (
                        rows.is_within(name, column, other, key) and not rows.is_key(name, column)):
                    found[column] = ForeignKey(columns=(column,), table=other, references=(key,))
    return list(found.values())


def _names_of_keys(name: str, table: TableSchema, rows: Evidence | None, asked: set[str]) -> Iterator[tuple[str, set[str]]]:
    """The columns that may be a key, each with the names of columns that would refer to it; of the names that are `asked`."""
    usual, vague = entity_key(name, table, rows), {*NUMBERED, *(() if rows is not None else ("id",))}
    if usual is not None:
        yield usual, {plain_name(usual), f"{singular(name)}_id", singular(name)} - vague
    for column, kind in table.columns:
        plain = plain_name(column)
        if column != usual and plain in asked - vague and name_type(kind) is not None and (
                rows is not None and rows.rows(name) and rows.is_key(name, column)):
            yield column, {plain}
