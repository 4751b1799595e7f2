"""One analyst's connection as clients see it: columns before answers, probes, notices, settings, errors, cancellation."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import worlds
from support.grammar_sentences import accepted

import dpsql
from dpsql.engine import charging
from dpsql.engine.accounts import left_if_known
from dpsql.errors import OptionError
from dpsql.server.front.http.http_answers import _about
from dpsql.server.front.statements.interruption import Interruption
from dpsql.server.front.statements.seat import ConnectionSeat, _in_64_bits, seats
from dpsql.server.front.statements.statements_about_connection import Settings
from dpsql.server.front.terms.answers_on_wire import OutcomeOnWire, RefusedOnWire, Seat
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.reader import ReaderInterrupted
from dpsql.trusted.stopping import go_on


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return worlds.project(tmp_path_factory.mktemp("project"), people=60)


@pytest.fixture
def seat(project: Path) -> Iterator[ConnectionSeat]:
    made = seats(lambda user, database: dpsql.connect(project / "people.duckdb", budget="person", analyst=user, epsilon=1, delta=1e-6))("ada", "study", {"application_name": "psql"})
    yield made
    made.close()


def spent(seat: ConnectionSeat) -> object:
    return [account.spent for account in seat._connection.budget().accounts]


def rows(found: OutcomeOnWire) -> list[tuple[object, ...]]:
    return list(found.rows)


def refusal(seat: ConnectionSeat, text: str, *parameters: object) -> RefusedOnWire:
    with pytest.raises(RefusedOnWire) as told:
        seat.execute(text, parameters)
    return told.value


# -- statements of dpsql

def test_a_seat_is_one(seat: ConnectionSeat) -> None:
    known: Seat = seat
    assert known.split("SELECT 1; ; SELECT ';'") == ["SELECT 1", "SELECT ';'"] and known.split(" -- nothing\n;") == []


def test_an_answer_has_columns_rows_and_its_cost(seat: ConnectionSeat) -> None:
    text = "SELECT sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex"
    before = spent(seat)
    described = seat.describe(text, [])
    assert spent(seat) == before
    found = seat.execute(text, ())
    assert found.columns == described.columns and [column.kind for column in found.columns or ()] == ["VARCHAR", "BIGINT", "DOUBLE"]
    assert found.tag == "SELECT 3" and [row[0] for row in rows(found)] == ["f", "m", None] and spent(seat) != before
    assert found.notices[0].text.startswith("cost: ε = 1") and "left: " in found.notices[0].text
    again = seat.execute(text, ())
    assert again.notices[0].text == "cost: nothing, as this was answered before"
    ends = seat.execute(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true)", 1), ())
    assert [column.name for column in ends.columns or ()] == ["sex", "n", "n_low", "n_high", "mean", "mean_low", "mean_high"]
    assert ends.notices[0].text == again.notices[0].text


@pytest.mark.parametrize("text", [
    "SHOW BUDGET", "show releases", "SHOW TABLES", "DESCRIBE people", "EXPLAIN PRIVACY SELECT COUNT(*) FROM people", "SELECT * FROM clinics",
    "CREATE SYNTHETIC TABLE made AS SELECT sex FROM people", "SELECT sex, COUNT(*) FROM made GROUP BY sex", "DROP SYNTHETIC TABLE made",
])
def test_every_kind_of_statement_is_described_and_answered(text: str, seat: ConnectionSeat) -> None:
    if "FROM made" in text or text.startswith("DROP"):
        seat.execute("CREATE SYNTHETIC TABLE made AS SELECT sex FROM people", ())
    described = seat.describe(text, [])
    found = seat.execute(text, ())
    assert described.columns == found.columns and described.parameters == () and found.tag == f"SELECT {len(rows(found))}"


@pytest.mark.parametrize("text", [
    "CREATE SYNTHETIC TABLE told AS SELECT sex FROM people", "CREATE ONLINE MODEL net AS SELECT sex, active FROM people",
    "CREATE SYNTHETIC TABLES p AS SELECT person_id, sex FROM people, v AS SELECT person_id, year FROM visits"])
def test_what_a_statement_made_is_told_with_its_cost(text: str, seat: ConnectionSeat) -> None:
    cost, *notes = [notice.text for notice in seat.execute(text, ()).notices]
    assert cost.startswith("cost: ε = 1") and "left: " in cost
    assert [notice.text for notice in seat.execute(text, ()).notices] == ["cost: nothing, as this was answered before", *notes]
    cursor = seat._connection.execute(text)
    assert (cursor.cost, [*cursor.notes]) == ("", notes) and _about(cursor, text) == {
        "cost": "", "stored": True, "notes": notes, "left": left_if_known(seat._connection.session), "confidence": None}
    for name in ("told", "p", "v"):  # as others list what there is
        with contextlib.suppress(RefusedOnWire):
            seat.execute(f"DROP SYNTHETIC TABLE {name}", ())


def test_numbers_beyond_64_bits_are_held_and_told() -> None:
    assert _in_64_bits([(1, 2**70), (None, -(2**70)), (2, 3)], [0, 1]) == ([(1, 2**63 - 1), (None, -(2**63)), (2, 3)], [1])
    assert _in_64_bits([(1, 2**63 - 1), (None, None)], [0, 1]) == ([(1, 2**63 - 1), (None, None)], [])


@pytest.mark.parametrize(("text", "kinds"), [
    ("SELECT SUM(age), COUNT(*), AVG(age) FROM people", ["BIGINT", "BIGINT", "DOUBLE"]),
    ("SELECT SUM(CAST(weight AS BIGINT)) AS s, SUM(age) AS t FROM people", ["HUGEINT", "BIGINT"]),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) SUM(CAST(weight AS BIGINT)) AS s FROM people", ["HUGEINT", "DOUBLE", "DOUBLE"]),
])
def test_sums_that_64_bits_need_not_hold_are_numeric_by_the_statement_alone(text: str, kinds: list[str], seat: ConnectionSeat) -> None:
    described = seat.describe(text, []).columns
    assert described is not None and [column.kind for column in described] == kinds
    for _ in range(2):  # the second one is stored
        assert seat.execute(text, ()).columns == described


# -- the schema

@pytest.mark.parametrize("text", [
    "SELECT COUNT(*) FROM public.people AS p JOIN \"public\".visits USING (person_id) WHERE p.age > 30", "SELECT * FROM PUBLIC.people LIMIT 0",
    "SELECT AVG(public.people.age) FROM public.people WHERE main.people.sex = 'f'", "SELECT public.people.age FROM \"public\".\"people\" WHERE 1 = 0",
])
def test_tables_are_in_the_schema_public_which_main_is_too(text: str, seat: ConnectionSeat) -> None:
    assert seat.execute(text, ()).columns == seat.describe(text, []).columns == seat.describe(text.replace("public", "main"), []).columns or "AVG" in text
    listed = "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_name = 'people'"
    assert rows(seat.execute(listed, ())) == rows(seat.execute("SELECT current_schema()", ())) == [("public",)]


def test_no_other_schema_has_tables(seat: ConnectionSeat) -> None:
    told = refusal(seat, "SELECT COUNT(*) FROM other.people")
    assert told.sqlstate == "0A000" and told.position == 22


# -- parameters

@pytest.mark.parametrize(("text", "given", "kinds"), [
    ("SELECT COUNT(*) FROM people WHERE age > $1", [], ("BIGINT",)),
    ("SELECT COUNT(*) FROM people WHERE income > $1", [], ("DOUBLE",)),
    ("SELECT COUNT(*) FROM people WHERE sex = $1 AND born < $2", [], ("VARCHAR", "DATE")),
    ("SELECT COUNT(*) FROM people WHERE active = $1 AND age BETWEEN $2 AND $3", [], ("BOOLEAN", "BIGINT", "BIGINT")),
    ("SELECT COUNT(*) FROM visits WHERE seen >= $1", [], ("TIMESTAMP",)),
    ("SELECT COUNT(*) FROM people WHERE age > $1", ["DOUBLE"], ("DOUBLE",)),
    ("SELECT COUNT(*) FROM people WHERE age IN ($2, $1)", [None, "BIGINT"], ("BIGINT", "BIGINT")),
    ("SELECT QUANTILE_CONT(age, $1) FROM people", [], ("DOUBLE",)),
    ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT $1", [], ("BIGINT",)),
    ("SELECT COUNT(*) FROM people WHERE nickname LIKE $1", [], ("VARCHAR",)),
    ("SELECT COUNT(*) FROM people WHERE age + $1 > 20", [], ("BIGINT",)),
    ("SELECT city, SUM(beds) FROM clinics WHERE city = $1 GROUP BY city", [], ("VARCHAR",)),
    ("EXPLAIN PRIVACY SELECT COUNT(*) FROM people WHERE age > $1", [], ("BIGINT",)),
    ("SELECT relname FROM pg_class WHERE relname = $1", [], ("VARCHAR",)),
])
def test_kinds_of_parameters_are_those_that_the_binder_takes(text: str, given: list[str | None], kinds: tuple[str, ...], seat: ConnectionSeat) -> None:
    before = spent(seat)
    described = seat.describe(text, given)
    assert described.parameters == kinds and described.columns and spent(seat) == before
    values = {"BIGINT": 1, "DOUBLE": 0.5, "VARCHAR": "f", "DATE": dt.date(2000, 1, 1), "BOOLEAN": True, "TIMESTAMP": dt.datetime(2019, 1, 1)}
    assert seat.execute(text, [values[kind] for kind in kinds]).columns == described.columns


@pytest.mark.parametrize(("text", "kinds"), [
    ("SELECT COUNT(*) FROM people WHERE age > $1", ("NUMERIC",)), ("SELECT COUNT(*) FROM people WHERE income BETWEEN $1 AND $2", ("NUMERIC", "NUMERIC")),
    ("SELECT SUM(age + $1) FROM people", ("DOUBLE",)), ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT $1", ("BIGINT",)),
    ("SELECT QUANTILE_CONT(age, $1) FROM people", ("NUMERIC",)), ("SELECT relname FROM pg_class WHERE oid = $1", ("DECIMAL",)),
])
def test_numeric_parameters_stay_whole_where_that_makes_no_other_columns(text: str, kinds: tuple[str, ...], seat: ConnectionSeat) -> None:
    given = ["NUMERIC"] * len(kinds)
    assert seat.describe(text, given).parameters == kinds
    columns = {seat.execute(text, [value] * len(kinds)).columns for value in (1, 0.5) if kinds[0] == "NUMERIC"}
    assert columns <= {seat.describe(text, given).columns}
    assert refusal(seat, "SELECT COUNT(*) FROM people WHERE age > $1").sqlstate == "42P02"


def test_accepted_statements_with_parameters_are_described(seat: ConnectionSeat) -> None:
    checked = 0
    for text in accepted():
        statement = parse(text)
        if isinstance(statement, Query) and statement.parameters and all(name.isdigit() or name.startswith("?") for name in statement.parameters):
            assert len(seat.describe(text, []).parameters) == len(dict.fromkeys(statement.parameters)), text
            checked += 1
    assert checked


@pytest.mark.parametrize(("text", "state"), [
    ("SELECT COUNT(*) FROM people WHERE agee > $1", "42703"), ("SELECT COUNT(*) FROM peeple WHERE age > $1", "42P01"),
    ("SELECT COUNT(* FROM people WHERE age > $1", "42601"), ("SELECT COUNT(*) FROM people WHERE age > :name", "42P02"),
    ("SELECT COUNT(*) FROM people WHERE sex + $1 > 2", "42804"),
])
def test_a_wrong_statement_is_refused_before_its_values_are_known(text: str, state: str, seat: ConnectionSeat) -> None:
    with pytest.raises(RefusedOnWire) as told:
        seat.describe(text, [])
    assert told.value.sqlstate == state


# -- probes

@pytest.mark.parametrize("text", [
    "SELECT * FROM people LIMIT 0", "SELECT * FROM people WHERE 1=0", "SELECT age, sex FROM people WHERE (1 = 0)", "SELECT * FROM people WHERE FALSE",
    "SELECT * FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t LIMIT 0", "SELECT sex, AVG(age) FROM people GROUP BY sex LIMIT 0",
    "SELECT * FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t WHERE 1 <> 1", "SELECT * FROM (SELECT * FROM visits) AS t LIMIT 0",
    'SELECT "people"."age" AS "age" FROM "main"."people" AS "people" WHERE 0 = 1 AND age > 3', "SELECT * FROM clinics LIMIT 0",
    "SELECT p.sex, v.cost FROM people p JOIN visits v ON p.person_id = v.person_id LIMIT 0",
])
def test_a_probe_has_columns_and_no_row_and_is_free(text: str, seat: ConnectionSeat) -> None:
    before = spent(seat)
    described, found = seat.describe(text, []), seat.execute(text, ())
    assert described.columns == found.columns and found.columns and rows(found) == [] and found.tag == "SELECT 0"
    assert spent(seat) == before


def test_a_probe_with_parameters_is_free_too(seat: ConnectionSeat) -> None:
    text, before = "SELECT sex, COUNT(*) AS n FROM people WHERE age > $1 GROUP BY sex LIMIT 0", spent(seat)
    assert seat.describe(text, []).columns == seat.execute(text, [30]).columns and spent(seat) == before


def test_a_fault_of_the_seat_is_told_without_its_cause(seat: ConnectionSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> object:
        raise ValueError("a row")

    monkeypatch.setattr("dpsql.server.front.statements.seat.read_question", fails)
    told = refusal(seat, "SELECT COUNT(*) FROM people")
    assert told.sqlstate == "XX000" and "row" not in told.message and told.__cause__ is None and told.__suppress_context__


def test_a_probe_of_a_table_shows_what_is_declared_alone(seat: ConnectionSeat) -> None:
    found = seat.execute("SELECT * FROM people LIMIT 0", ())
    assert [(column.name, column.kind) for column in found.columns or ()] == [
        ("person_id", "BIGINT"), ("household_id", "BIGINT"), ("sex", "VARCHAR"), ("age", "BIGINT"), ("income", "DOUBLE"), ("weight", "DOUBLE"),
        ("active", "BOOLEAN"), ("born", "DATE"), ("nickname", "VARCHAR")]
    for text in ("SELECT secret FROM people LIMIT 0", "SELECT * FROM unlisted LIMIT 0", "SELECT * FROM read_csv('x') LIMIT 0", "SELECT * FROM nothing WHERE 1=0"):
        assert refusal(seat, text).sqlstate[:2] in ("42", "0A")


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM people WHERE 1=0", "SELECT * FROM people LIMIT 10", "SELECT sex, COUNT(*) FROM people WHERE false GROUP BY sex"])
def test_what_may_have_a_row_is_no_probe(text: str, seat: ConnectionSeat) -> None:
    before = spent(seat)
    try:
        assert seat.execute(text, ()).tag != "SELECT 0" and spent(seat) != before
    except RefusedOnWire:
        assert spent(seat) == before


@pytest.mark.parametrize("text", ["SELECT * FROM people", "SELECT * FROM people LIMIT 1", "SELECT age, sex FROM people ORDER BY age", "SELECT v.cost, p.* FROM people p JOIN visits v USING (person_id)"])
def test_rows_of_a_private_table_are_described_and_never_shown(text: str, seat: ConnectionSeat) -> None:
    before, described = spent(seat), seat.describe(text, [])
    assert described.columns == seat.execute(text.replace(" LIMIT 1", "") + " LIMIT 0", ()).columns and described.columns
    with pytest.raises(RefusedOnWire, match="row|aggregate"):
        seat.execute(text, ())
    assert spent(seat) == before


@pytest.mark.parametrize(("text", "state"), [
    ("SELECT secret FROM people", "42703"), ("SELECT * FROM unlisted", "42P01"), ("SELECT age, COUNT(*) FROM people", "42803"), ("SELECT * FROM people WHERE age > $1", "0A000")])
def test_other_statements_are_refused_when_they_are_described(text: str, state: str, seat: ConnectionSeat) -> None:
    with pytest.raises(RefusedOnWire) as told:
        seat.describe(text, [])
    assert told.value.sqlstate == state


# -- settings

@pytest.mark.parametrize(("text", "name", "value"), [
    ("SHOW server_version", "server_version", "15.0"), ("show transaction isolation level", "transaction_isolation", "serializable"),
    ("SHOW search_path", "search_path", "public"), ("SHOW standard_conforming_strings", "standard_conforming_strings", "on"),
    ("SHOW TIME ZONE", "TimeZone", "UTC"), ("show application_name;", "application_name", "psql"), ("SHOW epsilon", "epsilon", "as opened"),
])
def test_settings_are_shown(text: str, name: str, value: str, seat: ConnectionSeat) -> None:
    described, found = seat.describe(text, []), seat.execute(text, ())
    assert found.columns == described.columns and [column.name for column in found.columns or ()] == [name]
    assert rows(found) == [(value,)] and found.tag == "SHOW"


@pytest.mark.parametrize("text", [
    "SET extra_float_digits = 3", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "set client_encoding to 'utf-8'", "SET datestyle = ISO, MDY",
    "SET LOCAL work_mem TO '64MB'", "SET TIME ZONE 'Europe/Oslo'", "SET NAMES 'UTF8'", "SET search_path TO main, pg_catalog", "RESET ALL", "RESET timezone",
    "DISCARD ALL", "UNLISTEN *", "SET application_name = 'x y'", "SET statement_timeout = 0", "SET myapp.user = 'x'",
])
def test_settings_of_clients_are_taken(text: str, seat: ConnectionSeat) -> None:
    found = seat.execute(text, ())
    assert found.columns is None and rows(found) == [] and text.upper().startswith(found.tag.split()[0]) and seat.describe(text, []).columns is None


@pytest.mark.parametrize(("text", "state"), [
    ("SET client_encoding = 'LATIN1'", "22023"), ("SET nothing = 1", "42704"), ("SHOW nothing", "42704"), ("SET epsilon = 'much'", "22023"), ("SET", "42601"),
    ("SET epsilon = -1", "22023"), ("SET confidence = 2", "22023"), ("SET standard_conforming_strings = off", "22023"), ("LISTEN x", "0A000"), ("LOCK people", "0A000"),
])
def test_what_would_change_how_values_are_shown_is_refused(text: str, state: str, seat: ConnectionSeat) -> None:
    assert refusal(seat, text).sqlstate == state
    assert rows(seat.execute("SHOW epsilon", ())) == [("as opened",)]


def test_the_price_and_the_confidence_are_settings(seat: ConnectionSeat) -> None:
    seat.execute("SET epsilon = 0.25", ())
    seat.execute("SET confidence TO 0.5", ())
    found = seat.execute("SELECT COUNT(*) FROM visits WHERE year > 2018", ())
    assert "ε = 0.25" in found.notices[0].text and rows(seat.execute("SHOW epsilon", ())) == [("0.25",)]
    seat.execute("RESET epsilon", ())
    assert "ε = 0.25" not in seat.execute("SELECT COUNT(*) FROM visits WHERE year > 2019", ()).notices[0].text


def test_parameter_status_has_what_drivers_look_for(seat: ConnectionSeat) -> None:
    told = seat.parameter_status
    assert told["server_version"] == "15.0" and told["client_encoding"] == "UTF8" and told["integer_datetimes"] == "on" and told["DateStyle"] == "ISO, MDY"


def test_an_empty_statement_is_empty(seat: ConnectionSeat) -> None:
    for text in ("", "  ", "-- nothing", ";"):
        assert seat.execute(text, ()).tag == "" and seat.describe(text, []).columns is None


# -- the catalogue

def test_the_catalogue_knows_the_tables_of_the_analyst(seat: ConnectionSeat) -> None:
    listed = "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' AND relnamespace <> 11 ORDER BY 1"
    before = spent(seat)
    before_it = rows(seat.execute(listed, ()))
    assert {("clinics",), ("people",), ("scores",), ("visits",)} <= {*before_it} and ("here",) not in before_it
    assert spent(seat) == before
    seat.execute("CREATE SYNTHETIC TABLE here AS SELECT sex FROM people", ())
    assert ("here",) in rows(seat.execute(listed, ()))
    seat.execute("DROP SYNTHETIC TABLE here", ())
    assert ("here",) not in rows(seat.execute(listed, ()))
    assert rows(seat.execute("SELECT current_user, current_database(), 1", ())) == [("ada", "study", 1)]


def test_a_constant_that_the_catalogue_does_not_know_is_one_of_dpsql(seat: ConnectionSeat) -> None:
    assert rows(seat.execute("SELECT 1 + 1 AS two", ())) == [(2,)]
    assert refusal(seat, "SELECT nothing_at_all(1)").sqlstate == "42883"


def test_a_mixed_question_is_refused(seat: ConnectionSeat) -> None:
    before = spent(seat)
    refusal(seat, "SELECT COUNT(*) FROM people, pg_catalog.pg_class")
    assert spent(seat) == before


# -- errors

@pytest.mark.parametrize(("text", "state", "position"), [
    ("SELECT COUNT(*) FROM peeple", "42P01", 22), ("SELECT AVG(agee) FROM people", "42703", 12), ("SELECT COUNT(*) FRM people", "42601", None),
    ("SELECT AVG(sex) FROM people", "42804", None), ("SELECT * FROM people", "0A000", None), ("DELETE FROM people", "0A000", 1),
    ("SELECT foo(age) FROM people", "42883", None), ("SELECT age, COUNT(*) FROM people GROUP BY sex", "42803", None),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = -1) COUNT(*) FROM people", "22023", 43),
    ("SELECT COUNT(*) FROM people WHERE age > $1", "42P02", None),
])
def test_errors_have_a_state_a_place_and_a_way_out(text: str, state: str, position: int | None, seat: ConnectionSeat) -> None:
    told = refusal(seat, text)
    assert told.sqlstate == state and told.severity == "ERROR" and told.message
    assert position is None or told.position == position
    assert told.__cause__ is None and told.__suppress_context__ and (told.hint or state == "42601")


def test_a_budget_that_cannot_pay_has_a_state_of_its_own(project: Path) -> None:
    seat = seats(lambda user, database: dpsql.connect(project / "people.duckdb", budget="pure", analyst=user, epsilon=1))("ada", "study", {})
    seat.execute("SELECT COUNT(*) FROM people", ())
    told = refusal(seat, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 999.5) COUNT(*) FROM people")
    assert told.sqlstate == "53400" and told.position == 43 and "has left" in told.message
    seat.close()


def test_a_seat_that_cannot_be_opened_is_refused(project: Path) -> None:
    with pytest.raises(RefusedOnWire) as told:
        seats(lambda user, database: dpsql.connect(project / "people.duckdb", budget=database))("ada", "nothing", {})
    assert told.value.sqlstate


# -- cancellation

def test_a_cancelled_statement_ends_soon_and_says_that_it_was_charged(seat: ConnectionSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Kernel._look

    def looking(kernel: Kernel, *given: object) -> object:
        kernel._reader.rows("SELECT COUNT(*) FROM range(30000000000) AS t(x) WHERE x % 3 = 0")
        return looks(kernel, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "_look", looking)
    before, began = spent(seat), time.monotonic()
    threading.Timer(0.5, seat.cancel).start()
    told = refusal(seat, "SELECT COUNT(*) FROM scores WHERE points > 1")
    assert time.monotonic() - began < 20 and told.sqlstate == "57014" and "the charge is kept" in told.detail
    assert spent(seat) != before
    monkeypatch.undo()
    assert rows(seat.execute("SELECT COUNT(*) FROM scores WHERE points > 2", ()))


def test_a_statement_that_takes_longer_than_its_time_ends_as_if_cancelled(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seat = seats(lambda user, database: dpsql.connect(project / "people.duckdb", budget="person", analyst=user, epsilon=1, delta=1e-6))("eve", "study", {})
    looks = Kernel._look

    def looking(kernel: Kernel, *given: object) -> object:
        kernel._reader.rows("SELECT COUNT(*) FROM range(30000000000) AS t(x) WHERE x % 3 = 0")
        return looks(kernel, *given)  # type: ignore[arg-type]

    seat.execute("SET statement_timeout = '0.5s'", ())
    monkeypatch.setattr(Kernel, "_look", looking)
    before, began = spent(seat), time.monotonic()
    told = refusal(seat, "SELECT COUNT(*) FROM scores WHERE points > 3")
    assert 0.4 < time.monotonic() - began < 20 and told.sqlstate == "57014" and "statement timeout" in told.message
    assert "(ε = 1), and the charge is kept" in told.detail and spent(seat) != before
    monkeypatch.undo()
    seat.execute("RESET statement_timeout", ())
    assert rows(seat.execute("SELECT COUNT(*) FROM scores WHERE points > 4", ())), "the next one is not meant"
    assert seat._connection.session.ledger.failed(seat._connection.session.account) == []
    seat.close()


def test_a_statement_that_is_stopped_before_its_charge_costs_nothing(seat: ConnectionSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = seat._connection.session.interrupted
    monkeypatch.setattr(charging, "go_on", lambda: (interrupted.wait(20), go_on()))
    seat.execute("SET statement_timeout = 100", ())
    before = spent(seat)
    told = refusal(seat, "SELECT COUNT(*) FROM scores WHERE points > 2.5")
    assert (told.sqlstate, told.detail) == ("57014", "Nothing was charged.") and spent(seat) == before


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("1500", 1.5), ("2min", 120), ("1h", 3600), ("250 ms", 0.25), ("'30s'", 30)])
def test_times_are_written_as_in_postgresql(text: str, seconds: float, seat: ConnectionSeat) -> None:
    seat.execute(f"SET statement_timeout TO {text}", ())
    assert seat._settings.timeout == seconds
    seat.execute("RESET statement_timeout", ())
    assert refusal(seat, "SET statement_timeout = 'soon'").sqlstate == "22023" and seat._settings.timeout == 0


def test_a_statement_may_ask_to_leave_later(seat: ConnectionSeat) -> None:
    for text, seconds in (("'2s'", 2), ("'1h'", 3600), ("0", 0), ("250", 0.25)):
        seat.execute(f"SET pace = {text}", ())
        assert seat._settings.pace == seconds and rows(seat.execute("SHOW pace", ())) == [(text.strip("'"),)]
    for wrong in ("'soon'", "'61min'", "-1"):
        assert refusal(seat, f"SET pace = {wrong}").sqlstate == "22023" and seat._settings.pace == 0.25
    seat.execute("RESET pace", ())
    assert seat._settings.pace == 0


def test_options_of_a_connection_are_settings() -> None:
    found = Settings(version="15.0", startup={"options": "-c statement_timeout=5s --jit=off -c application_name=a\\ b"})
    assert found.timeout == 5 and found.values["application_name"] == "a b"
    with pytest.raises(OptionError):
        Settings(version="15.0", startup={"statement_timeout": "soon"})


def test_many_cancellations_of_a_statement_take_one_thread(seat: ConnectionSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ran a thread of its own until the statement was over, and all of them interrupted it again and again."""
    begun, over, asked = threading.Event(), threading.Event(), list[str]()

    def looking(kernel: Kernel, *given: object) -> object:
        begun.set()
        assert over.wait(20)
        raise ReaderInterrupted

    monkeypatch.setattr(Kernel, "_look", looking)
    asking = threading.Thread(target=lambda: asked.append(refusal(seat, "SELECT COUNT(*) FROM scores WHERE points > 3").sqlstate))
    asking.start()
    assert begun.wait(20)
    before = threading.active_count()
    for _ in range(200):
        seat.cancel()
    assert threading.active_count() <= before + 1
    over.set()
    asking.join(20)
    assert asked == ["57014"]


def test_a_cancellation_of_the_next_statement_is_not_lost_while_one_is_under_way() -> None:
    interruption, first, second = Interruption(), threading.Event(), threading.Event()
    waiting = threading.Event()

    def slow() -> None:
        first.set()
        assert waiting.wait(20)
        raise ValueError("which ends no thread")

    interruption.begin(slow)
    assert first.wait(20)
    interruption.begin(second.set)
    waiting.set()
    assert second.wait(20)
    third = threading.Event()
    interruption.begin(third.set)
    assert third.wait(20)


def test_where_nothing_runs_nothing_is_cancelled(seat: ConnectionSeat) -> None:
    seat.cancel()
    assert rows(seat.execute("SELECT COUNT(*) FROM people WHERE age > 50", ()))
