"""What was charged by period: the accounts of single periods, and of any `n` consecutive periods.

Besides a person in all and a person in one period (`period_reads`), there is a third unit of privacy: *in any n consecutive
periods*, all rows of a person in the growing tables, in the periods of one window. A window is named by its first period.

The law. Take two streams of databases, one database for each moment, which are equal at all times except for the rows of one
person in the periods of a window W of growing tables. Everything that analysts see over all time is (epsilon, delta)-close at the
limit of the account of W.

Proof. A statement that reads none of the periods of W has the same distribution on both streams, given what came before. Every
other one is charged to the account of W before it reads a row. So the proof in `period_reads` holds word for word for the
statements that meet W, if each of their requests costs at most what it is charged there (`charge_in_window`):

 (1) *One period p is read*: what it is charged in p. The statement reads the rows of W in p and no others of W. So on databases
     that differ in the rows of u in W it behaves as on two that differ in the rows of u in p.
 (2) *Several periods are read*: 2 epsilon, and 4 rho. Let D and D' differ by the rows of u in W, and let E be both of them
     without any row of u. D and E are neighbours in all, and so are E and D'; it does not matter in which periods u has rows. The
     rest is (3) of `period_reads`. A charge with a delta has no such bound, so its delta counts as 1, which is true of everything
     and which no limit allows.

What is charged in the windows. A statement that reads the periods p to q meets exactly the windows whose first period w satisfies
q >= w and p <= w + n - 1. All others have q < w or p > w + n - 1, and never both, as p <= q. So the sum of all charges in the
account of w is

    (the sum of those with p <= w + n - 1) - (the sum of those with q < w),

and the second is a sum of some of the charges in the first. Both follow from `starts`, the charges by the first period that is
read, and `ends`, those by the last one, which do not depend on n. So the length of windows may be changed at any time, and a
limit that is added later counts every charge that was made before it. Sums are exact integers, and each charge adds the same
integers to both, so their difference is exactly the sum of the others. For the same reason it is

    (the sum of those with q >= w) - (the sum of those with p > w + n - 1),

for which fewer are added up where the window is a recent one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpsql.frozen import Frozen, field
from dpsql.trusted.accounting.cost import ATTO, Charge
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.period_runs import ZERO, ChargesByPeriod, PeriodRuns, Sums, as_charge, as_sums, minus, plus, times


class WindowLimits(Frozen):
    """The limits in any so many consecutive `periods`, by analyst, and of all together under None. There may be none."""

    periods: int = 1
    limits: Mapping[str | None, Limit] = field(default_factory=dict)


def charge_in_window(reads: PeriodReads, in_all: Charge) -> Charge:
    """What a person in a window is charged that has some of the periods that are read, given the charge in all."""
    if reads.steps == 1 or len(reads.periods) == 1:  # one step is taken in one period only
        return reads.first_charge(in_all)
    epsilon = None if in_all.epsilon is None else 2 * in_all.epsilon
    return Charge(epsilon=epsilon, rho=4 * in_all.rho, delta=ATTO if in_all.delta else 0)


class WindowSums(Frozen):
    """Consecutive windows, named by their first periods `first` to `last`: the sum of the first one is `sums`, and that of each
    further one is more by `step`, which may be negative."""

    first: int
    last: int
    sums: Sums
    step: Sums

    def __iter__(self) -> Iterator[tuple[int, Sums]]:
        for number in range(self.last - self.first + 1):
            yield self.first + number, plus(self.sums, times(number, self.step))

    def runs(self) -> Iterator[tuple[int, int, Sums]]:
        """The first and the last window of each run of equal sums, and the sum."""
        if self.step == ZERO:
            yield self.first, self.last, self.sums
        else:
            yield from ((window, window, sums) for window, sums in self)

    def refused(self, limit: Limit, charge: Charge) -> tuple[int, Charge] | None:
        """The first window in which a limit does not allow one more charge, and what was charged there before.

        If the limit allows the largest value of each sum, it allows all windows, as it allows whatever is less in every sum. Sums
        are largest in the first or in the last window.
        """
        end = plus(self.sums, times(self.last - self.first, self.step))
        if limit.allows(as_charge(tuple(map(max, self.sums, end))) + charge):
            return None
        for window, sums in self:
            if not limit.allows((spent := as_charge(sums)) + charge):
                return window, spent
        return None


class PeriodSums:
    """What was charged in periods to one account: in `each` period, and by the first and the last period that was read."""

    def __init__(self) -> None:
        self.each, self._starts, self._ends = PeriodRuns(), PeriodRuns(), PeriodRuns()

    def __len__(self) -> int:
        return len(self.each) + len(self._starts) + len(self._ends)

    def count(self, reads: PeriodReads, in_all: Charge) -> None:
        """Add a statement that read these periods."""
        first, last = reads.periods.first, reads.periods.last
        for periods, charge in reads.charges(in_all):
            self.each.add(periods[0], periods[-1], as_sums(charge))
        in_window = as_sums(charge_in_window(reads, in_all))
        self._starts.add(first, first, in_window)
        self._ends.add(last, last, in_window)

    def by_period(self) -> ChargesByPeriod:
        """What was charged in each period."""
        return _charges(self.each)

    def by_window(self, length: int) -> ChargesByPeriod:
        """What was charged in each window of so many periods, by its first period."""
        if not self._starts:
            return ChargesByPeriod()
        first, last = next(iter(self._starts))[0] - length + 1, [*self._ends][-1][1]
        made = PeriodRuns()  # which joins windows with equal sums
        for windows in self.windows(length, first, last):
            for begin, end, sums in windows.runs():
                made.add(begin, end, sums)
        return _charges(made)

    def refused(self, limit: Limit, length: int, reads: PeriodReads, charge: Charge) -> tuple[int, Charge] | None:
        """The first window of so many periods, among those that have one that is read, in which a limit does not allow one more
        charge, and what was charged there before.

        Each of these windows is a part of the periods from the first one of the first window to the last one of the last. So if
        the limit allows the sum of all charges that meet these, it allows the sum in each window, which has some of them.
        """
        first, last = reads.periods.first - length + 1, reads.periods.last
        if limit.allows(as_charge(self._meeting(first, last + length - 1)) + charge):
            return None
        found = (windows.refused(limit, charge) for windows in self.windows(length, first, last))
        return next((refused for refused in found if refused is not None), None)

    def windows(self, length: int, first: int, last: int) -> Iterator[WindowSums]:
        """The windows of so many periods whose first periods are `first` to `last`."""
        sums = self._meeting(first, first + length - 1)
        begins = sorted({first, *self._ends.changes(first, last),
                         *(period - length for period in self._starts.changes(first + length, last + length))})
        for begin, following in zip(begins, [*begins[1:], last + 1], strict=True):
            step = minus(self._starts.at(begin + length), self._ends.at(begin))
            yield WindowSums(first=begin, last=following - 1, sums=sums, step=step)
            sums = plus(sums, times(following - begin, step))

    def _meeting(self, first: int, last: int) -> Sums:
        """The sum of all charges in the account of the periods from `first` to `last`."""
        if self._starts.is_late(last):
            return minus(self._ends.after(first - 1), self._starts.after(last))
        return minus(self._starts.until(last), self._ends.until(first - 1))

    def agrees(self, other: PeriodSums, slack: int) -> bool:
        """Whether these are the same sums, where those of the Renyi orders may differ by `slack`."""
        return all(ours.agrees(theirs, slack) for ours, theirs in zip(self._parts, other._parts, strict=True))

    def as_values(self) -> list[list[list[int]]]:
        """The same as JSON values."""
        return [part.as_values() for part in self._parts]

    @classmethod
    def from_values(cls, told: Any) -> PeriodSums:
        """The inverse of `as_values`. Raises ValueError or TypeError for anything else."""
        made = cls()
        made.each, made._starts, made._ends = map(PeriodRuns.from_values, told)
        return made

    @property
    def _parts(self) -> tuple[PeriodRuns, PeriodRuns, PeriodRuns]:
        return self.each, self._starts, self._ends


def _charges(runs: PeriodRuns) -> ChargesByPeriod:
    return ChargesByPeriod((first, last, as_charge(sums)) for first, last, sums in runs)
