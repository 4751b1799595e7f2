"""How far off the method that is chosen is, beside every method that can be named for the same statement and price.

    python tests/bench/choices.py --rows 20000 --runs 60 --only "no limit"

Each statement is asked as it is, and with each mechanism, bound and strategy that OPTIONS can name and that does not refuse it.
`auto` is its root mean square error over all numbers of its answers (groups that are not shown count as 0), beside that of the
best named method and of the next ones; `ratio` is auto / best, and `+-` the standard error of that. The best few are found by a
fifth of the runs and then measured by as many new ones as `auto`; the best of them is still too good by chance, by about one
standard error. A strategy is named for what is measured as a workload; there `auto` is `strategy = 'auto'`.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
from bench_clock import table
from bench_data import again

from dpsql.answers.answer import Answer
from dpsql.batch.plan_choice import NAMES as STRATEGIES
from dpsql.engine.answering import answer
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.frozen import Frozen
from dpsql.mechanisms.all_mechanisms import NAMES as MECHANISMS
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {{}}
sex = {{ values = ["f", "m"], nullable = false }}
age = {{ range = [0, 100], nullable = false }}
income = {{ bounds = [0, 200000], nullable = false }}
place = {{ nullable = false }}
[tables.visits]
foreign_keys = [{{ columns = "id", references = "people(id)" }}]
{limit}
[tables.visits.columns]
id = {{ nullable = false }}
year = {{ range = [2015, 2024], nullable = false }}
clinic = {{ range = [1, 40], nullable = false }}
cost = {{ bounds = [0, 500], decimals = 2, nullable = false }}
points = {{ bounds = [-5, 5], nullable = false }}
note = {{ nullable = false }}
[budgets.person]
entity = "person"
rho = 1000
delta = 0.1
"""
TABLES = """
SELECT setseed(0.5);
CREATE TABLE people AS SELECT CAST(i AS INTEGER) AS id, CASE WHEN random() < 0.5 THEN 'f' ELSE 'm' END AS sex,
    CASE WHEN i <= 100 THEN CAST(i AS INTEGER) ELSE CAST(floor(101 * sqrt(random()) * random()) AS INTEGER) END AS age, least(200000, exp(9 + 2 * random() + random())) AS income,
    'place ' || CAST(floor(1 / (0.003 + random())) AS INTEGER) AS place FROM range({people}) t(i);
CREATE TABLE visits AS SELECT CAST(floor(random() * {people} * (CASE WHEN random() < 0.1 THEN 0.02 ELSE 1 END)) AS INTEGER) AS id,
    CAST(2015 + floor(random() * 10) AS INTEGER) AS year, CAST(1 + floor(40 * random() * random()) AS INTEGER) AS clinic,
    round(500 * random() * random(), 2) AS cost, CAST(floor(random() * 11) AS INTEGER) - 5 AS points,
    'note ' || CAST(floor(2000 * random() * random()) AS INTEGER) AS note FROM range({rows}) t(i);
"""
HEADS = ("statement", "price", "limit", "auto", "ratio", "+-", "named, in multiples of auto")
PURE, RHO, DELTA = "epsilon = 1", "rho = 0.1", "epsilon = 1, delta = 1e-6"
SHOWN = 3  # of the named methods of a line


class Line(Frozen):
    """A statement, how many of its first columns are keys, its price, and the limit of rows of `visits`."""

    sql: str
    price: str
    keys: int = 0
    limit: int | None = None
    workload: bool = False


def lines() -> Iterator[Line]:
    for price in (PURE, RHO):
        yield Line(sql="SELECT COUNT(*) FROM people", price=price)
        yield Line(sql="SELECT age, COUNT(*) FROM people GROUP BY age", keys=1, price=price)
        yield Line(sql="SELECT AVG(income) FROM people", price=price)
        yield Line(sql="SELECT MEDIAN(age) FROM people", price=price)
        for limit in (None, 60, 8):
            for aggregate in ("COUNT(*)", "SUM(cost)", "AVG(cost)", "SUM(points)"):
                yield Line(sql=f"SELECT {aggregate} FROM visits", price=price, limit=limit)
            for aggregate in ("COUNT(*)", "SUM(cost)", "AVG(cost)"):
                yield Line(sql=f"SELECT year, {aggregate} FROM visits GROUP BY year", keys=1, price=price, limit=limit)
            yield Line(sql="SELECT clinic, SUM(cost) FROM visits GROUP BY clinic", keys=1, price=price, limit=limit)
            yield Line(sql="SELECT MEDIAN(cost) FROM visits", price=price, limit=limit)
            yield Line(sql="SELECT COUNT(DISTINCT clinic) FROM visits", price=price, limit=limit)
            yield Line(sql="SELECT COUNT(DISTINCT note) FROM visits", price=price, limit=limit)
        for sql, keys in (("SELECT sex, age, COUNT(*) FROM people GROUP BY CUBE (sex, age)", 2),
                          ("SELECT sex, age, COUNT(*) FROM people GROUP BY GROUPING SETS ((sex), (age))", 2),
                          ("SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) FROM people GROUP BY age", 1),
                          (f"SELECT {', '.join(ranges())} FROM people", 0)):
            yield Line(sql=sql, keys=keys, price=price, workload=True)
    for price in (DELTA, "rho = 0.1, delta = 1e-6"):
        yield Line(sql="SELECT place, COUNT(*) FROM people GROUP BY place", keys=1, price=price)
        yield Line(sql="SELECT place, SUM(income) FROM people GROUP BY place", keys=1, price=price)
        yield Line(sql="SELECT note, COUNT(*) FROM visits GROUP BY note", keys=1, price=price, limit=8)


def ranges() -> Iterator[str]:
    draw = np.random.default_rng(3)
    for low, high in np.sort(draw.integers(0, 101, (40, 2)), axis=1):
        yield f"COUNT(*) FILTER (WHERE age BETWEEN {low} AND {high})"


def stored(rows: int, folder: Path) -> Path:
    path = folder / "choices.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(TABLES.format(rows=rows, people=max(20, rows // 10)))
    return path


def opened(path: Path, limit: int | None) -> Session:
    policy = path.with_suffix(".toml")
    policy.write_text(POLICY.format(limit="" if limit is None else f"rows_per_entity = {limit}"), encoding="utf-8")
    ledger = path.with_name(f"{uuid.uuid4().hex}.ledger")
    Ledger.create(ledger).close()
    return open_session(path, policy, ledger, ConnectionTerms(analyst="bench"))


def named(line: Line) -> Iterator[str]:
    """Every option; those that refuse the statement are left out later."""
    if line.workload:
        yield from (f"strategy = '{name}'" for name in STRATEGIES)
        return
    yield from (f"bound = '{bound.name}'" for bound in BOUNDS if not bound.needs)
    yield from (f"mechanism = '{name}'" for name in (*MECHANISMS, *RULES))


class Truth:
    """What DuckDB answers, as a vector over groups and columns, and how far answers are off it."""

    def __init__(self, line: Line, path: Path) -> None:
        with duckdb.connect(str(path), read_only=True) as connection:
            rows = connection.execute(line.sql).fetchall()
        self._keys, self._width = line.keys, len(rows[0]) - line.keys
        self._true = {row[: line.keys]: row[line.keys :] for row in rows}

    def square(self, found: Answer) -> float:
        """The mean square error over all groups that are there, shown or not, and those that are shown."""
        nothing = (0.0,) * self._width
        told = {row[: self._keys]: row[self._keys :] for row in found.rows}
        return float(np.mean([(float(a or 0) - float(b or 0)) ** 2 for key in self._true.keys() | told.keys()
                              for a, b in zip(told.get(key, nothing), self._true.get(key, nothing), strict=True)]))


def errors(line: Line, options: str, truth: Truth, session: Session, runs: int) -> tuple[float, float]:
    """The root mean square error over runs, and its own relative standard error. Raises Error for what is refused."""
    sql = line.sql.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1)
    squares = [truth.square(answer(sql, again(session, uuid.uuid4()))) for _ in range(runs)]
    mean = float(np.mean(squares))
    return math.sqrt(mean), float(np.std(squares)) / max(mean, 1e-300) / 2 / math.sqrt(runs)


def promising(line: Line, truth: Truth, session: Session, runs: int) -> list[str]:
    """The options of least error, by a few runs each; those that refuse the statement are left out."""
    found = {}
    for option in named(line):
        try:
            found[option] = errors(line, f"{line.price}, {option}", truth, session, max(3, runs // 5))[0]
        except Error:
            continue
    return sorted(found, key=found.__getitem__)[:SHOWN]


def compared(line: Line, truth: Truth, session: Session, runs: int) -> list[str]:
    chosen = ", strategy = 'auto'" if line.workload else ""
    auto, sure = errors(line, line.price + chosen, truth, session, runs)
    found = {option: errors(line, f"{line.price}, {option}", truth, session, runs)
             for option in promising(line, truth, session, runs)}
    best = sorted(found, key=lambda option: found[option][0])
    least, doubt = found[best[0]]
    told = ", ".join(f"{option} {ratio_of(found[option][0], auto):.2f}" for option in best)
    many = line.sql if len(line.sql) < 80 else line.sql[:60] + " ..."
    ratio = ratio_of(auto, least)
    return [many.removeprefix("SELECT "), line.price, f"{line.limit or 'none'}", f"{auto:.4g}", f"{ratio:.2f}",
            f"{ratio * math.hypot(sure, doubt):.2f}", told]


def ratio_of(error: float, other: float) -> float:
    return 1.0 if error == other else error / other if other else math.inf


def report(asked: Sequence[Line], rows: int, runs: int, folder: Path) -> Iterator[list[str]]:
    path = stored(rows, folder)
    truths = [Truth(line, path) for line in asked]  # before: one process opens a file in one way at a time
    for line, truth in zip(asked, truths, strict=True):
        session = opened(path, line.limit)
        cells = compared(line, truth, session, runs)
        print(*cells, sep=" | ", file=sys.stderr, flush=True)
        yield cells
        session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--only", default="", help="statements with this text")
    parser.add_argument("--worse", type=float, default=0, help="only lines with a ratio above this")
    given = parser.parse_args()
    asked = [line for line in lines() if given.only in f"{line.sql} at {line.price}, limit {line.limit or 'none'}"]
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        found = [cells for cells in report(asked, given.rows, given.runs, Path(folder)) if float(cells[4]) >= given.worse]
    print(table(f"{given.rows} rows, {given.runs} runs", HEADS, found))


if __name__ == "__main__":
    main()
