"""Quantiles from noisy counts of bins: where they are without noise, how often their intervals cover, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from support.extensions.given import Given
from support.golden.dense import dense
from support.joined_worlds import context_of
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.backends.duckdb import DuckReader
from dpsql.engine.decide import decide
from dpsql.estimates import laplaces, normal
from dpsql.mechanisms.mechanism import Accepted, Ordered, Rejected, TaskContext
from dpsql.mechanisms.select.rank_counts import RankCounting, RankCounts, combined, weights_of
from dpsql.planning.choose import choose
from dpsql.questions.parts import Quantiles
from dpsql.sql.text.parse import parse
from dpsql.trusted.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.noise.integer import DiscreteLaplace, Noise
from dpsql.trusted.plan.certificate import Sensitivity
from dpsql.trusted.plan.expr.nodes import Call, Literal
from dpsql.trusted.plan.operators.quantizer import Quantizer

ALONE = TaskContext(keys=(), cells=((),))
QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
DECILES = tuple(Fraction(i, 10) for i in range(1, 10))
COLUMNS = (("k", "VARCHAR"), ("v", "BIGINT"), ("real", "DOUBLE"), ("w", "BOOLEAN"))
Places = np.ndarray[Any, np.dtype[np.int64]]


def task(*fractions: Fraction, most: int = 25_000, rows: int = 1, column: str = "v", when: str | None = None,
         step: Fraction = Fraction(1), given: tuple[tuple[Any, ...], ...] = ()) -> Ordered:
    grid = Quantizer(low=0.0, high=float(most), step=step, from_low=True)
    return Ordered(at=0, input=Given(columns=COLUMNS, rows=given), rows=rows,
                   part=Quantiles(column=column, when=when, grid=grid, fractions=fractions))


def noisy(noise: Noise, size: int, draw: np.random.Generator) -> Places:
    if isinstance(noise, DiscreteLaplace):
        chance = -math.expm1(-1 / noise.scale)
        return draw.geometric(chance, size) - draw.geometric(chance, size)
    return np.round(draw.normal(0, noise.sigma, size)).astype(np.int64)


def played(given: Ordered, price: Cost, places: Places, draw: np.random.Generator) -> tuple[Any, list[NoisySums]]:
    """The estimates for rows at these places, and all that was asked."""
    script, requests, told = RankCounts().run([(given, price)], ALONE), [], None
    try:
        while True:
            request = script.send(told)
            assert isinstance(request, NoisySums)
            requests.append(request)
            binned = request.plan.input.columns[-1][2]  # type: ignore[attr-defined]
            width = binned.args[1].value if isinstance(binned, Call) and binned.function == "//" else 1
            numbers = np.array([number for (number,) in request.cells], dtype=np.int64)
            counts = np.bincount(places // width, minlength=int(numbers.max()) + 1)[numbers]
            told = MeasuredSums(totals=((tuple((counts + noisy(request.noises[0], len(numbers), draw)).tolist()),),))
    except StopIteration as end:
        return end.value[0], requests


def cost_of(requests: list[NoisySums], rows: int) -> Cost:
    moved = Sensitivity(l1=rows, l2=rows)
    return sum((request.noises[0].cost(moved) for request in requests), FREE)


# -- coverage


def evenly(rows: int, most: int) -> Callable[[np.random.Generator], Places]:
    return lambda draw: draw.integers(0, most + 1, rows)


def tied(draw: np.random.Generator) -> Places:
    return draw.integers(0, 11, 3000) * 2500


def half_in_one_bin(draw: np.random.Generator) -> Places:
    return np.where(draw.random(3000) < 0.5, draw.integers(8_300, 8_320, 3000), draw.integers(0, 25_001, 3000))


def skewed(draw: np.random.Generator) -> Places:
    return np.minimum(25_000, np.exp(draw.normal(4, 1, 3000))).astype(np.int64)


KINDS = {"even": (evenly(3000, 25_000), 25_000), "tied": (tied, 25_000), "half in one bin": (half_in_one_bin, 25_000),
         "skewed": (skewed, 25_000), "few": (evenly(12, 25_000), 25_000), "one": (evenly(1, 25_000), 25_000),
         "few places": (evenly(3000, 100), 100), "many places": (evenly(3000, 2**30), 2**30)}


@pytest.mark.parametrize("price", [pure(Fraction(1)), pure(Fraction(1, 20)), concentrated(Fraction(1, 10))],
                         ids=["epsilon = 1", "epsilon = 0.05", "rho = 0.1"])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover(kind: str, price: Cost) -> None:
    (drawn, most), draw, hits, times = KINDS[kind], np.random.default_rng(5), 0, 100
    for _ in range(times):
        places = np.sort(drawn(draw))
        estimates, requests = played(task(*QUARTILES, most=most), price, places, draw)
        values = [float(each.values[0]) for each in estimates]
        assert values == sorted(values) and price.covers(cost_of(requests, 1))
        for fraction, each in zip(QUARTILES, estimates, strict=True):
            low, high = (float(end[0]) for end in each.ends(0.95))
            assert 0 <= low <= each.values[0] <= high <= most
            hits += low <= places[math.ceil(fraction * len(places)) - 1] <= high
    assert hits >= 0.93 * times * len(QUARTILES)


def test_the_interval_of_no_rows_is_nearly_always_the_whole_range() -> None:
    draw, whole = np.random.default_rng(6), 0
    for _ in range(100):
        estimates, _ = played(task(*QUARTILES), pure(Fraction(1)), np.zeros(0, dtype=np.int64), draw)
        whole += sum(float(high[0] - low[0]) >= 0.97 * 25_000 for low, high in (each.ends(0.95) for each in estimates))
    assert whole >= 270


def test_intervals_are_narrow_at_a_small_price() -> None:
    """At most 10 % of the rows to either side, while selection has the whole range."""
    draw, widths = np.random.default_rng(7), []
    for _ in range(60):
        places = np.sort(evenly(5900, 25_000)(draw))
        for each in played(task(*QUARTILES), pure(Fraction(1, 20)), places, draw)[0]:
            low, high = np.searchsorted(places, [float(end[0]) for end in each.ends(0.95)])
            widths.append((high - low) / 5900)
    assert np.median(widths) <= 0.2


# -- without noise


def exact(given: Ordered, context: TaskContext, price: Cost) -> list[Any]:
    """The estimates from exact counts of the rows in `given`."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE t (x BIGINT)")
    reading = context_of(DuckReader(connection, "v1"))
    script, told = RankCounts().run([(given, price)], context), None
    try:
        while True:
            request = script.send(told)
            assert isinstance(request, NoisySums)
            (sums,) = sums_in(reading.columns(request.plan), len(request.plan.keys), request.cells)
            told = MeasuredSums(totals=((tuple(sums),),))
    except StopIteration as end:
        return list(end.value[0])


@pytest.mark.parametrize(("column", "step", "most"), [("v", Fraction(1), 40), ("v", Fraction(1), 50_000), ("real", Fraction(1, 4), 50_000),
                                                      ("real", Fraction(1, 2**12), 1000), ("v", Fraction(3), 50_000)])
def test_without_noise_it_is_duckdbs_quantile(column: str, step: Fraction, most: int) -> None:
    draw = np.random.default_rng(8)
    values = [None if draw.random() < 0.1 else int(draw.integers(-3, min(most, 900) + 3)) for _ in range(301)]
    rows = tuple(("xy"[i % 2], value, None if value is None else value + 0.25 * (i % 3), i % 5 > 0 or None)
                 for i, value in enumerate(values))
    given = task(*DECILES, most=most, column=column, when="w", step=step, given=rows)
    found = exact(given, TaskContext(keys=("k",), cells=(("x",), ("y",), ("z",))), pure(Fraction(1000)))
    for cell, key in enumerate("xy"):
        kept = sorted(min(max(row[1 if column == "v" else 2], 0), most) for row in rows if row[0] == key and row[3] and row[1] is not None)
        for fraction, each in zip(DECILES, found, strict=True):
            value = float(each.values[cell] * step)
            low, high = (float(end[cell] * step) for end in each.ends(0.95))
            true = kept[math.ceil(fraction * len(kept)) - 1]
            assert abs(value - true) <= step and low - step <= true <= high + step


def test_a_statement_without_noise(tmp_path: Path) -> None:
    reader = reader_of(dense())
    session = session_of(tmp_path, reader=reader, noise=Exact(), at={"epsilon": 900, "delta": 1e-6})
    for column, of in (("born", "DATE"), ("age", "INTEGER"), ("income", "DOUBLE")):
        calls = ", ".join(f"quantile_disc({column}, {q})" for q in (0.2, 0.5, 0.9))
        prepared = PreparedStatement(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'rank_counts') {calls} FROM people", session)
        ((*true,),) = reader.rows(f"SELECT {calls} FROM people")
        for value, expected in zip(prepared.release().rows[0], true, strict=True):
            assert value == expected if of == "DATE" else value == pytest.approx(expected, abs=1e-3)


# -- prices and choice


@pytest.mark.parametrize("price", [pure(Fraction(1, 3)), concentrated(Fraction(1, 7))])
@pytest.mark.parametrize("most", [20, 200, 25_000, 2**25])
def test_it_costs_the_price(price: Cost, most: int) -> None:
    """Apart from rounding; nearly all rows have a few values, so that all bins are divided."""
    draw = np.random.default_rng(9)
    places = draw.integers(0, 3, 100_000) + most // 2
    _, requests = played(task(*QUARTILES, most=most, rows=3), price, places, draw)
    spent = cost_of(requests, 3)
    assert price.covers(spent)
    assert float((spent.epsilon or spent.rho) / (price.epsilon or price.rho)) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("given", "price", "named", "expected"), [
    (task(*QUARTILES), pure(Fraction(1)), (), "exponential"), (task(*DECILES), pure(Fraction(1)), (), "rank_counts"),
    (task(*QUARTILES), pure(Fraction(1, 20)), (), "rank_counts"), (task(*QUARTILES, most=100), pure(Fraction(1, 20)), (), "rank_counts"),
    (task(*QUARTILES), pure(Fraction(1, 20)), ("exponential",), "exponential"),
    (task(*QUARTILES), concentrated(Fraction(1, 2)), (), "exponential"), (task(*DECILES), concentrated(Fraction(1, 2)), (), "rank_counts"),
    (task(*QUARTILES[:2]), pure(Fraction(1)), (), "exponential"), (task(*QUARTILES[:2]), pure(Fraction(1)), ("rank_counts",), "rank_counts"),
    (task(Fraction(0), *QUARTILES), pure(Fraction(1)), ("rank_counts",), "exponential"),
    (task(*QUARTILES, rows=0), pure(Fraction(1)), ("rank_counts",), "exponential")])
def test_when_it_is_chosen(given: Ordered, price: Cost, named: tuple[str, ...], expected: str) -> None:
    choice = choose(given, price, 1, named)
    assert choice is not None and choice.mechanism.name == expected


def test_what_it_refuses() -> None:
    for given, cells in ((task(*QUARTILES, Fraction(1)), 1), (task(*QUARTILES, rows=0), 1), (task(*QUARTILES), 10**6)):
        assert isinstance(RankCounts().judge(given, pure(Fraction(1)), cells), Rejected)
    one = RankCounts().judge(task(Fraction(1, 2)), pure(Fraction(1)), 1)
    assert isinstance(one, Accepted) and one.error == math.inf


def test_more_groups_have_wider_bins() -> None:
    widths = [RankCounting(task=task(*QUARTILES), price=pure(Fraction(1)), cells=cells).width for cells in (1, 10**5, 3 * 10**5)]
    assert widths == sorted(widths) and widths[0] < widths[-1]


def test_explain_gives_the_reason_against_selection(tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=reader_of(dense()), at={"epsilon": Fraction(1, 20)})
    for fractions, because in (("0.25, 0.5, 0.75", "wider intervals (error 55.9)"), ("0.1, 0.2, 0.3, 0.5, 0.75", "larger error (252.4)")):
        told = decide(parse(f"SELECT quantile_cont(income, [{fractions}]) FROM people"), session)
        assert f"not exponential: {because}" in str(told.explanation())  # type: ignore[union-attr]


# -- the noise


@pytest.mark.parametrize("bins", [5, 33, 64, 101, 256])
def test_the_variance_at_each_edge_is_that_of_many_draws(bins: int) -> None:
    draw, fraction = np.random.default_rng(10), Fraction(1, 4)
    fine = draw.laplace(0, 1, (4000, bins))
    if bins > 16:
        starts = np.arange(0, bins, 2 ** ((bins - 1).bit_length() // 2))
        fine = combined(fine, draw.laplace(0, 1, (4000, len(starts))))
    g = np.cumsum(fine, axis=1) - float(fraction) * fine.sum(axis=1)[:, None]
    weights = weights_of(bins, fraction)
    assert np.allclose(g.var(axis=0), 2 * weights.variances[1:], rtol=0.2)
    shared = (g[:, 1:] * g[:, :-1]).mean(axis=0)
    assert np.allclose(shared, 2 * weights.covariances[1:], rtol=0.25, atol=0.5)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.975, 0.999])
def test_sums_of_more_pieces_of_laplace_noise_have_lighter_tails(confidence: float) -> None:
    found = [laplaces(confidence, terms) for terms in (1, 2, 4, 16, 64)]
    assert found == sorted(found, reverse=True) and abs(found[-1] - normal(confidence)) < 0.1
    draw = np.random.default_rng(11)
    for terms, z in zip((1, 2, 4, 16), found, strict=False):
        sums = draw.laplace(0, 1 / math.sqrt(2 * terms), (100_000, terms)).sum(axis=1)
        assert (np.abs(sums) <= z).mean() >= confidence - 0.004


def test_bins_are_literal_widths() -> None:
    """As the tests above read them from the plan."""
    request = next(RankCounts().run([(task(*QUARTILES), pure(Fraction(1)))], ALONE))
    assert isinstance(request, NoisySums)
    binned = request.plan.input.columns[-1][2]  # type: ignore[attr-defined]
    assert isinstance(binned, Call) and isinstance(binned.args[1], Literal) and binned.args[1].value == 512
