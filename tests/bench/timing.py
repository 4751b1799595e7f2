"""What the time of an answer tells: how often the presence of one person is guessed right from it, with and without a pace.

    python tests/bench/timing.py --runs 60

Two servers serve the same rows, one of them without one person; a client asks both the same statements in turn, which are written so
that they take longer if that person is there. An adversary guesses from the time at which the answer comes, by the best threshold on
every other run, and is scored on the runs between; 50 % is blind. Another one sees no answer at all: from other connections it asks
for stored answers meanwhile, and guesses from how long these take. How many answers left after the first step is told as well;
where steps differ, presence is told, and `dpsql budget` counts it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
from bench_clock import milliseconds, table

from dpsql.kernel.ledger import Ledger

PASSWORD = "correct horse"
POLICY = """\
version = 1
database = "people.duckdb"
pace = "{pace}"
[entities.person]
table = "people"
key = "person_id"
[tables.people]
key = "person_id"
[tables.people.columns]
person_id = {{}}
age = {{ range = [0, 99] }}
income = {{ bounds = [0, 100000], decimals = 0 }}
note = {{}}
[tables.visits]
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
[tables.visits.columns]
person_id = {{}}
clinic = {{}}
cost = {{ bounds = [0, 500], decimals = 2 }}
[budgets.main]
entity = "person"
epsilon = 1000
delta = 1e-3
incidents = 100
per_statement = {{ epsilon = 0.01, delta = 1e-9 }}
"""


TEXTS = ", ".join(f"LENGTH(regexp_replace(note, '[a-{chr(98 + i % 20)}]+{'x' * (i // 20)}', ''))" for i in range(100))
JOINED = "SELECT COUNT(*) FROM visits AS a JOIN visits AS b USING (person_id) WHERE a.cost <> {n}"
STATEMENTS = {
    "one condition": "SELECT COUNT(*) FROM people WHERE person_id = 0 AND age <> {n}",
    "median": "SELECT MEDIAN(income) FROM people WHERE person_id = 0 AND age <> {n}",
    "long texts": f"SELECT COUNT(*) FROM people WHERE CASE WHEN person_id = 0 THEN GREATEST(0, {TEXTS}) > 5 ELSE age <> {{n}} END",
    "sorted rows": "SELECT COUNT(*) FROM (SELECT cost - LAG(cost) OVER (PARTITION BY person_id ORDER BY cost) AS r FROM visits "
                   "WHERE person_id = 0 AND cost <> {n}) AS t WHERE r > 0",
    "a small join": f"{JOINED} AND a.person_id = 0 AND a.cost < 100 AND b.cost < 100",
    "a large join": f"{JOINED} AND a.person_id = 0",
    "all visits, joined": JOINED,
    "all visits, distinct": "SELECT COUNT(DISTINCT clinic) FROM visits WHERE cost <> {n}",
}
"""They take longer, or may do so, if the person is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of one statement: seconds until its answer, and of each stored answer that another connection got meanwhile."""

    answer: float
    others: tuple[float, ...]

    @property
    def load(self) -> tuple[float, ...]:
        """Several views of the others: their number, the mean, the slowest, the first ones and the last ones."""
        found = self.others or (0.0,)
        half = len(found) // 2 or 1
        return len(found), statistics.fmean(found), max(found), statistics.fmean(found[:half]), statistics.fmean(found[half:] or found)


@dataclass
class Connected:
    """A server, with the connection of one analyst, and those of others, who take turns, as each may ask 1,200 times a minute."""

    ada: Any
    others: tuple[Any, ...]
    asked: int = 0
    left: list[Seen] = field(default_factory=list)

    def ask(self, sql: str) -> Seen:
        self.asked += 1
        text, others, over = sql.replace("{n}", str(-self.asked)), list[float](), threading.Event()

        def watch() -> None:
            for other in itertools.cycle(self.others):
                begun = time.perf_counter()
                other.execute(STORED).fetchall()
                others.append(time.perf_counter() - begun)
                if over.wait(0.01):
                    return

        watching = threading.Thread(target=watch)
        watching.start()
        begun = time.perf_counter()
        self.ada.execute(text).fetchall()
        seconds = time.perf_counter() - begun
        over.set()
        watching.join()
        return Seen(answer=seconds, others=tuple(others))


STORED, EVES = "SELECT COUNT(*) FROM people", ("eve1", "eve2", "eve3", "eve4", "eve5")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=360_000)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--paces", nargs="+", default=["none", "100 ms"])
    parser.add_argument("--only", default="")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        databases = [made(Path(folder) / f"{there}", chosen.rows, there) for there in (True, False)]
        for pace in chosen.paces:
            print(measured(databases, pace, chosen), flush=True)


def made(folder: Path, rows: int, there: bool) -> Path:
    """A database of so many people, one of whom is there or not: with 4,000 visits, and a long note."""
    folder.mkdir()
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS person_id, (hash(i) % 100)::BIGINT AS age, (hash(i + 7) % 50000)::BIGINT AS "
                           "income, CASE WHEN i = 0 THEN repeat('abcdefgh ', 7000) ELSE 'fine' END AS note "
                           f"FROM range({0 if there else 1}, {rows}) AS t(i)")
        connection.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
        connection.execute("CREATE TABLE visits AS SELECT i AS person_id, 1 + i // 4 AS clinic, (hash(i) % 500)::DOUBLE AS cost "
                           f"FROM range(1, {rows}) AS t(i) UNION ALL SELECT 0, 0, i % 500 FROM range({4000 if there else 0}) AS t(i)")
    Ledger.create(folder / "dpsql.ledger").close()
    return folder


@contextlib.contextmanager
def served(folder: Path, pace: str) -> Iterator[Connected]:
    """A server of a database at this pace, in processes of its own, and two connections by psycopg."""
    import psycopg

    policy = folder / "dpsql.toml"
    policy.write_text(POLICY.format(pace=pace), encoding="utf-8")
    told = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for name in ("ada", *EVES):
        subprocess.run([sys.executable, "-m", "dpsql.cli", "user", "add", name, "--policy", policy, "--password-stdin"], input=PASSWORD,
                       text=True, env=told, capture_output=True, check=False)
    with subprocess.Popen([sys.executable, "-m", "dpsql.cli", "serve", "--policy", policy, "--listen", "127.0.0.1:0"], text=True,
                          stderr=subprocess.PIPE, env=told) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.match(r"serving at 127.0.0.1:(\d+);", line)
            assert found is not None, line
            dsn = f"host=127.0.0.1 port={found[1]} password='{PASSWORD}' dbname=main user="
            with contextlib.ExitStack() as open_:
                ada, *others = (open_.enter_context(psycopg.connect(f"{dsn}{name}", autocommit=True)) for name in ("ada", *EVES))
                for other in others:
                    other.execute(STORED).fetchall()
                yield Connected(ada=ada, others=tuple(others), asked=time.time_ns() // 10**6 % 10**9)
        finally:
            process.terminate()


def measured(databases: Sequence[Path], pace: str, chosen: argparse.Namespace) -> str:
    rows, draw = [], random.Random(3)
    with contextlib.ExitStack() as open_:
        servers = [open_.enter_context(served(folder, pace)) for folder in databases]
        for name, sql in STATEMENTS.items():
            if chosen.only not in name:
                continue
            for server in servers:
                server.left = []
                server.ask(sql)
            for _ in range(chosen.runs):
                for server in draw.sample(servers, 2):  # in turn, so that the weather is that of both
                    server.left.append(server.ask(sql))
            here, away = ([seen.answer for seen in server.left] for server in servers)
            load = max_by_training([[seen.load for seen in server.left] for server in servers])
            rows.append([name, milliseconds(statistics.median(here)), milliseconds(statistics.median(away)),
                         *(f"{100 * same:.0f} %" for same in shares(here, away, pace)), percent(guessed(here, away)), percent(load)])
    title = f"{chosen.rows:,} people, pace {pace}, {chosen.runs} runs: median milliseconds, and right guesses"
    return table(title, ["statement", "there", "not there", "late", "not there, late", "by its time", "by others' times"], rows)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def shares(here: Sequence[float], away: Sequence[float], pace: str) -> tuple[float, float]:
    """The parts of the answers after the first step."""
    seconds = float(pace.split()[0]) / (1000 if pace.endswith("ms") else 1) if pace != "none" else math.inf
    first, second = (sum(time > 1.5 * seconds for time in times) / len(times) for times in (here, away))
    return first, second


def guessed(here: Sequence[float], away: Sequence[float]) -> float:
    """The part of right guesses on odd runs, by the best threshold on even ones."""
    low, sign = trained(here[::2], away[::2])
    return scored(here[1::2] or here, away[1::2] or away, low, sign)


def trained(here: Sequence[float], away: Sequence[float]) -> tuple[float, int]:
    ordered = sorted({*here, *away})
    places = [(a + b) / 2 for a, b in zip(ordered, ordered[1:], strict=False)] or ordered
    return max(((place, sign) for place in places for sign in (1, -1)), key=lambda one: scored(here, away, *one))


def scored(here: Sequence[float], away: Sequence[float], place: float, sign: int) -> float:
    right = sum(sign * time > sign * place for time in here) + sum(sign * time <= sign * place for time in away)
    return right / (len(here) + len(away))


def max_by_training(seen: Sequence[Sequence[tuple[float, ...]]]) -> float:
    """The part of right guesses by the one of several views that is best on even runs."""
    views = [([one[at] for one in seen[0]], [one[at] for one in seen[1]]) for at in range(len(seen[0][0]))]
    best = max(views, key=lambda view: scored(view[0][::2], view[1][::2], *trained(view[0][::2], view[1][::2])))
    return guessed(*best)


if __name__ == "__main__":
    main()
