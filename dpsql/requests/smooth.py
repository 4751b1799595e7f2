"""Quantiles with noise scaled to their smooth sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cost import FREE, Cost, pure
from dpsql.cells import Cells
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.ranks import Ranks
from dpsql.requests.select import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Smooth:
    """For each cell a quantile of the ranks plus Laplace noise scaled to its smooth sensitivity, and a noisy size of that noise.

    With S the beta-smooth upper bound on the local sensitivity of the quantile (Nissim, Raskhodnikova and Smith 2007), for
    neighbours that differ in one entity of at most k rows, integer noise Z with probability proportional to exp(-|z| / t),
    t = 2 S / epsilon, is added to the integer value.

    Proof that this is epsilon-DP up to a failure of probability delta, for beta <= ln(1 + epsilon / (2 ln(2 / delta) +
    epsilon)). Let the neighbours have values at distance m <= S and scales t, t'. *Sliding* Z by m changes its log-probability
    by m / t <= epsilon / 2. *Dilating* from t to t': if t' >= t the exponent falls and the normaliser tanh(1 / (2t)) grows by a
    factor of at most t' / t <= e^beta (tanh(x) / x falls), and beta <= epsilon / 2. If t' < t the normaliser falls and the
    exponent grows by |z| (1 / t' - 1 / t) <= (|z| / t)(e^beta - 1) with |z| <= |Z| + S; outside an event of probability
    P(|Z| > t ln(2 / delta)) <= delta that is at most (ln(2 / delta) + epsilon / 2)(e^beta - 1) <= epsilon / 2.

    The size of the noise is told as floor(ln S / beta) plus discrete Laplace noise of scale 1 / epsilon_size: ln S moves by at
    most beta between neighbours, its floor in units of beta by at most 1, so that costs epsilon_size.

    With several cells an entity may have at most one row, as it then is in one cell only.
    """

    plan: Ranks
    cells: Cells
    target: Target
    epsilon: Fraction
    delta: Fraction
    epsilon_size: Fraction

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        if rows is None:
            raise ValueError("the rows that an entity moves are not bounded")
        if not (self.epsilon > 0 and self.epsilon_size > 0 and 0 < self.delta < 1):
            raise ValueError("the prices of a quantile and of the size of its noise are neither negative nor nothing")
        if rows > 1 and len(self.cells) > 1:
            raise ValueError("smooth sensitivity over several cells needs one row for each entity")
        return FREE if rows == 0 else pure(self.epsilon + self.epsilon_size, self.delta)

    @property
    def beta(self) -> float:
        """The smoothness, less a margin for the rounding of S."""
        epsilon = float(self.epsilon)
        return math.log1p(epsilon / (2 * math.log(2 / float(self.delta)) + epsilon)) - 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothed:
    """For each cell the noisy grid value and the noisy number floor(ln S / beta)."""

    values: tuple[int, ...]
    sizes: tuple[int, ...]
