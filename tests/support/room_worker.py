"""Statements over long columns, planned where memory is short: run by batch/test_room.py in a process of its own, with a limit."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from support import worlds
from support.sessions import session_of

from dpsql.engine.answering import explain
from dpsql.engine.session import Session
from dpsql.engine.together import explain_workload
from dpsql.errors import Error
from dpsql.sql.text.parse import parse

POLICY = worlds.POLICY.replace("age = { range = [0, 100], nullable = false, bins = 10 }", "age = { range = [0, 60000], nullable = false }")
CUBES = "SELECT born, COUNT(*) AS n FROM people GROUP BY CUBE (born)"
PAIR = "SELECT YEAR(born) AS y, age // 10000 AS a, COUNT(*) AS n FROM people GROUP BY CUBE (y, a)"
RANGES = [f"SELECT COUNT(*) AS n FROM people WHERE born >= DATE '{1920 + i}-01-01' AND born < DATE '{1950 + i}-06-01'" for i in range(60)]
BOTH = [f"{query} AND age > {1000 * i}" for i, query in enumerate(RANGES[:40])]
TEXTS: dict[str, list[str]] = {
    "a cube of dates": [CUBES],
    "dates twice": [CUBES.replace("CUBE (born)", "GROUPING SETS ((born), (born), ())")],
    "a cube of dates and truths": ["SELECT born, active, COUNT(*) AS n FROM people GROUP BY CUBE (born, active)"],
    "dates, or ages": ["SELECT born, age, COUNT(*) AS n FROM people GROUP BY GROUPING SETS ((born), (age), ())"],
    "a cube of dates and ages": ["SELECT born, age, COUNT(*) AS n FROM people GROUP BY CUBE (born, age)"],
    "few cells of two long columns": [PAIR],
    "weekdays": ["SELECT DAYOFWEEK(born) AS d, COUNT(*) AS n FROM people GROUP BY CUBE (d)"],
    "weekdays and dates": ["SELECT DAYOFWEEK(born) AS d, born, COUNT(*) AS n FROM people GROUP BY CUBE (d, born)"],
    "five keys of one date": ["SELECT active, YEAR(born) AS y, MONTH(born) AS m, DAY(born) AS d, COUNT(*) AS n FROM people "
                              "GROUP BY CUBE (active, y, m, d)"],
    "a window over ages": ["SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS 6 PRECEDING) AS n FROM people GROUP BY age"],
    "windows both ways": ["SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS n, SUM(COUNT(*)) OVER (ORDER BY age DESC) AS m FROM people GROUP BY age"],
    "a workload of ranges": RANGES,
    "a workload of boxes": BOTH,
    "an accuracy": [f"{CUBES} ERROR WITHIN 500"],
    "a standard error": ["SELECT born, COUNT(*) AS n FROM people GROUP BY born STANDARD ERROR 50"],
    "boxes with an accuracy": [f"{query} ERROR WITHIN 500" for query in BOTH],
    **{f"{name} by name": [CUBES.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = '{name}')", 1)] for name in (
        "p-identity", "union", "workload", "identity", "matrix-mechanism", "dawa", "convex", "square-root", "fitness-for-use-refined")},
    "kronecker by name": [PAIR.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'kronecker')", 1)],
    "privtree by name": [PAIR.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'privtree')", 1)],
    "no number below zero": [PAIR.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (consistency = 'nnls')", 1)],
}


def told(texts: list[str], session: Session) -> list[object]:
    """How it went, and the seconds it took."""
    begun = time.perf_counter()
    try:
        if len(texts) == 1:
            how = "planned: " + str(explain(parse(texts[0]), session))[:2000]  # type: ignore[arg-type]
        else:
            how = "planned: " + str(explain_workload([parse(text) for text in texts], session))[:2000]  # type: ignore[misc]
    except Error as refused:
        how = f"{'refused' if refused.as_dict()['line'] is not None else 'nowhere'}: {refused}"
    except BaseException as fault:
        how = f"failed: {type(fault).__name__} {fault}"
    return [how, time.perf_counter() - begun]


def main(account: str, limit: int, *names: str) -> None:
    world = worlds.world()
    session = session_of(Path(tempfile.mkdtemp()), world, policy=POLICY, at={"epsilon": 1} if account == "epsilon" else {"rho": 0.5})
    told(["SELECT COUNT(*) AS n FROM people"], session)
    before = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (before + limit, before + limit))
    print(json.dumps({name: told(TEXTS[name], session) for name in names or TEXTS}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
