"""A connection as HTML for notebooks: its budget and its tables. All of it is public, or was released."""

from __future__ import annotations

import html

from dpsql.answers.display import listed_html
from dpsql.answers.html_page import fragment, paragraph
from dpsql.answers.listings import bounds_of, limit_of_rows, values_of_column
from dpsql.answers.spending import Spending
from dpsql.catalog.model import Catalog
from dpsql.catalog.price import Price
from dpsql.trusted.declarations.tables import Table


def connection_html(catalog: Catalog, spending: Spending, price: Price | None) -> str:
    """An open connection: its analyst, what is left of the budget, and the tables with their columns."""
    usual = "Each statement states its price." if price is None else f"A statement costs {price} unless it says otherwise."
    parts = [spending.as_html(), paragraph(usual), paragraph("Tables that can be queried:"),
             *(_table(table, catalog) for table in catalog.tables.values())]
    parts += [paragraph(f"{name}: {why}", "dim") for name, why in catalog.outside.items()]
    return fragment(parts, "bars", "connection")


def closed_html() -> str:
    return fragment([paragraph("This connection is closed.")])


def _table(table: Table, catalog: Catalog) -> str:
    """One table: its name and kind, and the columns when it is opened."""
    rows = [(column.name, _role(column.name, table), column.sql_type, values_of_column(column), bounds_of(column),
             "yes" if column.nullable else "no") for column in table.columns.values()]
    head = f"<summary><span class=word>{html.escape(table.name)}</span> · {html.escape(_kind(table, catalog))}</summary>"
    titles = "column", "key", "type", "values", "bounds", "may be null"
    return f"<details>{head}<div class=wide>{listed_html(titles, rows)}</div></details>"


def _kind(table: Table, catalog: Catalog) -> str:
    columns = f"{len(table.columns)} column{'' if len(table.columns) == 1 else 's'}"
    if table.public:
        return f"public, free; {columns}"
    return f"private, {limit_of_rows(table, catalog.entity.name)} {'count' if table.rows != 1 else 'counts'}; {columns}"


def _role(column: str, table: Table) -> str:
    roles = ["key"] if column in table.key else []
    roles += [f"names a row of {key.table}" for key in table.foreign_keys if column in key.columns]
    return ", ".join(roles)
