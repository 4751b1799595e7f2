"""The tables of `linked.py`: generated lives, and customers, orders and lines of TPC-H, with what the owner declares of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from dpsql.frozen import Frozen

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.lives import DECLARED, people_and_visits

Frames = Mapping[str, pd.DataFrame]
BUDGET = """
[budgets.main]
entity = "{entity}"
epsilon = {epsilon!r}
delta = {delta!r}
"""
TPCH = """version = 1
[entities.customer]
table = "customer"
key = "c_custkey"
[tables.customer]
key = "c_custkey"
source = "customer.parquet"
[tables.customer.columns]
c_custkey = {}
c_nationkey = { range = [0, 24], nullable = false }
c_mktsegment = { values = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"], nullable = false }
c_acctbal = { bounds = [-1000, 10000], nullable = false }
[tables.orders]
key = "o_orderkey"
source = "orders.parquet"
foreign_keys = [{ columns = "o_custkey", references = "customer(c_custkey)" }]
rows_per_entity = 50
[tables.orders.columns]
o_orderkey = {}
o_custkey = {}
o_orderstatus = { values = ["F", "O", "P"], nullable = false }
o_orderpriority = { values = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"], nullable = false }
o_orderdate = { bounds = [1992-01-01, 1998-12-31], nullable = false }
o_totalprice = { bounds = [0, 600000], nullable = false }
[tables.lineitem]
key = ["l_orderkey", "l_linenumber"]
source = "lineitem.parquet"
foreign_keys = [{ columns = "l_orderkey", references = "orders(o_orderkey)" }]
rows_per_entity = 350
[tables.lineitem.columns]
l_orderkey = {}
l_linenumber = { range = [1, 7], nullable = false }
l_quantity = { range = [1, 50], nullable = false }
l_extendedprice = { bounds = [0, 120000], nullable = false }
l_discount = { bounds = [0, 0.1], decimals = 2, nullable = false }
l_returnflag = { values = ["A", "N", "R"], nullable = false }
l_shipmode = { values = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"], nullable = false }
l_shipdate = { bounds = [1992-01-01, 1998-12-31], nullable = false }
"""
READ = {
    "customer": "c_custkey::BIGINT AS c_custkey, c_nationkey::INTEGER AS c_nationkey, c_mktsegment, c_acctbal::DOUBLE AS c_acctbal",
    "orders": "o_orderkey::BIGINT AS o_orderkey, o_custkey::BIGINT AS o_custkey, o_orderstatus, o_orderpriority, o_orderdate, "
              "o_totalprice::DOUBLE AS o_totalprice",
    "lineitem": "l_orderkey::BIGINT AS l_orderkey, l_linenumber::INTEGER AS l_linenumber, l_quantity::INTEGER AS l_quantity, "
                "l_extendedprice::DOUBLE AS l_extendedprice, l_discount::DOUBLE AS l_discount, l_returnflag, l_shipmode, l_shipdate"}


class WorldTable(Frozen):
    """A table; the columns that are `measured`; its key, "" if nothing refers to it; and the `parent` to which its column `link` refers.
    Rows of one parent follow each other in the order of the table."""

    name: str
    measured: tuple[str, ...]
    key: str = ""
    parent: str = ""
    link: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of the query."""
        return (*dict.fromkeys(name for name in (self.key, self.link) if name), *self.measured)


class World(Frozen, eq=False):
    """Linked tables, each after its parent, with their real rows; `about` says how many."""

    name: str
    entity: str
    policy: str
    tables: tuple[WorldTable, ...]
    frames: Frames

    @property
    def about(self) -> str:
        """The numbers of rows."""
        return ", ".join(f"{len(self.frames[table.name]):,} {table.name}" for table in self.tables)

    @property
    def queries(self) -> dict[str, str]:
        """What the statement asks for, by the names of the tables."""
        return {f"{table.name}_syn": f"SELECT {', '.join(table.columns)} FROM {table.name}" for table in self.tables}

    def written(self, folder: Path, epsilon: float, delta: float) -> Path:
        """The policy, in a folder with the rows."""
        for name, frame in self.frames.items():
            frame.to_parquet(folder / f"{name}.parquet")
        path = folder / "dpsql.toml"
        path.write_text(self.policy + BUDGET.format(entity=self.entity, epsilon=epsilon, delta=delta), encoding="utf-8")
        return path


def lives(number: int, most: int = 400) -> World:
    """So many generated people, and their visits; the owner declares that none costs more than `most`, and none costs over 400."""
    people, visits = people_and_visits(number, np.random.default_rng(5))
    policy = DECLARED.replace("[0, 400]", f"[0, {most}]")
    return World(name=f"lives with costs up to {most}", entity="person", policy=policy, frames={"people": people, "visits": visits}, tables=(
        WorldTable(name="people", key="id", measured=("heavy", "age")),
        WorldTable(name="visits", parent="people", link="person", measured=("day", "kind", "cost"))))


def tpch(folder: Path) -> World:
    """The customers, orders and lines in Parquet files of TPC-H."""
    order = {"customer": "c_custkey", "orders": "o_custkey, o_orderkey", "lineitem": "l_orderkey, l_linenumber"}
    frames = {name: duckdb.sql(f"SELECT {columns} FROM '{folder / name}.parquet' ORDER BY {order[name]}").df()
              for name, columns in READ.items()}
    return World(name="tpch", entity="customer", policy=TPCH, frames=frames, tables=(
        WorldTable(name="customer", key="c_custkey", measured=("c_nationkey", "c_mktsegment", "c_acctbal")),
        WorldTable(name="orders", key="o_orderkey", parent="customer", link="o_custkey",
                   measured=("o_orderstatus", "o_orderpriority", "o_orderdate", "o_totalprice")),
        WorldTable(name="lineitem", parent="orders", link="l_orderkey", measured=(
            "l_linenumber", "l_quantity", "l_extendedprice", "l_discount", "l_returnflag", "l_shipmode", "l_shipdate"))))


def drawn_again(world: World, draws: np.random.Generator) -> Frames:
    """As many rows of the top table drawn with replacement, each with all rows below it, under new keys."""
    top = world.tables[0]
    rows = world.frames[top.name]
    places = draws.integers(0, len(rows), len(rows))
    found = {top.name: rows.iloc[places].reset_index(drop=True)}
    old = {top.name: found[top.name][top.key].to_numpy()}
    found[top.name] = found[top.name].assign(**{top.key: np.arange(len(rows))})
    for table in world.tables[1:]:
        above = pd.DataFrame({table.link: old[table.parent], "new": np.arange(len(old[table.parent]))})
        joined = above.merge(world.frames[table.name], on=table.link)
        if table.key:
            old[table.name] = joined[table.key].to_numpy()
            joined[table.key] = np.arange(len(joined))
        found[table.name] = joined.assign(**{table.link: joined["new"]}).drop(columns="new")
    return found


def apart(world: World, draws: np.random.Generator) -> Frames:
    """Each measured column by itself, exactly; keys as they are."""
    return {table.name: world.frames[table.name].assign(**{
        name: draws.permutation(world.frames[table.name][name].to_numpy()) for name in table.measured}) for table in world.tables}
