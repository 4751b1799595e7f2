"""From the queries of a VALIDATE to cases: what is asked of private rows, and the intervals that synthetic answers set."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.errors import Error, OptionError, SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.groups import check_cells, not_listed
from dpsql.planning.options import Options
from dpsql.planning.public import check_exact
from dpsql.planning.public_counts import exact_answers
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import Question
from dpsql.sql.binding.bind import bind
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import CheckedQuery, Query
from dpsql.trusted.plan.expr.nodes import Ref, Value
from dpsql.trusted.plan.node import Node, Stability
from dpsql.validation.deciders.decider import Check
from dpsql.validation.findings import UNTESTED, Finding
from dpsql.validation.forms import CheckedAggregate, bounded, column_of, with_clamped_column
from dpsql.validation.ranges import Range, around
from dpsql.validation.synthetic import Substitution

MOST_CELLS = 100_000


class PreparedCheck(Frozen):
    """A check that can be decided, and the finding that it will become."""

    case: Check
    finding: Finding
    query: Query


class Side(Frozen):
    """The catalog and options against which queries are bound on the private side."""

    catalog: Catalog
    public: PublicTables
    scratch: Scratch
    options: Options


def prepared(checks: Sequence[CheckedQuery], side: Side, stand: Callable[[Sequence[Query]], Substitution],
             parameters: Sequence[Mapping[str, ParameterValue]]) -> list[PreparedCheck]:
    """The checks, ready to be decided. `stand` replaces private tables by synthetic ones, after the queries are known to be
    right.

    Raises a located Error if a query, its aggregate or its tolerance is wrong; nothing is spent then.
    """
    bound = []
    for check, given in zip(checks, parameters, strict=True):
        with located(check.query):
            bound.append(_bound(check.query, side, given))
    here = stand([check.query for check in checks])
    asked = []
    for check, given, (question, _, _) in zip(checks, parameters, bound, strict=True):
        with located(check.query):
            check_cells(question, MOST_CELLS)
            asked.append(_on_synthetic(check.query, side, here, given))
    found = []
    for check, (question, view, known), (shown, aggregates) in zip(checks, bound, exact_answers(asked, here.public), strict=True):
        with located(check.query):
            (values,) = aggregates.values()
            found.append(_prepared(check, side, question, view, known, dict(zip(shown, values.values, strict=True))))
    return found


@contextlib.contextmanager
def located(query: Query) -> Iterator[None]:
    """A context that locates errors in the text of their query."""
    try:
        yield
    except Error as fault:
        if fault.span is None:
            fault.span = span_of(query.tree)
        raise fault.located(query.text) from None


def _bound(query: Query, side: Side, parameters: Mapping[str, ParameterValue]) -> tuple[Question, Node, Stability]:
    """The question, its limited view, and how an entity moves its rows."""
    question = bind(query, side.catalog, side.public, side.scratch, parameters)
    check_shape(question, query)
    view, known = limited_view(question, side.options, side.public, span_of(query.tree))
    if known.public:
        raise Unsupported("this query reads public tables only: there is nothing private to compare with", code="validate",
                          span=span_of(query.tree), try_="a SELECT over both tables, which is exact and free")
    if side.options.clip is not None and known.rows is not None:
        raise OptionError("clip is only for rows without a limit for each entity, and these have one", code="clip",
                          subject="clip", span=side.options.span.get("clip"), try_="max_rows, or a query without it")
    return question, view, known


def _prepared(check: CheckedQuery, side: Side, question: Question, view: Node, known: Stability,
              synthetic: Mapping[tuple[Value, ...], float]) -> PreparedCheck:
    cells = tuple(product(*(key.values for key in question.keys)))
    values = _values(synthetic, cells, question)
    assert check.width is not None
    ranges = tuple(around(value, check.width) for value in values)
    asked = CheckedAggregate(call=question.aggregates[0], view=view, keys=tuple(key.column for key in question.keys), cells=cells,
                             ranges=ranges, rows=known.rows, owners=known.owners, clip=side.options.clip)
    held = float(asked.clip) if asked.held and asked.clip is not None else None
    finding = replace(_finding(check.query, values, cells, ranges, held if asked.held else _unit(asked)), held=held,
                      even=_even(asked))
    return PreparedCheck(case=Check(asked=asked, rows=known.rows or 1), query=check.query, finding=finding)


def _unit(asked: CheckedAggregate) -> float | None:
    """The most that an entity moves the answer."""
    rows = asked.rows or 1
    if asked.call.aggregate.kind is Kind.TOTAL:
        grid = bounded(column_of(asked), asked.call)
        return float(grid.largest * grid.step * rows)
    return float(rows) if asked.call.aggregate.counts else None


def _even(asked: CheckedAggregate) -> tuple[bool, bool]:
    """See `Finding.even`: an answer can be lowered, and raised, by a whole unit with a row that comes."""
    if asked.held or asked.call.aggregate.kind not in (Kind.TOTAL, Kind.DISTINCT):
        return True, True
    if asked.call.aggregate.kind is Kind.DISTINCT:
        return asked.call.columns == asked.owners, True
    grid = bounded(column_of(asked), asked.call)
    return -grid.least >= grid.largest, grid.most >= grid.largest


def _finding(query: Query, values: Sequence[Fraction], cells: tuple[tuple[Value, ...], ...], ranges: Sequence[Range],
             unit: float | None) -> Finding:
    return Finding(query=" ".join(_written(query).split()), cells=cells, synthetic=tuple(map(float, values)),
                   decision=UNTESTED, decider="", low=tuple(float(part.low) for part in ranges),
                   high=tuple(float(part.high) for part in ranges), unit=unit)


def _written(query: Query) -> str:
    """The query as it was written, without brackets around it."""
    span, tree = span_of(query.tree), query.tree
    text = query.text[span.start : span.end] if span is not None else query.text
    while isinstance(tree, exp.Subquery):
        text, tree = text.strip().removeprefix("(").removesuffix(")"), tree.this
    return text


def check_shape(question: Question, query: Query) -> None:
    """One aggregate, with or without the declared keys that it is grouped by."""
    if question.scalars:
        raise Unsupported("a subquery whose value would have to be released first is not answered in VALIDATE", code="validate",
                          span=question.scalars[0].span, try_="the value itself, or a parameter")
    if question.together:
        raise Unsupported("grouping sets and aggregates over groups are not answered in VALIDATE", code="validate",
                          span=span_of(query.tree), try_="one query for each grouping set")
    aggregates = {call.id for call in question.aggregates}
    shown = [output.expr for output in question.outputs if isinstance(output.expr, Ref) and output.expr.column in aggregates]
    keys = {key.column for key in question.keys}
    others = [output.expr for output in question.outputs if not (isinstance(output.expr, Ref)
                                                                 and output.expr.column in aggregates | keys)]
    if len(question.aggregates) != 1 or len(shown) != 1 or others:
        raise Unsupported("a query of VALIDATE must have exactly one aggregate", code="validate",
                          span=(others[0].span if others else None) or span_of(query.tree),
                          try_="one query for each: (SELECT COUNT(*) ...), (SELECT AVG(x) ...)")
    if question.having is not None or question.limit is not None or question.offset:
        raise Unsupported("HAVING, LIMIT and OFFSET have no meaning in VALIDATE", code="validate", span=span_of(query.tree),
                          try_="a condition in WHERE")
    hidden = next((key for key in question.keys if key.domain is None), None)
    if hidden is not None:
        raise Unsupported(f"{not_listed(question, hidden)}, and only declared groups are compared",
                          code="validate", span=hidden.span, subject=hidden.name,
                          try_=f"values = [...] for {hidden.name} in the policy")


def _on_synthetic(query: Query, side: Side, stand: Substitution,
                  parameters: Mapping[str, ParameterValue]) -> tuple[Question, Node]:
    """The query on the synthetic table, and its rows; quantiles as the ones among the values, as they are checked."""
    try:
        question = bind(query, stand.catalog, stand.public, side.scratch, parameters)
    except SqlError as fault:
        if fault.code == "unknown-column":
            raise OptionError(f"the synthetic table has no column {fault.subject}", code="synthetic", span=fault.span,
                              subject=fault.subject, try_="a table that has it, or a query without it") from None
        raise
    calls = tuple(replace(call, discrete=True) if call.fraction is not None else call for call in question.aggregates)
    question = replace(question, aggregates=calls)
    check_exact(question)
    return question, with_clamped_column(question.view, calls[0])


def _values(synthetic: Mapping[tuple[Value, ...], float], cells: Sequence[tuple[Value, ...]],
            private: Question) -> list[Fraction]:
    """The exact answers in all cells."""
    call = private.aggregates[0]
    missing = Fraction(0) if call.aggregate.counts or call.aggregate.linear else None
    values = []
    for cell in cells:
        value = synthetic.get(cell)
        known = missing if value is None or not math.isfinite(value) else Fraction(float(value))
        if known is None:
            where = " in the group " + ", ".join(map(str, cell)) if cell else ""
            raise OptionError(f"the synthetic table has no rows for this query{where}, so its answer is NULL", code="synthetic",
                              span=call.span, try_="a query that matches some of its rows")
        values.append(known)
    return values
