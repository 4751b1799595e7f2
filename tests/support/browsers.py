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
UNNAMED = """() => [...document.querySelectorAll('input, select, textarea, button, [role=textbox], [role=img], [role=region], [role=group], dialog')]
  .filter((one) => one.checkVisibility() && !(one.labels?.length || one.ariaLabel || one.textContent.trim() || one.getAttribute('aria-labelledby')))
  .map((one) => one.outerHTML)"""
FAINT = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([red, green, blue]) => [red, green, blue].map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    for (let each = one; each; each = each.parentElement ?? each.getRootNode().host) {
      const colour = channels(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const opacity = (one) => {
    let all = 1;
    for (let each = one; each; each = each.parentElement ?? each.getRootNode().host) all *= getComputedStyle(each).opacity;
    return all;
  };
  const roots = [document, ...[...document.querySelectorAll('*')].map((one) => one.shadowRoot).filter(Boolean)];
  return roots.flatMap((root) => [...root.querySelectorAll('*')])
    .filter((one) => one.checkVisibility() && !one.matches(':disabled') && [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .map((one) => {
      const style = getComputedStyle(one), back = behind(one);
      const shown = channels(one instanceof SVGElement ? style.fill : style.color);
      const opaque = (shown[3] ?? 1) * opacity(one);
      const mixed = shown.slice(0, 3).map((each, at) => opaque * each + (1 - opaque) * back[at]);
      const [a, b] = [light(mixed), light(back)].sort((x, y) => y - x);
      return {text: one.textContent.trim().slice(0, 40), contrast: (a + 0.05) / (b + 0.05)};
    }).filter(({contrast}) => contrast < 4.5);
}"""
TOO_WIDE = """() => {
  const most = document.documentElement.scrollWidth;
  return most <= innerWidth ? [] : [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 40)}`).slice(0, 5).concat(`the page, ${most} px,`);
}"""
OUTSIDE = """() => [...document.querySelectorAll('button, input, select, summary, label, a, dd, p, td, pre')]
  .filter((one) => one.checkVisibility() && !one.closest('.unseen, .skip, .cm-tooltip') && one.getBoundingClientRect().width > 0)
  .filter((one) => !one.parentElement.closest('.scroll')) // what is in there can be scrolled to
  .filter((one) => {
    const card = one.parentElement.closest('.card, .writing, .alone, dialog, header, .guides');
    if (card === null) return false;
    const [inner, outer] = [one.getBoundingClientRect(), card.getBoundingClientRect()];
    return inner.left < outer.left - 1 || inner.right > outer.right + 1;
  }).map((one) => one.textContent.trim().slice(0, 40) || one.outerHTML.slice(0, 80))"""
CUT_OFF = """() => [...document.querySelectorAll('body *')]
  .filter((one) => one.checkVisibility() && !one.closest('.unseen, .skip, .scroll, svg') && !one.matches('input, select'))
  .filter((one) => getComputedStyle(one).overflowX !== 'visible' && one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent.trim().slice(0, 40) || one.outerHTML.slice(0, 80))"""
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

    def look(self, width: int, theme: str = "light") -> None:
        """Have the page this wide, in this theme."""
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(color_scheme=theme)
        self.page.evaluate("new Promise(requestAnimationFrame)")  # until what depends on the width has followed

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
