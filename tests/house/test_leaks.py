"""No private value is ever seen outside of an answer that may hold it.

Every text and number in the private rows of this database is a canary: it exists nowhere else. Statements of all kinds are run,
also ones that are refused and ones that fail, and everything that an analyst could look at is searched.
"""

from __future__ import annotations

import io
import logging
import pickle
import re
import secrets
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support import worlds
from support.worlds import World

import dpsql
from dpsql import cli
from dpsql.backends.duckdb import DuckReader
from dpsql.dbapi import Connection
from dpsql.errors import Error, Incident
from dpsql.trusted.kernel.ledger import Ledger

PEOPLE = 60
LONG = "range = [1920-01-01, 2020-12-31]"


def canary() -> str:
    return secrets.token_hex(16)


def odd_numbers(count: int) -> list[int]:
    """All different, as some are keys."""
    return [1_000_000_000 + odd for odd in secrets.SystemRandom().sample(range(10**9), count)]


class Cage:
    """A project whose private rows are canaries, and the canaries."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, odd_numbers(4 * PEOPLE)
        self.texts = [canary() for _ in range(6 * PEOPLE)]
        text, number = iter(self.texts), iter(self.numbers)
        people, visits, scores = [], [], []
        for i in range(PEOPLE):
            key = next(number)
            people.append((key, 7, next(text), 50, float(next(number)), 70.25, True, None, next(text), next(text)))
            visits.append((next(number), key, 2020, next(text), 12.5, next(text), None))
            scores.append((key, next(number)))
            next(text)
        world = World({"households": [(7, canary())], "people": people, "visits": visits, "scores": scores,
                       "clinics": list(worlds.CLINICS), "unlisted": [(next(iter(self.numbers)),)]})
        self.database = world.save(folder / "cage.duckdb")
        policy = worlds.POLICY.replace("[budgets.pure]", "incidents = 1000\n[budgets.pure]")  # one account fails in many ways here
        assert LONG in policy  # each traceback would show its days a hundred times, which takes minutes to search
        (folder / "dpsql.toml").write_text(policy.replace(LONG, LONG.replace("2020-12", "1920-01")), encoding="utf-8")
        Ledger.create(folder / "dpsql.ledger").close()
        self.canaries = {*self.texts, *map(str, self.numbers)}

    def connect(self, **terms: Any) -> Connection:
        given = {"budget": "person", "analyst": "ada", "epsilon": 1, "delta": 1e-9, **terms}
        return dpsql.connect(self.database, policy=self.folder / "dpsql.toml", **given)

    def found(self, seen: str | bytes) -> set[str]:
        """The canaries in something that was seen. Numbers may have separators, and be printed as floats.

        A number counts where it is all of one: among the digits of noise, of hashes and of addresses any ten are soon to be found.
        """
        text = seen.decode("latin-1") if isinstance(seen, bytes) else seen
        text = f"{text}\n{text.replace(',', '').replace('_', '')}"
        runs = re.findall(r"[0-9a-f]{32,}", text)
        return {*(run[i : i + 32] for run in runs for i in range(len(run) - 31)),
                *re.findall(r"(?<![0-9A-Za-z.])[0-9]{10}(?![0-9A-Za-z])", text)} & self.canaries


@pytest.fixture(scope="module")
def cage(tmp_path_factory: pytest.TempPathFactory) -> Cage:
    return Cage(tmp_path_factory.mktemp("cage"))


@pytest.fixture(scope="module")
def connection(cage: Cage) -> Iterator[Connection]:
    with cage.connect() as made:
        yield made


ANSWERED = """
SELECT COUNT(*) FROM people
SELECT sex, COUNT(*) FROM people GROUP BY sex
SELECT nickname, COUNT(*) FROM people GROUP BY nickname
SELECT note, clinic, COUNT(*) FROM visits GROUP BY note, clinic
SELECT DISTINCT nickname FROM people
SELECT points, COUNT(*), MEDIAN(points) FROM scores GROUP BY points
SELECT AVG(income), MEDIAN(income), MIN(income), MAX(income) FROM people
SELECT AVG(weight), SUM(weight) FROM people
SELECT COUNT(DISTINCT nickname), COUNT(DISTINCT person_id) FROM people
SELECT SUM(points), AVG(points) FROM scores
SELECT sex || '!' AS s, COUNT(*) FROM people GROUP BY s
SELECT COUNT(*) FROM people WHERE CAST(nickname AS INTEGER) > 3 OR CAST(sex AS DATE) > DATE '2000-01-01'
SELECT COUNT(*) FROM people p JOIN visits v USING (person_id) WHERE p.nickname = v.note
SELECT AVG(n) FROM (SELECT person_id, MAX(cost) AS n FROM visits GROUP BY person_id) t
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound = 'clip') SUM(income) FROM people
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, mechanism = 'smooth_sensitivity') MEDIAN(age) FROM people
SELECT COUNT(*) FROM people WHERE income = (SELECT MAX(income) FROM people)
EXPLAIN PRIVACY SELECT nickname, AVG(income), MEDIAN(weight) FROM people GROUP BY nickname
EXPLAIN PRIVACY SELECT SUM(points) FROM scores
SHOW BUDGET
SHOW TABLES
SHOW RELEASES
DESCRIBE people
DESCRIBE visits
SELECT city, COUNT(*) FROM clinics GROUP BY city
"""

REFUSED = """
SELECT * FROM people
SELECT nickname FROM people
SELECT secret FROM people
SELECT COUNT(secret) FROM people
SELECT COUNT(*) FROM unlisted
SELECT person_id, COUNT(*) FROM visits GROUP BY person_id
SELECT COUNT(*) FROM people WHERE nickname IN (SELECT note FROM visits)
SELECT SUM(nickname) FROM people
SELECT MAX(nickname) FROM people
SELECT string_agg(nickname, ',') FROM people
SELECT error(nickname) FROM people
SELECT COUNT(*) FROM people WHERE error(nickname)
SELECT first(nickname) FROM people
SELECT CAST(nickname AS STRUCT(a INTEGER)) FROM people
SELECT COUNT(*) FROM duckdb_columns()
SELECT COUNT(*) FROM information_schema.tables
SELECT COUNT(*) FROM read_csv('cage.duckdb')
SELECT nickname FROM people QUALIFY row_number() OVER () = 1
COPY people TO 'out.csv'
PRAGMA database_list
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) COUNT(*) FROM people; SELECT 1
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilom = 1) COUNT(*) FROM people
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 999) nickname, COUNT(*) FROM people GROUP BY nickname
"""


def everything_about(fault: BaseException) -> Iterator[str]:
    """What can be learned from an exception without taking the engine apart."""
    seen: set[int] = set()
    chain: list[BaseException | None] = [fault]
    while chain:
        current = chain.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield f"{current!s} {current!r} {current.args!r} {vars(current)!r}"
        if isinstance(current, Error):
            yield repr(current.as_dict())
        chain += [current.__cause__, current.__context__]
    told = traceback.TracebackException.from_exception(fault, capture_locals=True)
    yield "".join(told.format(chain=True))
    yield repr(pickle.dumps((str(fault), fault.args)))


def everything_in(value: Any) -> Iterator[str]:
    """What an object shows of itself: printed, pickled where it can be, and its attributes without leading underscores."""
    yield repr(value)
    yield str(value)
    for name in dir(value):
        if not name.startswith("_"):
            try:
                yield f"{name} {getattr(value, name)!r}"
            except Error as fault:
                yield str(fault)
    try:
        yield pickle.dumps(value).decode("latin-1")
    except (TypeError, AttributeError, pickle.PicklingError) as fault:
        yield repr(fault)


def tried(connection: Connection, text: str) -> Iterator[str]:
    """Everything that is seen of one statement."""
    cursor = connection.cursor()
    try:
        cursor.execute(text)
    except Error as fault:
        yield from everything_about(fault)
        return
    yield from everything_in(cursor)
    yield repr(cursor.fetchall())
    yield repr(cursor.df())
    yield repr(cursor.arrow())
    yield cursor._repr_html_() or ""
    if cursor.answer is not None:
        yield from everything_in(cursor.answer)
        yield cursor.answer.as_json()


def lines(block: str) -> list[str]:
    return block.strip().splitlines()


@pytest.mark.parametrize("text", [*lines(ANSWERED), *lines(REFUSED)])
def test_no_canary_is_in_what_a_statement_shows(text: str, cage: Cage, connection: Connection, caplog: pytest.LogCaptureFixture,
                                                capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder) -> None:
    caplog.set_level(logging.DEBUG)
    for part in tried(connection, text):
        assert not cage.found(part), text
    printed = capfd.readouterr()
    assert not cage.found(printed.out + printed.err + caplog.text + " ".join(str(warning.message) for warning in recwarn))


def test_the_statements_do_what_they_are_here_for(cage: Cage, connection: Connection) -> None:
    """So that the search is not one of errors alone, or of answers alone."""
    outcomes = {}
    for text in (*lines(ANSWERED), *lines(REFUSED)):
        try:
            connection.execute(text)
            outcomes[text] = True
        except Error:
            outcomes[text] = False
    assert [text for text in lines(ANSWERED) if not outcomes[text]] == []
    assert [text for text in lines(REFUSED) if outcomes[text]] == []


@pytest.mark.slow
def test_no_canary_is_in_what_a_used_connection_shows(cage: Cage, connection: Connection) -> None:
    for text in lines(ANSWERED):
        connection.execute(text)
    session = connection.session
    for value in (connection, session, session.catalog, session.kernel, session.ledger, session.scratch, connection.budget()):
        for part in everything_in(value):
            assert not cage.found(part), type(value)
    assert not cage.found(connection._repr_html_() + connection.budget()._repr_html_())


BROKEN: dict[str, Callable[[str], BaseException]] = {
    "an engine's error": lambda value: duckdb.ConversionException(f"Could not convert string '{value}' to INT32"),
    "an error of Python": lambda value: ValueError(f"{value} is out of range"),
    "an error with a cause": lambda value: RuntimeError(value),
    "an error of the system": lambda value: OSError(5, value),
    "an error that tells in its name": lambda value: type(f"E{value}", (Exception,), {})(value)}


@pytest.mark.parametrize("kind", BROKEN)
def test_no_canary_is_in_what_a_failure_shows(kind: str, cage: Cage, connection: Connection, monkeypatch: pytest.MonkeyPatch,
                                              capfd: pytest.CaptureFixture[str]) -> None:
    def fails(self: DuckReader, sql: str, parts: object = ()) -> Any:
        ((value,),) = self._connection.cursor().execute("SELECT MAX(nickname) FROM people").fetchall()
        try:
            raise KeyError(value)
        except KeyError as before:
            raise BROKEN[kind](value) from before

    for reading in ("rows", "arrays", "columns"):
        monkeypatch.setattr(DuckReader, reading, fails)
    with pytest.raises(Incident) as caught:
        connection.execute("SELECT COUNT(*), MEDIAN(age) FROM people WHERE age > 1")
    for part in everything_about(caught.value):
        assert not cage.found(part)
    assert sys.exc_info() == (None, None, None)
    printed = capfd.readouterr()
    assert not cage.found(printed.out + printed.err)


def test_no_canary_is_in_the_ledger_its_anchor_or_beside_them(cage: Cage, connection: Connection) -> None:
    for text in lines(ANSWERED):
        connection.execute(text)
    files = [path for path in cage.folder.iterdir() if path.is_file() and path != cage.database]
    assert {"dpsql.ledger", "dpsql.ledger.anchor", "dpsql.toml"} <= {path.name for path in files}
    for path in files:
        assert not cage.found(path.read_bytes()), path


@pytest.mark.parametrize("arguments", [
    ["query", "SELECT nickname, COUNT(*), AVG(income) FROM people GROUP BY nickname"], ["query", "SELECT nickname FROM people"],
    ["query", "--json", "SELECT MAX(income) FROM people"], ["query", "--csv", "SELECT COUNT(DISTINCT nickname) FROM people"],
    ["query", "--json", "SELECT CAST(nickname AS INTEGER) FROM people"], ["explain", "SELECT MEDIAN(income) FROM people"],
    ["budget"], ["releases"], ["releases", "--json"], ["check"], ["check", "--json"]])
def test_no_canary_is_in_what_the_shell_prints(arguments: list[str], cage: Cage, monkeypatch: pytest.MonkeyPatch,
                                               capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(cage.folder)
    place = [] if arguments[0] == "check" else ["--budget", "person"]
    terms = ["--epsilon", "1", "--delta", "1e-9"] if arguments[0] in ("query", "explain") else []
    code = cli.main([arguments[0], *place, *terms, *arguments[1:]])
    printed = capfd.readouterr()
    assert code in (0, 2) and printed.out + printed.err
    assert not cage.found(printed.out + printed.err)


def test_drafting_a_policy_shows_no_row(cage: Cage, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", str(shutil.copy(cage.database, tmp_path)), "--to", "-"]) == 0
    printed = capfd.readouterr()
    assert "people" in printed.out and not cage.found(printed.out + printed.err)


def test_connections_and_readers_do_not_pickle(connection: Connection) -> None:
    session = connection.session
    for value in (connection, session, session.kernel, session.kernel._reader, session.ledger, connection.cursor()):
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            pickle.Pickler(io.BytesIO()).dump(value)


def test_a_leak_would_be_found(cage: Cage, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search sees values in texts, in numbers with separators, in chains of exceptions and in local variables."""
    text, number = cage.texts[0], cage.numbers[0]
    assert cage.found(f"... {text} ...") and cage.found(f"{number:,}") and cage.found(text.encode()) and cage.found(str(float(number)))
    assert cage.found(f"[{number},{number}]") and cage.found(f"SUM_{number}_of") and not cage.found(f"0.{number}7")
    try:
        try:
            hidden = text
            raise KeyError(hidden)
        except KeyError:
            raise Incident from None
    except Incident as fault:
        assert any(cage.found(part) for part in everything_about(fault)), "a context that is only not shown is found"
    monkeypatch.setattr("dpsql.errors.Incident.__init__", lambda self: Error.__init__(self, f"failed on {text}"))
    monkeypatch.setattr(DuckReader, "columns", lambda self, sql, parts: 1 / 0)
    with pytest.raises(Incident) as caught:
        connection.execute("SELECT COUNT(*) FROM people WHERE age > 2")
    assert any(cage.found(part) for part in everything_about(caught.value))
