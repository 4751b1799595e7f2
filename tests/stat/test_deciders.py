"""What deciders tell of two neighbours does not tell them apart better than their price; faults known from the paper are found."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.audits import refutes
from support.validations import session_over, synthetic, validated

from dpsql.audit.epsilon import lower_bound
from dpsql.audit.prepared import Batched
from dpsql.trusted.accounting.cost import FREE, pure
from dpsql.trusted.measurements import flip_distance, vote
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import GridSum

pytestmark = pytest.mark.stat
SMALL = [0, 1, 1, 2, 3, 3, 5, 8]


def told(values: list[int], folder: Path, case: dict[str, Any], times: int) -> np.ndarray:
    """The decisions and slacks of many runs, as numbers."""
    made = validated(f"SELECT {case['aggregate']} FROM m", session_over(values, folder, low=case.get("low", 0), high=15, noise=Batched()),
                     synthetic(case["other"]), case["within"], epsilon=case["epsilon"], decider=case["decider"], alpha=0.5)
    found = [made.decide().findings[0] for _ in range(times)]
    return np.array([[finding.decision == "yes", finding.slack or 0] for finding in found], dtype=float)


def bound(case: dict[str, Any], tmp_path: Path, times: int, confidence: float = 1 - 1e-8) -> float:
    first, second = case["pair"]
    return lower_bound(told(first, tmp_path / "a", case, times), told(second, tmp_path / "b", case, times),
                       confidence=confidence).epsilon


def case(decider: str, aggregate: str, within: float, pair: tuple[list[int], list[int]], other: list[int] | None = None,
         epsilon: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"decider": decider, "aggregate": aggregate, "within": within, "pair": pair, "other": other or pair[0],
            "epsilon": epsilon, **more}


EDGE = ([*SMALL, 15], SMALL)  # one entity more, with the largest value
BORDER = ([9] * 5 + [0] * 4, [9] * 4 + [0] * 4)  # where a median flips
HONEST = [
    case("flip_distance", "COUNT(*)", 1.5, EDGE, SMALL[:-1]), case("flip_distance", "SUM(v)", 14.5, EDGE, SMALL),
    case("flip_distance", "COUNT(DISTINCT v)", 1.5, EDGE, SMALL), case("flip_distance", "QUANTILE_DISC(v, 0.25)", 1.5, EDGE, SMALL),
    case("flip_distance", "AVG(v)", 0.5, EDGE, SMALL), case("flip_distance", "MEDIAN(v)", 1.5, BORDER, [9] * 9),
    case("additive", "COUNT(*)", 0.9, EDGE, SMALL), case("additive", "SUM(v)", 10, EDGE, SMALL),
    case("coin", "COUNT(*)", 0.9, EDGE, SMALL), case("naive_coin", "COUNT(*)", 0.9, EDGE, SMALL),
    case("exponential", "MEDIAN(v)", 1.5, BORDER, [9] * 9), case("histogram", "MEDIAN(v)", 1.5, BORDER, [9] * 9),
    case("r2t", "SUM(v)", 14, EDGE, SMALL), case("svt", "SUM(v)", 14, EDGE, SMALL), case("svt_all_levels", "SUM(v)", 14, EDGE, SMALL),
]


@pytest.mark.parametrize("claim", HONEST, ids=[f"{claim['decider']}: {claim['aggregate']}" for claim in HONEST])
def test_a_decider_keeps_its_promise(claim: dict[str, Any], tmp_path: Path, effort: float) -> None:
    assert bound(claim, tmp_path, int(250 * effort)) <= claim["epsilon"]


# -- faults of the paper's code, planted


def unclamped(patch: pytest.MonkeyPatch) -> None:
    """Values beyond the domain are summed as they are."""
    patch.setattr(Quantizer, "to_sql", lambda self, printed, *known: printed)


def width_of_the_domain(patch: pytest.MonkeyPatch) -> None:
    """The sensitivity of a sum is taken to be max - min, which is right only where values are replaced. (The kernel would refuse
    the claim; the audit has to find it by itself.)"""
    patch.setattr(GridSum, "l1", property(lambda self: self.grid.most - 10))
    patch.setattr("dpsql.trusted.kernel.claims.Claims.summary", lambda *given: None)


def overflowing(patch: pytest.MonkeyPatch) -> None:
    """The weights of "yes" and "no" are worked out as exponentials: both infinite, the ratio is NaN, and the coin is fair."""
    def release(request: Any, context: Any, certificate: Any) -> Any:
        count = context.reader.rows(*context.query(request.plan))[0][0]
        tau = (request.high - request.low) / 2
        score = 1 - (tau - min(count - request.low, request.high - count)) / (2 * tau)
        with np.errstate(over="ignore"):
            weights = np.exp(np.array([float(score * tau), float((1 - score) * tau)]) / request.scale)
        if not np.isfinite(weights.sum()):  # the paper's weights are NaN then, and their sampler takes them for equal
            return vote.Voted(yes=context.noise.below(2) == 1 if np.isinf(weights).all() else bool(np.isinf(weights[0])))
        return vote.Voted(yes=context.noise.below(2**50) < int(weights[0] / weights.sum() * 2**50))

    patch.setattr("dpsql.trusted.measurements.vote.Vote.release", release)


def no_noise_on_the_count(patch: pytest.MonkeyPatch) -> None:
    """Half of the rows is compared with, exactly."""
    from dpsql.validation.deciders import ordered

    patch.setattr(ordered, "scale_of", lambda exact: 1e-3)
    patch.setattr("dpsql.trusted.noise.integer.DiscreteLaplace.cost", lambda self, sensitivity: FREE)


def counted_twice(patch: pytest.MonkeyPatch) -> None:
    """The two sides of a median overlap, as in the paper where the tolerance is 0, and a row is paid for once."""
    from fractions import Fraction

    from dpsql.mechanisms.additive_noise import bought
    from dpsql.trusted.measurements.flip_distance import FlipDistances, Form, NoisyFlipDistance, Within
    from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
    from dpsql.trusted.plan.operators.summands import Count
    from dpsql.validation.deciders import ordered
    from dpsql.validation.deciders.decider import Outcome

    def decide(self: Any, claim: Any, allotted: Any) -> Any:
        test = Within(plan=GroupedSums(input=claim.asked.view, keys=(), summands=(Count(),)), cells=((),),
                      forms=(Form(at=0, sign=1, constants=(-8,)),))
        both: list[FlipDistances] = []
        for _ in range(2):
            both.append((yield NoisyFlipDistance(tests=(test,), noise=bought(1, allotted))))
        return Outcome(within=all(side.slacks[0] >= 1 for side in both), slack=sum(side.slacks[0] for side in both))

    patch.setattr(ordered.Sides, "decide", decide)
    patch.setattr("dpsql.trusted.measurements.flip_distance.NoisyFlipDistance.cost", lambda self, *certificates: pure(Fraction(1, 2)))


def round_the_other_way(patch: pytest.MonkeyPatch) -> None:
    """A slack in rows is made one in entities by rounding what is outside up, and what is inside down, twice as far."""

    patch.setattr(flip_distance, "slack_of", lambda sides, rows: 3 * min(side[0] for side in sides) // max(1, rows))


Plant = Callable[[pytest.MonkeyPatch], None]
PLANTED: list[tuple[Plant, int, dict[str, Any]]] = [  # with how often to draw: hardly any run misses it
    (unclamped, 800, case("flip_distance", "SUM(v)", 14.5, ([*SMALL, 500], SMALL), SMALL)),
    (width_of_the_domain, 800, case("additive", "SUM(v)", 14, ([*SMALL, 15], SMALL), SMALL, low=10)),
    (overflowing, 200, case("coin", "COUNT(*)", 1500, ([1] * 2000, [1] * 1999), [1] * 3419)),
    (counted_twice, 6400, case("histogram", "MEDIAN(v)", 1.5, BORDER, [9] * 9)),
    (round_the_other_way, 1200, case("flip_distance", "COUNT(*)", 1.5, EDGE, SMALL[:-1])),
    (no_noise_on_the_count, 200, case("histogram", "MEDIAN(v)", 1.5, BORDER, [9] * 9)),
]


@pytest.mark.parametrize(("plant", "times", "claim"), PLANTED, ids=[plant.__name__ for plant, *_ in PLANTED])
def test_faults_of_the_paper_are_found(plant: Plant, times: int, claim: dict[str, Any], tmp_path: Path, effort: float,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert refutes(lambda folder, times: bound(claim, folder, times, confidence=0.9), claim["epsilon"], tmp_path,
                   int(times * max(1.0, effort)))


def test_a_vote_on_huge_scores_is_sure_and_no_number_overflows(tmp_path: Path) -> None:
    """Where the paper's program says yes or no by a fair coin, as both of its weights are infinite."""
    made = validated("SELECT COUNT(*) FROM m", session_over([1] * 2000, tmp_path), synthetic([1] * 2000), 1900, epsilon=1,
                     decider="coin", alpha=0.5)
    assert {made.decide().findings[0].decision for _ in range(50)} == {"yes"}
    assert math.isfinite(made.plan.findings()[0].certain or 0)


# -- suites


SUITE = ["SELECT COUNT(*) FROM m WHERE v < 9", "SELECT COUNT(*) FROM m", "SELECT COUNT(DISTINCT v) FROM m", "SELECT SUM(v) FROM m"]
WORDS = ("yes", "no", "inconclusive", "not tested")


def decisions(values: list[int], folder: Path, suite: str, queries: list[str], times: int) -> np.ndarray:
    made = validated(queries, session_over(values, folder, noise=Batched()), synthetic(SMALL), 1.5, epsilon=1, suite=suite, alpha=0.5)
    runs = [made.decide().findings for _ in range(times)]
    return np.array([[part for found in run for part in (WORDS.index(found.decision), found.slack or 0)] for run in runs], dtype=float)


@pytest.mark.parametrize("suite", ["independent", "conjunction", "sparse"])
@pytest.mark.parametrize("queries", [SUITE, [*SUITE, "SELECT MEDIAN(v) FROM m"]], ids=["rising and falling", "either way"])
def test_a_suite_keeps_its_promise(suite: str, queries: list[str], tmp_path: Path, effort: float) -> None:
    samples = [decisions(values, tmp_path / str(i), suite, queries, int(250 * effort)) for i, values in enumerate(EDGE)]
    assert lower_bound(*samples, confidence=1 - 1e-8).epsilon <= 1


def test_failures_that_are_not_paid_for_are_found(tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.trusted.measurements.above_threshold import AboveThresholdOfTests
    from dpsql.validation.suites import Sparse

    monkeypatch.setattr(AboveThresholdOfTests, "cost", lambda self, *certificates: FREE)
    monkeypatch.setattr(Sparse, "of", lambda allotted, failures, *, split, rare: Sparse(
        split=split, rare=0.3, scale_limit=0.2, scale_query=0.2))
    pair = ([*SMALL, 15, 15], [*SMALL, 15])
    samples = [decisions(values, tmp_path / str(i), "sparse", SUITE, int(300 * max(1.0, effort))) for i, values in enumerate(pair)]
    assert lower_bound(*samples, confidence=0.9).epsilon > 1


# -- rows that nothing limits


def held(folder: Path, pair: Any, clip: int, times: int) -> list[np.ndarray]:
    from support.sessions import open_ledger, reader_of, session_of

    from dpsql.audit.prepared import Remembering

    folder.mkdir(parents=True, exist_ok=True)
    ledger, samples = open_ledger(folder), []
    frame = pd.DataFrame({"person_id": [1] * 8, "points": [1] * 8})
    for here in pair.worlds():
        at = session_of(folder, reader=reader_of(here), around=Remembering, noise=Batched(), ledger=ledger)
        made = validated("SELECT COUNT(*) FROM scores", at, {"scores": frame}, 4, epsilon=1, clip=clip)  # type: ignore[arg-type]
        samples.append(np.array([float(made.decide().findings[0].slack or 0) for _ in range(times)]))
    return samples


def test_held_counts_keep_their_promise(tmp_path: Path, effort: float) -> None:
    from support.audits import Pair, person

    pair = Pair(people=[person(0), person(1)], scores=[(0, 1)] * 30 + [(1, 2)] * 3)
    assert lower_bound(*held(tmp_path / "a", pair, 4, int(250 * effort)), confidence=1 - 1e-8).epsilon <= 1
    assert lower_bound(*held(tmp_path / "b", pair, 30, int(250 * effort)), confidence=1 - 1e-8).epsilon <= 1


def test_counts_that_are_not_held_are_found(tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.audits import Pair, person


    monkeypatch.setattr(flip_distance, "lipschitz_constant", lambda level, owners: 64)
    pair = Pair(people=[person(0), person(1)], scores=[(0, 1)] * 30 + [(1, 2)] * 3)
    assert lower_bound(*held(tmp_path, pair, 30, int(600 * max(1.0, effort))), confidence=0.9).epsilon > 1
