"""What one statement may spend in each account, given its price."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.budgets.convert import FOR_FAILURES, FOR_RHO, rho_of
from dpsql.catalog.price import Price
from dpsql.planning.choose import budgets_by_account
from dpsql.trusted.accounting.cost import NANO, Cost, concentrated, pure

MILLIONTH = Fraction(1, 10**6)


def test_a_price_is_spent_in_the_accounts_that_it_has() -> None:
    assert budgets_by_account(Price(epsilon=Fraction(2))) == [pure(Fraction(2))]
    assert budgets_by_account(Price(rho=Fraction(1, 8), delta=MILLIONTH)) == [concentrated(Fraction(1, 8), MILLIONTH)]
    first, second = budgets_by_account(Price(epsilon=Fraction(2), delta=MILLIONTH))
    assert first == pure(Fraction(2), MILLIONTH * FOR_FAILURES)
    most = rho_of(Fraction(2), MILLIONTH * FOR_RHO)
    assert second.epsilon is None and second.delta == first.delta and most - Fraction(1, NANO) < second.rho <= most


@pytest.mark.parametrize("price, left", [
    (Price(epsilon=Fraction(1, 10**10)), []), (Price(rho=Fraction(1, 10**10)), []),
    (Price(epsilon=Fraction(3, 2 * NANO)), [pure(Fraction(1, NANO))]),
    (Price(epsilon=Fraction(3, 2 * NANO), delta=Fraction(16, 10**17)), [pure(Fraction(1, NANO), Fraction(16, 10**17) * FOR_FAILURES)])])
def test_amounts_are_rounded_down_and_those_of_zero_are_left_out(price: Price, left: list[Cost]) -> None:
    assert budgets_by_account(price) == left
