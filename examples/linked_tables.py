"""Make two synthetic tables at once, people and their years, that can be joined as the private ones can.

    python examples/linked_tables.py              # with the name of a new folder, both tables are written there

Keys are new and agree, so that every year belongs to a person who is there; how many years each has is private and made up as
well. Rows of one person are alike from one year to the next, as the private ones are: who saw a doctor often will do so again.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import dpsql
from dpsql.demo import folder as project

QUERIES = {"people_syn": "SELECT person_id, health, female FROM people",
           "years_syn": "SELECT person_id, year, admissions, md_visits FROM person_years"}
CHECK = "SELECT AVG(md_visits) FROM person_years"
ASKED = """SELECT p.health, COUNT(*) AS years, AVG(y.md_visits) AS visits
           FROM years_syn AS y JOIN people_syn AS p ON y.person_id = p.person_id GROUP BY p.health"""
ALIKE = """SELECT y.md_visits >= 5 AS often, AVG(CASE WHEN next.md_visits >= 5 THEN 1 ELSE 0 END) AS often_the_year_after
           FROM years_syn AS y JOIN years_syn AS next ON y.person_id = next.person_id AND next.year = y.year + 1
           GROUP BY y.md_visits >= 5"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        policy = project.export(Path(folder) / "study")
        with dpsql.connect(policy=policy, budget="study", analyst="ada") as con:
            made = con.synthesize(QUERIES, epsilon=1, delta=1e-7)
            print(f"{made}\n")
            print(f"{con.execute(ASKED).df()}\n")
            print(f"{con.execute(ALIKE).df()}\n")
            made_sure = con.validate([CHECK], synthetic="years_syn", within="10 PERCENT", epsilon=0.5)
            print(f"within 10 percent of the private answer: {CHECK}: {made_sure.findings[0].decision}")

            if sys.argv[1:]:
                target = Path(sys.argv[1])
                target.mkdir()
                for name in QUERIES:
                    made.table(name).write(target / f"{name}.csv")


if __name__ == "__main__":
    main()
