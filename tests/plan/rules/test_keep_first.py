"""A limit of row numbers becomes a truncation, exactly where nothing else changes."""

from __future__ import annotations

import pytest
from support.binding import Bench, bench

from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Node, fold
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys

VISITS = "SELECT *, ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY cost DESC, visit_id) AS n FROM visits"


@pytest.fixture(scope="module")
def a_bench() -> Bench:
    with bench() as made:
        yield made


def kept(text: str, made: Bench) -> list[TruncateKeys]:
    return fold(made.bind(text).view, lambda node, below: [*sum(below, []), *([node] if isinstance(node, TruncateKeys) else [])])


def moved(text: str, made: Bench) -> tuple[int | None, bool]:
    """How many rows one entity moves, and whether rows have an owner."""
    plan: Node = limit_rows(prune_columns(made.bind(text).view))
    known = stability(plan, made.kernel)
    return known.rows, bool(known.owners)


@pytest.mark.parametrize(("condition", "rows"), [
    ("n <= 2", 2), ("n < 3", 2), ("n = 1", 1), ("2 >= n", 2), ("3 > n", 2), ("n = 2", 2), ("n BETWEEN 1 AND 4", 4),
    ("n <= 2 AND cost > 3", 2), ("(n <= 5) AND (year = 2020)", 5), ("clinic IN (SELECT clinic FROM clinics) AND n <= 2", 2),
])
@pytest.mark.parametrize("form", ["SELECT COUNT(*) FROM ({}) AS t WHERE {}", "SELECT COUNT(*) FROM ({} QUALIFY {}) AS t"])
def test_a_limit_is_kept_by_a_truncation(form: str, condition: str, rows: int, a_bench: Bench) -> None:
    if "QUALIFY" in form and "SELECT clinic" in condition:
        condition = "n <= 2"
    (found,) = kept(form.format(VISITS, condition), a_bench)
    assert found.rows == rows
    assert [term.descending for term in found.first] == [True, False]


@pytest.mark.parametrize("text", [
    f"SELECT COUNT(*) FROM ({VISITS}) AS t WHERE n >= 2", f"SELECT COUNT(*) FROM ({VISITS}) AS t WHERE n <= 0",
    f"SELECT COUNT(*) FROM ({VISITS}) AS t WHERE n <= 2 OR year = 2020", f"SELECT COUNT(*) FROM ({VISITS}) AS t WHERE n + 1 <= 2",
    f"SELECT COUNT(*) FROM ({VISITS}) AS t WHERE visit_id <= 2", f"SELECT COUNT(*) FILTER (WHERE n <= 2) FROM ({VISITS}) AS t",
    f"SELECT COUNT(*) FROM (SELECT *, MAX(n) OVER (PARTITION BY clinic) AS m FROM ({VISITS}) AS t) AS u WHERE n <= 2",
    f"SELECT COUNT(*) FROM (SELECT clinic, n, COUNT(*) AS m FROM ({VISITS}) AS t GROUP BY clinic, n) AS u WHERE n <= 2",
    "SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY clinic ORDER BY cost) AS n FROM visits) AS t WHERE n <= 2",
    "SELECT COUNT(*) FROM (SELECT city FROM clinics QUALIFY ROW_NUMBER() OVER (PARTITION BY city ORDER BY beds) = 1) AS t",
], ids=str)
def test_other_conditions_are_none(text: str, a_bench: Bench) -> None:
    assert kept(text, a_bench) == []


@pytest.mark.parametrize(("text", "rows", "owned"), [
    ("SELECT COUNT(*) FROM visits", 3, True),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) = 1) AS t", 1, True),
    ("SELECT SUM(b) FROM (SELECT year - LAG(year) OVER w AS b FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY seen) "
     "QUALIFY ROW_NUMBER() OVER w = 2) AS t", 1, True),
    ("SELECT SUM(b) FROM (SELECT year - LAG(year) OVER w AS b, ROW_NUMBER() OVER w AS n FROM visits "
     "WINDOW w AS (PARTITION BY person_id ORDER BY seen)) AS t WHERE n BETWEEN 2 AND 2", 1, True),
    ("SELECT COUNT(*) FROM (SELECT * FROM scores QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY points) <= 2) AS t",
     2, True),
    (f"SELECT COUNT(*) FROM ({VISITS} QUALIFY n <= 2) AS t", 6, False),
    (f"SELECT COUNT(*), SUM(n) FROM ({VISITS} QUALIFY n <= 2) AS t", 18, False),
    (f"SELECT COUNT(*) FROM ({VISITS}) AS t WHERE n <= 2 AND n >= 2", 18, False),
    ("SELECT AVG(b) FROM (SELECT year - LAG(year) OVER (PARTITION BY clinic ORDER BY seen) AS b FROM visits) AS t", 9, False),
    ("SELECT AVG(b) FROM (SELECT AVG(cost) OVER (ORDER BY seen ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS b FROM visits) AS t",
     21, False),
    (f"SELECT SUM(s) FROM (SELECT SUM(year) OVER (PARTITION BY clinic) AS s FROM ({VISITS} QUALIFY n <= 2) AS t) AS u", 18, False),
    (f"SELECT SUM(s) FROM (SELECT SUM(year) OVER (PARTITION BY clinic ROWS 1 PRECEDING) AS s FROM ({VISITS} QUALIFY n <= 9) AS t) "
     "AS u", 18, False),
    ("SELECT SUM(s) FROM (SELECT RANK() OVER (PARTITION BY clinic ORDER BY cost) AS s FROM visits) AS u", None, False),
], ids=str)
def test_how_far_one_entity_moves_statements(text: str, rows: int | None, owned: bool, a_bench: Bench) -> None:
    assert moved(text, a_bench) == (rows, owned)
