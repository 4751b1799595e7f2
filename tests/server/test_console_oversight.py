"""The pages of auditors and owners, as `dpsql serve --http` serves them over the demo, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browsers import FAINT, UNNAMED, ConsolePage, browser, opened
from support.wire_servers import PASSWORD, served

from dpsql.demo.folder import BUDGET, export
from dpsql.server.vault.passwords import User, add_user, verifier

VIEWS = ("statements", "accounts", "releases", "incidents", "checks", "server")
ASKED = ("SELECT health, COUNT(*) AS n FROM people GROUP BY health", "SELECT COUNT(*) FROM people WHERE income > 15000")
LOOKS: tuple[dict[str, Any], ...] = (
    {}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}, {"viewport": {"width": 320, "height": 700}, "color_scheme": "dark"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """A browser, and the address of a server on which ada has asked."""
    with browser() as chromium:
        pytest.importorskip("fastapi")
        with served(export(tmp_path_factory.mktemp("oversight") / "study"), budget=BUDGET, terms=("--http", "127.0.0.1:0")) as server:
            for name, role in (("ann", "auditor"), ("olga", "owner")):
                add_user(server.users, User(name=name, verifier=verifier(PASSWORD), budget=BUDGET, role=role))
            address = f"http://127.0.0.1:{server.http_port}/"
            ada = signed_in(chromium, address, "ada")
            for sql in ASKED:
                ada.run(sql)
            assert not ada.page.get_by_role("link", name="Oversight").count()
            ada.page.context.close()
            yield chromium, address


def signed_in(chromium: Any, address: str, name: str, password: str = PASSWORD, **looks: Any) -> ConsolePage:
    made = opened(chromium, address, **looks)
    made.sign_in(name, password)
    made.page.locator("#console").wait_for()
    return made


def test_an_analyst_finds_no_oversight_by_its_address(place: tuple[Any, str]) -> None:
    ada = signed_in(*place, "ada")
    ada.page.evaluate("location.hash = 'oversight/accounts'")
    ada.page.get_by_role("heading", name="Ask").wait_for()
    assert ada.page.locator("#page-oversight").is_hidden()
    ada.page.context.close()


def test_an_auditor_sees_who_asked_what(place: tuple[Any, str], tmp_path: Path) -> None:
    ann = signed_in(*place, "ann")
    ann.page.get_by_text("2 statements, newest first").wait_for()
    table = ann.page.get_by_role("table", name="Statements")
    assert table.locator("tbody tr").count() == 2 and ASKED[1] in table.locator("tbody tr").first.inner_text()
    ann.page.get_by_label("Text contains").fill("HEALTH")
    ann.page.keyboard.press("Enter")
    ann.page.get_by_text("1 statement, newest first").wait_for()
    with ann.page.expect_download() as download:
        ann.page.get_by_role("link", name="Save as CSV").click()
    download.value.save_as(tmp_path / "statements.csv")
    text = (tmp_path / "statements.csv").read_text(encoding="utf-8")
    assert "health, COUNT(*)" in text and "15000" not in text
    ann.page.get_by_label("Outcome").select_option("failed")
    ann.page.keyboard.press("Enter")
    ann.page.get_by_role("button", name="Show", exact=True).click()
    ann.page.get_by_text("No statement matches.").wait_for()
    ann.page.context.close()


def test_the_keyboard_stays_where_it_was_and_listings_are_answered(place: tuple[Any, str]) -> None:
    ann = signed_in(*place, "ann")
    ann.page.get_by_role("link", name="Incidents").focus()
    ann.page.keyboard.press("Enter")
    ann.page.get_by_text("No statement failed.").wait_for()
    assert ann.page.evaluate("document.activeElement.textContent") == "Incidents"
    ann.go("Ask")
    card = ann.run("SHOW SPENDING")
    assert card.locator("tbody tr").count() == 2 and ASKED[1] in card.inner_text() and "No cost" in card.inner_text()
    ann.page.context.close()


def test_older_statements_are_shown_on_demand(place: tuple[Any, str]) -> None:
    ann = opened(*place)
    ann.page.route("**/api/oversight/statements?*", lambda route: route.continue_(url=route.request.url.replace("most=50", "most=1")))  # noqa: PLW0108
    ann.sign_in("ann")
    ann.page.get_by_role("button", name="Show older ones").click()
    ann.page.get_by_role("table", name="Statements").locator("tbody tr").nth(1).wait_for()
    assert not ann.page.get_by_role("button", name="Show older ones").count()
    ann.page.context.close()


def test_an_auditor_changes_nothing(place: tuple[Any, str]) -> None:
    ann = signed_in(*place, "ann")
    ann.page.get_by_role("link", name="Accounts").click()
    ann.page.get_by_role("table", name="Accounts").get_by_text("ada", exact=True).wait_for()
    assert not ann.page.get_by_role("button", name="Close").count() and not ann.page.get_by_label("Name of a new analyst").count()
    ann.page.get_by_role("link", name="Checks").click()
    ann.page.get_by_role("button", name="Check now").click()
    ann.page.get_by_text("of the ledger were verified").wait_for()
    ann.page.get_by_role("link", name="Server").click()
    ann.page.get_by_text("Running since").wait_for()
    ann.page.context.close()


def test_an_owner_adds_closes_and_reopens_after_a_second_look(place: tuple[Any, str]) -> None:
    chromium, address = place
    olga = signed_in(chromium, address, "olga")
    page = olga.page
    page.get_by_role("link", name="Oversight").click()
    page.get_by_role("link", name="Accounts").click()
    page.get_by_label("Name of a new analyst").fill("fay")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Enter")  # on the button that has the focus, which does nothing
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_label("Name of a new analyst").press("Enter")
    page.get_by_role("button", name="Add", exact=True).last.click()
    password = page.locator(".password")
    password.wait_for()
    told = password.inner_text()
    page.get_by_role("button", name="Done").click()
    fay = signed_in(chromium, address, "fay", told)
    page.get_by_role("button", name="Close the account of fay").click()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("button", name="Close the account of fay").click()
    page.get_by_role("button", name="Close it").click()
    page.get_by_text("closed by an owner").wait_for()
    page.get_by_role("status").get_by_text("The account of fay is closed").wait_for(state="attached")
    assert page.evaluate("document.activeElement.ariaLabel") == "Reopen the account of fay", "the keyboard goes on where it was"
    fay.go("Budget")
    fay.page.get_by_role("heading", name="Sign in").wait_for()
    fay.sign_in("fay", told)
    fay.page.get_by_role("alert").get_by_text("the owner of the data has closed this account").wait_for()
    page.get_by_role("button", name="Reopen the account of fay").click()
    page.get_by_role("button", name="Reopen it").click()
    page.get_by_role("button", name="Close the account of fay").wait_for()
    fay.sign_in("fay", told)
    fay.page.locator("#console").wait_for()
    page.get_by_label("Name of a new analyst").fill("ada")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Add", exact=True).last.click()
    page.get_by_text("ada is a user already").wait_for()
    assert not page.get_by_role("button", name="Close the account of olga").count()
    for made in (fay, olga):
        made.page.context.close()


@pytest.mark.parametrize("looks", LOOKS, ids=str)
def test_every_view_can_be_read(place: tuple[Any, str], looks: dict[str, Any]) -> None:
    chromium, address = place
    olga = signed_in(chromium, address, "olga", **looks)
    for view in VIEWS:
        olga.page.evaluate(f"location.hash = 'oversight/{view}'")
        olga.page.locator("nav.views a[aria-current=page]", has_text=view.capitalize()).wait_for()
        olga.page.wait_for_load_state("networkidle")
        if view == "checks":
            olga.page.get_by_role("button", name="Check now").click()
            olga.page.get_by_text("of the ledger were verified").wait_for()
        assert olga.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        assert olga.page.evaluate(UNNAMED) == [], view
        assert olga.page.evaluate(FAINT) == [], view
    assert [url for url in olga.asked if not url.startswith(address)] == [] and olga.logged == []
    olga.page.context.close()
