"""Graphs from the policy alone: whether edges or nodes are protected is decided by which table is the entity's."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from support.sessions import session_of
from support.worlds import insert

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine.answering import answer, explain
from dpsql.errors import Unsupported
from dpsql.sql.text.parse import parse

POLICY = """
version = 1
[entities.member]
table = "members"
key = "member"
[entities.friendship]
table = "friendships"
key = "friendship"
[tables.members]
key = "member"
[tables.members.columns]
member = {}
[tables.friendships]
key = "friendship"
foreign_keys = [{ columns = "a", references = "members(member)" }, { columns = "b", references = "members(member)" }]
[tables.friendships.columns]
friendship = {}
a = {}
b = {}
[budgets.nodes]
entity = "member"
epsilon = 1000
[budgets.edges]
entity = "friendship"
epsilon = 1000
"""
TRIANGLES = ("SELECT COUNT(*) FROM friendships x JOIN friendships y ON x.b = y.a JOIN friendships z ON x.a = z.a AND y.b = z.b")


@pytest.fixture
def reader() -> DuckReader:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE members (member INTEGER PRIMARY KEY)")
    connection.execute("CREATE TABLE friendships (friendship INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    pairs = [(a, b) for a in range(12) for b in range(a + 1, 12) if (a * b + a + b) % 3 != 1]
    insert(connection, "members", [(i,) for i in range(12)])
    insert(connection, "friendships", [(i, *pair) for i, pair in enumerate(pairs)])
    connection.execute("INSERT INTO friendships VALUES (1000, 3, NULL)")  # it names nobody at one end, and is left out
    lock_down(connection)
    return DuckReader(connection, "v1")


@pytest.mark.parametrize("budget", ["nodes", "edges"])
@pytest.mark.parametrize("text", [TRIANGLES, "SELECT COUNT(*) FROM friendships WHERE b IS NOT NULL",
                                  "SELECT COUNT(*) FROM friendships x JOIN friendships y ON x.b = y.a"])
def test_patterns_are_counted_in_plain_sql(reader: DuckReader, tmp_path: Path, budget: str, text: str) -> None:
    session = session_of(tmp_path, reader=reader, policy=POLICY, budget=budget, noise=Exact(), at={"epsilon": 1000})
    found = answer(text, session)
    assert isinstance(found, Answer)
    # sums over three owners and more are worked out to within a sixty-fourth of the level
    assert found.rows[0][0] == pytest.approx(reader.rows(text)[0][0], rel=0.02) and reader.rows(text)[0][0] > 30


def test_the_policy_decides_whom_a_row_belongs_to(reader: DuckReader, tmp_path: Path) -> None:
    for budget, owned in (("nodes", "owned by 2 of member each"), ("edges", "owned by one friendship each")):
        session = session_of(tmp_path, reader=reader, policy=POLICY, budget=budget, at={"epsilon": 1})
        query = parse("SELECT COUNT(*) FROM friendships")
        assert owned in explain(query, session).steps[-1].stability  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "place"), [
    ("SELECT COUNT(*) FROM friendships x LEFT JOIN friendships y ON x.b = y.a", "friendships y ON x.b = y.a"),
    ("SELECT COUNT(*) FROM friendships WHERE a NOT IN (SELECT b FROM friendships)", ""),
    ("SELECT SUM(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM friendships) AS t", "ROW_NUMBER"),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT a FROM friendships) AS t", ""),
])
def test_where_a_row_rests_on_those_of_others_nodes_are_refused(reader: DuckReader, tmp_path: Path, text: str, place: str) -> None:
    session = session_of(tmp_path, reader=reader, policy=POLICY, budget="nodes", at={"epsilon": 1})
    with pytest.raises(Unsupported) as caught:
        answer(text, session)
    fault = caught.value
    assert fault.code == "several-owners" and fault.subject == "friendships" and "inner joins" in fault.try_
    assert fault.span is not None and place in text[fault.span.start : fault.span.end]
    assert session.ledger.entries("nodes") == []
