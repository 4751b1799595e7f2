"""Degrees of a graph, held against the whole engine: rows are meetings of two people; and faults, which must be found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.audits import Pair, audit, person, prepared, refutes, visit

from dpsql.budgets.reports import epsilon_of
from dpsql.catalog.price import exact
from dpsql.trusted.extensions.bounded_degrees import ArcList, projected
from dpsql.trusted.measurements.several import degree_histogram as look
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram, Histogram

pytestmark = pytest.mark.stat


def meetings(*pairs: tuple[int, int]) -> list[tuple[Any, ...]]:
    """Two visits with one note for each pair of people who meet."""
    return [visit(2 * i + side, who, note=f"meeting {i}") for i, pair in enumerate(pairs) for side, who in enumerate(pair)]


# Person 0 meets two others, whose degrees rise from 1 to 2: five cells move by one. And one that crowds out others by the limit.
RISE = Pair(people=[person(i) for i in range(9)], visits=meetings((0, 1), (0, 3), (1, 2), (3, 4), (5, 6), (7, 8)))
CROWD = Pair(people=[person(i) for i in range(9)], visits=meetings((0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (2, 5), (3, 6), (3, 7), (7, 8)))
JOIN = "FROM visits a JOIN visits b ON a.note = b.note AND a.person_id < b.person_id"
BOTH = f"(SELECT a.person_id AS who {JOIN} UNION ALL SELECT b.person_id {JOIN}) AS m"
ONE = f"(SELECT b.person_id AS who {JOIN}) AS m"


def asked(source: str, what: str = "degree, COUNT(*)", end: str = " GROUP BY degree", options: str = "max_rows = 2",
          price: str = "epsilon = 1") -> str:
    return (f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({price}, {options}) {what} FROM (SELECT who, COUNT(*) AS degree FROM {source} "
            f"GROUP BY who) AS t{end}")


@pytest.mark.parametrize("way", ["projection", "flow"])
@pytest.mark.parametrize("pair", [RISE, CROWD])
@pytest.mark.parametrize("source", [BOTH, ONE])
def test_neighbours_are_told_apart_no_better_than_the_price_allows(source: str, pair: Pair, way: str, tmp_path: Path,
                                                                   effort: float) -> None:
    found = audit(asked(source, options=f"max_rows = 2, bound = '{way}'"), pair, tmp_path, int(300 * effort))
    assert found.epsilon <= 1, found


@pytest.mark.parametrize("text", [asked(BOTH, "COUNT(*), SUM(degree), AVG(degree)", ""),
                                  asked(BOTH, "degree > 1 AS k, COUNT(*), SUM(degree)", " GROUP BY k")])
def test_nor_by_what_is_made_of_degrees(text: str, tmp_path: Path, effort: float) -> None:
    found = audit(text, RISE, tmp_path, int(300 * effort))
    assert found.epsilon <= 1, found


def test_nor_by_a_limit_that_is_drawn(tmp_path: Path, effort: float) -> None:
    found = audit(asked(BOTH, options="bound = 'projection'"), CROWD, tmp_path, int(160 * effort), cells=[(1,), (2,), (4,)])
    assert found.epsilon <= 1, found


def test_nor_at_rho(tmp_path: Path, effort: float) -> None:
    epsilon = epsilon_of(exact(0.2, "rho", least=0, most=1000), exact(0.1, "delta", least=0, most=1))  # type: ignore[arg-type]
    found = audit(asked(BOTH, price="rho = 0.2"), RISE, tmp_path, int(300 * effort), delta=0.1)
    assert found.epsilon <= epsilon, found


def test_both_directions_of_a_join_are_one_edge(tmp_path: Path) -> None:
    for source, mutual in ((BOTH, True), (ONE, False)):
        program = prepared(asked(source), RISE, tmp_path)[0].program
        assert program.degrees is not None and program.degrees.graph.arcs.mutual is mutual


# -- faults


def counts_with_the_noise_of_the_limit(patch: pytest.MonkeyPatch) -> None:
    def told(request: DegreeHistogram, context: Any, certificate: Any) -> Histogram:
        counts = projected(look.read(request, context), request.most).tolist()
        return Histogram(counts=tuple(context.noise.laplace(counts, request.noise.scale * request.most / (request.most + 1))))  # type: ignore[union-attr]

    patch.setattr(DegreeHistogram, "release", told)


def an_order_that_others_decide(patch: pytest.MonkeyPatch) -> None:
    def rich_first(given: ArcList, most: int) -> Any:
        load = np.bincount(np.concatenate((given.tails, given.heads)), minlength=given.entities)
        order = np.lexsort((given.heads, given.tails, -(load[given.tails] + load[given.heads])))
        return projected(ArcList(given.tails[order], given.heads[order], given.sizes[order], given.entities, given.mutual), most)

    patch.setattr(look, "projected", rich_first)


def a_sensitivity_of_one(patch: pytest.MonkeyPatch) -> None:
    for module in ("dpsql.trusted.measurements.several.degree_histogram", "dpsql.mechanisms.truncation.graph_degrees"):
        patch.setattr(f"{module}.moves", lambda most, *, mutual: 1)


# With person 0 the busiest pairs are others, all along the graph: six people have a degree that have none without.
CHAINS = Pair(people=[person(i) for i in range(24)], visits=meetings(
    (1, 15), (0, 20), (0, 1), (17, 20), (12, 23), (1, 8), (11, 23), (6, 20), (12, 14), (2, 5), (10, 18), (2, 6), (16, 19), (3, 11),
    (3, 7), (17, 22), (8, 21), (15, 18), (9, 14), (13, 18), (9, 17), (16, 22), (4, 9), (10, 19), (21, 22), (4, 13), (0, 23)))


@pytest.mark.slow
@pytest.mark.parametrize("plant, text, pair, times", [
    (counts_with_the_noise_of_the_limit, asked(BOTH), RISE, 3500),
    (an_order_that_others_decide, asked(BOTH, options="max_rows = 1"), CHAINS, 4000),
    (a_sensitivity_of_one, asked(BOTH), RISE, 2600)], ids=lambda value: getattr(value, "__name__", None))
def test_the_audit_finds_what_spoils_the_promise(plant: Callable[[pytest.MonkeyPatch], None], text: str, pair: Pair, times: int,
                                                 tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert refutes(lambda folder, times: audit(text, pair, folder, times).epsilon, 1, tmp_path, int(times * max(1.0, effort)))


@pytest.mark.slow
def test_the_graph_on_which_an_order_is_planted_keeps_its_promise_without(tmp_path: Path, effort: float) -> None:
    found = audit(asked(BOTH, options="max_rows = 1"), CHAINS, tmp_path, int(1000 * effort))
    assert found.epsilon <= 1, found
