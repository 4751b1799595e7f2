"""Sparse suites, conjunctions and deciders of every name, on a database and on all its neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.neighbours import farthest, friends, pairs, planned, slacks, visits

from dpsql.errors import Unsupported
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.above_threshold import SUM_GRAIN, AboveThresholdOfSums, AboveThresholdOfTests
from dpsql.trusted.measurements.flip_distance import NoisyFlipDistance, moved, read, slack_of
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.measurements.vote import VOTE_GRAIN, Vote
from dpsql.validation.deciders.all_deciders import NAMES

SUITES = {
    "rows": [f"SELECT COUNT(*) FROM visits WHERE diag = {d}" for d in range(4)],
    "rows and values": ["SELECT COUNT(*) FROM visits WHERE year = 1", "SELECT COUNT(DISTINCT diag) FROM visits",
                        "SELECT COUNT(DISTINCT cost) FROM visits WHERE year < 4", "SELECT COUNT(DISTINCT person) FROM visits"],
    "sums": ["SELECT SUM(cost) FROM visits", "SELECT SUM(diag) FROM visits WHERE year > 5", "SELECT SUM(-diag) FROM visits"],
    "averages": ["SELECT AVG(cost) FROM visits", "SELECT AVG(diag) FROM visits WHERE year = 5", "SELECT MEDIAN(cost) FROM visits"],
    "groups": ["SELECT year, COUNT(*) FROM visits GROUP BY year", "SELECT year, SUM(cost) FROM visits GROUP BY year",
               "SELECT year, COUNT(DISTINCT diag) FROM visits GROUP BY year"],
    "joined": ["SELECT COUNT(*) FROM visits JOIN people ON person = id WHERE age > 5", "SELECT COUNT(DISTINCT diag) FROM visits",
               "SELECT SUM(age) FROM visits JOIN people ON person = id"],
}


def tables(queries: list[str]) -> list[str]:
    return ["visits", "people"] if any("people" in query for query in queries) else ["visits"]


@pytest.mark.parametrize("within", [1, 8, 500])
@pytest.mark.parametrize("queries", SUITES.values(), ids=SUITES.keys())
def test_every_slack_of_a_sparse_suite_moves_by_one_and_one_way(queries: list[str], within: int, tmp_path: Path) -> None:
    """With `split`, an entity that leaves lowers what rows that come can only raise, and raises the others."""
    world = visits("", 3)
    session = world.session(tmp_path)
    request = next(planned(queries, world, session, *tables(queries), suite="sparse", within=within).steps())
    assert isinstance(request, AboveThresholdOfTests)

    def sides(kernel: Kernel) -> list[dict[int, int]]:
        certificates, found = kernel._certificates(request), []
        for test, each, certificate in zip(request.tests, read(request.tests, kernel._context()), certificates, strict=True):
            ways = dict.fromkeys(test.ways) if request.split else {0: None}
            found.append({way: slack_of([side for side, own in zip(each, test.ways, strict=True) if way in (0, own)],
                                        moved(test, certificate)) for way in ways})
        return found

    here = sides(session.kernel)
    for kernel in world.neighbours(session):
        for mine, theirs in zip(here, sides(kernel), strict=True):
            for way, slack in mine.items():
                assert abs(slack - theirs[way]) <= 1
                assert not request.split or (theirs[way] - slack) * way <= 0


@pytest.mark.parametrize("within", [1, 8, 500])
@pytest.mark.parametrize("queries", SUITES.values(), ids=SUITES.keys())
def test_the_tightest_slack_moves_by_one(queries: list[str], within: int, tmp_path: Path) -> None:
    world = visits("", 3)
    session = world.session(tmp_path)
    request = next(planned(queries, world, session, *tables(queries), suite="conjunction", within=within).steps())
    assert isinstance(request, NoisyFlipDistance) and request.together
    here = min(slacks(request, session.kernel))
    assert all(abs(min(slacks(request, kernel)) - here) <= 1 for kernel in world.neighbours(session))


AGGREGATES = ["COUNT(*)", "COUNT(DISTINCT diag)", "SUM(cost)", "AVG(cost)", "MEDIAN(cost)", "QUANTILE_DISC(diag, 0.9)"]


def exact(request: Any, kernel: Kernel) -> list[int]:
    """What a request of a decider looks at, in the units in which an entity moves it by 1 at most (a vector in l1)."""
    certificate, = kernel._certificates(request)
    totals = sums_in(kernel._reader.columns(*kernel._context().query(request.plan)), len(request.plan.keys),
                     request.cells if isinstance(request, NoisySums) else ((),))
    rows = certificate.below.rows or 0
    assert rows > 0
    if isinstance(request, Vote):
        return [request.score(totals[0][0], rows)]
    if isinstance(request, AboveThresholdOfSums):
        return [SUM_GRAIN * totals[step.at][0] // (max(1, request.plan.summands[step.at].l1) * rows) for step in request.steps]
    return [number for column in totals for number in column]


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("decider", NAMES)
def test_what_deciders_look_at_moves_by_what_they_pay_for(decider: str, aggregate: str, tmp_path: Path) -> None:
    world = visits("", 3)
    session = world.session(tmp_path)
    try:
        plan = planned([f"SELECT {aggregate} FROM visits"], world, session, "visits", decider=decider, within=5)
    except Unsupported:
        return
    steps, spent, answer = plan.steps(), None, None
    while True:
        try:
            request: Any = steps.send(answer)
        except StopIteration:
            break
        certificates = session.kernel._certificates(request)
        cost = request.cost(*certificates)
        spent = cost if spent is None else spent + cost
        assert plan.allotted.covers(spent)
        if isinstance(request, NoisyFlipDistance):
            here = slacks(request, session.kernel)
            assert all(abs(a - b) <= 1 for kernel in world.neighbours(session)
                       for a, b in zip(here, slacks(request, kernel), strict=True))
        elif isinstance(request, Vote | AboveThresholdOfSums | NoisySums):
            found = exact(request, session.kernel)
            for kernel in world.neighbours(session):
                steps_ = [abs(a - b) for a, b in zip(found, exact(request, kernel), strict=True)]
                if isinstance(request, NoisySums):
                    assert sum(steps_) <= sum(part.l1 or 0 for part in certificates[0].summands)
                else:
                    assert max(steps_) <= (VOTE_GRAIN if isinstance(request, Vote) else SUM_GRAIN)
        answer = session.kernel._look(request, certificates, session.kernel._context())
    assert spent is not None


@pytest.mark.parametrize("clip", [1, 2, 30])
@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(times)"])
def test_held_sums_share_no_price(what: str, clip: int, tmp_path: Path) -> None:
    queries = [f"SELECT {what} FROM met WHERE place = {place}" for place in range(3)]
    found = farthest(queries, friends(), tmp_path, "met", clip=clip, within=3)
    assert found.charged == 3 and found.l1 <= 3


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_limits_of_a_statement(limit: int, rows: int, tmp_path: Path) -> None:
    queries = [f"SELECT COUNT(*) FROM pairs WHERE a = {a}" for a in (1, 2, 3)] + ["SELECT COUNT(DISTINCT b) FROM pairs WHERE a = 1"]
    found = farthest(queries, pairs(limit), tmp_path, "pairs", max_rows=rows, within=2)
    assert found.l1 <= found.charged <= 4
