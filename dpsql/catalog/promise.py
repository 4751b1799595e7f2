"""What the charges of a budget promise, as far as the policy decides it: which rows a charge protects together.

A charge bounds what is revealed about one *entity*: the rows of its table with one value of its key, and every row that refers to
them by declared foreign keys. If the policy changes later, the charge still bounds that, and perhaps not what the budget claims
now. So the ledger keeps a `Promise` of each budget, and `changes` compares it with the policy. These changes leave earlier
charges with less than the budget claims, or end what they protected:

  neighbours   Another notion of neighbouring databases: `NEIGHBOURS` names the one of this version.
  entity       Another table or key, or other kinds. Nothing follows from one entity to another, not even from a household to its
               members: a household that lacks one member is another household, so it is two steps away, not one.
  unlinked     A foreign key towards the entity is gone. Rows that were protected with an entity are not any more.
  linked       Rows that could be queried belong to another entity as well now; earlier charges did not count them as its rows.
  key          The key of an entity's table is gone, or wider. Earlier charges assumed that no two rows share the key, so they may
               cost more for an entity whose rows do. A narrower key implies the wider one.
  type         A column that names entities, or leads to them, is read as another type, or in another way: 1 and '01', or 'a' and
               'A ', may be one entity or two.
  format       A file is read in another way: other cells of it may name entities.
  published    Rows that were protected are answered exactly.
  withdrawn    Rows that were answered exactly, at no charge, are private now.
  periods      A table grows by another column of time, one that is read in another way, or other periods; or it did not grow, or
               grows no more. Earlier charges were counted for other rows of an entity than those of one period now, or for all.
  calendar     A first day of the calendar of such periods is gone, moved or inserted. Further ones at its end change nothing.
  unlimited    The limit on what is spent in each period is gone.
  shorter      The limit in any so many consecutive periods is gone, or is about fewer of them. More of them include fewer.

A table whose rows nobody could query under the budget (`CLOSED`) may become anything. Bounds, lists of values, limits of rows,
and what is nullable are enforced on the rows, so a change of these leaves earlier charges valid. So do the first period of a
growing table, when periods are closed, and whether late rows are dropped: they decide what can be asked and when, or which rows
of a period are read, not which period a row belongs to. A table that is added was read by no earlier charge, in no period: one
that has rows of a growing table has to grow alike (`engine.same_rows`).

Claim: under any sequence of policies that the ledger accepts without a change, each charge protects what the newest record says.
Proof: a record is `extended` only. It keeps all tables and the narrowest keys of every policy so far, also of tables that a later
policy leaves out; and each policy was compared with it in the turn in which it was recorded.

Names are compared as DuckDB does, without regard to the case of ASCII letters; in other databases, exactly. A table is recognised
by its name and by the place of its rows, so rows do not become public under another name.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import string
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dpsql.catalog.database_uris import DUCKDB_FILES, file_of, one_place_of, place_of, scheme_of
from dpsql.catalog.file_names import is_copied, is_of_rows
from dpsql.catalog.model import Budget, Policy, TablePolicy
from dpsql.catalog.reading_words import format_in_words, reading_in_words
from dpsql.frozen import Frozen, replace

NEIGHBOURS = "one entity is added or removed"
"""What the claims of this version are about. A version with another notion gives it other words."""

PUBLIC, PROTECTED, CLOSED = "public", "protected", "closed"
"""What a table is under a budget: answered exactly, protected as rows of entities, or private without a way to an entity."""

Link = tuple[str, tuple[tuple[str, str], ...]]  # the table that is referenced, and the columns: ours and those referenced
USUAL_SCHEMAS = "main", "public"  # which a name may leave out
MOST_DAYS = 5  # of a calendar that a message lists
ANY, ONE = "*", "?"  # of a pattern: any letters of a name, or of a path if doubled; and one letter
PARTS = re.compile(r"\*\*/|\*\*|\[[^]]+\]|.", re.DOTALL)
IN_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class PromisedTable(Frozen):
    """What a table is; if it is protected, its key, its foreign keys towards entities, and the columns that name entities or lead
    to them, with how they are read: their declared types ("" for none) and what is done to their cells. `csv` says how its files
    are written, where that is not the usual way. `places` says where its rows are, or were. `grows` says by which periods of
    which column the table grows, and how that column is read; "" if it does not grow. `calendar` has the first days of these
    periods, as `date.toordinal` numbers them: those that were read last, or none if they were not read."""

    state: str
    key: frozenset[str] = frozenset()
    links: frozenset[Link] = frozenset()
    types: frozenset[tuple[str, str]] = frozenset()
    csv: str = ""
    grows: str = ""
    places: frozenset[str] = frozenset()
    calendar: tuple[int, ...] = ()


class Promise(Frozen):
    """The promise that the charges of a budget rest on. `entity` is only a name; `kinds` are the tables and keys of the
    entities, and `delta` says what delta has been used for. `by_period` tells whether what is spent on an entity is also limited
    in each period of the growing tables, and `in_any` in any how many consecutive ones; 0 if it is not."""

    entity: str
    kinds: frozenset[tuple[str, str]]
    tables: Mapping[str, PromisedTable]
    delta: frozenset[str] = frozenset()
    neighbours: str = NEIGHBOURS
    by_period: bool = False
    in_any: int = 0

    @property
    def protected(self) -> str:
        """Which rows are an entity, such as "each person (people.person_id)"."""
        window = f", in any {self.in_any} consecutive periods" if self.in_any else ""
        periods = f", in all{window} and in each period" if self.by_period else ""
        return f"each {self.entity} ({' or '.join(f'{table}.{key}' for table, key in sorted(self.kinds))}){periods}"

    def as_values(self) -> dict[str, Any]:
        """The promise as JSON values, in an order that does not depend on the policy's."""
        tables = {name: {"state": table.state, "key": sorted(table.key), "links": sorted(table.links),
                         "types": sorted(table.types), "csv": table.csv, "places": sorted(table.places),
                         **({"grows": table.grows} if table.grows else {}),
                         **({"calendar": [*table.calendar]} if table.calendar else {})}
                  for name, table in sorted(self.tables.items())}
        return {"neighbours": self.neighbours, "entity": self.entity, "kinds": sorted(self.kinds), "delta": sorted(self.delta),
                "tables": tables, **({"by_period": True} if self.by_period else {}),
                **({"in_any": self.in_any} if self.in_any else {})}

    @classmethod
    def from_values(cls, told: Mapping[str, Any]) -> Promise:
        """The inverse of `as_values`. Raises LookupError, TypeError, ValueError or AttributeError for anything else."""
        tables = {name: PromisedTable(
            state=table["state"], key=frozenset(table["key"]), places=frozenset(table["places"]),
            links=frozenset((target, tuple((ours, theirs) for ours, theirs in columns)) for target, columns in table["links"]),
            types=frozenset((column, kind) for column, kind in table["types"]),
            csv=str(table.get("csv", "")), grows=str(table.get("grows", "")),  # earlier versions had no other format
            calendar=tuple(map(int, table.get("calendar", ()))))
            for name, table in told["tables"].items()}
        return cls(neighbours=told["neighbours"], entity=told["entity"], delta=frozenset(told["delta"]), tables=tables,
                   kinds=frozenset((table, key) for table, key in told["kinds"]), by_period=told.get("by_period") is True,
                   in_any=int(told.get("in_any", 0)))


class Change(Frozen):
    """One difference: its kind (see above), the table that it is about, and both sides in words."""

    kind: str
    table: str = ""
    before: str = ""
    now: str = ""


# -- what a policy promises


def promise_of(policy: Policy, budget: Budget) -> Promise:
    """The promise that a budget of a policy makes."""
    entity = policy.entities[budget.entity]
    of = [policy.entities[kind] for kind in entity.any_of] or [entity]
    kinds = frozenset((_name(one.table), _column(policy.tables[one.table], one.key)) for one in of)
    links = _links(policy, {table for table, _ in kinds})
    naming = {*kinds, *((name, ours) for name, found in links.items() for _, columns in found for ours, _ in columns),
              *((target, theirs) for found in links.values() for target, columns in found for _, theirs in columns)}
    tables = {name: _promised(policy, table, links.get(name), naming) for table in policy.tables.values()
              for name in [_name(table.name)]}
    total = budget.total
    use = "nothing" if not total.delta else "finding groups" if total.rho is not None else "all that is released"
    return Promise(entity=entity.name, kinds=kinds, tables=tables, delta=frozenset({use}),
                   by_period=budget.per_period is not None, in_any=budget.in_any_periods)


def _promised(policy: Policy, table: TablePolicy, links: frozenset[Link] | None,
              naming: set[tuple[str, str]]) -> PromisedTable:
    places = _places(policy, table)
    if table.public or links is None:
        return PromisedTable(state=PUBLIC if table.public else CLOSED, places=places)
    types = {(_column(table, column.name), reading_in_words(column.reading)) for column in table.columns.values()
             if (_name(table.name), _column(table, column.name)) in naming}
    return PromisedTable(state=PROTECTED, key=frozenset(_column(table, column) for column in table.key), links=links,
                         types=frozenset(types), csv="" if table.csv is None else format_in_words(table.csv),
                         grows=_growth(table), places=places,
                         calendar=() if table.growth is None or table.growth.calendar is None else table.growth.calendar.days)


def _growth(table: TablePolicy) -> str:
    """How a table grows, in words, such as "month of day": how the column is read decides, too, to which period a row belongs."""
    if table.growth is None:
        return ""
    read = reading_in_words(table.columns[table.growth.column].reading)
    calendar = table.growth.calendar
    period: str = table.growth.period
    if calendar is not None:
        period = f"period from {_name(calendar.table)}.{calendar.starts.translate(IN_ASCII)}"
    return f"{period} of {_column(table, table.growth.column)}{f' ({read})' if read else ''}"


def _links(policy: Policy, owned: set[str]) -> dict[str, frozenset[Link]]:
    """The protected tables, each with its foreign keys that lead to a row of an entity, directly or by others."""
    private = {_name(table.name): table for table in policy.tables.values() if not table.public}
    found: dict[str, frozenset[Link]] = {}
    while True:
        for name, table in private.items():
            links = frozenset((_name(key.table), tuple(sorted(
                (_column(table, ours), _column(policy.tables[key.table], theirs))
                for ours, theirs in zip(key.columns, key.references, strict=True))))
                for key in table.foreign_keys if _name(key.table) in owned)
            if links or name in owned:
                found[name] = links
        if found.keys() <= owned:
            return found
        owned = owned | found.keys()


def _name(table: str) -> str:
    return table.translate(IN_ASCII)


def _column(table: TablePolicy, name: str) -> str:
    return name if _is_elsewhere(table) else name.translate(IN_ASCII)


def _is_elsewhere(table: TablePolicy) -> bool:
    """Whether a table is in a database of another kind, where the case of names may matter."""
    return table.in_spark or scheme_of(table.source or "") is not None


def _places(policy: Policy, table: TablePolicy) -> frozenset[str]:
    """Where the rows of a table are, seen from the folder of the policy: the file or database, and the name there if it has
    several tables. For a database of another kind also in the one spelling that all its URIs and names have in common."""
    source, relation = table.source or policy.database or "", table.relation or (table.name,)
    if table.in_spark:
        return frozenset({source.rstrip("/")})
    relation = (*(part for part in relation[:-1] if part.lower() not in USUAL_SCHEMAS), relation[-1])
    name = ".".join(relation)
    if (file := file_of(source)) is not None:
        return frozenset({f"{place_of(source)} {name}", f"sqlite:///{_seen_from(policy, str(file))} {_name(name)}"})
    if scheme_of(source) is not None:
        return frozenset({f"{place_of(source)} {name}", f"{one_place_of(source)} {name}"})
    return frozenset({_place_of_file(policy, table, source, relation)})


def _seen_from(policy: Policy, file: str) -> str:
    folder = os.path.realpath(Path(policy.path).parent)
    return os.path.relpath(os.path.realpath(os.path.join(folder, file)), folder)


def _place_of_file(policy: Policy, table: TablePolicy, source: str, relation: tuple[str, ...]) -> str:
    file = _seen_from(policy, source) if source else ""
    if is_copied(source):  # a sheet is below its workbook, as files are below a folder
        return file if table.sheet is None else f"{file}/{table.sheet}"
    if is_of_rows(source) or (table.source is not None and not source.lower().endswith(DUCKDB_FILES)):
        return file
    return f"{file} {'.'.join(map(_name, relation))}"


# -- comparison


def changes(record: Promise, now: Promise, *, of_another: bool = False) -> list[Change]:
    """The differences between the policy `now` and the record of earlier charges that break the earlier promise. If the record
    belongs to another budget, only what is public is compared."""
    found = []
    if record.neighbours != now.neighbours:
        found.append(Change(kind="neighbours", before=record.neighbours, now=now.neighbours))
    same_entity = record.kinds == now.kinds and not of_another
    if record.kinds != now.kinds and not of_another:
        found.append(Change(kind="entity", before=record.protected, now=now.protected))
    if record.by_period and not now.by_period and not of_another:
        found.append(Change(kind="unlimited"))
    if record.in_any > now.in_any and not of_another:
        found.append(Change(kind="shorter", before=str(record.in_any), now=str(now.in_any or "")))
    for name, table in now.tables.items():
        for old_name, old in _earlier(record, now, name):
            public = old.state == PUBLIC, table.state == PUBLIC
            if public == (True, False):
                found.append(Change(kind="withdrawn", table=name))
            elif public == (False, True) and old.state == PROTECTED:
                found.append(Change(kind="published", table=name))
            elif same_entity and old.state == PROTECTED and (
                    old_name == name or old_name not in now.tables or not old.places & now.tables[old_name].places):
                found += _in_table(name, old, table)
    return list(dict.fromkeys(found))


def _earlier(record: Promise, now: Promise, name: str) -> Iterator[tuple[str, PromisedTable]]:
    """The tables of a record with the name of a table, or with rows that it did not have yet."""
    own, table = record.tables.get(name), now.tables[name]
    if own is not None:
        yield name, own
    fresh = table.places - (own.places if own is not None else frozenset())
    for other, old in record.tables.items():
        if other != name and any(_may_overlap(one, place) for one in fresh for place in old.places):
            yield other, old


def promised_table(promise: Promise, name: str) -> PromisedTable:
    """What a promise says of a table of the policy that makes it."""
    return promise.tables[_name(name)]


def may_share_rows(one: TablePolicy, other: TablePolicy, policy: Policy) -> bool:
    """Whether two tables that are in Spark, or are copied from other databases or files of other programs, may have rows in
    common by the places where these are."""
    elsewhere = [table for table in (one, other) if _is_elsewhere(table) or is_copied(table.source)]
    return len(elsewhere) == 2 and any(_may_overlap(here, there) for here in _places(policy, one)
                                       for there in _places(policy, other))


def left_out(record: Promise, policy: Policy) -> dict[str, PromisedTable]:
    """The tables that a promise protects but the policy no longer mentions."""
    mentioned = {*map(_name, policy.tables)}
    return {name: table for name, table in record.tables.items() if table.state == PROTECTED and name not in mentioned}


def may_be_in(table: PromisedTable, policy: Policy, names: frozenset[str], source: str | None = None) -> bool:
    """Whether a table may be one of these `names` in a database: the one with the URI `source`, or the policy's own, where names
    are in lower case. A dot may separate the schema from the name, or be part of the name; a policy may omit the schema."""
    spelled = {tuple(each) for name in names for each in ([name], name.split(".")[-1:], name.split("."))}
    places = {place for each in spelled for place in _places(policy, TablePolicy(name=each[-1], source=source, relation=each))}
    return any(_may_overlap(here, place) for here in places for place in table.places)


def _may_overlap(one: str, other: str) -> bool:
    """Whether two places may have files in common: equal, below each other, fitting a pattern, or patterns that a name may fit;
    or the same table of a file and of one that the policy did not name."""
    return any(place == pattern or place.startswith(f"{pattern}/") or fnmatchcase(place, pattern.replace("**/", "*"))
               or (pattern.startswith(" ") and place.endswith(pattern) and scheme_of(place) is None)
               for place, pattern in ((one, other), (other, one))) or _may_both_fit(_parts(one), _parts(other))


def _parts(pattern: str) -> list[str]:
    """The letters of a pattern and what stands for others; a set stands for any letter."""
    return [f"{ANY}{ANY}" if part == f"{ANY}{ANY}/" else ONE if part.startswith("[") else part for part in PARTS.findall(pattern)]


def _may_both_fit(one: list[str], other: list[str]) -> bool:
    """Whether there is a name that fits two patterns: a path through both, each step of which is a letter that fits, or none."""
    seen, todo = {(0, 0)}, [(0, 0)]
    while todo:
        i, j = todo.pop()
        ours, theirs = "".join(one[i:i + 1]), "".join(other[j:j + 1])
        steps = [(i + 1, j)] * ours.startswith(ANY) + [(i, j + 1)] * theirs.startswith(ANY)
        steps += [(i, j + 1)] * _stands_for(ours, theirs) + [(i + 1, j)] * _stands_for(theirs, ours)
        alike = bool(ours and theirs) and (ours == theirs or (ONE in (ours, theirs) and "/" not in (ours, theirs)))
        steps += [(i + 1, j + 1)] * alike
        todo += set(steps) - seen
        seen |= {*steps}
    return (len(one), len(other)) in seen


def _stands_for(stars: str, letter: str) -> bool:
    return stars.startswith(ANY) and bool(letter) and not letter.startswith(ANY) and (letter != "/" or stars != ANY)


def _in_table(name: str, old: PromisedTable, table: PromisedTable) -> Iterator[Change]:
    for kind, links in (("unlinked", old.links - table.links), ("linked", table.links - old.links)):
        for link in sorted(links):
            yield Change(kind=kind, table=name, now=in_words(name, link))
    if table.state != PROTECTED:
        return
    if old.key and not (table.key and table.key <= old.key):
        yield Change(kind="key", table=name, before=", ".join(sorted(old.key)), now=", ".join(sorted(table.key)))
    if old.csv != table.csv:
        yield Change(kind="format", table=name, before=old.csv, now=table.csv)
    if old.grows != table.grows:
        yield Change(kind="periods", table=name, before=old.grows, now=table.grows)
    elif not _continues(old.calendar, table.calendar) and not _continues(table.calendar, old.calendar):
        yield Change(kind="calendar", table=name, before=_days_apart(old.calendar, table.calendar),
                     now=_days_apart(table.calendar, old.calendar))
    before, now = dict(old.types), dict(table.types)
    for column in sorted(before.keys() & now.keys()):
        if before[column] != now[column]:
            yield Change(kind="type", table=name, before=_typed(column, before[column]), now=_typed(column, now[column]))


def _continues(days: tuple[int, ...], longer: tuple[int, ...]) -> bool:
    """Whether a calendar is the other one with further first days, or is unknown."""
    return longer[:len(days)] == days


def _days_apart(days: tuple[int, ...], others: tuple[int, ...]) -> str:
    """The first days of a calendar that another one has not, the first few of them."""
    found = [dt.date.fromordinal(day).isoformat() for day in days if day not in others]
    return ", ".join(found[:MOST_DAYS]) + (f" and {len(found) - MOST_DAYS} more" if len(found) > MOST_DAYS else "")


def _typed(column: str, kind: str) -> str:
    return f"{column} ({kind or 'of the type it has there'})"


def in_words(name: str, link: Link) -> str:
    """A foreign key, as in "visits(person_id) to people(person_id)"."""
    target, columns = link
    return f"{name}({', '.join(ours for ours, _ in columns)}) to {target}({', '.join(theirs for _, theirs in columns)})"


def extended(record: Promise, now: Promise) -> Promise:
    """The record with the policy's additions; equal to the record if there are none."""
    return replace(record, tables={**record.tables, **{name: _merged(record.tables.get(name), table)
                                                       for name, table in now.tables.items()}}, delta=record.delta | now.delta,
                   by_period=record.by_period or now.by_period, in_any=max(record.in_any, now.in_any))


def replaced(record: Promise, now: Promise, *, of_another: bool = False) -> Promise:
    """The record after the owner has accepted all changes. Tables that the policy leaves out stay as recorded. In the record of
    another budget, only what is public changes."""
    if not of_another:
        return replace(extended(record, now), kinds=now.kinds, entity=now.entity, neighbours=now.neighbours,
                       by_period=now.by_period, in_any=now.in_any)
    changed = {change.table for change in changes(record, now, of_another=True)} & now.tables.keys()
    return replace(record, neighbours=now.neighbours, tables={
        **record.tables, **{name: _merged(record.tables.get(name), now.tables[name]) for name in changed}})


def _merged(old: PromisedTable | None, table: PromisedTable) -> PromisedTable:
    if old is None:
        return table
    calendar = old.calendar if _continues(table.calendar, old.calendar) and old.grows == table.grows else table.calendar
    return replace(table, calendar=calendar, places=table.places | old.places,
                   types=frozenset((dict(old.types) | dict(table.types)).items()))
