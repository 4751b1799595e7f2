"""What answers say that they do not count: from the text and the policy alone, in the words of EXPLAIN, and only where it may be so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.answers.display import as_dict, as_html
from dpsql.engine.free_plans import ALL_DECLARED
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """
version = 1
database = "shop.duckdb"
[entities.person]
table = "people"
key = "id"
[tables.people.columns]
id = {}
health = { values = ["good", "poor"], nullable = false }
active = {}
born = { range = [1900-01-01, 2020-12-31] }
income = { bounds = [0, 25000], bins = [0, 100, 200] }
site = { range = [1, 6] }
[tables.visits]
foreign_keys = [{ columns = "person", references = "people(id)" }]
rows_per_entity = 3
[tables.visits.columns]
person = {}
cost = { bounds = [-10, 10.5], decimals = 1 }
[tables.orders]
foreign_keys = [{ columns = "person", references = "people(id)" }]
[tables.orders.columns]
person = { nullable = false }
number = {}
paid = { bounds = "search" }
[tables.items]
foreign_keys = [{ columns = "number", references = "orders(number)" }]
rows_per_entity = 9
[tables.items.columns]
number = {}
[tables.friends]
foreign_keys = [{ columns = "a", references = "people(id)" }, { columns = "b", references = "people(id)" }]
rows_per_entity = 3
[tables.friends.columns]
a = { nullable = false }
b = {}
[budgets.main]
entity = "person"
epsilon = 1000
delta = 1e-6
"""

LIMIT = "at most 3 rows of visits (declared) are used per person, chosen by a keyed hash"
NOBODY = "rows of visits that belong to no person are not read"
WINDOWS = "window functions see only the rows that are used, so what they compare or number may change with the others"
COST = "values are clamped to their bounds: cost to [-10, 10.5]"
HEALTH = "rows with undeclared values of health are not in any group"


def built(folder: Path, rows: int) -> Path:
    folder.mkdir()
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, health VARCHAR, active BOOLEAN, born DATE, income DOUBLE, site INT)")
        connection.execute("CREATE TABLE visits (person BIGINT, cost DOUBLE)")
        connection.execute("CREATE TABLE orders (person BIGINT, number BIGINT PRIMARY KEY, paid DOUBLE)")
        connection.execute("CREATE TABLE items (number BIGINT)")
        connection.execute(f"CREATE TABLE friends AS SELECT i AS a, (i + 1) % {rows or 1} AS b FROM range({rows}) t(i)")
        connection.execute(f"INSERT INTO people SELECT i, 'good', true, DATE '1990-01-01', i, 1 FROM range({rows}) t(i)")
        connection.execute(f"INSERT INTO visits SELECT i % 10, i FROM range({rows}) t(i)")
        connection.execute(f"INSERT INTO orders SELECT i % 10, i, i FROM range({rows}) t(i)")
        connection.execute(f"INSERT INTO items SELECT i FROM range({rows}) t(i)")
    policy = folder / "dpsql.toml"
    policy.write_text(POLICY, encoding="utf-8")
    Ledger.create(folder / "dpsql.ledger", None).close()
    return policy


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with dpsql.connect(policy=built(tmp_path_factory.mktemp("shop") / "full", 100), epsilon=2, delta=1e-9, analyst="ada") as connection:
        yield connection


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with dpsql.connect(policy=built(tmp_path_factory.mktemp("shop") / "empty", 0), epsilon=2, delta=1e-9, analyst="ada") as connection:
        yield connection


CASES = [
    ("SELECT COUNT(*) FROM people", []),
    ("SELECT COUNT(*), COUNT(income) FROM people WHERE active", []),
    ("SELECT active, COUNT(*) FROM people GROUP BY active", []),
    ("SELECT bin_floor(income), COUNT(*) FROM people GROUP BY 1", []),
    ("SELECT site, COUNT(*) FROM people WHERE site BETWEEN 2 AND 3 GROUP BY site", []),
    ("SELECT health = 'good' AS well, COUNT(*) FROM people GROUP BY 1", []),
    ("SELECT SUM(LEAST(GREATEST(income, 0), 10)), SUM(1), SUM(CASE WHEN active THEN 1 ELSE 0 END) FROM people", []),
    ("SELECT COUNT(*) FROM visits", [LIMIT, NOBODY]),
    ("SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = p.id)", [LIMIT, NOBODY]),
    ("SELECT SUM(cost), AVG(cost), SUM(2 * cost) FROM visits", [LIMIT, NOBODY, f"{COST}, 2 * cost to [-20, 21]"]),
    ("SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY person ORDER BY cost) AS place FROM visits) AS t WHERE place = 1",
     [LIMIT, WINDOWS, NOBODY]),
    ("SELECT COUNT(d) FROM (SELECT cost - LAG(cost) OVER (PARTITION BY person ORDER BY cost) AS d FROM visits) AS t", [LIMIT, WINDOWS, NOBODY]),
    ("SELECT COUNT(*) FROM items", ["at most 9 rows of items (declared) are used per person, chosen by a keyed hash", "rows of items that belong to no person are not read"]),
    ("SELECT COUNT(*) FROM friends", ["rows of friends with a missing owner are not read"]),
    ("SELECT COUNT(*) FROM friends f JOIN visits v ON f.a = v.person", [LIMIT, "rows of visits that belong to no person are not read",
                                                                        "rows of friends with a missing owner are not read"]),
    ("SELECT health, COUNT(*) FROM people GROUP BY health", [HEALTH]),
    ("SELECT health, COUNT(*) FROM people WHERE health = 'good' GROUP BY health", []),
    ("SELECT health, COUNT(*) FROM people WHERE active AND health IN ('good', 'poor') GROUP BY health", []),
    ("SELECT health, COUNT(*) FROM people WHERE health <> 'good' GROUP BY health", [HEALTH]),
    ("SELECT COUNT(*) FROM people WHERE health = 'sick'", ["'sick' is not a declared value of health"]),
    ("SELECT COUNT(*) FILTER (WHERE health IN ('poor', 'bad') AND site = 7) FROM people",
     ["'bad' is not a declared value of health", "7 is not a declared value of site"]),
    ("SELECT upper(health), COUNT(*) FROM people GROUP BY 1", ["rows with undeclared values of upper(health) are not in any group"]),
    ("SELECT CASE WHEN health = 'good' THEN 'a' WHEN health = 'poor' THEN 'b' ELSE 'c' END AS x, COUNT(*) FROM people GROUP BY 1", []),
    ("SELECT CASE WHEN health IN ('good', 'poor') THEN health ELSE 'other' END AS x, COUNT(*) FROM people GROUP BY 1", []),
    ("SELECT CASE WHEN active AND health = 'good' THEN health WHEN NOT active THEN health ELSE 'other' END AS x, COUNT(*) FROM people GROUP BY 1",
     ["rows with undeclared values of x are not in any group"]),
    ("SELECT CASE WHEN health <> 'good' THEN health ELSE 'other' END AS x, COUNT(*) FROM people GROUP BY 1",
     ["rows with undeclared values of x are not in any group"]),
    ("SELECT CASE WHEN health IN ('good', 'bad') THEN health ELSE 'other' END AS x, COUNT(*) FROM people GROUP BY 1",
     ["rows with undeclared values of x are not in any group", "'bad' is not a declared value of health"]),
    ("SELECT health, site, MEDIAN(income) FROM people GROUP BY health, site",
     ["values are clamped to their bounds: income to [0, 25000]", "rows with undeclared values of health or site are not in any group"]),
    ("SELECT COUNT(DISTINCT health), COUNT(DISTINCT active) FROM people",
     ["undeclared values of health are not counted"]),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'laplace') COUNT(DISTINCT health) FROM people", []),
    ("SELECT quantile_disc(born, 0.5) FROM people", ["values are clamped to their bounds: born to [1900-01-01, 2020-12-31]"]),
    ("SELECT AVG(t) FROM (SELECT person, LEAST(GREATEST(SUM(cost), 0), 9) AS t FROM visits GROUP BY person)", [LIMIT, NOBODY, COST]),
    ("SELECT COUNT(*) FROM people WHERE income > (SELECT AVG(cost) FROM visits)", [LIMIT, NOBODY, COST]),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 2) COUNT(*) FROM orders",
     ["at most 2 rows of orders are used per person, chosen by a keyed hash"]),
    ("SELECT health, COUNT(*) FROM people GROUP BY CUBE (health)", ["rows with undeclared values of health are not in any group"]),
    ("SELECT health, COUNT(*) FROM people GROUP BY health ERROR WITHIN 50", ["rows with undeclared values of health are not in any group"]),
    ("SELECT COUNT(*) FROM visits ERROR WITHIN 50", [LIMIT, NOBODY]),
]
HOW = ("number over", "numbers over", "each entity's contribution", "earlier measurement", "meets", "learned privately", "released first", "intervals of quantiles", "found privately",
       "tells nothing")


def standing(notes: tuple[str, ...]) -> list[str]:
    """Without what tells how it was measured, what was learned, and what the released numbers are worth."""
    return [note for note in notes if not any(word in note for word in HOW)]


@pytest.mark.parametrize(("text", "notes"), CASES, ids=[case[0][:70] for case in CASES])
def test_an_answer_says_what_it_does_not_count(text: str, notes: list[str], shop: dpsql.Connection) -> None:
    told = shop.explain(text)
    assert list(told.notes) == notes == list(told.as_dict()["notes"])
    assert all(note in str(told) for note in notes) and str(told).count("at most 3 rows of visits") <= 2
    assert standing(shop.execute(text).notes) == notes
    again = shop.execute(text)
    assert again.answer is not None and not again.cost and standing(again.notes) == notes


@pytest.mark.parametrize("text", [case[0] for case in CASES if case[1]])
def test_rows_decide_nothing_of_it(text: str, shop: dpsql.Connection, empty: dpsql.Connection) -> None:
    assert standing(empty.execute(text).notes) == list(shop.explain(text).notes)


def test_what_is_learned_is_told_when_it_is_known_and_nothing_else_is_said_of_it(shop: dpsql.Connection) -> None:
    assert standing(shop.execute("SELECT COUNT(*), SUM(paid) FROM orders").notes) == [], "person is declared free of NULL"
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'frequency') COUNT(*) FROM visits a JOIN visits b ON a.cost = b.cost"
    assert standing(shop.execute(text).notes) == [LIMIT, NOBODY]


def test_declared_groups_alone_say_that_they_may_have_no_rows(shop: dpsql.Connection) -> None:
    assert shop.execute("SELECT health FROM people GROUP BY health").notes == (ALL_DECLARED,)


def test_a_workload_says_it_once_for_all(shop: dpsql.Connection) -> None:
    made = shop.workload(["SELECT COUNT(*) FROM people", "SELECT health, COUNT(*) FROM people GROUP BY health", "SELECT SUM(cost) FROM visits",
                          "SELECT COUNT(*) FROM visits", "SELECT active, COUNT(*) FROM people GROUP BY active"])
    assert standing(made.notes) == [LIMIT, NOBODY, COST, "rows with undeclared values of health are not in any group"]
    assert all(standing(answer.notes) == [] for answer in made)


def test_every_face_shows_it(shop: dpsql.Connection) -> None:
    answer = shop.execute("SELECT health, SUM(income) FROM people GROUP BY health").answer
    assert answer is not None and HEALTH in as_html(answer) and HEALTH in as_dict(answer)["notes"] and HEALTH in json.loads(answer.as_json())["notes"]
