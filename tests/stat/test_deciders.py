"""What deciders tell of two neighbours does not tell them apart better than their price; faults known from the paper are found."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from validations import session_over, synthetic, validated

from dpsql.audit.epsilon import lower_bound
from dpsql.kernel.looks import vote
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.summands import GridSum

pytestmark = pytest.mark.stat
SMALL = [0, 1, 1, 2, 3, 3, 5, 8]


def told(values: list[int], folder: Path, case: dict[str, Any], times: int) -> np.ndarray:
    """The decisions and slacks of many runs, as numbers."""
    made = validated(f"SELECT {case['aggregate']} FROM m", session_over(values, folder, low=case.get("low", 0), high=15),
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
    patch.setattr(Quantizer, "to_sql", lambda self, printed, kind: printed)


def width_of_the_domain(patch: pytest.MonkeyPatch) -> None:
    """The sensitivity of a sum is taken to be max - min, which is right only where values are replaced."""
    patch.setattr(GridSum, "l1", property(lambda self: self.grid.most - 10))


def overflowing(patch: pytest.MonkeyPatch) -> None:
    """The weights of "yes" and "no" are worked out as exponentials: both infinite, the ratio is NaN, and the coin is fair."""
    def look(request: Any, certificate: Any, context: Any) -> Any:
        count = context.reader.rows(context.sql(request.plan))[0][0]
        tau = (request.high - request.low) / 2
        score = 1 - (tau - min(count - request.low, request.high - count)) / (2 * tau)
        with np.errstate(over="ignore"):
            weights = np.exp(np.array([float(score * tau), float((1 - score) * tau)]) / request.scale)
        if not np.isfinite(weights.sum()):  # the paper's weights are NaN then, and their sampler takes them for equal
            return vote.Voted(yes=context.noise.coin(1, 1) if np.isinf(weights).all() else bool(np.isinf(weights[0])))
        return vote.Voted(yes=context.noise.coin(int(weights[0] / weights.sum() * 2**50), 50))

    patch.setattr("dpsql.kernel.run.vote.look", look)


def no_noise_on_the_count(patch: pytest.MonkeyPatch) -> None:
    """Half of the rows is compared with, exactly."""
    from dpsql.validation.deciders import ordered

    patch.setattr(ordered, "scale_of", lambda exact: 1e-3)
    patch.setattr("dpsql.requests.noise.DiscreteLaplace.cost", lambda self, sensitivity: __import__(
        "dpsql.accounting.cost", fromlist=["FREE"]).FREE)


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], dict[str, Any]]] = [
    (unclamped, case("flip_distance", "SUM(v)", 14.5, ([*SMALL, 500], SMALL), SMALL)),
    (width_of_the_domain, case("additive", "SUM(v)", 14, ([*SMALL, 15], SMALL), SMALL, low=10)),
    (overflowing, case("coin", "COUNT(*)", 1500, ([1] * 2000, [1] * 1999), [1] * 3419)),
    (no_noise_on_the_count, case("histogram", "MEDIAN(v)", 1.5, BORDER, [9] * 9)),
]


@pytest.mark.parametrize(("plant", "claim"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_faults_of_the_paper_are_found(plant: Callable[[pytest.MonkeyPatch], None], claim: dict[str, Any], tmp_path: Path,
                                       effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert bound(claim, tmp_path, int(800 * effort), confidence=0.9) > claim["epsilon"]


def test_a_vote_on_huge_scores_is_sure_and_no_number_overflows(tmp_path: Path) -> None:
    """Where the paper's program says yes or no by a fair coin, as both of its weights are infinite."""
    made = validated("SELECT COUNT(*) FROM m", session_over([1] * 2000, tmp_path), synthetic([1] * 2000), 1900, epsilon=1,
                     decider="coin", alpha=0.5)
    assert {made.decide().findings[0].decision for _ in range(50)} == {"yes"}
    assert math.isfinite(made.plan.findings()[0].certain or 0)
