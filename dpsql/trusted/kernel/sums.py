"""The sums that follow from a chain of events, and how a checkpoint states them. `chain` explains their meaning, and why a stated
sum is as good as a computed one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from dpsql.trusted.accounting.cost import Account, Charge
from dpsql.trusted.kernel.period_sums import PeriodSums
from dpsql.trusted.kernel.reported import Reported
from dpsql.trusted.kernel.revisions import Revision


class Late(NamedTuple):
    """When an outcome left late: on which day, at which step, and whether its statement was crowded."""

    day: str
    crowded: bool
    step: int


class ChainSums:
    """The state that follows from the events up to some point: everything that decides about later events, and the data for
    reports."""

    def __init__(self) -> None:
        self.spent: dict[tuple[str, str | None], Charge] = {}
        self.pending: defaultdict[Account, set[int]] = defaultdict(set)
        self.failed: defaultdict[Account, set[int]] = defaultdict(set)
        self.forgiven: set[int] = set()
        self.kept: dict[str, int] = {}  # the newest charge of each name with which the kernel keeps something
        self.promised: dict[str, tuple[int, int]] = {}  # by budget: the newest change of its promise, and the newest statement
        self.late: defaultdict[Account, Counter[Late]] = defaultdict(Counter)  # how many outcomes left so late
        self.periods: defaultdict[tuple[str, str | None], PeriodSums] = defaultdict(PeriodSums)  # of growing tables
        self.revised: list[Revision] = []
        self.day = ""  # the newest one that an event states, since the owner last corrected the clock
        self.reported = Reported()

    @property
    def size(self) -> int:
        """The number of sums and numbers in it."""
        lists = [*self.pending.values(), *self.failed.values(), self.forgiven, *self.late.values(), self.revised]
        return (len(self.spent) + len(self.kept) + len(self.promised) + sum(map(len, lists))
                + sum(map(len, self.periods.values())) + self.reported.size)

    def as_values(self) -> dict[str, Any]:
        """The same as JSON values, in an order that does not depend on the order of the events."""
        def as_lists(lists: Mapping[Account, set[int]]) -> list[Any]:
            return sorted([account.budget, account.analyst, sorted(seqs)] for account, seqs in lists.items() if seqs)

        spent = [[*whose, *_stated(charge)] for whose, charge in self.spent.items()]
        return {"spent": sorted(spent, key=str), "pending": as_lists(self.pending), "failed": as_lists(self.failed),
                "forgiven": sorted(self.forgiven), "kept": dict(sorted(self.kept.items())), "late": sorted(self.late_ones()),
                "days": self.late_days(),
                "promised": sorted([budget, *seqs] for budget, seqs in self.promised.items()), **self.reported.as_values(),
                "period_runs": self.in_periods(), **self.of_time()}

    def of_time(self) -> dict[str, Any]:
        """The revisions and the newest day, as JSON values."""
        return {"revised": [one.as_values() for one in self.revised], "day": self.day}

    def in_periods(self) -> list[list[Any]]:
        """By budget and analyst, what was charged in periods."""
        return sorted(([*whose, found.as_values()] for whose, found in self.periods.items() if len(found)), key=str)

    def late_ones(self) -> list[list[Any]]:
        """By budget, analyst and step, the number of outcomes that left late."""
        steps = Counter[tuple[str, str, int]]()
        for account, late in self.late.items():
            for each, number in late.items():
                steps[account.budget, account.analyst, each.step] += number
        return [[*which, number] for which, number in steps.items()]

    def late_days(self) -> list[list[Any]]:
        """By budget, analyst, day, whether they were crowded, and step, the number of outcomes that left late."""
        return sorted([account.budget, account.analyst, *each, number] for account, late in self.late.items()
                      for each, number in late.items())

    @classmethod
    def from_values(cls, told: Mapping[str, Any]) -> ChainSums:
        """The inverse of `as_values`. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        made = cls()
        made.spent = {(budget, analyst): Charge.summed(*sums) for budget, analyst, *sums in told["spent"]}
        made.periods |= {(budget, analyst): PeriodSums.from_values(found) for budget, analyst, found in told["period_runs"]}
        for name, lists in (("pending", made.pending), ("failed", made.failed)):
            lists |= {Account(budget=budget, analyst=analyst): set(seqs) for budget, analyst, seqs in told[name]}
        made.forgiven, made.kept = set(told["forgiven"]), dict(told["kept"])
        made.promised = {budget: (changed, newest) for budget, changed, newest in told.get("promised", ())}
        for budget, analyst, *at, number in told["days"]:
            made.late[Account(budget=budget, analyst=analyst)][Late(*at)] = number
        if sorted(made.late_ones()) != told["late"]:  # which is all that earlier versions stated
            raise ValueError("the numbers of late outcomes differ")
        made.reported = Reported.from_values(told)
        made.revised, made.day = [Revision.from_values(*values) for values in told["revised"]], str(told["day"])
        return made

    def agree(self, others: ChainSums, slack: int) -> bool:
        """Whether these are the same sums. Those of the Renyi orders may differ by `slack`: each charge's are rounded logarithms,
        which another machine may round to the next billionth."""
        ours, theirs = self.as_values(), others.as_values()
        orders = [(mine.pop(), other.pop()) for mine, other in zip(ours["spent"], theirs["spent"], strict=False)]
        for told in (ours, theirs):
            told.pop("period_runs", None)
        close = all(abs(a - b) <= slack for pair in orders for a, b in zip(*pair, strict=True))
        return close and ours == theirs and all(self._in(whose).agrees(others._in(whose), slack)
                                                for whose in {*self.periods, *others.periods})

    def _in(self, whose: tuple[str, str | None]) -> PeriodSums:
        """What was charged in periods to an account, none included."""
        return self.periods.get(whose, NONE)


NONE = PeriodSums()


def _stated(charge: Charge) -> list[Any]:
    return [charge.epsilon, charge.rho, charge.delta, [*charge.renyi]]
