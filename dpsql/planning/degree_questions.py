"""Statements about the degrees of a graph: what each degree contributes, and how the number of entities with it is measured.

The outer query reads nothing private but degrees, which are numbers from 1 to a limit. So it is evaluated over these numbers,
each once, as over a public table; each of its aggregates is then a sum over degrees of the number of entities with that degree,
times the contribution of one of them (`degree_histogram.DegreeHistogram`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.errors import OptionError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.mechanism import DegreeSums
from dpsql.mechanisms.named_bounds import BOUNDS, BY_NAME
from dpsql.mechanisms.truncation.graph_degrees import LEVELS
from dpsql.planning.contribution_bound import ContributionBound, check_options
from dpsql.planning.declared_rows import declared_rows
from dpsql.planning.options import Options
from dpsql.questions.parts import Part, Sums
from dpsql.questions.question import Key, Question
from dpsql.questions.rules.recognise_degrees import DEGREE, Graph
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.cells import Cells, cell_of, sort_key
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.operators.arcs import MOST_DEGREE
from dpsql.trusted.plan.operators.summands import GridSum

WAYS = tuple(bound.name for bound in BOUNDS if bound.degrees)


class DegreeQuestion(Frozen):
    """A graph, and the rows of the statement's view for each degree up to a limit.

    given     the limit is given, by the statement or by the policy
    declared  it is at least the limit declared in the policy
    """

    graph: Graph
    most: int
    given: bool
    declared: bool
    rows: Mapping[int, Mapping[str, Value]]

    def at_most(self, most: int) -> DegreeQuestion:
        return replace(self, most=most, rows={degree: row for degree, row in self.rows.items() if degree <= most})

    def cells(self, keys: Sequence[Key]) -> Cells:
        """The groups into which these degrees fall."""
        found = {cell_of(cell): cell for cell in (tuple(row[key.column] for key in keys) for row in self.rows.values())}
        return tuple(sorted(found.values(), key=sort_key)) if keys else ((),)

    def asked(self, question: Question) -> Question:
        """The question with the values of its keys."""
        keys = []
        for key in question.keys:
            values = {row[key.column] for row in self.rows.values()}
            keys.append(replace(key, nullable=None in values, domain=Domain(tuple(sorted(
                (value for value in values if value is not None), key=lambda value: sort_key((value,)))))))
        return replace(question, view=self.graph.view, keys=tuple(keys))

    def task(self, at: int, part: Part, keys: Sequence[str], bound: str) -> DegreeSums:
        """A count or a sum by group, as a sum over degrees."""
        assert isinstance(part, Sums)
        table = []
        for degree in range(1, self.most + 1):
            row = self.rows.get(degree)
            cell = None if row is None else tuple(row[key] for key in keys)
            table.append((cell, 0.0 if row is None else _adds(part, row)))
        return DegreeSums(at=at, arcs=self.graph.arcs, bound=bound, most=self.most, table=tuple(table))


def _adds(part: Sums, row: Mapping[str, Value]) -> float:
    """What one row contributes, in units of the part."""
    summand = part.summand
    value: Value = row[summand.columns[0]] if summand.columns else 1
    if value is None or (summand.when is not None and row[summand.when] is not True):
        return 0.0
    return float(value) / float(summand.grid.step) if isinstance(summand, GridSum) else 1.0  # type: ignore[arg-type]


def degree_question(question: Question, graph: Graph, options: Options, public: PublicTables) -> DegreeQuestion:
    """The contribution of each degree to a question. Raises OptionError or Unsupported, located, if it cannot be determined."""
    if options.max_rows is not None and options.max_rows > MOST_DEGREE:
        raise OptionError(f"degrees can be shown up to {MOST_DEGREE}", code="bound", subject="max_rows",
                          span=options.span.get("max_rows"), try_=f"max_rows = {MOST_DEGREE}")
    awaited = next(iter(has_placeholders(graph.view).values()), None)
    if awaited is not None:
        raise Unsupported("degrees cannot be compared with a value that is still to be released", code="degrees",
                          span=awaited.span, try_="a constant in place of the subquery, or the comparison in HAVING")
    declared = declared_rows(graph.arcs.input)
    most = options.max_rows or min(declared or LEVELS[-1], MOST_DEGREE)
    bounded = graph.at_most(most)
    over = bounded.over(most)
    names = [field.id for field in over.fields]
    rows = {int(row[names.index(DEGREE)]): dict(zip(names, row, strict=True)) for row in public.public_rows(over)}  # type: ignore[arg-type]
    if question.keys and not rows:
        raise Unsupported(f"no degree from 1 to {most} meets these conditions", code="no-groups", span=question.keys[0].span)
    return DegreeQuestion(graph=bounded, most=most, rows=rows, given=options.max_rows is not None or declared is not None,
                          declared=declared is not None and most >= declared)


def way_of(options: Options) -> ContributionBound:
    """The bound that limits degrees."""
    because = "each row belongs to two entities and is counted by one of them: these are the degrees of a graph"
    asked = options.bound != "auto"
    found = ContributionBound(bound=BY_NAME[options.bound if asked else WAYS[0]], because=f"asked for; {because}" if asked
                              else because)
    check_options(found.bound, options)
    return found
