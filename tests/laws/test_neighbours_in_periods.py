"""The neighbour law in periods: no plan over growing tables moves further than the kernel charges, for a person in one period or in
all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from support.laws.growing import IN_A_PERIOD, GrowingFamily, growing_families, growing_plans, violations_in_periods, why
from support.laws.law import evaluate, violations

from dpsql.frozen import replace
from dpsql.trusted.kernel import period_reads
from dpsql.trusted.kernel.claims import Derived
from dpsql.trusted.plan.node import Node, Summary
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.union import UnionAll

PLANS = 240
ENTITIES = "person", "household", "person"


@pytest.fixture(scope="module")
def families() -> Iterator[list[GrowingFamily]]:
    made = growing_families(6)
    yield made
    for family in made:
        family.close()


def drawn(seed: int, families: list[GrowingFamily]) -> tuple[GrowingFamily, str, tuple[Node, ...]]:
    family, entity = families[seed % len(families)], ENTITIES[seed % 3]
    return family, entity, growing_plans(seed, entity, family)


@pytest.mark.slow
def test_no_plan_moves_further_than_a_period_is_charged(families: list[GrowingFamily], effort: float) -> None:
    reasons, moves, neighbours = Counter[str](), Counter[str](), 0
    for seed in range(int(PLANS * effort)):
        family, entity, plans = drawn(seed, families)
        if not plans:
            continue
        whole = evaluate(plans, entity, family)
        broken = violations(plans, entity, family, whole) + violations_in_periods(plans, entity, family, whole, moves)
        assert not broken, f"seed {seed}, {family.name}, {entity}: {broken[0]}"
        reasons.update(why(plan, family.reads(plan)) for plan in plans)
        neighbours += len(plans) * len(family.keys(IN_A_PERIOD[entity]))
    # The law is only worth something where each reason was drawn often, and people in a period did move results.
    assert neighbours > 25 * PLANS * effort
    for reason, share in (("only growing tables", 0.2), ("carried by growth", 0.2), ("not carried", 0.3), ("several periods", 0.1)):
        assert reasons[reason] > share * PLANS * effort, reasons
        assert moves[reason] > 0.15 * PLANS * effort, moves


@pytest.mark.slow
def test_columns_that_name_no_owner_move_no_further(families: list[GrowingFamily], effort: float) -> None:
    """Of each relation one column, which is often not the owner: what was carried by growth still is."""
    reasons, moves = Counter[str](), Counter[str]()
    for seed in range(int(PLANS * effort)):
        family, entity, plans = drawn(seed, families)
        relations = {id(plan.input): plan.input for plan in plans if isinstance(plan, Summary)}
        for relation in relations.values():
            field = relation.fields[seed % len(relation.fields)]
            one = Project(input=relation, columns=(("kept", field.name, field.ref),))
            broken = violations_in_periods((one,), entity, family, None, moves)
            assert not broken, f"seed {seed}, {family.name}, {entity}: {broken[0]}"
            reasons[why(one, family.reads(one))] += 1
    for reason in ("carried by growth", "not carried"):
        assert reasons[reason] > 0.05 * PLANS * effort and moves[reason] > 0.03 * PLANS * effort, (reasons, moves)


# -- the law can fail


def _unread(patch: pytest.MonkeyPatch) -> None:
    """The scans of one table read all periods."""
    whole = Scan.in_periods
    patch.setattr(Scan, "in_periods", lambda self: iter(()) if self.table.name == "scores" else whole(self))


def _unread_on_one_side(patch: pytest.MonkeyPatch) -> None:
    """Rows after the last period are read too."""
    whole = Scan.in_periods
    patch.setattr(Scan, "in_periods", lambda self: [*whole(self)][:1])


def _always_one_step(patch: pytest.MonkeyPatch) -> None:
    found = period_reads.reads_of

    def wrong(plans: Any, known: Any) -> Any:
        reads = found(plans, known)
        return None if reads is None else replace(reads, steps=1)

    patch.setattr("dpsql.trusted.kernel.claims.reads_of", wrong)


def _carried(wrong: Callable[[Node, list[bool]], bool | None]) -> Callable[[pytest.MonkeyPatch], None]:
    """`wrong` is told of a relation and of those below it, and returns None where it is right."""
    found = period_reads._only_with_growth

    def instead(node: Node, known: Any) -> bool:
        below = [instead(part, known) for part in node.inputs]
        here = wrong(node, below) if known.one_owner(node) else None
        return found(node, known) if here is None else here

    return lambda patch: patch.setattr(period_reads, "_only_with_growth", instead)


def _not_by_owner(patch: pytest.MonkeyPatch) -> None:
    """Pairs of rows of two entities count as those of one."""
    patch.setattr(Derived, "one_owner", lambda self, node: len(self._found[id(node)].owners) >= 1)
    patch.setattr(Derived, "is_split", lambda self, node: True)


def _split_or_not(patch: pytest.MonkeyPatch) -> None:
    """Relations whose rows depend on other entities, such as numbers of rows per value, count as carried too."""
    patch.setattr(Derived, "is_split", lambda self, node: True)
    patch.setattr(Derived, "one_owner", lambda self, node: not self._found[id(node)].public)


def _one_period_less(patch: pytest.MonkeyPatch) -> None:
    """The first of several periods is not charged."""
    found = period_reads.reads_of

    def wrong(plans: Any, known: Any) -> Any:
        reads = found(plans, known)
        return reads if reads is None or len(reads.periods) == 1 else replace(
            reads, periods=replace(reads.periods, first=reads.periods.first + 1))

    patch.setattr("dpsql.trusted.kernel.claims.reads_of", wrong)


FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = {
    "a scan prints no periods": (_unread, {"outside"}),
    "a scan prints no last period": (_unread_on_one_side, {"outside"}),
    "every plan takes one step": (_always_one_step, {"tally", "rows", "ranks"}),
    "a left join is carried by any side": (_carried(
        lambda node, below: any(below) if isinstance(node, Join) and node.keep_left else None), {"carried"}),
    "a right join is carried by any side": (_carried(
        lambda node, below: any(below) if isinstance(node, Join) and node.keep_right else None), {"carried"}),
    "a union is carried by any part": (_carried(lambda node, below: any(below) if isinstance(node, UnionAll) else None), {"carried"}),
    "a scan of a table that does not grow is carried": (_carried(lambda node, below: True if isinstance(node, Scan) else None), {"carried"}),
    "a join that is not by owner is carried": (_not_by_owner, {"carried"}),
    "rows that depend on other entities are carried": (_split_or_not, {"carried"}),
    "a period that is read is not charged": (_one_period_less, {"outside"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.replace(" ", "_"))
def test_a_planted_fault_is_found(fault: str, families: list[GrowingFamily], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of plans for which the kernel derives the same as without the fault, only those are evaluated that the engine may read
    differently."""
    plant, claims = FAULTS[fault]
    made = [drawn(seed, families) for seed in range(2 * PLANS)]
    before = [[family.reads(plan) for plan in plans] for family, _, plans in made]
    plant(monkeypatch)
    changed = [one for one, reads in zip(made, before, strict=True) if one[2] and (
        claims == {"outside"} or [one[0].reads(plan) for plan in one[2]] != reads)]
    assert any(claims & {broken.claim for broken in violations_in_periods(plans, entity, family)} for family, entity, plans in changed)
