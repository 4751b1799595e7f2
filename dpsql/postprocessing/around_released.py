"""SQL over the rows that other questions of the statement release: windows, unions, joins, aggregates of noisy numbers.

The released parts become tables (`released_parts`). The names and types of their columns are known before their rows, so every
mistake in the SQL around them is reported before anything is released; and as all expressions are total, as everywhere, none
fails afterwards. Where binding needs a value from these rows (that of a subquery), the SQL is bound again once
they are released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.postprocessing.around_binder import MANY, AroundBinder, AroundRows, ordered
from dpsql.postprocessing.released_parts import NotAround, ReleasedPart, cut
from dpsql.questions.question import Question, Scalar
from dpsql.questions.rebuilding import rebuild
from dpsql.sql.binding.bind import read_in_periods
from dpsql.sql.binding.binding_context import BindingContext, GuardedPublicTables, Names, PublicTables, distinct_names
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.binding.outermost import Outermost
from dpsql.sql.binding.relations import QueryBinder
from dpsql.sql.binding.sources import bind_from
from dpsql.sql.text import border
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import placed, placed_in, span_of
from dpsql.sql.text.statement import Query
from dpsql.sql.text.trees import inner_of, is_star, item_name, refuse_windows
from dpsql.trusted.declarations.tables import Column, Domain, Table
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.functions import SAFE_INTEGERS
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Placeholder, Ref, columns
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.statistics import Statistics
from dpsql.types import ANY_NUMBER, Type


class ReleasedTable(Frozen):
    """The rows of a released part as a table: its question, and the names of its columns."""

    table: Table
    question: Question
    labels: tuple[str, ...]


class AroundReleased(Frozen):
    """A statement that is SQL over released rows.

    scalars   its released parts, and the subqueries that these wait for, in the order in which they are released
    tables    the parts, by the identifier of their scalar
    rows      the SQL over them, as far as it can be bound before they are released
    awaits    whether it must be bound again then
    """

    scalars: tuple[Scalar, ...]
    tables: Mapping[str, ReleasedTable]
    rows: AroundRows
    awaits: bool
    _binding: Binding

    def over(self, tables: PublicTables) -> AroundRows:
        """The SQL, bound again after the rows are released."""
        return self._binding.bound(tables) if self.awaits else self.rows

    @property
    def measured(self) -> dict[str, frozenset[str]]:
        """The columns of each released table that depend on more than its keys."""
        return {name: frozenset(label for label, output in zip(table.labels, table.question.outputs, strict=True)
                                if columns(output.expr) - {key.column for key in table.question.keys})
                for name, table in self.tables.items()}

    @property
    def identity(self) -> tuple[object, ...]:
        """A value that differs for different SQL over the same parts."""
        text = repr(self._binding.tree) if self.awaits else ""
        shown = tuple(column.id for _, column in self.rows.shown)
        return (rebuild(self.rows.node, self._without_names), shown, self.rows.ordering, self.rows.limit, self.rows.offset, text,
                tuple(sorted(self._binding.parameters.items())) if self.awaits else ())

    def _without_names(self, node: Node) -> Node:
        """The scan of a released table, without the names of its columns: the questions determine these."""
        known = self.tables.get(node.table.name) if isinstance(node, Scan) else None
        if known is None or not isinstance(node, Scan):
            return node
        return Scan(table=Table(name=node.table.name, public=True, columns={}), columns=tuple(
            (column, str(known.labels.index(name))) for column, name in node.columns))


class Binding(Frozen):
    """The SQL around the released parts, with all that is needed to bind it."""

    tree: exp.Expr
    catalog: Catalog
    scratch: Scratch
    parameters: Mapping[str, ParameterValue]
    text: str

    def bound(self, public: PublicTables) -> AroundRows:
        context = BindingContext(catalog=self.catalog, public=public, scratch=self.scratch, parameters=self.parameters,
                                 queries=AroundBinder(), text=self.text)
        found = ordered(self.tree.copy(), context, Names())
        if context.scalars.found or not stability(found.node, public).public:
            raise NotAround
        return found


def bind_around(query: Query, catalog: Catalog, public: PublicTables, scratch: Scratch,
                parameters: Mapping[str, ParameterValue]) -> AroundReleased | None:
    """A statement as SQL over released parts; None if it does not have that form. Raises SqlError or Unsupported, located."""
    try:
        border.check(query.tree, query.text)
        context = BindingContext(catalog=catalog, public=GuardedPublicTables(public), scratch=scratch, parameters=parameters,
                                 queries=QueryBinder(), text=query.text)
        tree, parts = cut(query.tree, context)
        return _with_parts(tree, parts, context, public)
    except NotAround:
        return None
    except Error as fault:
        placed_in(fault, query.tree, query.text)
        raise
    except RecursionError:
        return None


def _with_parts(tree: exp.Expr, parts: Sequence[ReleasedPart], context: BindingContext, public: PublicTables) -> AroundReleased:
    tables: dict[str, ReleasedTable] = {}
    first: dict[str, Scalar] = {}
    own: list[Scalar] = []
    for part in parts:
        if not part.select.expressions:  # no item has an aggregate that could be released
            raise NotAround
        refuse_windows(part.select)
        below = Outermost(part.select, context, part.names, bind_from(part.select, context, part.names))
        question, _ = below.bind()
        question = read_in_periods(question, context)
        # the dependence between the numbers of a workload is unknown, and declared groups alone tell nothing about the rows
        if question.together or not (question.aggregates or any(key.domain is None for key in question.keys)):
            raise NotAround
        tables[part.table] = _table(part.table, question, below.known)
        first |= {scalar.awaited.id: replace(scalar, question=read_in_periods(scalar.question, context))
                  for scalar in context.scalars.needed(question)}
        span = span_of(part.select)
        own.append(Scalar(awaited=Placeholder(id=part.table, type=Type.BIGINT, physical=SAFE_INTEGERS, declared=ANY_NUMBER,
                                              text=context.written(span), span=span),
                          question=question, span=span))
    catalog = replace(context.catalog, tables={**context.catalog.tables, **{name: made.table for name, made in tables.items()}})
    binding = Binding(tree=_named(tree, context), catalog=catalog, scratch=context.scratch, parameters=context.parameters,
                      text=context.text)
    unreleased = Unreleased(public, {name: not made.question.keys for name, made in tables.items()})
    rows = binding.bound(unreleased)
    return AroundReleased(scalars=(*first.values(), *own), tables=tables, rows=rows, awaits=bool(unreleased.asked),
                          _binding=binding)


def _table(name: str, question: Question, known: Mapping[str, Facts]) -> ReleasedTable:
    labels = distinct_names([output.name for output in question.outputs])
    columns = {label: _column(label, output.expr, known) for label, output in zip(labels, question.outputs, strict=True)}
    shown = {output.expr.column: label for label, output in zip(labels, question.outputs, strict=True)
             if isinstance(output.expr, Ref)}
    keys = [key.column for key in question.keys]
    unique = (frozenset(shown[key] for key in keys),) if question.sets is None and all(key in shown for key in keys) else ()
    return ReleasedTable(table=Table(name=name, public=True, columns=columns, unique=unique), question=question,
                         labels=tuple(labels))


def _column(label: str, expr: Expr, env: Mapping[str, Facts]) -> Column:
    known = facts(expr, env)
    physical = known.physical if known.physical.inside(SAFE_INTEGERS) or known.type is not Type.BIGINT else SAFE_INTEGERS
    none = isinstance(expr, Literal) and expr.value is None
    return Column(name=label, type=known.type, sql_type=known.type.value, physical=physical, domain=Domain(()) if none else None)


def _named(tree: exp.Expr, context: BindingContext) -> exp.Expr:
    """The statement with a name for each unnamed item of its list: its text."""
    select = tree
    while isinstance(select, exp.Subquery | exp.SetOperation):
        select = select.this
    if isinstance(select, exp.Select):
        items = []
        for item in select.expressions:
            span = span_of(item)
            name = "" if is_star(inner_of(item)) or item_name(item) else context.written(span)[:63] or "column"
            items.append(placed(exp.Alias(this=item, alias=exp.to_identifier(name, quoted=True)), span) if name else item)
        select.set("expressions", items)
    return tree


class Unreleased:
    """Public tables, and released tables whose rows are not known yet; records whether binding needed such rows."""

    def __init__(self, public: PublicTables, single: Mapping[str, bool]) -> None:
        """`single` gives for each released table whether it has exactly one row."""
        self._public, self._single = public, single
        self.asked = 0

    def _waits(self, relation: Node) -> list[str]:
        return [node.table.name for node in bottom_up(relation) if isinstance(node, Scan) and node.table.name in self._single]

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        names = self._waits(relation)
        if not names:
            return self._public.fanout(relation, columns)
        self.asked += 1
        return 1 if all(self._single[name] for name in names) else MANY

    def public_rows(self, relation: Node) -> list[tuple[Any, ...]]:
        if not self._waits(relation):
            return self._public.public_rows(relation)
        self.asked += 1
        if not isinstance(relation, GroupBy | Statistics):
            return []
        return [tuple(0 if part.facts.type is Type.BIGINT else None for part in relation.fields)]
