"""The corpus: what the grammar accepts is bound, and what is refused is refused for the reason that is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lark.exceptions import LarkError
from support.binding import Bench, bench
from support.grammar_sentences import accepted, grammar, refused, values

from dpsql.engine.decide import clearer
from dpsql.errors import Error, SqlError, Unsupported
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.options import Options
from dpsql.questions.labels import label
from dpsql.questions.rules.decompose import decompose
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Explain, Query
from dpsql.sql.text.trees import inner_of, is_star
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import fold

ACCEPTED, REFUSED = accepted(), refused()

# Refused statements that are sentences nevertheless: what is wrong with them shows only when names and types are known.
LATER = {
    "unknown-column", "unknown-table", "ambiguous-column", "undeclared-column", "undeclared-table", "outside-table", "type",
    "group-by", "aggregate-here", "position", "alias", "inner-group", "inner-aggregate", "no-bounds", "private-list",
    "in-list", "pattern", "bins", "union", "values", "no-aggregate", "parameter", "cast", "table-as-column", "time-part",
    "star", "quantile", "exists", "interval", "options", "join-condition", "limit", "no-limit", "outer-private", "null-list",
    "scalar-subquery", "linked", "linked-group", "lateral", "window-here", "window-base", "window-order", "window-frame", "window-number", "window-ends",
    "unknown-window", "shared-window", "qualify", "distinct-aggregate", "accuracy", "outer-union", "undeclared-value",
}
NAMES = ("current_date", "current_user")  # to the grammar they are columns like any other


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


def test_the_corpus_is_large_and_without_repetition() -> None:
    assert len(ACCEPTED) == len(set(ACCEPTED)) >= 200
    assert len(REFUSED) == len({statement for *_, statement in REFUSED}) >= 300


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted_statements_are_sentences_and_are_bound(a_bench: Bench, text: str) -> None:
    grammar().parse(text)
    statement = parse(text)
    query = statement.query if isinstance(statement, Explain) else statement
    if not isinstance(query, Query):
        return
    try:
        question = a_bench.bind(text, values(query.parameters))
        known = stability(question.view, a_bench.kernel)
        if not known.public:
            decompose(question, owner=known.owner)
    except (SqlError, Unsupported):
        around = a_bench.around(text, values(query.parameters))
        if around is None:
            raise
        assert all(name for name, _ in around.rows.shown) and fold(around.rows.node, lambda node, below: label(node))
        return
    names = [output.name for output in question.outputs]
    stars = any(is_star(inner_of(item)) for item in query.tree.selects)
    assert (len(names) > 0 if stars else len(names) == len(query.tree.selects)) and all(names)
    assert fold(question.view, lambda node, below: label(node))


def planned(a_bench: Bench, text: str) -> None:
    """All that the engine does before it looks at a price."""
    refused: SqlError | Unsupported
    try:
        question = a_bench.bind(text)
        decompose(question, owner=None)
        limited_view(question, Options(price=None), a_bench.kernel, span_of(a_bench.query(text).tree))
        return
    except (SqlError, Unsupported) as fault:
        refused = fault
    try:
        around = a_bench.around(text)
    except (SqlError, Unsupported) as fault:
        raise clearer(refused, fault) from None
    if around is None:
        raise refused


@pytest.mark.parametrize("code", sorted({code for _, code, _, _ in REFUSED}))
def test_refused_statements_are_refused_as_told(a_bench: Bench, code: str) -> None:
    told = {text: (kind, reason, refusal(a_bench, text)) for kind, found, reason, text in REFUSED if found == code}
    assert [(text, fault) for text, (kind, reason, fault) in told.items() if fault is None or not is_as_told(fault, kind, code, reason, text)] == []


def refusal(a_bench: Bench, text: str) -> Error | None:
    try:
        planned(a_bench, text)
    except (SqlError, Unsupported) as fault:
        return fault.located(text)
    return None


def is_as_told(fault: Error, kind: str, code: str, reason: str, text: str) -> bool:
    return ((type(fault).__name__, fault.code) == (kind, code) and fault.reason.startswith(reason)
            and fault.span is not None and 0 <= fault.span.start < fault.span.end <= len(text)
            and "^" in str(fault) and fault.text == text
            and fault.as_dict()["line"] == text[: fault.span.start].count("\n") + 1)


FORMS = [(code, text) for _, code, _, text in REFUSED if code not in LATER and not text.endswith(NAMES)]


@pytest.mark.parametrize("code", sorted({code for code, _ in FORMS}))
def test_the_grammar_has_no_sentence_whose_form_is_refused(code: str) -> None:
    assert [text for found, text in FORMS if found == code and is_a_sentence(text)] == []


def is_a_sentence(text: str) -> bool:
    try:
        grammar().parse(text)
    except LarkError:
        return False
    return True


def test_most_refusals_say_what_to_write_instead(a_bench: Bench) -> None:
    silent = []
    for *_, text in REFUSED:
        try:
            planned(a_bench, text)
        except Error as fault:
            if not fault.try_ and fault.code != "syntax":
                silent.append(text)
    assert len(silent) <= len(REFUSED) / 20, silent
