"""The tables and measures of `linked.py`, on tables made by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from linked import compared, shown
from linked_measures import Measurer, numbers_of_lives
from linked_worlds import World, apart, drawn_again, lives, tpch


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Customers with one order of two lines each, or with none; the second line costs more, and large orders are urgent."""
    folder, number = tmp_path_factory.mktemp("tpch"), 40
    customer = np.arange(number) * 10
    order = np.arange(number // 2)
    line = np.repeat(order, 2)
    frames = {
        "customer": {"c_custkey": customer, "c_nationkey": np.arange(number) % 25, "c_mktsegment": ["BUILDING", "MACHINERY"] * (number // 2),
                     "c_acctbal": np.arange(number) * 1.5},
        "orders": {"o_orderkey": order + 7, "o_custkey": customer[::2], "o_orderstatus": ["F", "O"] * (number // 4),
                   "o_orderpriority": ["1-URGENT" if at > 9 else "5-LOW" for at in order],
                   "o_orderdate": pd.Timestamp("1995-01-01") + pd.to_timedelta(order, unit="D"), "o_totalprice": order * 100.0},
        "lineitem": {"l_orderkey": line + 7, "l_linenumber": [1, 2] * len(order), "l_quantity": 1 + line % 50, "l_extendedprice": [1000.0, 2000.0] * len(order),
                     "l_discount": [0.0, 0.05] * len(order), "l_returnflag": ["A", "N"] * len(order), "l_shipmode": ["AIR", "FOB"] * len(order),
                     "l_shipdate": pd.Timestamp("1995-02-01") + pd.to_timedelta(line, unit="D")}}
    for name, columns in frames.items():
        pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet")
    return tpch(folder)


def test_real_tables_are_off_by_nothing(world: World) -> None:
    found = Measurer(world).measured(world.frames)
    assert found == pytest.approx(dict.fromkeys(found, 0)) and {"lineitem x customer 2-way", "orders fan-out", "lineitem next row"} <= set(found)


def test_order_of_rows_and_names_of_keys_do_not_matter(world: World) -> None:
    orders = world.frames["orders"].assign(o_orderkey=lambda rows: 1000 - rows.o_orderkey).sample(frac=1, random_state=0)
    lines = world.frames["lineitem"].assign(l_orderkey=lambda rows: 1000 - rows.l_orderkey)
    found = Measurer(world).measured({**world.frames, "orders": orders, "lineitem": lines})
    assert found == pytest.approx(dict.fromkeys(found, 0))


def test_what_is_measured_of_other_tables(world: World) -> None:
    """Lines of another order are alike within the table, and wrong across tables; half of the orders lack lines."""
    lines, measurer = world.frames["lineitem"], Measurer(world)
    moved = measurer.measured({**world.frames, "lineitem": lines.assign(l_orderkey=lines.l_orderkey.to_numpy()[::-1])})
    assert moved["lineitem 3-way"] == 0 < moved["lineitem x orders 2-way"] and moved["lineitem fan-out"] == 0 < moved["lineitem x customer 2-way"]
    fewer = measurer.measured({**world.frames, "lineitem": lines.iloc[::4]})
    assert fewer["lineitem fan-out"] == pytest.approx(1), "of each other order there is one line, and of the others none"
    same = measurer.measured({**world.frames, "lineitem": lines.assign(l_shipmode="AIR")})
    assert same["lineitem next row"] == pytest.approx(1 / 7), "one of seven columns has other pairs"


def test_customers_are_drawn_again_with_all_their_rows(world: World) -> None:
    again = drawn_again(world, np.random.default_rng(0))
    assert again["customer"].c_custkey.tolist() == list(range(40)) and set(again["orders"].o_custkey) <= set(range(40))
    assert again["orders"].o_orderkey.is_unique and set(again["lineitem"].l_orderkey) == set(again["orders"].o_orderkey)
    joined = again["lineitem"].merge(again["orders"], left_on="l_orderkey", right_on="o_orderkey")
    assert ((joined.l_shipdate - joined.o_orderdate).dt.days == 31).all() and len(joined) == 2 * len(again["orders"])


def test_columns_apart_keep_keys_and_values(world: World) -> None:
    mixed = apart(world, np.random.default_rng(0))
    for name, frame in world.frames.items():
        assert sorted(mixed[name].iloc[:, -1]) == sorted(frame.iloc[:, -1])
    assert mixed["lineitem"].l_orderkey.equals(world.frames["lineitem"].l_orderkey)


def test_the_policy_and_queries_of_lives(tmp_path: Path) -> None:
    made = lives(30)
    policy = made.written(tmp_path, 0.5, 1e-6).read_text(encoding="utf-8")
    assert "epsilon = 0.5\ndelta = 1e-06" in policy and made.queries["visits_syn"] == "SELECT person, day, kind, cost FROM visits"
    assert made.about.startswith("30 people") and (tmp_path / "visits.parquet").exists()


def test_numbers_of_lives_and_ratios() -> None:
    made = lives(400)
    assert numbers_of_lives(made.frames)["correlation of successive costs"] > 0.8
    found = compared(made, Measurer(made).measured, {"real": [(made.frames, 1.0)]})
    told = shown("real rows", found, 4)
    assert found["real"]["visits 2-way"] == 0 < found["drawn again"]["visits 2-way"] < found["columns apart"]["visits next row"]
    assert [line.split()[-2:] for line in told.splitlines() if line.startswith("people 2-way")] == [["0.00", "0.00"]]
