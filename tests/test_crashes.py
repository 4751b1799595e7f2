"""Whatever is written, passed or declared, only dpsql's own errors come out, before any charge."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from support import worlds

import dpsql
from dpsql import cli
from dpsql.dbapi import Connection
from dpsql.engine.answering import answer
from dpsql.engine.guard import guarded
from dpsql.errors import Error, Incident, InternalError
from dpsql.trusted.kernel.ledger import Ledger

NUMBERS = ["1e308", "-1e308", "5e-324", "1e-300", "1e200", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e400",
           "170141183460469231731687303715884105727", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "-0.0", "NULL"]
ASKED = ["VAR_SAMP(income * {n})", "STDDEV_SAMP({n})", "AVG({n} * age)", "SUM(LEAST(income, {n}))", "MEDIAN(GREATEST(income, {n}))",
         "MIN(income + {n})", "QUANTILE_CONT(income / {n}, 0.5)", "VAR_POP(weight * {n})", "SUM(income) * {n}", "COUNT(DISTINCT age * {n})",
         "QUANTILE_CONT(age, {n})", "SUM(CASE WHEN age > {n} THEN {n} ELSE income END)", "AVG(ROUND(income, {n}))"]
AROUND = ["SELECT COUNT(*) FROM people WHERE income BETWEEN {n} AND {n}", "SELECT COUNT(*) FROM people LIMIT {n}",
          "SELECT FLOOR(age / {n}), COUNT(*) FROM people GROUP BY 1", "SELECT SUM(income) FROM people ERROR WITHIN {n}",
          "SELECT sex, AVG(age) FROM people GROUP BY sex HAVING SUM(income) > {n} ORDER BY AVG(age) * {n}",
          "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {n}) COUNT(*) FROM people",
          "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (clip = {n}) SUM(points) FROM scores",
          "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = {n}) SUM(points) FROM scores",
          "SELECT COUNT(*) FROM people WHERE age IN (1, {n}) AND born + {n} > born"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("crashes")
    worlds.world().save(made / "people.duckdb")
    (made / "dpsql.toml").write_text(worlds.POLICY, encoding="utf-8")
    Ledger.create(made / "dpsql.ledger").close()
    return made


@pytest.fixture(scope="module")
def connection(folder: Path) -> Iterator[Connection]:
    with dpsql.connect(folder / "people.duckdb", budget="pure", analyst="ada", epsilon=1) as made:
        yield made


def tell(step: Any) -> Error | None:
    """What dpsql tells; anything else is a failure, and so is a fault that only the last net caught, or an incident."""
    try:
        step()
    except Error as fault:
        assert not isinstance(fault, InternalError), fault
        assert str(fault) and json.dumps(fault.as_dict())
        return fault
    return None


@pytest.mark.parametrize("asked", [*(f"SELECT {asked} FROM people" for asked in ASKED), *AROUND])
def test_extreme_numbers_are_answered_or_refused_with_a_place(asked: str, connection: Connection) -> None:
    for text in (asked.replace("{n}", number) for number in NUMBERS):
        fault = tell(lambda text=text: connection.explain(text))
        assert fault is None or (fault.span is not None and fault.text), text


@pytest.mark.parametrize("asked", ["STDDEV_SAMP(9223372036854775807)", "VAR_POP(income * 1e90)", "VAR_POP(income * 1e-90)", "AVG(1e99)",
                                   "SUM(weight * 1e300)", "MEDIAN(LEAST(income, 1e-80))", "SUM(1e100 * age / 1e98)", "AVG(5e-324)"])
def test_what_is_planned_with_extreme_numbers_does_not_fail_after_its_charge(asked: str, connection: Connection) -> None:
    connection.execute(f"SELECT {asked} FROM people")


@pytest.mark.parametrize("asked", ["VAR_SAMP(income * 1e200)", "STDDEV_SAMP(1e200)", "MEDIAN(LEAST(income, 1e-300))", "SUM(age * 1e101)",
                                   "AVG(LEAST(GREATEST(income, 0), 5e-324))"])
def test_bounds_that_no_square_holds_are_refused(asked: str, connection: Connection) -> None:
    fault = tell(lambda: connection.execute(f"SELECT {asked} FROM people"))
    assert fault is not None and fault.code == "extreme-bounds" and fault.try_


class Text(str):
    def __str__(self) -> str:
        raise ValueError("secret")


VALUES: dict[str, Any] = {
    "decimal": decimal.Decimal("1.5"), "huge-decimal": decimal.Decimal("1e400"), "signaling": decimal.Decimal("sNaN"),
    "numpy-int": np.int64(3), "numpy-nan": np.float64("nan"), "numpy-unsigned": np.uint64(2**64 - 1), "numpy-date": np.datetime64("2020-01-01"),
    "numpy-nat": np.datetime64("NaT"), "array": np.array([1, 2]), "scalar-array": np.array(3), "bytes": b"abc", "bytearray": bytearray(b"x"),
    "view": memoryview(b"x"), "past-64-bits": 2**63, "past-all-bits": 10**5000, "infinite": float("inf"), "denormal": 5e-324,
    "zoned": dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "last-day": dt.date.max, "first-moment": dt.datetime.min, "time": dt.time(1, 2),
    "delta": dt.timedelta.max, "list": [1, 2], "mapping": {"a": 1}, "set": {1}, "complex": 1j, "uuid": uuid.UUID(int=1), "nat": pd.NaT,
    "na": pd.NA, "stamp": pd.Timestamp("2020-01-01", tz="UTC"), "object": object(), "type": type, "nul": "\x00", "half": "\ud800",
    "fraction": __import__("fractions").Fraction(1, 3), "ellipsis": ..., "none": None,
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type(name: str, connection: Connection) -> None:
    value = VALUES[name]
    for text in ("SELECT COUNT(*) FROM people WHERE age > ?", "SELECT COUNT(*) FROM people WHERE sex = ?", "SELECT SUM(income * ?) FROM people",
                 "SELECT COUNT(*) FROM people WHERE born > ?", "SELECT QUANTILE_CONT(income, ?) FROM people"):
        tell(lambda text=text: connection.explain(text, [value]))
    tell(lambda: connection.explain("SELECT COUNT(*) FROM people", value))
    tell(lambda: connection.execute("SHOW BUDGET", value))
    tell(lambda: connection.cursor().executemany("SHOW BUDGET", value))
    tell(lambda: connection.explain(["SELECT COUNT(*) FROM people"], value))
    for option in ("epsilon", "rho", "strategy", "error_within", "confidence", "nothing"):
        tell(lambda option=option: connection.explain(["SELECT COUNT(*) FROM people"], **{option: value}))
    for option in ("epsilon", "decider", "suite", "alpha", "failures", "clip", "max_rows", "within"):
        given = {"within": 5, option: value}
        tell(lambda given=given: connection.validate("SELECT COUNT(*) FROM people", synthetic="nothing", **given))
    if not isinstance(value, str | int | type(None)):
        assert tell(lambda: connection.execute(value)) is not None


@pytest.mark.parametrize("name", VALUES)
def test_terms_of_every_type(name: str, folder: Path) -> None:
    for term in ("database", "policy", "budget", "epsilon", "delta", "rho", "confidence", "ledger"):
        given = {"database": folder / "people.duckdb", "policy": folder / "dpsql.toml", "budget": "nothing", term: VALUES[name]}
        tell(lambda given=given: dpsql.connect(**given))


PUBLIC = {
    "DECIMAL(10,2)": "(1.50), (2.25), (NULL)", "DECIMAL(38,10)": "(1.5)", "HUGEINT": "(170141183460469231731687303715884105727), (1)",
    "TIME": "(TIME '01:02:03')", "BLOB": "('ab'::BLOB)", "UUID": "('00000000-0000-0000-0000-000000000001')", "INTERVAL": "(INTERVAL 1 DAY)",
    "DOUBLE": "('nan'), ('inf'), (1.0)", "TIMESTAMPTZ": "('2020-01-01 00:00:00+00')", "INTEGER[]": "([1, 2])", "STRUCT(a INT)": "({'a': 1})",
    "DATE": "('infinity'), ('2020-01-01')", "TIMESTAMP": "('infinity')", "UBIGINT": "(18446744073709551615)", "BIT": "('101'::BIT)",
    "MAP(INT, INT)": "(MAP {1: 2})", "BOOLEAN": "(true), (NULL)", "VARCHAR": "('a'), (NULL), ('')", "TINYINT": "(1)",
}


@pytest.mark.parametrize("kind", PUBLIC)
def test_values_from_a_public_column_of_any_type(kind: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "people.duckdb").write_bytes((folder / "people.duckdb").read_bytes())
    with duckdb.connect(str(tmp_path / "people.duckdb")) as filled:
        filled.execute(f"CREATE TABLE opts (v {kind})")
        filled.execute(f"INSERT INTO opts VALUES {PUBLIC[kind]}")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    policy = worlds.POLICY.replace("[budgets.person]", "[tables.opts]\npublic = true\n[tables.opts.columns]\nv = {}\n[budgets.person]", 1)
    for line in ("income = { bounds = [0, 100000] }", "age = { range = [0, 100], nullable = false, bins = 10 }", "nickname = {}"):
        (tmp_path / "dpsql.toml").write_text(policy.replace(line, line.split(" =")[0] + ' = { values_from = "opts.v" }'), encoding="utf-8")

        def ask(column: str = line.split(" =")[0]) -> None:
            with dpsql.connect(tmp_path / "people.duckdb", budget="pure", analyst="ada", epsilon=1) as made:
                made.explain(f"SELECT {column}, COUNT(*) FROM people GROUP BY {column}")

        tell(ask)


def test_a_decimal_column_takes_its_values_from_a_decimal_column(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "people.duckdb").write_bytes((folder / "people.duckdb").read_bytes())
    with duckdb.connect(str(tmp_path / "people.duckdb")) as filled:
        filled.execute("CREATE TABLE opts (v DECIMAL(10,2))")
        filled.execute("INSERT INTO opts VALUES (1.50), (2.25), (3)")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    (tmp_path / "dpsql.toml").write_text(worlds.POLICY.replace(
        "[budgets.person]", "[tables.opts]\npublic = true\n[tables.opts.columns]\nv = {}\n[budgets.person]", 1).replace(
            "cost = { bounds = [0, 500], decimals = 2 }", 'cost = { values_from = "opts.v" }'), encoding="utf-8")
    with dpsql.connect(tmp_path / "people.duckdb", budget="pure", analyst="ada", epsilon=1) as made:
        assert [row[0] for row in made.execute("SELECT cost, COUNT(*) FROM visits GROUP BY cost").fetchall()][:3] == [1.5, 2.25, 3.0]


@pytest.mark.parametrize("name", ["s3://bucket/people.csv", "http://example.org/people.parquet", "*.csv", "people*.csv", "md:people", "",
                                  ":memory:", "x.csv\n.csv", "a'b.csv", "..", "/", "people.duckdb?access_mode=READ_WRITE", "x" * 5000, "\x00"])
def test_odd_names_of_files(name: str, folder: Path, connection: Connection) -> None:
    here = {"policy": folder / "dpsql.toml", "budget": "pure"}
    assert tell(lambda: dpsql.connect(name, **here)) is not None
    assert tell(lambda: dpsql.connect(policy=name)) is not None
    assert tell(lambda: dpsql.connect(folder / "people.duckdb", ledger=name, **here)) is not None
    assert tell(lambda: connection.validate("SELECT COUNT(*) FROM people", synthetic=name, within=5)) is not None
    for key in ("database", "ledger", "anchor"):
        (folder / "odd.toml").write_text(f"{key} = {json.dumps(name)}\n{worlds.POLICY}", encoding="utf-8")
        given = [] if key == "database" else [folder / "people.duckdb"]
        tell(lambda given=given: dpsql.connect(*given, policy=folder / "odd.toml", budget="pure"))
    assert cli.main(["check", "--policy", name]) == 2


# -- the last net


FAULTS = [RecursionError("secret"), OverflowError("secret"), AssertionError("secret"), KeyError("secret"),
          duckdb.Error("secret"), UnicodeError("secret"), ZeroDivisionError("secret"), NotImplementedError("secret")]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_an_unexpected_fault_is_one_constant_error(fault: Exception, connection: Connection, monkeypatch: pytest.MonkeyPatch,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise fault

    text, spent, told = "SELECT COUNT(*) FROM people WHERE age = 77", connection.budget().as_dict(), set()
    for module in ("single", "batches"):
        monkeypatch.setattr(f"dpsql.engine.{module}.bind", broken)
    monkeypatch.setattr("dpsql.engine.validating.prepared", broken)
    for step in (lambda: connection.execute(text), lambda: connection.explain(text), lambda: connection.workload([text]),
                 lambda: connection.explain([text]), lambda: answer(text, connection.session)):
        with pytest.raises(InternalError) as caught:
            step()
        found: BaseException | None = caught.value
        assert found is not None and not isinstance(found, Incident) and found.__cause__ is None and found.__context__ is None
        assert caught.value.span is not None and caught.value.text == text and caught.value.code == "fault"
        told.add(str(found))
    with pytest.raises(InternalError):
        connection.validate(text, synthetic="clinics", within=5)
    assert len(told) == 1 and "secret" not in told.pop()
    assert connection.budget().as_dict() == spent
    monkeypatch.setattr("dpsql.cli.ledger_commands._budget", broken)
    assert cli.main(["budget"]) == 1 and "secret" not in "".join(capsys.readouterr())


def test_an_interruption_and_a_wrong_call_stay_what_they_are(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError):
        connection.execute()  # type: ignore[call-arg]

    def stop(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsql.engine.single.bind", stop)
    with pytest.raises(KeyboardInterrupt):
        connection.execute("SELECT COUNT(*) FROM people WHERE age = 77")


def test_a_stack_that_is_used_up_is_told() -> None:
    @guarded
    def deep(text: str) -> None:
        deep.__wrapped__(text)  # type: ignore[attr-defined]

    with pytest.raises(InternalError):
        deep("SELECT 1")
