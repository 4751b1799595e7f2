"""Looks at sums that are held to a level, at degrees, and with noise scaled to the rows, each held against its own price; and faults.

The requests are those that a statement makes, with few levels and with scales at which a claim is nearly met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audits import Pair, person, prepared, visit
from strength import Strength, stacked, strengths

from dpsql.audit.laws import Law
from dpsql.audit.looked import Looked, requests_of
from dpsql.audit.prepared import Batched
from dpsql.kernel.looks import smooth
from dpsql.plan.operators.shares import NEAR, UNIT
from dpsql.requests import DiscreteLaplace, Request

pytestmark = pytest.mark.stat
Pairs = Callable[[Path, Any], list[Looked]]

HEAVY = Pair(people=[person(i) for i in range(4)], scores=[(0, 5)] * 64 + [(i, 5) for i in range(1, 4)])
THREE = Pair(people=[person(0, age=100), person(1, age=0), person(2, age=100)])


def meetings(*pairs: tuple[int, int]) -> list[tuple[Any, ...]]:
    return [visit(2 * i + side, who, note=f"meeting {i}") for i, pair in enumerate(pairs) for side, who in enumerate(pair)]


RISE = Pair(people=[person(i) for i in range(9)], visits=meetings((0, 1), (0, 3), (1, 2), (3, 4), (5, 6), (7, 8)))
JOIN = "FROM visits a JOIN visits b ON a.note = b.note AND a.person_id < b.person_id"
DEGREES = (f"degree, COUNT(*) FROM (SELECT who, COUNT(*) AS degree FROM (SELECT a.person_id AS who {JOIN} UNION ALL "
           f"SELECT b.person_id {JOIN}) AS m GROUP BY who) AS t GROUP BY degree")


class Halved(Batched):
    """A planted fault: all noise is half as wide."""

    def laplace(self, values: Any, scale: float) -> list[int]:
        return super().laplace(values, scale / 2)

    def student(self, values: Any, scale: float) -> list[int]:
        return super().student(values, scale / 2)

    def exponential(self, scores: Any, scale: float) -> int:
        return super().exponential(scores, scale / 2)


def asked(kind: str, text: str, pair: Pair, options: str, change: Callable[[Any], Request] = lambda request: request) -> Pairs:
    """The first request of a kind that a statement makes over one database, asked of both."""

    def looked(folder: Path, noise: Any) -> list[Looked]:
        statements = prepared(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {text}", pair, folder)
        for statement in statements:
            statement.session.kernel._noise = noise()
        request = next(found for found in requests_of(statements[0]) if type(found).__name__ == kind)
        return [Looked(change(request), statement.session.kernel) for statement in statements]

    return looked


def laplace(epsilon: float, *levels: int) -> tuple[DiscreteLaplace, ...]:
    return tuple(DiscreteLaplace(scale=UNIT * level / epsilon) for level in levels)


def totals(found: Any) -> list[float]:
    return [float(found.totals[0] if found.totals else 0), float(found.levels[0][0] if found.levels[0][0] is not None else -1)]


SCORES = "COUNT(*) FROM scores"
CASES: dict[str, tuple[Pairs, Callable[[Any], list[float]], int, float]] = {
    "race to the top": (asked("Race", SCORES, HEAVY, "epsilon = 1, bound = 'r2t'", lambda request: replace(
        request, levels=(1, 2), noises=laplace(0.5, 1, 2), penalties=(0, 0))), totals, 15_000, 0.6),
    "balance": (asked("Balance", SCORES, HEAVY, "epsilon = 1, bound = 'balance'", lambda request: replace(
        request, levels=(1, 2), handicaps=(0, 32), scale=64.0, noises=laplace(0.5, 1, 2))), totals, 10_000, 0.2),
    "level": (asked("Level", SCORES, HEAVY, "epsilon = 1, bound = 'rows'", lambda request: replace(
        request, levels=(1, 64), handicaps=(0, 126), scale=63.0)), totals, 10_000, 0.2),
    "removals, by noisy maximum": (asked("Removed", SCORES, HEAVY, "epsilon = 1, bound = 'removals'", lambda request: replace(
        request, levels=(1, 64), handicaps=(0, 2 * UNIT), scale=float(UNIT + 2 * NEAR), noises=laplace(0.01, 1, 64))), totals, 10_000, 0.2),
    "removals, by exponential mechanism": (asked("Removed", SCORES, HEAVY, "epsilon = 1, bound = 'removals'", lambda request: replace(
        request, levels=(1, 64), handicaps=(0, 2 * UNIT), scale=float(UNIT + 2 * NEAR), noises=laplace(0.01, 1, 64), flip=False)),
        totals, 6000, 0.2),
    "recursive": (asked("Recursive", SCORES, HEAVY, "epsilon = 1, bound = 'recursive'", lambda request: replace(
        request, levels=(1, 2, 4, 64), scale=1.0, shift=0, noises=laplace(0.01, 1, 2, 4, 64))), totals, 10_000, 0.2),
    "degrees": (asked("Degrees", DEGREES, RISE, "epsilon = 1, max_rows = 2, bound = 'projection'"),
                lambda found: [float(count) for count in found.counts], 30_000, 0.2),
    "smooth sensitivity of a quantile": (asked("Smooth", "MEDIAN(age) FROM people", THREE,
                                               "epsilon = 2, delta = 0.1, mechanism = 'smooth_sensitivity'"),
                                         lambda found: [float(found.values[0]), float(found.sizes[0])], 15_000, 0.1),
}


def strength(name: str, folder: Path, times: int, noise: Callable[[], Any] = Batched) -> list[Strength]:
    make, seen, _, _ = CASES[name]
    first, second = make(folder, noise)
    return strengths(name, first.cost, *(lambda looked=looked: stacked(lambda: np.array([seen(looked.look())]), times)  # type: ignore[misc]
                                         for looked in (first, second)))


@pytest.mark.parametrize("name", CASES)
def test_neighbours_are_told_apart_no_better_than_the_price_allows(name: str, tmp_path: Path, effort: float, told: list[Strength]) -> None:
    *_, times, tight = CASES[name]
    told += strength(name, tmp_path, round(times * effort))
    assert all(found.kept for found in told), told
    assert max(found.ratio for found in told) > tight or effort < 1, told


@pytest.mark.parametrize("name", ["race to the top"])
def test_half_of_the_noise_is_found(name: str, tmp_path: Path) -> None:
    found = strength(name, tmp_path, CASES[name][2], Halved)
    assert not all(one.kept for one in found), found


# -- noise that is scaled to the rows, against the scale that the proof asks for


def quantiles(folder: Path, text: str, pair: Pair, noise: Callable[[], Any]) -> list[tuple[np.ndarray[Any, Any], Law]]:
    """Noise of many looks on both databases, and its law: of 2 S / epsilon, S from the certificate's number of rows."""
    found = []
    for looked, world in zip(asked("Smooth", text, pair, "epsilon = 2, delta = 0.1, mechanism = 'smooth_sensitivity'")(folder, noise),
                             pair.worlds(), strict=True):
        request, rows = looked.request, looked._certificates[0].below.rows or 1
        assert type(request).__name__ == "Smooth"
        column = "ages" if "age" in text else "costs"
        values = sorted([row[3] for row in world.rows["people"]] if column == "ages" else [
            request.plan.grid.most if row[4] > 400 else 0 for row in world.rows["visits"]])  # type: ignore[union-attr]
        spread, top = np.array(values, dtype=np.int64), request.plan.grid.most  # type: ignore[union-attr]
        middle = smooth.quantile_index(len(values), Fraction(1, 2))
        bound = max(np.exp(-request.beta * ((h - i) / rows - 1)) * (place(values, h, top) - place(values, i, top))  # type: ignore[union-attr]
                    for i in range(middle + 1) for h in range(max(middle, i + 1), len(values) + 2))
        exact = place(values, middle, top)
        drawn = np.array([looked.look().values[0] for _ in range(8000)]) - exact  # type: ignore[union-attr]
        assert len(spread) == len(values)
        found.append((drawn, Law("laplace", 2 * float(bound) / float(request.epsilon))))  # type: ignore[union-attr]
    return found


def place(values: list[int], position: int, top: int) -> int:
    return 0 if position <= 0 else top if position > len(values) else values[position - 1]


def test_the_noise_of_a_quantile_is_as_wide_as_its_smooth_sensitivity(tmp_path: Path) -> None:
    for drawn, law in quantiles(tmp_path, "MEDIAN(age) FROM people", THREE, Batched):
        assert not law.departure(drawn).beyond(7.5)
    assert all(law.departure(drawn).beyond(7.5) for drawn, law in quantiles(tmp_path / "half", "MEDIAN(age) FROM people", THREE, Halved))
