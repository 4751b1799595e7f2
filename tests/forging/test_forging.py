"""Requests that nobody honest sends: each is refused before a charge, or moves no further than it was charged for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from forging.corpus import Base, Corpus, parts_of, recorded
from forging.forger import Forgery
from forging.forging import FAULTS, Forging, Totals, honest
from forging.known import HELD_NOW, KNOWN, halves
from forging.watched import replaced
from forging.wire import Wire

from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.kernel.shapes import RELATIONS, SUMMARIES
from dpsql.trusted.measurements.all_measurements import MEASUREMENTS, VALUES
from dpsql.trusted.measurements.online_comparisons import Comparisons
from dpsql.trusted.measurements.select import Select, Target
from dpsql.trusted.measurements.vote import Vote
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.largest import Largest

FORGERIES, MESSAGES = 600, 60
MADE_BY_RELEASES = {Largest}  # plans that no request has: a release makes them


@pytest.fixture(scope="module")
def forging() -> Iterator[Forging]:
    with replaced():
        made = Forging(recorded())
        yield made
        made.corpus.family.close()


@pytest.fixture(scope="module")
def corpus(forging: Forging) -> Corpus:
    return forging.corpus


def test_every_class_that_the_kernel_takes_is_in_some_request(corpus: Corpus) -> None:
    found = set[type]().union(*(parts_of(base.request) for base in corpus.bases))
    wanted = {*MEASUREMENTS, *VALUES, *RELATIONS, *SUMMARIES, Comparisons} - MADE_BY_RELEASES
    assert not wanted - found, sorted(kind.__name__ for kind in wanted - found)


def test_real_requests_are_answered_and_move_no_further_than_they_were_charged_for(forging: Forging) -> None:
    assert honest(forging) == []


@pytest.mark.slow
def test_forgeries_are_refused_or_move_no_further_than_they_were_charged_for(forging: Forging, effort: float) -> None:
    totals = Totals()
    forging.run(range(int(FORGERIES * max(1.0, effort))), totals)
    assert not totals.bad(), "\n".join([str(totals), *totals.bad()])
    assert totals.outcomes["held"] > totals.forged / 10  # most are refused; enough are not


@pytest.mark.slow
def test_forgeries_over_the_wire_are_refused_or_move_no_further_than_they_were_charged_for(forging: Forging, effort: float) -> None:
    totals = Totals()
    with Wire(forging) as wire:
        wire.run(range(int(MESSAGES * max(1.0, effort))), totals)
    assert not totals.bad(), "\n".join([str(totals), *totals.bad()])
    assert totals.outcomes["held"] > totals.forged / 20


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.__name__)
def test_a_forgery_that_was_once_answered_is_refused(known: Callable[[Corpus], Forgery], forging: Forging) -> None:
    assert forging.verdict(known(forging.corpus), 0).outcome == "refused"


@pytest.mark.parametrize("known", HELD_NOW, ids=lambda known: known.__name__)
def test_a_forgery_that_once_moved_further_is_held(known: Callable[[Corpus], Forgery], forging: Forging) -> None:
    assert forging.verdict(known(forging.corpus), 0).outcome == "held"


def test_numbers_of_other_types_end_in_no_fault(forging: Forging) -> None:
    found = {forgery.what: forging.verdict(forgery) for forgery in halves(forging.corpus)}
    assert {what: verdict for what, verdict in found.items() if verdict.outcome in FAULTS} == {}


def test_a_forgery_follows_from_its_number(forging: Forging) -> None:
    first, again = (forging.forger.forgery(12) for _ in range(2))
    assert first.what == again.what and first.base is again.base


# -- what is planted is found: the judge uses nothing of the costs below


def first_of(corpus: Corpus, kind: type) -> Base:
    return next(base for base in corpus.bases if type(base.request) is kind)


@pytest.mark.parametrize("kind", sorted(MEASUREMENTS - {Vote}, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_a_release_that_costs_nothing_is_found(kind: type, forging: Forging, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each measurement some real request moves."""
    monkeypatch.setattr(kind, "cost", lambda self, *certificates: FREE)
    bases = [base for base in forging.corpus.bases if type(base.request) is kind]
    assert any(forging.verdict(Forgery(base.request, base, "nothing")).outcome == "moved" for base in bases)


TIGHT = ["AboveThresholdOfCounts", "AboveThresholdOfSums", "AboveThresholdOfTests", "Blocks", "DegreeHistogram", "DependentParents", "FarthestCount",
         "Keys", "NoisyFlipDistance", "NoisySums", "Opening", "Partition", "Removed", "Select", "Tree"]


@pytest.mark.parametrize("name", TIGHT)
def test_a_release_that_costs_a_half_is_found(name: str, forging: Forging, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = next(kind for kind in MEASUREMENTS if kind.__name__ == name)
    whole = kind.cost  # type: ignore[attr-defined]

    def half(self: object, *certificates: object) -> Cost:
        cost: Cost = whole(self, *certificates)
        return Cost(epsilon=None if cost.epsilon is None else cost.epsilon / 2, rho=cost.rho / 4, delta=cost.delta / 2)

    monkeypatch.setattr(kind, "cost", half)
    bases = [base for base in forging.corpus.bases if type(base.request) is kind]
    assert any(forging.verdict(Forgery(base.request, base, "nothing")).outcome == "moved" for base in bases)


def test_a_draw_that_may_be_in_blocks_pays_for_the_rounding_of_blocks(corpus: Corpus) -> None:
    """Among more than 1024 intervals a block is drawn first, whose weight is off by a factor of exp(2^-39): so a chance is off by
    2^-38 on either database. How many intervals there are depends on the rows, so the widest segment decides."""
    request = next(base.request for base in corpus.bases if type(base.request) is Select and not base.request.flip)
    segment = replace(request.segments[0][0], low=0, high=10**6, target=Target(fraction=Fraction(1, 2)), below=1, above=1)
    wide = replace(request, segments=((segment,), *(() for _ in request.cells[1:])), scale=2.0)
    rows = 2
    charged = wide.cost(Certificate(below=Stability(rows=rows, owners=("p",)), summands=()))
    assert charged.epsilon - Fraction(rows * 2, 2) >= rows * Fraction(1, 2**37)  # scores of b = 2: a row moves a difference by 2
