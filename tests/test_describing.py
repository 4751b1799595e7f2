"""The columns of a statement before it is asked: exactly those of its answer, and nothing is charged for them."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.grammar_sentences import accepted, values
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.dbapi import Connection
from dpsql.engine import charging
from dpsql.engine.answering import answer, describe
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident, OperationalError, SqlError
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Drop, Explain, Query
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.stopping import go_on
from dpsql.types import Type

ENDS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) sex, COUNT(*) AS n, AVG(age) AS mean, MIN(born) AS first FROM people GROUP BY sex"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_of(tmp_path_factory.mktemp("described"), worlds.world(3), at={"epsilon": 0.05, "delta": 1e-8})


@pytest.mark.parametrize("text", [text for text in accepted() if "VALIDATE" not in text])
def test_what_is_described_is_answered(text: str, session: Session) -> None:
    statement = parse(text)
    query = statement.query if isinstance(statement, Explain) else statement
    given = values(query.parameters) if isinstance(query, Query) else {}
    if isinstance(query, Drop):  # in this process, another test may not have made it
        with contextlib.suppress(SqlError):
            answer(f'CREATE SYNTHETIC TABLE "{query.name}" AS SELECT sex FROM people', session)
    before = session.ledger.spent(session.budget.name)
    described = [(column.name, column.type) for column in describe(text, session, given)]
    assert session.ledger.spent(session.budget.name) == before
    assert described == shown(text, session, given)


class Watched:
    """A reader that remembers what it read."""

    def __init__(self, reader: Any) -> None:
        self._reader, self.read = reader, list[str]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._reader, name)
        return (lambda sql, parts=(): (self.read.append(sql), found(sql, parts))[1]) if name in ("rows", "arrays", "columns") else found


def test_nothing_private_is_read_to_describe_and_neighbours_look_alike(tmp_path: Path) -> None:
    """Whoever is in the data decides over no name, no type and no refusal."""
    odd = worlds.world(3)
    told = []
    for number, here in enumerate((odd, odd.without("person", 1), worlds.world(5))):
        (tmp_path / str(number)).mkdir()
        session = session_of(tmp_path / str(number), here, around=Watched, at={"epsilon": 0.05, "delta": 1e-8})
        watched: Any = session.kernel._reader
        watched.read.clear()
        told.append([outcome(text, session) for text in accepted() if "VALIDATE" not in text])
        private = [f'"{name}"' for name, table in session.catalog.tables.items() if not table.public]
        assert private and not [sql for sql in watched.read if any(name in sql for name in private)]
        answer("SELECT COUNT(*) FROM people", session)
        assert any(name in sql for name in private for sql in watched.read), "the reader that is watched is the one that is used"
    assert told[0] == told[1] == told[2]


def outcome(text: str, session: Session) -> Any:
    """The columns, or the refusal."""
    statement = parse(text)
    query = statement.query if isinstance(statement, Explain) else statement
    try:
        return [(column.name, column.type) for column in describe(
            text, session, values(query.parameters) if isinstance(query, Query) else {})]
    except Error as fault:
        return fault.as_dict()


def shown(text: str, session: Session, given: object = ()) -> list[tuple[str, Type]]:
    found = answer(text, session, given)  # type: ignore[arg-type]
    made = found if isinstance(found, Answer) else found.as_table()
    return [(column.name, column.type) for column in made.columns] if isinstance(made, Answer) else list(made.columns)


@pytest.mark.parametrize("text", [
    ENDS,
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) clinic, SUM(beds) AS n FROM clinics GROUP BY clinic",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) AVG(n) AS mean FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) sex, n FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t WHERE n > (SELECT COUNT(*) / 3 FROM people)",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) MODE(sex) AS most, age // 20 AS g FROM people GROUP BY 2",
])
def test_ends_of_intervals_are_columns_where_they_are_asked_for(text: str, session: Session) -> None:
    assert [(column.name, column.type) for column in describe(text, session)] == shown(text, session)
    plain = text.replace("OPTIONS (errors = true) ", "")
    assert [name for name, _ in shown(plain, session)] == [name for name, _ in shown(text, session) if not name.endswith(("_low", "_high"))]


def test_ends_of_intervals_do_not_make_another_statement(session: Session) -> None:
    plain, ends = (answer(text, session) for text in (ENDS.replace("OPTIONS (errors = true) ", ""), ENDS))
    assert isinstance(plain, Answer) and isinstance(ends, Answer) and ends.stored
    assert [(row[0], row[1], row[4], row[7]) for row in ends.rows] == list(plain.rows)
    for row, here in zip(ends.rows, range(plain.size), strict=True):
        assert [(row[2], row[3]), (row[5], row[6])] == [plain.ends(here, column) or (None, None) for column in (1, 2)]
        assert row[8] is None or isinstance(row[8], dt.date)


@pytest.mark.parametrize("options", ["errors = 1", "errors = true, errors = true"])
def test_ends_are_shown_or_not(options: str, session: Session) -> None:
    with pytest.raises(Error, match="errors must be given once"):
        describe(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) COUNT(*) FROM people", session)


@pytest.mark.parametrize("text", [
    "VALIDATE SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) COUNT(*) FROM people AGAINST people_syn WITHIN 5 PERCENT",
    "CREATE SYNTHETIC TABLE made AS SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) sex FROM people",
])
def test_ends_are_of_queries_alone(text: str, session: Session) -> None:
    with pytest.raises(Error, match="options"):
        describe(text, session)


def test_a_wrong_statement_is_refused_where_it_is_described(session: Session) -> None:
    with pytest.raises(Error, match="unknown|no column"):
        describe("SELECT AVG(agee) FROM people", session)


# -- interruptions

def test_a_connection_is_interrupted_and_keeps_the_charge(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(session)
    slow = "SELECT COUNT(*) FROM range(30000000000) AS t(x) WHERE x % 3 = 0"
    connection.execute("SELECT COUNT(*) FROM people")
    looks = Kernel._look

    def looking(kernel: Kernel, *given: object) -> object:
        kernel._reader.rows(slow)
        return looks(kernel, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "_look", looking)
    before = session.ledger.spent(session.budget.name)
    stopping = threading.Timer(0.5, connection.interrupt)
    stopping.start()
    began = time.monotonic()
    with pytest.raises(Incident):
        connection.execute("SELECT AVG(age) FROM people WHERE age > 11")
    assert time.monotonic() - began < 20
    stopping.join()
    assert session.ledger.spent(session.budget.name) != before
    monkeypatch.undo()
    assert connection.execute("SELECT AVG(age) FROM people WHERE age > 12").fetchall()  # nothing is left of it


def test_what_is_interrupted_before_its_charge_is_not_charged(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, planned = Connection(session), threading.Event()
    monkeypatch.setattr(charging, "go_on", waiting(planned, session))
    before = session.ledger.spent(session.budget.name)

    def stop() -> None:
        planned.wait(20)
        connection.interrupt()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(OperationalError, match="before anything was charged"):
        connection.execute("SELECT AVG(age) FROM people WHERE age > 13")
    stopping.join()
    assert session.ledger.spent(session.budget.name) == before


def waiting(planned: threading.Event, session: Session) -> Callable[[], None]:
    def later() -> None:
        planned.set()
        session.interrupted.wait(20)
        go_on()
    return later


def test_where_nothing_runs_nothing_is_interrupted(session: Session) -> None:
    connection = Connection(session)
    connection.interrupt()
    assert connection.execute("SELECT COUNT(*) FROM people").fetchall()


def test_terms_are_chosen_for_the_statements_that_follow(session: Session) -> None:
    connection = Connection(session)
    connection.set_terms(epsilon=0.25, confidence=0.5)
    found = connection.execute("SELECT COUNT(*) FROM visits").answer
    assert found is not None and found.confidence == 0.5 and "0.25" in found.cost
    with pytest.raises(Error):
        connection.set_terms(epsilon=-1)
