"""What is known without measuring of the first rows below rows of the top table: they have values just where there are rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpsql.models.table_domain import Columns
from dpsql.synthesis.linked_views import LinkedTables
from dpsql.synthesis.method import CodedTable
from dpsql.workload.factors import Array


def without_rows(tables: LinkedTables, view: CodedTable) -> Mapping[Columns, Array]:
    """For each column of a first row, and the number of rows: 1 where there is a value but no row, or a row without a value
    although the column is never NULL; otherwise 0."""
    values, found = {each.name: each.values for each in view.columns}, dict[Columns, Array]()
    for below in tables.below(tables.top):
        some = np.array([value != 0 for value in values[below.rows]])
        for own in below.own:
            null = np.array([value is None for value in values[below.column(own)]])
            never = np.where(some[:, None], null & (own not in below.nullable), ~null)
            found[below.rows, below.column(own)] = never.astype(np.float64)
    return found
