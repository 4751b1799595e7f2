"""Elastic and residual sensitivity: never below what an entity moves, nor growing faster from neighbour to neighbour than beta."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest
from support import joined_worlds
from support.joined_worlds import Small, context_of, neighbours, planned
from support.policies import policy_of

from dpsql.backends.duckdb import DuckReader
from dpsql.frozen import Frozen
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.measurements.several.smooth_join_sum import Counts
from dpsql.trusted.plan import distance
from dpsql.trusted.plan.decompose_join import JoinedRelation, JoinParts, decompose_join
from dpsql.trusted.plan.distance import Reals, farthest, local_bounds, smooth_bound
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.summands import Count

DISTANCES = np.arange(8, dtype=np.float64)
ROUNDING = 1 + 1e-11
NODES = 3

OF_EDGES = {
    "pairs": "SELECT COUNT(*) FROM edges a JOIN edges b ON a.v = b.u",
    "triangles": "SELECT COUNT(*) FROM edges a JOIN edges b ON a.v = b.u JOIN edges c ON b.v = c.u AND c.v = a.u",
    "in order": "SELECT COUNT(*) FROM edges a JOIN edges b ON a.v = b.u JOIN edges c ON a.u = c.u AND b.v = c.v "
                "WHERE a.u < a.v AND b.u < b.v AND a.u < c.v",
    "cross": "SELECT COUNT(*) FROM edges a, edges b WHERE a.u < b.v",
    "there and back": "SELECT COUNT(*) FROM edges a JOIN edges b ON a.v = b.u AND a.u = b.v",
    "squares": "SELECT COUNT(*) FROM edges a, edges b, edges c, edges d WHERE a.v = b.u AND b.v = c.u AND c.v = d.u AND d.v = a.u",
    "of a subquery": "SELECT COUNT(*) FROM (SELECT a.u AS x, b.v + 0 AS y FROM edges a JOIN edges b ON a.v = b.u) AS p "
                     "JOIN edges c ON p.x = c.u WHERE p.y > 0",
}
OF_PEOPLE = {
    "neighbours": "SELECT COUNT(*) FROM people a JOIN people b ON a.town = b.town",
    "likes": "SELECT COUNT(*) FROM likes a JOIN likes b ON a.thing = b.thing AND a.how = b.how",
    "likes of a town": "SELECT COUNT(*) FROM people p JOIN likes l ON p.town = l.thing",
    "likes of oneself": "SELECT COUNT(*) FROM people p JOIN likes l ON p.person = l.person JOIN likes m ON m.thing = l.thing",
    "through tags": "SELECT COUNT(*) FROM likes a JOIN tags t ON a.thing = t.thing JOIN people p ON p.town = t.tag",
    "one chain": "SELECT COUNT(*) FROM likes a JOIN people p ON a.thing = p.town JOIN tags t ON p.town = t.thing WHERE t.tag > 0",
    "one class of two columns": "SELECT COUNT(*) FROM likes a JOIN people p ON a.thing = p.town AND a.how = p.town",
    "some of a list": "SELECT COUNT(*) FROM people a JOIN people b ON a.town = b.town WHERE a.size - 1 IN (SELECT tag FROM tags)",
    "some of one's own": "SELECT COUNT(*) FROM people a JOIN people b ON a.town = b.town WHERE EXISTS (SELECT 1 FROM likes l "
                         "WHERE l.person = b.person AND l.how = 1)",
    "padded": "SELECT COUNT(*) FROM likes a LEFT JOIN tags t ON a.thing = t.thing JOIN people p ON a.how = p.town",
    "counted first": "SELECT COUNT(*) FROM (SELECT person, COUNT(*) AS n FROM likes GROUP BY person) AS a "
                     "JOIN people p ON a.n = p.town",
}
CASES = [("edge", name, text) for name, text in OF_EDGES.items()] + [("person", name, text) for name, text in OF_PEOPLE.items()]


class Asked:
    """A statement on one database after another, and what its bounds count there."""

    def __init__(self, text: str, entity: str, *, unique: bool) -> None:
        self._connection = Small({}, unique).connection()
        self._reader, self._text = DuckReader(self._connection, "v"), text
        self._view = planned(text, self._reader, entity)

    def on(self, world: Small) -> Asked:
        world.fill(self._connection)
        self._context = context_of(self._reader)
        self.apart = decompose_join(self._view, Publics(self._reader))
        counts = Counts(self.apart, self._context)
        self.frequency, self.multiplicity = lru_cache(counts.frequency), lru_cache(counts.multiplicity)
        return self

    def count(self) -> int:
        (found,), = self._reader.rows(*self._context.query(JoinSum(input=self._view, summand=Count())))
        return int(found)

    def plain(self) -> int:
        return int(self._connection.execute(self._text).fetchall()[0][0])

    def bounds(self, residual: bool) -> Reals:
        return distance.local_bounds(self.apart, DISTANCES, self.frequency, self.multiplicity if residual else None)

    def smooth(self, residual: bool, beta: float) -> float:
        return smooth_bound(self.apart, beta, self.frequency, self.multiplicity if residual else None)


def drawn(entity: str, draw: random.Random, unique: bool) -> Small:
    if entity == "edge":
        return joined_worlds.edges(draw, draw.randint(0, 5), NODES, unique=unique)
    return joined_worlds.people(draw, draw.randint(0, 4))


def seeds(effort: float) -> Iterator[int]:
    return iter(range(max(1, round(effort))))


@pytest.mark.parametrize(("entity", "name", "text"), CASES, ids=[name for _, name, _ in CASES])
def test_no_entity_moves_a_join_further_than_its_bounds(entity: str, name: str, text: str, effort: float) -> None:
    """At distances 0, 1 and 2: all neighbours of the database, some of a neighbour, and some of a neighbour of that."""
    for seed in seeds(effort):
        draw = random.Random(f"{name} {seed}")
        unique = draw.random() < 0.5
        asked = Asked(text, entity, unique=unique)
        here = drawn(entity, draw, unique)
        asked.on(here)
        elastic, residual = asked.bounds(False), asked.bounds(True)
        assert np.all(residual <= elastic * ROUNDING) and np.all(np.diff(residual) >= 0)
        for away in range(3):
            count = asked.on(here).count()
            near = list(neighbours(entity, here, NODES))
            tried = draw.sample(near, min(len(near), 6)) if away else near
            moved = max(abs(asked.on(world).count() - count) for world in tried)
            assert moved <= residual[away] <= elastic[away] * ROUNDING, (seed, away)
            here = draw.choice(near)


@pytest.mark.parametrize(("entity", "name", "text"), CASES, ids=[name for _, name, _ in CASES])
def test_bounds_of_neighbours_are_near_each_other(entity: str, name: str, text: str, effort: float) -> None:
    """L(k) here is at most L(k + 1) there, which is all that smoothness needs; and smooth bounds are as near as beta says."""
    for seed in seeds(effort):
        draw = random.Random(f"{name} near {seed}")
        unique = draw.random() < 0.5
        asked = Asked(text, entity, unique=unique)
        here = drawn(entity, draw, unique)
        near = list(neighbours(entity, here, NODES))
        for other in draw.sample(near, min(len(near), 4)):
            for residual in (False, True):
                asked.on(here)
                mine, sizes = asked.bounds(residual), [asked.smooth(residual, beta) for beta in (0.3, 1.0)]
                asked.on(other)
                theirs = asked.bounds(residual)
                assert np.all(mine[:-1] <= theirs[1:] * ROUNDING) and np.all(theirs[:-1] <= mine[1:] * ROUNDING)
                for beta, size in zip((0.3, 1.0), sizes, strict=True):
                    assert abs(math.log(asked.smooth(residual, beta) / size)) <= beta + 1e-11


# -- planted faults are found depending on the query above


def no_two_sides_at_once(patch: pytest.MonkeyPatch) -> None:
    """FLEX without its + a b."""
    patch.setattr(distance, "local_bounds", lambda apart, distances, *counts: sum(
        search.rows(frozenset({i})) * search.most(apart.all - {i})
        for search in [distance._Search(apart, distances, *counts, *[None] * (2 - len(counts)))] for i in apart.private))


def no_growth(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(distance._Search, "_frequency", lambda self, relation, variables: self._seen(relation, variables)
                  + 0 * self._distances)


def one_row_each(patch: pytest.MonkeyPatch) -> None:
    """Neighbours that differ in one row, where an entity has several."""
    patch.setattr("dpsql.trusted.plan.decompose_join._moved", lambda node, join, public: 1)


def unequal_keys(patch: pytest.MonkeyPatch) -> None:
    """The least frequency in place of the largest."""
    patch.setattr(Counts, "_most", lambda self, plan: min((row[-1] for row in self._context.reader.rows(*self._context.query(plan))), default=0))


ONE_TOWN = Small({"people": [(i, 0, 0) for i in range(3)] + [(9, 1, 0)], "likes": [(i, 0, 0) for i in range(3)] * 2})


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("plant", "name", "world"), [
    (no_two_sides_at_once, "neighbours", Small()), (no_two_sides_at_once, "likes", Small()), (no_growth, "neighbours", ONE_TOWN),
    (one_row_each, "likes", ONE_TOWN), (one_row_each, "likes of a town", ONE_TOWN), (unequal_keys, "neighbours", ONE_TOWN)])
def test_planted_faults_are_found(plant: Callable[[pytest.MonkeyPatch], None], name: str, world: Small, residual: bool,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(OF_PEOPLE[name], "person", unique=False)
    near = list(neighbours("person", world, NODES))[:14]
    assert keeps(asked, world, near, residual)
    plant(monkeypatch)
    assert not keeps(asked, world, near, residual)


def keeps(asked: Asked, here: Small, near: Sequence[Small], residual: bool) -> bool:
    """Whether no neighbour is further away than the bound here, nor its bounds above the next ones here."""
    mine, count = asked.on(here).bounds(residual), asked.count()
    for world in near:
        theirs = asked.on(world).bounds(residual)
        if abs(asked.count() - count) > mine[0] or np.any(theirs[:-1] > mine[1:] * ROUNDING) or np.any(mine[:-1] > theirs[1:] * ROUNDING):
            return False
    return True


@pytest.mark.parametrize(("entity", "name", "text"), CASES, ids=[name for _, name, _ in CASES])
def test_a_join_taken_apart_has_as_many_rows(entity: str, name: str, text: str) -> None:
    """All relations put together again have the rows of the join, and those that duckdb counts where no limit binds."""
    asked = Asked(text, entity, unique=False)
    for seed in range(3):
        world = drawn(entity, random.Random(seed), False)
        few = Small({**world.rows, "likes": [row for i, row in enumerate(world.of("likes"))
                                             if sum(row[0] == other[0] for other in world.of("likes")[:i]) < 2]})
        count = asked.on(few).count()
        assert count == asked.plain()
        apart = asked.apart
        together = math.prod(asked.multiplicity(part) for part in apart.components(apart.all))
        assert together >= count if any(len(read) > 1 for read, _ in apart.conditions) else together == count


# -- the formulas by themselves


def relation(moved: int, *variables: int) -> JoinedRelation:
    """A relation of which nothing is known but what is counted."""
    return JoinedRelation(node=SimpleNamespace(max_frequency=lambda columns: None), moved=moved, columns=dict.fromkeys(variables, "x"))  # type: ignore[arg-type]


def test_where_one_relation_moves_alone_only_the_others_are_counted() -> None:
    """L(k) = sum over E of T_{[n] - E} k^(|E| - 1) of Dong and Yi is then T of the others, at every distance."""
    for moving, others in enumerate([5, 100, 7]):
        apart = JoinParts(conditions=(), relations=tuple(
            relation(int(j == moving), *variables) for j, variables in enumerate([(0,), (0, 1), (1,)])))
        counts = {frozenset({0, 1}): 7, frozenset({1, 2}): 5}
        found = local_bounds(apart, DISTANCES, lambda j, variables: 10, counts.__getitem__)
        assert found.tolist() == [others] * len(DISTANCES)


def test_both_sides_of_a_join_may_move_together() -> None:
    """FLEX: m_S a + m_R b + a b, here with m + a k for m at distance k."""
    apart = JoinParts(conditions=(), relations=(relation(2, 0), relation(3, 0)))
    found = local_bounds(apart, DISTANCES, lambda j, variables: (10, 20)[j])
    assert found.tolist() == [2 * (20 + 3 * k) + 3 * (10 + 2 * k) + 6 for k in range(len(DISTANCES))]


@pytest.mark.parametrize("residual", [False, True])
def test_the_maximum_over_all_distances_is_found(residual: bool, effort: float) -> None:
    for seed in range(round(20 * effort)):
        draw = random.Random(seed)
        apart = JoinParts(conditions=(), relations=tuple(
            relation(draw.choice([0, 1, 1, 5]), *draw.sample(range(3), draw.randint(1, 3))) for _ in range(draw.randint(2, 4))))
        frequency = lru_cache(lambda j, variables: draw.choice([0, 1, 3, 1000]))
        multiplicity = lru_cache(lambda part: draw.choice([0, 1, 50, 10**4])) if residual else None
        beta = draw.choice([0.02, 0.1, 1.0])
        far = np.arange(farthest(len(apart.relations), beta) * 20.0)
        values = np.exp(-beta * far) * local_bounds(apart, far, frequency, multiplicity)
        assert smooth_bound(apart, beta, frequency, multiplicity) == pytest.approx(max(1, values.max()), rel=1e-9)


def test_the_search_does_not_stop_at_a_decrease(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = JoinParts(conditions=(), relations=(relation(1, 0), relation(1, 0)))
    monkeypatch.setattr("dpsql.trusted.plan.distance.local_bounds", lambda apart, distances, *counts: np.where(distances == 7, 99.0, 9.0))
    assert smooth_bound(apart, 0.125, lambda j, variables: 1) == pytest.approx(99 * math.exp(-7 * 0.125))


# -- published values: Dong and Yi's own statistics of five tables of edges


GRAPHS = Path(__file__).parents[3] / "shared/data/graphs"
POLICY = policy_of("edges", """
part = {}
u = {}
v = {}
""", entity="edge", key="edge", budget="edge", price="epsilon = 1")


@pytest.fixture(scope="module")
def facebook() -> DuckReader:
    if not GRAPHS.is_dir():
        pytest.skip("the edge tables of the paper are not here")
    connection = duckdb.connect(":memory:", config={"threads": 2})
    connection.execute("CREATE TABLE edges (edge INTEGER PRIMARY KEY, part INTEGER, u INTEGER, v INTEGER)")
    for i in range(1, 5):
        connection.execute(f"INSERT INTO edges SELECT 1000000 * {i} + row_number() OVER (), {i}, src, dst "
                           f"FROM '{GRAPHS}/fb_rs_edge{i}.parquet'")
    return DuckReader(connection, "v")


def cycle(n: int) -> str:
    """A cycle through one row of each of the first n tables; variable i joins table i to the one before."""
    joins = [f"edges e{i} ON e{i - 1}.v = e{i}.u" + (f" AND e0.u = e{i}.v" if i == n - 1 else "") for i in range(1, n)]
    return f"SELECT COUNT(*) FROM edges e0 JOIN {' JOIN '.join(joins)} WHERE " + " AND ".join(
        f"e{i}.part = {i + 1}" for i in range(n))


class Published(Frozen, kw_only=False):
    """What Dong and Yi's programs tell of a cycle over n tables, at two values of beta."""

    n: int
    rows: int
    residual: dict[float, int]
    elastic: float


@pytest.mark.parametrize("told", [Published(3, 19_927, {0.1: 203, 0.01: 1_409}, 219_165),
                                  Published(4, 285_754, {0.1: 2_920, 0.01: 54_509}, 1.1e8)], ids=lambda told: f"{told.n} tables")
def test_published_values_are_reproduced(told: Published, facebook: DuckReader) -> None:
    """Their neighbours differ in one row of one table, ours in one row of each at most, so sums over E have one E for each table."""
    view = planned(cycle(told.n), facebook, "edge", POLICY)
    apart, context = decompose_join(view, Publics(facebook)), context_of(facebook)
    counts = Counts(apart, context)
    multiplicity, frequency = lru_cache(counts.multiplicity), lru_cache(counts.frequency)
    (rows,), = facebook.rows(*context.query(JoinSum(input=view, summand=Count())))
    assert rows == told.rows
    for beta, value in told.residual.items():
        assert one_row_of_one_table(apart, multiplicity, beta) == pytest.approx(value, abs=0.5)
    worst = max(walks(apart, frequency))
    assert worst == pytest.approx(told.elastic, rel=0.01)
    for beta in told.residual:
        residual, elastic = smooth_bound(apart, beta, frequency, multiplicity), smooth_bound(apart, beta, frequency)
        assert told.residual[beta] <= residual <= elastic, "an entity that has rows in several tables can move more"


def one_row_of_one_table(apart: JoinParts, multiplicity: Callable[[frozenset[int]], int], beta: float) -> float:
    """max over k of exp(-beta k) max over k = sum of s_j and i of sum over E of T_{[n] - E - i} product of s_j, j in E."""
    n = len(apart.relations)

    @lru_cache
    def known(part: frozenset[int]) -> int:
        return math.prod(multiplicity(component) for component in apart.components(part))

    def moved(i: int, came: tuple[int, ...]) -> int:
        others = frozenset(range(n)) - {i}
        return sum(known(others - set(gone)) * math.prod(came[j] for j in gone)
                   for size in range(n) for gone in combinations(sorted(others), size))

    def best(k: int, i: int) -> int:
        """The most over all ways in which k rows come: from even ones, one row at a time goes to another table while that helps."""
        came = max(spread(k, n), key=lambda way: moved(i, way))
        while True:
            better = max(shifted(came), key=lambda way: moved(i, way), default=came)
            if moved(i, better) <= moved(i, came):
                return moved(i, came)
            came = better

    ends = [(math.exp(-beta * k) * max(moved(i, came) for came in spread(k, n)), k, i)
            for k in range(math.ceil((n - 1) / beta) + 1) for i in range(n)]
    return max(math.exp(-beta * k) * best(k, i) for _, k, i in sorted(ends)[-20:])


def shifted(came: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for a, b in itertools.permutations(range(len(came)), 2):
        if came[a]:
            yield tuple(rows - (j == a) + (j == b) for j, rows in enumerate(came))


def spread(k: int, n: int) -> Iterator[tuple[int, ...]]:
    """The ways in which k rows come to some of n tables, as evenly as can be."""
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            yield tuple(k // size + (chosen.index(j) < k % size) if j in chosen else 0 for j in range(n))


def walks(apart: JoinParts, frequency: Callable[[int, frozenset[int]], int]) -> Iterator[int]:
    """Products of frequencies of one column each, from a table to both sides along the cycle, in all their ways."""
    n = len(apart.relations)
    before = {j: min(apart.relations[j].columns.keys() & apart.relations[j - 1].columns.keys()) for j in range(n)}
    for i, there in itertools.product(range(n), repeat=2):
        forth = [(i + step) % n for step in range(1, there + 1)]
        back = [j for j in range(n) if j not in (i, *forth)]
        yield math.prod([frequency(j, frozenset({before[j]})) for j in forth]
                        + [frequency(j, frozenset({before[(j + 1) % n]})) for j in back])
