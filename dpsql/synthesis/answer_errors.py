"""How far an answer from a synthetic table may be off, in words: as far as the released counts tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.frozen import Frozen
from dpsql.synthesis.measured_counts import MeasuredCounts
from dpsql.synthesis.table_comparison import Z
from dpsql.synthesis.value_errors import NumberError, error_of_mean, error_of_sum

MOST_NAMED = 4  # sets of columns in a sentence


class ColumnsRead(Frozen):
    """What a query reads of a table.

    counted  the columns by which rows are grouped, chosen or joined
    fixed    those of them of which each count has one value
    values   other columns, of which aggregates are taken
    sums, means, others  those of them of which sums, averages, and other aggregates are
    rows     whether rows are counted
    """

    counted: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    sums: frozenset[str] = frozenset()
    means: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    rows: bool = True


def about_answer(table: MeasuredCounts, read: ColumnsRead) -> str:
    """How far an answer is off that reads these columns."""
    return "; ".join([f"{table.name} is a synthetic table", *_of_counts(table, read), *_of_values(table, read), *_of_size(table)])


def how_to_be_sure(tables: Sequence[MeasuredCounts]) -> str:
    """The statement that decides whether an answer is close to the private one."""
    statement = f"VALIDATE SELECT ... AGAINST {tables[0].name} WITHIN 5 PERCENT" if len(tables) == 1 else "VALIDATE"
    return f"{statement} decides, for a price, whether an answer is close to the private one"


def about_rows(table: MeasuredCounts) -> str:
    """What rows are that are shown one by one."""
    return f"{table.name} is a synthetic table: its rows belong to no real person"


def _of_counts(table: MeasuredCounts, read: ColumnsRead) -> Iterator[str]:
    columns = _in_order(table, read.counted)
    found = table.by(columns)
    if found is not None and not read.rows:
        return
    if found is not None:
        margin = Z * table.error(found, read.counted - read.fixed)
        off = f"off by up to about {margin:,.0f} of {table.rows:,} rows (95 %)"
        versions = [table.text(version) for version in found.columns]
        told = f"counts by {_listed(versions)} were measured, each is {off}" if columns else f"the number of rows is {off}"
        yield f"{told}{_if_in_bins(table, found.columns)}"
    elif not table.marginals:
        yield "how far its answers are off is not known"
    elif len(columns) == 1:
        yield f"{columns[0]} was not counted and follows from the model only, so this answer may be off by any amount"
    else:
        only = [_listed([*part]) for part in table.parts(columns)]
        told = f" (only {'; '.join(only[:MOST_NAMED])}{'; ...' if len(only) > MOST_NAMED else ''})" if only else ""
        yield (f"{_listed(columns)} were not counted together{told}: how they depend on each other follows from the model only, "
               "so this answer may be off by any amount")


def _of_values(table: MeasuredCounts, read: ColumnsRead) -> Iterator[str]:
    """About sums, averages, and aggregates whose errors no count tells."""
    columns, values, summed = _in_order(table, read.counted), _in_order(table, read.values), read.counted - read.fixed
    apart = [value for value in values if table.by([*columns, value]) is None]
    together, told = [value for value in values if value not in apart], set[str]()
    for value in together:
        if value in read.sums and (found := error_of_sum(table, value, columns, summed)) is not None:
            by = f"each sum of {value} by {_listed(found.columns[:-1])}" if columns else f"the sum of {value}"
            yield f"{by} is {_margin(table, found)}"
            told.add(value)
        if value in read.means and (found := error_of_mean(table, value, columns, summed)) is not None:
            yield f"the average of {value}{f' over {found.rows:,} rows' if columns else ''} is {_margin(table, found)}"
            told.add(value)
    if others := [value for value in together if value in read.others or value not in told]:
        other = "other " if told.intersection(others) else ""
        yield f"how far {other}aggregates of {_listed(others)} are off is not known"
    if apart and table.by(columns) is not None:
        named = _listed(apart)
        what = f"how {named} {_depends(apart)} on {_listed(columns)}" if columns else f"the distribution of {named}"
        yield f"{what} follows from the model only, so aggregates of {named} may be off by any amount"


def _margin(table: MeasuredCounts, found: NumberError) -> str:
    """How far a sum or an average may be off."""
    *columns, value = found.columns
    told = f"off by up to about {_number(found.margin)} (95 %)"
    if any(map(table.in_bins, columns)):
        return f"{told}{_if_in_bins(table, found.columns)}"
    more = f", and by up to {_number(found.more)} more if values within a bin are not spread as in this table"
    return f"{told}{more if table.in_bins(value) and found.more else ''}"


def _number(number: float) -> str:
    return f"{number:{',.0f' if number >= 10 else '.2g'}}"


def _if_in_bins(table: MeasuredCounts, versions: Sequence[str]) -> str:
    return ", if values within a bin are spread as in this table" if any(map(table.in_bins, versions)) else ""


def _of_size(table: MeasuredCounts) -> Iterator[str]:
    if abs(table.rows - table.total) > 1:
        yield f"the private rows number about {table.total:,.0f}"


def _in_order(table: MeasuredCounts, columns: frozenset[str]) -> list[str]:
    return [column for column in table.columns if column in columns]


def _depends(names: Sequence[str]) -> str:
    return "depends" if len(names) == 1 else "depend"


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence has them."""
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
