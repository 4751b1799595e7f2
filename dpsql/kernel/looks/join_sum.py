"""A sum over a join, with noise as wide as what an entity can change on this database and near it."""

from __future__ import annotations

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.smooth import told_size
from dpsql.plan.apart import Apart, Some
from dpsql.plan.distance import smooth_bound
from dpsql.plan.operators.tally import Tally
from dpsql.requests import Smoothed, SmoothSum


def look(request: SmoothSum, apart: Apart, context: Context) -> Smoothed:
    """`apart` is the join of the request's plan, taken apart by the kernel."""
    counts = Counts(apart, context)
    rows = smooth_bound(apart, request.noise.beta, counts.frequency, counts.multiplicity if request.residual else None)
    sensitivity = rows * request.plan.summand.l1
    (total,), = context.reader.rows(context.sql(request.plan))
    return Smoothed(values=tuple(context.noise.student([total], request.noise.scale(sensitivity))),
                    sizes=(told_size(sensitivity, request.noise.beta, request.epsilon_size, context),))


class Counts:
    """What the bounds need to know of the private rows: how often values occur, in one relation and in several."""

    def __init__(self, apart: Apart, context: Context) -> None:
        self._apart, self._context = apart, context

    def frequency(self, relation: int, variables: Some) -> int:
        """The most rows of a relation with one combination of values."""
        return self._most(self._apart.relations[relation].frequencies(variables))

    def multiplicity(self, component: Some) -> int:
        """The most combinations of rows of a component with one combination of values at its boundary."""
        return self._most(self._apart.multiplicities(component))

    def _most(self, plan: Tally) -> int:
        _ = plan.fields  # checks its invariants
        total, = plan.totals
        (most,), = self._context.reader.rows(f'SELECT COALESCE(MAX(t0."{total}"), 0) FROM ({self._context.sql(plan)}) AS t0')
        return int(most)
