"""What reports say is left of a budget, in small examples; `test_renyi_accounts` compares it with what passes, for random charges."""

from __future__ import annotations

from fractions import Fraction

from dpsql.budgets.convert import limit
from dpsql.budgets.room_left import epsilon_left, rho_left, share_spent, times_left
from dpsql.catalog.price import Price
from dpsql.trusted.accounting.cost import NOTHING, concentrated, pure

MILLIONTH = Fraction(1, 10**6)
TWENTY = Price(epsilon=Fraction(20), delta=MILLIONTH)
ONE, LITTLE = pure(Fraction(1)).rounded(), concentrated(Fraction(8, 10**4)).rounded()


def test_what_was_not_spent_is_left() -> None:
    pure_only, by_rho = limit(Price(epsilon=Fraction(3))), limit(Price(rho=Fraction(1, 2)))
    assert epsilon_left(pure_only, NOTHING) == 3 and epsilon_left(pure_only, ONE) == 2
    assert rho_left(by_rho, NOTHING) == Fraction(1, 2) and rho_left(by_rho, LITTLE) == Fraction(1, 2) - Fraction(8, 10**4)
    assert epsilon_left(by_rho, NOTHING) == 1, "which is half of it in rho"
    assert rho_left(pure_only, NOTHING) == 0, "a release without a pure epsilon has no account there"
    assert (share_spent(pure_only, ONE), share_spent(by_rho, LITTLE)) == (Fraction(1, 3), Fraction(16, 10**4))


def test_more_like_the_last_is_what_all_accounts_have_room_for() -> None:
    most, small = limit(TWENTY), limit(Price(epsilon=Fraction(5), delta=MILLIONTH))
    assert times_left(ONE, [(most, LITTLE)]) == 19 and times_left(ONE, [(most, LITTLE), (small, NOTHING)]) == 5
    assert times_left(LITTLE, [(most, NOTHING)]) == 4634275775 // 800000
    assert times_left(ONE, [(small, sum([ONE] * 5, NOTHING))]) == 0
    assert times_left(NOTHING, [(most, LITTLE)]) > 10**15, "what costs nothing never ends"
