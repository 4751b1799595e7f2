"""The allowlist: every kind of node on it is needed, and nothing that is not on it comes through."""

from __future__ import annotations

from functools import cache

import pytest
from sqlglot import exp
from support.function_table import WRITTEN
from support.grammar_sentences import accepted, refused

from dpsql.errors import Error, SqlError, Unsupported
from dpsql.sql.text import border
from dpsql.sql.text.border import ACCEPTED, check
from dpsql.sql.text.parse import parse
from dpsql.sql.text.refusals import ARGUMENTS, REASONS
from dpsql.sql.text.statement import Explain, Query
from dpsql.sql.text.syntax import ALL_AGGREGATES, SIMPLE


@cache
def trees() -> tuple[exp.Query, ...]:
    """The trees that pass the border: of the corpus, where some are refused behind it, and of every way to write a function."""
    found = []
    ways = [f"SELECT COUNT(*) FROM people WHERE ({way}) IS NULL" for written in WRITTEN.values() for way in written]
    for text in [*accepted(), *(text for *_, text in refused()), *ways]:
        try:
            statement = parse(text)
            query = statement.query if isinstance(statement, Explain) else statement
            if isinstance(query, Query):
                check(query.tree, text)
                found.append(query.tree)
        except Error:
            assert text not in accepted()
    return tuple(found)


def test_every_accepted_kind_of_node_is_reached_by_the_corpus() -> None:
    reached = {type(node) for tree in trees() for node in tree.walk()}
    assert reached <= set(ACCEPTED)
    assert {kind.__name__ for kind in set(ACCEPTED) - reached} == set()


def test_every_accepted_argument_is_reached_by_the_corpus() -> None:
    reached = {(type(node), name) for tree in trees() for node in tree.walk() for name, value in node.args.items()
               if value is not None and value is not False and value != []}
    allowed = {(kind, name) for kind, names in ACCEPTED.items() for name in names}
    assert reached <= allowed
    assert {(kind.__name__, name) for kind, name in allowed - reached} == set()


def test_what_is_refused_with_a_reason_is_not_accepted() -> None:
    assert not set(REASONS) & set(ACCEPTED)
    assert not {(kind, name) for kind, name in ARGUMENTS if name in ACCEPTED.get(kind, ())}
    assert {kind for kind, _ in ARGUMENTS} <= set(ACCEPTED)
    assert all(name in kind.arg_types for kind, name in ARGUMENTS), "an argument that sqlglot does not provide"


def test_what_the_binder_knows_is_accepted() -> None:
    assert set(SIMPLE) | set(ALL_AGGREGATES) <= set(ACCEPTED)


def test_every_other_function_of_sqlglot_is_refused() -> None:
    others = [kind for kind in vars(exp).values() if isinstance(kind, type) and issubclass(kind, exp.Func)
              and kind not in (*ACCEPTED, exp.Func, exp.AggFunc)]
    assert len(others) > 400 and [kind.__name__ for kind in others if not refused_at_the_border(kind)] == []


def refused_at_the_border(kind: type[exp.Expr]) -> bool:
    try:
        check(exp.select(exp.Count(this=kind())).from_("people"), "")
    except Unsupported:
        return True
    return False


@pytest.mark.parametrize(("text", "kind"), [
    ("SELECT COUNT(*) INTO x FROM people", "Select.into"), ("SELECT COUNT(*) FROM people FOR UPDATE", "Select.locks"),
    ("WITH d AS (DELETE FROM people RETURNING *) SELECT COUNT(*) FROM d", "Delete"),
    ("WITH RECURSIVE t AS (SELECT 1) SELECT COUNT(*) FROM t", "With.recursive"),
    ("SELECT COUNT(*) FROM people, people.secret", "secret"), ("SELECT COUNT(*) FROM people AS p TABLESAMPLE 10%", "p"),
    ("SELECT MAX(people IGNORE NULLS) OVER () FROM people", "IgnoreNulls"),
    ("SELECT COUNT(*) FROM people WHERE age = 3 COLLATE x", "Collate"),
    ("SELECT COUNT(*) FROM people WHERE (SELECT 1 UNION SELECT 2) = 3", ""), ("SELECT COUNT(*) FROM 'x.csv'", ""),
])
def test_hidden_statements_are_refused_by_what_they_are(text: str, kind: str) -> None:
    statement = parse(text)
    assert isinstance(statement, Query)
    if not kind:
        check(statement.tree, text)  # these are refused when they are bound
        return
    with pytest.raises(Unsupported) as caught:
        check(statement.tree, text)
    assert caught.value.subject == kind


@pytest.mark.parametrize("text", [
    "SELECT COUNT(*) AS ? FROM people", "SELECT COUNT(*) FROM ?", "SELECT COUNT(*) FROM people AS ?", "SELECT people.? FROM people",
    "SELECT ?.age FROM people", "SELECT COUNT(*) FROM people JOIN visits USING (?)", "WITH ? AS (SELECT 1) SELECT COUNT(*) FROM people",
])
def test_parameters_are_no_names(text: str) -> None:
    with pytest.raises((SqlError, Unsupported)):
        statement = parse(text)
        assert isinstance(statement, Query)
        border.check(statement.tree, text)


@pytest.mark.parametrize("word", ["filter", "over", "where", "limit", "all", "using", "end", "window"])
def test_words_of_sql_are_names_only_in_quotes_or_after_as(word: str) -> None:
    for text in (f'SELECT COUNT(*) "{word}" FROM people', f"SELECT COUNT(*) AS {word} FROM people",
                 f'SELECT COUNT(*) FROM people "{word}"'):
        statement = parse(text)
        assert isinstance(statement, Query)
        check(statement.tree, text)
    for text in (f"SELECT COUNT(*) {word} FROM people", f"SELECT COUNT(*) FROM people AS {word}"):
        with pytest.raises((SqlError, Unsupported)):
            statement = parse(text)
            assert isinstance(statement, Query)
            check(statement.tree, text)
