"""The guides do what they say, and explain what they speak of before they do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.pages import Reader, Term, blocks, prose, terms

from dpsql.guides import HERE, TOPICS, page
from dpsql.mechanisms.all_mechanisms import NAMES as NAMES_OF_MECHANISMS
from dpsql.mechanisms.named_bounds import BY_NAME
from dpsql.mechanisms.select.undeclared_keys import RULES as SELECTORS
from dpsql.planning.options import NAMES as NAMES_OF_OPTIONS
from dpsql.synthesis import table_options
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.validation.deciders.all_deciders import NAMES as DECIDERS
from dpsql.validation.terms import OWN, SHARED

TERMS = terms(page("glossary"))


def test_the_order_names_every_page() -> None:
    assert sorted(TOPICS) == sorted(path.stem for path in HERE.glob("*.md"))


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_does_what_it_says(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Reader(capsys).follow(page(topic))


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_has_a_title_and_says_in_a_sentence_what_it_is_for(topic: str) -> None:
    title, sentence, *rest = page(topic).split("\n\n")
    assert re.fullmatch(r"# \w.+[^.]", title) and rest
    assert "\n" not in sentence and sentence.endswith(".") and len(sentence) <= 100


@pytest.mark.parametrize(("topic", "following"), [*zip(TOPICS, TOPICS[1:], strict=False)])
def test_a_page_leads_to_the_next(topic: str, following: str) -> None:
    assert f"\nNext: [`dpsql help {following}`]({following}.md)" in page(topic)


@pytest.mark.parametrize("topic", TOPICS)
def test_links_lead_to_pages(topic: str) -> None:
    for shown, target in re.findall(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", page(topic)):
        assert target.removesuffix(".md") in TOPICS
        assert shown in (target.removesuffix(".md"), f"`dpsql help {target.removesuffix('.md')}`")


def test_pictures_are_shown_and_small() -> None:
    """Pictures are small enough to be part of the package, and have words in their place."""
    shown = {target for topic in TOPICS for words, target in re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", page(topic)) if words}
    kept = {path.relative_to(HERE).as_posix(): path.stat().st_size for path in (HERE / "pictures").iterdir()}
    assert shown == set(kept) and sum(kept.values()) < 600_000


@pytest.mark.parametrize("topic", TOPICS)
def test_files_of_the_source_that_are_named_exist(topic: str) -> None:
    root = HERE.parents[1]
    for name in re.findall(r"`((?:tests|examples|grammar|\.github|\.ci)/[\w./]*)`", page(topic)):
        assert (root / name).exists(), name


@pytest.mark.parametrize("topic", TOPICS)
def test_lines_are_short_enough(topic: str) -> None:
    text = page(topic)
    for block in blocks(text):
        text = text.replace(block.text, "") if block.language in ("sh", "sql", "text") else text
    assert [line for line in text.splitlines() if len(line) > 130 and not line.startswith("|")] == []


# -- tables of names


def named(topic: str, header: str) -> set[str]:
    """The names in the first column of a table of a page."""
    table = page(topic).split(f"| {header} |", 1)[1].split("\n\n")[0]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_tables_tell_of_every_name() -> None:
    bounds = named("bounds", "`bound`")
    assert bounds == {"auto", *BY_NAME}
    assert named("sql", "option") == {*NAMES_OF_OPTIONS, "errors"}
    assert named("sql", "mechanism") == {name for name in (*NAMES_OF_MECHANISMS, *SELECTORS) if name not in bounds}
    assert named("validate", "option") == {*OWN, *SHARED}
    assert named("synthetic", "option") == {*table_options.OWN, *table_options.SHARED}
    assert named("synthetic", "method") == {*METHODS}
    deciders = next(row for row in page("validate").splitlines() if row.startswith("| `decider` | `flip"))
    assert set(re.findall(r"`(\w+)`", deciders)) == {"decider", *DECIDERS}


# -- terms


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.forms[0])
def test_a_term_is_explained_where_the_glossary_says_and_used_nowhere_before(term: Term) -> None:
    assert term.page in TOPICS
    assert term.is_explained_in(prose(page(term.page))), f"the first use in {term.page} is not in bold"
    for earlier in TOPICS[: TOPICS.index(term.page)]:
        found = term.first(prose(page(earlier)))
        assert found is None, f"{earlier} uses it: ...{prose(page(earlier))[max(0, found.start() - 60):found.end() + 20]}..."


def test_what_is_in_bold_as_a_term_is_in_the_glossary() -> None:
    for topic in TOPICS[:-1]:
        for bold in re.findall(r"(?<=\w )\*\*([a-zA-Z ]+?)\*\*", prose(page(topic))):
            assert any(found is not None and found[0] == bold for found in (term.first(bold) for term in TERMS)) or " " in bold, bold
