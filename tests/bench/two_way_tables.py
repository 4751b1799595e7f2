"""The queries of a two-way table, with its exact answers."""

from __future__ import annotations

import numpy as np

from dpsql.microdata.noisy_answers import QueryGroup, query_group
from dpsql.microdata.sparse_queries import of_product
from dpsql.workload.factors import Array, Factor, Identity, Total
from dpsql.workload.workload import Product


def two_way(table: Array, variances: dict[str, float]) -> tuple[QueryGroup, ...]:
    """The groups sum, rows, columns and cells of a two-way table, with its exact answers; those that `variances` names.

    `table` is (rows x columns). Add noise with `NoisyAnswers.with_answers`. Raises ValueError for names other than these four.
    """
    height, width = table.shape
    kinds: dict[str, tuple[Factor, Factor]] = {
        "sum": (Total(height), Total(width)), "rows": (Identity(height), Total(width)),
        "columns": (Total(height), Identity(width)), "cells": (Identity(height), Identity(width))}
    if not variances.keys() <= kinds.keys():
        raise ValueError(f"the groups of a two-way table are {', '.join(kinds)}")
    parts = {name: of_product(Product(kinds[name])) for name in kinds if name in variances}
    cells = np.asarray(table, dtype=float).reshape(-1)
    return tuple(query_group(name, part, part @ cells, variances[name], stage=stage)
                 for stage, (name, part) in enumerate(parts.items()))
