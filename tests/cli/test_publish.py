"""`dpsql publish`: files and pages of standing queries, which change only where something new was measured."""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.growing_worlds import Clock, add_visits, project_of_seven_months

import dpsql
from dpsql import cli
from dpsql.answers.published_folder import MARKER
from dpsql.dbapi import Connection
from dpsql.trusted.accounting.cost import NANO

BY_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"
BY_SEX = ("SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n, AVG(cost) AS cost FROM visits JOIN people USING (person_id) "
          "GROUP BY month, sex ORDER BY month DESC, sex")


class Desk:
    """A project with two standing queries, and its publisher."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.policy, self.out, self._capsys = project_of_seven_months(folder), folder / "published", capsys
        self.place = ["--policy", str(self.policy), "--budget", "study"]

    def connected(self, analyst: str = "ada") -> Connection:
        return dpsql.connect(policy=self.policy, budget="study", analyst=analyst)

    def create(self, name: str, query: str, epsilon: float = 0.5, analyst: str = "ada") -> None:
        with self.connected(analyst) as connection:
            connection.execute(f"CREATE STANDING QUERY {name} AS {query} OPTIONS (epsilon = {epsilon})")

    def publish(self, *words: str) -> tuple[int, str, str]:
        """The exit code, and what is said."""
        code = cli.main(["publish", *self.place, "--out", str(self.out), *words])
        told = self._capsys.readouterr()
        return code, told.out, told.err

    def files(self) -> dict[str, tuple[bytes, int]]:
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.out.iterdir() if path.name != MARKER}

    def rows(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader((self.out / f"{name}.csv").read_text(encoding="utf-8").splitlines()))

    def spent(self) -> float:
        with self.connected() as connection:
            return (connection.session.ledger.spent("study").epsilon or 0) / NANO


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, dt.date(2025, 4, 6))  # March is closed


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], clock: Clock) -> Desk:
    return Desk(tmp_path, capsys)


def test_all_periods_are_written_in_each_form(desk: Desk) -> None:
    desk.create("visits", BY_MONTH)
    desk.create("sexes", BY_SEX, 1)
    code, out, err = desk.publish()
    assert (code, err) == (0, "")
    assert out.splitlines() == ["visits: periods 3, 2025-01 to 2025-03; 3 new, each at ε = 0.5", "sexes: periods 3, 2025-01 to 2025-03; 3 new, each at ε = 1"]
    assert {*desk.files()} == {"index.html", *(f"{name}.{form}" for name in ("visits", "sexes") for form in ("csv", "parquet", "json", "html"))}
    rows = desk.rows("visits")
    assert [row["period"] for row in rows] == ["2025-01", "2025-02", "2025-03"] and desk.spent() == 4.5
    for row in rows:
        count = max(float(row["n"]), 0)  # noise may make it negative, and its interval starts at 0 then
        assert 0 <= float(row["n low"]) <= count <= float(row["n high"]) and float(row["n error"]) > 5
        assert (row["price in the period"], row["price in all"], row["stored"]) == ("ε = 0.5", "ε = 0.5", "true")
    assert [(row["period"], row["sex"]) for row in desk.rows("sexes")] == [(f"2025-0{month}", sex) for month in (3, 2, 1) for sex in "fm"]


def test_the_forms_agree(desk: Desk) -> None:
    desk.create("sexes", BY_SEX, 1)
    assert desk.publish()[0] == 0
    told = json.loads((desk.out / "sexes.json").read_text(encoding="utf-8"))
    by_json = [(period["period"], row[1], row[2], error[2], *(interval[3] or (None, None))) for period in told["periods"]
               for row, error, interval in zip(period["rows"], period["errors"], period["intervals"], strict=True)]
    path = desk.out / "sexes.parquet"
    by_parquet = duckdb.sql(f"SELECT period, sex, n, \"n error\", \"cost low\", \"cost high\" FROM '{path}'").fetchall()
    by_csv = [(row["period"], row["sex"], int(row["n"]), float(row["n error"]), *(float(row[end]) if row[end] else None for end in ("cost low", "cost high"))) for row in desk.rows("sexes")]
    assert by_parquet == by_csv and sorted(by_json) == sorted(by_csv)
    types = dict(row[:2] for row in duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall())
    assert (types["month"], types["n"], types["n low"], types["stored"]) == ("TIMESTAMP", "BIGINT", "DOUBLE", "BOOLEAN")
    assert (told["confidence"], told["entity"], told["periods"][0]["last day"]) == (0.95, "person", "2025-01-31")


def test_a_second_run_changes_no_byte(desk: Desk, clock: Clock) -> None:
    desk.create("visits", BY_MONTH)
    desk.create("sexes", BY_SEX, 1)
    assert desk.publish()[0] == 0
    before = desk.files()
    with desk.connected() as connection:  # others spend meanwhile, and time passes
        connection.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) sex, COUNT(*) FROM people GROUP BY sex")
    clock.day = dt.date(2025, 5, 5)
    assert desk.publish()[1].splitlines()[0] == "visits: periods 3, 2025-01 to 2025-03; none new"
    assert desk.files() == before  # not even the times of files


def test_a_weeks_outage_is_caught_up_and_the_past_stays(desk: Desk, clock: Clock) -> None:
    desk.create("visits", BY_MONTH)
    desk.create("sexes", BY_SEX, 1)
    assert desk.publish()[0] == 0
    before = {name: desk.rows(name) for name in ("visits", "sexes")}
    add_visits(desk.policy, [(person, dt.date(2025, 2, 3)) for person in range(40)])  # late: what was told stays
    text = desk.policy.read_text(encoding="utf-8").replace("bounds = [0, 100]", "bounds = [0, 200]").replace("1000", "900")
    desk.policy.write_text(f"{text}\n# edited\n", encoding="utf-8")
    clock.day = dt.date(2025, 7, 9)
    code, out, _ = desk.publish()
    assert code == 0 and "visits: periods 6, 2025-01 to 2025-06; 3 new" in out
    assert desk.rows("visits")[:3] == before["visits"] and desk.rows("sexes")[6:] == before["sexes"]
    assert desk.spent() == 9  # 6 months of 1.5


def test_what_was_asked_before_is_free(desk: Desk) -> None:
    with desk.connected() as connection:
        rows = connection.execute(BY_MONTH, epsilon=0.5).fetchall()
    desk.create("visits", BY_MONTH)
    assert desk.publish()[1] == "visits: periods 3, 2025-01 to 2025-03; none new\n"
    assert [int(row["n"]) for row in desk.rows("visits")] == [row[1] for row in rows] and desk.spent() == 1.5
    assert "<td>2025-01 to 2025-03</td>" in (desk.out / "index.html").read_text(encoding="utf-8")


def test_a_period_that_cannot_be_paid_is_told_and_the_others_go_on(desk: Desk, clock: Clock) -> None:
    with desk.connected() as connection:
        connection.execute(f"{BY_MONTH.replace('GROUP', 'WHERE visited_on BETWEEN $1 AND $2 GROUP')}", ["2025-02-01", "2025-02-28"], epsilon=4)
    desk.create("sexes", BY_SEX, 2)
    desk.create("visits", BY_MONTH)
    code, out, err = desk.publish()
    assert code == 3 and out.splitlines()[1].startswith("visits: periods 3")
    assert "sexes: 2025-02 could not be measured" in err and "the budget of ada for 2025-02 has left: 20 %" in " ".join(err.split())
    assert "try a larger limit in the policy; or a new standing query at a lower price, which is charged anew" in " ".join(err.split())
    assert [(row["period"], row["n"] != "", row["stored"]) for row in desk.rows("sexes")][2::2] == [("2025-01", True, "true"), ("2025-02", False, "false")]
    assert "<td>not measured</td><td>2025-02</td>" in (desk.out / "sexes.html").read_text(encoding="utf-8")
    before = desk.rows("sexes")
    desk.policy.write_text(desk.policy.read_text(encoding="utf-8").replace("epsilon = 5,", "epsilon = 9,"), encoding="utf-8")
    assert desk.publish()[0] == 0
    after = desk.rows("sexes")
    assert [row["period"] for row in after] == ["2025-03", "2025-03", "2025-02", "2025-02", "2025-01", "2025-01"]
    assert [row for row in after if row["period"] != "2025-02"] == before[:4]


def test_nothing_can_be_paid(desk: Desk) -> None:
    desk.create("visits", BY_MONTH, 6)  # more than ada may spend in a period
    code, out, err = desk.publish("--json")
    (line,) = map(json.loads, out.splitlines())
    assert (code, err) == (3, "") and line["periods"] == [] and [failed["period"] for failed in line["failed"]] == ["2025-01", "2025-02", "2025-03"]
    assert {*desk.files()} == {"index.html"} and "No period is published yet" in (desk.out / "index.html").read_text(encoding="utf-8")


def test_a_query_that_the_policy_no_longer_allows_does_not_stop_the_others(desk: Desk) -> None:
    desk.create("costs", BY_MONTH.replace("COUNT(*)", "SUM(cost)"))
    desk.create("visits", BY_MONTH)
    desk.policy.write_text(re.sub(r"cost = .*\n", "", desk.policy.read_text(encoding="utf-8")), encoding="utf-8")
    code, out, err = desk.publish()
    assert code == 2 and "costs: nothing was published" in err and "cost" in err and out.startswith("visits: periods 3")


def test_before_a_period_is_closed(desk: Desk, clock: Clock) -> None:
    clock.day = dt.date(2025, 1, 20)
    desk.create("visits", BY_MONTH)
    assert desk.publish() == (0, "visits: no period is measured yet\n", "")
    clock.day = dt.date(2025, 2, 6)
    assert desk.publish() == (0, "visits: periods 2025-01; 1 new, each at ε = 0.5\n", "")


def test_each_is_charged_to_the_account_that_made_it(desk: Desk) -> None:
    desk.create("visits", BY_MONTH)
    desk.create("of_bob", BY_MONTH, 1, analyst="bob")
    assert desk.publish("--analyst", "carol")[0] == 0
    with desk.connected() as connection:
        ledger = connection.session.ledger
        assert [(ledger.spent("study", name).epsilon or 0) / NANO for name in ("ada", "bob", "carol")] == [1.5, 3, 0]


def test_some_names_and_some_formats(desk: Desk) -> None:
    desk.create("visits", BY_MONTH)
    desk.create("sexes", BY_SEX)
    assert desk.publish("VISITS", "visits", "--format", "csv")[1].startswith("visits: periods 3")
    assert {*desk.files()} == {"index.html", "visits.csv", "visits.html"} and desk.spent() == 1.5
    code, _, err = desk.publish("visit")
    assert code == 2 and "there is no standing query visit" in err and "try visits" in err
    code, _, err = desk.publish("--format", "xlsx")
    assert code == 2 and "xlsx is not a format" in err


def test_without_standing_queries_or_a_folder(desk: Desk) -> None:
    code, _, err = desk.publish()
    assert code == 2 and "has no standing query" in err and "CREATE STANDING QUERY" in err
    desk.create("visits", BY_MONTH)
    desk.out.rmdir()
    desk.out.write_text("a file", encoding="utf-8")
    assert desk.publish()[0] == 2


def test_a_dropped_query_is_published_no_longer(desk: Desk) -> None:
    desk.create("visits", BY_MONTH)
    desk.create("sexes", BY_SEX)
    assert desk.publish()[0] == 0
    with desk.connected() as connection:
        connection.execute("DROP STANDING QUERY sexes")
    assert "sexes" not in desk.publish()[1] and "sexes" not in (desk.out / "index.html").read_text(encoding="utf-8")


def test_pages_hold_all_that_they_show(desk: Desk) -> None:
    """The series with its intervals, and nothing that is fetched or runs."""
    desk.create("visits", BY_MONTH)
    assert desk.publish()[0] == 0
    for name in ("visits.html", "index.html"):
        page = (desk.out / name).read_text(encoding="utf-8")
        assert "<script" not in page and not re.search(r"(src|href)=['\"]?(https?:|//)", page)
    page = (desk.out / "visits.html").read_text(encoding="utf-8")
    assert "<svg" in page and "95 % interval" in page and "2025-03-31" in page and "CREATE STANDING QUERY" in page
    assert {*re.findall(r"<a href='([^']+)'", (desk.out / "index.html").read_text(encoding="utf-8"))} == {*desk.files()} - {"index.html"}


def test_columns_with_the_names_of_others(desk: Desk) -> None:
    desk.create("visits", BY_MONTH.replace("AS n", "AS period"))
    assert desk.publish()[0] == 0
    assert [*desk.rows("visits")[0]][:3] == ["period", "month", "period 2"]
    assert duckdb.sql(f"SELECT \"period 2\" FROM '{desk.out / 'visits.parquet'}'").fetchall() == [(int(row["period 2"]),) for row in desk.rows("visits")]


def test_one_who_asks_at_the_same_time_is_not_charged_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person and a timer ask the same of a closed period: the later one waits for the answer of the first."""
    desk.create("visits", BY_MONTH)
    both = threading.Barrier(2)
    told: list[Any] = []

    def ask() -> None:
        with desk.connected() as connection:
            serve = connection.session.kernel._serve

            def slow(*given: Any) -> Any:
                time.sleep(0.3)
                return serve(*given)

            monkeypatch.setattr(connection.session.kernel, "_serve", slow)
            both.wait()
            told.append(connection.execute(BY_MONTH, epsilon=0.5).fetchall())

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told[0] == told[1] and desk.spent() == 1.5
    assert desk.publish()[1].endswith("none new\n") and [int(row["n"]) for row in desk.rows("visits")] == [row[1] for row in told[0]]
