"""The basis of a drafted policy: the format of files, and the readings that fit all of their cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsql.catalog.file_names import usual_format
from dpsql.catalog.reading import USUAL_CELL, CellReading, CsvFormat
from dpsql.catalog.reading_words import differences
from dpsql.frozen import Frozen, field, field_names


class DraftedColumn(Frozen):
    """The reading of a column that all of its rows fit, what there is to say of it, and the values that the file itself lists."""

    reading: CellReading
    note: str = ""
    values: tuple[str, ...] = ()

    @property
    def entries(self) -> dict[str, Any]:
        """The settings for cells that differ from the defaults, as written in a policy."""
        found = differences(self.reading, USUAL_CELL, ("type", "trim", "null", "aliases", "format", "decimal_mark"))
        return {**found, "values": list(self.values)} if self.values else found


class DraftedFile(Frozen):
    """How a file seems to be written, its columns in their order, and how many rows it has; and the columns that cannot be read,
    each with its type."""

    csv: CsvFormat
    columns: Mapping[str, DraftedColumn]
    rows: int
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def readings(self) -> dict[str, CellReading]:
        return {name: column.reading for name, column in self.columns.items()}

    def entries(self, path: Path) -> dict[str, Any]:
        """The settings that differ from the default format of such files, as written in a policy."""
        return differences(self.csv, usual_format(path), field_names(CsvFormat))
