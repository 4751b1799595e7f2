"""Takes the pictures of the console that the guides show: `python -m tests.support.pictures`, from the root of the project.

They are of the demo, in a server that is started for them; the noise is fresh, so the numbers differ each time. With a folder as an
argument it takes more of them, for whoever changes how pages look, and puts all there.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
FOLDER = TESTS.parent / "dpsql" / "guides" / "pictures"
SHOWN = ("console-price", "console-chart", "console-dark", "console-oversight")  # in guides
COLOURS = 96  # of a picture; more cannot be seen in pages of few colours
BY_HEALTH = "SELECT health, COUNT(*), AVG(income) FROM people GROUP BY health"
BY_SITE = "SELECT site, female, COUNT(*) AS people FROM people GROUP BY site, female"
BY_INCOME = ("SELECT bin_floor(income) AS bracket, AVG(mental_health_index) AS mental_health FROM people "
             "GROUP BY bracket")
DESK, PHONE = {"width": 1180, "height": 480}, {"width": 375, "height": 812}


def main() -> None:
    sys.path.insert(0, str(TESTS))
    from support.browsers import browser
    from support.wire_servers import PASSWORD, served

    from dpsql.demo.folder import BUDGET, export
    from dpsql.server.vault.passwords import User, add_user, verifier

    everything = len(sys.argv) > 1
    to = Path(sys.argv[1]) if everything else FOLDER
    to.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as chromium, served(
            export(Path(folder) / "study"), budget=BUDGET, terms=("--http", "127.0.0.1:0")) as server:
        for name, role in (("bea", "analyst"), ("olga", "owner")):
            add_user(server.users, User(name=name, verifier=verifier(PASSWORD), budget=BUDGET, role=role))
        for name, page in pictures(chromium, f"http://127.0.0.1:{server.http_port}/"):
            kept = compressed(page.screenshot(animations="disabled", caret="hide", full_page=not name.endswith("phone")))
            if everything or name in SHOWN:
                (to / f"{name}.png").write_bytes(kept)
                print(f"{name}.png: {len(kept) / 1000:.0f} kB")


def pictures(chromium: Any, address: str) -> Iterator[tuple[str, Any]]:
    """Pages, when they look as they are to be shown, with the names of their pictures."""
    from support.browsers import opened

    desk = opened(chromium, address, viewport=DESK)
    yield "console-sign-in", desk.page
    desk.sign_in()
    desk.page.locator("#left", has_text="left").wait_for()
    desk.write(BY_HEALTH)
    desk.price("ε = 0.5")
    yield "console-price", desk.page
    desk.run(BY_HEALTH)
    desk.price("answered before")
    yield "console-table", desk.page
    desk.cards.get_by_role("button", name="Remove").click()
    chart(desk, BY_SITE)
    yield "console-chart", desk.page
    desk.go("Budget")
    desk.page.locator(".meter").first.wait_for()
    yield "console-budget", desk.page
    for name, there in (("Releases", ".releases"), ("Tables", ".table-card")):
        desk.go(name)
        desk.page.locator(there).first.wait_for()
        yield f"console-{name.lower()}", desk.page
    state = desk.page.context.storage_state()
    dark = opened(chromium, address, viewport=DESK, storage_state=state, color_scheme="dark")
    chart(dark, BY_INCOME, drawn="lines")
    yield "console-dark", dark.page
    owner = opened(chromium, address, viewport=DESK)
    owner.sign_in("olga")
    owner.go("Oversight")
    for name, there in (("Statements", "table.stacked"), ("Checks", "button.first:visible"), ("Accounts", "form.adding")):
        owner.page.get_by_role("link", name=name).click()
        owner.page.locator(there).last.wait_for()
        yield "console-oversight" if name == "Accounts" else f"console-{name.lower()}", owner.page
    phone = opened(chromium, address, viewport=PHONE, storage_state=state, device_scale_factor=2)
    chart(phone, BY_HEALTH)
    phone.page.evaluate("document.querySelector('article.answer').scrollIntoView()")
    yield "console-phone", phone.page
    for name, there in (("Ask", "#price"), ("Budget", ".meter"), ("Tables", ".table-card")):
        phone.go(name)
        phone.page.locator(there).first.wait_for()
        phone.page.evaluate("scrollTo(0, 0)")
        yield f"console-{name.lower()}-phone", phone.page


def chart(console: Any, sql: str, drawn: str | None = None) -> None:
    card = console.run(sql)
    console.price("answered before")
    card.get_by_role("tab", name="Chart").click()
    card.locator("svg:visible").wait_for()
    if drawn is not None:
        card.get_by_label("Drawn as").select_option(drawn)


def compressed(picture: bytes) -> bytes:
    """A PNG of few colours."""
    from PIL import Image

    made = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(COLOURS).save(made, "PNG", optimize=True)
    return made.getvalue()


if __name__ == "__main__":
    main()
