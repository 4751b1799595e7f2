"""One line about long work, for a person who waits for it: in the shell, or below the cell of a notebook.

Nothing is shown where nobody watches: in scripts, in pipes, in servers. What a line says is public: the work and its time limit.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

PATIENCE = 0.5  # seconds before a notebook shows the line

Show = Callable[[str], None]
_line: ContextVar[tuple[Show, str] | None] = ContextVar("line", default=None)  # who shows it, and what it says


@contextlib.contextmanager
def shown_by(show: Show, text: str) -> Iterator[None]:
    """A context in which `show` is called with each new text of the progress line; `text` is the current one."""
    before = _line.set((show, text))
    try:
        yield
    finally:
        _line.reset(before)


@contextlib.contextmanager
def working(on: str) -> Iterator[None]:
    """A context in which the progress line shows `on`. In a notebook, only the outermost context has a line."""
    line = _line.get()
    if line is not None:
        show, before = line
        show(on)
        try:
            with shown_by(show, on):
                yield
        finally:
            show(before)
    elif _in_notebook():
        cell = _Cell(on)
        try:
            with shown_by(cell.show, on):
                yield
        finally:
            cell.end()
    else:
        yield


def tell(text: str) -> None:
    """Show another text in the progress line, if there is one, until the current work ends or shows another."""
    line = _line.get()
    if line is not None:
        line[0](text)


class _Cell:
    """A line below the cell of a notebook, if the work takes longer than `PATIENCE`; it is emptied when the work ends."""

    def __init__(self, text: str) -> None:
        self._text, self._handle, self._turn = text, None, threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def show(self, text: str) -> None:
        from IPython.display import Pretty

        with self._turn:
            self._text = text
            if self._handle is not None:
                self._handle.update(Pretty(text))

    def end(self) -> None:
        self._timer.cancel()
        self.show("")

    def _begin(self) -> None:
        from IPython.display import Pretty, display

        with self._turn:
            if self._text:
                self._handle = display(Pretty(self._text), display_id=True)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    started: Any = sys.modules.get("IPython")
    return started is not None and getattr(started.get_ipython(), "kernel", None) is not None
