"""What is known of the range of a column shortens the text of a clamp, and never changes an integer."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from dpsql.backends.duckdb import DuckReader
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import ANY_NUMBER, Interval, Type

CONNECTION = duckdb.connect(":memory:")
STEPS = st.sampled_from([Fraction(1), Fraction(1, 100), Fraction(1, 10), Fraction(1, 2**20), Fraction(7, 2), Fraction(3, 10)])
ENDS = st.one_of(st.integers(-1000, 1000).map(float), st.decimals(-1000, 1000, places=2).map(float))


@st.composite
def quantizers(draw: st.DrawFn) -> Quantizer:
    low, high = sorted(draw(st.tuples(ENDS, ENDS)))
    return Quantizer(low=low, high=high, step=draw(STEPS), from_low=draw(st.booleans()))


def near(grid: Quantizer) -> st.SearchStrategy[float]:
    """Numbers in and out of bounds, many of them at the ends, halfway between two steps, and next to such."""
    marks = [grid.low, grid.high, *(float(grid.value(n + part)) for n in (grid.least, grid.most, (grid.least + grid.most) // 2)
                                    for part in (Fraction(-1, 2), 0, Fraction(1, 2)))]
    steps = st.sampled_from([0, 1, -1, 3])

    def moved(at: float, ulps: int) -> float:
        for _ in range(abs(ulps)):
            at = math.nextafter(at, math.copysign(math.inf, ulps))
        return at

    return st.one_of(st.builds(moved, st.sampled_from(marks), steps), st.floats(-2000, 2000), st.floats(-1e9, 1e9))


def integers(text: str, values: list[float | int | None], kind: str) -> list[int | None]:
    listed = ", ".join(f"(CAST(NULL AS {kind}))" if value is None else f"(CAST('{value!r}' AS {kind}))" for value in values)
    return [row[0] for row in CONNECTION.execute(f"SELECT {text} FROM (VALUES {listed}) AS t(x)").fetchall()]


@given(st.data(), quantizers())
def test_reals_have_the_same_integer_whatever_is_known_of_them(data: st.DataObject, grid: Quantizer) -> None:
    values = data.draw(st.lists(near(grid), min_size=1, max_size=12))
    wider = data.draw(st.sampled_from([0.0, 1.0, 1e6]))
    reach = Interval(min(values) - wider, max(values) + wider)
    found = integers(grid.to_sql("x", Type.DOUBLE, reach), [*values, None], "DOUBLE")
    assert found == integers(grid.to_sql("x", Type.DOUBLE), [*values, None], "DOUBLE")
    assert found[-1] is None and all(grid.least <= n <= grid.most for n in found[:-1] if n is not None)


@given(st.data(), quantizers(), st.sampled_from([1, 2**40, 2**60]))
def test_whole_numbers_have_the_same_integer_whatever_is_known_of_them(data: st.DataObject, grid: Quantizer, far: int) -> None:
    values = data.draw(st.lists(st.one_of(st.integers(-1100, 1100), st.sampled_from([-far, far])), min_size=1, max_size=12))
    reach = Interval(min(values), max(values))
    assert integers(grid.to_sql("x", Type.BIGINT, reach), [*values, None], "BIGINT") == integers(
        grid.to_sql("x", Type.BIGINT), [*values, None], "BIGINT")


def test_texts_are_shorter_where_more_is_known() -> None:
    grid = Quantizer(low=0.0, high=500.0, step=Fraction(1, 100), from_low=False)
    inside, near, far = (len(grid.to_sql("x", Type.DOUBLE, reach)) for reach in (Interval(0, 500.0), Interval(-9.5, 700.0), ANY_NUMBER))
    assert inside < near and "CASE" in grid.to_sql("x", Type.DOUBLE) and "CASE" not in grid.to_sql("x", Type.DOUBLE, Interval(-9.5, 700.0))
    assert far > inside
    huge = Interval(-1.0, 1e300)  # clamped by comparisons: 1e300 - 500 is 1e300
    assert grid.to_sql("x", Type.DOUBLE, huge) == grid.to_sql("x", Type.DOUBLE)
    whole = Quantizer(low=-5.0, high=5.0, step=Fraction(1), from_low=False)
    assert whole.to_sql("x", Type.BIGINT, Interval(-5, 5)) == "x" and "CASE" not in whole.to_sql("x", Type.BIGINT, Interval(-9, 9))
    assert whole.to_sql("x", Type.BIGINT, Interval(-9, 2**50)) == whole.to_sql("x", Type.BIGINT)  # not small


def test_the_ends_of_a_column_are_those_of_its_rows() -> None:
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE t (i SMALLINT, x DOUBLE, y DOUBLE, z DOUBLE, d DECIMAL(9,2), e DOUBLE)")
    connection.execute("INSERT INTO t VALUES (3, 1.5, 1, 1, 0.25, NULL), (-7, -2, 'nan', 'inf', 9.75, NULL), (NULL, 0, 2, 3, 1, NULL)")
    kinds = {"i": (Type.BIGINT, "SMALLINT"), "d": (Type.DOUBLE, "DECIMAL(9,2)")} | dict.fromkeys("xyze", (Type.DOUBLE, "DOUBLE"))
    table = Table(name="t", public=False, key=(), unique=(), owners=(), columns={
        name: Column(name=name, type=kind, sql_type=sql_type) for name, (kind, sql_type) in kinds.items()})
    content = Content(DuckReader(connection, "v"))
    ends = {name: content.ends(Scan(table=table, columns=()), name) for name in kinds}
    assert ends == {"i": Interval(-7, 3), "x": Interval(-2.0, 1.5), "d": Interval(0.25, 9.75), "y": ANY_NUMBER, "z": ANY_NUMBER,
                    "e": ANY_NUMBER}
