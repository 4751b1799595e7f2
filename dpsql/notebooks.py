"""`%load_ext dpsql`: statements in the cells of a notebook.

    %dpsql dpsql.toml --budget main --analyst ada     opens a connection, and keeps it for the cells that follow
    %dpsql con                                        uses a connection that there is
    %dpsql                                            shows what may be asked, and what is left

    %%dpsql
    SELECT sex, COUNT(*) FROM people WHERE age > :least GROUP BY sex

The answer is shown. `%%dpsql answer <<` puts it into a variable instead, and `%%dpsql --explain` shows what the statement would
do and cost, which spends nothing. Parameters have the names of variables of the notebook.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from dpsql.dbapi import Connection, Cursor, connect
from dpsql.errors import InterfaceError, ProgrammingError
from dpsql.planning.explain import Explanation
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

TERMS = ("budget", "analyst", "epsilon", "delta", "rho", "confidence", "ledger")  # of a connection that a line opens
NUMBERS = ("epsilon", "delta", "rho", "confidence")


def load(shell: Any) -> None:
    """Register the magic in the shell of a notebook."""
    shell.register_magic_function(Magic(shell=shell), magic_kind="line_cell", magic_name="dpsql")


@dataclass(slots=True, kw_only=True)
class Magic:
    """`%dpsql` and `%%dpsql` of one shell. `connection` is the one that was named last, and `mine` says that it was opened here,
    so that the next one that is opened here takes its place."""

    shell: Any
    connection: Connection | None = None
    mine: bool = False

    def __call__(self, line: str, cell: str | None = None) -> Connection | Cursor | Explanation | None:
        """Run a line, or a line with the statement below it; what is returned is shown. Raises `dpsql.Error`."""
        given = _read(line)
        if cell is None and (given.variable is not None or given.explain):
            raise ProgrammingError("a statement is missing", code="magic", try_="%%dpsql, and the statement below it")
        connection = self._use(given.place, {name: getattr(given, name) for name in TERMS if getattr(given, name) is not None})
        if cell is None:
            return connection
        values = _values(cell, self.shell.user_ns)
        result = connection.explain(cell, values) if given.explain else connection.execute(cell, values)
        if given.variable is None:
            return result
        self.shell.user_ns[given.variable] = result
        return None

    def _use(self, place: str | None, terms: Mapping[str, Any]) -> Connection:
        """The connection that a line names, by a variable or by a policy, or else the one before."""
        named = self.shell.user_ns.get(place) if place is not None else None
        if isinstance(named, Connection) and not terms:
            self._take(named, mine=False)
        elif place is not None or terms:
            self._take(connect(policy=place, **terms), mine=True)
        if self.connection is None:
            raise InterfaceError("there is no connection yet", code="magic", try_="%dpsql dpsql.toml --budget main --analyst ada")
        return self.connection

    def _take(self, connection: Connection, *, mine: bool) -> None:
        if self.mine and self.connection is not None and self.connection is not connection:
            self.connection.close()
        self.connection, self.mine = connection, mine


class LineParser(argparse.ArgumentParser):
    """Reads the line of a magic; what is wrong with it is an error like any other."""

    def error(self, message: str) -> NoReturn:
        raise ProgrammingError(message, code="magic", try_="%dpsql dpsql.toml --budget main --analyst ada, or %%dpsql name <<")


def _read(line: str) -> argparse.Namespace:
    """The parts of a line: the place of a connection, the variable before <<, and options."""
    parser = LineParser(prog="%dpsql", add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--explain", action="store_true")
    for name in TERMS:
        parser.add_argument(f"--{name}", type=Decimal if name in NUMBERS else str)
    try:
        found = parser.parse_args(shlex.split(line))
    except (ValueError, InvalidOperation):
        parser.error("an option lacks its number, or a quote is not closed")
    words = found.words
    found.variable = words[-2] if len(words) > 1 and words[-1] == "<<" else None
    places = words[:-2] if found.variable is not None else words
    if found.variable is not None and not found.variable.isidentifier():
        parser.error(f"{found.variable} is not the name of a variable")
    if len(places) > 1 or "<<" in places:
        parser.error("a line names one connection or policy, and one variable before <<")
    found.place = places[0] if places else None
    return found


def _values(text: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the named parameters of a statement: variables of the same names."""
    query: object = parse(text)
    while not isinstance(query, Query) and hasattr(query, "query"):
        query = query.query  # of EXPLAIN PRIVACY and CREATE SYNTHETIC TABLE
    names = query.parameters if isinstance(query, Query) else ()
    return {name: variables[name] for name in names if name in variables}
