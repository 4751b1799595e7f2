"""Whoever follows pages notices what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import Reader, blocks, prose, terms

SH, SQL, TEXT = "```sh\n{}\n```\n", "```sql\n{}\n```\n", "```text\n{}\n```\n"
DEMO = SH.format("dpsql demo --to study && cd study")
COUNT = SH.format('dpsql query --budget study --analyst ada "SELECT COUNT(*) FROM plans"')
SHOWN = " COUNT(*)\n ────────\n       18\n\npublic, no cost"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reader:
    monkeypatch.chdir(tmp_path)
    return Reader(capsys)


@pytest.mark.parametrize("right", [
    TEXT.format(SHOWN), TEXT.format(SHOWN.replace("18", "1,234.5")), TEXT.format("...\npublic, no cost"),
    TEXT.format(" COUNT(*)\n..."), SQL.format("SELECT COUNT(*) FROM people;\nSELECT income FROM people -- refused"),
    SQL.format("SELECT income FROM people;   -- refused\nSELECT COUNT(*) FROM people"),
    SH.format("dpsql check --policy nowhere.toml   # exit code 2"), "```python\nassert __import__('os').path.exists('dpsql.toml')\n```\n",
])
def test_what_is_right_is_followed(right: str, reader: Reader) -> None:
    reader.follow(DEMO + COUNT + right)


@pytest.mark.parametrize("wrong", [
    TEXT.format(SHOWN.replace("public", "private")), TEXT.format(SHOWN.replace("COUNT", "SUM")), TEXT.format("...\npublic"),
    TEXT.format(" SUM(*)\n..."), SH.format("dpsql nothing"), SH.format("dpsql budget --budget none"), SH.format("rm -r study"),
    SH.format('dpsql check   # exit code 2'), SQL.format("SELECT COUNT(*) FROM nobody"), SQL.format("SELECT COUNT(*) FROM people -- refused"),
    SQL.format("SELECT COUNT(*) FROM people;\nSELECT income FROM people"), "```\nnothing\n```\n", "```python\nassert False\n```\n",
])
def test_what_is_wrong_is_noticed(wrong: str, reader: Reader) -> None:
    with pytest.raises(AssertionError):
        reader.follow(DEMO + COUNT + wrong)


def test_a_declaration_that_is_wrong_is_noticed(reader: Reader) -> None:
    for text in ("version = 2", "# FILE: mine.toml\nversion = 1", "# ADD: dpsql.toml\n[tables.more]\nsurce = 'a.csv'"):
        with pytest.raises(Exception, match="PolicyError|version|entities|surce"):  # noqa: B017
            reader.follow(DEMO.replace("study", "other") + f"```toml\n{text}\n```\n")
        reader = Reader(reader.capsys)


def test_parts_of_a_page_are_told_apart() -> None:
    page = f"# Level\n\nA `level` [level](level.md).\n{COUNT}{TEXT.format(SHOWN)}"
    assert [block.language for block in blocks(page)] == ["sh", "text"] and blocks(page)[0].line == 4
    assert prose(page).split() == ["A", "[level]."]


def test_a_term_is_explained_by_its_first_use_in_bold() -> None:
    level, = terms("| level, ℓ | the most | [bounds](bounds.md) |")
    assert level.page == "bounds" and level.is_explained_in("A **level (ℓ)** bounds it. Levels differ.")
    assert not level.is_explained_in("Levels differ. A **level** bounds it.") and not level.is_explained_in("None.")
    assert level.first("multi-level levelled") is None and level.first("by ℓ") is not None
    strategy, = terms("| strategy | what is measured | [bounds](bounds.md) |")
    assert strategy.first("Strategies are tried.") is not None and strategy.first("strategical") is None
