"""Noise that is added: the whole law of it, its independence, and what it tells of neighbours, from the statement to the answer.

Every statement is over many groups at once, so that one answer is a sample of 50,000: see `many_cells`. What is released less what
is exact must follow the law that was paid for; and neighbours must be told apart as well as the price allows, no better, and, as
additive noise is tight, not much worse. A test fails by chance once in 10^9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from many_cells import CELLS, Alike, Numbers
from strength import Strength, stacked, strengths

from dpsql.accounting.cost import concentrated, pure
from dpsql.audit.laws import Kind, Law
from dpsql.audit.looked import Looked, requests_of
from dpsql.kernel.noise import samplers
from dpsql.kernel.noise.source import Secure
from dpsql.requests import DiscreteGaussian, DiscreteLaplace, Measure

pytestmark = pytest.mark.stat

MOST = 7.5  # standard deviations, which chance alone reaches once in 10^13; a million draws of noise 1 % off are beyond
ENOUGH = 10**6
Plant = Callable[[pytest.MonkeyPatch], None]


# -- the law of the samplers, through the source of every answer


def added(kind: Kind, scale: float, times: int) -> list[int]:
    return getattr(Secure(), kind)([0] * times, scale)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind, scale", [
    ("laplace", 0.5), ("laplace", 3.0), ("laplace", 1e9), ("gaussian", 0.6), ("gaussian", 5.0), ("gaussian", 1e9),
    ("student", 2.0), ("student", 40.0), ("student", 1e9)])
def test_noise_follows_its_law(kind: Kind, scale: float, effort: float) -> None:
    """Of the other two kinds a million draws are held against it with the statements below."""
    law, times = Law(kind, scale), round((400_000 if scale == 40 else 100_000) * min(effort, 10))
    draws = np.array(added(kind, scale, times))
    found = law.departure(draws)
    assert not found.beyond(MOST), found
    for lag in (1, 2, 3):
        assert abs(law.correlation(draws[:-lag], draws[lag:])) < MOST


@cache
def usual(kind: Kind) -> Numbers:
    return np.array(added(kind, 5.0, 30_000))


FAULTS: list[tuple[str, Callable[[Kind], Any]]] = [  # three percent are 13 standard deviations or more
    ("three percent too small", lambda kind: added(kind, 0.97 * 5, 200_000)),
    ("ten percent too large", lambda kind: added(kind, 1.1 * 5, 30_000)),
    ("a scale taken for a variance", lambda kind: added(kind, math.sqrt(5), 10_000)),
    ("a scale taken for a deviation", lambda kind: added(kind, 5 / math.sqrt(2), 10_000)),
    ("one-sided", lambda kind: np.abs(usual(kind))),
    ("rounded to even numbers", lambda kind: 2 * np.round(usual(kind) / 2)),
    ("cut off at two scales", lambda kind: np.clip(usual(kind), -10, 10)),
    ("never zero", lambda kind: np.where(usual(kind), usual(kind), 1)),
    ("not centred", lambda kind: usual(kind) + 1),
]


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "student"])
@pytest.mark.parametrize("fault, draw", FAULTS, ids=[fault[0] for fault in FAULTS])
def test_noise_that_is_a_little_off_is_found(kind: Kind, fault: str, draw: Callable[[Kind], Any]) -> None:
    assert Law(kind, 5.0).departure(draw(kind)).beyond(MOST)


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "student"])
def test_noise_that_is_used_again_is_found(kind: Kind) -> None:
    """The same for two places in a row, and a third of it shared."""
    law, draws = Law(kind, 5.0), usual(kind)
    twice = np.repeat(draws[: len(draws) // 2], 2)
    assert abs(law.correlation(twice[:-1], twice[1:])) > MOST
    assert abs(law.correlation(draws, np.roll(draws, 1) + draws // 3)) > MOST
    assert abs(law.correlation(draws[:-1], draws[1:])) < MOST


# -- statements, from the text to what the kernel releases


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A statement over groups of these amounts, of which one side lacks the last. `tight` is the least of the claim that is found."""

    name: str
    text: str
    price: str
    amounts: tuple[float, ...] = (30, 100)
    share: float = 1.0
    tight: float = 0.9

    def looked(self, folder: Path, amounts: tuple[float, ...], step: int = 1) -> Looked:
        text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({self.price}) cell, {self.text} FROM people GROUP BY cell"
        statement = Alike(amounts, step=step).prepared(text, folder / str(len(amounts)))
        request, = requests_of(statement)
        return Looked(request, statement.session.kernel)

    def pair(self, folder: Path) -> tuple[Looked, Looked]:
        return self.looked(folder, self.amounts), self.looked(folder, self.amounts[:-1])


def values(looked: Looked) -> Numbers:
    """A row for each group (without that of NULL), a column for each total."""
    made = looked.look()
    return np.array([part for parts in made.totals for part in parts])[:, :CELLS].T  # type: ignore[union-attr]


def law_of(looked: Looked) -> Law:
    assert isinstance(looked.request, Measure)
    match looked.request.noises[0]:
        case DiscreteLaplace(scale=scale):
            return Law("laplace", scale)
        case DiscreteGaussian(sigma=sigma):
            return Law("gaussian", sigma)


ASKED = [
    Asked(name="COUNT by group, Laplace", text="COUNT(*)", price="epsilon = 1"),
    Asked(name="SUM by group, Gaussian", text="SUM(amount)", price="rho = 0.5"),
    Asked(name="SUM by group, Laplace", text="SUM(amount)", price="epsilon = 2", share=0.1, tight=0.85),
    Asked(name="COUNT by group, Gaussian", text="COUNT(*)", price="rho = 0.5", share=0.1, tight=0.8),
    Asked(name="COUNT and SUM by group, Laplace", text="COUNT(*), SUM(amount)", price="epsilon = 2", share=0.1, tight=0.4),
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.name)
def test_groups_tell_what_their_price_says(asked: Asked, tmp_path: Path, effort: float, told: list[Strength]) -> None:
    first, second = asked.pair(tmp_path)
    times = round(min(1.0, asked.share * effort) * ENOUGH)
    with_, without = (stacked(lambda looked=looked: values(looked), times) for looked in (first, second))  # type: ignore[misc]
    told += strengths(asked.name, first.cost, lambda: with_, lambda: without)
    assert all(strength.kept for strength in told), told
    assert all(strength.ratio > asked.tight for strength in told if effort >= 1), told
    law, exact = law_of(first), exact_of(asked, tmp_path)
    for sample, truth in zip((with_, without), exact, strict=True):
        noise = (sample - truth).astype(np.int64)
        for column in noise.T:
            found = law.departure(column)
            assert not found.beyond(MOST), found
            for lag in (1, 2, CELLS // 2, CELLS):  # neighbouring groups, distant ones, and the next answer
                if lag < len(column):
                    assert abs(law.correlation(column[:-lag], column[lag:])) < MOST
        for i in range(noise.shape[1]):
            for j in range(i):
                assert abs(law.correlation(noise[:, i], noise[:, j])) < MOST, "totals of one group share noise"


def exact_of(asked: Asked, folder: Path) -> list[Numbers]:
    """The totals without noise, which are the same in every group."""
    from dpsql.audit.exact import Exact

    found = []
    for looked in asked.pair(folder):
        object.__setattr__(looked._context, "noise", Exact())
        sums = values(looked)
        assert (sums == sums[0]).all()
        found.append(sums[0])
    return found


# -- five percent, and noise that is not fresh, in what statements release


def scaled(part: float) -> Plant:
    def less(patch: pytest.MonkeyPatch) -> None:
        for name in ("laplace", "gaussian"):
            add = getattr(samplers, name)
            patch.setattr(samplers, name, lambda numbers, scale, add=add: add(numbers, scale * part))

    return less


def a_sigma_taken_for_a_variance(patch: pytest.MonkeyPatch) -> None:
    add = samplers.gaussian
    patch.setattr(samplers, "gaussian", lambda numbers, sigma: add(numbers, math.sqrt(sigma)))


def a_deviation_taken_for_a_scale(patch: pytest.MonkeyPatch) -> None:
    add = samplers.laplace
    patch.setattr(samplers, "laplace", lambda numbers, scale: add(numbers, scale / math.sqrt(2)))


def twice_in_a_row(patch: pytest.MonkeyPatch) -> None:
    """Two neighbouring groups share their noise, so that their difference is exact."""
    for name in ("laplace", "gaussian"):
        add = getattr(samplers, name)

        def again(numbers: Any, scale: float, add: Any = add) -> list[int]:
            pieces = add([0] * (-(-len(numbers) // 2)), scale)
            return [number + pieces[i // 2] for i, number in enumerate(numbers)]

        patch.setattr(samplers, name, again)


@pytest.mark.parametrize("plant, name, times", [
    (scaled(0.95), "SUM by group, Laplace", 250_000), (scaled(0.95), "SUM by group, Gaussian", 400_000),
    (a_sigma_taken_for_a_variance, "SUM by group, Gaussian", 50_000), (a_deviation_taken_for_a_scale, "COUNT by group, Laplace", 50_000)])
def test_a_little_too_little_noise_refutes_the_price(plant: Plant, name: str, times: int, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Five percent are seen by the bounds of epsilon and rho themselves."""
    asked = next(asked for asked in ASKED if asked.name == name)
    first, second = asked.pair(tmp_path)
    plant(monkeypatch)
    found = strengths(name, first.cost, lambda: stacked(lambda: values(first), times), lambda: stacked(lambda: values(second), times))
    assert not all(strength.kept for strength in found), found


@pytest.mark.parametrize("name", ["COUNT by group, Laplace", "SUM by group, Gaussian"])
def test_groups_that_share_noise_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bound, as one of two groups moves and the other does not, and by the correlation of what is released."""
    asked = next(asked for asked in ASKED if asked.name == name)
    first, second = asked.looked(tmp_path, asked.amounts, 2), asked.looked(tmp_path, asked.amounts[:-1])
    kept = strengths(name, first.cost, *(lambda looked=looked: values(looked).reshape(-1, 2) for looked in (first, second)))
    assert all(strength.kept for strength in kept), kept
    twice_in_a_row(monkeypatch)
    noise = values(second)[:, 0] - exact_of(asked, tmp_path / "exact")[1]
    assert abs(law_of(second).correlation(noise[:-1], noise[1:])) > MOST
    found = strengths(name, first.cost, *(lambda looked=looked: values(looked).reshape(-1, 2) for looked in (first, second)))
    assert not all(strength.kept for strength in found), found


# -- through a connection, as anybody asks


@pytest.mark.parametrize("what, price, tight", [("COUNT(*)", "epsilon = 1", 0.85), ("SUM(amount)", "rho = 0.5", 0.8), ("AVG(amount)", "epsilon = 1", 0.2)])
def test_answers_of_a_connection_tell_what_their_price_says(what: str, price: str, tight: float, tmp_path: Path, effort: float,
                                                            told: list[Strength]) -> None:
    """Every statement differs in a literal, so that none is answered from the ledger; every one is charged."""
    samples, looks = [], max(1, round(2 * effort))
    budget = "concentrated" if "rho" in price else "person"
    for side, amounts in enumerate(((30, 100), (30,))):
        with Alike(amounts).connected(tmp_path / str(side), budget=budget) as connection:
            found = []
            for i in range(looks):
                cursor = connection.cursor()
                cursor.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) cell, {what} FROM people WHERE id > -{i + 1} GROUP BY cell")
                found.append(np.array([math.nan if row[1] is None else row[1] for row in cursor.fetchall()[:CELLS]], dtype=float))
            samples.append(np.concatenate(found)[:, None])
    number = Fraction(price.split()[-1])
    cost = concentrated(number) if "rho" in price else pure(number)
    told += strengths(f"connection: {what}", cost, lambda: samples[0], lambda: samples[1])
    assert all(strength.kept for strength in told), told
    assert all(strength.ratio > tight for strength in told if effort >= 1), told
