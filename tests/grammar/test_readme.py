"""The README of the grammar: its table of functions is that of the code, its examples are bound, and it names what exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.binding import Bench, bench
from support.function_table import WRITTEN, files
from support.grammar_sentences import FOLDER, grammar, values

from dpsql.errors import Unsupported
from dpsql.sql.text.border import ACCEPTED
from dpsql.sql.text.parse import parse
from dpsql.sql.text.split import split
from dpsql.sql.text.statement import OpenModel, Synthesize, Validate
from dpsql.sql.text.syntax import WORDS
from dpsql.trusted.plan.expr.nodes import Call, Cast, walk
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter

README = FOLDER / "README.md"
ROWS = "people JOIN visits USING (person_id)"
WAYS = [(name, way) for name, written in WRITTEN.items() for way in written]


def text() -> str:
    return README.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


def test_what_files_say_of_functions_is_what_the_rows_say() -> None:
    assert [path.name for path, text, wanted in files() if text != wanted] == [], "python -m tests.support.function_table"


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_what_is_written_is_bound_to_the_function(a_bench: Bench, name: str, way: str) -> None:
    view: Node = a_bench.bind(f"SELECT COUNT(*) FROM {ROWS} WHERE ({way}) IS NULL OR TRUE").view
    found: set[str] = set()
    while view.inputs:
        if isinstance(view, Filter):
            found |= {part.function for part in walk(view.condition) if isinstance(part, Call)}
            assert not any(isinstance(part, Cast) and part.target == "INTEGER" for part in walk(view.condition))
        view = view.inputs[0]
    assert name in found
    grammar().parse(f"SELECT COUNT(*) FROM people WHERE ({way}) IS NULL")


def test_words_for_hints_are_words_of_the_examples_or_aggregates(a_bench: Bench) -> None:
    known = " ".join(way for _, way in WAYS) + text().lower()
    assert [word for word in WORDS if not re.search(rf"\b{word}[(`]", known)] == []


BLOCKS = re.findall(r"```sql\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("statement", [statement for block in BLOCKS for statement in split(block)])
def test_examples_are_sentences_and_are_bound(a_bench: Bench, statement: str) -> None:
    grammar().parse(statement)
    if not isinstance(parse(statement), Validate | Synthesize | OpenModel):  # which need more: see tests/validation and tests/synthesis
        given = values(a_bench.query(statement).parameters)
        try:
            a_bench.bind(statement, given)
        except Unsupported:
            assert a_bench.around(statement, given) is not None


def test_every_production_is_told() -> None:
    rules = {re.sub(r"^expr__", "", str(rule.origin.name)) for rule in grammar("start").rules}
    aliases = {str(rule.alias).removeprefix("expr__") for rule in grammar("start").rules if rule.alias}
    told = set(re.findall(r"`(\w+)`", text()))
    assert {name for name in rules | aliases if not name.startswith("_")} - told == set()


def test_files_that_are_named_exist() -> None:
    root = FOLDER.parent
    for name in re.findall(r"`((?:sql|trusted|questions|dpsql|tests)/[\w/]+(?:\.py)?/?)`", text()):
        assert any((root / folder / name).exists() for folder in ("", "dpsql")), name
    told = set(re.findall(r"`(\w+\.py)`", text()))
    assert {path.name for path in Path(root / "dpsql" / "sql").glob("*.py")} - told - {"__init__.py", "split.py", "statement.py"} == set()


def test_the_example_of_a_refusal_is_what_is_shown(a_bench: Bench) -> None:
    shown = text().rsplit("```\n", 2)[1].rstrip("\n")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its text is compared
        a_bench.bind("SELECT AVG(agee) FROM people")
    assert str(caught.value) == shown


def test_what_is_left_out_is_not_on_the_allowlist() -> None:
    assert not {kind.__name__ for kind in ACCEPTED} & {"Pivot", "TableSample", "Struct"}
    assert parse("SHOW TABLES")
