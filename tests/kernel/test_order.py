"""Check, charge, look, add noise, store, release: seen from outside, and faults planted in the order are seen."""

from __future__ import annotations

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
from dpsql.trusted.kernel.run import Kernel, Leave
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

    def first_step(self, account: Account, late: int) -> int:
        return 0

    def answer(self, seq: int, body: str, late: int) -> None:
        self.events.append("store")

    def incident(self, seq: int, late: int) -> None:
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
    patch.setattr(Seen, "answer", lambda self, seq, body: None)


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

    def first_step(self, account: Account, late: int) -> int:
        return len(account.analyst) + late

    def answer(self, seq: int, body: str, late: int) -> None:
        self.events.append(f"store {late}")

    def incident(self, seq: int, late: int) -> None:
        self.events.append(f"incident {late}")


class Waits(Leave):
    def __init__(self, seen: Seen, stopped: bool) -> None:
        self.seen, self.stopped = seen, stopped

    def begin(self, first: int) -> None:
        self.seen.events.append(f"begin {first}")

    def hold(self) -> tuple[int, bool]:
        self.seen.events.append("hold")
        return 3, self.stopped


@pytest.mark.parametrize("stopped, end", [(False, ("store 3", 42)), (True, ("incident 3", "Incident"))])
def test_an_outcome_is_stored_when_it_may_leave_and_fails_where_it_was_stopped(stopped: bool, end: tuple[str, Any]) -> None:
    seen = Late()
    events, found = served(seen=seen, leaving=Waits(seen, stopped))
    assert (events, found) == (["charge", f"begin {1 + LATE}", "read", "noise", "hold", end[0]], end[1])


def test_an_outcome_leaves_at_once_where_nobody_waits() -> None:
    assert served(seen=Late()) == (["charge", "read", "noise", "store 0"], 42)


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
