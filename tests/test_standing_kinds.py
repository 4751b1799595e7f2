"""Standing queries of all kinds: what each period is charged, what is told, and that it stays through outages and edits."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.growing_worlds import Clock, add_visits, project_in_rho

import dpsql
from dpsql import cli
from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import Error, Unsupported
from dpsql.strategies.over_time import square_root
from dpsql.trusted.accounting.cost import NANO
from dpsql.trusted.declarations.growth import name_of
from dpsql.trusted.kernel.run import Kernel

MONTHS = "SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) GROUP BY month, sex"
PER_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"
SO_FAR = "SUM(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on))"
KINDS = {
    "each": MONTHS,
    "lags": f"SELECT month, n, n - LAG(n) OVER (ORDER BY month) AS more, n - LAG(n, 12) OVER (ORDER BY month) AS than_last_year FROM ({PER_MONTH}) ORDER BY month DESC",
    "means": f"SELECT month, sex, AVG(n) OVER (PARTITION BY sex ORDER BY month ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS smooth FROM ({MONTHS})",
    "sums": f"SELECT month, SUM(n) OVER (ORDER BY month) AS so_far FROM ({PER_MONTH})",
    "totals": f"SELECT date_trunc('month', visited_on) AS month, {SO_FAR} AS so_far FROM visits GROUP BY month ORDER BY month DESC",
    "totals_by_sex": (f"SELECT sex, date_trunc('month', visited_on) AS month, {SO_FAR.replace('(ORDER', '(PARTITION BY sex ORDER')} AS so_far "
                      "FROM visits JOIN people USING (person_id) GROUP BY sex, month ORDER BY month, sex"),
    "sets": MONTHS.replace("GROUP BY month, sex", "GROUP BY ROLLUP (month, sex)"),
    "subtotals": MONTHS.replace("GROUP BY month, sex", "GROUP BY GROUPING SETS ((month), (month, sex))"),
    "shares": (f"SELECT a.month, b.n / a.n AS share FROM ({PER_MONTH}) AS a JOIN (SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n "
               "FROM visits WHERE cost > 50 GROUP BY month) AS b ON a.month = b.month"),
    "yearly": f"SELECT date_trunc('year', month) AS year, SUM(n) AS n FROM ({PER_MONTH}) GROUP BY year",
    "centred": f"SELECT month, AVG(n) OVER (ORDER BY month ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM ({PER_MONTH})",
}
STAYS = ("each", "lags", "means", "sums", "totals", "totals_by_sex", "subtotals", "shares")
RHO = 0.01


class Desk:
    """A project whose budget is a rho, and its publisher. In the k-th month of 2025 every person has min(k, 3) visits."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.policy, self.out, self._capsys = project_in_rho(folder), folder / "published", capsys

    def edit(self, old: str, new: str) -> None:
        text = self.policy.read_text(encoding="utf-8")
        assert old in text
        self.policy.write_text(text.replace(old, new), encoding="utf-8")

    def connected(self) -> Connection:
        return dpsql.connect(policy=self.policy, budget="study", analyst="ada")

    def create(self, name: str, price: str = f"rho = {RHO}") -> None:
        with self.connected() as connection:
            connection.execute(f"CREATE STANDING QUERY {name} AS {KINDS[name]} OPTIONS ({price})")

    def publish(self, *words: str) -> tuple[int, str, str]:
        """The exit code, and what is said."""
        code = cli.main(["publish", "--policy", str(self.policy), "--budget", "study", "--out", str(self.out), *words])
        told = self._capsys.readouterr()
        return code, told.out, told.err

    def rows(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader((self.out / f"{name}.csv").read_text(encoding="utf-8").splitlines()))

    def told(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / f"{name}.json").read_text(encoding="utf-8"))
        return found

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.out.iterdir()}

    def spent(self) -> Mapping[str, float]:
        with self.connected() as connection:
            found = connection.session.ledger.spent_in_periods("study")
            return {name_of("month", number): charge.rho / NANO for number, charge in found.items()}

    def spent_in_all(self) -> float:
        with self.connected() as connection:
            return connection.session.ledger.spent("study").rho / NANO

    def shown(self, name: str) -> dict[str, Any]:
        with self.connected() as connection:
            cursor = connection.execute("SHOW STANDING QUERIES")
            titles = [column[0] for column in cursor.description or ()]
            return next(row for row in (dict(zip(titles, row, strict=True)) for row in cursor.fetchall()) if row["name"] == name)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, dt.date(2025, 4, 6))  # March is closed


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], clock: Clock) -> Desk:
    return Desk(tmp_path, capsys)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements without noise, so that numbers can be compared with SQL."""
    begin = Kernel.__init__

    def begun(kernel: Kernel, *given: Any, **named: Any) -> None:
        begin(kernel, *given, **named)
        kernel._noise = Exact()

    monkeypatch.setattr(Kernel, "__init__", begun)


@pytest.mark.parametrize("name", KINDS)
def test_numbers_are_those_of_the_query(desk: Desk, clock: Clock, exact: None, name: str) -> None:
    """Published in two runs, and asked at once by another account."""
    desk.create(name)
    assert desk.publish()[0] == 0
    clock.day = dt.date(2025, 9, 6)
    assert desk.publish()[0] == 0
    with dpsql.connect(policy=desk.policy, budget="study", analyst="bob", rho=RHO) as connection:
        connection.session.kernel._noise = Exact()
        cursor = connection.execute(KINDS[name])
        titles = [column[0] for column in cursor.description or ()]
        asked = [[_shown(value) for value in row] for row in cursor.fetchall()]
    published = [[_shown(row[title]) for title in titles] for row in desk.rows(name)]
    assert published == asked if "ORDER BY month" in KINDS[name].rsplit(")", 1)[1] else sorted(published) == sorted(asked)
    assert {row["period"] for row in desk.rows(name)} >= ({f"2025-0{month}" for month in range(2, 9)} if name != "yearly" else {"2025-01 to 2025-08"})


def _shown(value: Any) -> str:
    if value in (None, ""):
        return ""
    try:
        return f"{float(value):.6f}"
    except (TypeError, ValueError):
        return str(value)[:10]


@pytest.mark.parametrize("name", STAYS)
def test_the_past_stays_through_outages_edits_and_late_rows(desk: Desk, clock: Clock, name: str) -> None:
    """Days are simulated for a year and more: on some the publisher does not run, rows arrive late, and the policy is edited."""
    drawn, told, files = random.Random(name), dict[tuple[str, str], dict[str, str]](), dict[str, bytes]()
    desk.create(name)
    while clock.day < dt.date(2026, 6, 1):
        clock.day += dt.timedelta(days=drawn.choice((1, 3, 20, 40, 75)))
        if drawn.random() < 0.3:
            add_visits(desk.policy, [(person, clock.day - dt.timedelta(days=60)) for person in range(20)])
        if drawn.random() < 0.3:
            desk.policy.write_text(desk.policy.read_text(encoding="utf-8") + f"\n# edited on {clock.day}\n", encoding="utf-8")
        code, out, err = desk.publish("--format", "csv")
        assert (code, err) == (0, ""), out
        rows = {(row["period"], row.get("sex", "")): row for row in desk.rows(name)}
        assert {key: rows[key] for key in told} == told, "to the last digit, with errors, intervals and prices"
        if "none new" in out:
            assert desk.contents() == files
        told, files = rows, desk.contents()
    assert len({period for period, _ in told}) >= 16


def test_a_second_run_changes_no_byte_and_another_folder_gets_the_same(desk: Desk, clock: Clock) -> None:
    for name in KINDS:
        desk.create(name)
    assert desk.publish()[0] == 0
    clock.day = dt.date(2025, 7, 8)
    assert desk.publish()[0] == 0
    before, spent = desk.contents(), desk.spent_in_all()
    assert desk.publish()[0] == 0 and desk.contents() == before
    desk.out = desk.out.with_name("again")
    assert desk.publish()[0] == 0 and desk.contents() == before and desk.spent_in_all() == spent


def test_running_totals_charge_earlier_periods_by_their_weights(desk: Desk, clock: Clock) -> None:
    """As SHOW STANDING QUERIES said: each period by its own measurement and by later ones, a person in all by the sum of the weights."""
    clock.day = dt.date(2025, 1, 20)
    desk.create("totals", "rho = 0.5")
    clock.day = dt.date(2025, 2, 6)
    row = desk.shown("totals")
    clock.day = dt.date(2026, 2, 6)  # a year later: 13 months
    code, out, _ = desk.publish()
    last = max(desk.rows("totals"), key=lambda told: told["period"])["price in all"]
    assert code == 0 and f"13 new, the last at ρ = 0.5 in the period, {last} in all" in " ".join(out.split()), "prices in all differ"
    weights, unit = [int(weight) for weight in square_root(64).weights], 0.5 / square_root(64).length ** 2
    spent = desk.spent()
    assert len(spent) == 13 and spent["2025-01"] == pytest.approx(unit * sum(weight**2 for weight in weights[:13]), abs=1e-7)
    assert spent["2026-01"] == pytest.approx(unit * weights[0] ** 2, abs=1e-8)
    in_all = sum(unit * sum(weights[:many]) ** 2 for many in range(1, 14))
    assert desk.spent_in_all() == pytest.approx(in_all, abs=1e-6)
    assert _rho(row["year ahead, one period"]) == pytest.approx(max(spent.values()), rel=1e-3)
    assert _rho(row["year ahead, in all"]) == pytest.approx(in_all, rel=1e-3)
    assert row["price of a period"].startswith("ρ = 0.5 in the period, ")
    assert {told["price in the period"] for told in desk.rows("totals")} == {"ρ = 0.5"}


def _rho(text: str) -> float:
    return float(text.removeprefix("ρ = ").replace(",", ""))


@pytest.mark.parametrize("name", [*KINDS])
def test_a_year_costs_what_was_foreseen(desk: Desk, clock: Clock, name: str) -> None:
    clock.day = dt.date(2025, 2, 6)
    desk.create(name)
    row = desk.shown(name)
    clock.day = dt.date(2026, 2, 6)
    assert desk.publish("--format", "csv")[0] == 0
    assert _rho(row["year ahead, one period"]) == pytest.approx(max(desk.spent().values()), rel=1e-3)
    assert _rho(row["year ahead, in all"]) == pytest.approx(desk.spent_in_all(), rel=1e-3)


def test_room_for_running_totals_is_seen_in_the_worst_period(desk: Desk, clock: Clock) -> None:
    """With the 12 after it, a month is charged about 1.9 times its own measurement."""
    clock.day = dt.date(2025, 1, 20)
    desk.edit("rho = 15", "rho = 0.7")
    desk.create("totals", "rho = 1")
    weights, unit = [int(weight) for weight in square_root(64).weights], 1 / square_root(64).length ** 2
    assert unit * weights[0] ** 2 < 0.7 < unit * sum(weight**2 for weight in weights[:12])
    assert desk.shown("totals")["has room"] == "no: 2025-01 of ada"


def test_what_cannot_stay_is_published_anew_and_said(desk: Desk, clock: Clock) -> None:
    for name in ("sets", "centred", "yearly"):
        desk.create(name)
    assert desk.publish()[0] == 0
    before = {name: desk.rows(name) for name in ("sets", "centred")}
    clock.day = dt.date(2025, 5, 6)
    assert desk.publish()[0] == 0
    whole = [row for row in desk.rows("sets") if not row["month"]]
    assert [row["period"] for row in whole] == ["2025-01 to 2025-04"] and [row["period"] for row in before["sets"] if not row["month"]] == ["2025-01 to 2025-03"]
    alone = [row for row in desk.rows("sets") if row["month"] and not row["sex"]]
    assert int(whole[0]["n"]) == sum(int(row["n"]) for row in alone), "the totals are the sums of what is published"
    assert all(row in desk.rows("sets") for row in before["sets"] if row["month"]), "rows of a month stay"
    assert desk.rows("centred")[2]["smooth"] != before["centred"][2]["smooth"], "March now has April after it"
    for name, words in (("sets", "totals over month"), ("centred", "numbers of earlier months"), ("yearly", "numbers of earlier months")):
        assert f"{words} change as periods are added" in (desk.out / f"{name}.html").read_text(encoding="utf-8")
        assert desk.told(name)["changes"] == words
    assert desk.told("sets")["several periods"]["period"] == "2025-01 to 2025-04"


def test_pages_show_days_and_draw_what_has_numbers(desk: Desk) -> None:
    """Starts of months are days; the difference from a year ago has no number before there is one."""
    desk.create("lags")
    assert desk.publish()[0] == 0
    page = (desk.out / "lags.html").read_text(encoding="utf-8")
    assert "2025-03-01<" in page and "2025-03-01 00:00:00" not in page
    assert "more by month, with 95 % intervals" in page and "than_last_year by month, with" not in page


@pytest.mark.parametrize("name", KINDS)
def test_explain_says_what_stays(desk: Desk, name: str) -> None:
    with desk.connected() as connection:
        told = str(connection.explain(f"CREATE STANDING QUERY {name} AS {KINDS[name]} OPTIONS (rho = 0.5)"))
    assert ("stay as they are when another month closes" in told) == (name in STAYS)
    assert ("when another month closes," in told) != (name in STAYS)
    assert ("also charges the months before it" in told) == name.startswith("totals")


def test_a_gap_is_filled_before_what_follows_from_it(desk: Desk, clock: Clock) -> None:
    """Windows and running totals end before a month that cannot be paid, and nothing after it is charged until it can."""
    with desk.connected() as connection:
        connection.execute(PER_MONTH.replace("GROUP", "WHERE visited_on BETWEEN '2025-02-01' AND '2025-02-28' GROUP"), rho=14.9999)
    for name in ("lags", "totals", "each"):
        desk.create(name)
    code, _, err = desk.publish()
    assert code == 3 and "2025-02 could not be measured" in err
    for name, known in (("lags", ["2025-01"]), ("totals", ["2025-01"]), ("each", ["2025-01", "2025-03"])):
        rows = [row for row in desk.rows(name) if row["stored"] == "true"]
        assert [*dict.fromkeys(row["period"] for row in rows)] == known, name
    before = {name: [row for row in desk.rows(name) if row["stored"] == "true"] for name in ("lags", "totals", "each")}
    desk.edit("rho = 15", "rho = 16")
    assert desk.publish()[0] == 0
    for name, rows in before.items():
        after = desk.rows(name)
        assert {row["period"] for row in after} == {"2025-01", "2025-02", "2025-03"} and all(row in after for row in rows)


def test_running_totals_end_where_the_policy_changes_what_is_added(desk: Desk, clock: Clock) -> None:
    """Numbers that were measured with other limits, and other noise, are not added up; those that were told stay."""
    desk.create("totals")
    assert desk.publish()[0] == 0
    before, spent = desk.rows("totals"), desk.spent_in_all()
    desk.edit("rows_per_entity_and_period = 4", "rows_per_entity_and_period = 9")
    clock.day = dt.date(2025, 6, 6)
    code, _, err = desk.publish()
    assert code == 2 and "the policy has changed what is added up" in " ".join(err.split()) and desk.spent_in_all() == spent
    assert [row for row in desk.rows("totals") if row["stored"] == "true"] == before
    desk.edit("rows_per_entity_and_period = 9", "rows_per_entity_and_period = 4")
    assert desk.publish()[0] == 0 and desk.rows("totals")[2:] == before


def test_numbers_that_were_asked_before_stay_when_the_policy_changes(desk: Desk, clock: Clock) -> None:
    """They are stored under another text, so the publisher writes down which they are."""
    with desk.connected() as connection:
        for name in ("each", "lags", "totals"):
            connection.execute(KINDS[name], rho=RHO)
    for name in ("each", "lags", "totals"):
        desk.create(name)
    code, out, _ = desk.publish()
    assert code == 0 and all(line.endswith("none new") for line in out.splitlines())
    before, spent = {name: desk.rows(name) for name in ("each", "lags", "totals")}, desk.spent_in_all()
    desk.policy.write_text(desk.policy.read_text(encoding="utf-8").replace("bounds = [0, 100]", "bounds = [0, 200]"), encoding="utf-8")
    assert desk.publish()[0] == 0
    assert {name: desk.rows(name) for name in before} == before and desk.spent_in_all() == spent


def test_two_parts_are_told_apart(desk: Desk, clock: Clock, exact: None) -> None:
    """Also where the policy changes between them: each is found by its own text, and is measured once."""
    add_visits(desk.policy, [(person, dt.date(2025, month, 20)) for person in range(10) for month in (1, 2, 3)], cost=80)
    desk.create("shares", "rho = 0.4")
    assert desk.publish()[0] == 0
    shares = [float(row["share"]) for row in desk.rows("shares")]
    assert shares == pytest.approx([10 / 50, 10 / 90, 10 / 130])
    desk.policy.write_text(desk.policy.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert desk.publish()[1].endswith("none new\n")
    assert [float(row["share"]) for row in desk.rows("shares")] == shares and {*desk.spent().values()} == {0.4}


@pytest.mark.parametrize(("text", "words"), [
    (f"SELECT month, n - (SELECT COUNT(*) FROM people) AS n FROM ({PER_MONTH})", "charged anew whenever its data change"),
    (f"SELECT month, n, total FROM ({PER_MONTH}) CROSS JOIN (SELECT COUNT(*) AS total FROM people)", "must group by the month of visited_on"),
    (f"SELECT a.month, a.n, b.n AS m FROM ({PER_MONTH}) AS a LEFT JOIN ({PER_MONTH.replace('GROUP', 'WHERE visited_on >= $$2025-02-01$$ GROUP')}) AS b "
     "ON a.month = b.month".replace("$$", "'"), "must begin with the same month"),
])
def test_what_cannot_be_kept_is_refused_with_advice(desk: Desk, text: str, words: str) -> None:
    with desk.connected() as connection, pytest.raises(Error, match=words) as caught:
        connection.execute(f"CREATE STANDING QUERY v AS {text.replace('$$', chr(39))} OPTIONS (rho = 0.5)")
    assert isinstance(caught.value, Unsupported) and caught.value.span is not None and caught.value.try_


def test_errors_of_running_totals_are_those_of_the_strategy(desk: Desk, clock: Clock) -> None:
    clock.day = dt.date(2025, 12, 6)
    desk.create("totals", "rho = 0.5")
    assert desk.publish()[0] == 0
    own = square_root(64)
    errors = [float(row["so_far error"]) for row in reversed(desk.rows("totals"))]
    assert errors == pytest.approx([4 * own.length * factor for factor in own.errors(11)], rel=1e-6) and math.sqrt(2 * 0.5) == 1
