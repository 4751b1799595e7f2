"""A limit of each entity's rows keeps as many rows of everybody as it may, wherever in the plan it is put."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from support.binding import Bench, bench

from dpsql.questions.rules.limit_rows import keep_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Node, fold
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate

LOOKED_UP = [  # all rows of a person meet the same row, or none: the table is limited
    "SELECT sex, COUNT(*) FROM scores JOIN people USING (person_id) GROUP BY sex",
    "SELECT sex, SUM(points) FROM people p JOIN scores s ON s.person_id = p.person_id GROUP BY sex",
    "SELECT sex, SUM(points) FROM scores s LEFT JOIN people p ON s.person_id = p.person_id GROUP BY sex",
    "SELECT COUNT(*) FROM scores JOIN people p USING (person_id) WHERE p.age > 30 AND p.sex = 'f'",
    "SELECT SUM(points) FROM scores s JOIN (SELECT * FROM people WHERE age > 30) p ON s.person_id = p.person_id",
    "SELECT sex, SUM(cost) FROM visits JOIN people USING (person_id) GROUP BY sex",
]
CHOSEN = [  # some rows of a person are in the join and some are not, or meet others: the join is limited
    "SELECT COUNT(*) FROM scores s JOIN people p ON s.person_id = p.person_id AND s.points > p.age",
    "SELECT COUNT(*) FROM scores s JOIN people p ON s.person_id = p.person_id WHERE s.points > 0",
    "SELECT COUNT(*) FROM people p LEFT JOIN scores s ON s.person_id = p.person_id",
    "SELECT COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic",
    "SELECT COUNT(*) FROM scores s JOIN visits v ON s.person_id = v.person_id",
]


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


def limited_at(plan: Node) -> Node:
    """What the limit is put on."""
    found: list[Node] = fold(plan, lambda node, below: [*sum(below, []), *([node.input] if isinstance(node, Truncate) else [])])
    assert len(found) == 1
    return found[0]


def owners(plan: Node, owner: str, made: Bench) -> Counter[object]:
    place = [field.id for field in plan.fields].index(owner)
    return Counter(row[place] for row in made.rows(plan))


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("text", LOOKED_UP + CHOSEN)
def test_as_many_rows_are_kept_as_may_be(text: str, most: int, a_bench: Bench) -> None:
    view = prune_columns(a_bench.bind(text).view)
    owner = stability(view, a_bench.kernel).owner
    assert owner is not None
    kept = keep_rows(view, most, owner)
    assert stability(kept, a_bench.kernel).rows == most and stability(kept, a_bench.kernel).owner == owner
    assert owners(kept, owner, a_bench) == {name: min(n, most) for name, n in owners(view, owner, a_bench).items()}
    assert Counter(a_bench.rows(kept)) <= Counter(a_bench.rows(view))


@pytest.mark.parametrize("text", LOOKED_UP + CHOSEN)
def test_where_the_limit_is_put(text: str, a_bench: Bench) -> None:
    view = prune_columns(a_bench.bind(text).view)
    owner = stability(view, a_bench.kernel).owner
    assert owner is not None
    at = limited_at(keep_rows(view, 2, owner))
    inside = fold(at, lambda node, below: isinstance(node, Join) or any(below))
    assert inside == (text in CHOSEN)
    assert text in CHOSEN or isinstance(at, Scan) and at.table.name in ("scores", "visits")
