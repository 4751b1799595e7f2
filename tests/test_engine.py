"""The river from text to answer: what happens in which order, what is charged, what is stored, what is refused."""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.sessions import open_ledger, reader_of, session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.audit.prepared import Remembering
from dpsql.catalog.price import price
from dpsql.engine.accounts import budget_of, releases_of
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted, DataError, Error, Incident, OptionError, ProgrammingError, SqlError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.planning.explain import Explanation
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.reader import ReaderFault

PRIVATE = ("people", "visits", "scores", "households")
COUNT = "SELECT COUNT(*) FROM people"


class Watched(Remembering):
    """A reader that tells what is read. (Nothing is remembered: every read is told.)"""

    def __init__(self, reader: Any, events: list[str], fault: Callable[[], BaseException] | None = None) -> None:
        super().__init__(reader)
        self._events, self._fault = events, fault

    def rows(self, sql: str, parts: Any = ()) -> list[tuple[Any, ...]]:
        self._tell(sql)
        return list(self._reader.rows(sql))

    def arrays(self, sql: str, parts: Any = ()) -> Any:
        self._tell(sql)
        return self._reader.arrays(sql)

    def columns(self, sql: str, parts: Any = ()) -> Any:
        self._tell(sql)
        return self._reader.columns(sql)

    def _tell(self, sql: str) -> None:
        private = any(f'"{table}"' in sql for table in PRIVATE)
        self._events.append("private" if private else "public")
        if private and self._fault is not None:
            raise self._fault()


class Told(ReportingLedger):
    """A ledger that tells when it writes."""

    told: list[str]

    def charge(self, *args: Any, **kwargs: Any) -> int:
        seq = super().charge(*args, **kwargs)
        self.told.append("charge")
        return seq

    def answer(self, charged: int, body: str, late: int = 0, *, crowded: bool = False) -> None:
        super().answer(charged, body, late, crowded=crowded)
        self.told.append("stored")


def watched(folder: Path, events: list[str], **more: Any) -> Session:
    open_ledger(folder).close()
    ledger = Told(folder / "test.ledger")
    ledger.told = events
    fault = more.pop("fault", None)
    return session_of(folder, ledger=ledger, around=lambda reader: Watched(reader, events, fault), **more)


def rows_of(text: str, session: Session, parameters: Any = ()) -> Any:
    made = answer(text, session, parameters)
    assert isinstance(made, Answer)
    return made.rows


# -- the order of events

# Rows that no entity can move, as the public side happens to be empty: private all the same.
NOWHERE = "(SELECT clinic, beds FROM clinics WHERE beds > 99) AS c"
NO_PARTNERS = [
    f"SELECT COUNT(*) FROM visits JOIN {NOWHERE} USING (clinic)", f"SELECT COUNT(*), SUM(age) FROM people CROSS JOIN {NOWHERE}",
    f"SELECT COUNT(*) FROM people WHERE age > (SELECT COUNT(*) FROM visits JOIN {NOWHERE} USING (clinic))",
    f"SELECT COUNT(*) FROM {NOWHERE} WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic)",
    f"SELECT COUNT(*) FROM visits v WHERE v.clinic IN (SELECT w.clinic FROM visits w JOIN {NOWHERE} USING (clinic) "
    "WHERE w.clinic IS NOT NULL) AND v.person_id = 3",
]
TEXTS = [
    COUNT, "SELECT sex, AVG(income), MEDIAN(age) FROM people GROUP BY sex", "SELECT SUM(points) FROM scores",
    "SELECT nickname, COUNT(*) FROM people GROUP BY nickname", "SELECT AVG(weight) FROM people",
    "SELECT city, COUNT(*) FROM visits JOIN clinics USING (clinic) WHERE clinic IN (SELECT clinic FROM clinics) GROUP BY city",
    "SELECT COUNT(*) FROM people a JOIN people b ON a.household_id = b.household_id AND a.age < b.age", *NO_PARTNERS,
]


def in_order(events: Sequence[str]) -> bool:
    """Nothing private is read before the charge, and nothing at all happens after the answer is stored."""
    return "charge" in events and "private" not in events[: events.index("charge")] and events[-1] == "stored"


@pytest.mark.parametrize("text", TEXTS)
def test_a_statement_is_charged_before_rows_are_read_and_stored_before_it_is_told(text: str, tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events)
    answer(text, session)
    assert in_order(events) and "private" in events, events


def test_a_kernel_that_charges_last_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(self: Kernel, script: Any, *, cost: Any, account: Any, limits: Any, digest: str, sql: str, encode: Any,
             **more: Any) -> Any:
        made = self._serve(script, cost)
        seq = self._ledger.charge(account, cost.rounded(), digest=digest, data=self.version, sql=sql, allows=limits)
        self._ledger.answer(seq, encode(made))
        return made

    monkeypatch.setattr(Kernel, "run", late)
    events: list[str] = []
    answer(COUNT, watched(tmp_path, events))
    assert not in_order(events)


@pytest.mark.parametrize("text", [
    "EXPLAIN PRIVACY " + TEXTS[1], "SHOW BUDGET", "SHOW TABLES", "SHOW RELEASES", "DESCRIBE people",
    "SELECT COUNT(*) FROM clinics", "SELECT DISTINCT sex FROM people"])
def test_what_is_free_reads_nothing_private_and_charges_nothing(text: str, tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events)
    answer(text, session)
    assert set(events) <= {"public"} and session.ledger.spent("person").rho == 0


@pytest.mark.parametrize("text", [
    "SELECT * FROM people", "SELECT COUNT(*) FROM nowhere", "SELECT COUNT(*) FROM people WHERE age = (SELECT age FROM people)",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = -1) COUNT(*) FROM people", "not sql", "SELECT person_id FROM people",
    "SELECT person_id, COUNT(*) FROM visits GROUP BY person_id"])
def test_what_is_refused_reads_nothing_private_and_charges_nothing(text: str, tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events)
    with pytest.raises(Error):
        answer(text, session)
    assert set(events) <= {"public"} and session.ledger.entries("person") == []


# -- incidents

FAULTS: dict[str, Callable[[], BaseException]] = {
    "the reader fails": ReaderFault, "a conversion fails": lambda: ValueError("year 10000 is out of range"),
    "memory is out": MemoryError, "the process is told to go": SystemExit, "a rule is broken": lambda: AssertionError("secret")}


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_fails_after_the_charge_is_the_same_incident(name: str, tmp_path: Path) -> None:
    session = watched(tmp_path, [], fault=FAULTS[name])
    with pytest.raises(Incident) as caught:
        answer(COUNT, session)
    fault: BaseException | None = caught.value
    assert str(fault) == str(Incident().located(COUNT)) and fault is not None
    assert fault.__cause__ is None and fault.__context__ is None
    (entry,) = releases_of(session)
    assert entry.body is None and entry.charge.epsilon == 10**9, "the charge is kept"
    with pytest.raises(Incident):
        answer(COUNT, session)  # it is not an answer that could be told again
    assert len(releases_of(session)) == 2


def test_an_interruption_stays_one_and_keeps_the_charge(tmp_path: Path) -> None:
    session = watched(tmp_path, [], fault=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        answer(COUNT, session)
    assert caught.value.args == () and caught.value.__context__ is None
    assert session.ledger.spent("person").epsilon == 10**9


def test_a_failure_to_store_the_answer_tells_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ReportingLedger, charged: int, body: str) -> None:
        raise OSError(f"no space for {body}")

    session = session_of(tmp_path)
    monkeypatch.setattr(ReportingLedger, "answer", full)
    with pytest.raises(Incident) as caught:
        answer(COUNT, session)
    assert caught.value.__context__ is None


# -- stored answers


def test_the_same_question_has_the_same_answer_for_nothing(tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events)
    first = answer("SELECT sex, COUNT(*), AVG(age) FROM people WHERE age > 3 GROUP BY sex", session)
    spent = session.ledger.spent("person")
    events.clear()
    again = answer("select  sex , count(*), Avg(people.age) from PEOPLE where (age > 3) group by 1 -- again", session)
    assert isinstance(first, Answer) and isinstance(again, Answer)
    assert not first.stored and again.stored
    assert (again.rows, again.errors, again.intervals) == (first.rows, first.errors, first.intervals)
    assert [column.name for column in again.columns] == ["sex", "count(*)", "Avg(people.age)"], "under the names it has now"
    assert session.ledger.spent("person") == spent and "private" not in events


@pytest.mark.parametrize("other", [
    "SELECT COUNT(*) FROM people WHERE age > 4", "SELECT COUNT(age) FROM people WHERE age > 3 AND age > 3",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.9) COUNT(*) FROM people WHERE age > 3",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (confidence = 0.9) COUNT(*) FROM people WHERE age > 3",
    "SELECT COUNT(*) FROM visits WHERE year > 3", "SELECT COUNT(*) + 1 FROM people WHERE age > 3",
    "SELECT COUNT(*) FROM people WHERE age > 3.0 + 0"])
def test_another_question_is_charged(other: str, tmp_path: Path) -> None:
    session = session_of(tmp_path)
    answer("SELECT COUNT(*) FROM people WHERE age > 3", session)
    made = answer(other, session)
    assert isinstance(made, Answer) and not made.stored and len(releases_of(session)) == 2


def test_parameters_are_a_part_of_the_question(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    text = "SELECT COUNT(*) FROM people WHERE age > ?"
    flags = [made.stored for value in (3, 4, 3, 3.0) if isinstance(made := answer(text, session, [value]), Answer)]
    assert flags[:3] == [False, False, True]
    written = answer("SELECT COUNT(*) FROM people WHERE age > 4", session)
    assert isinstance(written, Answer) and written.stored


def test_an_answer_belongs_to_its_analyst_its_data_and_its_policy(tmp_path: Path) -> None:
    reader = reader_of(worlds.world(people=200))
    ada = session_of(tmp_path, reader=reader, digest="one")
    first = rows_of(COUNT, ada)
    for other in (session_of(tmp_path, reader=reader, digest="one", analyst="bob", ledger=ada.ledger),
                  session_of(tmp_path, reader=reader_of(worlds.world(people=200), "v2"), digest="one", ledger=ada.ledger),
                  session_of(tmp_path, reader=reader, digest="two", ledger=ada.ledger),
                  session_of(tmp_path, reader=reader, digest="one", budget="pure", at={"epsilon": 1}, ledger=ada.ledger)):
        made = answer(COUNT, other)
        assert isinstance(made, Answer) and not made.stored
    assert rows_of(COUNT, ada) == first


def test_the_releases_of_others_are_not_listed(tmp_path: Path) -> None:
    ada, bob = session_of(tmp_path), session_of(tmp_path, analyst="bob")
    answer(COUNT, ada)
    assert [entry.sql for entry in releases_of(ada)] == [COUNT] and releases_of(bob) == []


# -- budgets

TIGHT = worlds.POLICY.replace('[budgets.person]\nentity = "person"\nepsilon = 1000\ndelta = 0.01\n',
                              '[budgets.person]\nentity = "person"\nepsilon = 1\n'
                              '[budgets.person.analysts.ada]\nepsilon = 0.7\n[budgets.person.per_analyst]\nepsilon = 0.4\n')


def priced(epsilon: str, text: str = "COUNT(*) FROM people") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}) {text}"


def test_a_budget_that_is_spent_reads_nothing_and_says_what_is_left(tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events, policy=TIGHT)
    answer(priced("0.6"), session)
    events.clear()
    with pytest.raises(BudgetExhausted) as caught:
        answer(priced("0.2"), session)
    assert events == [] and len(releases_of(session)) == 1
    assert "ε = 0.2" in caught.value.reason and "ada" in caught.value.reason and "14.2 %" in caught.value.reason
    answer(priced("0.1"), session)
    assert isinstance(stored := answer(priced("0.6"), session), Answer) and stored.stored, "what was answered stays free"


@pytest.mark.parametrize("policy", ["pure", "delta", "rho"])
def test_a_refusal_tells_the_price_that_is_left(policy: str, tmp_path: Path) -> None:
    totals = {"pure": "epsilon = 0.7", "delta": "epsilon = 0.7\ndelta = 1e-6", "rho": "rho = 0.01"}
    session = session_of(tmp_path, policy=worlds.POLICY.replace("epsilon = 1000\ndelta = 0.01", totals[policy], 1), at={})
    name = "rho" if policy == "rho" else "epsilon"
    spent, more, least = ("0.0073", "0.003", "0.0027") if policy == "rho" else ("0.61", "0.1", "0.09")
    answer(priced(spent).replace("epsilon", name), session)
    text = priced(more).replace("epsilon", name)
    with pytest.raises(BudgetExhausted) as caught:
        answer(text, session)
    assert caught.value.try_.startswith(f"OPTIONS ({name} = {least}), or ") and caught.value.subject == "all"
    assert caught.value.as_dict()["column"] == text.index(name) + 1
    answer(priced(least).replace("epsilon", name), session)
    with pytest.raises(BudgetExhausted) as caught:
        answer(text, session)
    if policy != "delta":  # there rho, which all of this left unspent, is another account
        assert caught.value.try_ == "a statement that was answered before, which is free"


def test_the_price_that_is_left_is_one_that_all_accounts_have(tmp_path: Path) -> None:
    """More than the total is left to nobody; what is told to be left is the analyst's share, which is less, and can be spent."""
    ada = session_of(tmp_path, policy=TIGHT, analyst="ada")
    with pytest.raises(BudgetExhausted) as caught:
        answer(priced("100"), ada)
    told = re.match(r"OPTIONS \(epsilon = ([0-9.]+)\)", caught.value.try_)
    assert told is not None and caught.value.subject == "all"
    with pytest.raises(BudgetExhausted, match="the budget of ada"):
        answer(priced(str(float(told[1]) + 0.01)), ada)
    answer(priced(told[1]), ada)


def test_limits_of_analysts_and_the_total_bind_together(tmp_path: Path) -> None:
    ada, bob, cyd = (session_of(tmp_path, policy=TIGHT, analyst=name) for name in ("ada", "bob", "cyd"))
    answer(priced("0.5"), ada)
    with pytest.raises(BudgetExhausted, match="the budget of bob has left: 100 %"):
        answer(priced("0.45"), bob)
    answer(priced("0.4"), bob)
    with pytest.raises(BudgetExhausted, match="the budget has left: 10 %"):
        answer(priced("0.2"), cyd)
    answer(priced("0.1"), cyd)
    state = budget_of(bob)
    assert [account.whose for account in state.accounts] == [None, "bob"] and state.statements == 3
    assert state.accounts[0].left().startswith("0 %, about 0 more statements like the last (ε = 0.4)")


def test_ten_tenths_are_one(tmp_path: Path) -> None:
    session = session_of(tmp_path, policy=TIGHT.replace("epsilon = 0.7", "epsilon = 1"))
    for i in range(10):
        answer(priced("0.1", f"COUNT(*) FROM people WHERE age > {i}"), session)
    with pytest.raises(BudgetExhausted):
        answer(priced("1e-9"), session)


def test_connections_that_race_spend_no_more_than_there_is(tmp_path: Path) -> None:
    """Twelve statements of 0.1 from four threads, each with a connection of its own, against 0.7."""
    reader = Remembering(reader_of(worlds.world()))
    sessions = [session_of(tmp_path, reader=reader, noise=Exact(), policy=TIGHT) for _ in range(4)]
    outcomes: list[str] = []

    def ask(number: int) -> None:
        for i in range(3):
            try:
                answer(priced("0.1", f"COUNT(*) FROM people WHERE age > {3 * number + i}"), sessions[number])
                outcomes.append("answered")
            except BudgetExhausted:
                outcomes.append("refused")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["answered"] * 7 + ["refused"] * 5
    assert open_ledger(tmp_path).spent("person", "ada").epsilon == 7 * 10**8


@pytest.mark.parametrize(("text", "code"), [
    (COUNT, "no-price"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.5) COUNT(*) FROM people", "price"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, delta = 1e-6) COUNT(*) FROM people", "price")])
def test_a_price_must_be_one_that_the_budget_can_hold(text: str, code: str, tmp_path: Path) -> None:
    session = session_of(tmp_path, budget="pure", at={})
    with pytest.raises(OptionError) as caught:
        answer(text, session)
    assert caught.value.code == code and session.ledger.entries("pure") == []


def test_public_statements_need_no_price_and_are_exact(tmp_path: Path) -> None:
    session = session_of(tmp_path, at={})
    made = answer("SELECT city, COUNT(*), SUM(beds) FROM clinics GROUP BY city ORDER BY city", session)
    assert isinstance(made, Answer)
    assert made.rows == (("Oslo", 2, 30), ("Rome", 1, 5), (None, 1, None)) and made.cost == "" and not made.stored
    assert all(column.exact for column in made.columns)
    assert isinstance(answer("EXPLAIN PRIVACY SELECT COUNT(*) FROM clinics", session), Explanation)
    assert session.ledger.entries("person") == []


def test_what_is_charged_is_the_price_and_delta_only_where_something_may_fail(tmp_path: Path) -> None:
    session = session_of(tmp_path, at={"epsilon": Fraction(1, 2), "delta": 1e-6})
    for text in (COUNT, "SELECT nickname, COUNT(*) FROM people GROUP BY nickname",
                 "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.01) AVG(age) FROM people"):
        answer(text, session)
    first, second, third = (entry.charge for entry in releases_of(session))
    assert (first.epsilon, first.rho, first.delta) == (5 * 10**8, 125 * 10**6, 0)
    assert second.delta == 4375 * 10**8, "7/16 of the price's delta; the rest pays for rho and for Renyi orders"
    assert (third.epsilon, third.rho, third.delta) == (None, 10**7, 0)


# -- parameters


@pytest.fixture
def exact(tmp_path: Path) -> Session:
    return session_of(tmp_path, worlds.world(people=60), noise=Exact(), at={"epsilon": 5, "delta": 1e-6})


@pytest.mark.parametrize(("text", "given"), [
    ("SELECT COUNT(*) FROM people WHERE age > ? AND sex = ?", [30, "f"]),
    ("SELECT COUNT(*) FROM people WHERE age > $1 AND sex = $2", [30, "f"]),
    ("SELECT COUNT(*) FROM people WHERE sex = $2 AND age > $1", (30, "f")),
    ("SELECT COUNT(*) FROM people WHERE age > :age AND sex = :sex", {"age": 30, "sex": "f"}),
    ("SELECT COUNT(*) FROM people WHERE age > $age AND sex = $sex", {"sex": "f", "age": 30}),
    ("SELECT COUNT(*) FROM people WHERE age > :n AND age > :n AND sex = 'f'", {"n": 30}),
    ("SELECT COUNT(*) FROM people WHERE age > ? AND sex = 'f'", [Decimal(30)]),
    ("SELECT COUNT(*) FROM people WHERE age > ? AND sex = 'f'", [30.0])])
def test_parameters_stand_for_their_values(text: str, given: Any, exact: Session) -> None:
    assert rows_of(text, exact, given) == rows_of("SELECT COUNT(*) FROM people WHERE age > 30 AND sex = 'f'", exact)


@pytest.mark.parametrize(("condition", "value"), [
    ("nickname = ?", "x'y"), ("born > ?", dt.date(1970, 1, 1)), ("born > ?", "1970-01-01"), ("active = ?", True),
    ("nickname = ?", "' OR TRUE --"), ("coalesce(nickname, 'q') = coalesce(?, 'q')", None), ("nickname LIKE ?", "%y")])
def test_parameters_of_every_kind(condition: str, value: Any, exact: Session) -> None:
    printed = "'" + str(value).replace("'", "''") + "'"
    if value is None or isinstance(value, bool):
        printed = "NULL" if value is None else str(value)
    written = f"SELECT COUNT(*) FROM people WHERE {condition.replace('?', printed)}"
    ((expected,),) = exact.kernel._reader.rows(written)
    assert rows_of(f"SELECT COUNT(*) FROM people WHERE {condition}", exact, [value]) == ((expected,),)


@pytest.mark.parametrize(("condition", "given", "written"), [
    ("age = ANY(?)", [[30, 40, None]], "age IN (30, 40)"), ("age <> ALL($1)", [(30, 40)], "age NOT IN (30, 40)"),
    ("age <> ALL(:ages)", {"ages": [None]}, "TRUE"), ("nickname = ANY(?)", [["x'y", "a"]], "nickname IN ('x''y', 'a')"),
    ("age = ANY(?)", [[]], "FALSE"), ("NOT (age = ANY(?))", [[]], "TRUE"),
    ("born = ANY(?) OR sex = ?", [[dt.date(1970, 1, 1)], "f"], "born IN (DATE '1970-01-01') OR sex = 'f'"),
    ("age = ANY(?)", [[*range(4000)]], "age BETWEEN 0 AND 3999"), ("age > ANY(?)", [[30, 40]], "age > 30"),
    ("age <= ALL(?)", [[30, 40]], "age <= 30")])
def test_a_parameter_may_be_a_list(condition: str, given: Any, written: str, exact: Session) -> None:
    ((expected,),) = exact.kernel._reader.rows(f"SELECT COUNT(*) FROM people WHERE {written}")
    assert rows_of(f"SELECT COUNT(*) FROM people WHERE {condition}", exact, given) == ((expected,),)


@pytest.mark.parametrize(("text", "given", "kind"), [
    ("SELECT COUNT(*) FROM people WHERE age = ANY(?)", [30], SqlError),
    ("SELECT COUNT(*) FROM people WHERE age = ANY(?)", [None], SqlError),
    ("SELECT COUNT(*) FROM people WHERE age = ANY(?)", [[[30]]], DataError),
    ("SELECT COUNT(*) FROM people WHERE age = ANY(?)", [[object()]], DataError),
    ("SELECT COUNT(*) FROM people WHERE age = ANY(?)", [["many"]], SqlError),
    ("SELECT COUNT(*) FROM people WHERE age IN (?)", [[30]], DataError),
    ("SELECT COUNT(*) FROM people LIMIT ?", [[1]], DataError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", [], SqlError),
    ("SELECT COUNT(*) FROM people WHERE age > ? AND age < ?", [1], SqlError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", [1, 2], ProgrammingError),
    ("SELECT COUNT(*) FROM people", [1], ProgrammingError),
    ("SELECT COUNT(*) FROM people WHERE age > $2", [1], ProgrammingError),
    ("SELECT COUNT(*) FROM people WHERE age > :a", {"b": 1}, ProgrammingError),
    ("SELECT COUNT(*) FROM people WHERE age > :a", {}, SqlError),
    ("SELECT COUNT(*) FROM people WHERE age > :a", {"a": 1, "b": 2}, ProgrammingError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", "1", ProgrammingError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", b"1", ProgrammingError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", 1, ProgrammingError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", [[1]], DataError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", [object()], DataError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", [b"1"], DataError),
    ("SELECT COUNT(*) FROM people WHERE age > ?", [2**64], DataError),
    ("SELECT COUNT(*) FROM people WHERE nickname = ?", ["a\x00b"], DataError),
    ("SELECT COUNT(*) FROM people WHERE nickname = ?", ["\ud800"], DataError),
    ("SELECT COUNT(*) FROM people WHERE seen = ?", [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], Error),
    ("SELECT COUNT(*) FROM people WHERE age > ?", ["many"], SqlError),
    ("SELECT COUNT(*) FROM people WHERE sex > ?", [1], SqlError),
    ("SELECT COUNT(*) FROM ?", ["people"], Error),
    ("SELECT COUNT(*) FROM people ORDER BY ? LIMIT ?", [1, -1], Error)])
def test_parameters_that_do_not_fit_are_refused(text: str, given: Any, kind: type[Error], exact: Session) -> None:
    with pytest.raises(kind):
        answer(text, exact, given)
    assert releases_of(exact) == []


@pytest.mark.parametrize(("text", "given", "reason", "instead"), [
    ("age > ?", [1, 2], "2 values for 1 parameter", "as many as there are ?"),
    ("age > ?", {"a": 1}, "the statement has no parameter a", "a list of values"),
    ("age > :a", [1], "have names, but the values have none", '{"a": ...}'),
    ("age > :least", {"leest": 1}, "no parameter leest", "least"),
    ("age > 1", {"a": 1}, "no parameter a", "no values"), ("age > 1", [1], "1 value for 0 parameters", "as many"),
    ("age > $1 AND age < ?", [1, 2], "either all ? or all numbered", "$1, $2"),
    ("age > $2", [1, 2], "no parameter $1", "a value for each of $2"), ("age > ?", "30", "a sequence of values", "[18")])
def test_values_and_parameters_that_do_not_match_are_told_apart(text: str, given: Any, reason: str, instead: str,
                                                                exact: Session) -> None:
    with pytest.raises(ProgrammingError) as caught:
        answer(f"SELECT COUNT(*) FROM people WHERE {text}", exact, given)
    assert reason in caught.value.reason and instead in caught.value.try_


@pytest.mark.parametrize("text", ["SHOW BUDGET", "SHOW RELEASES", "DESCRIBE people"])
def test_statements_without_parameters_take_no_values(text: str, exact: Session) -> None:
    with pytest.raises(ProgrammingError):
        answer(text, exact, [1])


@pytest.mark.parametrize(("name", "code", "instead"), [
    ("peple", "unknown-table", "people"), ("unlisted", "undeclared-table", "[tables.unlisted]")])
def test_tables_that_cannot_be_described_are_told_as_in_from(name: str, code: str, instead: str, exact: Session) -> None:
    for text in (f"DESCRIBE {name}", f"SELECT COUNT(*) FROM {name}"):
        with pytest.raises(Error) as caught:
            answer(text, exact)
        assert (caught.value.code, instead in caught.value.try_) == (code, True)
        assert caught.value.as_dict()["column"] == text.index(name) + 1


def test_the_bounds_of_dates_are_dates(tmp_path: Path) -> None:
    session = session_of(tmp_path, policy=worlds.POLICY.replace("born = { range = [1920-01-01, 2020-12-31] }", "born = {}"))
    with pytest.raises(Error) as caught:
        answer("SELECT MIN(born) FROM people", session)
    assert (caught.value.code, "range = [2020-01-01" in caught.value.try_) == ("no-bounds", True)


def test_a_mechanism_that_has_nothing_to_do_is_pointed_at(exact: Session) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, mechanism = 'exponential') COUNT(*) FROM people"
    with pytest.raises(OptionError) as caught:
        answer(text, exact)
    assert caught.value.as_dict()["column"] == text.index("mechanism") + 1 and caught.value.try_


def test_a_limit_may_be_a_parameter(exact: Session) -> None:
    made = rows_of("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY sex LIMIT ? OFFSET ?", exact, [1, 1])
    assert [row[0] for row in made] == ["m"]


def test_another_limit_shows_other_rows_of_the_same_answer(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    text = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n DESC"
    first = answer(f"{text} LIMIT 1", session)
    assert isinstance(first, Answer) and first.size == 1 and not first.stored
    whole = answer(text, session)
    assert isinstance(whole, Answer) and whole.stored and whole.size == 3 and (whole.rows[:1], whole.errors[:1], whole.intervals[:1]) == (first.rows, first.errors, first.intervals)
    for limit, rows in (("LIMIT 2", whole.rows[:2]), ("LIMIT 1 OFFSET 1", whole.rows[1:2]), ("OFFSET 2", whole.rows[2:]), ("LIMIT 0", ())):
        again = answer(f"{text} {limit}", session)
        assert isinstance(again, Answer) and again.stored and again.rows == rows
    assert len(releases_of(session)) == 1


def test_prices_of_a_session_are_exact_numbers() -> None:
    assert price(epsilon=0.1) == price(epsilon=Decimal("0.1"))
