"""Degrees of a graph in plain SQL: equal to DuckDB's own where noise is off and the limit is not reached, and refused nearby."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from support.sessions import session_of
from support.worlds import insert

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine.answering import answer, explain
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.sql.text.parse import parse

POLICY = """
version = 1
[entities.member]
table = "members"
key = "member"
[entities.follow]
table = "follows"
key = "id"
[tables.members]
key = "member"
[tables.members.columns]
member = {}
[tables.follows]
key = "id"
foreign_keys = [{ columns = "a", references = "members(member)" }, { columns = "b", references = "members(member)" }]
[tables.follows.columns]
id = {}
a = {}
b = {}
kind = { values = ["friend", "fan"] }
weight = { bounds = [0, 9], decimals = 0 }
[budgets.nodes]
entity = "member"
epsilon = 1000
delta = 0.001
[budgets.edges]
entity = "follow"
epsilon = 1000
"""
BOTH = "(SELECT a AS x FROM follows UNION ALL SELECT b FROM follows) AS u"
OUT = "(SELECT a, COUNT(*) AS degree FROM follows GROUP BY a) AS t"
QUESTIONS = [
    f"SELECT degree, COUNT(*) FROM {OUT} GROUP BY degree",
    "SELECT degree, COUNT(*) FROM (SELECT b, COUNT(*) AS degree FROM follows GROUP BY b) AS t GROUP BY degree",
    f"SELECT degree, COUNT(*) FROM (SELECT x, COUNT(*) AS degree FROM {BOTH} GROUP BY x) AS t GROUP BY degree",
    "SELECT degree, COUNT(*) FROM (SELECT x, COUNT(*) AS degree FROM (SELECT b AS x, kind FROM follows UNION ALL SELECT a, kind "
    "FROM follows) AS u WHERE kind = 'fan' GROUP BY x) AS t GROUP BY degree",
    "SELECT degree, COUNT(*) FROM (SELECT a, COUNT(*) AS degree FROM follows WHERE kind = 'friend' AND weight > 2 GROUP BY a) AS t "
    "GROUP BY degree",
    "SELECT degree, COUNT(*) FROM (SELECT x, COUNT(*) AS degree FROM (SELECT a AS x FROM follows WHERE weight > 2 UNION ALL SELECT b "
    "FROM follows WHERE kind = 'fan') AS u GROUP BY x) AS t GROUP BY degree",
    f"SELECT degree, COUNT(*) FROM {OUT} WHERE degree BETWEEN 2 AND 5 GROUP BY degree",
    f"SELECT degree // 3 AS band, COUNT(*) FROM {OUT} GROUP BY band",
    f"SELECT CASE WHEN degree < 3 THEN 'few' ELSE 'many' END AS k, COUNT(*), AVG(degree) FROM {OUT} GROUP BY k",
    f"SELECT COUNT(*), SUM(degree), AVG(degree), SUM(degree * degree) FROM {OUT}",
    f"SELECT COUNT(*) FROM {OUT}",
    "SELECT COUNT(*) FROM (SELECT x FROM (SELECT b AS x FROM follows UNION ALL SELECT a FROM follows) AS u GROUP BY x) AS t",
    f"SELECT COUNT(*) FILTER (WHERE degree > 3), COUNT_IF(degree = 1), SUM(degree) FILTER (WHERE degree < 4) FROM {OUT}",
    "SELECT degree, COUNT(*) FROM (SELECT a, COUNT(b) AS degree FROM follows GROUP BY a HAVING COUNT(*) > 2) AS t GROUP BY degree",
    f"SELECT degree, COUNT(*) AS n FROM {OUT} GROUP BY degree HAVING n > 1 ORDER BY n DESC, degree LIMIT 3",
    f"WITH degrees AS (SELECT degree + 1 AS more FROM {OUT}) SELECT more, COUNT(*) FROM degrees WHERE more > 2 GROUP BY more",
]


def rows() -> list[tuple[int, int, int | None, int | None, str, int]]:
    """Loops, double edges, edges in both directions, and two that name nobody at one end."""
    draw = random.Random(1)
    found = [(i, draw.randrange(25), min(draw.randrange(25), draw.randrange(25)), draw.choice(["friend", "fan"]), draw.randrange(10))
             for i in range(70)]
    return [*found, (100, 3, None, "fan", 5), (101, None, 3, "fan", 5)]  # type: ignore[list-item]


def reader_over(kind: str) -> DuckReader:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    name = (lambda key: None if key is None else f"m{key}") if kind == "VARCHAR" else (lambda key: key)
    connection.execute(f"CREATE TABLE members (member {kind} PRIMARY KEY)")
    connection.execute(f"CREATE TABLE follows (id INTEGER PRIMARY KEY, a {kind}, b {kind}, kind VARCHAR, weight INTEGER)")
    insert(connection, "members", [(name(i),) for i in range(30)])
    insert(connection, "follows", [(i, name(a), name(b), *rest) for i, a, b, *rest in rows()])
    lock_down(connection)
    return DuckReader(connection, "v1")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return nodes(tmp_path, "INTEGER")


def nodes(folder: Path, kind: str) -> Session:
    return session_of(folder, reader=reader_over(kind), policy=POLICY, budget="nodes", noise=Exact(), at={"epsilon": 10})


def with_(options: str, text: str) -> str:
    """The statement with options, in its outermost SELECT."""
    at = text.rindex("SELECT", 0, len(text) if text.startswith("WITH") else 6)
    if text.startswith("WITH"):
        at = text.index(") SELECT") + 2
    return f"{text[:at]}SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}){text[at + 6:]}"


def plain(session: Session, text: str) -> list[tuple[object, ...]]:
    """DuckDB's answer without the rows that name nobody at one end, which belong to no two members."""
    return session.kernel._reader.rows(text.replace("FROM follows WHERE", "FROM follows WHERE a IS NOT NULL AND b IS NOT NULL AND").replace(
        "FROM follows GROUP", "FROM follows WHERE a IS NOT NULL AND b IS NOT NULL GROUP").replace(
        "FROM follows UNION", "FROM follows WHERE a IS NOT NULL AND b IS NOT NULL UNION").replace(
        "FROM follows)", "FROM follows WHERE a IS NOT NULL AND b IS NOT NULL)"))


def rounded(found: Sequence[Sequence[object]]) -> set[tuple[object, ...]]:
    return {tuple(round(value, 9) if isinstance(value, float | int) else value for value in row) for row in found}


@pytest.mark.parametrize("way", ["projection", "flow"])
@pytest.mark.parametrize("text", QUESTIONS)
def test_degrees_are_those_of_plain_sql(session: Session, text: str, way: str) -> None:
    made = answer(with_(f"bound = '{way}', max_rows = 25", text), session)
    assert isinstance(made, Answer)
    shown = [row for row in made.rows if row[-1] != 0]  # every degree up to the limit is shown, also those of nobody
    expected = plain(session, text)
    assert rounded(shown) == rounded(expected)
    assert len(expected) > 1 or "degree" not in text.rpartition("GROUP BY")[2]
    assert "ORDER BY" not in text or shown == expected


def test_names_may_be_text(tmp_path: Path) -> None:
    session = nodes(tmp_path, "VARCHAR")
    for text in (QUESTIONS[0], QUESTIONS[2], QUESTIONS[4]):
        for way in ("projection", "flow"):
            made = answer(with_(f"bound = '{way}', max_rows = 25", text), session)
            assert rounded([row for row in made.rows if row[-1] != 0]) == rounded(plain(session, text))  # type: ignore[union-attr]


def test_every_degree_up_to_the_limit_is_a_group(session: Session) -> None:
    made = answer(with_("max_rows = 12", QUESTIONS[0]), session)
    assert isinstance(made, Answer) and [row[0] for row in made.rows] == list(range(1, 13))
    assert made.notes[0] == "degrees are reduced to at most 12; entities of degree 0 are not counted"
    assert all(error is not None and error > 0 for _, error in made.errors)


def test_a_limit_that_nobody_gives_is_drawn(session: Session) -> None:
    made = answer(QUESTIONS[2], session)
    assert isinstance(made, Answer) and "a limit that was learned privately" in made.notes[0]
    most = len(made.rows)
    assert most in (1, 2, 4, 8, 16, 32) and [row[0] for row in made.rows] == list(range(1, most + 1))


def test_beyond_the_limit_degrees_are_lower(session: Session) -> None:
    for way in ("projection", "flow"):
        made = answer(with_(f"bound = '{way}', max_rows = 2", QUESTIONS[2]), session)
        assert isinstance(made, Answer)
        own = dict(plain(session, QUESTIONS[2]))
        assert made.rows[1][1] > own.get(2, 0) and sum(row[1] for row in made.rows) <= sum(own.values())  # type: ignore[operator, misc, arg-type]


def test_both_directions_are_seen_as_one_edge(session: Session) -> None:
    """Then half of the noise does; and explanations say how and why."""
    scales = []
    for text in (QUESTIONS[2], QUESTIONS[3], QUESTIONS[0], QUESTIONS[5]):
        found = explain(parse(with_("max_rows = 7, epsilon = 1", text)), session)  # type: ignore[arg-type]
        scales.append(float(found.measurements[0].noise.split()[4]))
        assert found.measurements[0].mechanism == "projection" and "the degrees of a graph" in found.bound
        assert found.groups == "the degrees from 1 to 7"
    assert scales[0] == scales[1] < scales[2] == scales[3]
    assert scales[2] / scales[0] == pytest.approx(15 / 8, rel=0.01)
    learned = explain(parse(QUESTIONS[0]), session)  # type: ignore[arg-type]
    assert learned.groups == "the degrees from 1 to the learned limit"
    assert "drawn according to how many entities are above it" in learned.stages[0]


@pytest.mark.parametrize("text", [QUESTIONS[0], QUESTIONS[8], QUESTIONS[9]])
def test_the_whole_price_is_charged_once(session: Session, text: str) -> None:
    for options in ("epsilon = 3", "epsilon = 3, max_rows = 5", "rho = 0.5, max_rows = 5, bound = 'flow'", "rho = 0.5"):
        program = explain(parse(with_(options, text)), session)  # type: ignore[arg-type]
        assert program.cost.startswith("ε = 3" if "epsilon" in options else "ρ = 0.5")
        assert isinstance(answer(with_(options, text), session), Answer)


def test_edges_are_protected_by_the_algebra_of_groups(tmp_path: Path) -> None:
    """An edge moves one degree, or two: no graph is needed. The groups are those that WHERE names."""
    session = session_of(tmp_path, reader=reader_over("INTEGER"), policy=POLICY, budget="edges", noise=Exact(), at={"epsilon": 10})
    for text, moved in ((QUESTIONS[0], 2), (QUESTIONS[2], 4)):
        asked = text.replace(" GROUP BY degree", " WHERE degree BETWEEN 1 AND 25 GROUP BY degree")
        made, steps = answer(asked, session), explain(parse(asked), session).steps  # type: ignore[arg-type]
        assert isinstance(made, Answer) and len(made.rows) == 25
        own = session.kernel._reader.rows(asked.replace("(SELECT a, ", "(SELECT a, "))
        assert sorted(row for row in made.rows if row[1]) == sorted(own)
        assert steps[0].stability.startswith(f"{moved} rows")
    with pytest.raises(Error, match="values of degree") as fault:
        answer(QUESTIONS[0], session)
    assert "WHERE degree BETWEEN 1 AND 100" in str(fault.value)


NEAR = [
    ("SELECT a, COUNT(*) FROM (SELECT a, COUNT(*) AS degree FROM follows GROUP BY a) AS t GROUP BY a", "the number of rows of a particular a"),
    ("SELECT COUNT(DISTINCT a) FROM (SELECT a, COUNT(*) AS degree FROM follows GROUP BY a) AS t", "the number of rows of a particular a"),
    ("SELECT COUNT(*) FROM (SELECT a, COUNT(*) AS degree FROM follows GROUP BY a) AS t WHERE a > 3", "the number of rows of a particular a"),
    ("SELECT degree, COUNT(*) FROM (SELECT kind, COUNT(*) AS degree FROM follows GROUP BY kind) AS t GROUP BY degree",
     "grouped by kind, which is neither of the two"),
    ("SELECT degree, COUNT(*) FROM (SELECT a + 1 AS c, COUNT(*) AS degree FROM follows GROUP BY c) AS t GROUP BY degree",
     "which is neither of the two"),
    ("SELECT degree, COUNT(*) FROM (SELECT a, kind, COUNT(*) AS degree FROM follows GROUP BY a, kind) AS t GROUP BY degree",
     "and by nothing else"),
    ("SELECT AVG(total) FROM (SELECT a, SUM(weight) AS total FROM follows GROUP BY a) AS t", "only their number per entity can be used"),
    ("SELECT degree, COUNT(*) FROM (SELECT a, COUNT(DISTINCT b) AS degree FROM follows GROUP BY a) AS t GROUP BY degree",
     "only their number per entity can be used"),
    ("SELECT degree, COUNT(*) FROM (SELECT a, COUNT(*) FILTER (WHERE kind = 'fan') AS degree FROM follows GROUP BY a) AS t "
     "GROUP BY degree", "only their number per entity can be used"),
    (f"SELECT MEDIAN(degree) FROM {OUT}", "MEDIAN\\(degree\\) is not answered"),
    (f"SELECT degree, COUNT(*) FROM {OUT} WHERE degree > 5000 GROUP BY degree", "no degree from 1 to 1024"),
]


@pytest.mark.parametrize(("text", "why"), NEAR)
def test_what_is_near_to_degrees_is_refused_with_what_to_write(session: Session, text: str, why: str) -> None:
    with pytest.raises(Error, match=why) as fault:
        answer(text, session)
    assert fault.value.span is not None and (fault.value.try_ or "no degree" in why)
    assert session.ledger.entries("nodes") == []


@pytest.mark.parametrize(("options", "why"), [
    ("bound = 'balance'", "does not apply to degrees of a graph"), ("max_rows = 20000", "degrees can be shown up to 10000"),
    ("bound = 'flow', clip = 3", "clip has no effect"), ("mechanism = 'laplace'", "laplace cannot answer")])
def test_options_that_do_not_fit_are_refused(session: Session, options: str, why: str) -> None:
    with pytest.raises(Error, match=why):
        answer(with_(options, QUESTIONS[0]), session)


def test_ways_for_degrees_are_refused_elsewhere(session: Session) -> None:
    with pytest.raises(Error, match="is for the degrees of a graph") as fault:
        answer("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'flow') COUNT(*) FROM follows", session)
    assert "GROUP BY a) GROUP BY degree" in str(fault.value)


def test_a_graph_without_edges_has_no_degrees(tmp_path: Path) -> None:
    reader = reader_over("INTEGER")
    session = session_of(tmp_path, reader=reader, policy=POLICY, budget="nodes", noise=Exact(), at={"epsilon": 10})
    for way in ("projection", "flow"):
        text = with_(f"bound = '{way}', max_rows = 3", QUESTIONS[2].replace("FROM follows", "FROM follows WHERE weight > 99"))
        assert answer(text, session).rows == ((1, 0), (2, 0), (3, 0))  # type: ignore[union-attr]
