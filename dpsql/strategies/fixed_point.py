"""The best Gaussian strategy for a workload, with a certificate: one concave problem in two probability vectors.

For queries W with targets c (variances are counted in units of the target), weights `base` of the queries and a `share` in
[0, 1], let A = diag(c)^(-1/2) W. Among all mechanisms that add Gaussian noise, correlated in any way, at squared cost
max_j b_j' Sigma^-1 b_j <= 1, the least value of

    sum_i base_i Var_i / c_i + share * max_i Var_i / c_i

is the maximum of f^2 over probability vectors p (queries) and q (cells), where f = tr S and U S V' is the singular value
decomposition of M = diag(base + share p)^(1/2) A diag(q)^(1/2). share = 1 is fitness for use (gamma_2 of A, squared), share = 0
the weighted sum of variances (the convex matrix mechanism), and what is between weighs both.

Proof of the lower bound. A mechanism measures R x with independent unit noise and answers L of it, A = L R. Its value is at
least the mean of its variances under base + share p, and its cost is at least the mean over q of the squared norms of R's
columns. So value * cost >= |diag(base + share p)^(1/2) L|_F^2 |R diag(q)^(1/2)|_F^2 >= |M|_*^2, as the nuclear norm of a product
is at most the product of the Frobenius norms. Every p and q give a bound.

The mechanism. R = S^(1/2) V' diag(q)^(-1/2) attains it as far as all u_j = |R_j|^2 agree where q_j > 0, and all v_i = Var_i / c_i
where p_i > 0, none being larger elsewhere. f is concave in (p, q) (it is a fidelity) and these are its conditions of optimality,
so p <- p v / f, q <- q u / f rests exactly at the optimum. Value and bound differ by max v * max u / f^2.

The iteration (see `climb`) needs only the Gram matrix of the weighted workload and quadratic forms of its rows, which Kronecker
products and ranges have implicitly: a step costs one symmetric eigenproblem of the cells (of the queries, if they are fewer).

Sources: Xiao, He, Zhang and Kifer, Optimizing Fitness-For-Use of Differentially Private Linear Queries, PVLDB 2021 (the
problem); Lee, Shraibman and Spalek, A Direct Product Theorem for Discrepancy, 2008 (the dual of gamma_2); Yuan, Yang, Zhang and
Hao, Convex Optimization for Linear Query Processing under Approximate Differential Privacy, KDD 2016 (the sum); Denisov,
McMahan, Rush, Smith and Thakurta, Improved Differential Privacy for SGD via Optimal Private Linear Operators on Adaptive
Streams, 2022 (a fixed point for the sum); Anderson, Iterative Procedures for Nonlinear Integral Equations, 1965.
"""

from __future__ import annotations

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.strategies import clock
from dpsql.strategies.climb import climb, logarithms, probabilities
from dpsql.strategies.spectrum import TINY, Spectrum, exact_spectrum, spectrum
from dpsql.trusted.cached import cached_property
from dpsql.workload.domain import domain
from dpsql.workload.factors import Array, Dense
from dpsql.workload.workload import Product, Workload

WRITTEN = 2**25  # entries of a matrix of queries whose singular values may be asked for themselves


class Solution(Frozen):
    """Measure `matrix` x with independent noise of variance 1: the squared cost is 1, the value at most `upper`.

    No Gaussian strategy has a value below `lower`. `mixing` times the matrix of all queries is `matrix`, where that is known.
    """

    lower: float
    upper: float
    evaluations: int
    matrix: Array
    queries: Array
    cells: Array
    mixing: Array | None = None

    @property
    def gap(self) -> float:
        return self.upper / self.lower - 1


def solve(workload: Workload, *, targets: Array | None = None, base: Array | None = None, share: float = 1.0,
          limits: Array | None = None, gap: float = 1e-4, evaluations: int = 400) -> Solution:
    """The strategy with the least value, to a relative `gap` (or as near as the given number of evaluations allows).

    `base` must add up to 1 - share. With `limits`, the cost is the largest squared norm of a column over the limit of its cell.
    """
    m, n = workload.rows, workload.domain.small("the search for the best strategy")
    problem = Problem(workload=workload, targets=np.ones(m) if targets is None else np.asarray(targets, dtype=float),
                      limits=np.ones(n) if limits is None else limits, share=share,
                      base=np.full(m, (1 - share) / m) if base is None else base)
    start = problem.look(np.full(m, 1 / m), np.full(n, 1 / n))
    tightest, best, done = climb(start, gap, evaluations)
    fewer = len(best.spectrum.s) < len(start.spectrum.s)  # little weights have part of the space to themselves
    if fewer and m * n <= WRITTEN and not clock.over():
        tightest, best, more = climb(replace(problem, exact=True).look(best.p, best.q), gap, evaluations)
        done += more
    matrix, mixing = best.measured()
    return Solution(lower=tightest.lower, upper=best.upper, evaluations=done, matrix=matrix, queries=best.p, cells=best.q,
                    mixing=mixing)


class Problem(Frozen):
    """The problem to be solved, see the head of the module. The squared norm of column j is divided by `limits[j]`."""

    workload: Workload
    targets: Array
    limits: Array
    base: Array
    share: float
    exact: bool = False

    @cached_property
    def transposed(self) -> Workload | None:
        """The transposed queries, if they are fewer than the cells and dense anyway."""
        factors = [factor for part in self.workload.parts for factor in part.factors]
        if self.exact or len(factors) > 1 or not isinstance(factors[0], Dense):
            return None
        if self.workload.rows > 0.8 * self.workload.domain.size:
            return None
        return Workload(domain(self.workload.rows), (Product((Dense(factors[0].floats.T),)),))

    def look(self, p: Array, q: Array) -> FixedPointStep:
        """The evaluation at p and q: the singular values of M from M'M, or from MM' if that is smaller."""
        rows, columns = (self.base + self.share * p) / self.targets, q / self.limits
        if self.exact:
            return FixedPointStep(problem=self, p=p, q=q, spectrum=exact_spectrum(np.sqrt(rows)[:, None] * self.workload.dense(),
                                                                                  columns))
        if self.transposed is not None:
            return FixedPointStep(problem=self, p=p, q=q, spectrum=spectrum(self.transposed.gram(columns), rows))
        return FixedPointStep(problem=self, p=p, q=q, spectrum=spectrum(self.workload.gram(rows), columns))


class FixedPointStep(Frozen):
    """The evaluation at one p and q."""

    problem: Problem
    p: Array
    q: Array
    spectrum: Spectrum

    @cached_property
    def f(self) -> float:
        return float(self.spectrum.s.sum())

    @property
    def lower(self) -> float:
        return (self.f - self.spectrum.lost) ** 2

    @cached_property
    def upper(self) -> float:
        return float((self.problem.base @ self.v + self.problem.share * self.v.max()) * self.u.max())

    @cached_property
    def v(self) -> Array:
        """The ratios of variances to targets, by query."""
        return self._values[0]

    @cached_property
    def u(self) -> Array:
        """The ratios of the squared norms of the strategy's columns to their limits, by cell."""
        return self._values[1]

    @cached_property
    def _values(self) -> tuple[Array, Array]:
        problem, form = self.problem, self.spectrum.form(1.0)
        if problem.transposed is not None:
            return self.spectrum.norms / problem.targets, problem.transposed.quadratic(form) / problem.limits
        return problem.workload.quadratic(form) / problem.targets, self.spectrum.norms / problem.limits

    @cached_property
    def steepness(self) -> Array:
        """Bounds on - d log v_i / d log p_i and on - d log u_j / d log q_j, for the coordinates that move.

        The derivative of a function of a matrix in its eigenbasis gives d v_i / d p_i = - sum_kl e_ik e_il / (s_k s_l (s_k +
        s_l)), with e_ik the squared components of M's row over its weight; by 1 / (s + t) <= 1 / (2 sqrt(s t)), that is at most
        half the square of a quadratic form. The own side of the spectrum needs no form.
        """
        problem, form = self.problem, self.spectrum.form(1.5)
        if problem.transposed is not None:
            queries = problem.share * self.spectrum.steepness
            cells = self.q * (problem.transposed.quadratic(form) / problem.limits) ** 2 / np.maximum(2 * self.u, TINY)
        else:
            cells = self.spectrum.steepness
            if problem.share == 0:
                return cells
            moved = problem.share * self.p * (problem.workload.quadratic(form) / problem.targets) ** 2
            queries = moved / np.maximum(2 * self.v, TINY)
        return cells if problem.share == 0 else np.concatenate([queries, cells])

    @cached_property
    def residual(self) -> Array:
        """The residual of the fixed point in the coordinates that may move, in logarithms."""
        cells = logarithms(self.u / (self.q @ self.u))
        if self.problem.share == 0:
            return cells
        return np.concatenate([logarithms(self.v / (self.p @ self.v)), cells])

    @cached_property
    def place(self) -> Array:
        logs = np.log(self.q)
        return np.asarray(logs) if self.problem.share == 0 else np.concatenate([np.log(self.p), logs])

    def moved(self, place: Array) -> FixedPointStep:
        """The evaluation at another point, given by the logarithms of vectors that need not add up to one."""
        m = 0 if self.problem.share == 0 else len(self.p)
        return self.problem.look(probabilities(place[:m]) if m else self.p, probabilities(place[m:]))

    def measured(self) -> tuple[Array, Array | None]:
        """S^(1/2) V' diag(q)^(-1/2), scaled to the cost 1; and the matrix that expresses it by the queries, if these are
        fewer."""
        s, problem = self.spectrum, self.problem
        mixing = None
        if problem.transposed is not None:  # V' = S^-1 U' M
            mixing = (s.vectors * np.sqrt(s.weights)[:, None] / np.sqrt(s.s)).T
            matrix = mixing @ problem.transposed.dense().T
        else:
            matrix = (s.vectors * np.sqrt(s.s)).T / np.sqrt(s.weights)
        size = np.sqrt(((matrix**2).sum(axis=0) / problem.limits).max())
        return np.asarray(matrix / size), None if mixing is None else np.asarray(mixing / size)
