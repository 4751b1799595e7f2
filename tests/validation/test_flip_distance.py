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
from support.policies import policy_of
from support.sessions import open_ledger
from support.worlds import insert

from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.options import Options
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.parse import parse
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.flip_distance import LISTED, Form, Within, check_slacks, fewest, read, slack_of
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Stability
from dpsql.validation.forms import CheckedAggregate, within
from dpsql.validation.ranges import Range

VALUES = (-2, 0, 1, 3, 4)
LARGEST, SEARCHED = 4, 6  # values in a database, and in those that are searched
POLICY = policy_of("m", """
g = { range = [0, %d] }
v = { bounds = [-2, 4], decimals = 0 }
""", entity="row", budget="row", price="epsilon = 10")
MULTISETS = [part for n in range(LARGEST + 1) for part in combinations_with_replacement(VALUES, n)]
WIDER = [part for n in range(SEARCHED + 1) for part in combinations_with_replacement(VALUES, n)]


def session(folder: Path) -> Session:
    """A table with one group for each multiset."""
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE m (id INTEGER PRIMARY KEY, g INTEGER NOT NULL, v INTEGER)")
    rows = [(g, value) for g, part in enumerate(MULTISETS) for value in part]
    insert(connection, "m", [(i, *row) for i, row in enumerate(rows)])
    lock_down(connection)
    reader, declared = DuckReader(connection, "v1"), parse_policy(POLICY % (len(MULTISETS) - 1))
    catalog, book = fit(declared, "row", reader.schema(), lambda *_: []), open_ledger(folder)
    return Session(catalog=catalog, budget=declared.budgets["row"], analyst="ada", kernel=Kernel(reader, book), ledger=book,
                   scratch=DuckScratch())


def slacks(aggregate: str, ends: Range, at: Session) -> dict[tuple[int, ...], int]:
    """The slack of every group by itself."""
    query: Any = parse(f"SELECT g, {aggregate} FROM m GROUP BY g")
    question = bind(query, at.catalog, at.kernel, at.scratch, {})
    view, _ = limited_view(question, Options(price=None), at.kernel, None)
    cells = tuple((g,) for g in range(len(MULTISETS)))
    made = within(CheckedAggregate(call=question.aggregates[0], view=view, keys=tuple(key.column for key in question.keys), cells=cells,
                                   ranges=(ends,) * len(cells)))
    if aggregate == "SUM(v)":  # exact for one group; so each is asked about by itself
        assert isinstance(made, Within)
        alone = replace(made, plan=replace(made.plan, keys=()), cells=((),), exact=True,
                        forms=tuple(replace(form, constants=form.constants[:1]) for form in made.forms))
        check_slacks((alone,), (Certificate(below=Stability(rows=1), summands=()),))
        return {part: slack_of(alone.sides([[sum(part)]], lambda listed, part=part: sorted(
            (v * listed.sign for v in part if v * listed.sign > 0), reverse=True)[: listed.most]), 1) for part in MULTISETS}
    sides, = read([made], at.kernel._context())
    return {part: slack_of([side[g : g + 1] for side in sides], 1) for g, part in enumerate(MULTISETS)}


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
EXACT = ("COUNT(*)", "COUNT(DISTINCT v)", "SUM(v)", "MEDIAN(v)")


@pytest.mark.parametrize(("low", "high"), [("1/2", "7/2"), ("0", "3"), ("-5/2", "1"), ("7/4", "9/4"), ("-1", "20")])
@pytest.mark.parametrize("aggregate", TRUTHS)
def test_a_slack_says_the_truth_and_never_more_than_the_distance(aggregate: str, low: str, high: str, tmp_path: Path) -> None:
    ends, truth = Range(low=Fraction(low), high=Fraction(high)), TRUTHS[aggregate]
    inside = {part: (value := truth(part)) is not None and ends.holds(value) for part in WIDER}
    exact = 0
    for part, slack in slacks(aggregate, ends, session(tmp_path)).items():
        assert (slack >= 1) == inside[part], (part, slack)
        others = [steps(part, other) for other in WIDER if inside[other] != inside[part]]
        distance = min(others, default=SEARCHED + 1)
        far = slack if slack >= 1 else 1 - slack
        if distance <= SEARCHED - len(part):  # a nearer one could not have been missed
            assert far <= distance, (part, slack, distance)
            exact += far == distance
            jumped = aggregate == "SUM(v)" and not inside[part] and ends.high - ends.low < 1  # one row can pass the interval
            assert far == distance or jumped or aggregate not in EXACT, (part, slack, distance)
    assert exact > 0 or len(set(inside.values())) == 1 or (low, high) == ("-1", "20")


@pytest.mark.parametrize("aggregate", TRUTHS)
def test_one_row_moves_a_slack_by_one(aggregate: str, tmp_path: Path) -> None:
    found = slacks(aggregate, Range(low=Fraction(1, 2), high=Fraction(5, 2)), session(tmp_path))
    for part, slack in found.items():
        for value in set(part):
            without = list(part)
            without.remove(value)
            assert abs(found[tuple(without)] - slack) <= 1, (part, value)


def test_groups_together_are_one_distance() -> None:
    """All groups within: the nearest border. Otherwise: all that must change. One row of one group moves it by one."""
    from itertools import product

    from dpsql.trusted.plan.operators.constants import Constants
    from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
    from dpsql.trusted.plan.operators.summands import Count

    plan = GroupedSums(input=Constants(columns=(), rows=()), keys=("g",), summands=(Count(),))
    test = Within(plan=plan, cells=((0,), (1,), (2,)), forms=(Form(at=0, sign=1, constants=(-1, -1, -1)),
                                                             Form(at=0, sign=-1, constants=(5, 5, 5))))
    within_ = {counts: all(2 <= count <= 4 for count in counts) for counts in product(range(7), repeat=3)}
    for counts, truth in within_.items():
        sides = test.sides([list(counts)], lambda listed: [])
        slack = slack_of(sides, 1)
        distance = min((sum(abs(a - b) for a, b in zip(counts, other, strict=True)) for other, there in within_.items()
                        if there != truth))
        assert slack == (distance if truth else 1 - distance), counts
        assert -(-slack // 3) == slack_of(sides, 3)


def test_the_fewest_amounts_are_found() -> None:
    """As a search finds them, from amounts that can be taken once and one that can be taken often."""
    from itertools import combinations

    for leave in ([], [1], [3, 3, 1], [9, 4, 4, 2], [7, 1, 1, 1]):
        for come in (0, 1, 2, 5):
            for need in range(1, 20):
                tried = [len(part) + (-(-rest // come) if come and rest > 0 else 0) for size in range(len(leave) + 1)
                         for part in combinations(leave, size) if (rest := need - sum(part)) <= 0 or come]
                assert min(fewest(need, come, leave), 99) == min(tried, default=99), (need, come, leave)


def test_a_list_that_is_cut_off_never_takes_a_distance_too_far() -> None:
    """Beyond what is listed the distance is at least the number listed, and at least what the largest value allows."""
    from dpsql.trusted.plan.operators.constants import Constants
    from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
    from dpsql.trusted.plan.operators.quantizer import Quantizer
    from dpsql.trusted.plan.operators.summands import GridSum

    summand = GridSum(column="v", grid=Quantizer(low=0.0, high=1000.0, step=Fraction(1), from_low=False))
    plan = GroupedSums(input=Constants(columns=(), rows=()), keys=(), summands=(summand,))
    test = Within(plan=plan, cells=((),), exact=True,
                  forms=(Form(at=0, sign=1, constants=(0,)), Form(at=0, sign=-1, constants=(10**9,))))
    ones = LISTED + 500
    assert slack_of(test.sides([[ones]], lambda listed: [1] * listed.most), 1) == LISTED
    assert slack_of(test.sides([[5000 * 1000]], lambda listed: [1000] * listed.most), 1) == 5000
    assert slack_of(test.sides([[300]], lambda listed: [1] * 300), 1) == 300
