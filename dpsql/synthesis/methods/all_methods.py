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
from dpsql.synthesis.methods.privbayes import PrivBayes
from dpsql.synthesis.table_options import SynthesisTerms

METHODS: dict[str, Method] = {method.name: method for method in (
    AdaptiveMarginals(), SpanningTree(), PrivBayes(), Independent(), MultiplicativeWeights(), WeightedPublicRows(), DualQuery(),
    NonNegativeCells(), ReweightedCells(), SequentialCells(), MaximumFitCells(), LeastSquaresCells())}


def methods_for(terms: SynthesisTerms) -> dict[str, Method]:
    """Every method by its name, with the options that a statement gives it."""
    named = {option: value for option, value in (("score", terms.score), ("fit", terms.fit)) if value != "auto"}
    return {**METHODS, PrivBayes.name: PrivBayes(**named)}
