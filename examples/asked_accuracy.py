"""Say how accurate answers have to be; dpsql finds the least price, and uses again what it has measured."""

import tempfile
from pathlib import Path

import dpsql
from dpsql.demo import folder as project

with tempfile.TemporaryDirectory() as folder:
    project.export(Path(folder) / "study")
    with dpsql.connect(policy=Path(folder) / "study" / "dpsql.toml", budget="study", analyst="ada") as con:
        by_health = "SELECT health, COUNT(*) FROM people GROUP BY health ERROR WITHIN 40 CONFIDENCE 0.95"
        print(str(con.explain(by_health)).splitlines()[0])  # the price, before anything is spent

        cur = con.execute(by_health)
        for (health, count), (_, error) in zip(cur.fetchall(), cur.errors, strict=True):
            print(f"{health:<10} {count:>6}  standard error {error:.1f}")
        print("cost:", cur.cost)

        # The same rows in fewer groups, less accurately: what was measured says it already.
        cur = con.execute("SELECT COUNT(*) FROM people WHERE health IN ('fair', 'poor') ERROR WITHIN 100")
        print("fair or poor:", cur.fetchall()[0][0], "- cost:", cur.cost or "nothing")

        # More than the budget holds: the refusal says which accuracy is left.
        try:
            con.execute("SELECT COUNT(*) FROM people ERROR WITHIN 0.01")
        except dpsql.Error as refusal:
            print(refusal)

        # Many tables and ranges, each with its own accuracy, for one price.
        made = con.workload(["SELECT health, COUNT(*) FROM people GROUP BY health ERROR WITHIN 30",
                             "SELECT COUNT(*) FROM people WHERE income < 5000 ERROR WITHIN 50",
                             "SELECT COUNT(*) FROM people WHERE income < 10000 ERROR WITHIN 50"])
        print("together:", made.cost)
