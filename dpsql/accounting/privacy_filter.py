"""May one more statement be answered? The rule of a budget, decided by charges alone.

*Pure budgets* (epsilon, no delta) hold a sum of epsilons: basic composition, valid for adaptive choice.

*Other budgets* hold rho and delta. A budget of (epsilon, delta) is turned once into rho(epsilon, delta / 2) of zCDP (by
`convert.limit`), with the other delta / 2 set aside for releases that may fail (key selection). A statement passes if, with it,
the failures stay within their part and *one of* two accounts stays within its total: the sum of rho, or, where every release so
far has a pure epsilon, the sum of epsilons.

Proof that "one of" is enough. Leave the failures out: each release behaves as if it had none, except in events of total
probability at most delta / 2 along any path, as the decision to go on looks at charges only. Let L be the privacy loss of a
whole transcript. Where the transcript ends inside the epsilon account, L <= epsilon always, so it adds nothing to
E[(1 - e^(epsilon - L))+]. Where it ends inside the rho account, compare with the process that stops before rho is exceeded:
that process is rho-zCDP under fully adaptive choice (Feldman and Zrnic 2021; Whitehouse et al. 2023), the transcripts in
question are complete transcripts of it with the same loss, and the summand is never negative; so they add at most what rho-zCDP
allows, delta / 2. Together the releases are (epsilon, delta)-DP.

Stopping when an exact privacy loss curve is crossed is *not* valid under adaptive choice; see `reports.tight_epsilon`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.accounting.cost import Charge


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A budget in the ledger's integers, rounded down. `rho` is None for a pure budget, `epsilon` for one given in rho."""

    epsilon: int | None
    rho: int | None
    delta: int

    def allows(self, spent: Charge) -> bool:
        """Whether this sum of charges is within the budget."""
        if spent.delta > self.delta:
            return False
        if self.epsilon is not None and spent.epsilon is not None and spent.epsilon <= self.epsilon:
            return True
        return self.rho is not None and spent.rho <= self.rho
