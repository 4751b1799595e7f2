"""A seat that also answers COPY (query) TO STDOUT: the query is answered as it is alone, and its rows are sent in another form.

So the charge, the stored answer, the notices and the errors are those of the query; nothing is asked twice.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence

from dpsql.server.front.statements.copy_statements import CopyStatement, read_copy
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Outcome, RefusedOnWire, Seat
from dpsql.server.front.terms.copied_rows import Row, copied


class CopyingSeat:
    """See `answers_on_wire.Seat`."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self.cancel, self.close, self.split = seat.cancel, seat.close, seat.split
        self.described_lately, self.shown_lately = seat.described_lately, seat.shown_lately  # which know no text of COPY

    @property
    def parameter_status(self) -> Mapping[str, str]:
        return self._seat.parameter_status

    def describe(self, text: str, given: Sequence[str | None]) -> Described:
        """COPY has the parameters of its query, and no columns, as its rows come otherwise."""
        statement = read_copy(text)
        if statement is None:
            return self._seat.describe(text, given)
        with _located(statement):
            return Described(parameters=self._seat.describe(statement.query, given).parameters, columns=None)

    def execute(self, text: str, parameters: Sequence[object]) -> Outcome:
        statement = read_copy(text)
        if statement is None:
            return self._seat.execute(text, parameters)
        with _located(statement):
            self._check_names(statement)
            outcome = self._seat.execute(statement.query, parameters)
        columns, rows = _picked(outcome, statement)
        return Outcome(tag=f"COPY {len(rows)}", columns=None, rows=iter(()), notices=outcome.notices,
                       copied=copied(columns, rows, statement.form))

    def _check_names(self, statement: CopyStatement) -> None:
        """Raises RefusedOnWire, before anything is charged, where COPY names a column that there is not."""
        named = {*(statement.picked or ()), *(statement.form.quoted or ())}
        if not named:
            return
        known = {column.name.lower() for column in self._seat.describe(statement.query, ()).columns or ()}
        for name in sorted(named):
            if name.lower() not in known:
                raise RefusedOnWire(f"there is no column {name} in what is copied", sqlstate="42703")


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
