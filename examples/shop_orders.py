"""Orders of a shop: customers are protected, or suppliers, or both at once, as each budget of the policy says.

    python examples/shop_orders.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

import dpsql
from dpsql.cli import main as shell

POLICY = """
version = 1
database = "shop.duckdb"

[entities.customer]
table = "customers"
key = "customer"

[entities.supplier]
table = "suppliers"
key = "supplier"

[entities.party]                  # a customer or a supplier: neither shows
any_of = ["customer", "supplier"]

[tables.customers]
key = "customer"
[tables.customers.columns]
customer = {}
nation = { values_from = "nations.nation", nullable = false }

[tables.suppliers]
key = "supplier"
[tables.suppliers.columns]
supplier = {}
nation = { values_from = "nations.nation", nullable = false }

[tables.orders]                   # how many orders a customer has is not limited: what they add is
key = "number"
foreign_keys = [{ columns = "customer", references = "customers(customer)" }]
[tables.orders.columns]
number = {}
customer = {}
day = {}

[tables.lines]                    # a line hangs on a customer, by its order, and on a supplier
foreign_keys = [
    { columns = "number", references = "orders(number)" },
    { columns = "supplier", references = "suppliers(supplier)" },
]
[tables.lines.columns]
number = {}
supplier = {}
quantity = { bounds = [1, 50] }
price = { bounds = [0, 1000], decimals = 2 }

[tables.nations]
public = true
key = "nation"
[tables.nations.columns]
nation = {}
"""
for entity in ("customer", "supplier", "party"):
    POLICY += f"""
[budgets.{entity}]
entity = "{entity}"
epsilon = 20
delta = 1e-6
per_statement = {{ epsilon = 1, delta = 1e-9 }}
"""
BUYERS = "customers c JOIN orders o ON c.customer = o.customer JOIN lines l ON l.number = o.number"
REVENUE = "SELECT SUM(l.quantity * l.price) AS revenue, COUNT(*) AS lines FROM"
QUESTIONS = {  # under each budget: what is asked of all, and of each nation
    "customer": (f"{REVENUE} {BUYERS}",
                 f"SELECT c.nation, COUNT(*) AS n FROM {BUYERS} GROUP BY c.nation ORDER BY n DESC LIMIT 3"),
    "supplier": (f"{REVENUE} lines l", "SELECT s.nation, COUNT(*) AS n FROM lines l JOIN suppliers s ON s.supplier = l.supplier "
                                       "GROUP BY s.nation ORDER BY n DESC LIMIT 3"),
    "party": (f"{REVENUE} {BUYERS} JOIN suppliers s ON s.supplier = l.supplier WHERE c.nation <> s.nation",
              f"SELECT c.nation, COUNT(*) AS n FROM {BUYERS} JOIN suppliers s ON s.supplier = l.supplier "
              "WHERE c.nation <> s.nation GROUP BY c.nation ORDER BY n DESC LIMIT 3"),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_shop(folder / "shop.duckdb", orders=15_000)
        (folder / "dpsql.toml").write_text(POLICY)
        shell(["budget", "--create", "--policy", str(folder / "dpsql.toml")])
        for entity, (totals, nations) in QUESTIONS.items():
            with dpsql.connect(policy=folder / "dpsql.toml", budget=entity, analyst="ada") as con:
                print(f"\nprivate by {entity}{', between nations' if entity == 'party' else ''}")
                cur = con.execute(totals)
                (revenue, lines), (error, _), ((low, high), _) = cur.fetchone(), cur.errors[0], cur.intervals[0]
                known = "not known" if error is None else f"{error:,.0f}"
                ends = f"{low:,.0f} or more" if high == float("inf") else f"{low:,.0f} to {high:,.0f}"
                print(f"  revenue {revenue or 0:,.0f}, standard error {known}, so {ends}; of about {lines:,} lines")
                for nation, count in con.execute(nations).fetchall():
                    print(f"  {nation}: {count} lines")
                print(f"  {con.explain(totals).bound}")


def make_shop(path: Path, orders: int) -> None:
    """A tenth as many customers as orders, a few of whom order much, and as many suppliers; one to seven lines to an order."""
    with duckdb.connect(str(path)) as con:
        con.execute("SELECT setseed(0.5)")
        con.execute("CREATE TABLE nations (nation VARCHAR PRIMARY KEY)")
        con.execute("INSERT INTO nations VALUES ('Chile'), ('France'), ('India'), ('Kenya'), ('Peru'), ('Vietnam')")
        names = "(SELECT list(nation ORDER BY nation) FROM nations)"
        for table, key, count in (("customers", "customer", orders // 10), ("suppliers", "supplier", orders // 10)):
            con.execute(f"CREATE TABLE {table} ({key} INTEGER PRIMARY KEY, nation VARCHAR)")
            con.execute(f"INSERT INTO {table} SELECT i, {names}[1 + i % 6] FROM range({count}) t(i)")
        con.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, customer INTEGER, day DATE)")
        con.execute(f"INSERT INTO orders SELECT i, CAST(floor({orders // 10} * random() * random()) AS INTEGER), "
                    f"DATE '2024-01-01' + CAST(floor(365 * random()) AS INTEGER) FROM range({orders}) t(i)")
        con.execute("CREATE TABLE lines AS SELECT number, "
                    f"CAST(floor({orders // 10} * random() * random()) AS INTEGER) AS supplier, "
                    "1 + CAST(floor(50 * random()) AS INTEGER) AS quantity, "
                    "CAST(round(10 + 190 * random(), 2) AS DECIMAL(9, 2)) AS price "
                    "FROM (SELECT number, unnest(range(1 + CAST(floor(7 * random()) AS INTEGER))) FROM orders)")


if __name__ == "__main__":
    main()
