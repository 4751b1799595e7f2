"""Fitting a policy to a database: types, owners of rows, and the catalog of one budget.

Only the schema and public tables are read here, never a private row.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpsql.catalog.calendars import with_calendars
from dpsql.catalog.days import Days
from dpsql.catalog.foreign_keys import Circle, parents_first
from dpsql.catalog.model import Catalog, ColumnPolicy, Entity, Policy, TablePolicy
from dpsql.catalog.policy import MOST_VALUES
from dpsql.catalog.public_lists import Values, determined, listed
from dpsql.catalog.sections import locate, suggest
from dpsql.catalog.writing import value as written
from dpsql.errors import PolicyError
from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import Growth, period_of
from dpsql.trusted.declarations.tables import (
    GENERATED,
    Column,
    Domain,
    ForeignKey,
    OwnerPath,
    OwnerStep,
    Scalar,
    Table,
    TableSchema,
)
from dpsql.types import ANY_NUMBER, INT64, Interval, Type, single

MOST_OWNERS = 8  # entities that a row may belong to
MOST_LISTED = 100_000  # whole numbers or days of a range that are kept one by one; a longer range is kept by its ends

_SIGNED = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
_WIDE = {"HUGEINT", "UHUGEINT", "UBIGINT", "FLOAT", "DOUBLE"}
_TEXT = {"VARCHAR", "UUID"}
_OTHER_UNITS = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}  # rounded to microseconds, or NULL where these end
_ZONED = "TIMESTAMP WITH TIME ZONE"  # carried as what it is in UTC
_TIMES = {"TIMESTAMP", _ZONED, *_OTHER_UNITS}
_MISSING = {"FLOAT", "DOUBLE", *_OTHER_UNITS}  # a value of these that is not NULL may be carried as a missing one

VALUES = {
    Type.BOOLEAN: "values = [false, true]", Type.BIGINT: "values = [1, 2]", Type.DOUBLE: "values = [0.5, 1.0]",
    Type.VARCHAR: 'values = ["1", "2"]', Type.DATE: "values = [2020-01-31]", Type.TIMESTAMP: "values = [2020-01-31T12:00:00]",
}
BOUNDS = {
    Type.VARCHAR: "no bounds; of numbers that are stored as text, a table in which they are cast",
    Type.BIGINT: "range = [0, 100]", Type.DOUBLE: "bounds = [0, 100]", Type.DATE: "range = [2020-01-01, 2029-12-31]",
    Type.TIMESTAMP: "bounds = [2020-01-01T00:00:00, 2029-12-31T23:59:59]",
}


def carried_as(sql_type: str) -> tuple[Type, Interval] | None:
    """The type and the range in which values of a database type are carried, or None if it is not supported."""
    name = sql_type.upper()
    if name.endswith("]"):
        return None  # lists and arrays, such as DECIMAL(4,2)[]
    if name in _SIGNED:
        return Type.BIGINT, Interval(-(2 ** _SIGNED[name]), 2 ** _SIGNED[name] - 1)
    if name.startswith("U") and name[1:] in _SIGNED and name != "UBIGINT":
        return Type.BIGINT, Interval(0, 2 ** (_SIGNED[name[1:]] + 1) - 1)
    if name in _WIDE or name.startswith("DECIMAL"):
        return Type.DOUBLE, ANY_NUMBER
    if name in _TEXT or name.startswith("ENUM"):
        return Type.VARCHAR, ANY_NUMBER
    if name in _TIMES:
        return Type.TIMESTAMP, ANY_NUMBER
    return {"BOOLEAN": (Type.BOOLEAN, ANY_NUMBER), "DATE": (Type.DATE, ANY_NUMBER)}.get(name)


def carried_exactly(sql_type: str) -> bool:
    """Whether different values of a database type are carried as different values, so that they can serve as names."""
    carried, name = carried_as(sql_type), sql_type.upper()
    return carried is not None and name not in _OTHER_UNITS and (carried[0] is not Type.DOUBLE or name in ("FLOAT", "DOUBLE"))


def fit(policy: Policy, budget: str, schema: Mapping[str, TableSchema], values: Values) -> Catalog:
    """The catalog of one budget. `values(table, columns, most)` lists the values in a public table.

    Raises PolicyError, located in the policy, if a declared table or column is missing from the database, has a type
    that cannot hold the declared values, where a private table is a view, or where a chain of foreign keys does not lead to
    one entity.
    """
    policy = with_calendars(policy, schema, values)
    entity = policy.entities[policy.budgets[budget].entity]
    names = {name.lower(): name for name in schema} | {name.lower(): name for name in policy.tables if name in schema}
    found: dict[str, TableSchema] = {}
    for name in policy.tables:
        if name.lower() not in names:
            raise _fault(policy, ("tables", name), f"the database has no table {name}", try_=suggest(name, sorted(schema)))
        found[name] = _spelled_as(policy.tables[name], schema[names[name.lower()]])
        if found[name].view is not None and not policy.tables[name].public:
            raise _fault(policy, ("tables", name), f"{name} is a view, and it is unknown whose rows it shows",
                         try_="the tables that it reads, or a table made from it")
        read = [other for other, told in policy.tables.items() if not told.public and other.lower() in (found[name].view or ())]
        if read:
            raise _fault(policy, ("tables", name), f"{name} is a view that reads {read[0]}, which is private",
                         try_="a table made from it, if everybody may see all of its rows as they are")
        if not found[name].fixed:
            raise _fault(policy, ("tables", name), f"{name} is a view that may show other rows whenever it is read, or tell of "
                         "other tables: unlike one that picks, joins and filters stored tables", try_="a table made from it")
    columns = {name: _columns(policy, declared, found[name], values) for name, declared in policy.tables.items()}
    owners, outside = _owners(policy, entity, found)
    for name, declared in policy.tables.items():
        _check_periods(policy, declared, columns[name], owners)
    hidden = {name: frozenset(column for column, _ in found[name].columns) - set(columns[name]) for name in policy.tables}
    tables = {name: _table(declared, columns[name], found[name], owners.get(name, ()), entity)
              for name, declared in policy.tables.items() if name not in outside}
    tables = {name: _listed(policy, table, values) for name, table in tables.items()}
    undeclared = frozenset(schema) - {names[name.lower()] for name in policy.tables}
    return Catalog(entity=entity, tables=tables, undeclared=undeclared, hidden=hidden, outside=outside,
                   rules={name: policy.tables[name].rules for name in tables if policy.tables[name].rules})


def _listed(policy: Policy, table: Table, values: Values) -> Table:
    """A public table with what everybody can list of it; a private one with the combinations that public ones list."""

    def read(column: Column, found: Sequence[Scalar | None]) -> list[Scalar | None]:
        path = ("tables", table.name, "columns", column.name)
        return [None if value is None else _convert(policy, path, value, column.type, column.sql_type) for value in found]

    if table.public:
        columns, listing = listed(table.name, table.columns, values, read)
        return replace(table, columns=columns, listings=(listing,) if listing is not None else ())
    found = [determined(declared.by, [table.columns[each] for each in (name, *declared.determines)], values, read)
             for name, declared in policy.tables[table.name].columns.items() if declared.by is not None]
    return replace(table, listings=tuple(listing for listing in found if listing is not None))


def _spelled_as(declared: TablePolicy, schema: TableSchema) -> TableSchema:
    """The schema with its columns spelled as in the policy: database names ignore the case of ASCII letters."""
    spelled, theirs = {name.lower(): name for name in declared.columns}, {name for name, _ in schema.columns}

    def spell(name: str) -> str:
        ours = spelled.get(name.lower(), name)
        return name if ours in theirs else ours  # there is another column that differs only in the case of an accented letter

    return replace(schema, columns=tuple((spell(name), kind) for name, kind in schema.columns),
                   unique=tuple(frozenset(map(spell, key)) for key in schema.unique),
                   not_null=frozenset(map(spell, schema.not_null)))


def _table(declared: TablePolicy, columns: Mapping[str, Column], schema: TableSchema,
           owners: tuple[OwnerPath, ...], entity: Entity) -> Table:
    own = entity.any_of[owners[0].kind] if entity.any_of and owners else entity.name
    rows = declared.rows_per_entity.get(entity.name, declared.rows_per_entity.get(own))
    if rows is None and len(owners) == 1 and not owners[0].steps and declared.key == (owners[0].column,):
        rows = 1
    unique = tuple(key for key in schema.unique if _stays_key(key, schema))
    grows, growth = declared.growth, None
    if grows is not None:
        growth = Growth(column=grows.column, period=grows.period, since=period_of(grows.period, grows.since), closes=grows.closes,
                        rows=grows.rows.get(entity.name, grows.rows.get(own, rows)), arrived=grows.arrived,
                        calendar=() if grows.calendar is None else grows.calendar.days)
    return Table(name=declared.name, public=declared.public, columns=columns, key=declared.key, unique=unique,
                 foreign_keys=declared.foreign_keys, owners=owners, rows=rows, rows_per_value=declared.rows_per_value,
                 limits_hold=declared.limits_hold, growth=growth)


def _stays_key(key: frozenset[str], schema: TableSchema) -> bool:
    """Whether no two rows agree on a key of the database: no value may be NULL or missing, nor become equal to another when
    carried."""
    types = dict(schema.columns)
    return key <= schema.not_null and all(
        carried_exactly(types[column]) and types[column].upper() not in _MISSING for column in key)


def _owners(policy: Policy, entity: Entity, schema: Mapping[str, TableSchema]) -> tuple[dict[str, tuple[OwnerPath, ...]],
                                                                                           dict[str, str]]:
    """For every private table the paths to its entities, or the reason why there is none."""
    kinds = [policy.entities[kind] for kind in entity.any_of] or [entity]
    found: dict[str, list[OwnerPath]] = {name: [] for name in policy.tables}
    for number, kind in enumerate(kinds):
        for name, ways in _ways(policy, kind, schema).items():
            found[name] += [replace(way, kind=number, kinds=len(kinds)) for way in sorted(
                ways, key=lambda way: (way.column, str(way.steps)))]
    if len(kinds) > 1:
        found = _told_apart(found, schema)
    owners, outside = {}, {}
    for name, table in policy.tables.items():
        if table.public:
            continue
        if not found[name]:
            to = " or ".join(f"{kind.table}.{kind.key}" for kind in kinds)
            outside[name] = f"it is private, and no foreign key leads from it to the protected {entity.name} ({to})"
        elif len(found[name]) > MOST_OWNERS:
            outside[name] = f"its rows reference the protected {entity.name} along more than {MOST_OWNERS} paths"
        else:
            owners[name] = tuple(found[name])
            for way in owners[name]:
                for step in way.steps:
                    _check_unique(policy, name, step, schema[step.table])
    return owners, outside


def _told_apart(ways: Mapping[str, list[OwnerPath]], schema: Mapping[str, TableSchema]) -> dict[str, list[OwnerPath]]:
    """The paths, with one common type for the names of all entities that keeps names of different kinds distinct."""
    columns = {(way.steps[-1].table if way.steps else name, way.column) for name, found in ways.items() for way in found}
    narrow = all(_is_half_a_word(dict(schema[table].columns)[column]) for table, column in columns)
    kind = Type.BIGINT if narrow else Type.VARCHAR
    return {name: [replace(way, type=kind) for way in found] for name, found in ways.items()}


def _is_half_a_word(sql_type: str) -> bool:
    """Whether every value of a type is a whole number that leaves room in 64 bits."""
    carried = carried_as(sql_type)
    return carried is not None and carried[0] is Type.BIGINT and carried[1].inside(Interval(-(2**32), 2**32))


def _ways(policy: Policy, entity: Entity, schema: Mapping[str, TableSchema]) -> dict[str, set[OwnerPath]]:
    """For every table the paths to the entities of one kind."""
    ways: dict[str, set[OwnerPath]] = {}
    followed = {name: () if table.public else table.foreign_keys for name, table in policy.tables.items()}

    def ending(steps: tuple[OwnerStep, ...], first: str, column: str, beside: Iterable[str] = ()) -> OwnerPath:
        last = schema[steps[-1].table if steps else first]
        carried = carried_as(dict(last.columns).get(column, ""))
        if carried is None or carried[0] is Type.DOUBLE or carried[0].temporal:  # may group different values
            raise _fault(policy, ("entities", entity.name, "key"),
                         f"a column of type {dict(last.columns).get(column)} cannot name an entity",
                         try_="a column of whole numbers or texts")
        return OwnerPath(steps=steps, column=column, type=carried[0], not_null=column in last.not_null,
                         beside=tuple(sorted(set(beside) - last.not_null - {column})))

    def paths(name: str) -> set[OwnerPath]:
        found = {ending((), name, entity.key)} if name == entity.table else set()
        for key in followed[name]:
            above = ways[key.table]  # checked for the entity's own table too: its rows must not depend on other entities
            types = _joined_types(policy, name, key, schema) if above else ()
            for way in above:
                if not way.steps and {way.column, *way.beside} <= set(key.references):
                    found.add(ending((), name, key.columns[key.references.index(way.column)], key.columns))
                else:
                    step = OwnerStep(columns=key.columns, table=key.table, references=key.references, types=types)
                    found.add(ending((step, *way.steps), name, way.column, way.beside))
        return _once(found)

    for name in _parents_first(policy, followed):
        ways[name] = paths(name)
    return {name: ways[name] for name, table in policy.tables.items() if not table.public}


def _parents_first(policy: Policy, followed: Mapping[str, Sequence[ForeignKey]]) -> Sequence[str]:
    """The tables, each after all that its rows depend on. Raises PolicyError for cyclic foreign keys."""
    if not any(followed.values()):
        return [*followed]
    try:
        return parents_first(followed)
    except Circle as circle:
        raise _fault(policy, ("tables", circle.tables[0], "foreign_keys"), "foreign keys form a cycle: " + " -> ".join(
            circle.tables), try_="leave one of them out; a deletion then does not follow it") from None


def _once(ways: Iterable[OwnerPath]) -> set[OwnerPath]:
    """One path for each name. Where several foreign keys contain it, a row is read only if none of them holds a NULL; but if
    one key is the name alone, the row is read wherever there is a name, as it leaves with the entity whatever the other keys
    reference.
    """
    found: dict[OwnerPath, list[frozenset[str]]] = {}
    for way in ways:
        found.setdefault(replace(way, beside=()), []).append(frozenset(way.beside))
    return {replace(way, beside=tuple(sorted(frozenset().union(*keys) if all(keys) else ()))) for way, keys in found.items()}


def _joined_types(policy: Policy, name: str, key: ForeignKey, schema: Mapping[str, TableSchema]) -> tuple[Type, ...]:
    """The types in which a foreign key is compared with what it references; they must be the same and exact.

    A text and a UUID are not: the database finds a UUID equal to each of its spellings, which are names of several entities here.
    """
    types = []
    for child, parent in zip(key.columns, key.references, strict=True):
        types_of_pair = [dict(schema[table].columns).get(column, "") for table, column in ((name, child), (key.table, parent))]
        pair = [carried_as(sql_type) for sql_type in types_of_pair]
        spelled = len({sql_type.upper() == "UUID" for sql_type in types_of_pair}) > 1
        if pair[0] is None or pair[1] is None or pair[0][0] is not pair[1][0] or pair[0][0] is Type.DOUBLE or spelled or not all(
                map(carried_exactly, types_of_pair)):
            raise _fault(policy, ("tables", name, "foreign_keys"),
                         f"{name}.{child} and {key.table}.{parent} differ in type", try_="columns of the same type")
        types.append(pair[0][0])
    return tuple(types)


def _check_periods(policy: Policy, table: TablePolicy, columns: Mapping[str, Column],
                   owners: Mapping[str, tuple[OwnerPath, ...]]) -> None:
    """A growing table needs a column of time. A row that depends on a row of a growing table must belong to the same period as
    that row, or it would lose its owner with the rows of another period."""
    growth, path = table.growth, ("tables", table.name)
    times = [] if growth is None else [("grows_by", growth.column), ("arrived", growth.arrived)]
    for where, name in times:
        if name is not None and not (column := columns[name]).type.temporal:
            raise _fault(policy, (*path, where), f"column {column.name} is {column.sql_type}, not a date or a time",
                         try_="a column of type DATE or TIMESTAMP")
    ways = owners.get(table.name, ())
    through = {step.table for way in ways for step in way.steps}
    for key in table.foreign_keys if ways else ():
        parent = policy.tables[key.table].growth
        if parent is None or key.table not in owners:
            continue
        if growth is None:
            reason = f"{key.table} grows, and {table.name} does not: its rows would not go with the periods of {key.table}"
        elif key.table in through or (growth.column, parent.column) not in zip(key.columns, key.references, strict=True):
            reason = f"{table.name} and {key.table} grow, and a row may refer to a row of another period"
        else:
            continue
        raise _fault(policy, (*path, "foreign_keys"), reason, try_=f"instead, a foreign key from the column of {table.name} "
                     "that identifies the entity to a table that does not grow")


def _check_unique(policy: Policy, name: str, step: OwnerStep, parent: TableSchema) -> None:
    """A row must have one parent, or it could belong to several entities."""
    if not any(key <= set(step.references) for key in parent.unique):
        raise _fault(policy, ("tables", name, "foreign_keys"),
                     f"the database does not guarantee that {step.table}({', '.join(step.references)}) is unique, so a row of "
                     f"{name} could belong to several entities", code="parent-not-unique",
                     try_=f"a PRIMARY KEY on {step.table}({', '.join(step.references)}) in the database")


def _columns(policy: Policy, table: TablePolicy, schema: TableSchema, values: Values) -> dict[str, Column]:
    types = dict(schema.columns)
    columns = {}
    for name, declared in table.columns.items():
        path = ("tables", table.name, "columns", name)
        if name not in types:
            raise _fault(policy, path, f"table {table.name} has no column {name}", try_=suggest(name, types))
        sql_type = types[name]
        carried = carried_as(sql_type)
        if carried is None:
            made = sql_type.startswith(f"{GENERATED} ")
            reason = "it is computed whenever it is read, which may fail for a row, or change"
            raise _fault(policy, path, reason if made else f"type {sql_type} is not supported", code="unsupported-type",
                         try_=f"leave the column out, or use a table in which it is {'stored' if made else 'cast'}")
        columns[name] = _column(policy, path, declared, name, sql_type, *carried, schema, values)
    return columns


def _column(policy: Policy, path: tuple[str, ...], declared: ColumnPolicy, name: str, sql_type: str, kind: Type,
            physical: Interval, schema: TableSchema, values: Values) -> Column:
    domain = None
    if declared.values is not None:
        written = tuple(_convert(policy, (*path, "values"), value, kind, sql_type) for value in declared.values)
        ordered = tuple(sorted(written))
        domain = Domain(ordered, listed=written if written != ordered else ())
    elif declared.values_from is not None:
        try:
            table, column = declared.values_from
            listed = [value for value, in values(table, [column], MOST_VALUES + 1)]
        except Exception:  # of a type that the database client cannot represent
            raise _fault(policy, (*path, "values_from"), "the values of the public column cannot be read",
                         try_="a column of texts, numbers or dates") from None
        if len(listed) > MOST_VALUES:
            raise _fault(policy, (*path, "values_from"), f"the public column has more than {MOST_VALUES} values")
        domain = Domain(tuple(sorted({_convert(policy, (*path, "values_from"), value, kind, sql_type)
                                      for value in listed if value is not None})))
    ends = ANY_NUMBER
    if declared.bounds is not None:
        if not (kind.numeric or kind.temporal) or kind.temporal != isinstance(declared.bounds[0], dt.date):
            raise _fault(policy, path, f"bounds of this kind do not fit the type {sql_type}", try_=BOUNDS.get(kind, "no bounds"))
        ends = _interval([_convert(policy, path, end, kind, sql_type) for end in declared.bounds])
        if declared.complete and kind in (Type.BIGINT, Type.DATE):
            numbers = range(math.ceil(ends.low), math.floor(ends.high) + 1)
            between: Sequence[Scalar] = numbers if kind is Type.BIGINT else Days(numbers)
            domain = Domain(tuple(between) if len(between) <= MOST_LISTED else between)
    if domain is not None and not declared.others:
        domain = replace(domain, closed=True)
    if declared.bounds is None and domain is not None and kind is not Type.VARCHAR and kind is not Type.BOOLEAN and domain.values:
        ends = _interval(domain.values)
    for key, given in (("decimals", declared.step), ("bins", declared.bins), ("bounds", declared.search or None)):
        if given is not None and not kind.numeric:
            raise _fault(policy, path, f"{key} is for numbers, and the column is {sql_type}", try_=f"leaving {key} out")
    if kind is Type.BOOLEAN and domain is None:
        domain = Domain((False, True))
    nullable = declared.nullable and (name not in schema.not_null or sql_type.upper() in _MISSING)
    step = declared.step
    if step is None and (match := re.match(r"DECIMAL\(\d+,\s*(\d+)\)", sql_type.upper())):
        step = _decimal_step(int(match.group(1)))
    return Column(name=name, type=kind, sql_type=sql_type, nullable=nullable, physical=physical, declared=ends, domain=domain,
                  step=step, bins=declared.bins, search=declared.search)


def _decimal_step(scale: int) -> Fraction | None:
    return Fraction(1, 10**scale) if scale <= 9 else None


def _interval(ends: Sequence[Scalar]) -> Interval:
    numbers = [end.toordinal() if isinstance(end, dt.date) else end for end in ends]
    assert not any(isinstance(number, str) for number in numbers)
    return Interval(min(numbers), max(numbers))  # type: ignore[arg-type]


def _convert(policy: Policy, path: tuple[str, ...], value: Any, kind: Type, sql_type: str) -> Scalar:
    """A declared value in the column's type; public columns may hold values of any type."""
    if isinstance(value, Decimal) and value.is_finite():  # a subclass of none of those below
        value = int(value) if value == value.to_integral_value() else float(value)
    match kind, value:
        case (Type.BOOLEAN, bool()) | (Type.VARCHAR, str()):
            return value  # type: ignore[no-any-return]
        case (Type.BIGINT, bool()) | (Type.DOUBLE, bool()):
            pass
        case Type.BIGINT, int() | float() if INT64.low <= value <= INT64.high and value == int(value):
            return int(value)
        case Type.DOUBLE, int() | float() if math.isfinite(value):
            return single(float(value)) if sql_type.upper() == "FLOAT" else float(value)
        case Type.TIMESTAMP, dt.datetime():
            return value
        case Type.TIMESTAMP, dt.date():
            return dt.datetime(value.year, value.month, value.day)
        case Type.DATE, dt.date() if not isinstance(value, dt.datetime):
            return value
    example = BOUNDS.get(kind, "") if len(path) == 4 else VALUES[kind]
    shown = written(value) if isinstance(value, bool | int | float | str | dt.date) else f"one of type {type(value).__name__}"
    raise _fault(policy, path, f"{shown} is not a value of a column of type {sql_type}", try_=example)


def _fault(policy: Policy, path: tuple[str, ...], reason: str, *, try_: str = "", code: str = "policy-schema") -> PolicyError:
    return PolicyError(f"{'.'.join(path)}: {reason}", code=code, try_=try_, span=locate(policy.text, path),
                       subject=".".join(path), text=policy.text, source=policy.path)
