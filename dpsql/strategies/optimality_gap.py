"""How far a strategy can be from the best one: a value and a lower bound that holds for a whole class of mechanisms.

The bounds are on an error: the total variance, or the largest variance over its target. Let B be a lower bound of that error over
Gaussian mechanisms at squared cost 1 (the dual value of `fixed_point`, or similar). Then lower bounds of the same error are:

* Gaussian noise at squared cost D, which is 2 rho: B / D, as errors scale with the cost.
* Laplace noise of independent queries at epsilon: 2 B / epsilon^2. A strategy A with scales b has columns of L1 norm at most
  epsilon (entries over their scales), so of squared L2 norm at most epsilon^2, and its noise has variances 2 b^2: it has twice
  the error of Gaussian noise at a squared cost of at most epsilon^2. (Weak: the best such strategies known have 2 to 3 times
  that RMSE.)
* Every unbiased mechanism, whatever its noise: B / chi2, where chi2 bounds the chi-square divergence of neighbours:
  exp(2 rho) - 1 for rho-zCDP (its Renyi divergence of order 2 is at most 2 rho), 4 sinh(epsilon / 2)^2 for pure epsilon
  (extremal for two outcomes with ratios e^epsilon and e^-epsilon, as for randomised response).
  Proof. Hammersley, Chapman and Robbins: unbiased answers T of W x at x + e_j and x differ in mean by w_j, column j of W, so
  (a' w_j)^2 <= chi2 a' Sigma a for all a, with Sigma the covariance of T at x. Hence w_j' Sigma^-1 w_j <= chi2 for all j: Sigma
  is the covariance of a Gaussian mechanism of squared cost chi2.

Nothing follows for biased mechanisms, for which only orders of magnitude are known (Edmonds, Nikolov and Ullman, The Power of
Factorization Mechanisms in Local and Central Differential Privacy, STOC 2020).
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.matrices.blocks import Noise as Noise

Covers: TypeAlias = Literal["Gaussian strategies", "Laplace strategies", "all unbiased mechanisms"]


class OptimalityBound(Frozen):
    """No mechanism of the class `covers` has an `objective` below `bound`; the strategy has `value`. Both are squared errors."""

    objective: str
    value: float
    bound: float
    covers: Covers

    @property
    def ratio(self) -> float:
        """The value divided by the bound: the value is at most this many times the optimum."""
        return self.value / self.bound if self.bound > 0 else math.inf

    def __str__(self) -> str:
        return f"{self.objective} at most {self.ratio:.4g} times the least of {self.covers}"


def certificates(objective: str, value: float, gaussian: float, noise: Noise, price: float) -> tuple[OptimalityBound,
                                                                                                     OptimalityBound]:
    """Optimality bounds for a value at a price (rho, or epsilon), from the bound on Gaussian mechanisms at squared cost 1.

    First against strategies with the same noise, then against all unbiased mechanisms with the same guarantee.
    """
    if noise == "gaussian":
        own: Covers = "Gaussian strategies"
        same, chi2 = gaussian / (2 * price), math.expm1(2 * price)
    else:
        own = "Laplace strategies"
        same, chi2 = 2 * gaussian / price**2, 4 * math.sinh(price / 2) ** 2
    return (OptimalityBound(objective=objective, value=value, bound=same, covers=own),
            OptimalityBound(objective=objective, value=value, bound=gaussian / chi2, covers="all unbiased mechanisms"))
