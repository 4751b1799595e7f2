"""The statements of a script, one after another, with their faults at their places in the script."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.cli.inputs import parameters_of
from dpsql.cli.show import show
from dpsql.cli.terminal import waiting
from dpsql.errors import Error

if TYPE_CHECKING:
    from dpsql.dbapi import Connection, Cursor


def answer_all(text: str, connection: Connection, options: argparse.Namespace, *, show_sql: bool) -> list[Cursor]:
    """Run a script's statements and show each answer when it arrives; returns the cursors."""
    parameters = parameters_of(getattr(options, "param", []))
    for statement, told in each_statement(text, options)[1:]:  # before the first one is charged
        with told:
            check_statement(statement, connection, parameters)
    cursors = []
    for statement, told in each_statement(text, options):
        if show_sql:
            print("\n" + statement)
        with told, waiting():
            cursor = connection.execute(statement, parameters)
        show(cursor, options)
        cursors.append(cursor)
    return cursors


def each_statement(text: str, options: argparse.Namespace) -> Sequence[tuple[str, contextlib.AbstractContextManager[None]]]:
    """The statements of a script, each with a context that locates its errors in the whole script. An empty script is an
    error."""
    from dpsql.sql.text.split import split

    found: list[tuple[str, contextlib.AbstractContextManager[None]]] = []
    at = 0
    for statement in split(text) or [text]:
        at = text.index(statement, at)
        found.append((statement, _told_in(text, at, getattr(options, "file", None))))
        at += len(statement)
    return found


@contextlib.contextmanager
def _told_in(text: str, at: int, file: str | None) -> Iterator[None]:
    """Context for a statement that begins at position `at` of a script: its faults are located in the script."""
    from dpsql.types import Span

    try:
        yield
    except Error as fault:
        if fault.span is not None and fault.text and text.startswith(fault.text, at):
            fault.span, fault.text = Span(fault.span.start + at, fault.span.end + at), text
            fault.source = file if file not in (None, "-") else fault.source
        raise


def check_statement(text: str, connection: Connection, parameters: Any) -> None:
    """Raise the error of a wrong statement, as far as it can be detected before it runs."""
    from dpsql.sql.text.parse import parse
    from dpsql.sql.text.statement import CreateStandingQuery, OpenModel, Query, Synthesize, SynthesizeTables, Validate

    if isinstance(parse(text), Query | Validate | Synthesize | SynthesizeTables | OpenModel | CreateStandingQuery):
        connection.explain(text, parameters)
