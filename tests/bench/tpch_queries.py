"""Relative errors of TPC-H queries as they are written, with customers protected, beside published ones.

    tpchgen-cli parquet -s 5 --output-dir=tpch
    python tests/bench/tpch_queries.py tpch --runs 9

Nothing limits what a customer may add but the bounds of columns. An error is the median, over the numbers of an answer and over
runs, of |answer - truth| / |truth|. Such an error falls with the number of customers, so `at 30` is that at scale 30 if it falls
in proportion. `published` are the best of Battiston, Boncz and others, "Privacy in DuckDB" (cwida/privacy), at scale 30 and
epsilon = 1. Seconds are CPU time of all threads, of the plain query and of the first answer.
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np
from bench_clock import table, timed
from bench_data import again

from dpsql.answers.answer import Answer
from dpsql.engine.answering import answer
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.frozen import Frozen
from dpsql.trusted.kernel.ledger import Ledger

TABLES = ("region", "nation", "supplier", "part", "customer", "orders", "lineitem")
KEYS = {"customer": "c_custkey", "orders": "o_orderkey", "supplier": "s_suppkey", "nation": "n_nationkey", "region": "r_regionkey",
        "part": "p_partkey"}
POLICY = """
version = 1
[entities.customer]
table = "customer"
key = "c_custkey"
[tables.customer]
key = "c_custkey"
[tables.customer.columns]
c_custkey = {}
c_nationkey = { range = [0, 24], nullable = false }
[tables.orders]
key = "o_orderkey"
foreign_keys = [{ columns = "o_custkey", references = "customer(c_custkey)" }]
[tables.orders.columns]
o_orderkey = {}
o_custkey = {}
o_orderdate = { range = [1992-01-01, 1998-12-31], nullable = false }
[tables.lineitem]
foreign_keys = [{ columns = "l_orderkey", references = "orders(o_orderkey)" }]
[tables.lineitem.columns]
l_orderkey = {}
l_partkey = {}
l_suppkey = {}
l_quantity = { bounds = [1, 50], decimals = 0, nullable = false }
l_extendedprice = { bounds = [0, 105000], decimals = 2, nullable = false }
l_discount = { bounds = [0, 0.1], decimals = 2, nullable = false }
l_tax = { bounds = [0, 0.08], decimals = 2, nullable = false }
l_returnflag = { values = ["A", "N", "R"], nullable = false }
l_linestatus = { values = ["F", "O"], nullable = false }
l_shipdate = { range = [1992-01-01, 1998-12-31], nullable = false }
l_shipinstruct = { nullable = false }
l_shipmode = { nullable = false }
""" + "".join(f"[tables.{name}]\npublic = true\nkey = \"{KEYS[name]}\"\n[tables.{name}.columns]\n{columns}\n" for name, columns in {
    "part": "p_partkey = {}\np_type = {}\np_brand = {}\np_container = {}\np_size = {}",
    "supplier": "s_suppkey = {}\ns_nationkey = {}", "nation": "n_nationkey = {}\nn_name = { values_from = \"nation.n_name\" }\nn_regionkey = {}",
    "region": "r_regionkey = {}\nr_name = {}"}.items()).replace(' values_from = "nation.n_name" ', "") + """
[budgets.customer]
entity = "customer"
epsilon = 1000
delta = 0.01
"""
REVENUE = "SUM(l_extendedprice * (1 - l_discount))"
BRANCH = ("(p_brand = '{}' AND p_container IN ({}) AND l_quantity BETWEEN {} AND {} AND p_size BETWEEN 1 AND {} "
          "AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')")
QUERIES = {  # the columns before the numbers, published errors, the text
    "Q1": (2, 0.0085, f"""SELECT l_returnflag, l_linestatus, SUM(l_quantity), SUM(l_extendedprice), {REVENUE},
        SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)), AVG(l_quantity), AVG(l_extendedprice), AVG(l_discount), COUNT(*)
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus"""),
    "Q5": (1, 0.0022, f"""SELECT n_name, {REVENUE} FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey JOIN nation ON s_nationkey = n_nationkey
        JOIN region ON n_regionkey = r_regionkey WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name"""),
    "Q6": (0, 0.00017, """SELECT SUM(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01'
        AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"""),
    "Q14": (0, 0.0006, f"""SELECT 100.0 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) / {REVENUE}
        FROM lineitem JOIN part ON l_partkey = p_partkey WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'"""),
    "Q19": (0, 0.004, f"SELECT {REVENUE} FROM lineitem JOIN part ON p_partkey = l_partkey WHERE " + " OR ".join((
        BRANCH.format("Brand#12", "'SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'", 1, 11, 5),
        BRANCH.format("Brand#23", "'MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'", 10, 20, 10),
        BRANCH.format("Brand#34", "'LG CASE', 'LG BOX', 'LG PACK', 'LG PKG'", 20, 30, 15)))),
}
HEADS = ("query", "numbers", "median rel. error", "covered", "at 30", "published at 30", "plain s", "dpsql s")


def filled(source: Path, path: Path) -> float:
    """A database with the keys of TPC-H; returns its scale."""
    with duckdb.connect(str(path)) as connection:
        for name in TABLES:
            connection.execute(f"CREATE TABLE {name} AS FROM '{source}/{name}.parquet' LIMIT 0")
            if name in KEYS:
                connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({KEYS[name]})")
            connection.execute(f"INSERT INTO {name} FROM '{source}/{name}.parquet'")
        (customers,), = connection.execute("SELECT COUNT(*) FROM customer").fetchall()
    return float(customers) / 150_000


class Truth(Frozen):
    """What DuckDB answers, as numbers by their keys, and the CPU seconds of that."""

    numbers: Mapping[tuple[object, ...], Sequence[float]]
    seconds: float


def truths(path: Path) -> dict[str, Truth]:
    """Before a session is there: one process opens a file in one way at a time."""
    found = {}
    with duckdb.connect(str(path), read_only=True) as connection:
        for name, (keys, _, sql) in QUERIES.items():
            rows: list[tuple[object, ...]] = []
            taken = timed(lambda sql=sql, rows=rows: rows.extend(connection.execute(sql).fetchall()))  # type: ignore[misc]
            found[name] = Truth(numbers={row[:keys]: [float(str(value)) for value in row[keys:]] for row in rows}, seconds=taken.cpu)
    return found


def lines(known: Mapping[str, Truth], session: Session, scale: float, runs: int, only: str) -> Iterator[list[str]]:
    for name, (keys, published, sql) in QUERIES.items():
        if only not in name:
            continue
        truth, plain = known[name].numbers, known[name].seconds
        text = sql.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)", 1)
        found: list[Answer] = []
        taken = [timed(lambda text=text: found.append(answer(text, again(session, uuid.uuid4())))) for _ in range(runs)]  # type: ignore
        first = taken[0].cpu
        errors, covered = [], []
        for made in found:
            for row, ends in zip(made.rows, made.intervals, strict=True):
                for value, true, interval in zip(row[keys:], truth.get(row[:keys], ()), ends[keys:], strict=False):
                    errors.append(abs(float(value) - true) / abs(true) if value is not None else 1.0)  # type: ignore[arg-type]
                    covered.append(interval is None or interval[0] <= true <= interval[1])
        error = float(np.median(errors))
        yield [name, f"{len(errors) // runs}", f"{100 * error:.3g} %", f"{100 * np.mean(covered):.0f} %", f"{100 * error * scale / 30:.3g} %",
               f"{100 * published:g} %", f"{plain:.2f}", f"{first:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder of tpchgen-cli")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--only", default="", help="queries with this in their name")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-", dir=given.source) as folder:
        path, policy, ledger = (Path(folder) / name for name in ("tpch.duckdb", "policy.toml", "ledger"))
        scale = filled(given.source, path)
        policy.write_text(POLICY, encoding="utf-8")
        Ledger.create(ledger).close()
        known = truths(path)
        session = open_session(path, policy, ledger, ConnectionTerms(analyst="bench"))
        print(table(f"TPC-H at scale {scale:g}, epsilon = 1, {given.runs} runs", HEADS, list(lines(known, session, scale, given.runs, given.only))))


if __name__ == "__main__":
    main()
