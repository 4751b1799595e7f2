"""Statements that are asked again are neither parsed nor planned again, if nothing has changed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.engine import answering
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import SqlError
from dpsql.frozen import replace

COUNT = "SELECT COUNT(*) FROM visits"


def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the statements that are planned from now on."""
    found, parse = list[str](), answering.parse

    def parsing(text: str) -> object:
        found.append(text)
        return parse(text)

    monkeypatch.setattr(answering, "parse", parsing)
    return found


def asked(text: str, session: Session) -> Answer:
    made = answer(text, session)
    assert isinstance(made, Answer)
    return made


@pytest.mark.parametrize("text", [COUNT, "SELECT AVG(cost) AS a, SUM(cost) AS s FROM visits LIMIT 1"])
def test_the_stored_answer_is_the_same(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path)
    planned = plans(monkeypatch)
    first, *again = (asked(text, session) for _ in range(3))
    assert planned == [text, text] and not first.stored and all(found.stored for found in again)
    session.planned.clear()
    assert [asked(text, session)] == again[:1] == again[1:] and planned == [text, text, text]


def test_plans_of_statements_that_were_charged_are_not_kept(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    assert not asked(COUNT, session).stored and not session.planned
    assert asked(COUNT, session).stored and [*session.planned] == [COUNT]


def test_other_terms_need_another_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path)
    planned = plans(monkeypatch)
    asked(COUNT, session)
    asked(COUNT, session)
    other = replace(session, analyst="another")
    assert not asked(COUNT, other).stored and not asked(COUNT, replace(session, analyst="third")).stored
    assert asked(COUNT, session).stored and len(planned) == 4


def test_other_data_need_another_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path)
    planned = plans(monkeypatch)
    assert not asked(COUNT, session).stored and asked(COUNT, session).stored and COUNT in session.planned
    monkeypatch.setattr(session.kernel._reader, "_version", "v2")
    assert not asked(COUNT, session).stored and len(planned) == 3


def test_few_plans_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path)
    monkeypatch.setattr(answering, "MOST_PLANS", 2)
    for most in (1, 1, 2, 2, 3, 3):
        answer(f"SELECT COUNT(*) FROM visits WHERE cost < {most}", session)
    assert len(session.planned) == 2 and COUNT + " WHERE cost < 1" not in session.planned


@pytest.mark.parametrize("text", ["SHOW BUDGET", "EXPLAIN PRIVACY SELECT COUNT(*) FROM visits", "SELECT COUNT(*) FROM nowhere"])
def test_other_statements_are_planned_each_time(text: str, tmp_path: Path) -> None:
    session = session_of(tmp_path)
    with contextlib.suppress(SqlError):
        answer(text, session)
    assert not session.planned


def test_values_of_parameters_take_part(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    for most in (1, 2):
        made = answer("SELECT COUNT(*) FROM visits WHERE cost < ?", session, (most,))
        assert isinstance(made, Answer) and not made.stored
    assert not session.planned
