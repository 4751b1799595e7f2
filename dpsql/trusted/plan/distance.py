"""How far one entity can move a join, on this database and on any database at a given distance from it: elastic and residual
sensitivity.

Words. A database is at distance k where k entities came or left. Relation j of a join (`plan.decompose_join`) is moved by an
entity by at most a_j rows, 0 for a public one; copies of a table are relations of their own, which move together. For a set F of
relations, its *boundary* are the variables that F shares with relations outside, and T_F(D) is the most combinations of rows of
F, one of each relation, that agree with each other and with one choice of values at the boundary, where conditions that read more
than one connected component of F are left out; of no relation, T = 1. So T of F is the product of those of its components.

The plan. Let M_F(k, D) >= T_F(D) be numbers with M_F(k, D) <= M_F(k + 1, D') for neighbours D, D'. Then

    L(k, D) = sum over nonempty sets E of private relations of (product of a_j, j in E) * M_F(k, D), F all others,

is such that (1) an entity moves the join, as a multiset of rows, by at most L(0, D), and (2) L(k, D) <= L(k + 1, D'). So S(D) =
max over k of exp(-beta k) L(k, D) bounds what an entity moves, and S(D) <= exp(beta) S(D'): each term of S(D) is at most
exp(beta) times the next one of S(D'). It is a beta-smooth bound (Nissim, Raskhodnikova and Smith 2007, Definition 2.1).

Proof of (1). Let I_j be the rows that relation j has in both neighbours, x_j and y_j the numbers of its rows that are in D alone
and in D' alone: x_j + y_j <= a_j. A row of the join that only D has is a combination in which the relations of some nonempty E
use rows that D alone has, and the others use rows of I. Given the rows of E, those of F agree with one choice at their boundary:
at most (product of x_j) * T_F(I) of them, and T_F(I) <= T_F(D) as fewer rows have fewer combinations. The same with y_j for D';
and the product of x_j plus that of y_j is at most that of a_j. (2) is plain, as L is a sum of the M_F with weights that do not
change.

*Elastic* (Johnson, Near and Song, VLDB 2018). Let m_j(C, D) be the most rows of relation j with one value of the variables C, and
m_j(C, k) = m_j(C, D) + a_j k, or the maximal frequency of every database, where there is one and it is less. Put F in any order;
C_j are the variables of j at the boundary of F or in relations before j. Then M_F(k) is the least product of m_j(C_j, k) of all
orders. It is at least T_F, as values at the boundary leave m_j(C_j) choices of a row of j after the rows before it. It grows, as
m_j is moved by a_j at most. FLEX's rule m_S a + m_R b + a b for each join of a tree is this sum with one order, one column of
each join in place of all that are known to agree, and no frequencies; a b is the term in which both relations move.

*Residual* (Dong and Yi, SIGMOD 2021, for a_j = 1). M_F(k) is the elastic one, or where that is less

    sum over sets H of private relations of F of T_{F - H}(D) * product of a_j k, j in H.

It grows: as in (1), T_G(D) <= sum over H' of T_{G - H'}(D') * product of a_j, j in H' (the rows of H' are those that D alone has;
given them and the boundary of G, the boundary of G - H' is given). Put that in, with G = F - H, and collect the terms of one set
H + H': each has T_{F - H - H'}(D') times a sum of products, which is the product of a_j k + a_j. At k = 0 it is T_F. So the
residual bound is never above the elastic one.

What is enough. M_F and L are sums, products and minima of numbers that grow no faster than k, so for n relations, as E is not
empty, L(k) / k^(n - 1) does not grow, and exp(-beta k) L(k) does not from k = (n - 1) / beta on. The maximum up to there is that
over all k. It need not be the first one: the search does not stop at a decrease.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.plan.decompose_join import JoinParts, Some

Reals = NDArray[np.float64]
Frequency = Callable[[int, Some], int]
Multiplicity = Callable[[Some], int]
MOST = 2.0**63  # no released sum can move further
FARTHEST = 10**5
CLEAR = 1 + 1e-12  # above the relative rounding error here, which is below 1e-13


def farthest(relations: int, beta: float) -> int:
    """The distance up to which the maximum must be searched, for a join of this many relations; distances beyond FARTHEST are
    refused."""
    return math.ceil((relations - 1) / beta) + 1


def smooth_bound(joined: JoinParts, beta: float, frequency: Frequency, multiplicity: Multiplicity | None = None) -> float:
    """S for rows: elastic, or residual if the multiplicities T of connected components of several relations are given too."""
    distances = np.arange(farthest(len(joined.relations), beta) + 1.0)
    return smoothed(local_bounds(joined, distances, frequency, multiplicity), beta)


def smoothed(moved: Reals, beta: float) -> float:
    """S for the numbers L at distances 0, 1, ..., at least as far as `farthest`.

    S is at least 1, a smooth bound as well, and L is held at MOST, which keeps (2). Rounding moves S by less than CLEAR.
    """
    distances = np.arange(float(len(moved)))
    return max(1.0, float(np.max(np.exp(-beta * distances) * np.minimum(moved, MOST)))) * CLEAR


def local_bounds(joined: JoinParts, distances: Reals, frequency: Frequency, multiplicity: Multiplicity | None = None) -> Reals:
    """L at each of some distances."""
    search = _Search(joined, distances, frequency, multiplicity)
    return sum((search.rows(moving) * search.most(joined.all - moving) for moving in _subsets(joined.private) if moving),
               start=np.zeros_like(distances))


class _Search:
    """The numbers M of all sets of relations, at all distances at once."""

    def __init__(self, joined: JoinParts, distances: Reals, frequency: Frequency, multiplicity: Multiplicity | None) -> None:
        self._apart, self._distances, self._multiplicity = joined, distances, multiplicity
        self._known, self._asked = lru_cache(None)(self._counted), lru_cache(None)(frequency)

    def rows(self, moving: Some) -> float:
        """The product of a_j."""
        return float(math.prod(self._apart.relations[j].moved for j in moving))

    def most(self, part: Some) -> Reals:
        """M_F."""
        elastic = self._elastic(part)
        if self._multiplicity is None:
            return elastic
        residual = np.zeros_like(self._distances)
        for gone in _subsets(part & self._apart.private):
            residual += self._known(part - gone) * self.rows(gone) * self._distances ** len(gone)
        return np.minimum(elastic, residual)

    def _counted(self, part: Some) -> float:
        """T_F."""
        found = 1.0
        for component in self._apart.components(part):
            if len(component) == 1:
                found *= self._seen(min(component), self._apart.boundary(component))
            else:
                if self._multiplicity is None:
                    raise ValueError("how often the rows of a component meet is counted")
                found *= self._multiplicity(component)
        return found

    def _elastic(self, part: Some) -> Reals:
        """The least product of frequencies: the best order of each set of relations ends with one after the best of the rest."""
        edge = self._apart.boundary(part)
        best: dict[Some, Reals] = {frozenset(): np.ones_like(self._distances)}
        for placed in sorted(_subsets(part), key=len):
            for last in placed:
                before = placed - {last}
                given = (edge | self._apart.variables(before)) & self._apart.relations[last].columns.keys()
                product = best[before] * self._frequency(last, frozenset(given))
                best[placed] = np.minimum(best[placed], product) if placed in best else product
        return best[part]

    def _frequency(self, relation: int, variables: Some) -> Reals:
        """m_j(C, k)."""
        moved, cap = self._apart.relations[relation].moved, self._apart.relations[relation].max_frequency(variables)
        grown = self._seen(relation, variables) + moved * self._distances
        return grown if cap is None else np.minimum(grown, cap)

    def _seen(self, relation: int, variables: Some) -> int:
        """m_j(C, D). Relations with at most one row for each value need no counting: a bound that is the same on all databases is
        smooth too."""
        cap = self._apart.relations[relation].max_frequency(variables)
        return cap if cap is not None and cap <= 1 else self._asked(relation, variables)


def _subsets(of: Some) -> Iterator[Some]:
    """All subsets, including the empty one."""
    return (frozenset(chosen) for size in range(len(of) + 1) for chosen in combinations(sorted(of), size))
