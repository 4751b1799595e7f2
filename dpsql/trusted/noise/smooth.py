"""Noise scaled to a smooth upper bound on the local sensitivity.

S is beta-smooth: it is at least the distance m between the values on neighbours, and S <= exp(beta) S' (Nissim, Raskhodnikova
and Smith, STOC 2007). The proofs below hold for every such S; `measurements` proves that each of its bounds is one.

*Laplace noise.* Integer noise Z with probability proportional to exp(-|z| / t), t = 2 S / epsilon, is added to the integer value.

Proof that it is epsilon-DP up to a failure of probability delta, for beta <= ln(1 + epsilon / (2 ln(2 / delta) +
epsilon)). Let the neighbours have values at distance m <= S and scales t, t'. *Sliding* Z by m changes its log-probability
by m / t <= epsilon / 2. *Dilating* from t to t': if t' >= t the exponent falls and the normaliser tanh(1 / (2t)) grows by a
factor of at most t' / t <= e^beta (tanh(x) / x falls), and beta <= epsilon / 2. If t' < t the normaliser falls and the
exponent grows by |z| (1 / t' - 1 / t) <= (|z| / t)(e^beta - 1) with |z| <= |Z| + S; outside an event of probability
P(|Z| > t ln(2 / delta)) <= delta that is at most (ln(2 / delta) + epsilon / 2)(e^beta - 1) <= epsilon / 2.

The size of the noise is released as floor(ln S / beta) plus discrete Laplace noise of scale 1 / epsilon_size: ln S moves by at
most beta between neighbours, its floor in units of beta by at most 1, so that costs epsilon_size.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Cost, pure
from dpsql.trusted.field_types import Assumptions, Epsilon, NumberRange
from dpsql.trusted.noise.source import Source

CLEAR = 1 + 1e-6  # far above the rounding errors of logarithms, and of negligible effect
ROUNDING = 1e-11  # relative increase of beta that covers the rounding of bounds and scales


def laplace_beta(epsilon: float, delta: float) -> float:
    """The largest beta for Laplace noise, minus a margin for the rounding of S."""
    return math.log1p(epsilon / (2 * math.log(2 / delta) + epsilon)) - ROUNDING


def laplace(value: int, sensitivity: float, epsilon: Fraction, source: Source) -> int:
    """A value plus Laplace noise for a smooth bound S."""
    return source.laplace([value], 2 * sensitivity / float(epsilon))[0]


class Student(Frozen):
    """Integer noise with probability proportional to 1 / (1 + (z / s)^2)^2, for s scaled to a beta-smooth bound S.

    Student's t with three degrees of freedom, on integers; the variance is near s^2.

    Proof that it is epsilon-DP for s = 2 S / (epsilon - 4 beta). Write h(x) = 1 / (1 + x^2)^2, and p_s(z) = h(z / s) / C(s) with
    C(s) the sum of h(z / s) over all integers. Let neighbours have values at distance m <= min(S, S') and scales s, s' with
    |ln(s / s')| <= beta. *Sliding* by m, an integer, leaves C as it is, and |d ln h / dx| = 4 |x| / (1 + x^2) <= 2: the
    logarithm of the probability moves by 2 m / s <= epsilon - 4 beta. *Dilating* from s to s': ln h(z / s) rises with ln s at a
    rate of 4 x^2 / (1 + x^2) for x = z / s, between 0 and 4; ln C rises at the mean of these rates under p_s, between 0 and 4
    too. So ln p_s(z) moves by at most 4 for each unit of ln s, 4 beta in all. This holds for every z, so there is no delta.

    Sources: Nissim, Raskhodnikova and Smith, STOC 2007, Lemma 2.7, with 1 / (1 + |x|^g); Bun and Steinke, NeurIPS 2019, for
    Student's t. On the integers the proof is the same, and samples are exact (`student`).
    """

    epsilon: Epsilon
    beta: Annotated[float, NumberRange(above=0)]

    def assumptions(self) -> Assumptions:
        yield self._sliding > 0, "beta must be below epsilon / 4"

    @property
    def _sliding(self) -> float:
        return float(self.epsilon) - 4 * (self.beta + ROUNDING)

    def scale(self, sensitivity: float) -> float:
        """The scale for a smooth bound S."""
        return 2 * sensitivity / self._sliding * (1 + 1e-15)

    def cost(self) -> Cost:
        return pure(self.epsilon)


def told_size(sensitivity: float, beta: float, epsilon: Fraction, source: Source) -> int:
    """A noisy ln S / beta for a smooth bound S, at a cost of epsilon; see above."""
    # In units a little above beta, so that rounding cannot move the floor by two where ln S moves by beta: however small beta is,
    # ln S is off by less than `ROUNDING`, and counts less than 2^45 units, whose own rounding is far less than their margin.
    size = math.floor(math.log(sensitivity) / (beta * CLEAR + ROUNDING))
    return source.laplace([size], 1 / float(epsilon) * (1 + 1e-15))[0]
