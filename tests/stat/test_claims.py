"""The promise, held against the whole engine: what is released on two neighbours tells them apart no better than it claims.

Each pair of databases is as bad as we can make it for its statement: values at and beyond the bounds, more rows than the limits,
groups that nobody else has. A lower bound of epsilon, above the truth once in 10^7, must not be above the price. Databases that
are always told apart refute a price of 2 after 216 releases, so twice as many leave room for faults that tell them apart less
often. Statements that take long are audited at a lower price, which fewer releases can refute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.audits import Pair, audit, person, visit

from dpsql.budgets.reports import epsilon_of
from dpsql.catalog.price import exact
from dpsql.frozen import Frozen, field

pytestmark = pytest.mark.stat

OTHERS = [person(i, age=20 + i, income=1000.0 * i, weight=50.0 + i) for i in range(1, 6)]
RICH = person(0, age=100, income=1e12, weight=1e9, nickname="only")
VISITS = [visit(100 + i, 1 + i % 5, year=2018 + i % 4, cost=10.0 * i) for i in range(10)]
# Six visits, three more than the limit, in different years, clinics and notes, all beyond the bound.
BUSY = [visit(i, 0, year=2018 + i % 4, clinic="abcd"[i % 4], cost=9e7, note=f"note {i}") for i in range(6)]
MANY = Pair(people=[RICH, *OTHERS], visits=[*BUSY, *VISITS], scores=[(0, 5)] * 64 + [(i, -5) for i in range(1, 6)])
# Nearly all values are on one side of the one that is there; the entity makes that side worse and the other one better.
EDGE = Pair(people=[person(0, age=100, income=1e5), person(1, age=90, income=90_000.0)])
THREE = Pair(people=[person(0, age=100), person(1, age=0), person(2, age=100)])
HOME = Pair(entity="household", households=[(0, "east"), (1, "west")], people=[person(i, household=i // 4) for i in range(8)],
            visits=[visit(i, i // 6, cost=500.0) for i in range(48)])
SHARED = Pair(people=[person(i) for i in range(6)], visits=[visit(i, i // 3, clinic="a", cost=250.0 * (i % 3)) for i in range(18)])
CROWD = Pair(people=[person(i, weight=1e6) for i in range(57)])
ALONE = Pair(people=[person(0, nickname="only"), *OTHERS])
PAIR_OF_TWO = Pair(people=[person(0, nickname="both"), person(1, nickname="both")])
VALUES = Pair(people=[RICH, *OTHERS], scores=[*((0, points) for points in range(-5, 6)), *((i, -5) for i in range(1, 6))])
NOTES = Pair(people=[person(0)], visits=[visit(i, 0, note=f"note {i}") for i in range(3)])


class Claim(Frozen):
    """A statement, the databases it is worst on, and what its price promises at which delta."""

    name: str
    text: str
    pair: Pair
    epsilon: float = 2.0
    delta: float = 0.0
    cells: list[Any] | None = field(default=None)
    times: int = 450


def pure(name: str, text: str, pair: Pair, options: str = "", epsilon: float = 2.0, **more: Any) -> Claim:
    return Claim(name=name, pair=pair, epsilon=epsilon, **more,
                 text=f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}{options}) {text}")


def rho(name: str, text: str, pair: Pair, options: str = "", amount: str = "0.5", at: float = 0.1, **more: Any) -> Claim:
    """A price in rho, at the epsilon that it implies for one delta."""
    epsilon = epsilon_of(exact(float(amount), "rho", least=0, most=1000), exact(at, "delta", least=0, most=1))  # type: ignore[arg-type]
    return Claim(name=name, pair=pair, epsilon=epsilon, delta=at, **more,
                 text=f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = {amount}{options}) {text}")


def both(name: str, text: str, pair: Pair, options: str = "", epsilon: float = 2.0, **more: Any) -> Claim:
    """A price of epsilon and delta, both of which are spent."""
    return Claim(name=name, pair=pair, epsilon=epsilon, delta=0.1, **more,
                 text=f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, delta = 0.1{options}) {text}")


CLAIMS = [
    pure("a count", "COUNT(*) FROM people", MANY),
    pure("a sum at its bound", "SUM(income) FROM people", MANY),
    pure("counts of groups", "year, COUNT(*) FROM visits GROUP BY year", MANY),
    pure("sums of groups, joint", "clinic, SUM(cost) FROM visits GROUP BY clinic", MANY),
    pure("average and variance", "AVG(income), VAR_POP(income), COUNT(*) FROM people", MANY),
    pure("several aggregates", "COUNT(*), SUM(age), AVG(income), COUNT(DISTINCT nickname), MEDIAN(age) FROM people", MANY,
         epsilon=1.0, times=400),
    pure("distinct values", "COUNT(DISTINCT note) FROM visits", MANY),
    pure("declared values, told one by one", "COUNT(DISTINCT year), COUNT(DISTINCT clinic) FROM visits", MANY, epsilon=1.0, times=400),
    pure("declared values of rows without a limit", "COUNT(DISTINCT points) FROM scores", MANY, epsilon=1.0, times=400),
    pure("values that entities vouch for", "COUNT(DISTINCT points + 20 * person_id) FROM scores", VALUES, epsilon=1.0, times=400),
    pure("distinct entities", "COUNT(DISTINCT person_id) FROM visits", MANY),
    pure("a median", "MEDIAN(income) FROM people", EDGE),
    pure("several quantiles", "quantile_cont(age, 0.25), MEDIAN(age), quantile_cont(age, 0.75) FROM people", EDGE,
         epsilon=1.0, times=300),
    pure("the extremes", "MIN(cost), MAX(cost) FROM visits", MANY, epsilon=1.0, times=400),
    pure("permute and flip", "MEDIAN(age) FROM people", EDGE, ", mechanism = 'permute_and_flip'"),
    pure("a learned limit of rows", "SUM(points), COUNT(*) FROM scores", MANY, ", bound = 'rows'", epsilon=1.0, times=400),
    pure("totals clipped in l1", "year, SUM(cost) FROM visits GROUP BY year", MANY, ", clip = 400"),
    pure("totals clipped at a learned limit", "SUM(points) FROM scores", MANY, ", bound = 'clip'", epsilon=1.0, times=400),
    pure("bounds that are searched", "AVG(weight) FROM people", CROWD, epsilon=1.0, times=300),
    pure("a household of many", "COUNT(*), SUM(cost) FROM visits", HOME),
    pure("a join of one's own rows", "sex, COUNT(*) FROM people JOIN visits USING (person_id) GROUP BY sex", MANY),
    pure("a subquery for each entity", "AVG(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t", MANY),
    pure("rows of several entities", "COUNT(*) FROM visits a JOIN visits b ON a.clinic = b.clinic", SHARED, epsilon=1.0, times=250),
    pure("signed sums of several entities", "SUM(a.cost - b.cost) FROM visits a JOIN visits b ON a.clinic = b.clinic", SHARED, epsilon=1.0, times=250),
    rho("a count at rho", "COUNT(*) FROM people", MANY),
    rho("sums at rho", "year, COUNT(*), SUM(cost) FROM visits GROUP BY year", MANY),
    rho("declared values at rho", "COUNT(DISTINCT year) FROM visits", MANY),
    rho("totals clipped in l2", "clinic, SUM(cost) FROM visits GROUP BY clinic", MANY, ", clip = 400"),
    rho("a median at rho", "MEDIAN(income), AVG(age) FROM people", EDGE),
    both("smooth sensitivity", "MEDIAN(age) FROM people", THREE, ", mechanism = 'smooth_sensitivity'"),
    both("a group that only one has", "nickname, COUNT(*) FROM people GROUP BY nickname", ALONE, cells=[("only",), ("al",)]),
    both("a group that two have", "nickname, COUNT(*), AVG(age) FROM people GROUP BY nickname", PAIR_OF_TWO, cells=[("both",)]),
    both("groups that only one has", "note, COUNT(*) FROM visits GROUP BY note", NOTES, cells=[(f"note {i}",) for i in range(3)]),
    both("a group by threshold", "nickname, COUNT(*) FROM people GROUP BY nickname", ALONE, ", mechanism = 'gaussian_threshold'",
         cells=[("only",), ("al",)]),
]


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_neighbours_are_told_apart_no_better_than_the_price_allows(claim: Claim, tmp_path: Path, effort: float) -> None:
    found = audit(claim.text, claim.pair, tmp_path, int(claim.times * effort), delta=claim.delta, cells=claim.cells)
    assert found.epsilon <= claim.epsilon, f"{found} refutes {claim.epsilon} of {claim.text}"


@pytest.mark.slow
def test_the_worst_pairs_are_bad(tmp_path: Path, effort: float) -> None:
    """The audit is not blind: on the simplest statements it comes close to what is claimed. With 2400 releases it finds 1.4 of 2,
    five of its standard deviations above what is asked for."""
    for claim in CLAIMS[:2]:
        found = audit(claim.text, claim.pair, tmp_path / claim.name, int(2400 * max(1.0, effort)))
        assert found.epsilon > 0.5 * claim.epsilon, found


@pytest.mark.slow
def test_a_group_that_only_one_has_is_shown_at_times(tmp_path: Path, effort: float) -> None:
    """So that it is delta alone which keeps the promise there: without it the epsilon would not do.

    It is shown once in twenty times. Of 1600 releases that choose an event, 32 with it are enough to choose it, and of 4000 that
    judge, 53 refute 0.3; there are 80 +- 9, and 200 +- 14.
    """
    claim = both("alone", "DISTINCT nickname FROM people", ALONE, epsilon=0.3, cells=[("only",)], times=6400)
    assert audit(claim.text, claim.pair, tmp_path, int(claim.times * max(1.0, effort)), cells=claim.cells).epsilon > claim.epsilon
