"""Policies over one table of whom or what is protected, as most tests need them: they write what differs."""

from __future__ import annotations


def policy_of(table: str, columns: str, more: str = "", *, entity: str = "person", key: str = "id", budget: str = "person",
              price: str = "epsilon = 1000") -> str:
    """A policy whose entities are the rows of a table, and its budget. `columns` are those of the table besides its key, and `more`
    is what is told of other tables."""
    return f"""
version = 1
[entities.{entity}]
table = "{table}"
key = "{key}"
[tables.{table}]
key = "{key}"
[tables.{table}.columns]
{key} = {{}}
{columns.strip()}
{more.strip()}
[budgets.{budget}]
entity = "{entity}"
{price}
"""
