"""GROUP BY inside a query: exact aggregates over each entity's own rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpsql.frozen import Frozen, field, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.functions import SAFE_INTEGERS
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability, columns_of, least
from dpsql.trusted.plan.operators.grouped_sums import saturated
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import value_or_null
from dpsql.types import ANY_NUMBER, Interval, Span, Type

FOLDS = ("count", "count_distinct", "sum", "avg", "min", "max")
MOST_ROWS = 2**50  # no relation has more, so that integer arithmetic on counts is safe


class Fold(Frozen):
    """One aggregate of a GROUP BY: `function` is one of `FOLDS`.

    Sums and averages of DOUBLE run over a `grid`, as integers, so that they do not depend on the order of rows.
    """

    id: str
    name: str
    function: str
    column: str | None = None
    grid: Quantizer | None = None


def fold_facts(part: Fold, below: Facts | None, *, most: int | None, empty: bool) -> Facts:
    """Facts about an aggregate of a column (None: of rows) over at most `most` rows, and also over no rows if `empty`."""
    if part.function == "count" or (part.function == "count_distinct" and below is not None):
        return Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, MOST_ROWS), whole=True,
                     declared=Interval(0, most if most is not None else math.inf))
    if below is None:
        raise InvalidPlan(f"{part.function} needs a column")
    if part.function in ("min", "max"):
        return replace(below, nullable=below.nullable or empty)
    if not below.type.numeric or (below.type is Type.DOUBLE and part.grid is None):
        raise InvalidPlan(f"{part.function} needs a number on a grid")
    if part.function == "avg":
        return Facts(type=Type.DOUBLE, declared=below.declared, search=below.search)
    if part.function != "sum":
        raise InvalidPlan(f"unknown aggregate {part.function}")
    ends = below.declared
    if most is not None and ends.finite:
        ends = Interval(min(ends.low, ends.low * most), max(ends.high, ends.high * most))
    else:
        ends = ANY_NUMBER
    whole = below.type is Type.BIGINT
    return Facts(type=below.type, nullable=True, physical=SAFE_INTEGERS if whole else ANY_NUMBER, declared=ends, whole=whole,
                 step=below.step if whole or part.grid is None else part.grid.step, search=below.search)


def fold_sql(part: Fold, name: str, kind: Type, over: str = "") -> str:
    """An aggregate over the printed column `name` (* for rows). `over` is written after each call if it is a window function."""
    if part.function in ("min", "max"):
        return f"{part.function.upper()}({value_or_null(name, kind, settled(name, kind))}){over}"
    if part.function in ("count", "count_distinct"):
        return f"COUNT({'DISTINCT ' if part.function == 'count_distinct' else ''}{value_or_null(name, kind)}){over}"
    if kind is Type.BIGINT:
        total = f"SUM({name}){over}"
        return _mean(total, f"COUNT({name}){over}", "1.0") if part.function == "avg" else (
            f"(CASE WHEN {total} IS NOT NULL THEN {saturated(total)} END)")
    if part.grid is None:
        raise InvalidPlan("numbers that are not whole are added up on a grid")
    cell = part.grid.to_sql(name, kind)
    inverse = repr(float(1 / part.grid.step))
    return _mean(f"SUM({cell}){over}", f"COUNT({cell}){over}", inverse) if part.function == "avg" else (
        f"(CAST(SUM({cell}){over} AS DOUBLE) / CAST({inverse} AS DOUBLE))")


def _mean(total: str, count: str, inverse: str) -> str:
    return f"(CAST({total} AS DOUBLE) / (NULLIF({count}, 0) * CAST({inverse} AS DOUBLE)))"


class GroupBy(Node):
    """One row for each value of `keys`, with the aggregates of its rows. `most_rows`, if given, narrows declared ranges.

    Rows are in one group if they agree on the keys, in the sense in which frequencies count rows that agree (`settled` merges
    nothing else), so frequencies of keys are valid for the result too.

    Write a for the rows below that one entity can change.

    Proof. (1) *All owners are among the keys.* Each group is made of rows of the same entities: if one of them leaves, its groups
    leave with it, at most one for each of its rows below (exactly one if the owner is the only key), and no other group changes.
    (2) *Otherwise groups mix entities.* A group whose rows change leaves as one row and comes back as another, whose aggregates
    may be anything in their ranges: 2 changed rows for each such group. There are at most a such groups, and no more than there
    can be groups (only one if there are no keys). If no two rows agree on the keys, in every database, each group is
    one row and comes or goes with it: a. The aggregates of a group depend on all entities in it, so it has no owner.
    """

    input: Node
    keys: tuple[str, ...]
    folds: tuple[Fold, ...]
    most_rows: int | None = None
    span: Span | None = field(default=None, compare=False)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if not self.keys and not self.folds:
            raise InvalidPlan("nothing is grouped")
        return (*(self.input.field(key) for key in self.keys), *(self._field(part) for part in self.folds))

    def _field(self, part: Fold) -> Field:
        below = self.input.field(part.column).facts if part.column is not None else None
        return Field(id=part.id, name=part.name, facts=fold_facts(part, below, most=self.most_rows, empty=not self.keys))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        kept = {agreed: rows for agreed, rows in self.input.max_frequencies.items()
                if agreed <= set(self.keys)} if self.keys else {}
        return least(kept, {frozenset(self.keys): 1})

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].public:
            return Stability(rows=0, because="public")
        owners, rows = below[0].owners, below[0].rows
        if not owners or not set(owners) <= set(self.keys):
            return self._mixed(rows)
        if self.keys == owners[:1]:
            return Stability(rows=1, owners=owners, because="one row for each entity")
        return Stability(rows=rows, owners=owners, because="groups within the same entities")

    def _mixed(self, rows: int | None) -> Stability:
        why = "a group mixes the rows of many entities"
        if self.keys and rows is not None and self.input.max_frequency(self.keys) == 1:
            return Stability(rows=rows, because="each group is one row")
        touched = [number for number in (rows, self.max_frequency(())) if number is not None]
        return Stability(rows=2 * min(touched) if touched else None, because=why)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.input)
        keys = {key: settled(names[key], self.input.env[key].type) for key in self.keys}
        parts = [f"{printed} AS {quote(key)}" for key, printed in keys.items()]
        parts += [f"{self._aggregate(part, names)} AS {quote(part.id)}" for part in self.folds]
        group = f" GROUP BY {', '.join(keys.values())}" if self.keys else ""
        return f"SELECT {', '.join(parts)} FROM ({below[0]}) AS t0{group}"

    def _aggregate(self, part: Fold, names: dict[str, str]) -> str:
        if part.column is None:
            return fold_sql(part, "*", Type.BIGINT)
        return fold_sql(part, names[part.column], self.input.env[part.column].type)
