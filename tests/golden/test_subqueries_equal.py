"""Subqueries as values mean what DuckDB says, where noise is off: those that are released first, constants, and those that are
linked to the row around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.golden.comparison import PLENTY, compare, short, texts
from support.golden.dense import dense
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.engine.session import Session

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = session_of(tmp_path_factory.mktemp("subqueries"), reader=reader_of(dense()), noise=Exact(), at=PLENTY)
    yield made
    made.close()


@pytest.mark.parametrize("text", texts(HERE / "subqueries.sql"), ids=short)
def test_a_subquery_means_what_duckdb_says(text: str, session: Session) -> None:
    assert compare(text, session) == "", text


def test_there_are_many_and_all_are_different() -> None:
    found = texts(HERE / "subqueries.sql")
    assert len(found) == len(set(found)) >= 80


def test_a_count_of_nothing_that_is_null_would_be_found(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.sql.binding.correlated.rewrite", lambda expr, change: expr)
    assert compare("SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) = 0",
                   session) != ""
