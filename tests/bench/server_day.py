"""A day of dashboards, as Apache Superset sends them, in a few minutes: what a server answers, how fast, and what the day costs.

    python tests/bench/server_day.py --minutes 10
    python tests/bench/server_day.py --openings 50 --minutes 1 --no-baseline

Analysts open three dashboards of twelve charts through a day of work, most of them in the morning and after lunch. More than half of
the openings have the default filters; others have a ward, a time range or both that somebody chose, and some load a dashboard again.
All charts of a dashboard are sent at once through one pool of SQLAlchemy, of one account, as Superset does without a cache of its own.
Statements have the forms that were recorded from Superset (tests/server/statements_of_tools.sql). Now and then, somebody edits a
dataset: then SQLAlchemy reads the catalogue, and a chart is sent with LIMIT 0, for its columns.

An account has 1,200 statements a minute, and SQLAlchemy sends three for each chart, BEGIN and ROLLBACK among them. So the rush hours of
a day in much less than half an hour are refused in part; times are those of dashboards without a refusal.

The same day is sent to a PostgreSQL with the same tables, if there is one, and times are compared with those. The day is the same in
every run; `--minutes` is how long it takes on each of the two servers.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from bench_clock import ratio, table
from bench_server import serving
from bench_traffic import PASSWORD, add_user, in_milliseconds, quantile

from dpsql.frozen import Frozen
from dpsql.trusted.kernel.ledger import Ledger

sys.path.insert(0, str(Path(__file__).parents[1]))
from support import postgres

WARDS = ("cardiology", "dialysis", "emergency", "geriatrics", "maternity", "neurology", "oncology", "orthopaedics", "paediatrics", "surgery")
POLICY = f"""
version = 1
database = "hospital.duckdb"

[entities.patient]
table = "patients"
key = "patient_id"

[tables.patients]
key = "patient_id"
[tables.patients.columns]
patient_id = {{}}
sex = {{ values = ["f", "m"], nullable = false }}
age = {{ range = [0, 100], nullable = false }}

[tables.visits]
key = "visit_id"
foreign_keys = [{{ columns = "patient_id", references = "patients(patient_id)" }}]
rows_per_entity = 20
[tables.visits.columns]
visit_id = {{}}
patient_id = {{}}
seen = {{ bounds = [2023-01-01T00:00:00, 2024-12-31T23:59:59], nullable = false }}
ward = {{ values = {list(WARDS)}, nullable = false }}
urgent = {{ nullable = false }}
nights = {{ range = [0, 30], nullable = false }}
cost = {{ bounds = [0, 5000], decimals = 2, nullable = false }}

[budgets.dashboards]
entity = "patient"
rho = 1000
delta = 0.1
"""
TABLES = """
CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, sex VARCHAR NOT NULL, age INTEGER NOT NULL);
CREATE TABLE visits (visit_id INTEGER PRIMARY KEY, patient_id INTEGER NOT NULL, seen TIMESTAMP NOT NULL, ward VARCHAR NOT NULL,
    urgent BOOLEAN NOT NULL, nights INTEGER NOT NULL, cost DOUBLE PRECISION NOT NULL);
"""
ROWS = ("SELECT i, CASE WHEN random() < 0.5 THEN 'f' ELSE 'm' END, CAST(floor(random() * 101) AS INTEGER) FROM range({patients}) t(i)",
        f"SELECT i, CAST(floor(random() * {{patients}}) AS INTEGER), TIMESTAMP '2023-01-01' + to_seconds(CAST(floor(random() * 63072000) AS INTEGER)), "
        f"list_extract({list(WARDS)}, 1 + CAST(floor(random() * {len(WARDS)}) AS INTEGER)), random() < 0.3, CAST(floor(31 * random() * random()) AS INTEGER), "
        "round(6000 * random() * random(), 2) FROM range({visits}) t(i)")

BOTH = "(SELECT v.seen, v.ward, v.urgent, v.nights, v.cost, p.sex, p.age FROM visits v JOIN patients p ON v.patient_id = p.patient_id\n) AS virtual_table"


def grouped(key: str, metrics: str, order: str = "", source: str = "public.visits", most: int = 10000, having: str = "") -> str:
    """A chart of Superset: {where} stands for the filters of the dashboard."""
    name = key if key.isidentifier() else '"Group"'
    return (f"SELECT {key} AS {name}, {metrics} \nFROM {source} \nWHERE {{where}} GROUP BY {key}" + (f" \nHAVING ({having})" if having else "")
            + (f" ORDER BY {order}" if order else "") + f" \n LIMIT {most}")


def series(grain: str, metrics: str, order: str = "", source: str = "public.visits") -> str:
    return (f"SELECT DATE_TRUNC('{grain}', seen) AS seen, {metrics} \nFROM {source} \nWHERE {{where}} GROUP BY DATE_TRUNC('{grain}', seen)"
            + (f" ORDER BY {order}" if order else "") + " \n LIMIT 10000")


def number(metric: str, source: str = "public.visits", condition: str = "") -> str:
    return f"SELECT {metric} \nFROM {source} \nWHERE {{where}}{condition} \n LIMIT 10000"


COUNT, MEAN, TOTAL = "COUNT(*) AS count", 'AVG(cost) AS "AVG(cost)"', 'sum(cost) AS "SUM(cost)"'
DASHBOARDS = {
    "visits": (
        number(COUNT), number(COUNT, condition=" AND urgent IS true"), number('AVG(nights) AS "AVG(nights)"'), series("month", COUNT, "count DESC"),
        series("quarter", COUNT), grouped("ward", COUNT, "count DESC"), grouped("urgent", COUNT), grouped("nights", COUNT, "nights ASC"),
        grouped("nights > 7", COUNT), grouped("ward", 'AVG(nights) AS "AVG(nights)"', '"AVG(nights)" DESC', most=5),
        grouped("ward", COUNT, "count DESC", having="(COUNT(*) > 100)"), "SELECT ward AS ward, urgent AS urgent, COUNT(*) AS count \nFROM public.visits "
        "\nWHERE {where} GROUP BY ward, urgent ORDER BY count DESC \n LIMIT 10000"),
    "costs": (
        number(TOTAL), number(MEAN), number('SUM(cost) / COUNT(*) AS "Mean Cost"'), series("month", TOTAL, '"SUM(cost)" DESC'), series("quarter", MEAN),
        grouped("ward", TOTAL, '"SUM(cost)" DESC'), grouped("ward", f"{MEAN}, {TOTAL}, {COUNT}", '"SUM(cost)" DESC'), grouped("urgent", MEAN),
        grouped("urgent", TOTAL), number(COUNT, condition=" AND cost > 2000"),
        grouped("cost > 1000", COUNT), series("year", f"{TOTAL}, {COUNT}")),
    "patients": (
        number(COUNT, BOTH), grouped("sex", COUNT, "count DESC", BOTH), grouped("age > 65", COUNT, "", BOTH), series("month", COUNT, "", BOTH),
        grouped("sex", MEAN, "", BOTH), number('AVG(age) AS "AVG(age)"', BOTH), number(COUNT, BOTH, " AND age >= 18 AND age < 40"),
        number(COUNT, BOTH, " AND sex IN ('f')"), grouped("ward", 'AVG(age) AS "AVG(age)"', '"AVG(age)" DESC', BOTH), grouped("sex", TOTAL, "", BOTH),
        "SELECT sex AS sex, ward AS ward, COUNT(*) AS count \nFROM " + BOTH + " \nWHERE {where} GROUP BY sex, ward ORDER BY count DESC \n LIMIT 10000",
        number(COUNT, BOTH, " AND sex ILIKE '%m%'")),
}
RANGES = (("2024-10-01", "2025-01-01"), ("2024-12-01", "2025-01-01"), ("2024-01-01", "2025-01-01"), ("2023-01-01", "2024-01-01"), ("2024-07-01", "2024-10-01"))
VALUES = "SELECT ward AS ward \nFROM public.visits GROUP BY ward \n LIMIT 1000"
HEADS = ("", "dpsql", "PostgreSQL", "ratio")
PARALLEL = 16  # connections of the pool: an account may have 20


class Opening(Frozen):
    """A dashboard that is opened: at which part of the day, with what filter, and whether its datasets are looked at too."""

    at: float
    dashboard: str
    where: str
    edits: bool

    @property
    def charts(self) -> list[str]:
        return [chart.replace("{where}", self.where) for chart in DASHBOARDS[self.dashboard]]


def day(openings: int) -> list[Opening]:
    """The openings of a day, in order."""
    chance, made = random.Random(8), list[Opening]()
    times = sorted(min(1.0, max(0.0, chance.choice((chance.gauss(0.2, 0.1), chance.gauss(0.6, 0.1), chance.random())))) for _ in range(openings))
    for at in times:
        if made and chance.random() < 0.15:
            made.append(Opening(at=at, dashboard=made[-1].dashboard, where=made[-1].where, edits=False))
            continue
        span, wards = RANGES[0], ()
        if chance.random() < 0.45:
            span = chance.choice(RANGES)
            wards = chance.choice(((), *((ward,) for ward in WARDS), *itertools.combinations(WARDS[:4], 2)))
        made.append(Opening(at=at, dashboard=chance.choice([*DASHBOARDS]), where=filters(span, wards), edits=chance.random() < 0.05))
    return made


def filters(span: tuple[str, str], wards: Sequence[str]) -> str:
    """The filters of a dashboard as Superset writes them for a PostgreSQL."""
    ends = [f"seen {sign} TO_TIMESTAMP('{end} 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')" for sign, end in zip((">=", "<"), span, strict=True)]
    return " AND ".join([*ends, *([f"ward IN ({', '.join(repr(ward) for ward in wards)})"] if wards else [])])


class Chart(Frozen):
    """What became of a statement: what it was for, its seconds, and how it ended: `new`, `stored`, or a refusal."""

    purpose: str
    seconds: float
    how: str


class Day(Frozen):
    """What became of a day: all statements, the seconds until each dashboard was complete that had all of its charts, and of those that
    had nothing new."""

    charts: list[Chart]
    dashboards: list[float]
    known: list[float]


def lived(openings: Sequence[Opening], uri: str, minutes: float, analysts: int) -> Day:
    """A day of a server."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(uri, pool_size=PARALLEL, max_overflow=0, pool_timeout=300)
    charts, complete, known, lock = list[Chart](), list[float](), list[float](), threading.Lock()
    begun = time.monotonic()

    def load(opening: Opening, sending: concurrent.futures.Executor) -> None:
        time.sleep(max(0.0, begun + opening.at * minutes * 60 - time.monotonic()))
        at = time.monotonic()
        found = [*sending.map(lambda sql: asked(engine, "filter" if sql == VALUES else "chart", sql), [VALUES, *opening.charts])]
        took = time.monotonic() - at
        if opening.edits:
            found += [read_catalogue(engine), asked(engine, "columns", opening.charts[0].replace("LIMIT 10000", "LIMIT 0"))]
        with lock:
            charts.extend(found)
            if any(chart.how not in ("new", "stored") for chart in found):
                return
            complete.append(took)
            if all(chart.how == "stored" for chart in found if chart.purpose == "chart"):
                known.append(took)

    with (concurrent.futures.ThreadPoolExecutor(analysts) as people, concurrent.futures.ThreadPoolExecutor(13 * analysts) as sending):
        for future in [people.submit(load, opening, sending) for opening in openings]:
            future.result()
    engine.dispose()
    return Day(charts=charts, dashboards=complete, known=known)


def asked(engine: Any, purpose: str, sql: str) -> Chart:
    begun, how = time.monotonic(), "new"
    try:
        with contextlib.closing(engine.raw_connection()) as connection:
            del connection.dbapi_connection.notices[:]
            cursor = connection.cursor()
            cursor.execute(sql)
            cursor.fetchall()
            how = "stored" if any("cost: nothing" in notice for notice in connection.dbapi_connection.notices) else "new"
    except Exception as fault:
        how = told(fault)
    return Chart(purpose=purpose, seconds=time.monotonic() - begun, how=how)


def told(fault: Exception) -> str:
    """The first line of an error, without the driver's name before it."""
    return str(getattr(fault, "orig", None) or fault).partition("\n")[0]


def read_catalogue(engine: Any) -> Chart:
    """What Superset asks of the catalogue when a dataset is edited."""
    import sqlalchemy

    begun, how = time.monotonic(), "new"
    try:
        seen = sqlalchemy.inspect(engine)
        for name in seen.get_table_names("public"):
            assert seen.get_columns(name, "public") and seen.get_pk_constraint(name, "public")
            seen.get_indexes(name, "public"), seen.get_table_comment(name, "public")
        assert seen.get_schema_names() and seen.get_view_names("public") is not None
    except Exception as fault:
        how = told(fault)
    return Chart(purpose="catalogue", seconds=time.monotonic() - begun, how=how)


# -- the two servers


def hospital(folder: Path, visits: int) -> Path:
    """A policy with its database, of five visits for each patient."""
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(TABLES.replace("PRECISION", ""))
        for name, rows in zip(("patients", "visits"), ROWS, strict=True):
            connection.execute(f"INSERT INTO {name} {rows.format(patients=max(20, visits // 5), visits=visits)}")
            connection.execute(f"COPY {name} TO '{folder / name}.csv' (HEADER false)")
    policy = folder / "dpsql.toml"
    policy.write_text(POLICY, encoding="utf-8")
    Ledger.create(folder / "dpsql.ledger").close()
    return policy


def of_dpsql(policy: Path, openings: Sequence[Opening], minutes: float, analysts: int, price: str) -> tuple[Day, dict[str, Any]]:
    """A day of dpsql, and what its account has spent."""
    import psycopg

    add_user(policy, "superset", "--budget", "dashboards", "--epsilon", price)
    add_user(policy, "overseer", "--budget", "dashboards", "--role", "auditor")
    with serving(policy) as server:
        place = f"127.0.0.1:{server.port}/dashboards"
        found = lived(openings, f"postgresql+psycopg2://superset:{PASSWORD.replace(' ', '%20')}@{place}", minutes, analysts)
        with psycopg.connect(f"postgresql://overseer:{PASSWORD.replace(' ', '%20')}@{place}", row_factory=psycopg.rows.dict_row) as overseer:
            spent, = (row for row in overseer.execute("SHOW ANALYSTS").fetchall() if row["analyst"] == "superset")
    return found, spent


def of_postgres(folder: Path, openings: Sequence[Opening], minutes: float, analysts: int) -> Day | None:
    """The same day of a PostgreSQL; None if it is not installed."""
    if postgres.program("initdb") is None:
        return None
    import psycopg

    there = postgres.fresh(postgres.DURABLE)
    with psycopg.connect(there.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(TABLES)
        for name in ("patients", "visits"):
            with cursor.copy(f"COPY {name} FROM STDIN CSV") as copy:
                copy.write((folder / f"{name}.csv").read_bytes())
        cursor.execute("ANALYZE")
    return lived(openings, there.uri.replace("postgresql:", "postgresql+psycopg2:"), minutes, analysts)


# -- what is printed


def lines(day: Day, baseline: Day | None) -> Iterator[list[str]]:
    def counted(name: str, number: Callable[[Day], int]) -> list[str]:
        return [name, f"{number(day):,}", "-" if baseline is None else f"{number(baseline):,}", ""]

    yield counted("dashboards complete", lambda one: len(one.dashboards))
    for purpose, name in (("chart", "charts"), ("filter", "values of filters"), ("catalogue", "datasets read"), ("columns", "LIMIT 0")):
        yield counted(name, lambda one, purpose=purpose: sum(chart.purpose == purpose for chart in one.charts))
    yield ["charts stored", f"{sum(chart.how == 'stored' and chart.purpose == 'chart' for chart in day.charts):,}", "-", ""]
    yield counted("refused", lambda one: sum(chart.how not in ("new", "stored") for chart in one.charts))
    taken: list[tuple[str, Callable[[Day], list[float]]]] = [("dashboard complete", lambda one: one.dashboards), (
        "a chart", lambda one: [chart.seconds for chart in one.charts if chart.purpose == "chart" and chart.how in ("new", "stored")])]
    for name, seconds in taken:
        for share in (0.5, 0.95, 1.0):
            base = None if baseline is None else seconds(baseline)
            yield [f"{name}, {f'p{share * 100:.0f}' if share < 1 else 'largest'} ms", in_milliseconds(seconds(day), share),
                   "-" if base is None else in_milliseconds(base, share), "-" if base is None else ratio(quantile(seconds(day), share), quantile(base, share))]
    some = {"all stored, dashboard": day.known, **{f"{how} chart": [chart.seconds for chart in day.charts if (chart.purpose, chart.how) == ("chart", how)]
                                                   for how in ("new", "stored")}}
    for name, found in some.items():
        for share in (0.5, 0.95):
            yield [f"{name}, p{share * 100:.0f} ms", in_milliseconds(found, share), "-", ""]
    for purpose, name in (("filter", "values of a filter"), ("catalogue", "a catalogue"), ("columns", "LIMIT 0")):
        both = [None if one is None else [chart.seconds for chart in one.charts if chart.purpose == purpose and chart.how in ("new", "stored")] for one in (day, baseline)]
        yield [f"{name}, p50 ms", *("-" if one is None else in_milliseconds(one, 0.5) for one in both),
               "" if not both[0] or not both[1] else ratio(quantile(both[0], 0.5), quantile(both[1], 0.5))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openings", type=int, default=400)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--visits", type=int, default=50_000, help="rows of the larger table")
    parser.add_argument("--analysts", type=int, default=6, help="how many dashboards can load at once")
    parser.add_argument("--price", default="0.1", help="epsilon of a chart")
    parser.add_argument("--no-baseline", action="store_true", help="send nothing to a PostgreSQL")
    given = parser.parse_args()
    openings = day(given.openings)
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as name:
        policy = hospital(Path(name), given.visits)
        found, spent = of_dpsql(policy, openings, given.minutes, given.analysts, given.price)
        baseline = None if given.no_baseline else of_postgres(policy.parent, openings, given.minutes, given.analysts)
    print(table(f"{given.openings} dashboards of 12 charts in {given.minutes:g} minutes, {given.visits:,} visits", HEADS, list(lines(found, baseline))))
    print(table("What the day cost", ("charged", "rho", "epsilon", "delta", "failed", "waits s"), [[
        f"{spent['statements']:,}", *("-" if spent[name] is None else f"{spent[name]:.4g}" for name in ("rho", "epsilon", "delta")),
        str(spent["failed"]), f"{spent['waits_seconds'] or 0:.2f}"]]))
    for title, one in (("dpsql", found), ("PostgreSQL", baseline)):
        refused = Counter((chart.purpose, chart.how) for chart in (one.charts if one else ()) if chart.how not in ("new", "stored"))
        if refused:
            print(table(f"Refused by {title}", ("how", "what", "number"), [[how[:160], purpose, str(times)] for (purpose, how), times in refused.most_common()]))


if __name__ == "__main__":
    main()
