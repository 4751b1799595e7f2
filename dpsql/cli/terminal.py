"""The terminal: its width, lines that fit it, and a sign of life on long work."""

from __future__ import annotations

import contextlib
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


@contextlib.contextmanager
def waiting(what: str = "asking ...") -> Iterator[None]:
    """A context that shows a progress indicator during long work, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    from dpsql.progress import shown_by
    with Console(stderr=True).status(what) as status, shown_by(status.update, what):
        yield


def console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, markup=False, emoji=False)


def print_wrapped(text: str, stream: TextIO | None = None) -> None:
    """Print lines to the output or another stream. On a terminal, long lines are broken between words. Continuation lines are
    aligned with the column after the first word if blanks set that word apart, and slightly indented otherwise."""
    stream = stream if stream is not None else sys.stdout
    if not stream.isatty():
        print(text, file=stream)
        return
    width = console().width
    for line in text.split("\n"):
        if len(line) < width:
            print(line, file=stream)
            continue
        begins = re.match(r"\S+ {2,}| *", line)
        indent = " " * min((begins.end() if begins is not None else 0) + 2 * line.startswith(" "), width // 4)
        print(textwrap.fill(line, width - 1, subsequent_indent=indent, break_on_hyphens=False, replace_whitespace=False),
              file=stream)
