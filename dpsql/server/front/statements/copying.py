"""COPY (query) TO STDOUT: the query is answered as it is alone, and its rows are sent in another form.

So the charge, the stored answer, the notices and the errors are those of the query; nothing is asked twice.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

from dpsql.server.front.statements.copy_statements import CopyStatement
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Outcome, RefusedOnWire
from dpsql.server.front.terms.copied_rows import Row, copied


def described_copy(statement: CopyStatement, describe: Callable[[str], Described]) -> Described:
    """The description of COPY: the parameters of its query, and no columns, as its rows are sent differently. `describe` is
    called for the query."""
    with _located(statement):
        return Described(parameters=describe(statement.query).parameters, columns=None)


def copied_outcome(statement: CopyStatement, describe: Callable[[str], Described], execute: Callable[[str], Outcome]) -> Outcome:
    """The outcome of COPY. `describe` and `execute` are called for its query."""
    with _located(statement):
        _check_names(statement, describe)
        outcome = execute(statement.query)
    columns, rows = _picked(outcome, statement)
    return Outcome(tag=f"COPY {len(rows)}", columns=None, rows=iter(()), notices=outcome.notices,
                   copied=copied(columns, rows, statement.form))


def _check_names(statement: CopyStatement, describe: Callable[[str], Described]) -> None:
    """Raises RefusedOnWire, before anything is charged, if COPY names a column that there is not."""
    named = {*(statement.picked or ()), *(statement.form.quoted or ())}
    if not named:
        return
    known = {column.name.lower() for column in describe(statement.query).columns or ()}
    for name in sorted(named):
        if name.lower() not in known:
            raise RefusedOnWire(f"there is no column {name} in the rows to copy", sqlstate="42703")


def _picked(outcome: Outcome, statement: CopyStatement) -> tuple[list[ColumnOnWire], list[Row]]:
    """The columns and rows that are sent."""
    columns, rows = list(outcome.columns or ()), [*itertools.islice(outcome.rows, statement.most)]
    if statement.picked is None:
        return columns, rows
    names = [column.name.lower() for column in columns]
    places = [names.index(name.lower()) for name in statement.picked]
    return [columns[at] for at in places], [tuple(row[at] for at in places) for row in rows]


@contextlib.contextmanager
def _located(statement: CopyStatement) -> Iterator[None]:
    """A context in which places of refusals become places in the text of COPY."""
    try:
        yield
    except RefusedOnWire as refusal:
        if refusal.position is not None:
            refusal.position = statement.place(refusal.position)
        raise
