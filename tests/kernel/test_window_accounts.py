"""Limits in any so many consecutive periods, in the ledger: a statement is charged if every window that it meets has room, or not at
all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import pytest
from support.ledgers import BOTH

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import ATTO, NOTHING, Account, Charge, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.kernel import chain as rules
from dpsql.trusted.kernel import period_sums
from dpsql.trusted.kernel.chain import Chain
from dpsql.trusted.kernel.ledger import Refused
from dpsql.trusted.kernel.period_sums import PeriodSums, WindowLimits
from dpsql.trusted.kernel.sums import ChainSums

ADA, BOB = (Account(budget="main", analyst=name) for name in ("ada", "bob"))
TENTH = pure(Fraction(1, 10)).rounded()
WIDE = {None: limit(price(epsilon=1000, delta=0.1))}
ONE = {None: limit(price(epsilon=1))}
MARCH, YEAR = 24314, 12
NUMBERS = itertools.count()  # of statements: each is another one


def stated(first: int = MARCH, last: int | None = None, steps: int | None = None) -> str:
    last = first if last is None else last
    return f"periods month {first} {last} {steps or (1 if first == last else 2)}"


def charge(ledger: ReportingLedger, data: str = stated(), cost: Charge = TENTH, account: Account = ADA, *, periods: int = YEAR,
           limits: Mapping[str | None, Limit] = ONE, in_periods: Mapping[str | None, Limit] = WIDE, allows: Mapping[str | None, Limit] = WIDE) -> int:
    return ledger.charge(account, cost, digest=f"d{next(NUMBERS)}", data=data, sql="SELECT 1", allows=allows, in_periods=in_periods,
                         in_any=WindowLimits(periods=periods, limits=limits))


def spent_in(ledger: ReportingLedger, window: int, analyst: str | None = None, periods: int = YEAR) -> Charge:
    ledger.refresh()
    return ledger.spent_in_windows("main", analyst, periods).get(window, NOTHING)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spent.ledger"


@BOTH
def test_any_twelve_months_have_one_limit_to_the_last_billionth(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for month in range(10):
        charge(ledger, stated(MARCH + month))
    for month in range(12):
        for cost in (TENTH, Charge(epsilon=1, rho=0, delta=0)):
            with pytest.raises(Refused) as caught:
                charge(ledger, stated(MARCH + month), cost)
            refused = caught.value
            assert (refused.analyst, refused.period, refused.periods, refused.spent.epsilon) == (None, max(MARCH - 2, MARCH + month - 11), 12, 10**9)
    charge(ledger, stated(MARCH + 12))  # March is not among the twelve months that end with this one
    assert spent_in(ledger, MARCH).epsilon == spent_in(ledger, MARCH + 1).epsilon == 10**9 and len(ledger.entries("main")) == 11
    charge(ledger, "v1")
    assert ledger.spent("main").epsilon == 12 * 10**8, "what reads no growing table is charged in all alone"


@BOTH
def test_a_statement_over_several_months_is_charged_once_to_each_window_or_to_none(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    charge(ledger, stated(MARCH, MARCH + 5))
    assert {spent_in(ledger, MARCH + month).epsilon for month in range(-11, 6)} == {2 * 10**8} and spent_in(ledger, MARCH).rho == 4 * TENTH.rho
    assert spent_in(ledger, MARCH - 12) == spent_in(ledger, MARCH + 6) == NOTHING
    for _ in range(4):
        charge(ledger, stated(MARCH + 20, steps=2))
    before = {window: spent_in(ledger, window) for window in range(MARCH - 40, MARCH + 60)}
    for data in (stated(MARCH + 4, MARCH + 20), stated(MARCH - 1, MARCH + 9), stated(MARCH + 31)):
        with pytest.raises(Refused):
            charge(ledger, data, pure(Fraction(9, 20)).rounded() if data != stated(MARCH + 31) else pure(Fraction(3, 10)).rounded())
    assert {window: spent_in(ledger, window) for window in before} == before and len(ledger.entries("main")) == 5
    charge(ledger, stated(MARCH + 31), pure(Fraction(2, 10)).rounded())


def test_a_limit_of_one_kind_is_not_lifted_by_room_of_another(path: Path) -> None:
    ledger, half = ReportingLedger.create(path), {None: limit(price(epsilon=0.5))}
    for month in range(5):
        charge(ledger, stated(MARCH + month), limits=half, allows=ONE)
    for limits, allows, in_periods, expected in (
            (half, ONE, ONE, (MARCH - 7, 12)), (ONE, half, ONE, (None, 1)), (ONE, ONE, {None: limit(price(epsilon=0.15))}, (MARCH, 1))):
        with pytest.raises(Refused) as caught:
            charge(ledger, stated(MARCH), limits=limits, allows=allows, in_periods=in_periods)
        assert (caught.value.period, caught.value.periods) == expected
    assert len(ledger.entries("main")) == 5


@BOTH
def test_an_analyst_has_a_limit_in_any_months_too_under_any_form_of_the_name(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for i, name in enumerate(("ada", " ADA", "Ada")):
        charge(ledger, stated(MARCH + i), account=Account(budget="main", analyst=name), limits=ONE | {name: limit(price(epsilon=0.3))})
    with pytest.raises(Refused) as caught:
        charge(ledger, stated(MARCH + 11), limits=ONE | {"ada": limit(price(epsilon=0.3))})
    assert (caught.value.analyst, caught.value.period) == ("ada", MARCH)
    for _ in range(7):
        charge(ledger, account=BOB, limits=ONE | {"bob": limit(price(epsilon=0.8))})
    with pytest.raises(Refused) as caught:
        charge(ledger, account=BOB, limits=ONE | {"bob": limit(price(epsilon=0.8))})
    assert caught.value.analyst is None and spent_in(ledger, MARCH, "BOB").epsilon == 7 * 10**8


def test_a_delta_over_several_months_has_no_bound_there(path: Path) -> None:
    ledger, most = ReportingLedger.create(path), {None: limit(price(epsilon=100, delta=0.1))}
    some = Charge(epsilon=None, rho=10**6, delta=10**3)
    with pytest.raises(Refused):
        charge(ledger, stated(MARCH, MARCH + 1), some, limits=most)
    charge(ledger, stated(MARCH), some, limits=most)
    charge(ledger, stated(MARCH, MARCH + 1), some, limits={})
    assert spent_in(ledger, MARCH).delta == ATTO + 10**3
    with pytest.raises(Refused):
        charge(ledger, stated(MARCH + 12), limits=most)


def test_another_length_and_a_limit_that_is_added_later_count_all_charges(path: Path) -> None:
    ledger = ReportingLedger.create(path)
    for month in range(24):
        charge(ledger, stated(MARCH + month), limits={})
    for periods in (2, 3, 12, 24):
        assert spent_in(ledger, MARCH, periods=periods).epsilon == periods * 10**8
        for room, fits in ((periods, False), (periods + 1, True)):
            most = {None: limit(price(epsilon=Fraction(room, 10)))}
            if fits:
                charge(ledger, stated(MARCH + 12), Charge(epsilon=0, rho=1, delta=0), periods=periods, limits=most)
            else:
                with pytest.raises(Refused):
                    charge(ledger, stated(MARCH + 12), Charge(epsilon=1, rho=0, delta=0), periods=periods, limits=most)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every ten events or so."""
    monkeypatch.setattr(rules, "EVERY", 9)
    monkeypatch.setattr(ChainSums, "size", 0)


PRICES = (TENTH, pure(Fraction(1, 4)).rounded(), concentrated(Fraction(1, 50)).rounded(), NOTHING, Charge(epsilon=None, rho=10**5, delta=10**10))


class Model:
    """What a ledger should do, by a sum for each window that is added up anew."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int, int, Charge]] = []

    def spent(self, whose: str | None, window: int, periods: int) -> Charge:
        return sum((cost for analyst, first, last, cost in self.made if whose in (None, analyst) and first < window + periods and last >= window), NOTHING)

    def refused(self, first: int, last: int, cost: Charge, periods: int, limits: Mapping[str | None, Limit]) -> tuple[str | None, int] | None:
        return next(((whose, window) for whose, most in limits.items() for window in range(first - periods + 1, last + 1)
                     if not most.allows(self.spent(whose, window, periods) + cost)), None)


def check_sequence(path: Path, seed: int, statements: int = 60) -> int:
    """Raises AssertionError where a ledger, which is opened anew now and then, does not do what the model does. Returns how many were
    refused."""
    draw, model, refusals = random.Random(seed), Model(), 0
    ledger = ReportingLedger.create(path)
    most: dict[str | None, Limit] = {None: draw.choice((limit(price(epsilon=2, delta=1e-6)), limit(price(rho=0.5, delta=1e-6)), limit(price(epsilon=1.5))))}
    limits = {name: most | {name: limit(price(epsilon=1, delta=1e-6))} if draw.random() < 0.7 else most for name in ("ada", "bob")}
    for _ in range(statements):
        first, periods, account, price_of = MARCH + draw.randrange(18), draw.choice((3, 6, 6, 12)), draw.choice((ADA, BOB)), draw.choice(PRICES)
        last = first + draw.choice((0, 0, 0, 1, 4))
        steps = 1 if first == last and draw.random() < 0.7 else 2
        cost = price_of if steps == 1 else Charge(epsilon=None if price_of.epsilon is None else 2 * price_of.epsilon, rho=4 * price_of.rho,
                                                  delta=price_of.delta if first == last else ATTO * (price_of.delta > 0))
        expected = model.refused(first, last, cost, periods, limits[account.analyst])
        try:
            ledger.answer(charge(ledger, stated(first, last, steps), price_of, account, periods=periods, limits=limits[account.analyst]), "body")
            found = None
            if price_of != NOTHING:
                model.made.append((account.analyst, first, last, cost))
        except Refused as refused:
            assert refused.period is not None and refused.periods == periods
            assert refused.spent == model.spent(refused.analyst, refused.period, periods)
            found, refusals = (refused.analyst, refused.period), refusals + 1
        assert found == expected
        if draw.random() < 0.1:
            ledger.close()
            del ledger  # or this process would go on with its sums
            ledger = ReportingLedger(path, whole=draw.random() < 0.2)
    for whose in (None, "ada", "bob"):
        for periods in (3, 12):
            spent = ledger.spent_in_windows("main", whose, periods)
            assert all(spent.get(window, NOTHING) == model.spent(whose, window, periods) for window in range(MARCH - 20, MARCH + 40))
    ledger.close()
    return refusals


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("seed", range(8))
def test_random_sequences_are_charged_and_refused_as_a_model_of_all_windows_says(seed: int, path: Path) -> None:
    assert 5 < check_sequence(path, seed) < 60


def _checked_first_alone(self: Chain, budget: str, reads: period_sums.PeriodReads, charge: Charge, in_any: WindowLimits) -> None:
    """The window that begins with the first period that is read, and no other."""
    for analyst, most in in_any.limits.items():
        for windows in self._in_periods(budget, analyst).windows(in_any.periods, reads.periods.first, reads.periods.first):
            if (refused := windows.refused(most, period_sums.charge_in_window(reads, charge))) is not None:
                raise Refused(analyst, refused[1], refused[0], in_any.periods)


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "windows are taken for what is in all of them": lambda patch: patch.setattr(PeriodSums, "refused", lambda self, most, length, reads, charge: next(
        ((window, rules.as_charge(sums)) for pieces in self.windows(length, reads.periods.first - length + 1, reads.periods.last) for window, sums in pieces
         if not most.allows(rules.as_charge(self._meeting(reads.periods.first - length + 1, reads.periods.last + length - 1)) + charge)), None)),
    "no window is checked": lambda patch: patch.setattr(Chain, "_check_windows", lambda *given: None),
    "one window is checked": lambda patch: patch.setattr(Chain, "_check_windows", _checked_first_alone),
    "several periods are charged as one": lambda patch: (patch.setattr(period_sums, "charge_in_window", lambda reads, in_all: in_all),  # type: ignore[func-returns-value]
                                                         patch.setattr(rules, "charge_in_window", lambda reads, in_all: in_all))[0],
    "checkpoints forget how statements end": lambda patch: patch.setattr(PeriodSums, "from_values", classmethod(
        lambda cls, told, made=PeriodSums.from_values: made([told[0], told[1], told[1]]))),
    "sums of analysts are those of all": lambda patch: patch.setattr(Chain, "_in_periods", lambda self, budget, analyst, found=Chain._in_periods: (
        found(self, budget, None)))}


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_random_sequences(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[name](monkeypatch)
    with pytest.raises(Exception):  # noqa: B017 - a difference from the model, or a ledger that is called damaged
        for seed in range(8):
            check_sequence(tmp_path / f"{seed}.ledger", seed)
