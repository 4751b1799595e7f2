"""Stored answers that are shown again without planning: only what would be shown with it, to whom it was shown."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.golden.comparison import FOLDER, texts
from support.grammar_sentences import accepted, values
from support.sessions import open_ledger, reader_of, session_of
from support.vaults import remote, vault_of

from dpsql.catalog.price import Price
from dpsql.dbapi import Connection
from dpsql.errors import Error, OperationalError
from dpsql.frozen import replace
from dpsql.server.front.statements import seat as seats
from dpsql.server.front.statements.seat import ConnectionSeat
from dpsql.server.front.statements.shown_answers import MOST_OF_ONE, LatelyShown, ShownToAccounts, key_of
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Notice, OutcomeOnWire, RefusedOnWire
from dpsql.server.front.terms.types_on_wire import BINARY
from dpsql.server.front.terms.types_on_wire import TEXT as AS_TEXT
from dpsql.server.front.wire.encoded_rows import _described_row, encoded_description, encoded_rows, encoded_tag
from dpsql.server.front.wire.packets import ENCODED, encoded_notices, notices_of
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.kernel.ledger import Ledger

TEXT = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
EVERY = 6  # of the accepted statements, so that this takes seconds
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


def shown(seat: ConnectionSeat, text: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
    found = asyncio.run(seat.shown_lately(text, parameters))
    return None if found is None else taken(found)


def ask(seat: ConnectionSeat, text: str, parameters: Sequence[object] = ()) -> tuple[Any, ...]:
    """As the wire asks."""
    return shown(seat, text, parameters) or taken(seat.execute(text, parameters))


def on_wire(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """All that a client is sent of it, in text and in binary."""
    tag, columns, rows, notices = found
    return tag, columns, notices, [encoded_rows(OutcomeOnWire(tag=tag, columns=columns, rows=iter(rows), notices=notices), (form,) * len(columns), 10**6)
                                   for form in (AS_TEXT, BINARY)]


def cost(found: tuple[Any, ...]) -> str:
    return str(found[3][0].text)


@pytest.mark.parametrize(("text", "parameters"), [
    (TEXT, ()), ("SELECT COUNT(*) FROM people WHERE age > $1", (30,)), (f"SELECT MAX(n) FROM ({TEXT}) AS t", ()),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (errors = true) AVG(age) AS mean FROM people", ())])
def test_what_is_asked_again_is_shown_again(text: str, parameters: tuple[object, ...], opened: Open, ledger: Ledger) -> None:
    seat = opened("ada")
    assert shown(seat, text, parameters) is None
    first, events = taken(seat.execute(text, parameters)), ledger.events
    assert cost(first).startswith("cost: ε")
    second = shown(seat, text, parameters)
    assert second is not None and second[:3] == first[:3] and cost(second) == "cost: nothing, as this was answered before"
    assert taken(seat.execute(text, parameters)) == second == shown(seat, text, parameters) == shown(opened("ada"), text, parameters)
    assert ledger.events == events


def test_messages_that_are_encoded_once_are_those_of_what_is_sent() -> None:
    """What is kept of them is found by all that they say, whoever they were sent to before."""
    notices = [(Notice(text=text, severity=severity, hint=hint),) for text in ("a", "b\0") for severity in ("NOTICE", "WARNING")
               for hint in ("", "c")]
    columns = [(ColumnOnWire(name=name, kind=kind),) for name in ("a", "b") for kind in ("BIGINT", "DOUBLE")]
    for _ in range(2):
        for told in (*notices, (*notices[0], *notices[1])):
            assert encoded_notices(told) == b"".join(message.to_wire() for message in notices_of(told))
        for shown_, form in itertools.product(columns, (AS_TEXT, BINARY)):
            assert encoded_description(shown_, (form,)) == _described_row(shown_, (form,)).to_wire()
        assert [encoded_tag(f"SELECT {rows}") for rows in (1, 2)] == [b"C\0\0\0\rSELECT %d\0" % rows for rows in (1, 2)]
    made = [encoded_notices(told) for told in notices] + [encoded_description(shown_, (form,)) for shown_ in columns for form in (AS_TEXT, BINARY)]
    assert len({*made}) == len(made)
    assert encoded_notices.cache_info().maxsize == encoded_description.cache_info().maxsize == encoded_tag.cache_info().maxsize == ENCODED


def kept_as_stored(seat: ConnectionSeat, texts: Iterable[str]) -> int:
    """How many of these statements are shown the second time, all of them as they are read from the ledger."""
    checked = 0
    for text in texts:
        try:
            statement = parse(text)
            given = [*values(statement.parameters).values()] if isinstance(statement, Query) and statement.parameters else []
            taken(seat.execute(text, given))
        except (Error, RefusedOnWire, TypeError):
            continue
        again = shown(seat, text, given)
        stored = taken(seat.execute(text, given)) if isinstance(statement, Query) else None
        is_stored = stored is not None and [notice.text for notice in stored[3]][:1] == [seats.STORED]
        assert (again is not None) == (is_stored and seats.names_policy_alone(statement, seat._connection.session.catalog)), text
        if again is not None and stored is not None:
            assert on_wire(again) == on_wire(stored), text
            checked += 1
    return checked


def test_an_answer_is_shown_the_second_time_as_it_is_stored(opened: Open) -> None:
    assert kept_as_stored(opened("ada"), accepted()[::EVERY]) > 50


@pytest.mark.slow
@pytest.mark.long
def test_every_answer_is_shown_the_second_time_as_it_is_stored(opened: Open) -> None:
    assert kept_as_stored(opened("ada"), (*accepted(), *texts(FOLDER / "answers.sql"), *texts(FOLDER / "subqueries.sql"))) > 300


def test_columns_are_told_again(opened: Open) -> None:
    seat, text = opened("ada"), "SELECT COUNT(*) FROM people WHERE age > $1"
    first = seat.describe(text, [None])
    assert asyncio.run(seat.described_lately(text, [None])) == first and first.parameters == ("BIGINT",)
    assert asyncio.run(seat.described_lately(text, ["DOUBLE"])) is None


def test_nobody_is_shown_what_another_account_was_shown(opened: Open, ledger: Ledger) -> None:
    ada, eve = opened("ada"), opened("eve")
    found = [ask(ada, TEXT) for _ in range(3)]
    events = ledger.events
    other = ask(eve, TEXT)
    assert cost(other).startswith("cost: ε") and ledger.events == events + 2, "a charge and an answer of their own"
    assert other[2] != found[0][2]


def test_other_terms_values_and_data_are_other_answers(opened: Open, ledger: Ledger) -> None:
    seat, text = opened("ada"), "SELECT COUNT(*) FROM people WHERE age > $1"
    for _ in range(3):
        ask(seat, text, (30,))
    for asked in (lambda: ask(seat, text, (31,)), lambda: ask(opened("ada", "v2"), text, (30,)),
                  lambda: (ask(seat, "SET epsilon = 0.5"), ask(seat, text, (30,)))[1]):
        events = ledger.events
        assert cost(asked()).startswith("cost: ε") and ledger.events == events + 2


def test_whoever_may_not_ask_any_more_is_shown_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    seat = opened("ada")
    seat.execute(TEXT, ())
    seat.describe(TEXT, ())
    assert shown(seat, TEXT) is not None

    async def removed() -> None:
        raise OperationalError("the user was removed, or the password was changed", code="user")

    monkeypatch.setattr(seat._connection.session.kernel, "check_meanwhile", removed)
    with pytest.raises(RefusedOnWire):
        shown(seat, TEXT)
    with pytest.raises(RefusedOnWire):
        asyncio.run(seat.described_lately(TEXT, []))


def test_data_that_change_meanwhile_are_asked_anew(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vault tells another version at the next statement: what was shown before is no answer any more."""
    seat = opened("ada")
    seat.execute(TEXT, ())
    kernel: Any = seat._connection.session.kernel

    async def changed() -> None:
        kernel._channel.take("v2")

    assert shown(seat, TEXT) is not None
    monkeypatch.setattr(kernel, "check_meanwhile", changed)
    assert shown(seat, TEXT) is None


def test_a_vault_that_is_gone_ends_the_connection(opened: Open) -> None:
    seat = opened("ada")
    seat.execute(TEXT, ())
    channel = seat._connection.session.kernel._channel  # type: ignore[attr-defined]
    channel._vault.shutdown(socket.SHUT_RDWR)
    for _ in range(2):
        with pytest.raises(RefusedOnWire) as told:
            shown(seat, TEXT)
        assert told.value.sqlstate == "08003"


def test_a_check_that_is_given_up_leaves_no_answer_behind(opened: Open) -> None:
    """It would be taken for that of the next call."""
    seat = opened("ada")
    seat.execute(TEXT, ())
    channel = seat._connection.session.kernel._channel  # type: ignore[attr-defined]

    async def given_up() -> None:
        asked = asyncio.create_task(seat.shown_lately(TEXT, ()))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait({asked})
        assert asked.cancelled()

    asyncio.run(given_up())
    assert channel._vault.fileno() == -1


def test_tables_of_an_account_are_not_kept(opened: Open) -> None:
    """Another table may have the same name later."""
    seat, text = opened("ada"), "SELECT sex, COUNT(*) FROM made GROUP BY sex"
    seat.execute("CREATE SYNTHETIC TABLE made AS SELECT sex FROM people", ())
    for _ in range(3):
        ask(seat, text)
    seat.execute("SELECT city, COUNT(*) FROM clinics GROUP BY city", ())
    assert seat._shown is not None and seat._shown.answers.size == 0


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
