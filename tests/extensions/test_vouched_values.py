"""Values that have room for one row, beside entities that have room for as many as the level says: matchings."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import pytest
from extensions.test_many_sets import context
from extensions.test_totality import broken, nothing
from support.extensions.given import Given

from dpsql.trusted.extensions import cuts
from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.measurements.several import sets
from dpsql.trusted.measurements.several.balanced_levels import Balance, score_range
from dpsql.trusted.measurements.several.many_sets import Listed, Streamed
from dpsql.trusted.measurements.several.sets import read
from dpsql.trusted.noise.choice import choice_cost
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import InvalidPlan, Stability
from dpsql.trusted.plan.operators.owner_sets import UNIT, OwnerSets
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum

LEVELS = (1, 2, 4, 16)
Pairs = list[tuple[Any, Any]]


def plan_of(pairs: Pairs, kinds: tuple[str, str] = ("BIGINT", "BIGINT")) -> OwnerSets:
    given = Given(columns=(("who", kinds[0]), ("what", kinds[1])), rows=tuple(pairs), nullable=False, owners=("who",))
    return OwnerSets(input=given, owners=("who",), once="what", summand=Count())


def matching(pairs: Pairs, level: int) -> int:
    """The most values that are vouched for at once, by networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    for who, what in pairs:
        graph.add_edge("source", ("who", who), capacity=level)
        graph.add_edge(("who", who), ("what", what), capacity=1)
        graph.add_edge(("what", what), "sink", capacity=1)
    return int(nx.maximum_flow_value(graph, "source", "sink"))


def some_pairs(draw: random.Random, people: int = 6, values: int = 12, most: int = 40) -> Pairs:
    """Few entities have many values, some of them nobody else's; some pairs stand there twice."""
    return [(min(draw.randrange(people), draw.randrange(people)), min(draw.randrange(values), draw.randrange(values)))
            for _ in range(draw.randint(1, most))]


@pytest.mark.parametrize("seed", range(20))
def test_as_many_values_are_counted_as_can_be_vouched_for(seed: int) -> None:
    pairs = some_pairs(random.Random(seed))
    (found,), = read(plan_of(pairs), LEVELS, 1, context())
    assert [found.value(j) for j in range(len(LEVELS))] == [UNIT * matching(pairs, level) for level in LEVELS]
    assert found.value(len(LEVELS) - 1) == UNIT * len({what for _, what in pairs})  # nobody has more than 12


@pytest.mark.parametrize("seed", range(8))
def test_an_entity_moves_the_number_by_no_more_than_the_level(seed: int) -> None:
    pairs, reached = some_pairs(random.Random(100 + seed), most=60), set()
    (whole,), = read(plan_of(pairs), LEVELS, 1, context())
    for entity in {who for who, _ in pairs}:
        (found,), = read(plan_of([pair for pair in pairs if pair[0] != entity] or [(entity, None)]), LEVELS, 1, context())
        for j, level in enumerate(LEVELS):
            assert 0 <= whole.value(j) - found.value(j) <= UNIT * level
            reached |= {level} if whole.value(j) - found.value(j) == UNIT * level else set()
    assert reached


@pytest.mark.parametrize("room", [0, 10, 25])
@pytest.mark.parametrize("seed", range(4))
def test_more_pairs_than_there_is_room_for_have_the_same_numbers(seed: int, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(cuts, "FEWEST", draw.choice([4, 30]))
    monkeypatch.setattr(cuts, "MOST_LISTED", draw.choice([0, 20, 100]))
    pairs = some_pairs(draw, most=60)
    found = Streamed(Listed(plan_of(pairs), None, context()), LEVELS, room)
    for j, level in enumerate(LEVELS):
        assert found.low[j] <= UNIT * matching(pairs, level) <= found.high[j]
        assert found.value(j) == UNIT * matching(pairs, level)


def test_rows_beyond_memory_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = some_pairs(random.Random(5), most=60)
    monkeypatch.setattr(sets, "MOST_ROWS", 7)
    (found,), = read(plan_of(pairs), LEVELS, 1, context())
    assert isinstance(found, Streamed) and [found.value(j) for j in range(4)] == [UNIT * matching(pairs, level) for level in LEVELS]


@pytest.mark.parametrize("door", [broken, nothing])
def test_without_a_solver_that_works_fractions_answer(door: Any) -> None:
    pairs = [(who, what) for who in range(4) for what in range(who, 9, 2)]
    (found,), = read(plan_of(pairs), (1, 2), 1, context(Solvers(programs=lambda _: (door,), packings=door)))
    assert [found.value(j) for j in range(2)] == [UNIT * matching(pairs, level) for level in (1, 2)]


@pytest.mark.parametrize(("pairs", "kinds"), [
    ([(1, 1), (1, 2), (2, 1)], ("BIGINT", "BIGINT")),
    ([("1", "e1"), ("1", "v1"), ("v1", "1"), ("e1", "v1"), ("", "")], ("VARCHAR", "VARCHAR")),
    ([(1, "1"), (2, "1"), (1, "v"), (1, "ä\u0000")], ("BIGINT", "VARCHAR")),
    ([("a", "1.5"), ("a", "nan"), ("b", "NaN"), ("b", "inf"), ("b", "1.50")], ("VARCHAR", "DOUBLE")),
    ([("a", "0.0"), ("a", "-0.0"), ("b", "-0.0")], ("VARCHAR", "DOUBLE")),
    ([(1, "2020-01-01"), (1, "2020-01-02")], ("BIGINT", "DATE")),
    ([(1, True), (2, False), (1, False)], ("BIGINT", "BOOLEAN")),
], ids=["numbers", "texts", "both", "reals", "zeros", "dates", "truths"])
def test_no_value_is_taken_for_an_entity_and_equality_is_that_of_sql(pairs: Pairs, kinds: tuple[str, str]) -> None:
    def value(what: Any) -> Any:
        return str(float(what)).replace("-0.0", "0.0") if kinds[1] == "DOUBLE" else what

    (found,), = read(plan_of(pairs, kinds), LEVELS, 1, context())
    assert [found.value(j) for j in range(4)] == [UNIT * matching([(who, value(what)) for who, what in pairs], level) for level in LEVELS]


def test_the_price_is_that_of_rows_with_two_names() -> None:
    """With one owner and no values, differences of levels move less: not here, as values that one entity leaves go to others."""
    plan, levels = plan_of([(1, 1)]), (1, 2, 4)
    noises = tuple(DiscreteLaplace(scale=float(UNIT * level)) for level in levels)
    request = Balance(plan=plan, levels=levels, log_priors=(0, 0, 0), scale=float(UNIT), noises=noises)
    cost = request.cost(Certificate(below=Stability(rows=None, owners=("who",)), summands=()))
    assert cost.epsilon == 1 + choice_cost(score_range(levels, 2, 1), float(UNIT), flip=False).epsilon  # type: ignore[operator]
    assert score_range(levels, 2, 1) == UNIT + UNIT // 2 > score_range(levels, 1, 1)
    with pytest.raises(ValueError, match="must be among the owners"):
        request.cost(Certificate(below=Stability(rows=None, owners=("what",)), summands=()))


@pytest.mark.parametrize("changed", [{"once": "who"}, {"cell": "what"}, {
    "summand": GridSum(column="what", grid=Quantizer(low=0, high=9, step=1, from_low=False))}])  # type: ignore[arg-type]
def test_other_plans_are_refused(changed: dict[str, Any]) -> None:
    given = Given(columns=(("who", "BIGINT"), ("what", "BIGINT")), rows=((1, 1),), nullable=False, owners=("who",))
    with pytest.raises(InvalidPlan):
        _ = OwnerSets(**{"input": given, "owners": ("who",), "once": "what", "summand": Count(), **changed}).fields
    with pytest.raises(InvalidPlan):
        _ = OwnerSets(input=Given(columns=given.columns, rows=given.rows), owners=("who",), once="what", summand=Count()).fields
