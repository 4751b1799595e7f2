"""Counts in cells in the place of a database: groups over them, and what plans that look at them say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpsql.batch.attributes import AttributeColumn
from dpsql.batch.group import Group, Told
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type
from dpsql.workload.workload import Workload

VIEW = Constants(columns=(), rows=())

class Cells:
    """A context whose database holds these counts."""

    def __init__(self, counts: Any, noise: Any = None) -> None:
        table = np.array(counts, dtype=np.int64)
        at = np.nonzero(table)
        self.found = [*(np.ma.MaskedArray(axis.astype(np.int64)) for axis in at), np.ma.MaskedArray(table[at])]
        self.noise, self.reader = noise or Secure(), self

    def query(self, plan: Node) -> tuple[str, tuple[()]]:
        return "", ()

    def columns(self, sql: str, parts: Any = ()) -> list[Any]:
        return self.found


def group(workload: Workload, *, moved: int = 1, pure: bool = True) -> Group:
    """Counts of rows over axes of whole numbers."""
    columns = tuple(AttributeColumn(name=f"a{i}", refs=(Ref(column=f"a{i}", type=Type.BIGINT),), code=Ref(column=f"a{i}", type=Type.BIGINT),
                                    values=tuple(range(n)), stands=(tuple(range(n)),)) for i, n in enumerate(workload.domain.shape))
    return Group(view=VIEW, columns=columns, summand=Count(), workload=workload, moved=moved, unit=1.0, pure=pure)


def told(plan: Any, price: Cost, cells: Cells, spend: Callable[[Request], None] = lambda request: None) -> Told:
    """What a plan says of these data. `spend` sees every request; nothing is charged."""
    steps = plan.steps(price)
    request = next(steps)
    while True:
        spend(request)
        try:
            request = steps.send(request.release(cells, None))
        except StopIteration as done:
            return done.value
