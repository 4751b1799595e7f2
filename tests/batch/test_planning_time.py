"""`planning` says for how long a strategy is looked for; it is no part of what a statement asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.batch import measured
from dpsql.engine.answering import answer
from dpsql.errors import OptionError
from dpsql.strategies import clock


def text(options: str) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1{options}) sex, COUNT(*) FROM people GROUP BY CUBE (sex)"


def test_a_statement_has_the_time_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    limited = clock.limited
    monkeypatch.setattr(clock, "limited", lambda seconds: given.append(seconds) or limited(seconds))  # type: ignore[func-returns-value]
    session = session_of(tmp_path)
    answer(text(""), session)
    answer(text(", planning = 7.5, confidence = 0.9"), session)
    answer("SELECT sex, COUNT(*) ERROR WITHIN 30 FROM people GROUP BY sex", session)
    assert given == [clock.USUAL, 7.5, clock.USUAL]


def test_a_longer_search_is_no_other_question(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    first, second = answer(text(""), session), answer(text(", planning = 0.5"), session)
    assert isinstance(first, Answer) and isinstance(second, Answer)
    assert second.stored and second.rows == first.rows


def test_a_statement_without_a_strategy_has_nothing_to_look_for(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="this statement uses none") as caught:
        answer("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (planning = 5) COUNT(*) FROM people", session_of(tmp_path))
    assert caught.value.span is not None and "strategy = 'auto'" in caught.value.try_


def test_the_advice_is_answered(tmp_path: Path) -> None:
    found = answer("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (planning = 5, strategy = 'auto') COUNT(*) FROM people", session_of(tmp_path))
    assert isinstance(found, Answer) and len(found.rows) == 1


def test_the_same_workload_is_planned_once_for_all_data_and_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []
    found = measured.best
    monkeypatch.setattr(measured, "_LATELY", {})
    monkeypatch.setattr(measured, "best", lambda workload, *rest: planned.append(workload.fingerprint) or found(workload, *rest))  # type: ignore[func-returns-value]
    for name, price in (("a", "epsilon = 1"), ("b", "epsilon = 0.5"), ("c", "epsilon = 1, planning = 1")):
        (tmp_path / name).mkdir()
        answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}) sex, COUNT(*) FROM people GROUP BY CUBE (sex)",
               session_of(tmp_path / name))
    assert len(planned) == 1
    answer("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.1) sex, COUNT(*) FROM people GROUP BY CUBE (sex)", session_of(tmp_path / "a"))
    assert len(planned) == 2, "other noise has other strategies"
