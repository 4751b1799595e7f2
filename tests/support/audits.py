"""Pairs of neighbouring databases, and many releases of one statement on both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support import worlds
from support.sessions import open_ledger, reader_of, session_of

from dpsql.audit.epsilon import EpsilonBound, lower_bound
from dpsql.audit.prepared import Batched, PreparedStatement, Remembering
from dpsql.frozen import Frozen, field
from dpsql.planning.script import Released

Numbers = NDArray[np.float64]
Row = tuple[Any, ...]
CONFIDENCE = 1 - 1e-7
POLICY = worlds.POLICY.replace("delta = 0.01", "delta = 0.1")


def person(key: int, *, household: int | None = 0, sex: str | None = "f", age: int = 50, income: float | None = 50_000.0,
           weight: float | None = 60.0, nickname: str | None = "al") -> Row:
    return (key, household, sex, age, income, weight, True, None, nickname, "secret")


def visit(key: int, who: int, *, year: int | None = 2020, clinic: str | None = "a", cost: float | None = 100.0,
          note: str | None = "ill") -> Row:
    return (key, who, year, clinic, cost, note, None)


class Pair(Frozen):
    """A database, and the rows that one more entity (person 0, or household 0) brings."""

    people: list[Row] = field(default_factory=list)
    visits: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    households: list[Row] = field(default_factory=list)
    entity: str = "person"

    def worlds(self) -> tuple[worlds.World, worlds.World]:
        full = worlds.World({"people": self.people, "visits": self.visits, "scores": self.scores, "households": self.households,
                             "clinics": list(worlds.CLINICS), "unlisted": [(1,)]})
        return full, full.without(self.entity, 0)


def prepared(text: str, pair: Pair, folder: Path) -> tuple[PreparedStatement, PreparedStatement]:
    """The statement on both databases, of one ledger: so both keep rows by one salt."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger = open_ledger(folder)
    made = [PreparedStatement(text, session_of(folder, reader=reader_of(world), around=Remembering, noise=Batched(), budget=pair.entity,
                                               policy=POLICY, ledger=ledger)) for world in pair.worlds()]
    return made[0], made[1]


def refutes(bound: Callable[[Path, int], float], claim: float, folder: Path, times: int) -> bool:
    """Whether an audit finds more than is claimed, by a quarter of so many releases, by half, or by all: where a fault is planted
    fewer often do, and no single attempt has to succeed."""
    return any(bound(folder / str(i), times // part) > claim for i, part in enumerate((4, 2, 1, 1)))


def outcome(released: Released, cells: list[Any]) -> Iterator[float]:
    """All that is seen of a release, as numbers: for each of the cells, whether it is shown, its values and their errors;
    and the limits and bounds that the notes tell."""
    place = {cell: i for i, cell in enumerate(released.cells)}
    for cell in cells:
        at = place.get(cell)
        yield float(at is not None)
        for estimate in released.aggregates.values():
            yield float(estimate.values[at]) if at is not None else np.nan
            yield float(estimate.deviations[at]) if at is not None else np.nan  # which may tell a level that was chosen
    for note in released.notes:
        found = re.findall(r"-?\d[\d.e+-]*", note)
        if "learned" in note or "bounds" in note:
            numbers = [float(number.rstrip(".")) for number in found[-2:]]
            yield from [*numbers, np.nan, np.nan][:2]  # where no bounds were found, only how many entities that takes is told


def sample(statement: PreparedStatement, times: int, cells: list[Any]) -> Numbers:
    return np.array([list(outcome(statement.measure(), cells)) for _ in range(times)])


def audit(text: str, pair: Pair, folder: Path, times: int, *, delta: float = 0.0, cells: list[Any] | None = None) -> EpsilonBound:
    """The largest epsilon that so many releases on either database rule out. `cells` are needed where groups are not declared.

    A bound is above the truth, whatever that is, once in 10^7 at most (`CONFIDENCE`): so a hundred audits of promises that are
    kept raise a false alarm once in 10^5 runs at most. It takes 88 releases to refute an epsilon of 1 where the databases are
    always told apart, 216 for 2 and 560 for 3; with fewer an audit could not fail.
    """
    first, second = prepared(text, pair, folder)
    shown = cells if cells is not None else list(first.measure().cells)
    return lower_bound(sample(first, times, shown), sample(second, times, shown), confidence=CONFIDENCE, delta=delta)
