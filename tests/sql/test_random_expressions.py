"""Random expressions, well typed: the guarded text that is printed gives what DuckDB gives for the text as it was written.

Left out are the documented differences: numbers with a fraction are halves and quarters, so that it does not matter whether they
are DECIMAL or DOUBLE, and what DuckDB itself refuses or cannot compute (an overflow of INTEGER, say) is not compared.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from support import worlds
from support.binding import Bench, bench, printed, table

from dpsql.errors import Error

SOURCE = "people AS p LEFT JOIN visits AS v USING (person_id)"
LEAVES = {
    "whole": ["age", "year", "person_id", "0", "1", "7", "-3", "2020", "NULL"],
    "real": ["weight", "income", "0.5", "2.25", "-1.75", "100.0"],
    "text": ["sex", "nickname", "note", "clinic", "''", "'a'", "'f'", "'x''y'", "'%o_'", "NULL"],
    "truth": ["active", "TRUE", "FALSE", "NULL"],
    "day": ["born", "DATE '2000-02-29'", "DATE '1969-12-31'"],
    "moment": ["seen", "TIMESTAMP '2019-12-31 23:59:59'"],
}
# Each form fills its holes with expressions of the kinds in braces.
FORMS = {
    "whole": [
        "({whole} + {whole})", "({whole} - {whole})", "({whole} * {whole})", "({whole} // {whole})", "({whole} % {whole})",
        "(-{whole})", "abs({whole})", "length({text})", "strpos({text}, 'o')", "year({day})", "month({day})",
        "day({moment})", "extract(dow FROM {day})", "hour({moment})", "isodow({moment})", "quarter({day})",
        "week({moment})", "sign({real})", "date_diff('day', {day}, {day})", "date_diff('hour', {moment}, {moment})",
        "({day} - {day})", "CAST({truth} AS INTEGER)", "CASE WHEN {truth} THEN {whole} ELSE {whole} END",
        "coalesce({whole}, {whole})", "least({whole}, {whole})", "greatest({whole}, {whole}, 5)",
        "nullif({whole}, {whole})", "if({truth}, {whole}, {whole})", "CAST(round({real} % 1000) AS BIGINT)",
    ],
    "real": [
        "({real} + {real})", "({real} - {whole})", "({real} * {real})", "({whole} + {real})", "(-{real})", "abs({real})",
        "floor({real})", "ceil({real})", "trunc({real})", "round({real})", "sqrt(abs({real}))", "cbrt({real})",
        "least({real}, {real})", "greatest({whole}, {real})", "coalesce({real}, {whole})",
        "CASE WHEN {truth} THEN {real} ELSE {whole} END", "atan({real})", "CAST({whole} AS DOUBLE)", "radians({real})",
        "pow({real}, 2)", "exp(-abs({whole}))", "({real} / 4)", "({whole} / 2)",
    ],
    "text": [
        "({text} || {text})", "({text} || {whole})", "concat({text}, {text})", "lower({text})", "upper({text})",
        "reverse({text})", "trim({text})", "left({text}, 1)", "right({text}, 2)", "substring({text}, 2, 1)",
        "coalesce({text}, {text})", "CASE WHEN {truth} THEN {text} END",
        "CASE {whole} WHEN {whole} THEN {text} ELSE {text} END", "CAST({whole} AS VARCHAR)", "CAST({day} AS VARCHAR)",
        "greatest({text}, {text})", "nullif({text}, {text})",
    ],
    "truth": [
        "({whole} = {whole})", "({whole} < {real})", "({real} >= {real})", "({text} <> {text})", "({text} < {text})",
        "({day} > {day})", "({day} <= {moment})", "({moment} < {moment})", "({truth} AND {truth})", "({truth} OR {truth})",
        "(NOT {truth})", "({whole} IS NULL)", "({text} IS NOT NULL)", "({truth} IS TRUE)", "({truth} IS NOT FALSE)",
        "({text} IS DISTINCT FROM {text})", "({real} IS NOT DISTINCT FROM {whole})",
        "({whole} BETWEEN {whole} AND {whole})", "({day} NOT BETWEEN {day} AND {day})", "({text} IN ('a', 'f', 'x'))",
        "({whole} NOT IN (1, 7, NULL))", "({text} LIKE '%o%')", "({text} NOT ILIKE 'A_')", "contains({text}, 'a')",
        "starts_with({text}, 'b')", "regexp_matches({text}, '[aeiou]')", "isnan({real})", "isfinite({real})",
        "({truth} = {truth})", "CASE WHEN {truth} THEN {truth} ELSE {truth} END", "coalesce({truth}, {truth})",
    ],
    "day": [
        "({day} + 7)", "({day} - 30)", "coalesce({day}, {day})", "greatest({day}, {day})",
        "CASE WHEN {truth} THEN {day} ELSE {day} END", "CAST({moment} AS DATE)",
    ],
    "moment": [
        "({day} + INTERVAL 3 MONTH)", "({moment} - INTERVAL 2 WEEK)", "date_trunc('month', {moment})",
        "date_trunc('year', {day})", "CAST({day} AS TIMESTAMP)", "least({moment}, {moment})", "coalesce({moment}, {day})",
    ],
}


def expression(draw: random.Random, kind: str, depth: int) -> str:
    if depth <= 0 or draw.random() < 0.15:
        return draw.choice(LEAVES[kind])
    form = draw.choice(FORMS[kind])
    pieces, rest = [], form
    while "{" in rest:
        before, _, rest = rest.partition("{")
        wanted, _, rest = rest.partition("}")
        pieces += [before, expression(draw, wanted, depth - 1)]
    return "".join([*pieces, rest])


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench(worlds.world(11, people=25)) as made:
        yield made


@pytest.mark.parametrize("kind", FORMS)
def test_random_expressions_mean_what_duckdb_says(a_bench: Bench, kind: str, effort: float) -> None:
    draw, outcomes = random.Random(f"{kind} 1"), Counter[str]()
    for _ in range(int(150 * effort)):
        text = expression(draw, kind, draw.randint(1, 4))
        outcomes[outcome(a_bench, text)] += 1
    assert outcomes["equal"] >= sum(outcomes.values()) * 0.6, outcomes


def outcome(a_bench: Bench, text: str) -> str:
    query = f"SELECT {text} AS x FROM {SOURCE}"
    try:
        expected = a_bench.plain.execute(query).fetchall()
    except duckdb.Error:
        expected = None
    try:
        node, (column,), _ = a_bench.relation(query)
    except Error as fault:
        fault.located(query)
        assert fault.span is not None and fault.reason, text
        return "refused"
    # This may not raise, whatever the rows hold.
    ours = a_bench.plain.execute(f'SELECT t."{column}" FROM ({printed(node)}) AS t').fetchall()
    if expected is None:
        return "not in DuckDB"
    assert table(ours) == table(expected), text
    return "equal"
