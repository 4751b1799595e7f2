"""Attacks on what is published: what breaks a standing query, or makes it tell something false, or tells it to whom it is not told.

Each test is an attempt that succeeded once, or that nothing else tries.
"""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.growing_worlds import add_visits, project

import dpsql
from dpsql import cli
from dpsql.audit.exact import Exact
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.engine import publishing
from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import Charge

PER_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"
COSTLY = PER_MONTH.replace("GROUP", "WHERE cost > 50 GROUP")
BY_SEX = "SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) GROUP BY month, sex"
SHARES = f"SELECT a.month, b.n / a.n AS share FROM ({PER_MONTH}) AS a JOIN ({COSTLY}) AS b ON a.month = b.month"
KINDS = {
    "each": BY_SEX,
    "lags": f"SELECT month, n - LAG(n) OVER (ORDER BY month) AS more FROM ({PER_MONTH})",
    "shares": SHARES,
    "totals": ("SELECT date_trunc('month', visited_on) AS month, SUM(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on)) AS so_far "
               "FROM visits GROUP BY month"),
    "sets": BY_SEX.replace("GROUP BY month, sex", "GROUP BY ROLLUP (month, sex)"),
    "centred": f"SELECT month, AVG(n) OVER (ORDER BY month ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM ({PER_MONTH})",
}


class Desk:
    """A project in which every person has one visit a month, and its publisher. The budget is a rho."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.day = dt.date(2025, 4, 6)  # March is closed
        monkeypatch.setattr(growing, "today", lambda: self.day)
        self.policy, self.out, self._capsys = project(folder), folder / "out", capsys
        self.edit("epsilon = 1000\ndelta = 1e-3", "rho = 1000")
        self.edit("epsilon = 10, delta = 1e-4", "rho = 20")
        self.edit("epsilon = 5, delta = 1e-4", "rho = 15")
        add_visits(self.policy, itertools.product(range(40), [dt.date(2025, month, 9) for month in range(1, 13)]))

    def edit(self, old: str, new: str) -> None:
        text = self.policy.read_text(encoding="utf-8")
        assert old in text
        self.policy.write_text(text.replace(old, new), encoding="utf-8")

    def connected(self, analyst: str = "ada", **terms: Any) -> Connection:
        return dpsql.connect(policy=self.policy, budget="study", analyst=analyst, **terms)

    def asked(self, sql: str, analyst: str = "ada", **terms: Any) -> list[tuple[Any, ...]]:
        with self.connected(analyst, **terms) as connection:
            return [*connection.execute(sql).fetchall()]

    def create(self, name: str, query: str, options: str = " OPTIONS (rho = 0.5)", analyst: str = "ada", **terms: Any) -> None:
        self.asked(f"CREATE STANDING QUERY {name} AS {query}{options}", analyst, **terms)

    def publish(self, *words: str) -> tuple[int, str]:
        """The exit code, and everything that is said."""
        code = cli.main(["publish", "--policy", str(self.policy), "--budget", "study", "--out", str(self.out), *words])
        told = self._capsys.readouterr()
        return code, " ".join((told.out + told.err).split())

    def rows(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader((self.out / f"{name}.csv").read_text(encoding="utf-8").splitlines()))

    def told(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / f"{name}.json").read_text(encoding="utf-8"))
        return found

    def numbers(self, name: str, column: str) -> Sequence[str]:
        return [row[column] for row in self.rows(name)]

    def spent(self, analyst: str | None = None) -> float:
        with self.connected() as connection:
            return connection.session.ledger.spent("study", analyst).rho / 10**9


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, monkeypatch, capsys)


# -- a policy edited in between


@pytest.mark.parametrize("kind", KINDS)
def test_periods_that_are_no_longer_closed_stay_as_they_were_told(desk: Desk, kind: str) -> None:
    """The owner lets periods close later than they did when some were published."""
    desk.day = dt.date(2025, 7, 6)
    desk.create("x", KINDS[kind])
    assert desk.publish()[0] == 0
    before, table = desk.rows("x"), "SELECT * FROM standing.x ORDER BY ALL"
    shown = desk.asked(table)
    desk.edit('closes = "5 days"', 'closes = "95 days"')  # March is the last one
    code, said = desk.publish()
    assert (code, said) == (0, "x: periods 6, 2025-01 to 2025-06; none new")
    values = [key for key in before[0] if not key.endswith((" low", " high", " error"))]  # what changes is computed anew
    assert [[row[key] for key in values] for row in desk.rows("x")] == [[row[key] for key in values] for row in before]
    assert len(desk.asked(table)) == len(shown)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_never_shows_what_its_rows_are_computed_of(desk: Desk, kind: str) -> None:
    """Where the query has no plan any more, as before the first period closes, its rows are those that were told, or none."""
    desk.create("x", KINDS[kind])
    assert desk.publish()[0] == 0
    table = "SELECT * FROM standing.x ORDER BY ALL"
    shown = desk.asked(table)
    desk.edit('closes = "5 days"', 'closes = "400 days"')
    assert desk.asked(table) == ([] if kind in ("sets", "centred") else shown)
    desk.edit('sex = { values = ["f", "m"], nullable = false }', "")
    desk.edit("[tables.visits.columns]\nperson_id = {}\nvisited_on = {}\nseen_at = {}\ncost = { bounds = [0, 100], decimals = 0 }",
              "[tables.visits.columns]\nperson_id = {}\nvisited_on = {}\nseen_at = {}")
    if kind in ("each", "shares"):  # no plan on any day
        assert desk.asked(table) == shown


@pytest.mark.parametrize("kind", ["lags", "shares", "totals", "sets", "centred"])
@pytest.mark.parametrize("since", ["2024-12-01", "2025-02-01"])
def test_another_first_period_is_refused_before_a_charge(desk: Desk, kind: str, since: str) -> None:
    """Rows that follow from several periods would follow from others than before, or be charged and never shown."""
    desk.create("x", KINDS[kind])
    assert desk.publish()[0] == 0
    before, spent = desk.rows("x"), desk.spent()
    desk.edit("since = 2025-01-01", f"since = {since}")
    desk.day = dt.date(2025, 6, 6)
    code, said = desk.publish()
    assert code == 2 and "the policy has changed" in said and "another standing query, with another name" in said
    assert desk.spent() == spent and [row for row in desk.rows("x") if row["stored"] == "true"] == before


@pytest.mark.parametrize(("now", "then"), [(False, True), (True, False)])
def test_another_way_of_measuring_is_refused_before_a_charge(desk: Desk, now: bool, then: bool) -> None:
    """With a minimum frequency, running totals are sums of months, each of which is measured by itself."""
    key, minimum = 'key = "person_id"\n\n[tables.people]', 'key = "person_id"\nminimum_frequency = 5\n\n[tables.people]'
    if now:
        desk.edit(key, minimum)
    desk.create("x", KINDS["totals"])
    assert desk.publish()[0] == 0
    before, spent, table = desk.rows("x"), desk.spent(), "SELECT * FROM standing.x ORDER BY month"
    shown = desk.asked(table)
    desk.edit(*((key, minimum) if then else (minimum, key)))
    desk.day = dt.date(2025, 5, 6)
    code, said = desk.publish()
    assert code == 2 and "the policy has changed" in said and "what this one told stays" in said
    assert desk.spent() == spent and [row for row in desk.rows("x") if row["stored"] == "true"] == before and desk.asked(table) == shown


def test_numbers_stay_in_all_forms_where_a_column_has_another_type(desk: Desk) -> None:
    """Sums were cents and are whole now: a Parquet file or a table of whole numbers would round those of the past."""
    def to(kind: str) -> None:
        with duckdb.connect(desk.policy.parent / "data.duckdb") as connection:
            connection.execute(f"ALTER TABLE visits ALTER cost TYPE {kind}")

    to("DOUBLE")
    desk.edit("decimals = 0", "decimals = 2")
    desk.create("x", PER_MONTH.replace("COUNT(*)", "SUM(cost)"))
    assert desk.publish()[0] == 0
    before = [float(n) for n in desk.numbers("x", "n")]
    to("INTEGER")
    desk.edit("decimals = 2", "decimals = 0")
    desk.day = dt.date(2025, 5, 6)
    assert desk.publish()[0] == 0 and any(n != round(n) for n in before)
    found = duckdb.sql(f"SELECT n FROM '{desk.out / 'x.parquet'}'").fetchall()
    assert [n for n, in found][:3] == before == [float(n) for n in desk.numbers("x", "n")][:3]
    assert desk.asked("SELECT n FROM standing.x ORDER BY month") == found


# -- one name, again


def test_the_texts_of_parts_are_those_of_no_statement(desk: Desk) -> None:
    """An analyst who knows them could have a query measured under the text of a part of another one, and publish false numbers."""
    text = f"CREATE STANDING QUERY x AS {SHARES} OPTIONS (rho = 0.5)"
    desk.create("x", SHARES)
    assert desk.publish()[0] == 0
    with desk.connected() as connection:
        parts = {entry.sql for entry in connection.session.ledger.entries("study", "ada")} - {text}
        assert len(parts) == 1
        for part in parts:
            with pytest.raises(SqlError):
                connection.execute(part)


def test_the_same_text_on_other_terms_is_refused(desk: Desk) -> None:
    """What was measured is found by its text, so its intervals would be told with the confidence of the new query."""
    desk.create("x", PER_MONTH, "", rho=0.5, confidence=0.95)
    assert desk.publish()[0] == 0
    before = desk.rows("x")
    desk.asked("DROP STANDING QUERY x")
    for terms in ({"rho": 0.5, "confidence": 0.5}, {"rho": 0.1, "confidence": 0.95}):
        with pytest.raises(SqlError, match="created with the same text before, at another price or confidence") as caught:
            desk.create("x", PER_MONTH, "", **terms)
        assert caught.value.span is not None and "OPTIONS" in caught.value.try_
    desk.create("x", PER_MONTH, "", analyst="bob", rho=0.5, confidence=0.5)  # of whom nothing is stored
    assert desk.publish()[0] == 0 and desk.rows("x") != before
    desk.asked("DROP STANDING QUERY x", "bob")
    desk.create("x", PER_MONTH, "", rho=0.5, confidence=0.95)  # it goes on where it stopped
    assert desk.publish()[0] == 0 and desk.rows("x") == before and desk.spent("ada") == 1.5


def test_a_query_made_after_a_revision_is_measured_anew(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """The same text under another name does not show what was stored before the revision."""
    desk.create("x", PER_MONTH)
    assert desk.publish()[0] == 0
    with duckdb.connect(desk.policy.parent / "data.duckdb") as connection:
        connection.execute("UPDATE visits SET person_id = person_id % 2 WHERE visited_on < DATE '2025-02-01'")
    assert cli.main(["revise", "visits", "--policy", str(desk.policy), "--period", "2025-01", "--reason", "<b>late</b> files"]) == 0
    capsys.readouterr()
    desk.create("y", PER_MONTH)
    code, said = desk.publish()
    assert code == 0 and "x: periods 3, 2025-01 to 2025-03; none new y: periods 3, 2025-01 to 2025-03; 1 new" in said
    assert desk.spent() == 2 and desk.numbers("x", "n")[1:] == desk.numbers("y", "n")[1:]
    assert [row[1] for row in desk.asked(PER_MONTH, rho=0.5)] == [int(n) for n in desk.numbers("y", "n")] and desk.spent() == 2
    assert "<b>late" not in (desk.out / "y.html").read_text(encoding="utf-8")


# -- whose numbers they are


def test_whoever_may_not_ask_any_more_is_not_charged(desk: Desk) -> None:
    """The owner takes an analyst from the list; her standing queries stay as they are, and those of others go on."""
    desk.edit('entity = "person"\nrho', 'entity = "person"\nanalysts = ["ada", "bob"]\nrho')
    desk.create("x", PER_MONTH)
    desk.create("y", PER_MONTH, analyst="bob")
    assert desk.publish("--analyst", "bob")[0] == 0
    before, spent = desk.rows("x"), {name: desk.spent(name) for name in ("ada", "bob")}
    desk.edit('["ada", "bob"]', '["bob"]')
    desk.day = dt.date(2025, 5, 6)
    code, said = desk.publish("--analyst", "bob")
    assert code == 2 and "x: nothing was published" in said and "the policy does not list ada, who made it" in said
    with desk.connected("bob") as connection:
        room = {row[0]: row[8] for row in connection.execute("SHOW STANDING QUERIES").fetchall()}
        ledger = connection.session.ledger
        assert ledger.spent("study", "ada").rho == spent["ada"] * 10**9 and ledger.spent("study", "bob").rho > spent["bob"] * 10**9
    assert room["x"].startswith("no: the policy does not list ada") and room["y"] == "yes"
    assert desk.rows("x") == before and len(desk.rows("y")) == 4


def test_what_is_dropped_while_others_are_published_is_not_charged(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may take hours, and whoever made a query drops it before its turn."""
    desk.create("one", PER_MONTH)
    desk.create("dropped", COSTLY)
    desk.create("again", BY_SEX)
    original = publishing.publish

    def publish(query: Any, *given: Any, **named: Any) -> Any:
        if query.name == "one" and not desk.out.joinpath("one.csv").exists():
            desk.asked("DROP STANDING QUERY dropped")
            desk.asked("DROP STANDING QUERY again")
            desk.create("again", BY_SEX, " OPTIONS (rho = 0.25)")
        return original(query, *given, **named)

    monkeypatch.setattr(publishing, "publish", publish)
    code, said = desk.publish()
    assert code == 0 and said.startswith("one: periods 3") and "dropped" not in said and "again" not in said and desk.spent() == 1.5
    assert desk.publish()[0] == 0 and desk.spent() == 1.5 + 0.75


def test_accounts_do_not_share_what_they_spent_before_today(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher answers for several accounts in one session, each of which has its own share of the day."""
    with desk.policy.open("a", encoding="utf-8") as file:
        file.write("".join(f"\n[budgets.study.agents.{name}]\nper_day = {{ rho = 1 }}\n" for name in ("one", "two")))
    with desk.connected("one") as connection:
        session, nano = connection.session, 10**9
        before = {"one": Charge(epsilon=None, rho=3 * nano, delta=0), "two": Charge(epsilon=None, rho=0, delta=0)}
        monkeypatch.setattr(type(session.ledger), "spent_before", lambda ledger, account, day: before[account.analyst])
        most = {name: replace(session, analyst=name).limits[name] for name in ("one", "two")}
        assert most["one"].allows(Charge(epsilon=None, rho=4 * nano, delta=0)) and not most["two"].allows(Charge(epsilon=None, rho=2 * nano, delta=0))
        assert most["two"].allows(Charge(epsilon=None, rho=nano, delta=0))


def test_all_parts_are_told_where_answers_are_shared(desk: Desk) -> None:
    """Also where rows change with each period, so that no note has them."""
    with desk.policy.open("a", encoding="utf-8") as file:
        file.write("share_answers = true\n")
    desk.create("x", SHARES.replace("b.n / a.n AS share", "SUM(b.n - a.n) OVER () AS share"))
    assert desk.publish()[0] == 0
    shown = desk.asked("SELECT * FROM standing.x ORDER BY month")
    assert len(shown) == 3 and desk.asked("SELECT * FROM standing.x ORDER BY month", "bob") == shown and desk.spent("bob") == 0


@pytest.mark.parametrize("kind", ["each", "lags", "shares", "totals"])
@pytest.mark.parametrize("edit", [("bounds = [0, 100]", "bounds = [0, 120]"), ("since = 2025-01-01", "since = 2025-02-01"),
                                  ('closes = "5 days"', 'closes = "300 days"')])
def test_all_accounts_are_told_the_same_to_the_last_digit(desk: Desk, kind: str, edit: tuple[str, str]) -> None:
    """Also those that look first when the policy has changed. Rows that were computed are in a note of the account that pays."""
    with desk.policy.open("a", encoding="utf-8") as file:
        file.write("share_answers = true\n")
    desk.create("x", KINDS[kind])
    assert desk.publish()[0] == 0
    table = "SELECT * FROM standing.x ORDER BY ALL"
    shown = desk.asked(table)
    assert len(shown) >= 3 and desk.asked(table, "bob") == shown
    desk.edit(*edit)
    assert [desk.asked(table, name) for name in ("ada", "bob", "carol")] == [shown] * 3
    with desk.connected() as connection:  # it is known of all what they were told
        told = {name: {entry.told for entry in connection.session.ledger.entries("study", name)} for name in ("bob", "carol")}
    assert told["bob"] == told["carol"] and len(told["carol"]) == (6 if kind == "shares" else 3) and None not in told["carol"]


@pytest.mark.parametrize(("query", "words"), [
    (BY_SEX.replace("GROUP", "WHERE sex IN (SELECT sex FROM syn) GROUP"), "cannot read the synthetic table syn"),
    (BY_SEX.replace("GROUP", "WHERE sex IN (SELECT sex FROM standing.x) GROUP"), "cannot read the numbers of standing queries"),
])
def test_a_standing_query_reads_tables_of_the_policy_alone(desk: Desk, query: str, words: str) -> None:
    """Others are of one account, so whoever publishes it could not answer it."""
    desk.create("x", BY_SEX)
    desk.asked("CREATE SYNTHETIC TABLE syn AS SELECT sex FROM people", rho=1)
    with pytest.raises(Unsupported, match=words) as caught:
        desk.create("y", query)
    span = caught.value.span
    assert span is not None and f"CREATE STANDING QUERY y AS {query}"[span.start:span.end] in ("syn", "x", "standing.x")


def test_no_synthetic_table_hides_a_standing_query(desk: Desk) -> None:
    desk.create("x", PER_MONTH)
    for text in ('CREATE SYNTHETIC TABLE "standing.x" AS SELECT sex FROM people', 'CREATE SYNTHETIC TABLE "Standing.new" AS SELECT sex FROM people'):
        with pytest.raises(SqlError, match="standing.name are the numbers of a standing query"):
            desk.asked(text, rho=1)
    assert desk.spent() == 0


# -- what is told is true


def test_running_totals_say_that_late_rows_count_in_part(desk: Desk) -> None:
    """Totals follow from weighted sums, of which the later ones have late rows: here 120 of January, which come when June is
    measured. The total of December is neither with them nor without."""
    def totals() -> tuple[list[int], tuple[str, ...]]:
        with desk.connected(rho=0.5) as connection:
            connection.session.kernel._noise = Exact()
            answer = connection.execute(KINDS["totals"]).answer
            return [row[1] for row in answer.rows], answer.notes

    desk.day = dt.date(2025, 7, 6)
    assert totals()[0] == [40 * month for month in range(1, 7)]
    add_visits(desk.policy, itertools.product(range(40), [dt.date(2025, 1, day) for day in (20, 21, 22)]))
    desk.day = dt.date(2026, 1, 6)
    told, notes = totals()
    assert told[:6] == [40 * month for month in range(1, 7)] and 480 < told[-1] < 600
    assert "rows that reach a month after its measurement count in part" in notes


def test_no_cell_of_csv_is_a_formula(desk: Desk) -> None:
    """An analyst chooses titles and texts of groups that strangers open in a spreadsheet; programs find them as they are in JSON."""
    sexes = "CASE WHEN sex = 'f' THEN '=HYPERLINK(1)' ELSE '@m' END"
    desk.create("x", f"SELECT date_trunc('month', visited_on) AS month, {sexes} AS \"+sex\", COUNT(*) AS \"=1+2\" FROM visits JOIN people "
                     f"USING (person_id) GROUP BY month, {sexes}")
    assert desk.publish()[0] == 0
    titles, *rows = csv.reader((desk.out / "x.csv").read_text(encoding="utf-8").splitlines())
    assert titles[2:5] == ["'+sex", "'=1+2", "'=1+2 error"] and {row[2] for row in rows} == {"'=HYPERLINK(1)", "'@m"}
    assert {row[1] for period in desk.told("x")["periods"] for row in period["rows"]} == {"=HYPERLINK(1)", "@m"}


# -- what depends on rows


def test_without_any_rows_all_looks_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is said, the files, their rows, prices and charges depend on no row."""
    looks = []
    for name in ("full", "empty"):
        (tmp_path / name).mkdir()
        desk = Desk(tmp_path / name, monkeypatch, capsys)
        if name == "empty":
            with duckdb.connect(desk.policy.parent / "data.duckdb") as connection:
                connection.execute("DELETE FROM visits")
        for kind, query in KINDS.items():
            desk.create(kind, query, " OPTIONS (rho = 0.1)")
        said = desk.publish()
        shapes = [[kind, [[value for key, value in row.items() if key in ("period", "month", "sex", "stored") or "price" in key]
                          for row in desk.rows(kind)]] for kind in KINDS]
        with desk.connected() as connection:
            ledger = connection.session.ledger
            looks.append([said, shapes, sorted(path.name for path in desk.out.iterdir()), ledger.spent_in_periods("study"), ledger.spent("study")])
    assert looks[0] == looks[1]
