"""The README does what it says, is short, and explains its terms; the map of the house names rooms that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import Reader, Term, blocks, terms

import dpsql
from dpsql.catalog.policy import parse_policy
from dpsql.guides import TOPICS, page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EVERYDAY = {"owner", "analyst", "cost", "charge", "entity", "interval", "policy", "bounds"}  # words that are understood without more


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150 and len(README.split()) <= 970


def test_the_commands_of_the_main_job_are_found_where_they_are_looked_for() -> None:
    for job in ("dpsql demo", "pytest"):
        assert len(re.findall(rf"^python3 -m venv .*{job}", README, re.MULTILINE)) == 1


def test_five_minutes_are_as_they_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Reader(capsys).follow(README.split("## Five minutes")[1].split("## Your own data")[0])


def test_the_picture_is_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    picture, = (block.text for block in blocks(README) if block.language == "text")
    commands = (line for block in blocks(README) for line in block.text.splitlines())
    line, = (line for line in commands if line.startswith("dpsql query") and "AVG(income) FROM people GROUP BY health" in line)
    Reader(capsys).follow(f"```sh\ndpsql demo --to study && cd study\n{line}\n```\n```text\n{picture}```\n")


def test_the_policy_is_one_and_serves_what_is_asked_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    import duckdb

    monkeypatch.chdir(tmp_path)
    with duckdb.connect("people.duckdb") as made:
        made.execute("CREATE TABLE people AS SELECT i AS person_id, CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END AS sex, "
                     "20000 + i % 1000 AS income FROM range(5000) r(i)")
        made.execute("CREATE TABLE visits AS SELECT i % 5000 AS person_id, i % 300 AS cost FROM range(9000) r(i)")
    own = README.split("## Your own data")[1].split("## What it can do")[0]
    text, = (block.text for block in blocks(own) if block.language == "toml")
    assert parse_policy(text).budgets["main"].per_statement is not None
    Path("dpsql.toml").write_text(text, encoding="utf-8")
    Reader(capsys).follow("".join(f"```sh\n{block.text}```\n" for block in blocks(own) if block.language == "sh"))


@pytest.mark.parametrize("name", ["README.md", ".github/CHANGELOG.md", ".github/CONTRIBUTING.md", ".github/DECISIONS.md", ".github/SECURITY.md",
                                  "tests/corpus/README.md"])
def test_links_and_names_lead_to_files(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(((?!https:)[^)#]+)\)", text)
    for link in links:
        assert (ROOT / name).parent.joinpath(link).is_file(), link
    named = re.findall(r"`((?:dpsql|tests|grammar|examples|\.ci)/[\w/.]*)`", text)
    for path in named:
        assert (ROOT / path).exists(), path
    assert links


def test_the_site_has_every_guide_and_every_public_name() -> None:
    pages, reference = ((ROOT / ".ci/site" / name).read_text(encoding="utf-8") for name in ("index.md", "api.md"))
    assert re.findall(r"^\.\./\.\./dpsql/guides/(\w+)$", pages, re.MULTILINE) == [*TOPICS]
    own = [name for name in dpsql.__all__ if callable(getattr(dpsql, name)) and str(getattr(dpsql, name).__module__).startswith("dpsql.")]
    assert [name for name in own if name != "TimeFromTicks" and not re.search(rf"\b{name}\b", reference)] == []


def test_pull_requests_run_everything() -> None:
    assert "- run: .ci/run\n" in (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("term", terms(page("glossary")), ids=lambda term: term.forms[0])
def test_a_term_is_explained_before_it_is_used(term: Term) -> None:
    """In code too, as a reader meets it."""
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"^#+ .*$", "", README, flags=re.MULTILINE))
    assert term.forms[0] in EVERYDAY or term.first(text) is None or term.is_explained_in(text), "the first use is not in bold"


# -- the map of the house, which the guide to the architecture holds


def test_the_map_of_the_house_names_rooms_that_exist_and_all_of_them() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", page("architecture").split("## Map")[1].split("\n## ")[0], re.MULTILINE)
    rooms = {name for room, _ in rows for name in re.findall(r"`([\w/.]+)`", room)}
    for name in {name for row in rows for cell in row for name in re.findall(r"`([\w.]+/|[\w/]+\.py)`", cell)}:
        assert any((ROOT / base / name).exists() for base in (".", "dpsql", "dpsql/sql", "dpsql/server", "dpsql/server/front", "dpsql/trusted", "dpsql/trusted/measurements")), name
    standing = {f"{path.parent.name}/" for path in (ROOT / "dpsql").glob("*/__init__.py")}
    assert standing - rooms == set(), "rooms that the map leaves out"


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, ROOT / "examples" / example], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path), "USER": "ada"}, check=False)
    assert made.returncode == 0, made.stderr
    assert "error" in made.stdout
