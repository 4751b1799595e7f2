"""The share of an account for each day, as a limit that the ledger checks in the turn of the charge.

The ledger compares a limit with the sum of all charges of an account. So the share of a day is added to what was charged before
that day, a sum that does not change any more: `limit_today`.

Claim: charges that pass this limit are within the account's own limit, and those of one day are within its share, however many
statements are asked at the same time. Proof: a sum passes if one of its accounts (epsilon, rho, a Renyi order) and its delta are
within the limit there (`privacy_filter`). That limit is at most the own one, so the own limit allows the sum too. It is at most
the sum before the day plus the share, and sums are exact, so what was charged on the day is within the share in the same
account. The ledger adds up and records a charge in one turn, so no other charge comes between.

At midnight (UTC): a statement that is planned before it and charged after it is compared with what is left of the old day, and
counts for the new one. Where the clocks of servers differ, the sum before a day can lack charges that another server dates to the
day before. Both make the limit smaller, never larger. If a clock is set back over midnight while a statement waits, that one is
compared with the share of the later day and dated to the earlier one; so the earlier day may then have two shares, as midnight
could have on its two sides.
"""

from __future__ import annotations

from dpsql.trusted.accounting.cost import Charge
from dpsql.trusted.accounting.privacy_filter import Limit


def limit_today(own: Limit | None, share: Limit, before: Charge) -> Limit:
    """The limit of an account that may spend a share each day; `before` was charged to it before this day."""
    today = Limit(epsilon=_added(before.epsilon, share.epsilon), rho=_added(before.rho, share.rho),
                  delta=before.delta + share.delta,
                  renyi=tuple(spent + more for spent, more in zip(before.renyi, share.renyi, strict=False)))
    if own is None:
        return today
    return Limit(epsilon=_least(own.epsilon, today.epsilon), rho=_least(own.rho, today.rho), delta=min(own.delta, today.delta),
                 renyi=tuple(map(min, own.renyi, today.renyi)))


def spent_since(spent: Charge, before: Charge) -> Charge:
    """What was charged since an earlier sum of the same account, as a sum. It has no epsilon if one of the two has none."""
    epsilon = None if spent.epsilon is None or before.epsilon is None else spent.epsilon - before.epsilon
    return Charge.summed(epsilon, spent.rho - before.rho, spent.delta - before.delta,
                         (now - earlier for now, earlier in zip(spent.renyi, before.renyi, strict=True)))


def _added(spent: int | None, more: int | None) -> int | None:
    return None if spent is None or more is None else spent + more


def _least(one: int | None, other: int | None) -> int | None:
    """The smaller limit; None, which admits nothing in this account, if one of the two has none."""
    return None if one is None or other is None else min(one, other)
