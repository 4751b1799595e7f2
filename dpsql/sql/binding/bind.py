"""Binds a statement: text to a question, with the scalar subqueries that are released first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.errors import Error, SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.questions.question import Question
from dpsql.sql.binding.binding_context import BindingContext, GuardedPublicTables, Names, PublicTables
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.binding.outermost import Outermost
from dpsql.sql.binding.over_released import bind_over_released, released_inside
from dpsql.sql.binding.relations import QueryBinder
from dpsql.sql.binding.sources import bind_from
from dpsql.sql.text import border
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import placed_in, span_of
from dpsql.sql.text.statement import Query
from dpsql.sql.text.trees import refuse_windows

Made = TypeVar("Made")


def bind(query: Query, catalog: Catalog, public: PublicTables, scratch: Scratch,
         parameters: Mapping[str, ParameterValue]) -> Question:
    """Resolve names and types, reading public tables only. Raises SqlError or Unsupported, located."""
    return checked(query, catalog, public, scratch, parameters, _bound)


def checked(query: Query, catalog: Catalog, public: PublicTables, scratch: Scratch, parameters: Mapping[str, ParameterValue],
            act: Callable[[exp.Expr, BindingContext], Made]) -> Made:
    """The result of `act` on the tree of a query, after checking that it has only accepted forms. Raises SqlError or Unsupported,
    located."""
    try:
        border.check(query.tree, query.text)
        return act(query.tree, BindingContext(catalog=catalog, public=GuardedPublicTables(public), scratch=scratch,
                                              parameters=parameters, queries=QueryBinder(), text=query.text))
    except Error as fault:
        placed_in(fault, query.tree, query.text)
        raise
    except RecursionError:
        pass
    raise SqlError("the statement is nested too deeply", code="too-deep", span=span_of(query.tree)).located(query.text)


def _bound(tree: exp.Expr, context: BindingContext) -> Question:
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        raise Unsupported("the outermost query must be one SELECT", code="outer-union", span=span_of(tree),
                          try_="a statement for each part; or SELECT (SELECT COUNT(*) FROM a), (SELECT COUNT(*) FROM b)")
    names = Names().with_(tree.args.get("with_"))
    refuse_windows(tree)
    source = tree.args.get("from_")
    plain = source is None or (isinstance(source.this, exp.Table) and not names.ctes)
    released = None if plain else released_inside(tree, names)
    if released is not None:
        inner, seen, aliases = released
        question = bind_over_released(tree, inner, aliases, context, seen)
    else:
        question, _ = Outermost(tree, context, names, bind_from(tree, context, names)).bind()
    scalars = tuple(replace(scalar, question=read_in_periods(scalar.question, context))
                    for scalar in context.scalars.needed(question))
    question = read_in_periods(question, context)
    return replace(question, scalars=scalars) if scalars else question


def read_in_periods(question: Question, context: BindingContext) -> Question:
    """The question over the periods of growing tables that its conditions leave."""
    if not context.catalog.periods:
        return question
    from dpsql.sql.binding.periods_read import in_periods  # loaded only where tables grow

    view = in_periods(question.view, context.catalog, context.scratch)
    return question if view is question.view else replace(question, view=view)
