"""Every method by its name."""

from __future__ import annotations

from dpsql.synthesis.method import Method
from dpsql.synthesis.methods.aim import AdaptiveMarginals
from dpsql.synthesis.methods.dualquery import DualQuery
from dpsql.synthesis.methods.fitted_cells import (
    LeastSquaresCells,
    MaximumFitCells,
    NonNegativeCells,
    ReweightedCells,
    SequentialCells,
)
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.mst import SpanningTree
from dpsql.synthesis.methods.mwem import MultiplicativeWeights
from dpsql.synthesis.methods.mwem_pub import WeightedPublicRows

METHODS: dict[str, Method] = {method.name: method for method in (
    AdaptiveMarginals(), SpanningTree(), Independent(), MultiplicativeWeights(), WeightedPublicRows(), DualQuery(),
    NonNegativeCells(), ReweightedCells(), SequentialCells(), MaximumFitCells(), LeastSquaresCells())}
