"""The policy file (`dpsql.toml`) as a `Policy`: read, checked, and every mistake located.

The standard TOML reader gives no line numbers, and no maintained library that does was found, so `locate` finds the line of a
key in the text. The checks are written by hand because the messages matter: each names the line, what is wrong and what to
write instead.
"""

from __future__ import annotations

import datetime as dt
import difflib
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from dpsql.catalog.database_uris import (
    DUCKDB_FILES,
    fault_of_ledger,
    fault_of_uri,
    hidden,
    is_duckdb_file,
    parts_of_relation,
    scheme_of,
)
from dpsql.catalog.model import (
    INCIDENTS,
    LATE,
    LONGEST_PACE,
    PACE,
    Budget,
    ColumnPolicy,
    Entity,
    ForeignKey,
    Policy,
    Scalar,
    SparkPolicy,
    TablePolicy,
)
from dpsql.catalog.names import fault_of, normal
from dpsql.catalog.price import Price, excess, misfit, price
from dpsql.errors import OptionError, PolicyError
from dpsql.types import Span

MOST_VALUES = 1_000_000
MOST_BOUND = 10**15
MOST_INCIDENTS = 1000
MOST_LATE = 1_000_000
MOST_FREQUENCY = 1_000_000
LONGEST_NAME = 200
REFERENCE = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^"()]*[^"()\s]))\s*\(((?:[^"()]|"(?:[^"]|"")+")+)\)\s*')
PLAIN = re.compile(r'[^\s",()]([^",()]*[^\s",()])?')
REFERENCED = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^",]*[^",\s]))\s*(?:,|$)')

FORMS = {  # a correct example of each key
    "version": "version = 1", "database": 'database = "people.duckdb"', "ledger": 'ledger = "dpsql.ledger"',
    "anchor": 'anchor = "/other/volume/anchor"', "uploads": 'uploads = ["uploads"]',
    "pace": 'pace = "100 ms" or pace = "none"', "pace_stored": 'pace_stored = "50 ms"',
    "table": 'table = "people"', "key": 'key = "person_id"',
    "any_of": 'any_of = ["customer", "supplier"]', "public": "public = true", "source": 'source = "people.csv"',
    "relation": 'relation = "schema.table"', "filter": 'filter = "active"',
    "foreign_keys": 'foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]',
    "rows_per_entity": "rows_per_entity = 10", "rows_per_value": "rows_per_value = { town = 20 }",
    "columns": "[tables.<name>.columns], and below it a line for each column, such as age = {}",
    "other_columns": 'other_columns = ["a", "b"], of which nothing more is said',
    "values": 'values = ["a", "b"]', "values_from": 'values_from = "plans.plan"', "range": "range = [0, 100]",
    "bounds": 'bounds = [0, 100] or bounds = "search"', "bins": "bins = 10, of a range of numbers, or bins = [0, 10, 20, 50]",
    "decimals": "decimals = 2", "power_of_two": "power_of_two = -4", "nullable": "nullable = false", "type": 'type = "BIGINT"',
    "entity": 'entity = "person"', "epsilon": "epsilon = 1.0", "delta": "delta = 1e-6", "rho": "rho = 0.1",
    "per_analyst": "per_analyst = { epsilon = 0.5 }", "per_statement": "per_statement = { epsilon = 0.1 }",
    "analysts": 'analysts = ["ada", "eve"], the only ones that may ask, or analysts.ada = { epsilon = 0.5 }, a limit of her own',
    "store": 'store = { memory = "4GB" }', "memory": 'memory = "4GB"', "folder": 'folder = "stores"',
    "prepare": "prepare = false", "snapshots": 'snapshots = "folder"',
    "passwords": '[store.passwords], and below it "postgresql://host/database" = "NAME_OF_A_VARIABLE"',
    "spark": 'spark = { master = "spark://host:7077", store = "hdfs:///dpsql" }',
    "master": 'master = "local[2]", "spark://host:7077" or "sc://host:15002"',
    "incidents": "incidents = 3", "late": "late = 20", "minimum_frequency": "minimum_frequency = 10",
}

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MASTER = re.compile(r"local(\[.+\])?$|(spark|sc|k8s)://.|yarn$")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://.")
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])i?B", re.IGNORECASE)
DURATION = re.compile(r"([0-9]{1,6}) ?(ms|s)")
LEAST_MEMORY = 64 * 10**6  # bytes, with which the engine can read a block of a file
TYPES = ("BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP")
SHORT = {"columns": "{}", "analysts": "{ epsilon = 0.5 }"}  # parts that are written in one line

SYNTAX = {  # how the reader's reasons begin, and what it expected instead
    "Invalid value": 'a text in double quotes, a number, a date, true or false, or a list such as ["a", "b"]',
    "Expected '='": "name = value", "Illegal character": 'a " at both ends of the text, in one line',
    "Unterminated string": 'a " at both ends of the text', "Cannot overwrite": "only one of the two: this key occurs twice",
    "Cannot declare": "only one of the two: this part occurs twice",
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
        tables = {name: table if table.source is not None else replace(table, source=database) for name, table in tables.items()}
        database = None
    policy = Policy(entities=entities, tables=tables, budgets=budgets, database=database,
                    ledger=_ledger(section), anchor=section.take("anchor", str), uploads=section.strings("uploads"),
                    **_store(section.section("store")), spark=_spark(section.section("spark")),
                    pace=_pace(section, "pace", PACE), pace_stored=_pace(section, "pace_stored", None),
                    path=path, text=text, digest=hashlib.sha256(whole.encode()).hexdigest())
    section.finish()
    _check_references(policy)
    return policy


class Section:
    """One table of the TOML tree that knows its path, so that its faults can be located. `finish` refuses unknown keys."""

    def __init__(self, tree: Mapping[str, Any], path: tuple[str, ...], text: str, source: str) -> None:
        self._tree, self.path, self._text, self._source = tree, path, text, source
        self._known: set[str] = set()

    def fail(self, key: str | None, reason: str, *, try_: str | None = None, code: str = "policy") -> NoReturn:
        path = self.path if key is None else (*self.path, key)
        form = try_ if try_ is not None else FORMS.get(key or "", "")
        raise PolicyError(f"{'.'.join(path) or 'the policy'}: {reason}", code=code, try_=form, span=locate(self._text, path),
                          subject=".".join(path), text=self._text, source=self._source)

    def has(self, key: str) -> bool:
        self._known.add(key)
        return key in self._tree

    def take(self, key: str, *kinds: type, required: bool = False, form: str | None = None) -> Any:
        """The value of a key, or None. Fails if it is required and missing, or of the wrong kind."""
        self._known.add(key)
        if key not in self._tree:
            if required:
                self.missing(key, form=FORMS[key])
            return None
        value = self._tree[key]
        if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            wanted = " or ".join(_KIND_NAMES[kind] for kind in kinds if not (kind is int and float in kinds))
            self.fail(key, f"must be {wanted}, not {_KIND_NAMES.get(type(value), type(value).__name__)}", try_=form)
        return value

    def missing(self, key: str, *, form: str) -> NoReturn:
        """Report a missing key, which may be present under a mistyped name."""
        self.check_mistyped(key)
        self.fail(None, f"{key} is missing", try_=form, code="missing-key")

    def check_mistyped(self, key: str) -> None:
        """Fail where the name of an unknown key is close to that of a key that is not there."""
        unknown = [other for other in self._tree if other not in self._known]
        if mistyped := difflib.get_close_matches(key, unknown, n=1, cutoff=0.7):
            self.fail(mistyped[0], "this key is unknown here", code="unknown-key", try_=key)

    def section(self, key: str, *, form: str | None = None) -> Section | None:
        value = self.take(key, dict, form=form)
        return None if value is None else Section(value, (*self.path, key), self._text, self._source)

    def sections(self, key: str, *, required: bool = False, fold: bool = False) -> list[tuple[str, Section]]:
        """The named sub-tables of `key`, such as every [tables.<name>]. `fold`: the database ignores the case of the names."""
        group = self.section(key)
        form = f"[{key}.<name>]"
        if group is None and required:
            self.missing(key, form=form)
        if group is None:
            return []
        if required and not group._tree:
            self.fail(key, "this is empty", try_=form, code="missing-key")
        found = []
        for name in group._tree:
            part = group.section(name, form=f"{name} = {SHORT[key]}" if key in SHORT else form.replace("<name>", name))
            assert part is not None
            found.append((name, part))
        if fold:
            first: dict[str, str] = {}
            for name, part in found:
                if (other := first.setdefault(name.lower(), name)) != name:
                    part.fail(None, f"this is {other} again: a database ignores the case of names", try_=f"only {other}")
        return found

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.take(key, str, list)
        items = [value] if isinstance(value, str) else value or []
        if not all(isinstance(item, str) for item in items):
            self.fail(key, "must be a name or a list of names")
        return tuple(items)

    def finish(self) -> None:
        for key in self._tree:
            if key not in self._known:
                self.fail(key, "this key is unknown here", code="unknown-key", try_=suggest(key, sorted(self._known)))


_KIND_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a table"}


def locate(text: str, path: tuple[str, ...]) -> Span | None:
    """The place of a key in TOML text: its line, or that of the nearest enclosing header or key, or else of one below it."""
    header: tuple[str, ...] = ()
    best: tuple[int, Span] | None = None
    below: Span | None = None
    position = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        here: tuple[str, ...] | None = None
        if match := re.match(r"\[\[?\s*(.+?)\s*\]\]?\s*(#.*)?$", stripped):
            here = header = _split_key(match.group(1))
        elif match := re.match(r"([A-Za-z0-9_.\"'\- ]+?)\s*=", stripped):
            here = (*header, *_split_key(match.group(1)))
        start = position + len(line) - len(line.lstrip())
        if here is not None and path[: len(here)] == here and (best is None or len(here) > best[0]):
            best = len(here), Span(start, start + len(stripped))
        elif here is not None and path and here[: len(path)] == path and below is None:
            below = Span(start, start + len(stripped))
        position += len(line)
    return best[1] if best and (below is None or best[0] == len(path)) else below


def suggest(name: str, known: Iterable[str]) -> str:
    """A suggestion: the known name that is most similar, or else all of them."""
    return _close(name, known) or "one of " + ", ".join(known)


def _close(name: str, known: Iterable[str]) -> str:
    folded = {other.lower(): other for other in known}
    return next((folded[other] for other in difflib.get_close_matches(name.lower(), folded, n=1)), "")


def _split_key(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted))


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
        for key in ("table", "key"):
            if part.has(key):
                part.fail(key, "the kinds in any_of have tables and keys of their own", try_=f"leaving {key} out")
        entity = Entity(name=name, table="", key="", any_of=kinds)
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
    rows, per_value = _rows_per_entity(part, entities), _rows_per_value(part)
    table = TablePolicy(
        name=name, public=public, key=part.strings("key"), source=part.take("source", str), rows_per_entity=rows,
        rows_per_value=per_value, foreign_keys=_foreign_keys(part), relation=_relation(part), filter=part.take("filter", str),
        columns=_columns(part))
    for limits, given in (("rows_per_entity", rows), ("rows_per_value", per_value)):
        if public and given:
            part.fail(limits, "a public table holds no entity, so it has no limit", try_="leaving it out")
    for column in per_value:
        if column not in table.columns:
            part.fail("rows_per_value", f"column {column} is not declared",
                      try_=_close(column, table.columns) or f"[tables.{name}.columns]  {column} = {{}}")
    part.finish()
    if table.source is not None:
        _in_other_database(part, "source", table.source)
    for column in table.key:
        if column not in table.columns:
            part.fail("key", f"column {column} is not declared",
                      try_=_close(column, table.columns) or f"[tables.{name}.columns]  {column} = {{}}")
    if len(set(table.key)) != len(table.key):
        part.fail("key", "names a column twice")
    return table


def _rows_per_entity(part: Section, entities: Mapping[str, Entity]) -> dict[str, int]:
    value = part.take("rows_per_entity", int, dict)
    if value is None:
        return {}
    limits = value if isinstance(value, dict) else dict.fromkeys(entities, value)
    for entity, limit in limits.items():
        if entity not in entities:
            part.fail("rows_per_entity", f"there is no entity {entity}", try_=suggest(entity, entities))
        _check_rows(part, "rows_per_entity", limit)
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
            part.fail("foreign_keys", f"the one of {', '.join(columns)} occurs twice", try_="leaving one of them out")
        keys.append(key)
    return tuple(keys)


def written_reference(table: str, columns: Iterable[str]) -> str:
    """The text of a foreign key's `references`; names may contain any character."""
    table, *columns = (name if PLAIN.fullmatch(name) else quoted(name) for name in (table, *columns))
    return f"{table}({', '.join(columns)})"


def can_be_named(table: str) -> bool:
    """Whether a policy may use this name for a table: names are shown in messages and listings, so every character must be
    visible."""
    return table.isprintable() and table == table.strip() and 0 < len(table) <= LONGEST_NAME


def quoted(name: str) -> str:
    """A name in double quotes, as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


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
    policy = ColumnPolicy(
        name=name, type=_type(part), values=values, values_from=_values_from(part), bounds=bounds,
        complete=part.has("range"), bins=_bins(part, bounds), step=_step(part),
        nullable=part.take("nullable", bool) is not False, search=search)
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
        part.fail("values", "must all be of one kind")
    if any(isinstance(value, int | float) and not abs(value) < 2**63 for value in values):
        part.fail("values", "numbers must be finite and within 64 bits")
    if len(set(values)) != len(values):
        part.fail("values", "lists a value twice")
    return tuple(values)


def _values_from(part: Section) -> tuple[str, str] | None:
    text = part.take("values_from", str)
    if text is None:
        return None
    match = re.fullmatch(r'(?:"((?:[^"]|"")+)"|([^".]+))\.(.+)', text, re.DOTALL)
    if match is None:
        part.fail("values_from", "must be written table.column")
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
        part.fail(key, "both ends must be of one kind", try_=form)
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
    parts = {key: part.section(key) for key in ("per_analyst", "per_statement")}
    prices = {}
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
    incidents = _number(part, "incidents", 1, MOST_INCIDENTS, INCIDENTS)
    late = _number(part, "late", 0, MOST_LATE, LATE)
    part.finish()
    for limit in (prices["per_analyst"], *analysts.values()):
        if limit is not None and (limit.rho is None) != (total.rho is None):
            whose = "per_analyst" if limit is prices["per_analyst"] else "analysts"
            part.fail(whose, "must be in the same currency as the total", try_="epsilon" if total.rho is None else "rho")
    for key, amount in prices.items():
        _check_fits(parts[key], amount, total)
    for section, amount in zip(named, analysts.values(), strict=True):
        _check_fits(section, amount, total)
    return Budget(name=name, entity=entity, total=total, analysts=analysts, listed=listed,
                  incidents=incidents, late=late, **prices)


def _number(part: Section, key: str, least: int, most: int, usual: int) -> int:
    found: int | None = part.take(key, int)
    if found is not None and not least <= found <= most:
        part.fail(key, f"must be a whole number from {least} to {most}")
    return usual if found is None else found


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


def _check_fits(part: Section | None, amount: Price | None, total: Price) -> None:
    """Fail where the total cannot hold the amount: it could never be spent."""
    if part is None or amount is None:
        return
    if (wrong := misfit(amount, total)) is not None:
        part.fail(wrong[0], f"the total {wrong[1]}", try_=wrong[2])
    if (more := excess(amount, total)) is not None:
        part.fail(more[0], "this is more than the total, so it could never be spent", try_=more[1])


def _check_types(policy: Policy, table: TablePolicy, fail: Callable[[tuple[str, ...], str, str], None]) -> None:
    """Types must be given for all columns of CSV files, or for none; and for those that are in the names of folders. In another
    database any column may be read as another type."""
    typed = [name for name, column in table.columns.items() if column.type is not None]
    if not typed or scheme_of(table.source or "") is not None:
        return
    path, in_database = ("tables", table.name, "columns"), table.source is None and policy.database is not None
    source = (table.source or ".csv").lower()
    in_folders = not source.endswith((".csv", ".tsv", ".parquet", *DUCKDB_FILES)) or bool(set(source) & set("*?["))
    if not in_database and in_folders and not table.in_spark and not source.endswith((".csv", ".tsv")):
        return  # which columns are in the names of folders is known when they are opened
    if in_database or source.endswith((".parquet", *DUCKDB_FILES)) or table.in_spark:
        fail((*path, typed[0], "type"), "only columns of CSV files, and of the names of folders, need types", "leaving it out")
    for name, column in table.columns.items():
        if column.type is None:
            fail((*path, name), "it has no type, although other columns of this file have one", 'type = "VARCHAR"')


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
                 "a table without what is private")


def _check_references(policy: Policy) -> None:
    """Check that every reference to another part of the policy resolves."""

    def fail(path: tuple[str, ...], reason: str, try_: str = "") -> None:
        raise PolicyError(f"{'.'.join(path)}: {reason}", code="policy-reference", try_=try_, span=locate(policy.text, path),
                          subject=".".join(path), text=policy.text, source=policy.path)

    def column(path: tuple[str, ...], table: str, name: str) -> None:
        if table not in policy.tables:
            fail(path, f"there is no table {table}", suggest(table, policy.tables))
        if name not in policy.tables[table].columns:
            fail(path, f"table {table} declares no column {name}", _close(name, policy.tables[table].columns)
                 or f"[tables.{table}.columns]  {name} = {{}}")

    for table in policy.tables.values():
        _check_types(policy, table, fail)
        _check_of_database(table, fail)
    used = {table.source for table in policy.tables.values()}
    for source in policy.passwords:
        if source not in used:
            fail(("store", "passwords"), "this database is the source of no table", suggest(source, filter(None, used)))
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
            if declared.values_from is not None:
                place = (*path, "columns", declared.name, "values_from")
                column(place, *declared.values_from)
                if not policy.tables[declared.values_from[0]].public:
                    fail(place, f"table {declared.values_from[0]} is not public, so its values are private",
                         f"public = true in [tables.{declared.values_from[0]}], or the list of values")
