"""Sentences through the whole engine: each is answered or refused; nothing fails after it was charged."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support import worlds
from support.grammar_sentences import KINDS, Sentences, accepted, values
from support.sessions import session_of

from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident, InternalError
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Explain, Query

FORMS = {
    "query": "{}", "condition": "SELECT COUNT(*) FROM {table} WHERE {}", "expr__aggregate": "SELECT {} FROM {table}",
    "rows": "SELECT COUNT(*) FROM ({}) AS t", "outputs": "SELECT {} FROM {table} GROUP BY ALL",
    "expr__subquery": "SELECT COUNT(*) FROM {table} WHERE {} IS NOT NULL",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_of(tmp_path_factory.mktemp("fuzz"), worlds.world(3), at={"epsilon": 0.05, "delta": 1e-8})


def outcome(text: str, session: Session) -> str:
    try:
        statement = parse(text)
        query = statement.query if isinstance(statement, Explain) else statement
        answer(text, session, values(query.parameters) if isinstance(query, Query) else {})
    except (Incident, InternalError) as fault:
        pytest.fail(f"{fault.reason}: {text}")
    except Error as fault:
        return fault.code
    return "answered"


BY_PERIOD = "STANDING QUERY"  # of tables that grow, which this world has none of; see tests/test_standing_queries.py


@pytest.mark.parametrize("text", [text for text in accepted() if "VALIDATE" not in text and BY_PERIOD not in text.upper()])
def test_accepted_statements_are_answered(text: str, session: Session) -> None:
    for made in (other for other in accepted() if text.lower().startswith("drop") and other.lower().startswith("create")):
        outcome(made, session)  # which may be a test of another day
    assert outcome(text, session) in ("answered", *(["not-accepted"] if "accept = " in text else []))  # as the noise has it


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_are_answered_or_refused(kind: str, session: Session, effort: float) -> None:
    sentences, dice, outcomes = Sentences(kind), random.Random(f"{kind} engine"), Counter[str]()
    for _ in range(int(12 * max(1, effort))):
        for start, form in FORMS.items():
            text = form.format(sentences.draw(dice, start, dice.randint(4, 14)), table=KINDS[kind]["TABLE"][0])
            outcomes[outcome(text, session)] += 1
    assert outcomes["answered"] and not outcomes["budget"], outcomes
