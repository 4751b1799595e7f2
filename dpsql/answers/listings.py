"""Tables of public facts: what can be queried, and what was released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from dpsql.answers.listing import Listing
from dpsql.catalog.growing_tables import in_words
from dpsql.catalog.model import Catalog
from dpsql.catalog.price import short
from dpsql.sql.binding.sources import unknown_table
from dpsql.trusted.accounting.cost import ATTO, NANO, Charge
from dpsql.trusted.declarations.account_limits import FADES
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.types import Span, Type

if TYPE_CHECKING:
    from dpsql.ledgers.ledger_reports import Entry, Failure, Stop


def listed_tables(catalog: Catalog, models: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Listing:
    """The tables that statements may use, and the columns of online models (`models`, by name)."""
    rows = []
    for table in catalog.tables.values():
        limit = "" if table.public else _rows_limited(table)
        rows.append((table.name, "public" if table.public else "private", limit, ", ".join(table.columns)))
    rows += [(name, "online model", "", ", ".join(columns)) for name, columns in models.items()]
    return Listing(columns=(("table", Type.VARCHAR), ("kind", Type.VARCHAR), (f"rows per {catalog.entity.name}", Type.VARCHAR),
                            ("columns", Type.VARCHAR)), rows=tuple(rows))


def _rows_limited(table: Table) -> str:
    """The limit on rows of each entity, short; of a table that grows, that in each period, and the column that decides it."""
    limit, period = _limit_and_period(table)
    return ("no limit" if limit is None else str(limit)) + (f" in a {period}" if period else "")


def limit_of_rows(table: Table, entity: str) -> str:
    """The limit on rows of each entity, in words."""
    limit, period = _limit_and_period(table)
    rows = "any number of rows" if limit is None else f"at most {limit} row{'' if limit == 1 else 's'}"
    return f"{rows} of each {entity}" + (f" in a {period}" if period else "")


def _limit_and_period(table: Table) -> tuple[int | None, str]:
    """The number of rows that each entity may have in each period of a table that grows, such as a month of visited_on, or of
    another table in all."""
    growth = table.growth
    if growth is None:
        return table.rows, ""
    return (1 if table.rows == 1 else growth.rows), f"{in_words(growth.period)} of {growth.column}"


def table_listing(catalog: Catalog, name: str, span: Span, text: str) -> Listing:
    """The declared columns of a table. Raises SqlError or Unsupported, located, if there is no such table."""
    table = catalog.table(name)
    if table is None:
        raise unknown_table(name, span, catalog).located(text)
    rows = tuple((column.name, column.sql_type, values_of_column(column), bounds_of(column), "yes" if column.nullable else "no")
                 for column in table.columns.values())
    titles = ("column", "type", "values", "bounds", "may be null")
    return Listing(columns=tuple((title, Type.VARCHAR) for title in titles), rows=rows)


def described_column(column: Column) -> str:
    """The policy's declarations about a column, in one line."""
    values = "" if column.domain is None else f"values: {values_of_column(column)}"
    bounds = f"bounds: {bounds_of(column)}" if column.type.numeric else ""
    return "; ".join(part for part in (values, bounds) if part) or "values not declared"


def values_of_column(column: Column) -> str:
    """The declared values of a column, or the first of them."""
    if column.domain is None:
        return "not declared"
    values = column.domain.listed or column.domain.values
    shown = ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values[:6])
    return shown if len(values) <= 6 else f"{shown}, ... ({len(values)} values)"


def bounds_of(column: Column) -> str:
    """The declared bounds of a column of numbers."""
    if not column.type.numeric:
        return ""
    return str(column.declared) if column.declared.finite else "found by search" if column.search else "not declared"


def listed_releases(entries: Sequence[Entry]) -> Listing:
    """The statements that were charged, and those whose answers were shared, oldest first."""
    rows = tuple((entry.seq, entry.at, entry.account.analyst, price_of_entry(entry), entry.outcome, entry.sql)
                 for entry in entries)
    return Listing(columns=(("number", Type.BIGINT), ("at", Type.VARCHAR), ("analyst", Type.VARCHAR), ("charge", Type.VARCHAR),
                            ("outcome", Type.VARCHAR), ("statement", Type.VARCHAR)), rows=rows)


def price_of_entry(entry: Entry) -> str:
    """What a statement was charged, as text for people."""
    return "free" if entry.told is not None else price_in_words(entry.charge)


def price_in_words(charge: Charge) -> str:
    """A charge as text for people."""
    name, amount = ("ρ", charge.rho) if charge.epsilon is None else ("ε", charge.epsilon)
    return f"{name} = {short(Fraction(amount, NANO))}" + (f", δ = {charge.delta / ATTO:.3g}" if charge.delta else "")


def listed_late(late: Sequence[tuple[str, int, int]]) -> Listing:
    """How many outcomes left a server late, by analyst and by the step of its grid of times, for the owner, including those that
    no longer count."""
    return Listing(columns=(("analyst", Type.VARCHAR), ("step", Type.BIGINT), ("outcomes", Type.BIGINT)), rows=tuple(late))


def slowed_in_words(first: int, late: int) -> str:
    """For the owner: how late outcomes delay an account, if they leave at step `first` of their grid or later and `late` may be
    late."""
    return f"leaves after {2**first:,} times the pace or later, as more than {late} were late in {FADES} days"


def listed_failures(failures: Sequence[Failure]) -> Listing:
    """The statements that failed after their charge, for the owner."""
    rows = tuple((failure.account.analyst, failure.at, failure.sql, failure.cause, "no" if failure.forgiven else "yes")
                 for failure in failures)
    return Listing(columns=tuple((title, Type.VARCHAR) for title in ("analyst", "time", "statement", "cause", "counts")),
                   rows=rows)


def listed_stops(stops: Sequence[Stop]) -> Listing:
    """How many statements were stopped after their charge, by analyst and cause, for the owner."""
    counts = Counter((stop.account.analyst, stop.cause) for stop in stops)
    return Listing(columns=(("analyst", Type.VARCHAR), ("cause", Type.VARCHAR), ("statements", Type.BIGINT)),
                   rows=tuple((*which, counts[which]) for which in sorted(counts)))
