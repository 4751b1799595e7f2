"""A social graph in plain SQL, private by its members: friends, paths, triangles and squares, each member's part held to a level;
and how many members have how many friends.

    python examples/social_graph.py
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import duckdb

import dpsql
from dpsql.cli import main as shell

POLICY = """
version = 1
database = "graph.duckdb"

[entities.member]                 # delete a member, and every friendship that names them goes too
table = "members"
key = "member"

[tables.members]
key = "member"
[tables.members.columns]
member = {}
club = { range = [1, 5], nullable = false }

[tables.friendships]              # a row belongs to two members; with `friendships` as the entity, edges would be protected
key = ["a", "b"]
foreign_keys = [{ columns = "a", references = "members(member)" }, { columns = "b", references = "members(member)" }]
[tables.friendships.columns]
a = {}
b = {}

[budgets.main]
entity = "member"
epsilon = 50
delta = 1e-6
per_statement = { epsilon = 2 }
"""
EDGES = "WITH e AS (SELECT a, b FROM friendships UNION ALL SELECT b, a FROM friendships) "  # each friendship in both directions
QUESTIONS = {
    "friendships": "SELECT COUNT(*) FROM friendships",
    "paths of two": EDGES + "SELECT COUNT(*) FROM e x JOIN e y ON x.b = y.a AND x.a < y.b",
    "triangles": "SELECT COUNT(*) FROM friendships x JOIN friendships y ON x.b = y.a "
                 "JOIN friendships z ON x.a = z.a AND y.b = z.b",
    "squares": EDGES + "SELECT COUNT(*) FROM e p JOIN e q ON p.b = q.a JOIN e r ON q.b = r.a JOIN e s ON r.b = s.a AND s.b = p.a "
                       "WHERE p.a < p.b AND p.a < q.b AND p.a < r.b AND p.b < r.b",
    "friendships inside clubs": "SELECT COUNT(*) FROM friendships JOIN members x ON a = x.member JOIN members y ON b = y.member "
                                "WHERE x.club = y.club",
}
DEGREES = ("SELECT degree, COUNT(*) FROM (SELECT a, COUNT(*) AS degree FROM (SELECT a FROM friendships UNION ALL SELECT b "
           "FROM friendships) AS e GROUP BY a) AS d WHERE degree BETWEEN 6 AND 14 GROUP BY degree")
WAYS = {
    "as the engine chooses": "",
    "by removals": "bound = 'removals'",
    "at a level that is given": "bound = 'extension', clip = 20",
    "race to the top": "bound = 'r2t', clip = 1000",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_graph(folder / "graph.duckdb", members=1000)
        (folder / "dpsql.toml").write_text(POLICY)
        shell(["budget", "--create", "--policy", str(folder / "dpsql.toml")])
        with dpsql.connect(policy=folder / "dpsql.toml") as con:
            for what, sql in QUESTIONS.items():
                cur = con.execute(sql)
                print(f"{what}: {cur.fetchone()[0]}, standard error {cur.errors[0][0] or float('nan'):.0f}")
            degrees = ", ".join(f"{n} have {degree}" for degree, n in con.execute(DEGREES).fetchall())
            print(f"\nmembers by their number of friends: {degrees}")
            print("\nfriendships,")
            for what, options in WAYS.items():
                cur = con.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, {options}) COUNT(*) FROM friendships"
                                  if options else "SELECT COUNT(*) FROM friendships")
                print(f"  {what}: {cur.fetchone()[0]}, standard error {cur.errors[0][0] or float('nan'):.0f}")
            by_club = "SELECT x.club, COUNT(*) FROM friendships JOIN members x ON a = x.member GROUP BY x.club"
            print("\n" + con.explain(by_club).bound)


def make_graph(path: Path, members: int) -> None:
    """Friends of friends become friends: a graph with some triangles, and no member with very many friends."""
    draw = random.Random(3)
    pairs = {tuple(sorted(draw.sample(range(members), 2))) for _ in range(2 * members)}
    near = [(i, i + d) for i in range(members - 3) for d in (1, 2, 3)]
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE members (member INTEGER PRIMARY KEY, club INTEGER)")
        connection.execute("INSERT INTO members SELECT range, 1 + range % 5 FROM range(?)", [members])
        connection.execute("CREATE TABLE friendships (a INTEGER, b INTEGER, PRIMARY KEY (a, b))")
        connection.executemany("INSERT INTO friendships VALUES (?, ?)", sorted(pairs | set(near)))


if __name__ == "__main__":
    main()
