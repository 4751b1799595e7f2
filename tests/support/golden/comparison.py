"""Answers without noise against DuckDB's own: how they are read, and how they are compared."""

from __future__ import annotations

import math
import re
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

from support.grammar_sentences import without_accuracy

from dpsql.answers.answer import Answer
from dpsql.audit.prepared import PreparedStatement
from dpsql.catalog.price import price
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.questions.question import Question
from dpsql.sql.text.parse import parse
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.expr.nodes import columns

FOLDER = Path(__file__).parents[2] / "golden"
PLENTY: dict[str, object] = {"epsilon": 900, "delta": 0.01}


def texts(path: Path) -> list[str]:
    """The statements of a file."""
    return split(path.read_text(encoding="utf-8")) if path.exists() else []


def short(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def plain(text: str) -> str:
    """The statement without what DuckDB does not know."""
    query = parse(text)
    kept = without_accuracy(text, query) if isinstance(query, Query) else text
    return re.sub(r"WITH\s+DIFFERENTIAL_PRIVACY\s*(OPTIONS\s*\([^()]*\))?", "", kept, flags=re.IGNORECASE)


def released(text: str, session: Session, parameters: Any = ()) -> tuple[Answer, Question | None]:
    """The noise-free answer, uncharged unless it is that of a workload; and the question, where it is one program's."""
    try:
        prepared = PreparedStatement(text, session, parameters)
    except ValueError:
        made = answer(text, replace(session, price=price(epsilon=1)), parameters)
        assert isinstance(made, Answer)
        return made, None
    return prepared.release(), prepared.program.question


def compare(text: str, session: Session, parameters: Any = (), spelled: str | None = None) -> str:
    """How the answer differs from DuckDB's; nothing where it does not.

    Columns that rest on quantiles are left out, and so are declared groups that have no rows and show zeros.
    """
    made, question = released(text, session, parameters)
    expected = [tuple(map(number, row)) for row in session.kernel._reader.rows(plain(as_carried(spelled or text)))]
    rows = [tuple(map(number, row)) for row in made.rows]
    unsure = ranked(question) if question is not None else set()
    keys = [i for i, column in enumerate(made.columns) if column.exact]
    if question is None or not question.ordering:
        present = {tuple(row[i] for i in keys) for row in expected}
        rows = [row for row in rows if tuple(row[i] for i in keys) in present or any(
            part for i, part in enumerate(row) if i not in keys)]
        rows.sort(key=lambda row: sortable(row, keys))
        expected.sort(key=lambda row: sortable(row, keys))
    if len(rows) != len(expected):
        return f"{len(rows)} rows for {len(expected)}: {rows[:6]} for {expected[:6]}"
    for ours, theirs in zip(rows, expected, strict=True):
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if i not in unsure and not close(a, b):
                return f"{ours} for {theirs}, in column {i + 1}"
    return ""


def as_carried(text: str) -> str:
    """The text with a DECIMAL as the DOUBLE that it is carried as, where that decides: halves of a last digit are rounded as the
    numbers of DOUBLE next to them, by DuckDB from 2.0.1 on too."""
    return text.replace("round(cost, 1)", "round(CAST(cost AS DOUBLE), 1)")


def number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def ranked(question: Question) -> set[int]:
    """The outputs that rest on a quantile, a minimum or a maximum."""
    places = {call.id for call in question.aggregates if call.function in ("quantile", "min", "max")}
    return {i for i, output in enumerate(question.outputs) if columns(output.expr) & places}


def sortable(row: tuple[Any, ...], keys: list[int]) -> list[tuple[bool, str, float]]:
    """By the keys as texts, then by the numbers."""
    rest = [row[i] for i in range(len(row)) if i not in keys]
    return [*((row[i] is None, str(row[i]), 0.0) for i in keys),
            *((part is None, "", round(part, 3) if isinstance(part, int | float) else 0.0) for part in rest)]


def close(a: Any, b: Any) -> bool:
    if isinstance(b, float) or isinstance(a, float):
        return a is not None and b is not None and (math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (a != a and b != b))
    return bool(a == b)
