"""The relations of PostgreSQL 15's system catalogue and information schema that clients read, and their columns.

`postgres_relations.txt` lists them. A column without a kind is a text; the kinds are i: whole number, h: one of 16 bits, b:
boolean, c: letter, d: double, m: moment; with an s, a list of these. All names are those of PostgreSQL's documentation,
"System Catalogs" and "The Information Schema".
"""

from __future__ import annotations

from dpsql.server.front.catalogue.catalog_lists import listed

KINDS = {"": "VARCHAR", "t": "VARCHAR", "c": "VARCHAR", "i": "BIGINT", "h": "SMALLINT", "b": "BOOLEAN", "d": "DOUBLE",
         "m": "TIMESTAMP"}


def relations() -> dict[str, dict[str, str]]:
    """The types of the columns of each relation, by its name with the schema."""
    found: dict[str, dict[str, str]] = {}
    for line in listed("postgres_relations.txt"):
        name, *columns = line.split()
        found[name] = dict((*column.split(":"), "")[:2] for column in columns)  # type: ignore[misc]
    return found
