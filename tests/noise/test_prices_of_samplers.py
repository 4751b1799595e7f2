"""The samplers of an answer are asked for the very scale that was paid for, and what they draw is what is added: no test here is of chance.

Few values go to OpenDP, whose measurements tell their own privacy loss (`map`); many go to `inverse_cdf`, whose law is told by exact
fractions; Student's noise is accepted with a probability that is a fraction. Three percent less noise passes most tests of draws.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.planted_faults import PlantedFault

from dpsql.trusted.noise import inverse_cdf, source, student
from dpsql.trusted.noise.source import Secure

SCALES = (0.3, 1.0, 17.3, 1e9)


class Noted:
    """A measurement of OpenDP, which notes what it is given and what it gives."""

    def __init__(self, measurement: Any) -> None:
        self.measurement = measurement
        self.given: list[list[Any]] = []
        self.told: list[Any] = []

    def __call__(self, values: Any) -> Any:
        self.given.append(np.asarray(values).tolist())
        self.told.append(self.measurement(values))
        return self.told[-1]


def asked(draw: Callable[[], Any]) -> tuple[Noted, Any]:
    """The measurement that a draw uses, and what comes of it."""
    original, found = source._sampler, list[Noted]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_sampler", lambda *told: found.append(Noted(original(*told))) or found[-1])
        told = draw()
    measurement, = found
    return measurement, told


@pytest.mark.parametrize("scale", SCALES)
def test_few_values_have_the_noise_that_is_paid_for(scale: float) -> None:
    """Moved by 3: an epsilon of 3 / scale, or a rho of 9 / (2 sigma^2)."""
    values = [0, 7, -5, 2**40]
    for draw, moved, loss in ((Secure().laplace, 3, 3 / scale), (Secure().gaussian, 3.0, 4.5 / scale**2)):
        measurement, told = asked(lambda draw=draw: draw(values, scale))
        assert measurement.measurement.map(moved) == pytest.approx(loss, rel=1e-12)
        assert measurement.given == [values] and measurement.told == [told]


@pytest.mark.parametrize("scale", SCALES)
def test_choices_are_made_with_the_scale_that_is_paid_for(scale: float) -> None:
    """Scores that move by 1, up or down, differ by 2 more or less: an epsilon of 2 / scale. The exponential mechanism is said in rho."""
    scores = [3, -1, 0]
    measurement, told = asked(lambda: Secure().flip(scores, scale))
    assert measurement.measurement.map(1) == pytest.approx(2 / scale, rel=1e-12)
    assert measurement.given == [scores] and measurement.told == [told]
    measurement, told = asked(lambda: Secure().exponential([float(score) for score in scores], scale))
    assert measurement.measurement.map(1.0) == pytest.approx((2 / scale) ** 2 / 8, rel=1e-12)
    assert measurement.given == [scores] and measurement.told == [told]


@pytest.mark.parametrize("scale", SCALES)
def test_many_values_have_the_law_that_is_paid_for(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    laws = list[inverse_cdf.NoiseLaw]()
    monkeypatch.setattr(inverse_cdf, "drawn", lambda law, count: laws.append(law) or np.arange(count))
    values = list(range(1000, 1000 + source.MANY))
    for draw in (Secure().laplace, Secure().gaussian):
        assert draw(values, scale) == [value + i for i, value in enumerate(values)]
    assert [(law.linear, law.square) for law in laws] == [(1 / Fraction(scale), 0), (0, 1 / (2 * Fraction(scale) ** 2))]


@pytest.mark.parametrize("scale", SCALES)
def test_students_noise_is_accepted_with_the_probability_of_its_law(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposals times acceptance are in proportion to 1 / (1 + (z / s)^2)^2."""
    s, products = Fraction(scale), set[Fraction]()
    for z in (0, 1, 2, 3, 10, round(scale), 5 * round(scale) + 1):
        coin = Coin()
        monkeypatch.setattr(student, "_proposal", lambda a, b, z=z: z)
        monkeypatch.setattr(secrets, "randbelow", coin.below)
        monkeypatch.setattr(secrets, "randbits", lambda bits: 0)
        Secure().student([0], scale)
        proposed = s / ((s + z) * (s + z + 1))
        assert 0 < coin.heads <= 1
        products.add(proposed * coin.heads * (1 + (z / s) ** 2) ** 2)
    assert products == {2 / (3 * (s + 1))}


class Drawn(int):
    """A number that is below everything it is compared with, which it notes."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        self.compared = other
        return True


class Coin:
    """A coin that always falls on heads, and knows with which probability it should have."""

    def below(self, end: int) -> int:
        self.drawn = Drawn(end)
        return self.drawn

    @property
    def heads(self) -> Fraction:
        return Fraction(self.drawn.compared, int(self.drawn))


def test_proposals_of_students_noise_follow_their_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole part of s / U - s: it is n or more where U <= s / (s + n). At U around each such border, by the bits of U."""
    for scale in (0.3, 1.0, 17.3):
        s, (a, b) = Fraction(scale), scale.as_integer_ratio()
        for n in (1, 2, 3, 10, 1000):
            for near in (Fraction(1, 2**40), Fraction(1, 2**100)):
                for off, expected in ((-near, n), (near, n - 1)):
                    u = s / (s + n) + off
                    bits = iter([int(u * 2 ** (64 * k)) & (2**64 - 1) for k in range(1, 9)])
                    monkeypatch.setattr(secrets, "randbits", lambda many, bits=bits: next(bits))
                    assert student._proposal(a, b) == expected


# -- faults


def _less(name: str, *, few: bool) -> Callable[[pytest.MonkeyPatch], None]:
    original = getattr(source, name)

    def drawn(values: Sequence[Any], scale: float) -> Any:
        return original(values, scale * 0.97 if (len(values) < source.MANY) == few else scale)

    return lambda patch: patch.setattr(source, name, drawn)


def many() -> None:
    with pytest.MonkeyPatch.context() as patch:
        test_many_values_have_the_law_that_is_paid_for(17.3, patch)


FAULTS = (
    *(PlantedFault(f"three percent too little noise on few values: {name}", _less(name, few=True), lambda: test_few_values_have_the_noise_that_is_paid_for(17.3))
      for name in ("gaussian", "laplace")),
    *(PlantedFault(f"three percent too little noise on many values: {name}", _less(name, few=False), many) for name in ("gaussian", "laplace")),
    *(PlantedFault(f"a choice is three percent too sharp: {name}", _less(name, few=True), lambda: test_choices_are_made_with_the_scale_that_is_paid_for(17.3))
      for name in ("exponential", "permute_and_flip")),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what.replace(" ", "_"))
def test_a_planted_fault_is_found(fault: PlantedFault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.is_found(monkeypatch)
