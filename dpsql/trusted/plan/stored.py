"""Tables in a prepared store: in buckets of entities, with precomputed facts about each row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.tables import OwnerPath, Table
from dpsql.trusted.plan.expr.printing import quote

OWNER, PLACE = "owner of the row", "place of the row"  # the columns that a bucket has beside those of a table


class StoredTable(Frozen):
    """A private table in the buckets of a store: its rows that have an owner, each with the name of its owner and, if a key
    distinguishes rows, its place among the rows of its owner.

    shape  what the table was prepared for; see `shape_of`
    order  the columns of the key by which places go, in a keyed order (`operators.ranking`); none if rows have no places
    rows   the number of rows
    most   the most rows of one owner
    ends   the least and the greatest value of each column of numbers; None where there is none, or one is not finite
    buckets  the number of buckets that the rows are in
    at_once  whether a statement can read all buckets; otherwise they are read one by one, elsewhere
    alone    whether the rows are nowhere but in buckets that are elsewhere
    """

    shape: str
    order: tuple[str, ...] = ()
    rows: int = 0
    most: int = 0
    ends: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)
    buckets: int = 1
    at_once: bool = True
    alone: bool = False


def bucket_name(number: int) -> str:
    """The SQL name of the database that contains one bucket. Tables in it are always qualified by this name, so that they are
    never confused with tables that anybody else can name."""
    return quote(f"bucket {number}")


def place_in_bucket(table: str, number: int) -> str:
    """A table in one bucket, as SQL."""
    return f"{bucket_name(number)}.main.{quote(table)}"


def shape_of(table: Table) -> str:
    """The source of a table's rows, owners and positions: a store with another one contains another table."""
    columns = sorted((name, column.sql_type, column.nullable) for name, column in table.columns.items())
    return json.dumps({"table": table.name, "columns": columns, "unique": sorted(map(sorted, table.unique)),
                       "owners": [_as_plain(path) for path in table.owners]})


def _as_plain(path: OwnerPath) -> dict[str, Any]:
    """The form in a store's manifest. Later versions read it, so its names stay even if the fields are renamed."""
    steps = [{"columns": step.columns, "table": step.table, "references": step.references,
              "types": [kind.value for kind in step.types]} for step in path.steps]
    return {"steps": steps, "column": path.column, "type": path.type.value, "not_null": path.not_null, "beside": path.beside,
            "kind": path.kind, "kinds": path.kinds}
