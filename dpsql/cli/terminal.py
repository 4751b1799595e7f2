"""The terminal: its width, its tables, and a sign of life on long work."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@contextlib.contextmanager
def waiting(what: str = "asking ...") -> Iterator[None]:
    """A sign of life on long work, where a person is watching."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    from dpsql.progress import shown_by
    with Console(stderr=True).status(what) as status, shown_by(status.update, what):
        yield


def new_table() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False)


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False)
