"""How much a budget still allows, for reports and advice. It is computed by the budget's own filter, so reports agree with
decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpsql.catalog.price import short
from dpsql.trusted.accounting.cost import NANO, Charge, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit

MOST = 2**60  # in units of the ledger: more than any budget


def share_spent(limit: Limit, spent: Charge) -> Fraction:
    """The spent fraction of a budget in its least used account, as one account within its limit is enough."""
    shares = [Fraction(of, most) for of, most in limit.accounts(spent) if most > 0]
    return min([*shares, Fraction(1)])


def share_left(limit: Limit, spent: Charge) -> Fraction:
    """The part of a budget that is left, rounded down to a thousandth: in the unit of which most is left, as one is enough."""
    return Fraction(math.floor((1 - share_spent(limit, spent)) * 1000), 1000)


def left_in_words(limit: Limit, spent: Charge, last: Charge | None = None) -> str:
    """How much of a budget is left, as all faces say it: in percent of the whole, and for about how many more statements that
    cost as much as the `last` one."""
    share = share_left(limit, spent)
    told = "less than 0.1 %" if not share and share_spent(limit, spent) < 1 else percent(share)
    if last is None:
        return told
    more = times_left(last, [(limit, spent)])
    price = f" (ε = {short(Fraction(last.epsilon, NANO))})" if last.epsilon is not None else ""
    return f"{told}, about {more:,} more statement{'' if more == 1 else 's'} like the last{price}"


def percent(share: Fraction) -> str:
    """A part of a whole as text for people."""
    return f"{float(100 * share):g} %"


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
