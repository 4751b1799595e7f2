"""The console in other browsers than Chromium, where these are installed: `support.other_browsers` tells what that takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.other_browsers import OtherPage, driven
from support.wire_servers import served

from dpsql.demo.folder import BUDGET, export

BY_HEALTH = "SELECT health, COUNT(*) FROM people GROUP BY health"
WITH_VALUES = "SELECT COUNT(*) FROM people WHERE income > :least AND female = :women"
COSTLY = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) COUNT(*) FROM people WHERE income > ?"
TOO_WIDE = "return document.documentElement.scrollWidth - innerWidth"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["firefox", "webkit"])
def test_the_console_works(name: str, tmp_path: Path) -> None:
    with driven(name) as driver, served(export(tmp_path / "study"), budget=BUDGET, terms=("--http", "127.0.0.1:0")) as server:
        page = OtherPage(driver, f"http://127.0.0.1:{server.http_port}/")
        page.sign_in()
        answers(page)
        values(page)
        question(page)
        looks(page)
        guides(page)


def answers(page: OtherPage) -> None:
    """Written, priced, run, and charted, by the keyboard."""
    page.write(BY_HEALTH)
    page.wait("#price", "ε = 0.5")
    page.run(BY_HEALTH)
    assert "± 6" in page.text("article.answer tbody") and page.script("return document.querySelectorAll('article.answer tbody tr').length") == 4
    page.wait("#price", "answered before")
    page.click("[role=tab]", "Table")
    page.press(page.keys.ARROW_RIGHT)
    page.wait("[role=tab][aria-selected=true]", "Chart")
    heights = page.script("return [...document.querySelectorAll('article.answer svg .mark')].map((one) => one.getBoundingClientRect().height)")
    assert len([height for height in heights if height > 0]) == 4
    page.write("SELECT incom FROM people")
    page.wait("#price", "there is no column incom")
    assert page.script("return document.querySelector('#editor').shadowRoot.querySelector('.cm-lintRange-error').innerText") == "incom"


def values(page: OtherPage) -> None:
    page.write(WITH_VALUES)
    page.wait("#parameters label", ":women true or false")
    page.press(page.keys.ENTER, control=True)
    page.wait("#parameters .fault", "A value is needed.")
    page.press("5000", page.keys.TAB, "true")
    page.wait("#price", "ε = 0.5")
    before = page.cards()
    page.press(page.keys.ENTER, control=True)
    page.until(lambda _: page.cards() > before)
    assert "with :least = 5000, :women = true" in page.text("article.answer")


def question(page: OtherPage) -> None:
    """From a field, whose Enter must not be the answer as well."""
    page.write(COSTLY)
    page.wait("#parameters label", "? 1 number")
    page.click("#parameters input")
    page.press("5")
    page.wait("#price", "ε = 2")
    page.press(page.keys.ENTER, control=True)
    page.wait("dialog", "of what is left")
    assert page.script("return document.activeElement.textContent").startswith("Run it")
    page.press(page.keys.ESCAPE)
    page.wait("#progress", "Not run, and not charged")
    page.press(page.keys.ENTER, control=True)
    page.wait("dialog", "Left after it")
    before = page.cards()
    page.until(lambda _: page.press(page.keys.ENTER) or page.cards() > before)
    assert "Cost ε = 2" in page.text("article.answer")


def looks(page: OtherPage) -> None:
    """Dark and light, and no page that is wider than a narrow window."""
    grounds = set()
    for chosen in ("light", "dark"):
        page.click("header [data-theme-switch]", "Theme")
        page.wait("header [data-theme-switch]", chosen)
        grounds.add(page.script("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
    page.driver.set_window_size(390, 800)
    page.until(lambda _: page.script("return innerWidth") <= 640)
    for name, there in (("Budget", ".meter"), ("Releases", ".releases"), ("Tables", ".table-card"), ("Ask", "article.answer")):
        page.click("nav a", name)
        page.wait(there)
        assert page.script(TOO_WIDE) <= 0, name


def guides(page: OtherPage) -> None:
    page.driver.get(f"{page.address}guides/promise")
    page.wait("h1", "The promise")
    assert page.script(TOO_WIDE) <= 0
