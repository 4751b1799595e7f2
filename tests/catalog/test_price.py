"""Prices as people write them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpsql.catalog.price import Price, price
from dpsql.errors import OptionError


@pytest.mark.parametrize("written, meant", [
    (1, Fraction(1)), (0.1, Fraction(1, 10)), (1e-9, Fraction(1, 10**9)), (1000, Fraction(1000)), (1e3, Fraction(1000)),
    (Decimal("0.30"), Fraction(3, 10)), (Fraction(1, 3), Fraction(1, 3)), (2.5e-7, Fraction(1, 4 * 10**6)),
    (0.1 + 0.2, Fraction(30000000000000004, 10**17)), (np.float64(0.7), Fraction(7, 10))])
def test_a_number_is_the_decimal_that_was_written(written: object, meant: Fraction) -> None:
    assert price(epsilon=written) == Price(epsilon=meant)
    assert price(rho=written) == Price(rho=meant)


BAD = [
    float("nan"), float("inf"), float("-inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("-Infinity"), True,
    False, -1, -0.5, -1e-300, 1e308, 1e-308, 5e-324, Decimal("1e999999999"), Decimal("1e-999999999"), Decimal("-1e999999999"),
    10**5000, -(10**5000), Fraction(10**5000), "1", "0.5", b"1", "", [], (1,), {}, object(), 1j, Fraction(1001), 1000.0000001,
    9.9e-19, np.float64("nan")]


@pytest.mark.parametrize("at", range(len(BAD)))
@pytest.mark.parametrize("name", ["epsilon", "rho", "delta"])
def test_what_is_no_price_is_refused(at: int, name: str) -> None:
    with pytest.raises(OptionError) as caught:
        price(**({"epsilon": 1, "delta": BAD[at]} if name == "delta" else {name: BAD[at]}))
    assert caught.value.subject == name and name in caught.value.reason


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, Decimal(0), Fraction(0)])
def test_zero_is_no_price_but_may_be_a_delta(zero: object) -> None:
    for name in ("epsilon", "rho"):
        with pytest.raises(OptionError):
            price(**{name: zero})
    assert price(epsilon=1, delta=zero) == price(epsilon=1)


@pytest.mark.parametrize("delta", [0.5, 0.1000001, 1, 2, 1e-19])
def test_delta_has_a_range_of_its_own(delta: object) -> None:
    with pytest.raises(OptionError):
        price(epsilon=1, delta=delta)


def test_delta_goes_with_either() -> None:
    assert price(epsilon=1, delta=1e-6) == Price(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert price(rho=0.5, delta=1e-18) == Price(rho=Fraction(1, 2), delta=Fraction(1, 10**18))
    assert price(rho=0.5, delta=0.1) == Price(rho=Fraction(1, 2), delta=Fraction(1, 10))


def test_delta_alone_and_both_prices_are_refused_and_nothing_is_nothing() -> None:
    with pytest.raises(OptionError, match="alone"):
        price(delta=1e-6)
    with pytest.raises(OptionError, match="alone"):
        price(delta=0)
    with pytest.raises(OptionError, match="not both"):
        price(epsilon=1, rho=1)
    assert price() is None


def test_prices_are_shown_in_short() -> None:
    assert str(price(epsilon=0.1)) == "ε = 0.1"
    assert str(price(epsilon=Fraction(1, 3), delta=1e-6)) == "ε = 0.333333, δ = 1e-06"
    assert str(price(rho=2)) == "ρ = 2"
