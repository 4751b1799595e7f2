"""The keys of a GROUP BY that enough entities have, with their counts."""

from __future__ import annotations

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.noise.key_selection import KeyRule, shown
from dpsql.trusted.plan.cells import Cells, sort_key
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count


class Keys(Frozen, OfOnePlan):
    """The keys of a GROUP BY that enough entities have. The plan counts the entities with each key or, if rows depend on
    several entities, the rows.

    Cost: let c be the certificate's stability. If an entity's rows have different keys, it adds one to the counts of at most c
    keys; else it changes the counts by c in total. The key rules give the cost of either.
    """

    plan: GroupedSums
    rule: KeyRule

    def assumptions(self) -> Assumptions:
        yield [type(part) for part in self.plan.summands] == [Count], "keys need one count"

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        rows = certificate.rows
        return self.rule.cost(rows) if certificate.disjoint_cells else self.rule.cost_of_moves(rows)

    def release(self, context: Context, certificate: Certificate) -> FrequentKeys:
        """Each key that passes the rule, in canonical order, with its noisy count."""
        width = len(self.plan.keys)
        rows = context.rows(self.plan)
        told = shown([row[width] for row in rows], self.rule, context.noise)
        found = sorted(((row[:width], count) for row, count in zip(rows, told, strict=True) if count is not None),
                       key=lambda each: sort_key(each[0]))
        return FrequentKeys(keys=tuple(key for key, _ in found), counts=tuple(count for _, count in found))


class FrequentKeys(Frozen):
    """The keys that may be shown, in canonical order, and the noisy count that selected each."""

    keys: Cells
    counts: tuple[int, ...]
