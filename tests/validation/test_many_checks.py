"""Many checks in one VALIDATE: synthetic tables are read by few queries, and each check is what it would be alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.sessions import session_of

from dpsql.engine.session import Session
from dpsql.engine.validating import Checks, validation
from dpsql.questions.identity import WRITTEN_OUT, canonical
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Validate
from dpsql.trusted.kernel.publics import Publics
from dpsql.validation.check_plan import CheckPlan

QUERIES = (
    "SELECT COUNT(*) FROM people WHERE age > 30",
    "SELECT COUNT(income) FROM people",
    "SELECT COUNT(*) FILTER (WHERE sex = 'f') FROM people WHERE income < 2000 OR active",
    "SELECT COUNT(DISTINCT person_id) FROM people WHERE sex = 'f'",
    "SELECT SUM(age) FROM people",
    "SELECT SUM(age + 10) FROM people WHERE sex = 'm' AND age BETWEEN 20 AND 40",
    "SELECT AVG(age) FROM people WHERE active",
    "SELECT SUM(income) FROM people",
    "SELECT COUNT(*) FROM people WHERE age % 3 = 1",
    "SELECT COUNT(*) FROM people WHERE age > 100",
)
FRAME = pd.DataFrame({
    "person_id": range(1, 61), "household_id": [i // 2 for i in range(60)], "sex": ["f", "m", "f"] * 20,
    "age": [None if i % 7 == 0 else i for i in range(60)], "income": [i * 61.25 for i in range(60)],
    "active": [i % 2 == 0 for i in range(60)], "nickname": [f"n{i}" for i in range(60)],
}).astype({"age": "Int64"})


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = session_of(tmp_path)
    yield made
    made.close()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries of public tables."""
    found: list[str] = []
    rows = Publics._rows

    def counting(self: Publics, query: str) -> list[tuple[Any, ...]]:
        found.append(query)
        return rows(self, query)

    monkeypatch.setattr(Publics, "_rows", counting)
    return found


def plan(session: Session, queries: Sequence[str], options: str) -> CheckPlan:
    text = "VALIDATE " + ", ".join(f"({query}) WITHIN 50" for query in queries) + f" AGAINST syn OPTIONS (epsilon = 1, {options})"
    statement = parse(text)
    assert isinstance(statement, Validate)
    return validation(statement, session, (), {None: FRAME})


def synthetic(session: Session, *queries: str) -> list[tuple[float, ...]]:
    """The answers of queries on the synthetic table."""
    return [check.finding.synthetic for check in plan(session, queries, "suite = 'independent'").checks]


def test_each_check_has_the_answer_that_it_has_alone(session: Session, counted: list[str]) -> None:
    alone = [synthetic(session, query)[0] for query in QUERIES]
    before = len(counted)
    assert synthetic(session, *QUERIES) == alone
    assert len(counted) - before < len(QUERIES) and alone[0] == (25.0,)


def test_many_checks_read_the_synthetic_table_by_few_queries(session: Session, counted: list[str]) -> None:
    found = synthetic(session, *(f"SELECT COUNT(*) FROM people WHERE age > {i % 60}" for i in range(250)))
    assert sum("people" in query and "COUNT" in query for query in counted) == 3 and found[0] == (51.0,)


@pytest.mark.parametrize(("options", "later"), [("suite = 'conjunction'", 0), ("suite = 'sparse'", 0), ("decider = 'auto'", 0),
                                                ("decider = 'additive'", 2)])
def test_views_are_named_only_where_the_first_request_does_not_read_them(session: Session, options: str, later: int) -> None:
    made = plan(session, QUERIES[:2], options)
    assert len(Checks(plan=made, text="", session=session).bill().views) == later


def test_texts_of_tables_are_written_out_once_they_are_long_only_so_often(session: Session) -> None:
    people, other = session.catalog.tables["people"], session.catalog.tables["visits"]
    text = canonical(people)
    assert canonical((people, 1, people)) == f"[{text},int:1,{text}]"
    many = WRITTEN_OUT // len(text) + 2
    whole = canonical((people,) * many)
    assert len(whole) < WRITTEN_OUT + 10 * many + len(text) and "Table#" in whole
    assert whole == canonical((people,) * many) != canonical((*(people,) * (many - 1), other))
