"""Sequential fitting: stage by stage, each as near as possible without changing the answers of the stages before it.

The first stage is fitted alone, so its error does not suffer from the cells; for a sum it is the noisy sum, or zero if that is
negative. What a stage must keep are the answers of its predecessor's own table, not the exact optimum, so that a table with
these answers exists.

Source: Abowd and others, An Uncertainty Principle Is a Price of Privacy-Preserving Microdata, NeurIPS 2021, section 4.
"""

from __future__ import annotations

import numpy as np

from dpsql.microdata.fitted import FittedTable, fitted_table
from dpsql.microdata.noisy_answers import NoisyAnswers
from dpsql.microdata.ols import equalities
from dpsql.microdata.optimality import bounded_fit
from dpsql.microdata.search import Solved, solved


def fit(noisy: NoisyAnswers) -> FittedTable:
    """The table of the last stage; exact answers are kept from the first stage on.

    Raises DataError if no table without negative cells has the exact answers.
    """
    low, high = equalities(noisy)
    kept, stages = noisy.exact.copy(), list[Solved]()
    for now in (stage & ~noisy.exact for stage in noisy.stages):
        if not now.any():
            continue
        used = kept | now
        stages.append(solved(bounded_fit(noisy.matrix[used], noisy.answers[used], np.where(now, noisy.weights, 0.0)[used],
                                         low=low[used], high=high[used], start=stages[-1].cells if stages else None)))
        told = noisy.matrix @ stages[-1].cells
        low, high = np.where(now, told, low), np.where(now, told, high)
        kept = used
    if not stages:
        stages.append(solved(bounded_fit(noisy.matrix, noisy.answers, noisy.weights, low=low, high=high)))
    return fitted_table("sequential", noisy, *stages)
