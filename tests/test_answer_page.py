"""Pages about answers and workloads: the same numbers as the answer, what was asked and of whom; nothing runs, nothing leaks out."""

from __future__ import annotations

import datetime as dt
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.html_pages import rows_of, texts_of
from support.sessions import session_of
from test_chart_svg import HOSTILE
from test_drawing import answer

import dpsql
from dpsql import cli
from dpsql.answers.answer_page import answer_page
from dpsql.answers.asked import Asked
from dpsql.answers.chart_svg import OF_GROUPS
from dpsql.answers.display import interval_text, shown
from dpsql.answers.html_page import DARK, LIGHT, PAPER
from dpsql.answers.new_files import free_file, save
from dpsql.answers.spending import Spending
from dpsql.dbapi import Connection
from dpsql.demo import folder as project
from dpsql.trusted.accounting.cost import NOTHING

READ = {"text", "dim", "mark", "good", "bad", "unsure", "none", *(f"c{i}" for i in range(10))}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with Connection(session_of(tmp_path)) as made:
        yield made


def asked_with(**changes: Any) -> Asked:
    spending = Spending(budget="b", entity="person", accounts=(), spent=NOTHING, prices=(), at=1e-6, analyst="ada", failed=0,
                        incidents=3)
    return Asked(**{"statements": ("SELECT 1",), "spending": spending, "policy": "ab" * 32,
                    "at": dt.datetime(2026, 11, 26, 12, 30, tzinfo=dt.UTC)} | changes)


@pytest.mark.parametrize("palette", [LIGHT, DARK, PAPER], ids=["light", "dark", "paper"])
def test_what_is_read_stands_out_from_the_page(palette: dict[str, str]) -> None:
    assert palette.keys() == LIGHT.keys()
    for name in READ:
        assert contrast(palette[name], palette["page"]) >= 4.5, name
    bars = [palette["bar"], *(mixed(palette[f"c{i}"], palette["page"], OF_GROUPS) for i in range(10))]
    assert min(contrast(bar, palette["page"]) for bar in bars) >= 3 <= min(contrast(palette["mark"], bar) for bar in bars)


def mixed(one: str, other: str, share: float) -> str:
    """A colour that lets the other shine through."""
    pairs = zip(channels(one), channels(other), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def contrast(one: str, other: str) -> float:
    """By the Web Content Accessibility Guidelines, from 1 to 21."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [channel / 255 for channel in channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def channels(colour: str) -> list[int]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return [int(digits[i:i + 2], 16) for i in (0, 2, 4)]


def test_the_page_has_the_numbers_of_the_answer(connection: Connection, tmp_path: Path) -> None:
    cursor = connection.execute("SELECT sex, COUNT(*) AS n, AVG(age) FROM people WHERE age >= ? GROUP BY sex", [20])
    target = tmp_path / "answer.html"
    cursor.report(target)
    page = target.read_text(encoding="utf-8")
    told = texts_of(page)
    made = cursor.answer
    assert made is not None
    expected = [[part for value, ends, column in zip(row, intervals, made.columns, strict=True)
                 for part in ([shown(value, ends)] if column.exact else [shown(value, ends), interval_text(ends, value, column.range)])]
                for row, intervals in zip(made.rows, made.intervals, strict=True)]
    assert [row for row in rows_of(page) if len(row) == 5][1:] == expected
    for part in ("SELECT sex, COUNT(*) AS n", f"asked by {connection.session.analyst}", "protects each person", f"cost {cursor.cost}",
                 "parameters 20", "UTC", "95 %", "of 20 such intervals", *made.notes, "left", "plan (what one person can change)"):
        assert part in told, part
    assert page.count("<svg") == 4  # two numbers, for wide and narrow screens
    with pytest.raises(dpsql.OperationalError, match="exists"):
        cursor.report(target)


def test_a_page_is_free_and_needs_an_answer(connection: Connection, tmp_path: Path) -> None:
    cursor = connection.execute("SELECT COUNT(*) FROM people")
    spent = connection.session.ledger.spent("person")
    cursor.report(tmp_path / "one.html")
    assert connection.session.ledger.spent("person") == spent
    for other in (connection.execute("SHOW TABLES"), connection.execute("EXPLAIN PRIVACY SELECT COUNT(*) FROM people")):
        with pytest.raises(dpsql.ProgrammingError):
            other.report(tmp_path / "other.html")
    several = connection.cursor().executemany("SELECT COUNT(*) FROM people WHERE age > ?", [[20], [30]])
    with pytest.raises(dpsql.ProgrammingError, match="one statement"):
        several.report(tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def test_a_workload_tells_the_errors_of_each_statement(connection: Connection, tmp_path: Path) -> None:
    statements = ["SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "SELECT COUNT(*) FROM people WHERE sex = 'f'"]
    made = connection.workload(statements, epsilon=1)
    made.report(tmp_path / "workload.html")
    page = (tmp_path / "workload.html").read_text(encoding="utf-8")
    told = texts_of(page)
    assert all(statement in told for statement in statements) and made.cost in told and all(note in told for note in made.notes)
    assert made.asked is not None
    asked = made.asked()
    assert len(asked.expected) == 2
    rows = [row for row in rows_of(page) if row and row[0] in ("1. n", "2. COUNT(*)")]
    for row, one, expected in zip(rows, made, asked.expected, strict=True):
        error = one.errors[0][-1]
        assert error is not None and expected is not None
        assert row[1:] == [str(one.size), f"{float(f'{expected:.4g}'):,.10g}", f"{float(f'{error:.4g}'):,.10g}"]
    for one in made:
        assert [shown(one.rows[0][-1], one.intervals[0][-1]), interval_text(one.intervals[0][-1], one.rows[0][-1])] in [
            row[-2:] for row in rows_of(page)]


def test_hostile_names_are_shown_and_do_nothing() -> None:
    made = answer("k n", [(HOSTILE, 5), ("plain", 7)])
    page = answer_page(made, asked_with(statements=(HOSTILE,), values=HOSTILE, plan=HOSTILE, about=((HOSTILE, HOSTILE),)))
    assert texts_of(page).count(" ".join(HOSTILE.split())) >= 6 and "<script" not in page


@pytest.mark.parametrize(("names", "rows"), [
    ("k n", []), ("k n", [(None, None)]), ("n", [(1,)]), ("k n", [(f"{i}", i) for i in range(100)]),
    ("k b year n", [("a", True, 1, 1)]), ("year mean", [(i, 1.5 * i) for i in range(400)])])
def test_every_row_is_in_the_table_even_where_no_chart_is_drawn(names: str, rows: list[Any]) -> None:
    page = answer_page(answer(names, rows), asked_with())
    texts_of(page)
    assert len([row for row in rows_of(page) if len(row) == len(names.split()) + 1]) - 1 == len(rows)
    assert ("No chart:" in page) == (names == "k b year n" or len(rows) in (0, 100))


def test_public_answers_are_called_exact() -> None:
    page = answer_page(answer("year mean", [(1, 1.0)], public=True), asked_with())
    assert "every number is exact" in texts_of(page)


def test_a_million_rows_are_cut_off_and_said() -> None:
    page = answer_page(answer("year n", [(i, i) for i in range(10_001)]), asked_with())
    assert "The first 10,000 of 10,001 rows." in page


def test_commands_write_pages_before_which_nothing_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    project.export(tmp_path / "study")
    monkeypatch.chdir(tmp_path / "study")
    words = ["--budget", "study", "--analyst", "ada", "--epsilon", "0.1"]
    count = "SELECT female, COUNT(*) FROM people GROUP BY female"
    for place, why in (("no_such/a.html", "is in no folder"), ("a.txt", "is not named .html"), ("dpsql.toml", "exists")):
        for command in ("query", "workload"):
            assert cli.main([command, *words, "--html", place, count]) == 2 and why in capsys.readouterr().err
    assert cli.main(["query", *words, "--html", "a.html", f"{count}; {count}"]) == 2
    assert "about one statement" in capsys.readouterr().err
    assert cli.main(["query", *words, "--html", "a.html", count]) == 0
    assert cli.main(["workload", *words, "--html", "w.html", f"{count}; SELECT COUNT(*) FROM people"]) == 0
    assert cli.main(["budget", "--rows"]) == 2 and cli.main(["budget", "--html", "o.html"]) == 0
    assert count in texts_of(Path("a.html").read_text()) and "How accurate they are" in texts_of(Path("w.html").read_text())
    page = texts_of(Path("o.html").read_text())
    assert "Confidential, for the owner of the data alone" in page and "exact counts" not in page
    assert page.count("Budget ") >= 3 and "auditor has not asked yet" in page and "ada open 2 0" in page
    assert stat.S_IMODE(Path("o.html").stat().st_mode) == 0o600
    assert cli.main(["budget", "--budget", "study", "--html", "p.html", "--rows"]) == 0
    private = texts_of(Path("p.html").read_text())
    assert "exact counts of the private rows" in private and "people.income" in private and "Nothing is suspicious" in private


def test_files_are_new(tmp_path: Path) -> None:
    save("a", tmp_path / "a.html")
    with pytest.raises(dpsql.OperationalError, match="exists"):
        save("b", tmp_path / "a.html")
    (tmp_path / "b.html").symlink_to(tmp_path / "nowhere")
    with pytest.raises(dpsql.OperationalError, match="exists"):
        free_file(tmp_path / "b.html", "c.html", ".html")
    with pytest.raises(dpsql.OperationalError, match="cannot be written"):
        save("b", tmp_path / "no_such_folder" / "a.html")
