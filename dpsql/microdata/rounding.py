"""Whole numbers near a fitted table: controlled rounding.

Every cell becomes its floor or its ceiling, the total the whole number nearest to the fitted total, and exact answers stay exact.
If possible, every answer becomes the floor or the ceiling of the fitted answer as well. For totally unimodular queries, such as
the marginals of a two-way table or any hierarchy, it always is: the vertices of the linear program are whole. Other queries may
have no such table; then only the total and the exact answers are kept. Among the tables that keep as much, the one chosen has the
least sum of |change| over the cells. It is not unbiased: small fractions are rounded down more often than their size says.

Source: Cox, A Constructive Procedure for Unbiased Controlled Rounding, JASA 1987, for two-way tables; Hoffman and Kruskal,
Integral Boundary Points of Convex Polyhedra, 1956, for the vertices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpsql.errors import DataError
from dpsql.frozen import replace
from dpsql.microdata.fitted import FittedTable
from dpsql.microdata.noisy_answers import NoisyAnswers
from dpsql.workload.factors import Array

WHOLE = 1e-6  # counts by which a number is taken for whole
SEARCH = 512  # fractional cells up to which whole numbers are searched where a vertex is not whole
NODES = 100  # of that search: its end does not depend on how fast the machine is

ANSWERS, TOTAL = "answers", "total"  # what rounding keeps


def rounded(noisy: NoisyAnswers, found: FittedTable) -> FittedTable:
    """The fitted table in whole numbers. `kept` says what is guaranteed: with "answers", no cell and no answer changes by 1 or
    more; with "total", no cell does, and exact answers and the rounded total are kept.

    Answers are only bounded for queries with whole coefficients. Raises DataError if an exact answer is not whole, or if no such
    rounding has the exact answers.
    """
    whole = np.asarray((abs(noisy.matrix - noisy.matrix.rint()).max(axis=1)).toarray()).reshape(-1) < WHOLE
    if not whole[noisy.exact].all() or np.abs(noisy.answers - np.rint(noisy.answers))[noisy.exact].max(initial=0.0) > WHOLE:
        raise DataError("no table of whole numbers has these exact answers, as some of them are not whole numbers",
                        code="infeasible", try_="whole exact answers")
    base = _floor(found.cells)
    share = np.where(base == np.rint(found.cells), np.maximum(found.cells - base, 0.0), found.cells - base)
    open_ = np.flatnonzero(share > WHOLE)
    total, count = np.rint(found.cells.sum()), noisy.cells
    rows: Any = scipy.sparse.vstack([noisy.matrix[whole], scipy.sparse.csr_array(np.ones((1, count)))], format="csr")
    told = rows @ found.cells
    low, high, exact = _floor(told), _ceiling(told), np.append(noisy.exact[whole], False)
    low[exact] = high[exact] = np.rint(noisy.answers[noisy.exact])
    low[-1] = high[-1] = total
    must, busy = np.append(noisy.exact[whole], True), np.diff(rows[:, open_].indptr) > 0
    for kept, used in ((ANSWERS, busy), (TOTAL, busy & must)):
        raised = _raised(rows[used][:, open_], (low - rows @ base)[used], (high - rows @ base)[used], share[open_])
        if raised is not None:
            cells = base.copy()
            cells[open_] += raised
            return replace(found, cells=cells, answers=noisy.matrix @ cells, kept=kept)
    raise DataError("no rounding of the fitted cells has the exact answers", code="infeasible",
                    try_="real numbers, or fewer exact answers")


def _raised(rows: Any, low: Array, high: Array, share: Array) -> Array | None:
    """Which cells become their ceilings, 1 or 0 for each: the nearest choice for which rows @ choice lies between the bounds."""
    if len(share) == 0:
        return np.zeros(0)
    if rows.shape[0] == 1:
        return _largest_shares(rows, low, high, share)
    limits = scipy.optimize.LinearConstraint(rows, low, high)
    for whole in (False, True):
        if whole and len(share) > SEARCH:
            return None
        found = scipy.optimize.milp(1 - 2 * share, bounds=scipy.optimize.Bounds(0, 1), constraints=limits,
                                    integrality=np.full(len(share), int(whole)), options={"node_limit": NODES} if whole else {})
        if found.x is not None and _are_whole(found.x) and _lie_within(rows @ np.rint(found.x), low, high):
            return np.rint(found.x)
        if found.status == 2:
            return None
    return None


def _largest_shares(rows: Any, low: Array, high: Array, share: Array) -> Array | None:
    """The nearest choice if only a plain sum is bounded: as many of the largest fractions as it needs."""
    if (rows.data != 1).any() or rows.nnz < len(share):
        return None
    count = int(np.clip(np.rint(share.sum()), low[0], high[0]))
    raised = np.zeros(len(share))
    raised[np.argsort(-share, kind="stable")[:count]] = 1.0
    return raised


def _are_whole(numbers: Array) -> bool:
    return bool(np.abs(numbers - np.rint(numbers)).max(initial=0.0) < WHOLE)


def _lie_within(numbers: Array, low: Array, high: Array) -> bool:
    return bool(((numbers >= low - WHOLE) & (numbers <= high + WHOLE)).all())


def _floor(numbers: Array) -> Array:
    """The floor, where a number that is whole but for rounding errors is its own."""
    return np.where(_near_whole(numbers), np.rint(numbers), np.floor(numbers))


def _ceiling(numbers: Array) -> Array:
    return np.where(_near_whole(numbers), np.rint(numbers), np.ceil(numbers))


def _near_whole(numbers: Array) -> NDArray[np.bool_]:
    return np.asarray(np.abs(numbers - np.rint(numbers)) <= WHOLE)
