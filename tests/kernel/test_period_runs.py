"""Runs of equal sums against one sum for each period, and the sums of all windows against all charges that meet them."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.trusted.accounting.cost import ATTO, NOTHING, ORDERS, Charge, concentrated, pure
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.declarations.growth import PeriodRange
from dpsql.trusted.kernel import period_sums
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.period_runs import WIDTH, ZERO, ChargesByPeriod, PeriodRuns, Sums, as_charge, as_sums, plus
from dpsql.trusted.kernel.period_sums import PeriodSums, charge_in_window

AT = 24000
COSTS = (pure(Fraction(1, 10)).rounded(), pure(Fraction(1, 3)).rounded(), concentrated(Fraction(1, 8)).rounded(), Charge(epsilon=None, rho=0, delta=7),
         Charge(epsilon=10**8, rho=0, delta=5), Charge(epsilon=None, rho=0, delta=0))
Step = tuple[int, int, Charge]


def steps(draw: random.Random, *, wide: int = 12, times: int = 25) -> list[Step]:
    """Charges in ranges of periods, many of which begin or end together."""
    made = []
    for _ in range(draw.randrange(1, times)):
        first = AT + draw.randrange(wide)
        made.append((first, first + draw.choice((0, 0, 0, 1, draw.randrange(wide))), draw.choice(COSTS)))
    return made


def runs_of(found: Sequence[Step]) -> PeriodRuns:
    made = PeriodRuns()
    for first, last, charge in found:
        made.add(first, last, as_sums(charge))
    return made


def by_hand(found: Sequence[Step]) -> dict[int, Sums]:
    sums: defaultdict[int, Sums] = defaultdict(lambda: ZERO)
    for first, last, charge in found:
        for period in range(first, last + 1):
            sums[period] = plus(sums[period], as_sums(charge))
    return sums


def check_runs(seed: int) -> None:
    """Raises AssertionError where runs are not what one sum for each period is."""
    draw = random.Random(seed)
    found = steps(draw)
    runs, sums = runs_of(found), by_hand(found)
    around = range(AT - 3, AT + 30)
    assert {period: told for period in around if (told := runs.at(period)) != ZERO} == sums
    assert {period: told for first, last, told in runs for period in range(first, last + 1)} == sums
    for (_, last, one), (first, _, other) in pairwise(runs):
        assert last < first and (last + 1 < first or one != other), "runs are as long as they can be"
    low, high = sorted(draw.sample(around, 2))
    parts = list(runs.between(low, high))
    assert [period for first, last, _ in parts for period in range(first, last + 1)] == [*range(low, high + 1)]
    assert all(runs.at(period) == told for first, last, told in parts for period in range(first, last + 1))
    assert runs.changes(low, high) == [period for period in range(low, high + 1) if runs.at(period) != runs.at(period - 1)]
    total = ZERO
    for period in around:
        total = plus(total, sums.get(period, ZERO))
        assert runs.until(period) == total and plus(total, runs.after(period)) == runs.until(around[-1])
    draw.shuffle(found)
    again = runs_of(found)
    assert again.as_values() == runs.as_values() and again._starts == runs._starts and again._sums == runs._sums, "in whatever order they were added"
    read = PeriodRuns.from_values(json.loads(json.dumps(runs.as_values())))
    assert read._starts == runs._starts and read._sums == runs._sums


@pytest.mark.parametrize("seed", range(150))
def test_runs_are_one_sum_for_each_period(seed: int) -> None:
    check_runs(seed)


RUN_FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "runs are not joined": lambda patch: patch.setattr(PeriodRuns, "_joined", lambda self, i: None),
    "what begins anew begins at zero": lambda patch: patch.setattr(PeriodRuns, "_cut", _cut_at_zero),
    "the last period is left out": lambda patch: patch.setattr(PeriodRuns, "add", lambda self, first, last, amount, add=PeriodRuns.add: (
        add(self, first, last - (last > first), amount))),
    "a run is longer by one": lambda patch: patch.setattr(PeriodRuns, "add", lambda self, first, last, amount, add=PeriodRuns.add: (
        add(self, first, last + 1, amount))),
    "a sum up to a period lacks it": lambda patch: patch.setattr(PeriodRuns, "until", lambda self, period, until=PeriodRuns.until: until(self, period - 1)),
    "a sum after a period has it": lambda patch: patch.setattr(PeriodRuns, "after", lambda self, period, after=PeriodRuns.after: after(self, period - 1)),
    "a change is missed": lambda patch: patch.setattr(PeriodRuns, "changes", lambda self, first, last, changes=PeriodRuns.changes: (
        changes(self, first + 1, last)))}


def _cut_at_zero(self: PeriodRuns, at: int) -> int:
    i = sum(start < at for start in self._starts)
    if at not in self._starts:
        self._starts.insert(i, at)
        self._sums.insert(i, ZERO)
    return i


@pytest.mark.parametrize("name", RUN_FAULTS)
def test_a_fault_in_runs_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RUN_FAULTS[name](monkeypatch)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        for seed in range(150):
            check_runs(seed)


def test_charges_and_sums_of_them_are_the_same() -> None:
    for one in COSTS:
        for other in COSTS:
            both = as_charge(plus(as_sums(one), as_sums(other)))
            assert (both, both.renyi) == (one + other, (one + other).renyi) and as_charge(as_sums(one)) == one
    assert as_charge(ZERO) == NOTHING and as_charge(ZERO).renyi == NOTHING.renyi and as_sums(NOTHING) == ZERO


def test_only_sums_are_added_to_periods_in_order() -> None:
    for first, last, amount in ((5, 4, as_sums(COSTS[0])), (5, 5, as_sums(COSTS[0])[1:]), (5, 5, (*as_sums(COSTS[0]), 0))):
        with pytest.raises(ValueError):
            PeriodRuns().add(first, last, amount)


@pytest.mark.parametrize("told", [
    [[5, 4, *as_sums(COSTS[0])]], [[4, 5, *ZERO]], [[4, 5, 1, 2]], [[4, 5, *as_sums(COSTS[0])], [6, 6, *as_sums(COSTS[0])]], "none", [1], [[]],
    [[4, 5, *as_sums(COSTS[0])], [5, 6, *as_sums(COSTS[1])]], [[7, 8, *as_sums(COSTS[0])], [4, 5, *as_sums(COSTS[1])]], [[4.0, 5, *as_sums(COSTS[0])]],
    [[4, 5, True, *as_sums(COSTS[0])[1:]]], [[4, 5, *["1"] * WIDTH]], None])
def test_runs_that_are_none_or_written_in_another_way_are_not_read(told: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        PeriodRuns.from_values(told)


def test_charges_by_period_are_a_mapping() -> None:
    found = ChargesByPeriod(((3, 5, COSTS[0]), (6, 6, COSTS[1]), (9, 10, COSTS[0])))
    assert dict(found) == {3: COSTS[0], 4: COSTS[0], 5: COSTS[0], 6: COSTS[1], 9: COSTS[0], 10: COSTS[0]} and len(found) == 6
    assert [period in found for period in range(2, 12)] == [False, *[True] * 4, False, False, True, True, False]
    assert found.get(7, NOTHING) == NOTHING and not ChargesByPeriod() and 3 not in ChargesByPeriod()


# -- windows


def reads(first: int, last: int, steps: int) -> PeriodReads:
    return PeriodReads(periods=PeriodRange(period="month", first=first, last=last), steps=1 if steps == 1 and first == last else 2)


def in_window(first: int, last: int, steps: int, charge: Charge) -> Charge:
    """What the law says, in other words."""
    if first == last and steps == 1:
        return charge
    delta = charge.delta if first == last else ATTO * (charge.delta > 0)
    return Charge(epsilon=None if charge.epsilon is None else 2 * charge.epsilon, rho=4 * charge.rho, delta=delta)


def check_windows(seed: int) -> None:
    """Raises AssertionError where the sum of a window is not that of all charges that meet it, or a refusal is not that of the first
    window that has no room."""
    draw, made = random.Random(seed), PeriodSums()
    asked = [(*step, draw.choice((1, 2))) for step in steps(draw)]
    for first, last, charge, taken in asked:
        made.count(reads(first, last, taken), charge)
    for length in (2, draw.randrange(2, 20)):
        expected = dict[int, Charge]()
        for window in range(AT - 30, AT + 40):
            met = [in_window(first, last, taken, charge) for first, last, charge, taken in asked if last >= window and first <= window + length - 1]
            if met:
                expected[window] = sum(met, NOTHING)
        found = made.by_window(length)
        assert all(last + 1 < first or one != other or one.epsilon is None for (_, last, one), (first, _, other) in pairwise(found.runs))
        assert {window: (each, each.renyi) for window, each in found.items()} == {
            window: (each, each.renyi) for window, each in expected.items() if as_sums(each) != ZERO}
        low, high = sorted(draw.sample(range(AT - 25, AT + 30), 2))
        pieces = list(made.windows(length, low, high))
        assert [window for piece in pieces for window, _ in piece] == [*range(low, high + 1)]
        for piece in pieces:
            assert all(as_charge(sums) == expected.get(window, NOTHING) for window, sums in piece)
        charge, most = draw.choice(COSTS), _limit(draw)
        first_refused = next(((window, spent) for window in range(low, high + 1) if not most.allows((spent := expected.get(window, NOTHING)) + charge)), None)
        assert next((refused for piece in pieces if (refused := piece.refused(most, charge)) is not None), None) == first_refused
        if high - low >= length:
            met = range(low + length - 1, high + 1)  # which windows from `low` to `high` meet
            expected_refusal = None if first_refused is None else (first_refused[0], as_charge(as_sums(first_refused[1])))
            assert made.refused(most, length, reads(met[0], met[-1], 1), charge) == expected_refusal
    read = PeriodSums.from_values(json.loads(json.dumps(made.as_values())))
    assert read.as_values() == made.as_values() and read.agrees(made, 0) and len(read) == len(made)


def _limit(draw: random.Random) -> Limit:
    return draw.choice((limit(price(epsilon=draw.uniform(0.1, 5))), limit(price(rho=draw.uniform(0.1, 5))), limit(price(epsilon=draw.uniform(0.1, 5), delta=1e-6)),
                        Limit(epsilon=None, rho=10**12, delta=draw.randrange(40))))


@pytest.mark.parametrize("seed", range(150))
def test_windows_have_the_sums_of_all_charges_that_meet_them(seed: int) -> None:
    check_windows(seed)


WINDOW_FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "several periods are charged as one": lambda patch: patch.setattr(period_sums, "charge_in_window", lambda reads, in_all: in_all),
    "a delta over several periods has a bound": lambda patch: patch.setattr(period_sums, "ATTO", 1),
    "windows are longer by one": lambda patch: patch.setattr(PeriodSums, "windows", lambda self, length, *ends, windows=PeriodSums.windows: (
        windows(self, length + 1, *ends))),
    "windows are shorter by one": lambda patch: patch.setattr(PeriodSums, "windows", lambda self, length, *ends, windows=PeriodSums.windows: (
        windows(self, length - 1, *ends))),
    "refused by the first window alone": lambda patch: patch.setattr(period_sums.WindowSums, "refused", lambda self, limit, charge: (
        None if limit.allows((spent := as_charge(self.sums)) + charge) else (self.first, spent))),
    "refused by the largest sums": lambda patch: patch.setattr(period_sums.WindowSums, "refused", lambda self, limit, charge: (
        None if limit.allows(as_charge(tuple(map(max, zip(*[sums for _, sums in self], strict=True)))) + charge) else (self.first, as_charge(self.sums)))),
    "charges end where they begin": lambda patch: patch.setattr(PeriodSums, "count", _counted_at_first)}


def _counted_at_first(self: PeriodSums, reads: PeriodReads, in_all: Charge) -> None:
    first, last = reads.periods.first, reads.periods.last
    self.each.add(first, last, as_sums(next(charge for _, charge in reads.charges(in_all))))
    for part in (self._starts, self._ends):
        part.add(first, first, as_sums(charge_in_window(reads, in_all)))


@pytest.mark.parametrize("name", WINDOW_FAULTS)
def test_a_fault_in_windows_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WINDOW_FAULTS[name](monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(150):
            check_windows(seed)


def test_sums_that_another_machine_rounds_otherwise_agree_within_the_slack() -> None:
    for seed in range(20):
        made, other = PeriodSums(), PeriodSums()
        for first, last, charge in steps(random.Random(seed)):
            for sums in (made, other):
                sums.count(reads(first, last, 1), charge)
        other.each.add(AT + 2, AT + 4, (0, 0, 0, 0, *[1] * len(ORDERS)))
        assert made.agrees(other, 1) and other.agrees(made, 1) and not made.agrees(other, 0) and not other.agrees(made, 0)
        other._ends.add(AT + 2, AT + 2, (0, 0, 1, 0, *[0] * len(ORDERS)))
        assert not made.agrees(other, 1) and not other.agrees(made, 1)
