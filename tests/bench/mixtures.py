"""How many statements fit into a budget of epsilon and delta where pure ones and others are mixed.

    python tests/bench/mixtures.py

`sums` is the rule of two sums, of epsilons while all are pure and of rho; `orders` is the rule of the ledger, with Renyi orders beside
them. Of ten statements, so many cost rho as the share says, spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from bench_clock import table

from dpsql.accounting.convert import limit
from dpsql.accounting.cost import NOTHING, Charge, concentrated, pure
from dpsql.accounting.privacy_filter import Limit
from dpsql.accounting.room_left import times_left
from dpsql.catalog.price import Price, short

BUDGETS = [(1, "1e-6"), (20, "1e-6"), (3, "1e-9")]
EPSILONS, RHOS, SHARES = ("0.01", "0.1", "1"), ("0.0001", "0.0008", "0.01"), (0, 1, 5, 10)
HEADS = ["budget", "ε of pure ones", "ρ of others", "share", "sums", "orders", "ratio"]


def fitting(most: Limit, ten: list[Charge]) -> int:
    """How many statements pass, ten by ten and then one by one."""
    whole = sum(ten, NOTHING)
    count = times_left(whole, [(most, NOTHING)])
    spent = sum([whole] * count, NOTHING)
    for at, charge in enumerate(ten):
        spent = spent + charge
        if not most.allows(spent):
            return 10 * count + at
    raise AssertionError("ten more would have fit")


def rows() -> Iterator[list[str]]:
    for epsilon, delta in BUDGETS:
        total = Price(epsilon=Fraction(epsilon), delta=Fraction(delta))
        most = limit(total)
        for size in EPSILONS:
            for rho in RHOS:
                for share in SHARES:
                    ten = [concentrated(Fraction(rho)).rounded() if (i + 1) * share // 10 > i * share // 10
                           else pure(Fraction(size)).rounded() for i in range(10)]
                    before, after = (fitting(one, ten) for one in (replace(most, renyi=()), most))
                    yield [str(total), size, rho, f"{10 * share} %", str(before), str(after), short(Fraction(after, max(1, before)))]


if __name__ == "__main__":
    print(table("statements that fit", HEADS, [*rows()]))
