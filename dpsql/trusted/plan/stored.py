"""Tables as a prepared store has them: in buckets of entities, with what a row would otherwise be asked for again and again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.tables import OwnerPath, Table
from dpsql.trusted.plan.expr.printing import quote

OWNER, PLACE = "owner of the row", "place of the row"  # the columns that a bucket has beside those of a table


class StoredTable(Frozen):
    """A private table in the buckets of a store: its rows that have an owner, each with the name of its owner and, where a key
    tells rows apart, its place among the rows of its owner.

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
    """The name, as SQL, of the database that is one bucket. Tables in it are named together with it, so that none that anybody
    else can name is ever taken for one, or one for that."""
    return quote(f"bucket {number}")


def place_in_bucket(table: str, number: int) -> str:
    """The rows of a table in one bucket, as SQL."""
    return f"{bucket_name(number)}.main.{quote(table)}"


def shape_of(table: Table) -> str:
    """The source of a table's rows, owners and positions: a store with another one contains another table."""
    columns = sorted((name, column.sql_type, column.nullable) for name, column in table.columns.items())
    return json.dumps({"table": table.name, "columns": columns, "unique": sorted(map(sorted, table.unique)),
                       "owners": [_as_plain(path) for path in table.owners]})


def _as_plain(path: OwnerPath) -> dict[str, Any]:
    """The form in a store's manifest. Its names stay, even if those of the fields change, as later versions read it."""
    steps = [{"columns": step.columns, "table": step.table, "references": step.references,
              "types": [kind.value for kind in step.types]} for step in path.steps]
    return {"steps": steps, "column": path.column, "type": path.type.value, "not_null": path.not_null, "beside": path.beside,
            "kind": path.kind, "kinds": path.kinds}
