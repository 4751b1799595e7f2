"""How long statements take beside the plain DuckDB query of the same text, in the same process and on the same connection.

    python tests/bench/speed.py --rows 10000000 --data /var/tmp/dpsql-bench

Times are CPU milliseconds of all threads, medians of runs that take turns. Bounding is also compared with a plain GROUP BY
entity, the least that any bounding by entity has to do.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench_clock import Time, milliseconds, ratio, side_by_side, table
from bench_data import TIGHT, WIDE, again, database, opened

from dpsql.answer import Answer
from dpsql.engine import Session, answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A statement; `options` go to dpsql only. `goal` is the ratio aimed at; `by_entity`: to GROUP BY entity, not to plain."""

    name: str
    sql: str
    options: str = ""
    goal: float | None = None
    by_entity: bool = False
    limit: int | None = WIDE
    budget: str = "person"

    @property
    def statement(self) -> str:
        return self.sql.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({self.options})", 1) if self.options else self.sql


CASES = (
    Case(name="count", sql="SELECT COUNT(*) FROM visits", goal=1.5),
    Case(name="count where", sql="SELECT COUNT(*) FROM visits WHERE points >= 0 AND year < 2020", goal=1.5),
    Case(name="count by year", sql="SELECT year, COUNT(*) FROM visits GROUP BY year", goal=1.5),
    Case(name="count by year, clinic", sql="SELECT year, clinic, COUNT(*) FROM visits GROUP BY year, clinic", goal=1.5),
    Case(name="row-clipped sum, integers", sql="SELECT SUM(points) FROM visits", goal=3),
    Case(name="row-clipped sum, decimals", sql="SELECT SUM(cost) FROM visits", goal=3),
    Case(name="row-clipped sum by clinic", sql="SELECT clinic, SUM(cost) FROM visits GROUP BY clinic", goal=3),
    Case(name="average", sql="SELECT AVG(cost) FROM visits", goal=3),
    Case(name="variance", sql="SELECT VAR_SAMP(weight) FROM visits", goal=3),
    Case(name="several aggregates by year", sql="SELECT year, COUNT(*), SUM(cost), AVG(cost), STDDEV(cost), AVG(points) FROM visits "
         "GROUP BY year", goal=3),
    Case(name="expressions", sql="SELECT year, SUM(CASE WHEN points > 0 THEN cost * 2 ELSE 0 END) FROM visits GROUP BY year", goal=3),
    Case(name="one row each: average income by sex", sql="SELECT sex, AVG(income) FROM people GROUP BY sex", goal=3),
    Case(name="limit that bites (declared), count", sql="SELECT COUNT(*) FROM visits", goal=2.5, by_entity=True, limit=TIGHT),
    Case(name="limit that bites (declared), sum by year", sql="SELECT year, SUM(cost) FROM visits GROUP BY year", goal=2.5,
         by_entity=True, limit=TIGHT),
    Case(name="limit that bites (max_rows), sum", sql="SELECT SUM(points) FROM visits", options=f"max_rows = {TIGHT}", goal=2.5,
         by_entity=True, limit=None),
    Case(name="limit learned, count", sql="SELECT COUNT(*) FROM visits", limit=None, by_entity=True),
    Case(name="clip of totals, sum", sql="SELECT SUM(points) FROM visits", options="clip = 100", goal=1.2, by_entity=True, limit=None),
    Case(name="clip of totals, decimals", sql="SELECT SUM(cost) FROM visits", options="clip = 5000", goal=1.2, by_entity=True, limit=None),
    Case(name="clip of totals, count", sql="SELECT COUNT(*) FROM visits", options="clip = 20", goal=1.2, by_entity=True, limit=None),
    Case(name="clip of totals learned, sum", sql="SELECT SUM(points) FROM visits", options="bound = 'clip'", by_entity=True, limit=None),
    Case(name="clip of totals, sum by year", sql="SELECT year, SUM(points) FROM visits GROUP BY year", options="clip = 100",
         by_entity=True, limit=None),
    Case(name="per entity in a subquery", sql="SELECT AVG(least(n, 50)) FROM (SELECT person_id, COUNT(*) AS n FROM visits "
         "GROUP BY person_id) t", goal=1.2, by_entity=True),
    Case(name="per entity in a subquery, sum", sql="SELECT AVG(least(greatest(s, 0), 5000)) FROM (SELECT person_id, SUM(cost) AS s "
         "FROM visits GROUP BY person_id) t", goal=1.2, by_entity=True),
    Case(name="COUNT(DISTINCT entity)", sql="SELECT COUNT(DISTINCT person_id) FROM visits", goal=1.2, by_entity=True),
    Case(name="COUNT(DISTINCT column)", sql="SELECT COUNT(DISTINCT note) FROM visits"),
    Case(name="MEDIAN", sql="SELECT MEDIAN(cost) FROM visits"),
    Case(name="MEDIAN by clinic", sql="SELECT clinic, MEDIAN(cost) FROM visits GROUP BY clinic"),
    Case(name="three quantiles", sql="SELECT quantile_cont(cost, 0.1), MEDIAN(cost), quantile_cont(cost, 0.9) FROM visits"),
    Case(name="MIN and MAX of a date part", sql="SELECT MIN(year), MAX(year) FROM visits"),
    Case(name="join along the foreign key", sql="SELECT p.sex, COUNT(*) FROM visits v JOIN people p ON v.person_id = p.person_id "
         "GROUP BY p.sex"),
    Case(name="join with a public table", sql="SELECT v.year, COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic "
         "WHERE c.city = 'city 3' GROUP BY v.year", goal=1.5),
    Case(name="undeclared keys", sql="SELECT note, COUNT(*) FROM visits GROUP BY note"),
    Case(name="text key: count by year", sql="SELECT year, COUNT(*) FROM claims GROUP BY year", goal=1.5, budget="member"),
    Case(name="text key: clip of totals, sum", sql="SELECT SUM(points) FROM claims", options="clip = 100", goal=1.2, by_entity=True,
         limit=None, budget="member"),
    Case(name="text key: limit that bites", sql="SELECT COUNT(*) FROM claims", goal=2.5, by_entity=True, limit=TIGHT, budget="member"),
    Case(name="text key: COUNT(DISTINCT entity)", sql="SELECT COUNT(DISTINCT member_code) FROM claims", goal=1.2, by_entity=True,
         budget="member"),
)

BY_ENTITY = {"person": "SELECT person_id, SUM(points) FROM visits GROUP BY person_id",
             "member": "SELECT member_code, SUM(points) FROM claims GROUP BY member_code"}


def plain(session: Session, sql: str) -> Callable[[int], object]:
    """The plain query, on dpsql's own connection: the same settings, threads and cached pages. Its rows are fetched as dpsql does."""
    connection = session.kernel._reader._connection
    return lambda run: connection.cursor().execute(sql).fetchall()


def grouped(session: Session, budget: str) -> Callable[[int], object]:
    """GROUP BY entity, reduced to one row in the engine, so that nothing but the grouping is timed."""
    return plain(session, f"SELECT COUNT(*), SUM(t.s) FROM ({BY_ENTITY[budget].replace('SUM(points)', 'SUM(points) AS s')}) t")


def private(session: Session, case: Case) -> Callable[[int], object]:
    def run_it(run: int) -> None:
        made = answer(case.statement, again(session, run))
        assert isinstance(made, Answer) and not made.stored

    return run_it


def measured(case: Case, session: Session, runs: int) -> list[str]:
    actions = [plain(session, case.sql), private(session, case)]
    if case.by_entity:
        actions.append(grouped(session, case.budget))
    times = side_by_side(actions, runs)
    return row(case, times[0], times[1], times[2] if case.by_entity else None)


def row(case: Case, base: Time, ours: Time, entity: Time | None) -> list[str]:
    against = entity if entity is not None else base
    met = "" if case.goal is None else "yes" if ours.cpu <= case.goal * against.cpu else "NO"
    return [case.name, milliseconds(base.cpu), milliseconds(ours.cpu), ratio(ours.cpu, base.cpu),
            milliseconds(entity.cpu) if entity else "", ratio(ours.cpu, entity.cpu) if entity else "",
            f"{case.goal:g}" if case.goal else "", met, milliseconds(base.wall), milliseconds(ours.wall)]


HEADS = ("statement", "plain", "dpsql", "ratio", "by entity", "ratio", "goal", "met", "plain wall", "dpsql wall")


def report(rows: int, folder: Path, runs: int, only: str = "") -> Iterable[list[str]]:
    path = database(rows, folder)
    for budget, limit in dict.fromkeys((case.budget, case.limit) for case in CASES):
        session = opened(path, budget, limit)
        for case in CASES:
            if (case.budget, case.limit) == (budget, limit) and only.lower() in case.name.lower():
                yield measured(case, session, runs)
        session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="only the statements whose name holds this")
    given = parser.parse_args()
    print(table(f"{given.rows} rows: CPU milliseconds, median of {given.runs}", HEADS,
                list(report(given.rows, given.data, given.runs, given.only))))


if __name__ == "__main__":
    main()
