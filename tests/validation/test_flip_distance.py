"""The slack is the flip distance: compared with a search over all small multisets of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sessions import open_ledger

from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.backends.scratch import DuckScratch
from dpsql.bounding import limited_view
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine import Session
from dpsql.kernel.looks.measure import dense
from dpsql.kernel.run import Kernel
from dpsql.options import Options
from dpsql.plan.node import Printing, fold
from dpsql.requests import Form, Within
from dpsql.sql.bind import bind
from dpsql.sql.parse import parse
from dpsql.validation.forms import Asked, within
from dpsql.validation.ranges import Range

VALUES = (-2, 0, 1, 3, 4)
LARGEST, SEARCHED = 4, 6  # values in a database, and in those that are searched
POLICY = """
version = 1
[entities.row]
table = "m"
key = "id"
[tables.m]
key = "id"
[tables.m.columns]
id = {}
g = { range = [0, %d] }
v = { bounds = [-2, 4], decimals = 0 }
[budgets.row]
entity = "row"
epsilon = 10
"""
MULTISETS = [part for n in range(LARGEST + 1) for part in combinations_with_replacement(VALUES, n)]
WIDER = [part for n in range(SEARCHED + 1) for part in combinations_with_replacement(VALUES, n)]


def session(folder: Path) -> Session:
    """A table with one group for each multiset."""
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE m (id INTEGER PRIMARY KEY, g INTEGER NOT NULL, v INTEGER)")
    rows = [(g, value) for g, part in enumerate(MULTISETS) for value in part]
    connection.executemany("INSERT INTO m VALUES (?, ?, ?)", [(i, *row) for i, row in enumerate(rows)])
    lock_down(connection)
    reader, declared = DuckReader(connection, "v1"), parse_policy(POLICY % (len(MULTISETS) - 1))
    catalog, book = fit(declared, "row", reader.schema(), lambda table, column: []), open_ledger(folder)
    return Session(catalog=catalog, budget=declared.budgets["row"], analyst="ada", kernel=Kernel(reader, book), ledger=book,
                   scratch=DuckScratch())


def question_of(aggregate: str, low: Fraction, high: Fraction, at: Session) -> tuple[Within, list[list[int]]]:
    """The test of an aggregate in every group, and its exact totals."""
    query: Any = parse(f"SELECT g, {aggregate} FROM m GROUP BY g")
    question = bind(query, at.catalog, at.kernel, at.scratch, {})
    view, _ = limited_view(question, Options(price=None), at.kernel, None)
    cells = tuple((g,) for g in range(len(MULTISETS)))
    made = within(Asked(call=question.aggregates[0], view=view, keys=tuple(key.column for key in question.keys), cells=cells,
                        ranges=(Range(low=low, high=high),) * len(cells)))
    sql = fold(made.plan, lambda node, below: node.render(below, Printing()))
    rows = at.kernel._reader.rows(sql)
    return made, dense(rows, 1, len(made.plan.totals), cells)


def slacks(made: Within, totals: list[list[int]], rows: int = 1) -> list[int]:
    """The slack of every group by itself."""
    alone = [Within(plan=made.plan, cells=made.cells[g : g + 1], forms=tuple(
        Form(at=form.at, sign=form.sign, constants=form.constants[g : g + 1]) for form in made.forms))
        for g in range(len(made.cells))]
    return [test.slack([column[g : g + 1] for column in totals], rows) for g, test in enumerate(alone)]


def steps(a: Sequence[int], b: Sequence[int]) -> int:
    """How many rows come or go between two multisets."""
    first, second = Counter(a), Counter(b)
    return (first - second).total() + (second - first).total()


def median(part: Sequence[int]) -> Fraction | None:
    return Fraction(sorted(part)[-(-len(part) // 2) - 1]) if part else None


def at_rank(p: Fraction) -> Callable[[Sequence[int]], Fraction | None]:
    return lambda part: Fraction(sorted(part)[max(1, -(-p.numerator * len(part) // p.denominator)) - 1]) if part else None


TRUTHS: dict[str, Callable[[Sequence[int]], Fraction | None]] = {
    "COUNT(*)": lambda part: Fraction(len(part)),
    "COUNT(DISTINCT v)": lambda part: Fraction(len(set(part))),
    "SUM(v)": lambda part: Fraction(sum(part)),
    "AVG(v)": lambda part: Fraction(sum(part), len(part)) if part else None,
    "MEDIAN(v)": median,
    "QUANTILE_DISC(v, 0.25)": at_rank(Fraction(1, 4)),
    "QUANTILE_DISC(v, 0.9)": at_rank(Fraction(9, 10)),
}
EXACT = ("COUNT(*)", "MEDIAN(v)")


@pytest.mark.parametrize(("low", "high"), [("1/2", "7/2"), ("0", "3"), ("-5/2", "1"), ("7/4", "9/4"), ("-1", "20")])
@pytest.mark.parametrize("aggregate", TRUTHS)
def test_a_slack_says_the_truth_and_never_more_than_the_distance(aggregate: str, low: str, high: str, tmp_path: Path) -> None:
    ends, truth = Range(low=Fraction(low), high=Fraction(high)), TRUTHS[aggregate]
    made, totals = question_of(aggregate, ends.low, ends.high, session(tmp_path))
    inside = {part: (value := truth(part)) is not None and ends.holds(value) for part in WIDER}
    exact = 0
    for part, slack in zip(MULTISETS, slacks(made, totals), strict=True):
        assert (slack >= 1) == inside[part], (part, slack)
        others = [steps(part, other) for other in WIDER if inside[other] != inside[part]]
        distance = min(others, default=SEARCHED + 1)
        far = slack if slack >= 1 else 1 - slack
        if distance <= SEARCHED - len(part):  # a nearer one could not have been missed
            assert far <= distance, (part, slack, distance)
            exact += far == distance
            assert far == distance or aggregate not in EXACT, (part, slack, distance)
    assert exact > 0 or len(set(inside.values())) == 1 or (low, high) == ("-1", "20")


@pytest.mark.parametrize("aggregate", TRUTHS)
def test_one_row_moves_a_slack_by_one(aggregate: str, tmp_path: Path) -> None:
    made, totals = question_of(aggregate, Fraction(1, 2), Fraction(5, 2), session(tmp_path))
    found = dict(zip(MULTISETS, slacks(made, totals), strict=True))
    for part, slack in found.items():
        for value in set(part):
            without = list(part)
            without.remove(value)
            assert abs(found[tuple(without)] - slack) <= 1, (part, value)


def test_groups_together_are_one_distance() -> None:
    """All groups within: the nearest border. Otherwise: all that must change. One row of one group moves it by one."""
    from itertools import product

    from dpsql.plan.operators.constants import Constants
    from dpsql.plan.operators.summands import Count
    from dpsql.plan.operators.tally import Tally

    plan = Tally(input=Constants(columns=(), rows=()), keys=("g",), summands=(Count(),))
    test = Within(plan=plan, cells=((0,), (1,), (2,)), forms=(Form(at=0, sign=1, constants=(-1, -1, -1)),
                                                             Form(at=0, sign=-1, constants=(5, 5, 5))))
    within_ = {counts: all(2 <= count <= 4 for count in counts) for counts in product(range(7), repeat=3)}
    for counts, truth in within_.items():
        slack = test.slack([list(counts)], 1)
        distance = min((sum(abs(a - b) for a, b in zip(counts, other, strict=True)) for other, there in within_.items()
                        if there != truth))
        assert slack == (distance if truth else 1 - distance), counts
        assert -(-slack // 3) == test.slack([list(counts)], 3)
