"""The choice of a column and its parents: scores by their definition, their bounds by enumeration, and exact chances on neighbours."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from bench.bench_cells import VIEW
from support.chances import ALARM, p_value
from support.three_axes import AXES, SIZES, Database, certificate, chances, drawn_by

from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.dependent_parents import ConvexInformation, DependentParents, ProductDistance

CANDIDATES = (0, 1), (1, 0), (1, 0, 2), (2, 1), (2,), (0, 2)
KINKS = 0, 1, 1, 2, 3, 3, 5
SCORES = ProductDistance(grain=8), ConvexInformation(kinks=KINKS)


def request_of(score: Any, axes: tuple[Axis, ...] = AXES, candidates: Any = CANDIDATES, scale: float = 9.0) -> DependentParents:
    return DependentParents(view=VIEW, axes=axes, candidates=candidates, score=score, offsets=tuple(range(len(candidates))), scale=scale)


def f(count: int) -> int:
    return sum(max(count - kink, 0) for kink in KINKS)


def by_definition(score: Any, counts: np.ndarray, places: tuple[int, ...]) -> int:
    """Value by value, in fractions."""
    others = tuple(axis for axis in range(3) if axis not in places)
    kept = [axis for axis in range(3) if axis in places]
    table = np.transpose(counts.sum(axis=others), [kept.index(axis) for axis in places]).reshape(SIZES[places[0]], -1).tolist()
    columns, rows, total = [sum(column) for column in zip(*table, strict=True)], [sum(row) for row in table], int(counts.sum())
    if isinstance(score, ConvexInformation):
        return sum(f(count) for row in table for count in row) - sum(map(f, columns))
    far = sum(abs(count - Fraction(rows[x] * columns[p], total)) for x, row in enumerate(table) for p, count in enumerate(row)) if total else 0
    return math.floor(score.grain * Fraction(far) / 2)


def loss(request: DependentParents, one: Any, two: Any) -> float:
    here, there = (chances(drawn_by(request, counts)) for counts in (one, two))
    return max(abs(math.log(here[place] / there[place])) for place in here)


def some(draw: random.Random, rows: int) -> np.ndarray:
    counts = np.zeros(SIZES, dtype=np.int64)
    for _ in range(rows):
        counts[tuple(draw.randrange(size) for size in SIZES)] += 1
    return counts


@pytest.mark.parametrize("score", SCORES, ids=["R", "information"])
def test_scores_are_those_of_the_definition(score: Any) -> None:
    draw = random.Random(1)
    for _ in range(100):
        counts, request = some(draw, draw.randint(0, 12)), request_of(score)
        expected = [by_definition(score, counts, places) + offset for places, offset in zip(CANDIDATES, request.offsets, strict=True)]
        assert drawn_by(request, counts) == pytest.approx([(each - max(expected)) / request.scale for each in expected])


@pytest.mark.parametrize("large", [1, 2**28, 2**40])
def test_scores_of_many_rows_are_exact(large: int) -> None:
    counts = np.array([[5, 7], [1, 0]], dtype=np.int64) * large + 1
    for made in (counts, counts.astype(object)):
        n, table = int(counts.sum()), counts.tolist()
        far = sum(abs(n * table[x][p] - sum(table[x]) * (table[0][p] + table[1][p])) for x in (0, 1) for p in (0, 1))
        assert ProductDistance(grain=3).of(made) == 3 * far // (2 * n)
        assert ConvexInformation(kinks=KINKS).of(made) == sum(f(each) for row in table for each in row) - sum(
            f(table[0][p] + table[1][p]) for p in (0, 1))


def test_another_row_moves_r_by_less_than_two_and_information_only_down_for_all_small_tables() -> None:
    """All tables of 2 x 3 cells with up to two rows in each, and every row that may be added; before rounding, and after."""
    score, information = ProductDistance(grain=1000), ConvexInformation(kinks=KINKS)
    most, least = 0, 0
    for cells in itertools.product(range(3), repeat=6):
        counts = np.array(cells, dtype=np.int64).reshape(2, 3)
        for at in range(6):
            more = counts.copy()
            more.flat[at] += 1
            change = score.of(more) - score.of(counts)
            most, least = max(most, change), min(least, change)
            assert -len(KINKS) <= information.of(more) - information.of(counts) <= 0
    assert most < 2000 and least > -2000
    assert most > 1500


def test_the_bound_of_the_change_of_r_is_that_of_the_proof() -> None:
    """|change| <= 2 n / (n + 1) (1 - u) (1 - v), in fractions, up to the rounding of both scores."""
    draw = random.Random(2)
    for _ in range(500):
        counts = np.array([[draw.choice([0, 0, 1, 2, 9]) for _ in range(3)] for _ in range(3)], dtype=np.int64)
        n, x, p = int(counts.sum()), draw.randrange(3), draw.randrange(3)
        more = counts.copy()
        more[x, p] += 1
        if n:
            bound = 2 * Fraction(n, n + 1) * (1 - Fraction(int(counts[x].sum()), n)) * (1 - Fraction(int(counts[:, p].sum()), n))
            change = ProductDistance(grain=10**6).of(more) - ProductDistance(grain=10**6).of(counts)
            assert abs(change) <= 10**6 * bound + 1


@pytest.mark.parametrize("moved", [1, 3])
@pytest.mark.parametrize("score", SCORES, ids=["R", "information"])
def test_neighbours_are_told_apart_by_no_more_than_is_charged(score: Any, moved: int) -> None:
    """Of every candidate the exact chance, where an entity of so many rows is there and where it is not."""
    draw = random.Random(3)
    for _ in range(200):
        request, counts = request_of(score), some(draw, draw.randint(0, 9))
        more, cost = counts + some(draw, moved), request.cost(certificate(moved))
        assert cost.epsilon == Fraction(score.apart() * moved, 9) and cost.rho == cost.epsilon**2 / 8
        here, there = (chances(drawn_by(request, each)) for each in (counts, more))
        assert max(abs(math.log(here[place] / there[place])) for place in here) <= float(cost.epsilon) * (1 + 1e-9)
        for one, two in ((here, there), (there, here)):  # the Renyi divergence of order 1
            assert sum(one[place] * math.log(one[place] / two[place]) for place in one) <= float(cost.rho) * (1 + 1e-9)


def cells_of(pairs: dict[tuple[int, int, int, int], int]) -> np.ndarray:
    counts = np.zeros((2, 2, 2, 2), dtype=np.int64)
    for cell, count in pairs.items():
        counts[cell] = count
    return counts


FOUR = tuple(Axis(column=f"a{i}", values=(0, 1)) for i in range(4))


def test_nearly_all_that_is_charged_for_r_is_reached() -> None:
    """The first row of a new child and new parents, for one candidate; two rare values that were never together, for the other. One
    score rises by nearly 2 and the other one falls by nearly as much: the log of their odds moves by nearly what the cost says."""
    counts = cells_of({(0, 0, 0, 1): 50, (0, 0, 1, 0): 50, (0, 0, 1, 1): 2400})
    more = counts.copy()
    more[1, 1, 0, 0] += 1
    request = request_of(ProductDistance(grain=64), FOUR, ((0, 1), (2, 3)), scale=64.0)
    one, two = (drawn_by(request, each) for each in (counts, more))
    apart = abs((one[0] - one[1]) - (two[0] - two[1]))
    assert 0.97 * float(request.cost(certificate(1)).epsilon or 0) <= apart <= float(request.cost(certificate(1)).epsilon or 0)


def test_all_that_is_charged_for_information_is_reached() -> None:
    """A row of a value that is new with its parents, which have many, for one candidate; a value that they determine, for the other."""
    counts = cells_of({(0, 0, 0, 0): 9})
    more = counts.copy()
    more[1, 0, 0, 0] += 1
    request = request_of(ConvexInformation(kinks=KINKS[1:]), FOUR, ((0, 1), (2, 3)), scale=7.0)
    one, two = (drawn_by(request, each) for each in (counts, more))
    assert abs((one[0] - one[1]) - (two[0] - two[1])) == pytest.approx(float(request.cost(certificate(1)).epsilon or 0))
    assert loss(request_of(ConvexInformation(kinks=KINKS[1:]), FOUR, ((0, 1), (2, 3)), scale=0.5), counts, more) > 0.9 * 12


def test_half_of_the_sensitivity_of_replacing_a_row_would_not_do() -> None:
    """Replacing a row, with n known, moves n R by 3 + 2 / n at most. An entity that is added moves it by more than half of that."""
    counts, score = np.array([[300, 0], [0, 0]], dtype=np.int64), ProductDistance(grain=1000)
    change = score.of(counts + np.array([[0, 0], [0, 1]])) - score.of(counts)
    assert 1000 * (3 + 2 / 300) / 2 < change < 1000 * 2


def test_information_divided_by_entropies_has_no_such_bound() -> None:
    """One row of a new child and new parents takes I / sqrt(H(child) H(parents)) from 0 to 1: n times that moves by n."""
    def entropy(counts: np.ndarray) -> float:
        shares = counts[counts > 0] / counts.sum()
        return float(-(shares @ np.log2(shares)))

    counts = np.array([[1000, 0], [0, 1]])
    information = entropy(counts.sum(axis=0)) + entropy(counts.sum(axis=1)) - entropy(counts.ravel())
    assert information / math.sqrt(entropy(counts.sum(axis=0)) * entropy(counts.sum(axis=1))) == pytest.approx(1)
    assert 1001 * information < math.log2(1001) + math.log2(math.e) < 12


def test_candidates_are_drawn_by_their_scores_and_rows_are_read_once(effort: float) -> None:
    for score in SCORES:
        counts, request = some(random.Random(5), 20), request_of(score, scale=12.0)
        context = Database(counts)
        found = [request.release(context, None).place for _ in range(round(2000 * effort))]  # type: ignore[arg-type]
        expected = [(by_definition(score, counts, places) + i) / 12 for i, places in enumerate(CANDIDATES)]
        assert p_value(found, chances(expected)) >= ALARM
        assert context.reads == 1
