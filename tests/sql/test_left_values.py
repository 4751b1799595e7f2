"""Groups that no row can be in are not shown, and every group that a row can be in is: compared with DuckDB over all values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from batch.test_elsewhere import connected, filled, rows

from dpsql.dbapi import Connection
from dpsql.errors import Unsupported


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with filled(rows()) as made:
        yield made


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with connected(tmp_path_factory.mktemp("left")) as made:
        yield made


SHOWN: dict[str, list[Any]] = {
    "word|word IN ('f', 'm')": ["f", "m"], "word|word <> 'x'": ["f", "m"], "word|word IS NOT NULL": ["f", "m", "x"],
    "word|word IS NULL": [None], "word|word = 'f' OR word IS NULL": ["f", None], "word|word LIKE 'f%'": ["f"],
    "word|NOT (word = 'f')": ["m", "x"], "word|coalesce(word, 'f') = 'f'": ["f", None], "word|word > 'f'": ["m", "x"],
    "word|flag": ["f", "m", "x", None], "word|word IS DISTINCT FROM 'f'": ["m", "x", None], "word|word = 'f' OR flag": ["f", "m", "x", None],
    "sure|flag": ["a", "b"], "upper(sure)|flag": ["A", "B"], "sure|sure >= 'b'": ["b"],
    "upper(word)|word IN ('f', 'm', 'q')": ["F", "M"], "upper(word)|word <> 'x'": ["F", "M", "X"],
    "upper(word)|upper(word) <> 'F'": ["M", "X"],
    "age|age BETWEEN 3 AND 5": [3, 4, 5], "age|age > 17": [18, 19, 20], "age|age IN (3, 40)": [3], "age|age = 7": [7],
    "age|age < 2 AND age <> 0": [1], "age|age % 7 = 0 AND age IS NOT NULL": [0, 7, 14], "age|age > 18.5": [19, 20],
    "age // 10|age >= 10": [1, 2], "age // 10|age BETWEEN 0 AND 9": [0], "age // 10|age = 12": [1], "age % 3|age IN (3, 4)": [0, 1],
    "age > 5|age > 7": [False, True], "age > 5|age IS NOT NULL": [False, True], "even|even < 5": [2, 4], "even|even <> 2": [4, 6],
    "level|level > 0.5": [1.0, 2.5], "born|born < DATE '2000-01-03'": None, "month(born)|born = DATE '2000-01-09'": [1],
    "flag|flag": [True], "flag|NOT flag": [False], "flag|flag IS NULL": [None], "flag|flag IS NOT NULL": [False, True],
    "flag|flag IS NOT TRUE": [False, None], "id % 2|id IS NOT NULL": [-1, 0, 1], "id % 2|id >= 0": [0, 1], "id % 2|id BETWEEN 3 AND 3": [1],
    "cost > 5|flag": [False, True, None], "floor(cost / 10) * 10|cost BETWEEN 20 AND 39": [20.0, 30.0], "floor(cost / 25)|cost < 50": [0.0, 1.0],
    "round(cost, -1)|30 > cost": [0.0, 10.0, 20.0, 30.0], "round(cost / 100, 1)|cost > 55": [0.6, 0.7, 0.8, 0.9, 1.0, None],
    "floor(cost / 50) * 50|cost IS NOT NULL": [0.0, 50.0, 100.0], "CAST(floor(cost / 50) AS INTEGER) * 50|flag": [0, 50, 100, None],
    "CASE WHEN cost < 30 THEN 'less' ELSE CAST(floor(cost / 50) AS VARCHAR) END|flag": ["0.0", "1.0", "2.0", "less", None],
    "floor(cost / 50) + floor(cost / 100)|cost >= 0": [0.0, 1.0, 2.0, 3.0],
    "floor(level) * 2|level < 2": [0.0, 2.0, 4.0], "CASE WHEN age < 8 THEN 'young' ELSE 'old' END|age < 8": ["old", "young"],
}


@pytest.mark.parametrize("asked", SHOWN)
def test_groups_are_those_that_rows_can_be_in(asked: str, exact: Connection, plain: duckdb.DuckDBPyConnection) -> None:
    key, condition = asked.split("|")
    text = f"SELECT {key} AS k, COUNT(*) AS n FROM people WHERE {condition} GROUP BY k"
    ours = exact.execute(text).fetchall()
    if SHOWN[asked] is not None:
        assert [row[0] for row in ours] == SHOWN[asked]
    theirs = dict(plain.execute(text).fetchall())
    assert all(theirs.get(value, 0) == number for value, number in ours)
    every = {row[0] for row in exact.execute(f"SELECT {key} AS k, COUNT(*) AS n FROM people GROUP BY k").fetchall()}
    assert {value for value in theirs if value in every} <= {value for value, _ in ours}  # no declared group is lost
    if "flag" in condition and "OR" in condition or "id" in key:  # is no sum over cells
        return
    cube = exact.execute(f"SELECT {key} AS k, GROUPING({key}) AS g, COUNT(*) AS n FROM people WHERE {condition} GROUP BY CUBE(k)").fetchall()
    assert [(k, n) for k, g, n in cube if not g] == ours
    (whole,) = plain.execute(f"SELECT COUNT(*) FROM people WHERE {condition}").fetchall()
    assert [n for _, g, n in cube if g] == [whole[0]]
    (answer,) = exact.workload([text], epsilon=1)
    assert list(answer.rows) == ours


@pytest.mark.parametrize("text", [
    "SELECT {} FROM (SELECT * FROM people WHERE word IN ('f', 'q')) GROUP BY word",
    "WITH f AS (SELECT word, flag FROM people WHERE word <> 'm') SELECT {} FROM f WHERE word <> 'x' GROUP BY word",
    "SELECT {} FROM people p JOIN (VALUES (1), (2)) AS v(n) ON p.age = v.n WHERE word IN ('f') GROUP BY word",
])
def test_conditions_in_subqueries_count_too(text: str, exact: Connection) -> None:
    assert [row[0] for row in exact.execute(text.format("word, COUNT(*)")).fetchall()] == ["f"]


@pytest.mark.parametrize("condition", ["word = 'q'", "word = 'f' AND word = 'm'", "word IN ('f') AND word IS NULL", "word IN ('q', 'r')"])
@pytest.mark.parametrize("group", ["word", "CUBE(word)"])
def test_no_group_is_refused_with_its_key(condition: str, group: str, exact: Connection) -> None:
    with pytest.raises(Unsupported, match="no value of word is left") as caught:
        exact.execute(f"SELECT word, COUNT(*) FROM people WHERE {condition} GROUP BY {group}")
    assert caught.value.span is not None and "conditions" in caught.value.try_
