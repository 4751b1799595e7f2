"""What the time of an answer tells: how often the presence of one person is guessed right from it, with and without a pace.

    python tests/bench/timing.py --runs 60
    python tests/bench/timing.py --slow --runs 12 --paces "100 ms" "2 s"
    python tests/bench/timing.py --only join --stored none "50 ms"
    python tests/bench/timing.py --members 100

Two servers serve the same rows, one of them without one person; a client asks both the same statements in turn, which are written so
that they take longer if that person is there. An adversary guesses from the time at which the answer comes, by the best threshold on
every other run, and is scored on the runs between; 50 % is blind. Another one sees no answer at all: from other connections it asks
for stored answers for a while from the question on, the same in all runs, and guesses from how long these take. How many answers left after the first step is told as well;
where steps differ, presence is told, and `dpsql budget` counts it. Nothing limits late answers here, so that each run is as the first.

With `--slow`, statements that take seconds longer. With `--members`, one server, and an analyst who asks about so many people one after
the other, of whom every other one is there, so that their statements take long: how many does the limit on late answers let be told?
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import math
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from bench_clock import milliseconds, table
from bench_server import serving

from dpsql.frozen import Frozen
from dpsql.server.vault import passwords
from dpsql.trusted.kernel.ledger import Ledger

PASSWORD = "correct horse"
POLICY = """\
version = 1
database = "people.duckdb"
pace = "{pace}"
{stored}
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
late = {late}
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
PAIRS = "FROM visits AS a JOIN visits AS b USING (person_id) WHERE a.person_id = {person} AND a.cost <> {n} AND a.cost < "
SLOW = {name: f"SELECT MEDIAN(a.cost) {PAIRS.replace('{person}', '0')}{most}" for name, most in (
    ("a median of a join, half a second", 25), ("a median of a join, two seconds", 100), ("a median of a join, four seconds", 200))}
"""They take about so much longer, on a machine with two cores."""
MEMBER = f"SELECT MEDIAN(a.cost) {PAIRS}50"


class Seen(Frozen):
    """Of one statement: seconds until its answer, and of each stored answer that another connection asked for in the first while."""

    answer: float
    others: tuple[float, ...]

    @property
    def load(self) -> tuple[float, ...]:
        """Several views of the others: their number, the mean, the slowest, the first ones and the last ones."""
        found = self.others or (0.0,)
        half = len(found) // 2 or 1
        return len(found), statistics.fmean(found), max(found), statistics.fmean(found[:half]), statistics.fmean(found[half:] or found)


@dataclasses.dataclass
class Connected:
    """A server, with the connection of one analyst, and those of others, who take turns, as each may ask 1,200 times a minute."""

    ada: Any
    others: tuple[Any, ...]
    asked: int = 0
    left: list[Seen] = dataclasses.field(default_factory=list)

    def ask(self, sql: str, watched: float = 0.0) -> Seen:
        """Ask a statement; others are watched for so many seconds."""
        self.asked += 1
        text, others = sql.replace("{n}", str(-self.asked)), list[float]()
        asked = time.perf_counter()

        def watch() -> None:
            for other in itertools.cycle(self.others):
                if (begun := time.perf_counter()) > asked + watched:
                    return
                other.execute(STORED).fetchall()
                others.append(time.perf_counter() - begun)
                time.sleep(0.01)

        watching = threading.Thread(target=watch)
        watching.start()
        begun = time.perf_counter()
        self.ada.execute(text).fetchall()
        seconds = time.perf_counter() - begun
        watching.join()
        return Seen(answer=seconds, others=tuple(others))


STORED, EVES = "SELECT COUNT(*) FROM people", ("eve1", "eve2", "eve3", "eve4", "eve5")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=360_000)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--paces", nargs="+", default=["none", "100 ms"])
    parser.add_argument("--stored", nargs="+", default=["none"], help="the pace of answers that are stored")
    parser.add_argument("--only", default="")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--watched", type=float, default=0.3, help="for how many seconds others are watched")
    parser.add_argument("--members", type=int, default=0)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if chosen.members:
            print(limited(Path(folder), chosen), flush=True)
            return
        databases = [made(Path(folder) / f"{there}", chosen.rows, (0,) if there else ()) for there in (True, False)]
        for pace, stored in itertools.product(chosen.paces, chosen.stored):
            print(measured(databases, pace, stored, chosen), flush=True)


def made(folder: Path, rows: int, there: Sequence[int]) -> Path:
    """A database of so many people, some of whom have 4,000 visits; the first has a long note, and is there if they are."""
    folder.mkdir()
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS person_id, (hash(i) % 100)::BIGINT AS age, (hash(i + 7) % 50000)::BIGINT AS "
                           "income, CASE WHEN i = 0 THEN repeat('abcdefgh ', 7000) ELSE 'fine' END AS note "
                           f"FROM range({0 if 0 in there else 1}, {rows}) AS t(i)")
        connection.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
        connection.execute("CREATE TABLE visits AS SELECT i AS person_id, 1 + i // 4 AS clinic, (hash(i) % 500)::DOUBLE AS cost "
                           f"FROM range(1, {rows}) AS t(i) UNION ALL SELECT person, 0, i % 500 FROM range(4000) AS t(i), "
                           f"(SELECT unnest({[*there]}::BIGINT[]) AS person)")
    Ledger.create(folder / "dpsql.ledger").close()
    return folder


@contextlib.contextmanager
def served(folder: Path, pace: str, stored: str = "none", late: int = 10**6) -> Iterator[Connected]:
    """A server of a database at these paces, in processes of its own, and connections by psycopg."""
    import psycopg

    policy = folder / "dpsql.toml"
    policy.write_text(POLICY.format(pace=pace, late=late, stored="" if stored == "none" else f'pace_stored = "{stored}"'),
                      encoding="utf-8")
    users, proven = passwords.users_file(policy), passwords.verifier(PASSWORD)
    known = passwords.read_users(users).users if users.exists() else {}
    for name in {"ada", *EVES} - known.keys():
        passwords.add_user(users, passwords.User(name=name, verifier=proven, budget="main"))
    with serving(policy) as listening, contextlib.ExitStack() as open_:
        dsn = f"host=127.0.0.1 port={listening.port} password='{PASSWORD}' dbname=main user="
        ada, *others = (open_.enter_context(psycopg.connect(f"{dsn}{name}", autocommit=True)) for name in ("ada", *EVES))
        for other in others:
            other.execute(STORED).fetchall()
        yield Connected(ada=ada, others=tuple(others), asked=time.time_ns() // 10**6 % 10**9)


def limited(folder: Path, chosen: argparse.Namespace) -> str:
    """How many people an analyst tells from the others by the time of one statement each, by quarters of the statements."""
    members, rows = range(chosen.members), list[list[str]]()
    database = made(folder / "members", chosen.rows, [person for person in members if person % 2])
    for late in (10**6, 20, 0):
        with served(database, chosen.paces[-1], late=late) as server:
            took = [server.ask(MEMBER.replace("{person}", str(person))).answer for person in members]
        right, quarter = members_told(took, seconds_of(chosen.paces[-1]), late), chosen.members // 4
        rows.append([f"{late:,}", *(percent(statistics.fmean(right[i * quarter:(i + 1) * quarter])) for i in range(4)),
                     milliseconds(statistics.median(took[-quarter:]))])
        (database / "dpsql.ledger").unlink()
        (database / "dpsql.ledger.anchor").unlink()
        Ledger.create(database / "dpsql.ledger").close()
    title = f"{chosen.members} people asked about, pace {chosen.paces[-1]}: right guesses in each quarter, and median of the last one"
    return table(title, ["late answers", "first", "second", "third", "last", "milliseconds"], rows)


def members_told(took: Sequence[float], pace: float, late: int) -> list[float]:
    """For each person whether the guess is right, 1/2 where nothing is known. Late answers are of people who are there; others are
    not, unless all have to wait for so long by now."""
    right, steps = list[float](), list[int]()
    for person, seconds in enumerate(took):
        first, step = min(max(0, len(steps) - late), max(steps, default=0)), max(0, math.floor(math.log2(seconds / pace)))
        if step > first:
            steps.append(step)
            right.append(float(person % 2))
        else:
            right.append(0.5 if 0 < first == max(steps) else 1.0 - person % 2)
    return right


def measured(databases: Sequence[Path], pace: str, stored: str, chosen: argparse.Namespace) -> str:
    rows, draw = [], random.Random(3)
    with contextlib.ExitStack() as open_:
        servers = [open_.enter_context(served(folder, pace, stored)) for folder in databases]
        for name, sql in (SLOW if chosen.slow else STATEMENTS).items():
            if chosen.only not in name:
                continue
            for server in servers:
                server.left = []
                server.ask(sql, chosen.watched)
            for _ in range(chosen.runs):
                for server in draw.sample(servers, 2):  # in turn, so that the weather is that of both
                    server.left.append(server.ask(sql, chosen.watched))
            here, away = ([seen.answer for seen in server.left] for server in servers)
            load = max_by_training([[seen.load for seen in server.left] for server in servers])
            rows.append([name, milliseconds(statistics.median(here)), milliseconds(statistics.median(away)),
                         *(f"{100 * same:.0f} %" for same in shares(here, away, pace)), percent(guessed(here, away)), percent(load)])
    title = f"{chosen.rows:,} people, pace {pace}, of stored answers {stored}, {chosen.runs} runs: median milliseconds, and right guesses"
    return table(title, ["statement", "there", "not there", "late", "not there, late", "by its time", "by others' times"], rows)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def shares(here: Sequence[float], away: Sequence[float], pace: str) -> tuple[float, float]:
    """The parts of the answers after the first step."""
    seconds = seconds_of(pace)
    first, second = (sum(time > 1.5 * seconds for time in times) / len(times) for times in (here, away))
    return first, second


def seconds_of(pace: str) -> float:
    return float(pace.split()[0]) / (1000 if pace.endswith("ms") else 1) if pace != "none" else math.inf


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
