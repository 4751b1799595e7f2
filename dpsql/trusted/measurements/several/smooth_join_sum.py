"""Sums over joins with noise scaled to a smooth upper bound on their local sensitivity."""

from __future__ import annotations

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost, pure
from dpsql.trusted.field_types import Epsilon
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.measurements.smooth_quantile import Smoothed
from dpsql.trusted.noise.smooth import Student, told_size
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.decompose_join import JoinParts, Some, decompose_join
from dpsql.trusted.plan.distance import FARTHEST, farthest, smooth_bound
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join_sum import JoinSum


class SmoothSum(Frozen, OfOnePlan):
    """The sum over a join plus noise scaled to its elastic or residual sensitivity, and a noisy size of that noise.

    Cost. An entity moves the sum by at most the smooth bound S of `plan.distance` times the summand's l1; see `Student`. The
    size of the noise is released as in `noise.smooth`. The certificate of the join itself needs no bound: each relation of
    the join has its own, derived when the plan is decomposed. Raises ValueError if beta is too small for that many relations.
    """

    plan: JoinSum
    residual: bool
    noise: Student
    epsilon_size: Epsilon

    def cost(self, certificate: Certificate) -> Cost:
        if farthest(certificate.joined, self.noise.beta) > FARTHEST:
            raise ValueError("this beta is so small that too many distances are needed")
        return FREE if certificate.below.public else self.noise.cost() + pure(self.epsilon_size)

    def release(self, context: Context, certificate: Certificate) -> Smoothed:
        """Decompose the join as for its certificate, and read the counts that the smooth bound needs from its parts."""
        joined = decompose_join(self.plan.input, context.public)
        counts = Counts(joined, context)
        rows = smooth_bound(joined, self.noise.beta, counts.frequency, counts.multiplicity if self.residual else None)
        sensitivity = rows * self.plan.summand.l1
        (total,), = context.rows(self.plan)
        return Smoothed(values=tuple(context.noise.student([total], self.noise.scale(sensitivity))),
                        sizes=(told_size(sensitivity, self.noise.beta, self.epsilon_size, context.noise),))


class Counts:
    """The counts of private rows that the bounds need: how often values occur in one relation or in several joined ones."""

    def __init__(self, joined: JoinParts, context: Context) -> None:
        self._apart, self._context = joined, context

    def frequency(self, relation: int, variables: Some) -> int:
        """The largest number of rows of a relation with one combination of values."""
        return self._most(self._apart.relations[relation].frequencies(variables))

    def multiplicity(self, component: Some) -> int:
        """The largest number of row combinations of a component with one combination of values at its boundary."""
        return self._most(self._apart.multiplicities(component))

    def _most(self, plan: GroupedSums) -> int:
        _ = plan.fields  # checks its invariants
        total, = plan.totals
        text, parts = self._context.query(plan)
        (most,), = self._context.reader.rows(f'SELECT COALESCE(MAX(t0."{total}"), 0) FROM ({text}) AS t0', parts)
        return int(most)
