"""The promise of statements with scalar subqueries: the value that is released first and what is counted with it, together.

Each pair of databases is bad for its statement: the entity moves the value by all that its bounds allow, and is counted too. A
lower bound of epsilon at 1 - 1e-7 must not be above the price.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.audits import Numbers, Pair, person, prepared, visit

from dpsql.audit.epsilon import EpsilonBound, lower_bound
from dpsql.audit.prepared import PreparedStatement
from dpsql.budgets.reports import epsilon_of
from dpsql.catalog.price import exact
from dpsql.frozen import Frozen
from dpsql.planning.script import Released
from dpsql.trusted.noise.source import Secure

pytestmark = pytest.mark.stat
SURE = 1 - 1e-7

RICH = person(0, age=100, income=1e12)
OTHERS = [person(i, age=20 + i, income=1000.0 * i) for i in range(1, 6)]
FEW = Pair(people=[RICH, *OTHERS], visits=[visit(i, 0, cost=9e7, year=2018 + i % 4) for i in range(5)] + [
    visit(10 + i, 1 + i % 5, cost=10.0 * i) for i in range(10)])
# Without the rich one the average is below all the others but one; with it, above.
EDGE = Pair(people=[person(0, income=1e5), person(1, income=0.0), *(person(i, income=45_000.0) for i in range(2, 32))])


class Claim(Frozen):
    """`scales` says that noise has another scale each time, so that none is drawn ahead."""

    name: str
    text: str
    pair: Pair
    price: str = "epsilon = 2"
    epsilon: float = 2.0
    delta: float = 0.0
    times: int = 600
    scales: bool = False


AT_RHO = epsilon_of(exact(0.5, "rho", least=0, most=1000), exact(0.1, "delta", least=0, most=1))  # type: ignore[arg-type]
CLAIMS = [
    Claim(name="above the average", text="COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people)", pair=FEW,
          times=300),
    Claim(name="many at the average", text="COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people)", pair=EDGE,
          times=300),
    Claim(name="at rho", text="COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people)", pair=FEW, price="rho = 0.5",
          epsilon=AT_RHO, delta=0.1, times=300),
    Claim(name="a share of the whole", text="COUNT(*) * 1.0 / (SELECT COUNT(*) FROM people) FROM people WHERE age > 50", pair=FEW),
    Claim(name="a sum held at a value", text="SUM(LEAST(GREATEST(income, 0), (SELECT AVG(income) FROM people))) FROM people", pair=FEW,
          times=240, scales=True),
    Claim(name="nested", pair=FEW, text="COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits WHERE cost < (SELECT AVG(cost) * 9 "
          "FROM visits))", times=240),
    Claim(name="a quantile", text="COUNT(*) FROM people WHERE age >= (SELECT MEDIAN(age) FROM people)", pair=FEW, times=300),
    Claim(name="two values", text="(SELECT COUNT(*) FROM people) - (SELECT COUNT(*) FROM people WHERE age > 50)", pair=FEW),
    Claim(name="linked", pair=FEW, text="COUNT(*) FROM visits v WHERE v.cost >= (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = "
          "v.person_id)"),
    Claim(name="linked counts", pair=FEW, text="AVG(n) FROM (SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n "
          "FROM people p) AS t"),
]


def outcome(released: Released) -> Iterator[float]:
    """All that is seen: the values that came first, then the aggregates and their errors where these depend on noise."""
    for found in released.singles.values():
        yield float("nan") if found.value is None else float(found.value)  # type: ignore[arg-type]
    for estimate in released.aggregates.values():
        yield float(estimate.values[0])
        yield float(estimate.deviations[0])


def sample(statement: PreparedStatement, times: int) -> Numbers:
    return np.array([list(outcome(statement.measure())) for _ in range(times)])


def audit(claim: Claim, folder: Path, times: int) -> EpsilonBound:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({claim.price}) {claim.text}"
    first, second = prepared(text, claim.pair, folder)
    if claim.scales:
        for statement in (first, second):
            statement.session.kernel._noise = Secure()
    return lower_bound(sample(first, times), sample(second, times), confidence=SURE, delta=claim.delta)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_values_and_what_rests_on_them_keep_the_promise_together(claim: Claim, tmp_path: Path, effort: float) -> None:
    found = audit(claim, tmp_path, int(claim.times * effort))
    assert found.epsilon <= claim.epsilon, f"{found} refutes {claim.epsilon} of {claim.text}"


@pytest.mark.slow
def test_the_audit_is_not_blind(tmp_path: Path, effort: float) -> None:
    """Of a price that is shared by two counts, it finds a good part."""
    claim = next(claim for claim in CLAIMS if claim.name == "two values")
    assert audit(claim, tmp_path, int(2000 * max(1.0, effort))).epsilon > 0.35 * claim.epsilon


@pytest.mark.slow
def test_a_value_without_noise_would_be_found(tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact average in the place of the released one: one entity then decides whether thirty others are counted."""
    claim = next(claim for claim in CLAIMS if claim.name == "many at the average")

    first, second = prepared(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({claim.price}) {claim.text}", claim.pair, tmp_path)
    seen = []
    for statement, average in ((first, 45_312.5), (second, 43_548.4)):
        monkeypatch.setattr("dpsql.planning.script.values_of", lambda singles, average=average: dict.fromkeys(singles, average))
        seen.append(np.array([[float(found.values[0]) for found in statement.measure().aggregates.values()]
                              for _ in range(int(1000 * max(1.0, effort)))]))
    assert lower_bound(*seen, confidence=SURE).epsilon > claim.epsilon
