"""Faults over time that the streams have to find: in what is read, in what is charged, and in what is shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpsql.engine import answering, charging
from dpsql.engine.charging import Charged
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import FREE, Charge, Cost
from dpsql.trusted.declarations.growth import Growth
from dpsql.trusted.kernel import period_reads
from dpsql.trusted.kernel.chain import Chain
from dpsql.trusted.kernel.period_costs import PeriodCosts
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.period_runs import as_sums
from dpsql.trusted.kernel.period_sums import PeriodSums, charge_in_window
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate


class StreamFault(Frozen, kw_only=False):
    """What is wrong, how it is planted, and the kinds of statements that show it."""

    what: str
    plant: Callable[[pytest.MonkeyPatch], None]
    often: tuple[str, ...] = ()


def _unread(patch: pytest.MonkeyPatch) -> None:
    tests = Scan.in_periods
    patch.setattr(Scan, "in_periods", lambda self: ("TRUE" for _ in tests(self)))


def _over_all_periods(patch: pytest.MonkeyPatch) -> None:
    """Of each entity, rows are chosen among those of all periods; those of other periods are left out then."""
    render, tests = Truncate.render, Scan.in_periods

    def wrong(self: Truncate, below: tuple[str, ...], printing: Printing) -> str:
        scan, growth = self.input, getattr(getattr(self.input, "table", None), "growth", None)
        at = next((column for column, name in getattr(scan, "columns", ()) if growth is not None and name == growth.column), None)
        if at is None:
            return render(self, below, printing)
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Scan, "in_periods", lambda self: iter(()))
            chosen = render(self, (scan.render((), printing),), printing)
        inside = " AND ".join(test.replace(scan._carried(growth.column), f't9."{at}"') for test in tests(scan))
        return f"SELECT * FROM ({chosen}) AS t9 WHERE {inside}"

    patch.setattr(Truncate, "render", wrong)


def _refused_where_rows_are_late(patch: pytest.MonkeyPatch) -> None:
    decide = answering.decide

    def wrong(statement: Any, session: Any, parameters: Any) -> Any:
        (rows,), = session.kernel._reader.rows("SELECT COUNT(*) FROM visits")
        if rows % 3 == 0:
            raise Unsupported("rows came late", code="periods", try_="another day")
        return decide(statement, session, parameters)

    patch.setattr(answering, "decide", wrong)


def _of_the_first_alone(patch: pytest.MonkeyPatch) -> None:
    charges = PeriodReads.charges

    def wrong(self: PeriodReads, in_all: Charge) -> Iterator[tuple[range, Charge]]:
        for numbers, charge in charges(self, in_all):
            yield numbers[:1], charge
            break

    patch.setattr(PeriodReads, "charges", wrong)


def _stored_of_other_data(patch: pytest.MonkeyPatch) -> None:
    """What was stored of other data is shown, where tables are read that do not grow."""
    shown = Charged.data.fget  # type: ignore[attr-defined]
    patch.setattr(Charged, "data", property(
        lambda self: shown(self) if self.reads is None else f"{shown(self).rsplit(' ', 1)[0]} closed"))


def _by_the_clock_alone(patch: pytest.MonkeyPatch) -> None:
    """A clock that is set back closes periods again."""
    patch.setattr(Chain, "days_behind", property(lambda self: 0))


def _to_the_newest_alone(patch: pytest.MonkeyPatch) -> None:
    """A weighted sum over periods is charged to the last one of them alone."""
    costs = WeightedPeriods.costs_in_periods

    def wrong(self: WeightedPeriods, certificate: Certificate) -> list[tuple[int, Cost]]:
        *_, (_, last) = costs(self, certificate)
        return [(self.periods - 1, FREE), (1, last)]

    patch.setattr(WeightedPeriods, "costs_in_periods", wrong)


def _of_other_periods(patch: pytest.MonkeyPatch) -> None:
    """The oldest period has the weight of the newest one, and so on."""
    by_period = WeightedPeriods._by_period
    patch.setattr(WeightedPeriods, "_by_period", lambda self: zip(
        range(self.periods), [weight for _, weight in by_period(self)][::-1], strict=True))


def _in_the_first_window_alone(patch: pytest.MonkeyPatch) -> None:
    """A statement over several periods is charged only to the windows that have the first of them."""
    def wrong(self: PeriodSums, reads: PeriodReads, in_all: Charge) -> None:
        for periods, charge in reads.charges(in_all):
            self.each.add(periods[0], periods[-1], as_sums(charge))
        in_window = as_sums(charge_in_window(reads, in_all))
        for part in (self._starts, self._ends):
            part.add(reads.periods.first, reads.periods.first, in_window)

    patch.setattr(PeriodSums, "count", wrong)


def _stated_in_windows(patch: pytest.MonkeyPatch) -> None:
    """Windows are charged what each of their periods is, once, where several are read."""
    patch.setattr("dpsql.trusted.kernel.period_sums.charge_in_window", lambda reads, in_all: reads.first_charge(in_all))


def _also_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scan, "_on_time", lambda self, growth, arrived: "TRUE")


def _of_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(charging, "newest_of", lambda revised: 0)


def _too_little_is_stated(patch: pytest.MonkeyPatch) -> None:
    """The engine states a tenth of what each period costs, and nobody checks it."""
    from dpsql.planning import claimed_periods

    stated = claimed_periods._stated

    def wrong(*given: Any) -> PeriodReads:
        reads = stated(*given)
        return replace(reads, stated=tuple((many, Charge(epsilon=each.epsilon and each.epsilon // 10, rho=each.rho // 10, delta=each.delta))
                                           for many, each in reads.stated))

    patch.setattr(claimed_periods, "_stated", wrong)
    patch.setattr(PeriodCosts, "add", lambda *given: None)


def _before_they_close(patch: pytest.MonkeyPatch) -> None:
    now = Growth.last_closed
    patch.setattr(Growth, "last_closed", lambda self, day: now(replace(self, closes=0), day + dt.timedelta(days=1)))


def _always_one_step(patch: pytest.MonkeyPatch) -> None:
    found = period_reads.reads_of

    def wrong(plans: Any, known: Any) -> PeriodReads | None:
        reads = found(plans, known)
        return None if reads is None else replace(reads, steps=1)

    patch.setattr("dpsql.trusted.kernel.claims.reads_of", wrong)
    patch.setattr("dpsql.planning.claimed_periods.reads_of", wrong)
    _any_steps(patch)


def _any_steps(patch: pytest.MonkeyPatch) -> None:
    """Texts of periods may state one step where several are read."""
    def read(text: str) -> Iterator[PeriodReads]:
        if text.startswith(period_reads.START):
            period, first, last, steps, *_ = text.removeprefix(period_reads.START).split(" ")
            periods = period_reads.PeriodRange(period=period, first=int(first), last=int(last))  # type: ignore[arg-type]
            yield PeriodReads(periods=periods, steps=int(steps))  # type: ignore[arg-type]

    patch.setattr(PeriodReads, "from_text", classmethod(lambda cls, text: next(read(text), None)))


FAULTS = (
    StreamFault("the periods of a scan are not printed", _unread),
    StreamFault("a limit on rows acts over all periods", _over_all_periods),
    StreamFault("late rows decide a refusal", _refused_where_rows_are_late),
    StreamFault("several periods are charged to the first alone", _of_the_first_alone),
    StreamFault("a stored answer of other data is shown", _stored_of_other_data, ("per_person", "static")),
    StreamFault("a clock that is set back closes periods again", _by_the_clock_alone, ("open", "aggregates")),
    StreamFault("periods are read before they close", _before_they_close),
    StreamFault("two steps are charged as one", _always_one_step),
    StreamFault("a weighted sum is charged to one of its periods", _to_the_newest_alone, ("running",)),
    StreamFault("weights are those of other periods", _of_other_periods, ("running",)),
    StreamFault("a stored cell of another revision is shown", _of_before, ("aggregates", "by_period")),
    StreamFault("windows are charged by their first period alone", _in_the_first_window_alone, ("aggregates", "per_person")),
    StreamFault("windows are charged one of several periods", _stated_in_windows, ("aggregates", "running")),
    StreamFault("late rows of closed periods are read", _also_late, ("aggregates", "by_period")),
    StreamFault("stated charges are not checked", _too_little_is_stated, ("running",)),
)
