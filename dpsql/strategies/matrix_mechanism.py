"""The matrix mechanism for Laplace noise over few cells: any matrix may be measured, found by gradient descent.

Every column of the strategy A may have an L1 norm of 1, so A = (P - N) diag(1 / s), with P, N >= 0 and s the column sums of
P + N; the total squared error at epsilon = 1, over 2, is f = tr(G (A'A)^-1), with the slope D = -2 A (A'A)^-1 G (A'A)^-1 by A.
Descent is over P and N, which is smooth, as entries change sign where both are zero. It starts from the best p-Identity strategy
found (`p_identity`), and from the best Gaussian strategy and the cells. The first is nearly at rest already: where it was tried a
matrix without any form is better by 0.5 % of the RMSE at most. The problem is not convex, and no optimum is claimed.

Source: Li, Hay, Rastogi, Miklau and McGregor, Optimizing Linear Counting Queries Under Differential Privacy, PODS 2010; the
objective for Laplace noise without approximation.
"""

from __future__ import annotations

import numpy as np
import scipy

from dpsql.strategies.fixed_point import solve
from dpsql.strategies.integers import BITS
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.p_identity import Gram, best, tables
from dpsql.strategies.product_bound import valued
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.factors import Array, Dense
from dpsql.workload.workload import Workload, joined

SMALL = 128  # cells
STEPS, SETTLED = 1500, 1e-9
RIDGE = 1e-12


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The strategy with the best matrix found."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    if workload.domain.size > SMALL:
        return Refusal(f"descent over all matrices is for up to {SMALL} cells")
    flat = joined(workload)
    gram = flat.gram()
    cells = np.eye(len(gram))
    starts = [np.vstack([cells, best(Gram(gram), tables(workload))]), np.vstack([solve(flat, share=0.0).matrix, cells])]
    _, matrix = min((descended(gram, start) for start in starts), key=lambda pair: pair[0])
    found = LeastSquares(name="matrix-mechanism", domain=flat.domain, noise="laplace",
                         measured=(one_block(Dense(rounded(matrix))),))
    return valued(found, flat)


def rounded(matrix: Array) -> Array:
    """The matrix rounded to integers, without rows of zeros."""
    found = np.rint(matrix * 2.0**BITS).astype(np.int64)
    return np.asarray(found[np.abs(found).sum(axis=1) > 0])


def descended(gram: Array, start: Array) -> tuple[float, Array]:
    """Half of the error, and the strategy with columns of L1 norm 1, at the end of the descent."""
    n = len(gram)
    flat = np.concatenate([np.maximum(start, 0).reshape(-1), np.maximum(-start, 0).reshape(-1)])
    scale = float(np.trace(gram))

    def loss(both: Array) -> tuple[float, Array]:
        plus, minus = both.reshape(2, -1, n)
        value, plus_slope, minus_slope = error(gram / scale, plus, minus)
        return value, np.concatenate([plus_slope.reshape(-1), minus_slope.reshape(-1)])

    found = scipy.optimize.minimize(loss, flat, jac=True, method="L-BFGS-B", bounds=scipy.optimize.Bounds(0, np.inf),
                     options={"maxiter": STEPS, "ftol": SETTLED, "maxfun": 100_000})
    plus, minus = np.asarray(found.x).reshape(2, -1, n)
    return float(found.fun) * scale, np.asarray((plus - minus) / (plus + minus).sum(axis=0))


def error(gram: Array, plus: Array, minus: Array) -> tuple[float, Array, Array]:
    """tr(G (A'A)^-1) and its gradients with respect to P and N. A small ridge is added to A'A, so that it always has an
    inverse."""
    s = np.maximum((plus + minus).sum(axis=0), RIDGE)
    a = (plus - minus) / s
    inverse = np.linalg.inv(a.T @ a + RIDGE * np.eye(len(gram)))
    turned = inverse @ gram
    slope = -2 * a @ (turned @ inverse)
    along = (slope * a).sum(axis=0)
    return float(np.trace(turned)), (slope - along) / s, (-slope - along) / s
