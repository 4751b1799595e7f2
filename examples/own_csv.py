"""From a CSV file of one's own to private answers: draft a policy, fill it in, start a ledger, ask.

    python examples/own_csv.py
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import dpsql
from dpsql.cli import main as shell

POLICY = """
version = 1

[entities.employee]
table = "staff"
key = "badge"

[tables.staff]
source = "staff.csv"
key = "badge"
[tables.staff.columns]
badge = { type = "BIGINT" }
team = { type = "VARCHAR", values = ["ops", "sales", "tech"] }
salary = { type = "DOUBLE", bounds = [20000, 200000], decimals = 0 }

[budgets.main]
entity = "employee"
epsilon = 2
per_statement = { epsilon = 0.5 }
"""


def main() -> None:
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        teams = ["ops", "sales", "tech"]
        lines = [f"{badge},{draw.choice(teams)},{round(draw.lognormvariate(11, 0.3))}" for badge in range(3000)]
        (folder / "staff.csv").write_text("badge,team,salary\n" + "\n".join(lines) + "\n")

        shell(["init", str(folder / "staff.csv"), "--to", "-"])  # the draft; below it is filled in
        (folder / "dpsql.toml").write_text(POLICY)
        shell(["check", "--policy", str(folder / "dpsql.toml")])
        shell(["budget", "--create", "--policy", str(folder / "dpsql.toml")])

        with dpsql.connect(policy=folder / "dpsql.toml") as con:
            answer = con.execute("SELECT team, COUNT(*), AVG(salary), MEDIAN(salary) FROM staff GROUP BY team")
            print(answer.df(errors=True).T.to_string())


if __name__ == "__main__":
    main()
