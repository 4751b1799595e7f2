"""Nothing that a statement releases tells more than its price, on random databases and all their neighbours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from oracle.faults import CLAIMED, EXECUTED, Fault, anew
from oracle.oracle import Seen, Totals, everywhere, moved, run_on
from oracle.replay import Asked
from oracle.statements import KINDS, NEWER, NEWEST
from oracle.worlds import FIRST_NEWER, world_of

from dpsql.trusted.kernel.claims import Claims, Disagreement
from dpsql.trusted.measurements.online_comparisons import Comparisons
from dpsql.trusted.plan.certificate import Unbounded

WORLDS, LATER, STATEMENTS = 12, 3, 34  # further worlds for newer kinds of statements, which are mostly over one table
MET = len(CLAIMED) / 2
NEWER_WORLDS = 4  # of all types and shapes, for all kinds of statements
REACHED = ("NoisySums Count l1", "NoisySums Count l2", "NoisySums rows", "NoisySums GridSum l1", "NoisySums Moments l1", "NoisySums Clipped l1",
           "Select choice", "NoisyFlipDistance slacks")


@pytest.fixture(scope="session")  # a minute of work; tests of one module may be run before and after those of others
def totals(effort: float) -> Iterator[Totals]:
    """At least as many statements as it takes to meet every fault that is planted below."""
    found, older, effort = Totals(), [kind for kind in KINDS if kind not in (*NEWER, *NEWEST)], max(1, effort)
    for seed in range(int(WORLDS * effort)):
        run_on(seed, found, statements=STATEMENTS, keep=True, kinds=older)
    for seed in range(WORLDS, WORLDS + int(LATER * effort)):
        run_on(seed, found, statements=STATEMENTS, keep=True, kinds=NEWER)
    for seed in range(FIRST_NEWER, FIRST_NEWER + int(NEWER_WORLDS * effort)):
        run_on(seed, found, statements=STATEMENTS, keep=True)
    yield found
    for family in {id(seen.family): seen.family for seen in found.kept}.values():
        family.close()


@pytest.mark.slow
@pytest.mark.long
def test_nothing_tells_more_than_its_price(totals: Totals) -> None:
    assert not totals.violations, f"{len(totals.violations)} violations; the first: {totals.violations[0]}"


@pytest.mark.slow
@pytest.mark.long
def test_hardly_any_statement_ends_in_anything_but_an_answer_or_a_refusal(totals: Totals) -> None:
    """What fails on every database alike tells nothing; it is a fault of another kind."""
    assert len(totals.incidents) + len(totals.crashed) <= totals.statements / 100, [*totals.incidents, *totals.crashed]


@pytest.mark.slow
@pytest.mark.long
def test_most_statements_are_answered_on_many_neighbours(totals: Totals) -> None:
    assert totals.answered > totals.statements / 2
    assert totals.compared > 3 * totals.answered / 2
    assert len({shape.split()[0] for shape in totals.shapes}) > 8


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shape", REACHED)
def test_claims_are_reached_by_some_entity(shape: str, totals: Totals) -> None:
    assert totals.shapes[shape].most >= 0.5


@pytest.mark.slow
def test_nothing_in_few_worlds_tells_more_than_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what is tried above and below, with faults that so few statements meet."""
    found = Totals()
    run_on(0, found, statements=STATEMENTS, keep=True, kinds=[kind for kind in KINDS if kind not in (*NEWER, *NEWEST)])
    run_on(WORLDS, found, statements=STATEMENTS, keep=True, kinds=NEWER)
    run_on(FIRST_NEWER, found, statements=STATEMENTS, keep=True)
    assert not found.violations, found.violations[0]
    assert len(found.incidents) + len(found.crashed) <= found.statements / 100, [*found.incidents, *found.crashed]
    assert found.answered > found.statements / 2
    for method in ("summary", "relation"):
        monkeypatch.setattr(Claims, method, lambda *args, **kwargs: None)
    met = []
    for fault in CLAIMED:
        with monkeypatch.context() as planted:
            fault.plant(planted)
            met += [fault.what] * any(claims_too_little(seen) for seen in found.kept)
    assert len(met) > MET, met
    for family in {id(seen.family): seen.family for seen in found.kept}.values():
        family.close()


def test_a_world_follows_from_its_number() -> None:
    assert world_of(5) == world_of(5) != world_of(6)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", CLAIMED, ids=lambda fault: fault.what.replace(" ", "_"))
def test_a_claim_that_is_too_small_is_found(fault: Fault, totals: Totals, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernel's own checker switched off, so that the oracle finds it by itself."""
    fault.plant(monkeypatch)
    for method in ("summary", "relation"):
        monkeypatch.setattr(Claims, method, lambda *args, **kwargs: None)
    assert any(claims_too_little(seen) for seen in totals.kept)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in CLAIMED if fault.checked], ids=lambda fault: fault.what.replace(" ", "_"))
def test_a_claim_of_a_plan_that_is_too_small_is_refused_too(fault: Fault, totals: Totals, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    with pytest.raises(Disagreement):
        for seen in totals.kept:
            with contextlib.suppress(ValueError, Unbounded):
                claimed_anew(seen)


def claimed_anew(seen: Seen) -> Asked:
    """The same request, with what is claimed of its plans now."""
    request, kernel = anew(seen.request.request), seen.family.kernels[None]
    return Asked(request, (kernel._borne_out(request.plan),) if isinstance(request, Comparisons) else kernel._certificates(request))


def claims_too_little(seen: Seen) -> bool:
    """Whether what was read moves further than is claimed now, where the request is not refused."""
    try:
        again = Seen(claimed_anew(seen), seen.family, seen.readings)
        return any(move.broken for _, _, move, _ in moved(again, again.request.certificates))
    except (ValueError, LookupError, Unbounded):
        return False


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", EXECUTED, ids=lambda fault: fault.what.replace(" ", "_"))
def test_what_is_executed_wrongly_is_found(fault: Fault, totals: Totals, monkeypatch: pytest.MonkeyPatch) -> None:
    concerned = [seen for seen in totals.kept if f"{fault.within.__name__}(" in repr(seen.request.request)]
    fault.plant(monkeypatch)
    for family in {id(seen.family): seen.family for seen in concerned}.values():
        family.forget()
    assert any(move.broken for seen in concerned for _, _, move, _ in moved(
        everywhere(seen.request, seen.family), seen.request.certificates))
