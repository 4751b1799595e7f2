"""How much a budget still allows, for reports and advice. It is computed by the budget's own filter, so reports agree with
decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from dpsql.trusted.accounting.cost import NANO, Charge, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit

MOST = 2**60  # in units of the ledger: more than any budget


def share_spent(limit: Limit, spent: Charge) -> Fraction:
    """The spent fraction of a budget in its least used account, as one account within its limit is enough."""
    shares = [Fraction(of, most) for of, most in limit.accounts(spent) if most > 0]
    return min([*shares, Fraction(1)])


def epsilon_left(limit: Limit, spent: Charge) -> Fraction:
    """The largest pure epsilon that one more statement may cost."""
    return _largest(lambda amount: limit.allows(spent + pure(amount).rounded()))


def rho_left(limit: Limit, spent: Charge) -> Fraction:
    """The largest rho that one more statement may cost."""
    return _largest(lambda amount: limit.allows(spent + concentrated(amount).rounded()))


def times_left(charge: Charge, accounts: Sequence[tuple[Limit, Charge]]) -> int:
    """How many more statements of this cost several limits allow together; each limit is given with the amount spent."""
    def allowed(sums: Charge) -> bool:
        return all(limit.allows(spent + sums) for limit, spent in accounts)

    powers = [charge]
    while len(powers) < MOST.bit_length() and allowed(powers[-1]):
        powers.append(powers[-1] + powers[-1])
    found, sums = 0, None
    for at in reversed(range(len(powers))):
        more = powers[at] if sums is None else sums + powers[at]
        if allowed(more):
            found, sums = found + 2**at, more
    return found


def _largest(allowed: Callable[[Fraction], bool]) -> Fraction:
    """The largest amount that is allowed, in units of the ledger; zero if not even zero is allowed."""
    low, high = 0, 1
    while high < MOST and allowed(Fraction(high, NANO)):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(Fraction(middle, NANO)) else (low, middle)
    return Fraction(low, NANO)
