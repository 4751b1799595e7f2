"""The chance of "yes" of every decider, worked out, beside how often it says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.validations import session_over, synthetic, validated

from dpsql.trusted.accounting.cost import pure
from dpsql.validation.deciders.ladder import RaceSum, SparseSum
from dpsql.validation.deciders.ordered import DrawnValue, Sides

EPSILON = 1.0
VALUES = [0, 1, 1, 2, 3, 3, 3, 5, 8, 9, 12, 15]
SIGMAS = 6.5  # so that a right formula fails once in 10^10


def laplace(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The support and the probabilities of discrete Laplace noise."""
    z = np.arange(-math.ceil(60 * scale), math.ceil(60 * scale) + 1)
    q = math.exp(-1 / scale)
    return z, (1 - q) / (1 + q) * q ** np.abs(z)


def below(x: np.ndarray | float, scale: float) -> np.ndarray:
    """P(Z < x) for whole x."""
    x = np.ceil(np.asarray(x, dtype=float))
    q = math.exp(-1 / scale)
    with np.errstate(over="ignore"):
        return np.where(x <= 0, q ** (1 - np.minimum(x, 0)) / (1 + q), 1 - q ** np.maximum(x, 0) / (1 + q))


def flip(slack: int) -> float:
    z, p = laplace(1 / EPSILON)
    return float(p[slack + z >= 1].sum())


def additive(answer: int, low: float, high: float, unit: int) -> float:
    z, p = laplace(unit / EPSILON)
    return float(p[(answer + z > low) & (answer + z < high)].sum())


def coin(count: int, low: float, high: float) -> float:
    near = min(max(min(count - low, high - count), -(high - low) / 2), (high - low) / 2)
    return 1 / (1 + math.exp(-EPSILON * near))


def naive(count: int, low: float, high: float) -> float:
    return 1 / (1 + math.exp(-EPSILON * (0.5 if low < count < high else -0.5)))


def drawn(low: float, high: float) -> float:
    """P(low < v < high), v drawn with probability proportional to exp(-epsilon d(v)), as the score moves by 1/2 with a row."""
    n = len(VALUES)
    d = np.array([max(0.0, sum(x < v for x in VALUES) - n / 2, sum(x > v for x in VALUES) - n / 2) for v in range(16)])
    weights = np.exp(-EPSILON * d)
    inside = np.array([low < v < high for v in range(16)])
    return float(weights[inside].sum() / weights.sum())


def sides(low: float, high: float, values: Sequence[int] = VALUES) -> float:
    z, p = laplace(2 / EPSILON)
    c1, c2, n = sum(v <= low for v in values), sum(v >= high for v in values), len(values)
    total = 0.0
    for zn, pn in zip(z, p, strict=True):
        m = (n + zn) / 2
        total += pn * p[c1 + z < m].sum() * p[c2 + z <= m].sum()
    return float(total)


LEVELS = [2, 4, 8, 15]  # of a column from 0 to 15: 15 / 2^k, rounded up, down to 2
TRUNCATED = [sum(v for v in VALUES if v <= level) for level in LEVELS]


def r2t(low: float, high: float) -> float:
    scales = [len(LEVELS) * level / EPSILON for level in LEVELS]
    rare = math.log(len(LEVELS) / 0.05)

    def all_below(end: float) -> float:
        return float(np.prod([below(end + scale * rare - total, scale)
                              for total, scale in zip(TRUNCATED, scales, strict=True)]))

    return all_below(high) - all_below(math.floor(low) + 1e-9)


def svt(low: float, high: float, upto: int, side: float) -> float:
    """P(no sum passes the upper end, and one passes the lower), for a price `side` of each noise."""
    grain = 2**16
    rho = np.arange(-40 * grain, 40 * grain, 256)  # the noise is that fine beside its scale
    p = np.exp(-np.abs(rho) * side / grain)
    p /= p.sum()

    def stays(end: Fraction, j: int) -> np.ndarray:
        reached, wanted = grain * TRUNCATED[j] // LEVELS[j], int(grain * end // LEVELS[j])
        return below(wanted + rho - reached, grain / side)

    first = np.prod([stays(Fraction(high), j) for j in range(upto)], axis=0)
    second = np.prod([stays(Fraction(math.floor(low) + 1), j) for j in range(upto)], axis=0)
    return float((p * first * (1 - second)).sum())


def stopping() -> list[float]:
    """How likely each level is to be the first that covers most rows, as noisy counts at a ninth of the price see it."""
    scale = 9 / EPSILON
    z, p = laplace(scale)
    rho = np.linspace(-25 * scale, 25 * scale, 3001)
    mass = np.exp(-np.abs(rho) / scale)
    mass /= mass.sum()
    alive, found = np.ones((len(z), len(rho))), []
    for level in LEVELS:
        x = (0.95 * (N + z[:, None]) + rho - sum(v <= level for v in VALUES)) / scale
        stays = np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0)), 1 - 0.5 * np.exp(-np.maximum(x, 0)))
        found.append(float(p @ (alive * (1 - stays)) @ mass))
        alive *= stays
    return [*found[:-1], found[-1] + float(p @ alive @ mass)]  # where none does, it is the last


def svt_stopped(low: float, high: float) -> float:
    return sum(chance * svt(low, high, j + 1, EPSILON / 3) for j, chance in enumerate(stopping()))


N, TOTAL = len(VALUES), sum(VALUES)
CASES: list[tuple[str, str, str, Any, list[int], Callable[[], float]]] = [
    ("COUNT far", "flip_distance", "COUNT(*)", 2.5, VALUES, lambda: flip(3)),
    ("COUNT outside", "flip_distance", "COUNT(*)", 1.5, VALUES + VALUES[:4], lambda: flip(1 - 3)),
    ("SUM", "flip_distance", "SUM(v)", 20, VALUES, lambda: flip(2)),
    ("MEDIAN", "flip_distance", "MEDIAN(v)", 2.5, VALUES, lambda: flip(6)),
    ("AVG", "flip_distance", "AVG(v)", 2.5, VALUES, lambda: flip(3)),  # 30 / 12.33 and 30 / 7.67 rows
    ("different values", "flip_distance", "COUNT(DISTINCT v)", 1.5, VALUES, lambda: flip(2)),
    ("too many values", "flip_distance", "COUNT(DISTINCT v)", 5.5, [3] * 12, lambda: flip(1 - 3)),  # of 9 values 3 must go
    ("COUNT", "additive", "COUNT(*)", 2.5, VALUES, lambda: additive(N, N - 2.5, N + 2.5, 1)),
    ("SUM", "additive", "SUM(v)", 20, VALUES, lambda: additive(TOTAL, TOTAL - 20, TOTAL + 20, 15)),
    ("COUNT near", "coin", "COUNT(*)", 2.5, VALUES[:-1], lambda: coin(N, N - 3.5, N + 1.5)),
    ("COUNT wrong", "coin", "COUNT(*)", 2.5, VALUES * 2, lambda: coin(N, 2 * N - 2.5, 2 * N + 2.5)),
    ("COUNT", "naive_coin", "COUNT(*)", 2.5, VALUES, lambda: naive(N, N - 2.5, N + 2.5)),
    ("MEDIAN", "exponential", "MEDIAN(v)", 1.5, VALUES, lambda: drawn(1.5, 4.5)),
    ("MEDIAN", "histogram", "MEDIAN(v)", 1.5, VALUES, lambda: sides(1.5, 4.5)),
    ("SUM", "r2t", "SUM(v)", 58, VALUES, lambda: r2t(TOTAL - 58, TOTAL + 58)),
    ("SUM", "svt_all_levels", "SUM(v)", 45, VALUES, lambda: svt(TOTAL - 45, TOTAL + 45, len(LEVELS), EPSILON / 2)),
    ("SUM", "svt", "SUM(v)", 45, VALUES, lambda: svt_stopped(TOTAL - 45, TOTAL + 45)),
]


@pytest.mark.parametrize(("decider", "aggregate", "width", "other", "chance"), [case[1:] for case in CASES],
                         ids=[f"{case[1]}: {case[0]}" for case in CASES])
def test_a_decider_says_yes_as_often_as_it_should(decider: str, aggregate: str, width: float, other: list[int],
                                                  chance: Callable[[], float], tmp_path: Path, effort: float) -> None:
    made = validated(f"SELECT {aggregate} FROM m", session_over(VALUES, tmp_path), synthetic(other), width, epsilon=EPSILON,
                     decider=decider, alpha=0.5)
    times = int(800 * effort)
    said = sum(made.decide().findings[0].decision == "yes" for _ in range(times))
    p = chance()
    assert 0.02 < p < 0.9999
    assert abs(said - times * p) <= SIGMAS * math.sqrt(times * p * (1 - p)) + SIGMAS, (said / times, p)


def test_the_paper_stops_below_the_tail_of_a_sum(tmp_path: Path) -> None:
    """A level that covers most rows leaves out the largest values: with no noise at all, svt is wrong and the others are not."""
    from dpsql.audit.exact import Exact

    values = [1] * 199 + [15] * 8  # the level that covers 95 % of the rows misses more than a third of the sum
    at = session_over(values, tmp_path, noise=Exact())
    found = {decider: validated("SELECT SUM(v) FROM m", at, synthetic(values), 30, decider=decider, alpha=0.5).decide()
             .findings[0].decision for decider in ("flip_distance", "additive", "svt", "svt_all_levels")}
    assert found == {"flip_distance": "yes", "additive": "yes", "svt": "no", "svt_all_levels": "yes"}


def test_effectiveness_says_how_far_is_enough(tmp_path: Path) -> None:
    """The distance from which a decision is reliable is the one that its chances say."""
    at = session_over(VALUES, tmp_path)
    for decider, wrong in (("flip_distance", lambda d: math.exp(-(d - 1)) / (1 + math.e)),
                           ("additive", lambda d: 2 * math.exp(-d) / (1 + math.exp(-1)))):
        made = validated("SELECT COUNT(*) FROM m", at, synthetic(VALUES), 3, epsilon=1, decider=decider, alpha=0.01)
        (found,) = made.plan.findings()
        assert found.certain == next(d for d in range(1, 99) if wrong(d) <= 0.01)
        assert [distance for distance, _ in found.mistakes] == [*(d for d in (1, 2, 4, 8, 16) if d < found.certain), found.certain]
        assert [chance for _, chance in found.mistakes] == pytest.approx([wrong(d) for d, _ in found.mistakes], rel=1e-6)


def test_sides_are_no_more_often_wrong_than_they_say(tmp_path: Path) -> None:
    """At every flip distance that the values have, wherever the tolerance ends; and from far enough on they are reliable."""
    case = validated("SELECT MEDIAN(v) FROM m", session_over(VALUES * 8, tmp_path), synthetic(VALUES), 2, epsilon=EPSILON,
                     decider="histogram").plan.checks[0].case
    decider, tried = Sides(), 0
    values = sorted(VALUES * 8)
    for low, high in ((-1, 16), (0.5, 9.5), (1.5, 4.5), (2.5, 3.5), (2.5, 8.5), (3.5, 9.5), (8.5, 9.5), (4.5, 16)):
        below, above = sum(v <= low for v in values), sum(v >= high for v in values)
        slack = min(len(values) - 2 * below, len(values) - 2 * above + 1)
        inside = sides(low, high, values)
        bound = decider.wrong(case, pure(Fraction(1)), slack if slack >= 1 else 1 - slack)
        assert bound is not None and (1 - inside if slack >= 1 else inside) <= bound + 1e-9
        tried += bound < 0.5
    assert tried >= 4
    assert decider.wrong(case, pure(Fraction(1)), 100) < 1e-4 < decider.wrong(case, pure(Fraction(1)), 10)  # type: ignore[operator]


def test_drawn_values_are_no_more_often_wrong_than_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.EPSILON", 8.0)
    case = validated("SELECT MEDIAN(v) FROM m", session_over(VALUES, tmp_path), synthetic(VALUES), 2, epsilon=8,
                     decider="exponential").plan.checks[0].case
    bounds = []
    for low, high in ((-1, 16), (0.5, 9.5), (1.5, 4.5), (2.5, 3.5), (2.5, 8.5), (3.5, 9.5), (8.5, 9.5), (4.5, 16), (9.5, 16)):
        below, above = sum(v <= low for v in VALUES), sum(v >= high for v in VALUES)
        slack = min(len(VALUES) - 2 * below, len(VALUES) - 2 * above + 1)
        bound = DrawnValue().wrong(case, pure(Fraction(8)), slack if slack >= 1 else 1 - slack)
        assert bound is not None and (1 - drawn(low, high) if slack >= 1 else drawn(low, high)) <= bound + 1e-9
        bounds.append(bound)
    assert sum(bound < 0.5 for bound in bounds) >= 4


@pytest.mark.parametrize(("decider", "chance"), [(RaceSum(), r2t), (SparseSum("svt_all_levels", private_stop=False), lambda low, high: (
    svt(low, high, len(LEVELS), EPSILON / 2)))], ids=["r2t", "svt_all_levels"])
def test_sums_over_levels_are_no_more_often_wrong_than_they_say(decider: Any, chance: Callable[[float, float], float], tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.EPSILON", 20.0)
    case = validated("SELECT SUM(v) FROM m", session_over(VALUES, tmp_path), synthetic(VALUES), 9, epsilon=20,
                     decider=decider.name).plan.checks[0].case
    bounds = []
    for low, high in ((-20, 400), (0, 400), (30, 140), (50, 70), (61, 63), (0, 20), (0, 50), (0, 62), (62, 90), (80, 200), (110, 200)):
        inside = low < TOTAL < high
        gap = min(TOTAL - low, high - TOTAL) if inside else low + 1 - TOTAL if low >= TOTAL else TOTAL - high + 1
        bound, yes = decider.wrong(case, pure(Fraction(20)), -(-gap // 15)), chance(low, high)
        assert (1 - yes if inside else yes) <= bound + 1e-6, (low, high)
        bounds.append(bound)
    assert sum(bound < 0.1 for bound in bounds) >= 3 and max(bounds) == 1
