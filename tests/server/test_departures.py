"""Outcomes leave at steps of a public grid: whatever they are, however long they took, and whoever interrupts or stops what."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sessions import open_ledger, reader_of, session_of
from support.vaults import PASSWORD, remote, vault_of
from support.worlds import POLICY, world

from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted, Incident, Interrupted, OperationalError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.front.statements.remote_session import VaultChannel, open_remote_session
from dpsql.server.vault import departure
from dpsql.server.vault.departure import Clock, Leaving, first_step
from dpsql.server.vault.vault import Vault
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel.ledger import Closed
from dpsql.trusted.kernel.run import Departure
from dpsql.trusted.reader import ReaderFault

PACE = 0.125
TEXT = "SELECT COUNT(*) FROM people"
MORE = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
SECONDS = st.floats(0, 1e6, allow_nan=False)


class Hands:
    """A clock that moves when it is waited for, or told to. `meanwhile` is called in the middle of the next wait."""

    def __init__(self) -> None:
        self.time, self.waits = 1000.0, list[float]()
        self.meanwhile: Callable[[], object] | None = None

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        self.waits.append(seconds)
        called, self.meanwhile = self.meanwhile, None
        if called is not None:
            self.time += seconds / 3
            condition.release()
            called()
            condition.acquire()
        else:
            self.time += seconds

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, wait=self.wait)


# -- the law


@given(SECONDS, st.floats(1e-3, 3600))
def test_the_first_step_is_the_first_that_is_not_past(elapsed: float, pace: float) -> None:
    step = first_step(elapsed, pace)
    assert pace * 2**step >= elapsed and (step == 0 or pace * 2 ** (step - 1) < elapsed)


@given(st.lists(SECONDS, min_size=1, max_size=4))
def test_what_is_over_leaves_on_the_grid_and_never_before(taken: list[float]) -> None:
    for seconds in taken:
        hands = Hands()
        leaving = Leaving(PACE, hands.clock)
        hands.time += seconds
        begun, over = 1000.0, hands.time
        left = leaving.hold()
        assert hands.time >= over and left.stopped is None and hands.time - begun == PACE * 2**left.late
        assert leaving.hold() == left and len(hands.waits) <= 1, "decided once"


@given(SECONDS, SECONDS, SECONDS)
def test_after_an_interruption_it_leaves_on_a_grid_that_begins_there(before: float, after: float, again: float) -> None:
    hands = Hands()
    leaving = Leaving(PACE, hands.clock)
    hands.time += before
    leaving.interrupt("request")
    cut = hands.time
    hands.time += after
    leaving.interrupt("request")  # only the first one counts
    over = hands.time
    left = leaving.hold()
    assert left.stopped == "request" and hands.time >= over
    assert hands.time - cut == pytest.approx(PACE * 2**left.late, abs=1e-8)
    hands.time += again
    leaving.interrupt("request")  # too late
    assert leaving.hold() == left


def test_an_interruption_of_the_wait_begins_the_grid_anew() -> None:
    hands = Hands()
    leaving = Leaving(PACE, hands.clock)
    hands.time += 2.5
    hands.meanwhile = lambda: leaving.interrupt("request")
    assert leaving.hold() == Departure(stopped="request")
    assert hands.time == 1000 + 2.5 + (4.0 - 2.5) / 3 + PACE, "neither when it was over, nor the step before it"


@given(st.integers(0, 12), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_neighbours_within_a_step_leave_at_one_time(step: int, here: float, there: float) -> None:
    low, high = (0.0, PACE) if step == 0 else (PACE * 2 ** (step - 1), PACE * 2**step)
    left = set()
    for part in (here, there):
        hands = Hands()
        leaving = Leaving(PACE, hands.clock)
        hands.time += low + part * (high - low)
        left.add((*leaving.hold(), hands.time))
    assert left == {(step, False, None, 1000 + high)}


class Agenda:
    """A clock that moves when it is waited for, and at some times does something."""

    def __init__(self, *due: tuple[float, Callable[[], object]]) -> None:
        self.time, self._due = 1000.0, sorted(due, key=lambda each: each[0])

    def until(self, time: float) -> None:
        while self._due and self._due[0][0] <= time:
            at, act = self._due.pop(0)
            self.time = max(self.time, at)
            act()
        self.time = max(self.time, time)

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        end = self.time + seconds
        if not self._due or self._due[0][0] > end:
            self.time = end
            return
        condition.release()
        self.until(self._due[0][0])
        condition.acquire()

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, wait=self.wait)


def shown(seconds: float, cut: float | None, *, first: tuple[int, int] = (0, 0), others: float | None = None, stops: float = 0.0,
          asked: float = 0.0) -> tuple[tuple[str | None, float], int]:
    """What is seen of a statement that takes so many seconds, or `stops` in so many when it is interrupted at `cut`; others are
    under way from a time on. And whether it was late."""
    underway = departure.StatementsUnderway()
    acts = [] if cut is None else [(1000 + cut, lambda: leaving.interrupt("request"))]
    if others is not None:
        acts.append((1000 + others, lambda: Leaving(PACE, agenda.clock, underway=underway).begin(0, 0)))
    agenda = Agenda(*acts)
    leaving = Leaving(PACE, agenda.clock, underway=underway)
    leaving.asked = asked
    agenda.until(1000.0)
    leaving.begin(*first)
    agenda.until(1000 + (seconds if cut is None or seconds <= cut else min(seconds, cut + stops)))
    left = leaving.hold()
    return (left.stopped, agenda.time), left.late


MOMENTS = st.floats(0, 3)
FIRSTS = st.sampled_from([(0, 0), (0, 2), (1, 1), (2, 4)])


@given(st.lists(MOMENTS, min_size=2, max_size=2), st.none() | MOMENTS, FIRSTS, st.none() | MOMENTS, st.floats(0, 0.5), st.sampled_from([0.0, 0.7]))
def test_whatever_is_seen_to_differ_is_counted_as_late(seconds: list[float], cut: float | None, first: tuple[int, int],
                                                      others: float | None, stops: float, asked: float) -> None:
    """Two databases on which a statement takes different times: a client that interrupts at any time, and others who begin at any
    time, see the same, or see that it was late on one of them."""
    (one, late), (other, later) = (shown(each, cut, first=first, others=others, stops=stops, asked=asked) for each in seconds)
    assert one == other or late or later


def test_a_client_that_interrupts_at_every_millisecond_learns_nothing_of_what_is_on_time() -> None:
    for millisecond in range(400):
        cut = millisecond / 1000
        if cut == PACE:
            continue  # both at once: what is not answered is late then
        seen = {shown(seconds, cut) for seconds in (0.001, 0.05, 0.1, 0.124)}
        assert seen == {(("request", 1000 + cut + PACE), 0) if cut < PACE else ((None, 1000 + PACE), 0)}


def test_an_interruption_that_finds_out_that_a_statement_is_slow_counts_as_late() -> None:
    for millisecond in range(126, 2000, 7):
        (stopped, _), late = shown(10.0, millisecond / 1000)
        assert stopped and late == first_step(millisecond / 1000, PACE) > 0


@pytest.mark.parametrize("others, seconds, step, late", [
    (None, 0.01, 0, 0), (-1, 0.01, 2, 0), (0.1, 0.01, 2, 0), (0.13, 0.01, 0, 0), (0.1, 0.4, 2, 0), (0.13, 0.4, 2, 2), (0.1, 0.9, 3, 3)])
def test_a_crowded_statement_leaves_at_its_own_first_step(others: float | None, seconds: float, step: int, late: int) -> None:
    assert shown(seconds, None, first=(0, 2), others=others) == ((None, 1000 + PACE * 2**step), late)


def test_who_is_under_way_crowds_those_who_begin_until_it_leaves() -> None:
    underway, agenda = departure.StatementsUnderway(), Agenda()
    one, two, three = (Leaving(PACE, agenda.clock, underway=underway) for _ in range(3))
    one.begin(0, 0)
    two.begin(0, 3)
    assert [each.crowded_at for each in (one, two)] == [1000.0, 1000.0]
    one.hold()
    assert two.hold().late == 0 and agenda.time == 1000 + PACE * 8
    three.begin(0, 3)
    assert three.crowded_at == float("inf"), "nobody is there any more"


def test_without_a_pace_nothing_waits() -> None:
    hands = Hands()
    leaving = Leaving(None, hands.clock)
    hands.time += 5
    assert leaving.hold() == Departure() and hands.waits == []


def test_the_usual_clock_waits() -> None:
    leaving = Leaving(0.02)
    threading.Timer(0.005, leaving.interrupt, ("request",)).start()
    begun = leaving._begun
    assert leaving.hold().stopped and departure.Clock().now() - begun >= 0.025


# -- a vault


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """The clock of all departures."""
    made = Hands()
    monkeypatch.setattr("dpsql.server.vault.vault.Leaving", lambda pace, **more: Leaving(pace, made.clock, **more))
    return made


class Slow:
    """A reader whose queries take so many seconds by that clock, and may fail, or call something first."""

    def __init__(self, hands: Hands, seconds: float) -> None:
        self._reader, self._hands, self.seconds, self.fails = reader_of(world(3)), hands, seconds, False
        self.first: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def columns(self, sql: str, parts: Any = ()) -> Any:
        self._hands.time += self.seconds
        self.first()
        if self.fails:
            raise RuntimeError
        return self._reader.columns(sql, parts)


class Books(ReportingLedger):
    """A ledger that tells at which times it writes."""

    hands: Hands
    told: list[tuple[str, float]]

    def _follow_up(self, charged: int, kind: str, body: str | None, late: int, crowded: bool) -> None:
        self.told.append((kind, self.hands.time))
        super()._follow_up(charged, kind, body, late, crowded)


@pytest.fixture
def slow(hands: Hands) -> Slow:
    return Slow(hands, 0.3)


@pytest.fixture
def books(tmp_path: Path, hands: Hands) -> Books:
    open_ledger(tmp_path).close()
    made = Books(tmp_path / "test.ledger")
    made.hands, made.told = hands, []
    return made


@pytest.fixture
def vault(tmp_path: Path, slow: Slow, books: Books) -> Iterator[Vault]:
    policy = POLICY.replace('[budgets.person]\n', '[budgets.person]\nlate = 2\nper_analyst = { epsilon = 2, delta = 1e-3 }\n')

    def opened(user: str) -> Session:
        made = session_of(tmp_path, reader=slow, ledger=books, analyst=user, policy=policy)
        made.kernel.incidents = made.kernel.late = 2
        return made

    made = vault_of(opened, PACE)
    yield made
    made.close()


@pytest.fixture
def ada(vault: Vault, hands: Hands) -> Iterator[Session]:
    made = remote(vault)
    assert hands.time == 1000 + PACE, "a login reads files, so what comes of it is held back, too"
    hands.time = 1000.0
    yield made
    made.close()


def test_an_answer_is_written_and_leaves_at_a_step(ada: Session, hands: Hands, books: Books) -> None:
    assert answer(TEXT, ada).rows  # type: ignore[union-attr]
    assert books.told == [("answer", 1000.5)] and hands.time == 1000.5
    assert books.late("person") == [("ada", 2, 1)]
    assert answer(TEXT, ada).stored and hands.time == 1000.5, "what is stored leaves at once"  # type: ignore[union-attr]


def test_a_quick_answer_is_not_late(ada: Session, hands: Hands, books: Books, slow: Slow) -> None:
    slow.seconds = 0.01
    answer(TEXT, ada)
    assert hands.time == 1000 + PACE and books.late("person") == []


def test_a_failure_is_written_and_leaves_at_a_step(ada: Session, hands: Hands, books: Books, slow: Slow) -> None:
    slow.fails = True
    with pytest.raises(Incident):
        answer(TEXT, ada)
    assert books.told == [("incident", 1000.5)] and hands.time == 1000.5 and books.late("person") == [("ada", 2, 1)]


def test_a_refusal_leaves_at_a_step(ada: Session, hands: Hands, books: Books) -> None:
    asked: Any = ada.kernel
    with pytest.raises(RuntimeError):
        asked._channel.call("run", "no cost", "d", "s", (), ("made", "{}"))
    assert hands.time == 1000 + PACE
    with pytest.raises(BudgetExhausted):
        answer(TEXT.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100)"), ada)
    assert hands.time == 1000 + 2 * PACE and books.told == []


def test_an_account_that_failed_too_often_is_refused_at_a_step(ada: Session, hands: Hands, books: Books, slow: Slow) -> None:
    slow.fails, slow.seconds = True, 0.0
    for text in (TEXT, MORE):
        with pytest.raises(Incident):
            answer(text, ada)
    with pytest.raises(Closed):
        ada.kernel._channel.call("run", pure(Fraction(1, 20)), "d", "s", (), ("made", "{}"))  # type: ignore[attr-defined]
    assert hands.time == 1000 + 3 * PACE


def test_what_is_over_and_interrupted_before_it_leaves_is_stopped(ada: Session, vault: Vault, hands: Hands, books: Books) -> None:
    hands.meanwhile = lambda: interrupt(vault)
    with pytest.raises(Interrupted):
        answer(TEXT, ada)
    cut = 1000.3 + 0.2 / 3
    assert [kind for kind, _ in books.told] == ["stopped"] and hands.time == pytest.approx(cut + PACE)
    entry, = ada.ledger.entries("person", "ada")
    assert ada.ledger.failed(ada.account) == [] and (entry.body, entry.outcome) == (None, "stopped")
    assert books.late("person") == [("ada", 2, 1)], "which tells that it was not over at the first step"
    assert [stop.cause for stop in books.stops("person")] == ["request"]


def test_nobody_tries_out_what_fails_by_interrupting_it_each_time(ada: Session, vault: Vault, hands: Hands, books: Books,
                                                                  slow: Slow) -> None:
    """A front sees that no release comes, so that a statement has failed, before anybody may know; and so it could ask, of one row
    after the other, whether a statement about it fails. Its analyst sees the same as if it had not failed; but it is counted."""
    slow.seconds = 0.01
    for slow.fails, text in zip((True, False, True), SOME, strict=False):
        hands.time, hands.meanwhile = 1000.0, lambda: interrupt(vault)
        with pytest.raises(Interrupted):
            answer(text, ada)
        assert hands.time == pytest.approx(1000.01 + (PACE - 0.01) / 3 + PACE)
    assert [kind for kind, _ in books.told] == ["incident", "stopped", "incident"]
    with pytest.raises(BudgetExhausted, match="closed"):
        answer(SOME[4], ada)


@pytest.mark.parametrize("fault", [ReaderFault("memory"), ReaderFault("disk"), MemoryError()], ids=str)
def test_a_full_memory_is_counted_although_it_is_interrupted_before_it_is_known(fault: Exception, ada: Session, vault: Vault, slow: Slow,
                                                                               books: Books) -> None:
    """The engine gives back what it had, which takes long enough for a front that sees no release to interrupt."""
    def first() -> None:
        interrupt(vault)
        raise fault

    slow.first, slow.seconds = first, 0.01
    for text in SOME[:2]:
        with pytest.raises(Interrupted):
            answer(text, ada)
    assert [kind for kind, _ in books.told] == ["incident", "incident"] and books.stops("person") == []
    with pytest.raises(BudgetExhausted, match="closed"):
        answer(SOME[4], ada)


def interrupt(vault: Vault) -> None:
    """Interrupt the statement that the one channel runs, from another thread, which goes on until the statement is over."""
    account: Any = next(iter(vault._channels.values()))._account
    until_interrupted(account, lambda: account.interrupt(account.number))


def until_interrupted(account: Any, stop: Callable[[], object]) -> None:
    threading.Thread(target=stop, daemon=True).start()
    for _ in range(10_000):
        if account._departure._cause is not None:
            return
        time.sleep(0.001)
    pytest.fail("nothing was interrupted")


def test_one_that_runs_and_is_interrupted_leaves_at_a_step_from_then_on(ada: Session, vault: Vault, hands: Hands, slow: Slow,
                                                                        books: Books) -> None:
    def first() -> None:
        interrupt(vault)
        hands.time += 0.2  # what it still takes to stop

    slow.first = first
    with pytest.raises(Interrupted):
        answer(TEXT, ada)
    assert hands.time == pytest.approx(1000.3 + 2 * PACE) and books.late("person") == [("ada", 2, 1)]


def test_the_slot_and_the_failures_of_an_account_change_when_it_leaves(ada: Session, vault: Vault, hands: Hands, books: Books) -> None:
    """Another connection of the account sees a statement that runs until then, and cannot find out more."""
    other = ReportingLedger(books.path)
    seen = []

    def look() -> None:
        other.refresh()
        account = Account(budget="person", analyst="ada")
        entry, = other.entries("person")
        seen.append((other.failed(account), entry.body, entry.outcome, books._running.is_running(1)))

    hands.meanwhile = look
    answer(TEXT, ada)
    assert seen == [([], None, "running", True)] and other.entries("person")[0].body is not None
    other.close()


def test_a_vault_that_stops_ends_no_wait_before_a_step(tmp_path: Path, slow: Slow, hands: Hands, books: Books) -> None:
    vault = vault_of(lambda user: session_of(tmp_path, reader=slow, ledger=books, analyst=user), PACE)
    number, sock = vault.channel() or pytest.fail("no channel")
    channel = VaultChannel(sock)
    session = open_remote_session(channel, channel.log_in("ada", "", lambda message: PASSWORD))
    stopped = threading.Event()

    def stop() -> None:
        vault.close()
        stopped.set()

    account = vault._channels[number]._account
    hands.time, hands.meanwhile = 1000.0, lambda: until_interrupted(account, stop)
    with pytest.raises(OperationalError, match="closed"):
        answer(TEXT, session)
    assert stopped.wait(10) and not vault._channels
    assert books.told == [("stopped", pytest.approx(1000.3 + 0.2 / 3 + PACE))], "at a step from the interruption on"
    again = ReportingLedger(books.path)
    assert [stop.cause for stop in again.stops("person")] == ["server stopped"] and again.failed(Account(budget="person", analyst="ada")) == []
    again.close()
    session.close()


def test_late_outcomes_are_known_after_a_restart(ada: Session, books: Books) -> None:
    answer(TEXT, ada)
    again = ReportingLedger(books.path, whole=True)
    assert again.late("person") == [("ada", 2, 1)]
    again.close()


def test_neighbours_that_differ_by_less_than_a_step_are_told_alike(ada: Session, hands: Hands, slow: Slow, books: Books) -> None:
    for seconds, text in ((0.26, TEXT), (0.49, MORE)):
        slow.seconds, hands.time = seconds, 1000.0
        answer(text, ada)
        assert hands.time == 1000.5
    assert books.told == [("answer", 1000.5)] * 2


def test_a_front_that_goes_ends_no_wait(ada: Session, hands: Hands, books: Books) -> None:
    channel: Any = ada.kernel._channel  # type: ignore[attr-defined]
    hands.meanwhile = lambda: channel._vault.shutdown(socket.SHUT_RDWR)
    with pytest.raises(OperationalError):
        answer(TEXT, ada)
    for thread in threading.enumerate():
        if thread.name.startswith("channel"):
            thread.join(10)
    assert books.told == [("answer", 1000.5)]


# -- an account of which many were late


@given(st.integers(0, 5), SECONDS, st.floats(0, 0.1))
def test_an_outcome_leaves_at_the_first_step_of_its_account_or_later(first: int, seconds: float, before: float) -> None:
    hands = Hands()
    leaving = Leaving(PACE, hands.clock)
    hands.time += before
    leaving.begin(first, 0)
    hands.time += seconds
    over = hands.time
    step = leaving.hold().late
    assert hands.time >= over and hands.time - 1000 == PACE * 2.0 ** max(step, first) and (step == 0 or step > first)


@given(st.integers(0, 4), st.floats(0, 10), SECONDS, SECONDS)
def test_a_time_that_was_asked_for_is_no_late_one_and_holds_no_interruption(first: int, asked: float, seconds: float,
                                                                           after: float) -> None:
    hands, others = Hands(), Hands()
    for own, interrupted in ((hands, False), (others, True)):
        leaving = Leaving(PACE, own.clock)
        leaving.asked = asked
        leaving.begin(first, 0)
        own.time += seconds
        if interrupted:
            leaving.interrupt("request")
            own.time += after
        begun, wanted = 1000 + seconds if interrupted else 1000.0, max(first, first_step(asked, PACE))
        expected = max(first, first_step(after, PACE)) if interrupted else max(wanted, first_step(seconds, PACE))
        late = leaving.hold().late
        assert own.time - begun == pytest.approx(PACE * 2.0**expected, abs=1e-6)
        overdue = first_step(seconds, PACE) if interrupted and seconds > PACE * 2**wanted else 0
        assert late == max(overdue, expected if expected > (first if interrupted else wanted) else 0)


@given(st.floats(0, 60), st.floats(0, 10))
def test_who_had_to_wait_for_others_is_not_late_for_it(waited: float, seconds: float) -> None:
    hands = Hands()
    leaving = Leaving(PACE, hands.clock)
    hands.time += waited
    leaving.begin(0, 0)
    hands.time += seconds
    over = hands.time
    step = leaving.hold().late
    assert step <= first_step(seconds, PACE) or waited <= PACE
    paces = (hands.time - 1000) / PACE
    assert hands.time >= over and paces == pytest.approx(round(paces), abs=1e-6), "on a grid of the call"


SOME = [f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.05) COUNT(*) FROM people WHERE income > {i}" for i in range(8)]


def test_an_account_of_which_many_were_late_waits_longer_and_longer_until_nothing_is_late(ada: Session, hands: Hands, books: Books,
                                                                                          slow: Slow) -> None:
    taken, seconds = [], (0.3, 0.3, 0.3, 0.3, 0.01, 0.3, 0.6, 0.01)
    for slow.seconds, text in zip(seconds, SOME, strict=True):
        hands.time = 1000.0
        answer(text, ada)
        taken.append((hands.time - 1000) / PACE)
    assert taken == [4, 4, 4, 4, 4, 4, 8, 8], "0.3 s are within the third step, at which all leave after four"
    assert books.late("person") == [("ada", 2, 4), ("ada", 3, 1)] and books.first_step(ada.account, 2) == 3
    assert [time for _, time in books.told] == [1000 + PACE * each for each in taken], "the ledger tells no earlier"
    assert ada.ledger.waits == 8 * PACE, "an analyst is told"  # type: ignore[attr-defined]
    assert books.reopen(ada.account) == 5
    slow.seconds, hands.time = 0.01, 1000.0
    answer(MORE, ada)
    assert hands.time == 1000 + PACE


def test_a_failure_and_an_interruption_wait_as_long(ada: Session, vault: Vault, hands: Hands, slow: Slow) -> None:
    for text in SOME[:4]:
        answer(text, ada)
    slow.seconds, slow.fails, hands.time = 0.01, True, 1000.0
    with pytest.raises(Incident):
        answer(SOME[4], ada)
    assert hands.time == 1000 + 4 * PACE
    slow.fails, hands.time, hands.meanwhile = False, 1000.0, lambda: interrupt(vault)
    with pytest.raises(Interrupted):
        answer(SOME[5], ada)
    assert hands.time == pytest.approx(1000.01 + (4 * PACE - 0.01) / 3 + 4 * PACE)


def test_what_another_statement_does_meanwhile_changes_no_first_step(ada: Session, hands: Hands, slow: Slow, books: Books) -> None:
    """Otherwise a statement that is over before another one is late would leave earlier than one that is over after it."""
    for text in SOME[:2]:
        answer(text, ada)
    other = ReportingLedger(books.path)

    def first() -> None:
        slow.first = lambda: None
        for i in range(3):
            other.answer(other.charge(ada.account, pure(Fraction(1, 100)).rounded(), digest=f"{i}", data="v", sql="s", allows={}), "{}", 6)

    slow.first, slow.seconds, hands.time = first, 0.01, 1000.0
    answer(SOME[2], ada)
    assert hands.time == 1000 + PACE and books.first_step(ada.account, 2) == 3
    hands.time = 1000.0
    answer(SOME[3], ada)
    assert hands.time == 1000 + 8 * PACE
    other.close()


def test_an_analyst_asks_for_a_later_step_and_is_not_late(ada: Session, hands: Hands, books: Books, slow: Slow) -> None:
    ada.kernel.pace = 0.9  # type: ignore[attr-defined]
    for slow.seconds, text in ((0.3, TEXT), (0.01, MORE)):
        hands.time = 1000.0
        answer(text, ada)
        assert hands.time == 1001
    assert books.late("person") == []
    for wrong in (-1.0, 1, "1", float("nan"), float("inf"), 3601.0, True):
        with pytest.raises(RuntimeError):
            ada.kernel._channel.call("run", pure(Fraction(1, 20)), "d", "s", (), ("made", "{}"), wrong)  # type: ignore[attr-defined]
