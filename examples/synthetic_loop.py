"""Make a synthetic table, ask it, decide in private which of its answers are near the truth, and read two reports.

    python examples/synthetic_loop.py             # with the name of a new folder, rows and reports are written there

A private model of five columns is fitted to noisy counts, and rows are drawn from it. The first report says what was measured
and how near the rows are to it. Twenty questions are then asked of the rows, and VALIDATE decides for each whether the private
answer is within a tolerance, without showing it: the second report.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import dpsql
from dpsql.demo import folder as project
from dpsql.validation.report import page

COLUMNS = "SELECT health, female, site, income, education_years FROM people"
ASKED = "SELECT health, COUNT(*) AS people, AVG(income) AS income FROM people_syn GROUP BY health"
SUITE = [
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE female",
    "SELECT COUNT(*) FROM people WHERE income < 5000",
    "SELECT COUNT(*) FROM people WHERE income >= 15000",
    "SELECT COUNT(*) FROM people WHERE education_years >= 12",
    "SELECT COUNT(*) FROM people WHERE female AND health = 'good'",
    "SELECT COUNT(*) FROM people WHERE health IN ('fair', 'poor') AND income < 5000",
    "SELECT COUNT(*) FROM people WHERE education_years >= 16 AND income >= 15000",
    "SELECT health, COUNT(*) FROM people GROUP BY health",
    "SELECT site, COUNT(*) FROM people GROUP BY site",
    "SELECT female, COUNT(*) FROM people GROUP BY female",
    "SELECT site, COUNT(*) FROM people WHERE female GROUP BY site",
    "SELECT AVG(income) FROM people",
    "SELECT AVG(income) FROM people WHERE female",
    "SELECT AVG(income) FROM people WHERE health = 'poor'",
    "(SELECT AVG(education_years) FROM people WHERE education_years IS NOT NULL) WITHIN 3 PERCENT",
    "(SELECT AVG(education_years) FROM people WHERE income > 15000) WITHIN 3 PERCENT",
    "SELECT MEDIAN(income) FROM people",
    "SELECT MEDIAN(income) FROM people WHERE NOT female",
    "(SELECT SUM(income) FROM people) WITHIN 10 PERCENT",
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        policy = project.export(Path(folder) / "study")
        with dpsql.connect(policy=policy, budget="study", analyst="ada") as con:
            table = con.synthesize(COLUMNS, name="people_syn", epsilon=1, delta=1e-7)
            print(f"{table}\n\n{table.df().head()}\n")
            print(f"{con.execute(ASKED).df()}\n")

            made = con.validate(SUITE, synthetic="people_syn", within="5 PERCENT OR 60", epsilon=2)
            for found in made.findings:
                print(f"{found.decision:12}  {found.query}  (within {found.tolerance})")
            print("\n" + "\n".join(made.summary))
            print(f"of the yes, and of the no, an expected {made.alpha:.0%} at most are in error")

            if sys.argv[1:]:
                target = Path(sys.argv[1])
                target.mkdir()
                table.write(target / "people_syn.csv")
                table.report(target / "people_syn.html")
                (target / "validation.html").write_text(page(made), encoding="utf-8")


if __name__ == "__main__":
    main()
