"""The policy file (`dpsql.toml`) as a `Policy`: read, checked, and every mistake located."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from dpsql.catalog import reading_entries
from dpsql.catalog.database_uris import (
    DUCKDB_FILES,
    fault_of_ledger,
    fault_of_uri,
    hidden,
    is_duckdb_file,
    parts_of_relation,
    scheme_of,
)
from dpsql.catalog.expected_findings import EXPECTED
from dpsql.catalog.file_names import is_copied, is_of_rows, is_of_statistics, is_of_texts, is_workbook
from dpsql.catalog.growing_tables import (
    LIMITS_OF_PERIODS,
    MOST_PERIODS,
    check_fits,
    check_growing,
    check_limits_of_periods,
    growth_of,
)
from dpsql.catalog.model import LONGEST_PACE, PACE, AgentTerms, Budget, ColumnPolicy, Entity, Policy, SparkPolicy, TablePolicy
from dpsql.catalog.name_faults import fault_of
from dpsql.catalog.price import Price, price
from dpsql.catalog.reading import USUAL_CELL, USUAL_CSV
from dpsql.catalog.sections import FORMS, Section, closest, locate, suggest
from dpsql.errors import OptionError, PolicyError
from dpsql.frozen import replace
from dpsql.trusted.declarations.account_limits import INCIDENTS, LATE
from dpsql.trusted.declarations.names import normal
from dpsql.trusted.declarations.tables import ForeignKey, Scalar
from dpsql.types import Span

MOST_VALUES = 1_000_000
MOST_BOUND = 10**15
MOST_INCIDENTS = 1000
MOST_LATE = 1_000_000
MOST_FREQUENCY = 1_000_000
LONGEST_NAME = 200
TOO_MUCH = "this is more than the total, so it could never be spent"
REFERENCE = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^"()]*[^"()\s]))\s*\(((?:[^"()]|"(?:[^"]|"")+")+)\)\s*')
PLAIN = re.compile(r'[^\s",()]([^",()]*[^\s",()])?')
REFERENCED = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^",]*[^",\s]))\s*(?:,|$)')

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MASTER = re.compile(r"local(\[.+\])?$|(spark|sc|k8s)://.|yarn$")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://.")
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])i?B", re.IGNORECASE)
DURATION = re.compile(r"([0-9]{1,6}) ?(ms|s)")
LEAST_MEMORY = 64 * 10**6  # bytes, with which the engine can read a block of a file
TYPES = ("BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP")
SYNTAX = {  # how the reader's reasons begin, and what it expected instead
    "Invalid value": 'a text in double quotes, a number, a date, true or false, or a list such as ["a", "b"]',
    "Expected '='": "name = value", "Illegal character": 'a " at both ends of the text, in one line',
    "Unterminated string": 'a " at both ends of the text', "Cannot overwrite": "only one of the two: this key occurs twice",
    "Cannot declare": "only one of the two: this section occurs twice",
    "Expected ']'": "[name]", "Unclosed array": "a ] at the end of the list",
    "Invalid initial character": "a name; there is no comma before the } of { name = value, name = value }",
}


def read_policy(path: str | Path) -> Policy:
    """Read and check a policy file. Raises PolicyError, located in the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PolicyError(f"there is no policy file {path}", code="no-policy",
                          try_="the path of one, or dpsql init <database>, which drafts one") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise PolicyError(f"the policy file {path} cannot be read ({type(fault).__name__})", code="no-policy",
                          try_="the path of a policy, a text such as dpsql.toml, which names the database") from None
    return parse_policy(text, path=str(path))


def parse_policy(text: str, *, path: str = "dpsql.toml") -> Policy:
    """Check the text of a policy. Raises PolicyError, located in the text, which shows no password."""
    whole, text = text, hidden(text)
    try:
        tree = tomllib.loads(whole)
    except (ValueError, RecursionError) as fault:  # the reader's own error is a ValueError, as is a number of 5000 digits
        reason = re.sub(r" \(at .*\)$", "", str(fault))
        raise PolicyError(f"this is not TOML: {reason}", code="policy-syntax", span=_span_of_toml_fault(text, str(fault)),
                          text=text, source=path, try_=next((try_ for start, try_ in SYNTAX.items() if reason.startswith(start)),
                                                            "")) from None
    section = Section(tree, (), text, path)
    version = section.take("version", int, required=True)
    if version != 1:
        section.fail("version", "the version of the policy must be 1")
    entities = _kinds({name: _entity(name, part) for name, part in section.sections("entities", required=True)})
    tables = {name: _table(name, part, entities) for name, part in section.sections("tables", required=True, fold=True)}
    budgets = {name: _budget(name, part, entities) for name, part in section.sections("budgets", required=True)}
    database = section.take("database", str)
    if database is not None and _in_other_database(section, "database", database):  # then it is the source of the others
        tables, database = _read_from(database, tables), None
    elif is_duckdb_file(database or "") and any(table.source is None and _cleaned(table) for table in tables.values()):
        tables, database = _read_from(str(database), tables), None  # cells are cleaned in views of the file
    if is_copied(database):
        section.fail("database", "a file of another program is the source of a table", try_=f'source = "{database}"')
    policy = Policy(entities=entities, tables=tables, budgets=budgets, database=database,
                    ledger=_ledger(section), anchor=section.take("anchor", str), uploads=section.strings("uploads"),
                    **_store(section.section("store")), spark=_spark(section.section("spark")),
                    pace=_pace(section, "pace", PACE), pace_stored=_pace(section, "pace_stored", None),
                    path=path, text=text, digest=hashlib.sha256(whole.encode()).hexdigest())
    section.finish()
    _check_references(policy)
    return policy


def _read_from(database: str, tables: Mapping[str, TablePolicy]) -> dict[str, TablePolicy]:
    return {name: table if table.source is not None else replace(table, source=database) for name, table in tables.items()}


def _cleaned(table: TablePolicy) -> list[str]:
    """The columns whose cells are cleaned."""
    return [name for name, column in table.columns.items() if column.reading.cleans]


def _span_of_toml_fault(text: str, message: str) -> Span | None:
    match = re.search(r"line (\d+), column (\d+)", message)
    if match is None:
        return Span(max(0, len(text) - 1), len(text)) if text and "end of document" in message else None
    line, column = int(match.group(1)), int(match.group(2))
    start = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1]) + column - 1
    return Span(start, start + 1)


def _store(store: Section | None) -> dict[str, Any]:
    """What the engine may use of the machine's memory, the folder of prepared stores and whether they are made by themselves, the
    folder of snapshots, and what holds the passwords."""
    if store is None:
        return {}
    memory: str | None = store.take("memory", str)
    size = None if memory is None else SIZE.fullmatch(memory.strip())
    if memory is not None and (size is None or float(size[1]) * 1000 ** ("KMGT".index(size[2].upper()) + 1) < LEAST_MEMORY):
        store.fail("memory", "must be a size of memory, 64MB or more")
    passwords = store.take("passwords", dict) or {}
    for variable in passwords.values():
        if not isinstance(variable, str) or not VARIABLE.fullmatch(variable):
            store.fail("passwords", "each must be the name of a variable of the environment, which holds the password")
    found = {"memory": memory, "store": store.take("folder", str), "prepare": store.take("prepare", bool) is not False,
             "snapshots": store.take("snapshots", str), "passwords": passwords}
    store.finish()
    return found


def _pace(section: Section, key: str, usual: float | None) -> float | None:
    """For how long a server holds what it sends, in seconds; `usual` where the policy says nothing, None for not at all."""
    text: str | None = section.take(key, str)
    if text is None or text == "none":
        return usual if text is None else None
    duration = DURATION.fullmatch(text)
    seconds = 0.0 if duration is None else int(duration[1]) / (1000 if duration[2] == "ms" else 1)
    if not 0 < seconds <= LONGEST_PACE:
        section.fail(key, 'must be a time from "1 ms" to "3600 s", or "none"')
    return seconds


def _in_other_database(part: Section, key: str, source: str) -> bool:
    """Whether a source is a database of another kind. Fails where its URI is wrong."""
    if scheme_of(source) is None:
        return False
    if (wrong := fault_of_uri(source)) is not None:
        part.fail(key, wrong[0], try_=wrong[1])
    return True


def _ledger(section: Section) -> str | None:
    """The path of the ledger, or the URI of its database. Fails where that is wrong."""
    named: str | None = section.take("ledger", str)
    if named is not None and scheme_of(named) is not None and (wrong := fault_of_ledger(named)) is not None:
        section.fail("ledger", wrong[0], try_=wrong[1])
    return named


def _relation(part: Section) -> tuple[str, ...] | None:
    """The parts of the name of a table in its database."""
    text = part.take("relation", str)
    if text is not None and parts_of_relation(text) is None:
        part.fail("relation", "must be the name of a table, with its schema in front")
    return None if text is None else parts_of_relation(text)


def _spark(part: Section | None) -> SparkPolicy | None:
    """The cluster, and the folder of the stores that it reads."""
    if part is None:
        return None
    master, form = part.take("master", str, required=True), 'store = "hdfs:///dpsql", "s3a://bucket/dpsql" or "file:///shared/dpsql"'
    store = part.take("store", str, form=form)
    if store is None:
        part.missing("store", form=form)
    if not MASTER.match(master):
        part.fail("master", "must be the address of a master of Spark, or of a server of Spark Connect")
    if not ADDRESS.match(store):
        part.fail("store", "must be the address of a folder in a file system of Spark", try_=form)
    part.finish()
    return SparkPolicy(master=master, store=store)


def _entity(name: str, part: Section) -> Entity:
    kinds = part.strings("any_of")
    if kinds:
        if len(set(kinds)) != len(kinds) or len(kinds) < 2:
            part.fail("any_of", "must list different kinds of entities")
        for key in ("table", "key", "column"):
            if part.has(key):
                part.fail(key, "the kinds in any_of have tables and keys of their own", try_=f"leaving {key} out")
        entity = Entity(name=name, table="", key="", any_of=kinds)
    elif part.has("column"):
        for key in ("table", "key"):
            if part.has(key):
                part.fail(key, "column already says this", try_=f"leaving {key} out")
        table, column = _named_column(part, "column") or ("", "")
        entity = Entity(name=name, table=table, key=column, several=True)
    else:
        entity = Entity(name=name, table=part.take("table", str, required=True), key=part.take("key", str, required=True))
    least = part.take("minimum_frequency", int)
    if least is not None and not 1 <= least <= MOST_FREQUENCY:
        part.fail("minimum_frequency", f"must be a whole number from 1 to {MOST_FREQUENCY}")
    part.finish()
    return replace(entity, minimum_frequency=least or 1)


def _kinds(entities: Mapping[str, Entity]) -> dict[str, Entity]:
    """The entities, with the table and key of the first kind where there are several kinds. The largest minimum frequency of
    the kinds applies to the entity as a whole, since a group with few members of one kind must be withheld too."""
    kinds = {name: [*(entities.get(kind, entity) for kind in entity.any_of), entity] for name, entity in entities.items()}
    return {name: replace(entities[name], table=of[0].table, key=of[0].key, minimum_frequency=max(
        kind.minimum_frequency for kind in of)) for name, of in kinds.items()}


def _table(name: str, part: Section, entities: Mapping[str, Entity]) -> TablePolicy:
    if not can_be_named(name):
        part.fail(None, f"a table's name has up to {LONGEST_NAME} visible characters", try_="ALTER TABLE, in the database")
    public = bool(part.take("public", bool))
    growth = growth_of(part, _rows_per_entity(part, entities, "rows_per_entity_and_period"))
    if public and growth is not None:
        part.fail("grows_by", "everybody may see all rows of a public table, so it has no periods", try_="leaving it out")
    rows, per_value = _rows_per_entity(part, entities, "rows_per_entity"), _rows_per_value(part)
    table = TablePolicy(
        name=name, public=public, key=part.strings("key"), source=part.take("source", str), rows_per_entity=rows,
        rows_per_value=per_value, limits_hold=bool(part.take("limits_hold", bool)),
        foreign_keys=_foreign_keys(part), relation=_relation(part), filter=part.take("filter", str),
        sheet=part.take("sheet", str), rules=part.strings("rules"),
        csv=reading_entries.csv_format(part.section("csv")), expected=part.strings("expected"), columns=_columns(part),
        growth=growth)
    table = _with_row_key(table, part)
    for word in table.expected:
        if word not in EXPECTED:
            part.fail("expected", f"check --rows has no word {word}", try_=suggest(word, EXPECTED))
    for limits, given in (("rows_per_entity", rows), ("rows_per_value", per_value)):
        if public and given:
            part.fail(limits, "a public table contains no entities, so it has no limit", try_="leaving it out")
    if table.limits_hold and not rows and not per_value and not (growth and growth.rows):
        part.fail("limits_hold", "there is no limit: neither rows_per_entity nor rows_per_value", try_="leaving it out")
    times = [] if growth is None else [("grows_by", growth.column), ("arrived", growth.arrived)]
    for key, column in (*(("rows_per_value", column) for column in per_value), *times):
        if column is not None and column not in table.columns:
            part.fail(key, f"column {column} is not declared",
                      try_=closest(column, table.columns) or f"[tables.{name}.columns]  {column} = {{}}")
    part.finish()
    if table.source is not None:
        _in_other_database(part, "source", table.source)
    for column in table.key:
        if column not in table.columns:
            part.fail("key", f"column {column} is not declared",
                      try_=closest(column, table.columns) or f"[tables.{name}.columns]  {column} = {{}}")
    if len(set(table.key)) != len(table.key):
        part.fail("key", "names a column twice")
    return table


def _with_row_key(table: TablePolicy, part: Section) -> TablePolicy:
    """The table with the column that names each of its rows, if the policy asks for one."""
    name = part.take("row_key", str)
    if name is None:
        return table
    if table.key:
        part.fail("row_key", "the table has a key already", try_="leave one of them out")
    if not name or name.lower() in {column.lower() for column in table.columns}:
        part.fail("row_key", "must be a name that no other column has")
    if table.source is not None and not (is_of_texts(table.source) or is_copied(table.source)):
        part.fail("row_key", "only rows of CSV files, and of files that dpsql refresh reads, are given names",
                  try_="a column with a different value in each row, as key")
    column = ColumnPolicy(name=name, type="VARCHAR", nullable=False, reading=replace(USUAL_CELL, type="VARCHAR"))
    return replace(table, row_key=name, key=(name,), columns={**table.columns, name: column})


def _rows_per_entity(part: Section, entities: Mapping[str, Entity], key: str) -> dict[str, int]:
    value = part.take(key, int, dict)
    if value is None:
        return {}
    limits = value if isinstance(value, dict) else dict.fromkeys(entities, value)
    for entity, limit in limits.items():
        if entity not in entities:
            part.fail(key, f"there is no entity {entity}", try_=suggest(entity, entities))
        _check_rows(part, key, limit)
    return dict(limits)


def _rows_per_value(part: Section) -> dict[str, int]:
    limits = part.take("rows_per_value", dict) or {}
    for limit in limits.values():
        _check_rows(part, "rows_per_value", limit)
    return dict(limits)


def _check_rows(part: Section, name: str, limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 10**6:
        part.fail(name, "must be a whole number from 1 to 1000000")


def _foreign_keys(part: Section) -> tuple[ForeignKey, ...]:
    value = part.take("foreign_keys", list) or []
    keys = []
    for item in value:
        if not isinstance(item, dict) or set(item) != {"columns", "references"}:
            part.fail("foreign_keys", "each must be a table with columns and references")
        columns = [item["columns"]] if isinstance(item["columns"], str) else item["columns"]
        match = REFERENCE.fullmatch(str(item["references"]))
        if not isinstance(columns, list) or not all(isinstance(c, str) for c in columns) or match is None:
            part.fail("foreign_keys", "references must be written table(column)")
        target = tuple(plain or inner.replace('""', '"') for inner, plain in REFERENCED.findall(match.group(3)))
        if len(target) != len(columns):
            part.fail("foreign_keys", f"columns and references differ in number: {len(columns)} and {len(target)}")
        key = ForeignKey(columns=tuple(columns), table=match.group(2) or match.group(1).replace('""', '"'), references=target)
        if key in keys:
            part.fail("foreign_keys", f"the one of {', '.join(columns)} occurs twice", try_="leave one of them out")
        keys.append(key)
    return tuple(keys)


def written_reference(table: str, columns: Iterable[str]) -> str:
    """The text of a foreign key's `references`; names may contain any character."""
    table, *columns = (name if PLAIN.fullmatch(name) else quoted(name) for name in (table, *columns))
    return f"{table}({', '.join(columns)})"


def can_be_named(table: str) -> bool:
    """Whether a policy may use this name for a table. Names appear in messages and listings, so every character must be
    visible."""
    return table.isprintable() and table == table.strip() and 0 < len(table) <= LONGEST_NAME


def quoted(name: str) -> str:
    """A name in double quotes, as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def quoted_if_needed(name: str) -> str:
    """A name as SQL writes it, in double quotes only where it is not a plain word."""
    return name if name.isidentifier() and name == name.lower() and name.isascii() else quoted(name)


def _columns(part: Section) -> dict[str, ColumnPolicy]:
    """The columns that are declared one by one and, as if by {}, those that are only listed."""
    found = {column: _column(column, section) for column, section in part.sections("columns", fold=True)}
    known = {column.lower() for column in found}
    for name in part.strings("other_columns"):
        if name.lower() in known:
            part.fail("other_columns", f"column {name} is declared already", try_="leaving it out here")
        known.add(name.lower())
        found[name] = ColumnPolicy(name=name)
    return found


def _column(name: str, part: Section) -> ColumnPolicy:
    values = _values(part)
    bounds, search = _bounds(part)
    declared = [key for key in ("values", "values_from", "range", "bounds") if part.has(key)]
    if len(declared) > 1:
        part.fail(declared[1], f"{declared[0]} and {declared[1]} cannot both be given", try_=f"only {declared[0]}")
    kind = _type(part)
    determines, by = part.strings("determines"), part.take("by", str)
    if bool(determines) is not (by is not None):
        part.fail("determines" if determines else "by", "determines lists columns, and by names the table of their combinations")
    policy = ColumnPolicy(
        name=name, type=kind, reading=reading_entries.cell_reading(part, kind), values=values,
        values_from=_named_column(part, "values_from"), determines=determines, by=by, bounds=bounds,
        others=part.take("others", bool) is not False, complete=part.has("range"), bins=_bins(part, bounds), step=_step(part),
        nullable=part.take("nullable", bool) is not False, search=search, like=part.take("like", str))
    if not policy.others and not {"values", "values_from", "range"} & set(declared):
        part.fail("others", "no values are listed that there could be others than",
                  try_="values = [...] or range = [...] beside it")
    part.finish()
    return policy


def _type(part: Section) -> str | None:
    name = part.take("type", str)
    if name is not None and name.upper() not in TYPES:
        part.fail("type", f"there is no type {name} for columns", try_="one of " + ", ".join(TYPES))
    return None if name is None else str(name).upper()


def _values(part: Section) -> tuple[Scalar, ...] | None:
    values = part.take("values", list)
    if values is None:
        return None
    if not values or len(values) > MOST_VALUES:
        part.fail("values", f"must list between 1 and {MOST_VALUES} values")
    if any(not isinstance(value, bool | int | float | str | dt.date) for value in values):
        part.fail("values", "must list texts, numbers, booleans or dates")
    if any(isinstance(value, dt.datetime) and value.tzinfo is not None for value in values):
        part.fail("values", "times are written without a time zone")
    kinds = {float if isinstance(value, float) else type(value) for value in values}
    if len(kinds) > 1 and not kinds <= {int, float}:
        part.fail("values", "must all have one type")
    if any(isinstance(value, int | float) and not abs(value) < 2**63 for value in values):
        part.fail("values", "numbers must be finite and within 64 bits")
    if len(set(values)) != len(values):
        part.fail("values", "lists a value twice")
    return tuple(values)


def _named_column(part: Section, key: str) -> tuple[str, str] | None:
    """A column that is named as table.column."""
    text = part.take(key, str)
    if text is None:
        return None
    match = re.fullmatch(r'(?:"((?:[^"]|"")+)"|([^".]+))\.(.+)', text, re.DOTALL)
    if match is None:
        part.fail(key, "must be written table.column")
    return match.group(2) or match.group(1).replace('""', '"'), match.group(3)


def _bounds(part: Section) -> tuple[tuple[Scalar, Scalar] | None, bool]:
    if part.take("bounds", list, str) == "search":
        return None, True
    key = "range" if part.has("range") else "bounds"
    ends = part.take(key, list, *((str,) if key == "bounds" else ()))
    if ends is None:
        return None, False
    form = f"{key} = [0, 100]" + (' or bounds = "search"' if key == "bounds" else "")
    if not isinstance(ends, list) or len(ends) != 2 or any(
            isinstance(end, bool) or not isinstance(end, int | float | dt.date) for end in ends):
        part.fail(key, "must be two numbers or two dates", try_=form)
    low, high = ends
    if len({isinstance(end, dt.date) + isinstance(end, dt.datetime) for end in ends}) > 1:
        part.fail(key, "both ends must have one type", try_=form)
    if any(isinstance(end, dt.datetime) and end.tzinfo is not None for end in ends):
        part.fail(key, "times are written without a time zone")
    if not low <= high:
        part.fail(key, "the first end must not be above the second", try_=form)
    if not isinstance(low, dt.date) and max(abs(low), abs(high)) > MOST_BOUND:
        part.fail(key, "ends must be within ±1e15")
    return (low, high), False


def _bins(part: Section, bounds: tuple[Scalar, Scalar] | None) -> tuple[float, ...] | None:
    value = part.take("bins", int, list)
    if value is None:
        return None
    if isinstance(value, list):
        if len(value) < 2 or any(isinstance(cut, bool) or not isinstance(cut, int | float) for cut in value) or any(
                not a < b for a, b in pairwise(value)):
            part.fail("bins", "must be increasing cut points")
        if max(abs(value[0]), abs(value[-1])) > MOST_BOUND:
            part.fail("bins", "cut points must be within ±1e15")
        return tuple(float(cut) for cut in value)
    if bounds is None or isinstance(bounds[0], dt.date):
        part.fail("bins", "a number of bins needs a range of numbers", try_="range = [0, 100], bins = 10")
    if not 1 <= value <= 10_000:
        part.fail("bins", "must be between 1 and 10000")
    low, high = (float(end) for end in bounds if isinstance(end, int | float))
    if low == high:
        part.fail("bins", "the range is a single point")
    return tuple(low + (high - low) * i / value for i in range(value + 1))


def _step(part: Section) -> Fraction | None:
    decimals, power = part.take("decimals", int), part.take("power_of_two", int)
    if decimals is not None and power is not None:
        part.fail("power_of_two", "decimals and power_of_two cannot both be given", try_="only decimals")
    if decimals is not None:
        if not 0 <= decimals <= 9:
            part.fail("decimals", "must be between 0 and 9")
        return Fraction(1, 10**decimals)
    if power is not None:
        if not -40 <= power <= 40:
            part.fail("power_of_two", "must be between -40 and 40")
        return Fraction(2**power) if power >= 0 else Fraction(1, 2**-power)
    return None


def _price(part: Section, *, required: bool) -> Price | None:
    given = {key: part.take(key, int, float) for key in ("epsilon", "delta", "rho")}
    if given["epsilon"] is None and given["rho"] is None:
        part.check_mistyped("epsilon")
    try:
        found = price(**given)
    except OptionError as fault:
        part.fail(fault.subject or None, fault.reason, try_=fault.try_ or None)
    if found is None and required:
        part.missing("epsilon", form="epsilon = 1.0, or epsilon and delta, or rho")
    return found


def _budget(name: str, part: Section, entities: Mapping[str, Entity]) -> Budget:
    entity = part.take("entity", str, required=True)
    if entity not in entities:
        part.fail("entity", f"there is no entity {entity}", try_=suggest(entity, entities))
    total = _price(part, required=True)
    assert total is not None
    parts = {key: part.section(key) for key in ("per_analyst", "per_statement", *LIMITS_OF_PERIODS)}
    prices, window = {}, parts["in_any"]
    in_any_periods = 0 if window is None else _number(window, "periods", 2, MOST_PERIODS, None)
    for key, section in parts.items():
        prices[key] = _price(section, required=True) if section is not None else None
        if section is not None:
            section.finish()
    listed = _listed(part)
    analysts: dict[str, Price] = {}
    named = []
    for analyst, section in part.sections("analysts") if listed is None else ():
        amount = _price(section, required=True)
        assert amount is not None
        analysts[_named(section, None, analyst, analysts)] = amount
        named.append(section)
        section.finish()
    agents = _agents(part, total, listed)
    incidents = _number(part, "incidents", 1, MOST_INCIDENTS, INCIDENTS)
    late = _number(part, "late", 0, MOST_LATE, LATE)
    share_answers = bool(part.take("share_answers", bool))
    part.finish()
    limits = [(key, prices[key]) for key in ("per_analyst", *LIMITS_OF_PERIODS)]
    for whose, limit in (*limits, *(("analysts", amount) for amount in analysts.values())):
        if limit is not None and (limit.rho is None) != (total.rho is None):
            part.fail(whose, "must be in the same currency as the total", try_="epsilon" if total.rho is None else "rho")
    for key, amount in prices.items():
        together = key in ("per_period", "in_any")
        more = "this is more than the total, which limits all periods together" if together else TOO_MUCH
        _check_fits(parts[key], amount, total, more)
    check_limits_of_periods(part, parts, prices, in_any_periods)
    for section, amount in zip(named, analysts.values(), strict=True):
        _check_fits(section, amount, total)
    return Budget(name=name, entity=entity, total=total, analysts=analysts, listed=listed, incidents=incidents, late=late,
                  share_answers=share_answers, agents=agents, in_any_periods=in_any_periods, **prices)


def _agents(part: Section, total: Price, listed: tuple[str, ...] | None) -> dict[str, AgentTerms]:
    """The terms of the accounts of programs, by name. Both prices are compared as the total is, so they have the same currency,
    and a delta if the total has one."""
    found: dict[str, AgentTerms] = {}
    for agent, section in part.sections("agents"):
        name = _named(section, None, agent, found)
        if listed is not None and name not in listed:
            section.fail(None, f"{name} is not among the analysts of this budget", try_="the same name in analysts")
        prices = {key: section.section(key) for key in ("per_day", "confirm_above")}
        section.finish()
        amounts = {}
        for key, inner in prices.items():
            amounts[key] = amount = _price(inner, required=True) if inner is not None else None
            if inner is None or amount is None:
                continue
            inner.finish()
            if (amount.rho is None) != (total.rho is None):
                inner.fail(None, "must be in the same currency as the total", try_="epsilon" if total.rho is None else "rho")
            if total.delta and not amount.delta:  # a price without one would let all of the total's delta pass unasked
                inner.fail(None, "the total has a delta, so this needs one", try_=f"delta = {float(total.delta) / 10:g}")
            _check_fits(inner, amount, total)
        if not any(amounts.values()):
            section.fail(None, "nothing is said of this agent", try_=FORMS["per_day"])
        found[name] = AgentTerms(**amounts)
    return found


def _number(part: Section, key: str, least: int, most: int, usual: int | None) -> int:
    """A whole number from `least` to `most`, which may be left out if there is a `usual` one."""
    found: int | None = part.take(key, int, required=usual is None)
    if found is not None and not least <= found <= most:
        part.fail(key, f"must be a whole number from {least} to {most}")
    return found if found is not None else usual or 0


def _listed(part: Section) -> tuple[str, ...] | None:
    """The analysts who may ask, where they are listed; a table of them only sets limits, and does not exclude others."""
    names = part.take("analysts", list, dict)
    if not isinstance(names, list):
        return None
    if not names or not all(isinstance(name, str) for name in names):
        part.fail("analysts", "must be a list of names")
    found: dict[str, str] = {}
    for name in names:
        found[_named(part, "analysts", name, found)] = name
    return tuple(found)


def _named(part: Section, key: str | None, name: str, others: Mapping[str, object]) -> str:
    """The normal form of an analyst's name."""
    found = normal(name)
    if (wrong := fault_of(found)) is not None:
        part.fail(key, f"the name of this analyst {wrong}", try_="letters of one script, digits and . _ @ -")
    if found in others:
        part.fail(key, f"{found} occurs twice: names that differ only in form or case are the same", try_="one of the two")
    return found


def _check_fits(part: Section | None, amount: Price | None, total: Price, too_much: str = TOO_MUCH) -> None:
    """Fail where an amount is of another kind than the total, and where it is `too_much`."""
    if part is not None and amount is not None:
        check_fits(part, amount, total, too_much, "the total")


def _check_types(policy: Policy, table: TablePolicy, fail: Callable[[tuple[str, ...], str, str], None]) -> None:
    """Types must be given for all columns of CSV files, workbooks, and files of SPSS, Stata and SAS, whose rows must not decide
    them, and for columns that are in the names of folders: which these are is known when they are opened. In another database any
    column may be read as another type."""
    source = table.source or policy.database
    typed = [name for name, column in table.columns.items() if column.type is not None]
    if scheme_of(source or "") is not None or (source is not None and not table.in_spark and _is_of_many(source)):
        return
    path = ("tables", table.name, "columns")
    kind = _untyped(source)
    if not kind:
        if typed:
            fail((*path, typed[0], "type"), "only columns of CSV files, and of the names of folders, need types",
                 "leaving it out")
        return
    for name, column in table.columns.items():
        if column.type is None and (typed or source is not None):
            fail((*path, name), f"a column of a {kind} needs a type, as its rows must not decide it",
                 'type = "VARCHAR", or another; dpsql init drafts the types')


def _untyped(source: str | None) -> str:
    """The kind of a source file whose columns lack types, or have too wide ones; "" for other files."""
    if source is None or is_of_texts(source):
        return "CSV file"
    return "workbook" if is_workbook(source) else "file of SPSS, Stata or SAS" if is_of_statistics(source) else ""


def _check_cleaning(policy: Policy, table: TablePolicy, fail: Callable[[tuple[str, ...], str, str], None]) -> None:
    """What names entities is compared in a database as it is kept there, so it is not cleaned; nor is what Spark reads."""
    source, cleaned = table.source or policy.database or "", _cleaned(table)
    named = {*table.key, *(column for key in table.foreign_keys for column in key.columns),
             *(entity.key for entity in policy.entities.values() if entity.table == table.name)}
    for name in cleaned:
        path = ("tables", table.name, "columns", name)
        if table.in_spark or (scheme_of(source) is not None and name in named):
            fail(path, "a column that identifies rows cannot be cleaned" if name in named else
                 "columns in Spark are read as they are", "a view or a table of the database in which it is cleaned")
        if not (is_of_rows(source) or is_copied(source) or _is_of_many(source) or is_duckdb_file(source)
                or scheme_of(source) is not None):
            fail(path, "only columns of files and databases that the policy names can be cleaned", f'source = "{table.name}.csv"')


def _is_of_many(source: str) -> bool:
    """Whether a source may be many files: a folder, or a pattern."""
    return not is_copied(source) and (
        bool(set(source) & set("*?[")) or not (is_of_rows(source) or source.lower().endswith(DUCKDB_FILES)))


def _check_of_copy(table: TablePolicy, fail: Callable[[tuple[str, ...], str, str], None]) -> None:
    """A sheet is of a workbook; and of files that are copied, only what their programs leave open is said in `csv`."""
    source, how = table.source or "", table.csv or USUAL_CSV
    if table.sheet is not None and not is_workbook(source):
        fail(("tables", table.name, "sheet"), "only workbooks have sheets", 'source = "book.xlsx", or leaving it out')
    if not is_copied(source):
        return
    open_ = {name: getattr(USUAL_CSV, name) for name in (
        ("header", "names", "skip") if is_workbook(source) else ("encoding",) if is_of_statistics(source) else ())}
    if replace(how, **open_) != USUAL_CSV:
        fail(("tables", table.name, "csv"), "the format of this file cannot be declared",
             f"only {', '.join(open_)}" if open_ else "leaving it out")
    if not table.columns:
        fail(("tables", table.name), "no column is declared", f"[tables.{table.name}.columns]")


def _check_of_database(table: TablePolicy, fail: Callable[[tuple[str, ...], str, str], None]) -> None:
    """A relation and a filter are of tables in databases of other kinds, of which at least one column is read. A table
    in a DuckDB file may have a relation, too."""
    if is_duckdb_file(table.source or "") and table.filter is None and len(table.relation or ()) <= 2:
        return
    if scheme_of(table.source or "") is None:
        for key, given in (("relation", table.relation), ("filter", table.filter)):
            if given is not None:
                fail(("tables", table.name, key), f"{key} is for tables of databases such as postgresql://host/database",
                     "leaving it out")
        return
    if not table.columns:
        fail(("tables", table.name), "no column is declared", f"[tables.{table.name}.columns]")


def _check_spark(policy: Policy, fail: Callable[[tuple[str, ...], str, str], None]) -> None:
    """What is in Spark needs a cluster; and the rows of an entity are put together in one place."""
    there = [table for table in policy.tables.values() if table.in_spark]
    if there and policy.spark is None:
        fail(("tables", there[0].name, "source"), "the policy names no cluster", FORMS["spark"])
    for table in policy.tables.values():
        if not table.public and not table.in_spark and any(not other.public for other in there):
            fail(("tables", table.name, "source"), "other private tables are in Spark, and this one is not",
                 'source = "spark:s3a://bucket/folder" or "spark:catalog.schema.table" for all of them')
    private = {str(table.source).rstrip("/"): table.name for table in there if not table.public}
    for table in there:
        if table.public and (other := private.get(str(table.source).rstrip("/"))) is not None:
            fail(("tables", table.name, "source"), f"this is the source of {other}, which is private",
                 "a table without private data")


def _check_references(policy: Policy) -> None:
    """Check that every reference to another part of the policy resolves."""

    def fail(path: tuple[str, ...], reason: str, try_: str = "") -> None:
        raise PolicyError(f"{'.'.join(path)}: {reason}", code="policy-reference", try_=try_, span=locate(policy.text, path),
                          subject=".".join(path), text=policy.text, source=policy.path)

    def column(path: tuple[str, ...], table: str, name: str) -> None:
        if table not in policy.tables:
            fail(path, f"there is no table {table}", suggest(table, policy.tables))
        if name not in policy.tables[table].columns:
            fail(path, f"table {table} declares no column {name}", closest(name, policy.tables[table].columns)
                 or f"[tables.{table}.columns]  {name} = {{}}")

    for table in policy.tables.values():
        _check_types(policy, table, fail)
        _check_of_database(table, fail)
        _check_of_copy(table, fail)
        _check_cleaning(policy, table, fail)
    used = {table.source for table in policy.tables.values()}
    for source in policy.passwords:
        if source not in used:
            fail(("store", "passwords"), "no table has this database as its source", suggest(source, filter(None, used)))
    _check_spark(policy, fail)
    for entity in policy.entities.values():
        for kind in entity.any_of:
            if kind not in policy.entities or policy.entities[kind].any_of:
                fail(("entities", entity.name, "any_of"), f"{kind} is not an entity with a table and a key",
                     suggest(kind, [name for name, other in policy.entities.items() if not other.any_of]))
    for entity in policy.entities.values():
        column(("entities", entity.name, "key" if entity.table in policy.tables else "table"), entity.table, entity.key)
        if policy.tables[entity.table].public:
            fail(("entities", entity.name, "table"), f"table {entity.table} is public, so it protects nobody",
                 f"remove public = true from [tables.{entity.table}]")
    for table in policy.tables.values():
        path = ("tables", table.name)
        for key in table.foreign_keys:
            for name in key.columns:
                column((*path, "foreign_keys"), table.name, name)
            for name in key.references:
                column((*path, "foreign_keys"), key.table, name)
            if table.public and not policy.tables[key.table].public:
                fail((*path, "public"), f"a public table cannot depend on the private table {key.table}", "remove public = true")
        for declared in table.columns.values():
            for name in declared.determines:
                column((*path, "columns", declared.name, "determines"), table.name, name)
            for name in (declared.name, *declared.determines) if declared.by is not None else ():
                column((*path, "columns", declared.name, "by"), str(declared.by), name)
            if declared.by is not None and (table.public or not policy.tables[declared.by].public):
                fail((*path, "columns", declared.name, "by"), f"table {declared.by} is not public, so its rows are private"
                     if not table.public else "a public table has its own rows", "leave out determines and by")
            if declared.values_from is not None:
                place = (*path, "columns", declared.name, "values_from")
                column(place, *declared.values_from)
                if not policy.tables[declared.values_from[0]].public:
                    fail(place, f"table {declared.values_from[0]} is not public, so its values are private",
                         f"public = true in [tables.{declared.values_from[0]}], or the list of values")
    check_growing(policy, fail)
