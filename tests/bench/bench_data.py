"""Generated data for the benchmarks: people with several rows each, keyed by dense integers and by text, and their policies."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from pathlib import Path

import duckdb

from dpsql.answers.answer import Answer
from dpsql.engine.answering import answer
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.preparing import prepare
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.trusted.kernel.ledger import Ledger

CLINICS = 50
WIDE, TIGHT = 1000, 8  # a limit of rows that nobody exceeds, and one that cuts off about half of the rows

POLICY = """
version = 1

[entities.person]
table = "people"
key = "person_id"

[entities.member]
table = "members"
key = "member_code"

[tables.people]
key = "person_id"
[tables.people.columns]
person_id = {{}}
sex = {{ values = ["f", "m"], nullable = false }}
age = {{ range = [0, 100] }}
income = {{ bounds = [0, 200000] }}

[tables.visits]
key = "visit_id"
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
{visit_limit}
[tables.visits.columns]
visit_id = {{}}
person_id = {{}}
year = {{ range = [2015, 2024], nullable = false }}
clinic = {{ values_from = "clinics.clinic" }}
cost = {{ bounds = [0, 500], decimals = 2 }}
weight = {{ bounds = [0, 200] }}
points = {{ bounds = [-5, 5] }}
note = {{}}

[tables.members]
key = "member_code"
[tables.members.columns]
member_code = {{}}

[tables.claims]
foreign_keys = [{{ columns = "member_code", references = "members(member_code)" }}]
{claim_limit}
[tables.claims.columns]
member_code = {{}}
year = {{ range = [2015, 2024], nullable = false }}
cost = {{ bounds = [0, 500], decimals = 2 }}
points = {{ bounds = [-5, 5] }}

[tables.clinics]
public = true
key = "clinic"
[tables.clinics.columns]
clinic = {{}}
city = {{}}

[budgets.person]
entity = "person"
rho = 1000
delta = 0.1

[budgets.member]
entity = "member"
rho = 1000
delta = 0.1
"""

TABLES = """
CREATE TABLE clinics (clinic VARCHAR PRIMARY KEY, city VARCHAR);
INSERT INTO clinics SELECT printf('c%02d', i), printf('city %d', i % 7) FROM range({clinics}) t(i);
CREATE TABLE people (person_id INTEGER PRIMARY KEY, sex VARCHAR, age INTEGER, income DOUBLE);
INSERT INTO people SELECT i, CASE WHEN random() < 0.5 THEN 'f' ELSE 'm' END,
    CASE WHEN random() < 0.9 THEN CAST(floor(random() * 101) AS INTEGER) END, exp(9 + 2 * random() + random())
    FROM range({people}) t(i);
CREATE TABLE visits (visit_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL, year INTEGER, clinic VARCHAR, cost DOUBLE,
    weight DOUBLE, points INTEGER, note VARCHAR);
INSERT INTO visits SELECT i, CAST(floor(random() * {people} * (CASE WHEN random() < 0.3 THEN 0.01 ELSE 1 END)) AS INTEGER),
    CAST(2015 + floor(random() * 10) AS INTEGER), printf('c%02d', CAST(floor(random() * {clinics}) AS INTEGER)),
    CASE WHEN random() < 0.95 THEN 700 * random() * random() - 10 END, 40 + 80 * random(),
    CASE WHEN random() < 0.95 THEN CAST(floor(random() * 15) - 7 AS INTEGER) END,
    'note ' || CAST(floor(2000 * random() * random()) AS INTEGER) FROM range({rows}) t(i);
CREATE TABLE members (member_code VARCHAR PRIMARY KEY);
INSERT INTO members SELECT 'member-' || person_id FROM people;
CREATE TABLE claims (member_code VARCHAR NOT NULL, year INTEGER, cost DOUBLE, points INTEGER);
INSERT INTO claims SELECT 'member-' || person_id, year, cost, points FROM visits;
"""


def database(rows: int, folder: Path) -> Path:
    """The database of so many rows, ten for each entity on average (a few have many); made where the folder lacks it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bench-{rows}.duckdb"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        connection = duckdb.connect(str(unfinished))
        connection.execute("SELECT setseed(0.5)")
        connection.execute(TABLES.format(rows=rows, people=max(20, rows // 10), clinics=CLINICS))
        connection.close()
        unfinished.rename(path)
    return path


def declared(path: Path, budget: str, limit: int | None, *, prepared: bool = False) -> Path:
    """A policy for that database with a new ledger, and a new store if it is `prepared`. `limit` is the declared limit of rows of an
    entity, if any."""
    folder = Path(tempfile.mkdtemp(prefix="dpsql-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    limits = f"rows_per_entity = {limit}" if limit is not None else ""
    policy = folder / "policy.toml"
    policy.write_text(POLICY.format(visit_limit=limits, claim_limit=limits), encoding="utf-8")
    Ledger.create(folder / "policy.ledger")
    if prepared:
        prepare(policy=policy, database=path, budget=budget)
    return policy


def opened(path: Path, budget: str, limit: int | None, *, epsilon: float = 1.0, delta: float = 1e-6, policy: Path | None = None) -> Session:
    """A session on that database, with a new ledger unless the policy is given."""
    policy = policy or declared(path, budget, limit)
    return open_session(path, policy, None, ConnectionTerms(budget=budget, analyst="bench", epsilon=epsilon, delta=delta or None))


def plain(path: Path) -> duckdb.DuckDBPyConnection:
    """The same database with DuckDB's own settings, under a second name: one process cannot open one name in two ways."""
    twin = path.with_suffix(".plain.duckdb")
    if not twin.exists():
        twin.hardlink_to(path)
    return duckdb.connect(str(twin), read_only=True)


def again(session: Session, run: object) -> Session:
    """The same session for another analyst, so that no stored answer is given."""
    return replace(session, analyst=f"{session.analyst} {run}")


def answers_of(sql: str, path: Path, policy: str, runs: int) -> list[Answer]:
    """A statement at epsilon = 1 over a database with a policy, asked by so many analysts."""
    written = path.with_suffix(".toml")
    written.write_text(policy, encoding="utf-8")
    ledger = path.with_name(f"{uuid.uuid4().hex}.ledger")
    Ledger.create(ledger).close()
    session = open_session(path, written, ledger, ConnectionTerms(analyst="bench", epsilon=1))
    found = [answer(sql, again(session, run)) for run in range(runs)]
    session.close()
    return found
