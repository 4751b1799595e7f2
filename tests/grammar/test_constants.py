"""Constants wherever values are: each statement is answered, or refused with a located error and without a charge."""

from __future__ import annotations

import contextlib
import math
import random
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from support import worlds
from support.drawn_constants import AGGREGATES, CONSTANTS, Constants
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident, InternalError
from dpsql.trusted.kernel import run

PRICE = {"epsilon": 0.05, "delta": 1e-8}
UNPLACED = ("budget", "account-closed", "parameters")  # not about the text, or about values beside it


def session_for(folder: Path) -> Session:
    """One that goes on after any number of incidents, so that one fault does not hide the next."""
    session = session_of(folder, worlds.world(3), at=PRICE)
    session.kernel.incidents = 10**9
    return session


def outcome(text: str, session: Session) -> tuple[str, str]:
    """What is wrong with the outcome of a statement, if anything is; and the outcome: a code of an error, or "answered"."""
    before = session.ledger.events
    try:
        answer(text, session)
    except (Incident, InternalError) as fault:
        return f"{fault.code}: {fault.reason}", fault.code
    except Error as fault:
        if session.ledger.events != before:
            return f"charged, and then refused: {fault.code}: {fault.reason}", fault.code
        if (fault.span is None or not fault.text) and fault.code not in UNPLACED:
            return f"refused without a place: {fault.code}: {fault.reason}", fault.code
        return "", fault.code
    return "", "answered"


class Faults:
    """Faults by kind. What went wrong after a charge, which no analyst is told, is told here."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self._behind: list[str] = []

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        def told(fault: BaseException) -> BaseException:
            last = traceback.extract_tb(fault.__traceback__)[-4:]
            self._behind.append(f"{type(fault).__name__}: {str(fault)[:80]} "
                                + " < ".join(f"{Path(at.filename).name}:{at.lineno}" for at in reversed(last)))
            return Incident()

        with patch.object(run, "_told", told):
            yield

    def add(self, fault: str) -> str:
        """What went wrong, if it is of a kind that was not seen before."""
        kind = " | ".join([fault, *self._behind])
        self._behind.clear()
        self.found[kind] += 1
        return kind if self.found[kind] == 1 else ""


def some_of(texts: Sequence[str], of: str, effort: float) -> Sequence[str]:
    """All texts with an effort of 1, else a part of them, which is another one for each `of`."""
    return random.Random(of).sample(texts, math.ceil(len(texts) * min(1.0, effort)))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_for(tmp_path_factory.mktemp("constants"))


GROUPED = [
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex = 'f' GROUP BY who",
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, age FROM people) AS t WHERE age BETWEEN 3 AND 20 GROUP BY who",
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex IN ('f', 'm') AND who = 'all' GROUP BY who",
    "SELECT who, SUM(age) FROM (SELECT {} AS who, age, sex FROM (SELECT * FROM people WHERE age > 5) AS u) AS t WHERE sex = 'f' GROUP BY ALL",
    "WITH a AS (SELECT {} AS who, * FROM people), b AS (SELECT who AS k, sex FROM a) SELECT k, COUNT(*) FROM b WHERE sex = 'f' GROUP BY k",
    "SELECT who, COUNT(*) FROM (SELECT {0} AS who, sex FROM people UNION ALL SELECT {0}, sex FROM people) AS t WHERE sex = 'f' GROUP BY who",
    "SELECT who, COUNT(*) FROM (SELECT DISTINCT {} AS who, sex, person_id FROM people) AS t WHERE sex = 'f' GROUP BY who",
    "SELECT who, sex, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex = 'f' GROUP BY ROLLUP (who, sex)",
    "SELECT who, sex, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex = 'f' GROUP BY CUBE (who, sex)",
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex = 'f' GROUP BY GROUPING SETS ((who), ())",
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex = 'f' GROUP BY who HAVING COUNT(*) > 1 ORDER BY who",
    "SELECT who, COUNT(*) FROM people AS p JOIN (SELECT {} AS who, person_id FROM visits) AS v USING (person_id) WHERE sex = 'f' GROUP BY who",
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, active FROM people) AS t WHERE active GROUP BY who",
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex = 'f' AND FALSE GROUP BY who",
    "SELECT who, COUNT(*) FROM (SELECT {} AS who, born FROM people) AS t WHERE born = DATE '2000-02-29' GROUP BY who",
    "SELECT who || 'x' AS x, COUNT(*) FROM (SELECT {} AS who, sex FROM people) AS t WHERE sex = 'f' GROUP BY x",
]


@pytest.mark.parametrize("form", GROUPED)
@pytest.mark.parametrize("constant", ["'all'", "'x''y'", "UPPER('x')"])
def test_a_constant_that_a_subquery_computes_is_a_key(form: str, constant: str, session: Session) -> None:
    """A public one where only projections and conditions are between; behind others it is selected like a key without declared
    values."""
    made = answer(form.format(constant), session)
    assert isinstance(made, Answer)
    assert made.rows or "HAVING" in form or any("are shown" in note for note in made.notes)


@pytest.mark.parametrize("constant", CONSTANTS)
def test_every_constant_is_a_group_or_refused(constant: str, session: Session, effort: float) -> None:
    faults = Faults()
    with faults.noted():
        for form in some_of(GROUPED, constant, effort):
            text = form.format(constant)
            fault, _ = outcome(text, session)
            assert not fault or not faults.add(fault), text


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_aggregate_takes_extreme_constants_or_refuses_them(aggregate: str, session: Session, effort: float) -> None:
    dice, faults = random.Random(aggregate), Faults()
    with faults.noted():
        for constant in some_of(CONSTANTS, aggregate, effort):
            text = aggregate.replace("{}", constant, 1)
            while "{}" in text:
                text = text.replace("{}", dice.choice((constant, "age", dice.choice(CONSTANTS))), 1)
            fault, _ = outcome(f"SELECT {text} FROM people", session)
            assert not fault or not faults.add(fault), text


def test_drawn_statements_are_answered_or_refused(tmp_path: Path, effort: float) -> None:
    dice, drawn, outcomes, faults = random.Random(1), Constants(), Counter[str](), Faults()
    session = session_for(tmp_path)
    with faults.noted():
        for _ in range(int(400 * max(1, effort))):
            text = drawn.statement(dice)
            fault, code = outcome(text, session)
            outcomes[code] += 1
            assert not fault or not faults.add(fault), text
    assert outcomes["answered"] > 10 and not outcomes["budget"], outcomes
