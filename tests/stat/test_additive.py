"""Noise that is added: the whole law of it, its independence, and what it tells of neighbours, from the statement to the answer.

Many more samples, and the table of all mechanisms, by `pytest --effort 10 tests/stat/test_{additive,choices,scaled}.py`.

Every statement is over many groups at once, so that one answer is a sample of 50,000: see `many_cells`. What is released less what
is exact must follow the law that was paid for; and neighbours must be told apart as well as the price allows, no better, and, as
additive noise is tight, not much worse. A test fails by chance once in 10^9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.looked import Looked
from support.many_cells import CELLS, Alike, Numbers
from support.noise_laws import Kind, Law
from support.strength import Strength, refuted, stacked, strengths

from dpsql.audit.exact import Exact
from dpsql.frozen import Frozen, replace
from dpsql.planning.script import script
from dpsql.trusted.accounting.cost import concentrated, pure
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.noise import source
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.operators.quantizer import Quantizer

pytestmark = pytest.mark.stat

MOST = 7.5  # standard deviations, which chance alone reaches once in 10^13; a million draws of noise 1 % off are beyond
ENOUGH = 100_000
Plant = Callable[[pytest.MonkeyPatch], None]


# -- the law of the samplers, through the source of every answer


def added(kind: Kind, scale: float, times: int) -> list[int]:
    return getattr(Secure(), kind)([0] * times, scale)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind, scale", [
    ("laplace", 0.5), ("laplace", 3.0), ("laplace", 1e9), ("gaussian", 0.6), ("gaussian", 5.0), ("gaussian", 1e9),
    ("student", 2.0), ("student", 40.0), ("student", 1e9)])
def test_noise_follows_its_law(kind: Kind, scale: float, effort: float) -> None:
    """Five percent of the scale are 11 standard deviations or more of so many draws."""
    law, times = Law(kind, scale), round(50_000 * max(1, effort))
    draws = np.array(added(kind, scale, times))
    found = law.departure(draws)
    assert not found.beyond(MOST), found
    for lag in (1, 2, 3):
        assert abs(law.correlation(draws[:-lag], draws[lag:])) < MOST


@cache
def usual(kind: Kind) -> Numbers:
    return np.array(added(kind, 5.0, 30_000))


FAULTS: list[tuple[str, Callable[[Kind], Any]]] = [  # five percent are 15 standard deviations or more
    ("five percent too small", lambda kind: added(kind, 0.95 * 5, 100_000)),
    ("five percent too large", lambda kind: added(kind, 1.05 * 5, 100_000)),
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


class Asked(Frozen):
    """A statement over groups of these amounts, of which one side lacks the last.

    `law` is what must be added to every total, by hand from the bounds of the columns; `share` how many samples are drawn, in
    units of `ENOUGH`; and `tight` the least of the claim that they find.
    """

    name: str
    text: str
    price: str
    law: tuple[Law, ...]
    amounts: tuple[float, ...] = (30, 100)
    share: float = 1.0
    tight: float = 0.8

    def looked(self, folder: Path, amounts: tuple[float, ...], step: int = 1, exact: bool = False) -> Looked:
        """Made once, as that takes longer than to look at it: reads and texts are kept, noise is drawn for each look."""
        return prepared(folder, f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({self.price}) cell, {self.text} FROM people GROUP BY cell",
                        Alike(amounts, step=step), exact)

    def pair(self, folder: Path, exact: bool = False) -> tuple[Looked, Looked]:
        return self.looked(folder, self.amounts, exact=exact), self.looked(folder, self.amounts[:-1], exact=exact)

    def exact(self, folder: Path) -> list[Numbers]:
        """The totals of either side without noise, which are the same in every group."""
        found = [values(looked) for looked in self.pair(folder, exact=True)]
        assert all((sums == sums[0]).all() for sums in found)
        return [sums[0] for sums in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("groups")


@cache
def prepared(folder: Path, text: str, groups: Alike, exact: bool) -> Looked:
    statement = groups.prepared(text, folder / str(prepared.cache_info().currsize), Exact() if exact else None)
    request = next(script(statement.program, statement.session.kernel, statement.session.scratch))
    assert isinstance(request, NoisySums)
    return Looked(request, statement.session.kernel)


def values(looked: Looked) -> Numbers:
    """A row for each group (without that of NULL), a column for each total."""
    made = looked.look()
    return np.array([part for parts in made.totals for part in parts])[:, :CELLS].T  # type: ignore[union-attr]


ASKED = {asked.name: asked for asked in (
    Asked(name="COUNT by group, Laplace", text="COUNT(*)", price="epsilon = 1", law=(Law("laplace", 1.0),), share=3.0, tight=0.9),
    Asked(name="COUNT by group, Gaussian", text="COUNT(*)", price="rho = 0.5", law=(Law("gaussian", 1.0),)),
    Asked(name="SUM by group, Laplace", text="SUM(amount)", price="epsilon = 2", law=(Law("laplace", 50.0),)),
    Asked(name="SUM by group, Gaussian", text="SUM(amount)", price="rho = 0.5", law=(Law("gaussian", 100.0),), share=2.0),
    Asked(name="COUNT and SUM by group, Laplace", text="COUNT(*), SUM(amount)", price="epsilon = 2", tight=0.4,
          law=(Law("laplace", 50.0),) * 3))}  # the moments of both, and what is missing, are one measurement


def follows(law: Law, noise: Numbers) -> None:
    """Fails where draws of consecutive groups do not follow a law, or depend on each other."""
    found = law.departure(noise)
    assert not found.beyond(MOST), found
    for lag in (1, 2, CELLS // 2, CELLS):  # neighbouring groups, distant ones, and the next answer
        if lag < len(noise):
            assert abs(law.correlation(noise[:-lag], noise[lag:])) < MOST


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_groups_tell_what_their_price_says(name: str, folder: Path, effort: float, told: list[Strength]) -> None:
    asked = ASKED[name]
    first, second = asked.pair(folder)
    times = round(asked.share * effort * ENOUGH)
    samples = cache(sampled(first, times)), cache(sampled(second, times))
    told += strengths(name, first.cost, *samples)
    assert all(strength.kept for strength in told), told
    assert all(strength.ratio > asked.tight for strength in told if effort >= 1), told
    for sample, truth in zip(samples, asked.exact(folder), strict=True):
        noise = (sample() - truth).astype(np.int64)
        for law, column in zip(asked.law, noise.T, strict=True):
            follows(law, column)
        if len(asked.law) > 1:
            assert abs(sum(asked.law[0].uniform(noise[:, 0]) * asked.law[1].uniform(noise[:, 1]))) < MOST * math.sqrt(len(noise)), (
                "totals of one group share noise")


def sampled(looked: Looked, times: int) -> Callable[[], Numbers]:
    return lambda: stacked(lambda: values(looked), times)


# -- five percent, and noise that is not fresh, in what statements release


def scaled(part: float) -> Plant:
    def less(patch: pytest.MonkeyPatch) -> None:
        for name in ("laplace", "gaussian"):
            add = getattr(source, name)
            patch.setattr(source, name, lambda numbers, scale, add=add: add(numbers, scale * part))

    return less


def a_sigma_taken_for_a_variance(patch: pytest.MonkeyPatch) -> None:
    add = source.gaussian
    patch.setattr(source, "gaussian", lambda numbers, sigma: add(numbers, math.sqrt(sigma)))


def a_deviation_taken_for_a_scale(patch: pytest.MonkeyPatch) -> None:
    add = source.laplace
    patch.setattr(source, "laplace", lambda numbers, scale: add(numbers, scale / math.sqrt(2)))


def twice_in_a_row(patch: pytest.MonkeyPatch) -> None:
    """Two neighbouring groups share their noise, so that their difference is exact."""
    for name in ("laplace", "gaussian"):
        add = getattr(source, name)

        def again(numbers: Any, scale: float, add: Any = add) -> list[int]:
            pieces = add([0] * (-(-len(numbers) // 2)), scale)
            return [number + pieces[i // 2] for i, number in enumerate(numbers)]

        patch.setattr(source, name, again)


def no_clamp(patch: pytest.MonkeyPatch) -> None:
    """Amounts are summed as they are, so that one of 105 moves a sum by five percent more than its bound of 100."""
    patch.setattr(Quantizer, "to_sql", lambda self, printed, *known: f"CAST(round({printed} * {float(1 / self.step)!r}) AS BIGINT)")


@pytest.mark.parametrize("plant, name", [
    (scaled(0.95), "COUNT by group, Laplace"), (scaled(0.95), "SUM by group, Laplace"), (scaled(0.95), "SUM by group, Gaussian"),
    (scaled(1.05), "SUM by group, Gaussian"), (a_sigma_taken_for_a_variance, "SUM by group, Gaussian"),
    (a_deviation_taken_for_a_scale, "COUNT by group, Laplace"), (twice_in_a_row, "COUNT by group, Laplace"),
    (twice_in_a_row, "SUM by group, Gaussian")], ids=lambda value: getattr(value, "__name__", value))
def test_noise_of_answers_that_is_a_little_off_is_found(plant: Plant, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five percent of a scale are 15 standard deviations or more."""
    asked = ASKED[name]
    looked, truth = asked.looked(folder, asked.amounts), asked.exact(folder)[0]
    plant(monkeypatch)
    noise = (sampled(looked, ENOUGH)() - truth)[:, 0].astype(np.int64)
    with pytest.raises(AssertionError):
        follows(asked.law[0], noise)


@pytest.mark.slow
@pytest.mark.parametrize("plant, name, amounts, times", [
    (scaled(0.95), "SUM by group, Laplace", (30, 100), 250_000), (no_clamp, "SUM by group, Laplace", (30, 105), 250_000),
    (a_sigma_taken_for_a_variance, "SUM by group, Gaussian", (30, 100), 50_000),
    (a_deviation_taken_for_a_scale, "COUNT by group, Laplace", (30, 100), 50_000)])
def test_a_little_too_little_noise_refutes_the_price(plant: Plant, name: str, amounts: tuple[float, ...], times: int, folder: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Laplace noise five percent are seen by the bound of epsilon itself, of the scale and of the sensitivity alike.

    The bound of rho needs a million samples for as much, so Gaussian noise is held against its law above.
    """
    plant(monkeypatch)
    first, second = replace(ASKED[name], amounts=amounts).pair(folder)
    assert refuted(first.cost, partial(values, first), partial(values, second), times)


@pytest.mark.parametrize("name", ["COUNT by group, Laplace", "SUM by group, Gaussian"])
def test_groups_that_share_noise_refute_the_price(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of two groups moves and the other does not."""
    asked = ASKED[name]
    pair = asked.looked(folder, asked.amounts, 2), asked.looked(folder, asked.amounts[:-1])

    def found() -> list[Strength]:
        return strengths(name, pair[0].cost, *(lambda looked=looked: values(looked).reshape(-1, 2) for looked in pair))  # type: ignore[misc]

    assert all(strength.kept for strength in found())
    twice_in_a_row(monkeypatch)
    assert not all(strength.kept for strength in found())


# -- through a connection, as anybody asks


@pytest.mark.slow
@pytest.mark.parametrize("what, price, tight", [
    ("COUNT(*)", "epsilon = 1", 0.7), ("SUM(amount)", "rho = 0.5", 0.6), ("AVG(amount)", "epsilon = 2", 0.2)])
def test_answers_of_a_connection_tell_what_their_price_says(what: str, price: str, tight: float, tmp_path: Path, effort: float,
                                                            told: list[Strength]) -> None:
    """Every statement differs in a literal, so that none is answered from the ledger; every one is charged."""
    times, cells = round(max(1, effort)), round(CELLS * min(1, 2 * effort))
    samples = [cache(answered(what, price, tmp_path / str(len(amounts)), amounts, times, cells)) for amounts in ((30, 100), (30,))]
    number = Fraction(price.split()[-1])
    told += strengths(f"connection: {what}", concentrated(number) if "rho" in price else pure(number), *samples)
    assert all(strength.kept for strength in told), told
    assert all(strength.ratio > tight for strength in told if effort >= 1), told


@pytest.mark.parametrize("what, price", [("COUNT(*)", "epsilon = 1"), ("SUM(amount)", "rho = 0.5"), ("AVG(amount)", "epsilon = 2")])
def test_half_of_the_noise_is_found_through_a_connection(what: str, price: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled(0.5)(monkeypatch)
    number = Fraction(price.split()[-1])
    found = strengths("", concentrated(number) if "rho" in price else pure(number), *(
        answered(what, price, tmp_path / str(len(amounts)), amounts, 1, 20_000) for amounts in ((30, 100), (30,))))
    assert not all(strength.kept for strength in found), found


def answered(what: str, price: str, folder: Path, amounts: tuple[float, ...], times: int, cells: int = CELLS) -> Callable[[], Numbers]:
    """A row for each group of so many answers, NaN where there is none."""
    def answers() -> Numbers:
        found: list[float] = []
        with Alike(amounts, cells=cells).connected(folder, budget="concentrated" if "rho" in price else "person") as connection:
            for i in range(times):
                cursor = connection.cursor()
                cursor.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) cell, {what} FROM people WHERE id > -{i + 1} GROUP BY cell")
                found += [math.nan if row[1] is None else float(row[1]) for row in cursor.fetchall() if row[0] is not None]
        return np.array(found)[:, None]

    return answers
