"""Cells of a view by columns: every value is found where `cell_of` finds it, sums are exact, and what is listed nowhere is left out."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.released import released
from support.worlds import insert

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.frozen import replace
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.matrices.blocks import IntegerBlock
from dpsql.trusted.matrices.matrices import Prefixes, Sum, Unit
from dpsql.trusted.measurements import block_sums
from dpsql.trusted.measurements.block_sums import Axis, Blocks
from dpsql.trusted.measurements.reading import occupied_cells
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.measurements.reading.occupied_cells import NOWHERE, Filled, coded, numbered, read
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.plan.cells import cell_of
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.workload.factors import written

NAMES = ("flag", "whole", "real", "money", "text", "day", "moment", "amount")
POLICY = """
version = 1
[entities.row]
table = "t"
key = "id"
[tables.t]
key = "id"
[tables.t.columns]
""" + "\n".join(f"{name} = {{}}" for name in ("id", *NAMES)) + """
[budgets.main]
entity = "row"
epsilon = 1
"""
ROWS = [
    (True, 7, 0.0, "1.50", "a", "2020-01-01", "2020-01-01 00:00:00", 2**40), (False, -3, -0.0, "1.50", "", "0001-01-01", "2020-01-01 12:00:00.5", -5),
    (None, 2**62, "nan", "2.25", "A", "9999-12-31", None, 2**40), (True, None, "inf", None, "ä", None, "9999-12-31 23:59:59.999999", 3),
    (True, 7, None, "-0.75", None, "infinity", "infinity", 1), (None, 7, 1e300, "1.5", "a ", "2020-01-02", "-infinity", None),
    (True, 7, 0.0, "1.50", "a", "2020-01-01", "2020-01-01 00:00:00", 2**40)]
AXES: dict[str, tuple[Any, ...]] = {
    "flag": (False, True, None), "whole": (2**62, 7, -3), "real": (0.0, math.nan, math.inf, None), "money": (1.5, 2.25, -0.75),
    "text": ("", "a", "ä", None), "day": (dt.date(1, 1, 1), dt.date(2020, 1, 1), dt.date(9999, 12, 31), None),
    "moment": (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 12, 0, 0, 500_000), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), None)}


@pytest.fixture(scope="module")
def reader() -> DuckReader:
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, flag BOOLEAN, whole BIGINT, real DOUBLE, money DECIMAL(9, 2), text VARCHAR, "
                       "day DATE, moment TIMESTAMP, amount BIGINT)")
    insert(connection, "t", [(i, *row) for i, row in enumerate(ROWS)])
    return DuckReader(connection, "v1")


def context(reader: DuckReader) -> Context:
    return Context(reader=reader, noise=Exact(), printing=Printing(), content=Content(reader), public=Publics(reader))


def catalog(reader: DuckReader) -> Catalog:
    return fit(parse_policy(POLICY), "main", reader.schema(), lambda *_: [])


def request_over(reader: DuckReader, names: tuple[str, ...], parts: tuple[IntegerBlock, ...] = (), *, sums: bool = False) -> Blocks:
    grid = Quantizer(low=-10.0, high=float(2**39), step=1, from_low=False)  # type: ignore[arg-type]
    view = Scan(table=catalog(reader).tables["t"], columns=(*((name, name) for name in names), ("value", "amount")), owners=("owner",))
    return Blocks(view=view, axes=tuple(Axis(column=name, values=AXES[name]) for name in names), blocks=parts, noise="laplace",
                  summand=GridSum(column="value", grid=grid) if sums else Count())


def by_rows(request: Blocks, reader: DuckReader) -> Counter[tuple[int, ...]]:
    """The same cells, row by row."""
    places = [{cell_of((value,)): i for i, value in enumerate(axis.values)} for axis in request.axes]
    found: Counter[tuple[int, ...]] = Counter()
    for *key, number in reader.rows(*context(reader).query(request.cells)):
        codes = [place.get(cell_of((value,))) for place, value in zip(places, key, strict=True)]
        if None not in codes:
            found[tuple(codes)] += number  # type: ignore[arg-type]
    return found


def by_columns(request: Blocks, reader: DuckReader) -> Filled:
    return read(request.cells, [axis.values for axis in request.axes], context(reader))


@pytest.mark.parametrize("names", [(name,) for name in AXES] + list(itertools.combinations(AXES, 2)) + [tuple(AXES), ()], ids="-".join)
@pytest.mark.parametrize("sums", [False, True], ids=["count", "sum"])
def test_columns_say_what_rows_say(names: tuple[str, ...], sums: bool, reader: DuckReader) -> None:
    request = request_over(reader, names, sums=sums)
    filled = by_columns(request, reader)
    seen: Counter[tuple[int, ...]] = Counter()
    for *codes, number in zip(*(column.tolist() for column in filled.codes), filled.sums.tolist(), strict=True):
        seen[tuple(codes)] += number
    expected = by_rows(request, reader)
    assert seen == expected and (expected or len(names) > 2)
    assert filled.total == sum(map(abs, filled.sums.tolist()))


@pytest.mark.parametrize("name", AXES)
def test_rows_with_other_values_are_taken_for_one_of_the_list(name: str, reader: DuckReader) -> None:
    request = request_over(reader, (name,))
    listed = by_columns(request, reader).marginal((0,))
    for rest in range(len(AXES[name])):
        found = read(request.cells, [AXES[name]], context(reader), [rest]).marginal((0,))
        assert (found.sum() == len(ROWS) or name in ("day", "moment")) and (  # days that cannot be read are no keys
            np.delete(found, rest) == np.delete(listed, rest)).all()
        counted = tuple(place for place in range(len(AXES[name])) if place != rest)
        axis = Axis(column=name, values=AXES[name], rest=rest, counted=counted)
        assert copied_request(axis) == axis
        block = IntegerBlock(axes=(0,), matrices=(Unit(axis.size),), scale=1.0)
        asked = replace(request, axes=(axis,), blocks=(block,))
        (answers,) = asked.release(context(reader), None).answers  # type: ignore[arg-type]
        assert answers == tuple(np.delete(listed, rest).tolist())


@pytest.mark.parametrize("rests", [None, (None, 0, None, 1, 2, None), (1, 1, 1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("room", [2**62, 100, 1], ids=str)
@pytest.mark.parametrize("slices", [0, 1, 3, 7])
def test_codes_are_the_same_if_the_engine_finds_them(rests: tuple[int | None, ...] | None, room: int, slices: int, reader: DuckReader,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """As digits of one number, of several, or with a key for each; with listed values that are met nowhere, and others that are
    not listed. Numbers with fractions, and days, are read as they are."""
    names = ("flag", "text", "whole", "value", "real", "day")
    axes: list[tuple[Any, ...]] = [(True, None, False), ("A", "", "a ", None), (-3, 7, 2**62), (None, 3, -5, 2**40), AXES["real"], AXES["day"]]
    request = request_over(reader, ("flag", "text", "whole", "real", "day"))
    request = replace(request, axes=tuple(Axis(column=name, values=axis) for name, axis in zip(names, axes, strict=True)))
    plain = read(request.cells, axes, context(reader), rests)
    monkeypatch.setattr(occupied_cells, "FEW_KEYS", 2)
    monkeypatch.setattr(occupied_cells, "WORDS", room)
    if slices:
        monkeypatch.setattr(occupied_cells, "MANY_CELLS", 1)
        monkeypatch.setattr(occupied_cells, "SLICES", slices)
    words = occupied_cells.digits_of(request.cells, axes)
    assert words == {2**62: [[0, 1, 2, 3]], 100: [[0, 1, 2], [3]], 1: [[0], [1], [2], [3]]}[room]
    found = read(request.cells, axes, context(reader), rests)
    assert found.sizes == plain.sizes and found.total == plain.total

    def cells(filled: Filled) -> Counter[tuple[int, ...]]:
        counts: Counter[tuple[int, ...]] = Counter()
        for *at, number in zip(*(codes.tolist() for codes in filled.codes), filled.sums.tolist(), strict=True):
            counts[tuple(at)] += number
        return counts

    assert cells(found) == cells(plain) and sum(cells(plain).values()) > 1


def test_every_kind_of_value_has_its_place(reader: DuckReader) -> None:
    """All listed values but those of no row are met, each by its own rows."""
    for name, axis in AXES.items():
        counts = by_columns(request_over(reader, (name,)), reader).marginal((0,)).tolist()
        assert all(counts), (name, dict(zip(axis, counts, strict=True)))
    assert by_columns(request_over(reader, ("real",)), reader).marginal((0,)).tolist() == [3, 1, 1, 1]  # both zeros are one value
    assert by_columns(request_over(reader, ("text",)), reader).marginal((0,)).tolist() == [1, 2, 1, 1]  # 'A' and 'a ' are not listed
    assert by_columns(request_over(reader, ("day",)), reader).marginal((0,)).tolist() == [1, 2, 1, 1]  # infinity is no day that is listed


@given(st.lists(st.one_of(st.none(), st.integers(-5, 60), st.integers(-2**63, 2**63 - 1)), max_size=40), st.data())
def test_whole_numbers_are_found_whatever_their_range(values: list[int | None], data: st.DataObject) -> None:
    listed = data.draw(st.lists(st.one_of(st.none(), st.integers(-5, 60), st.sampled_from(values or [1])), unique=True, max_size=20))
    column = np.ma.MaskedArray(np.array([0 if value is None else value for value in values], dtype=np.int64),
                               mask=[value is None for value in values])
    place = {value: i for i, value in enumerate(listed)}
    assert coded(column, listed).tolist() == [place.get(value, NOWHERE) for value in values]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-2**62, 2**62)), max_size=12))
def test_sums_are_exact_however_large(cells: list[tuple[int, int, int]]) -> None:
    codes = tuple(np.array([cell[i] for cell in cells], dtype=np.int64) for i in range(2))
    filled = Filled((3, 4), codes, np.array([cell[2] for cell in cells], dtype=np.int64), sum(abs(cell[2]) for cell in cells))
    for axes in [(), (0,), (1,), (0, 1), (1, 0)]:
        expected: Counter[tuple[int, ...]] = Counter()
        for cell in cells:
            expected[tuple(cell[axis] for axis in axes)] += cell[2]
        table = filled.marginal(axes)
        assert table.shape == tuple((3, 4)[axis] for axis in axes)
        assert {at: int(table[at]) for at in np.ndindex(table.shape)} == {at: expected[at] for at in np.ndindex(table.shape)}


def test_only_integers_leave(reader: DuckReader, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_over(reader, ("flag",))
    for column in (np.ma.MaskedArray([1.0, 2.0, 3.0]), np.ma.MaskedArray([1, 2, 3], mask=[False, True, False]),
                   np.ma.MaskedArray(np.array([1, 2, 3], dtype=object))):
        monkeypatch.setattr(reader, "columns", lambda sql, parts, column=column: [np.ma.MaskedArray([True, False, True]), column])
        with pytest.raises(TypeError, match="only integers"):
            by_columns(request, reader)


def test_answers_are_exact_where_64_bits_do_not_hold_them(reader: DuckReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "columns", lambda sql, parts: [np.ma.MaskedArray([True, False]), np.ma.MaskedArray([2**62, 2**62 - 1])])
    huge = written(np.array([[3, 5, 7], [2**40, -1, 0]]))
    request = request_over(reader, ("flag",), (IntegerBlock(axes=(0,), matrices=(huge,), scale=1.0), IntegerBlock(axes=(), matrices=(), scale=1.0),
                                               IntegerBlock(axes=(0,), matrices=(Prefixes(3),), scale=1.0)))
    first, total, prefix = released(request, context(reader)).answers
    f, t = 2**62 - 1, 2**62
    assert first == (3 * f + 5 * t, 2**40 * f - t) and total == (f + t,) and prefix == (f, f + t, f + t)


@pytest.mark.parametrize("sums", [(2**62, 2**62, 2**62), (-2**62, -2**62, -2**62), (2**62, -2**62, 2**62), (-2**63,)], ids=str)
def test_the_sum_of_all_sizes_is_exact_where_64_bits_do_not_hold_it(sums: tuple[int, ...], reader: DuckReader,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "columns", lambda sql, parts: [np.ma.MaskedArray([True, False, True][: len(sums)]), np.ma.MaskedArray(sums)])
    request = request_over(reader, ("flag",), (IntegerBlock(axes=(), matrices=(), scale=1.0),))
    assert by_columns(request, reader).total == sum(map(abs, sums))
    assert released(request, context(reader)).answers == ((sum(sums),),)


def test_noise_is_added_where_64_bits_do_not_hold_the_sum() -> None:
    far = 2**63 - 1
    assert block_sums.with_noise(np.array([1, 2**62 - 1], dtype=np.int64), [far, -2**63]) == (2**63, -2**62 - 1)
    assert block_sums.with_noise(np.array([1], dtype=np.int64), [far]) == (2**63,)
    assert block_sums.with_noise(np.array([-1], dtype=np.int64), [-2**63]) == (-2**63 - 1,)
    assert block_sums.with_noise(np.array([2**70, 1], dtype=object), [-3, 4]) == (2**70 - 3, 5)
    assert block_sums.with_noise(np.array([5, -6], dtype=np.int64), [-3, 4]) == (2, -2)


def test_cells_that_are_outside_on_any_axis_are_left_out() -> None:
    codes = np.array([0, 1, 2, 2]), np.array([1, 1, 1, 0])
    filled = numbered(Filled(sizes=(3, 2), codes=codes, sums=np.array([1, 2, 4, 8]), total=15), [(0, NOWHERE, 1), (NOWHERE, 0)])
    assert filled.marginal((0, 1)).tolist() == [[1], [4]]


def test_large_domains_are_never_made(reader: DuckReader) -> None:
    """1.25 x 10^14 cells, of which only the marginals asked for are looked at."""
    many = tuple(f"v{i}" for i in range(50_000))
    request = request_over(reader, ("text", "flag", "whole"))
    axes = (Axis(column="text", values=("a", *many)), Axis(column="flag", values=(True, False, *range(2, 50_000))),
            Axis(column="whole", values=tuple(range(50_000))))
    parts = (IntegerBlock(axes=(0,), matrices=(Unit(50_001),), scale=1.0), IntegerBlock(axes=(2,), matrices=(Sum(50_000),), scale=1.0))
    wide = Blocks(view=request.view, axes=axes, summand=Count(), blocks=parts, noise="laplace")
    first, total = released(wide, context(reader)).answers
    assert first[0] == 2 and sum(first) == 2 and total == (2,)
