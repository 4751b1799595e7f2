"""Noisy counts of combinations of keys as records: they are kept with the answer, and read as marginals by later statements.

A record is over the values that keys can tell apart, with cells for undeclared ones (`batch.attributes`), and is identified by
the rows and by these values. So what one statement was told is found by another, if both are about the same rows under the same
limits and conditions: counts by GROUP BY, workloads, and the marginals of synthetic tables.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.batch.combine import ColumnCells, Combined, deviation, given, weighted
from dpsql.batch.compiling import NumberedSum, group_of
from dpsql.batch.linear_queries import LinearStatement, LinearSum
from dpsql.batch.records import MeasuredQueries, Record, about
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.questions.identity import canonical, digest
from dpsql.questions.question import Key, Question
from dpsql.questions.rules.flatten import lowered
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.sql.binding.domains import Scratch
from dpsql.strategies.strategy import Block
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.certificate import Unbounded
from dpsql.trusted.plan.expr.nodes import columns
from dpsql.trusted.plan.node import InvalidPlan, Node, PublicFacts
from dpsql.trusted.plan.operators.summands import Count
from dpsql.workload.factors import Array, Dense, Factor, Identity, Ranges
from dpsql.workload.workload import Product

MOST_TOGETHER = 3  # keys of a marginal that is looked for
MOST_TRIED = 200  # marginals that are looked for in one record
MOST_ENTRIES, MOST_CELLS = 2**22, 256  # of matrices of queries over cells; cells that are left after merging
Made = TypeVar("Made")


class KeyCells(Frozen):
    """A key over the cells of the column that it is computed from.

    column    identifies the column with its cells, of which there are `size`
    factor    which cells each value of the key has, without values that no row can have
    possible  for each value of the key, whether a row can have it
    """

    column: str
    size: int
    factor: Factor
    possible: tuple[bool, ...]


class CountedKeys(Frozen):
    """The rows of a view, identified by `rows`, and those of its keys whose values are cells, by their column in the view."""

    view: Node
    rows: str
    keys: Mapping[str, KeyCells]

    def record(self, request: Request, released: object) -> Record | None:
        """Noisy counts of these rows by some of these keys, as a record; None for other requests."""
        if not isinstance(request, NoisySums) or not isinstance(released, MeasuredSums) or request.plan.input != self.view:
            return None
        names, at = request.plan.keys, next((i for i, one in enumerate(request.plan.summands) if one == Count()), None)
        chosen = [self.keys[name] for name in names if name in self.keys]
        if at is None or not names or len(chosen) < len(names) or len({key.column for key in chosen}) < len(names):
            return None
        if not all(all(key.possible) for key in chosen) or math.prod(key.factor.rows for key in chosen) != len(request.cells):
            return None
        noise = request.noises[at]
        scale = noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma
        block = Block(axes=tuple(range(len(names))), factors=tuple(key.factor for key in chosen), scale=scale)
        asked = MeasuredQueries(sums=self.rows, columns=tuple(key.column for key in chosen), blocks=(block,), line=False,
                                sizes=tuple(key.size for key in chosen),
                                noise="laplace" if isinstance(noise, DiscreteLaplace) else "gaussian")
        return Record(asked=asked, answers=(released.totals[at][0],))

    def marginals(self, record: Record, names: Mapping[str, str]) -> Iterator[MarginalMeasurement]:
        """The marginals of keys in a record, under these names, without those that a larger one contains."""
        inside = [name for name, key in self.keys.items() if key.column in record.asked.columns]
        told: list[set[str]] = []
        tried = (chosen for size in range(min(MOST_TOGETHER, len(inside)), 0, -1) for chosen in combinations(inside, size))
        for chosen in islice(tried, MOST_TRIED):
            own = [self.keys[name] for name in chosen]
            apart = len({key.column for key in own}) == len(own)
            if apart and not any(set(chosen) <= one for one in told):
                found = _asked_directly(record, own) or _least_squares(record, own)
                if found is not None:
                    told.append(set(chosen))
                    yield MarginalMeasurement(columns=tuple(names[name] for name in chosen), values=found[0], variance=found[1])


Counted = tuple[Array, float]  # counts, with an axis for each key, and their variance


def _asked_directly(record: Record, keys: Sequence[KeyCells]) -> Counted | None:
    """The counts where a block of the record asks for just these."""
    asked = record.asked
    for block, answers in zip(asked.blocks, record.answers, strict=True):
        columns = [asked.columns[axis] for axis in block.axes] if not asked.line else []
        if sorted(columns) == sorted(key.column for key in keys):
            order = [columns.index(key.column) for key in keys]
            if [_written(block.factors[axis]) for axis in order] == [key.factor for key in keys]:
                counts = np.array(answers, dtype=float).reshape(block.shape).transpose(order)
                return _by_values(counts, keys), deviation(asked, block.scale)**2
    return None


def _written(factor: Factor) -> Factor:
    """The factor as `_rows_of` writes it."""
    return _rows_of(factor, np.arange(factor.rows))


def _least_squares(record: Record, keys: Sequence[KeyCells]) -> Counted | None:
    """The best unbiased counts where they follow from the record, which is not too large. The errors of several cells are not
    independent then, and the variance is that of the least certain one."""
    asked, shape = record.asked, [key.factor.rows for key in keys]
    cells = ColumnCells(asked.columns, asked.sizes)
    if cells.size * (math.prod(shape) + sum(block.rows for block in asked.blocks)) > MOST_ENTRIES:
        return None
    queries = cells.spread(Product(tuple(key.factor for key in keys)).dense().astype(float), [key.column for key in keys],
                           [key.size for key in keys])
    combined = Combined.of(queries, weighted(asked, cells))
    if combined.queries.shape[1] > MOST_CELLS:
        return None
    variance = float(combined.variances().max())
    if not math.isfinite(variance):
        return None
    return _by_values(combined.answers(given(asked, record.answers)).reshape(shape), keys), variance


def _by_values(counts: Array, keys: Sequence[KeyCells]) -> Array:
    """Counts of the values that a row can have as counts of all values."""
    found = np.zeros([len(key.possible) for key in keys])
    found[np.ix_(*(np.flatnonzero(key.possible) for key in keys))] = counts
    return found


def counted_keys(view: Node, keys: Sequence[Key], public: PublicFacts, scratch: Scratch) -> CountedKeys | None:
    """The keys of these rows that are computed from one column each, and whose cells are known; None if there are none, or if the
    rows or keys depend on a number that is released first."""
    if has_placeholders(view):
        return None
    below = lowered(view, [view.field(key.column).ref for key in keys])
    found, rows = {}, ""
    for key, expr in zip(keys, below.exprs, strict=True):
        if expr is None or key.domain is None or len(columns(expr)) != 1:
            continue
        asked = LinearStatement(question=Question(view=view, keys=(key,), aggregates=(), outputs=()), source=below.source,
                                keys=(expr,), sums=(LinearSum(summand=Count(), expr=None, tests=()),), recipes=())
        try:
            group, (places,) = group_of([NumberedSum(statement=asked, number=0, at=0)], public, scratch, pure=False)
        except (Unsupported, Unbounded, InvalidPlan):
            continue
        rows, (column,) = about(group.view, group.axes, Count())
        (product,) = group.workload.parts
        if (places >= -1).all():
            found[key.column] = KeyCells(column=column, size=group.axes[0].size, possible=tuple((places >= 0).tolist()),
                                         factor=_rows_of(product.factors[0], places[places >= 0]))
    conditions = sorted(map(canonical, below.common))
    return CountedKeys(view=view, rows=digest(rows, tuple(conditions)) if conditions else rows, keys=found) if found else None


def _rows_of(factor: Factor, rows: NDArray[np.int64]) -> Factor:
    """Some rows of a factor."""
    if isinstance(factor, Identity | Ranges):
        first, last = (range(factor.n),) * 2 if isinstance(factor, Identity) else (factor.lows, factor.highs)
        return Ranges(factor.n, tuple(first[row] for row in rows.tolist()), tuple(last[row] for row in rows.tolist()))
    return Dense(factor.dense()[rows])


def recording_counts(steps: Generator[Request, Any, Made], counted: CountedKeys, found: list[Record]) -> Generator[
        Request, Any, Made]:
    """Run the same steps, and add a record of all counts by keys to `found`."""
    try:
        request = next(steps)
        while True:
            released = yield request
            record = counted.record(request, released)
            if record is not None:
                found.append(record)
            request = steps.send(released)
    except StopIteration as done:
        made: Made = done.value
        return made
