"""The back ends, each under the prefix of the places that it opens.

To add one: a file with a class that is a `reader.Reader` and a function that opens it, and one line here. It is given
printed plans as text in DuckDB's dialect, and returns what DuckDB would, or raises `reader.ReaderFault`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpsql.backends.duckdb import open_database
from dpsql.trusted.reader import Reader

BACKENDS: Mapping[str, Callable[[str], Reader]] = {"": open_database}
"""How a place begins, the longest first that fits, and what opens it. A place of no other kind is a DuckDB file."""


def open_place(place: str) -> Reader:
    """A reader of the database at a place. Raises OperationalError if there is none."""
    kind = max((kind for kind in BACKENDS if place.startswith(kind)), key=len)
    return BACKENDS[kind](place)


def is_file(place: str) -> bool:
    """Whether a place is the path of a file."""
    return not any(kind and place.startswith(kind) for kind in BACKENDS)
