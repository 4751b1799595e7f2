"""Fits a graphical model to noisy marginals, so that the squared residuals over their variances have a small sum.

With N rows, entropic mirror descent moves the log potential of each measured marginal f against its residuals,

    potential_f <- potential_f - step (N p_f - y_f) / variance_f,

where p_f is the marginal of the present model, by belief propagation. Of all distributions with the same marginals, the model is
the one of the largest entropy. Steps are taken with Nesterov's momentum, which is dropped when the loss rises; then the step is
chosen anew by Armijo's rule. That needs several times fewer steps than descent without momentum.

Unless the optimum is asked for, the descent stops as soon as no marginal's residuals are larger than its noise explains (the
discrepancy principle), or as those that are do not get smaller any more. It begins at independent columns with the measured
counts of single columns, and adds dependence only as far as the data demand it. For a spanning tree of pairs on Adult at
epsilon = 1, marginals of two columns have an error of 0.052 then, and 0.060 at the optimum, which fits the noise of thousands
of empty cells. Noise explains less than it might (`TAIL`): a descent that stops earlier loses what small tables tell.

Sources: McKenna, Sheldon and Miklau, Graphical-model based estimation and inference for differential privacy, ICML 2019;
O'Donoghue and Candes, Adaptive restart for accelerated gradient schemes, 2015; Morozov's discrepancy principle, 1966; Laurent and
Massart, Adaptive estimation of a quadratic functional by model selection, 2000, lemma 1 (tails of sums of squares).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.models.belief_propagation import Propagation
from dpsql.models.junction_tree import junction_tree
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.noisy_marginals import MarginalMeasurement, combined, estimated_total, nearest_counts
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.trusted.stopping import go_on
from dpsql.workload.domain import room
from dpsql.workload.factors import Array

ARMIJO = 0.5  # the share of the promised fall of the loss that a step without momentum has to attain
FIRST = 4.0  # the first step that is tried, over 1 / (rows x largest precision), which is safe for a single marginal
TAIL = 0.5  # noise is taken to explain what exceeds its mean square by less than a bound that it passes with chance exp(-TAIL)
BETWEEN = 20  # after so many steps, and whenever their number has doubled, it is seen whether to go on
SETTLED, STUCK = 1e-9, 0.1  # the relative fall since then of the loss, or of what is unexplained, that is too little to go on
RANGE = 100.0  # of the precisions that are fitted at once
HALVINGS = 60
LEAST_START = 0.1  # standard deviations of the noise


def fit(domain: TableDomain, measurements: Iterable[MarginalMeasurement], *, total: float | None = None,
        cliques: Iterable[Columns] = (), start: MarkovNetwork | None = None, impossible: Mapping[Columns, Array] | None = None,
        iterations: int = 1000, to_optimum: bool = False) -> MarkovNetwork:
    """The model of the noisy marginals. Columns in no marginal are uniform, and columns that no marginal links are
    independent.

    `total` is the number of rows; without it, it is estimated from the marginals. `cliques` are further groups of columns that
    are to be within cliques of the model. The descent begins at `start`, an earlier fit to some of the same marginals.
    `impossible` has marginals that are 1 for combinations of values which no row can have, and 0 elsewhere. With `to_optimum`
    the loss is minimised. Raises ValueError if nothing is measured and no total is given, where an array does not have the
    shape of its marginal, or where no combination of values is possible; and Unsupported where a clique would be too large.
    """
    measured = combined(domain, measurements)
    rows = estimated_total(measured) if total is None else total
    if not (math.isfinite(rows) and rows > 0):
        raise ValueError("the number of rows is positive")
    factors = [each.columns for each in measured]
    forbidden = {columns: _shaped(domain, columns, table) for columns, table in (impossible or {}).items()}
    tree = junction_tree(domain, [*factors, *cliques, *forbidden])
    for clique in tree.cliques:
        room("a clique of the model", *domain.shape(clique.columns))
    model = Propagation(domain=domain, tree=tree, factors=factors, impossible=forbidden)
    begin = [_begun(each, rows) for each in measured] if start is None else [
        start.potentials.get(columns, np.zeros(domain.shape(columns))) for columns in factors]
    misfit = Misfit(model=model, rows=rows, counts=model.vector([each.values for each in measured]),
                    weights=np.repeat([1 / each.variance for each in measured], [each.values.size for each in measured]))
    found = _fitted(misfit, model.vector(begin), iterations, to_optimum=to_optimum).potentials if factors else model.vector([])
    return MarkovNetwork(domain=domain, total=rows, tree=tree, probabilities=tuple(model.marginals(found)[1]),
                         potentials=dict(zip(factors, model.tables(found), strict=True)))


class Fitted(Frozen, kw_only=False, eq=False):
    """A model on the way: its log potentials, the residuals N p - y of all measured cells, and half their weighted squares."""

    potentials: Array
    residuals: Array
    loss: float


class Misfit(Frozen, eq=False):
    """The loss of models: how far they are from the noisy counts of all measured cells, which are one vector here."""

    model: Propagation
    rows: float
    counts: Array
    weights: Array  # inverse variances

    def at(self, potentials: Array) -> Fitted:
        residuals = self.rows * self.model.marginals(potentials)[0] - self.counts
        return Fitted(potentials, residuals, float((self.weights * residuals) @ residuals) / 2)

    def unexplained(self, found: Fitted) -> float:
        """The total amount by which the squared residuals of the marginals, divided by their variances, exceed what noise
        explains.

        The squares of the noise of n cells have mean n, and are beyond n + 2 sqrt(n x) + 2 x with probability exp(-x) at most.
        """
        cells = np.array([at.stop - at.start for at in self.model.slices])
        squares = np.add.reduceat(self.weights * found.residuals**2, [at.start for at in self.model.slices])
        return float(np.maximum(squares - cells - 2 * np.sqrt(cells * TAIL) - 2 * TAIL, 0).sum())


def _fitted(misfit: Misfit, potentials: Array, iterations: int, *, to_optimum: bool) -> Fitted:
    """The end of the descent, in stages where precisions differ much: at first the highest ones are held down. What is measured
    with little precision would not move otherwise, as a step has to be short enough for the most precise marginal."""
    least, most = float(misfit.weights.min()), float(misfit.weights.max())
    stages = max(math.ceil(math.log(most / least) / math.log(RANGE)), 1)
    for stage in range(1, stages + 1):
        capped = replace(misfit, weights=np.minimum(misfit.weights, least * RANGE**stage))
        found = _descended(capped, potentials, iterations, to_optimum=to_optimum)
        potentials = found.potentials
    return found


def _descended(misfit: Misfit, potentials: Array, iterations: int, *, to_optimum: bool) -> Fitted:
    """Accelerated mirror descent. The loss never rises; it is looked at in the points to which momentum leads."""
    now, before, momentum = misfit.at(potentials), potentials, 1.0
    step, earlier, look = FIRST / float(misfit.rows * misfit.weights.max()), math.inf, BETWEEN
    for number in range(iterations):
        go_on()
        left, enough = (now.loss, SETTLED) if to_optimum else (misfit.unexplained(now), STUCK)
        if left == 0:
            break
        if number == look:
            if earlier - left <= enough * left:
                break
            earlier, look = left, 2 * look
        ahead = now.potentials - step * misfit.weights * now.residuals
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        new = misfit.at(ahead + (momentum - 1) / following * (ahead - before))
        if momentum == 1 or new.loss > now.loss:
            new, step = _by_armijo(misfit, now, step if number == 0 else 2 * step)
            ahead, following = new.potentials, (1 + math.sqrt(5)) / 2
            if new is now:
                break
        now, before, momentum = new, ahead, following
    return now


def _by_armijo(misfit: Misfit, now: Fitted, step: float) -> tuple[Fitted, float]:
    """A step without momentum by which the loss falls enough, and its length; the same point where there is none."""
    slope = misfit.weights * now.residuals
    for _ in range(HALVINGS):
        new = misfit.at(now.potentials - step * slope)
        if new.loss < now.loss and now.loss - new.loss >= ARMIJO * float(slope @ (now.residuals - new.residuals)):
            return new, step
        step /= 2
    return now, step


def _begun(measured: MarginalMeasurement, rows: float) -> Array:
    """The log potential to begin with: 0, or for a single column the log of the non-negative counts that add up to the number of
    rows and are nearest to the noisy ones. Counts of 0 are raised to a part of the noise, so that they can grow again."""
    if len(measured.columns) > 1:
        return np.zeros(measured.values.shape)
    return np.log(np.maximum(nearest_counts(measured.values, rows), LEAST_START * math.sqrt(measured.variance)))


def _shaped(domain: TableDomain, columns: Columns, table: Array) -> Array:
    """The array, if it has the shape of the marginal."""
    if np.shape(table) != domain.shape(columns):
        raise ValueError(f"the marginal of {', '.join(columns)} has the shape {domain.shape(columns)}, not {np.shape(table)}")
    return table
