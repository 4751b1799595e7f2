"""Through the vault every statement has the answer, the charge and the record that it has in one process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pandas
import pytest
from support.golden.comparison import FOLDER, texts
from support.golden.dense import dense
from support.grammar_sentences import accepted, values
from support.sessions import reader_of
from support.vaults import Twins, twins
from support.worlds import world

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Explain, Query

PRICE: dict[str, object] = {"epsilon": 0.5, "delta": 1e-8}
MADE = (
    "CREATE SYNTHETIC TABLE people_syn AS SELECT sex, age, active FROM people",
    "SELECT sex, COUNT(*) FROM people_syn GROUP BY sex",
    "SELECT a.sex, COUNT(*) FROM people a JOIN (SELECT DISTINCT sex FROM people_syn) b ON a.sex = b.sex GROUP BY a.sex",
    "VALIDATE SELECT sex, COUNT(*) FROM people GROUP BY sex AGAINST people_syn WITHIN 5 PERCENT OR 10",
    "CREATE SYNTHETIC TABLE people_syn AS SELECT sex FROM people",
    "CREATE SYNTHETIC TABLE ages_syn AS SELECT CAST(age AS DECIMAL(5, 1)) AS old, person_id FROM people OPTIONS (made_up = 'person_id')",
    "SELECT SUM(old), MAX(old), COUNT(DISTINCT person_id) FROM ages_syn", "SELECT old FROM ages_syn ORDER BY old LIMIT 2",
    "CREATE SYNTHETIC TABLE close_syn AS SELECT sex, age FROM people OPTIONS (accept = 'SELECT COUNT(*) FROM close_syn WHERE sex = ''f'' WITHIN 9000')",
    "CREATE SYNTHETIC TABLE far_syn AS SELECT sex, age FROM people OPTIONS (candidates = 2, accept = 'SELECT SUM(age) FROM far_syn WITHIN 0.1 PERCENT')",
    "CREATE ONLINE MODEL online AS SELECT sex, age // 10 AS decade FROM people",
    "SELECT sex, COUNT(*) FROM online GROUP BY sex", "SELECT COUNT(*) FROM online WHERE decade > 3", "SHOW TABLES",
    "SELECT sex, COUNT(*) FROM online GROUP BY sex",
    "DROP SYNTHETIC TABLE people_syn", "SELECT COUNT(*) FROM people_syn", "SHOW BUDGET", "SHOW RELEASES", "DESCRIBE people",
    "CREATE SYNTHETIC TABLES p AS SELECT person_id, sex FROM people, v AS SELECT person_id, year FROM visits",
    "SELECT clinic, beds FROM clinics ORDER BY beds", "SELECT SUM(beds) FROM clinics", "SELECT MEDIAN(beds) FROM clinics",
    "SELECT c.city, COUNT(*) FROM visits v JOIN clinics c USING (clinic) GROUP BY c.city",
    "SELECT COUNT(*) FROM people ERROR WITHIN 3", "SELECT COUNT(*) FROM people ERROR WITHIN 0.0000001",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2000) COUNT(*) FROM people", "SELECT nothing FROM people", "SELECT",
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    made = twins(tmp_path_factory.mktemp("small"), readers=lambda: reader_of(world(3)), noise=Exact(), at=PRICE)
    yield made
    made.there.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    made = twins(tmp_path_factory.mktemp("large"), readers=lambda: reader_of(dense()), noise=Exact(), at=PRICE)
    yield made
    made.there.close()


def outcome(text: str, session: Session, parameters: Any = ()) -> Any:
    try:
        made = answer(text, session, parameters)
    except Error as fault:
        return fault.as_dict(), str(fault)
    return made.as_json() if isinstance(made, Answer) else re.sub(r"20\d\d-[-0-9T:+]+", "then", repr(made))


def same(text: str, twins: Twins) -> None:
    try:
        statement = parse(text)
        query = statement.query if isinstance(statement, Explain) else statement
        given = values(query.parameters) if isinstance(query, Query) else {}
    except Error:
        given = {}
    before = [len(events) for events in twins.events()]
    here, there = (outcome(text, session, given) for session in (twins.here, twins.there))
    assert here == there
    ours, theirs = (events[first:] for events, first in zip(twins.events(), before, strict=True))
    assert ours == theirs


EVERY = 3  # of the statements of the corpora, so that this does not take minutes


@pytest.mark.parametrize("text", (texts(FOLDER / "answers.sql") + texts(FOLDER / "subqueries.sql"))[::EVERY])
def test_golden_statements_have_the_same_answers(text: str, large: Twins) -> None:
    same(text, large)


@pytest.mark.parametrize("text", accepted()[::EVERY])
def test_accepted_statements_have_the_same_answers(text: str, small: Twins) -> None:
    same(text, small)


@pytest.mark.parametrize("text", MADE)
def test_what_is_kept_between_statements_is_kept(text: str, small: Twins) -> None:
    same(text, small)


def test_a_connection_works_as_any_other(small: Twins) -> None:
    told = []
    for session in (small.here, small.there):
        connection = Connection(session)
        cursor = connection.cursor()
        cursor.executemany("SELECT COUNT(*) FROM people WHERE age > ?", [[20], [40]])
        many = cursor.fetchall()
        queries = ["SELECT sex, COUNT(*) FROM people GROUP BY sex", "SELECT COUNT(*), SUM(age) FROM people"]
        frame = pandas.DataFrame({"sex": ["f", "m", "f"], "age": [20, 30, 40]})
        checked = connection.validate("SELECT sex, COUNT(*) FROM people GROUP BY sex", synthetic=frame, within=5, epsilon=0.5)
        with pytest.raises(Error):
            connection.validate("SELECT COUNT(*) FROM people", synthetic="/etc/passwd.csv", within=5, epsilon=0.5)
        many.append(repr(checked))
        told.append((many, connection.workload(queries, epsilon=0.5).as_json(), str(connection.explain(queries, epsilon=0.5)),
                     str(connection.explain("SELECT AVG(income) FROM people"))))
    assert told[0] == told[1]
    assert small.events()[0] == small.events()[1]
