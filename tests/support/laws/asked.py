"""Plans of statements, made as the engine makes them: bound, pruned, limited, split into parts."""

from __future__ import annotations

from collections.abc import Iterator

from support.laws.family import Family, catalog

from dpsql.backends.scratch import DuckScratch
from dpsql.mechanisms.mechanism import Occurrences
from dpsql.mechanisms.select.declared_values import shares_of
from dpsql.planning.distinct_parts import distinct_values
from dpsql.planning.frequency_limits import with_limits
from dpsql.planning.options import Options
from dpsql.questions.parts import Distincts, Modes, Quantiles, Sums
from dpsql.questions.question import Question
from dpsql.questions.rules.decompose import decompose
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.summands import Clipped, Count
from dpsql.types import Interval

SCRATCH = DuckScratch()


def question_of(text: str, entity: str, family: Family) -> Question:
    """Raises Unsupported or SqlError for what is refused."""
    query = parse(text)
    assert isinstance(query, Query)
    return bind(query, catalog(entity), family.kernel, SCRATCH, {})


def view_of(question: Question) -> Node:
    """The rows that are asked about, with declared limits enforced."""
    return limit_rows(prune_columns(question.view))


def frequent_view_of(question: Question, family: Family, *, rows: int = 2, frequency: int = 3) -> Node:
    """The rows that are asked about, with limits on the rows of each entity and of each value of a key that rows meet by."""
    options = Options(price=None, bound="frequency", max_rows=rows, max_frequency=frequency)
    return with_limits(question, options, family.kernel)[0]


def plans_of(question: Question, family: Family, view: Node | None = None) -> Iterator[Node]:
    """What may be measured for a question: each part over the view, and its sums clipped for each entity."""
    view = view if view is not None else view_of(question)
    known = stability(view, family.kernel)
    keys = tuple(key.column for key in question.keys)
    parts = decompose(question, owner=known.owner, bounds=_searched(question)).parts
    sums = tuple(part.summand for part in parts if isinstance(part, Sums))
    if sums:
        yield GroupedSums(input=view, keys=keys, summands=sums)
    if sums and known.owner is not None and known.owner not in keys:
        given = Contributions(input=view, owner=known.owner, keys=keys, summands=sums)
        clip = Clip(input=given, owner=known.owner, columns=given.totals, order=1 + len(keys) % 2, bound=7)
        yield GroupedSums(input=clip, keys=keys, summands=(Clipped(clipped=given.totals),))
    for part in parts:
        if isinstance(part, Quantiles):
            yield Ranks(input=view, keys=keys, column=part.column, grid=part.grid, when=part.when)
        if isinstance(part, Modes):
            yield GroupedSums(input=view, keys=(*keys, part.column), summands=(Count(when=part.when),))
        if isinstance(part, Distincts):
            columns = tuple(dict.fromkeys((*keys, part.column)))
            values = Distinct(input=Project(input=view, columns=tuple((name, name, view.field(name).ref) for name in columns)))
            yield GroupedSums(input=values, keys=keys, summands=(Count(column=part.column),))
            if known.owner is not None and not {part.column, known.owner} & set(keys) and part.column != known.owner:
                given = distinct_values(view, part, (known.owner, *keys))
                told = Occurrences(at=0, input=given, owner=known.owner, column=part.column, values=(), total=None)
                yield shares_of(told, keys, order=1 + len(keys) % 2)


def _searched(question: Question) -> dict[str, Interval]:
    return {column: Interval(0, 10) for call in question.aggregates for column in call.columns
            if question.view.env[column].type.numeric and not question.view.env[column].declared.finite}
