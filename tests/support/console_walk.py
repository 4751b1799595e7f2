"""Every page and state of the console, one after the other, over the demo. As a program, `python -m tests.support.console_walk FOLDER`
puts a picture of each at each width and theme into a folder, for whoever changes how pages look.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

WIDTHS = (320, 390, 1280)
THEMES = ("light", "dark")
LONG_NAME = "maria.magdalena.van.der.westhuizen@statistics.example.org"
BY_HEALTH = "SELECT health, COUNT(*), AVG(income) FROM people GROUP BY health"
BY_SITE = "SELECT site, female, COUNT(*) AS people FROM people GROUP BY site, female"
MANY_SERIES = "SELECT plan, health, COUNT(*) AS people FROM people GROUP BY plan, health"
WIDE = f"SELECT plan AS {'a_long_name_' * 8}, {', '.join(f'coinsurance AS c{at}' for at in range(30))} FROM plans"
WITH_VALUES = "SELECT health, COUNT(*) FROM people WHERE income > :least AND female = :women GROUP BY health"
COSTLY = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) COUNT(*) FROM people WHERE income > 3000"
SLOW = "SELECT COUNT(*) FROM person_years a JOIN person_years b ON a.year = b.year JOIN person_years c ON b.year = c.year"
SYNTHETIC = "CREATE SYNTHETIC TABLE copies AS SELECT health, female, site FROM people OPTIONS (epsilon = 0.25)"
FAILED_FOR = "a cause for the owner alone"
VIEWS = ("statements", "accounts", "releases", "incidents", "checks", "server")


def eventful(policy: Path, budget: str) -> None:
    """Statements in the ledger that were answered late, failed, were forgiven, and were stopped."""
    import dpsql
    from dpsql.budgets.convert import limit
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import find_ledger
    from dpsql.ledgers.ledger_reports import ReportingLedger
    from dpsql.trusted.accounting.cost import Account, pure
    from dpsql.trusted.kernel.run import REQUEST

    dpsql.connect(policy=policy, budget=budget, analyst="ada").close()
    declared = read_policy(policy)
    allows = {None: limit(declared.budgets[budget].total)}
    ledger = ReportingLedger(*find_ledger(declared))

    def charged(analyst: str, number: int) -> int:
        sql = f"SELECT site, AVG(income) AS average_income\nFROM people\nWHERE education_years > {number}\nGROUP BY site"
        return ledger.charge(Account(budget=budget, analyst=analyst), pure(Fraction(1, 100)).rounded(), digest=f"{analyst}{number}",
                             data="d", sql=sql, allows=allows)

    ledger.incident(charged("bea", 1), cause=FAILED_FOR)
    ledger.reopen(Account(budget=budget, analyst="bea"))
    for number, analyst in enumerate(("bea", "ada", LONG_NAME), 2):
        ledger.incident(charged(analyst, number), cause=FAILED_FOR)
        ledger.answer(charged(analyst, number + 10), "{}", 2 + number)
        ledger.stopped(charged(analyst, number + 20), REQUEST)
    ledger.close()


def walk(chromium: Any, address: str, growing: str) -> Iterator[tuple[str, Any]]:
    """The names of pages and states, each with the page when it is in that state. `growing` is the address of a server whose tables
    grow."""
    yield from _time(chromium, growing)
    yield from _signed_out(chromium, address)
    yield from _analyst(chromium, address)
    yield from _agent(chromium, address)
    yield from _auditor(chromium, address)
    yield from _owner(chromium, address)


def _signed_out(chromium: Any, address: str) -> Iterator[tuple[str, Any]]:
    from support.browsers import opened

    out = opened(chromium, address)
    out.page.get_by_role("heading", name="Sign in").wait_for()
    yield "sign-in", out
    out.sign_in("ada", "a wrong password")
    out.page.get_by_role("alert").get_by_text("wrong").wait_for()
    yield "sign-in-wrong", out
    out.page.route("**/api/login", lambda route: route.fulfill(json={"signs_on": True}))
    out.page.goto(f"{address}?sign-on=role")
    out.page.get_by_role("link", name="Sign in with your organization").wait_for()
    yield "sign-in-elsewhere", out
    for guide in ("start", "promise", "sql", "server"):
        out.page.goto(f"{address}guides/{guide}")
        yield f"guide-{guide}", out
    out.page.context.close()


def _analyst(chromium: Any, address: str) -> Iterator[tuple[str, Any]]:
    from support.browsers import opened

    ada = opened(chromium, address)
    page = ada.page
    ada.sign_in("ada")
    page.locator("#left", has_text="left").wait_for()
    yield "ask-empty", ada
    for name in ("Budget", "Releases"):
        ada.go(name)
        page.locator(f"#{name.lower()} > *").first.wait_for()
        yield f"{name.lower()}-first", ada
    ada.go("Ask")
    page.locator(".cm-content").click()
    page.keyboard.insert_text("SELECT COUNT(*) FROM pers")
    page.keyboard.press("Control+ ")
    page.locator(".cm-tooltip-autocomplete li").first.wait_for()
    yield "ask-completion", ada
    ada.write(BY_HEALTH)
    ada.price("ε =")
    yield "ask-price", ada
    page.locator("#price details").last.locator("summary").click()
    yield "ask-price-open", ada
    ada.write("SELECT health, incom FROM people\nWHERE income > 5")
    ada.price("there is no column")
    page.locator(".cm-lintRange-error").wait_for()
    yield "ask-mistake", ada
    page.locator(".cm-lintRange-error").hover()
    page.wait_for_timeout(500)
    yield "ask-mistake-hover", ada
    ada.write(WITH_VALUES)
    ada.price("Not known yet")
    yield "ask-parameters", ada
    page.get_by_label(":least").fill("many")
    page.get_by_label(":least").press("Control+Enter")
    page.locator("#progress").get_by_text("Not run").wait_for()
    yield "ask-parameters-wrong", ada
    page.get_by_label(":least").fill("12000")
    page.get_by_label(":women").select_option("true")
    ada.price("ε =")
    page.get_by_label(":least").press("Control+Enter")
    ada.cards.first.wait_for()
    yield "answer-parameters", ada
    ada.cards.first.get_by_role("button", name="Remove").click()
    for name, sql in (("health", BY_HEALTH), ("site", BY_SITE), ("many", MANY_SERIES)):
        card = ada.run(sql)
        ada.price("answered before")
        yield f"answer-{name}-table", ada
        for tab, there in (("Chart", "svg:visible"), ("Plan", ".plan-tree li")):
            card.get_by_role("tab", name=tab).click()
            card.locator(there).first.wait_for()
            yield f"answer-{name}-{tab.lower()}", ada
        card.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
        yield f"answer-{name}-open", ada
        card.get_by_role("button", name="Remove").click()
    ada.run(WIDE)
    yield "answer-wide", ada
    ada.run("SELECT MEDIAN(income) FROM people JOIN person_years USING (nothing)")
    yield "answer-refused", ada
    ada.run(SYNTHETIC)
    yield "answer-synthetic", ada
    ada.write(COSTLY)
    page.keyboard.press("Control+Enter")
    page.get_by_role("dialog").wait_for()
    yield "ask-confirm", ada
    page.get_by_role("dialog").locator("summary").click()
    yield "ask-confirm-open", ada
    page.keyboard.press("Escape")
    page.get_by_text("Not run, and not charged").wait_for()
    while page.get_by_role("button", name="Remove").count():
        page.get_by_role("button", name="Remove").first.click()
    ada.write(SLOW)
    page.keyboard.press("Control+Enter")
    page.locator("#progress", has_text="Running for 1 s").wait_for()
    yield "ask-running", ada
    if page.get_by_role("button", name="Cancel").is_visible():
        page.get_by_role("button", name="Cancel").click()
    ada.cards.first.wait_for()
    yield "answer-cancelled", ada
    for name, there in (("Budget", ".meter"), ("Releases", ".releases"), ("Tables", ".table-card")):
        ada.go(name)
        page.locator(there).first.wait_for()
        yield name.lower(), ada
    page.locator("#tables details").evaluate_all("all => all.forEach((one) => (one.open = true))")
    yield "tables-open", ada
    page.route("**/api/budget", lambda route: route.abort())
    ada.go("Budget")
    page.locator("#budget").get_by_text("the server cannot be reached").wait_for()
    ada.logged.clear()  # of what the browser says itself
    yield "unreachable", ada
    page.context.close()


def _agent(chromium: Any, address: str) -> Iterator[tuple[str, Any]]:
    """Who has a share of each day."""
    from support.browsers import opened

    robot = opened(chromium, address)
    robot.sign_in("robot")
    robot.page.locator("#left", has_text="left").wait_for()
    robot.run(BY_HEALTH)
    robot.go("Budget")
    robot.page.get_by_role("heading", name="robot, today").wait_for()
    yield "budget-of-day", robot
    robot.page.context.close()


def _auditor(chromium: Any, address: str) -> Iterator[tuple[str, Any]]:
    from support.browsers import opened

    ann = opened(chromium, address)
    ann.sign_in("ann")
    for view in VIEWS:
        _turn(ann, view)
        if view == "checks":
            ann.page.get_by_role("button", name="Check now").click()
            ann.page.get_by_text("of the ledger were verified").wait_for()
        yield f"auditor-{view}", ann
    ann.page.context.close()


def _owner(chromium: Any, address: str) -> Iterator[tuple[str, Any]]:
    from support.browsers import opened

    olga = opened(chromium, address)
    olga.sign_in("olga")
    olga.page.locator("#left", has_text="left").wait_for()
    _turn(olga, "statements")
    for outcome in ("failed", "stopped"):
        olga.page.get_by_label("Outcome").select_option(outcome)
        olga.page.get_by_role("button", name="Show", exact=True).click()
        olga.page.get_by_text("statements, newest first").wait_for()
        yield f"statements-{outcome}", olga
    olga.page.get_by_label("Text contains").fill("nothing has this text")
    olga.page.keyboard.press("Enter")
    olga.page.get_by_text("No statement").wait_for()
    yield "statements-none", olga
    _turn(olga, "incidents")
    yield "incidents", olga
    _turn(olga, "accounts")
    yield "accounts", olga
    olga.page.get_by_label("Name of a new analyst").fill(LONG_NAME.replace("@", ".and.a.longer.name@"))
    olga.page.keyboard.press("Enter")
    olga.page.get_by_role("dialog").wait_for()
    yield "accounts-adding", olga
    olga.page.get_by_role("button", name="Add", exact=True).last.click()
    olga.page.locator(".password").wait_for()
    yield "accounts-added", olga
    olga.page.get_by_role("button", name="Done").click()
    olga.page.get_by_label("Name of a new analyst").fill("ada")
    olga.page.keyboard.press("Enter")
    olga.page.get_by_role("button", name="Add", exact=True).last.click()
    olga.page.get_by_text("ada is a user already").wait_for()
    yield "accounts-not-added", olga
    olga.page.get_by_role("button", name="Close the account of bea").click()
    olga.page.get_by_role("dialog").wait_for()
    yield "accounts-closing", olga
    olga.page.get_by_role("button", name="Close it").click()
    olga.page.get_by_text("closed by an owner").wait_for()
    yield "accounts-closed", olga
    olga.page.get_by_role("button", name="Reopen the account of bea").click()
    olga.page.get_by_role("dialog").wait_for()
    yield "accounts-reopening", olga
    olga.page.context.close()


def _time(chromium: Any, address: str) -> Iterator[tuple[str, Any]]:
    """Of tables that grow: two standing queries of ada, of which one was measured, and one of bea."""
    from support.browsers import opened

    ada = opened(chromium, address)
    page = ada.page
    ada.sign_in("ada")
    ada.go("Time")
    page.get_by_role("article", name="Standing query visits", exact=True).locator("svg:visible").first.wait_for()
    page.get_by_text("No period is measured yet").wait_for()
    yield "time", ada
    measured = page.get_by_role("article", name="Standing query visits", exact=True)
    for tab in ("Table", "Periods"):
        measured.get_by_role("tab", name=tab).click()
        yield f"time-{tab.lower()}", ada
    page.get_by_role("button", name="Show the numbers of bea_by_day").click()
    page.get_by_role("article", name="Standing query bea_by_day").locator("svg:visible").first.wait_for()
    yield "time-of-others", ada
    page.context.close()
    olga = opened(chromium, address)
    olga.sign_in("olga")
    olga.page.locator("#console").wait_for()
    olga.go("Time")
    olga.page.get_by_role("button", name="Show the numbers of visits").wait_for()
    yield "time-of-owners", olga
    olga.page.context.close()


def _turn(console: Any, view: str) -> None:
    console.page.locator("#console").wait_for()
    console.page.evaluate(f"location.hash = 'oversight/{view}'")
    console.page.locator("nav.views a[aria-current=page]", has_text=view.capitalize()).wait_for()
    console.page.wait_for_load_state("networkidle")


@contextlib.contextmanager
def console_served(folder: Path) -> Iterator[str]:
    """The address of a server of the demo with eventful accounts; all users have the same password."""
    from support.wire_servers import PASSWORD, served

    from dpsql.demo.folder import BUDGET, export
    from dpsql.server.vault.passwords import User, add_user, verifier

    policy = export(folder / "study")
    policy.write_text(policy.read_text(encoding="utf-8") + f"[budgets.{BUDGET}.agents.robot]\nper_day = {{ epsilon = 1, delta = 1e-7 }}\n",
                      encoding="utf-8")
    eventful(policy, BUDGET)
    with served(policy, budget=BUDGET, terms=("--http", "127.0.0.1:0")) as server:
        for name, role in (("bea", "analyst"), ("robot", "analyst"), (LONG_NAME, "analyst"), ("ann", "auditor"), ("olga", "owner")):
            add_user(server.users, User(name=name, verifier=verifier(PASSWORD), budget=BUDGET, role=role))
        yield f"http://127.0.0.1:{server.http_port}/"


STANDING = {
    "ada": {"visits": "SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n, AVG(cost) AS average_cost FROM visits JOIN people "
                      "USING (person_id) GROUP BY month, sex OPTIONS (epsilon = 0.4)",
            "a_name_of_a_standing_query_that_is_as_long_as_a_name_may_be_63c":
                "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month OPTIONS (epsilon = 0.1)"},
    "bea": {"bea_by_day": "SELECT visited_on AS day, COUNT(*) AS n FROM visits GROUP BY day OPTIONS (epsilon = 0.2)"}}


@contextlib.contextmanager
def growing_served(folder: Path) -> Iterator[str]:
    """The address of a server of tables that grow, with standing queries, whose budget shares answers."""
    import datetime as dt
    import itertools

    from support.growing_worlds import add_visits, project
    from support.wire_servers import PASSWORD, served

    import dpsql
    from dpsql.engine.publishing import publish
    from dpsql.engine.standing_queries import kept
    from dpsql.server.vault.passwords import User, add_user, verifier

    folder.mkdir()
    policy = project(folder)
    text = policy.read_text(encoding="utf-8").replace("since = 2025-01-01", f"since = {_months_ago(5)}")
    policy.write_text(f"{text}share_answers = true\nin_any = {{ periods = 3, epsilon = 20, delta = 1e-3 }}\n", encoding="utf-8")
    days = [_months_ago(5) + dt.timedelta(days=day) for day in range(0, 150, 3)]
    add_visits(policy, ((person, day) for day, person in itertools.product(days, range(40)) if (person + day.day) % 3 == 0))
    for analyst, queries in STANDING.items():
        with dpsql.connect(policy=policy, budget="study", analyst=analyst) as connection:
            for name, query in queries.items():
                connection.execute(f"CREATE STANDING QUERY {name} AS {query}")
            publish(kept(connection.session)[next(iter(queries))], connection.session)
    with served(policy, budget="study", terms=("--http", "127.0.0.1:0")) as server:
        for name, role in (("bea", "analyst"), ("olga", "owner")):
            add_user(server.users, User(name=name, verifier=verifier(PASSWORD), budget="study", role=role))
        yield f"http://127.0.0.1:{server.http_port}/"


def _months_ago(many: int) -> Any:
    """The first day of a month."""
    import datetime as dt

    number = dt.datetime.now(dt.UTC).year * 12 + dt.datetime.now(dt.UTC).month - 1 - many
    return dt.date(number // 12, number % 12 + 1, 1)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.browsers import browser

    to = Path(sys.argv[1])
    to.mkdir(exist_ok=True)
    with (tempfile.TemporaryDirectory() as folder, browser() as chromium, console_served(Path(folder)) as address,
          growing_served(Path(folder) / "growing") as growing):
        for at, (name, console) in enumerate(walk(chromium, address, growing)):
            for width in WIDTHS:
                for theme in THEMES:
                    console.look(width, theme)
                    console.page.screenshot(path=to / f"{at:02}-{name}-{width}-{theme}.png", full_page=True, animations="disabled")
            console.look(max(WIDTHS))


if __name__ == "__main__":
    main()
