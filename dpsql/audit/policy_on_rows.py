"""`dpsql check --rows`: what a policy does to the private rows, counted exactly, for the owner alone.

Everything here is private: exact counts and values of confidential tables, without noise, charge or record. It is shown on the
screen of someone who may read the files anyway, and stored nowhere but on a page that the owner asks for. So it has an entrance
of its own: it opens the files itself, has neither kernel nor ledger, and writes nothing to the folder of state. No statement can
reach it: `dbapi` and `audit` do not import each other, and `engine`, which answers statements, imports nothing from here (by the
contracts in `pyproject.toml`).

Keys are not enforced while it reads, so that rows that violate them are counted, where a connection would refuse the file.

A policy is public. Changing it because of these counts reveals something about the rows, and no budget covers that: correcting
slips is fine, and limits should be coarse and round; a bound at the largest value would publish that value.
"""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpsql.audit.growth_on_rows import GrowthOnRows, growth_on_rows
from dpsql.audit.rules_on_rows import RuleOnRows, rules_on_rows
from dpsql.backends.csv_counts import FileOnRows, copy_on_rows, file_on_rows
from dpsql.catalog.days import KEPT_BY_ENDS
from dpsql.catalog.file_names import is_copied
from dpsql.catalog.growing import today
from dpsql.catalog.model import Budget, Catalog, ColumnPolicy, Entity, Policy, TablePolicy
from dpsql.catalog.schema import fit
from dpsql.engine.opening import file_table, open_reader, public_values, sources_of
from dpsql.engine.opening_spark import private_in_spark
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, asdict, field, replace
from dpsql.trusted.declarations.tables import Column, ForeignKey, Scalar, Table, TableSchema
from dpsql.trusted.plan.expr.printing import literal, quote
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.reader import Reader, ReaderFault
from dpsql.types import Type

MUCH = 0.01  # of the rows: a bias worth reporting
FEW = 20  # values of an entity's key: fewer hide nobody well
WIDE, FAR = 100, 10  # times what 99 % of the values need, and what any entity has: bounds and limits beyond are reported
SHOWN, COMPARED = 5, 1000  # number of values that are named, and that are compared in spelling
NEWEST = 24  # number of periods that are shown one by one
ALIKE = 0.8  # similarity of two words that may be meant as one


class KeyOnRows(Frozen):
    """A key or a foreign key, with numbers of rows: `nulls` where it is NULL, `broken` where it repeats another row's key, or
    references no row."""

    table: str
    key: str
    rows: int
    nulls: int
    broken: int


class EntitiesOnRows(Frozen):
    """The owners of a table's rows. `nobodys` rows have no owner; `half`, `most90`, `most99` and `most` are the median, the 90th
    and 99th percentiles and the maximum of the number of rows of an entity; `beyond` rows are left out by the declared limit."""

    table: str
    entity: str
    rows: int
    nobodys: int
    entities: int
    half: int
    most90: int
    most99: int
    most: int
    limit: int | None
    beyond: int


class ColumnOnRows(Frozen):
    """The comparison of a column with its declaration: `outside` of the rows without NULL have an undeclared value; `others`
    names some of these with their numbers of rows, and `unused` the declared values that no row has. `middle` contains 98 % of
    numbers."""

    table: str
    column: str
    declared: str
    rows: int
    nulls: int
    outside: int
    unused: tuple[str, ...] = ()
    others: tuple[tuple[str, int], ...] = ()
    middle: tuple[float, float] | None = None


class CountedTable(Frozen):
    """Findings of one kind as texts, with a title; numbers are in the columns of the places `numbers`."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def numbers(self) -> list[int]:
        return [i for i in range(len(self.heads)) if all(row[i].replace(",", "").isdigit() for row in self.rows)]


class PolicyOnRows(Frozen):
    """All findings. `errors` can never be intended: lost lines, tables without rows, and
    limits that are said to hold and do not. `suspicions` are what the owner may not have meant; there are none if the policy
    suits the rows. `expected` are those that the policy says to be meant, and `words` are those by which it could say so of a
    suspicion."""

    keys: tuple[KeyOnRows, ...]
    entities: tuple[EntitiesOnRows, ...]
    columns: tuple[ColumnOnRows, ...]
    errors: tuple[str, ...]
    suspicions: tuple[str, ...]
    expected: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    files: tuple[FileOnRows, ...] = ()
    rules: tuple[RuleOnRows, ...] = ()
    growth: tuple[GrowthOnRows, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def tables(self) -> list[CountedTable]:
        """The findings as they are shown; empty kinds are left out."""
        keys = _counted("Keys", "table, key, rows, NULL, repeated or dangling", (
            (key.table, key.key, key.rows, _part(key.nulls, key.rows), _part(key.broken, key.rows)) for key in self.keys))
        owned = _counted("Rows of each entity", "table, entity, rows, of nobody, entities, rows of each: 50 %, 90 %, 99 %, most, "
                         "limit, beyond it", (
            (one.table, one.entity, one.rows, _part(one.nobodys, one.rows), one.entities, one.half, one.most90, one.most99,
             one.most, *(("none", "") if one.limit is None else (one.limit, _part(one.beyond, one.rows))))
            for one in self.entities))
        columns = _counted("Columns", "column, declared, NULL, outside, unused, 98 % lie in", (
            (f"{one.table}.{one.column}", one.declared, _part(one.nulls, one.rows), _part(one.outside, one.rows - one.nulls),
             f"{len(one.unused):,} of them: {', '.join(one.unused[:3])}" if one.unused else "",
             "" if one.middle is None else f"{one.middle[0]:.6g} .. {one.middle[1]:.6g}") for one in self.columns))
        rules = _counted("Rules", "table, rule, rows, broken by", (
            (one.table, one.rule, one.rows, one.fault or _part(one.broken, one.rows)) for one in self.rules))
        cells = _counted("Cells that are not read", "file, column, type, cells, NULL by another word, such as", (
            (file.name, one.column, one.type, _part(one.cells, file.rows), one.missing, ", ".join(map(_shown, one.examples)))
            for file in self.files for one in file.cells))
        growing = _counted("Growing tables", "table, entity, by, closed periods, NULL, before the first, not closed, most of "
                           "one, limit, beyond it", (
            (one.table, one.entity, f"{one.period} of {one.column}", len(one.periods), _part(one.nulls, one.rows),
             _part(one.early, one.rows), one.open, one.most,
             *(("none", "") if one.limit is None else (one.limit, _part(one.beyond, one.rows)))) for one in self.growth))
        periods = _counted("Rows in each period", "table, period, rows, late", (
            (name, *row) for name, found in {one.table: one for one in self.growth}.items() for row in _newest(found)))
        return [table for table in (keys, owned, columns, rules, growing, periods, cells) if table.rows]

    @property
    def is_fine(self) -> bool:
        return not (self.errors or self.suspicions)


def _counted(title: str, heads: str, rows: Iterable[Sequence[object]]) -> CountedTable:
    return CountedTable(title=title, heads=tuple(heads.split(", ")), rows=tuple(
        tuple(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows))


def _newest(found: GrowthOnRows) -> Iterator[tuple[str, int, int | str]]:
    """The newest periods with their rows and late rows, after the sum of all others."""
    earlier, late = found.periods[:-NEWEST], found.late
    if earlier:
        yield f"{earlier[0][0]} to {earlier[-1][0]}", sum(rows for _, rows in earlier), sum(late[:-NEWEST]) if late else ""
    for i, (name, rows) in list(enumerate(found.periods))[-NEWEST:]:
        yield name, rows, late[i] if late else ""


def _shown(example: str) -> str:
    return repr(example[:40])


def _part(some: int, whole: int) -> str:
    return f"{some:,} ({share(some, whole)})" if some else "0"


def policy_on_rows(policy: Policy, budgets: Sequence[Budget], database: str | Path | None) -> PolicyOnRows:
    """Compare the policy with all rows, for the entities of these budgets. Raises PolicyError and OperationalError as a
    connection would."""
    if private_in_spark(policy):
        raise OperationalError("rows in Spark cannot be counted here", code="spark",
                               try_="check without --rows, and a query in Spark")
    without = {name: replace(table, key=()) for name, table in policy.tables.items()}
    reader = open_reader(replace(policy, tables=without), database)
    try:
        return _Count(policy, budgets, reader).all(_of_files(policy, database))
    except ReaderFault:
        raise OperationalError("the rows could not be read", code="no-database") from None
    finally:
        reader.close()


def _of_files(policy: Policy, database: str | Path | None) -> list[tuple[str, FileOnRows]]:
    """What is not read of the files of private tables whose cells have to be read as another type, by table."""
    sources = {} if database is not None else sources_of(policy)
    tables = [file_table(policy.tables[name], files) for name, files in sources.items() if not policy.tables[name].public]
    found = []
    for table in (table for table in tables if table.source.reader == "read_csv"):
        for path in table.source.paths:
            with contextlib.suppress(OSError, ValueError, csv.Error, duckdb.Error):
                found.append((table.name, file_on_rows(path, table.csv, table.cells)))
    for table in (table for table in tables if is_copied(policy.tables[table.name].source)):
        source, copy = Path(policy.tables[table.name].source or ""), table.source.paths[0]
        with contextlib.suppress(duckdb.Error):
            found.append((table.name, copy_on_rows(source, copy, table.cells)))
    return found


def _slips(file: FileOnRows) -> Iterator[tuple[str, str]]:
    """What is not read of a file: the word that declares it as expected, and a description. Cells with a usual word for a
    missing value, such as NA, are not mentioned: they mean NULL."""
    if file.short or file.long:
        yield "lines", (f"{file.name}: {file.short:,} lines have fewer cells than there are columns, and NULL in the "
                        f"others; {file.long:,} have more, which are left out")
    for column in (column for column in file.cells if column.cells > column.missing):
        shown = f"({share(column.cells, file.rows)}): {', '.join(map(_shown, column.examples))}"
        yield "unread", (f"{file.name}: {column.cells:,} cells of {column.column} " + (
            f"contain bytes that are not text {shown}; another encoding may be right" if column.type == "VARCHAR" else
            f"are no {column.type} and count as NULL {shown}; declare null, format or another type"))


class _Count:
    """One pass over all private tables."""

    def __init__(self, policy: Policy, budgets: Sequence[Budget], reader: Reader) -> None:
        self._policy, self._reader = policy, reader
        schema = _trusting(policy, reader.schema())
        by_entity = {budget.entity: budget.name for budget in budgets}
        self._catalogs: list[Catalog] = [
            fit(policy, name, schema, public_values(reader)) for name in by_entity.values()]
        self._private = {name: table for name, table in policy.tables.items() if not table.public}
        self._suspicions: list[str] = []
        self._errors: list[str] = []
        self._expected: list[str] = []
        self._words: dict[str, str] = {}

    def all(self, files: Sequence[tuple[str, FileOnRows]] = ()) -> PolicyOnRows:
        self._errors += [f"{file.name}: {file.lines:,} lines are read as {file.rows:,} rows" for _, file in files
                         if file.lines != file.rows]
        for name, file in files:
            for word, text in _slips(file):
                self._suspect(name, word, text)
        rows = {name: self._one(f"SELECT COUNT(*) FROM {quote(name)}")[0] for name in self._private}
        self._errors += [f"{name} has no rows" for name, number in rows.items() if not number]
        keys = [found for name, table in self._private.items() for found in self._keys(table, rows[name])]
        for name, declared in self._private.items():
            self._limited(declared, rows[name])
        entities = [self._owned(table, catalog.entity, rows[name]) for catalog in self._catalogs
                    for name, table in catalog.tables.items() if not table.public]
        for table, reason in self._catalogs[0].outside.items():
            if all(table in catalog.outside for catalog in self._catalogs):
                self._suspect(table, "", f"{table} cannot be queried: {reason}")
        for entity in dict.fromkeys(kind for catalog in self._catalogs for kind in self._kinds(catalog.entity)):
            self._entity(entity)
        fitted = {name: table for catalog in self._catalogs for name, table in catalog.tables.items() if not table.public}
        columns = [found for table in fitted.values() for column in table.columns.values()
                   if (found := self._column(table, column)) is not None]
        rules = [found for name, table in fitted.items() for found in self._rules(table, rows[name])]
        growth = [grown for catalog in self._catalogs for table in catalog.tables.values()
                  if (grown := self._growth(table, catalog.entity)) is not None]
        return PolicyOnRows(keys=tuple(keys), entities=tuple(entities), columns=tuple(columns), errors=tuple(self._errors),
                            suspicions=tuple(dict.fromkeys(self._suspicions)), expected=tuple(dict.fromkeys(self._expected)),
                            words={what: word for what, word in self._words.items() if word},
                            files=tuple(file for _, file in files), rules=tuple(rules), growth=tuple(growth))

    def _suspect(self, table: str, word: str, what: str) -> None:
        """Report only what the policy does not declare as expected. `word` is the word for it in a policy; "" if there is
        none."""
        if word in self._policy.tables[table].expected:
            self._expected.append(what)
        else:
            self._suspicions.append(what)
            self._words[what] = word

    def _one(self, sql: str) -> tuple[Any, ...]:
        return self._reader.rows(sql)[0]

    # -- keys

    def _keys(self, table: TablePolicy, rows: int) -> Iterator[KeyOnRows]:
        referenced = [key.references for other in self._policy.tables.values() for key in other.foreign_keys
                      if key.table == table.name]
        for key in dict.fromkeys([*([table.key] if table.key else []), *referenced]):
            yield self._unique(table, key, rows)
        for foreign in table.foreign_keys:
            try:
                yield self._foreign(table, foreign, rows)
            except ReaderFault:
                self._suspect(table.name, "", f"{table.name}({', '.join(foreign.columns)}) cannot be compared with what it "
                              f"references in {foreign.table}")

    def _unique(self, table: TablePolicy, key: Sequence[str], rows: int) -> KeyOnRows:
        names = ", ".join(map(quote, key))
        nulls, = self._one(f"SELECT COUNT(*) FROM {quote(table.name)} WHERE {_any_null(key)}")
        repeated, = self._one("SELECT CAST(COALESCE(SUM(n - 1), 0) AS BIGINT) FROM (SELECT COUNT(*) AS n "
                              f"FROM {quote(table.name)} WHERE NOT ({_any_null(key)}) GROUP BY {names}) AS t")
        told = f"{table.name}({', '.join(key)})"
        if repeated:
            self._suspect(table.name, "repeated", f"{told} is declared as a key, and {_told(repeated, rows)} repeat it: a "
                          "connection refuses such a file")
        if nulls:
            self._suspect(table.name, "nulls", f"{told} is declared as a key, and is NULL in {_told(nulls, rows)}: they are not "
                          "read")
        return KeyOnRows(table=table.name, key=f"key {', '.join(key)}", rows=rows, nulls=nulls, broken=repeated)

    def _foreign(self, table: TablePolicy, key: ForeignKey, rows: int) -> KeyOnRows:
        meets = " AND ".join(f"p.{quote(parent)} = c.{quote(child)}" for child, parent in zip(
            key.columns, key.references, strict=True))
        nulls, = self._one(f"SELECT COUNT(*) FROM {quote(table.name)} WHERE {_any_null(key.columns)}")
        dangling, = self._one(f"SELECT COUNT(*) FROM {quote(table.name)} AS c WHERE NOT ({_any_null(key.columns, 'c.')}) AND NOT "
                              f"EXISTS (SELECT 1 FROM {quote(key.table)} AS p WHERE {meets})")
        told = f"{table.name}({', '.join(key.columns)})"
        if dangling:
            self._suspect(table.name, "dangling", f"{told} references no row of {key.table} in {_told(dangling, rows)}")
        if _much(nulls, rows):
            self._suspect(table.name, "nulls", f"{told} is NULL in {_told(nulls, rows)}, which therefore belong to no entity")
        return KeyOnRows(table=table.name, key=f"{', '.join(key.columns)} -> {key.table}", rows=rows, nulls=nulls,
                         broken=dangling)

    # -- entities

    def _kinds(self, entity: Entity) -> list[Entity]:
        return [self._policy.entities[kind] for kind in entity.any_of] or [entity]

    def _entity(self, entity: Entity) -> None:
        """Check that the key of an entity identifies one: a column with repeated values, or with few values, does not."""
        key, table = quote(entity.key), quote(entity.table)
        rows, values = self._one(f"SELECT COUNT({key}), COUNT(DISTINCT {key}) FROM {table}")
        told = f"{entity.table}.{entity.key}, the key of {entity.name},"
        if values < rows and not entity.several:
            self._suspect(entity.table, "several", f"{told} is not one row per entity: {rows:,} rows have {values:,} values, and "
                          f"all rows of one are one {entity.name}")
        if 0 < values < FEW:
            self._suspect(entity.table, "few", f"{told} has {values} values: too few to protect anybody")

    def _owned(self, table: Table, entity: Entity, rows: int) -> EntitiesOnRows:
        owners = tuple(f"o{i}" for i in range(len(table.owners)))
        scan = Scan(table=table, columns=(), owners=owners).render((), Printing())
        read, = self._one(f"SELECT COUNT(*) FROM ({scan}) AS t")
        each = ", ".join(map(quote, owners))
        named = f"SELECT unnest(list_distinct([{each}])) AS o FROM ({scan}) AS t"
        limit = table.rows if self._policy.tables[table.name].rows_per_entity else None
        entities, half, most90, most99, most, beyond = self._one(
            "SELECT COUNT(*), " + ", ".join(f"COALESCE(quantile_disc(n, {part}), 0)" for part in (0.5, 0.9, 0.99))
            + f", COALESCE(MAX(n), 0), CAST(COALESCE(SUM(GREATEST(n - {limit if limit is not None else 'n'}, 0)), 0) AS BIGINT) "
            f"FROM (SELECT COUNT(*) AS n FROM ({named}) AS named GROUP BY o) AS t")
        found = EntitiesOnRows(table=table.name, entity=entity.name, rows=rows, nobodys=max(0, rows - read), entities=entities,
                               half=half, most90=most90, most99=most99, most=most, limit=limit, beyond=beyond)
        if _much(found.nobodys, found.rows):
            self._suspect(found.table, "nobody", f"{_told(found.nobodys, found.rows)} of {found.table} have no owner, and are "
                          "not read")
        self._suspect_limit(found, f"rows_per_entity = {limit} of {table.name}", f"99 % of entities have {found.most99} at most")
        return found

    def _suspect_limit(self, found: EntitiesOnRows | GrowthOnRows, limit: str, usual: str) -> None:
        if found.beyond and self._policy.tables[found.table].limits_hold:
            self._errors.append(f"{limit} does not hold, as limits_hold says: {_told(found.beyond, found.rows)} are beyond it, "
                                "so intervals are too narrow")
        elif _much(found.beyond, found.rows):
            self._suspect(found.table, "limit", f"{limit} leaves out {_told(found.beyond, found.rows)}; {usual}")
        if found.limit is not None and found.most and found.limit > FAR * found.most:
            self._suspect(found.table, "limit", f"{limit} is more than {FAR} times the largest number of rows of any "
                          f"{found.entity}, {found.most}: noise grows with the limit")

    def _limited(self, table: TablePolicy, rows: int) -> None:
        """Report where rows are beyond a limit per value that is said to hold."""
        for column, most in table.rows_per_value.items() if table.limits_hold else ():
            beyond, = self._one(f"SELECT CAST(COALESCE(SUM(GREATEST(n - {most}, 0)), 0) AS BIGINT) FROM (SELECT COUNT(*) AS n "
                                f"FROM {quote(table.name)} GROUP BY {quote(column)}) AS t")
            if beyond:
                self._errors.append(f"rows_per_value = {{ {column} = {most} }} of {table.name} does not hold, as limits_hold "
                                    f"says: {_told(beyond, rows)} are beyond it, so intervals are too narrow")

    # -- periods

    def _growth(self, table: Table, entity: Entity) -> GrowthOnRows | None:
        """The rows of a table by periods; None if it does not grow."""
        if table.growth is None:
            return None
        found = growth_on_rows(table, table.growth, entity.name, self._reader, today())
        told = f"{table.name}.{found.column}"
        if _much(found.nulls, found.rows):
            self._suspect(table.name, "nulls", f"{told} is NULL in {_told(found.nulls, found.rows)}, which belong to no period, "
                          "and are not read")
        if _much(found.early, found.rows):
            self._suspect(table.name, "outside", f"{told}: {_told(found.early, found.rows)} lie before the first {found.period}, "
                          f"that of since = {self._since(table.name)}, and are not read")
        if found.rows and not found.periods:
            self._suspect(table.name, "", f"no {found.period} of {table.name} is closed yet, so its rows cannot be queried")
        if _much(late := sum(found.late), found.rows):
            self._suspect(table.name, "outside", f"{_told(late, found.rows)} of {table.name} arrived when their {found.period} "
                          "was closed, or at no known time, and are not read")
        self._suspect_limit(found, f"rows_per_entity_and_period = {found.limit} of {table.name}",
                            f"an entity has up to {found.most} in one {found.period}")
        return found

    def _since(self, name: str) -> object:
        growth = self._policy.tables[name].growth
        return None if growth is None else growth.since

    # -- rules

    def _rules(self, table: Table, rows: int) -> Iterator[RuleOnRows]:
        catalog = next(catalog for catalog in self._catalogs if table.name in catalog.tables)
        for found in rules_on_rows(table, catalog, self._reader, rows):
            if found.fault:
                self._errors.append(f"rule {found.rule!r} of {table.name}: {found.fault}")
            elif found.broken:
                self._suspect(table.name, "rules", f"rule {found.rule!r} of {table.name} does not hold in "
                              f"{_told(found.broken, rows)}, so rows like these are never in a synthetic table")
            yield found

    # -- columns

    def _column(self, table: Table, column: Column) -> ColumnOnRows | None:
        """A column compared with its declaration; None if nothing is declared of its values."""
        declared = self._policy.tables[table.name].columns[column.name]
        everybodys = replace(table, public=True, owners=())
        source = f"({Scan(table=everybodys, columns=(('v', column.name),)).render((), Printing())}) AS t"
        there = 't."v" IS NOT NULL' + (' AND NOT isnan(t."v")' if column.type is Type.DOUBLE else "")
        inside = _inside(declared, column)
        if inside is None and declared.nullable:
            return None
        rows, values, good = self._one(f"SELECT COUNT(*), COUNT(*) FILTER (WHERE {there}), COUNT(*) FILTER (WHERE {there} AND "
                                       f"{inside or 'TRUE'}) FROM {source}")
        found = ColumnOnRows(table=table.name, column=column.name, declared=_declared(declared), rows=rows, nulls=rows - values,
                             outside=values - good)
        if inside is not None:
            found = self._compared(found, declared, column, f"{source} WHERE {there} AND", inside)
        self._suspect_column(found, declared)
        return found

    def _compared(self, found: ColumnOnRows, declared: ColumnPolicy, column: Column, source: str, inside: str) -> ColumnOnRows:
        """The same with the values that are not declared or not used, and the range of most numbers."""
        unused: list[str] = []
        others: list[tuple[str, int]] = []
        if column.domain is not None:
            used = {row[0] for row in self._reader.rows(f'SELECT DISTINCT t."v" FROM {source} {inside}')}
            if not isinstance(column.domain.values, KEPT_BY_ENDS):  # most values of such are unused
                unused = [str(value) for value in column.domain.values if value not in used]
            others = [(str(value), number) for value, number in self._reader.rows(
                f'SELECT CAST(t."v" AS VARCHAR), COUNT(*) FROM {source} NOT ({inside}) GROUP BY t."v" '
                f'ORDER BY COUNT(*) DESC, t."v" LIMIT {COMPARED}')]
            if column.type is Type.VARCHAR:
                self._suspect_spelling(found, unused, dict(others))
        middle = None
        if column.type.numeric and found.rows > found.nulls:
            low, high, size = self._one('SELECT quantile_disc(x, 0.01), quantile_disc(x, 0.99), quantile_disc(ABS(x), 0.99) FROM '
                                        f'(SELECT CAST(t."v" AS DOUBLE) AS x FROM {source} TRUE) AS n')
            middle = (low, high) if math.isfinite(high - low) else None
            if declared.bounds is not None and 0 < WIDE * size < column.declared.largest:
                self._suspect(found.table, "wide", f"{found.table}.{found.column}: {found.declared} is more than {WIDE} times as "
                              f"wide as 99 % of the values need, at most {size:g}: noise grows with it")
        return replace(found, unused=tuple(unused), others=tuple(others[:SHOWN]), middle=middle)

    def _suspect_column(self, found: ColumnOnRows, declared: ColumnPolicy) -> None:
        if found.outside and not declared.others:
            self._errors.append(f"{found.table}.{found.column} has other values in {_told(found.outside, found.rows)}, which "
                                "others = false excludes: no answer of a workload counts these")
        told, values = f"{found.table}.{found.column}", found.rows - found.nulls
        if not declared.nullable and found.nulls:
            self._suspect(found.table, "nulls", f"{told} is declared free of NULL, and is NULL in "
                          f"{_told(found.nulls, found.rows)}")
        if _much(found.outside, values):
            some = ", ".join(f"{value!r} ({number:,})" for value, number in found.others)
            self._suspect(found.table, "outside", f"{told}: {_told(found.outside, values)} lie outside {found.declared}"
                          + (f": {some}" if some else ""))

    def _suspect_spelling(self, found: ColumnOnRows, unused: Sequence[str], others: Mapping[str, int]) -> None:
        """Report a declared value that no row has, if rows have an undeclared one with nearly the same spelling."""
        plain: dict[str, str] = {}
        for value in others:
            plain.setdefault(value.strip().casefold(), value)
        for value in unused[:COMPARED]:
            for near in difflib.get_close_matches(value.strip().casefold(), plain, n=1, cutoff=ALIKE):
                other = plain[near]
                self._suspect(found.table, "spelling", f"{found.table}.{found.column}: no row has the declared value {value!r}, "
                              f"and {_told(others[other], found.rows)} have {other!r}: a spelling mistake?")


def _trusting(policy: Policy, schema: Mapping[str, TableSchema]) -> dict[str, TableSchema]:
    """The schema, assuming that keys that the policy declares or references are unique; whether they are is counted
    separately."""
    wanted: dict[str, list[frozenset[str]]] = {}
    for table in policy.tables.values():
        wanted.setdefault(table.name.lower(), []).extend([frozenset(table.key)] if table.key else [])
        for key in table.foreign_keys:
            wanted.setdefault(key.table.lower(), []).append(frozenset(key.references))
    return {name: replace(found, unique=(*found.unique, *wanted.get(name.lower(), ()))) for name, found in schema.items()}


def _any_null(columns: Sequence[str], of: str = "") -> str:
    return " OR ".join(f"{of}{quote(column)} IS NULL" for column in columns)


def _inside(declared: ColumnPolicy, column: Column) -> str | None:
    """The SQL condition that a value is a declared one; None if nothing is declared of values."""
    if declared.bounds is not None:
        low, high = (literal(_held(end, column.type), column.type) for end in declared.bounds)
        return f'(t."v" >= {low} AND t."v" <= {high})'
    if (declared.values is None and declared.values_from is None) or column.domain is None:
        return None
    listed = ", ".join(literal(value, column.type) for value in column.domain.values)
    return f'(t."v" IN ({listed}))' if listed else "FALSE"


def _held(end: Scalar, kind: Type) -> Scalar:
    """A declared end of a range, converted to the type of its column."""
    if kind is Type.TIMESTAMP and isinstance(end, dt.date) and not isinstance(end, dt.datetime):
        return dt.datetime(end.year, end.month, end.day)
    if kind in (Type.BIGINT, Type.DOUBLE) and isinstance(end, int | float):
        return int(end) if kind is Type.BIGINT else float(end)
    return end


def _declared(column: ColumnPolicy) -> str:
    """A short description of what is declared of a column."""
    if column.values_from is not None:
        return f"values_from {'.'.join(column.values_from)}"
    if column.values is not None:
        return f"values ({len(column.values)})"
    if column.bounds is not None:
        low, high = column.bounds
        return f"{'range' if column.complete else 'bounds'} [{low}, {high}]"
    return "nullable = false"


def _much(part: int, whole: int) -> bool:
    return part > MUCH * whole


def _told(part: int, whole: int) -> str:
    """A number of rows, with its share of all rows in percent."""
    return f"{part:,} row{'s' if part != 1 else ''} ({share(part, whole)})"


def share(part: int, whole: int) -> str:
    """A share in percent, as text."""
    return f"{100 * part / whole:.3g} %" if whole else "0 %"
