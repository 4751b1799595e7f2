"""A fault in an extension becomes the one incident of the kernel: charged, and without a word of the cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import worlds
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.engine.answering import answer
from dpsql.errors import Incident
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension

TEXT = ("SELECT COUNT(*) FROM people a JOIN people b USING (household_id) JOIN people c USING (household_id) "
        "WHERE a.person_id < b.person_id AND b.person_id < c.person_id")


def test_a_fault_is_an_incident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(extension: LipschitzExtension, j: int) -> int:
        raise ArithmeticError("level 4 of 1,234 rows")

    monkeypatch.setattr(LipschitzExtension, "value", broken)
    session = session_of(tmp_path, worlds.world(seed=5, people=30), at={"epsilon": 1})
    with pytest.raises(Incident) as caught:
        answer(TEXT, session)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert "level" not in str(caught.value)


def test_the_same_statement_is_answered_where_it_can_be_solved(tmp_path: Path) -> None:
    found = answer(TEXT, session_of(tmp_path, worlds.world(seed=5, people=30), at={"epsilon": 1}))
    assert isinstance(found, Answer) and len(found.rows) == 1
