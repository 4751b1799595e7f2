"""The periods of growing tables that a statement reads, as its operators claim; the kernel derives them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.declarations.growth import name_of
from dpsql.trusted.kernel.period_reads import PeriodReads, reads_of
from dpsql.trusted.plan.certificate import splits, stabilities
from dpsql.trusted.plan.node import Node, PublicFacts, SplitBy, Stability, bottom_up
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import Span


class ClaimedOwners(Frozen):
    """What operators claim about the owners of relations, by the identity of the relation."""

    claimed: Mapping[int, Stability]
    split: Mapping[int, SplitBy]

    def one_owner(self, node: Node) -> bool:
        return self.claimed[id(node)].owner is not None

    def is_split(self, node: Node) -> bool:
        return self.split[id(node)] is SplitBy.ENTITIES


def all_grow(views: Sequence[Node]) -> bool:
    """Whether the private tables that the relations of a statement read all grow."""
    return all(scan.periods is not None for view in views for scan in bottom_up(view)
               if isinstance(scan, Scan) and not scan.table.public)


def charged_in(reads: PeriodReads, entity: str) -> str:
    """What an entity is charged in each period, in words."""
    first, last = (name_of(reads.periods.period, number) for number in (reads.periods.first, reads.periods.last))
    if reads.steps == 1:
        return f"this is what each {entity} is charged in {first}, and in all"
    where = first if first == last else f"each of {first} to {last}"
    return f"this is what each {entity} is charged in all; in {where} it is twice the ε, or four times the ρ"


def reads_of_views(views: Sequence[Node], cost: Cost, public: PublicFacts, span: Span) -> PeriodReads | None:
    """The periods that the relations of a statement read; None if none of them grows. Raises Unsupported, with the span, if there
    is no bound for a person in one period at this cost."""
    claimed: dict[int, Stability] = {}
    split: dict[int, SplitBy] = {}
    for view in views:
        stabilities(view, public, claimed)
        split.update(splits(view, claimed))
    try:
        reads = reads_of(views, ClaimedOwners(claimed=claimed, split=split))
    except ValueError:
        raise Unsupported("tables that grow by different periods cannot be read together", code="periods", span=span,
                          try_="a statement for each table") from None
    if reads is not None and not reads.can_cost(cost):
        raise Unsupported("what a person in one period can change is not known for groups that are found privately over several "
                          "periods, or beside tables that do not grow", code="periods", span=span,
                          try_="a condition that leaves one period, or groups that the policy declares")
    return reads
