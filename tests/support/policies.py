"""Policies over one table of whom or what is protected, as most tests need them: they write what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping

USUAL = {"INTEGER": "BIGINT", "HUGEINT": "BIGINT", "FLOAT": "DOUBLE"}
"""The types of CSV files for values of other types of the database."""


def policy_of(table: str, columns: str, more: str = "", *, entity: str = "person", key: str = "id", budget: str = "person",
              price: str = "epsilon = 1000", database: str = "") -> str:
    """A policy whose entities are the rows of a table, and its budget. `columns` are those of the table besides its key, and `more`
    is what is told of other tables. `database` is the file, if the policy names it."""
    return f"""
version = 1
{f'database = "{database}"' if database else ""}
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


def typed(policy: str, table: str, types: Mapping[str, str]) -> str:
    """A policy that declares the types of a table's columns, as a CSV file needs it. `types` are those of a database."""
    def declared(line: re.Match[str]) -> str:
        name, rest = line.groups()
        return f'{name} = {{ type = "{USUAL.get(types[name], types[name])}"{", " if rest.strip() != "}" else " "}{rest.lstrip()}'

    return re.sub(rf"(?<=\[tables\.{table}\.columns\]\n)(?:\w.*\n)+", lambda part: re.sub(r"^(\w+) = \{(.*)$", declared, part.group(), flags=re.M),
                  policy)
