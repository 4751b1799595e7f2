"""The corpus: what the grammar accepts is bound, and what is refused is refused for the reason that is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lark.exceptions import LarkError
from support.binding import Bench, bench
from support.grammar_sentences import accepted, grammar, refused, values

from dpsql.errors import Error, SqlError, Unsupported
from dpsql.plan.certificate import stability
from dpsql.plan.node import fold
from dpsql.plan.rules.decompose import decompose
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.options import Options
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Explain, Query

ACCEPTED, REFUSED = accepted(), refused()

# Refused statements that are sentences nevertheless: what is wrong with them shows only when names and types are known.
LATER = {
    "unknown-column", "unknown-table", "ambiguous-column", "undeclared-column", "undeclared-table", "outside-table", "type",
    "group-by", "aggregate-here", "position", "alias", "inner-group", "inner-aggregate", "no-bounds", "private-list",
    "in-list", "pattern", "bins", "union", "values", "no-aggregate", "parameter", "cast", "table-as-column", "time-part",
    "star", "quantile", "exists", "interval", "options", "join-condition", "limit", "no-limit", "outer-private", "null-list",
    "scalar-subquery", "linked", "linked-group", "lateral", "window-here", "window-base", "window-order", "window-frame", "window-number", "window-ends",
    "unknown-window", "shared-window", "qualify", "accuracy",
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
    question = a_bench.bind(text, values(query.parameters))
    known = stability(question.view, a_bench.kernel)
    if not known.public:
        decompose(question, owner=known.owner)
    names = [output.name for output in question.outputs]
    assert len(names) == len(query.tree.selects) and all(names)
    assert fold(question.view, lambda node, below: node.label())


def planned(a_bench: Bench, text: str) -> None:
    """All that the engine does before it looks at a price."""
    question = a_bench.bind(text)
    decompose(question, owner=None)
    limited_view(question, Options(price=None), a_bench.kernel, span_of(a_bench.query(text).tree))


@pytest.mark.parametrize(("kind", "code", "reason", "text"), REFUSED, ids=[text[:60] for *_, text in REFUSED])
def test_refused_statements_are_refused_as_told(a_bench: Bench, kind: str, code: str, reason: str, text: str) -> None:
    with pytest.raises((SqlError, Unsupported)) as caught:
        planned(a_bench, text)
    fault = caught.value.located(text)
    assert (type(fault).__name__, fault.code) == (kind, code)
    assert fault.reason.startswith(reason)
    assert fault.span is not None and 0 <= fault.span.start < fault.span.end <= len(text)
    assert "^" in str(fault) and fault.text == text
    assert fault.as_dict()["line"] == text[: fault.span.start].count("\n") + 1


@pytest.mark.parametrize("text", [text for _, code, _, text in REFUSED if code not in LATER and not text.endswith(NAMES)])
def test_the_grammar_has_no_sentence_whose_form_is_refused(text: str) -> None:
    with pytest.raises(LarkError):
        grammar().parse(text)


def test_most_refusals_say_what_to_write_instead(a_bench: Bench) -> None:
    silent = []
    for *_, text in REFUSED:
        try:
            planned(a_bench, text)
        except Error as fault:
            if not fault.try_ and fault.code != "syntax":
                silent.append(text)
    assert len(silent) <= len(REFUSED) / 20, silent
