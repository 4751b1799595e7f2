"""Joins taken apart: what is one variable, where conditions go, and what is refused and why."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support import joined_worlds
from support.joined_worlds import context_of, planned

from dpsql.backends.duckdb import DuckReader
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.plan.decompose_join import MOST_RELATIONS, JoinParts, NotDecomposable, decompose_join
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.scan import Scan


@pytest.fixture(scope="module")
def reader() -> Iterator[DuckReader]:
    world = joined_worlds.people(random.Random(1), 5)
    yield joined_worlds.Small({**world.rows, **joined_worlds.edges(random.Random(1), 5, 3, unique=True).rows}, unique=True).reader()


def apart(text: str, reader: DuckReader, entity: str = "person") -> JoinParts:
    return decompose_join(planned(text, reader, entity), Publics(reader))


def scans(node: Node) -> list[str]:
    return [node.table.name] if isinstance(node, Scan) else [name for below in node.inputs for name in scans(below)]


def shape(found: JoinParts) -> list[tuple[str, int, int]]:
    """Of each relation the table, the rows that one entity moves, and the number of its variables."""
    return [(scans(relation.node)[0], relation.moved, len(relation.columns)) for relation in found.relations]


def test_columns_that_are_equated_by_way_of_others_are_one_variable(reader: DuckReader) -> None:
    found = apart("SELECT COUNT(*) FROM people a JOIN likes b ON a.town = b.thing JOIN people c ON b.thing = c.town", reader)
    assert shape(found) == [("people", 1, 1), ("likes", 2, 1), ("people", 1, 1)]
    assert len({min(relation.columns) for relation in found.relations}) == 1
    assert found.boundary(frozenset({0, 2})) == found.variables(frozenset({0}))
    assert list(found.components(frozenset({0, 2}))) == [frozenset({0, 2})]


def test_two_columns_of_one_relation_may_be_the_same_variable(reader: DuckReader) -> None:
    found = apart("SELECT COUNT(*) FROM likes a JOIN people p ON a.thing = p.town AND a.how = p.town", reader)
    assert shape(found) == [("likes", 2, 1), ("people", 1, 1)]
    rows = reader.rows(*context_of(reader).query(found.relations[0].node))
    assert all(row[1] == row[2] and row[1] is not None for row in rows)


def test_components_hang_together_by_variables_alone(reader: DuckReader) -> None:
    text = "SELECT COUNT(*) FROM edges a, edges b, edges c, edges d WHERE a.v = b.u AND b.v = c.u AND c.v = d.u AND d.v = a.u AND a.u < c.u"
    found = apart(text, reader, "edge")
    assert sorted(map(sorted, found.components(frozenset({0, 2})))) == [[0], [2]]
    assert sorted(map(sorted, found.components(frozenset({0, 1, 2})))) == [[0, 1, 2]]
    assert [read for read, _ in found.conditions] == [frozenset({0, 2})]
    assert len(found.boundary(frozenset({0, 1}))) == 2 and not found.boundary(found.all)


def test_what_the_database_guarantees_caps_a_relation(reader: DuckReader) -> None:
    found = apart("SELECT COUNT(*) FROM edges a JOIN edges b ON a.v = b.u AND a.u = b.v", reader, "edge")
    for relation in found.relations:
        assert relation.max_frequency(frozenset(relation.columns)) == 1
        assert all(relation.max_frequency(frozenset({variable})) is None for variable in relation.columns)


def test_conditions_on_one_relation_are_part_of_it(reader: DuckReader) -> None:
    found = apart("SELECT COUNT(*) FROM (SELECT a.town AS x, a.size + b.size AS s, b.size AS t FROM people a JOIN people b USING (town)) AS p "
                  "JOIN tags g ON p.x = g.thing WHERE p.t > 1 AND p.s > 2 AND g.tag = 1 AND 1 = 1", reader)
    assert shape(found) == [("people", 1, 1), ("people", 1, 1), ("tags", 0, 1)]
    assert [read for read, _ in found.conditions] == [frozenset({0, 1})]
    assert found.private == {0, 1}


def test_a_lookup_is_of_the_rows_of_one_relation(reader: DuckReader) -> None:
    text = "SELECT COUNT(*) FROM people a JOIN people b ON a.town = b.town WHERE {} IN (SELECT tag FROM tags)"
    found = apart(text.format("b.size + 1"), reader)
    held = [any(isinstance(node, Lookup) for node in walk(relation.node)) for relation in found.relations]
    assert held == [False, True] and shape(found)[1][:2] == ("people", 1)
    with pytest.raises(NotDecomposable, match="several relations"):
        apart(text.format("a.size + b.size"), reader)


def walk(node: Node) -> Iterator[Node]:
    yield node
    for below in node.inputs:
        yield from walk(below)


def test_outer_joins_with_public_tables_are_relations(reader: DuckReader) -> None:
    found = apart("SELECT COUNT(*) FROM likes a LEFT JOIN tags t ON a.thing = t.thing JOIN people p ON a.how = p.town", reader)
    assert len(found.relations) == 2 and isinstance(next(node for node in walk(found.relations[0].node) if isinstance(node, Join)), Join)
    most = max(reader.rows("SELECT COUNT(*) FROM tags GROUP BY thing"))[0]
    assert found.relations[0].moved == 2 * max(1, most)


@pytest.mark.parametrize(("text", "where", "because"), [
    ("SELECT COUNT(*) FROM friends a JOIN friends b ON a.b = b.a", Scan, "not yet limited"),
    ("SELECT COUNT(*) FROM calls a JOIN people b ON a.town = b.town", Scan, "not yet limited"),
    ("SELECT COUNT(*) FROM people a LEFT JOIN people b ON a.town = b.town", Join, None),
    ("SELECT COUNT(*) FROM people a FULL JOIN people b ON a.town = b.town", Join, None),
    ("SELECT COUNT(*) FROM people a JOIN (SELECT b.town AS town FROM people b LEFT JOIN people c ON b.size = c.size) AS d USING (town)",
     Join, None),
    ("SELECT COUNT(*) FROM " + ", ".join(f"people p{i}" for i in range(MOST_RELATIONS + 1)), Node, "7 relations"),
])
def test_relations_that_an_entity_moves_without_limit_are_refused(text: str, where: type, because: str | None, reader: DuckReader) -> None:
    with pytest.raises(NotDecomposable, match=because) as caught:
        apart(text, reader)
    assert isinstance(caught.value.node, where)
