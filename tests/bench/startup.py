"""How long it takes to import dpsql, to get a first answer in a new process, and what a statement takes on top of its query.

    python tests/bench/startup.py

Each process is started several times on a warm disk; the medians are printed, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_clock import Time, milliseconds, side_by_side
from bench_data import POLICY, again, database, opened, plain
from bench_results import Figure, Line, add_arguments, conclude, shown

from dpsql.engine.answering import answer
from dpsql.trusted.kernel.ledger import Ledger

FIRST = """
import dpsql, uuid
con = dpsql.connect({path!r}, policy={policy!r}, budget='person', epsilon=1, delta=1e-6, analyst=uuid.uuid4().hex)
con.execute({sql!r}).fetchall()
"""
PROCESSES = {
    "nothing": "",
    "import pandas": "import pandas",  # which the figures of the others are compared with
    "import dpsql": "import dpsql",
    "first answer: count": "SELECT COUNT(*) FROM people",
    "first answer: average by group": "SELECT sex, AVG(income) FROM people GROUP BY sex",
    "first answer: median": "SELECT MEDIAN(income) FROM people",
    "first answer: undeclared keys": "SELECT note, COUNT(*) FROM visits GROUP BY note",
}
IMPORT_AIM, FIRST_AIM, TOP_AIM = 0.5, 1.5, 0.03  # seconds

STATEMENTS = {
    "count": "SELECT COUNT(*) FROM people",
    "average by group": "SELECT sex, AVG(income) FROM people GROUP BY sex",
    "several aggregates by group": "SELECT year, COUNT(*), SUM(cost), AVG(cost), STDDEV(cost) FROM visits GROUP BY year",
    "join": "SELECT p.sex, COUNT(*) FROM visits v JOIN people p ON v.person_id = p.person_id WHERE p.age > 40 GROUP BY p.sex",
    "median": "SELECT MEDIAN(income) FROM people",
}
AROUND = """
import json, time
wall, cpu = time.perf_counter(), time.process_time()
{body}
import sys
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, len(sys.modules)]))
"""


def started(body: str) -> list[float]:
    """Wall and CPU seconds of a new process that runs the body, and the number of modules it loads."""
    ended = subprocess.run([sys.executable, "-c", AROUND.format(body=body)], capture_output=True, text=True, check=True)
    found: list[float] = json.loads(ended.stdout.strip().splitlines()[-1])  # an engine may draw the progress of a long query first
    return found


def processes(path: Path, runs: int) -> list[Line]:
    """Medians of processes that take turns. The first of several is not counted: it reads files that the system does not keep yet."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        policy = Path(folder) / "policy.toml"
        policy.write_text(POLICY.format(visit_limit="rows_per_entity = 100", claim_limit=""), encoding="utf-8")
        Ledger.create(policy.with_suffix(".ledger")).close()
        bodies = {name: FIRST.format(path=str(path), policy=str(policy), sql=body) if body.startswith("SELECT") else body
                  for name, body in PROCESSES.items()}
        turns = [{name: started(body) for name, body in bodies.items()} for _ in range(runs + (runs > 1))][runs > 1 :]
    taken = {name: [statistics.median(column) for column in zip(*(turn[name] for turn in turns), strict=True)] for name in bodies}
    times = {name: Time(cpu=cpu, wall=wall) for name, (wall, cpu, _) in taken.items()}
    for name, (wall, cpu, modules) in taken.items():
        aim = FIRST_AIM if name.startswith("first") else IMPORT_AIM
        figure = Figure(line=name, ours=times[name], base=times["import pandas"], beside="import pandas")
        lines.append(Line([name, milliseconds(wall), milliseconds(cpu), f"{modules:.0f}", milliseconds(aim), met(wall, aim)],
                          () if name in ("nothing", "import pandas") else (figure,)))
    return lines


def met(seconds: float, aim: float) -> str:
    return "yes" if seconds <= aim else "no"


def overheads(path: Path, runs: int) -> list[Line]:
    session, lines = opened(path, "person", 100), []
    with plain(path) as connection:
        for name, sql in STATEMENTS.items():
            base, ours = side_by_side([lambda run, sql=sql: connection.cursor().execute(sql).fetchall(),
                                       lambda run, sql=sql: answer(sql, again(session, run))], runs)
            over = ours.cpu - base.cpu
            lines.append(Line([name, milliseconds(base.cpu), milliseconds(ours.cpu), milliseconds(over), milliseconds(TOP_AIM),
                               met(over, TOP_AIM), milliseconds(base.wall), milliseconds(ours.wall)],
                              (Figure(line=name, ours=ours, base=base),)))
    session.close()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where data is kept")
    add_arguments(parser)
    given = parser.parse_args()
    path = database(given.rows, given.data)
    conclude(lambda: [
        *shown(f"A new process (median of {given.runs}, milliseconds)", ("what it runs", "wall", "CPU", "modules", "aim", "met"),
               processes(path, given.runs)),
        *shown(f"A statement over a table of {given.rows} rows (median of {given.runs}, CPU milliseconds)",
               ("statement", "plain", "dpsql", "on top", "aim", "met", "plain wall", "dpsql wall"), overheads(path, given.runs)),
    ], "startup", given.rows, given)


if __name__ == "__main__":
    main()
