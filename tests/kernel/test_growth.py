"""Tables that grow: how time is cut into periods, what a statement says that it reads, and which rows the scan of a period gives."""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.forged import tampered
from support.laws.bad_worlds import crowded
from support.laws.family import shown
from support.laws.growing import POLICY, TIMES, Growing, GrowingBuilder, GrowingWorld, growing_tables, grown
from support.sessions import open_ledger, session_of
from support.stores import stored

from dpsql.backends import duckdb as engines
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import open_files
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.server.link.plain_values import decoded, encoded
from dpsql.trusted.accounting.cost import Charge, Cost, concentrated, pure
from dpsql.trusted.declarations.growth import (
    EARLIEST,
    KINDS,
    LATEST,
    Growth,
    PeriodKind,
    PeriodRange,
    first_day,
    name_of,
    period_of,
)
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.claims import Disagreement
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.reading import content
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import InvalidPlan, Node, Printing
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Clipped, Count
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type

DAY = dt.timedelta(days=1)
Rows = Counter[str]


# -- calendars


@pytest.mark.parametrize("kind", KINDS)
def test_every_day_lies_in_one_period_and_periods_follow_each_other(kind: PeriodKind) -> None:
    """Every day of some centuries, so with leap years, centuries that are none, and weeks across years."""
    day, number = dt.date(1899, 12, 1), period_of(kind, dt.date(1899, 12, 1))
    while day < dt.date(2105, 1, 1):
        found = period_of(kind, day)
        assert found in (number, number + 1) and first_day(kind, found) <= day < first_day(kind, found + 1)
        assert (found > number) is (first_day(kind, found) == day) or day == dt.date(1899, 12, 1)
        assert period_of(kind, first_day(kind, found)) == found
        day, number = day + DAY, found


@pytest.mark.parametrize(("kind", "day", "first", "name"), [
    ("month", dt.date(2020, 2, 29), dt.date(2020, 2, 1), "2020-02"), ("month", dt.date(2026, 12, 31), dt.date(2026, 12, 1), "2026-12"),
    ("quarter", dt.date(2020, 2, 29), dt.date(2020, 1, 1), "2020-Q1"), ("quarter", dt.date(2026, 12, 31), dt.date(2026, 10, 1), "2026-Q4"),
    ("year", dt.date(2020, 2, 29), dt.date(2020, 1, 1), "2020"), ("day", dt.date(2020, 2, 29), dt.date(2020, 2, 29), "2020-02-29"),
    ("week", dt.date(2020, 2, 29), dt.date(2020, 2, 24), "week of 2020-02-24"),
    ("week", dt.date(2021, 1, 1), dt.date(2020, 12, 28), "week of 2020-12-28"),
    ("week", dt.date(2024, 1, 1), dt.date(2024, 1, 1), "week of 2024-01-01")])
def test_periods_have_the_days_that_people_expect(kind: PeriodKind, day: dt.date, first: dt.date, name: str) -> None:
    assert first_day(kind, period_of(kind, day)) == first and name_of(kind, period_of(kind, day)) == name


def test_weeks_are_those_of_iso_8601() -> None:
    for day in (dt.date(2015, 12, 20) + i * DAY for i in range(4000)):
        start = first_day("week", period_of("week", day))
        assert start.isoweekday() == 1 and start.isocalendar()[:2] == day.isocalendar()[:2]


def test_numbers_of_periods_of_different_kinds_are_never_equal() -> None:
    """Accounts are kept by these numbers alone, so that those of another calendar must be others."""
    ranges = sorted((period_of(kind, EARLIEST), period_of(kind, LATEST)) for kind in KINDS)
    assert all(end < start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False))


def test_a_period_is_closed_so_many_days_after_its_end() -> None:
    grows = Growth(column="at", period="month", since=0, closes=5)
    march = period_of("month", dt.date(2026, 3, 1))
    for moment, newest in ((dt.datetime(2026, 4, 5, 23, 59, 59, 999999), march - 1), (dt.datetime(2026, 4, 6), march),
                           (dt.datetime(2026, 5, 5, 12), march), (dt.datetime(2026, 5, 6), march + 1)):
        assert grows.last_closed(moment.replace(tzinfo=dt.UTC)) == newest


# -- what is stated


def between(kind: PeriodKind, first: int, last: int, steps: Any = 2) -> PeriodReads:
    return PeriodReads(periods=PeriodRange(period=kind, first=first, last=last), steps=steps)


@pytest.mark.parametrize("reads", [between("month", 24314, 24314, 1), between("day", 737484, 737499), between("week", 105354, 105354),
                                   between("year", 1900, 2999), between("quarter", 8080, 8080, 1)], ids=str)
def test_what_is_read_comes_back_from_its_text(reads: PeriodReads) -> None:
    assert PeriodReads.from_text(str(reads)) == reads == PeriodReads.from_text(f"{reads} sha256:12 x")


@pytest.mark.parametrize("text", ["", "v1", "period", "periods", "sha256:periods month 1 1 1", " periods month 24314 24314 1"])
def test_other_texts_state_no_periods(text: str) -> None:
    assert PeriodReads.from_text(text) is None


@pytest.mark.parametrize("text", [
    "periods ", "periods month", "periods month 24314", "periods month 24314 24314", "periods month 24315 24314 1", "periods month a b 1",
    "periods month 24314 24314 0", "periods month 24314 24314 3", "periods month 24314 24314 x", "periods decade 202 202 1",
    "periods month 24314 24314 1.0", "periods month 24314 24314 -1", "periods  month 24314 24314 1", "periods month 1 1 1",
    "periods month 24314 99999999999999 2", "periods month -5 24314 2", "periods day 24314 24314 1", "periods month 24314 24314 1\n",
    "periods month +24314 24314 1", "periods month 24_314 24314 1", "periods month 024314 24314 1",
    "periods month \u0662\u0664\u0663\u0661\u0664 24314 1", "periods month 24314 24315 1"])
def test_a_text_that_only_begins_like_periods_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        PeriodReads.from_text(text)


STATED = PeriodReads(periods=PeriodRange(period="month", first=24314, last=24316), steps=2, stated=(
    (1, Charge(epsilon=3, rho=2, delta=1)), (2, Charge(epsilon=None, rho=7, delta=0))))
TEXT = "periods month 24314 24316 2"


def test_a_stated_charge_comes_back_from_its_text_and_is_charged_in_its_periods() -> None:
    for reads in (STATED, replace(STATED, stated=((3, Charge(epsilon=0, rho=0, delta=0)),)),
                  replace(between("month", 24314, 24314), stated=((1, Charge(epsilon=2**63 - 1, rho=2**63 - 1, delta=10**18)),))):
        assert PeriodReads.from_text(str(reads)) == reads == PeriodReads.from_text(f"{reads} closed")
    assert str(STATED) == f"{TEXT} each=1*3:2:1,2*-:7:0"
    numbers, charges = zip(*STATED.charges(Charge(epsilon=100, rho=100, delta=100)), strict=True)
    assert numbers == (range(24314, 24315), range(24315, 24317)) and charges == tuple(charge for _, charge in STATED.stated)
    assert PeriodReads.from_text(f"{TEXT} closed each=3*0:0:0") == between("month", 24314, 24316), "a version that is named so states nothing"


@pytest.mark.parametrize("stated", [
    "", "3", "3*", "*1:1:1", "3*1:1", "3*1:1:1:1", "3*1:1:1,", ",3*1:1:1", "2*1:1:1", "4*1:1:1", "2*1:1:1,2*1:1:1", "3*1:1:1,0*1:1:1", "0*1:1:1,3*1:1:1",
    "4*1:1:1,-1*1:1:1", "3*-1:1:1", "3*1:-1:1", "3*1:1:-1", "3*1:-:1", "3*1:1:-", "3*:1:1", "3*--:1:1", "3*-0:1:1", "3*1:-0:1", "3*+1:1:1", "03*1:1:1",
    "3*01:1:1", "3*1_0:1:1", "3*1.0:1:1", "3*1e1:1:1", "3*0x1:1:1", "3*nan:1:1", "3*inf:1:1", "3*None:1:1", "3*\u0661:1:1", "\u0663*1:1:1", "3*1:1:1\n",
    "3*1:1:1\t", "3*1:1:1\u00a0", "3*1:1:1;", "3*1:1:1each=", f"3*{'9' * 5000}:1:1", f"3*1:{'9' * 5000}:1", f"{'9' * 5000}*1:1:1",
    f"{10**30}*1:1:1", f"3*{'9' * 400}:1:1", f"3*{2**63}:1:1", f"3*1:{2**63}:1"])
def test_a_text_that_states_other_charges_is_refused(stated: str) -> None:
    with pytest.raises(ValueError):
        PeriodReads.from_text(f"{TEXT} each={stated}")


def test_charges_are_stated_only_where_they_are_not_those_in_all() -> None:
    for text in ("periods month 24314 24314 1 each=1*1:1:1", f"{TEXT.replace('24316', '24315')} each=3*1:1:1"):
        with pytest.raises(ValueError):
            PeriodReads.from_text(text)


def test_periods_read_together_take_two_steps() -> None:
    march, april = between("month", 24314, 24314, 1), between("month", 24315, 24315, 1)
    assert march.joined(march) == march and march.joined(between("month", 24314, 24314)) == between("month", 24314, 24314)
    assert march.joined(april) == april.joined(march) == between("month", 24314, 24315)
    assert march.joined(between("month", 24320, 24320, 1)) == between("month", 24314, 24320)
    with pytest.raises(ValueError):
        march.joined(between("year", 2026, 2026, 1))


def test_what_was_charged_contains_less() -> None:
    charged = between("month", 24310, 24320)
    assert charged in charged and between("month", 24310, 24310, 1) in charged and between("month", 24320, 24320) in charged
    assert between("month", 24309, 24310) not in charged and between("month", 24320, 24321) not in charged
    assert between("quarter", 24310, 24310) not in charged
    assert between("month", 24310, 24310) not in between("month", 24310, 24310, 1)


def test_two_steps_are_charged_twice_epsilon_and_four_times_rho() -> None:
    one, two = between("month", 24314, 24314, 1), between("month", 24314, 24314)
    for cost in (pure(Fraction(1, 3)), concentrated(Fraction(1, 7)), concentrated(Fraction(1, 8), Fraction(1, 10**6)),
                 pure(Fraction(5)) + concentrated(Fraction(1, 2))):
        charge = cost.rounded()
        twice = None if charge.epsilon is None else 2 * charge.epsilon
        (numbers, once), (_, more) = (run for reads in (one, two) for run in reads.charges(charge))
        assert numbers == range(24314, 24315) and once == charge and once.renyi == charge.renyi
        assert more == Charge(epsilon=twice, rho=4 * charge.rho, delta=charge.delta)
        assert more.renyi == Charge(epsilon=twice, rho=4 * charge.rho, delta=charge.delta).renyi
        assert one.can_cost(cost) and two.can_cost(cost) is (cost.delta == 0)
    (_, summed), = two.charges((pure(Fraction(1)) + pure(Fraction(2))).rounded())
    assert summed.renyi == pure(Fraction(6)).rounded().renyi
    assert not two.can_cost(Cost(epsilon=None, rho=Fraction(0), delta=Fraction(1, 10**30)))


# -- the rows of a period


def moments(kind: PeriodKind, number: int) -> Iterator[dt.datetime]:
    """The ends of a period, and moments around them."""
    start, end = (dt.datetime.combine(first_day(kind, each), dt.time()) for each in (number, number + 1))
    for moment in (start, end):
        yield from (moment - dt.timedelta(microseconds=1), moment, moment + dt.timedelta(microseconds=1),
                    moment - DAY, moment + DAY / 2, moment - dt.timedelta(milliseconds=1), moment - dt.timedelta(seconds=1))


BEYOND = {"DATE": ["DATE 'infinity'", "DATE '-infinity'", "DATE '5877642-06-25 (BC)'", "DATE '5881580-07-10'", "DATE '0044-03-15 (BC)'"],
          "TIMESTAMP": ["TIMESTAMP 'infinity'", "TIMESTAMP '-infinity'", "TIMESTAMP '290309-12-22 (BC)'", "TIMESTAMP '294247-01-10 04:00:54'"],
          "TIMESTAMP_NS": ["TIMESTAMP_NS '1677-09-22 00:00:00'", "TIMESTAMP_NS '2262-04-11 23:47:16.854775806'"],
          "TIMESTAMP_S": ["CAST(TIMESTAMP 'infinity' AS TIMESTAMP_S)", "TIMESTAMP_S '290000-01-01 00:00:00'"],
          "TIMESTAMP_MS": ["CAST(TIMESTAMP '-infinity' AS TIMESTAMP_MS)", "TIMESTAMP_MS '290000-01-01 00:00:00'"],
          "TIMESTAMPTZ": ["TIMESTAMPTZ 'infinity'", "TIMESTAMPTZ '-infinity'"]}
ROUNDED = {"DATE": lambda at: at.replace(hour=0, minute=0, second=0, microsecond=0),
           "TIMESTAMP_S": lambda at: at.replace(microsecond=0), "TIMESTAMP_MS": lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type_", BEYOND)
def test_a_scan_gives_exactly_the_rows_of_its_periods(type_: str, kind: PeriodKind) -> None:
    """Against a definition in Python: the first and the last day of a period decide, of the value as it is stored."""
    middle = period_of(kind, dt.date(2020, 2, 29))
    values = {at for number in range(middle - 3, middle + 4) for at in moments(kind, number)}
    stored_at = {ROUNDED.get(type_, lambda at: at)(at) for at in values}
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute(f"SET TimeZone = 'UTC'; CREATE TABLE people (person INTEGER PRIMARY KEY); CREATE TABLE log (person INTEGER, moment {type_})")
    connection.executemany("INSERT INTO log VALUES (?, ?)", [(i % 5, at) for i, at in enumerate(sorted(stored_at))])
    if type_ == "TIMESTAMP_NS":
        connection.execute("INSERT INTO log SELECT 7, moment + INTERVAL 0 SECOND FROM log")
        edge = dt.datetime.combine(first_day(kind, middle + 1), dt.time())
        connection.execute(f"INSERT INTO log VALUES (8, make_timestamp_ns(epoch_ns(TIMESTAMP '{edge}') - 1))")
    connection.execute(f"INSERT INTO log VALUES {', '.join(f'(9, {beyond})' for beyond in ['NULL', *BEYOND[type_]])}, (NULL, NULL)")
    table = _log_of(connection, type_)
    for first, last in ((middle, middle), (middle - 1, middle + 1), (middle + 1, middle + 2), (middle + 40, middle + 41)):
        grown_table = replace(table, growth=Growth(column="moment", period=kind, since=middle - 9))
        scan = Scan(table=grown_table, columns=(("o", "person"), ("t", "moment")), owners=("o",), periods=PeriodRange(period=kind, first=first, last=last))
        found = connection.execute(scan.render((), Printing())).fetchall()
        everyone = connection.execute("SELECT person, TRY_CAST(moment AS TIMESTAMP) FROM log WHERE person IS NOT NULL AND person <> 9").fetchall()
        wanted = [(person, at) for person, at in everyone if first <= period_of(kind, at.date()) <= last]
        assert Counter((person, dt.datetime.combine(at, dt.time()) if type(at) is dt.date else at) for person, at in found) == Counter(wanted)
        assert wanted or first > middle + 9


def test_a_nanosecond_belongs_to_the_period_of_the_nearest_microsecond() -> None:
    """Queries see the time so, and each row is in one period."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("CREATE TABLE people (person INTEGER PRIMARY KEY); CREATE TABLE log (person INTEGER, moment TIMESTAMP_NS); INSERT INTO log "
                       "VALUES (1, '2020-02-29 23:59:59.999999999'), (2, '2020-03-01 00:00:00'), (3, '2020-03-31 23:59:59.999999999'), (4, '2020-02-29 23:59:59.999999499')")
    march = period_of("month", dt.date(2020, 3, 1))
    table = replace(_log_of(connection, "TIMESTAMP_NS"), growth=Growth(column="moment", period="month", since=march))
    found = [sorted(connection.execute(Scan(table=table, columns=(), owners=("o",), periods=PeriodRange(
        period="month", first=number, last=number)).render((), Printing())).fetchall()) for number in range(march - 1, march + 2)]
    assert found == [[(4,)], [(1,), (2,)], [(3,)]]


def _log_of(connection: duckdb.DuckDBPyConnection, type_: str) -> Table:
    policy = parse_policy("""version = 1
[entities.person]
table = "people"
key = "person"
[tables.people]
key = "person"
[tables.people.columns]
person = {}
[tables.log]
foreign_keys = [{ columns = "person", references = "people(person)" }]
[tables.log.columns]
person = {}
moment = {}
[budgets.person]
entity = "person"
epsilon = 1
""")
    found = fit(policy, "person", DuckReader(connection, "v1").schema(), {}).tables["log"]
    assert found.columns["moment"].type is (Type.DATE if type_ == "DATE" else Type.TIMESTAMP)
    return found


def test_a_growing_table_is_read_in_periods_of_its_kind_alone(session: Session) -> None:
    visits = growing_tables(session.catalog, Growing(period="month")).tables["visits"]
    month, year = (PeriodRange(period=kind, first=first, last=first) for kind, first in (("month", 24242), ("year", 2020)))
    for table, periods in ((visits, None), (visits, year), (session.catalog.tables["visits"], month)):
        scan = Scan(table=table, columns=(("v", "visit_id"),), owners=("o",), periods=periods)
        with pytest.raises(InvalidPlan):
            stability(scan, session.kernel)
        with pytest.raises((Disagreement, InvalidPlan)):
            session.kernel._claims.relation(scan)
    for broken in (replace(visits, public=True, owners=()), replace(visits, growth=replace(visits.growth, column="clinic")),
                   replace(visits, growth=replace(visits.growth, column="nowhere"))):
        with pytest.raises((Disagreement, InvalidPlan)):
            session.kernel._claims.relation(Scan(table=broken, columns=(("v", "visit_id"),), owners=() if broken.public else ("o",), periods=month))
    session.kernel._claims.relation(Scan(table=visits, columns=(("v", "visit_id"),), owners=("o",), periods=month))


@pytest.mark.parametrize("forged", [
    {"period": "decade"}, {"period": "week"}, {"first": 24244}, {"first": 1}, {"first": 24242.0}, {"first": True}, {"last": 10**6}, {"last": None},
    {"first": 22799}, {"last": 36000}], ids=str)
def test_a_request_takes_no_forged_periods(forged: dict[str, Any], session: Session) -> None:
    visits = growing_tables(session.catalog, Growing(period="month")).tables["visits"]
    scan = Scan(table=visits, columns=(("v", "visit_id"),), owners=("o",), periods=PeriodRange(period="month", first=24242, last=24243))
    assert copied_request(scan) == scan == decoded(encoded(scan, {"visits": visits}), lambda name, columns: visits)
    tampered(scan.periods, **forged)
    with pytest.raises((Disagreement, TypeError, ValueError)):
        session.kernel._claims.relation(copied_request(scan))


# -- rows of other periods change nothing


GROWING = Growing(period="month")
SPANS = [(first, last) for first in GROWING.numbers for last in GROWING.numbers if first <= last < GROWING.numbers[0] + 3]


def altered(world: GrowingWorld, first: int, last: int, seed: int) -> GrowingWorld:
    """The same rows in these periods, and other rows in all others: fewer, more (many of one person), with other values."""
    draw, rows = random.Random(seed), {table: list(found) for table, found in world.rows.items()}
    outside = [None, dt.datetime.combine(first_day("month", first), dt.time()) - dt.timedelta(microseconds=1),
               dt.datetime.combine(first_day("month", last + 1), dt.time()), dt.datetime(2035, 1, 1), dt.datetime(1950, 1, 1)]
    for table, (_, at) in TIMES.items():
        kept = [row for row in rows[table] if (number := world.period_at(table, row)) is not None and first <= number <= last]
        others = [row for row in rows[table] if row not in kept and draw.random() < 0.5]
        others += [draw.choice(rows[table]) for _ in range(draw.choice([0, 90]))]
        times = [draw.choice(outside) for _ in others]
        numbers = iter(range(1000, 2000))
        loud = draw.choice(world.rows["people"])[0]
        rows[table] = kept + [_changed(table, row, at, time, loud if draw.random() < 0.5 else None, next(numbers), draw)
                              for row, time in zip(others, times, strict=True)]
        draw.shuffle(rows[table])
    return GrowingWorld(rows, world.growing)


def _changed(table: str, row: tuple[Any, ...], at: int, time: dt.datetime | None, person: int | None, number: int, draw: random.Random,
             ) -> tuple[Any, ...]:
    if table == "visits":
        return (number, row[1] if person is None else person, *row[2:4], draw.choice([row[4], 500, None, 9_000_000]), row[5], time)
    return (row[0] if person is None else person, draw.choice([row[1], 7, -2_000_000]), None if time is None else time.date())


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = session_of(tmp_path)
    yield made
    made.kernel.close()


class Readers:
    """A world as a database file, in an engine that keeps rows, and in stores of buckets, of which one has the growing tables in parts; and what
    plans give in each."""

    def __init__(self, world: GrowingWorld, folder: Path, name: str, native: bool) -> None:
        ledger, path = open_ledger(folder), world.save(folder / f"{name}.duckdb")
        in_parts = stored(path, ledger, policy=POLICY, growing=lambda catalog: growing_tables(catalog, world.growing))
        assert {name for name, table in in_parts.stored.items() if table.parts} == world.growing.tables
        readers = [open_files([], database=path, sealed=False), stored(path, ledger, policy=POLICY), in_parts]
        self.sessions = [session_of(folder, reader=reader, ledger=ledger, policy=POLICY) for reader in readers]
        grown_catalog = growing_tables(self.sessions[2].catalog, world.growing)
        assert all(in_parts.stored[name].holds(grown_catalog.tables[name]) for name in world.growing.tables)
        assert {session.kernel._reader.keeps for session in self.sessions[:1]} == {native}

    def rows(self, plan: Node) -> list[Rows]:
        found = []
        for session in self.sessions:
            context = session.kernel._context()
            found.append(Counter(repr([sorted(value) if type(value) is list else value for value in row])
                                 for row in context.rows(plan)))  # type: ignore[arg-type]
        return found

    def text(self, plan: Node) -> str:
        return self.sessions[0].kernel._context().query(plan)[0]

    def close(self) -> None:
        for session in self.sessions:
            session.kernel.close()


def drawn_plans(session: Session, seed: int, first: int, last: int) -> Iterator[Node]:
    """Random plans over these periods, and clipped sums over visits."""
    catalog = growing_tables(session.catalog, GROWING)
    builder, span = GrowingBuilder(random.Random(seed), catalog, session.kernel), PeriodRange(period="month", first=first, last=last)

    def reading(node: Node) -> Node:
        return replace(node, periods=span) if isinstance(node, Scan) and node.periods is not None else node

    with contextlib.suppress(InvalidPlan, ValueError):
        yield from (rebuild(plan, reading) for plan in builder.plans())
    scan = Scan(table=catalog.tables["visits"], columns=(("i", "visit_id"), ("o", "person_id"), ("c", "clinic"), ("y", "cost")), owners=("o",),
                periods=span)
    limited = Truncate(input=scan, rows=2, owner="o", order=("i",))
    yield GroupedSums(input=limited, keys=("c",), summands=(Count(),))
    for rows in (scan, Truncate(input=scan, rows=30, owner="o", order=("i",)), limited):
        given = Contributions(input=rows, owner="o", keys=("c",), summands=(Count(), Count(column="y")))
        clipped = Clip(input=given, owner="o", columns=given.totals, order=1, bound=3)
        yield GroupedSums(input=clipped, keys=("c",), summands=(Clipped(clipped=given.totals),))


@pytest.mark.slow
@pytest.mark.parametrize("native", [True, False], ids=["kept", "read_each_time"])
def test_rows_outside_of_the_periods_change_no_exact_vector(native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    """Nor a text: the facts that it depends on, the most rows of a person and the ends of columns, are of the rows of the periods alone."""
    monkeypatch.setattr(engines, "MANY_ROWS", 1 if native else 10**9)
    in_parts, by_places, otherwise = list[str](), list[Any](), 0
    found, placed = content.in_two_parts, Truncate.by_places
    monkeypatch.setattr(content, "in_two_parts", lambda *args: in_parts.append("") or found(*args))
    monkeypatch.setattr(Truncate, "by_places", lambda self, printing: by_places.append(placed(self, printing)) or by_places[-1])
    compared, moved = 0, 0
    for at, (first, last) in enumerate(SPANS):
        world = grown(crowded(at), GROWING, at)
        (base, *others) = [Readers(made, tmp_path, f"{at} {i}", native) for i, made in enumerate(
            (world, *(altered(world, first, last, seed) for seed in range(2))))]
        for seed in range(max(3, int(12 * effort))):
            for plan in drawn_plans(base.sessions[0], seed, first, last):
                wanted = base.rows(plan)
                otherwise += len({readers.text(plan) for readers in (base, *others)}) > 1
                for readers in others:
                    assert readers.rows(plan) == wanted, f"seed {seed}, periods {first} to {last}\n{shown(plan)}"
                compared += 1
                moved += wanted[0].total() > 0
        for readers in (base, *others):
            readers.close()
    assert moved > compared / 2 > len(SPANS) * 6
    assert in_parts and by_places and set(by_places) == {None}
    assert otherwise == 0
