"""The table of aggregates: each row is written, read, computed and described as the engine has it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import duckdb
import pytest
from support.binding import Bench, bench

from dpsql.questions.all_aggregates import AGGREGATES, Kind
from dpsql.questions.rules.one_column import MEANS, SPREADS, range_of
from dpsql.questions.rules.regression import PAIRS
from dpsql.trusted.plan.operators.groupby import FOLDS
from dpsql.trusted.plan.operators.statistics import EXACT
from dpsql.types import Interval

WAYS = [(name, way) for name, row in AGGREGATES.items() for way in row.written]
SAMPLES = 200


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


def of_kind(*kinds: Kind) -> set[str]:
    return {name for name, row in AGGREGATES.items() if row.kind in kinds}


def test_every_row_has_its_mathematics() -> None:
    assert MEANS.keys() == of_kind(Kind.MEAN) and SPREADS.keys() == of_kind(Kind.SPREAD) and PAIRS.keys() == of_kind(Kind.PAIR)


def test_every_row_has_an_exact_form() -> None:
    unasked = {"count_entities"} | of_kind(Kind.RELEASED)  # what only the policy asks for, and what is not measured
    assert EXACT.keys() == AGGREGATES.keys() - unasked


def test_what_is_computed_of_each_entity_is_in_the_table() -> None:
    assert set(FOLDS) <= AGGREGATES.keys()


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_what_is_written_is_bound_to_the_row(a_bench: Bench, name: str, way: str) -> None:
    columns = way.upper().replace("(X)", "(age + 1)").replace("(Y, X)", "(income, age)")
    call, = a_bench.bind(f"SELECT {columns} FROM people").aggregates
    assert call.function == name and call.aggregate is AGGREGATES[name]
    assert call.type is (AGGREGATES[name].result or call.type)


@pytest.mark.parametrize("function", [*MEANS, *SPREADS, *PAIRS])
def test_no_exact_value_lies_outside_of_the_range(function: str) -> None:
    """Values of random rows, among them those at both ends, where most ranges are reached."""
    dice, ends = random.Random(function), Interval(1, 9)
    inner = Interval(math.log(ends.low), math.log(ends.high)) if AGGREGATES[function].logarithms else ends
    low, high = PAIRS[function].range(inner, inner) if function in PAIRS else range_of(function, inner)
    found = []
    for _ in range(SAMPLES):
        rows = [(dice.choice((1, 9, dice.uniform(1, 9))), dice.choice((1, 9, dice.uniform(1, 9)))) for _ in range(dice.randint(1, 5))]
        columns = "y, x" if function in PAIRS else "x"
        (value,), = duckdb.sql(f"SELECT {function}({columns}) FROM (VALUES {', '.join(map(str, rows))}) AS t(y, x)").fetchall()
        found += [value] if value is not None and not math.isnan(value) else []
    assert found and low - 1e-9 <= min(found) and max(found) <= high + 1e-9
    assert not math.isfinite(high) or max(found) >= low + 0.8 * (high - low), "the range is far wider than it need be"


@pytest.mark.parametrize("name", EXACT)
def test_the_exact_form_is_a_query_of_the_engine(name: str) -> None:
    """Over public rows; answers are compared with plain SQL in `tests/golden/`."""
    columns = "beds, beds" if AGGREGATES[name].kind is Kind.PAIR else "beds"
    printed = EXACT[name].format(name=name.upper(), columns=columns, when=" FILTER (WHERE beds > 0)", type="DOUBLE",
                                 form="cont", fraction="0.5")
    assert duckdb.sql(f"SELECT {printed} FROM (VALUES (3), (5), (NULL)) AS t(beds)").fetchall()
