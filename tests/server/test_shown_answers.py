"""Stored answers that are shown again without planning: only what would be shown with it, to whom it was shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.grammar_sentences import accepted
from support.sessions import open_ledger, reader_of, session_of
from support.vaults import remote, vault_of

from dpsql.catalog.price import Price
from dpsql.dbapi import Connection
from dpsql.errors import OperationalError
from dpsql.kernel.ledger import Ledger
from dpsql.server import seat as seats
from dpsql.server.answers_on_wire import OutcomeOnWire, RefusedOnWire
from dpsql.server.seat import ConnectionSeat
from dpsql.server.shown_answers import MOST_OF_ONE, LatelyShown, ShownToAccounts, key_of
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

TEXT = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
Open = Callable[..., ConnectionSeat]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with_rows = open_ledger(tmp_path)
    yield with_rows
    with_rows.close()


@pytest.fixture
def opened(tmp_path: Path, ledger: Ledger) -> Open:
    """Opens seats of a front, which share what was shown, for users of one vault; the rows are of a version."""
    shown, world, kept = ShownToAccounts(), worlds.world(people=60), list[ConnectionSeat]()  # a vault that nobody uses closes the ledger

    def open_seat(user: str, version: str = "v1") -> ConnectionSeat:
        vault = vault_of(lambda name: session_of(tmp_path, reader=reader_of(world, version), ledger=ledger, analyst=name))
        kept.append(ConnectionSeat(Connection(remote(vault, user)), user=user, database="d", startup={}, shown=shown))
        return kept[-1]

    return open_seat


def taken(found: OutcomeOnWire) -> tuple[Any, ...]:
    return found.tag, found.columns, list(found.rows), found.notices


def without_planning(seat: ConnectionSeat, monkeypatch: pytest.MonkeyPatch, text: str, parameters: tuple[object, ...] = ()) -> tuple[Any, ...]:
    with monkeypatch.context() as nothing:
        nothing.setattr(seats, "read_setting", lambda *given: pytest.fail("this was planned"))
        return taken(seat.execute(text, parameters))


def cost(found: tuple[Any, ...]) -> str:
    return str(found[3][0].text)


@pytest.mark.parametrize(("text", "parameters"), [
    (TEXT, ()), ("SELECT COUNT(*) FROM people WHERE age > $1", (30,)), (f"SELECT MAX(n) FROM ({TEXT}) AS t", ()),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) AVG(age) AS mean FROM people", ())])
def test_what_is_asked_again_is_shown_again(text: str, parameters: tuple[object, ...], opened: Open, ledger: Ledger,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    seat = opened("ada")
    first, second = (taken(seat.execute(text, parameters)) for _ in range(2))
    events = ledger.events
    assert cost(first).startswith("cost: ε") and cost(second) == "cost: nothing, as this was answered before"
    other = opened("ada")
    for asked in (seat, seat, other):
        assert without_planning(asked, monkeypatch, text, parameters) == second
    assert second[:3] == first[:3] and ledger.events == events


def test_columns_are_shown_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    seat, text = opened("ada"), "SELECT COUNT(*) FROM people WHERE age > $1"
    first = seat.describe(text, [None])
    monkeypatch.setattr(seats, "read_setting", lambda *given: pytest.fail("this was planned"))
    assert seat.describe(text, [None]) == first and first.parameters == ("BIGINT",)
    with pytest.raises(pytest.fail.Exception):
        seat.describe(text, ["DOUBLE"])


def test_nobody_is_shown_what_another_account_was_shown(opened: Open, ledger: Ledger) -> None:
    ada, eve = opened("ada"), opened("eve")
    shown = [taken(ada.execute(TEXT, ())) for _ in range(3)]
    events = ledger.events
    found = taken(eve.execute(TEXT, ()))
    assert cost(found).startswith("cost: ε") and ledger.events == events + 2, "a charge and an answer of their own"
    assert found[2] != shown[0][2]


def test_other_terms_values_and_data_are_other_answers(opened: Open, ledger: Ledger) -> None:
    seat, text = opened("ada"), "SELECT COUNT(*) FROM people WHERE age > $1"
    for _ in range(3):
        seat.execute(text, (30,))
    for asked in (lambda: seat.execute(text, (31,)), lambda: opened("ada", "v2").execute(text, (30,)),
                  lambda: (seat.execute("SET epsilon = 0.5", ()), seat.execute(text, (30,)))[1]):
        events = ledger.events
        assert cost(taken(asked())).startswith("cost: ε") and ledger.events == events + 2


def test_whoever_may_not_ask_any_more_is_shown_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    seat = opened("ada")
    for _ in range(3):
        seat.execute(TEXT, ())

    def removed() -> None:
        raise OperationalError("the user was removed or has another password", code="user")

    monkeypatch.setattr(seat._connection.session.kernel, "check", removed)
    with pytest.raises(RefusedOnWire):
        seat.execute(TEXT, ())
    with pytest.raises(RefusedOnWire):
        seat.describe(TEXT, [])


def test_data_that_change_meanwhile_are_asked_anew(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vault tells another version at the next statement: what was shown before is no answer any more."""
    seat = opened("ada")
    for _ in range(3):
        seat.execute(TEXT, ())
    kernel: Any = seat._connection.session.kernel
    monkeypatch.setattr(kernel, "check", lambda: setattr(kernel, "version", "v2"))
    monkeypatch.setattr(seats, "read_setting", lambda *given: (_ for _ in ()).throw(OperationalError("planned", code="planned")))
    with pytest.raises(RefusedOnWire, match="planned"):
        seat.execute(TEXT, ())


def test_tables_of_an_account_are_not_kept(opened: Open) -> None:
    """Another table may have the same name later."""
    seat, text = opened("ada"), "SELECT sex, COUNT(*) FROM made GROUP BY sex"
    seat.execute("CREATE SYNTHETIC TABLE made AS SELECT sex FROM people", ())
    for _ in range(3):
        seat.execute(text, ())
    seat.execute("SELECT city, COUNT(*) FROM clinics GROUP BY city", ())
    assert seat._shown.answers.size == 0


def test_values_are_told_apart(opened: Open) -> None:
    session = opened("ada")._connection.session
    values = [1, 1.0, True, "1", Decimal(1), Decimal("1.0"), 0.0, -0.0, None, "None", dt.date(2000, 1, 1), dt.datetime(2000, 1, 1),
              float("nan")]
    assert len({key_of(session, TEXT, (value,)) for value in values}) == len(values)
    assert len({key_of(session, TEXT, values), key_of(session, TEXT + " ", values), key_of(session, TEXT, values[::-1])}) == 3
    for change in ({"analyst": "eve"}, {"policy": "x"}, {"price": Price(epsilon=Fraction(2))}, {"confidence": Fraction(1, 2)}):
        assert key_of(replace(session, **change), TEXT, ()) != key_of(session, TEXT, ())


def test_memory_is_bounded() -> None:
    kept = LatelyShown[int](100)
    for number in range(5):
        kept.keep(number, number, 30)
        assert kept.find(0) == 0, "the one that is asked for stays"
    assert [number for number in range(5) if kept.find(number) is not None] == [0, 3, 4] and kept.size == 90
    kept.keep(0, 7, 10)
    assert kept.find(0) == 7 and kept.size == 70
    kept.keep("large", 1, 101)
    assert kept.find("large") is None and kept.size == 70
    large = LatelyShown[int]()
    large.keep(1, 1, MOST_OF_ONE + 1)
    assert large.find(1) is None


PROBES = ["SELECT * FROM people LIMIT 0", "SELECT * FROM people WHERE (1 = 0)", "SELECT * FROM people WHERE FaLsE", "SELECT a FROM t limit/**/0",
          "SELECT * FROM (SELECT sex FROM people) AS t WHERE 1 <> 1", "SELECT * FROM people WHERE 0 != 0 AND age > 3", "SELECT * FROM people WHERE 1 == 2"]


def test_a_text_that_may_be_no_probe_is_none() -> None:
    """It would be charged."""
    checked = 0
    for text in (*accepted(), *PROBES):
        try:
            statement = parse(text)
        except Exception:
            continue
        if isinstance(statement, Query) and seats.has_no_row(statement.tree):
            assert seats.may_be_probe(text), text
            checked += 1
    assert checked >= len(PROBES) and not seats.may_be_probe("SELECT COUNT(*) FROM people WHERE age < 30")
