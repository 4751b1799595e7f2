"""Answers: what is composed of noisy aggregates, how errors follow, what is stored and read back."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dpsql.answers.answer import Answer, AnswerColumn, compose, of_json, values_of
from dpsql.answers.columns import ColumnData, joined, of_rows, unpacked
from dpsql.answers.display import brief, note_html
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.price import price
from dpsql.estimates import Estimate, NoiseTerm, constant, margin, released
from dpsql.frozen import replace
from dpsql.questions.question import AggregateCall, Key, Ordering, Output, OverGroups, Question
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, Value
from dpsql.trusted.plan.node import Field
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.types import Type

SCRATCH = DuckScratch()
NOISE = NoiseTerm(kind="laplace", scale=5.0)
SURE = NoiseTerm(kind="gaussian", scale=2.0)
BIGINT, DOUBLE, BOOLEAN, VARCHAR = Type.BIGINT, Type.DOUBLE, Type.BOOLEAN, Type.VARCHAR
KEY = Key(column="k", name="k", type=VARCHAR, domain=None, nullable=True)
N = AggregateCall(id="n", function="count", type=BIGINT)
S = AggregateCall(id="s", function="sum", columns=("x",), type=DOUBLE)
K_, N_, S_ = Ref(column="k", type=VARCHAR), Ref(column="n", type=BIGINT), Ref(column="s", type=DOUBLE)
VIEW = Constants(columns=(Field(id="x", name="x", facts=Facts(type=DOUBLE)),), rows=((1.0,),))
CELLS = (("a",), ("b",), ("c",), (None,))
COUNTS, SUMS = [40.0, 10.0, -3.0, 10.0], [100.0, 5.0, 2.0, float("nan")]


def number(value: float, kind: Type = DOUBLE) -> Literal:
    return Literal(value=value, type=kind)


def call(name: str, *args: Expr, kind: Type = DOUBLE) -> Call:
    return Call(function=name, args=args, type=kind)


def ask(outputs: Sequence[Expr], *, aggregates: dict[str, Estimate] | None = None, **clauses: Any) -> Answer:
    question = Question(view=VIEW, keys=(KEY,), aggregates=(N, S),
                        outputs=tuple(Output(name=f"o{i}", expr=expr) for i, expr in enumerate(outputs)), **clauses)
    given = aggregates if aggregates is not None else {
        "n": released((0,), np.array(COUNTS), NOISE), "s": released((1,), np.array(SUMS), SURE)}
    return compose(question, CELLS, given, SCRATCH, confidence=0.95, price=price(epsilon=1), notes=("a note",))


def column(answer: Answer, i: int) -> list[Value]:
    return [row[i] for row in answer.rows]


def order(expr: Expr, *, descending: bool = False, nulls_first: bool = False) -> Ordering:
    return Ordering(expr=expr, descending=descending, nulls_first=nulls_first)


def test_keys_counts_and_sums_are_shown_in_their_types() -> None:
    made = ask([K_, N_, S_])
    assert made.rows == (("a", 40, 100.0), ("b", 10, 5.0), ("c", -3, 2.0), (None, 10, None))
    assert [(c.name, c.exact, c.approximate) for c in made.columns] == [("o0", True, False), ("o1", False, False), ("o2", False, False)]
    assert (made.cost, made.notes, made.confidence, made.stored) == ("ε = 1", ("a note",), 0.95, False)


def test_errors_stand_beside_numbers_that_have_them() -> None:
    made = ask([K_, N_, S_, number(7.0)])
    for row, errors, intervals in zip(made.rows, made.errors, made.intervals, strict=True):
        assert errors[0] is None and intervals[0] is None and errors[3] is None and intervals[3] is None
        assert errors[1] == pytest.approx(math.sqrt(NOISE.variance)) and intervals[1] is not None
        assert errors[2] == (None if row[2] is None else pytest.approx(2.0))
    assert made.ends(0, 0) is None and made.ends(3, 2) is None
    low, high = made.intervals[0][1] or (0, 0)
    assert low + high == 80 and high - low == 2 * margin((NOISE,), (1.0,), 0.95)


@pytest.mark.parametrize(("expr", "expected", "linear"), [
    (call("+", S_, number(3.0)), 2.0, True), (call("*", number(-4.0), S_), 8.0, True), (call("negate", S_), 2.0, True),
    (call("-", S_, S_), 0.0, True), (call("/", S_, number(2.0)), 1.0, True), (call("*", S_, S_), 2 * 100 * 2.0, False),
    (call("sqrt", S_), 0.5 / 10 * 2.0, False), (call("abs", S_), 2.0, False), (call("ln", S_), 2.0 / 100, False)])
def test_errors_follow_through_expressions(expr: Expr, expected: float, linear: bool) -> None:
    made = ask([expr])
    assert made.errors[0][0] == pytest.approx(expected, rel=1e-2)
    assert made.columns[0].approximate is not linear


def test_a_ratio_takes_the_errors_of_both() -> None:
    made = ask([call("/", S_, Ref(column="s", type=DOUBLE)), call("/", S_, Call(function="+", args=(S_, number(1.0)), type=DOUBLE))])
    assert made.errors[0][0] == pytest.approx(0, abs=1e-9), "of the same noise above and below the line nothing is left"
    assert made.errors[0][1] == pytest.approx(2.0 * 1 / 101**2, rel=1e-2)


def test_texts_and_truth_values_of_noisy_numbers_are_not_exact() -> None:
    word = Case(branches=((call(">", N_, number(5, BIGINT), kind=BOOLEAN), Literal(value="many", type=VARCHAR)),),
                otherwise=Literal(value="few", type=VARCHAR), type=VARCHAR)
    made = ask([word, call(">", N_, number(5, BIGINT), kind=BOOLEAN)])
    assert column(made, 0) == ["many", "many", "few", "many"] and column(made, 1) == [True, True, False, True]
    assert [c.exact for c in made.columns] == [False, False] and made.errors[0] == (None, None)


def test_aggregates_of_public_tables_are_exact() -> None:
    made = ask([N_, call("+", S_, number(1.0))], aggregates={"n": constant(np.array(COUNTS)), "s": constant(np.array(SUMS))})
    assert all(c.exact for c in made.columns) and made.errors[0] == (None, None) == made.intervals[0]


def test_having_keeps_what_is_true_and_not_what_is_unknown() -> None:
    assert column(ask([K_], having=call(">", S_, number(3.0), kind=BOOLEAN)), 0) == ["a", "b"]
    assert column(ask([K_], having=call("is null", S_, kind=BOOLEAN)), 0) == [None]


@pytest.mark.parametrize(("ordering", "expected"), [
    ([order(S_)], ["c", "b", "a", None]), ([order(S_, nulls_first=True)], [None, "c", "b", "a"]),
    ([order(S_, descending=True)], ["a", "b", "c", None]), ([order(S_, descending=True, nulls_first=True)], [None, "a", "b", "c"]),
    ([order(N_), order(K_)], ["c", "b", None, "a"]), ([order(N_), order(K_, descending=True, nulls_first=True)], ["c", None, "b", "a"]),
    ([order(N_)], ["c", "b", None, "a"]), ([order(call("%", N_, number(7, BIGINT), kind=BIGINT))], ["c", "b", None, "a"])])
def test_rows_are_ordered_as_duckdb_does(ordering: list[Ordering], expected: list[str | None]) -> None:
    assert column(ask([K_], ordering=tuple(ordering)), 0) == expected


def test_nan_is_after_all_numbers() -> None:
    aggregates = {"n": constant(np.array(COUNTS)), "s": constant(np.array([1.0, 0.0, 2.0, 0.0]))}
    ratio = call("*", number(math.inf), S_)
    made = ask([K_], aggregates=aggregates, ordering=(order(ratio), order(K_)))
    assert column(made, 0) == ["a", "c", "b", None]


def test_distinct_limit_and_offset_come_last() -> None:
    assert column(ask([N_], distinct=True), 0) == [40, 10, -3]
    by = (order(N_, descending=True), order(K_))
    assert column(ask([K_], ordering=by, limit=2), 0) == ["a", "b"]
    assert column(ask([K_], ordering=by, limit=2, offset=1), 0) == ["b", None]
    assert column(ask([K_], ordering=by, offset=3), 0) == ["c"] and ask([K_], limit=0).rows == ()


def test_no_cells_make_no_rows() -> None:
    question = Question(view=VIEW, keys=(KEY,), aggregates=(N,), outputs=(
        Output(name="k", expr=K_), Output(name="n", expr=call("*", N_, number(2, BIGINT), kind=BIGINT))), ordering=(order(N_),))
    made = compose(question, (), {"n": released((0,), np.zeros(0), NOISE)}, SCRATCH, confidence=0.9, price=None, notes=())
    assert made.rows == () == made.errors and [c.name for c in made.columns] == ["k", "n"] and made.cost == ""


def test_numbers_beyond_all_bounds_stay_quiet(recwarn: pytest.WarningsRecorder) -> None:
    huge = call("*", call("*", S_, number(1e308)), number(1e308))
    made = ask([huge, call("/", S_, call("-", S_, S_)), call("exp", call("*", S_, S_))])
    assert made.rows[0][0] == math.inf and made.rows[0][1] is None and made.rows[0][2] is None
    assert made.errors[0] == (None, None, None) and not recwarn.list


@pytest.mark.parametrize(("kind", "function", "value", "expected"), [
    (BIGINT, "count", 3.4, 3), (BIGINT, "count", 1e300, 2**50), (BIGINT, "sum", -1e300, -(2**126)), (BIGINT, "sum", 4.4e21, 44 * 10**20), (BIGINT, "sum", math.nan, None),
    (DOUBLE, "sum", math.nan, None), (DOUBLE, "avg", 1.5, 1.5), (Type.DATE, "min", 730_000.4, dt.date.fromordinal(730_000)),
    (Type.DATE, "min", 1e12, dt.date.max), (Type.DATE, "min", -5.0, dt.date.min), (Type.DATE, "min", math.nan, None)])
def test_values_are_held_in_their_types(kind: Type, function: str, value: float, expected: Value) -> None:
    made = values_of(AggregateCall(id="a", function=function, type=kind), constant(np.array([value])))
    assert made == [expected] and type(made[0]) is type(expected)


def test_what_is_stored_is_read_back() -> None:
    answer = Answer(
        columns=(AnswerColumn(name="d", type=Type.DATE, exact=True), AnswerColumn(name="t", type=Type.TIMESTAMP, exact=True),
                 AnswerColumn(name="n", type=BIGINT), AnswerColumn(name="x", type=DOUBLE, approximate=True), AnswerColumn(name="w", type=VARCHAR),
                 AnswerColumn(name="b", type=BOOLEAN)),
        data=of_rows(((dt.date(2020, 2, 29), dt.datetime(2020, 1, 1, 12, 30, 0, 7), 2**53 + 1, 0.1, "ü'\"\n", True),
                      (None, None, None, math.inf, None, None)),
                     ((None, None, 1.5, 2.5, None, None), (None,) * 6),
                     ((None, None, (3.0, 9.0), (0.1, math.inf), None, None), (None,) * 6), 6),
        confidence=0.95, cost="ε = 1", notes=("a", "b"))
    text = answer.as_json()
    assert of_json(text) == replace(answer, stored=True) and text.isascii() and json.loads(text)["cost"] == "ε = 1"


def test_a_stored_answer_may_be_told_under_other_names() -> None:
    made = ask([K_, N_])
    assert [c.name for c in made.named(["x", "y"]).columns] == ["x", "y"] and made.named(["x", "y"]).rows == made.rows
    with pytest.raises(ValueError, match="argument"):
        made.named(["x"])


WHOLE = AggregateCall(id="w", function="count", over=OverGroups(within=()), type=BIGINT)
SO_FAR = replace(WHOLE, over=OverGroups(within=(), order="k"))
OTHERS = replace(WHOLE, when="x")


@pytest.mark.parametrize(("whole", "factor", "most"), [(WHOLE, 1.0, 1.0), (WHOLE, 100.0, 100.0), (SO_FAR, 1.0, math.inf), (OTHERS, 1.0, math.inf)])
def test_a_share_is_no_more_than_all(whole: AggregateCall, factor: float, most: float) -> None:
    part: Expr = Cast(input=N_, target="DOUBLE", type=DOUBLE)
    share = call("/", part if factor == 1 else call("*", number(factor), part), Cast(input=Ref(column="w", type=BIGINT), target="DOUBLE", type=DOUBLE))
    question = Question(view=VIEW, keys=(KEY,), aggregates=(N, whole), outputs=(Output(name="share", expr=share),))
    total = Estimate(values=np.full(4, 3.0), slopes={(0,): (NOISE, np.ones(4)), (1,): (SURE, np.ones(4))})
    made = compose(question, CELLS, {"n": released((0,), np.array(COUNTS), NOISE), "w": total}, SCRATCH, confidence=0.95,
                   price=price(epsilon=1), notes=())
    for (ends,) in made.intervals:
        assert ends is not None and ends[1] == most
        assert (ends[0] >= 0) is math.isfinite(most)


def test_an_interval_of_dates_ends_at_dates() -> None:
    day = dt.date(2020, 1, 1)
    data = of_rows(((day,),), ((2.0,),), (((day.toordinal() - 3.5, math.inf),),), 1)
    made = Answer(columns=(AnswerColumn(name="d", type=Type.DATE),), data=data, confidence=0.95)
    assert made.ends(0, 0) == (day - dt.timedelta(days=4), dt.date.max)


def test_an_answer_is_read_that_was_stored_by_rows() -> None:
    """As it once was, with intervals; and before that with half their widths."""
    made = ask([K_, N_])
    body = json.loads(made.as_json())
    del body["data"]
    body |= {"rows": made.rows, "errors": made.errors, "intervals": made.intervals}
    assert of_json(json.dumps(body)) == replace(made, stored=True)
    body["margins"] = [[None, 3.0] for _ in body.pop("intervals")]
    assert of_json(json.dumps(body)).intervals[:2] == ((None, (37.0, 43.0)), (None, (7.0, 13.0)))


MANY: dict[str, tuple[Type, list[Any]]] = {
    "whole": (BIGINT, list(range(3000))), "huge": (BIGINT, [2**70, *range(2999)]), "ends": (BIGINT, [2**63 - 1, -(2**63)] * 1500),
    "real": (DOUBLE, [0.1, -0.0, 0.0, math.inf] * 750), "holes": (DOUBLE, [None, 0.5, 1e300] * 1000),
    "NaN": (DOUBLE, [None, math.nan, 1.0] * 1000), "keys": (BIGINT, [*range(100), None] * 30), "texts": (VARCHAR, ["ü", None, "a"] * 1000),
    "days": (Type.DATE, [dt.date(2020, 1, 1), None] * 1500), "different": (VARCHAR, [str(i) for i in range(3000)]),
    "truth": (BOOLEAN, [True, None, False] * 1000), "moments": (Type.TIMESTAMP, [dt.datetime(2020, 1, 1, 0, 0, 0, i) for i in range(3000)]),
    "nothing": (BIGINT, [None] * 3000), "few": (BIGINT, [1, None, 3]), "none": (BIGINT, [])}


@pytest.mark.parametrize("name", MANY)
def test_long_columns_are_packed_and_read_back(name: str) -> None:
    kind, values = MANY[name]
    numbers = np.array([math.nan if i % 3 == 0 else math.inf if i % 7 == 0 else i / 7 for i in range(len(values))])
    made = ColumnData(values=tuple(values), errors=numbers, lows=numbers - 1, highs=None)
    text = json.dumps(made.packed())
    found = unpacked(json.loads(text), kind)
    assert list(map(repr, found.values)) == list(map(repr, values)) and len(text) < 200 + 60 * len(values)
    assert all(type(mine) is type(own) for mine, own in zip(found.values, values, strict=True))
    assert name == "none" or (found.errors is not None and np.array_equal(found.errors, numbers, equal_nan=True))
    assert name == "none" or (found.lows is not None and np.array_equal(found.lows, numbers - 1, equal_nan=True))
    assert found.highs is None and (name == "NaN" or name == "none" or found == made)


def test_columns_are_joined_with_and_without_errors() -> None:
    noisy = of_rows([(1,), (2,)], [(0.5,), (None,)], [((0.0, 2.0),), (None,)], 1)[0]
    exact = ColumnData(values=(3,))
    both = joined([noisy, exact])
    assert both.values == (1, 2, 3) and both.told_errors() == [0.5, None, None] and both.told_intervals() == [(0.0, 2.0), None, None]
    assert joined([exact, exact]) == ColumnData(values=(3, 3)) != exact and both != noisy


@pytest.mark.parametrize("note", ["short", "x" * 140, "values are clamped; " * 7])
def test_a_short_note_is_shown_whole(note: str) -> None:
    assert brief(note) == note == note_html(note)


@pytest.mark.parametrize(("note", "shown"), [
    ("a" * 50 + "; " + "b" * 100, "a" * 50 + " ..."),
    ("a" * 30 + "; " + "b" * 30 + ", " + "c" * 90, "a" * 30 + "; " + "b" * 30 + " ..."),
    ("a; " + "b" * 100 + " " + "c" * 100, "a; " + "b" * 100 + " ..."),
    ("word " * 40, ("word " * 28).rstrip() + " ..."),
])
def test_a_long_note_is_cut_at_a_clause_and_kept_whole_in_pages(note: str, shown: str) -> None:
    assert brief(note) == shown
    assert note_html(f"{note}<") == f"<details><summary>{shown}</summary>{note}&lt;</details>"
