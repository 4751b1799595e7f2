"""The law of pairs: without the rows of one person in one period, sums over several periods move no further than their
certificate in a period says, and relations of pairs lose exactly the rows of this person and this period."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from support.laws.family import nodes
from support.laws.growing import GrowingFamily
from support.laws.pairs import claimed, pairs_families, pairs_plans, violations_of_pairs

from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import KINDS
from dpsql.trusted.kernel import claims as kernel_claims
from dpsql.trusted.kernel import period_certificate
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.expr.nodes import Call, Literal, Ref
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window

DRAWN = 500
ENTITIES = "person", "household", "person"
Claims = tuple[list[Certificate | None], list[period_certificate.Told | None]]


@pytest.fixture(scope="module")
def families() -> Iterator[list[GrowingFamily]]:
    made = pairs_families(5)
    yield made
    for family in made:
        family.close()


def drawn(seed: int, families: list[GrowingFamily]) -> tuple[GrowingFamily, str, tuple[Node, ...]]:
    family, entity = families[seed % len(families)], ENTITIES[seed % 3]
    return family, entity, pairs_plans(seed, entity, family)


def claims_of(plans: tuple[Any, ...], family: GrowingFamily) -> Claims:
    """The certificates of plans in a period, and what tells the time in those of their relations that are of pairs."""
    found = [claimed(plan, family) for plan in plans]
    shown = [period_certificate._told(node, derived) for plan, (_, derived) in zip(plans, found, strict=True) for node in nodes(plan.input)]
    return [certificate for certificate, _ in found], shown


@pytest.mark.slow
def test_nothing_moves_further_than_its_certificate_in_a_period(families: list[GrowingFamily], effort: float) -> None:
    """Of relations without a certificate, every fourth is evaluated all the same: others of what they are made of may be pairs."""
    moves = Counter[str]()
    for seed in range(int(DRAWN * effort)):
        family, entity, plans = drawn(seed, families)
        if plans and (seed % 4 == 0 or any(claims_of(plans, family)[0])):
            broken = violations_of_pairs(plans, entity, family, moves)
            assert not broken, f"seed {seed}, {family.name}, {entity}: {broken[0]}"
    # The law is only worth something where people in a period did move what is bounded, through each operator.
    assert moves["moved"] > 0.5 * DRAWN * effort and moves["apart"] > 0.2 * DRAWN * effort, moves
    for operator in (TruncateKeys, GroupBy, Window, Distinct, Join, Lookup, UnionAll):
        assert moves[operator.__name__] > 0.01 * DRAWN * effort, moves


# -- the law can fail


def _accepted(wrong: Callable[[Any, Any], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    """An operator for which `wrong` holds passes on what its first input tells of time."""
    whole = period_certificate._told

    def instead(node: Any, known: Any) -> Any:
        told = whole(node, known)
        if told is not None or known.owner(node) is None or not wrong(node, known):
            return told
        below = period_certificate._told(node.inputs[0], known)
        return below and {column: numbering for column, numbering in below.items() if column in node.env}

    return lambda patch: patch.setattr(period_certificate, "_told", instead)


def _kept_fixed_rows(patch: pytest.MonkeyPatch) -> None:
    whole = period_certificate._joined

    def instead(node: Any, known: Any) -> Any:
        told = whole(replace(node, keep_left=False, keep_right=False, bare=False), known)
        return told and {column: numbering for column, numbering in told.items() if column in node.env}

    patch.setattr(period_certificate, "_joined", instead)


def _numbered(wrong: Callable[[Any, Any], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    """A function of time for which `wrong` holds tells periods."""
    whole = period_certificate._numbering
    return lambda patch: patch.setattr(period_certificate, "_numbering", lambda expr, periods, days: whole(expr, periods, days) or (
        (expr.args[-1].column, (expr.function, None)) if isinstance(expr, Call) and expr.args and isinstance(expr.args[-1], Ref)
        and wrong(expr, periods) else None))


def _united(wrong: Callable[[list[Any]], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    """A column of a union is a period column if `wrong` holds of what the parts tell in its place."""

    def instead(node: Any, parts: list[Any]) -> Any:
        each = [[(part or {}).get(column) for part, column in zip(parts, columns, strict=True)]
                for columns in zip(*([field.id for field in part.fields] for part in node.parts), strict=True)]
        return {column: next(filter(None, told)) for (column, _), told in zip(node.columns, each, strict=True) if wrong(told)}

    return lambda patch: patch.setattr(period_certificate, "_united", instead)


def _certified(wrong: Callable[[Certificate, Any, Any], Certificate | None]) -> Callable[[pytest.MonkeyPatch], None]:
    whole = period_certificate.certificate_in_period

    def instead(plan: Any, certificate: Certificate, known: Any) -> Certificate | None:
        found = whole(plan, certificate, known)
        return None if found is None else wrong(found, plan, known)

    return lambda patch: patch.setattr(kernel_claims, "certificate_in_period", instead)


def _of_one_cell(found: Certificate, plan: Any, known: Any) -> Certificate:
    """The rows of one cell count as all rows of a period."""
    told = period_certificate.period_columns(plan.input, known)
    rows = min(filter(None, (known.frequency(plan.input, {known.owner(plan.input), column, *plan.keys}) for column in told)))
    return replace(found, below=replace(found.below, rows=rows))


def _far(found: Certificate, plan: Any, known: Any) -> Certificate:
    """All rows of a person in a period count as one."""
    return replace(found, summands=tuple(Sensitivity(l1=known.size(plan.input, part), l2=known.size(plan.input, part)) for part in plan.summands))


def _of(*kinds: type) -> Callable[[Any, Any], bool]:
    """Whether an operator of a kind acts on groups of an owner."""
    return lambda node, known: isinstance(node, kinds) and known.owner(node.inputs[0]) == known.owner(node)


def _other_kind(call: Call, periods: Any) -> bool:
    return call.function in [f"date_trunc_{kind}" for kind in KINDS] and len(call.args) == 1


def _from_any_day(call: Call, periods: Any) -> bool:
    return periods.period == "week" and call.function == "date_diff_week" and isinstance(call.args[0], Literal) and isinstance(call.args[1], Ref)


def _from_later_days(call: Call, periods: Any) -> bool:
    return _from_any_day(call, periods) and isinstance(day := call.args[0].value, dt.date) and day.weekday() == 0  # type: ignore[attr-defined]


FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = {
    "a column of another kind tells periods": (_numbered(_other_kind), {"column"}),
    "weeks are counted from any day": (_numbered(_from_any_day), {"column"}),
    "weeks are counted from a Monday in the middle": (_numbered(_from_later_days), {"column"}),
    "a limit by owner alone is of pairs": (_accepted(_of(TruncateKeys)), {"pairs", "column", "rows", "tally"}),
    "a group by owner alone is of pairs": (_accepted(_of(GroupBy)), {"pairs", "column", "rows", "tally"}),
    "a window by owner alone is of pairs": (_accepted(_of(Window)), {"pairs", "column", "rows", "tally"}),
    "a join that keeps fixed rows is of pairs": (_kept_fixed_rows, {"pairs", "column", "rows", "tally"}),
    "a join of two growing relations is of pairs": (_accepted(
        lambda node, known: isinstance(node, Join) and not any(map(period_certificate.is_fixed, node.inputs))), {"pairs", "column", "rows", "tally"}),
    "a lookup in a growing list is of pairs": (_accepted(lambda node, known: isinstance(node, Lookup)), {"pairs", "column"}),
    "one part of a union tells periods for all": (_united(any), {"column"}),
    "parts of a union may number periods differently": (_united(lambda told: all(told) and len({name for name, _ in told}) == 1), {"column"}),
    "rows of other cells are not counted": (_certified(_of_one_cell), {"rows"}),
    "all rows of a period count as one": (_certified(_far), {"tally"}),
    "all cells are disjoint": (_certified(lambda found, plan, known: replace(found, disjoint_cells=True)), {"apart"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.replace(" ", "_"))
def test_a_planted_fault_is_found(fault: str, families: list[GrowingFamily], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of plans for which the kernel claims the same as without the fault, none is evaluated."""
    plant, expected = FAULTS[fault]
    for seed in range(4 * DRAWN):
        family, entity, plans = drawn(seed, families)
        if not plans:
            continue
        with monkeypatch.context() as patch:
            before = claims_of(plans, family)
            plant(patch)
            if claims_of(plans, family) != before and expected & {broken.claim for broken in violations_of_pairs(plans, entity, family)}:
                return
    pytest.fail("no plan shows the fault")
