"""What the kernel needs from a database: to execute a printed plan, and to know the schema.

A reader runs only what `plan` printed. It returns integers and key values as Python or numpy values, and turns every fault
of the engine into `ReaderFault`, which carries nothing.
"""

from __future__ import annotations

import errno
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen
from dpsql.trusted.declarations.tables import TableSchema
from dpsql.trusted.plan.stored import StoredTable
from dpsql.trusted.stopping import STOPPED, stopped

CAUSES = MEMORY, DISK, FAULT = "memory", "disk", "fault"


class ReaderFault(Exception):
    """The database engine failed. Neither its message nor its own error is shown, as both may depend on private rows. `cause` is
    one of `CAUSES`, for the owner alone."""

    def __init__(self, cause: str = FAULT) -> None:
        super().__init__()
        self.cause = cause if cause in CAUSES else FAULT


class ReaderInterrupted(ReaderFault):
    """The engine says that it has ended a query because `Reader.interrupt` was called. A reader raises this for nothing else: no
    row may decide it."""


def cause_of(fault: BaseException) -> str:
    """The cause of a fault, one of `CAUSES`."""
    match fault:
        case ReaderFault(cause=cause):
            return cause
        case MemoryError():
            return MEMORY
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return DISK
    return FAULT


def is_interruption(fault: BaseException) -> bool:
    """Whether a fault says of itself that it is an interruption: of a query, between two steps (`stopping.go_on`), or of a script
    that runs elsewhere (InterruptedError)."""
    return isinstance(fault, ReaderInterrupted | InterruptedError) or (
        isinstance(fault, OperationalError) and fault.code == STOPPED)


def unread(fault: ReaderFault) -> OperationalError:
    """What is raised where a query of public tables alone has failed. One that was interrupted says so, also after a charge."""
    return stopped() if is_interruption(fault) else OperationalError("a public table cannot be read")


TOKEN = secrets.token_hex(8)


def parts_name(number: int) -> str:
    """The SQL name of a table that is composed of parts; nobody else can give this name to a table."""
    return f'"rows of all buckets {number} {TOKEN}"'


def kept_name(text: str, read: str = "") -> str:
    """The SQL name of a table with the rows of a statement, which is kept for further queries. `read` tells what it reads."""
    return f'"rows kept {hashlib.sha256(f"{read} {text}".encode()).hexdigest()[:32]} {TOKEN}"'


PARTS = parts_name(0)


class Parts(Frozen):
    """A table that a printed plan reads in addition to those of the database: the rows of several statements, concatenated.

    name        of the table, as SQL; see `parts_name`
    statements  one for each bucket of a store, in order
    combined    a statement over a table of that name. Whichever of the rows it has, the printed plan gives the same for the rows
                of this statement in their place, which are fewer where many agree on the `keys`, as SQL; or None
    kept        whether the table may stay for other queries that name it; it then has one statement, read before those of others
    """

    name: str = PARTS
    statements: tuple[str, ...]
    combined: str | None = None
    keys: tuple[str, ...] = ()
    kept: bool = False


Query: TypeAlias = tuple[str, tuple[Parts, ...]]
"""A printed plan: its text, and the tables that are put together of parts."""


class ColumnArrays(Frozen, eq=False):
    """Values of a column of released rows as numbers: places in a list, if there is one; otherwise days or microseconds since
    1970 for dates and times. `missing` tells which rows have NULL, and numbers are in units of 1 / `parts`."""

    numbers: NDArray[Any]
    listed: Sequence[Any] | None = None
    missing: NDArray[np.bool_] | None = None
    parts: int = 1


class Reader(Protocol):
    """A connection to the private database, which analysts never see."""

    @property
    def version(self) -> str:
        """Identifies the content of the database; it changes when its files do."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """The same of each table that has files of its own, by its name in lower case. It is about these files alone: which rows
        are in them does not decide it, only whether they were written again."""
        ...

    @property
    def content(self) -> str:
        """Identifies exactly the files that are open, without reading them, and how they are read; empty if there are none."""
        ...

    def check(self) -> None:
        """Raises OperationalError if the files of the database are not those that were opened."""
        ...

    def schema(self) -> Mapping[str, TableSchema]:
        """All tables, without reading a row."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether tables are so large that it pays to keep rows that several queries read."""
        ...

    @property
    def keeps_of(self) -> str:
        """Identifies the buckets of the store, if it pays to keep rows of each of them; otherwise empty."""
        ...

    @property
    def stored(self) -> Mapping[str, StoredTable]:
        """The private tables of a prepared store, by name; empty if there is no store."""
        ...

    def rows(self, sql: str, parts: Sequence[Parts] = ()) -> list[tuple[Any, ...]]:
        """The rows of a printed plan; see `Query` for `parts`."""
        ...

    def arrays(self, sql: str, parts: Sequence[Parts] = ()) -> Sequence[NDArray[Any]]:
        """The columns of a printed plan, all of which are integers without NULL."""
        ...

    def columns(self, sql: str, parts: Sequence[Parts] = ()) -> Sequence[np.ma.MaskedArray[Any, Any]]:
        """The columns of a printed plan, with NULL masked. `tolist` of a column gives the same values as `rows`, where they are
        not NULL."""
        ...

    def hold(self, name: str, identity: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        """Keep a table of released rows, so that printed plans may read it by its name like the tables of the database.

        `identity` is the same for the same rows only; `columns` maps names to SQL types and values, which may be read later, when
        a plan first names their column. Raises ValueError for the name of a table of the database, whose rows would be hidden.
        """
        ...

    def interrupt(self) -> None:
        """From another thread: stop the running queries, which then raise ReaderInterrupted, or ReaderFault if they failed by
        themselves before that; does nothing if none is running."""
        ...

    def close(self) -> None: ...
