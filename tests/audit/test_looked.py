"""Requests that are looked at by themselves: they are those of the statement, at its price, and what is seen is what it releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.audits import Pair, person, prepared
from support.looked import Looked, asked_by, requests_of

from dpsql.audit.exact import Exact
from dpsql.trusted.measurements.noisy_sums import NoisySums

PAIR = Pair(people=[person(i, age=20 + i) for i in range(4)])
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM people"


@pytest.fixture
def statement(tmp_path: Path) -> Any:
    return prepared(COUNT, PAIR, tmp_path)[0]


def test_the_requests_of_a_statement_are_heard(statement: Any) -> None:
    request, = requests_of(statement)
    assert type(request) is NoisySums
    assert "_serve" not in vars(statement.session.kernel)


def test_the_kernel_is_as_before_where_a_script_fails(statement: Any) -> None:
    def fails() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        asked_by(fails, statement.session.kernel)
    assert "_serve" not in vars(statement.session.kernel)


def test_a_request_is_charged_and_answered_as_in_its_statement(statement: Any) -> None:
    kernel = statement.session.kernel
    request, = requests_of(statement)
    looked = Looked(request, kernel)
    assert statement.program.cost.covers(looked.cost)
    assert float(looked.cost.epsilon or 0) == pytest.approx(1)
    kernel._noise = Exact()
    made: Any = Looked(request, kernel).look()
    assert made.totals == (((4,),),)
    assert len({Looked(request, kernel).look().totals for _ in range(3)}) == 1  # type: ignore[union-attr]


def test_plans_are_printed_once(statement: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked(requests_of(statement)[0], statement.session.kernel)
    context = looked._context
    looked.look()
    monkeypatch.setattr(type(context.content), "query", None)
    looked.look()
    assert len(context.texts) == 1
