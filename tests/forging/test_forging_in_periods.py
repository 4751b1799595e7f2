"""Requests over growing tables that nobody honest sends: each is refused before a charge, or moves no further than a person in one
period was charged for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from forging import in_periods
from forging.corpus import recorded
from forging.forger import Forgery
from forging.forging import EVERYWHERE, Totals, Verdict
from forging.in_periods import ForgingInPeriods, ForgingInWindows, InWindows, growing
from forging.watched import replaced

from dpsql.frozen import replace
from dpsql.trusted.kernel import claims, period_certificate, period_reads
from dpsql.trusted.plan.certificate import Sensitivity
from dpsql.trusted.plan.operators.scan import Scan

FORGERIES = 400


@pytest.fixture(scope="module")
def forging() -> Iterator[ForgingInPeriods]:
    with replaced():
        whole = recorded()
        made = ForgingInPeriods(growing(whole))
        yield made
        whole.family.close()
        made.corpus.family.close()


def honest(forging: ForgingInPeriods) -> list[tuple[str, Verdict]]:
    return [(base.text, forging.verdict(Forgery(base.request, base, "nothing"), number * EVERYWHERE))
            for number, base in enumerate(forging.corpus.bases)]


def test_real_requests_in_periods_move_no_further_than_they_were_charged_for(forging: ForgingInPeriods) -> None:
    """In one step, in two, and by what is stated for a period; those with a delta are refused where they take two."""
    found, steps = honest(forging), Counter[Any]()
    bad = [(text, verdict) for text, verdict in found if verdict.outcome not in ("held", "refused")]
    assert not bad, bad[:3]
    for base, (_, verdict) in zip(forging.corpus.bases, found, strict=True):
        reads = forging.reads(base.request)
        assert reads is not None
        steps[reads.steps] += verdict.outcome == "held"
        steps["stated"] += verdict.outcome == "held" and bool((stated := forging.stated(base.request)) and stated.stated)
        if verdict.outcome == "refused":
            assert reads.steps == 2 and base.request.cost(*forging.kernel._certificates(base.request)).delta > 0, verdict
    assert min(steps[1], steps[2], steps["stated"]) > 15, steps


@pytest.mark.slow
def test_forgeries_in_periods_are_refused_or_move_no_further_than_they_were_charged_for(forging: ForgingInPeriods, effort: float) -> None:
    totals = Totals()
    forging.run(range(int(FORGERIES * max(1.0, effort))), totals)
    assert not totals.bad(), "\n".join([str(totals), *totals.bad()])
    assert totals.outcomes["held"] > totals.forged / 10


def test_a_scan_that_reads_all_periods_is_found(forging: ForgingInPeriods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scan, "in_periods", lambda self: iter(()))
    forging.corpus.family.forget()
    assert sum(verdict.outcome == "moved" for _, verdict in honest(forging)) > 20
    monkeypatch.undo()
    forging.corpus.family.forget()


def test_two_steps_that_are_charged_as_one_are_found(forging: ForgingInPeriods, monkeypatch: pytest.MonkeyPatch) -> None:
    def one(plans: object, known: object) -> period_reads.PeriodReads | None:
        found = period_reads.reads_of(plans, known)  # type: ignore[arg-type]
        return replace(found, steps=1) if found is not None and len(found.periods) == 1 else found

    monkeypatch.setattr(claims, "reads_of", one)
    assert any(verdict.outcome == "moved" for _, verdict in honest(forging))


def test_a_period_that_is_charged_for_one_row_where_two_can_move_is_found(forging: ForgingInPeriods, monkeypatch: pytest.MonkeyPatch) -> None:
    def one(plan: Any, whole: Any, known: Any) -> Any:
        found = period_certificate.certificate_in_period(plan, whole, known)
        return found and replace(found, summands=tuple(Sensitivity(l1=(part.l1 or 0) // found.rows, l2=part.l2 // found.rows) for part in found.summands))

    monkeypatch.setattr(claims, "certificate_in_period", one)
    assert any(verdict.outcome == "moved" for _, verdict in honest(forging))


@pytest.fixture(scope="module")
def in_windows() -> Iterator[ForgingInWindows]:
    with replaced():
        whole = recorded()
        made = ForgingInWindows(growing(whole, world=InWindows))
        yield made
        whole.family.close()
        made.corpus.family.close()


@pytest.mark.slow
def test_real_requests_move_no_further_in_windows_than_they_were_charged_for_there(in_windows: ForgingInWindows) -> None:
    found = honest(in_windows)
    bad = [(text, verdict) for text, verdict in found if verdict.outcome not in ("held", "refused")]
    assert not bad, bad[:3]
    assert sum(verdict.outcome == "held" for _, verdict in found) > 30


@pytest.mark.slow
def test_several_periods_that_are_charged_as_one_in_windows_are_found(in_windows: ForgingInWindows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_periods, "charge_in_window", lambda reads, in_all: in_all)
    assert any(verdict.outcome == "moved" for _, verdict in honest(in_windows))


@pytest.mark.slow
def test_forgeries_move_no_further_in_windows_than_they_were_charged_for_there(in_windows: ForgingInWindows, effort: float) -> None:
    totals = Totals()
    in_windows.run(range(int(FORGERIES / 4 * max(1.0, effort))), totals)
    assert not totals.bad(), "\n".join([str(totals), *totals.bad()])
    assert totals.outcomes["held"] > totals.forged / 10
