"""Text to statement: dpsql's own words, parameters, caps, and places."""

from __future__ import annotations

import random
import re

import pytest
from support.grammar_sentences import accepted

from dpsql.errors import SqlError, Unsupported
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import nodes_of, span_of
from dpsql.sql.text.statement import Describe, Explain, Option, Query, Show
from dpsql.sql.text.tokens import MOST_BYTES, MOST_DEPTH, MOST_TOKENS


def query(text: str) -> Query:
    found = parse(text)
    assert isinstance(found, Query)
    return found


def refusal(text: str) -> SqlError | Unsupported:
    with pytest.raises((SqlError, Unsupported)) as caught:
        parse(text)
    fault = caught.value
    assert fault.text == text and fault.span is not None
    return fault


def marked(text: str) -> str:
    """The part of a text that its refusal points at."""
    span = refusal(text).span
    assert span is not None
    return text[span.start : span.end]


@pytest.mark.parametrize(("text", "expected"), [
    ("SHOW BUDGET", Show(what="budget")), ("show releases;", Show(what="releases")), ("  Show Tables ; ;", Show(what="tables")),
])
def test_show(text: str, expected: Show) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(("text", "table"), [("DESCRIBE people", "people"), ('describe "My table"', "My table"), ("DESC p", "p")])
def test_describe_keeps_the_place_of_the_table(text: str, table: str) -> None:
    found = parse(text)
    assert isinstance(found, Describe)
    assert found.table == table
    assert text[found.span.start : found.span.end].strip('"') == table


def test_explain_privacy_holds_a_query_whose_places_are_those_of_the_whole_text() -> None:
    text = "EXPLAIN PRIVACY SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 1) AVG(age) FROM people WHERE age > $least"
    found = parse(text)
    assert isinstance(found, Explain)
    assert [option.name for option in found.query.options] == ["rho"]
    assert found.query.parameters == ("least",)
    span = span_of(found.query.tree.args["where"].this)
    assert span is not None and text[span.start : span.end] == "age > $least"


# -- options


def options(text: str) -> list[tuple[str, object]]:
    return [(option.name, option.value) for option in query(text).options]


@pytest.mark.parametrize(("clause", "expected"), [
    ("", []), ("OPTIONS ()", []), ("OPTIONS (epsilon = 1)", [("epsilon", 1)]), ("options(Epsilon=.5)", [("epsilon", 0.5)]),
    ("OPTIONS (delta = 1e-6, mechanism = 'laplace')", [("delta", 1e-6), ("mechanism", "laplace")]),
    ("OPTIONS (a = -2, b = -0.5, c = 1_000, d = TRUE, e = false)", [("a", -2), ("b", -0.5), ("c", 1000), ("d", True), ("e", False)]),
    ("OPTIONS (mechanism = 'it''s')", [("mechanism", "it's")]),
])
def test_options(clause: str, expected: list[tuple[str, object]]) -> None:
    found = options(f"SELECT WITH DIFFERENTIAL_PRIVACY {clause} COUNT(*) FROM people")
    assert found == expected
    assert [type(value) for _, value in found] == [type(value) for _, value in expected]


def test_an_option_knows_its_place() -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 1, delta = -0.5) COUNT(*) FROM people"
    assert [text[option.span.start : option.span.end] for option in query(text).options] == ["rho = 1", "delta = -0.5"]
    assert isinstance(query(text).options[0], Option)


@pytest.mark.parametrize("text", [
    "(SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM people)",
    "((SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM people));",
    "WITH t AS (SELECT * FROM people) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t",
])
def test_options_belong_to_the_outermost_select(text: str) -> None:
    assert options(text) == [("epsilon", 1)]


@pytest.mark.parametrize(("text", "place"), [
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon 1) COUNT(*) FROM people", "1"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1), COUNT(*) FROM people", ","),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = ?) COUNT(*) FROM people", "?"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1 delta = 2) COUNT(*) FROM people", "delta"),
    ("SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY * FROM people)", "DIFFERENTIAL_PRIVACY"),
    ("SELECT WITH DIFERENTIAL_PRIVACY COUNT(*) FROM people", "DIFERENTIAL_PRIVACY"),
])
def test_a_wrong_clause_of_options_is_pointed_at(text: str, place: str) -> None:
    assert refusal(text).code == "options"
    assert marked(text) == place


# -- parameters


@pytest.mark.parametrize(("text", "names"), [
    ("SELECT ?, ?", ("?1", "?2")), ("SELECT $1, $2, $1", ("1", "2", "1")), ("SELECT $1,$1", ("1", "1")), ("SELECT :a + $b", ("a", "b")),
    ("SELECT ?::DATE, $d::DATE, :d::DATE", ("?1", "d", "d")), ("SELECT '?', '$1', ':a', \"?\", x -- ? $1 :a", ()),
    ("SELECT x::INT /* :a */", ()), ("SELECT a FROM t WHERE b IN ($x,$y) AND c = ''", ("x", "y")),
])
def test_parameters_are_found_outside_of_texts(text: str, names: tuple[str, ...]) -> None:
    assert query(text).parameters == names


def test_no_text_can_hold_the_mark_of_a_parameter() -> None:
    assert refusal('SELECT COUNT(*) FROM people WHERE "\x01?1" = 3').code == "bad-character"


# -- caps


def test_a_text_may_be_as_long_as_the_cap_and_no_longer() -> None:
    head = "SELECT COUNT(*) FROM people WHERE sex = '"
    query(head + "x" * (MOST_BYTES - len(head) - 1) + "'")
    assert refusal(head + "x" * (MOST_BYTES - len(head)) + "'").code == "too-long"
    assert refusal(head + "\u20ac" * (MOST_BYTES // 3) + "'").code == "too-long"  # bytes are counted, not letters


def test_words_and_brackets_are_counted() -> None:
    query("SELECT " + "1," * (MOST_TOKENS // 2 - 2) + "1")
    assert refusal("SELECT " + "1," * (MOST_TOKENS // 2) + "1").code == "too-long"
    assert refusal("SELECT " + "(" * (MOST_DEPTH + 1) + "1" + ")" * (MOST_DEPTH + 1)).code == "too-deep"
    assert refusal("SELECT " + "NOT " * 2000 + "TRUE").code == "too-deep"


@pytest.mark.parametrize("letter", ["\x00", "\x01", "\x08", "\x0b", "\x1f", "\x7f", "\x85", "\ud800", "\udfff"])
def test_letters_that_no_text_can_hold_are_refused(letter: str) -> None:
    text = f"SELECT COUNT(*) FROM people WHERE sex = '{letter}'"
    assert refusal(text).code == "bad-character"
    assert marked(text) == letter


def test_other_letters_are_kept() -> None:
    for letter in "\u00e9\u4e2d\U0001f642\u00a0\u200d\ufeff\t\n":
        literal = query(f"SELECT COUNT(*) FROM people WHERE sex = '{letter}'").tree.args["where"].this.expression
        assert literal.this == letter
    assert isinstance(query("\ufeffSELECT 1"), Query)


@pytest.mark.parametrize(("text", "place"), [
    ("SELECT 'x", "'"), ('SELECT "x', '"'), ("SELECT /* x", "/*"), ("SELECT 'a', 'b", "'"),
])
def test_what_is_not_closed_is_pointed_at(text: str, place: str) -> None:
    fault = refusal(text)
    assert "is not closed" in fault.reason
    assert marked(text) == place


# -- mistakes


@pytest.mark.parametrize(("text", "hint"), [
    ("SELCT COUNT(*) FROM people", "SELECT"), ("SELECT COUNT(*) FORM people", "FROM"), ("EXPLIAN PRIVACY SELECT 1", "EXPLAIN"),
    ("SELECT COUNT(*) FROM people WERE age > 3", "WHERE"), ("SELECT sex FROM people GROUP sex", "GROUP BY"),
    ("SELECT sex FROM people ORDER sex", "ORDER BY"), ("SELECT sex FROM people HAVNG 3", "HAVING"), ("DESCRIB people", "DESCRIBE"),
    ("SELECT COUNT(*) FROM people WHERE age BETWEEN 3", "BETWEEN low AND high"), ("SHOW COLUMNS FROM people", "SHOW BUDGET; DESCRIBE and a table for its columns"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITH 5", "ERROR WITHIN 50, or STANDARD ERROR 20"),
    ("SELECT COUNT(*) FROM people LIMT 3", "LIMIT"), ("SELECT TOP 3 sex, COUNT(*) FROM people GROUP BY sex", "LIMIT, at the end"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTION (epsilon = 1) COUNT(*) FROM people", "OPTIONS"),
    ("SELECT COUNT(*) FROM people WHERE age > 3 && sex = 'f'", "AND"),
    ("SELECT COUNT(*) FROM people WHERE age > %s", "? for a parameter, or :name"),
    ("SELECT COUNT(*) FROM people WHERE age > %(least)s AND sex = 'f'", "? for a parameter, or :name"),
    ("SELECT COUNT(*) FROM people WHERE", "a condition, such as age > 18"), ("SELECT COUNT(*) FROM", "the name of a table"),
    ("SELECT COUNT(*) FROM people WHERE age >", "a value"), ("", "SELECT COUNT(*) FROM ..."), (" -- nothing", "SELECT COUNT(*) FROM ..."),
    ("SELECT COUNT(*) FROM people WHERE sex = 'f", "' at its end"), ('SELECT "age FROM people', '" at its end'), ("SELECT /* x", "*/ at its end"),
])
def test_mistyped_words_are_recognised(text: str, hint: str) -> None:
    assert refusal(text).try_ == hint


@pytest.mark.parametrize(("text", "reason", "hint"), [
    ("SELECT sex FROM acs WHERE GROUP BY sex", "something is missing before GROUP BY", "a condition, such as age > 18"),
    ("SELECT income + FROM people", "something is missing before FROM", "a value"),
    ("SELECT COUNT(*) FROM people WHERE age = AND active", "something is missing before AND", "a value"),
    ("SELECT COUNT(*) FROM people WHERE", "something is missing after WHERE", "a condition, such as age > 18"),
    ("SELECT CASE WHEN active THEN 1 FROM people", "END is missing after 1", ""),
    ("SELECT CAST(age INTEGER) FROM people", "AS is missing before INTEGER", ""),
])
def test_what_is_missing_is_told_with_the_side_on_which_it_is_missing(text: str, reason: str, hint: str) -> None:
    fault = refusal(text)
    assert (fault.reason, fault.try_) == (reason, hint)


@pytest.mark.parametrize(("text", "place"), [
    ("SELECT COUNT(*)\nFROM people\nWHERE", "WHERE"), ("SELECT a b c FROM people", "c"), ("SELECT a,, b", ","), ("SELECT f(, a)", ","),
    ("SELECT f(a, )", ")"), ("SELECT , a", ","), ("SELECT a FROM t JOIN u WHERE x", "JOIN"), ("SELECT a FROM t JOIN u", "JOIN"),
    ("SELECT a FROM (t JOIN u) JOIN v ON x", "JOIN"), ("SELECT a FROM t LIMIT 3, 4", ","),
    ("SELECT {# x #} a", "{#"),
    ("SELECT a ORDER BY a ASC DESC", "DESC"), ("SELECT 'a' 'b'", "'b'"),
])
def test_syntax_errors_are_pointed_at(text: str, place: str) -> None:
    assert marked(text) == place


@pytest.mark.parametrize("text", [
    "SELECT a FROM t CROSS JOIN u", "SELECT a FROM t JOIN u ON x", "SELECT a FROM t JOIN u JOIN v ON x ON y", "SELECT a FROM t, u",
    "SELECT a FROM (t JOIN u USING (x)) JOIN v ON (SELECT 1 FROM w JOIN z ON q)", "SELECT DISTINCT a FROM t LEFT JOIN u USING (k)",
])
def test_joins_with_conditions_are_read(text: str) -> None:
    query(text)


# -- places


def test_places_of_nodes_are_whole() -> None:
    text = ("SELECT COUNT(*) FILTER (WHERE a > 1), CAST(x AS INT) + y::DATE, CASE WHEN (a) THEN 'x' END, NOT (a), -b, f(g(h(1)), 2), "
            "EXTRACT(year FROM d), DATE '2020-01-01', c IN (1, (2)), EXISTS (SELECT 1 FROM t WHERE (x)), ((a + b)) * c FROM t")
    inside = [item.strip() for item in _split(text[len("SELECT ") : -len(" FROM t")])]
    found = [span_of(item) for item in query(text).tree.selects]
    assert [text[span.start : span.end] for span in found if span is not None] == inside


def _split(text: str) -> list[str]:
    """The items of a list, by the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def test_places_do_not_depend_on_blanks_and_comments(effort: float) -> None:
    words = re.findall(r"GROUP BY|\w+|[^\w\s]", "SELECT sex, AVG(age + 1) FROM people WHERE NOT (age > 3) GROUP BY sex")
    dice = random.Random(1)
    for _ in range(int(50 * effort)):
        text = "".join(word + dice.choice([" ", "\n", "\t ", " /* , ( */ ", " -- '\n"]) for word in words)
        tree = query(text).tree
        span = span_of(tree.args["where"].this)
        assert span is not None
        part = text[span.start : span.end]
        assert part.startswith("NOT") and part.endswith(")") and part.count("(") >= 1
        first = span_of(tree.selects[1])
        assert first is not None and text[first.start : first.end].startswith("AVG") and text[first.end - 1] == ")"


def test_nodes_are_in_the_order_of_sqlglot() -> None:
    for text in accepted():
        found = parse(text)
        if isinstance(found, Query):
            assert list(map(id, nodes_of(found.tree))) == list(map(id, found.tree.walk(bfs=True)))
