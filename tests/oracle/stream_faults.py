"""Faults over time that the streams have to find: in what is read, in what is charged, and in what is shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpsql.engine import answering
from dpsql.engine.charging import Charged
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.growth import Growth
from dpsql.trusted.kernel import period_reads
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate


class StreamFault(Frozen, kw_only=False):
    """What is wrong, and how it is planted."""

    what: str
    plant: Callable[[pytest.MonkeyPatch], None]


def _unread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scan, "in_periods", lambda self: iter(()))


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
    patch.setattr(PeriodReads, "numbers", property(lambda self: range(self.periods.first, self.periods.first + 1)))


def _stored_of_other_data(patch: pytest.MonkeyPatch) -> None:
    """What was stored of other data is shown, where tables are read that do not grow."""
    shown = Charged.data.fget  # type: ignore[attr-defined]
    patch.setattr(Charged, "data", property(
        lambda self: shown(self) if self.reads is None else f"{shown(self).rsplit(' ', 1)[0]} closed"))


def _by_the_latest_day(patch: pytest.MonkeyPatch) -> None:
    """What was once closed stays so, and the clock does not count."""
    now, latest = Growth.last_closed, dict[Growth, dt.date]()

    def wrong(self: Growth, day: dt.date) -> int:
        latest[self] = max(day, latest.get(self, day))
        return now(self, latest[self])

    patch.setattr(Growth, "last_closed", wrong)


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
    StreamFault("a stored answer of other data is shown", _stored_of_other_data),
    StreamFault("a clock that is set back closes nothing", _by_the_latest_day),
    StreamFault("periods are read before they close", _before_they_close),
    StreamFault("two steps are charged as one", _always_one_step),
)
