"""A social graph in plain SQL, private by its members: friends, triangles and paths, each member's part held to a level.

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

[tables.friendships]              # a row belongs to two members; with `friendships` as the entity, edges would be protected
key = ["a", "b"]
foreign_keys = [{ columns = "a", references = "members(member)" }, { columns = "b", references = "members(member)" }]
[tables.friendships.columns]
a = {}
b = {}

[budgets.main]
entity = "member"
epsilon = 20
per_statement = { epsilon = 2 }
"""
QUESTIONS = {
    "friendships": "SELECT COUNT(*) FROM friendships",
    "paths of two": "SELECT COUNT(*) FROM friendships x JOIN friendships y ON x.b = y.a",
    "triangles": "SELECT COUNT(*) FROM friendships x JOIN friendships y ON x.b = y.a "
                 "JOIN friendships z ON x.a = z.a AND y.b = z.b",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_graph(folder / "graph.duckdb", members=2000)
        (folder / "dpsql.toml").write_text(POLICY)
        shell(["budget", "--create", "--policy", str(folder / "dpsql.toml")])
        with dpsql.connect(policy=folder / "dpsql.toml") as con:
            for what, sql in QUESTIONS.items():
                cur = con.execute(sql)
                print(f"{what}: {cur.fetchone()[0]}, standard error {cur.errors[0][0]:.0f}")


def make_graph(path: Path, members: int) -> None:
    """Friends of friends become friends: a graph with some triangles, and no member with very many friends."""
    draw = random.Random(3)
    pairs = {tuple(sorted(draw.sample(range(members), 2))) for _ in range(3 * members)}
    near = [(i, i + d) for i in range(members - 3) for d in (1, 2, 3)]
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE members (member INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO members SELECT range FROM range(?)", [members])
        connection.execute("CREATE TABLE friendships (a INTEGER, b INTEGER, PRIMARY KEY (a, b))")
        connection.executemany("INSERT INTO friendships VALUES (?, ?)", sorted(pairs | set(near)))


if __name__ == "__main__":
    main()
