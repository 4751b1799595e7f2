"""May one more statement be answered? The privacy filter of a budget, which depends on charges alone.

*Pure budgets* (epsilon, no delta) limit the sum of epsilons: basic composition, valid for adaptive choice. Budgets in rho limit
the sum of rho, and failures up to their delta.

*Budgets of (epsilon, delta)* have several accounts. `convert.limit` divides delta once: a part for releases that may fail (key
selection), a part for the sum of rho, and a part for each of the Renyi orders of `cost.ORDERS`. A statement passes if, with it,
the failures stay within their part and *one of* the accounts stays within its limit: the sum of epsilons, where every release so
far has one; the sum of rho; or, for some order a, the sum of the Renyi costs at a. The last account combines pure and other
statements: at large orders a pure one costs hardly more than its epsilon there, and any other a rho.

Proof that "one of" is enough. Take neighbours in either direction, and let P and Q be the distributions of the whole transcript:
releases made one after another, each paid for before it is made. Which statement comes next, what it costs and whether there is
one depend only on earlier releases and on randomness independent of the data.

 1. *Failures.* Given what came before, the distribution of a release that fails with probability at most d has a part P' of
    mass 1 - d, and Q has a part Q' of mass 1 - d, that satisfy epsilon-DP or rho-zCDP: for zCDP this is the
    definition of its approximate form (Bun and Steinke 2016, Definition 8.1), for epsilon it is so in every (epsilon, d)-DP
    release (Kairouz, Oh and Viswanath 2015). Multiplied along transcripts, these parts are measures P' <= P and Q' <= Q. The
    mass of P - P' is at most the largest sum of d along any path, which is the part for failures, D. So for every event S, P(S) -
    e^epsilon Q(S) <= D + the integral of (P' - e^epsilon Q')+.
 2. *A partition.* Divide all complete transcripts by the first account within whose limit they end. Each ends within one, as
    its last charge passed. So the integral is a sum over these parts; it is nonnegative on each, and each is bounded
    separately.
 3. *The sum of epsilons.* There P' <= e^epsilon Q', and the integral is 0.
 4. *An order a.* Let Z = P' / Q'. For every z >= 0, (z - e^epsilon)+ <= c z^a with
    c = e^(-(a - 1) epsilon) (1 - 1/a)^a / (a - 1): the two touch at z = e^epsilon a / (a - 1). (This is the conversion of
    Canonne, Kamath and Steinke 2020, Proposition 12, before any mean is taken, so that it holds on a part.) Let A be the sum of
    the Renyi costs along a transcript. A release multiplies the mean of Z^a under Q', given what came before, by at most
    e^((a - 1) cost), and its cost is known before. So Z^a e^(-(a - 1) A) is a supermartingale that begins at 1, and has a mean of
    at most 1 at the end, whatever was chosen along the way (Feldman and Zrnic 2021; Lecuyer 2021). Where A is at most the
    limit B, the integral is at most c e^((a - 1) B), which is the order's part of delta.
 5. *The sum of rho.* As 4, at the one order for which the conversion of rho is least; there A is at most a rho (for zCDP see also
    Whitehouse, Ramdas, Rogers and Wu 2023).

A statement of several releases pays at least the sum of their costs in each account: `Cost.covers` ensures this for epsilons
and for rho. At an order, the costs of pure releases add up to at most the cost of the sum of their epsilons, as the releases
together are pure too, and may be randomized response.

Together the releases are (epsilon, delta)-DP after any number of statements, as the parts of delta add up to at most delta.
Orders and limits are fixed, and do not follow what was released. Where another limit (of one analyst) refuses what this one
allows, that too depends on charges alone, as if the analyst had not asked. A refused charge enters no sum.

Accounts cannot share one delta, as an analyst may exhaust one on some paths and another on others; nor may failures use
the unused delta of the orders, as they occur on all paths. Stopping when an exact privacy loss curve is crossed is not valid
under adaptive choice, either; see `reports.tight_epsilon`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Charge


class Limit(Frozen):
    """A budget in the ledger's integers, rounded down. `rho` is None for a pure budget, `epsilon` for one given in rho.

    `renyi` holds the limits of the Renyi orders, if any; a limit is below zero if an order admits nothing.
    """

    epsilon: int | None
    rho: int | None
    delta: int
    renyi: tuple[int, ...] = ()

    def allows(self, spent: Charge) -> bool:
        """Whether this sum of charges is within the budget."""
        return spent.delta <= self.delta and any(of <= most for of, most in self.accounts(spent))

    def accounts(self, spent: Charge) -> Iterator[tuple[int, int]]:
        """The amount spent and the limit, in each account that this sum of charges has."""
        if self.epsilon is not None and spent.epsilon is not None:
            yield spent.epsilon, self.epsilon
        if self.rho is not None:
            yield spent.rho, self.rho
        yield from zip(spent.renyi, self.renyi, strict=False)
