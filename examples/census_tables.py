"""Publish the tables of a small census: a cube, a pyramid with running totals, ranges. Each is measured as one workload.

    python examples/census_tables.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import dpsql
from dpsql.demo import folder as project

CUBE = """
    SELECT health, female, COUNT(*) AS people, AVG(income) AS income, GROUPING(health, female) AS level
    FROM people GROUP BY CUBE (health, female) ORDER BY level, health, female
"""
PYRAMID = """
    SELECT female, bin_floor(income) AS income, COUNT(*) AS people,
           SUM(COUNT(*)) OVER (PARTITION BY female ORDER BY bin_floor(income)) AS so_far,
           100 * COUNT(*) / SUM(COUNT(*)) OVER () AS percent
    FROM people GROUP BY ALL
"""


def ranges() -> list[str]:
    """How many people earn between two sums of money: every pair of them, which is 45 statements."""
    return [f"SELECT COUNT(*) AS people FROM people WHERE income >= {low} AND income < {high}"
            for low in range(0, 20_000, 2_000) for high in range(low + 2_000, 20_000, 2_000)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        policy = project.export(Path(folder) / "study")
        with dpsql.connect(policy=policy, budget="study", analyst="ada", rho=0.01) as con:
            print(con.explain(CUBE), "\n")
            show(con.execute(CUBE), "a cube: every table of health and sex, which agree with each other")
            show(con.execute(PYRAMID), "a pyramid: running totals are measured, not added up from noisy numbers")
            made = con.workload(ranges())
            worst = max(error or 0.0 for answer in made for row in answer.errors for error in row)
            print(f"{len(made)} ranges for {made.cost}: the largest standard error is {worst:.1f} people")
            print(f"  {made.notes[0]}")
            print(f"  one by one, for a {len(made)}th of the price each, it would be {(len(made) / 0.02) ** 0.5:.1f}")


def show(cursor: dpsql.Cursor, title: str) -> None:
    print(f"{title}, for {cursor.cost}")
    print(cursor.df(errors=True).head(12).round(1).to_string(index=False), "\n")


if __name__ == "__main__":
    main()
