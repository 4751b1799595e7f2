"""How long statements take beside the plain DuckDB query of the same text, in the same process.

    python tests/bench/speed.py --rows 10000000 --data bench-data

Times are CPU milliseconds of all threads, medians of runs that take turns, where rows that statements read before are kept in
memory; `first` is one run without them, the first in a new connection. Bounding is also compared with a plain GROUP BY entity, the
least that bounding by entity has to do without further help. `met` says whether the aim was met: "fixed" where it was not, but by
less than the milliseconds that any statement may take on top. With `--prepared` all read a prepared store.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_clock import Time, milliseconds, ratio, side_by_side, timed
from bench_data import TIGHT, WIDE, again, database, declared, opened, plain
from bench_results import PLAIN, Figure, Line, add_arguments, conclude, shown

from dpsql.answers.answer import Answer
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.frozen import Frozen

FIXED = 0.030  # seconds that a statement may take, whatever it asks


class Case(Frozen):
    """A statement. `options` go to dpsql only; `aim` is a ratio to the plain query or, with `entity`, to GROUP BY these columns.

    `limit` is the declared limit of rows of an entity.
    """

    name: str
    sql: str
    options: str = ""
    aim: float | None = None
    entity: str = ""
    limit: int | None = WIDE
    budget: str = "person"

    @property
    def statement(self) -> str:
        if not self.options:
            return self.sql
        return self.sql.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({self.options})", 1)

    @property
    def grouped(self) -> str:
        """GROUP BY entity, reduced to one row in the engine, so that nothing but the grouping is timed."""
        source = "visits" if self.budget == "person" else "claims"
        return f"SELECT COUNT(*), SUM(t.s) FROM (SELECT {self.entity}, SUM(points) AS s FROM {source} GROUP BY {self.entity}) t"


BY_SEX = "SELECT p.sex, {} FROM visits v JOIN people p ON v.person_id = p.person_id GROUP BY p.sex"
PERSON, MEMBER = "person_id", "member_code"
CASES = (
    Case(name="count", sql="SELECT COUNT(*) FROM visits", aim=1.5),
    Case(name="count where", sql="SELECT COUNT(*) FROM visits WHERE points >= 0 AND year < 2020", aim=1.5),
    Case(name="count by year", sql="SELECT year, COUNT(*) FROM visits GROUP BY year", aim=1.5),
    Case(name="count by year, clinic", sql="SELECT year, clinic, COUNT(*) FROM visits GROUP BY year, clinic", aim=1.5),
    Case(name="sum, whole numbers", sql="SELECT SUM(points) FROM visits", aim=3),
    Case(name="sum, decimals", sql="SELECT SUM(cost) FROM visits", aim=3),
    Case(name="sum, reals", sql="SELECT SUM(weight) FROM visits", aim=3),
    Case(name="sum by year", sql="SELECT year, SUM(cost) FROM visits GROUP BY year", aim=3),
    Case(name="sum by clinic", sql="SELECT clinic, SUM(cost) FROM visits GROUP BY clinic", aim=3),
    Case(name="average", sql="SELECT AVG(cost) FROM visits", aim=3),
    Case(name="variance", sql="SELECT VAR_SAMP(weight) FROM visits", aim=3),
    Case(name="several aggregates by year", sql="SELECT year, COUNT(*), SUM(cost), AVG(cost), STDDEV(cost), AVG(points) "
         "FROM visits GROUP BY year", aim=3),
    Case(name="expression by year", sql="SELECT year, SUM(CASE WHEN points > 0 THEN cost * 2 ELSE 0 END) FROM visits "
         "GROUP BY year", aim=3),
    Case(name="one row an entity", sql="SELECT sex, AVG(income) FROM people GROUP BY sex", aim=3),
    Case(name="declared limit bites: count", sql="SELECT COUNT(*) FROM visits", aim=2.5, entity=PERSON, limit=TIGHT),
    Case(name="declared limit bites: count where", sql="SELECT COUNT(*) FROM visits WHERE year < 2020", aim=2.5, entity=PERSON,
         limit=TIGHT),
    Case(name="declared limit bites: sum by year", sql="SELECT year, SUM(cost) FROM visits GROUP BY year", aim=2.5,
         entity=PERSON, limit=TIGHT),
    Case(name="max_rows: count", sql="SELECT COUNT(*) FROM visits", options=f"max_rows = {TIGHT}", aim=2.5, entity=PERSON,
         limit=None),
    Case(name="max_rows: sum", sql="SELECT SUM(points) FROM visits", options=f"max_rows = {TIGHT}", aim=2.5, entity=PERSON,
         limit=None),
    Case(name="learned limit: count", sql="SELECT COUNT(*) FROM visits", entity=PERSON, limit=None),
    Case(name="learned limit: sum", sql="SELECT SUM(points) FROM visits", entity=PERSON, limit=None),
    Case(name="clip of totals: sum", sql="SELECT SUM(points) FROM visits", options="clip = 100", aim=1.2, entity=PERSON,
         limit=None),
    Case(name="clip of totals: decimals", sql="SELECT SUM(cost) FROM visits", options="clip = 5000", aim=1.2, entity=PERSON,
         limit=None),
    Case(name="clip of totals: count", sql="SELECT COUNT(*) FROM visits", options="clip = 20", aim=1.2, entity=PERSON, limit=None),
    Case(name="clip of totals: sum by year", sql="SELECT year, SUM(points) FROM visits GROUP BY year", options="clip = 100",
         aim=1.2, entity=f"{PERSON}, year", limit=None),
    Case(name="clip learned: sum", sql="SELECT SUM(points) FROM visits", options="bound = 'clip'", entity=PERSON, limit=None),
    Case(name="per entity: count", sql="SELECT AVG(least(n, 50)) FROM (SELECT person_id, COUNT(*) AS n FROM visits "
         "GROUP BY person_id) t", aim=1.2, entity=PERSON),
    Case(name="per entity: sum", sql="SELECT AVG(least(greatest(s, 0), 5000)) FROM (SELECT person_id, SUM(cost) AS s "
         "FROM visits GROUP BY person_id) t", aim=1.2, entity=PERSON),
    Case(name="distinct entities", sql="SELECT COUNT(DISTINCT person_id) FROM visits", aim=1.2, entity=PERSON),
    Case(name="distinct values", sql="SELECT COUNT(DISTINCT note) FROM visits"),
    Case(name="median", sql="SELECT MEDIAN(cost) FROM visits"),
    Case(name="median, reals", sql="SELECT MEDIAN(weight) FROM visits"),
    Case(name="median by clinic", sql="SELECT clinic, MEDIAN(cost) FROM visits GROUP BY clinic"),
    Case(name="three quantiles", sql="SELECT quantile_cont(cost, 0.1), MEDIAN(cost), quantile_cont(cost, 0.9) FROM visits"),
    Case(name="least and greatest", sql="SELECT MIN(year), MAX(year) FROM visits"),
    Case(name="join along the foreign key", sql=BY_SEX.format("COUNT(*)"), aim=1.5),
    Case(name="join, rows limited: count", sql=BY_SEX.format("COUNT(*)"), options=f"max_rows = {TIGHT}", limit=None),
    Case(name="join, rows limited: sum", sql=BY_SEX.format("SUM(v.points)"), options=f"max_rows = {TIGHT}", limit=None),
    Case(name="join, clipped: count", sql=BY_SEX.format("COUNT(*)"), options="clip = 20", limit=None),
    Case(name="join, clipped: sum", sql=BY_SEX.format("SUM(v.points)"), options="clip = 100", limit=None),
    Case(name="join, clip learned: sum", sql=BY_SEX.format("SUM(v.points)"), options="bound = 'clip'", limit=None),
    Case(name="join with a public table", sql="SELECT v.year, COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic "
         "WHERE c.city = 'city 3' GROUP BY v.year", aim=1.5),
    Case(name="undeclared keys", sql="SELECT note, COUNT(*) FROM visits GROUP BY note", entity=f"{PERSON}, note"),
    Case(name="text key: count by year", sql="SELECT year, COUNT(*) FROM claims GROUP BY year", aim=1.5, budget="member"),
    Case(name="text key: clip of totals", sql="SELECT SUM(points) FROM claims", options="clip = 100", aim=1.2, entity=MEMBER,
         limit=None, budget="member"),
    Case(name="text key: declared limit bites, count", sql="SELECT COUNT(*) FROM claims", aim=2.5, entity=MEMBER, limit=TIGHT,
         budget="member"),
    Case(name="text key: declared limit bites, sum", sql="SELECT SUM(points) FROM claims", aim=2.5, entity=MEMBER, limit=TIGHT,
         budget="member"),
    Case(name="text key: distinct entities", sql="SELECT COUNT(DISTINCT member_code) FROM claims", aim=1.2, entity=MEMBER,
         budget="member"),
)


def private(session: Session, case: Case) -> Callable[[int], object]:
    def run_it(run: int) -> None:
        made = answer(case.statement, again(session, run))
        assert isinstance(made, Answer) and not made.stored

    return run_it


def first_run(case: Case, path: Path, policy: Path | None) -> Time:
    with contextlib.closing(opened(path, case.budget, case.limit, policy=policy)) as session:
        run = private(session, case)
        return timed(lambda: run(-1))


def measured(case: Case, session: Session, path: Path, runs: int, first: Time) -> Line:
    with plain(path) as connection:

        def query(sql: str) -> Callable[[int], object]:
            return lambda run: connection.cursor().execute(sql).fetchall()

        grouped = [query(case.grouped)] if case.entity else []
        base, ours, *entity = side_by_side([query(case.sql), private(session, case), *grouped], runs)
    figure = Figure(line=case.name, ours=ours, base=[base, *entity][-1], beside="GROUP BY entity" if entity else PLAIN)
    return Line(row(case, base, ours, entity[0] if entity else None, first), (figure,))


def row(case: Case, base: Time, ours: Time, entity: Time | None, first: Time) -> list[str]:
    against = (entity or base).cpu
    met = ""
    if case.aim is not None:
        met = "yes" if ours.cpu <= case.aim * against else "fixed" if ours.cpu <= case.aim * against + FIXED else "no"
    return [case.name, milliseconds(base.cpu), milliseconds(ours.cpu), ratio(ours.cpu, base.cpu),
            milliseconds(entity.cpu) if entity else "", ratio(ours.cpu, entity.cpu) if entity else "",
            f"{case.aim:g}" if case.aim else "", met, milliseconds(first.cpu), milliseconds(base.wall), milliseconds(ours.wall)]


HEADS = ("statement", "plain", "dpsql", "ratio", "by entity", "ratio", "aim", "met", "first", "plain wall", "dpsql wall")


def report(rows: int, folder: Path, runs: int, only: str = "", *, prepared: bool = False) -> Iterator[Line]:
    path = database(rows, folder)
    chosen = [case for case in CASES if only in case.name]
    for budget, limit in dict.fromkeys((case.budget, case.limit) for case in chosen):
        cases = [case for case in chosen if (case.budget, case.limit) == (budget, limit)]
        policy = declared(path, budget, limit, prepared=True) if prepared else None
        firsts = [first_run(case, path, policy) for case in cases]
        with contextlib.closing(opened(path, budget, limit, policy=policy)) as session:
            yield from (measured(case, session, path, runs, first) for case, first in zip(cases, firsts, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where data is kept")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="only the statements whose name holds this")
    parser.add_argument("--prepared", action="store_true", help="from a prepared store")
    add_arguments(parser)
    given = parser.parse_args()
    conclude(lambda: shown(f"{given.rows} rows: CPU milliseconds, median of {given.runs}", HEADS,
                           report(given.rows, given.data, given.runs, given.only, prepared=given.prepared)),
             "speed, prepared" if given.prepared else "speed", given.rows, given)


if __name__ == "__main__":
    main()
