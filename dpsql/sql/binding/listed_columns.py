"""The columns of the rows that a query returns, before these rows are grouped or counted."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.plan.expr.nodes import Value
from dpsql.plan.node import Field
from dpsql.sql.binding.bind import checked
from dpsql.sql.binding.binding_context import BindingContext, Names, PublicTables
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.binding.sources import bind_from
from dpsql.sql.text.statement import Query

ROWS = "the rows"  # the alias of the query, in statements over its rows


def over_rows(tree: exp.Expr, *items: exp.Expr) -> exp.Select:
    """SELECT DISTINCT <items> FROM (<query>) AS "the rows"."""
    rows = exp.Subquery(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier(ROWS, quoted=True)))
    return exp.Select(expressions=list(items), distinct=exp.Distinct(), from_=exp.From(this=rows))


def listed_columns(query: Query, catalog: Catalog, public: PublicTables, scratch: Scratch,
                   parameters: Mapping[str, Value]) -> list[tuple[str, Field]]:
    """The names and fields of the columns of a query's rows. Raises SqlError or Unsupported, located."""
    def listed(tree: exp.Expr, context: BindingContext) -> list[tuple[str, Field]]:
        return [(name, field) for _, name, field in bind_from(over_rows(tree), context, Names()).columns()]

    return checked(query, catalog, public, scratch, parameters, listed)
