"""What the kernel needs of a database: to read a printed plan, and to know the schema.

A reader runs only what `plan` printed. It returns integers and key values as Python or numpy values, and turns every fault
of the engine into `ReaderFault`, which carries nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.catalog.model import TableSchema
from dpsql.plan.stored import StoredTable


class ReaderFault(Exception):
    """The database engine failed. Neither its message nor the cause is shown, as both may depend on private rows."""


PARTS = f'"rows of all buckets {secrets.token_hex(8)}"'  # as SQL; a name that nobody else can give to a table
Query: TypeAlias = tuple[str] | tuple[str, Sequence[str]]
"""A printed plan: its text, and perhaps statements, one for each bucket of a store, whose rows, put together, are the table
`PARTS` of that text."""


class Reader(Protocol):
    """A connection to the private database; analysts never see it."""

    @property
    def version(self) -> str:
        """Identifies the content of the database; it changes when its files do."""
        ...

    @property
    def content(self) -> str:
        """Identifies the very files that are open, as far as can be told without reading them, and how they are read; empty where
        there are none."""
        ...

    def check(self) -> None:
        """Raises OperationalError where the files of the database are not those that were opened."""
        ...

    def schema(self) -> Mapping[str, TableSchema]:
        """All tables, without reading a row."""
        ...

    @property
    def stored(self) -> Mapping[str, StoredTable]:
        """The private tables of a prepared store, by name; none where there is none."""
        ...

    def rows(self, sql: str, parts: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """The rows of a printed plan; see `Query` for `parts`."""
        ...

    def arrays(self, sql: str, parts: Sequence[str] = ()) -> Sequence[NDArray[Any]]:
        """The columns of a printed plan whose columns are integers without NULL."""
        ...

    def columns(self, sql: str, parts: Sequence[str] = ()) -> Sequence[np.ma.MaskedArray[Any, Any]]:
        """The columns of a printed plan, NULL masked. `tolist` of a column gives what `rows` would, where it is not NULL."""
        ...

    def hold(self, name: str, identity: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        """Keep a table of released rows, so that printed plans may read it by its name beside the tables of the database.

        `identity` is the same for the same rows only; `columns` maps names to SQL types and values. Raises ValueError for the
        name of a table of the database, whose rows would be hidden.
        """
        ...

    def close(self) -> None: ...


Array = NDArray[np.int64]
