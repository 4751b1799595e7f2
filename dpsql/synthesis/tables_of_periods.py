"""A synthetic table of all periods of a growing table, put together from those of its periods."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.frozen import replace
from dpsql.synthesis.packed_values import packed_values
from dpsql.synthesis.synthetic_table import SyntheticTable


def whole_table(parts: Sequence[SyntheticTable]) -> SyntheticTable:
    """The rows of the tables of several periods, one after another. Their marginals stay with them, as they are of other rows."""
    first, last = parts[0], parts[-1]
    columns = tuple(replace(column, counted=None, values=tuple(
        value for part in parts for value in packed_values(part.columns[at].values).loaded))
        for at, column in enumerate(first.columns))
    prices = dict.fromkeys(part.price for part in parts)
    note = (f"{first.whole} has the synthetic rows of {len(parts)} periods, each of a model of its own ({first.name} to "
            f"{last.name}, which tell their errors): rows of different periods are of unrelated synthetic people")
    notes = (note, *dict.fromkeys(told for part in parts for told in part.notes))
    return replace(last, name=first.whole, whole="", columns=columns, marginals=(), known=0, coarser=(), records=(), notes=notes,
                   acceptance=None, total=sum(part.total for part in parts), stored=all(part.stored for part in parts),
                   periods=tuple(part.name for part in parts), price=f"{' or '.join(prices)} in each of {len(parts)} periods")
