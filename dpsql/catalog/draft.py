"""The first draft of a policy, from the schema of a database alone. No row is read.

A draft declares no more than the database does: names, types, keys and foreign keys. Everything stays private, and the rest is
comments that say what to fill in. The protected entity is guessed, and the draft says so. Before a draft is returned it is
read back and fitted to the schema, so its comments agree with what the engine will say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from dpsql.catalog import writing
from dpsql.catalog.drafted_files import DraftedColumn, DraftedFile
from dpsql.catalog.guesses import (
    Evidence,
    Guess,
    candidates,
    entity_key,
    guess_of,
    key_of,
    name_type,
    plain_name,
    tables_above,
)
from dpsql.catalog.policy import can_be_named, parse_policy, written_reference
from dpsql.catalog.schema import carried_as, fit
from dpsql.catalog.writing import comment, note, value
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, field, replace
from dpsql.trusted.declarations.tables import ForeignKey, Scalar, TableSchema
from dpsql.types import Type

HINTS = {
    Type.BIGINT: "range = [0, 100], or values, or bounds; bins",
    Type.DOUBLE: "bounds = [0, 1000], decimals = 2; bins",
    Type.VARCHAR: 'values = ["a", "b"]',
    Type.BOOLEAN: "nullable = false",
    Type.DATE: "range = [2020-01-01, 2029-12-31]",
    Type.TIMESTAMP: "bounds = [2020-01-01T00:00:00, 2029-12-31T23:59:59]",
}

TYPED = """
Each column has a type that all rows of the file fit. The types become public, so check them. A cell that does not fit its type
counts as NULL.
"""

HEAD = """
A policy drafted by dpsql from the schema of the database, and of files from their rows, too: these decide which types, words for
missing values, keys and foreign keys are guessed. No other value of a row is written here unless you agreed to it. Read all of it
before you use it.

Everything is private until you say otherwise: a table is private unless it says `public = true`, and a table or column that is
not listed here cannot be queried. Delete what nobody should query. The text of the policy is public: analysts see it.

What can be declared for a table:

  public = true          everybody may see every row of it
  key = "id"             the columns that identify a row
  foreign_keys = [...]   the rows that a row belongs to: deleting one of them deletes this row too
  rows_per_entity = 5    the most rows of one protected entity that are used; further ones are left out
  rows_per_value = { town = 20 }
                         the most rows per value that are used when rows of many entities are joined on it
  limits_hold = true     no row is beyond these limits, so intervals need not allow for rows that are left out
  grows_by = "day"       rows are added over time: each belongs to the period of this column, and each period has a budget. Also
                         period = "month" (or day, week, quarter, year), since = 2024-01-01 for the first one, closes = "5 days"
                         for when one is complete, and rows_per_entity_and_period = 10 instead of rows_per_entity. To drop rows
                         that arrive later than that: late = "drop" and arrived = "loaded_at", the column of their arrival
  source = "t.parquet"   the CSV or Parquet file with its rows, a folder with such files, or a pattern: "t/*.parquet"; or a file
                         of Excel, SPSS, Stata, SAS or Arrow, which `dpsql refresh` reads
  sheet = "2024"         the sheet of a workbook, if it is not the first one
  relation = "s.t"       its name in a database such as PostgreSQL, with the schema, if it differs from this one
  filter = "..."         for such a database: a condition, in its SQL, that selects the rows to read
"""


MOST_ROWS = "the most rows of one {} that are used"
GROWS = "if rows are added over time; then also per_period in the budget, and perhaps in_any"
ARRIVES = re.compile(r"(^|_)(arriv(al|ed)|inserted|ingested|load(ed)?|received|recorded|created|imported)(_|$)")  # names
NONE: Mapping[str, str] = MappingProxyType({})


class Chosen(Frozen):
    """The owner's answers to questions about a schema.

    guess       who is protected
    public      the tables of which everybody may see every row
    references  the foreign keys that the database does not declare, by table
    rows        the most rows of one entity that are used, by table
    columns     what is declared of columns, by table and column
    epsilon     what all answers together may cost, and per_statement what one costs that names no price; as they are written
    """

    guess: Guess
    public: frozenset[str]
    references: Mapping[str, Sequence[ForeignKey]]
    rows: Mapping[str, int]
    epsilon: str
    per_statement: str
    columns: Mapping[str, Mapping[str, Mapping[str, writing.Value]]] = field(default_factory=dict)


def tables_of(schema: Mapping[str, TableSchema]) -> dict[str, TableSchema]:
    """The tables that a draft declares, with foreign keys spelled like the columns they reference. Raises OperationalError if
    there are none."""
    tables = _spelled({name: table for name, table in schema.items() if table.view is None and can_be_named(name)})
    if not tables:
        raise OperationalError("the database has no table that a policy could use", code="no-tables")
    return tables


def draft(schema: Mapping[str, TableSchema], *, database: str | None = None, sources: Mapping[str, str] = NONE,
          relations: Mapping[str, str] = NONE, types: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
          files: Mapping[str, DraftedFile] = MappingProxyType({}), sheets: Mapping[str, str] = NONE,
          aside: Mapping[str, str] = NONE, rows: Evidence | None = None, chosen: Chosen | None = None) -> str:
    """The text of a policy for these tables; the owner's choices replace guesses. `sources` names the file of each table,
    where there is no `database`. In a database of another kind, `relations` are the names of tables there, and `types` the types
    of columns that have to be declared. `files` are those among the sources that are written in one of several ways, as they seem
    to be written; `sheets` names the sheet of each table in a workbook with several, and `aside` says what is left out of files,
    and why. `rows` is what rows say.

    Where no entity can be guessed, the text says what to fill in, and is refused until that is done.
    Raises OperationalError if there is nothing to draft.
    """
    tables = tables_of(schema)
    if chosen is not None:
        tables = {name: replace(table, foreign_keys=(*table.foreign_keys, *chosen.references.get(name, ())))
                  for name, table in tables.items()}
    left_out = {**{name: _why_left_out(table) for name, table in schema.items() if name not in tables}, **aside}
    draft = _Draft(tables=tables, left_out=left_out, database=database, sources=sources, relations=relations, types=types,
                   files=files, sheets=sheets, rows=rows, chosen=chosen,
                   guess=guess_of(tables, rows) if chosen is None else chosen.guess)
    if draft.guess is None:
        return draft.text()
    policy = parse_policy(draft.text(), path="the draft")
    if draft.guess.by_row:
        of = draft.guess.entity
        schema = {**schema, of.table: replace(tables[of.table], columns=(*tables[of.table].columns, (of.key, "VARCHAR")))}
    return replace(draft, outside=fit(policy, "main", schema, _no_values).outside).text()


def _no_values(table: str, columns: Sequence[str], most: int) -> Sequence[tuple[Scalar | None, ...]]:
    """None is read: which tables can be asked about does not depend on them."""
    return ()


def _why_left_out(table: TableSchema) -> str:
    if table.view is not None:
        return ("a view. One that picks, joins and filters public tables may be declared, with public = true" if table.fixed else
                "a view. What it shows may be declared as a table made from it")
    return "a table's name must consist of visible characters, without blanks around it"


class _Draft(Frozen):
    """The parts of a draft; `outside` holds the tables that cannot be queried, with the reason."""

    tables: Mapping[str, TableSchema]
    left_out: Mapping[str, str]
    database: str | None
    sources: Mapping[str, str]
    relations: Mapping[str, str]
    types: Mapping[str, Mapping[str, str]]
    files: Mapping[str, DraftedFile]
    sheets: Mapping[str, str]
    rows: Evidence | None
    guess: Guess | None
    chosen: Chosen | None = None
    outside: Mapping[str, str] | None = None

    def text(self) -> str:
        lines = [*comment(HEAD), "", "version = 1"]
        if self.database is not None:
            lines.append(f"database = {value(self.database)}")
        lines += [note('# ledger = "dpsql.ledger"', "the record of what was spent"),
                  note('# anchor = "/other/volume/anchor"', "detects that the ledger was replaced by an older copy"), ""]
        lines += [*self._entity(), "", *self._budget(), "", *comment(writing.COLUMNS)]
        for name, table in self.tables.items():
            lines += ["", *self._table(name, table)]
        for name, reason in self.left_out.items():
            lines += ["", *comment(f"{name} is left out: {reason}.")]
        return "\n".join(lines) + "\n"

    @property
    def _entity_name(self) -> str:
        return self.guess.entity.name if self.guess is not None else "person"

    def _budget(self) -> list[str]:
        if self.chosen is None:
            return writing.budget(self._entity_name)
        return writing.budget(self._entity_name, epsilon=self.chosen.epsilon, per_statement=self.chosen.per_statement)

    @property
    def _public(self) -> frozenset[str]:
        return self.chosen.public if self.chosen is not None else frozenset()

    def _entity(self) -> list[str]:
        what = "Who is protected: one row of this table, and every row that depends on it through foreign keys."
        if self.guess is None:
            ask = ("FILL IN: no table could be guessed. Name the table that has one row for each person (or household, firm ...) "
                   "and the column that identifies them, and remove the # from these three lines.")
            return [*comment(f"{what} {ask}"), "", "# [entities.person]", '# table = "..."',
                    note('# key = "..."', candidates(self.tables, self.rows))]
        entity = self.guess.entity
        if self.guess.several:
            what = "Who is protected: the rows of this table that share a value of this column, and those that depend on them."
        guess = f"This is a guess: {self.guess.why}. Check it: an answer protects one {entity.name}, not several."
        check = guess if self.chosen is None else f"An answer protects one {entity.name}."
        named = [f"table = {value(entity.table)}", f"key = {value(entity.key)}"]
        if self.guess.several:
            named = [f"column = {value(writing.column(entity.table, entity.key))}"]
        return [*comment(f"{what} {check}"), "", f"[entities.{writing.key(entity.name)}]", *named]

    def _table(self, name: str, table: TableSchema) -> list[str]:
        lines = [f"[tables.{writing.key(name)}]"]
        if name in self._public:
            lines.append("public = true")
        if (key := key_of(table)) is not None:
            lines.append(f"key = {value(key[0] if len(key) == 1 else list(key))}")
        elif self.chosen is not None and name in self._public and (usual := entity_key(name, table, self.rows)) is not None:
            lines.append(f"key = {value(usual)}")
        else:
            lines += self._key_of_entity(name)
        if name in self.sources:
            lines.append(f"source = {value(self.sources[name])}")
        if name in self.sheets:
            lines.append(f"sheet = {value(self.sheets[name])}")
        if name in self.relations:
            lines.append(f"relation = {value(self.relations[name])}")
        lines += self._foreign_keys(name, table)
        lines += self._notes(name)
        lines += self._growth(name, table)
        columns = [_as_declared(*self._column(name, table, *pair), self.types.get(name, {})) for pair in table.columns]
        if name in self.files:
            written = self.files[name].entries(Path(self.sources[name]))
            lines += [note(f"csv = {value(written)}", "how the file is written")] if written else []
            lines += ["", *comment(TYPED)] if any(how.type for how in self.files[name].readings.values()) else []
            columns = [_typed(*column, self.files[name].columns.get(column[0])) for column in columns]
        return [*lines, "", f"[tables.{writing.key(name)}.columns]", *writing.columns(columns)]

    def _key_of_entity(self, name: str) -> list[str]:
        """The key of the table with one row for each entity, which the database does not declare."""
        if self.guess is None or not self._is_entity(name) or self.guess.several:
            return []
        key = value(self.guess.entity.key)
        if self.guess.by_row:
            return [note(f"row_key = {key}", "an additional column that names each row")]
        mark = "# " if self.chosen is None and self.rows is None else ""
        return [note(f"{mark}key = {key}", f"if no {self._entity_name} has two rows")]

    def _is_entity(self, name: str) -> bool:
        return self.guess is not None and name == self.guess.entity.table

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
        if self.guess is None or self._is_entity(name):
            return None
        entity = self.guess.entity
        wanted = dict(self.tables[entity.table].columns).get(entity.key)
        names = {plain_name(entity.key), f"{entity.name}_id"} - {"id"}
        found = next((column for column, kind in table.columns if plain_name(column) in names and kind == wanted), None)
        return None if found is None else ForeignKey(columns=(found,), table=entity.table, references=(entity.key,))

    def _notes(self, name: str) -> list[str]:
        if self.guess is None or (self._is_entity(name) and not self.guess.several) or name in self._public:
            return []
        if self.chosen is not None and name in self.chosen.rows:
            return [note(f"rows_per_entity = {self.chosen.rows[name]}", MOST_ROWS.format(self._entity_name))]
        reason = (self.outside or {}).get(name)
        if reason is None:
            return [note("# rows_per_entity = 10", MOST_ROWS.format(self._entity_name))]
        return comment(f"This table cannot be queried yet: {reason}. Correct foreign_keys, so that each row belongs to one "
                       f"{self._entity_name}, or set public = true if everybody may see every row of it.")

    def _growth(self, name: str, table: TableSchema) -> list[str]:
        """How the table may grow: by its column of time, if it has exactly one besides one that by its name says when a row
        arrived. In the entity's own table this would not say when a row was added, as a date of birth does not."""
        times = [column for column, kind in table.columns if (carried := carried_as(kind)) is not None and carried[0].temporal]
        known = self.guess is not None and (not self._is_entity(name) or self.guess.several) and name not in (self.outside or {})
        arrived = [column for column in times if ARRIVES.search(plain_name(column))] if len(times) == 2 else []
        times = [column for column in times if column not in arrived]
        if not known or name in self._public or len(times) != 1:
            return []
        late = [line for column in arrived for line in (
            note('# late = "drop"', "to drop rows that arrive when their period is closed"), f"# arrived = {value(column)}")]
        return [note(f"# grows_by = {value(times[0])}", GROWS), '# period = "month"',
                note("# since = 2024-01-01", "a day of the first period"), *late]

    def _column(self, of: str, table: TableSchema, name: str,
                sql_type: str) -> tuple[str, Mapping[str, writing.Value] | None, str]:
        shown = sql_type if len(sql_type) <= 40 else sql_type[:37] + "..."
        carried = carried_as(sql_type)
        if carried is None:
            return name, None, f"{shown}: this type is not supported; a table could hold it as another"
        named = [key.table for key in table.foreign_keys if name in key.columns]
        if name in (key_of(table) or ()) or named:
            return name, {}, shown + (f", names a row of {named[0]}" if named else ", key")
        if (lookup := self._lookup(of, name, sql_type)) is not None:
            return name, {"values_from": lookup}, f"{shown}; the values of a public table"
        if sql_type.upper().startswith("ENUM("):
            return name, {"values": _enum_values(sql_type)}, "ENUM: its values are part of the schema"
        if (agreed := self._agreed(of, name)) is not None:
            return name, agreed, f"{shown}; as was agreed"
        return name, {}, f"{shown}; {HINTS[carried[0]]}"

    def _agreed(self, of: str, column: str) -> Mapping[str, writing.Value] | None:
        """The suggestions that the owner accepted."""
        return self.chosen.columns.get(of, {}).get(column) if self.chosen is not None else None

    def _lookup(self, of: str, column: str, sql_type: str) -> str | None:
        """The key of a public table that has the name and the type of a column of a private one."""
        for other in sorted(self._public - {of}) if of not in self._public else ():
            key = entity_key(other, self.tables[other], self.rows)
            if key is not None and plain_name(key) == plain_name(column) and (
                    name_type(dict(self.tables[other].columns)[key]) is name_type(sql_type)):
                return writing.column(other, key)
        return None


def _as_declared(name: str, declared: Mapping[str, writing.Value] | None, hint: str,
                 types: Mapping[str, str]) -> tuple[str, Mapping[str, writing.Value] | None, str]:
    """A column with the type that has to be declared for it, if there is one."""
    return name, {"type": types[name], **(declared or {})} if name in types else declared, hint


def _typed(name: str, declared: Mapping[str, writing.Value] | None, hint: str,
           drafted: DraftedColumn | None) -> tuple[str, Mapping[str, writing.Value] | None, str]:
    """A column of a file with the reading that its cells fit."""
    if declared is None or drafted is None:
        return name, declared, hint
    usual = "" if drafted.values else hint.partition("; ")[2] if drafted.reading.type else hint
    return name, {**drafted.entries, **declared}, "; ".join(filter(None, (drafted.note, usual)))


def _spelled(schema: Mapping[str, TableSchema]) -> dict[str, TableSchema]:
    """The tables, with foreign keys spelled like the tables and columns they reference; a database keeps them as they were
    typed."""
    names = {name.lower(): name for name in schema}

    def spell(key: ForeignKey) -> ForeignKey:
        table = names.get(key.table.lower(), key.table)
        columns = {column.lower(): column for column, _ in schema[table].columns} if table in schema else {}
        return replace(key, table=table, references=tuple(columns.get(column.lower(), column) for column in key.references))

    return {name: replace(table, foreign_keys=tuple(map(spell, table.foreign_keys))) for name, table in schema.items()}


def _written(key: ForeignKey) -> str:
    columns = value(key.columns[0] if len(key.columns) == 1 else list(key.columns))
    return f"columns = {columns}, references = {value(written_reference(key.table, key.references))}"


def _refusal(tables: Mapping[str, TableSchema], name: str, key: ForeignKey) -> str:
    """Why the engine could not follow a foreign key; empty if it can."""
    if key.table not in tables:
        return f"{key.table} is left out"
    if name in tables_above(tables, key.table):
        return "foreign keys form a cycle, which a deletion cannot follow"
    for child, parent in zip(key.columns, key.references, strict=True):
        own, other = name_type(dict(tables[name].columns)[child]), name_type(dict(tables[key.table].columns)[parent])
        if own is None or own is not other:
            return "the columns cannot be compared exactly"
    return ""



def _enum_values(sql_type: str) -> list[str]:
    return [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", sql_type)]
