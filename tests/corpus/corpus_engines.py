"""The engines that the corpus is run against here: dpsql without noise, and plain DuckDB, which knows no limits."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from corpus.run_corpus import Answered, Refused
from support.golden.comparison import PLENTY, number, released
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, attach_memory, lock_down
from dpsql.engine.session import Session
from dpsql.engine.single import bound_to
from dpsql.errors import Error
from dpsql.planning.bounded_view import limited_view
from dpsql.questions.parts import Part, Sums
from dpsql.questions.question import Question
from dpsql.questions.rules.decompose import decompose
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.certificate import certify, stability
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count, GridSum


def tables(folder: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory with the tables of the corpus."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    script = (folder / "tables.sql").read_text(encoding="utf-8")
    connection.execute(script.replace("FROM '", f"FROM '{folder}/"))
    return connection


class Dpsql:
    """dpsql, with noise that adds nothing and a price that selects every group."""

    def __init__(self, folder: Path) -> None:
        connection = tables(folder)
        attach_memory(connection)
        lock_down(connection)
        self._folder = TemporaryDirectory()
        self.session: Session = session_of(Path(self._folder.name), reader=DuckReader(connection, "v1"), noise=Exact(), at=PLENTY,
                                           policy=(folder / "policy.toml").read_text(encoding="utf-8"))

    def answer(self, sql: str) -> Answered:
        try:
            made, question = released(sql, self.session)
            return Answered(made.rows, self.bounds(sql) if question is not None else {})
        except Error as fault:
            raise Refused(f"{fault.code}: {fault.reason}") from None

    def bounds(self, sql: str) -> dict[str, float]:
        """How many rows of the relation below the aggregates one person can change, and how far its counts and sums can move."""
        query = parse(sql)
        assert isinstance(query, Query)
        question, options = bound_to(query, self.session, ())
        view, known = limited_view(question, options, self.session.kernel, None)
        if known.public or known.rows is None:
            return {}
        return {"rows": known.rows} | self._moved(question, view)

    def _moved(self, question: Question, view: Any) -> dict[str, float]:
        try:
            parts = decompose(question, owner=stability(view, self.session.kernel).owner, each=True)
        except Error:
            return {}
        found: dict[str, float] = {}
        for call in question.aggregates:
            used = [parts.parts[at] for at in parts.uses[call.id]]
            if call.function in ("count", "sum") and len(used) == 1 and (step := _step(used[0])) is not None:
                assert isinstance(used[0], Sums)
                keys = tuple(key.column for key in question.keys)
                moved = certify(GroupedSums(input=view, keys=keys, summands=(used[0].summand,)), self.session.kernel).summands[0]
                found[f"l2 {call.text}"] = moved.l2 * step
                if moved.l1 is not None:
                    found[f"l1 {call.text}"] = moved.l1 * step
        return found


def _step(part: Part) -> float | None:
    """What one unit of a measured sum stands for; None for other parts."""
    if isinstance(part, Sums) and isinstance(part.summand, Count):
        return 1
    return float(part.summand.grid.step) if isinstance(part, Sums) and isinstance(part.summand, GridSum) else None


class PlainDuckDB:
    """Plain SQL over the same tables."""

    def __init__(self, folder: Path) -> None:
        self._connection = tables(folder)

    def answer(self, sql: str) -> Answered:
        try:
            return Answered([tuple(map(number, row)) for row in self._connection.execute(sql).fetchall()])
        except duckdb.Error as fault:
            raise Refused(str(fault)) from None
