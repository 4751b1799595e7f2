"""Every method by its name."""

from __future__ import annotations

from dpsql.synthesis.method import Method
from dpsql.synthesis.methods.aim import AdaptiveMarginals
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.mst import SpanningTree
from dpsql.synthesis.methods.privbayes import PrivBayes

METHODS: dict[str, Method] = {method.name: method for method in (AdaptiveMarginals(), SpanningTree(), PrivBayes(), Independent())}
