"""Accounts of periods: what is charged in each, up to which limit, and that a statement reads no other periods than it pays for."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.laws.bad_worlds import small
from support.laws.growing import Growing, GrowingWorld, growing_catalog, grown
from support.ledgers import BOTH
from support.sessions import reader_of

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.errors import Error, Incident, LedgerError
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.questions.rules.limit_in_periods import limited_in_periods, show_periods
from dpsql.trusted.accounting.cost import NOTHING, ORDERS, Account, Charge, Cost, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.declarations.growth import PeriodRange, period_of
from dpsql.trusted.kernel import chain as rules
from dpsql.trusted.kernel import ledger as module
from dpsql.trusted.kernel.chain import Event, genesis
from dpsql.trusted.kernel.event_store import COLUMNS
from dpsql.trusted.kernel.ledger import Refused
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.run import AnsweredBefore, Kernel
from dpsql.trusted.kernel.sums import ChainSums
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.frequent_keys import Keys
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.online_comparisons import Comparisons, Opening
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.noise.key_selection import TruncatedGeometric
from dpsql.trusted.plan.expr.nodes import Call
from dpsql.trusted.plan.node import InvalidPlan, Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type

ADA, BOB, EVE = (Account(budget=budget, analyst=name) for budget, name in (("main", "ada"), ("main", "bob"), ("other", "Eve")))
TENTH = pure(Fraction(1, 10)).rounded()
WIDE = {None: limit(price(epsilon=1000, delta=0.1))}
MARCH = 24314
Limits = Mapping[str | None, Limit]


def stated(first: int = MARCH, last: int | None = None, steps: int | None = None, kind: str = "month") -> str:
    last = first if last is None else last
    return f"periods {kind} {first} {last} {steps or (1 if first == last else 2)}"


def _reads(data: str) -> PeriodReads:
    found = PeriodReads.from_text(data)
    assert found is not None
    return found


def charge(ledger: ReportingLedger, data: str = stated(), cost: Charge = TENTH, account: Account = ADA, *, allows: Limits = WIDE,
           in_periods: Limits = WIDE, digest: str = "d", body: str | None = None) -> int:
    return ledger.charge(account, cost, digest=digest, data=data, sql="SELECT 1", allows=allows, in_periods=in_periods, body=body)


def spent_in(ledger: ReportingLedger, period: int, budget: str = "main", analyst: str | None = None) -> Charge:
    ledger.refresh()
    return ledger.spent_in_periods(budget, analyst).get(period, NOTHING)


def events(path: Path) -> list[Event]:
    connection = sqlite3.connect(path)
    try:
        return [Event(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY seq")]
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


# -- limits of periods


ONE = {None: limit(price(epsilon=1))}


@BOTH
def test_each_period_has_a_limit_of_its_own_to_the_last_billionth(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for _ in range(10):
        charge(ledger, in_periods=ONE)
    for cost in (TENTH, Charge(epsilon=1, rho=0, delta=0)):
        with pytest.raises(Refused) as caught:
            charge(ledger, cost=cost, in_periods=ONE)
        assert (caught.value.analyst, caught.value.period, caught.value.spent.epsilon) == (None, MARCH, 10**9)
    charge(ledger, stated(MARCH + 1), in_periods=ONE)
    charge(ledger, "v1", in_periods=ONE)  # it reads no growing table
    assert [spent_in(ledger, MARCH + i).epsilon for i in range(-1, 3)] == [0, 10**9, 10**8, 0]
    assert ledger.spent("main").epsilon == 12 * 10**8 and spent_in(ledger, MARCH, "other") == NOTHING


@BOTH
def test_a_statement_over_several_periods_is_charged_to_each_or_to_none(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for _ in range(9):
        charge(ledger, in_periods=ONE)
    before = ledger.spent("main")
    for data in (stated(MARCH - 3, MARCH), stated(MARCH, MARCH + 3), stated(MARCH - 1, MARCH + 1), stated(steps=2)):
        with pytest.raises(Refused) as caught:
            charge(ledger, data, in_periods=ONE)
        assert caught.value.period == MARCH
    assert ledger.spent("main") == before and len(ledger.entries("main")) == 9
    assert {spent_in(ledger, MARCH + i) for i in (-3, -2, -1, 1, 2, 3)} == {NOTHING}
    charge(ledger, stated(MARCH + 1, MARCH + 3), in_periods=ONE)
    assert [spent_in(ledger, MARCH + i).epsilon for i in range(5)] == [9 * 10**8, *[2 * 10**8] * 3, 0], "two steps cost twice epsilon"
    assert spent_in(ledger, MARCH + 1).rho == 4 * TENTH.rho


def test_two_steps_cost_four_times_rho(path: Path) -> None:
    ledger, most = ReportingLedger.create(path), {None: limit(price(rho=1))}
    eighth = concentrated(Fraction(1, 8)).rounded()
    charge(ledger, stated(steps=2), eighth, in_periods=most)
    charge(ledger, stated(steps=1), eighth, in_periods=most)
    with pytest.raises(Refused):
        charge(ledger, stated(steps=2), eighth, in_periods=most)
    for _ in range(3):
        charge(ledger, stated(steps=1), eighth, in_periods=most)
    with pytest.raises(Refused):
        charge(ledger, stated(steps=1), Charge(epsilon=None, rho=1, delta=0), in_periods=most)
    assert spent_in(ledger, MARCH).rho == 10**9 and ledger.spent("main").rho == 5 * 10**9 // 8


@BOTH
def test_an_analyst_has_limits_in_periods_too_under_any_form_of_the_name(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for name in ("ada", " ADA", "Ada", "ａｄａ"):
        charge(ledger, account=Account(budget="main", analyst=name), in_periods=ONE | {name: limit(price(epsilon=Fraction(4, 10)))})
    for name in ("ada", "ADA"):
        with pytest.raises(Refused) as caught:
            charge(ledger, in_periods=ONE | {name: limit(price(epsilon=Fraction(4, 10)))})
        assert caught.value.analyst == name and caught.value.period == MARCH
    for _ in range(6):
        charge(ledger, account=BOB, in_periods=ONE | {"bob": limit(price(epsilon=Fraction(7, 10)))})
    with pytest.raises(Refused) as caught:
        charge(ledger, account=BOB, in_periods=ONE | {"bob": limit(price(epsilon=Fraction(7, 10)))})
    assert caught.value.analyst is None, "the total of all analysts is spent"
    assert [spent_in(ledger, MARCH, "main", name).epsilon for name in (None, "ada", "bob")] == [10**9, 4 * 10**8, 6 * 10**8]


def test_a_limit_in_all_is_not_lifted_by_room_in_a_period(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for i in range(10):
        charge(ledger, stated(MARCH + i), allows=ONE, in_periods=ONE)
    with pytest.raises(Refused) as caught:
        charge(ledger, stated(MARCH + 10), allows=ONE, in_periods=ONE)
    assert caught.value.period is None and spent_in(ledger, MARCH + 10) == NOTHING and len(ledger.entries("main")) == 10


def test_periods_without_a_limit_or_with_a_text_that_is_none_are_not_charged(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for limits in ({}, {"ada": WIDE[None]}):
        with pytest.raises(ValueError):
            charge(ledger, in_periods=limits)
    for data in ("periods ", "periods month 1 2 2", f"{stated()}0", f"{stated()}\n", stated(steps=3), stated(MARCH, MARCH + 1, 1), "periods week 24314 24314 1"):
        with pytest.raises(ValueError):
            charge(ledger, data)
    assert ledger.spent("main") == NOTHING and ledger.entries("main") == [] and events(path) == []
    charge(ledger, f"{stated()} of some version")
    assert spent_in(ledger, MARCH) == TENTH


SCRIPT = """
import sys
from support import ledgers
from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account, pure
from dpsql.trusted.kernel.ledger import Refused
from fractions import Fraction

ledgers.in_programs()
ledger, granted = ReportingLedger(sys.argv[1]), [0, 0]
one, wide = {None: limit(price(epsilon=1))}, {None: limit(price(epsilon=1000))}
print("ready", flush=True)
sys.stdin.readline()
for i in range(120):
    data = ("periods month 24314 24314 1", "periods month 24315 24317 2")[i % 2]
    try:
        ledger.charge(Account(budget="main", analyst=sys.argv[2]), pure(Fraction(1, 50)).rounded(), digest=str(i), data=data, sql="SELECT", allows=wide,
                      in_periods=one)
        granted[i % 2] += 1
    except Refused as refused:
        assert refused.period == (24314, 24315)[i % 2]
print(*granted)
"""


@BOTH
@pytest.mark.slow
def test_two_processes_together_are_granted_exactly_what_fits_in_a_period(path: Path) -> None:
    ReportingLedger.create(path).close()
    root = Path(module.__file__).parents[3]
    racers = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), f"racer {i}"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}) for i in range(2)]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    found = [racer.communicate("go\n", timeout=300)[0].split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert sum(int(one) for one, _ in found) == 50 and sum(int(two) for _, two in found) == 25
    ledger = ReportingLedger(path)
    assert [spent_in(ledger, 24314 + i).epsilon for i in range(5)] == [*[10**9] * 4, 0]
    assert len(ledger.entries("main")) == 75


# -- the sums of periods in the chain


def filled(path: Path, statements: int = 60) -> dict[tuple[str, str | None, int], Charge]:
    """A ledger with checkpoints, and the sums of its periods, added up here."""
    ledger, draw, sums = ReportingLedger.create(path), random.Random(3), dict[tuple[str, str | None, int], Charge]()
    prices = (TENTH, concentrated(Fraction(1, 8)).rounded(), pure(Fraction(1, 3)).rounded(), NOTHING)
    for i in range(statements):
        account, cost, first = draw.choice((ADA, BOB, EVE)), draw.choice(prices), MARCH + draw.randrange(4)
        data = draw.choice(("v1", stated(first), stated(first, steps=2), stated(first, first + draw.randrange(1, 4)), f"{stated(first)} v{i}"))
        seq = charge(ledger, data, cost, account, digest=f"digest {i % 15}", body=f"kept {i}" if i % 4 == 0 else None)
        draw.choice((ledger.incident, lambda seq, ledger=ledger: ledger.answer(seq, "body")))(seq)
        if data != "v1":
            _, _, low, high, steps, *_ = data.split(" ")
            times = int(steps)
            each = cost if times == 1 else Charge(epsilon=None if cost.epsilon is None else 2 * cost.epsilon, rho=4 * cost.rho, delta=0)
            for whose in (None, account.analyst.casefold()):
                for period in range(int(low), int(high) + 1):
                    key = account.budget, whose, period
                    sums[key] = sums.get(key, NOTHING) + each
    ledger.close()
    return sums


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every ten events or so."""
    monkeypatch.setattr(rules, "EVERY", 9)
    monkeypatch.setattr(ChainSums, "size", 0)


def found_in(path: Path, *, whole: bool) -> dict[tuple[str, str | None, int], Charge]:
    ledger = ReportingLedger(path, whole=whole)
    try:
        return {(*whose, period): each for whose, periods in ledger._chain.sums.periods.items() for period, each in periods.by_period().items()}
    finally:
        ledger.close()


def exact(sums: Mapping[Any, Charge]) -> dict[Any, Any]:
    return {key: (each, each.renyi) for key, each in sums.items() if each != NOTHING}


@pytest.mark.usefixtures("often")
def test_a_ledger_opened_at_a_checkpoint_has_the_sums_of_all_periods(path: Path) -> None:
    sums = filled(path)
    assert len([event for event in events(path) if event.kind == "checkpoint"]) > 5 and len(sums) > 20
    assert exact(found_in(path, whole=False)) == exact(found_in(path, whole=True)) == exact(sums)


@pytest.mark.usefixtures("often")
def test_limits_of_periods_bind_across_checkpoints(path: Path) -> None:
    ReportingLedger.create(path).close()
    for number in range(10):  # each from a ledger opened anew
        ledger = ReportingLedger(path)
        ledger.answer(charge(ledger, in_periods=ONE, digest=f"d{number}"), "body")
        ledger.close()
    assert sum(event.kind == "checkpoint" for event in events(path)) > 1
    with pytest.raises(Refused):
        charge(ReportingLedger(path), in_periods=ONE)


def before_periods(patch: pytest.MonkeyPatch) -> None:
    """Counts, states and reads what a version did that knew no periods."""
    told, made, count = ChainSums.as_values, ChainSums.from_values.__func__, rules.Chain._count  # type: ignore[attr-defined]

    def counted(self: Any, event: Event) -> None:
        count(self, event)
        self.sums.periods.clear()

    patch.setattr(rules.Chain, "_count", counted)
    patch.setattr(ChainSums, "as_values", lambda self: {
        name: value for name, value in told(self).items() if name not in ("period_runs", "revised", "day")})
    patch.setattr(ChainSums, "from_values", classmethod(lambda cls, values: made(cls, {"revised": (), "day": ""} | values | {"period_runs": ()})))


@pytest.mark.usefixtures("often")
def test_an_earlier_version_that_writes_too_renews_no_period(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoints state no periods, so no ledger is opened at one of them."""
    sums = filled(path)
    with monkeypatch.context() as patch:
        before_periods(patch)
        ledger = ReportingLedger(path, whole=True)
        for i in range(40):
            ledger.answer(charge(ledger, "v1", digest=f"{i}"), "body")
        ledger.close()
        del ledger  # or this process would go on with its sums
    last = [event for event in events(path) if event.kind == "checkpoint"][-1]
    assert "period_runs" not in json.loads(last.body or ""), "the newest checkpoint is of the earlier version"
    assert exact(found_in(path, whole=False)) == exact(found_in(path, whole=True)) == exact(sums)
    ledger = ReportingLedger(path)
    charge(ledger, "v1")
    ledger.close()
    assert exact(found_in(path, whole=False)) == exact(sums)


@pytest.mark.usefixtures("often")
def test_a_ledger_from_before_periods_opens_and_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        before_periods(patch)
        ledger = ReportingLedger.create(path)
        for i in range(40):
            ledger.answer(charge(ledger, "v1", digest=f"{i}"), "body")
        spent = ledger.spent("main")
        ledger.close()
    older = events(path)
    for whole in (False, True):
        ledger = ReportingLedger(path, whole=whole)
        assert ledger.spent("main") == spent and ledger._chain.sums.periods == {} and ledger.stored(ADA, "3", "v1") == "body"
        ledger.close()
    ledger = ReportingLedger(path)
    charge(ledger)
    ledger.close()
    assert events(path)[:len(older)] == older and "period_runs" in json.loads(
        [event for event in events(path) if event.kind == "checkpoint"][-1].body or ""), "others begin there"
    assert exact(found_in(path, whole=False)) == exact({("main", None, MARCH): TENTH, ("main", "ada", MARCH): TENTH})


def test_events_have_the_hashes_that_they_had_before_there_were_periods() -> None:
    event = Event(seq=7, kind="charge", at="2026-03-01T00:00:00+00:00", budget="main", analyst="ada", digest="d", data="v1", sql="SELECT 1",
                  epsilon=10**8, rho=5 * 10**6, delta=0, answers=None, body=None)
    assert event.link("0" * 64) == "41a61277e8ad9954c65cbbb6b64175de0598632477880de91835012f0fbe153a"
    assert event._replace(data=stated()).link("0" * 64) != event.link("0" * 64)


Change = Callable[[list[int]], list[int]]


def in_runs(change: Change, of: int | None = None) -> Callable[[dict[str, Any]], Any]:
    """A change of each run that a checkpoint states, or of those of one part: in each period, by first ones, by last ones."""
    return lambda told: told | {"period_runs": [[budget, analyst, [[change(run) for run in part] if of in (None, i) else part for i, part in enumerate(parts)]]
                                         for budget, analyst, parts in told["period_runs"]]}


FORGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nothing spent in them": lambda told: told | {"period_runs": []},
    "one account forgotten": lambda told: told | {"period_runs": told["period_runs"][1:]},
    "no starts and ends": lambda told: told | {"period_runs": [[*whose, [each, [], []]] for *whose, (each, _, _) in told["period_runs"]]},
    "one run forgotten": lambda told: told | {"period_runs": [[*whose, [each[1:], *parts]] for *whose, (each, *parts) in told["period_runs"]]},
    "another period": in_runs(lambda run: [run[0] + 1000, run[1] + 1000, *run[2:]]),
    "starts and ends elsewhere": lambda told: told | {"period_runs": [[*whose, [each, ends, starts]] for *whose, (each, starts, ends) in told["period_runs"]]},
    **{f"less {name} in part {of}": in_runs(lambda run, at=at: [*run[:at], run[at] // 2, *run[at + 1:]], of)  # type: ignore[misc]
       for name, at in (("epsilon", 3), ("rho", 4), ("of an order", 20)) for of in range(3)},
    "text": lambda told: told | {"period_runs": "none"}, "numbers": lambda told: told | {"period_runs": [1, 2]}}


def due(path: Path) -> dict[str, Any]:
    """What a checkpoint would state that is written next."""
    ledger = ReportingLedger(path)
    told = {"ledger": ledger._chain.genesis, **ledger._chain._waypoint().as_values(), **ledger._chain.sums.as_values()}
    ledger.close()
    return told


def checkpoint(path: Path, told: Any) -> Event:
    last = [event for event in events(path) if event.kind == "checkpoint"][-1]
    return last._replace(seq=len(events(path)) + 1, body=json.dumps(told))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_that_states_other_sums_of_periods_is_refused(name: str, path: Path) -> None:
    """Even if it is linked as it should be."""
    filled(path)
    told = due(path)
    _append(path, checkpoint(path, FORGED[name](told)))
    with pytest.raises(LedgerError) as caught:
        ReportingLedger(path)
    assert caught.value.code == "ledger-damaged"


def by_period(told: dict[str, Any]) -> dict[str, Any]:
    """The same checkpoint as an earlier version wrote it, with a sum for each period."""
    listed = [[budget, analyst, period, run[3], run[4], run[5], run[6:]] for budget, analyst, (each, _, _) in told["period_runs"]
              for run in each for period in range(run[0], run[1] + 1)]
    return {name: value for name, value in told.items() if name != "period_runs"} | {"periods": listed}


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("form", [dict, by_period])
def test_a_checkpoint_as_this_or_an_earlier_version_writes_it_is_accepted(form: Callable[[dict[str, Any]], dict[str, Any]], path: Path) -> None:
    sums = filled(path)
    _append(path, checkpoint(path, form(due(path))))
    for _ in range(2):
        ledger = ReportingLedger(path)
        charge(ledger, "v1")
        ledger.close()
        assert exact(found_in(path, whole=False)) == exact(found_in(path, whole=True)) == exact(sums)


@pytest.mark.parametrize("data", ["periods ", "periods month 24314 24313 1", "periods month x y 1", "periods day 1 99999999999999 2", "periods month 24314 24314 7",
                                  "periods century 20 20 1", "periods month 24314 24319 1", "periods month 9 9 1", f"periods month {'9' * 6000} 9 1", "periods month 24314 24314 2 each=",
                                  "periods month 24314 24314 2 each=2*1:1:0", f"periods month 24314 24314 2 each=1*{'9' * 400}:1:0"])
def test_an_event_that_states_periods_which_are_none_is_damage(data: str, path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger)
    _append(path, events(path)[0]._replace(seq=2, data=data))
    for read in (ledger.refresh, lambda: charge(ledger), lambda: ReportingLedger(path)):
        with pytest.raises(LedgerError) as caught:
            read()
        assert caught.value.code == "ledger-damaged"
    ledger.close()


def _append(path: Path, event: Event) -> None:
    """Add an event to the file, linked as it should be: what somebody can do who has the file alone."""
    connection = sqlite3.connect(path)
    with connection:
        link = next((link for link, in connection.execute("SELECT hash FROM events ORDER BY seq DESC LIMIT 1")), None)
        link = link or genesis(dict(connection.execute("SELECT key, value FROM meta")))
        connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 14)})", (*event, event.link(link)))
    connection.close()


def test_orders_of_periods_that_another_machine_rounds_otherwise_are_the_same_sums() -> None:
    def summed(*charges: tuple[str, int], more: int = 0, less: int = 0) -> ChainSums:
        made = ChainSums()
        for data, times in charges:
            for _ in range(times):
                made.periods["main", None].count(_reads(data), TENTH)
        for i, (first, last, sums) in enumerate(list(made.periods["main", None].each)):
            change = (0, 0, -less, 0, *[more * (i + 1)] * len(ORDERS))
            made.periods["main", None].each.add(first, last, change)
        return made

    charges = (stated(), 2), (stated(MARCH, MARCH + 2), 1), (stated(MARCH + 2, MARCH + 9), 1)
    sums, others = summed(*charges), summed(*charges, more=1)
    assert sums.agree(others, 4) and others.agree(sums, 4) and not sums.agree(others, 3) and not others.agree(sums, 3)
    assert not sums.agree(summed(*charges, less=1), 10)
    for more in (*charges, (stated(), 1)), charges[1:], ():
        assert not sums.agree(summed(*more), 10) and not summed(*more).agree(sums, 10)
    assert ChainSums.from_values(json.loads(json.dumps(sums.as_values()))).agree(sums, 0)


# -- the kernel


GROWING = Growing(period="month")
NUMBERS = GROWING.numbers
HERE = NUMBERS[1]


class Asked:
    """A kernel over a growing world, and requests."""

    def __init__(self, path: Path) -> None:
        self.ledger = ReportingLedger.create(path)
        world: GrowingWorld = grown(small(5), GROWING, 5)
        self.kernel = Kernel(reader_of(world), self.ledger, incidents=100)
        self.tables = growing_catalog("person", GROWING).tables

    def scan(self, name: str = "visits", first: int = HERE, last: int | None = None, prefix: str = "v", kind: str | None = None) -> Node:
        """At most two rows of each person."""
        table = self.tables[name]
        periods = None if table.growth is None else PeriodRange(period="month", first=first, last=first if last is None else last)
        if kind is not None and table.growth is not None and periods is not None:
            number = period_of(kind, periods.start)  # type: ignore[arg-type]
            table, periods = replace(table, growth=replace(table.growth, period=kind)), PeriodRange(period=kind, first=number, last=number)
        columns = tuple((f"{prefix}{i}", column) for i, column in enumerate(table.columns))
        owner = next((id_ for id_, column in columns if column == "person_id"), f"{prefix}o")
        below: Node = Scan(table=table, columns=columns, owners=(owner,), periods=periods)
        return Truncate(input=below, rows=2, owner=owner, order=tuple(id_ for id_, _ in columns if id_ != owner))

    def joined(self, left: Node, right: Node, **kept: bool) -> Node:
        ours, theirs = (next(field for field in side.fields if field.name == "person_id") for side in (left, right))
        return Join(left=left, right=right, condition=Call(function="=", args=(ours.ref, theirs.ref), type=Type.BOOLEAN), **kept)

    def limited(self, first: int = HERE, last: int | None = None, rows: int = 2, prefix: str = "v") -> Node:
        """At most so many rows of each person in each month, with the number of the month, in several months."""
        visits = self.scan(first=first, last=HERE + 1 if last is None else last, prefix=prefix)
        assert isinstance(visits, Truncate) and isinstance(scan := visits.input, Scan) and scan.table.growth is not None
        read = replace(scan, table=replace(scan.table, growth=replace(scan.table.growth, rows=rows)))
        assert (made := limited_in_periods(read, visits.owner)) is not None
        return show_periods(made)

    @staticmethod
    def count(view: Node, scale: float = 100.0) -> NoisySums:
        return NoisySums(plan=GroupedSums(input=view, keys=(), summands=(Count(),)), cells=((),), noises=(DiscreteLaplace(scale=scale),))

    def run(self, *requests: Any, data: str | None, cost: Cost = pure(Fraction(1)), in_periods: Limits = WIDE, views: Any = (), digest: str = "d",
            told: list[Any] | None = None, **more: Any) -> Any:
        def script() -> Any:
            for request in requests:
                found = yield request
                if told is not None:
                    told.append(found)
            return "answered"

        return self.kernel.run(script(), cost=cost, account=ADA, limits=WIDE, digest=digest, sql="SELECT", encode=str, in_periods=in_periods, data=data,
                               views=views, **more)

    def recorded(self) -> list[tuple[str, str]]:
        return [(entry.sql, entry.outcome) for entry in self.ledger.entries("main")]


@pytest.fixture
def asked(path: Path) -> Iterator[Asked]:
    made = Asked(path)
    yield made
    made.kernel.close()
    made.ledger.close()


def test_a_statement_that_states_what_it_reads_is_charged_to_its_periods(asked: Asked) -> None:
    assert asked.run(asked.count(asked.scan()), data=stated(HERE)) == "answered"
    assert asked.run(asked.count(asked.scan(last=HERE + 1)), data=f"{stated(HERE, HERE + 1)} sha256:7") == "answered"
    assert asked.run(asked.count(asked.joined(asked.scan(), asked.scan("people", prefix="p"))), data=stated(HERE), digest="e") == "answered"
    assert asked.run(asked.count(asked.joined(asked.scan("people", prefix="p"), asked.scan(), keep_left=True)), data=stated(HERE, steps=2)) == "answered"
    assert asked.run(asked.count(asked.scan("people")), data=None) == "answered"
    assert [spent_in(asked.ledger, HERE + i).epsilon for i in range(-1, 3)] == [0, 6 * 10**9, 2 * 10**9, 0]
    assert asked.ledger.spent("main").epsilon == 5 * 10**9
    with pytest.raises(AnsweredBefore):
        asked.run(asked.count(asked.scan()), data=stated(HERE), unless_stored=True)


WRONG = {"nothing": None, "the version": "v1", "another period": stated(HERE + 1), "more periods": stated(HERE, HERE + 1), "two steps": stated(HERE, steps=2),
         "another kind": stated(2020, kind="year"), "no text of periods": "periods", "periods that are none": stated(9), "other text": f"x {stated(HERE)}"}


@pytest.mark.parametrize("name", WRONG)
def test_a_statement_that_states_other_periods_is_refused_before_a_charge(name: str, asked: Asked) -> None:
    for views in ((), (asked.scan(),)):
        with pytest.raises(ValueError):
            asked.run(asked.count(asked.scan()), data=WRONG[name], views=views)
    assert asked.recorded() == [] and asked.ledger.spent("main") == NOTHING


def test_a_statement_that_states_fewer_steps_is_refused_before_a_charge(asked: Asked) -> None:
    people, visits, scores = asked.scan("people", prefix="p"), asked.scan(), asked.scan("scores", prefix="s")
    later = asked.scan("scores", HERE + 1, prefix="s")
    for view in (asked.joined(people, visits, keep_left=True), asked.joined(people, visits, keep_left=True, keep_right=False)):
        with pytest.raises(ValueError):
            asked.run(asked.count(view), data=stated(HERE))
    for data in (stated(HERE), stated(HERE + 1), stated(HERE, HERE + 1, 1)):
        with pytest.raises(ValueError):
            asked.run(asked.count(asked.joined(visits, later)), data=data)
    assert asked.recorded() == []
    assert asked.run(asked.count(asked.joined(visits, scores)), data=stated(HERE)) == "answered"
    assert asked.run(asked.count(asked.joined(visits, later)), data=stated(HERE, HERE + 1)) == "answered"


def test_a_statement_without_growing_tables_states_its_version_and_nothing_else(asked: Asked) -> None:
    for data in (stated(HERE), "v2", ""):
        with pytest.raises(ValueError):
            asked.run(asked.count(asked.scan("people")), data=data)
    assert asked.recorded() == []


def test_relations_that_are_queried_count_too(asked: Asked) -> None:
    """Also if no request reads them, or the first one reads less."""
    for requests in ((), (asked.count(asked.scan()),)):
        with pytest.raises(ValueError):
            asked.run(*requests, data=stated(HERE) if requests else None, views=(asked.scan(first=HERE - 1),))
    assert asked.recorded() == []
    assert asked.run(asked.count(asked.scan()), data=stated(HERE - 1, HERE), views=(asked.scan(first=HERE - 1),)) == "answered"


def test_limits_of_periods_refuse_before_rows_are_read(asked: Asked) -> None:
    for limits, error in (({}, ValueError), ({"ada": WIDE[None]}, ValueError), ({None: limit(price(epsilon=Fraction(9, 10)))}, Refused),
                          (WIDE | {"ada": limit(price(epsilon=Fraction(9, 10)))}, Refused)):
        with pytest.raises(error):
            asked.run(asked.count(asked.scan()), data=stated(HERE), in_periods=limits)
    with pytest.raises(Refused) as caught:
        asked.run(asked.count(asked.scan(last=HERE + 1)), data=stated(HERE, HERE + 1), in_periods={None: limit(price(epsilon=Fraction(19, 10)))})
    assert caught.value.period == HERE and asked.recorded() == []
    assert asked.run(asked.count(asked.scan(last=HERE + 1)), data=stated(HERE, HERE + 1), in_periods={None: limit(price(epsilon=2))}) == "answered"


def test_a_growing_table_without_periods_is_no_plan(asked: Asked) -> None:
    below = asked.scan()
    assert isinstance(below, Truncate) and isinstance(below.input, Scan)
    whole = replace(below, input=replace(below.input, periods=None))
    year = replace(below, input=replace(below.input, periods=PeriodRange(period="year", first=2020, last=2020)))
    static = replace(below, input=replace(below.input, table=replace(below.input.table, growth=None)))
    for view, data in ((whole, None), (whole, stated(HERE)), (year, stated(2020, kind="year")), (static, stated(HERE))):
        with pytest.raises((Error, InvalidPlan, ValueError)):
            asked.run(asked.count(view), data=data)
    assert asked.recorded() == []


def test_tables_that_grow_by_different_periods_are_not_read_together(asked: Asked) -> None:
    visits, scores = asked.scan(), asked.scan("scores", prefix="s", kind="year")
    for data in (stated(HERE), stated(2020, kind="year"), stated(HERE, steps=2)):
        with pytest.raises(ValueError, match="different periods"):
            asked.run(asked.count(asked.joined(visits, scores)), data=data)
        with pytest.raises(ValueError):
            asked.run(asked.count(visits), data=data, views=(scores,))
    assert asked.recorded() == []


def keys_of(view: Node) -> Keys:
    clinic = next(field.id for field in view.fields if field.name == "clinic")
    return Keys(plan=GroupedSums(input=view, keys=(clinic,), summands=(Count(),)), rule=TruncatedGeometric(
        epsilon=Fraction(1, 4), delta=Fraction(1, 10**4)))


def test_two_steps_have_no_bound_for_a_request_with_a_delta(asked: Asked) -> None:
    cost = Cost(epsilon=Fraction(1), rho=Fraction(1, 2), delta=Fraction(1, 100))
    with pytest.raises(ValueError, match="not known"):
        asked.run(keys_of(asked.scan(last=HERE + 1)), data=stated(HERE, HERE + 1), cost=cost)
    assert asked.recorded() == []
    assert asked.run(keys_of(asked.scan()), data=stated(HERE), cost=cost) == "answered"
    assert spent_in(asked.ledger, HERE).delta == 10**16


def test_a_script_that_reads_more_than_was_charged_is_an_incident(asked: Asked) -> None:
    first, told = asked.count(asked.scan()), list[Any]()
    kept = asked.joined(asked.scan("people", prefix="p"), asked.scan(), keep_left=True)
    for more in (asked.scan(first=HERE + 1), asked.scan(last=HERE + 1), kept, asked.scan("scores", prefix="s", kind="year"),
                 asked.joined(asked.scan(), asked.scan("scores", HERE - 1, prefix="s"))):
        told.clear()
        with pytest.raises(Incident):
            asked.run(first, asked.count(more), data=stated(HERE), told=told)
        assert len(told) == 1, "the first request was answered, and nothing else"
    with pytest.raises(Incident):
        asked.run(asked.count(asked.scan("people")), first, data=None)
    assert [outcome for _, outcome in asked.recorded()] == ["failed"] * 6
    assert spent_in(asked.ledger, HERE).epsilon == 5 * 10**9 and spent_in(asked.ledger, HERE + 1) == NOTHING


def test_a_script_may_read_less_than_was_charged(asked: Asked) -> None:
    wide, less = asked.count(asked.scan(first=HERE - 1, last=HERE + 1)), (asked.count(asked.scan()), asked.count(asked.scan("people")),
                                                                         asked.count(asked.scan("scores", HERE + 1, prefix="s")))
    assert asked.run(wide, *less, data=stated(HERE - 1, HERE + 1)) == "answered"
    assert asked.run(asked.count(asked.scan()), asked.count(asked.scan("people")), asked.count(asked.scan("scores", prefix="s")), data=stated(HERE)) == "answered"


def opening(view: Node) -> Opening:
    return Opening(view=view, updates=3, scale_limit=200.0, scale_query=300.0, noise=DiscreteLaplace(scale=500.0))


def comparisons(view: Node) -> Comparisons:
    sex = next(field.id for field in view.fields if field.name in ("sex", "clinic"))
    return Comparisons(view=view, axes=(Axis(column=sex, values=("a", "f")),), groups=(0, 1), expected=(1, 1), limit=60)


def test_no_online_model_is_opened_or_compared_over_growing_tables(asked: Asked) -> None:
    people, visits = asked.scan("people"), asked.scan()
    with pytest.raises(ValueError):
        asked.run(opening(visits), data=stated(HERE), digest="model")
    assert asked.recorded() == []
    asked.run(opening(people), data=None, digest="model")
    with pytest.raises(ValueError, match="no bound"):
        asked.kernel.compare(comparisons(visits), model="model", account=ADA, sql="SELECT")
    assert asked.kernel.compare(comparisons(people), model="model", account=ADA, sql="SELECT") is not None
    assert len(asked.recorded()) == 2


def test_an_online_model_that_a_later_request_opens_is_none(asked: Asked) -> None:
    """Only the first request of a statement opens one."""
    with contextlib.suppress(Incident):
        asked.run(asked.count(asked.scan()), opening(asked.scan()), data=stated(HERE), digest="model")
    with pytest.raises(ValueError):
        asked.kernel.compare(comparisons(asked.scan()), model="model", account=ADA, sql="SELECT")
    with pytest.raises(ValueError):
        asked.kernel.compare(comparisons(asked.scan("people")), model="model", account=ADA, sql="SELECT")
    assert len(asked.recorded()) == 1


# -- charges that are stated: `limited` counts two rows of a person in a month, and Laplace noise of scale 100 makes that 0.02


EACH = "20000000:200000:0"
TWO = f"{stated(HERE, HERE + 1)} each=2*{EACH}"


def test_a_charge_is_stated_for_each_period(asked: Asked) -> None:
    assert asked.run(asked.count(asked.limited()), data=f"{TWO} closed", cost=pure(Fraction(1, 25))) == "answered"
    assert [spent_in(asked.ledger, HERE + i) for i in range(-1, 3)] == [NOTHING, *[pure(Fraction(1, 50)).rounded()] * 2, NOTHING]
    assert asked.ledger.spent("main") == pure(Fraction(1, 25)).rounded()
    uneven = f"{stated(HERE - 1, HERE + 1)} each=1*0:0:0,1*{EACH},1*30000000:450000:1"
    with pytest.raises(ValueError, match="more in a period"):  # all of them are read
        asked.run(asked.count(asked.limited(HERE - 1)), data=uneven, cost=pure(Fraction(6, 100)))
    more = uneven.replace("1*0:0:0", "1*90000000:4050000:0")
    assert asked.run(asked.count(asked.limited(HERE - 1)), data=more, cost=pure(Fraction(6, 100))) == "answered"
    assert [spent_in(asked.ledger, HERE + i).epsilon for i in range(-1, 2)] == [9 * 10**7, 4 * 10**7, 5 * 10**7]
    assert spent_in(asked.ledger, HERE + 1).delta == 1


@pytest.mark.parametrize("each", [
    "2*19999999:200000:0", "2*20000000:199999:0", "2*0:0:0", f"1*{EACH},1*0:0:0", f"1*0:0:0,1*{EACH}", f"1*{EACH},1*19999999:200000:0", "2*-:199999:0",
    "2*-:0:1000000000000000000", f"1*{EACH}", f"3*{EACH}", f"2*{EACH},1*{EACH}"])
def test_less_than_a_request_costs_in_a_period_is_refused_before_a_charge(each: str, asked: Asked) -> None:
    with pytest.raises(ValueError):
        asked.run(asked.count(asked.limited()), data=f"{stated(HERE, HERE + 1)} each={each}", cost=pure(Fraction(1, 25)))
    assert asked.recorded() == [] and asked.ledger.spent("main") == NOTHING


def test_a_pure_release_may_be_charged_its_rho_alone(asked: Asked) -> None:
    assert asked.run(asked.count(asked.limited()), data=f"{stated(HERE, HERE + 1)} each=2*-:200000:0", cost=pure(Fraction(1, 25))) == "answered"
    assert spent_in(asked.ledger, HERE) == Charge(epsilon=None, rho=200000, delta=0)


def gaussian(view: Node) -> NoisySums:
    return NoisySums(plan=GroupedSums(input=view, keys=(), summands=(Count(),)), cells=((),), noises=(DiscreteGaussian(sigma=100.0),))


@pytest.mark.parametrize(("each", "paid"), [("2*-:200000:0", True), ("2*-:199999:0", False), ("2*1000000000:500000000:0", False)])
def test_zero_concentrated_releases_are_charged_rho_without_epsilon(each: str, paid: bool, asked: Asked) -> None:
    """An epsilon that is stated would be claimed, and there is none."""
    data, cost = f"{stated(HERE, HERE + 1)} each={each}", concentrated(Fraction(1, 1000))
    if paid:
        assert asked.run(gaussian(asked.limited()), data=data, cost=cost) == "answered"
        assert spent_in(asked.ledger, HERE + 1) == Charge(epsilon=None, rho=200000, delta=0)
        return
    with pytest.raises(ValueError):
        asked.run(gaussian(asked.limited()), data=data, cost=cost)
    assert asked.recorded() == []


def test_charges_are_not_stated_for_what_has_no_bound_in_a_period(asked: Asked) -> None:
    """A limit by the person alone, people without visits, and measurements that rest on more than sums."""
    view = asked.limited()
    people = asked.joined(asked.scan("people", prefix="p"), view, keep_left=True)
    much = f"{stated(HERE, HERE + 1)} each=2*9000000000000000000:9000000000000000000:1000000000000000000"
    cost = Cost(epsilon=Fraction(1), rho=Fraction(1, 2), delta=Fraction(1, 100))
    for request in (asked.count(asked.scan(last=HERE + 1)), keys_of(view), asked.count(people), asked.count(asked.joined(view, asked.limited(prefix="w")))):
        with pytest.raises(ValueError, match="not known"):
            asked.run(request, data=much, cost=cost, in_periods={None: Limit(epsilon=None, rho=10**40, delta=10**40)})
    assert asked.recorded() == []


def test_requests_of_a_script_share_what_is_stated(asked: Asked) -> None:
    """Each is checked beside those before it, in every period; what exceeds it is an incident, and reads nothing."""
    view, told = asked.limited(), list[Any]()
    count, cost = asked.count(view), pure(Fraction(1))
    twice = f"{stated(HERE, HERE + 1)} each=1*40000000:800000:0,1*60000000:1800000:0"
    assert asked.run(count, count, data=twice, cost=cost) == "answered"
    for more in (count, asked.count(view, 200.0), asked.count(asked.limited(HERE + 1, HERE + 2)), asked.count(asked.limited(HERE - 1, HERE)),
                 asked.count(asked.scan(last=HERE + 1), 10.0**9), asked.count(asked.scan(), 10.0**9), gaussian(view), keys_of(view)):
        told.clear()
        with pytest.raises(Incident):
            asked.run(count, count, more, data=twice, cost=replace(cost, delta=Fraction(1, 1000)), told=told, digest="more")
        assert len(told) == 2, "only what was paid for was answered"
    assert asked.run(count, count, asked.count(asked.scan("people")), data=twice, cost=cost, digest="e") == "answered", "nobody is moved in a period"
    assert [outcome for _, outcome in asked.recorded()] == ["answered", *["failed"] * 8, "answered"]


def test_stated_charges_are_limited_in_each_period(asked: Asked) -> None:
    uneven = f"{stated(HERE, HERE + 1)} each=1*{EACH},1*30000000:450000:0"
    for epsilon, period in ((Fraction(19, 1000), HERE), (Fraction(29, 1000), HERE + 1)):
        with pytest.raises(Refused) as caught:
            asked.run(asked.count(asked.limited()), data=uneven, in_periods={None: limit(price(epsilon=epsilon))})
        assert caught.value.period == period and asked.recorded() == []
    assert asked.run(asked.count(asked.limited()), data=uneven, in_periods={None: limit(price(epsilon=Fraction(3, 100)))}) == "answered"


def test_a_statement_that_asks_for_nothing_is_charged_what_it_states(asked: Asked) -> None:
    assert asked.run(data=TWO, views=(asked.limited(),)) == "answered"
    assert spent_in(asked.ledger, HERE) == pure(Fraction(1, 50)).rounded()
    for data in (stated(HERE, HERE + 2), f"{stated(HERE, HERE + 2)} each=3*{EACH}", TWO.replace("month", "year").replace(str(HERE), "2020")):
        with pytest.raises(ValueError):
            asked.run(data=data, views=(asked.limited(),))
