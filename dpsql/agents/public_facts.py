"""What an agent may know without a charge: tables, columns, budgets, and statements to begin with."""

from __future__ import annotations

import datetime as dt
from typing import Any

from dpsql.answers.columns import plain
from dpsql.answers.listings import bounds_of
from dpsql.answers.spending import Spending
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import quoted_if_needed
from dpsql.engine.accounts import account_of_today
from dpsql.engine.session import Session
from dpsql.trusted.declarations.tables import Column, Table

MOST_VALUES = 50  # of a column that are listed at once


def table_as_data(table: Table, catalog: Catalog, *, whole: bool) -> dict[str, Any]:
    """A table with its columns; `whole` lists more than the first values of each."""
    return {"name": table.name, "public": table.public, "rows_per_entity": None if table.public else table.rows,
            "key": list(table.key),
            "columns": [_column(column, MOST_VALUES if whole else 8) for column in table.columns.values()],
            "rules": list(catalog.rules.get(table.name, ()))}


def _column(column: Column, most: int) -> dict[str, Any]:
    values = None if column.domain is None else [plain(value) for value in column.domain.values[:most]]
    return {"name": column.name, "type": column.sql_type, "values": values,
            "values_in_all": None if column.domain is None else len(column.domain.values), "bounds": bounds_of(column) or None,
            "bins": None if column.bins is None else len(column.bins) - 1, "may_be_null": column.nullable}


def examples(catalog: Catalog) -> list[str]:
    """Statements that show what can be asked of the first private tables: counts by a declared column, and an average."""
    found = []
    for table in [table for table in catalog.tables.values() if not table.public][:3]:
        keys = [column for column in table.columns.values() if column.domain is not None and 2 <= len(column.domain.values) <= 30]
        numbers = [column for column in table.columns.values()
                   if column.type.numeric and column.declared.finite and column not in keys]
        name = quoted_if_needed(table.name)
        if keys:
            key = quoted_if_needed(keys[0].name)
            found.append(f"SELECT {key}, COUNT(*) AS n FROM {name} GROUP BY {key}")
        if numbers:
            found.append(f"SELECT COUNT(*) AS n, AVG({quoted_if_needed(numbers[0].name)}) AS average FROM {name}")
    return found


def budget_as_data(spending: Spending) -> list[dict[str, Any]]:
    """What is left of each account: of all analysts, and of this one; then in the fullest consecutive periods, if they are
    limited."""
    named = [(account.whose or "all analysts", str(account.total), account) for account in spending.accounts]
    named += [(window.name, window.total, window.line) for window in spending.windows]
    return [{"of": name, "total": total, "left": line.left(), "share_left": float(line.share_left)}
            for name, total, line in named]


def today_as_data(session: Session) -> dict[str, Any] | None:
    """What is left of the share of the account for this day, and when it renews; None if it has none."""
    account = account_of_today(session)
    if account is None:
        return None
    renews = dt.datetime.combine(dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1), dt.time(), dt.UTC)
    return {"share": str(account.total), "left": account.left_in_full(), "share_left": float(account.share_left),
            "renews": renews.isoformat(timespec="minutes")}


def today_in_words(today: dict[str, Any]) -> str:
    return f"today: {today['left']} of {today['share']}; the share renews at midnight UTC ({today['renews']})"
