"""How near databases come to what is claimed: a bound that nothing comes near costs accuracy for nothing."""

from __future__ import annotations

from collections.abc import Sequence

from support.laws.family import Family
from support.laws.law import certificate_of, evaluate, length, moved, sums_moved

from dpsql.frozen import Frozen
from dpsql.questions.labels import summand_label
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums


class Reach(Frozen, kw_only=False):
    """How far one entity was seen to move something, and how far it may."""

    seen: float
    claimed: float

    @property
    def share(self) -> float:
        return self.seen / self.claimed if self.claimed else 1.0

    def or_further(self, other: Reach | None) -> Reach:
        return self if other is None or other.share <= self.share else other


def reaches(plans: Sequence[Node], entity: str, family: Family) -> dict[str, Reach]:
    """How far the worst entity moved the rows below each tally, and each of its summands; by what that is."""
    seen, found = evaluate(plans, entity, family), {}
    for number, plan in enumerate(plans):
        certificate = certificate_of(plan, family)
        if not isinstance(plan, GroupedSums) or certificate is None:
            continue
        below = plan.input
        if certificate.below.rows:
            rows = max(moved(seen.full[id(below)], tables[id(below)]) for tables in seen.without.values())
            found[f"rows of plan {number}"] = Reach(rows, certificate.below.rows)
        for _, i, vector in sums_moved(plan, seen):
            for order, claimed in ((1, certificate.summands[i].l1), (2, certificate.summands[i].l2)):
                if claimed:
                    name = f"l{order} of summand {i} of plan {number}, {summand_label(plan.summands[i], dict(below.names))}"
                    found[name] = Reach(length(vector, order), claimed).or_further(found.get(name))
    return found
