"""TPC-H through the engine, in plain SQL: how near answers come by the way in which what one entity adds is limited, and how fast.

    tpchgen-cli parquet -s 1 --output-dir=tpch --tables customer,orders,lineitem,supplier,partsupp,nation,region
    python tests/bench/tpch.py tpch --runs 50 --epsilon 0.8

Queries are those of the R2T paper (Dong et al., SIGMOD 2022): joins of all tables of a TPC-H query with next to no predicates.
(Its Q3 is not published in full; here it counts the lines of orders before a date, and the truth differs by 0.8 %.) In Q5, Q7 and Q8
a customer or a supplier may leave, in Q21 an order or a supplier: entities of two kinds. Errors are medians of |answer - truth|;
`Laplace` is ln 2 * DS / epsilon, that of Laplace noise if the largest total of an entity were known; `paper` are R2T's own
errors and seconds there. `aim` is met where the default errs by twice `Laplace` at most (Q18: 13,000), and where two kinds take
less than 5 seconds. Seconds are CPU time of all threads, of the plain query and of the first answer.

A second table compares the ways on generated data: with groups, with few entities, with heavy tails, and on the demo data.
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from bench_clock import table, timed

from dpsql.audit.prepared import Batched, PreparedStatement, Remembering
from dpsql.backends.duckdb import DuckReader, lock_down, open_database
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import price
from dpsql.engine.answering import answer
from dpsql.engine.opening import fitted
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.solvers.usual import USUAL
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.several import balanced_levels, race, sets

SOURCES = {  # the columns that are asked about, and keys that the database guarantees
    "customer": "c_custkey::INTEGER AS c_custkey, c_nationkey::INTEGER AS c_nationkey",
    "orders": "o_orderkey::INTEGER AS o_orderkey, o_custkey::INTEGER AS o_custkey, o_orderdate",
    "supplier": "s_suppkey::INTEGER AS s_suppkey, s_nationkey::INTEGER AS s_nationkey",
    "partsupp": "ps_partkey::INTEGER AS ps_partkey, ps_suppkey::INTEGER AS ps_suppkey, ps_availqty, ps_supplycost",
    "lineitem": "l_orderkey::INTEGER AS l_orderkey, l_partkey::INTEGER AS l_partkey, l_suppkey::INTEGER AS l_suppkey, l_quantity, "
                "l_extendedprice, l_discount",
    "nation": "n_nationkey::INTEGER AS n_nationkey, n_regionkey::INTEGER AS n_regionkey",
    "region": "r_regionkey::INTEGER AS r_regionkey",
}
KEYS = {"customer": "c_custkey", "orders": "o_orderkey", "supplier": "s_suppkey", "nation": "n_nationkey", "region": "r_regionkey",
        "partsupp": "ps_partkey, ps_suppkey"}
POLICY = """
version = 1
[entities.customer]
table = "customer"
key = "c_custkey"
[entities.supplier]
table = "supplier"
key = "s_suppkey"
[entities.order]
table = "orders"
key = "o_orderkey"
[entities.party]
any_of = ["customer", "supplier"]
[entities.dealing]
any_of = ["order", "supplier"]
[tables.customer]
key = "c_custkey"
[tables.customer.columns]
c_custkey = {}
c_nationkey = {}
[tables.orders]
key = "o_orderkey"
foreign_keys = [{ columns = "o_custkey", references = "customer(c_custkey)" }]
[tables.orders.columns]
o_orderkey = {}
o_custkey = {}
o_orderdate = {}
[tables.supplier]
key = "s_suppkey"
[tables.supplier.columns]
s_suppkey = {}
s_nationkey = {}
[tables.partsupp]
key = ["ps_partkey", "ps_suppkey"]
foreign_keys = [{ columns = "ps_suppkey", references = "supplier(s_suppkey)" }]
[tables.partsupp.columns]
ps_partkey = {}
ps_suppkey = {}
ps_availqty = { bounds = [1, 9999] }
ps_supplycost = { bounds = [1, 1000] }
[tables.lineitem]
foreign_keys = [{ columns = "l_orderkey", references = "orders(o_orderkey)" }, { columns = "l_suppkey", references = "supplier(s_suppkey)" }]
[tables.lineitem.columns]
l_orderkey = {}
l_partkey = {}
l_suppkey = {}
l_quantity = { bounds = [1, 50], decimals = 0 }
l_extendedprice = { bounds = [900, 105000] }
l_discount = { bounds = [0, 0.1] }
[tables.nation]
public = true
key = "n_nationkey"
[tables.nation.columns]
n_nationkey = {}
n_regionkey = {}
[tables.region]
public = true
key = "r_regionkey"
[tables.region.columns]
r_regionkey = {}
""" + "".join(f"""
[budgets.{name}]
entity = "{name}"
epsilon = 1000
""" for name in ("customer", "supplier", "order", "party", "dealing"))


class Query(Frozen):
    """A query; who is protected, and the columns that name them; what R2T's authors report: error, seconds."""

    name: str
    entity: str
    owners: tuple[str, ...]
    value: str
    source: str
    paper: tuple[float, float]
    unit: int = 1

    @property
    def sql(self) -> str:
        return f"SELECT {self.value} FROM {self.source}"

    @property
    def largest(self) -> str:
        """The largest total of one entity."""
        totals = " UNION ALL ".join(f"SELECT {self.value} AS v FROM {self.source} GROUP BY {owner}" for owner in self.owners)
        return f"SELECT MAX(v) FROM ({totals})"


CO, LO, LS = "c_custkey = o_custkey", "l_orderkey = o_orderkey", "l_suppkey = s_suppkey"
NATIONS = "JOIN nation n1 ON c_nationkey = n1.n_nationkey JOIN nation n2 ON s_nationkey = n2.n_nationkey"
ALL = f"customer JOIN orders ON {CO} JOIN lineitem ON {LO} JOIN supplier ON {LS}"
DEALERS = ("o_custkey", "l_suppkey")
QUERIES = (
    Query(name="Q3", entity="customer", owners=("c_custkey",), value="COUNT(*)", paper=(7339, 3.0),
          source=f"customer JOIN orders ON {CO} JOIN lineitem ON {LO} WHERE o_orderdate < DATE '1995-03-15'"),
    Query(name="Q10", entity="customer", owners=("c_custkey",), value="COUNT(*)", paper=(2615, 1.7),
          source=f"orders JOIN customer ON {CO} JOIN nation ON c_nationkey = n_nationkey"),
    Query(name="Q11", entity="supplier", owners=("s_suppkey",), value="SUM(ps_supplycost * ps_availqty / 1000000)",
          paper=(36438, 0.8), source="nation JOIN supplier ON s_nationkey = n_nationkey JOIN partsupp ON ps_suppkey = s_suppkey"),
    Query(name="Q12", entity="order", owners=("o_orderkey",), value="COUNT(*)", paper=(1373, 7.6),
          source=f"orders JOIN lineitem ON {LO}"),
    Query(name="Q18", entity="customer", owners=("c_custkey",), value="SUM(l_quantity)", paper=(201958, 6.3),
          source=f"customer JOIN orders ON {CO} JOIN lineitem ON {LO}"),
    Query(name="Q20", entity="supplier", owners=("s_suppkey",), value="COUNT(*)", paper=(34726, 5.0),
          source="supplier JOIN nation ON s_nationkey = n_nationkey JOIN partsupp ON s_suppkey = ps_suppkey JOIN lineitem "
                 "ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey"),
    Query(name="Q5", entity="party", owners=DEALERS, value="COUNT(*)", paper=(3902, 2.7),
          source=f"{ALL} JOIN nation ON c_nationkey = n_nationkey AND s_nationkey = n_nationkey "
                 "JOIN region ON r_regionkey = n_regionkey"),
    Query(name="Q7", entity="party", owners=DEALERS, value="SUM(l_extendedprice * (1 - l_discount) / 1000)", paper=(1.32e6, 91.5),
          source=f"{ALL} {NATIONS}"),
    Query(name="Q8", entity="party", owners=DEALERS, value="COUNT(*)", paper=(35087, 24.8),
          source=f"{ALL} {NATIONS} JOIN region ON n1.n_regionkey = r_regionkey "
                 "WHERE o_orderdate >= DATE '1995-01-01' AND o_orderdate <= DATE '1996-12-31'"),
    Query(name="Q21", entity="dealing", owners=("o_orderkey", "l_suppkey"), value="COUNT(*)", paper=(39262, 82.9),
          source=f"nation JOIN supplier ON s_nationkey = n_nationkey JOIN lineitem ON {LS} JOIN orders ON {LO}"),
)
WAYS = {  # options of a statement; the first is what the engine chooses by itself
    "default": "", "rows": "bound = 'rows'", "bands": "bound = 'bands'{groups}", "balance": "bound = 'balance'",
    "r2t": "bound = 'r2t'"}


def made(folder: Path, into: Path) -> Path:
    """The database of the Parquet files; made where it lacks."""
    path = into / "tpch.duckdb"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        with duckdb.connect(str(unfinished)) as connection:
            for name, columns in SOURCES.items():
                connection.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM '{folder / name}.parquet'")
                if name in KEYS:
                    connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({KEYS[name]})")
        unfinished.rename(path)
    return path


def session(reader: DuckReader, policy: str, budget: str, epsilon: float, *, remembering: bool) -> Session:
    """A session with a ledger of its own; one that remembers what it read, for many answers."""
    declared = parse_policy(policy)
    ledger = ReportingLedger.create(Path(tempfile.mkdtemp(prefix="dpsql-bench-")) / "bench.ledger")
    kernel = Kernel(Remembering(reader) if remembering else reader, ledger, Batched() if remembering else None, solvers=USUAL)
    return Session(catalog=fitted(declared, budget, reader), budget=declared.budgets[budget], analyst="bench", kernel=kernel,
                   ledger=ledger, scratch=DuckScratch(), price=price(epsilon=epsilon))


known: dict[tuple[Any, ...], Any] = {}
read = sets.read


def remembered(plan: Any, levels: tuple[int, ...], cells: int, context: Any) -> Any:
    """Sums held to levels are worked out once: they depend on nothing but the rows."""
    key = (context.query(plan), levels, cells)
    if key not in known:
        known[key] = read(plan, levels, cells, context)
    return known[key]


def with_options(sql: str, options: str) -> str:
    return sql.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1) if options else sql


def error(sql: str, room: Session, truth: np.ndarray, runs: int) -> float | None:
    """The median error over cells and runs; None where the engine refuses."""
    try:
        statement = PreparedStatement(sql, room)
    except Error:
        return None
    values = np.array([[row[-1] for row in statement.release().rows] for _ in range(runs)], dtype=float)
    return float(np.median(np.abs(values - truth)))


def shown(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}" if number >= 10 else f"{number:,.1f}"


def measured(query: Query, path: Path, runs: int, epsilon: float) -> list[str]:
    with duckdb.connect(str(path), read_only=True) as plain:
        truth = float(plain.execute(query.sql).fetchall()[0][0])
        plainly = timed(lambda: plain.execute(query.sql).fetchall())
        largest = float(plain.execute(query.largest).fetchall()[0][0])
    reader = open_database(path)
    fresh = session(reader, POLICY, query.entity, epsilon, remembering=False)
    first = timed(lambda: answer(query.sql, fresh))
    room = session(reader, POLICY, query.entity, epsilon, remembering=True)
    known.clear()
    errors = [error(with_options(query.sql, way.format(groups="")), room, np.array([truth]), runs) for way in WAYS.values()]
    reader.close()
    laplace = math.log(2) * largest / epsilon
    aim = 13_000 if query.name == "Q18" else 2 * laplace
    assert errors[0] is not None
    met = errors[0] <= aim if len(query.owners) == 1 else first.cpu < 5
    return [query.name, query.entity, shown(truth), shown(laplace), shown(query.paper[0]), *map(shown, errors),
            f"{plainly.cpu:.2f}", f"{first.cpu:.2f}", f"{query.paper[1]:.1f}", "yes" if met else "no"]


# -- generated data, and the demo's


class Data(Frozen):
    """Rows (entity, cell, value), each value within 0 and `most`."""

    name: str
    owners: np.ndarray
    cells: np.ndarray
    values: np.ndarray
    most: float
    count: bool = False

    def policy(self, cells: int) -> str:
        return f"""
version = 1
[entities.owner]
table = "owners"
key = "owner"
[tables.owners]
key = "owner"
[tables.owners.columns]
owner = {{}}
[tables.data]
foreign_keys = [{{ columns = "owner", references = "owners(owner)" }}]
[tables.data.columns]
owner = {{}}
cell = {{ range = [0, {cells - 1}], nullable = false }}
v = {{ bounds = [0, {self.most}], decimals = 0 }}
[budgets.main]
entity = "owner"
epsilon = 1000
"""

    def reader(self, cells: int) -> DuckReader:
        connection = duckdb.connect()
        connection.register("given", {"owner": self.owners, "cell": self.cells % cells, "v": self.values})
        connection.execute("CREATE TABLE owners (owner INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO owners SELECT DISTINCT owner FROM given")
        connection.execute("CREATE TABLE data AS SELECT owner::INTEGER AS owner, cell::INTEGER AS cell, v::INTEGER AS v FROM given")
        lock_down(connection)
        return DuckReader(connection, "v")


def generated() -> Iterator[Data]:
    draw = np.random.default_rng(5)

    def rows(name: str, sizes: np.ndarray, most: float = 500, home: bool = False) -> Iterator[Data]:
        owners = np.repeat(np.arange(len(sizes)), sizes)
        cells = draw.integers(0, 50, len(sizes))[owners] if home else draw.integers(0, 50, len(owners))
        values = np.minimum(np.round(np.exp(draw.normal(3, 1.2, len(owners)))), most)
        yield Data(name=f"{name}: count", owners=owners, cells=cells, values=np.ones(len(owners)), most=1, count=True)
        yield Data(name=f"{name}: sum", owners=owners, cells=cells, values=values, most=most)

    yield from rows("20,000 with 1 to 20 rows", draw.integers(1, 21, 20_000))
    yield from rows("500 with 1 to 20 rows", draw.integers(1, 21, 500))
    yield from rows("20,000 Zipf 2", np.minimum(draw.zipf(2.0, 20_000), 5000))
    yield from rows("20,000 Zipf 2, one group each", np.minimum(draw.zipf(2.0, 20_000), 5000), home=True)
    years = duckdb.sql(f"SELECT dense_rank() OVER (ORDER BY person_id) AS owner, year, md_visits, medical_dollars FROM "
                       f"'{files('dpsql') / 'demo' / 'person_years.parquet'}'").fetchnumpy()
    visits, dollars = np.clip(years["md_visits"], 0, 40).round(), np.clip(years["medical_dollars"], 0, 5000).round()
    for name, values, most in (("years", np.ones(len(visits)), 1), ("visits", visits, 40), ("dollars", dollars, 5000)):
        yield Data(name=f"demo: {name}", owners=years["owner"], cells=years["year"] - 1, values=values, most=most, count=most == 1)


def compared(data: Data, cells: int, runs: int, epsilon: float) -> list[str]:
    reader = data.reader(cells)
    room = session(reader, data.policy(cells), "main", epsilon, remembering=True)
    known.clear()
    truth = np.bincount(data.cells % cells, weights=data.values, minlength=cells)
    sql = f"SELECT cell, {'COUNT(*)' if data.count else 'SUM(v)'} FROM data GROUP BY cell ORDER BY cell" if cells > 1 else (
        f"SELECT {'COUNT(*)' if data.count else 'SUM(v)'} FROM data")
    options = [way.format(groups=", max_groups = 4" if cells > 1 else "") for way in WAYS.values()]
    most = int(np.bincount(data.owners, weights=data.values).max())
    if cells > 1:
        options.append(f"bound = 'reservoir', max_groups = 4, clip = {max(1, most // 4)}")
    else:
        options.append(f"bound = 'extension', clip = {most}")
    errors = [error(with_options(sql, option), room, truth, runs) for option in options]
    reader.close()
    return [data.name, str(cells), shown(float(truth.mean())), shown(math.log(2) * most / epsilon), *map(shown, errors)]


def main(arguments: Sequence[str] | None = None) -> None:
    balanced_levels.read = race.read = remembered
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path, nargs="?", help="of the Parquet files; without it, only generated data are tried")
    asked.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()), help="where the database is kept")
    asked.add_argument("--runs", type=int, default=50)
    asked.add_argument("--epsilon", type=float, default=0.8)
    asked.add_argument("--only", default="", help="the beginning of the name of a query or of generated data")
    given = asked.parse_args(arguments)
    queries = [query for query in QUERIES if query.name.startswith(given.only)] if given.folder is not None else []
    if queries:
        path = made(given.folder, given.data)
        heads = ("query", "entity", "truth", "Laplace", "paper", *WAYS, "plain s", "s", "paper s", "aim")
        lines = [measured(query, path, given.runs, given.epsilon) for query in queries]
        print(table(f"TPC-H, median errors at epsilon = {given.epsilon}", heads, lines))
        print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB\n")
    lines = [compared(data, cells, given.runs, given.epsilon) for data in generated() if data.name.startswith(given.only)
             for cells in ((1, 5) if data.name.startswith("demo") else (1, 10, 50))]
    if lines:
        heads = ("rows", "groups", "truth", "Laplace", *WAYS, "given")
        print(table(f"Generated data, median errors at epsilon = {given.epsilon}; `given`: a limit that nobody exceeds", heads, lines))


if __name__ == "__main__":
    main()
