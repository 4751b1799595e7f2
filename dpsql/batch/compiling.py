"""From sums of one expression over one source to the matrix of their queries: a union of products of one factor per column."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.batch.attributes import AttributeColumn, Bits, attributes
from dpsql.batch.column_factors import Keyed, factor
from dpsql.batch.group import Group
from dpsql.batch.linear_queries import LinearStatement, LinearSum
from dpsql.batch.varying_together import varying_together
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.planning.groups import kept_keys
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.plan.certificate import certify
from dpsql.trusted.plan.expr.nodes import Expr, Value
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import GridSum
from dpsql.workload.domain import Attribute, CellDomain
from dpsql.workload.factors import Factor, Ranges, Total
from dpsql.workload.workload import Product, Workload

Numbers = NDArray[np.int64]


class NumberedSum(Frozen):
    """A sum of a statement: `number` is that of the statement, `at` that of the sum in it."""

    statement: LinearStatement
    number: int
    at: int

    @property
    def sum(self) -> LinearSum:
        return self.statement.sums[self.at]


def group_of(members: Sequence[NumberedSum], public: PublicFacts, scratch: Scratch, *, pure: bool) -> tuple[Group, list[Numbers]]:
    """The group of some sums, and for each of them the number of its query for every cell of its statement: -1 if no row can be
    in the cell, and -2 if there is nothing to sum. Raises Unsupported, with a span."""
    source, part = members[0].statement.source, members[0].sum
    keys = dict.fromkeys(key for member in members for key in member.statement.keys)
    tests = dict.fromkeys(test for member in members for test in member.sum.tests)
    columns = attributes(source, [told for member in members for told in (
        *zip(member.statement.keys, (key.values for key in member.statement.question.keys), strict=True),
        *((test, (True,)) for test in member.sum.tests))], scratch, _running(members), _together(members, source))
    builder = _Builder(
        columns=columns, keys=[column.results(list(filter(column.is_read_by, keys)), scratch) for column in columns],
        tests=[column.where_true(list(filter(column.is_read_by, tests)), scratch) for column in columns])
    found = [builder.add(member) for member in members]
    parts, offsets = merged(builder.parts)
    sizes = [Attribute(column.refs[0].column, len(column.values)) for column in columns]
    if not columns:  # no column distinguishes rows: one attribute with one value
        parts, sizes = [Product((Total(1),))], [Attribute("all", 1)]
    view = _view(source, columns, part.expr)
    moved = certify(GroupedSums(input=view, keys=(), summands=(part.summand,)), public).l1
    unit = float(part.summand.grid.step) if isinstance(part.summand, GridSum) else 1.0
    whole = np.concatenate(offsets) if columns else np.zeros(1, dtype=np.int64)
    group = Group(view=view, columns=columns, summand=part.summand, workload=Workload(CellDomain(tuple(sizes)), tuple(parts)),
                  moved=moved, unit=unit, pure=pure,
                  even=not pure and all(member.statement.question.sets is not None for member in members))
    return group, [np.where(own >= 0, whole[own], own) for own in found]


def _running(members: Sequence[NumberedSum]) -> set[Expr]:
    """The keys that order the frame of some sum."""
    return {expr for member in members for expr, key in zip(member.statement.keys, member.statement.question.keys, strict=True)
            if member.sum.over is not None and key.column == member.sum.over.order}


def _together(members: Sequence[NumberedSum], source: Node) -> list[AttributeColumn]:
    """The attributes of columns whose values go together."""
    found = (one.attribute(source) for one in varying_together([member.statement for member in members]))
    return [column for column in found if column is not None]


def _view(source: Node, columns: Sequence[AttributeColumn], value: Expr | None) -> Node:
    """The source reduced to the columns that define cells, and the value that is summed."""
    shown = [(f"a{i}", column.refs[0].column, column.code) for i, column in enumerate(columns)]
    if value is not None:
        shown.append(("value", "value", value))
    return Project(input=source, columns=tuple(shown)) if shown else source


@dataclasses.dataclass
class _Builder:
    """Collects products of factors, equal ones once. Their rows are numbered one product after the other.

    keys   for each column, the values of the keys that are computed from it
    tests  for each column, for which of its values conditions on it are true
    """

    columns: Sequence[AttributeColumn]
    keys: Sequence[Mapping[Expr, Sequence[Value]]]
    tests: Sequence[Mapping[Expr, Bits]]
    parts: list[Product] = dataclasses.field(default_factory=list)
    rows: int = 0
    _first: dict[Product, int] = dataclasses.field(default_factory=dict)
    _factors: dict[object, tuple[Factor, Numbers]] = dataclasses.field(default_factory=dict)

    def add(self, member: NumberedSum) -> Numbers:
        """Add the products of a sum, one for each grouping set; returns the number of the query of each cell."""
        return np.concatenate([self._of_set(member, kept) for kept in kept_keys(member.statement.question)])

    def _of_set(self, member: NumberedSum, kept: Sequence[int]) -> Numbers:
        keys = member.statement.question.keys
        values = {i: keys[i].values for i in kept}
        shape = tuple(len(values[i]) for i in kept)
        chosen, queries = [], np.zeros((1,) * len(kept), dtype=np.int64)
        for at, column in enumerate(self.columns):
            mine = [i for i in kept if column.is_read_by(member.statement.keys[i])]
            made, own = self._factor(member, at, mine)
            here = own.reshape([_told_apart(member, i, len(values[i])) if i in mine else 1 for i in kept])
            lost = np.minimum(np.minimum(queries, 0), np.minimum(here, 0))
            queries = np.where(lost < 0, lost, np.maximum(queries, 0) * made.rows + np.maximum(here, 0))
            chosen.append(made)
        if not any(queries.reshape(-1) >= 0):
            raise Unsupported("no declared value satisfies these conditions", code="workload", span=member.sum.span,
                              try_="conditions that some values satisfy")
        product = Product(tuple(chosen))
        if product not in self._first:
            self._first[product] = self.rows
            self.parts.append(product)
            self.rows += product.rows
        first = self._first[product]
        return np.broadcast_to(np.where(queries >= 0, queries + first, queries), shape).reshape(-1)

    def _factor(self, member: NumberedSum, at: int, mine: Sequence[int]) -> tuple[Factor, Numbers]:
        """The factor of a column, and the number of the query for each combination of the keys computed from it."""
        statement, part, told = member.statement, member.sum, self.keys[at]
        tests = tuple(test for test in part.tests if test in self.tests[at])
        keys, over = statement.question.keys, part.over
        known = tests, tuple((statement.keys[i], keys[i].values, keys[i].column) for i in mine), over
        if (at, known) not in self._factors:
            size = len(self.columns[at].values)
            bits = np.packbits(np.ones(size, dtype=bool))
            for test in tests:
                bits &= self.tests[at][test]
            kept = np.unpackbits(bits, count=size).astype(bool)
            names = [keys[i].column for i in mine]
            each = tuple(place for place, name in enumerate(names) if over is None or name in over.within)
            ordered = over is not None and over.order in names and over.order not in over.within
            running = names.index(over.order) if over is not None and over.order is not None and ordered else None
            self._factors[at, known] = factor(Keyed(
                values=tuple(keys[i].values for i in mine), of=tuple(told[statement.keys[i]] for i in mine), each=each,
                running=running, over=over), kept)
        return self._factors[at, known]


def _told_apart(member: NumberedSum, key: int, size: int) -> int:
    """The number of a key's values that a sum distinguishes: all of them, or 1 if it sums over them."""
    over, column = member.sum.over, member.statement.question.keys[key].column
    return size if over is None or column in over.within or column == over.order else 1


def merged(parts: Sequence[Product]) -> tuple[list[Product], list[Numbers]]:
    """Merge products that differ only in the ranges of one attribute; also returns the new number of each row of every product.

    Five hundred ranges then form one matrix, which strategies can exploit, and not a union of five hundred.
    """
    rows = [np.arange(part.rows) for part in parts]  # within the product that `owner` names
    owner, kept = list(range(len(parts))), list(parts)
    for axis in range(len(parts[0].factors) if parts else 0):
        buckets: dict[object, list[int]] = {}
        for at, part in enumerate(kept):
            if isinstance(part.factors[axis], Ranges):
                buckets.setdefault((part.factors[:axis], part.factors[axis + 1:]), []).append(at)
        kept, owner, rows = _joined(kept, owner, rows, axis, [bucket for bucket in buckets.values() if len(bucket) > 1])
    first = np.cumsum([0, *(part.rows for part in kept)])
    return kept, [first[own] + here for own, here in zip(owner, rows, strict=True)]


def _joined(parts: list[Product], owner: list[int], rows: list[Numbers], axis: int,
            buckets: Sequence[Sequence[int]]) -> tuple[list[Product], list[int], list[Numbers]]:
    """The same with each bucket of products merged into one product, which has all of their ranges along an axis."""
    made: dict[int, tuple[Product, dict[int, Numbers]]] = {}
    for bucket in buckets:
        ends: dict[tuple[int, int], int] = {}
        places = {}
        for at in bucket:
            ranges = parts[at].factors[axis]
            assert isinstance(ranges, Ranges)
            places[at] = np.array([ends.setdefault(end, len(ends)) for end in zip(ranges.lows, ranges.highs, strict=True)])
        lows, highs = zip(*ends, strict=True)
        factors = list(parts[bucket[0]].factors)
        factors[axis] = Ranges(factors[axis].n, lows, highs)
        made[bucket[0]] = Product(tuple(factors)), places
    home = {at: bucket[0] for bucket in buckets for at in bucket}
    stays = [at for at in range(len(parts)) if home.get(at, at) == at]
    number = {at: i for i, at in enumerate(stays)}
    found = []
    for own, here in zip(owner, rows, strict=True):
        if own in home:
            whole, places = made[home[own]]
            where = list(np.unravel_index(here, parts[own].shape))
            where[axis] = places[own][where[axis]]
            here = np.ravel_multi_index(where, whole.shape)
        found.append(here)
    return [made[at][0] if at in made else parts[at] for at in stays], [number[home.get(own, own)] for own in owner], found
