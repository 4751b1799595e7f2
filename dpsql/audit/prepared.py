"""A statement that is compiled once and released many times, for statistics on its releases.

Everything but the charge happens as in a connection: the text is bound, a program is made, its script makes requests, and the
kernel certifies each, checks its cost against that of the statement, measures, and adds noise. Nothing is written to a ledger, so
the answers are not private; this is for databases that an auditor made up, not for real ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.answer import Answer
from dpsql.engine.around_statements import around_released
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.engine.single import bound_to, compiled, program_steps
from dpsql.errors import SqlError, Unsupported
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.program import Program
from dpsql.planning.script import Released, script
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Query
from dpsql.trusted.declarations.tables import TableSchema
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.stored import StoredTable
from dpsql.trusted.reader import Parts, Reader


class Remembering:
    """A reader that runs each SQL text once and keeps the result. It is for databases that do not change."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._arrays: dict[str, Sequence[NDArray[Any]]] = {}
        self._columns: dict[str, Sequence[np.ma.MaskedArray[Any, Any]]] = {}

    @property
    def version(self) -> str:
        return self._reader.version

    @property
    def versions(self) -> Mapping[str, str]:
        return self._reader.versions

    def check(self) -> None:
        self._reader.check()

    def schema(self) -> Mapping[str, TableSchema]:
        return self._reader.schema()

    @property
    def content(self) -> str:
        return ""  # nothing is kept for longer

    @property
    def stored(self) -> Mapping[str, StoredTable]:
        return {}  # the database itself is read

    @property
    def keeps(self) -> bool:
        return self._reader.keeps

    @property
    def keeps_of(self) -> str:
        return ""  # no store is read

    def rows(self, sql: str, parts: Sequence[Parts] = ()) -> list[tuple[Any, ...]]:
        if sql not in self._rows:
            self._rows[sql] = self._reader.rows(sql, parts)
        return self._rows[sql]

    def arrays(self, sql: str, parts: Sequence[Parts] = ()) -> Sequence[NDArray[Any]]:
        if sql not in self._arrays:
            self._arrays[sql] = self._reader.arrays(sql, parts)
        return self._arrays[sql]

    def columns(self, sql: str, parts: Sequence[Parts] = ()) -> Sequence[np.ma.MaskedArray[Any, Any]]:
        if sql not in self._columns:
            self._columns[sql] = self._reader.columns(sql, parts)
        return self._columns[sql]

    def close(self) -> None:
        self._reader.close()


class Batched(Secure):
    """The same noise as for every answer, drawn in batches: a call to the sampler takes far longer than a draw.

    The batch for a scale grows with use: a scale that was itself selected with noise may be needed only once.
    """

    SIZE = 4096

    def __init__(self) -> None:
        self._drawn: dict[tuple[str, float], list[int]] = {}
        self._most: dict[tuple[str, float], int] = {}

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return [value + self._next("laplace", scale) for value in values]

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        return [value + self._next("gaussian", sigma) for value in values]

    def _next(self, kind: str, size: float) -> int:
        drawn = self._drawn.get((kind, size))
        if not drawn:
            draw = super().laplace if kind == "laplace" else super().gaussian
            many = self._most[kind, size] = min(self.SIZE, 2 * self._most.get((kind, size), 4))
            drawn = self._drawn[kind, size] = draw([0] * many, size)
        return drawn.pop()


class PreparedStatement:
    """One private statement of a session, compiled.

    Raises what the engine raises for a statement that is refused, and ValueError for one that is not a single program with noise.
    """

    def __init__(self, text: str, session: Session, parameters: Parameters = ()) -> None:
        query = parse(text)
        if not isinstance(query, Query):
            raise ValueError("only queries can be prepared")
        self.session = session
        try:
            self.program: Program = self._compiled(query, parameters)
        except (SqlError, Unsupported):
            if around_released(query, session, parameters) is not None:
                raise ValueError("a statement over released rows consists of several programs") from None
            raise

    def _compiled(self, query: Query, parameters: Parameters) -> Program:
        session = self.session
        question, options = bound_to(query, session, parameters)
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        if known.public and not question.scalars:
            raise ValueError("a statement over public tables has no noise to measure")
        if question.together:
            raise ValueError("a statement that is answered as a workload is not a single program")
        return compiled(question, options, view, known, session)

    def release(self) -> Answer:
        """A new answer, as a connection would give it."""
        made: Answer = self.session.kernel._serve(program_steps(self.program, self.session), self.program.cost)
        return made

    def measure(self) -> Released:
        """New noisy aggregates, before an answer is composed from them."""
        asked = script(self.program, self.session.kernel, self.session.scratch)
        made: Released = self.session.kernel._serve(asked, self.program.cost)
        return made
