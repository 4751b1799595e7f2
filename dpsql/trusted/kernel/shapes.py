"""The structure of a plan: its classes, their fields, the columns of every relation with their types, and its expressions.

No claim of an operator about itself is used: columns are derived from the fields of frozen values, and no method or property
of an operator is called. A class, field or expression that is not listed here is unknown; so is a reference to a column that
does not exist or has another type, a name that two columns share, a limit that is not a positive integer, or a grid without
finite ends. `checker` derives the sensitivity of plans from these structures.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

from dpsql.frozen import Frozen, field_names, replace
from dpsql.trusted.declarations.growth import CALENDAR, LONGEST_CLOSES
from dpsql.trusted.plan.expr import printing
from dpsql.trusted.plan.expr.functions import CARRIER, DECIMAL, overload
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Placeholder, Ref, conjuncts, walk
from dpsql.trusted.plan.node import Field, Node, Norm
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import FOLDS, Fold, GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.largest import Largest
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.statistics import EXACT, Statistics
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Frame, Window, WindowFunction
from dpsql.types import Type

__all__ = [  # classes defined elsewhere for which `checker` has rules
    "Clip", "Clipped", "Constants", "Contributions", "Distinct", "Filter", "GroupBy", "GroupedSums", "Join", "Lookup", "Node",
    "Norm", "Norms", "Numbers", "Project", "Ref", "Scan", "SetOperation", "Summand", "Truncate", "TruncateKeys", "Type",
    "UnionAll", "Window",
]
NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
PLACES, SHIFTS, ENDS = ("row_number", "rank", "dense_rank", "ntile"), ("lag", "lead"), ("first_value", "last_value")
LIMITS = {"<=": (None, 0), "<": (None, -1), ">=": (0, None), ">": (1, None), "=": (0, 0)}
FLOATING = ("FLOAT", "DOUBLE")
INNER = Fold, Frame, Term, Merged, Field, Summand
VALUES_OF = {Type.BOOLEAN: (bool,), Type.BIGINT: (int,), Type.DOUBLE: (float, int), Type.VARCHAR: (str,), Type.DATE: (dt.date,),
             Type.TIMESTAMP: (dt.datetime,)}
MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}


class Malformed(Exception):
    """A plan, or a part of one, does not have a known form."""


class ColumnShape(Frozen):
    """The type of a column and, for whole numbers, the least and greatest value."""

    type: Type
    low: float = -math.inf
    high: float = math.inf


Columns: TypeAlias = Mapping[str, ColumnShape]
TRUTH, PLACE, COUNTED = ColumnShape(type=Type.BOOLEAN), ColumnShape(type=Type.BIGINT, low=1), ColumnShape(type=Type.BIGINT, low=0)
ADDED = ColumnShape(type=Type.BIGINT, low=-(2**50), high=2**50)


def columns_of(node: Node, below: Sequence[Columns]) -> Columns:
    """The columns of a relation, from those of the relations below it. Raises Malformed."""
    require(type(node) in RELATIONS)
    for part in _parts(node):
        require(type(part) in PARTS)
    made = list(_columns(node, *below))
    require(bool(made) and all(NAME.fullmatch(name) for name, _ in made))
    require(len({name.lower() for name, _ in made}) == len(made))
    return dict(made)


def _columns(node: Node, *sides: Columns) -> Iterator[tuple[str, ColumnShape]]:
    below = sides[0] if sides else {}
    match node:
        case Scan():
            yield from _read(node)
        case Constants():
            require(bool(node.rows) and all(len(row) == len(node.columns) for row in node.rows))
            kinds = ((field.facts.type, *map(type, values)) for field, *values in zip(node.columns, *node.rows, strict=True))
            require(all({*given} <= {type(None), *VALUES_OF[kind]} for kind, *given in kinds))
            yield from ((field.id, ColumnShape(type=field.facts.type)) for field in node.columns)
        case Filter():
            typed(node.condition, below, Type.BOOLEAN)
            yield from {**below, **limited(node.condition, below)}.items()
        case Project():
            yield from ((name, typed(expr, below)) for name, _, expr in node.columns)
        case Distinct():
            yield from below.items()
        case GroupBy():
            yield from _keys(node.keys, below)
            yield from ((fold.id, _aggregated(fold, below)) for fold in node.folds)
        case Join():
            yield from _joined(node, *sides)
        case Lookup():
            _check_lookup(node, *sides)
            yield from (*below.items(), (node.mark, TRUTH))
        case UnionAll() | SetOperation():
            require(all(len(side) == len(node.columns) for side in sides) and len(sides) > 1 and len(node.columns) > 0)
            require(isinstance(node, UnionAll) or (node.kind in ("intersect", "except") and is_flag(node.all)))
            for (name, _), *parts in zip(node.columns, *([side[name] for name in side] for side in sides), strict=True):
                hull = _hull(parts)
                yield name, hull if isinstance(node, UnionAll) else parts[0]
        case Truncate() | TruncateKeys():
            grouped = (node.owner,) if isinstance(node, Truncate) else (*node.keys, *(term.column for term in node.first))
            require(is_limit(node.rows) and {*grouped, *node.order} <= below.keys())
            yield from below.items()
        case Numbers():
            require(bool(node.keys))
            yield from (*_keys(node.keys, below), ("number", PLACE))
        case Window():
            require(bool(node.functions) and {*node.partition, *node.ties, *(term.column for term in node.order)} <= below.keys())
            yield from (*below.items(), *((part.id, _shown(part, below)) for part in node.functions))
        case Contributions():
            totals = [f"e{i}_{j}" for i, part in enumerate(node.summands) for j in range(components(part))]
            require(bool(totals) and all(size(part, below) >= 0 for part in node.summands))
            yield from (*_keys((node.owner, *node.keys), below), *((total, ADDED) for total in totals))
        case Clip():
            _check_norm(node, below)
            require(is_limit(node.bound) and node.bound <= 2**50)
            held = {name: ColumnShape(type=Type.BIGINT, low=-node.bound, high=node.bound) for name in node.columns}
            yield from {**below, **held}.items()
        case Norms():
            _check_norm(node, below)
            yield from (*_keys((node.owner,), below), ("size", COUNTED))
        case _:
            raise Malformed


def _read(node: Scan) -> Iterator[tuple[str, ColumnShape]]:
    """The declared columns, and owners that are not among them. A declared column that is an owner is read as the owner."""
    table, read = node.table, dict(node.columns)
    require({name for _, name in node.columns} <= table.columns.keys())
    require(len(set(node.owners)) == len(node.owners) == len(table.owners))
    require(is_flag(table.public) and bool(table.owners) is not table.public)
    _check_periods(node)
    for column, name in node.columns:
        declared = table.columns[name]
        yield column, ColumnShape(type=declared.type, low=declared.physical.low, high=declared.physical.high)
    for owner, way in zip(node.owners, table.owners, strict=True):
        require(owner not in read or (read[owner] == way.column and not way.steps and way.kinds == 1))
        if owner not in read:
            yield owner, ColumnShape(type=way.type)


def _check_periods(node: Scan) -> None:
    """A table that grows is read in whole periods of its kind, and no other table is. Its columns of time have times. The first
    days of a calendar are in order, and it tells of no row whether it was late."""
    growth, periods = node.table.growth, node.periods
    require((growth is None) is (periods is None))
    if growth is not None and periods is not None:
        times = [node.table.columns[name] for name in (growth.column, growth.arrived) if name is not None]
        require(not node.table.public and all(column.type in (Type.DATE, Type.TIMESTAMP) for column in times))
        require(growth.is_whole(periods) and (growth.period == CALENDAR) is bool(growth.calendar))
        require(all(one < other for one, other in pairwise(growth.calendar)))
        require(growth.period != CALENDAR or growth.arrived is None)
        require(type(growth.closes) is int and 0 <= growth.closes <= LONGEST_CLOSES)


def keys_of(node: Scan) -> Iterator[frozenset[str]]:
    """The keys of a table as it is read: no two rows agree on all columns of a key.

    They are the keys of the database none of whose columns is ever NULL; an owner never is. (A floating column is called
    nullable because of NaN, which in a key is a value like any other: the catalog identifies keys by what the database says
    about NULL.)
    """
    names = {name: column for column, name in node.columns}
    absent = {name for name, column in node.table.columns.items() if column.nullable and column.sql_type.upper() not in FLOATING}
    for key in node.table.unique:
        if key <= names.keys() and not any(name in absent and names[name] not in node.owners for name in key):
            yield frozenset(names[name] for name in key)
    for owner, way in zip(node.owners, node.table.owners, strict=True):
        if not way.steps and {way.column} in node.table.unique:
            yield frozenset([owner])


def told_apart(columns: Columns, of: Iterable[str]) -> dict[str, str]:
    """Those of the given columns whose different values stay different when rows are grouped, each mapped to its own name."""
    return {name: name for name in of if (kind := columns[name].type) is Type.DOUBLE or printing.settled("", kind) == ""}


Grouping: TypeAlias = GroupBy | Distinct | Contributions | Norms


def grouping(node: Grouping, columns: Columns) -> tuple[tuple[str, ...], bool]:
    """The columns by which rows are grouped, and whether a group shows more of its rows than these columns (aggregates)."""
    match node:
        case Distinct():
            return tuple(columns), False
        case GroupBy():
            return node.keys, bool(node.folds)
    return (node.owner, *(node.keys if isinstance(node, Contributions) else ())), True


def _joined(node: Join, left: Columns, right: Columns) -> Iterator[tuple[str, ColumnShape]]:
    require(all(map(is_flag, (node.keep_left, node.keep_right, node.bare))) and not left.keys() & right.keys())
    require(not node.bare or node.keep_left is not node.keep_right)
    require(not node.merged or (node.keep_left and node.keep_right))
    typed(node.condition, {**left, **right}, Type.BOOLEAN)
    if not (node.bare and node.keep_right):
        yield from left.items()
    if not (node.bare and node.keep_left):
        yield from right.items()
    for made in node.merged:
        require((made.left, made.right) in equated(node.condition, left, right))
        yield made.id, _hull([left[made.left], right[made.right]])


def _check_lookup(node: Lookup, below: Columns, listed: Columns) -> None:
    require((node.keep is None or is_flag(node.keep)) and (bool(node.keys) or node.condition is not None))
    require(node.mark not in listed and all(column in listed for _, column in node.keys))
    for expr, column in node.keys:
        typed(expr, below, listed[column].type)
    if node.condition is not None:
        require(not below.keys() & listed.keys())
        typed(node.condition, {**below, **listed}, Type.BOOLEAN)


def _check_norm(node: Clip | Norms, below: Columns) -> None:
    require(type(node.order) is int and node.order in (1, 2) and bool(node.columns) and node.owner not in node.columns)
    require({node.owner, *node.columns} <= below.keys())
    for column in (below[name] for name in node.columns):
        require(column.type is Type.BIGINT and column.low >= -(2**50) and column.high <= 2**50)


# -- expressions


def typed(expr: Expr, below: Columns, kind: Type | None = None) -> ColumnShape:
    """The type and range of an expression. Every column must have the type it is read as, and every part the type that it
    states."""
    for part in walk(expr):
        require(type(part) in PARTS)
        require(not isinstance(part, Ref) or (part.column in below and below[part.column].type is part.type))
        require(_as_said(part))
    require(kind is None or expr.type is kind)
    return below[expr.column] if isinstance(expr, Ref) else _held(expr) or ColumnShape(type=expr.type)


def _held(expr: Expr) -> ColumnShape | None:
    """The range of GREATEST(LEAST(x, high), low), which is that of the two constants: both skip what is NULL."""
    match expr:
        case Call(function="greatest", type=Type.BIGINT, args=(
                Call(function="least", args=(_, Literal(value=int(high)))), Literal(value=int(low)))):
            return ColumnShape(type=Type.BIGINT, low=low, high=max(low, high))
    return None


def _as_said(part: Expr) -> bool:
    """Whether an expression has the type that it states; functions above it are printed for that type."""
    match part:
        case Call(function=name, args=args):
            row = overload(name, [arg.type for arg in args])
            return row is not None and row.result is part.type
        case Cast(target=target):
            return part.type is (Type.DOUBLE if DECIMAL.fullmatch(target) else CARRIER[target][0])
        case Case(branches=branches, otherwise=otherwise):
            kinds = {(when.type, then.type) for when, then in branches}
            return kinds == {(Type.BOOLEAN, part.type)} and otherwise.type is part.type
        case Literal(value=value):
            return value is None or type(value) in VALUES_OF[part.type]
    return True


def limited(condition: Expr, below: Columns) -> dict[str, ColumnShape]:
    """The whole-number columns that a condition compares with constants, with the bounds that it implies."""
    found: dict[str, ColumnShape] = {}
    for part in conjuncts(condition):
        if not isinstance(part, Call) or part.function not in LIMITS:
            continue
        (a, b), function = part.args, part.function
        if isinstance(a, Literal):
            a, b, function = b, a, MIRRORED[function]
        if isinstance(a, Ref) and a.type is Type.BIGINT and isinstance(b, Literal) and type(b.value) is int:
            here, (low, high) = found.get(a.column, below[a.column]), LIMITS[function]
            found[a.column] = replace(here, low=here.low if low is None else max(here.low, b.value + low),
                                      high=here.high if high is None else min(here.high, b.value + high))
    return found


def equated(condition: Expr, left: Columns, right: Columns) -> dict[tuple[str, str], bool]:
    """The pairs of a left and a right column that a condition equates, and whether it is never true where one is NULL."""
    found: dict[tuple[str, str], bool] = {}
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function in ("=", "is not distinct from"):
            a, b = part.args
            if isinstance(a, Ref) and isinstance(b, Ref):
                pair = (a.column, b.column) if a.column in left else (b.column, a.column)
                if pair[0] in left and pair[1] in right:
                    found[pair] = found.get(pair, False) or part.function == "="
    return found


# -- aggregates, windows, sums


def _aggregated(part: Fold, below: Columns) -> ColumnShape:
    require(part.function in FOLDS and (part.column is None or part.column in below))
    require(part.grid is None or ends_of(part.grid))
    if part.function == "count" or (part.function == "count_distinct" and part.column is not None):
        return COUNTED
    column = below[_there(part.column)]
    return column if part.function in ("min", "max") else ColumnShape(type=Type.DOUBLE if part.function == "avg" else column.type)


def _shown(part: WindowFunction, below: Columns) -> ColumnShape:
    ends = [end for end in (part.frame.start, part.frame.end) if end is not None]
    require(all(type(end) is int for end in (*ends, part.number)) and part.number >= (part.function == "ntile"))
    require(is_flag(part.frame.rows) and all(a <= b for a, b in pairwise(ends)))
    if part.function in PLACES:
        return PLACE
    if part.function not in (*SHIFTS, *ENDS):
        return _aggregated(part, below)
    require(part.column in below and (part.otherwise is None or part.otherwise in below))
    return _hull([below[_there(part.column)], below[_there(part.otherwise or part.column)]])


def reach(part: WindowFunction) -> tuple[float, float]:
    """How many rows before and after a row a window function reads."""
    if part.function in SHIFTS:
        return (part.number, 0) if part.function == "lag" else (0, part.number)
    start, end = (part.frame.start, part.frame.end) if part.function not in PLACES and part.frame.rows else (None, None)
    return math.inf if start is None else max(0, -start), math.inf if end is None else max(0, end)


def size(part: Summand, below: Columns) -> int:
    """The largest amount that one row adds to a sum, over all components; for moments, the corresponding power of the range.

    Clipped columns have no such number; it is 0 here.
    """
    require(type(part) in PARTS and (part.when is None or (part.when in below and below[part.when].type is Type.BOOLEAN)))
    match part:
        case Count():
            require(part.column is None or part.column in below)
            return 1
        case GridSum():
            require(part.column in below)
            return max(map(abs, ends_of(part.grid)))
        case Moments():
            least, most = ends_of(part.grid)
            require(part.column in below and part.grid.from_low and least == 0 and is_limit(most) and is_flag(part.missing))
            require(type(part.degree) is int and part.degree in (1, 2))
            return int(most**part.degree)
        case Clipped():
            require(part.when is None and set(part.clipped) <= below.keys() and len(set(part.clipped)) == len(part.clipped) > 0)
            return 0
    raise Malformed


def components(part: Summand) -> int:
    return len(part.clipped) if isinstance(part, Clipped) else part.degree + 1 + part.missing if isinstance(part, Moments) else 1


def ends_of(grid: Quantizer) -> tuple[int, int]:
    """The least and the greatest integer on a grid: those nearest to its ends; within 2^-10 of halfway, the outer ones."""
    require(type(grid) in PARTS and all(type(end) in (int, float) and math.isfinite(end) for end in (grid.low, grid.high)))
    require(type(grid.step) is Fraction and grid.step > 0 and grid.low <= grid.high and is_flag(grid.from_low))
    low, high, origin = Fraction(grid.low), Fraction(grid.high), Fraction(grid.low if grid.from_low else 0)
    beyond = Fraction(2**9 - 1, 2**10)
    return math.floor((low - origin) / grid.step + beyond), math.ceil((high - origin) / grid.step - beyond)


def check_summary(plan: Node, below: Columns) -> None:
    """Raises Malformed if a summary reads a column that does not exist, or shows keys that a client could misread."""
    for name in field_names(type(plan)):
        value = getattr(plan, name)
        for part in value if isinstance(value, tuple) else (value,):
            require(not isinstance(part, str) or part in below)
            if isinstance(part, Summand):
                size(part, below)
            if isinstance(part, Quantizer):
                ends_of(part)
    when = getattr(plan, "when", None)
    require(when is None or below[when].type is Type.BOOLEAN)
    require(getattr(plan, "in_engine", False) is False)  # every key fetched can be read by the client


def check_statistics(plan: Statistics, below: Columns) -> Columns:
    """No columns. Raises Malformed unless all exact aggregates are known functions of columns below."""
    read = [name for call in plan.calls for name in (*call.columns, *([] if call.when is None else [call.when]))]
    require({*plan.keys, *read} <= below.keys() and all(call.function in EXACT for call in plan.calls))
    require(all(call.fraction is None or type(call.fraction) is Fraction for call in plan.calls))
    return {}


# -- helpers


def require(holds: object) -> None:
    if not holds:
        raise Malformed


def is_flag(value: object) -> bool:
    return value is True or value is False


def is_limit(value: object) -> bool:
    return type(value) is int and 1 <= value <= 2**62


def _keys(names: Iterable[str], below: Columns) -> Iterator[tuple[str, ColumnShape]]:
    for name in names:
        require(name in below)
        yield name, below[name]


def _hull(parts: Sequence[ColumnShape]) -> ColumnShape:
    require(len({part.type for part in parts}) == 1)
    return ColumnShape(type=parts[0].type, low=min(part.low for part in parts), high=max(part.high for part in parts))


def _there(column: str | None) -> str:
    if column is None:
        raise Malformed
    return column


def inputs(node: Node) -> list[Node]:
    """The input relations."""
    return [part for part in _values(node) if isinstance(part, Node)]


def _parts(node: Node) -> Iterator[Any]:
    """The frozen values, with fields of their own, in the fields of an operator."""
    for part in _values(node):
        if isinstance(part, INNER):
            yield part
        if isinstance(part, WindowFunction):
            yield part.frame


def _values(part: Any) -> Iterator[Any]:
    """The values in the fields of a frozen value, including those inside tuples."""
    for name in field_names(type(part)):
        value = getattr(part, name)
        yield from value if isinstance(value, tuple) else (value,)


# The classes that this file was written for, field by field: `tests/kernel/test_checker.py` names their fields, so that a new one
# is not passed over.
PARTS = frozenset({Literal, Ref, Call, Case, Cast, Placeholder, Count, GridSum, Clipped, Moments, Quantizer, Fold, Frame,
                   WindowFunction, Term, Merged, Field})
SUMMARIES = frozenset({GroupedSums, Ranks, OwnerSets, Arcs, JoinSum, Multiplicities, Largest})
RELATIONS = frozenset({Scan, Constants, Filter, Project, Distinct, GroupBy, Join, Lookup, UnionAll, SetOperation, Truncate,
                       TruncateKeys, Numbers, Window, Contributions, Clip, Norms})
