"""Every way of limiting what an entity adds, held against the whole engine on neighbours that are as bad for it as we can make them.

A false alarm is raised once in 3 * 10^7 audits of promises that are kept, so once in a million runs of this file at most.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.audits import Pair, person, prepared, refutes, sample, visit

from dpsql.audit.epsilon import EpsilonBound, lower_bound
from dpsql.frozen import Frozen, field
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.trusted.extensions import owned
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.measurements.several import sets
from dpsql.trusted.plan.operators import owner_sets
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.owner_sets import UNIT
from dpsql.trusted.plan.operators.truncate import Truncate

pytestmark = pytest.mark.stat

CONFIDENCE = 1 - 3e-8
# One has 64 scores at the bound, the others one each.
MANY = Pair(people=[person(i) for i in range(6)], scores=[(0, 5)] * 64 + [(i, -5) for i in range(1, 6)])
# Sixty people of about twenty scores, and one of two hundred: a limit is learned between.
CROWD = Pair(people=[person(i) for i in range(61)], scores=[(0, 5)] * 200 + [(i, 1) for i in range(1, 61) for _ in range(15 + i % 10)])
# One with the most that is declared, among people of little: an average is counted from about where it is.
RICH = Pair(people=[person(i, income=1000.0 if i else 100_000.0) for i in range(121)])
# One goes to all clinics in all years; the others each to one.
ROUND = Pair(people=[person(i) for i in range(8)], visits=[
    *(visit(i, 0, year=2018 + i % 4, clinic="abcd"[i % 4], cost=500.0) for i in range(3)),
    *(visit(10 + i, 1 + i % 7, year=2018 + i % 4, clinic="abcd"[i % 4], cost=100.0) for i in range(14))])
# A household of four: six pairs, three of each person. Without one of them there are three pairs.
HOME = Pair(people=[person(i, household=0, sex="fm"[i % 2], age=10 * i) for i in range(4)])
# Forty households of three, and one of nine.
STREET = Pair(people=[person(i, household=0 if i < 9 else 1 + i // 3, sex="fm"[i % 2]) for i in range(129)])
# One meets eight others, each once as the first and once as the second of a pair.
STAR = Pair(people=[person(0, household=7, age=50), *(person(i, household=50, age=7) for i in range(1, 9))])
PAIRS = "people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id"
BOTH_WAYS = "people a JOIN people b ON a.household_id = b.household_id AND a.person_id <> b.person_id"
TRIPLES = (f"{PAIRS} JOIN people c ON a.household_id = c.household_id AND b.person_id < c.person_id")


class Claim(Frozen):
    """A statement under one bound, and the databases it is worst on."""

    bound: str
    text: str
    pair: Pair
    options: str = ""
    epsilon: float = 1.5
    times: int = 400
    cells: list[Any] | None = field(default=None)


CLAIMS = [
    Claim(bound="rows", text="COUNT(*) FROM scores", pair=CROWD, times=250),
    Claim(bound="rows", text="AVG(points), COUNT(*) FROM scores", pair=MANY, options=", max_rows = 2"),
    Claim(bound="clip", text="SUM(points) FROM scores", pair=CROWD, times=250),
    Claim(bound="clip", text="AVG(income) FROM people", pair=RICH, epsilon=3.0),
    Claim(bound="clip", text="year, SUM(cost), COUNT(*) FROM visits GROUP BY year", pair=ROUND, times=250),
    Claim(bound="reservoir", text="year, COUNT(*) FROM visits GROUP BY year", pair=ROUND, options=", max_groups = 2, clip = 1"),
    Claim(bound="bands", text="SUM(points) FROM scores", pair=MANY, times=250),
    Claim(bound="bands", text="clinic, SUM(cost) FROM visits GROUP BY clinic", pair=ROUND, options=", max_groups = 2", times=250),
    Claim(bound="balance", text="COUNT(*) FROM scores", pair=CROWD),
    Claim(bound="balance", text=f"COUNT(*) FROM {PAIRS}", pair=STREET, times=360),
    Claim(bound="balance", text=f"a.sex, COUNT(*) FROM {PAIRS} GROUP BY a.sex", pair=STREET, times=360),
    Claim(bound="r2t", text="SUM(points) FROM scores", pair=MANY, times=360),
    Claim(bound="r2t", text=f"COUNT(*) FROM {PAIRS}", pair=STREET, times=360),
    Claim(bound="extension", text=f"COUNT(*) FROM {PAIRS}", pair=HOME, options=", clip = 3"),
    Claim(bound="extension", text="COUNT(*) FROM people a JOIN people b ON a.household_id = b.age", pair=STAR, options=", clip = 3"),
    Claim(bound="extension", text=f"a.sex, COUNT(*) FROM {BOTH_WAYS} GROUP BY a.sex", pair=HOME, options=", clip = 2"),
    Claim(bound="extension", text=f"COUNT(*) FROM {TRIPLES}", pair=HOME, options=", clip = 2", times=360),
    Claim(bound="extension", text=f"SUM(a.age - b.age) FROM {PAIRS}", pair=HOME, options=", clip = 40"),
]


def audited(claim: Claim, folder: Path, times: int) -> EpsilonBound:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {claim.epsilon}, bound = '{claim.bound}'{claim.options}) {claim.text}"
    first, second = prepared(text, claim.pair, folder)
    cells = list(first.measure().cells)
    return lower_bound(sample(first, times, cells), sample(second, times, cells), confidence=CONFIDENCE)


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=[f"{claim.bound}: {claim.text[:60]}" for claim in CLAIMS])
def test_neighbours_are_told_apart_no_better_than_the_price_allows(claim: Claim, tmp_path: Path, effort: float) -> None:
    finding = audited(claim, tmp_path, int(claim.times * effort))
    assert finding.epsilon <= claim.epsilon, finding


def test_every_bound_of_sums_is_audited() -> None:
    elsewhere = {"frequency", "elastic", "residual", "recursive", "removals", "projection", "flow"}  # have tests of their own
    assert {claim.bound for claim in CLAIMS} == {bound.name for bound in BOUNDS} - elsewhere


# -- planted faults: what is wrong with published programs, and with the ways as they might be written


def zero_up_to_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """R2T.py: a value that falls to the level is reported as 0."""
    value = LipschitzExtension.value

    def published(self: LipschitzExtension, j: int) -> int:
        found = value(self, j)
        return found if found > UNIT * self.levels[j] else 0

    monkeypatch.setattr(LipschitzExtension, "value", published)


def zero_for_negative_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """R2T.py: with a row below zero the program has no solution, and 0 is reported."""
    signed = sets.signed

    def published(names: Any, weights: Any, **more: Any) -> Any:
        return signed(names, np.zeros_like(weights) if (weights < 0).any() else weights, **more)

    monkeypatch.setattr(sets, "signed", published)


def other_names_in_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entity in two columns is taken for two (and names are not put in order, so that it stands in both)."""
    coded = owned.coded
    monkeypatch.setattr(owner_sets, "network", lambda columns: iter(()))
    monkeypatch.setattr(owned, "coded", lambda names: coded([column + 1000 * at for at, column in enumerate(names)]))


def clipping_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clip, "render", lambda self, below, printing: below[0])


def keeping_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Truncate, "render", lambda self, below, printing: below[0])


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], Claim]] = [
    (zero_up_to_the_level, Claim(bound="extension", text=f"COUNT(*) FROM {PAIRS}", pair=HOME, options=", clip = 3", times=2400)),
    (zero_for_negative_rows, Claim(bound="extension", options=", clip = 30", text=f"SUM(b.age - a.age - 15) FROM {PAIRS}", pair=Pair(
        people=[person(0, household=0, age=50), *(person(i, household=0, age=20 * i) for i in range(1, 9))]))),
    (other_names_in_every_column, Claim(bound="extension", options=", clip = 3", times=2000,
                                        text="COUNT(*) FROM people a JOIN people b ON a.household_id = b.age", pair=STAR)),
    (clipping_nothing, Claim(bound="clip", text="SUM(points) FROM scores", pair=MANY, options=", clip = 5")),
    (keeping_every_row, Claim(bound="rows", text="COUNT(*) FROM scores", pair=MANY, options=", max_rows = 2")),
    (keeping_every_row, Claim(bound="reservoir", text="year, COUNT(*) FROM visits GROUP BY year", pair=ROUND,
                              options=", max_groups = 1, clip = 1", times=1400)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "claim"), PLANTED, ids=[f"{plant.__name__}: {claim.bound}" for plant, claim in PLANTED])
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], claim: Claim, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert refutes(lambda folder, times: audited(claim, folder, times).epsilon, claim.epsilon, tmp_path, claim.times)
