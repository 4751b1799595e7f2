"""Requests over growing tables, and forgeries of them: judged by databases that lack the rows of one person in one period, or in a
window of several."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Generator, Iterator
from typing import Any

from forging.corpus import Base, Corpus, requests_of
from forging.forging import ADA, ALLOWED, Forging
from forging.judge import Found, judged
from forging.tables import SMALL, Few, private
from oracle.replay import Asked, Family

from dpsql.frozen import field_names, is_frozen, replace
from dpsql.questions.rules.limit_in_periods import limited_in_periods, show_periods
from dpsql.trusted.accounting.cost import FREE, Charge, Cost
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.declarations.growth import Growth, PeriodRange
from dpsql.trusted.kernel.period_costs import costs_in_periods
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.period_sums import charge_in_window
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.all_measurements import BY_SUMS_ALONE
from dpsql.trusted.measurements.block_sums import Blocks
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.online_comparisons import Comparisons, Opening
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate

FIRST = dt.date(2000, 1, 1).toordinal()
DAYS = range(FIRST, FIRST + 4)
GROWS, PERSON, DAY = "visits", 1, 7
"""The table that grows, and the places of the person and of the day in its rows."""
MOVED_ON = tuple(private(price, "b, COUNT(*) FROM (SELECT p.id, COUNT(t.vid) > 0 AS b FROM people AS p LEFT JOIN visits AS t ON p.id = t.id "
                                "GROUP BY p.id) AS q GROUP BY b") for price in ("epsilon = 1", "rho = 1"))
"""Statements that count a person in one group or another: without the person's rows of a day, one count falls and the other rises."""
IN_EACH = tuple(private(price, text) for price in ("epsilon = 1", "rho = 1") for text in (
    "COUNT(*) FROM visits", "SUM(x) FROM visits", "g, COUNT(*) FROM visits GROUP BY g", "g, n, COUNT(*), SUM(k) FROM visits GROUP BY g, n",
    "n, SUM(x) FROM visits WHERE k < 900 GROUP BY n", "COUNT(*) FROM visits AS t JOIN people AS p ON t.id = p.id WHERE p.f",
    "p.g, SUM(t.x) FROM visits AS t LEFT JOIN people AS p ON t.id = p.id GROUP BY p.g", "COUNT(*) FROM visits WHERE id IN (SELECT id FROM people WHERE n > 1)"))
"""Statements in which each row is of one person and one day."""
MORE = tuple((str(number), str(person), "'b'", "3", "2", "10.0", "900", f"DATE '2000-01-0{day}'")
             for number, person, day in ((17, 1, 1), (18, 1, 1), (19, 2, 2), (20, 3, 4), (21, 3, 4)))
"""Further visits, so that people have several on a day."""
EVERYTHING = {None: Limit(epsilon=None, rho=10**1000, delta=10**1000)}


PROBE = Charge(epsilon=1, rho=1, delta=0)
STEPS = {PROBE: 1, Charge(epsilon=2, rho=4, delta=0): 2}
"""In how many steps a charge is paid for in a window."""


class InPeriods(Few):
    """A world of which the visits of one person on one day are removed, or those without a day."""

    def neighbours(self) -> Iterator[tuple[str, InPeriods]]:
        for person, day in dict.fromkeys((row[PERSON], row[DAY]) for row in self.rows[GROWS]):
            rows = tuple(row for row in self.rows[GROWS] if (row[PERSON], row[DAY]) != (person, day))
            number = "" if day == "NULL" else dt.date.fromisoformat(day.split("'")[1]).toordinal()
            yield f"person {person} in {number}", replace(self, rows=self.rows | {GROWS: rows})


class InWindows(Few):
    """A world of which the visits of one person on two consecutive days are removed, or on two with one that is not read."""

    def neighbours(self) -> Iterator[tuple[str, InWindows]]:
        days = {row: "'" in row[DAY] and dt.date.fromisoformat(row[DAY].split("'")[1]).toordinal() for row in self.rows[GROWS]}
        for person in dict.fromkeys(row[PERSON] for row in self.rows[GROWS]):
            for first in range(DAYS[0] - 1, DAYS[-1] + 1):
                rows = tuple(row for row in self.rows[GROWS] if row[PERSON] != person or days[row] not in (first, first + 1))
                if rows != self.rows[GROWS]:
                    yield f"person {person} in {first}", replace(self, rows=self.rows | {GROWS: rows})


def growing(corpus: Corpus, seed: int = 7, world: type[Few] = InPeriods) -> Corpus:
    """The requests of a corpus that read visits, as if that table grew by the day: each of one day, and of several, with limits on
    the rows of a person in all, or on each day."""
    small = replace(SMALL, rows=SMALL.rows | {GROWS: (*SMALL.rows[GROWS], *MORE)})
    draw, made = random.Random(seed), Corpus(Family(world(**{name: getattr(small, name) for name in field_names(Few)})))
    beside = (Base(request, text) for text in (*MOVED_ON, *IN_EACH) for request in requests_of([text], corpus.family, 0))
    for base in (*corpus.bases, *beside):
        if isinstance(base.request, Opening | Comparisons):
            continue
        day, first, last = draw.choice(DAYS), *sorted(draw.sample(DAYS, 2))
        for periods, by_day in (((day, day), False), ((first, last), False), ((first, last), True)):
            request = _growing(base.request, PeriodRange(period="day", first=periods[0], last=periods[1]), {}, by_day=by_day)
            if request is not base.request and (not by_day or type(request) in BY_SUMS_ALONE):
                made.add(Base(request, f"{base.text} in {periods}{' by day' * by_day}"))
    return made


def _growing(value: Any, periods: PeriodRange, held: dict[int, Any], *, by_day: bool) -> Any:
    """A value in which visits grow, limited `by_day` or not; parts that are one object are one object again."""
    if id(value) in held:
        return held[id(value)]
    made = value
    if isinstance(value, Scan):
        table = value.table
        made = value if table.name != GROWS else replace(value, periods=periods, table=replace(
            table, growth=Growth(column="d", period="day", since=FIRST)))
    elif by_day and isinstance(value, Truncate) and isinstance(below := value.input, Scan) and below.table.name == GROWS:
        growth = Growth(column="d", period="day", since=FIRST, rows=value.rows)
        made = limited_in_periods(replace(below, periods=periods, table=replace(below.table, growth=growth)), value.owner) or value
    elif is_frozen(value) and type(value).__name__ not in ("Table", "Domain"):
        parts = {name: getattr(value, name) for name in field_names(type(value))}
        told = {name: _growing(part, periods, held, by_day=by_day) for name, part in parts.items()}
        if by_day and isinstance(value, GroupedSums):
            told["input"] = show_periods(told["input"])
        if by_day and isinstance(value, Blocks):
            told["view"] = show_periods(told["view"])
        made = value if all(told[name] is part for name, part in parts.items()) else replace(value, **told)
    elif type(value) is tuple:
        told_parts = tuple(_growing(part, periods, held, by_day=by_day) for part in value)
        made = value if all(ours is part for ours, part in zip(told_parts, value, strict=True)) else told_parts
    held[id(value)] = made
    return made


class ForgingInPeriods(Forging):
    """A kernel over a small database that grows. Whoever forges states what the kernel derives: it takes nothing else."""

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(corpus)
        self._honest = next(base.request for base in corpus.bases if type(base.request) is NoisySums and (
            reads := self.reads(base.request)) is not None and reads.steps == 1)

    def reads(self, request: Any) -> PeriodReads | None:
        """What the kernel derives of the periods that a request reads."""
        self.kernel._claims.begin()
        own = copied_request(request)
        self.kernel._priced(own)
        return self.kernel._claims.reads(own.plans)

    def stated(self, request: Any) -> PeriodReads | None:
        """The same with what it costs in each period, if that is known."""
        self.kernel._claims.begin()
        priced = self.kernel._priced(copied_request(request))
        reads = self.kernel._claims.reads(priced.request.plans)
        costs = self.costs(reads, priced.request, priced.certificates)
        return reads if reads is None or costs is None else replace(reads, stated=tuple((many, cost.rounded()) for many, cost in costs))

    def costs(self, reads: PeriodReads | None, request: Any, certificates: tuple[Certificate, ...]) -> list[tuple[int, Cost]] | None:
        return None if reads is None or reads.steps == 1 else costs_in_periods(reads, request, certificates)

    def _ask(self, request: Any, digest: str, *, second: bool = False) -> None:
        def script() -> Generator[Any, Any, str]:
            if second:
                yield self._honest
            yield request
            return "done"

        try:
            reads = self.stated(self._honest if second else request)
        except Exception:  # whatever it is, the kernel finds it, too
            reads = None
        self.kernel.run(script(), cost=replace(ALLOWED, delta=ALLOWED.delta if reads is None or reads.steps == 1 or reads.stated else FREE.delta), account=ADA,
                        limits={}, digest=digest, sql="forged", encode=str, data=None if reads is None else str(reads), in_periods=EVERYTHING)

    def _judged(self, served: Asked, cost: Cost, *, planned: bool, only: int | None) -> Iterator[Found]:
        """Compared with each neighbour for what its period was charged: nothing where it is not read."""
        reads = self.kernel._claims.reads(served.request.plans)
        for at, name in enumerate([name for name in self.corpus.family.kernels if name is not None]):
            if only not in (None, at):
                continue
            number = name.removesuffix(" ").rpartition(" ")[2]
            inside = reads is not None and number.isdigit() and int(number) in reads.numbers
            one = inside and reads is not None and reads.steps == 1
            stated = self.costs(reads, served.request, served.certificates)
            charged = FREE if not inside else cost if one else twice(cost) if stated is None else stated[0][1]
            yield from judged(served.request, served.certificates, charged, self.corpus.family, planned=planned and one, only=at)


class ForgingInWindows(ForgingInPeriods):
    """The same, where neighbours differ on two consecutive days."""

    def _judged(self, served: Asked, cost: Cost, *, planned: bool, only: int | None) -> Iterator[Found]:
        """Compared with each neighbour for what its window was charged: nothing where none of its days is read."""
        reads = self.kernel._claims.reads(served.request.plans)
        for at, name in enumerate([name for name in self.corpus.family.kernels if name is not None]):
            if only not in (None, at):
                continue
            first = int(name.rpartition(" ")[2])
            meets = reads is not None and first + 1 >= reads.periods.first and first <= reads.periods.last
            steps = 0 if reads is None or not meets else STEPS[charge_in_window(reads, PROBE)]
            charged = (FREE, cost, twice(cost))[steps]
            yield from judged(served.request, served.certificates, charged, self.corpus.family, planned=planned and steps == 1, only=at)


def twice(cost: Cost) -> Cost:
    """What two steps of a cost are charged."""
    return Cost(epsilon=None if cost.epsilon is None else 2 * cost.epsilon, rho=4 * cost.rho, delta=cost.delta)
