"""Late rows of growing tables: rows that arrive when their period is closed are never read, where the owner says so."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.growing_worlds import project

import dpsql
from dpsql import cli
from dpsql.audit import policy_on_rows
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog import growing
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.dbapi import Connection
from dpsql.errors import PolicyError
from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import KINDS, Growth, PeriodKind, PeriodRange, first_day, period_of
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.claims import Disagreement
from dpsql.trusted.plan.node import InvalidPlan, Printing
from dpsql.trusted.plan.operators.scan import Scan

DAY, TICK = dt.timedelta(days=1), dt.timedelta(microseconds=1)
CLOSED_AT = dt.datetime(2025, 4, 6)  # when March is closed, five days after its end
DROPPED = 'late = "drop"\narrived = "loaded_at"\n'
LATE = (dt.datetime(2025, 4, 6), dt.datetime(2025, 4, 6, 0, 0, 1), dt.datetime(2030, 1, 1), None)


# -- the predicate


def arrivals(kind: PeriodKind, numbers: Sequence[int], closes: int) -> Iterator[dt.datetime]:
    """Moments around those at which these periods are closed, and around their ends."""
    for number in numbers:
        for end in (dt.datetime.combine(first_day(kind, number + 1), dt.time()) + days * DAY for days in (0, closes)):
            yield from (end - DAY, end - TICK, end, end + TICK, end + DAY)


BEYOND = {"DATE": ["DATE 'infinity'", "DATE '-infinity'", "DATE '5877642-06-25 (BC)'", "DATE '5881580-07-10'", "DATE '0150-01-01'", "DATE '9500-01-01'"],
          "TIMESTAMP": ["TIMESTAMP 'infinity'", "TIMESTAMP '-infinity'", "TIMESTAMP '290309-12-22 (BC)'", "TIMESTAMP '294247-01-10 04:00:54'"],
          "TIMESTAMP_NS": ["TIMESTAMP_NS '2262-04-11 23:47:16.854775806'"], "TIMESTAMPTZ": ["TIMESTAMPTZ 'infinity'", "TIMESTAMPTZ '-infinity'"]}
"""No such row is read: its arrival is after every period was closed, or none that can be compared."""


@pytest.mark.parametrize("closes", [0, 5, 400])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("time", "arrival"), [("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"), ("TIMESTAMP", "TIMESTAMPTZ"), ("DATE", "TIMESTAMP_NS")])
def test_a_scan_reads_exactly_the_rows_that_were_on_time(time: str, arrival: str, kind: PeriodKind, closes: int) -> None:
    """Against a definition in Python: the row arrived before the day on which its own period was closed."""
    middle = period_of(kind, dt.date(2020, 2, 29))
    numbers = range(middle - 1, middle + 3)
    times = [dt.datetime.combine(first_day(kind, number), dt.time()) + part for number in numbers for part in (dt.timedelta(), DAY / 2)]
    times += [dt.datetime.combine(first_day(kind, number + 1), dt.time()) - TICK for number in numbers]
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute(f"SET TimeZone = 'UTC'; CREATE TABLE people (person INTEGER PRIMARY KEY); CREATE TABLE log (person INTEGER, moment {time}, loaded_at {arrival})")
    rows = [*itertools.product([1], times, sorted(set(arrivals(kind, numbers, closes))))]
    connection.execute("CREATE TABLE given (person INTEGER, moment TIMESTAMP, loaded_at TIMESTAMP)")
    connection.executemany("INSERT INTO given VALUES (?, ?, ?)", rows)
    connection.execute("INSERT INTO log SELECT * FROM given")
    beyond = ", ".join(f"(2, {time} '2020-02-29', {value})" for value in ["NULL", *BEYOND[arrival]])
    connection.execute(f"INSERT INTO log VALUES {beyond}, (2, NULL, {arrival} '2020-01-01'), (2, NULL, NULL)")
    table = log_of(connection)
    stored = [(moment, loaded) for moment, loaded in connection.execute(
        "SELECT CAST(moment AS TIMESTAMP), CAST(loaded_at AS TIMESTAMP) FROM log WHERE person = 1").fetchall()]
    late = 0
    for first, last in ((middle, middle), (middle - 1, middle + 1), (middle + 1, middle + 2)):
        grown = replace(table, growth=Growth(column="moment", period=kind, since=middle - 9, closes=closes, arrived="loaded_at"))
        scan = Scan(table=grown, columns=(("t", "moment"), ("a", "loaded_at")), owners=("o",), periods=PeriodRange(period=kind, first=first, last=last))
        read = Counter(connection.execute(f"SELECT CAST(s.t AS TIMESTAMP), s.a FROM ({scan.render((), Printing())}) AS s").fetchall())
        inside = [(moment, loaded) for moment, loaded in stored if first <= period_of(kind, moment.date()) <= last]
        on_time = [(moment, loaded) for moment, loaded in inside if loaded < dt.datetime.combine(
            first_day(kind, period_of(kind, moment.date()) + 1), dt.time()) + closes * DAY]
        found = Counter((moment, dt.datetime.combine(loaded, dt.time()) if type(loaded) is dt.date else loaded) for moment, loaded in read.elements())
        assert found == Counter(on_time) and on_time
        late += len(inside) - len(on_time)
    assert late > 20


def log_of(connection: duckdb.DuckDBPyConnection) -> Table:
    policy = parse_policy("""version = 1
[entities.person]
table = "people"
key = "person"
[tables.people]
key = "person"
columns = { person = {} }
[tables.log]
foreign_keys = [{ columns = "person", references = "people(person)" }]
columns = { person = {}, moment = {}, loaded_at = {} }
[budgets.person]
entity = "person"
epsilon = 1
""")
    return fit(policy, "person", DuckReader(connection, "v1").schema(), {}).tables["log"]


# -- what analysts see


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two thirds of the people have a visit on two days of March, which arrived a moment before it was closed."""
    for module in (growing, policy_on_rows):
        monkeypatch.setattr(module, "today", lambda: dt.date(2025, 7, 6))
    made = project(tmp_path, people=60)
    made.write_text(made.read_text().replace('closes = "5 days"\n', f'closes = "5 days"\n{DROPPED}').replace("seen_at = {}", "seen_at = {}\nloaded_at = {}"))
    with duckdb.connect(tmp_path / "data.duckdb") as connection:
        connection.execute("ALTER TABLE visits ADD COLUMN loaded_at TIMESTAMP")
    loaded(made, [(person, dt.date(2025, 3, day), CLOSED_AT - TICK) for person in range(40) for day in (1, 31)])
    return made


def loaded(policy: Path, visits: Sequence[tuple[int, dt.date, dt.datetime | None]], cost: int = 10) -> None:
    """Add visits: of whom, when, and when they arrived."""
    with duckdb.connect(policy.parent / "data.duckdb") as connection:
        connection.executemany("INSERT INTO visits VALUES (?, ?, NULL, ?, ?)", [(person, day, cost, at) for person, day, at in visits])


def connected(policy: Path, analyst: str = "ada") -> Connection:
    made = dpsql.connect(policy=policy, budget="study", analyst=analyst, epsilon=0.2)
    made.session.kernel._noise = Exact()
    return made


MARCH = "visited_on >= DATE '2025-03-01' AND visited_on < DATE '2025-04-01'"
STATEMENTS = [
    f"SELECT COUNT(*), SUM(cost) FROM visits WHERE {MARCH}",
    f"SELECT visited_on, COUNT(*) AS n FROM visits WHERE {MARCH} GROUP BY visited_on HAVING COUNT(*) > 3",
    f"SELECT sex, COUNT(*), AVG(cost) FROM visits JOIN people USING (person_id) WHERE {MARCH} GROUP BY sex",
    f"SELECT COUNT(DISTINCT person_id), MEDIAN(cost) FROM visits WHERE {MARCH}",
    f"SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits WHERE {MARCH} GROUP BY person_id) WHERE n > 2",
    f"SELECT COUNT(*) FROM visits AS a JOIN visits AS b ON a.person_id = b.person_id WHERE a.{MARCH.replace('AND ', 'AND a.')} AND b.{MARCH.replace('AND ', 'AND b.')}",
    "SELECT date_trunc('month', visited_on) AS month, SUM(cost) AS s FROM visits GROUP BY month",
    f"SELECT COUNT(*) FROM people WHERE person_id NOT IN (SELECT person_id FROM visits WHERE {MARCH})",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_rows_that_arrive_when_their_period_is_closed_are_never_read(policy: Path, text: str) -> None:
    """Also where a limit keeps some rows of each person, and where they would be the only rows of a person."""
    with connected(policy) as connection:
        before = connection.execute(text).fetchall()
    late = [(person, day, at) for person in range(50) for day in (dt.date(2025, 3, 2), dt.date(2025, 3, 31)) for at in LATE for _ in range(2)]
    loaded(policy, late, cost=90)
    with connected(policy, "eve") as connection:  # for whom no answer is stored
        cursor = connection.execute(text)
        assert cursor.fetchall() == before and cursor.answer is not None and not cursor.answer.stored
    loaded(policy, [(0, dt.date(2025, 3, 2), CLOSED_AT - DAY), *((person, dt.date(2025, 3, 2), CLOSED_AT - DAY) for person in range(40, 45))], cost=90)
    with connected(policy, "bob") as connection:
        assert connection.execute(text).fetchall() != before, "rows that were on time are read"


def test_the_statements_see_late_rows_where_they_are_read(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a scan without the test."""
    loaded(policy, [(person, dt.date(2025, 3, 2), at) for person in range(40) for at in LATE], cost=90)
    with connected(policy) as connection:
        assert connection.execute(STATEMENTS[0]).fetchall() == [(80, 800)]
    monkeypatch.setattr(Scan, "_on_time", lambda self, growth, arrived: "TRUE")
    with connected(policy) as connection:
        found, = connection.execute(f"SELECT COUNT(*), SUM(cost) FROM visits WHERE {MARCH} AND cost > -1").fetchall()
        assert found[0] == 160, "four rows of each person are used"


def test_where_nothing_is_said_late_rows_are_in_the_period(policy: Path) -> None:
    policy.write_text(policy.read_text().replace(DROPPED, 'late = "revision"\n'))
    loaded(policy, [(person, dt.date(2025, 3, 2), at) for person in range(40) for at in LATE[:2]])
    with connected(policy) as connection:
        assert connection.execute(STATEMENTS[0]).fetchall() == [(160, 1600)]


def test_the_rule_for_late_rows_is_no_change_of_what_charges_promise(policy: Path) -> None:
    """It decides which rows of a period are read, and not which period a row belongs to."""
    with connected(policy) as connection:
        connection.execute(STATEMENTS[0])
    policy.write_text(policy.read_text().replace(DROPPED, ""))
    with connected(policy) as connection:
        cursor = connection.execute(STATEMENTS[0])
        assert cursor.answer is not None and not cursor.answer.stored


# -- what the kernel takes


@pytest.mark.parametrize("forged", [{"arrived": "person"}, {"arrived": "nowhere"}, {"closes": -1}, {"closes": 401}, {"closes": True}, {"closes": 5.0},
                                    {"arrived": 7}], ids=str)
def test_a_forged_rule_for_late_rows_is_refused(forged: dict[str, Any], policy: Path) -> None:
    with connected(policy) as connection:
        table = growing.on_day(connection.session.catalog, dt.date(2025, 7, 6)).tables["visits"]
        march = PeriodRange(period="month", first=period_of("month", dt.date(2025, 3, 1)), last=period_of("month", dt.date(2025, 3, 1)))
        scan = Scan(table=table, columns=(("p", "person_id"), ("c", "cost")), owners=("p",), periods=march)
        connection.session.kernel._claims.relation(scan)
        assert table.growth is not None
        with pytest.raises((Disagreement, InvalidPlan, KeyError)):
            connection.session.kernel._claims.relation(replace(scan, table=replace(table, growth=replace(table.growth, **forged))))


# -- what owners say and see

MISTAKES = [
    ('late = "drop"\n', "late", "the column is missing", 'arrived = "loaded_at"'),
    ('arrived = "loaded_at"\n', "arrived", "it matters only where late rows are dropped", 'late = "drop"'),
    ('late = "revision"\narrived = "loaded_at"\n', "arrived", "it matters only where", 'late = "drop"'),
    ('late = "arrival"\narrived = "loaded_at"\n', "late", "grow by the column of their arrival", 'grows_by = "loaded_at", without late'),
    ('late = "arrival"\n', "late", "grow by the column of their arrival", 'grows_by = "loaded_at"'),
    ('late = "dropped"\narrived = "loaded_at"\n', "late", "dropped is not a rule for late rows", 'late = "drop"'),
    ('late = true\narrived = "loaded_at"\n', "late", "must be text", 'late = "drop" in a table'),
    ('late = "drop"\narrived = 3\n', "arrived", "must be text", 'arrived = "loaded_at"'),
    ('late = "drop"\narrived = "loaded"\n', "arrived", "column loaded is not declared", "loaded_at"),
    ('late = "drop"\narrived = "visited_on"\n', "arrived", "no row of it is ever late", "leaving out"),
    ('late = "drop"\narrived = "cost"\n', "arrived", "column cost is INTEGER, not a date or a time", "DATE or TIMESTAMP"),
]


@pytest.mark.parametrize(("lines", "at", "says", "try_"), MISTAKES, ids=[f"{case[0]}"[:60] for case in MISTAKES])
def test_a_mistake_is_located(policy: Path, lines: str, at: str, says: str, try_: str) -> None:
    policy.write_text(policy.read_text().replace(DROPPED, lines))
    with pytest.raises(PolicyError) as caught:
        connected(policy)
    assert says in caught.value.reason and try_ in str(caught.value.try_)
    assert caught.value.span is not None and caught.value.text[caught.value.span.start:].startswith(at)


def test_late_says_nothing_of_a_table_that_does_not_grow(policy: Path) -> None:
    text = policy.read_text().replace('grows_by = "visited_on"\nperiod = "month"\nsince = 2025-01-01\ncloses = "5 days"\n', "")
    with pytest.raises(PolicyError, match="there is no grows_by"):
        parse_policy(text.replace("rows_per_entity_and_period = 4\n", ""))


def test_the_owner_sees_how_many_rows_of_each_period_were_late(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded(policy, [(person, dt.date(2025, 3, 2), at) for person in range(4) for at in LATE])
    loaded(policy, [(person, dt.date(2025, 5, 2), dt.datetime(2025, 6, 6)) for person in range(3)])
    cli.main(["check", "--rows", "--json", "--policy", str(policy)])
    growth, = json.loads(capsys.readouterr().out)["growth"]
    assert dict(zip([name for name, _ in growth["periods"]], growth["late"], strict=True)) == {f"2025-0{month}": {3: 16, 5: 3}.get(month, 0) for month in range(1, 7)}
    assert dict(growth["periods"])["2025-03"] == 96
    assert cli.main(["check", "--rows", "--policy", str(policy)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "19 rows" in told and "arrived when their month was closed, or at no known time, and are not read" in told
