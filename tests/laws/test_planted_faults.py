"""The neighbour law can fail: faults planted in operators are all found, by the claim that they make false."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.laws.asked import plans_of, question_of, view_of
from support.laws.bad_worlds import KINDS
from support.laws.family import Family
from support.laws.faults import FAULTS, Fault
from support.laws.law import violations

from dpsql.errors import Error


@pytest.fixture(scope="module")
def families() -> Iterator[list[Family]]:
    made = [Family(KINDS[name](5), name=name) for name in ("crowded", "twins", "orphans", "loners")]
    yield made
    for family in made:
        family.close()


def broken_claims(fault: Fault, family: Family) -> set[str]:
    family.forget()
    try:
        question = question_of(fault.text, fault.entity, family)
    except Error:
        return set()  # refused, as it should be while nothing is planted
    plans = (*plans_of(question, family), fault.above(view_of(question)))
    return {violation.claim for violation in violations(plans, fault.entity, family)}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what.replace(" ", "_"))
def test_a_planted_fault_is_found(fault: Fault, families: list[Family], monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    found = next((family for family in families if broken_claims(fault, family) & fault.claims), None)
    assert found is not None
    monkeypatch.undo()
    assert not broken_claims(fault, found)
