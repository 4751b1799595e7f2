"""Make a synthetic table of people, ask it in SQL, and ask in SQL how far it may be trusted.

    python examples/synthetic_rows.py             # with the name of a CSV file, the rows are written there

A private model of five columns is fitted to noisy counts, and rows are drawn from it. It describes what was measured, which it
prints; VALIDATE tells of any other question whether its answer is near the private one, without showing that.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import dpsql
from dpsql.demo import folder as project

COLUMNS = "SELECT health, female, site, income, education_years FROM people"
ASKED = "SELECT health, COUNT(*) AS people, AVG(income) AS income FROM people_syn GROUP BY health"
SUITE = [
    "SELECT health, COUNT(*) FROM people GROUP BY health",
    "SELECT AVG(income) FROM people WHERE female",
    "SELECT MEDIAN(income) FROM people WHERE health = 'poor'",
    "SELECT AVG(education_years) FROM people WHERE income > 15000",
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        policy = project.export(Path(folder) / "study")
        with dpsql.connect(policy=policy, budget="study", analyst="ada") as con:
            table = con.synthesize(COLUMNS, name="people_syn", epsilon=1, delta=1e-7)
            print(f"{table}\n\n{table.df().head()}\n")
            print(f"{con.execute(ASKED).df()}\n")
            made = con.validate(SUITE, synthetic="people_syn", within="5 PERCENT OR 100", epsilon=1)
            for found in made.findings:
                print(f"{found.decision:12}  {found.query}  (within {found.tolerance})")
            if sys.argv[1:]:
                table.write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
