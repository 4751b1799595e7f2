"""The differences from the usual format of files and reading of cells, in the words of policies and promises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpsql.catalog.reading import USUAL_CELL, USUAL_CSV, CellReading, CsvFormat
from dpsql.frozen import field_names


def format_in_words(how: CsvFormat) -> str:
    """The differences from the usual format of CSV files, such as "delimiter = ';'"."""
    return ", ".join(_in_words(how, USUAL_CSV, field_names(type(how))))


def reading_in_words(how: CellReading) -> str:
    """The type and the settings that differ from the defaults, such as "VARCHAR, trim = True"; "" if cells are read unchanged."""
    return ", ".join(([how.type] if how.type else []) + _in_words(how, USUAL_CELL, [
        name for name in field_names(type(how)) if name != "type"]))


def differences(found: CsvFormat | CellReading, usual: CsvFormat | CellReading, names: Iterable[str]) -> dict[str, Any]:
    """The settings, of these names, that differ from the defaults."""
    given = {name: getattr(found, name) for name in names if getattr(found, name) != getattr(usual, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def _in_words(found: CsvFormat | CellReading, usual: CsvFormat | CellReading, names: Iterable[str]) -> list[str]:
    return [f"{name} = {value!r}" for name, value in differences(found, usual, names).items()]
