"""Several synthetic tables that hang together, as one answer: their form in the ledger."""

from __future__ import annotations

import json
from typing import ClassVar

from dpsql.answers.described_columns import OF_SYNTHETIC_TABLES
from dpsql.answers.listing import Listing
from dpsql.frozen import Frozen
from dpsql.synthesis.stored_values import ReadPart, no_part
from dpsql.synthesis.synthetic_table import SyntheticTable, of_json, stored_in_parts
from dpsql.trusted.kernel.chain import InParts

DATABASE_MARK = '{"synthetic tables": '  # with which the stored form of each begins, and of nothing else


class ReleasedDatabase(Frozen):
    """The tables in the order of their statement. Each names the column that is its key, and the table on which it hangs."""

    tables: tuple[SyntheticTable, ...]
    FIELD: ClassVar[str] = "database"

    def as_table(self) -> Listing:
        """Its tables, with their sizes and keys."""
        return Listing(columns=OF_SYNTHETIC_TABLES, rows=tuple(
            (each.name, each.rows, ", ".join(each.key), "" if each.parent is None else each.parent.table)
            for each in self.tables))

    @property
    def cost(self) -> str:
        """The total cost when the tables were made."""
        return self.tables[0].price

    @property
    def stored(self) -> bool:
        """Whether the tables were made before, so that they cost nothing now."""
        return self.tables[0].stored

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that help to use the tables correctly."""
        return tuple(dict.fromkeys(note for table in self.tables for note in table.notes))

    def table(self, name: str) -> SyntheticTable:
        """A table by its name. Raises KeyError if there is none."""
        found = {table.name.lower(): table for table in self.tables}
        return found[name.lower()]

    def as_json(self) -> str | InParts:
        """The stored form, in parts if a table is large."""
        made = [stored_in_parts(table) if table.is_large else InParts(table.as_json(), ())
                for table in self.tables]
        text = json.dumps({"synthetic tables": [table.name for table in self.tables], "made": [each.text for each in made]})
        parts = tuple(dict.fromkeys(part for each in made for part in each.parts))
        return InParts(text, parts) if parts else text

    def __str__(self) -> str:
        """A summary of each table."""
        return "\n\n".join(map(str, self.tables))


def stored_tables(stored: str) -> tuple[str, ...]:
    """The stored form of each table."""
    return tuple(json.loads(stored)["made"])


def database_of_json(stored: str, read: ReadPart = no_part) -> ReleasedDatabase:
    """The tables in a stored form; `read` reads its parts."""
    return ReleasedDatabase(tables=tuple(of_json(table, read) for table in stored_tables(stored)))
