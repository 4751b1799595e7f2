"""The neighbour law on the plans of statements."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.laws.asked import plans_of, question_of, view_of
from support.laws.bad_worlds import families_of
from support.laws.family import ENTITIES, Family
from support.laws.law import violations
from support.laws.texts import HOUSEHOLD, TEXTS

from dpsql.errors import Error
from dpsql.trusted.plan.certificate import stability

REFUSED_FOR_HOUSEHOLDS = 12  # groups by person, and lists linked by person, where a person is not what is protected


@pytest.fixture(scope="module")
def families() -> Iterator[list[Family]]:
    with families_of(5) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("entity", ENTITIES)
def test_no_statement_moves_further_than_it_claims(entity: str, families: list[Family], effort: float) -> None:
    triples = refused = 0
    repeats = max(1, round(effort))
    for number, text in enumerate(TEXTS if entity == "person" else (*TEXTS, *HOUSEHOLD)):
        for family in [families[(number + i) % len(families)] for i in range(repeats)]:
            try:
                question = question_of(text, entity, family)
            except Error:
                refused += 1
                continue
            plans = tuple(plans_of(question, family))
            broken = violations(plans, entity, family)
            assert not broken, f"{text}\n{family.name} world, {entity}: {broken[0]}"
            triples += len(plans) * len(family.keys(entity))
    assert triples > 400 * repeats
    assert refused <= (0 if entity == "person" else REFUSED_FOR_HOUSEHOLDS * repeats)


def test_what_is_public_is_known_to_be(families: list[Family]) -> None:
    text = "SELECT SUM(beds) FROM (SELECT city, MAX(beds) AS beds FROM clinics GROUP BY city) AS t"
    assert stability(view_of(question_of(text, "person", families[0])), families[0].kernel).public
