"""Star schemas: the groups of public tables are those that exist, wherever a query reaches them, and their numbers are right."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = {"ALGERIA": 0, "ARGENTINA": 1, "BRAZIL": 1, "CANADA": 1, "EGYPT": 4, "ETHIOPIA": 0, "FRANCE": 3, "GERMANY": 3, "INDIA": 2,
           "INDONESIA": 2, "IRAN": 4, "IRAQ": 4, "JAPAN": 2, "JORDAN": 4, "KENYA": 0, "MOROCCO": 0, "MOZAMBIQUE": 0, "PERU": 1, "CHINA": 2,
           "ROMANIA": 3, "SAUDI ARABIA": 4, "VIETNAM": 2, "RUSSIA": 3, "UNITED KINGDOM": 3, "UNITED STATES": 1}
TPCH = """
version = 1
database = "data.duckdb"
entities = { customer = { table = "customer", key = "c_custkey" } }
budgets = { main = { entity = "customer", epsilon = 1000 } }
[tables.region]
public = true
key = "r_regionkey"
columns = { r_regionkey = {}, r_name = {} }
[tables.nation]
public = true
key = "n_nationkey"
columns = { n_nationkey = {}, n_name = {}, n_regionkey = {} }
[tables.part]
public = true
key = "p_partkey"
columns = { p_partkey = {}, p_brand = {}, p_type = {} }
[tables.customer]
key = "c_custkey"
columns = { c_custkey = {}, c_nationkey = {}, c_mktsegment = { values = ["BUILDING", "MACHINERY"] } }
[tables.orders]
key = "o_orderkey"
foreign_keys = [{ columns = "o_custkey", references = "customer(c_custkey)" }]
rows_per_entity = 3
columns = { o_orderkey = {}, o_custkey = {}, o_partkey = {}, o_quantity = { bounds = [0, 50] } }
"""
RETAIL = """
version = 1
database = "data.duckdb"
entities = { shopper = { column = "sales.shopper" } }
budgets = { main = { entity = "shopper", epsilon = 1000 } }
[tables.stores]
public = true
key = "store"
columns = { store = {}, city = {}, country = {}, open = {} }
[tables.products]
public = true
key = "product"
columns = { product = {}, brand = {}, category = {} }
[tables.days]
public = true
key = "day"
columns = { day = {}, month = {}, quarter = {} }
[tables.sales]
rows_per_entity = 5
columns = { shopper = {}, store = {}, product = {}, day = {}, amount = { bounds = [0, 100] } }
"""
ASKED = {
    "tpch": [
        ("SELECT r_name, n_name, COUNT(*) FROM customer JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey "
         "GROUP BY ROLLUP (r_name, n_name)", 125 + 5 + 1),  # by two tables, so that all of their combinations are groups
        ("SELECT n.n_regionkey, n.n_name, COUNT(*) FROM customer c JOIN nation n ON c.c_nationkey = n.n_nationkey "
         "GROUP BY ROLLUP (n.n_regionkey, n.n_name)", 25 + 5 + 1),
        ("SELECT n_name, c_mktsegment, COUNT(*) FROM customer JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name, c_mktsegment", None),
        ("SELECT p_brand, p_type, SUM(o_quantity) FROM orders JOIN part ON o_partkey = p_partkey GROUP BY CUBE (p_brand, p_type)", 9 + 3 + 4 + 1),
        ("SELECT p_brand, p_type, n_name, COUNT(*) FROM orders JOIN part ON o_partkey = p_partkey JOIN customer ON o_custkey = c_custkey "
         "JOIN nation ON c_nationkey = n_nationkey WHERE n_regionkey = 3 GROUP BY p_brand, p_type, n_name", 9 * 5),
        ("WITH bought AS (SELECT c_custkey, p_brand, p_type FROM orders JOIN part ON o_partkey = p_partkey JOIN customer ON o_custkey = "
         "c_custkey) SELECT p_type, p_brand, COUNT(*) FROM bought GROUP BY p_type, p_brand", 9),
    ],
    "retail": [
        ("SELECT country, city, COUNT(*) FROM sales JOIN stores USING (store) GROUP BY ROLLUP (country, city)", 6 + 3 + 1),
        ("SELECT country, city, store, COUNT(*) FROM sales JOIN stores USING (store) GROUP BY country, city, store", 12),
        ("SELECT category, brand, quarter, month, SUM(amount) FROM sales JOIN products USING (product) JOIN days USING (day) "
         "GROUP BY category, brand, quarter, month", 5 * 6),
        ("SELECT open, country, COUNT(*) FROM sales LEFT JOIN stores USING (store) GROUP BY open, country", 3 + 1),
        ("SELECT quarter, COUNT(*) FROM sales JOIN days USING (day) WHERE month <> 5 GROUP BY quarter", 2),
        ("SELECT category, country, AVG(amount) FROM (SELECT category, country, amount FROM sales JOIN products USING (product) JOIN stores "
         "USING (store)) AS t GROUP BY category, country", None),
    ],
}


def tpch(data: duckdb.DuckDBPyConnection, draw: random.Random) -> None:
    data.execute("CREATE TABLE region (r_regionkey BIGINT PRIMARY KEY, r_name VARCHAR)")
    data.executemany("INSERT INTO region VALUES (?, ?)", list(enumerate(REGIONS)))
    data.execute("CREATE TABLE nation (n_nationkey BIGINT PRIMARY KEY, n_name VARCHAR, n_regionkey BIGINT)")
    data.executemany("INSERT INTO nation VALUES (?, ?, ?)", [(i, name, region) for i, (name, region) in enumerate(NATIONS.items())])
    data.execute("CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_brand VARCHAR, p_type VARCHAR)")
    pairs = [(brand, kind) for brand in "abc" for kind in "wxyz" if (brand, kind) not in (("a", "z"), ("b", "x"), ("c", "w"))]
    data.executemany("INSERT INTO part VALUES (?, ?, ?)", [(i, *pairs[i % len(pairs)]) for i in range(40)])
    data.execute("CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_nationkey BIGINT, c_mktsegment VARCHAR)")
    data.executemany("INSERT INTO customer VALUES (?, ?, ?)", [(i, draw.randrange(25), draw.choice(["BUILDING", "MACHINERY"])) for i in range(400)])
    data.execute("CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT, o_partkey BIGINT, o_quantity BIGINT)")
    data.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", [(i, i % 400, draw.randrange(40), draw.randint(1, 50)) for i in range(1200)])


def retail(data: duckdb.DuckDBPyConnection, draw: random.Random) -> None:
    data.execute("CREATE TABLE stores (store BIGINT PRIMARY KEY, city VARCHAR, country VARCHAR, open BOOLEAN)")
    data.executemany("INSERT INTO stores VALUES (?, ?, ?, ?)", [(i, f"city {i // 2}", f"country {i // 4}", i >= 4) for i in range(12)])
    data.execute("CREATE TABLE products (product VARCHAR PRIMARY KEY, brand VARCHAR, category VARCHAR)")
    data.executemany("INSERT INTO products VALUES (?, ?, ?)", [(f"p{i}", f"brand {i % 5}", f"category {i % 5 // 2}") for i in range(30)])
    data.execute("CREATE TABLE days (day DATE PRIMARY KEY, month BIGINT, quarter BIGINT)")
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(181)]
    data.executemany("INSERT INTO days VALUES (?, ?, ?)", [(day, day.month, (day.month + 2) // 3) for day in days])
    data.execute("CREATE TABLE sales (shopper BIGINT, store BIGINT, product VARCHAR, day DATE, amount BIGINT)")
    data.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, ?)", [
        (i % 300, draw.choice([*range(12), 99]), f"p{draw.randrange(30)}", draw.choice(days), draw.randint(1, 100)) for i in range(1500)])


@pytest.fixture(scope="module", params=["tpch", "retail"])
def star(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, dpsql.Connection]]:
    made = tmp_path_factory.mktemp(request.param)
    with duckdb.connect(str(made / "data.duckdb")) as data:
        (tpch if request.param == "tpch" else retail)(data, random.Random(4))
    shutil.copy(made / "data.duckdb", made / "plain.duckdb")
    (made / "dpsql.toml").write_text(TPCH if request.param == "tpch" else RETAIL)
    Ledger.create(made / "dpsql.ledger").close()
    with dpsql.connect(policy=made / "dpsql.toml", epsilon=100) as opened:
        yield request.param, made, opened


def test_groups_are_those_that_exist(star: tuple[str, Path, dpsql.Connection]) -> None:
    which, folder, connection = star
    for text, groups in ASKED[which]:
        off: Counter[tuple[object, ...]] = Counter()
        with duckdb.connect(str(folder / "plain.duckdb"), read_only=True) as plain:
            for *keys, number in plain.execute(text).fetchall():
                off[tuple(keys)] -= number
        found = connection.execute(text).fetchall()
        for *keys, number in found:
            off[tuple(keys)] += number if number is not None else 0
        assert max(map(abs, off.values())) < (100 if "SUM" in text else 2), (text, off.most_common(2))
        assert groups is None or len(found) == groups, text


def test_distinct_lists_what_exists(star: tuple[str, Path, dpsql.Connection]) -> None:
    which, _, connection = star
    text = ("SELECT DISTINCT p_brand, p_type FROM orders JOIN part ON o_partkey = p_partkey" if which == "tpch" else
            "SELECT DISTINCT country, city FROM sales JOIN stores USING (store)")
    assert len(connection.execute(text).fetchall()) == (9 if which == "tpch" else 6)
