"""The neighbour law on random plans: no operator moves further than it claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from support.laws.bad_worlds import families_of
from support.laws.family import Family, catalog, nodes
from support.laws.law import certificate_of, violations
from support.laws.random_plans import random_plans

from dpsql.trusted.plan.certificate import stability

PLANS = 200
OPERATORS = {"Scan", "Constants", "Filter", "Project", "Join", "Lookup", "UnionAll", "Distinct", "GroupBy", "Truncate",
             "TruncateKeys", "Numbers", "SetOperation", "Window", "Contributions", "Clip", "Norms", "GroupedSums", "Ranks"}


@pytest.fixture(scope="module")
def families() -> Iterator[list[Family]]:
    with families_of(7) as made:
        yield made


@pytest.mark.slow
def test_no_operator_moves_further_than_it_claims(families: list[Family], effort: float) -> None:
    used, claims, triples = Counter[str](), Counter[str](), 0
    for seed in range(int(PLANS * effort)):
        family, entity = families[seed % len(families)], ("person", "household", "person")[seed % 3]
        plans = random_plans(seed, catalog(entity), family.kernel)
        if not plans:
            continue
        broken = violations(plans, entity, family)
        assert not broken, f"seed {seed}, {family.name} world, {entity}: {broken[0]}"
        triples += len(plans) * len(family.keys(entity))
        used.update(type(node).__name__ for node in nodes(*plans))
        below = stability(plans[0].inputs[0], family.kernel)
        claims["public" if below.public else "bounded" if below.rows else "owned" if below.owner else "nothing"] += 1
        claims["certified"] += any(certificate_of(plan, family) is not None for plan in plans)
    # The law is only worth something where something was claimed.
    assert triples > 4 * PLANS * effort
    assert set(used) == OPERATORS
    assert claims["bounded"] > claims.total() / 4 and claims["certified"] > PLANS * effort / 5 and claims["owned"] > 0
