"""`dpsql check --rows`: each defect that is planted is told, exactly, to the owner; and nothing of it is kept or reached otherwise."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.policies import policy_of, typed

import dpsql
from dpsql import cli
from dpsql.audit.policy_on_rows import PolicyOnRows, policy_on_rows
from dpsql.catalog.policy import read_policy
from dpsql.demo import folder as demo
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.declarations.growth import KINDS, PeriodKind, name_of, period_of

POLICY = policy_of("people", """
health = { values = ["excellent", "good", "poor"], nullable = false }
town = { values_from = "towns.town" }
site = { range = [1, 6], nullable = false }
born = { range = [1900-01-01, 2020-12-31] }
seen = { bounds = [2000-01-01, 2030-12-31] }
active = { nullable = false }
income = { bounds = [0, 200], nullable = false }
""", """
[tables.towns]
public = true
[tables.towns.columns]
town = {}
[tables.visits]
key = "visit"
foreign_keys = [{ columns = "person", references = "people(id)" }]
rows_per_entity = 4
[tables.visits.columns]
visit = {}
person = {}
cost = { bounds = [0, 100] }
[tables.bills]
foreign_keys = [{ columns = "visit", references = "visits(visit)" }]
rows_per_entity = 8
[tables.bills.columns]
visit = {}
[tables.friends]
foreign_keys = [{ columns = "a", references = "people(id)" }, { columns = "b", references = "people(id)" }]
[tables.friends.columns]
a = {}
b = {}
""", budget="main", price="epsilon = 1", database="shop.duckdb")
PEOPLE = """SELECT i AS id, ['excellent', 'good', 'poor'][1 + i % 3] AS health, ['x', 'y'][1 + i % 2] AS town, 1 + i % 6 AS site,
    DATE '1980-01-01' + CAST(i AS INTEGER) AS born, TIMESTAMP '2010-01-01 10:00:00' AS seen, i % 2 = 0 AS active, i / 1.0 AS income
    FROM range(200) t(i)"""
TABLES = {
    "towns": "SELECT unnest(['x', 'y']) AS town",
    "people": PEOPLE,
    "visits": "SELECT i AS visit, i % 200 AS person, i % 100 / 1.0 AS cost FROM range(500) t(i)",
    "bills": "SELECT i AS visit FROM range(500) t(i)",
    "friends": "SELECT i AS a, (i + 1) % 200 AS b FROM range(200) t(i)",
}


def built(folder: Path, policy: str = POLICY, files: str = "", spoil: str = "") -> Path:
    """A project: a database with keys, or files without. `spoil` changes its rows first."""
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / ("made.duckdb" if files else "shop.duckdb"))) as connection:
        for name, rows in TABLES.items():
            connection.execute(f"CREATE TABLE {name} AS {rows}")
        connection.execute(spoil)
        for name in TABLES if files else ():
            policy = policy.replace(f"[tables.{name}]\n", f'[tables.{name}]\nsource = "{name}.{files}"\n')
            if files == "csv":
                policy = typed(policy, name, {column: kind for column, kind, *_ in connection.execute(f"DESCRIBE {name}").fetchall()})
            connection.execute(f"COPY {name} TO '{folder / name}.{files}'")
        for name, key in () if files else (("people", "id"), ("visits", "visit")):
            if not connection.execute(f"SELECT 1 FROM {name} GROUP BY {key} HAVING COUNT(*) > 1 OR {key} IS NULL").fetchall():
                connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({key})")
    path = folder / "dpsql.toml"
    path.write_text(policy.replace('database = "shop.duckdb"\n', "") if files else policy, encoding="utf-8")
    return path


def found(path: Path) -> PolicyOnRows:
    policy = read_policy(path)
    return policy_on_rows(policy, [*policy.budgets.values()], None)


def replaced(*pairs: tuple[str, str]) -> str:
    text = POLICY
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("files", ["", "parquet"])
def test_rows_that_suit_the_policy_are_counted_and_nothing_is_suspected(files: str, tmp_path: Path) -> None:
    made = found(built(tmp_path, files=files))
    assert made.suspicions == ()
    visits = next(one for one in made.entities if one.table == "visits")
    assert (visits.rows, visits.nobodys, visits.entities, visits.half, visits.most99, visits.most, visits.limit, visits.beyond) == (
        500, 0, 200, 2, 3, 3, 4, 0)
    bills, friends = (next(one for one in made.entities if one.table == name) for name in ("bills", "friends"))
    assert (bills.entities, bills.most) == (200, 3), "along two foreign keys"
    assert (friends.entities, friends.most, friends.limit) == (200, 2, None), "a row of two belongs to both"
    assert {key.key: (key.nulls, key.broken) for key in made.keys if key.table == "visits"} == {
        "key visit": (0, 0), "person -> people": (0, 0)}
    income = next(one for one in made.columns if one.column == "income")
    assert income.middle == (1.0, 197.0) and income.declared == "bounds [0, 200]"


PLANTED: list[tuple[str, str, list[str]]] = [
    # of the rows
    ("", "UPDATE visits SET person = NULL WHERE visit < 50", [
        "visits(person) is NULL in 50 rows (10 %), which therefore belong to no entity", "50 rows (10 %) of visits have no owner, and are not read",
        "50 rows (10 %) of bills have no owner, and are not read"]),
    ("", "UPDATE visits SET person = 1000 WHERE visit = 7", ["visits(person) references no row of people in 1 row (0.2 %)"]),
    ("", "UPDATE bills SET visit = 1000 WHERE visit < 10", [
        "bills(visit) references no row of visits in 10 rows (2 %)", "10 rows (2 %) of bills have no owner, and are not read"]),
    ("", "UPDATE visits SET person = 3 WHERE visit < 50", [
        "rows_per_entity = 4 of visits leaves out 48 rows (9.6 %); 99 % of entities have 3 at most",
        "rows_per_entity = 8 of bills leaves out 44 rows (8.8 %); 99 % of entities have 3 at most"]),
    ("", "UPDATE people SET health = 'odd' WHERE id < 30", ["people.health: 30 rows (15 %) lie outside values (3): 'odd' (30)"]),
    ("", "UPDATE people SET health = 'excelent' WHERE health = 'excellent'", [
        "people.health: no row has the declared value 'excellent', and 67 rows (33.5 %) have 'excelent': a spelling mistake?",
        "people.health: 67 rows (33.5 %) lie outside values (3): 'excelent' (67)"]),
    ("", "UPDATE people SET health = 'Good ' WHERE health = 'good'", [
        "people.health: no row has the declared value 'good', and 67 rows (33.5 %) have 'Good ': a spelling mistake?",
        "people.health: 67 rows (33.5 %) lie outside values (3): 'Good ' (67)"]),
    ("", "UPDATE people SET town = 'z' WHERE id < 50", ["people.town: 50 rows (25 %) lie outside values_from towns.town: 'z' (50)"]),
    ("", "UPDATE people SET site = NULL WHERE id = 1", ["people.site is declared free of NULL, and is NULL in 1 row (0.5 %)"]),
    ("", "UPDATE people SET income = 'nan' WHERE id = 1", ["people.income is declared free of NULL, and is NULL in 1 row (0.5 %)"]),
    ("", "UPDATE people SET active = NULL WHERE id < 3", ["people.active is declared free of NULL, and is NULL in 3 rows (1.5 %)"]),
    ("", "UPDATE people SET site = 7 WHERE id < 20", ["people.site: 20 rows (10 %) lie outside range [1, 6]: '7' (20)"]),
    ("", "UPDATE people SET income = 1e300 WHERE id < 20", ["people.income: 20 rows (10 %) lie outside bounds [0, 200]"]),
    ("", "UPDATE people SET born = '1800-01-01' WHERE id < 20", [
        "people.born: 20 rows (10 %) lie outside range [1900-01-01, 2020-12-31]: '1800-01-01' (20)"]),
    ("", "UPDATE people SET seen = '2030-12-31 00:00:01' WHERE id < 20", ["people.seen: 20 rows (10 %) lie outside bounds [2000-01-01, 2030-12-31]"]),
    ("", "UPDATE people SET income = income / 1000", [
        "people.income: bounds [0, 200] is more than 100 times as wide as 99 % of the values need, at most 0.197: noise grows with it"]),
    ("", "DELETE FROM friends", ["friends has no rows"]),
    # of keys, which a connection refuses
    ("parquet", "INSERT INTO people SELECT * FROM people WHERE id < 3", [
        "people(id) is declared as a key, and 3 rows (1.48 %) repeat it: a connection refuses such a file",
        "people.id, the key of person, is not one row per entity: 203 rows have 200 values, and all rows of one are one person"]),
    ("csv", "INSERT INTO visits SELECT * FROM visits WHERE visit < 3", [
        "visits(visit) is declared as a key, and 3 rows (0.596 %) repeat it: a connection refuses such a file"]),
    ("", "INSERT INTO people SELECT * FROM people WHERE id < 3", [
        "people(id) is declared as a key, and 3 rows (1.48 %) repeat it: a connection refuses such a file",
        "people.id, the key of person, is not one row per entity: 203 rows have 200 values, and all rows of one are one person"]),
    ("parquet", "UPDATE visits SET visit = NULL WHERE visit = 7", [
        "visits(visit) is declared as a key, and is NULL in 1 row (0.2 %): they are not read",
        "bills(visit) references no row of visits in 1 row (0.2 %)"]),
]


@pytest.mark.parametrize(("files", "spoil", "told"), PLANTED, ids=[f"{case[0]} {case[1]}"[:60] for case in PLANTED])
def test_a_defect_of_the_rows_is_told(files: str, spoil: str, told: list[str], tmp_path: Path) -> None:
    made = found(built(tmp_path, files=files, spoil=spoil))
    assert [*made.errors, *made.suspicions] == told


DECLARED = [
    ([('[entities.person]\ntable = "people"\nkey = "id"', '[entities.person]\ntable = "people"\nkey = "site"')], [
        "rows_per_entity = 4 of visits leaves out 476 rows (95.2 %); 99 % of entities have 85 at most",
        "rows_per_entity = 8 of bills leaves out 452 rows (90.4 %); 99 % of entities have 85 at most",
        "people.site, the key of person, is not one row per entity: 200 rows have 6 values, and all rows of one are one person",
        "people.site, the key of person, has 6 values: too few to protect anybody"]),
    ([('[entities.person]\ntable = "people"\nkey = "id"', '[entities.person]\ntable = "people"\nkey = "health"')], [
        "rows_per_entity = 4 of visits leaves out 488 rows (97.6 %); 99 % of entities have 168 at most",
        "rows_per_entity = 8 of bills leaves out 476 rows (95.2 %); 99 % of entities have 168 at most",
        "people.health, the key of person, is not one row per entity: 200 rows have 3 values, and all rows of one are one person",
        "people.health, the key of person, has 3 values: too few to protect anybody"]),
    ([("rows_per_entity = 4", "rows_per_entity = 1")], [
        "rows_per_entity = 1 of visits leaves out 300 rows (60 %); 99 % of entities have 3 at most"]),
    ([("rows_per_entity = 4", "rows_per_entity = 40")], [
        "rows_per_entity = 40 of visits is more than 10 times the largest number of rows of any person, 3: noise grows with the limit"]),
    ([('"excellent", "good"', '"exellent", "good"')], [
        "people.health: no row has the declared value 'exellent', and 67 rows (33.5 %) have 'excellent': a spelling mistake?",
        "people.health: 67 rows (33.5 %) lie outside values (3): 'excellent' (67)"]),
    ([("bounds = [0, 100]", "bounds = [10, 20]")], ["visits.cost: 445 rows (89 %) lie outside bounds [10, 20]"]),
    ([("bounds = [0, 100]", "bounds = [-1e6, 100]")], [
        "visits.cost: bounds [-1000000.0, 100] is more than 100 times as wide as 99 % of the values need, at most 98: noise grows with it"]),
]


@pytest.mark.parametrize(("pairs", "told"), DECLARED, ids=[case[0][0][1][-40:] for case in DECLARED])
def test_a_defect_of_the_policy_is_told(pairs: list[tuple[str, str]], told: list[str], tmp_path: Path) -> None:
    policy = replaced(*pairs)
    assert list(found(built(tmp_path, policy)).suspicions) == told


HOLDS = replaced(("rows_per_entity = 4", "rows_per_entity = 4\nlimits_hold = true\nrows_per_value = { cost = 6 }"),
                 ('"poor"]', '"poor"], others = false'))


@pytest.mark.parametrize(("spoil", "told"), [
    ("", []),
    ("UPDATE visits SET person = 3 WHERE visit < 5", [
        "rows_per_entity = 4 of visits does not hold, as limits_hold says: 3 rows (0.6 %) are beyond it, so intervals are too narrow"]),
    ("UPDATE visits SET cost = 7 WHERE visit % 100 = 8", [
        "rows_per_value = { cost = 6 } of visits does not hold, as limits_hold says: 4 rows (0.8 %) are beyond it, so intervals are too narrow"]),
    ("UPDATE people SET health = 'fine' WHERE id < 2", [
        "people.health has other values in 2 rows (1 %), which others = false excludes: no answer of a workload counts these"]),
])
def test_what_the_owner_vouches_for_is_compared_with_the_rows(spoil: str, told: list[str], tmp_path: Path) -> None:
    made = found(built(tmp_path, HOLDS, spoil=spoil))
    assert list(made.errors) == told and made.is_fine is not bool(told)


def test_a_table_that_leads_to_no_entity_is_told(tmp_path: Path) -> None:
    policy = replaced(('foreign_keys = [{ columns = "visit", references = "visits(visit)" }]\nrows_per_entity = 8\n', ""))
    made = found(built(tmp_path, policy))
    assert [text.partition(":")[0] for text in made.suspicions] == ["bills cannot be queried"]


def test_a_foreign_key_that_cannot_be_compared_is_told(tmp_path: Path) -> None:
    policy = replaced(("[tables.friends]\nforeign_keys = [", '[tables.friends]\nforeign_keys = [{ columns = "a", references = "towns(town)" }, '))
    made = found(built(tmp_path, policy))
    assert made.suspicions == ("friends(a) cannot be compared with what it references in towns",)


def test_declared_values_that_no_row_has_are_listed_without_suspicion(tmp_path: Path) -> None:
    made = found(built(tmp_path, replaced(('"poor"]', '"poor", "unheard of"]'), ("range = [1, 6]", "range = [1, 8]"))))
    assert made.suspicions == ()
    assert {one.column: one.unused for one in made.columns if one.unused and one.column != "born"} == {
        "health": ("unheard of",), "site": ("7", "8")}


GROWS = replaced(("cost = { bounds = [0, 100] }", "cost = { bounds = [0, 100] }\non = {}"),
                 ("rows_per_entity = 4\n", 'grows_by = "on"\nperiod = "PERIOD"\nsince = 2024-01-10\ncloses = "CLOSES days"\nrows_per_entity_and_period = 4\n'),
                 ('foreign_keys = [{ columns = "visit", references = "visits(visit)" }]\nrows_per_entity = 8\n[tables.bills.columns]\nvisit',
                  'foreign_keys = [{ columns = "person", references = "people(id)" }]\n[tables.bills.columns]\nperson'),
                 ("epsilon = 1\n", "epsilon = 1\nper_period = { epsilon = 0.1 }\n"))
IN_TIME = """ALTER TABLE bills RENAME visit TO person; UPDATE bills SET person = person % 200; ALTER TABLE visits ADD COLUMN "on" {kind};
    UPDATE visits SET "on" = TIMESTAMP '2024-01-01 00:00:00' + to_days(CAST(visit AS INTEGER) * 2) + to_seconds(visit % 2 * 86399);"""


def grown(folder: Path, spoil: str = "", *, kind: str = "DATE", period: str = "month", closes: int = 0, files: str = "") -> PolicyOnRows:
    return found(built(folder, GROWS.replace("PERIOD", period).replace("CLOSES", str(closes)), files=files, spoil=IN_TIME.format(kind=kind) + spoil))


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_S"])
@pytest.mark.parametrize("period", KINDS)
def test_rows_of_a_growing_table_are_counted_by_period(period: PeriodKind, kind: str, tmp_path: Path) -> None:
    made = grown(tmp_path, kind=kind, period=period)
    days = [(visit, dt.date(2024, 1, 1) + dt.timedelta(days=2 * visit)) for visit in range(500)]
    first, last = period_of(period, dt.date(2024, 1, 10)), period_of(period, dt.datetime.now(dt.UTC).date()) - 1
    numbers = Counter(period_of(period, day) for _, day in days)
    each = Counter((visit % 200, period_of(period, day)) for visit, day in days if first <= period_of(period, day) <= last)
    (growth,) = made.growth
    assert growth.periods == tuple((name_of(period, number), numbers[number]) for number in range(first, last + 1))
    assert (growth.table, growth.entity, growth.column, growth.period, growth.rows) == ("visits", "person", "on", period, 500)
    assert growth.early == sum(rows for number, rows in numbers.items() if number < first)
    assert growth.open == sum(rows for number, rows in numbers.items() if number > last)
    assert (growth.most, growth.limit, growth.beyond, growth.nulls) == (max(each.values()), 4, 0, 0)
    assert made.suspicions == (() if growth.early <= 5 else (
        f"visits.on: {growth.early} rows ({growth.early / 5:.3g} %) lie before the first {period}, that of since = 2024-01-10, and are not read",))


def test_a_period_is_counted_as_soon_as_it_is_closed(tmp_path: Path) -> None:
    today = dt.datetime.now(dt.UTC).date()
    spoil = f"""UPDATE visits SET "on" = DATE '{today}' - CAST(visit % 10 AS INTEGER);"""
    for closes in (0, 3, 9):
        (growth,) = grown(tmp_path / str(closes), spoil, period="day", closes=closes).growth
        assert growth.periods[-1] == (str(today - dt.timedelta(days=1 + closes)), 50 if closes < 9 else 0)
        assert growth.open == 50 * (1 + closes)


DEFECTS_IN_TIME = [
    ('UPDATE visits SET "on" = NULL WHERE visit < 50;', ["visits.on is NULL in 50 rows (10 %), which belong to no period, and are not read"]),
    ("""UPDATE visits SET "on" = '1999-12-31' WHERE visit < 50; UPDATE visits SET "on" = '-infinity' WHERE visit = 50;""", [
        "visits.on: 51 rows (10.2 %) lie before the first month, that of since = 2024-01-10, and are not read"]),
    ("""UPDATE visits SET "on" = '2024-03-05', person = visit % 3 WHERE visit < 60;""", [
        "rows_per_entity_and_period = 4 of visits leaves out 48 rows (9.6 %); an entity has up to 20 in one month"]),
]


@pytest.mark.parametrize(("spoil", "told"), DEFECTS_IN_TIME)
def test_a_defect_of_the_periods_is_told(spoil: str, told: list[str], tmp_path: Path) -> None:
    made = grown(tmp_path, spoil)
    assert list(made.suspicions) == told and not made.errors
    words = GROWS.replace("[tables.visits]\n", '[tables.visits]\nexpected = ["nulls", "outside", "limit"]\n').replace("PERIOD", "month").replace("CLOSES", "0")
    meant = found(built(tmp_path / "meant", words, spoil=IN_TIME.format(kind="DATE") + spoil))
    assert meant.is_fine and list(meant.expected) == told


def test_a_limit_in_each_period_that_is_said_to_hold_is_compared_with_the_rows(tmp_path: Path) -> None:
    policy = GROWS.replace("PERIOD", "month").replace("CLOSES", "0").replace("grows_by", "limits_hold = true\ngrows_by")
    made = found(built(tmp_path, policy, spoil=IN_TIME.format(kind="DATE") + """UPDATE visits SET "on" = '2024-03-05', person = 7 WHERE visit < 5;"""))
    assert made.errors == ("rows_per_entity_and_period = 4 of visits does not hold, as limits_hold says: 1 row (0.2 %) are beyond it, so intervals are "
                           "too narrow",)


def test_a_table_none_of_whose_periods_is_closed_is_told(tmp_path: Path) -> None:
    today = dt.datetime.now(dt.UTC).date()
    policy = GROWS.replace("PERIOD", "year").replace("CLOSES", "0").replace("2024-01-10", str(today))
    made = found(built(tmp_path, policy, spoil=IN_TIME.format(kind="DATE") + f"""UPDATE visits SET "on" = '{today}';"""))
    (growth,) = made.growth
    assert (growth.periods, growth.open, growth.most) == ((), 500, 0)
    assert made.suspicions == ("no year of visits is closed yet, so its rows cannot be queried",)
    (growth,) = found(built(tmp_path / "later", policy.replace('"year"', '"day"').replace('"0 days"', '"400 days"'), spoil=IN_TIME.format(kind="DATE")
                            + f"""UPDATE visits SET "on" = DATE '{today}' - CAST(visit % 2 AS INTEGER);""")).growth
    assert (growth.periods, growth.early, growth.open) == ((), 250, 250), "each row once"


def test_the_owner_sees_the_newest_periods_one_by_one(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = grown(tmp_path / "well", period="day")
    (table,) = (table for table in made.tables() if table.title == "Rows in each period")
    today = dt.datetime.now(dt.UTC).date()
    days, earlier = [today - dt.timedelta(days=back) for back in range(24, 0, -1)], today - dt.timedelta(days=25)
    assert [row[1] for row in table.rows] == [f"2024-01-10 to {earlier}", *map(str, days)]
    assert sum(int(row[2].replace(",", "")) for row in table.rows) == sum(rows for _, rows in made.growth[0].periods)
    code, out, _ = run(capsys, "check", "--rows", "--json", "--policy", tmp_path / "well" / "dpsql.toml")
    assert code == 0 and len(json.loads(out)["growth"][0]["periods"]) == len(made.growth[0].periods)
    code, out, _ = run(capsys, "check", "--rows", "--policy", tmp_path / "well" / "dpsql.toml")
    assert code == 0 and "day of on" in out


def test_entities_of_several_kinds_are_counted_together(tmp_path: Path) -> None:
    policy = replaced(("[tables.towns]", '[entities.visit]\ntable = "visits"\nkey = "visit"\n[entities.any]\nany_of = ["person", "visit"]\n[tables.towns]'),
                      ('entity = "person"', 'entity = "any"'), ("rows_per_entity = 4\n", ""), ("rows_per_entity = 8\n", ""))
    made = found(built(tmp_path, policy))
    assert made.suspicions == () and {one.table: one.entities for one in made.entities} == {
        "people": 200, "visits": 700, "bills": 700, "friends": 200}


# -- the command


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main([str(part) for part in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def kept(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPSQL_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def test_the_owner_sees_it_and_the_exit_code_says_whether_all_is_well(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    well, broken = built(tmp_path / "well"), built(tmp_path / "broken", spoil="UPDATE people SET health = 'odd\x1b[2J' WHERE id < 30")
    code, out, err = run(capsys, "check", "--rows", "--policy", well)
    assert (code, err) == (0, "") and "PRIVATE" in out and out.endswith("nothing is suspicious\n") and "people.income" in out
    code, out, err = run(capsys, "check", "--rows", "--policy", broken)
    assert (code, err) == (1, "") and "suspicious: people.health: 30 rows (15 %) lie outside" in out and "\x1b" not in out
    code, out, _ = run(capsys, "check", "--rows", "--json", "--policy", broken)
    told = json.loads(out)
    assert code == 1 and len(told["suspicions"]) == 1 and {"keys", "entities", "columns"} < set(told)
    endless = built(tmp_path / "endless", spoil="UPDATE people SET income = 'inf'")
    code, out, _ = run(capsys, "check", "--rows", "--json", "--policy", endless)
    assert code == 1 and "Infinity" not in out and "200 rows (100 %) lie outside" in out
    for policy in (well, broken):
        code, out, _ = run(capsys, "check", "--policy", policy)
        assert code == 0 and "--rows" in out and "suspicious" not in out and "30" not in out
        code, out, _ = run(capsys, "check", "--json", "--policy", policy)
        assert code == 0 and list(json.loads(out)) == ["budget", "total", "entity", "pace", "tables", "unusable"]


RULES = """[tables.people]
rules = ["income < 190 OR site > 1", "born >= DATE '1900-01-01'", "site DETERMINES town", "income / 2 < 3 OR NOT active", "wages > 0"]
"""


@pytest.mark.parametrize("files", ["", "parquet"])
def test_rows_that_break_a_rule_are_counted(files: str, tmp_path: Path) -> None:
    """Rows on which a rule is unknown do not break it; NULL is one of the values that another column determines."""
    spoil = "UPDATE people SET income = NULL WHERE id = 192; UPDATE people SET town = NULL WHERE id IN (1, 7); UPDATE people SET town = 'y' WHERE id = 0"
    made = found(built(tmp_path, replaced(("[tables.people]\n", RULES)), files=files, spoil=spoil))
    assert [(one.rule.split(" ")[0], one.rows, one.broken, one.fault) for one in made.rules] == [
        ("income", 200, 1, ""), ("born", 200, 0, ""), ("site", 200, 3, ""), ("income", 200, 96, ""), ("wages", 200, 0, "there is no column wages")]
    assert made.errors == ("rule 'wages > 0' of people: there is no column wages",)
    assert [text for text in made.suspicions if "rule" in text] == [
        "rule 'income < 190 OR site > 1' of people does not hold in 1 row (0.5 %), so rows like these are never in a synthetic table",
        "rule 'site DETERMINES town' of people does not hold in 3 rows (1.5 %), so rows like these are never in a synthetic table",
        "rule 'income / 2 < 3 OR NOT active' of people does not hold in 96 rows (48 %), so rows like these are never in a synthetic table"]
    assert set(made.words.values()) >= {"rules"} and any(table.title == "Rules" for table in made.tables())
    fine = found(built(tmp_path / "fine", replaced(("[tables.people]\n", '[tables.people]\nrules = ["site DETERMINES town"]\n'))))
    assert fine.is_fine and [one.broken for one in fine.rules] == [0]
    odd = built(tmp_path / "odd", POLICY.replace("site", "n").replace("[tables.people]\n", '[tables.people]\nrules = ["n DETERMINES town"]\n'),
                spoil="ALTER TABLE people RENAME site TO n; UPDATE people SET town = 'y' WHERE id = 0")
    assert [one.broken for one in found(odd).rules] == [1]
    meant = '[tables.people]\nexpected = ["rules"]\nrules = ["income < 100"]\n'
    expected = found(built(tmp_path / "meant", replaced(("[tables.people]\n", meant))))
    assert expected.is_fine and len(expected.expected) == 1


def test_a_file_that_a_connection_refuses_is_counted(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = built(tmp_path / "twice", files="csv", spoil="INSERT INTO people SELECT * FROM people WHERE id < 3")
    code, _, err = run(capsys, "check", "--policy", policy)
    assert code == 2 and "share the declared key" in err
    code, out, _ = run(capsys, "check", "--rows", "--policy", policy)
    assert code == 1 and "3 rows (1.48 %) repeat it" in out


@pytest.mark.parametrize("files", ["", "parquet"])
def test_nothing_of_it_is_kept(files: str, tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = built(tmp_path / "study", files=files, spoil="UPDATE people SET health = 'canary' WHERE id < 30")
    ReportingLedger.create(policy.with_suffix(".ledger")).close()
    before = kept(tmp_path)
    assert run(capsys, "check", "--rows", "--policy", policy)[0] == 1
    assert kept(tmp_path) == before and not state.exists()


def test_the_demo_is_well(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = demo.export(tmp_path / "study")
    before = kept(tmp_path)
    code, out, err = run(capsys, "check", "--rows", "--policy", policy)
    assert (code, err) == (0, "") and "nothing is suspicious" in out and "7 (0.118 %)" in out
    assert kept(tmp_path) == before


@pytest.mark.parametrize(("more", "reason"), [
    (["--ledger", "dpsql.ledger"], "--rows is for the owner and cannot be combined with --ledger"), (["--analyst", "ada"], "cannot be combined with --analyst"),
    (["--budget", "other"], "there is no budget other"), (["--database", "nowhere.duckdb"], "nowhere.duckdb")])
def test_wrong_options_are_refused(more: list[str], reason: str, tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "--rows", "--policy", built(tmp_path / "study"), *more)
    assert (code, out) == (2, "") and reason in err


def test_no_statement_reaches_it(tmp_path: Path, state: Path) -> None:
    """`lint-imports` holds `dbapi`, `engine` and `audit` apart; and there is no word of SQL for it."""
    policy = built(tmp_path / "study")
    ReportingLedger.create(policy.with_suffix(".ledger")).close()
    with dpsql.connect(policy=policy, epsilon=0.1, analyst="ada") as connection:
        for text in ("SHOW ROWS", "CHECK ROWS", "CHECK people", "DESCRIBE ROWS people", "SHOW CHECK", "EXPLAIN CHECK ROWS"):
            with pytest.raises(dpsql.Error):
                connection.execute(text)
        faces: list[Any] = [connection, connection.cursor(), connection.session, connection.session.kernel]
        assert not [name for face in faces for name in dir(face) if "on_rows" in name or "check_rows" in name]
