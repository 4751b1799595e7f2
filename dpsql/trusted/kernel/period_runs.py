"""Sums of charges by period, kept as runs: consecutive periods with equal sums are one run.

A statement over ten years is charged to 3,650 days at once, and ten statements a day leave all days with the same sum. So the
number of runs is small where the number of periods is large, and what is done for each run is done seldom.

`PeriodRuns` is written here because no dependency of dpsql has such a structure, and each decision on a charge depends on
it: it must be exact, in a canonical form, and small enough to be read.

Sums are tuples of integers of one length, which are added and subtracted place by place. Those of a charge (`as_sums`) have a
place for the *number* of charges without an epsilon, where `Charge` has None. So the sum of some charges is known exactly if that
of more charges, and that of the others among them, are known.

>>> runs = PeriodRuns(); one = as_sums(Charge(epsilon=5, rho=1, delta=0))
>>> runs.add(3, 9, one); runs.add(5, 6, one)
>>> [(first, last, sums[1]) for first, last, sums in runs]
[(3, 4, 5), (5, 6, 10), (7, 9, 5)]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import add, sub
from typing import Any, TypeAlias

from dpsql.trusted.accounting.cost import ORDERS, Charge

Sums: TypeAlias = tuple[int, ...]
ChargedRuns: TypeAlias = tuple[tuple[int, int, Charge], ...]
EXACT = 4  # places that do not depend on the rounding of logarithms: charges without epsilon, epsilon, rho, delta
WIDTH = EXACT + len(ORDERS)
ZERO: Sums = (0,) * WIDTH


def as_sums(charge: Charge) -> Sums:
    """A charge as a sum of charges."""
    return int(charge.epsilon is None), charge.epsilon or 0, charge.rho, charge.delta, *charge.renyi


def as_charge(sums: Sums) -> Charge:
    """A sum of charges as the limits read it."""
    return Charge.summed(None if sums[0] else sums[1], sums[2], sums[3], sums[EXACT:])


def plus(sums: Sums, others: Sums) -> Sums:
    return tuple(map(add, sums, others))


def minus(sums: Sums, others: Sums) -> Sums:
    return tuple(map(sub, sums, others))


def times(number: int, sums: Sums) -> Sums:
    return sums if number == 1 or sums == ZERO else tuple([number * each for each in sums])


class PeriodRuns:
    """A sum for each period, of which only finitely many are not zero.

    The canonical form: `_sums[i]` is the sum of each period from `_starts[i]` on, up to the one before `_starts[i + 1]`; starts
    increase; each sum differs from the one before it, the first one from zero; and the last one is zero. So equal sums have equal
    lists, in whatever order they were added.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sums: list[Sums] = []

    def __len__(self) -> int:
        """The number of runs, and of gaps between them."""
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int, Sums]]:
        """The first and the last period of each run, and the sum of each of its periods; sums of zero are left out."""
        for i, sums in enumerate(self._sums):
            if sums != ZERO:
                yield self._starts[i], self._starts[i + 1] - 1, sums

    def add(self, first: int, last: int, amount: Sums) -> None:
        """Add an amount to the sum of each period from `first` to `last`. Raises ValueError if there is none."""
        if first > last or len(amount) != WIDTH:
            raise ValueError("an amount is added to periods")
        if amount == ZERO:
            return
        begin, end = self._cut(first), self._cut(last + 1)
        self._sums[begin:end] = [plus(sums, amount) for sums in self._sums[begin:end]]
        self._joined(end)  # runs between them still differ, as the same was added to each
        self._joined(begin)

    def at(self, period: int) -> Sums:
        """The sum of a period."""
        i = bisect_right(self._starts, period)
        return self._sums[i - 1] if i else ZERO

    def between(self, first: int, last: int) -> Iterator[tuple[int, int, Sums]]:
        """The runs of the periods from `first` to `last`, cut there; together they are all of these periods."""
        begins = [first, *self.changes(first + 1, last)]
        for begin, following in zip(begins, [*begins[1:], last + 1], strict=True):
            yield begin, following - 1, self.at(begin)

    def changes(self, first: int, last: int) -> list[int]:
        """The periods from `first` to `last` whose sum differs from that of the period before."""
        return self._starts[bisect_left(self._starts, first):bisect_right(self._starts, last)]

    def until(self, period: int) -> Sums:
        """The sum over all periods up to one, this one included."""
        total = ZERO
        for first, last, sums in self:
            if first > period:
                break
            total = plus(total, times(min(last, period) - first + 1, sums))
        return total

    def after(self, period: int) -> Sums:
        """The sum over all periods after one."""
        total, end = ZERO, self._starts[-1] if self._starts else period
        for first, sums in zip(reversed(self._starts), reversed(self._sums), strict=True):
            if end <= period + 1:
                break
            total = plus(total, times(end - max(first, period + 1), sums))
            end = first
        return total

    def is_late(self, period: int) -> bool:
        """Whether fewer runs come after a period than before it."""
        return 2 * bisect_left(self._starts, period) > len(self._starts)

    def agrees(self, other: PeriodRuns, slack: int) -> bool:
        """Whether these are the same sums, where those of the Renyi orders may differ by `slack`."""
        for period in {*self._starts, *other._starts}:
            ours, theirs = self.at(period), other.at(period)
            if ours[:EXACT] != theirs[:EXACT] or any(abs(difference) > slack for difference in minus(ours, theirs)):
                return False
        return True

    def as_values(self) -> list[list[int]]:
        """The runs as JSON values."""
        return [[first, last, *sums] for first, last, sums in self]

    @classmethod
    def from_values(cls, told: Iterable[Any]) -> PeriodRuns:
        """The inverse of `as_values`. Raises ValueError or TypeError for anything else, such as runs that are not in the
        canonical form."""
        made, stated = cls(), [[*each] for each in told]
        for run in stated:
            first, last, *sums = run
            if not all(type(number) is int for number in run) or (made._starts and first < made._starts[-1]):
                raise ValueError("these are no runs")
            made.add(first, last, tuple(sums))
        if made.as_values() != stated:
            raise ValueError("these runs are written in another way")
        return made

    def _cut(self, at: int) -> int:
        """The place of the run that begins at a period, which may not differ from the one before until something is added."""
        i = bisect_left(self._starts, at)
        if i == len(self._starts) or self._starts[i] != at:
            self._sums.insert(i, self._sums[i - 1] if i else ZERO)
            self._starts.insert(i, at)
        return i

    def _joined(self, i: int) -> None:
        """Make a run a part of the one before it if their sums are equal."""
        if self._sums[i] == (self._sums[i - 1] if i else ZERO):
            del self._starts[i], self._sums[i]


class ChargesByPeriod(Mapping[int, Charge]):
    """What was charged in each period, by its number; periods without a charge are left out. `runs` are the first and last
    periods of runs, each with the charge in each of its periods, in order."""

    def __init__(self, runs: Iterable[tuple[int, int, Charge]] = ()) -> None:
        self.runs: ChargedRuns = tuple(runs)

    def __getitem__(self, period: int) -> Charge:
        i = bisect_right(self.runs, period, key=lambda run: run[0])
        if not i or self.runs[i - 1][1] < period:
            raise KeyError(period)
        return self.runs[i - 1][2]

    def __iter__(self) -> Iterator[int]:
        for first, last, _ in self.runs:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last, _ in self.runs)
