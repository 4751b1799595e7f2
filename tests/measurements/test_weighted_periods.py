"""Weighted sums over periods: their release and cost by definition, and what the kernel makes of forged ones."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.growing_worlds import add_visits, project

import dpsql
from dpsql.audit.exact import Exact
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.engine.answering import planned
from dpsql.engine.running_over_periods import OfOnePeriod, RunningTotals
from dpsql.errors import Incident, InternalError, OperationalError
from dpsql.frozen import replace
from dpsql.planning.claimed_periods import certificate_of
from dpsql.trusted.accounting.cost import FREE, Charge, Cost
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.measurements.noisy_sums import MeasuredSums
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.noise.integer import DiscreteGaussian
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count

TEXT = ("SELECT sex, date_trunc('month', visited_on) AS month, SUM(COUNT(*)) OVER (PARTITION BY sex ORDER BY date_trunc('month', "
        "visited_on)) AS so_far FROM visits JOIN people USING (person_id) GROUP BY sex, month")
MONTHS = 5


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 6, 20))
    made = project(tmp_path)
    made.write_text(made.read_text().replace("epsilon = 1000\ndelta = 1e-3", "rho = 1000").replace(
        "epsilon = 10, delta = 1e-4", "rho = 20").replace("epsilon = 5, delta = 1e-4", "rho = 20"))
    rng = np.random.default_rng(3)
    add_visits(made, [(int(person), dt.date(2025, int(month), 1 + int(day))) for person, month, day in zip(
        rng.integers(0, 40, 900), rng.integers(1, MONTHS + 1, 900), rng.integers(0, 28, 900), strict=True)])
    return made


@pytest.fixture
def connection(policy: Path) -> Iterator[Connection]:
    with dpsql.connect(policy=policy, budget="study", analyst="ada", rho=0.5) as made:
        yield made


def last_part(connection: Connection) -> OfOnePeriod:
    plan = planned(TEXT, connection.session).plan
    assert isinstance(plan, RunningTotals) and isinstance(plan.parts[-1].request, WeightedPeriods)
    return plan.parts[-1]


def run(connection: Connection, part: OfOnePeriod, *, stated: PeriodReads | None = None, cost: Cost | None = None,
        steps: Callable[[], Iterator[object]] | None = None) -> MeasuredSums:
    """Ask the kernel for a measurement, with the charges that are stated for it."""
    session, reads = connection.session, stated or part.reads
    return session.kernel.run(  # type: ignore[no-any-return]
        (steps or part.bill().steps.__iter__)(), cost=cost or part.cost, account=session.account, sql="forged",
        limits=session.limits, digest="forged", encode=lambda made: "[]", views=[part.program.view],
        in_periods=session.period_limits, data=f"{reads} closed")


def test_a_release_adds_up_what_each_month_has_times_its_weight(connection: Connection, policy: Path) -> None:
    connection.session.kernel._noise = Exact()
    part = last_part(connection)
    made = run(connection, part)
    connection.close()
    with duckdb.connect(policy.parent / "data.duckdb", read_only=True) as data:
        rows = data.execute("SELECT sex, month, SUM(LEAST(n, 4)) FROM (SELECT sex, person_id, month(visited_on) AS month, COUNT(*) AS n "
                            "FROM visits JOIN people USING (person_id) GROUP BY ALL) GROUP BY ALL").fetchall()
    counted = {(sex, month): total for sex, month, total in rows}
    weights = [weight for many, weight in part.request.weights for _ in range(many)]
    assert len(weights) == MONTHS
    for (sex,), total in zip(part.request.cells, made.totals[0][0], strict=True):
        assert total == sum(weight * int(counted.get((sex, month + 1), 0)) for month, weight in enumerate(weights))


def test_costs_follow_from_the_definition() -> None:
    once = Certificate(below=None, summands=(Sensitivity(l1=3, l2=2),))  # type: ignore[arg-type]
    noise = DiscreteGaussian(sigma=10.0)
    for weights in itertools.product((0, 1, 5), repeat=3):
        request = replace(_any_request(), weights=tuple((2, weight) for weight in weights), noises=(noise,))
        for l1 in (None, 20, 3):  # with each month twice, by the rows of each, or by those of all of them
            most = min(2 * sum(weights) * 2, max(weights) * (l1 or 10**6))
            whole = Certificate(below=_Private(), summands=(Sensitivity(l1=l1, l2=0),), in_period=once)  # type: ignore[arg-type]
            assert request.cost(whole) == (FREE if most == 0 else Cost(epsilon=None, rho=Fraction(most) ** 2 / 200))
            assert request.costs_in_periods(whole) == [
                (2, FREE if weight == 0 else Cost(epsilon=None, rho=Fraction(2 * weight) ** 2 / 200)) for weight in weights]
    with pytest.raises(ValueError, match="one period is not known"):
        request.cost(replace(whole, in_period=None))


class _Private:
    public = False


def _any_request() -> WeightedPeriods:
    return WeightedPeriods(plan=GroupedSums(input=Constants(columns=(), rows=()), keys=("period",), summands=(Count(),)), cells=((),),
                           weights=(), noises=(DiscreteGaussian(sigma=1.0),))


def test_forged_charges_and_weights_are_refused_before_a_charge(connection: Connection) -> None:
    part = last_part(connection)
    reads, request = part.reads, part.request
    assert reads is not None and isinstance(request, WeightedPeriods) and len(reads.stated) == len(request.weights)
    lower = tuple((many, replace(charge, rho=charge.rho - 1)) for many, charge in reads.stated)
    free = tuple((many, Charge(epsilon=None, rho=0, delta=0)) for many, charge in reads.stated)
    turned = tuple(reversed(reads.stated))
    for stated in (lower, free, turned):
        with pytest.raises(ValueError, match=r"in a period|not known"):
            run(connection, part, stated=replace(reads, stated=stated))
    more_weight = replace(request, weights=tuple((many, weight + 1) for many, weight in request.weights))
    shifted = replace(request, weights=((1, 0), *request.weights[:-1], (request.weights[-1][0] - 1 or 1, request.weights[-1][1])))
    for forged in (more_weight, shifted, replace(request, noises=(DiscreteGaussian(sigma=1.0),))):
        with pytest.raises((ValueError, OperationalError, InternalError)):
            run(connection, part, steps=lambda forged=forged: _only(forged))  # type: ignore[misc]
    before = part.session.ledger.spent("study", None)
    part.session.ledger.refresh()
    assert part.session.ledger.spent("study", None) == before == Charge(epsilon=0, rho=0, delta=0)


def test_a_second_request_is_refused_when_a_period_cannot_pay(connection: Connection) -> None:
    part = last_part(connection)
    with pytest.raises(Incident):
        run(connection, part, cost=part.cost + part.cost, steps=lambda: _twice(part.request))


def test_the_certificate_of_a_month_is_a_part_of_that_of_all(connection: Connection) -> None:
    part = last_part(connection)
    found = certificate_of(part.request.plan, connection.session.kernel)
    assert found.in_period is not None and found.in_period.below.rows == 4 and found.below.rows == 4 * MONTHS
    assert found.in_period.numbered_from == 2025 * 12


def _only(request: object) -> Iterator[object]:
    yield request


def _twice(request: object) -> Iterator[object]:
    yield request
    yield request
