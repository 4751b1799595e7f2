"""Sentences, and texts that are nearly sentences: each is bound or refused with a place, never anything else.

What is bound is printed and runs on an empty database without an error of the engine, and DuckDB knows the text too: nothing
is accepted that it would refuse, apart from what is dpsql's own.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lark.exceptions import LarkError
from support import worlds
from support.binding import Bench, bench, printed
from support.grammar_sentences import KINDS, Sentences, accepted, grammar, refused, strategy, values, without_accuracy

from dpsql.errors import Error
from dpsql.questions.labels import label
from dpsql.questions.question import Question
from dpsql.questions.rules.substitute import has_placeholders, substitute
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Explain, Query
from dpsql.trusted.plan.node import fold
from dpsql.types import Type

FORMS = {
    "query": "{}", "condition": "SELECT COUNT(*) FROM {table} WHERE {}", "expr__aggregate": "SELECT {} FROM {table}",
    "rows": "SELECT COUNT(*) FROM ({}) AS t", "outputs": "SELECT {} FROM {table} GROUP BY ALL",
    "expr__subquery": "SELECT COUNT(*) FROM {table} HAVING {} IS NOT NULL",
}
LETTERS = "abcxyz019 _-+*/%<>=!~|&^,.;:?$#@()[]{}'\"`\\\n\té\u00a0\u2028\U0001f642\x00\x7f\ud800"


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench(worlds.World()) as made:
        made.plain.execute("CREATE MACRO bin_floor(x) AS floor(x)")  # dpsql's own
        yield made


def outcome(a_bench: Bench, text: str) -> str:
    """The code of the refusal, or "bound". Fails on any other exception, and on an error without a place."""
    try:
        statement = parse(text)
        query = statement.query if isinstance(statement, Explain) else statement
        if not isinstance(query, Query):
            return "bound"
        question = a_bench.bind(text, values(query.parameters))
    except Error as fault:
        fault.located(text)
        assert fault.reason and not any(unicodedata.category(letter) == "Cc" for letter in fault.reason), text
        assert fault.span is not None and 0 <= fault.span.start < max(fault.span.end, 1) <= max(len(text), 1), (text, fault.span)
        assert "^" in str(fault) or fault.code == "empty"
        return fault.code
    check(a_bench, question, text)
    return "bound"


def check(a_bench: Bench, question: Question, text: str) -> None:
    """A bound view can be shown, and runs, whatever value is put where one is awaited."""
    for part in (question, *(found.question for found in question.scalars)):
        values = {name: 3 if found.type is Type.BIGINT else None for name, found in has_placeholders(part.view).items()}
        assert fold(part.view, lambda node, below: label(node)), text
        assert a_bench.plain.execute(printed(substitute(part.view, values))).fetchall() is not None


def known_to_duckdb(a_bench: Bench, text: str) -> bool:
    """Whether DuckDB plans the text, without what is dpsql's own."""
    statement = parse(text)
    query = statement.query if isinstance(statement, Explain) else statement
    if not isinstance(query, Query) or query.parameters:
        return True
    plain = without_accuracy(text, query)
    plain = re.sub(r"\bWITH\s+DIFFERENTIAL_PRIVACY(\s+OPTIONS\s*\([^()]*\))?", "", plain, flags=re.IGNORECASE)
    plain = re.sub(r"^\s*EXPLAIN\s+PRIVACY\b", "", plain, flags=re.IGNORECASE)
    try:
        a_bench.plain.execute("EXPLAIN " + plain)
    except duckdb.ParserException:
        return False
    except duckdb.Error:  # names and types are DuckDB's own matter: it converts more, and folds constants
        return True
    return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", FORMS)
def test_sentences_are_bound_or_refused_with_a_place(a_bench: Bench, start: str, kind: str, effort: float) -> None:
    sentences, dice, outcomes = Sentences(kind), random.Random(f"{start} {kind}"), Counter[str]()
    for _ in range(int(30 * effort)):
        text = FORMS[start].format(sentences.draw(dice, start, dice.randint(4, 18)), table=KINDS[kind]["TABLE"][0])
        found = outcome(a_bench, text)
        outcomes[found] += 1
        assert found not in ("syntax", "internal"), text
        assert found != "bound" or known_to_duckdb(a_bench, text), text


def test_sentences_are_read_back_by_the_grammar(effort: float) -> None:
    dice = random.Random(4)
    for kind in KINDS:
        sentences = Sentences(kind)
        for _ in range(max(1, int(3 * effort))):
            grammar("query").parse(sentences.draw(dice, "query", 8))


@given(text=st.deferred(lambda: strategy("ages", "condition")))  # to read the grammar takes a while
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
def test_conditions_as_hypothesis_draws_them(a_bench: Bench, text: str) -> None:
    outcome(a_bench, f"SELECT COUNT(*) FROM people WHERE {text}")


def test_damaged_statements_are_bound_or_refused_with_a_place(a_bench: Bench, effort: float) -> None:
    corpus = [*accepted(), *(text for *_, text in refused())]
    tokens = [re.findall(r"\w+|'[^']*'|\s+|.", text, flags=re.DOTALL) for text in corpus]
    dice, outcomes, unknown = random.Random(5), Counter[str](), []
    for _ in range(int(1000 * effort)):
        text = "".join(_damaged(dice.choice(tokens), tokens, dice))
        found = outcome(a_bench, text)
        outcomes[found] += 1
        if found == "bound" and not known_to_duckdb(a_bench, text):
            unknown.append(text)
    assert 0.03 < outcomes["bound"] / sum(outcomes.values()) < 0.95, outcomes
    assert len(unknown) <= 2 + 0.02 * outcomes["bound"], "\n".join(unknown)  # sqlglot reads a little more than DuckDB


def _damaged(words: list[str], others: list[list[str]], dice: random.Random) -> list[str]:
    """A statement with one to three tokens left out, doubled, swapped or put in from another one."""
    words = list(words)
    for _ in range(dice.randint(1, 3)):
        at, to = dice.randrange(len(words)), dice.randrange(len(words))
        match dice.randrange(5):
            case 0 if len(words) > 1:
                del words[at]
            case 1:
                words.insert(at, words[at])
            case 2:
                words[at], words[to] = words[to], words[at]
            case 3:
                words.insert(at, dice.choice(dice.choice(others)))
            case _:
                words[at] = dice.choice(dice.choice(others))
    return words


def test_odd_texts_are_refused_with_a_place(a_bench: Bench, effort: float) -> None:
    dice = random.Random(6)
    for _ in range(int(600 * effort)):
        noise = "".join(dice.choice(LETTERS) for _ in range(dice.randint(0, 30)))
        text = dice.choice(["{}", "SELECT {}", "SELECT COUNT(*) FROM {}", "SELECT COUNT(*) FROM people WHERE {}",
                            "SELECT COUNT(*) FROM people WHERE nickname = '{}'", "SELECT COUNT(*) AS \"{}\" FROM people"]).replace(
                                "{}", noise)
        outcome(a_bench, text)


def test_accepted_statements_are_known_to_duckdb(a_bench: Bench) -> None:
    assert [text for text in accepted() if "bin_floor" not in text and not known_to_duckdb(a_bench, text)] == []


def test_the_grammar_refuses_damaged_words() -> None:
    with pytest.raises(LarkError):
        grammar().parse("SELECT COUNT(*) FORM people x")
