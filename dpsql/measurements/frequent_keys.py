"""The keys of a GROUP BY that enough entities have."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.accounting.cost import FREE, Cost
from dpsql.measurements.reading.request import Context, OfOnePlan
from dpsql.noise.key_selection import KeyRule, kept
from dpsql.plan.cells import Cells, sort_key
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.grouped_sums import GroupedSums


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys(OfOnePlan):
    """The keys of a GROUP BY that enough entities have. The plan counts, for each key, the entities that have it, or, where rows
    rest on several entities, rows.

    Cost: let c be the certificate's stability. If an entity's rows have different keys, it adds one to the count of at most c
    keys; else it moves all counts by c together. See the rules.
    """

    plan: GroupedSums
    rule: KeyRule

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        if rows == 0:
            return FREE
        if rows is None or certificate.summands[0].l1 != rows:
            raise ValueError("keys are counted by rows that are limited")
        return self.rule.cost(rows) if certificate.disjoint_cells else self.rule.cost_of_moves(rows)

    def release(self, context: Context, certificate: Certificate) -> FrequentKeys:
        """Each key that the rule lets pass, in canonical order."""
        width = len(self.plan.keys)
        rows = context.reader.rows(context.sql(self.plan))
        shown = kept([row[width] for row in rows], self.rule, context.noise)
        return FrequentKeys(keys=tuple(sorted((row[:width] for row, show in zip(rows, shown, strict=True) if show),
                                              key=sort_key)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentKeys:
    """The keys that may be shown, in canonical order."""

    keys: Cells
