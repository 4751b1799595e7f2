"""The console in a browser, as an analyst uses it. Needs playwright and a Chromium of the system."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.wire_servers import PASSWORD

QUIETLY = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync"]
REFUSED = "Failed to load resource: the server responded with a status of 4"  # what Chromium logs of every refusal


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A Chromium; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=QUIETLY)
        try:
            yield made
        finally:
            made.close()


@dataclass
class ConsolePage:
    """A page of the console, what it logged, and the addresses that it asked."""

    page: Any
    logged: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def sign_in(self, name: str = "ada", password: str = PASSWORD) -> None:
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.keyboard.press("Enter")

    def write(self, sql: str) -> None:
        """Write a statement in the place of what is there."""
        self.page.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(sql)
        self.page.keyboard.press("Escape")

    def price(self, words: str) -> Any:
        """The price, once it holds these words."""
        found = self.page.locator("#price", has_text=words)
        found.wait_for()
        return found

    def run(self, sql: str) -> Any:
        """Run a statement by the keyboard; its card."""
        before = self.cards.count()
        self.write(sql)
        self.page.keyboard.press("Control+Enter")
        self.cards.nth(before).wait_for()
        return self.cards.first

    @property
    def cards(self) -> Any:
        return self.page.locator("article.answer")

    def go(self, name: str) -> None:
        self.page.get_by_role("navigation").get_by_role("link", name=name).click()

    def left(self) -> float:
        """Percent that the head of the page tells."""
        return float(self.page.locator("#left").inner_text().split()[0])


def opened(chromium: Any, address: str, **looks: Any) -> ConsolePage:
    """A page of a browser that nobody used before. `looks` are terms of playwright's contexts."""
    page = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **looks}).new_page()
    page.set_default_timeout(15_000)
    made = ConsolePage(page=page)
    page.on("console", lambda message: made.logged.append(message.text))
    page.on("pageerror", lambda fault: made.logged.append(str(fault)))
    page.on("request", lambda request: made.asked.append(request.url))
    page.goto(address)
    return made
