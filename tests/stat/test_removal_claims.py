"""Levels that are chosen by removals, held against the whole engine; and faults of theirs, which must be found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.audits import Pair, audit, person, refutes, visit

from dpsql.budgets.reports import epsilon_of
from dpsql.catalog.price import exact
from dpsql.trusted.extensions import removal_distance
from dpsql.trusted.measurements.several import removal_levels
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums
from dpsql.trusted.measurements.several.sets import in_memory

pytestmark = pytest.mark.stat

SHARED = Pair(people=[person(i) for i in range(6)], visits=[visit(i, i // 3, clinic="a", cost=250.0 * (i % 3)) for i in range(18)])
# Person 0 meets everybody, three times each, and nobody else meets anyone: without 0 no row is left.
STAR = Pair(people=[person(i) for i in range(9)], visits=[visit(i, 0, year=2020, clinic="a") for i in range(3)] +
            [visit(10 + i, 1 + i % 8, year=2020, clinic="b") for i in range(24)])
MEETINGS = "COUNT(*) FROM visits a JOIN visits b ON a.year = b.year AND a.clinic < b.clinic"
TOGETHER = "COUNT(*) FROM visits a JOIN visits b ON a.clinic = b.clinic"
SIGNED = "SUM(a.cost - b.cost) FROM visits a JOIN visits b ON a.clinic = b.clinic"
BY_SEX = "p.sex, COUNT(*) FROM visits a JOIN visits b ON a.year = b.year JOIN people p ON p.person_id = a.person_id GROUP BY p.sex"


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is worked out of the same sets is worked out once: it does not depend on noise."""
    made: dict[Any, Any] = {}

    def numbers(rows: removal_distance.Sets, levels: tuple[int, ...], solvers: Any) -> removal_distance.RemovalDistances:
        key = (rows.weights.tobytes(), rows.owners.tobytes(), rows.cells.tobytes(), levels)
        return made.setdefault(key, removal_distance.RemovalDistances(rows, levels, solvers)) if key not in made else made[key]

    def sums(columns: Any, plan: Any, levels: tuple[int, ...], cells: int, solvers: Any) -> Any:
        key = (tuple(column.tobytes() for column in columns), plan.signed, levels)
        return made[key] if key in made else made.setdefault(key, in_memory(columns, plan, levels, cells, solvers))

    monkeypatch.setattr(removal_levels, "RemovalDistances", numbers)
    monkeypatch.setattr(removal_levels, "in_memory", sums)


def priced(text: str, bound: str, price: str = "epsilon = 1") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}, bound = '{bound}') {text}"


@pytest.mark.parametrize("text, pair, bound", [
    (MEETINGS, STAR, "removals"), (MEETINGS, STAR, "recursive"), (TOGETHER, SHARED, "removals"), (SIGNED, SHARED, "removals"),
    (BY_SEX, STAR, "removals"), ("COUNT(*) FROM visits", STAR, "recursive")])
def test_neighbours_are_told_apart_no_better_than_the_price_allows(text: str, pair: Pair, bound: str, tmp_path: Path,
                                                                   effort: float) -> None:
    found = audit(priced(text, bound), pair, tmp_path, int(160 * effort))
    assert found.epsilon <= 1, f"{found} refutes 1 of {text}"


def test_at_rho_too(tmp_path: Path, effort: float) -> None:
    epsilon = epsilon_of(exact(0.2, "rho", least=0, most=1000), exact(0.1, "delta", least=0, most=1))  # type: ignore[arg-type]
    found = audit(priced(MEETINGS, "removals", "rho = 0.2"), STAR, tmp_path, int(160 * effort), delta=0.1)
    assert found.epsilon <= epsilon, found


# -- faults


def removals_worth_nothing(patch: pytest.MonkeyPatch) -> None:
    for module in ("dpsql.trusted.measurements.several.removal_levels", "dpsql.mechanisms.truncation.removals"):
        patch.setattr(f"{module}.UNIT", 0)
    patch.setattr("dpsql.mechanisms.truncation.removals.CAUTION", 0)  # so that levels are as likely where nobody has to leave


def entities_counted_by_their_rows(patch: pytest.MonkeyPatch) -> None:
    counted = removal_distance.removal_bound

    def weighed(rows: removal_distance.Sets, totals: Any, level: int, solvers: Any) -> removal_distance.RemovalBound:
        found, crowd = counted(rows, totals, level, solvers), removal_distance.removal_program(rows, totals, level)
        return removal_distance.RemovalBound(found.units * int(crowd.weights.sum()), found.at_zero, found.slope)

    patch.setattr(removal_distance, "removal_bound", weighed)


def a_place_without_noise(patch: pytest.MonkeyPatch) -> None:
    def told(self: RecursiveSums, context: Any, certificate: Any) -> Any:
        columns, found = removal_levels.levels_of(self, context)
        return removal_levels.sums_at(self, columns, removal_levels.first(found), context)

    patch.setattr(RecursiveSums, "release", told)


@pytest.mark.slow
@pytest.mark.parametrize("plant, bound, times", [
    (removals_worth_nothing, "removals", 1200), (entities_counted_by_their_rows, "removals", 400), (a_place_without_noise, "recursive", 400)],
    ids=lambda value: getattr(value, "__name__", None))
def test_the_audit_finds_what_spoils_the_promise(plant: Callable[[pytest.MonkeyPatch], None], bound: str, times: int,
                                                 tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    text = priced(MEETINGS, bound, "epsilon = 1, clip = 64")
    assert refutes(lambda folder, times: audit(text, STAR, folder, times).epsilon, 1, tmp_path, int(times * max(1.0, effort)))
