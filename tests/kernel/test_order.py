"""Check, charge, look, add noise, store, release: seen from outside, and faults planted in the order are seen."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from support.columns_read import as_columns

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import Account, Cost, pure
from dpsql.trusted.declarations.account_limits import LATE
from dpsql.trusted.declarations.tables import Column, OwnerPath, Table
from dpsql.trusted.kernel import run as kernel_run
from dpsql.trusted.kernel.run import Departure, Kernel, Leave
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.certificate import Unbounded
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.largest import Largest
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.trusted.reader import ReaderFault, ReaderInterrupted
from dpsql.trusted.stopping import stopped as stopped_between_steps
from dpsql.trusted.stopping import stopped_by
from dpsql.types import Type

TABLE = Table(name="people", public=False, unique=(frozenset({"id"}),), owners=(OwnerPath(column="id", type=Type.BIGINT, steps=()),),
              columns={"id": Column(name="id", type=Type.BIGINT, sql_type="BIGINT", nullable=False)})
PLAN = GroupedSums(input=Scan(table=TABLE, columns=(("a", "id"),), owners=("a",)), keys=(), summands=(Count(),))
ASKED = NoisySums(plan=PLAN, cells=((),), noises=(DiscreteLaplace(scale=1.0),))
WHOLE = ["charge", "read", "noise", "store"]


class Seen:
    """A reader, a ledger and a source of noise that write down when they are asked."""

    stored: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # no table is in a store
    content, keeps = "", False

    salt, version = 1, "v"

    def __init__(self) -> None:
        self.events: list[str] = []

    def columns(self, sql: str, parts: Any = ()) -> Any:
        self.events.append("read")
        return as_columns([(40,)])

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        self.events.append("noise")
        return [value + 2 for value in values]

    def charge(self, *given: Any, **terms: Any) -> int:
        self.events.append("charge")
        return 1

    def check(self) -> None:
        pass

    def first_step(self, account: Account, late: int, *, crowded: bool = False) -> int:
        return 0

    def answer(self, seq: int, body: str, late: int, *, crowded: bool) -> None:
        self.events.append("store")

    def incident(self, seq: int, late: int, *, crowded: bool, cause: str | None) -> None:
        self.events.append("incident")


def served(requests: int = 1, seen: Seen | None = None, **terms: Any) -> tuple[list[str], Any]:
    """What happened, and what was released."""
    def script() -> Generator[Any, Any, Any]:
        for _ in range(requests):
            released = yield ASKED
        return released.totals[0][0][0]

    seen = seen or Seen()
    kernel: Any = Kernel(seen, seen, seen)  # type: ignore[arg-type]
    try:
        found = kernel.run(script(), cost=pure(Fraction(1)), account=Account(budget="b", analyst="a"), limits={}, digest="d",
                           sql="SELECT", encode=str, **terms)
    except Exception as fault:
        found = type(fault).__name__
    return seen.events, found


def keeps_order() -> bool:
    return served() == (WHOLE, 42) and served(2) == ([*WHOLE[:3], "incident"], "Incident")


class Fault(Frozen, kw_only=False):
    what: str
    plant: Callable[[pytest.MonkeyPatch], None]


def _charged_late(patch: pytest.MonkeyPatch) -> None:
    def run(self: Any, script: Any, *, cost: Cost, encode: Any, **terms: Any) -> Any:
        answer = self._serve(script, cost)
        self._ledger.answer(self._ledger.charge(), encode(answer))
        return answer

    patch.setattr(Kernel, "run", run)


def _stored_never(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seen, "answer", lambda self, seq, body, late, crowded: None)


FAULTS = (
    Fault("a charge after the look", _charged_late),
    Fault("noise is not added", lambda patch: patch.setattr("dpsql.trusted.measurements.noisy_sums.added", lambda exact, noise, source: exact)),
    Fault("an answer is missing in the ledger", _stored_never),
    Fault("a second request that nobody paid for is served", lambda patch: patch.setattr(Cost, "covers", lambda self, spent: True)),
    Fault("a request is charged for by half", lambda patch: patch.setattr(NoisySums, "cost", lambda self, *given: pure(Fraction(1, 2)))),
    Fault("a fault after the charge is told", lambda patch: patch.setattr(kernel_run, "Incident", ValueError)),
    Fault("the plan of another table is read first", lambda patch: patch.setattr(
        Kernel, "_begun", lambda self, script: [self._reader.rows("people"), script][1])),
)


def test_the_order_is_kept() -> None:
    assert keeps_order()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what.replace(" ", "-"))
def test_a_planted_fault_in_the_order_is_seen(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    assert not keeps_order()


# -- before the charge


def test_what_was_answered_before_is_neither_charged_nor_read() -> None:
    class Answered(Seen):
        def stored(self, account: Account, digest: str, version: str) -> str:  # type: ignore[override]
            assert (account, digest, version) == (Account(budget="b", analyst="a"), "d", "v")
            return "body"

    assert served(seen=Answered(), unless_stored=True) == ([], "AnsweredBefore")


GRID = Quantizer(low=0, high=9, step=Fraction(1), from_low=True)
UNBOUNDED = Scan(table=replace(TABLE, unique=()), columns=(("a", "id"),), owners=("a",))


@pytest.mark.parametrize("plan", [
    GroupedSums(input=UNBOUNDED, keys=(), summands=(Count(),)), Ranks(input=UNBOUNDED, keys=(), column="a", grid=GRID),
    Multiplicities(input=UNBOUNDED, keys=(), column="a"), Largest(input=UNBOUNDED, summand=GridSum(column="a", grid=GRID), sign=1, most=4)],
    ids=lambda plan: type(plan).__name__)
def test_a_plan_for_which_any_number_of_rows_can_move_has_no_certificate(plan: Any) -> None:
    seen: Any = Seen()
    with pytest.raises(Unbounded):
        Kernel(seen, seen, seen)._certify(copied_request(plan))


def test_files_are_checked_by_their_reader() -> None:
    class Changed(Seen):
        def check(self) -> None:
            raise OperationalError("the files were changed")

    seen: Any = Changed()
    with pytest.raises(OperationalError, match="changed"):
        Kernel(seen, seen, seen).check()


# -- when it may be told that a statement is over


class Late(Seen):
    """What leaves does so at the step that was held until."""

    def first_step(self, account: Account, late: int, *, crowded: bool = False) -> int:
        return len(account.analyst) + late + crowded

    def answer(self, seq: int, body: str, late: int, *, crowded: bool) -> None:
        self.events.append(f"store {late} {crowded}")

    def incident(self, seq: int, late: int, *, crowded: bool, cause: str | None) -> None:
        self.events.append(f"incident {late} {crowded} {cause}")

    def stopped(self, seq: int, cause: str, late: int, *, crowded: bool) -> None:
        self.events.append(f"stopped {late} {crowded} {cause}")


class Waits(Leave):
    def __init__(self, seen: Seen, stopped: str | None) -> None:
        self.seen, self.stopped = seen, stopped

    def begin(self, first: int, crowded: int) -> None:
        self.seen.events.append(f"begin {first} {crowded}")

    def hold(self) -> Departure:
        self.seen.events.append("hold")
        return Departure(late=3, crowded=True, stopped=self.stopped)


@pytest.mark.parametrize("stopped, end", [(None, ("store 3 True", 42)), ("left", ("stopped 3 True left", "Interrupted"))])
def test_an_outcome_is_stored_when_it_may_leave_and_is_none_where_it_was_stopped(stopped: str, end: tuple[str, Any]) -> None:
    seen = Late()
    events, found = served(seen=seen, leaving=Waits(seen, stopped))
    assert (events, found) == (["charge", f"begin {1 + LATE} {2 + LATE}", "read", "noise", "hold", end[0]], end[1])


class Broken(Late):
    """Fails for a cause, when rows are read or when the answer is stored."""

    def __init__(self, fault: BaseException, *, where: str = "columns") -> None:
        super().__init__()
        self.fault, self.where = fault, where

    def columns(self, sql: str, parts: Any = ()) -> Any:
        if self.where == "columns":
            raise self.fault
        return super().columns(sql, parts)

    def answer(self, seq: int, body: str, late: int, *, crowded: bool) -> None:
        raise self.fault


@pytest.mark.parametrize("fault, cause", [
    (MemoryError(), "memory"), (OSError(errno.ENOSPC, ""), "disk"), (OSError(errno.EIO, ""), "fault"), (ReaderFault("disk"), "disk"),
    (ReaderFault("a secret of rows"), "fault"), (ValueError("secret"), "fault")])
@pytest.mark.parametrize("where", ["columns", "answer"])
def test_what_fails_by_itself_is_an_incident_of_its_cause_also_if_it_is_stopped_then(fault: BaseException, cause: str, where: str) -> None:
    for stopped in (None, "request"):
        if where == "answer" and stopped:
            continue  # which is not stored
        seen = Broken(fault, where=where)
        events, found = served(seen=seen, leaving=Waits(seen, stopped))
        assert events[-1] == f"incident 3 True {cause}"
        assert found == ("Incident" if stopped is None else "Interrupted"), "its analyst cannot tell it from one that was running"


INTERRUPTIONS = ReaderInterrupted(), InterruptedError(), stopped_between_steps()


@pytest.mark.parametrize("fault", INTERRUPTIONS, ids=repr)
def test_what_says_that_it_is_an_interruption_is_one_if_the_statement_is_to_stop_and_has_not_left(fault: BaseException) -> None:
    for where, is_to_stop, end in (("columns", True, "stopped 3 True request"), ("columns", False, "incident 3 True fault"),
                                   ("answer", True, "incident 3 True fault")):
        seen, stop = Broken(fault, where=where), threading.Event()
        if is_to_stop:
            stop.set()
        with stopped_by(stop):
            events, found = served(seen=seen, leaving=Waits(seen, None))
        assert (events[-1], found) == (end, "Interrupted" if end.startswith("stopped") else "Incident")


@pytest.mark.parametrize("fault", [ValueError(), ReaderFault(), ReaderFault("interrupted"), OSError(errno.EIO, ""), OperationalError("x", code="data-changed")],
                         ids=repr)
@pytest.mark.parametrize("left", [None, "request"])
def test_any_other_fault_of_a_statement_that_is_to_stop_counts(fault: BaseException, left: str | None) -> None:
    """So nobody interrupts what fails before that can be seen, and is charged no incident for it."""
    seen, stop = Broken(fault), threading.Event()
    stop.set()
    with stopped_by(stop):
        events, found = served(seen=seen, leaving=Waits(seen, left))
    assert (events[-1], found) == ("incident 3 True fault", "Incident" if left is None else "Interrupted")


class Replaced(Late):
    """Its files are replaced while it is held back."""

    def check(self) -> None:
        if "hold" in self.events:
            raise OperationalError("changed", code="data-changed")


class BrokenAndReplaced(Broken, Replaced):
    pass


@pytest.mark.parametrize("seen", [Replaced(), BrokenAndReplaced(ValueError())])
@pytest.mark.parametrize("stopped", [None, "request"])
def test_an_outcome_whose_files_were_replaced_is_the_same_whatever_it_was(seen: Late, stopped: str | None) -> None:
    seen.events.clear()
    events, found = served(seen=seen, leaving=Waits(seen, stopped))
    assert (events[-1], found) == ("stopped 3 True data changed", "SourceChanged")


def test_an_outcome_leaves_at_once_where_nobody_waits() -> None:
    assert served(seen=Late()) == (["charge", "read", "noise", "store 0 False"], 42)


# -- what was checked before the charge stands, and nothing else does


def answered_in_place_of_the_first(other: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Any, int]:
    """What is seen and released where something else is served in the place of the first request; and how many requests were
    certified."""
    serve, certificates, certified = Kernel._serve, Kernel._certificates, []

    def _serve(self: Kernel, script: Any, cost: Cost) -> Any:
        def swapped() -> Generator[Any, Any, Any]:
            answer = yield other(next(script))
            try:
                script.send(answer)
            except StopIteration as done:
                return done.value

        return serve(self, swapped(), cost)

    def _certificates(self: Kernel, request: Any) -> Any:
        certified.append(request)
        return certificates(self, request)

    monkeypatch.setattr(Kernel, "_serve", _serve)
    monkeypatch.setattr(Kernel, "_certificates", _certificates)
    return *served(), len(certified)


def test_the_copy_that_was_checked_is_certified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered_in_place_of_the_first(lambda request: request, monkeypatch) == (WHOLE, 42, 1)


@pytest.mark.parametrize("other", [replace, lambda request: ASKED], ids=["an-equal-one", "the-script's-own"])
def test_what_is_not_that_copy_is_certified_anew(other: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered_in_place_of_the_first(other, monkeypatch) == (WHOLE, 42, 2)


@pytest.mark.parametrize("scale", [0.999, 0.5, 1e-9, 0.0])
def test_a_dearer_one_in_its_place_is_not_served(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    events, found, _ = answered_in_place_of_the_first(lambda request: replace(request, noises=(DiscreteLaplace(scale=scale),)), monkeypatch)
    assert (events, found) == (["charge", "incident"], "Incident")


def test_a_copy_stands_for_one_statement_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what another statement was checked with nothing is left."""
    kept: list[Any] = []

    def other(request: Any) -> Any:
        kept.append(request)
        return kept[0]

    assert answered_in_place_of_the_first(other, monkeypatch)[2] == 1
    assert answered_in_place_of_the_first(other, monkeypatch)[2] >= 2
