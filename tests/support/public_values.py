"""How a catalog lists what is in public tables: rows of the columns that it asks for."""

from __future__ import annotations

from typing import Any

from dpsql.catalog.public_lists import Values
from dpsql.plan.expr.printing import quote


def values_in(reader: Any) -> Values:
    """Lists different rows of a reader's tables."""
    return lambda table, columns, most: reader.rows(
        f"SELECT DISTINCT {', '.join(map(quote, columns))} FROM {quote(table)} LIMIT {most}")
