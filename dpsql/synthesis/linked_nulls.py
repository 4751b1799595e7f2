"""Columns of linked tables in which NULL may be noise alone, as `doubtful_nulls` says of a single table.

A column of a lower table is counted in two views, of first rows and of later ones. In the view of the top table's rows it is also
NULL where there is no row at all: so many are subtracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpsql.synthesis.doubtful_nulls import Counted, DoubtfulNulls, counted, is_sure
from dpsql.synthesis.linked_plan import LinkedModels
from dpsql.synthesis.linked_views import LinkedTable, LinkedTables, LowerTable
from dpsql.synthesis.measured_views import FittedView


def nulls_in_doubt(tables: LinkedTables, models: LinkedModels) -> Mapping[int, tuple[str, ...]]:
    """Those columns of each table, by its place."""
    return {table.at: tuple(own for own in table.own if _in_doubt([*_counts(table, own, models)]))
            for table in (tables.top, *tables.lower)}


def of_top(tables: LinkedTables, view: FittedView, columns: tuple[str, ...]) -> DoubtfulNulls:
    """Such columns of the top table in the view of its rows."""
    return DoubtfulNulls(columns=tuple(map(tables.top.column, columns)), all_columns=view.table.columns)


def _in_doubt(counts: list[Counted]) -> bool:
    return bool(counts) and not is_sure(counts)


def _counts(table: LinkedTable, own: str, models: LinkedModels) -> Iterator[Counted]:
    """The numbers of NULLs in a column that may have some, view by view."""
    lower = table if isinstance(table, LowerTable) else None
    if lower is not None and own not in lower.nullable:
        return
    for view in (models.first_of(table), models.later.get(table.at)):
        found = None if view is None else _nulls(view, table.column(own))
        if view is None or found is None:
            continue
        if lower is not None and view is models.whole:
            column = view.table.columns[view.table.place[lower.rows]]
            without = counted(column, 0, view.measured.marginals) or (0.0, 0.0)
            found = found[0] - without[0], found[1] + without[1]
        yield found


def _nulls(view: FittedView, name: str) -> Counted | None:
    column = view.table.columns[view.table.place[name]]
    return counted(column, None, view.measured.marginals) if len(column.values) > 1 else None
