"""Lipschitz extensions if there are more sets of entities than fit into memory: the engine lists the sets again for each
query.

Whether the sets of a join fit into memory may depend on one entity, so it must affect neither whether a statement is answered
nor the answer. So the same V(level) is bounded here in another way: any number F with UNIT V <= F <= UNIT V + slack will do,
however it was found, as its sensitivity follows from V alone (`extensions.lipschitz_extension`).

(1) The load of every entity, and the weight of all rows, are sums over the listed rows.
(2) Entities whose load is within the level impose no constraint (`extensions.merging`, first step). Without them in the rows,
    there are far fewer sets; if these fit into memory, F is computed from them as usual.
(3) Otherwise bounds of V are computed from sums over the rows and from a few of their sets (`extensions.cuts`), until

        D - P <= slack, in units, for a lower bound P and an upper bound D, of which UNIT D is used as F.

All sums are of integers, prices are multiples of 2^-BITS, and no solver's result is trusted. So every level is answered,
however many sets there are: only the time grows with the rows, and the disk space that the engine uses for grouping.

Where weights may be negative, there is one V for the sets with a positive sum and one for those with a negative sum. Then the
engine first adds up the rows of each set, and each such sum is a row here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.extensions import bounds
from dpsql.trusted.extensions.certified import WHOLE
from dpsql.trusted.extensions.cuts import CuttingPlanes
from dpsql.trusted.extensions.level_bounds import LevelBounds
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.owned import NOBODY, Integers, Owned, each_once, merged
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.plan.expr.printing import literal, quote
from dpsql.trusted.plan.operators.grouped_sums import saturated
from dpsql.trusted.plan.operators.owner_sets import LARGEST, UNIT, VALUE, OwnerSets, slack
from dpsql.trusted.plan.operators.summands import Count
from dpsql.trusted.reader import Query

WEIGHT = 't."#w"'
EITHER = 2


class Listed(Frozen, kw_only=False):
    """The rows of one cell of a plan, as the engine lists them: names "#n0", "#n1", ... in increasing order, then NULL, and a
    weight "#w" > 0. With a `sign`, each row is a set whose sum has that sign (any sign for EITHER), and its weight is |sum|.
    """

    plan: OwnerSets
    cell: int | None
    context: Context
    sign: int = 0

    @cached_property
    def sql(self) -> str:
        if not self.sign:
            return self._rows(positive=True)
        names, total = [f't."#n{i}"' for i in self.places], saturated(f"SUM({WEIGHT})", LARGEST)
        each = (f"SELECT list_sort(list_distinct([{', '.join(names)}])) AS \"#set\", {total} AS \"#w\" "
                f"FROM ({self._rows(positive=False)}) AS t GROUP BY {', '.join(names)}")
        sums = f"SELECT t.\"#set\", CAST(SUM({WEIGHT}) AS HUGEINT) AS \"#w\" FROM ({each}) AS t GROUP BY t.\"#set\""
        parts = [f't."#set"[{i + 1}] AS "#n{i}"' for i in self.places]
        size = f"abs({WEIGHT})" if self.sign == EITHER else f"({self.sign} * {WEIGHT})"
        return f"SELECT {', '.join(parts)}, {size} AS \"#w\" FROM ({sums}) AS t WHERE ({size} > 0)"

    def _rows(self, *, positive: bool) -> str:
        plan, read = self.plan, self.plan.listed(self._input[0])
        names = [f"t1.{quote(name)} AS \"#n{i}\"" for i, name in enumerate(plan.name_columns)]
        weight = self._weight()
        tests = [f"({weight} > 0)" if positive else "TRUE"]
        tests += [f"(t1.{quote(plan.cell)} = {self.cell})"] if plan.cell is not None else []
        return f"SELECT {', '.join(names)}, {weight} AS \"#w\" FROM ({read}) AS t1 WHERE {' AND '.join(tests)}"

    @cached_property
    def _input(self) -> Query:
        return self.context.query(self.plan.input)

    def _weight(self) -> str:
        """The amount that one row adds: its value, or 1 if it is counted."""
        if not self.plan.summed:
            return "CAST(1 AS BIGINT)"
        value, = (f"t1.{quote(value)}" for value in self.plan.summed)
        if isinstance(self.plan.summand, Count):
            return f"CAST((CASE WHEN {value} IS NOT NULL THEN 1 ELSE 0 END) AS BIGINT)"
        return f"COALESCE({value}, CAST(0 AS BIGINT))"

    def once(self, i: int) -> str:
        """Whether the name in position i differs from the previous one."""
        return "TRUE" if i == 0 else f"(t.\"#n{i}\" <> t.\"#n{i - 1}\")"

    @property
    def places(self) -> range:
        return range(self.plan.width)

    def room(self, name: Any, level: int) -> int:
        """The limit on the load of an entity, which is the level, or of a value, which is 1."""
        return 1 if self.plan.once is not None and name.startswith(VALUE) else level

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.context.reader.rows(sql, self._input[1])

    @cached_property
    def loads(self) -> dict[Any, int]:
        """The weight of the rows that name each entity."""
        names = [f't."@{i}"' for i in self.places]
        each = ", ".join(f"(CASE WHEN {self.once(i)} THEN t.\"#n{i}\" END) AS \"@{i}\"" for i in self.places)
        found: dict[Any, int] = {}
        rows = f"SELECT {each}, {WEIGHT} FROM ({self.sql}) AS t"
        for *named, weight in self.rows(
                f"SELECT {', '.join(names)}, CAST(SUM({WEIGHT}) AS HUGEINT) FROM ({rows}) AS t "
                f"GROUP BY GROUPING SETS ({', '.join(f'({name})' for name in names)})"):
            for name in named:  # all but one are NULL, or all of them where rows have no name in that place
                if name is not None:
                    found[name] = found.get(name, 0) + int(weight)
        return found

    @cached_property
    def by_size(self) -> list[int]:
        """The weights of the rows with 0, 1, 2, ... entities."""
        size = " + ".join(f"(CASE WHEN {self.once(i)} THEN 1 ELSE 0 END)" for i in self.places)
        found = dict(self.rows(f"SELECT {size} AS \"#s\", CAST(SUM({WEIGHT}) AS HUGEINT) FROM ({self.sql}) AS t GROUP BY {size}"))
        return [int(found.get(size, 0)) for size in range(self.plan.width + 1)]

    def left(self, coded: str) -> tuple[int, int]:
        """The weight of the rows without a numbered entity, and an estimate of the number of sets among the others."""
        (whole,), = self.rows(f"SELECT COALESCE(SUM({WEIGHT}), 0) FROM ({coded}) AS t WHERE (NOT {self.named})")
        return int(whole), self.about(coded, "TRUE")

    def about(self, coded: str, test: str) -> int:
        """An estimate of the number of distinct sets of numbers in the rows that satisfy a test."""
        (many,), = self.rows(f"SELECT approx_count_distinct({self.mixed}) FROM ({coded}) AS t WHERE {self.named} AND {test}")
        return int(many)

    def coded(self, numbers: Mapping[Any, int], prices: Mapping[Any, int] = MappingProxyType({}), most: int = LARGEST) -> str:
        """The rows with numbers "#c0", "#c1", ... instead of their names, each once, NULL for names without a number; "#p",
        the total price of the names; and their weight, cut off at `most`.
        """
        kind = self.plan.field(self.plan.owners[0]).facts.type
        listed = ", ".join(f"({literal(name, kind)}, CAST({number} AS BIGINT), CAST({prices.get(name, 0)} AS BIGINT))"
                           for name, number in (numbers or {None: 0}).items())  # nobody's name is NULL
        parts = ", ".join(f"(CASE WHEN {self.once(i)} THEN h{i}.\"#c\" END) AS \"#c{i}\"" for i in self.places)
        cost = " + ".join(f"COALESCE((CASE WHEN {self.once(i)} THEN h{i}.\"#p\" END), 0)" for i in self.places)
        joins = " ".join(f"LEFT JOIN (VALUES {listed}) AS h{i}(\"@\", \"#c\", \"#p\") ON (t.\"#n{i}\" = h{i}.\"@\")"
                         for i in self.places)
        size = f"(CASE WHEN {WEIGHT} > {most} THEN {most} ELSE {WEIGHT} END)"
        return f"SELECT {parts}, ({cost}) AS \"#p\", {size} AS \"#w\" FROM ({self.sql}) AS t {joins}"

    @cached_property
    def named(self) -> str:
        """Whether a row names a numbered entity."""
        return "(" + " OR ".join(f"(t.\"#c{i}\" IS NOT NULL)" for i in self.places) + ")"

    @cached_property
    def mixed(self) -> str:
        """A hash of the set of numbers, independent of their positions."""
        parts = [f"(CASE WHEN t.\"#c{i}\" IS NULL THEN CAST(0 AS UBIGINT) ELSE hash(t.\"#c{i}\") END)" for i in self.places]
        return reduce(lambda left, right: f"xor({left}, {right})", parts)

    def sets(self, coded: str, test: str, entities: int, most: int) -> Owned:
        """The sets of numbers that satisfy a test, at most `most`."""
        codes = ", ".join(f't."#c{i}"' for i in self.places)
        *named, weights = self.context.reader.columns(
            f"SELECT {codes}, {saturated(f'SUM({WEIGHT})', LARGEST)} AS \"#w\" FROM ({coded}) AS t "
            f"WHERE {self.named} AND {test} GROUP BY {codes} LIMIT {most}", self._input[1])
        codes_of = np.stack([np.ma.filled(column, NOBODY).astype(np.int32) for column in named], axis=1)
        owners, sizes = merged(each_once(codes_of), np.ma.getdata(weights).astype(np.int64), entities)
        return Owned(sizes, np.asfortranarray(owners), entities)


FAR = f"abs(t.\"#p\" - {WHOLE})"
BUCKET = f"(CASE WHEN {FAR} = 0 THEN 0 ELSE 1 + CAST(floor(log2({FAR})) AS BIGINT) END)"


class HeavyRows(Frozen, kw_only=False):
    """The listed rows that name heavy entities, each of weight at most `level`; a source of rows for `extensions.cuts`."""

    listed: Listed
    heavy: Sequence[Any]
    level: int

    def _priced(self, prices: Integers) -> str:
        asked = {name: price for name, price in zip(self.heavy, prices.tolist(), strict=True) if price}
        return self.listed.coded({name: code for code, name in enumerate(self.heavy)}, asked, self.level)

    def cut(self, prices: Integers) -> tuple[int, list[int]]:
        """See `extensions.cuts.RowSource`. Rows are read once, grouped by each position of a name and in total."""
        codes = [f't."#c{i}"' for i in self.listed.places]
        weight, load = 0, [0] * len(self.heavy)
        for *named, together, there in self.listed.rows(
                f"SELECT {', '.join(codes)}, GROUPING({', '.join(codes)}), CAST(SUM({WEIGHT}) AS HUGEINT) "
                f"FROM ({self._priced(prices)}) AS t WHERE {self.listed.named} AND (t.\"#p\" < {WHOLE}) "
                f"GROUP BY GROUPING SETS ({', '.join(f'({code})' for code in codes)}, ())"):
            if together == 2 ** len(codes) - 1:
                weight = int(there or 0)
            for code in named:
                if code is not None:
                    load[code] += int(there)
        return weight, load

    def near(self, prices: Integers, many: int) -> Owned:
        """Sets in increasing order of |price - WHOLE|, grouped by powers of two; only a sample of the last group."""
        priced, mixed = self._priced(prices), self.listed.mixed
        so_far, test = 0, "FALSE"
        counted = f"SELECT {BUCKET}, approx_count_distinct({mixed}) FROM ({priced}) AS t WHERE {self.listed.named}"
        for bucket, here in sorted(self.listed.rows(f"{counted} GROUP BY {BUCKET}")):
            part = -(-here // (many - so_far))
            test = f"(({BUCKET} < {bucket}) OR (({BUCKET} = {bucket}) AND (hash({mixed}) % {part} = 0)))"
            so_far += here
            if so_far >= many:
                break
        return self._some(priced, test, many)

    def sample(self, many: int) -> Owned:
        coded = self._priced(np.zeros(len(self.heavy), dtype=np.int64))
        return self._some(coded, f"(hash({self.listed.mixed}) % {-(-self.listed.about(coded, 'TRUE') // many) or 1} = 0)", many)

    def _some(self, coded: str, test: str, many: int) -> Owned:
        """The sets that satisfy the test: at most 2 * `many`, as their number was only estimated."""
        return self.listed.sets(coded, test, len(self.heavy), 2 * many)


class Streamed(LevelBounds):
    """Bounds of F at each of several levels, as in `extensions.lipschitz_extension.LipschitzExtension`: low[j] <= F(levels[j])
    <= high[j].
    """

    def __init__(self, listed: Listed, levels: Sequence[int], room: int) -> None:
        """`room` is the number of sets that fit into memory at once."""
        self._listed, self.levels, self._room = listed, tuple(levels), room
        self._owners = listed.plan.width
        held = [[min(load, listed.room(name, level)) for name, load in listed.loads.items()] for level in self.levels]
        self.low = [UNIT * (1 if listed.plan.once is not None and loads else max(loads, default=0)) for loads in held]
        self.high = [bounds.upper(listed.by_size, sum(loads)) for loads in held]

    def refine(self, j: int) -> None:
        """Compute F at one level. (Where D exceeds the bound from the loads, the smaller of the two is an upper bound too.)"""
        self.low[j] = self.high[j] = max(self.low[j], min(self.high[j], self._held(self.levels[j])))

    def _held(self, level: int) -> int:
        listed = self._listed
        heavy = sorted(name for name, load in listed.loads.items() if load > listed.room(name, level))
        room = [listed.room(name, level) for name in heavy]
        if not heavy:
            return UNIT * sum(listed.by_size)
        coded = listed.coded({name: code for code, name in enumerate(heavy)})
        whole, many = listed.left(coded)
        if many <= self._room:
            sets = listed.sets(coded, "TRUE", len(heavy), 2 * self._room)  # the number was an estimate
            if len(sets.weights) < 2 * self._room:
                sets = replace(sets, singles=sum(name.startswith(VALUE) for name in heavy) if listed.plan.once is not None else 0)
                return UNIT * whole + LipschitzExtension(sets, (level,), self._owners, listed.context.solvers).value(0)
        search = CuttingPlanes(HeavyRows(listed, heavy, level), room, halves=self._owners <= 2, solvers=listed.context.solvers)
        search.narrowed(slack(level, self._owners))
        return UNIT * whole + search.units
