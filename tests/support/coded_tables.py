"""Whole tables of small whole numbers behind a kernel, one row an entity, and methods that measure them there."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpsql.backends.duckdb import DuckReader, connected
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.synthesis.method import CodedColumn, CodedTable, Measured, Method, SynthesisTask, marginals_of
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.declarations.tables import Column, OwnerPath, Table
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type

Places = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Coded:
    """A table with the values 0, ..., size - 1 in each column, in the database of a kernel. With `rows`, so many of its rows, one
    after the other, are of one entity, and an entity is limited to them."""

    domain: TableDomain
    places: Places
    noise: Any = None
    rows: int = 1
    public: Places | None = None
    asked: list[tuple[Request, Cost]] = field(default_factory=list)

    def __post_init__(self) -> None:
        import pandas as pd

        connection = connected()
        frame = pd.DataFrame(self.places, columns=[f"c{at}" for at in range(len(self.domain.columns))])
        frame.insert(0, "id", np.arange(len(frame)) // self.rows)
        connection.register("frame", frame)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        connection.unregister("frame")
        self.kernel = Kernel(DuckReader(connection, "v1"), SimpleNamespace(salt=1), self.noise)  # type: ignore[arg-type]
        self.table = CodedTable(view=self._view(list(frame.columns)), rows=self.rows, columns=tuple(
            CodedColumn(column=f"c{at}", name=name, values=tuple(range(size)))
            for at, (name, size) in enumerate(zip(self.domain.columns, self.domain.sizes, strict=True))))

    def _view(self, names: list[str]) -> Node:
        columns = {name: Column(name=name, type=Type.BIGINT, sql_type="BIGINT") for name in names}
        declared = Table(name="people", public=False, columns=columns, unique=(frozenset({"id"}),) if self.rows == 1 else (),
                         owners=(OwnerPath(column="id", type=Type.BIGINT, steps=()),))
        scan = Scan(table=declared, columns=tuple((name, name) for name in names), owners=("id",))
        return scan if self.rows == 1 else Truncate(input=scan, rows=self.rows, owner="id", order=tuple(names[1:]))

    def task(self, price: Cost, **more: Any) -> SynthesisTask:
        """Of this table, for this price."""
        draws = np.random.default_rng(0)
        public = self.public if self.public is not None else np.stack([draws.integers(0, size, 500) for size in self.domain.sizes], axis=1)
        return SynthesisTask(**{"table": self.table, "price": price, "workload": marginals_of(self.domain), "public": public, **more})

    def measured(self, method: Method, price: Cost, **more: Any) -> Measured:
        """What a method measures, by the kernel's own certificates, costs and releases; nothing is recorded. `asked` keeps the
        requests and their costs. Raises RuntimeError, as the kernel does, where more is asked for than the price."""
        self.asked.clear()
        steps, spent, context = method.measure(self.task(price, **more)), FREE, self.kernel._context()
        try:
            request = next(steps)
            while True:
                own, certificates, _ = self.kernel._certified(request)
                cost = own.cost(*certificates)
                self.asked.append((own, cost))
                spent += cost
                if not price.covers(spent):
                    raise RuntimeError("more is asked for than was charged")
                request = steps.send(self.kernel._look(own, certificates, context))
        except StopIteration as done:
            found: Measured = done.value
            return found

    def counts(self, columns: Columns) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The exact counts of a marginal."""
        return counts_of(self.domain, self.places, columns)


def counts_of(domain: TableDomain, places: Places, columns: Columns) -> np.ndarray[Any, np.dtype[np.float64]]:
    at, shape = [domain.columns.index(column) for column in columns], domain.shape(columns)
    return np.bincount(np.ravel_multi_index(tuple(places[:, at].T), shape), minlength=domain.cells(columns)).reshape(shape).astype(float)


def total_variation(domain: TableDomain, one: Places, other: Places, size: int) -> float:
    """The mean distance of the marginals of so many columns of two tables, as shares of their rows."""
    return float(np.mean([np.abs(counts_of(domain, one, columns) / len(one) - counts_of(domain, other, columns) / len(other)).sum() / 2
                          for columns in combinations(domain.columns, size)]))
