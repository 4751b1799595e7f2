"""What a synthetic table can be trusted for, in words: from what was released alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from dpsql.models.table_domain import Columns
from dpsql.synthesis.released_table import KeptTable, SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, TableComparison

MOST_NAMED = 12  # pairs in a sentence


def trust(compared: TableComparison) -> Iterator[tuple[str, str]]:
    """Sentences, each with a short heading."""
    table, columns = compared.table, compared.columns
    if table.periods:
        first, last = table.periods[0], table.periods[-1]
        yield "Each period", (f"counts were released for each period: {first}{'' if first == last else f' to {last}'} tell how "
                              "close their rows are to the private ones.")
    elif not table.marginals:
        yield "Nothing measured", "no counts were released, so it is unknown how close the table is to the private rows."
    if columns:
        worst = max(columns.values(), key=lambda each: each.distance)
        which = "each column" if len(columns) == len(table.columns) else f"{len(columns)} of {len(table.columns)} columns"
        yield "One column", (f"the values of {which} were counted. The table is farthest from these counts in "
                             f"{worst.columns[0]}: {of_noise(worst)}.")
    yield from _of_pairs(compared.pairs)
    if len(compared.counted) > 2:
        yield "Three and more", ("counts of three columns or more that were measured are in the list of what was measured; "
                                 "others follow from the model only.")
    yield from _of_cells(table)
    yield "Any question", (f"VALIDATE SELECT ... AGAINST {table.name} WITHIN 5 PERCENT decides, for a price, whether the "
                           "answer of this table is close to the private one.")


def of_noise(found: MarginalComparison) -> str:
    """The distance of the drawn rows from the measured counts, and how much of it may be noise, in words."""
    return (f"{share(found.distance)} of its rows would have to change to agree with them; the noise of the counts alone makes "
            f"about {share(found.noise)}")


def share(part: float) -> str:
    """A share of the rows in percent."""
    return f"{100 * part:.2g} %" if part < 0.1 else f"{100 * part:.0f} %"


def _of_pairs(pairs: Mapping[Columns, MarginalComparison | None]) -> Iterator[tuple[str, str]]:
    told = [found for found in pairs.values() if found is not None]
    only = [" and ".join(pair) for pair, found in pairs.items() if found is None]
    if told:
        worst = max(told, key=lambda each: each.distance)
        number = "both" if len(pairs) == 1 else f"{len(told)} of {len(pairs)} pairs of"
        yield "Two columns", (f"{number} columns were counted together, alone or with others. The table is farthest from these "
                              f"counts in {' and '.join(worst.columns)}: {of_noise(worst)}.")
    if only:
        more = f"; and {len(only) - MOST_NAMED} more" if len(only) > MOST_NAMED else ""
        yield "Not measured", (f"how these depend on each other follows from the model only, which may be wrong by any amount: "
                               f"{'; '.join(only[:MOST_NAMED])}{more}.")


def _of_cells(table: KeptTable) -> Iterator[tuple[str, str]]:
    if table.marginals:
        least = min(each.error for each in table.marginals)
        yield "Small groups", (f"the best of the counts have a standard error of {least:,.3g}, so it is unknown whether anybody "
                               f"is in a group of fewer than about {2 * least:,.0f} rows.")
    binned = [column for column in table.columns if column.counted is not None and column.counted.edges]
    if binned:
        widths = ", ".join(f"{_width(column)} in {column.name}" for column in binned)
        yield "Inside a bin", ("values were counted roughly or not at all, so ranges, medians and averages can be wrong by up to "
                               f"the width of a bin, even without noise. The widest bins: {widths}.")


def _width(column: SyntheticColumn) -> str:
    """The width of the widest bin."""
    edges = column.counted.edges if column.counted is not None else ()
    widest = max(high - low for low, high in itertools.pairwise(edges))
    width = f"{widest:,.0f}" if widest >= 1000 else f"{widest:,.4g}"
    return f"{width}{' days' if column.type.temporal else ''}"
