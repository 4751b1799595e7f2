"""More sets of entities than memory holds: what the engine lists is read again for every question, and never kept whole.

Whether a join has more sets than there is room for may hang on one entity, so it must not decide whether a statement is answered,
nor what is answered. So the same V(level) is bounded here in another way (`extensions.value` has its sensitivity, which rests on
V alone): some number F with UNIT V <= F <= UNIT V + slack is told, wherever it comes from.

(1) The load of every entity, and the weight of all rows, are sums over the listed rows.
(2) Entities whose load is within the level bind nobody (`extensions.merging`, first step). Struck from the rows, they leave far
    fewer sets; and where these have room, they are worked out as any others are.
(3) Else *columns are generated*: for some sets a solver proposes prices y of the entities and a point x. For any y >= 0

        D(y) = level * sum y_e + sum over all rows of w_r * max(0, 1 - sum of y_e over the owners of r) >= V

    (weak duality), one sum over the listed rows; and what a feasible point takes of some of the sets, P, is at most V. Where
    UNIT (D - P) <= slack, UNIT D is told. If not, sets that the prices do not cover are taken in, and it begins again.

All sums are of integers, prices are multiples of 2^-BITS, and nothing that a solver says is believed. A level is left unsolved
only where more sets than there is room for were taken in and the two have not met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from dpsql.extensions import bounds
from dpsql.extensions.certified import BITS, WHOLE, certified, prices_of
from dpsql.extensions.linear import points
from dpsql.extensions.merging import reduced
from dpsql.extensions.owned import NOBODY, Owned, each_once, loads, merged
from dpsql.extensions.value import Extension
from dpsql.measurements.reading.context import Context
from dpsql.plan.expr.printing import literal, quote
from dpsql.plan.operators.shares import LARGEST, UNIT, Shares, slack
from dpsql.plan.operators.summands import Count
from dpsql.plan.operators.tally import saturated

SAMPLE = 2**20  # sets that are taken in at once
WEIGHT = 't."#w"'


@dataclass(frozen=True)
class Listed:
    """The rows of one cell of a plan, as the engine lists them: names "#n0", "#n1", ... in rising order, a weight "#w" > 0."""

    plan: Shares
    cell: int | None
    context: Context

    @cached_property
    def sql(self) -> str:
        plan, read = self.plan, self.plan.listed(self.context.sql(self.plan.input))
        names = [f"t1.{quote(owner)} AS \"#n{i}\"" for i, owner in enumerate(plan.owners)]
        weight = self._weight()
        tests = [f"({weight} > 0)"] + ([f"(t1.{quote(plan.cell)} = {self.cell})"] if plan.cell is not None else [])
        return f"SELECT {', '.join(names)}, {weight} AS \"#w\" FROM ({read}) AS t1 WHERE {' AND '.join(tests)}"

    def _weight(self) -> str:
        """What one row adds: its value, or 1 where it counts."""
        if not self.plan.summed:
            return "CAST(1 AS BIGINT)"
        value, = (f"t1.{quote(value)}" for value in self.plan.summed)
        if isinstance(self.plan.summand, Count):
            return f"CAST((CASE WHEN {value} IS NOT NULL THEN 1 ELSE 0 END) AS BIGINT)"
        return f"COALESCE({value}, CAST(0 AS BIGINT))"

    def once(self, i: int) -> str:
        """Whether the name in place i is not the same as the one before it."""
        return "TRUE" if i == 0 else f"(t.\"#n{i}\" <> t.\"#n{i - 1}\")"

    @property
    def places(self) -> range:
        return range(len(self.plan.owners))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.context.reader.rows(sql)

    @cached_property
    def loads(self) -> dict[Any, int]:
        """The weight of the rows that name each entity."""
        each = " UNION ALL ".join(f"SELECT t.\"#n{i}\" AS \"@\", {WEIGHT} AS \"#w\" FROM ({self.sql}) AS t WHERE {self.once(i)}"
                                  for i in self.places)
        return dict(self.rows(f"SELECT t.\"@\", CAST(SUM({WEIGHT}) AS HUGEINT) FROM ({each}) AS t GROUP BY t.\"@\""))

    @cached_property
    def by_size(self) -> list[int]:
        """The weight of the rows of 0, 1, 2, ... entities."""
        size = " + ".join(f"(CASE WHEN {self.once(i)} THEN 1 ELSE 0 END)" for i in self.places)
        found = dict(self.rows(f"SELECT {size} AS \"#s\", CAST(SUM({WEIGHT}) AS HUGEINT) FROM ({self.sql}) AS t GROUP BY {size}"))
        return [int(found.get(size, 0)) for size in range(len(self.plan.owners) + 1)]

    def left(self, coded: str) -> tuple[int, int]:
        """The weight of the rows that name nobody with a number, and about how many sets the others name."""
        (whole,), = self.rows(f"SELECT COALESCE(SUM({WEIGHT}), 0) FROM ({coded}) AS t WHERE (NOT {self.named})")
        return int(whole), self.about(coded, "TRUE")

    def about(self, coded: str, test: str) -> int:
        """About how many sets of the numbers there are on whose rows a test is true."""
        (many,), = self.rows(f"SELECT approx_count_distinct({self.mixed}) FROM ({coded}) AS t WHERE {self.named} AND {test}")
        return int(many)

    def coded(self, numbers: Mapping[Any, int], prices: Mapping[Any, int] = MappingProxyType({})) -> str:
        """The rows with a number "#c0", "#c1", ... in place of each name, each once, NULL for names without one; and "#p", what
        the names cost together.
        """
        kind = self.plan.field(self.plan.owners[0]).facts.type
        listed = ", ".join(f"({literal(name, kind)}, CAST({number} AS BIGINT), CAST({prices.get(name, 0)} AS BIGINT))"
                           for name, number in (numbers or {None: 0}).items())  # nobody's name is NULL
        parts = ", ".join(f"(CASE WHEN {self.once(i)} THEN h{i}.\"#c\" END) AS \"#c{i}\"" for i in self.places)
        cost = " + ".join(f"COALESCE((CASE WHEN {self.once(i)} THEN h{i}.\"#p\" END), 0)" for i in self.places)
        joins = " ".join(f"LEFT JOIN (VALUES {listed}) AS h{i}(\"@\", \"#c\", \"#p\") ON (t.\"#n{i}\" = h{i}.\"@\")"
                         for i in self.places)
        return f"SELECT {parts}, ({cost}) AS \"#p\", {WEIGHT} AS \"#w\" FROM ({self.sql}) AS t {joins}"

    @cached_property
    def named(self) -> str:
        """Whether a row names somebody with a number."""
        return "(" + " OR ".join(f"(t.\"#c{i}\" IS NOT NULL)" for i in self.places) + ")"

    @cached_property
    def mixed(self) -> str:
        """A hash of the set of the numbers, wherever they stand."""
        parts = [f"(CASE WHEN t.\"#c{i}\" IS NULL THEN CAST(0 AS UBIGINT) ELSE hash(t.\"#c{i}\") END)" for i in self.places]
        return reduce(lambda left, right: f"xor({left}, {right})", parts)

    def sampled(self, many: int) -> str:
        """About SAMPLE of so many sets, each with all of its rows."""
        return f"((hash({self.mixed}) % {max(1, many // SAMPLE)}) = 0)"

    def sets(self, coded: str, test: str, entities: int, room: int) -> Owned:
        """The sets of the numbers of rows on which a test of the set is true; MemoryError where they are more than `room`."""
        codes = ", ".join(f't."#c{i}"' for i in self.places)
        *named, weights = self.context.reader.columns(
            f"SELECT {codes}, {saturated(f'SUM({WEIGHT})', LARGEST)} AS \"#w\" FROM ({coded}) AS t "
            f"WHERE {self.named} AND {test} GROUP BY {codes} LIMIT {room + 1}")
        if len(weights) > room:
            raise MemoryError("there are too many sets of entities")
        codes_of = np.stack([np.ma.filled(column, NOBODY).astype(np.int32) for column in named], axis=1)
        owners, sizes = merged(each_once(codes_of), np.ma.getdata(weights).astype(np.int64), entities)
        return Owned(sizes, np.asfortranarray(owners), entities)

    def bound(self, prices: Mapping[Any, int], level: int) -> int:
        """D of these prices in 1 / WHOLE."""
        short = f"CAST((CASE WHEN t.\"#p\" < {WHOLE} THEN {WHOLE} - t.\"#p\" ELSE 0 END) AS HUGEINT)"
        (rest,), = self.rows(f"SELECT COALESCE(SUM({WEIGHT} * {short}), 0) FROM ({self.coded(prices, prices)}) AS t")
        return level * sum(prices.values()) + int(rest)


def together(first: Owned, second: Owned) -> Owned:
    """The sets of either; a set that both have weighs the same in both."""
    owners, at = np.unique(np.concatenate((first.owners, second.owners)), axis=0, return_index=True)
    return Owned(np.concatenate((first.weights, second.weights))[at], np.asfortranarray(owners), first.entities)


class Streamed:
    """F at each of several levels, as `extensions.value.Extension` has it: low[j] <= F(levels[j]) <= high[j]."""

    def __init__(self, listed: Listed, levels: Sequence[int], room: int) -> None:
        """`room` is how many sets are held at once."""
        self._listed, self.levels, self._room = listed, tuple(levels), room
        self._owners = len(listed.plan.owners)
        loads = listed.loads.values()
        self.low = [UNIT * max((min(load, level) for load in loads), default=0) for level in self.levels]
        self.high = [bounds.upper(listed.by_size, sum(min(load, level) for load in loads)) for level in self.levels]

    def exact(self, j: int) -> bool:
        return self.low[j] == self.high[j]

    def value(self, j: int) -> int:
        """F(levels[j])."""
        if not self.exact(j):
            self.refine(j)
        return self.low[j]

    def refine(self, j: int) -> None:
        """Work F of one level out. (Where D is above what the loads allow, the smaller one is an upper bound too.)"""
        self.low[j] = self.high[j] = max(self.low[j], min(self.high[j], self._held(self.levels[j])))

    def _held(self, level: int) -> int:
        listed, heavy = self._listed, sorted(name for name, load in self._listed.loads.items() if load > level)
        if not heavy:
            return UNIT * sum(listed.by_size)
        coded = listed.coded({name: code for code, name in enumerate(heavy)})
        whole, many = listed.left(coded)
        if many <= self._room:
            sets = listed.sets(coded, "TRUE", len(heavy), 2 * self._room)  # the number was an estimate
            return UNIT * whole + Extension(sets, (level,), self._owners, listed.context.solvers).value(0)
        return self._generated(heavy, coded, level, whole, many)

    def _generated(self, heavy: Sequence[Any], coded: str, level: int, whole: int, many: int) -> int:
        """F by generating columns; see the module. Raises MemoryError where the sets that it takes find no room."""
        listed = self._listed
        taken = listed.sets(coded, listed.sampled(many), len(heavy), self._room)
        while True:
            prices, least = self._proposed(heavy, taken, level)
            units = UNIT * listed.bound({name: price for name, price in prices.items() if price}, level) >> BITS
            if units - least - UNIT * whole <= slack(level, self._owners):
                return units
            grown = together(taken, self._uncovered(prices))
            if len(grown.weights) == len(taken.weights) or len(grown.weights) > self._room:
                raise MemoryError("there are too many sets of entities")
            taken = grown

    def _proposed(self, heavy: Sequence[Any], taken: Owned, level: int) -> tuple[dict[Any, int], int]:
        """Prices of the heavy entities that are best for the sets that were taken, and what V of these is not below."""
        prices, least = np.zeros(len(heavy), dtype=np.int64), 0
        if len(taken.weights):
            rows, allowed = taken.capped(level), slack(level, self._owners)
            small = reduced(rows, loads(rows.owners, rows.weights, rows.entities), level)
            for point in points(small, allowed, self._listed.context.solvers):
                found = certified(taken, level, small, point)
                prices, least = prices_of(taken, small, point), found.least
                if found.units - least <= allowed:
                    break
        return dict(zip(heavy, prices.tolist(), strict=True)), least

    def _uncovered(self, prices: Mapping[Any, int]) -> Owned:
        """Some of the sets that these prices do not cover."""
        listed, open_ = self._listed, f"(t.\"#p\" < {WHOLE})"
        priced = listed.coded({name: code for code, name in enumerate(prices)}, prices)
        many = listed.about(priced, open_)
        return listed.sets(priced, f"{open_} AND {listed.sampled(many)}", len(prices), self._room)
