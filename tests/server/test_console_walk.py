"""Every page and state of the console can be read: on phones and desks, in light and dark."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browsers import CUT_OFF, FAINT, OUTSIDE, REFUSED, TOO_WIDE, UNNAMED, browser, opened
from support.console_walk import FAILED_FOR, THEMES, WIDTHS, console_served, growing_served, walk

ROOT = Path(__file__).parents[2]
CHECKS = {"is wider than the window": TOO_WIDE, "leaves its card": OUTSIDE, "is cut off": CUT_OFF, "has no name": UNNAMED, "is too faint": FAINT}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.mark.long
def test_every_state_can_be_read_at_every_width_and_in_both_themes(chromium: Any, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    faults, seen = [], set[str]()
    with console_served(tmp_path) as address, growing_served(tmp_path / "growing") as growing:
        for name, console in walk(chromium, address, growing):
            seen.add(name)
            for width in WIDTHS:
                for theme in THEMES:
                    console.look(width, theme)
                    found = {what: console.page.evaluate(check) for what, check in CHECKS.items()}
                    faults += [f"{name}, {width} px, {theme}: {each} {what}" for what, all_of in found.items() for each in all_of]
            faults += [f"{name} logged {line}" for line in console.logged if not line.startswith(REFUSED)]
            console.logged.clear()
            console.look(max(WIDTHS))
    assert not faults, "\n".join(faults)
    assert len(seen) > 50 and {"answer-many-chart", "ask-confirm", "accounts-closed", "guide-sql", "incidents", "time", "time-table", "time-periods",
                                      "time-of-others", "time-of-owners"} <= seen


@pytest.mark.long
def test_causes_of_failures_are_nowhere_on_the_page_and_those_of_stops_are(chromium: Any, tmp_path: Path) -> None:
    """The process that serves the page is never told them; the page has the command that shows them, to be copied."""
    pytest.importorskip("fastapi")
    with console_served(tmp_path) as address:
        olga = opened(chromium, address)
        olga.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        olga.sign_in("olga")
        olga.page.locator("#left", has_text="left").wait_for()
        olga.page.evaluate("location.hash = 'oversight/incidents'")
        stopped = olga.page.get_by_role("table", name="Stopped statements")
        stopped.wait_for()
        assert "cancelled by the analyst" in stopped.inner_text() and FAILED_FOR not in olga.page.content()
        olga.page.get_by_role("button", name="Copy").click()
        olga.page.get_by_role("status").get_by_text("Copied").wait_for()
        command = shlex.split(olga.page.evaluate("navigator.clipboard.readText()"))
        olga.page.context.close()
    told = subprocess.run([sys.executable, "-m", "dpsql.cli", *command[1:]], cwd=tmp_path / "study", capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}).stdout
    assert command[0] == "dpsql" and FAILED_FOR in told


@pytest.mark.long
@pytest.mark.parametrize(("markup", "what"), [
    ("<p style='width: 3000px'>wide</p>", "is wider than the window"), ("<p style='color: #999; background: #fff'>faint</p>", "is too faint"),
    ("<p style='opacity: 0.4'>see-through</p>", "is too faint"),
    ("<div class='card' style='width: 100px'><button style='width: 150px'>out</button></div>", "leaves its card"),
    ("<p style='width: 40px; overflow: hidden; white-space: nowrap'>a long sentence that ends nowhere</p>", "is cut off"), ("<input>", "has no name")])
def test_what_cannot_be_read_is_found(chromium: Any, markup: str, what: str) -> None:
    page = chromium.new_page()
    page.set_content(f"<body style='color: #000; background: #fff'>{markup}<p>fine</p></body>")
    assert [each for each, check in CHECKS.items() if page.evaluate(check) != []] == [what]
    page.close()
