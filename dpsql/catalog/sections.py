"""The parts of a policy file: each reads its own keys, and locates what is wrong with them in the text.

The standard TOML reader gives no line numbers, and no maintained library that does was found, so `locate` finds the line of a
key in the text. The checks are written by hand because the messages matter: each names the line, what is wrong and what to
write instead.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from dpsql.errors import PolicyError
from dpsql.types import Span

FORMS = {  # a correct example of each key
    "version": "version = 1", "database": 'database = "people.duckdb"', "ledger": 'ledger = "dpsql.ledger"',
    "anchor": 'anchor = "/other/volume/anchor"', "uploads": 'uploads = ["uploads"]',
    "pace": 'pace = "100 ms" or pace = "none"', "pace_stored": 'pace_stored = "50 ms"',
    "column": 'column = "events.user_id", if no table has one row for each of them',
    "any_of": 'any_of = ["customer", "supplier"]', "public": "public = true", "source": 'source = "people.csv"',
    "rules": 'rules = ["income = 0 OR hours > 0", "zip DETERMINES state"], what holds in every row, for synthetic tables',
    "expected": 'expected = ["several", "dangling"], findings of check --rows that are intended',
    "row_key": 'row_key = "row", if no column distinguishes the rows and each row is one protected entity',
    "relation": 'relation = "schema.table"', "sheet": 'sheet = "2024"', "filter": 'filter = "active"',
    "foreign_keys": 'foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]',
    "rows_per_entity": "rows_per_entity = 10", "rows_per_value": "rows_per_value = { town = 20 }",
    "limits_hold": "limits_hold = true, if no row is beyond rows_per_entity and rows_per_value",
    "grows_by": 'grows_by = "visited_on", a column of type DATE or TIMESTAMP',
    "period": 'period = "month", or "day", "week", "quarter", "year"; or { table = "terms", starts = "first_day" }',
    "starts": 'starts = "first_day", the column of the first days of periods',
    "since": "since = 2024-01-01, a day of the first period",
    "closes": 'closes = "5 days", from "0 days" to "400 days"',
    "arrived": 'arrived = "loaded_at", a column of type DATE or TIMESTAMP, with late = "drop"',
    "rows_per_entity_and_period": "rows_per_entity_and_period = 10",
    "per_period": "per_period = { epsilon = 0.5 }", "per_analyst_and_period": "per_analyst_and_period = { epsilon = 0.1 }",
    "in_any": "in_any = { periods = 12, epsilon = 2.0 }", "per_analyst_in_any": "per_analyst_in_any = { epsilon = 0.5 }",
    "periods": "periods = 12, how many consecutive ones are limited together",
    "columns": "[tables.<name>.columns], followed by a line for each column, such as age = {}",
    "table": 'table = "people"', "key": 'key = "person_id"', "other_columns": 'other_columns = ["a", "b"], without declarations',
    "values": 'values = ["a", "b"]', "values_from": 'values_from = "plans.plan"', "range": "range = [0, 100]",
    "bounds": 'bounds = [0, 100] or bounds = "search"', "bins": "bins = 10, of a range of numbers, or bins = [0, 10, 20, 50]",
    "decimals": "decimals = 2", "power_of_two": "power_of_two = -4", "nullable": "nullable = false", "type": 'type = "BIGINT"',
    "others": "others = false, if no row has another value than those of values, values_from or range",
    "determines": 'determines = ["state"], by = "zips"', "by": 'determines = ["state"], by = "zips"',
    "entity": 'entity = "person"', "epsilon": "epsilon = 1.0", "delta": "delta = 1e-6", "rho": "rho = 0.1",
    "per_analyst": "per_analyst = { epsilon = 0.5 }", "per_statement": "per_statement = { epsilon = 0.1 }",
    "analysts": 'analysts = ["ada", "eve"], the only ones who may ask, or analysts.ada = { epsilon = 0.5 }, a limit of her own',
    "agents": "agents.claude = { per_day = { epsilon = 0.5 }, confirm_above = { epsilon = 0.2 } }",
    "per_day": "per_day = { epsilon = 0.5 }", "confirm_above": "confirm_above = { epsilon = 0.2 }",
    "store": 'store = { memory = "4GB" }', "memory": 'memory = "4GB"', "folder": 'folder = "stores"',
    "prepare": "prepare = false", "snapshots": 'snapshots = "folder"', "minimum_frequency": "minimum_frequency = 10",
    "passwords": '[store.passwords], and below it "postgresql://host/database" = "NAME_OF_A_VARIABLE"',
    "spark": 'spark = { master = "spark://host:7077", store = "hdfs:///dpsql" }',
    "master": 'master = "local[2]", "spark://host:7077" or "sc://host:15002"',
    "incidents": "incidents = 3", "late": 'late = 20 in a budget, or late = "drop" in a table',
    "share_answers": "share_answers = true",
    "csv": 'csv = { delimiter = ";" }', "delimiter": 'delimiter = ";"', "quote": "quote = \"'\"", "escape": 'escape = "\\\\"',
    "header": "header = false", "names": 'names = ["id", "age"], a name for every column of the file', "skip": "skip = 2",
    "comment": 'comment = "#"', "encoding": 'encoding = "latin-1"', "trim": "trim = true", "null": 'null = ["NA", "-"]',
    "case": 'case = "lower"', "aliases": 'aliases = { "Mobil" = "mobile" }', "decimal_mark": 'decimal_mark = ","',
    "format": 'format = "%d-%m-%Y"', "zone": 'zone = "Europe/Berlin"', "like": 'like = "[A-Z]{2}-[0-9]{4}"',
}

_KIND_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "a table",
               dt.date: "a date", dt.datetime: "a date with a time", dt.time: "a time of day"}
SHORT = {"columns": "{}", "analysts": "{ epsilon = 0.5 }",  # parts that are written in one line
         "agents": "{ per_day = { epsilon = 0.5 } }"}


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
        """The value of a key, or None. Fails if a required key is missing, or if the value has the wrong type."""
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
        """Fail if an unknown key is probably a misspelling of a missing one."""
        unknown = [other for other in self._tree if other not in self._known]
        if mistyped := difflib.get_close_matches(key, unknown, n=1, cutoff=0.7):
            self.fail(mistyped[0], "this key is unknown here", code="unknown-key", try_=key)

    def section(self, key: str, *, form: str | None = None) -> Section | None:
        value = self.take(key, dict, form=form)
        return None if value is None else Section(value, (*self.path, key), self._text, self._source)

    def sections(self, key: str, *, required: bool = False, fold: bool = False) -> list[tuple[str, Section]]:
        """The named sub-tables of `key`, such as every [tables.<name>]. Set `fold` if the database ignores the case of the
        names."""
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
                    part.fail(None, f"this is {other} again: databases ignore the case of names", try_=f"only {other}")
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


def locate(text: str, path: tuple[str, ...]) -> Span | None:
    """The position of a key in TOML text: its line, or that of the nearest enclosing header or key, or otherwise that of a key
    below it."""
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
    """A suggestion: the known name that is most similar, or otherwise all of them."""
    return closest(name, known) or "one of " + ", ".join(known)


def closest(name: str, known: Iterable[str]) -> str:
    folded = {other.lower(): other for other in known}
    return next((folded[other] for other in difflib.get_close_matches(name.lower(), folded, n=1)), "")


def _split_key(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted))
