"""What is answered, and the order of the groups in it, is a function of the rows as a set: not of how they lie in the database.

A row that comes or goes moves the others about in a file; so whatever rests on their places would tell of it.
"""

from __future__ import annotations

import random

import pytest
from support.golden.comparison import FOLDER, PLENTY, short, texts
from support.golden.dense import dense
from support.laws.faults import FAULTS
from support.sessions import open_ledger, session_of
from support.worlds import World

from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.engine.session import Session

LIMITED = (
    "SELECT clinic, COUNT(*), SUM(cost) FROM visits GROUP BY clinic",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 1) year, COUNT(*), AVG(cost) FROM visits GROUP BY year",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 2) COUNT(*), SUM(points), MEDIAN(points) FROM scores",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups = 1) nickname, COUNT(*), AVG(age) FROM people GROUP BY nickname",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups = 2) note, clinic, COUNT(DISTINCT person_id) FROM visits GROUP BY note, clinic",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip', clip = 700) year, SUM(cost) FROM visits GROUP BY year",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'frequency', max_frequency = 3, max_rows = 2) COUNT(*) FROM people a "
    "JOIN people b ON a.household_id = b.household_id AND a.age < b.age",
    "SELECT quantile_cont(weight, 0.1), quantile_cont(weight, 0.5), quantile_cont(weight, 0.9) FROM people",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Session]:
    """One ledger, and so one secret for the limits of rows; the same rows, as they come and in another order."""
    folder, full, draw = tmp_path_factory.mktemp("orders"), dense(people=150), random.Random(8)
    ledger = open_ledger(folder)
    moved = World({table: draw.sample(rows, k=len(rows)) for table, rows in full.rows.items()})
    first, second = (session_of(folder, world, noise=Exact(), at=PLENTY, ledger=ledger) for world in (full, moved))
    return first, second


def released(text: str, session: Session) -> object:
    try:
        made = PreparedStatement(text, session).release()
    except ValueError:  # of public tables only, or a workload
        return None
    return made.rows, made.errors, made.notes


@pytest.mark.parametrize("text", [*LIMITED, *texts(FOLDER / "answers.sql")], ids=short)
def test_an_answer_does_not_depend_on_where_rows_lie(text: str, both: tuple[Session, Session]) -> None:
    assert repr(released(text, both[0])) == repr(released(text, both[1])), text


def test_rows_that_are_kept_as_they_come_would_be_found(both: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    next(fault for fault in FAULTS if fault.what == "a truncation keeps what comes first").plant(monkeypatch)
    assert repr(released(LIMITED[1], both[0])) != repr(released(LIMITED[1], both[1]))
