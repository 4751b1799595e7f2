"""Joins by elastic and residual sensitivity, from the statement to the answer: what is released on two neighbours tells them apart
no better than the price allows, and faults that are planted in the noise or in its bounds are found.

The pairs are as bad as we can make them: an edge that every triangle needs, the first person in a town and the last of many, an
entity with all the rows that its limit allows. A lower bound of epsilon at 1 - 1e-7 must not be above the price.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.audits import outcome, refutes
from support.joined_worlds import POLICY, Small
from support.sessions import session_of

from dpsql.audit.epsilon import lower_bound
from dpsql.audit.prepared import Batched, PreparedStatement, Remembering
from dpsql.budgets.reports import epsilon_of
from dpsql.catalog.price import exact
from dpsql.frozen import Frozen
from dpsql.trusted.measurements.several import smooth_join_sum
from dpsql.trusted.noise.smooth import Student
from dpsql.trusted.plan.distance import smooth_bound
from dpsql.trusted.plan.operators.truncate import Truncate

pytestmark = pytest.mark.stat

CONFIDENCE = 1 - 1e-7


class Pair(Frozen, kw_only=False):
    """A database, and the entity that the other one lacks."""

    full: Small
    entity: str
    key: int = 0


# Edge 0 is in all of twelve triangles.
BOOK = Pair(Small({"edges": [(0, 0, 1), *((2 * i, 1, 100 + i) for i in range(1, 13)),
                             *((2 * i + 1, 100 + i, 0) for i in range(1, 13))]}), "edge")
FIRST = Pair(Small({"people": [(0, 0, 4)]}), "person")
LAST = Pair(Small({"people": [(i, 0, 4) for i in range(15)]}), "person")
BUSY = Pair(Small({"people": [(0, 0, 0), (1, 0, 0)], "likes": [(0, 1, 1)] * 60}), "person")
LIKES = "COUNT(*) FROM likes a JOIN likes b ON a.thing = b.thing"
SAME = "FROM people a JOIN people b ON a.town = b.town"
TRIANGLES = "COUNT(*) FROM edges a JOIN edges b ON a.v = b.u JOIN edges c ON b.v = c.u AND c.v = a.u"


def samples(text: str, pair: Pair, folder: Path, times: int) -> list[np.ndarray[Any, Any]]:
    """Releases on both databases: values and the widths that are told with them."""
    found = []
    for name, world in (("with", pair.full), ("without", pair.full.without(pair.entity, pair.key))):
        (folder / name).mkdir(parents=True)
        session = session_of(folder / name, reader=world.reader(), around=Remembering, noise=Batched(), budget=pair.entity, policy=POLICY)
        statement = PreparedStatement(text, session)
        cells = list(statement.measure().cells)
        found.append(np.array([list(outcome(statement.measure(), cells)) for _ in range(times)]))
    return found


def priced(text: str, options: str, price: str = "epsilon = 2") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}, {options}) {text}"


AT_RHO = epsilon_of(exact(0.5, "rho", least=0, most=1), exact(0.1, "delta", least=0, most=1))  # type: ignore[arg-type]
CLAIMS: list[tuple[str, str, Pair, float, float]] = [
    ("triangles", priced(TRIANGLES, "bound = 'residual'"), BOOK, 2, 0),
    ("the first of a town", priced(f"COUNT(*) {SAME}", "bound = 'residual'"), FIRST, 2, 0),
    ("the last of a town", priced(f"COUNT(*) {SAME}", "bound = 'elastic'"), LAST, 2, 0),
    ("sums", priced(f"SUM(a.size), COUNT(*) {SAME}", "bound = 'residual'"), LAST, 2, 0),
    ("an entity of many rows", priced(LIKES, "bound = 'elastic'"), BUSY, 2, 0),
    ("cells", priced(f"a.size > 0 AS big, COUNT(*) {SAME} GROUP BY big", "bound = 'elastic'"), FIRST, 2, 0),
    ("at rho", priced(f"COUNT(*) {SAME}", "bound = 'residual'", "rho = 0.5"), LAST, AT_RHO, 0.1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "pair", "claimed", "delta"), [claim[1:] for claim in CLAIMS], ids=[claim[0] for claim in CLAIMS])
def test_neighbours_are_told_apart_no_better_than_the_price_allows(text: str, pair: Pair, claimed: float, delta: float, tmp_path: Path,
                                                                   effort: float) -> None:
    found = lower_bound(*samples(text, pair, tmp_path, round(250 * effort)), delta=delta, confidence=CONFIDENCE)
    assert found.epsilon <= claimed, f"{found} refutes {claimed} of {text}"


# -- planted faults


def a_small_part_of_the_scale(patch: pytest.MonkeyPatch) -> None:
    scale = Student.scale
    patch.setattr(Student, "scale", lambda self, sensitivity: scale(self, sensitivity) / 20)


def bounds_of_this_database_alone(patch: pytest.MonkeyPatch) -> None:
    """As if beta were epsilon / (2 ln(2 / epsilon)) for an epsilon near 2, as in a demonstration of residual sensitivity."""
    patch.setattr(smooth_join_sum, "smooth_bound", lambda apart, beta, *counts: smooth_bound(apart, 30.0, *counts))


def no_limit_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Truncate, "render", lambda self, below, printing: f"SELECT * FROM ({below[0]}) AS t0")


def a_width_without_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(smooth_join_sum, "told_size", lambda sensitivity, beta, epsilon, context: round(100 * math.log(sensitivity)))


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], str, Pair]] = [
    (a_small_part_of_the_scale, f"COUNT(*) {SAME}", LAST), (bounds_of_this_database_alone, f"COUNT(*) {SAME}", FIRST),
    (no_limit_of_rows, LIKES, BUSY), (a_width_without_noise, f"COUNT(*) {SAME}", LAST)]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "text", "pair"), PLANTED, ids=[case[0].__name__ for case in PLANTED])
def test_the_audit_finds_what_spoils_the_promise(plant: Callable[[pytest.MonkeyPatch], None], text: str, pair: Pair, tmp_path: Path,
                                                 effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = priced(text, "bound = 'residual'", "epsilon = 1")
    plant(monkeypatch)
    assert refutes(lambda folder, times: lower_bound(*samples(asked, pair, folder, times), confidence=0.99).epsilon, 1, tmp_path,
                   round(500 * max(1, effort)))
