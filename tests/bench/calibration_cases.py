"""The databases and statements of `calibration.py`: what is asked, of what, and what kind of question it is.

Policies are true of the data here: values lie within the declared bounds, and nobody has more rows than declared where limits are
said to hold, as both are the owner's word, which an interval relies on. What is not declared is learned, searched for or cut off,
and that answers must know of. In `purchases` and `flights`, limits cut much off, and are not said to hold.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb

from dpsql.demo.folder import HERE as DEMO
from dpsql.frozen import Frozen

PRICES = ("epsilon = 1", "rho = 0.08", "epsilon = 0.6, delta = 1e-6", "epsilon = 3")


class Database(Frozen):
    """A policy, the budget that is asked under, and what fills the tables; `needs` is a file without which it is left out."""

    name: str
    policy: str
    budget: str
    fill: Callable[[duckdb.DuckDBPyConnection, Path], None]
    needs: str = ""


class Case(Frozen):
    """A statement of a kind, or several that are answered together or one after the other.

    true  the plain query, where it is not the statement without its options and accuracy
    way   how it is asked: 'alone', 'workload' (all statements for one price), 'kept' (the last after the others, whose
          measurements are kept), 'validated' (the slack, against the one without noise)
    """

    kind: str
    database: str
    texts: tuple[str, ...]
    options: str = ""
    true: str | None = None
    way: str = "alone"

    @property
    def name(self) -> str:
        return f"[{self.options}] {self.texts[-1]}" if self.options else self.texts[-1]


# -- databases


def demo(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    for name in ("plans", "people", "person_years"):
        connection.execute(f"CREATE TABLE {name} AS FROM '{DEMO / name}.parquet'")
    held(connection, demo_policy())
    connection.execute("UPDATE people SET chronic_disease_index = least(chronic_disease_index, 60)")


def demo_policy(*, limits: bool = True) -> str:
    """That of the demo without its growing table, with a budget of any size, over a database; with or without a limit of years."""
    lines = (DEMO / "dpsql.toml").read_text(encoding="utf-8").split("[tables.yearly_claims]")[0].splitlines()
    kept = [line for line in lines if not line.startswith("source =") and (
        limits or not line.startswith(("rows_per_entity", "limits_hold")))]
    return "\n".join(kept) + budget("person", "person")


def budget(name: str, entity: str) -> str:
    return f'\n[budgets.{name}]\nentity = "{entity}"\nepsilon = 1000\ndelta = 0.01\n'


def held(connection: duckdb.DuckDBPyConnection, policy: str) -> None:
    """Values put into the bounds that the policy declares, with as many decimals."""
    for table, entry in tomllib.loads(policy)["tables"].items():
        for column, facts in entry.get("columns", {}).items():
            ends = facts.get("bounds", facts.get("range"))
            if isinstance(ends, list) and all(isinstance(end, int | float) for end in ends):
                held = f'greatest({ends[0]}, least({ends[1]}, "{column}"))'
                rounded = f"round({held}, {facts['decimals']})" if "decimals" in facts else held
                connection.execute(f'UPDATE {table} SET "{column}" = {rounded}')


SHOP = """
version = 1
[entities.customer]
table = "customers"
key = "customer"
[tables.customers]
key = "customer"
[tables.customers.columns]
customer = {}
age = { range = [18, 90], bins = 12 }
city = { values = ["a", "b", "c", "d", "e", "f"], nullable = false }
joined = { range = [2020-01-01, 2022-12-31], nullable = false }
score = { bounds = "search" }
[tables.orders]
key = "number"
foreign_keys = [{ columns = "customer", references = "customers(customer)" }]
[tables.orders.columns]
number = {}
customer = {}
product = {}
note = {}
day = { range = [2023-01-01, 2023-12-31], nullable = false }
items = { range = [0, 20], nullable = false }
amount = { bounds = [0, 100000], decimals = 2, nullable = false }
profit = { bounds = [-500, 500], decimals = 2, nullable = false }
[tables.products]
public = true
key = "product"
[tables.products.columns]
product = {}
kind = { values = ["x", "y", "z"], nullable = false }
weight = {}
[tables.synthetic_customers]
public = true
[tables.synthetic_customers.columns]
customer = {}
age = {}
city = {}
""" + budget("customer", "customer")


def shop(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """1500 customers; how many orders they have and what those cost has heavy tails."""
    connection.execute("""
        SELECT setseed(0.3);
        CREATE TABLE products AS SELECT i AS product, ['x', 'y', 'z'][1 + i % 3] AS kind, 1 + i % 9 AS weight FROM range(40) t(i);
        CREATE TABLE customers (customer INTEGER PRIMARY KEY, age INTEGER, city VARCHAR NOT NULL, joined DATE NOT NULL, score DOUBLE);
        INSERT INTO customers SELECT i, CASE WHEN random() < 0.95 THEN CAST(18 + 72 * random() * random() AS INTEGER) END,
            ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'd', 'e'][1 + i % 11], DATE '2020-01-01' + CAST(1000 * random() AS INTEGER),
            exp(3 + random() + random() + random()) FROM range(1500) t(i);
        CREATE TABLE synthetic_customers AS SELECT customer, age, city FROM customers;
        CREATE TABLE counts AS SELECT customer, least(400, CAST(floor(0.8 / (1 - random()) ** 0.8) AS INTEGER)) AS n FROM customers;
        CREATE TABLE orders (number INTEGER PRIMARY KEY, customer INTEGER NOT NULL, product INTEGER, note VARCHAR, day DATE NOT NULL,
            items INTEGER NOT NULL, amount DOUBLE NOT NULL, profit DOUBLE NOT NULL);
        INSERT INTO orders SELECT row_number() OVER (), customer, CAST(floor(40 * random()) AS INTEGER),
            'note ' || CAST(floor(300 * random() ** 4) AS INTEGER), DATE '2023-01-01' + CAST(364 * random() AS INTEGER),
            CAST(floor(20 * random() * random()) AS INTEGER), round(least(100000, 12 / (1 - random()) ** 0.7), 2),
            round(60 * (random() + random() - 0.9), 2) FROM counts, range(400) t(i) WHERE i < n;
        DROP TABLE counts""")


RIDES = """
version = 1
[entities.member]
table = "members"
key = "member"
[tables.members]
key = "member"
[tables.members.columns]
member = {}
[tables.trips]
foreign_keys = [{ columns = "rider", references = "members(member)" }, { columns = "driver", references = "members(member)" }]
LIMIT
[tables.trips.columns]
rider = {}
driver = {}
zone = {}
vehicle = { values = ["bike", "car", "van"], nullable = false }
payment = { values = ["card", "cash"], nullable = false }
hour = { range = [0, 23], nullable = false }
fare = { bounds = [0, 100], decimals = 2, nullable = false }
balance = { bounds = [-50, 50], decimals = 2, nullable = false }
[tables.zones]
public = true
key = "zone"
[tables.zones.columns]
zone = {}
borough = { values = ["n", "s"], nullable = false }
""" + budget("member", "member")


def rides(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """3000 trips of 1500 riders and 250 drivers, some of whom drive much."""
    connection.execute("""
        SELECT setseed(0.7);
        CREATE TABLE zones AS SELECT i AS zone, CASE WHEN i < 7 THEN 'n' ELSE 's' END AS borough FROM range(20) t(i);
        CREATE TABLE members AS SELECT i AS member FROM range(1750) t(i);
        CREATE TABLE drawn AS SELECT CAST(floor(1500 * random()) AS INTEGER) AS rider,
            CAST(1500 + floor(250 * random() * random()) AS INTEGER) AS driver, CAST(floor(20 * random()) AS INTEGER) AS zone,
            CASE WHEN random() < 0.75 THEN 'car' WHEN random() < 0.7 THEN 'van' ELSE 'bike' END AS vehicle,
            CASE WHEN random() < 0.6 THEN 'card' ELSE 'cash' END AS payment, CAST(floor(24 * random()) AS INTEGER) AS hour,
            round(least(100, 6 / (1 - random()) ** 0.5), 2) AS fare, round(80 * (random() + random() - 1.05) / 2, 2) AS balance
            FROM range(3000);
        CREATE TABLE trips AS FROM drawn;
        DROP TABLE drawn""")


GRAPH = """
version = 1
[entities.member]
table = "members"
key = "member"
[tables.members]
key = "member"
[tables.members.columns]
member = {}
region = { values = [0, 1, 2, 3], nullable = false }
[tables.friendships]
foreign_keys = [{ columns = "a", references = "members(member)" }, { columns = "b", references = "members(member)" }]
LIMIT
[tables.friendships.columns]
a = {}
b = {}
kind = { values = ["work", "school", "other"], nullable = false }
years = { range = [0, 30], nullable = false }
""" + budget("member", "member")


def graph(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """A part of a graph of people who wrote papers together; a made one where the file is absent."""
    source = folder / "graphs" / "ca-GrQc.parquet"
    edges = f"SELECT u, v FROM '{source}'" if source.exists() else (
        "SELECT DISTINCT (i * 7919) % 1200 AS u, 1200 + (i * i) % (1 + i % 1200) AS v FROM range(5000) t(i)")
    connection.execute(f"""
        CREATE TABLE friendships AS SELECT u AS a, v AS b, ['work', 'work', 'work', 'school', 'other'][1 + CAST((u * 31 + v) % 5 AS INTEGER)] AS kind,
            CAST((u + 17 * v) % 31 * ((u + v) % 3) / 2 AS INTEGER) AS years FROM ({edges}) WHERE u <> v AND hash(u, v) % 3 = 0;
        CREATE TABLE members AS SELECT node AS member, CAST(node % 4 AS INTEGER) AS region FROM (
            SELECT a AS node FROM friendships UNION SELECT b FROM friendships)""")


def with_limit(policy: str, rows: int | None) -> str:
    return policy.replace("LIMIT\n", f"rows_per_entity = {rows}\nlimits_hold = true\n" if rows else "")


PURCHASES = """
version = 1
[entities.customer]
table = "buyers"
key = "customer"
[tables.buyers]
key = "customer"
[tables.buyers.columns]
customer = {}
cohort = { range = [1, 3], nullable = false }
[tables.purchases]
foreign_keys = [{ columns = "customer", references = "buyers(customer)" }]
rows_per_entity = 10
[tables.purchases.columns]
customer = {}
day = { range = [1997-01-01, 1998-06-30], nullable = false }
discs = { range = [1, 20], nullable = false }
dollars = { bounds = [0, 250], decimals = 2, nullable = false }
""" + budget("customer", "customer")


def purchases(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """4,000 buyers like those of CDNOW: half buy once, a few very often, and these spend more each time."""
    connection.execute("""
        SELECT setseed(0.11);
        CREATE TABLE buyers (customer INTEGER PRIMARY KEY, cohort INTEGER NOT NULL);
        INSERT INTO buyers SELECT i, 1 + i % 3 FROM range(4000) t(i);
        CREATE TABLE counts AS SELECT customer, cohort, least(200, CAST(ceil(1 / (1 - random()) ** 0.72 - 0.4) AS INTEGER)) AS n FROM buyers;
        CREATE TABLE purchases (customer INTEGER NOT NULL, day DATE NOT NULL, discs INTEGER NOT NULL, dollars DOUBLE NOT NULL);
        INSERT INTO purchases SELECT customer, DATE '1997-01-01' + CAST(540 * random() AS INTEGER),
            1 + CAST(floor(least(19, (1 + sqrt(n) / 2) * random() / (1 - random()) ** 0.4)) AS INTEGER),
            round(least(250, (14 + n) * (0.4 + random() + random())), 2) FROM counts, range(200) t(i) WHERE i < n;
        DROP TABLE counts""")


FLIGHTS = """
version = 1
[entities.plane]
table = "planes"
key = "tail"
[tables.planes]
key = "tail"
[tables.planes.columns]
tail = {}
seats = { range = [2, 450], nullable = false }
[tables.flights]
foreign_keys = [{ columns = "tail", references = "planes(tail)" }]
rows_per_entity = 60
[tables.flights.columns]
tail = {}
month = { range = [1, 12], nullable = false }
origin = { values = ["EWR", "JFK", "LGA"], nullable = false }
delay = { range = [-60, 300] }
distance = { range = [80, 5000], nullable = false }
""" + budget("plane", "plane")


def flights(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """3,000 planes with up to 400 flights each from New York: small planes fly much, near, and late."""
    connection.execute("""
        SELECT setseed(0.23);
        CREATE TABLE planes (tail INTEGER PRIMARY KEY, seats INTEGER NOT NULL);
        INSERT INTO planes SELECT i, 2 + CAST(floor(400 * random() * random()) AS INTEGER) FROM range(3000) t(i);
        CREATE TABLE counts AS SELECT tail, seats, 1 + CAST(floor(400 * random() ** 2.2 * exp(-seats / 150.0)) AS INTEGER) AS n FROM planes;
        CREATE TABLE flights (tail INTEGER NOT NULL, month INTEGER NOT NULL, origin VARCHAR NOT NULL, delay INTEGER, distance INTEGER NOT NULL);
        INSERT INTO flights SELECT tail, 1 + CAST(floor(12 * random()) AS INTEGER),
            CASE WHEN random() < n / 400.0 THEN 'EWR' WHEN random() < 0.6 THEN 'JFK' ELSE 'LGA' END,
            CASE WHEN random() < 0.97 THEN CAST(greatest(-60, least(300, -10 + n / 12.0 + 12 / (1 - random()) ** 0.6 - 10)) AS INTEGER) END,
            CAST(80 + least(4900, seats * 9 + 900 * random()) AS INTEGER) FROM counts, range(400) t(i) WHERE i < n;
        DROP TABLE counts""")


ADULT = """
version = 1
[entities.person]
table = "adult"
key = "person"
[tables.adult]
key = "person"
[tables.adult.columns]
person = {}
age = { range = [17, 90], nullable = false, bins = 10 }
sex = { values = ["Female", "Male"], nullable = false }
race = { values = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"], nullable = false }
income = { values = ["<=50K", ">50K"], nullable = false }
native_country = {}
education_num = { range = [1, 16], nullable = false }
hours_per_week = { range = [1, 99], nullable = false }
capital_gain = { bounds = [0, 99999], nullable = false }
fnlwgt = { bounds = "search", nullable = false }
""" + budget("person", "person")


def adult(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    connection.execute(f"""CREATE TABLE adult AS SELECT row_number() OVER () AS person, * FROM (
        SELECT * FROM '{folder / "adult.parquet"}' LIMIT 8000)""")


ACS = """
version = 1
[entities.person]
table = "acs"
key = "person"
[tables.acs]
key = "person"
[tables.acs.columns]
person = {}
sex = { values = ["1", "2"], nullable = false }
race = { range = [1, 9], nullable = false }
puma = {}
age = { range = [0, 99], nullable = false }
pay = { bounds = [0, 500000], decimals = 0 }
poverty = { range = [0, 501] }
""" + budget("person", "person")


def acs(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    connection.execute(f"""CREATE TABLE acs AS SELECT row_number() OVER () AS person, SEX AS sex, CAST(RAC1P AS INTEGER) AS race,
        PUMA AS puma, coalesce(TRY_CAST(AGEP AS INTEGER), 0) AS age, greatest(0, least(500000, TRY_CAST(PINCP AS DOUBLE))) AS pay,
        TRY_CAST(POVPIP AS INTEGER) AS poverty FROM '{folder / "acs_ma2019.parquet"}'""")


DATABASES = (
    Database(name="demo", policy=demo_policy(), budget="person", fill=demo),
    Database(name="demo, no limit", policy=demo_policy(limits=False), budget="person", fill=demo),
    Database(name="shop", policy=SHOP, budget="customer", fill=shop),
    Database(name="rides", policy=with_limit(RIDES, None), budget="member", fill=rides),
    Database(name="rides, limit", policy=with_limit(RIDES, 64), budget="member", fill=rides),
    Database(name="graph", policy=with_limit(GRAPH, None), budget="member", fill=graph),
    Database(name="graph, limit", policy=with_limit(GRAPH, 64), budget="member", fill=graph),
    Database(name="purchases", policy=PURCHASES, budget="customer", fill=purchases),
    Database(name="flights", policy=FLIGHTS, budget="plane", fill=flights),
    Database(name="adult", policy=ADULT, budget="person", fill=adult, needs="adult.parquet"),
    Database(name="acs", policy=ACS, budget="person", fill=acs, needs="acs_ma2019.parquet"),
)


# -- statements


def alone(kind: str, database: str, texts: Sequence[str], options: Sequence[str] = PRICES, *, all_options: bool = False) -> Iterator[Case]:
    """Each text at one of the options, which take turns; or at all of them."""
    pairs = itertools.product(texts, options) if all_options else zip(texts, itertools.cycle(options), strict=False)
    for text, chosen in pairs:
        yield Case(kind=kind, database=database, texts=(text,), options=chosen)


def of_one_owner() -> Iterator[Case]:
    people = "FROM people"
    linear = ("COUNT(*)", "SUM(income)", "COUNT(education_years), SUM(education_years)", "SUM(income) - 4000 * COUNT(*)",
              "SUM(CASE WHEN female THEN income ELSE 0 END)", "COUNT(*) FILTER (WHERE health = 'poor')")
    where = ("", " WHERE site IN (1, 3)", " WHERE female AND income > 3000", " WHERE health = 'poor' AND site = 5")
    yield from alone("counts and sums", "demo", [f"SELECT {one} {people}{some}" for one in linear for some in where])
    groups = ("health", "site, female", "bin_floor(income)")
    yield from alone("counts and sums by group", "demo", [f"SELECT {by}, {one} {people} GROUP BY {by}" for one in linear[:3]
                                                          for by in groups[:2]])
    means = ("AVG(income)", "AVG(education_years)", "VAR_SAMP(education_years)", "STDDEV_SAMP(income)", "STDDEV_POP(mental_health_index)")
    yield from alone("means and deviations", "demo", [f"SELECT {one} {people}{some}" for one in means for some in where])
    yield from alone("means and deviations by group", "demo", [f"SELECT {by}, {one} {people} GROUP BY {by}" for one in means
                                                               for by in groups[:2]])
    ranks = ("MEDIAN(income)", "QUANTILE_CONT(mental_health_index, 0.9)", "MIN(income)", "MAX(income)", "MAX(education_years)",
             "QUANTILE_DISC(education_years, 0.25)")
    yield from alone("quantiles", "demo", [f"SELECT {one} {people}{some}" for one in ranks for some in where])
    yield from alone("quantiles by group", "demo", [f"SELECT {by}, {one} {people} GROUP BY {by}" for one in ranks
                                                    for by in ("health", "site")])
    yield from alone("distinct values", "demo", [f"SELECT COUNT(DISTINCT {column}) {people}{some}" for column in
                                                 ("person_id", "site", "plan", "maximum_expenditure_offer") for some in ("", where[2])],
                     ("epsilon = 1", "epsilon = 3", "epsilon = 1, delta = 1e-6"))
    ratios = ("100.0 * COUNT(*) FILTER (WHERE female) / COUNT(*)", "SUM(income) / COUNT(*)", "AVG(income) / AVG(education_years)",
              "SQRT(COUNT(*))", "LN(SUM(income))", "COUNT(*) * AVG(income)", "CASE WHEN COUNT(*) > 10 THEN AVG(income) END",
              "ROUND(AVG(income), -1)", "STDDEV_POP(income) / AVG(income)")
    yield from alone("expressions", "demo", [f"SELECT {one} {people}{some}" for one in ratios for some in ("", where[2])])
    yield from alone("expressions by group", "demo", [f"SELECT health, {one} {people} GROUP BY health" for one in ratios[:6]])
    yield from alone("undeclared groups", "demo", [
        "SELECT maximum_expenditure_offer, COUNT(*) FROM people GROUP BY maximum_expenditure_offer",
        "SELECT participation_incentive, COUNT(*), AVG(income) FROM people GROUP BY participation_incentive"],
        ("epsilon = 1, delta = 1e-6", "rho = 0.1, delta = 1e-6"), all_options=True)
    yield from alone("having", "demo", ["SELECT health, COUNT(*) AS n FROM people GROUP BY health HAVING n > 400"])
    yield from alone("searched bounds", "demo", ["SELECT AVG(chronic_disease_index) FROM people", "SELECT SUM(chronic_disease_index) FROM people",
                                                 "SELECT MEDIAN(chronic_disease_index) FROM people"])
    yield from alone("scalar subqueries", "demo", ["SELECT COUNT(*) - (SELECT COUNT(*) FROM people WHERE female) FROM people",
                                                   "SELECT SUM(income) / (SELECT COUNT(*) FROM people) FROM people"])


def of_several_rows() -> Iterator[Case]:
    years = "FROM person_years"
    some = ("COUNT(*)", "SUM(medical_dollars)", "AVG(medical_dollars)", "AVG(md_visits), COUNT(*)", "STDDEV_SAMP(md_visits)", "MEDIAN(md_visits)",
            "QUANTILE_CONT(outpatient_dollars, 0.9)", "COUNT(DISTINCT year)", "COUNT(DISTINCT person_id)")
    joined = "FROM person_years y JOIN people p USING (person_id)"
    yield from alone("declared rows", "demo", [f"SELECT {one} {years}{where}" for one in some for where in ("", " WHERE md_visits > 0")])
    yield from alone("declared rows, joined, by group", "demo", [
        f"SELECT coinsurance, {one} {joined} GROUP BY coinsurance" for one in some[:7]])
    yield from alone("declared rows, public table", "demo", [
        f"SELECT q.individual_deductible, {one} {joined} JOIN plans q ON q.plan = p.plan GROUP BY q.individual_deductible" for one in some[:4]])
    yield from alone("learned limits", "demo, no limit", [f"SELECT {one} {years}" for one in some])
    yield from alone("learned limits, joined, by group", "demo, no limit", [
        f"SELECT coinsurance, {one} {joined} GROUP BY coinsurance" for one in some[:6]])
    totals = "FROM (SELECT person_id, SUM(md_visits) AS v FROM person_years GROUP BY person_id) t"
    yield from alone("totals of entities", "demo", [f"SELECT {one} {totals}" for one in ("AVG(v)", "SUM(v)", "MEDIAN(v)", "STDDEV_POP(v)")])
    limits = ("epsilon = 1, max_rows = 2", "epsilon = 1, bound = 'clip'", "epsilon = 1, bound = 'bands'", "epsilon = 1, bound = 'rows'",
              "rho = 0.08, bound = 'r2t'", "epsilon = 1, bound = 'balance'")
    yield from alone("named bounds", "demo, no limit", [f"SELECT {one} {years}" for one in some[:3]], limits, all_options=True)
    yield from alone("named bounds by group", "demo, no limit", [f"SELECT year, {one} {years} GROUP BY year" for one in some[:3]],
                     (*limits[:2], "epsilon = 1, bound = 'bands', max_groups = 5"), all_options=True)
    yield from alone("named bounds by group", "demo, no limit", [f"SELECT year, {one} {years} GROUP BY year" for one in some[:2]],
                     ("epsilon = 1, bound = 'reservoir', clip = 5000, max_groups = 5",), all_options=True)
    yield from alone("rows of a workload", "demo, no limit", [f"SELECT year, {one} {years} GROUP BY year" for one in some[:2]],
                     ("epsilon = 1, max_rows = 2, strategy = 'identity'", "epsilon = 1, max_rows = 5, strategy = 'auto'"), all_options=True)
    yield from alone("named mechanisms", "demo", [f"SELECT {one} {years}" for one in ("COUNT(*)", "SUM(medical_dollars)")],
                     ("epsilon = 1, mechanism = 'laplace'", "rho = 0.08, mechanism = 'gaussian'"), all_options=True)
    yield from alone("named mechanisms", "demo", [f"SELECT {one} FROM people" for one in ("MEDIAN(income)", "QUANTILE_CONT(income, 0.8)")], (
        "epsilon = 1, mechanism = 'exponential'", "epsilon = 1, mechanism = 'permute_and_flip'",
        "epsilon = 1, mechanism = 'rank_counts'", "epsilon = 1, delta = 1e-6, mechanism = 'smooth_sensitivity'"), all_options=True)


def under_limits_that_bite() -> Iterator[Case]:
    some = ("COUNT(*)", "SUM(dollars)", "SUM(discs), COUNT(*)", "AVG(dollars)", "MEDIAN(dollars)", "MAX(discs)", "STDDEV_SAMP(dollars)",
            "COUNT(DISTINCT customer)", "COUNT(DISTINCT discs)", "SUM(dollars) / COUNT(*)", "100.0 * COUNT(*) FILTER (WHERE dollars > 60) / COUNT(*)")
    yield from alone("limits that bite", "purchases", [f"SELECT {one} FROM purchases{where}" for one in some for where in ("", " WHERE discs > 3")])
    yield from alone("limits that bite, by group", "purchases", [
        f"SELECT cohort, {one} FROM purchases JOIN buyers USING (customer) GROUP BY cohort" for one in some[:6]])
    inner = "FROM (SELECT customer, COUNT(*) AS n, SUM(dollars) AS d FROM purchases GROUP BY customer) t"
    yield from alone("limits that bite, inside", "purchases", [f"SELECT {one} {inner}" for one in (
        "COUNT(*)", "SUM(d)", "AVG(n)", "MEDIAN(d)", "COUNT(*) FILTER (WHERE n > 2)")])
    yield from alone("limits that bite, inside", "purchases", [
        "SELECT COUNT(*) FROM buyers WHERE customer IN (SELECT customer FROM purchases WHERE discs > 3)",
        "SELECT COUNT(*) FROM buyers WHERE customer NOT IN (SELECT customer FROM purchases WHERE dollars > 50)",
        "SELECT COUNT(*) FROM buyers LEFT JOIN purchases USING (customer)",
        "SELECT AVG(day - before) FROM (SELECT day, LAG(day) OVER (PARTITION BY customer ORDER BY day) AS before FROM purchases) t"])
    of_flights = ("COUNT(*)", "SUM(distance)", "SUM(delay)", "AVG(delay)", "MEDIAN(delay)", "QUANTILE_CONT(distance, 0.9)", "MIN(delay)",
                  "COUNT(DISTINCT tail)", "STDDEV_POP(delay)", "AVG(distance), COUNT(*)")
    yield from alone("limits that bite", "flights", [f"SELECT {one} FROM flights" for one in of_flights])
    yield from alone("limits that bite, by group", "flights", [f"SELECT {by}, {one} FROM flights GROUP BY {by}" for one in (
        "COUNT(*)", "SUM(distance)", "AVG(delay)", "MEDIAN(delay)", "COUNT(DISTINCT tail)") for by in ("origin", "month")])
    yield from alone("limits that bite, workloads", "flights", [
        "SELECT origin, month, COUNT(*) FROM flights GROUP BY CUBE (origin, month)", "SELECT month, SUM(distance) FROM flights GROUP BY ROLLUP (month)"])


def with_heavy_tails() -> Iterator[Case]:
    orders = "FROM orders"
    some = ("COUNT(*)", "SUM(amount)", "SUM(items)", "SUM(profit)", "AVG(amount)", "AVG(items)", "AVG(profit)", "SUM(items), COUNT(*), AVG(items)")
    yield from alone("heavy tails", "shop", [f"SELECT {one} {orders}{where}" for one in some for where in ("", " WHERE items > 4")])
    yield from alone("heavy tails, by group", "shop", [f"SELECT city, {one} FROM orders JOIN customers USING (customer) GROUP BY city"
                                                       for one in some])
    yield from alone("heavy tails, public table", "shop", [f"SELECT kind, {one} FROM orders JOIN products USING (product) GROUP BY kind"
                                                          for one in (*some[:3], some[4])])
    yield from alone("heavy tails, quantiles", "shop", [f"SELECT {one} {orders}" for one in ("MEDIAN(amount)", "MAX(amount)", "QUANTILE_CONT(amount, 0.9)",
                                                                                           "MIN(amount)", "STDDEV_POP(items)", "COUNT(DISTINCT product)")])
    yield from alone("date keys", "shop", [
        "SELECT DATE_TRUNC('month', joined) AS m, COUNT(*) FROM customers GROUP BY m", "SELECT YEAR(joined) AS y, COUNT(*), AVG(age) FROM customers GROUP BY y",
        "SELECT MONTH(day) AS m, COUNT(*) FROM orders GROUP BY m"])
    yield from alone("undeclared groups", "shop", [
        "SELECT note, COUNT(*) FROM orders GROUP BY note", "SELECT note, SUM(items) FROM orders GROUP BY note",
        "SELECT note, AVG(items) FROM orders GROUP BY note", "SELECT product, COUNT(*) FROM orders GROUP BY product"],
        ("epsilon = 2, delta = 1e-6",))
    yield from alone("undeclared groups", "adult", [
        "SELECT native_country, COUNT(*) FROM adult GROUP BY native_country", "SELECT native_country, AVG(age) FROM adult GROUP BY native_country"],
        ("epsilon = 1, delta = 1e-6",))
    yield from alone("searched bounds", "shop", ["SELECT AVG(score) FROM customers", "SELECT city, SUM(score) FROM customers GROUP BY city"])
    yield from alone("searched bounds", "adult", ["SELECT AVG(fnlwgt) FROM adult", "SELECT SUM(fnlwgt) FROM adult"])


def of_one_row_each() -> Iterator[Case]:
    some = ("COUNT(*)", "SUM(hours_per_week)", "AVG(capital_gain)", "SUM(capital_gain)", "STDDEV_POP(capital_gain)", "AVG(hours_per_week), COUNT(*)",
            "MEDIAN(hours_per_week)", "QUANTILE_CONT(age, 0.75)", "MAX(capital_gain)", "VAR_POP(age)", "COUNT(DISTINCT education_num)")
    yield from alone("Adult", "adult", [f"SELECT {one} FROM adult{where}" for one in some for where in ("", " WHERE age < 30 AND sex = 'Female'")])
    yield from alone("Adult by group", "adult", [f"SELECT {by}, {one} FROM adult GROUP BY {by}" for one in (*some[:8], some[9])
                                                 for by in ("race", "sex, income")])
    pay = ("COUNT(pay)", "SUM(pay)", "AVG(pay)", "STDDEV_SAMP(pay)", "MEDIAN(pay)", "QUANTILE_CONT(poverty, 0.4)", "MAX(pay)", "AVG(pay) / AVG(age)")
    yield from alone("ACS", "acs", [f"SELECT {one} FROM acs" for one in pay])
    yield from alone("ACS by group", "acs", [f"SELECT {by}, {one} FROM acs GROUP BY {by}" for one in pay for by in ("sex", "race")])
    yield from alone("undeclared groups", "acs", ["SELECT puma, COUNT(*), AVG(pay) FROM acs GROUP BY puma"], ("epsilon = 1, delta = 1e-6",))


def together() -> Iterator[Case]:
    yield from alone("rollup and cube", "demo", [
        "SELECT female, site, COUNT(*) FROM people GROUP BY ROLLUP (female, site)", "SELECT health, female, COUNT(*) FROM people GROUP BY CUBE (health, female)",
        "SELECT female, health, SUM(income) FROM people GROUP BY GROUPING SETS ((female), (health), ())",
        "SELECT site, SUM(COUNT(*)) OVER (ORDER BY site) AS total FROM people GROUP BY site"])
    yield from alone("strategies", "demo", ["SELECT site, health, COUNT(*) FROM people GROUP BY site, health"], [
        f"{price}, strategy = '{name}'" for price in PRICES[:2] for name in ("auto", "identity", "workload")], all_options=True)
    yield from alone("accuracies", "demo", ["SELECT health, COUNT(*) FROM people GROUP BY health STANDARD ERROR 10",
                                            "SELECT COUNT(*), SUM(income) ERROR WITHIN 5 PERCENT OF 20000000 FROM people WHERE female STANDARD ERROR 12"][:1], ("",))
    yield from alone("accuracies", "adult", ["SELECT sex, COUNT(*) FROM adult GROUP BY sex ERROR WITHIN 40 CONFIDENCE 0.95"], ("",))
    marginals = ("SELECT sex, COUNT(*) FROM adult GROUP BY sex", "SELECT race, COUNT(*) FROM adult GROUP BY race",
                 "SELECT sex, race, COUNT(*) FROM adult GROUP BY sex, race", "SELECT COUNT(*) FROM adult WHERE age BETWEEN 20 AND 40")
    sums = ("SELECT sex, SUM(hours_per_week) FROM adult GROUP BY sex", "SELECT COUNT(*), SUM(hours_per_week) / COUNT(*) FROM adult")
    for price in ("epsilon=1", "rho=0.08"):
        for texts in (marginals, sums, (*marginals, *sums)):
            yield Case(kind="workloads", database="adult", texts=texts, options=price, way="workload")
    table = "SELECT race, sex, COUNT(*) FROM adult GROUP BY race, sex STANDARD ERROR 10"
    for text in ("SELECT sex, COUNT(*) FROM adult GROUP BY sex STANDARD ERROR 40", "SELECT race, COUNT(*) FROM adult GROUP BY race STANDARD ERROR 6",
                 "SELECT COUNT(*) FROM adult STANDARD ERROR 100", "SELECT COUNT(*) FROM adult WHERE race <> 'White' STANDARD ERROR 8"):
        yield Case(kind="kept measurements", database="adult", texts=(table, text), way="kept")
    for query in ("SELECT COUNT(*) FROM customers WHERE age < 30", "SELECT COUNT(*) FROM customers WHERE city = 'b'",
                  "SELECT SUM(age) FROM customers WHERE city = 'a'", "SELECT MEDIAN(age) FROM customers", "SELECT AVG(age) FROM customers"):
        for options in ("epsilon = 1", "rho = 0.08"):
            yield Case(kind="VALIDATE", database="shop", texts=(f"VALIDATE {query} AGAINST synthetic_customers WITHIN 5 PERCENT OPTIONS ({options})",),
                       true=query, way="validated")


def of_several_owners() -> Iterator[Case]:
    some = ("COUNT(*)", "SUM(fare)", "AVG(fare)", "SUM(balance)", "COUNT(*), AVG(fare)")
    joined = "FROM trips JOIN zones USING (zone)"
    for database in ("rides", "rides, limit"):
        kind = "trips" if database == "rides" else "trips, declared limit"
        yield from alone(kind, database, [f"SELECT {one} FROM trips{where}" for one in some for where in ("", " WHERE vehicle = 'van'")], PRICES[:3])
        yield from alone(f"{kind}, by group", database, [f"SELECT {by}, {one} FROM trips GROUP BY {by}" for one in some for by in ("vehicle", "payment")], PRICES[:3])
        yield from alone(f"{kind}, public table", database, [f"SELECT borough, {one} {joined} GROUP BY borough" for one in some[:3]], PRICES[:3])
        yield from alone(f"{kind}, expressions", database, ["SELECT SUM(fare) / COUNT(*) FROM trips", "SELECT 100.0 * COUNT(*) FILTER (WHERE payment = 'cash') / COUNT(*) FROM trips",
                                                           "SELECT vehicle, SUM(fare) / COUNT(*) FROM trips GROUP BY vehicle"], PRICES[:3])
        yield from alone(f"{kind}, quantiles and values", database, [f"SELECT {one} FROM trips" for one in (
            "MEDIAN(fare)", "QUANTILE_CONT(hour, 0.75)", "MIN(hour)", "MAX(hour)", "COUNT(DISTINCT zone)", "COUNT(DISTINCT vehicle)")] + [
            "SELECT payment, MEDIAN(hour) FROM trips GROUP BY payment", "SELECT vehicle, COUNT(DISTINCT hour) FROM trips GROUP BY vehicle"], PRICES[:3])
    bounds = ("epsilon = 1, bound = 'removals'", "epsilon = 1, bound = 'r2t'", "epsilon = 1, bound = 'extension', clip = 20",
              "epsilon = 1, bound = 'recursive', clip = 20")
    yield from alone("several owners, named bounds", "rides", ["SELECT COUNT(*) FROM trips"], bounds, all_options=True)
    yield from alone("several owners, named bounds", "rides", ["SELECT AVG(fare) FROM trips", "SELECT vehicle, AVG(fare) FROM trips GROUP BY vehicle"],
                     bounds[:2], all_options=True)
    for database in ("graph", "graph, limit"):
        kind = database.replace("graph", "friendships")
        yield from alone(kind, database, ["SELECT COUNT(*) FROM friendships", "SELECT AVG(years) FROM friendships", "SELECT SUM(years) FROM friendships",
                                          "SELECT kind, COUNT(*) FROM friendships GROUP BY kind", "SELECT kind, AVG(years) FROM friendships GROUP BY kind",
                                          "SELECT m.region, COUNT(*) FROM friendships f JOIN members m ON m.member = f.a GROUP BY m.region"], PRICES[:3])
        degrees = "FROM (SELECT a, COUNT(*) AS n FROM (SELECT a, b FROM friendships UNION ALL SELECT b, a FROM friendships) e GROUP BY a) t"
        yield from alone(f"{kind}, degrees", database, [f"SELECT AVG(n) {degrees}", f"SELECT COUNT(*) {degrees} WHERE n >= 3",
                                                       f"SELECT n, COUNT(*) {degrees} WHERE n BETWEEN 1 AND 6 GROUP BY n"], PRICES[:3])
    yield from alone("friendships, paths", "graph", ["SELECT COUNT(*) FROM friendships x JOIN friendships y ON x.b = y.a"],
                     ("epsilon = 1", "epsilon = 1, bound = 'removals'"), all_options=True)
    yield from alone("meetings", "demo", [f"SELECT {one} FROM people a JOIN people b ON a.site = b.site AND a.income = b.income "
                                          "AND a.person_id < b.person_id" for one in ("COUNT(*)", "AVG(a.education_years)")],
                     ("epsilon = 1, delta = 1e-6, bound = 'frequency', max_frequency = 6", "epsilon = 1, delta = 1e-6, bound = 'frequency'",
                      "epsilon = 1, delta = 1e-6, bound = 'residual'", "epsilon = 1, delta = 1e-6, bound = 'elastic'"), all_options=True)


def cases() -> list[Case]:
    return [*of_one_owner(), *of_several_rows(), *under_limits_that_bite(), *with_heavy_tails(), *of_one_row_each(), *together(), *of_several_owners()]
