"""The console, as `dpsql serve --http` serves it over the demo, in a browser."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browsers import FAINT, REFUSED, UNNAMED, ConsolePage, browser, opened
from support.wire_servers import PASSWORD, served

from dpsql.answers import display
from dpsql.demo.folder import BUDGET, export
from dpsql.server.vault.passwords import User, add_user, verifier

BY_HEALTH = "SELECT health, COUNT(*), AVG(income) FROM people GROUP BY health"
OF_WOMEN = "SELECT health, COUNT(*), AVG(income) FROM people WHERE female GROUP BY health"
SLOW = "SELECT COUNT(*) FROM person_years a JOIN person_years b ON a.year = b.year JOIN person_years c ON b.year = c.year"
HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """A browser, the address of a server, and the state of a browser in which ada is signed in."""
    with browser() as chromium:
        pytest.importorskip("fastapi")
        with served(roomy(export(tmp_path_factory.mktemp("console") / "study")), budget=BUDGET, terms=("--http", "127.0.0.1:0")) as server:
            add_user(server.users, User(name="bea", verifier=verifier(PASSWORD), budget=BUDGET))
            address = f"http://127.0.0.1:{server.http_port}/"
            first = opened(chromium, address)
            first.sign_in()
            first.page.locator("#console").wait_for()
            yield chromium, address, first.page.context.storage_state()


def roomy(policy: Path) -> Path:
    """The policy, with room for ten times as many statements: so none but those that are to are asked about."""
    text = policy.read_text(encoding="utf-8")
    for old, new in (("epsilon = 10\ndelta = 1e-6", "epsilon = 100\ndelta = 1e-6"), ("per_analyst = { epsilon = 5,", "per_analyst = { epsilon = 50,")):
        assert old in text
        text = text.replace(old, new, 1)
    policy.write_text(text, encoding="utf-8")
    return policy


@pytest.fixture
def console(place: tuple[Any, str, dict[str, Any]]) -> Iterator[ConsolePage]:
    """The console of ada; whatever a test does, nothing leaves the server and nothing but refusals is logged."""
    chromium, address, state = place
    made = opened(chromium, address, storage_state=state)
    made.page.locator("#left", has_text="left").wait_for()
    yield made
    assert [url for url in made.asked if not url.startswith(address)] == []
    assert [line for line in made.logged if not line.startswith(REFUSED)] == []
    made.page.context.close()


def test_who_signs_in_wrongly_is_told_in_words_and_who_signs_out_is_out(place: tuple[Any, str, dict[str, Any]]) -> None:
    chromium, address, _ = place
    made = opened(chromium, address)
    made.sign_in(password="wrong")
    made.page.get_by_role("alert").get_by_text("The name or the password is wrong.").wait_for()
    made.sign_in()
    made.page.locator("#console").wait_for()
    assert made.page.locator("#who").inner_text() == f"ada · {BUDGET}"
    made.page.get_by_role("button", name="Sign out").click()
    made.page.get_by_role("heading", name="Sign in").wait_for()
    made.page.reload()
    made.page.get_by_role("heading", name="Sign in").wait_for()
    made.page.context.close()


def test_pages_of_one_browser_are_of_one_analyst(place: tuple[Any, str, dict[str, Any]]) -> None:
    """They have one cookie: a page that still named another analyst would ask, and pay, as the one who signed in last."""
    chromium, address, _ = place
    made = opened(chromium, address)
    made.sign_in()
    made.page.locator("#console").wait_for()
    other = made.page.context.new_page()
    other.goto(address)
    other.get_by_role("button", name="Sign out").click()
    made.page.get_by_role("heading", name="Sign in").wait_for()
    other.get_by_role("heading", name="Sign in").wait_for()
    ConsolePage(page=other).sign_in()
    made.page.locator("#console").wait_for()
    assert made.page.locator("#who").inner_text() == f"ada · {BUDGET}"
    made.page.context.close()


@pytest.mark.parametrize(("begun", "offered"), [
    ("SELECT COUNT(*) FROM pers", "person_years"), ("SELECT AVG(p.inc) FROM people p", None), ("SELECT strip_ac", "strip_accents"),
    ("SELECT COUNT(*) FROM people WHERE health = 'ex", "excellent"), ("SELECT educ", "education_years"), ("sel", "SELECT")])
def test_what_is_public_is_offered_while_one_writes(console: ConsolePage, begun: str, offered: str | None) -> None:
    console.page.locator(".cm-content").click()
    if offered is None:
        console.page.keyboard.insert_text("SELECT AVG(p. FROM people p")
        for _ in " FROM people p":
            console.page.keyboard.press("ArrowLeft")
        console.page.keyboard.type("inc")
        offered = "income"
    else:
        console.page.keyboard.type(begun)
    console.page.locator(".cm-tooltip-autocomplete li", has_text=offered).first.wait_for()


def test_the_place_of_a_mistake_is_marked(console: ConsolePage) -> None:
    """Also behind letters that JavaScript counts twice, and in the second of two statements."""
    console.write("SELECT COUNT(*) FROM plans;\nSELECT '𝄞𝄞', incom FROM people")
    console.price("there is no column incom")
    assert console.page.locator(".cm-lintRange-error").all_inner_texts() == ["incom"]
    console.write("SELECT COUNT(*) FROM plans")
    console.price("Free: only public tables are read")
    assert console.page.locator(".cm-lintRange-error").count() == 0


def test_a_statement_is_priced_then_run_then_free(console: ConsolePage) -> None:
    before = console.left()
    console.write(OF_WOMEN)
    price = console.price("ε = 0.5")
    assert price.locator(".facts td").all_inner_texts() == ["4", "depends on the data"]
    card = console.run(OF_WOMEN)
    assert "Cost ε = 0.5" in card.inner_text() and card.locator("tbody tr").count() == 4
    keys, counts = card.locator("tbody td:nth-child(1)"), card.locator("tbody td:nth-child(3)")
    assert keys.all_inner_texts() == ["excellent", "good", "fair", "poor"] and set(counts.all_inner_texts()) == {"± 9"}
    assert "noisy" not in (keys.first.get_attribute("class") or "") and "noisy" in counts.first.get_attribute("class")
    console.price("answered before")
    console.page.locator("#left").filter(has_not_text=f"{before:g} %").wait_for()
    left = console.left()
    again = console.run(OF_WOMEN)
    assert "Answered before: no cost" in again.inner_text() and console.left() == left < before and console.cards.count() == 2
    console.go("Budget")
    assert console.page.locator("#budget tbody tr").first.inner_text().split("\t")[1:] == [OF_WOMEN, "ε = 0.5", "answered"]
    console.go("Releases")
    console.page.get_by_role("button", name=f"Show again {OF_WOMEN}").click()
    console.cards.nth(2).wait_for()
    assert console.cards.first.locator("tbody").inner_text() == card.locator("tbody").inner_text()


def test_what_is_shown_again_is_run_only_where_it_is_free(console: ConsolePage) -> None:
    told = {"answers": [{"number": 1, "at": "2026-01-01T00:00:00", "sql": "SELECT SUM(income) FROM people", "cost": "ε = 0.5"}],
            "tables": []}
    console.page.route("**/api/releases", lambda route: route.fulfill(json=told))
    console.go("Releases")
    console.page.get_by_role("button", name="Show again").click()
    console.price("ε = 0.5")
    assert console.cards.count() == 0 and not [url for url in console.asked if url.endswith("/api/query")]


def test_parameters_have_fields_by_their_types(console: ConsolePage) -> None:
    """Their values go to the price and to the query, mistakes are told at their fields, and Edit puts the values back."""
    by_name = "SELECT health, COUNT(*) FROM people WHERE income > :least AND female = :women GROUP BY health"
    fields, progress = console.page.locator("#parameters"), console.page.locator("#progress")
    console.write(by_name)
    console.price("Not known yet")
    assert fields.locator("label").all_inner_texts() == [":least number", ":women true or false"]
    console.page.keyboard.press("Control+Enter")
    progress.get_by_text("Not run: a value is missing").wait_for()
    assert fields.locator(".fault").all_inner_texts() == ["A value is needed."] * 2
    least, women = fields.get_by_label(":least"), fields.get_by_label(":women")
    least.fill("many")
    women.select_option("true")
    fields.get_by_text("A number is needed, such as 0.5.").wait_for()
    assert least.get_attribute("aria-invalid") == "true" and women.get_attribute("aria-invalid") is None
    assert_readable(console.page)
    least.fill("12000")
    console.price("ε = 0.5")
    least.press("Control+Enter")
    console.cards.first.wait_for()
    assert "with :least = 12000, :women = true" in console.cards.first.inner_text()
    console.cards.first.get_by_role("tab", name="Plan").click()
    console.cards.first.locator(".plan-tree li", has_text="Filter").first.wait_for()
    console.write("SELECT COUNT(*) FROM plans")
    console.price("only public tables are read")
    assert not fields.is_visible()
    console.cards.first.get_by_role("button", name="Edit").click()
    console.price("answered before")
    assert least.input_value() == "12000"


def test_values_are_read_as_their_types_are_written(console: ConsolePage) -> None:
    """And what the server refuses of one is told at its field."""
    found = console.page.evaluate("""async (given) => {
      const {parameterFields} = await import("/static/parameters.js");
      return given.map(([type, text]) => {
        const fields = parameterFields({place: document.createElement("div"), changed() {}, run() {}});
        fields.set([{name: "a", type}]);
        fields.write(new Map([[`a ${type}`, text]]));
        return fields.values()?.a ?? null;
      });
    }""", [["BIGINT", "-12"], ["BIGINT", "9007199254740993"], ["BIGINT", "1.5"], ["DOUBLE", "1"], ["DOUBLE", "1e999"], ["DATE", "2024-02-29"],
           ["DATE", "2023-02-29"], ["DATE", "yesterday"], ["TIMESTAMP", "2020-01-31 12:00"], ["TIMESTAMP", "2020-01-31"], ["BOOLEAN", "false"],
           ["VARCHAR", " o'ä "], ["VARCHAR", ""]])
    assert found == [-12, {"type": "BIGINT", "value": "9007199254740993"}, {"type": "DOUBLE", "value": "1.5"}, {"type": "DOUBLE", "value": "1"},
                     None, {"type": "DATE", "value": "2024-02-29"}, None, None, {"type": "TIMESTAMP", "value": "2020-01-31 12:00"}, None, False,
                     " o'ä ", None]
    console.write("SELECT coinsurance + ? AS \"?\" FROM plans WHERE coinsurance > ?")
    console.page.locator("#parameters input").nth(1).wait_for()
    console.page.locator("#parameters input").nth(0).fill("1")
    console.page.locator("#parameters input").nth(1).fill("99999999999999999999")
    console.page.locator("#parameters .parameter").nth(1).locator(".fault:not(:empty)").wait_for()


def test_what_takes_much_of_what_is_left_is_asked_about(console: ConsolePage) -> None:
    """With the numbers; Escape leaves the budget as it was, Enter spends it. What was answered before is not asked about."""
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {console.left() / 2 * 0.6:.1f}) COUNT(*) FROM people"
    before, dialog = console.left(), console.page.get_by_role("dialog", name="Run it at this price?")
    console.write(sql)
    console.page.keyboard.press("Control+Enter")
    dialog.wait_for()
    rows = dialog.locator("tbody tr").all_inner_texts()
    assert len(rows) == 2 and f"{before:g} %" in rows[1] and "% of what is left, so it could not be paid for a second time" in dialog.inner_text()
    assert_readable(console.page)
    console.page.keyboard.press("Enter")  # too soon: it would be the one of before
    console.page.wait_for_timeout(100)
    assert dialog.is_visible()
    console.page.keyboard.press("Escape")
    console.page.get_by_text("Not run, and not charged").wait_for()
    assert console.cards.count() == 0 and not [url for url in console.asked if url.endswith("/api/query")]
    console.page.keyboard.press("Control+Enter")  # the editor has the focus
    dialog.wait_for()
    console.page.wait_for_timeout(450)
    console.page.keyboard.press("Enter")
    console.cards.first.wait_for()
    console.price("answered before")
    assert "Answered before" in console.run(sql).inner_text() and not dialog.is_visible()


def test_the_promise_is_a_page_of_the_guides(console: ConsolePage) -> None:
    console.go("Tables")
    with console.page.context.expect_page() as opened_page:
        console.page.get_by_role("link", name="What is promised").click()
    guide = opened_page.value
    for name in ("The promise", "What is not promised"):
        guide.get_by_role("heading", name=name, exact=True).wait_for()
    guide.set_viewport_size({"width": 375, "height": 812})
    guide.emulate_media(color_scheme="dark")
    for link in ("SQL and its options", "A server"):
        guide.get_by_role("navigation").get_by_role("link", name=link).click()
        guide.get_by_role("heading", name=link, exact=True).wait_for()
        assert_readable(guide)
    assert guide.locator("img[src*=pictures]").first.evaluate("one => one.decode().then(() => one.naturalWidth)") > 500


def test_a_server_that_is_gone_is_told_and_nothing_is_lost(console: ConsolePage) -> None:
    console.page.route("**/api/**", lambda route: route.abort())
    console.write(BY_HEALTH)
    console.price("the server cannot be reached")
    for name in ("Budget", "Releases", "Tables"):
        console.go(name)
        console.page.locator(f"#{name.lower()}").get_by_text("the server cannot be reached").wait_for()
    console.page.unroute("**/api/**")
    console.go("Ask")
    console.page.locator("#price .cost").wait_for()
    console.logged.clear()


@pytest.mark.parametrize(("sql", "rows"), [
    ("SELECT female, COUNT(*) FROM people GROUP BY female", 2),
    ("SELECT health, female, COUNT(*) FROM people GROUP BY health, female", 8),
    ("SELECT family_size, COUNT(*) FROM person_years GROUP BY family_size", 15)])
def test_a_chart_has_a_mark_and_an_interval_for_each_row(console: ConsolePage, sql: str, rows: int) -> None:
    card = console.run(sql)
    card.get_by_role("tab", name="Chart").click()
    for width in (1280, 375):
        console.page.set_viewport_size({"width": width, "height": 900})
        picture = card.locator("svg:visible")
        picture.wait_for()
        marks, intervals, texts = (picture.locator(kind) for kind in (".mark", ".interval", "text"))
        assert (marks.count(), intervals.count(), picture.locator("title").count()) == (rows, rows, rows)
        assert min(intervals.evaluate_all("all => all.map((one) => one.getBBox()).map((box) => box.width + box.height)")) > 0
        box = picture.bounding_box()
        for inner in texts.evaluate_all("all => all.map((one) => one.getBoundingClientRect()).map((box) => [box.left, box.right])"):
            assert box["x"] - 1 <= inner[0] <= inner[1] <= box["x"] + box["width"] + 1
        assert_readable(console.page)
    assert ", with 95 % intervals; the table has the numbers" in card.locator("figcaption").text_content()


def test_a_line_can_be_bars_and_says_what_it_leaves_out(console: ConsolePage) -> None:
    card = console.run("SELECT bin_floor(income) AS bracket, COUNT(*), COUNT(*) AS again FROM people GROUP BY bracket")
    card.get_by_role("tab", name="Chart").click()
    card.get_by_text("Rows whose bracket is NULL are not drawn.").wait_for()
    assert card.locator("polyline:visible").count() == 1 and card.locator("rect:visible").count() == 0
    card.get_by_label("Drawn as").select_option("bars")
    card.get_by_label("Number").select_option("again")
    assert card.locator("svg:visible rect.mark").count() == card.locator("tbody tr").count() > 3  # a bar of 0 has no height
    assert card.locator("figcaption").inner_text().startswith("again by bracket")


def test_what_is_not_drawn_is_said(console: ConsolePage) -> None:
    card = console.run("SELECT health, female, site, COUNT(*) FROM people GROUP BY health, female, site")
    card.get_by_role("tab", name="Chart").click()
    card.get_by_text("No chart: an answer with 3 keys cannot be drawn; try GROUP BY one or two keys.").wait_for()


def test_a_picture_holds_nothing_but_what_pictures_have(console: ConsolePage) -> None:
    """Whatever a server sends."""
    made = console.page.evaluate("""async (texts) => {
      const {picture} = await import("/static/picture.js");
      return texts.map((text) => picture(text)?.outerHTML ?? null);
    }""", [f"<svg xmlns='http://www.w3.org/2000/svg' onload='1' style='fill: red'>{held}</svg>" for held in (
        "<script>1</script><g onclick='1' class='a'/>", "<style>*{}</style><a href='javascript:1'><text>b</text></a>",
        "<foreignObject><img xmlns='http://www.w3.org/1999/xhtml' src='x' onerror='1'/></foreignObject><!-- c -->",
        "<use href='/x'/><image href='/x'/><animate attributeName='href'/><title>&lt;b&gt;</title>")] + ["<b>no picture</b>", "no XML"])
    blocked = [line for line in console.logged if "violates the following Content Security Policy" in line]
    assert blocked == console.logged  # so nothing runs while a text is parsed either
    console.logged.clear()
    head = '<svg>'
    assert made == [f'{head}<g class="a"></g></svg>', f"{head}</svg>", f"{head}</svg>", f"{head}<title>&lt;b&gt;</title></svg>", None, None]


def test_the_plan_is_a_tree(console: ConsolePage) -> None:
    card = console.run(BY_HEALTH)
    card.get_by_role("tab", name="Plan").click()
    card.locator(".plan-tree li li li", has_text="Scan people").first.wait_for()


def test_names_and_messages_are_shown_as_texts(console: ConsolePage) -> None:
    written = '"' + HOSTILE.replace('"', '""') + '"'
    card = console.run(f"SELECT COUNT(*) AS {written} FROM plans")
    assert card.locator("th").inner_text() == HOSTILE
    card.get_by_role("tab", name="Chart").click()
    card.locator("svg:visible").wait_for()
    assert HOSTILE in card.locator("svg title").first.text_content() and console.page.locator("svg:visible img").count() == 0
    console.write(f"SELECT {written} FROM plans")
    console.price("there is no column")
    assert console.page.locator("#console img").count() == 1 and console.page.title() == "Ask – dpsql"


def test_a_statement_is_cancelled(console: ConsolePage) -> None:
    console.write(SLOW)
    console.page.keyboard.press("Control+Enter")
    console.page.locator("#progress", has_text="Running for 2 s").wait_for()
    console.page.get_by_role("button", name="Cancel").click()
    console.cards.first.wait_for()
    assert "refused" in console.cards.first.get_attribute("class") and console.page.get_by_role("button", name="Run").is_enabled()


def test_the_keyboard_alone_is_enough(console: ConsolePage) -> None:
    press = console.page.keyboard.press
    console.page.keyboard.type("SELECT COUNT(*) FROM pla")  # the editor has the focus from the beginning
    console.page.locator(".cm-tooltip-autocomplete li", has_text="plans").wait_for()
    console.page.wait_for_timeout(100)  # in which a completion is not taken yet, lest it was not seen
    press("Tab")
    press("Control+Enter")
    console.cards.first.wait_for()
    assert console.cards.first.locator("td").inner_text() == "18"
    seen = []
    for _ in range(20):
        press("Tab")
        seen.append(console.page.evaluate("document.activeElement.textContent.trim()"))
        if seen[-1] == "Table":
            break
    assert "Run" in seen and seen[-1] == "Table"
    press("ArrowRight")
    console.cards.first.locator("svg:visible").wait_for()
    assert console.page.evaluate("document.activeElement.textContent") == "Chart"


@pytest.mark.parametrize("looks", [{"color_scheme": "dark"}, {"viewport": {"width": 375, "height": 812}},
                                   {"viewport": {"width": 640, "height": 450}}], ids=["dark", "phone", "zoomed"])
def test_every_page_can_be_read(place: tuple[Any, str, dict[str, Any]], looks: dict[str, Any]) -> None:
    """Nothing is without a name, cut off, or hard to tell from what is behind it, and no page has to be moved sideways. A page that is zoomed
    to twice its size has half the pixels."""
    chromium, address, state = place
    made = opened(chromium, address, storage_state=state, **looks)
    made.page.locator("#left", has_text="left").wait_for()
    card = made.run(BY_HEALTH)
    for tab in ("Plan", "Table", "Chart"):
        card.get_by_role("tab", name=tab).click()
        made.page.wait_for_timeout(200)
        assert_readable(made.page)
    made.write("SELECT incom FROM people")
    made.price("there is no column")
    assert_readable(made.page)
    title = "a_long_name_" * 8
    wide = made.run(f"SELECT plan AS {title}, {', '.join(f'coinsurance AS c{at}' for at in range(30))} FROM plans")
    assert wide.locator("th").evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    assert wide.locator("th").first.evaluate("one => one.getBoundingClientRect().height") < 200
    assert_readable(made.page)
    for name, there in (("Budget", ".meter"), ("Releases", ".releases"), ("Tables", ".table-card")):
        made.go(name)
        made.page.locator(there).first.wait_for()
        assert_readable(made.page)
    made.page.context.close()


def assert_readable(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(UNNAMED) == [] and page.evaluate(FAINT) == []


def test_the_theme_is_as_the_reader_chooses(console: ConsolePage) -> None:
    colours = set()
    for chosen in ("light", "dark"):
        console.page.get_by_role("button", name="Theme").click()
        assert console.page.get_by_role("button", name="Theme").inner_text() == f"Theme: {chosen}"
        console.page.reload()
        colours.add(console.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_whoever_is_out_sees_nothing_of_what_was_there(console: ConsolePage) -> None:
    console.run(BY_HEALTH)
    console.page.context.clear_cookies()
    console.write("SELECT COUNT(*) FROM plans")
    console.page.get_by_role("alert").get_by_text("The session has ended.").wait_for()
    assert not console.page.locator("#console").is_visible() and "excellent" not in console.page.locator("#console").inner_html()
    assert console.page.locator(".cm-content").count() == 0
    console.sign_in()
    console.page.locator(".cm-content").wait_for()
    assert console.cards.count() == 0
    console.page.locator(".cm-line", has_text="SELECT COUNT(*) FROM plans").wait_for()  # theirs, as it is the same person
    console.price("Free")


def test_an_answer_that_comes_after_its_session_is_shown_to_nobody(place: tuple[Any, str, dict[str, Any]]) -> None:
    """It appeared among the answers of whoever signed in next on the page, and its statement in the page before."""
    chromium, address, _ = place
    made = opened(chromium, address)
    made.sign_in()
    made.page.locator("#console").wait_for()
    held: list[Any] = []
    made.page.route("**/api/query", lambda route: held.append(route))  # noqa: PLW0108 - playwright looks at its arguments
    made.write("SELECT COUNT(*) AS of_ada FROM plans")
    made.page.keyboard.press("Control+Enter")
    made.page.wait_for_timeout(500)
    made.page.context.clear_cookies()
    made.page.get_by_role("button", name="Cancel").click()
    made.page.get_by_role("alert").get_by_text("The session has ended.").wait_for()
    assert "of_ada" not in made.page.content()
    made.sign_in(name="bea")
    made.page.locator(".cm-content").wait_for()
    assert held
    for route in held:
        with contextlib.suppress(Exception):  # nobody waits for it
            route.fulfill(json={"columns": [], "rows": [], "of": "of_ada"}, status=409)
    made.page.wait_for_timeout(300)
    assert made.cards.count() == 0 and "of_ada" not in made.page.content()
    made.page.context.close()


@pytest.mark.parametrize("noticed", [False, True])
def test_pages_beside_one_whose_session_is_over_keep_what_was_typed(noticed: bool, place: tuple[Any, str, dict[str, Any]]) -> None:
    """Also one that notices it as well, and then goes on as soon as the same analyst signs in on the other."""
    chromium, address, _ = place
    made = opened(chromium, address)
    made.sign_in()
    made.page.locator("#console").wait_for()
    other = ConsolePage(page=made.page.context.new_page())
    other.page.goto(address)
    other.write("SELECT 1 AS typed_elsewhere")
    other.page.get_by_text("free").first.wait_for()
    made.page.context.clear_cookies()
    if noticed:
        other.write("SELECT 2 AS typed_elsewhere")
        other.page.get_by_role("alert").get_by_text("The session has ended.").wait_for()
    made.go("Budget")
    made.page.get_by_role("alert").get_by_text("The session has ended.").wait_for()
    made.sign_in()
    made.page.locator("#console").wait_for()
    other.page.locator(".cm-line", has_text="typed_elsewhere").wait_for()
    made.page.context.close()


def test_numbers_are_written_as_elsewhere(console: ConsolePage) -> None:
    """As by `display`, of which the console has the rules again, for numbers of all sizes."""
    draw = random.Random(7)
    given: list[tuple[Any, str, tuple[float, float] | None]] = [
        (None, "BIGINT", None), (None, "DOUBLE", (0.0, 1.0)), (True, "BOOLEAN", None), (-1234567, "BIGINT", (-1234570.0, math.inf)),
        (5, "BIGINT", (-math.inf, 9.0)), (0.5, "DOUBLE", (-math.inf, math.inf)), (0.25, "DOUBLE", None), (12345.5, "DOUBLE", None)]
    for _ in range(200):
        size, width = 10 ** draw.uniform(-3, 7), 10 ** draw.uniform(-3, 5)
        value = draw.uniform(-size, size)
        low, high = value - width * draw.choice((1, 1, draw.random())), value + width
        given += [(value, "DOUBLE", (low, high)), (round(value), "BIGINT", (round(value) - round(width), round(value) + round(width)))]
    told = [[value, kind, None if ends is None else [None if math.isinf(end) else end for end in ends]] for value, kind, ends in given]
    found = console.page.evaluate("""async (told) => {
      const {shown, interval} = await import("/static/numbers.js");
      return told.map(([value, type, ends]) => {
        const column = {name: "x", type, exact: false}, about = ends && {low: ends[0], high: ends[1], error: null};
        return [shown(value, column, about), interval(value, column, about)];
      });
    }""", told)
    assert found == [[display.shown(value, ends), display.interval_text(ends, value)] for value, _, ends in given]


def test_an_answer_is_copied_with_its_errors(console: ConsolePage) -> None:
    console.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    card = console.run(BY_HEALTH)
    card.get_by_role("button", name="Copy as CSV").click()
    card.get_by_text("Copied").wait_for()
    lines = console.page.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(lines) == 5 and lines[0].startswith("health,COUNT(*),COUNT(*) error,COUNT(*) low,COUNT(*) high,AVG(income),")
