"""The first draft of a policy, from the schema of a database alone. No row is read.

A draft declares no more than the database does: names, types, keys and foreign keys. Everything stays private, and the rest is
comments that say what to fill in. The protected entity is guessed, and the draft says so. Before a draft is returned it is
read back and fitted to the schema, so its comments agree with what the engine will say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from dpsql.catalog import writing
from dpsql.catalog.foreign_keys import above, graph_of
from dpsql.catalog.model import Entity, ForeignKey, Scalar, TableSchema
from dpsql.catalog.policy import can_be_named, parse_policy, written_reference
from dpsql.catalog.schema import carried_as, carried_exactly, fit
from dpsql.catalog.writing import comment, note, value
from dpsql.errors import OperationalError
from dpsql.types import Type

PEOPLE = {"person", "patient", "user", "customer", "client", "member", "employee", "student", "pupil", "subject", "participant",
          "respondent", "individual", "citizen", "resident", "voter", "taxpayer", "worker", "tenant", "driver", "passenger"}

HINTS = {
    Type.BIGINT: "range = [0, 100], or values, or bounds; bins",
    Type.DOUBLE: "bounds = [0, 1000], decimals = 2; bins",
    Type.VARCHAR: 'values = ["a", "b"]',
    Type.BOOLEAN: "nullable = false",
    Type.DATE: "range = [2020-01-01, 2029-12-31]",
    Type.TIMESTAMP: "bounds = [2020-01-01T00:00:00, 2029-12-31T23:59:59]",
}

TYPED = """
The types were guessed from the rows of the file, and are public from here on: check them. A cell that is not of its type counts
as NULL. Dates are written 2020-12-31 in the file, times 2020-12-31 23:59:59.
"""

HEAD = """
A policy drafted by dpsql from the schema of the database; no row was read, except to guess types in CSV files. Read all of it
before you use it.

Everything is private until you say otherwise: a table is private unless it says `public = true`, and a table or column that is
not named here cannot be asked about. Delete what nobody should ask about. What is written here is public: analysts see it.

What can be declared for a table:

  public = true          everybody may see every row of it
  key = "id"             the columns that identify a row
  foreign_keys = [...]   the row that a row belongs to: deleting that one deletes it too
  rows_per_entity = 5    the most rows of one protected entity that are used; further ones are left out
  rows_per_value = { town = 20 }
                         the most rows of one value that are used where rows of many entities meet by it
  source = "t.parquet"   the CSV or Parquet file that holds it, a folder with such files, or a pattern: "t/*.parquet"
  relation = "s.t"       its name in a database such as PostgreSQL, with the schema, where it is called otherwise
  filter = "..."         of such a database: the rows that are read, as a condition in its SQL
"""


NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """The most likely protected entity, and why."""

    entity: Entity
    why: str


def draft(schema: Mapping[str, TableSchema], *, database: str | None = None, sources: Mapping[str, str] = NONE,
          relations: Mapping[str, str] = NONE, types: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> str:
    """The text of a policy for these tables. `sources` names the file of each table, where there is no `database`. In a database
    of another kind, `relations` are the names of tables there, and `types` the types of columns that have to be declared.

    Where no entity can be guessed, the text says what to fill in, and is refused until that is done.
    Raises OperationalError where there is nothing to draft.
    """
    tables = _spelled({name: table for name, table in schema.items() if table.view is None and can_be_named(name)})
    if not tables:
        raise OperationalError("the database has no table that a policy could name", code="no-tables")
    left_out = {name: _why_left_out(table) for name, table in schema.items() if name not in tables}
    draft = _Draft(tables=tables, left_out=left_out, database=database, sources=sources, relations=relations, types=types,
                   guess=_guess(tables))
    if draft.guess is None:
        return draft.text()
    policy = parse_policy(draft.text(), path="the draft")
    return replace(draft, outside=fit(policy, "main", schema, _no_values).outside).text()


def _no_values(table: str, column: str) -> Sequence[Scalar | None]:
    raise AssertionError("a draft lists no values from tables")


def _why_left_out(table: TableSchema) -> str:
    if table.view is not None:
        return ("a view. One that picks, joins and filters public tables may be declared, with public = true" if table.fixed else
                "a view. What it shows may be declared as a table made from it")
    return "a table's name must consist of visible characters, without blanks around it"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The parts of a draft; `outside` holds the tables that cannot be queried, with the reason."""

    tables: Mapping[str, TableSchema]
    left_out: Mapping[str, str]
    database: str | None
    sources: Mapping[str, str]
    relations: Mapping[str, str]
    types: Mapping[str, Mapping[str, str]]
    guess: Guess | None
    outside: Mapping[str, str] | None = None

    def text(self) -> str:
        lines = [*comment(HEAD), "", "version = 1"]
        if self.database is not None:
            lines.append(f"database = {value(self.database)}")
        lines += [note('# ledger = "dpsql.ledger"', "the record of what was spent"),
                  note('# anchor = "/other/volume/anchor"', "detects that the ledger was replaced by an older copy"), ""]
        lines += [*self._entity(), "", *writing.budget(self._entity_name), "", *comment(writing.COLUMNS)]
        for name, table in self.tables.items():
            lines += ["", *self._table(name, table)]
        for name, reason in self.left_out.items():
            lines += ["", *comment(f"{name} is left out: {reason}.")]
        return "\n".join(lines) + "\n"

    @property
    def _entity_name(self) -> str:
        return self.guess.entity.name if self.guess is not None else "person"

    def _entity(self) -> list[str]:
        what = "Who is protected: one row of this table, and every row that depends on it through foreign keys."
        if self.guess is None:
            ask = ("FILL IN: no table could be guessed. Name the table that has one row for each person (or household, firm ...) "
                   "and the column that identifies them, and remove the # from these three lines.")
            return [*comment(f"{what} {ask}"), "", "# [entities.person]", '# table = "..."',
                    note('# key = "..."', _candidates(self.tables))]
        entity = self.guess.entity
        check = f"This is a guess: {self.guess.why}. Check it: an answer hides one {entity.name}, not several."
        return [*comment(f"{what} {check}"), "", f"[entities.{writing.key(entity.name)}]", f"table = {value(entity.table)}",
                f"key = {value(entity.key)}"]

    def _table(self, name: str, table: TableSchema) -> list[str]:
        lines = [f"[tables.{writing.key(name)}]"]
        if (key := _key(table)) is not None:
            lines.append(f"key = {value(key[0] if len(key) == 1 else list(key))}")
        elif self.guess is not None and name == self.guess.entity.table:
            lines.append(note(f"# key = {value(self.guess.entity.key)}", f"if no {self._entity_name} has two rows"))
        if name in self.sources:
            lines.append(f"source = {value(self.sources[name])}")
        if name in self.relations:
            lines.append(f"relation = {value(self.relations[name])}")
        lines += self._foreign_keys(name, table)
        lines += self._notes(name)
        columns = [_as_declared(*self._column(table, *pair), self.types.get(name, {})) for pair in table.columns]
        if self.sources.get(name, "").lower().endswith((".csv", ".tsv")):
            lines += ["", *comment(TYPED)]
            columns = [_typed(*column, sql_type) for column, (_, sql_type) in zip(columns, table.columns, strict=True)]
        return [*lines, "", f"[tables.{writing.key(name)}.columns]", *writing.columns(columns)]

    def _foreign_keys(self, name: str, table: TableSchema) -> list[str]:
        refused = [(key, reason) for key in table.foreign_keys if (reason := _refusal(self.tables, name, key))]
        kept = [key for key in table.foreign_keys if key not in [other for other, _ in refused]]
        lines = [note(f"# {{ {_written(key)} }}", reason) for key, reason in refused]
        if kept:
            lines += ["foreign_keys = [", *(f"    {{ {_written(key)} }}," for key in kept), "]"]
        elif (guessed := self._likely_key(name, table)) is not None:
            lines.append(note(f"# foreign_keys = [{{ {_written(guessed)} }}]", "guessed from the column names; check it"))
        return lines

    def _likely_key(self, name: str, table: TableSchema) -> ForeignKey | None:
        """The column of this table that, by its name and type, seems to reference the entity's table."""
        if self.guess is None or name == self.guess.entity.table:
            return None
        entity = self.guess.entity
        wanted = dict(self.tables[entity.table].columns)[entity.key]
        names = {_plain(entity.key), f"{entity.name}_id"} - {"id"}
        found = next((column for column, kind in table.columns if _plain(column) in names and kind == wanted), None)
        return None if found is None else ForeignKey(columns=(found,), table=entity.table, references=(entity.key,))

    def _notes(self, name: str) -> list[str]:
        if self.guess is None or name == self.guess.entity.table:
            return []
        reason = (self.outside or {}).get(name)
        if reason is None:
            return [note("# rows_per_entity = 10", f"the most rows of one {self._entity_name} that are used")]
        return comment(f"As it stands this table cannot be asked about: {reason}. Correct foreign_keys, so that a row belongs to "
                       f"one {self._entity_name}, or say public = true if everybody may see every row of it.")

    def _column(self, table: TableSchema, name: str, sql_type: str) -> tuple[str, Mapping[str, writing.Value] | None, str]:
        shown = sql_type if len(sql_type) <= 40 else sql_type[:37] + "..."
        carried = carried_as(sql_type)
        if carried is None:
            return name, None, f"{shown}: this type is not supported; a table could hold it as another"
        named = [key.table for key in table.foreign_keys if name in key.columns]
        if name in (_key(table) or ()) or named:
            return name, {}, shown + (f", names a row of {named[0]}" if named else ", key")
        if sql_type.upper().startswith("ENUM("):
            return name, {"values": _enum_values(sql_type)}, "ENUM: its values are part of the schema"
        return name, {}, f"{shown}; {HINTS[carried[0]]}"


def _as_declared(name: str, declared: Mapping[str, writing.Value] | None, hint: str,
                 types: Mapping[str, str]) -> tuple[str, Mapping[str, writing.Value] | None, str]:
    """A column with the type that has to be declared for it, if there is one."""
    return name, {"type": types[name], **(declared or {})} if name in types else declared, hint


def _typed(name: str, declared: Mapping[str, writing.Value] | None, hint: str,
           sql_type: str) -> tuple[str, Mapping[str, writing.Value] | None, str]:
    """A column of a CSV file with the type it seems to have."""
    carried = carried_as(sql_type)
    if declared is None or carried is None:
        return name, declared, hint
    return name, {"type": carried[0].value, **declared}, hint.partition("; ")[2]


def _spelled(schema: Mapping[str, TableSchema]) -> dict[str, TableSchema]:
    """The tables, with foreign keys spelled like the tables and columns they reference; a database keeps them as they were
    typed."""
    names = {name.lower(): name for name in schema}

    def spell(key: ForeignKey) -> ForeignKey:
        table = names.get(key.table.lower(), key.table)
        columns = {column.lower(): column for column, _ in schema[table].columns} if table in schema else {}
        return replace(key, table=table, references=tuple(columns.get(column.lower(), column) for column in key.references))

    return {name: replace(table, foreign_keys=tuple(map(spell, table.foreign_keys))) for name, table in schema.items()}


def _key(table: TableSchema) -> tuple[str, ...] | None:
    """The first unique set of columns without NULL, in the order of the columns: the primary key, if there is one."""
    found = next((key for key in table.unique if key <= table.not_null), None)
    if found is None or any(carried_as(kind) is None for column, kind in table.columns if column in found):
        return None
    return tuple(column for column, _ in table.columns if column in found)


def _written(key: ForeignKey) -> str:
    columns = value(key.columns[0] if len(key.columns) == 1 else list(key.columns))
    return f"columns = {columns}, references = {value(written_reference(key.table, key.references))}"


def _refusal(tables: Mapping[str, TableSchema], name: str, key: ForeignKey) -> str:
    """Why the engine could not follow a foreign key; empty where it can."""
    if key.table not in tables:
        return f"{key.table} is left out"
    if name in _above(tables, key.table):
        return "foreign keys form a cycle; a deletion cannot follow them round"
    for child, parent in zip(key.columns, key.references, strict=True):
        own, other = _name_type(dict(tables[name].columns)[child]), _name_type(dict(tables[key.table].columns)[parent])
        if own is None or own is not other:
            return "the columns cannot be compared exactly"
    return ""


def _above(tables: Mapping[str, TableSchema], name: str) -> set[str]:
    """The table and every table that its foreign keys lead to."""
    known = {name: [key for key in table.foreign_keys if key.table in tables] for name, table in tables.items()}
    return above(graph_of(known), name)



def _guess(tables: Mapping[str, TableSchema]) -> Guess | None:
    """A table whose name suggests people, or the one that most foreign keys reference, or the only one with a key."""
    keys = {name: key for name, table in tables.items() if (key := _entity_key(name, table)) is not None}
    reached = {name: sum(name in _above(tables, other) for other in tables if other != name) for name in keys}

    def guess(name: str, why: str) -> Guess:
        return Guess(entity=Entity(name=_singular(name), table=name, key=keys[name]), why=why)

    people = [name for name in keys if _singular(name) in PEOPLE]
    if people:
        return guess(max(people, key=lambda name: reached[name]), "its name suggests that it holds people")
    most = max(reached.values(), default=0)
    first = [name for name in keys if reached[name] == most]
    if most and len(first) == 1:
        return guess(first[0], "most foreign keys reference it")
    if len(keys) == 1:
        return guess(first[0], "it is the only table with a key of one column")
    return None


def _entity_key(name: str, table: TableSchema) -> str | None:
    """The single column that identifies a row: guaranteed by the database or, where it guarantees nothing, judged by its name."""
    usual = {f"{_singular(name)}_id", f"{_singular(name)}id", f"{name.lower()}_id", "id"}
    columns = [column for key in table.unique if key <= table.not_null and len(key) == 1 for column in key]
    columns += [column for column, _ in table.columns if _plain(column) in usual and not table.unique]
    types = dict(table.columns)
    return next((column for column in columns if _name_type(types[column]) is not None), None)


def _name_type(sql_type: str) -> Type | None:
    """The type that carries the values of an identifying column, or None where it does not keep them all distinct."""
    carried = carried_as(sql_type)
    return carried[0] if carried is not None and carried[0] is not Type.DOUBLE and carried_exactly(sql_type) else None


def _candidates(tables: Mapping[str, TableSchema]) -> str:
    found = [f"{name}.{key}" for name, table in tables.items() if (key := _entity_key(name, table)) is not None]
    return "candidates: " + ", ".join(found[:6]) if found else "no table has a key of one column"


def _plain(name: str) -> str:
    """The name of a column, as most people would write it."""
    return re.sub(r"\W", "_", name.lower())


def _singular(name: str) -> str:
    name = name.lower()
    if name == "people":
        return "person"
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _enum_values(sql_type: str) -> list[str]:
    return [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", sql_type)]
