"""What every method returns: a table, its answers, and the evidence that it is what the method promises."""

from __future__ import annotations

from functools import reduce

from dpsql.frozen import Frozen
from dpsql.microdata.noisy_answers import NoisyAnswers
from dpsql.microdata.optimality import KktResidual
from dpsql.microdata.search import Solved
from dpsql.workload.factors import Array


class FittedTable(Frozen, eq=False):
    """A fitted table of counts.

    method       the name of the method
    cells        the table, (cells,)
    answers      its answers to all queries, (queries,), in the order of the groups
    certificate  by how many counts the conditions of optimality fail, the worst of all problems solved on the way; it always
                 holds, as a table for which it does not is not returned. It is that of the table before it is rounded.
    solvers      the solver of each of these problems
    kept         what rounding to whole numbers kept, see `rounding`; empty for real numbers
    """

    method: str
    cells: Array
    answers: Array
    certificate: KktResidual
    solvers: tuple[str, ...]
    kept: str = ""


def fitted_table(method: str, noisy: NoisyAnswers, *stages: Solved) -> FittedTable:
    """The table of the last stage, with the worst residual of all stages."""
    return FittedTable(method=method, cells=stages[-1].cells, answers=noisy.matrix @ stages[-1].cells,
                       certificate=reduce(KktResidual.worse, [stage.residual for stage in stages]),
                       solvers=tuple(stage.solver for stage in stages))
