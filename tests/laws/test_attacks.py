"""Everything that an analyst sees but noisy numbers, through the faces, on a database and on its neighbours: it is the same.

Without noise, so that nothing hides what rows decide: outcomes, texts, columns, notes, charges, EXPLAIN, warnings, what the ledger
holds, what the shell says. The entity that is gone or there is as odd as one can be: many rows, days and numbers out of range,
NaN, spellings that differ in case and blanks, all ends of a relation at once; public keys are NULL, repeated and far away.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import re
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from support.files import opened_files
from support.policies import policy_of

import dpsql
from dpsql import cli
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.dbapi import Connection
from dpsql.errors import Error, Incident, InternalError, PolicyError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.kernel import run
from dpsql.trusted.plan.operators import owner_sets

SCHEMA = """
CREATE TABLE houses (house INTEGER PRIMARY KEY, region VARCHAR);
CREATE TABLE people (id INTEGER PRIMARY KEY, house INTEGER, name VARCHAR, age INTEGER, pay DOUBLE, born DATE, seen TIMESTAMP,
                     kind ENUM('a', 'b', 'B', 'b '));
CREATE TABLE visits (vid INTEGER PRIMARY KEY, id INTEGER, code VARCHAR, cost DECIMAL(10,2), day DATE, n BIGINT);
CREATE TABLE met (a INTEGER, b INTEGER, c INTEGER, w INTEGER);
CREATE TABLE codes (code VARCHAR, word VARCHAR, day DATE, n BIGINT);
INSERT INTO codes VALUES ('a', 'x', '0044-03-15 (BC)', 1), ('A', 'x', '2020-01-01', NULL), ('a ', 'y', NULL, NULL),
    (NULL, 'z', 'infinity', 3), (NULL, 'z', '20025-01-01', 3), ('a', 'x', '2020-01-01', 9223372036854775807)
"""
POLICY = """
version = 1
database = "people.duckdb"
[entities.person]
table = "people"
key = "id"
[entities.house]
table = "houses"
key = "house"
[entities.anyone]
any_of = ["person", "house"]
[tables.houses]
key = "house"
[tables.houses.columns]
house = {}
region = {}
[tables.people]
key = "id"
foreign_keys = [{ columns = "house", references = "houses(house)" }]
rows_per_entity = { house = 2 }
[tables.people.columns]
id = {}
house = {}
name = {}
age = { range = [0, 9] }
pay = { bounds = [0, 10], decimals = 1 }
born = { range = [2000-01-01, 2000-01-05] }
seen = {}
kind = { values = ["a", "b"] }
[tables.visits]
key = "vid"
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = { person = 2, house = 3 }
[tables.visits.columns]
vid = {}
id = {}
code = { values_from = "codes.code" }
cost = { bounds = [0, 5] }
day = {}
n = { range = [0, 3] }
[tables.met]
foreign_keys = [{ columns = "a", references = "people(id)" }, { columns = "b", references = "people(id)" },
                { columns = "c", references = "people(id)" }]
[tables.met.columns]
a = {}
b = {}
c = {}
w = { range = [0, 3] }
[tables.codes]
public = true
[tables.codes.columns]
code = {}
word = {}
day = {}
n = {}
[budgets.person]
entity = "person"
epsilon = 1000
delta = 0.01
incidents = 2
[budgets.house]
entity = "house"
epsilon = 1000
delta = 0.01
[budgets.anyone]
entity = "anyone"
rho = 1000
delta = 0.01
"""
PRICES: Mapping[str, Mapping[str, Any]] = {"person": {"epsilon": 0.5, "delta": 1e-5}, "house": {"epsilon": 0.5}, "anyone": {"rho": 0.1}}
PEOPLE = [
    (1, 10, "al", 3, 1.5, "2000-01-02", "2000-01-01 10:00:00", "a"), (2, 10, "bo", 4, 2.5, "2000-01-03", None, "b"),
    (3, 12, None, None, None, None, None, None), (7, 11, "victim", 99, float("nan"), "infinity", "infinity", "B"),
    (8, None, "Victim ", -5, float("-inf"), "20025-01-01", "-infinity", "b "),
    (9, 11, "x'\0y", 2147483647, -0.0, "0044-03-15 (BC)", "0001-01-01 00:00:00", None)]
DAYS = ("infinity", "-infinity", "20025-01-01", "0044-03-15 (BC)", None)
VISITS: list[tuple[Any, ...]] = [
    *((i, 1, "a", 1.25, "2020-01-01", i) for i in range(3)), (10, 2, None, None, None, None), (11, 2, "A", 0.5, "2020-01-01", None),
    *((100 + i, 7, ("a", "A", "a ", None, "zz")[i % 5], (99999.99, -7.01, 0.01)[i % 3], DAYS[i % 5], (2**63 - 1, -(2**63) + 1, 2)[i % 3])
      for i in range(60)), (300, 8, "A", 0.5, "2020-01-01", None), (301, 8, "a", 9, "infinity", 7)]
MET = [(1, 2, 3, 1), (1, None, 2, 2), (None, None, None, 3), *((7, b, c, 3) for b in (1, 2, 3, 7, 8, 9) for c in (1, 2, 3, None))]
GONE: Mapping[str, Mapping[str, Sequence[str]]] = {
    "person": {"everybody": (), "7": ("person 7",), "8": ("person 8",), "9": ("person 9",)},
    "house": {"everybody": (), "11": ("house 11",), "12": ("house 12",)},
    "anyone": {"everybody": (), "a person": ("person 7",), "a house": ("house 11",)}}
PRIVATE = [
    "SELECT kind, COUNT(*), SUM(pay), AVG(age) FROM people GROUP BY kind",
    "SELECT name, COUNT(*) FROM people GROUP BY name",
    "SELECT MEDIAN(age), MEDIAN(pay), MIN(age), MAX(pay), VAR_POP(pay) FROM people",
    "SELECT code, n, COUNT(*) FROM visits GROUP BY CUBE (code, n)",
    "SELECT COUNT(*) FROM visits v JOIN codes c ON v.code = c.code",
    "SELECT COUNT(*) FROM visits v JOIN codes c ON v.code IS NOT DISTINCT FROM c.code",
    "SELECT COUNT(*) FROM visits v JOIN codes c ON lower(trim(v.code)) = lower(trim(c.code))",
    "SELECT COUNT(*) FROM visits v LEFT JOIN codes c ON v.day = c.day AND v.n = c.n",
    "SELECT COUNT(DISTINCT day), COUNT(DISTINCT code || 'x') FROM visits",
    "SELECT SUM(w) FROM met",
    "SELECT COUNT(*) FROM met x JOIN met y ON x.c IS NOT DISTINCT FROM y.c AND x.w < y.w",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.id = p.id AND v.n > 100)",
    "SELECT COUNT(*) FROM people WHERE age > (SELECT COUNT(*) FROM visits WHERE code = 'a ')",
    "SELECT kind, COUNT(*) ERROR WITHIN 50 CONFIDENCE 0.9 FROM people GROUP BY kind",
    "SELECT kind, COUNT(*) ERROR WITHIN 60 CONFIDENCE 0.9 FROM people GROUP BY kind",  # by the measurement before
    "SELECT COUNT(*) FROM (SELECT LAG(n, 1) OVER (PARTITION BY id ORDER BY vid) AS x, n FROM visits) t WHERE x < n",
    "SELECT SUM(LEAST(GREATEST(n * n * n, 0), 10)) FROM visits WHERE n + 1 > n OR n * 2 / 0 > 3",
    "SELECT COUNT(*) FROM visits v JOIN people p ON v.id = p.id WHERE v.day - p.born > 3 AND p.seen + INTERVAL 1 DAY > p.seen",
    "SELECT extract(year FROM seen) AS y, COUNT(*) FROM people GROUP BY y",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'removals') SUM(x.w - y.w) FROM met x JOIN met y ON x.a = y.a",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'recursive') w, COUNT(*) FROM met GROUP BY w",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'residual', max_rows = 2) SUM(x.cost) FROM visits x JOIN visits y ON x.day = y.day",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'frequency') COUNT(*) FROM visits x JOIN visits y ON x.code = y.code",
    "VALIDATE (SELECT COUNT(*) FROM visits WHERE n = 1) AGAINST codes FOR visits WITHIN 3",
    "SELECT kind FROM people", "SELECT COUNT(victim) FROM people"]
OTHERS = ["SHOW BUDGET", "SHOW TABLES", "DESCRIBE people", "SELECT word, COUNT(*), SUM(n) FROM codes GROUP BY word",
          "SELECT code, COUNT(*) FROM codes GROUP BY code"]


def database(folder: Path, gone: Sequence[str]) -> Path:
    """The folder of a database without some entities and all that hangs on them, its policy and a new ledger."""
    folder.mkdir()
    away = {row[0] for row in PEOPLE if f"person {row[0]}" in gone or f"house {row[1]}" in gone}
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(SCHEMA)
        rows: dict[str, list[tuple[Any, ...]]] = {
            "houses": [(house, "n") for house in (10, 11, 12) if f"house {house}" not in gone],
            "people": [row for row in PEOPLE if row[0] not in away], "visits": [row for row in VISITS if row[1] not in away],
            "met": [row for row in MET if not away & set(row[:3])]}
        for table, found in rows.items():
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(found[0]))})", found)
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return folder


@contextlib.contextmanager
def connected(folder: Path, budget: str) -> Iterator[Connection]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(run, "Secure", Exact)
        with dpsql.connect(policy=folder / "dpsql.toml", budget=budget, analyst="ada", **PRICES[budget]) as connection:
            yield connection


def shown(connection: Connection, text: str) -> tuple[Any, ...]:
    """What is seen of a statement but numbers that noise would hide; of exact ones everything."""
    cursor = connection.cursor()
    try:
        cursor.execute(text)
    except Error as fault:
        return type(fault), str(fault), str(fault.as_dict())
    answer = cursor.answer
    if answer is None:
        return cursor.description, () if cursor.validation is not None else cursor.fetchall()
    exact = [i for i, column in enumerate(answer.columns) if column.exact]
    declared = "name" not in text and "extract" not in text  # else keys are selected with noise
    keys = [tuple(row[i] for i in exact) for row in answer.rows] if declared else []
    return cursor.description, str(keys), cursor.cost, [re.sub(r"-?\d[\d.e+-]*", "#", note) for note in cursor.notes]


def everything(folder: Path, budget: str) -> dict[str, Any]:
    """All that is seen of a database, by what was done."""
    seen: dict[str, Any] = {}
    with connected(folder, budget) as connection:
        for number, text in enumerate([*PRIVATE, *OTHERS]):
            seen[text] = shown(connection, text), connection.session.ledger.spent(budget)
            if number % 4 == 0 and text in PRIVATE:
                seen[f"EXPLAIN {text}"] = shown(connection, f"EXPLAIN PRIVACY {text}")
        seen["notes"] = connection.notes
        many = connection.cursor().executemany("SELECT COUNT(*) FROM visits WHERE code = ? AND n = ?", [["a", 2], ["A", 2], ["a", 2]])
        seen["executemany"] = many.description, many.rowcount, many.cost
        both = connection.workload(["SELECT code, COUNT(*) FROM visits GROUP BY code", "SELECT SUM(n) FROM visits"]) if budget != "anyone" else ()
        seen["workload"] = [[column.name for column in answer.columns] + [len(answer.rows)] for answer in both]
        if budget == "person":
            frame = pd.DataFrame({"id": [1], "code": ["a"], "n": [2]})
            queries = ["(SELECT COUNT(*) FROM visits WHERE code = 'a') WITHIN 5", "(SELECT COUNT(DISTINCT n) FROM visits WHERE code = 'A') WITHIN 1"]
            found = connection.validate(queries, synthetic=frame)
            seen["validate"] = str(found.as_table().columns)
        seen["budget"] = connection.budget().as_dict()
    with contextlib.closing(sqlite3.connect(folder / "dpsql.ledger")) as ledger:
        seen["ledger"] = ledger.execute("SELECT seq, kind, budget, analyst, digest, sql, epsilon, rho, delta, answers FROM events").fetchall()
    for command in ("check", "budget"):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            seen[f"code of {command}"] = cli.main([command, "--policy", str(folder / "dpsql.toml"), "--budget", budget, "--analyst", "ada"])
        seen[command] = out.getvalue().replace(str(folder), "")
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("budget", GONE)
def test_nothing_that_is_seen_tells_who_is_there(budget: str, tmp_path: Path) -> None:
    here, *neighbours = (everything(database(tmp_path / name, gone), budget) for name, gone in GONE[budget].items())
    for there in neighbours:
        assert there.keys() == here.keys()
        assert not [(what, here[what], there[what]) for what in here if here[what] != there[what]]
    kinds = [seen[0][0] for text, seen in here.items() if text in PRIVATE]
    assert sum(isinstance(kind, list) for kind in kinds) > len(kinds) / 3, "many are answered"
    assert not any(isinstance(kind, type) and issubclass(kind, Incident | InternalError) for kind in kinds)


# -- rows of many entities

SHARED = ["SELECT SUM(w) FROM met", "SELECT w, COUNT(*) FROM met GROUP BY w", "SELECT SUM(x.w - y.w) FROM met x JOIN met y ON x.a = y.b",
          "SELECT COUNT(*) FROM met x JOIN met y ON x.c IS NOT DISTINCT FROM y.c"]


def test_names_are_sorted_alike_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for most in (0, owner_sets.MOST_COMPARED):
        monkeypatch.setattr(owner_sets, "MOST_COMPARED", most)
        with connected(database(tmp_path / str(most), ()), "person") as connection:
            found.append([connection.execute(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS "
                                             "(bound = 'extension', clip = 2)", 1)).fetchall() for text in SHARED[:3]])
    assert found[0] == found[1] and found[0][0] != [(0,)]


@pytest.mark.parametrize("text", SHARED)
def test_rows_of_twelve_entities_take_little_time(text: str, tmp_path: Path) -> None:
    """Each name was compared with each other in a text that doubled twice with every comparison: all memory, after the charge."""
    with connected(database(tmp_path / "x", ()), "anyone") as connection:
        connection.execute("SELECT COUNT(*) FROM people")  # loads
        begun = time.process_time()
        assert connection.execute(text).fetchall()
        assert time.process_time() - begun < 3


# -- what names an entity

SPELLED = policy_of("people", """
""", """
[tables.visits]
foreign_keys = [{ columns = "person", references = "people(id)" }]
rows_per_entity = 1
[tables.visits.columns]
person = {}
""", price="epsilon = 10")


@pytest.mark.parametrize("child, parent", [("VARCHAR", "UUID"), ("UUID", "VARCHAR"), ("ENUM('a')", "UUID")])
def test_a_uuid_has_one_spelling(child: str, parent: str) -> None:
    """The database finds it equal to texts in either case, with braces and without dashes, of which each was an entity of its own:
    with a limit of one row for each entity, one person moved a row for each spelling."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people (id {parent} PRIMARY KEY)")
        connection.execute(f"CREATE TABLE visits (person {child})")
        with pytest.raises(PolicyError, match="differ in type") as caught:
            fit(parse_policy(SPELLED), "person", DuckReader(connection, "v").schema(), lambda *_: [])
    assert caught.value.as_dict()["line"] == SPELLED.splitlines().index("[tables.visits]") + 2


@pytest.mark.parametrize("kind", ["UUID", "VARCHAR", "ENUM('a', 'A')", "INTEGER"])
def test_one_type_names_entities(kind: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people (id {kind} PRIMARY KEY)")
        connection.execute(f"CREATE TABLE visits (person {kind})")
        assert fit(parse_policy(SPELLED), "person", DuckReader(connection, "v").schema(), lambda *_: []).tables["visits"].owners


@pytest.mark.parametrize("ending", ["csv", "parquet", "tsv"])
def test_a_row_without_its_key_closes_no_file(ending: str, tmp_path: Path) -> None:
    """Such a row names nobody, and one of them decided whether anything was served."""
    file = tmp_path / f"people.{ending}"
    how = "FORMAT parquet" if ending == "parquet" else "FORMAT csv, DELIMITER '{}'".format("\t" if ending == "tsv" else ",")
    for odd in ("", " UNION ALL SELECT NULL, 5, DATE '2020-01-01'"):
        duckdb.sql(f"COPY (SELECT 1 AS id, 3 AS age, DATE '2000-01-01' AS born{odd}) TO '{file}' ({how})")
        reader = opened_files({"people": file}, {"people": ("id",)})
        assert reader.rows("SELECT * FROM people") == [(1, 3, dt.date(2000, 1, 1))]
        assert reader.schema()["people"].not_null == {"id"}
        reader.close()
