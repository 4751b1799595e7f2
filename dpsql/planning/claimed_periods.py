"""The periods of growing tables that a statement reads, as its operators claim; the kernel derives them again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from dpsql.catalog.price import Price
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import ATTO, NANO, Charge, Cost
from dpsql.trusted.declarations.growth import CALENDAR, name_of, names_of
from dpsql.trusted.kernel.period_certificate import certificate_in_period, is_fixed
from dpsql.trusted.kernel.period_costs import costs_in_periods
from dpsql.trusted.kernel.period_reads import PeriodReads, reads_of
from dpsql.trusted.kernel.revisions import Revision
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.certificate import Certificate, certify, splits, stabilities
from dpsql.trusted.plan.node import Node, PublicFacts, SplitBy, Stability, bottom_up
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Summand
from dpsql.types import Span

ROUNDED = Fraction(1, 10**9)


class ClaimedOwners(Frozen):
    """What operators claim about the owners of relations, by the identity of the relation."""

    claimed: Mapping[int, Stability]
    split: Mapping[int, SplitBy]

    def one_owner(self, node: Node) -> bool:
        return self.claimed[id(node)].owner is not None

    def is_split(self, node: Node) -> bool:
        return self.split[id(node)] is SplitBy.ENTITIES

    def owner(self, node: Node) -> str | None:
        return self.claimed[id(node)].owner

    def frequency(self, node: Node, columns: Collection[str]) -> int | None:
        return node.max_frequency([*columns])

    def size(self, node: Node, summand: Summand) -> int:
        return summand.l1


def revisions_of(views: Sequence[Node], revised: Sequence[Revision]) -> tuple[Revision, ...]:
    """The revisions of the periods that the relations of a statement read."""
    read = [(scan.table.name, scan.periods) for view in views for scan in bottom_up(view)
            if isinstance(scan, Scan) and scan.periods is not None]
    return tuple(one for one in revised if any(one.meets(table, periods) for table, periods in read))


def revised_in_words(revised: Sequence[Revision]) -> tuple[str, ...]:
    """A note for each table on its newest revision."""
    newest, notes = {one.table: one for one in revised}, []
    for table, one in newest.items():
        number = sum(each.table == table for each in revised)
        which = "" if number == 1 else f", revision {number}"
        were = "was" if len(one.periods) == 1 else "were"
        notes.append(f"{names_of(one.periods)} of {table} {were} revised on {told_of(one)}{which}; earlier answers are about the "
                     "rows before that")
    return tuple(notes)


def told_of(revision: Revision) -> str:
    """When a revision was declared, and why."""
    return revision.at[:10] + (f" ({revision.reason})" if revision.reason else "")


def charged_in(reads: PeriodReads, cost: Cost, entity: str) -> str:
    """What an entity is charged in each period, in words."""
    if reads.steps == 1:
        return f"this is what each {entity} is charged in {_named(reads.numbers, reads)}, and in all"
    if not reads.stated:
        return (f"this is what each {entity} is charged in all; in {_named(reads.numbers, reads)} it is twice the ε, or four "
                "times the ρ")
    each = "; ".join(f"in {_named(numbers, reads)} it is {_priced(charge)}" for numbers, charge in reads.charges(cost.rounded()))
    return f"this is what each {entity} is charged in all; {each}"


def charged_in_any(reads: PeriodReads, entity: str, many: int) -> str:
    """What an entity is charged in any so many consecutive periods, in words."""
    kind, one = reads.periods.period, len(reads.periods) == 1
    included = name_of(kind, reads.periods.first) if one else "one of these"
    cost = "the same" if one and reads.steps == 1 else "twice the ε, or four times the ρ"
    return f"in any {many} consecutive {kind}s that include {included}, each {entity} is charged {cost}"


def _named(numbers: range, reads: PeriodReads) -> str:
    first, last = (name_of(reads.periods.period, number) for number in (numbers[0], numbers[-1]))
    if reads.periods.period == CALENDAR:  # these are days, and the numbers of one period or of several ones
        days = " to ".join(dict.fromkeys((first, last)))
        return days if reads.steps == 1 else f"each period of {days}"
    return first if first == last else f"each of {first} to {last}"


def _priced(charge: Charge) -> Price:
    delta = Fraction(charge.delta, ATTO)
    if charge.epsilon is None:
        return Price(epsilon=None, delta=delta, rho=Fraction(charge.rho, NANO))
    return Price(epsilon=Fraction(charge.epsilon, NANO), delta=delta, rho=None)


def reads_of_views(views: Sequence[Node], cost: Cost, public: PublicFacts, span: Span,
                   first: Request | None = None) -> PeriodReads | None:
    """The periods that the relations of a statement read; None if none of them grows. `first` is its first request, if it is
    known. Raises Unsupported, with the span, if there is no bound for a person in one period at this cost."""
    owners = _claimed(views, public)
    try:
        reads = reads_of(views, owners)
    except ValueError:
        raise Unsupported("tables that grow by different periods cannot be read together", code="periods", span=span,
                          try_="a statement for each table") from None
    if reads is not None and reads.steps == 2 and first is not None:
        reads = _stated(reads, first, cost, public)
    if reads is not None and not reads.can_cost(cost):
        raise Unsupported("groups that the policy does not declare are found privately in one period at a time, and not beside "
                          "private tables that do not grow", code="periods", span=span,
                          try_="grouping by the period, a condition that leaves one period, or declared groups")
    return reads


def _stated(reads: PeriodReads, first: Request, cost: Cost, public: PublicFacts) -> PeriodReads:
    """The same with the costs in the periods stated, if the first request is the only one that costs anything, and its cost is
    known for one period."""
    if len(first.plans) != 1 or not isinstance(plan := first.plans[0], GroupedSums):
        return reads
    owners, certificate = _claimed([plan.input], public), certificate_of(plan, public)
    if reads_of([plan], owners) != reads or not leaves_nothing(first.cost(certificate), cost):
        return reads
    costs = costs_in_periods(reads, first, [certificate])
    return reads if costs is None else replace(reads, stated=tuple((many, cost.rounded()) for many, cost in costs))


def leaves_nothing(paid: Cost, cost: Cost) -> bool:
    """Whether what was paid leaves nothing of a cost for another request. (The scale of noise has 64 bits, and is rounded up.)"""
    part, whole = (paid.rho, cost.rho) if cost.epsilon is None else (paid.epsilon, cost.epsilon)
    return part is not None and part >= whole * (1 - ROUNDED) and paid.delta >= cost.delta


def certificate_of(plan: GroupedSums, public: PublicFacts) -> Certificate:
    """The certificate of grouped sums, with that for an entity in one period if there is one."""
    owners = _claimed([plan.input], public)
    whole = certify(plan, public, dict(owners.claimed))
    return whole if is_fixed(plan.input) else replace(whole, in_period=certificate_in_period(plan, whole, owners))


def _claimed(views: Sequence[Node], public: PublicFacts) -> ClaimedOwners:
    claimed: dict[int, Stability] = {}
    split: dict[int, SplitBy] = {}
    for view in views:
        stabilities(view, public, claimed)
        split.update(splits(view, claimed))
    return ClaimedOwners(claimed=claimed, split=split)
