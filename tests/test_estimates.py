"""Released numbers that know their errors: intervals against exact tails and against draws, and how arithmetic carries noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.stats import norm

from dpsql.estimates import (
    Estimate,
    NoiseTerm,
    _are_apart,
    _coverage,
    _covered_by_laplace,
    _quantile,
    constant,
    laplaces,
    margin,
    normal,
    released,
)

LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999]


def laplace(scale: float) -> NoiseTerm:
    return NoiseTerm(kind="laplace", scale=scale)


def gaussian(sigma: float) -> NoiseTerm:
    return NoiseTerm(kind="gaussian", scale=sigma)


def pmf(error: NoiseTerm) -> NDArray[np.float64]:
    """Chances of -n .. n, with next to nothing beyond."""
    reach = math.ceil(error.scale * (45 if error.kind == "laplace" else 10)) + 3
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-np.abs(z) / error.scale) if error.kind == "laplace" else np.exp(-(z**2) / (2 * error.scale**2))
    return weights / weights.sum()


def covered(chances: NDArray[np.float64], w: float) -> float:
    """P(|z| <= w) of chances of -n .. n."""
    middle, reach = len(chances) // 2, math.floor(w + 1e-9)
    return float(chances[max(0, middle - reach):middle + reach + 1].sum())


# -- intervals


@pytest.mark.parametrize("error", [laplace(s) for s in (0.1, 0.5, 1.0, 2.7, 30.0, 1000.0)] + [
    gaussian(s) for s in (0.3, 0.6, 1.0, 1.7, 5.0, 40.0, 1000.0)])
def test_one_piece_has_the_least_interval_that_covers(error: NoiseTerm) -> None:
    chances = pmf(error)
    for level in [*LEVELS, 1 - 1e-6]:
        w = margin((error,), (1.0,), level)
        assert w == int(w) and covered(chances, w) >= level - 1e-9
        if error.kind == "laplace":
            assert w == 0 or covered(chances, w - 1) < level
        else:
            assert w == 0 or covered(chances, w - 1) < level + 1e-6
        assert margin((error,), (2.0**-60,), level) == w * 2.0**-60
        assert margin((error, gaussian(3.0)), (0.25, 0.0), level) == w / 4


def test_wide_noise_has_the_interval_of_its_continuous_twin() -> None:
    for level in LEVELS:
        assert margin((laplace(1e12),), (1.0,), level) == pytest.approx(-1e12 * math.log(1 - level), rel=1e-9)
        assert margin((gaussian(1e12),), (1.0,), level) == pytest.approx(norm.ppf(0.5 + level / 2) * 1e12, rel=1e-9)
        assert margin((NoiseTerm(kind="approximate", scale=2.0),), (3.0,), level) == pytest.approx(6 * norm.ppf(0.5 + level / 2))


PIECES = [
    (laplace(1.0), laplace(1.0)), (laplace(3.0), laplace(0.4)), (laplace(20.0), laplace(20.0), laplace(20.0)),
    (laplace(10.0), gaussian(4.0)), (laplace(1.0), gaussian(30.0)), (gaussian(1.0), gaussian(2.0)), (laplace(5.0), gaussian(0.4)),
    (laplace(0.3), laplace(0.3), laplace(0.3), laplace(0.3)), (gaussian(0.5), gaussian(0.5), laplace(0.2)),
    tuple(laplace(2.0 + i) for i in range(12))]


@pytest.mark.parametrize("errors", PIECES)
def test_several_pieces_are_covered_and_little_more(errors: tuple[NoiseTerm, ...]) -> None:
    """Against the exact distribution of the sum of integers."""
    chances = pmf(errors[0])
    for error in errors[1:]:
        chances = fftconvolve(chances, pmf(error))
    for level in LEVELS:
        w = margin(errors, (1.0,) * len(errors), level)
        least = next(i for i in itertools.count() if covered(chances, i) >= level)
        assert covered(chances, w) >= level - 1e-6
        assert w <= (least + len(errors) / 2 + 1) * 1.02


@pytest.mark.parametrize("errors, slopes", [
    ((laplace(100.0), laplace(100.0)), (1.0, 0.01)), ((laplace(100.0), laplace(1000.0)), (1.0, 0.03)),
    ((laplace(100.0), gaussian(500.0)), (1.0, 1.0)), ((laplace(100.0), gaussian(1e6)), (1.0, 1.0)),
    ((gaussian(100.0), laplace(1e-9)), (1.0, 1.0)), ((laplace(1e4),) * 5, (1.0, 0.5, 0.25, 2.0, 1e-7)),
    ((laplace(1e4),) * 60, (1.0,) * 60)])
def test_several_wide_pieces_against_draws(errors: tuple[NoiseTerm, ...], slopes: tuple[float, ...]) -> None:
    draw, n = np.random.default_rng(7), 200_000
    total = np.zeros(n)
    for error, slope in zip(errors, slopes, strict=True):
        total += slope * (draw.laplace(0, error.scale, n) if error.kind == "laplace" else draw.normal(0, error.scale, n))
    for level in LEVELS:
        share = float((np.abs(total) <= margin(errors, slopes, level)).mean())
        noise = 5 * math.sqrt(level * (1 - level) / n)
        assert level - noise <= share <= level + noise + 0.012 * (1 - level) * 20


@pytest.mark.parametrize("errors", PIECES)
def test_intervals_grow_with_confidence_and_scale_with_their_unit(errors: tuple[NoiseTerm, ...]) -> None:
    ones = (1.0,) * len(errors)
    found = [margin(errors, ones, level) for level in [*LEVELS, 1 - 1e-4, 1 - 1e-7, 1 - 1e-9]]
    assert found == sorted(found) and all(math.isfinite(w) for w in found)
    assert margin(errors, tuple(1e-30 for _ in errors), 0.95) == pytest.approx(1e-30 * margin(errors, ones, 0.95))
    # far out the bound of the tail is used, which is not much wider
    assert found[-1] <= 4 * found[-4]


def test_intervals_cover_far_out() -> None:
    chances = fftconvolve(pmf(laplace(2.0)), pmf(laplace(2.0)))
    for rare in (1e-6, 1e-7, 1e-9):
        assert 1 - covered(chances, margin((laplace(2.0), laplace(2.0)), (1.0, 1.0), 1 - rare)) <= rare * 1.01 + 1e-12
    for rare in (1e-6, 1e-9):
        w = margin((laplace(1.0), gaussian(1000.0)), (1.0, 1.0), 1 - rare)
        assert norm.ppf(1 - rare / 2) * 1000 <= w <= 1.15 * norm.ppf(1 - rare / 2) * 1000


def test_nothing_uncertain_has_no_interval() -> None:
    assert margin((), (), 0.95) == margin((laplace(3.0),), (0.0,), 0.95) == 0
    assert list(constant(np.array([1.0, 2.0])).margins(0.95)) == [0, 0]


def test_margins_of_cells_are_those_of_their_slopes() -> None:
    slopes = np.array([1.0, 1e-13, 0.0, 2.0, 1e200, np.nan])
    found = Estimate(values=np.zeros(6), slopes={(0,): (laplace(4.0), slopes)}).margins(0.9)
    assert list(found[:4]) == [margin((laplace(4.0),), (float(slope),), 0.9) for slope in slopes[:4]]
    assert found[1] > 0 and found[4] == math.inf and not found[5] < math.inf


def test_margins_of_many_cells_take_few_inversions() -> None:

    draw = np.random.default_rng(3)
    many = Estimate(values=np.zeros(5000), slopes={(i,): (laplace(7.0), draw.lognormal(0, 3, 5000)) for i in range(2)})
    _quantile.cache_clear()
    found = many.margins(0.95)
    assert _quantile.cache_info().misses < 1000
    assert np.all(found >= 0.99 * np.maximum.reduce([7 * 2.9 * slope - slope for _, slope in many.slopes.values()]))


@pytest.mark.parametrize("widths", [
    (1.0,), (1.0, 0.5), (1.0, 1.0), (1.0, 0.99), (1.0, 1.0, 0.3), (1.0, 1.0, 0.99, 0.99, 0.98, 0.98), (1.0, 0.99, 0.98, 0.97, 0.96, 0.95),
    (1.0, 0.1, 0.1, 1e-4, 1e-4)])
def test_sums_of_laplace_noise_have_a_closed_form(widths: tuple[float, ...]) -> None:
    assert _are_apart(widths)
    covered, inverted = _covered_by_laplace(widths), _coverage(widths, 0.0)
    for w in (0.01, 0.5, 1.0, 3.0, 7.0, 12.0):
        assert covered(w) == pytest.approx(inverted(w), abs=3e-6)
    if widths == (1.0,):
        assert covered(3.0) == pytest.approx(1 - math.exp(-3), rel=1e-12)
    if widths == (1.0, 1.0):  # of the difference of two gamma variables
        assert covered(3.0) == pytest.approx(1 - math.exp(-3) * (1 + 1.5), rel=1e-12)


@pytest.mark.parametrize("widths", [(1.0, 1.0, 1.0), (1.0, 1 - 1e-9), (0.5, 1.0), (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)])
def test_sums_that_would_cancel_are_inverted(widths: tuple[float, ...]) -> None:
    assert not _are_apart(widths)


# -- standard errors


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 9.0])
def test_the_variance_of_laplace_noise_on_integers(scale: float) -> None:
    chances = pmf(laplace(scale))
    z = np.arange(len(chances)) - len(chances) // 2
    assert laplace(scale).variance == pytest.approx(float((z**2 * chances).sum()), rel=1e-9)


def test_variances_at_the_ends() -> None:
    assert laplace(1e-9).variance == laplace(1e-300).variance == 0
    for scale in (1e6, 1e12, 1e18):
        assert laplace(scale).variance == pytest.approx(2 * scale**2, rel=1e-9)
    assert gaussian(3.0).variance == 9 and NoiseTerm(kind="approximate", scale=2.0).variance == 4


# -- arithmetic

A = released((0,), np.array([10.0, 20.0, 30.0]), laplace(2.0), unit=0.5)
B = released((1,), np.array([4.0, 5.0, 6.0]), gaussian(3.0))


def same(a: Estimate, b: Estimate) -> bool:
    return bool(np.allclose(a.values, b.values, equal_nan=True)) and a.slopes.keys() == b.slopes.keys() and all(
        a.slopes[name][0] == b.slopes[name][0] and np.allclose(a.slopes[name][1], b.slopes[name][1], equal_nan=True)
        for name in a.slopes)


def test_released_numbers_are_integers_times_a_unit() -> None:
    assert list(A.values) == [5, 10, 15]
    assert np.allclose(A.deviations, 0.5 * math.sqrt(laplace(2.0).variance))
    assert A.linear and not A.approximate
    assert released((0,), np.zeros(1), NoiseTerm(kind="approximate", scale=1.0)).approximate


def test_identities() -> None:
    assert same(A + B, B + A) and same((A + B) - B + B * 0.0, A + B * 0.0) and same(A - B, A + B * -1.0)
    assert same(A + A, A * 2.0) and same(A * B, B * A) and same(A + 1.0 - 1.0, A) and same(A / 2.0, A * 0.5)
    assert same((A + B) * 3.0, A * 3.0 + B * 3.0) and same(A * B / B, A * (B / B))
    assert np.allclose((A - A).deviations, 0) and np.allclose((A / A).deviations, 0) and np.allclose((A / A).values, 1)
    assert np.allclose((A * A).deviations, 2 * np.abs(A.values) * A.deviations)


def test_sums_keep_exact_intervals_and_products_do_not() -> None:
    assert (A + B).linear and (A * 3.0).linear and (A * constant(np.array([1.0, 2.0, 3.0]))).linear
    assert (constant(np.array([1.0, 2.0, 3.0])) * A).linear and (A / constant(np.array([1.0, 2.0, 4.0]))).linear
    for made in (A * B, A / B, A.root(), A * B + A, constant(np.ones(3)) / A):
        assert not made.linear and made.approximate


def test_deviations_of_sums_add_up_in_squares() -> None:
    assert np.allclose((A + B).deviations ** 2, A.deviations**2 + B.deviations**2)
    assert np.allclose((A * 3.0 - B * 2.0).deviations ** 2, 9 * A.deviations**2 + 4 * B.deviations**2)


def test_what_cannot_be_divided_has_no_value() -> None:
    zero = released((1,), np.array([0.0, 5.0, 6.0]), gaussian(3.0))
    assert list(np.isnan((A / zero).values)) == [True, False, False]
    assert list(np.isnan((A / constant(np.array([1.0, 0.0, 2.0]))).values)) == [False, True, False]
    assert list(np.isnan(A.where(np.array([True, False, True])).values)) == [False, True, False]


def test_values_are_moved_into_their_range_and_keep_their_error() -> None:
    held = (A - 12.0).within(-5, 1)
    assert list(held.values) == [-5, -2, 1] and np.allclose(held.deviations, A.deviations)
    assert list((A - 7.0).root().values) == [0, math.sqrt(3), math.sqrt(8)]


@pytest.mark.parametrize("combine", [
    lambda a, b: a * b, lambda a, b: a / b, lambda a, b: (a / b).root(), lambda a, b: (a * a) / b - a, lambda a, b: b.root() * a])
def test_first_order_errors_against_draws(combine: Callable[[Estimate, Estimate], Estimate]) -> None:
    """Noise small beside the values, where the delta method is good."""
    draw, n = np.random.default_rng(11), 200_000
    first, second = 5000.0, 2000.0
    a = released((0,), np.array([first]), laplace(30.0))
    b = released((1,), np.array([second]), gaussian(25.0))
    drawn = combine(constant(first + draw.laplace(0, 30.0, n)), constant(second + draw.normal(0, 25.0, n))).values
    made = combine(a, b)
    assert made.deviations[0] == pytest.approx(drawn.std(), rel=0.02)
    for level in (0.8, 0.95):
        share = float((np.abs(drawn - made.values[0]) <= made.margins(level)[0]).mean())
        assert level - 0.01 <= share <= level + 0.02  # half a unit of each integer noise is added


# -- sums of Laplace noise in unknown parts


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("parts", [(1,), (1, 1), (1, 0.5), (1,) * 5, (1, 0.1, 0.1, 0.1), (1,) * 40], ids=str)
def test_no_sum_of_laplace_noise_is_heavier(parts: tuple[float, ...], confidence: float) -> None:
    """Against the exact quantile of a sum, by inversion of its characteristic function; and it is not far above the worst."""
    deviation = math.sqrt(2 * sum(part**2 for part in parts))
    assert _quantile(tuple(map(float, parts)), 0.0, confidence) / deviation <= laplaces(confidence)
    worst = max(normal(confidence), -math.log(1 - confidence) / math.sqrt(2))
    assert worst <= laplaces(confidence) <= worst * (1.35 if confidence < 0.7 else 1.1)


def test_noise_in_unknown_parts_has_honest_intervals() -> None:
    alone = Estimate(values=np.zeros(1), slopes={(0,): (NoiseTerm(kind="laplaces", scale=2.0), np.ones(1))})
    assert alone.margins(0.99)[0] == pytest.approx(2 * laplaces(0.99)) and alone.deviations[0] == 2
    both = alone + Estimate(values=np.zeros(1), slopes={(1,): (NoiseTerm(kind="normal", scale=1.5), np.ones(1))})
    assert both.margins(0.99)[0] == pytest.approx(2.5 * laplaces(0.99))
    plain = Estimate(values=np.zeros(1), slopes={(0,): (NoiseTerm(kind="normal", scale=2.0), np.full(1, 3.0))})
    for confidence in (0.6, 0.9, 0.99, 0.999):
        assert plain.margins(confidence)[0] == pytest.approx(6 * normal(confidence))
    assert not (both.approximate or plain.approximate)


@pytest.mark.parametrize("kind", ["normal", "laplaces"])
def test_pieces_that_may_depend_on_each_other_add_up(kind: str) -> None:
    """Whatever they have in common: two answers of one measurement may be the same noise, or have its sign turned."""
    def piece(at: int, scale: float, together: int | None) -> Estimate:
        error = NoiseTerm(kind=kind, scale=scale, together=together)  # type: ignore[arg-type]
        return Estimate(values=np.array([10.0, 20.0]), slopes={(at, 0): (error, np.array([1.0, 2.0]))})

    apart, shared, other = piece(0, 3.0, None) + piece(1, 4.0, None), piece(0, 3.0, 7) + piece(1, 4.0, 7), piece(2, 12.0, 8)
    assert apart.deviations.tolist() == pytest.approx([5, 10]) and shared.deviations.tolist() == pytest.approx([7, 14])
    assert (piece(0, 3.0, 7) - piece(1, 4.0, 7)).deviations.tolist() == pytest.approx([7, 14])
    assert (shared + other).deviations.tolist() == pytest.approx([math.hypot(7, 12), 2 * math.hypot(7, 12)])
    one = Estimate(values=np.zeros(1), slopes={(0, 0): (NoiseTerm(kind=kind, scale=7.0), np.ones(1))})  # type: ignore[arg-type]
    assert shared.margins(0.95)[0] == pytest.approx(one.margins(0.95)[0]) and shared.margins(0.95)[0] > apart.margins(0.95)[0]
    assert (piece(0, 3.0, 7) * 2.0 + piece(0, 3.0, 7)).deviations[0] == pytest.approx(9)


# -- biases and ranges


def noisy(values: list[float], at: int = 0, **biases: float) -> Estimate:
    return released((at, 0), np.array(values), NoiseTerm(kind="normal", scale=1.0)).beyond(**{"below": 0.0, "above": 0.0, **biases})


def test_a_quotient_of_sums_that_lack_something_holds_all_that_they_may_be() -> None:
    """At least a over at least b may be any number that is not negative; a known sum over at least b is a / b at most."""
    least = noisy([100.0, 3.0], 1, above=math.inf)
    for above, highest in ((noisy([50.0, 50.0], above=math.inf), [math.inf, math.inf]), (noisy([50.0, 50.0]), [52.25 / 98.04, 52.25 / 1.04])):
        low, high = (above / least).ends(0.95)
        assert np.allclose(low, 0) and np.allclose(high, highest, rtol=0.01)
    low, high = (noisy([50.0, -50.0]) / noisy([100.0, 100.0], 1, above=10.0)).ends(0.95)
    assert np.allclose(low, [47.75 / 112.25, -52.25 / 97.75], rtol=0.01) and np.allclose(high, [52.25 / 97.75, -47.75 / 112.25], rtol=0.01)
    assert np.isneginf((noisy([50.0]) / noisy([1.0], 1, above=1.0)).ends(0.95)[0]).all()


def test_a_bias_is_in_intervals_that_are_drawn_and_in_what_is_made_of_them() -> None:
    ratio = (noisy([50.0]) / noisy([100.0], 1)).within(0, 1)
    assert np.isfinite(ratio.ends(0.95)).all()
    for one in (ratio.beyond(math.inf, math.inf), ratio.beyond(math.inf, math.inf) * 3.0, (ratio.beyond(math.inf, math.inf) + 1.0)):
        assert np.isinf(one.ends(0.95)).all()
    assert [end.tolist() for end in ratio.beyond(math.inf, math.inf).known(0, 1).ends(0.95)] == [[0.0], [1.0]]
    assert np.isinf((ratio.beyond(math.inf, math.inf).known(0, 1) + noisy([1.0], 2)).ends(0.95)).all()


def test_an_interval_that_ends_where_values_were_held_is_open_there() -> None:
    low, high = noisy([0.5, 5.0, 9.5]).open_at(0, 10).ends(0.95)
    assert np.isinf(low).tolist() == [True, False, False] and np.isinf(high).tolist() == [False, False, True]


def test_no_error_is_larger_than_the_range_of_the_truth() -> None:
    ratio = noisy([50.0, 50.0, -3.0]) / noisy([0.01, 100.0, 0.0], 1)
    known = ratio.known(0, 4)
    assert known.deviations[0] == pytest.approx(4.0) and known.deviations[1] == ratio.deviations[1] and not np.isfinite(known.deviations[2])
    assert [end.tolist() for end in known.ends(0.95)][0][1] == ratio.ends(0.95)[0][1]


def test_a_value_that_may_be_any_distance_below_the_truth_has_all_of_the_error_at_its_low_end() -> None:
    total = released((0, 0), np.array([100.0, 20.0]), NoiseTerm(kind="laplace", scale=5.0))
    rows = released((1, 0), np.array([50.0, 30.0]), NoiseTerm(kind="laplace", scale=1.0))
    for plain in (total, total / rows):
        low, high = plain.at_least().ends(0.95)
        assert np.allclose(low, plain.ends(0.9)[0], rtol=1e-9) and (high == math.inf).all()
        assert plain.at_least().within(0.0, 60.0).ends(0.95)[1].tolist() == [60.0, 60.0]
        assert plain.at_least().values.tolist() == plain.values.tolist()
