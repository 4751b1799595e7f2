"""First answers over the demo data: connect, ask, read the errors, explain, run into a refusal.

    python examples/first_answers.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import dpsql
from dpsql.demo import folder as project


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        policy = project.export(Path(folder) / "study")
        with dpsql.connect(policy=policy, budget="study", analyst="ada", epsilon=0.5) as con:
            cur = con.execute("SELECT health, COUNT(*) AS people, AVG(income) AS income FROM people GROUP BY health")
            print(cur.df(errors=True), "\n")

            cur = con.execute("SELECT COUNT(*) AS people FROM people WHERE education_years >= ?", [12])
            (people,), ((low, high),) = cur.fetchone(), cur.intervals[0]
            print(f"{people} people had twelve years of school; the truth is in {low:.0f}..{high:.0f} with 95 % confidence\n")

            print(con.explain("SELECT site, MEDIAN(income) FROM people GROUP BY site"), "\n")

            try:
                con.execute("SELECT a.site, COUNT(*) FROM people a JOIN people b ON a.income = b.income GROUP BY a.site")
            except dpsql.Unsupported as refusal:
                print(refusal, "\n")
                print(refusal.as_dict()["try"], "\n")

            print("left for ada:", con.budget().accounts[-1].left())


if __name__ == "__main__":
    main()
