"""The columns of the rows that a query returns, before these rows are grouped or counted."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.frozen import Frozen
from dpsql.sql.binding.bind import checked
from dpsql.sql.binding.binding_context import BindingContext, Names, Origin, PublicTables, column_of
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.binding.sources import bind_from
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.statement import Query
from dpsql.trusted.declarations.tables import Column
from dpsql.trusted.plan.expr.facts import Facts

ROWS = "the rows"  # the alias of the query, in statements over its rows


class RowColumn(Frozen):
    """A column of a query's rows: its name, what is known of it, and, if it is a column of a table, its declaration, and the
    pattern of new texts that the policy gives for it; "" for none."""

    name: str
    facts: Facts
    declared: Column | None = None
    like: str = ""

    @property
    def bins(self) -> tuple[float, ...] | None:
        """The cut points of its bins, if the policy declares some."""
        return None if self.declared is None else self.declared.bins

    @property
    def sql_type(self) -> str:
        """Its type in the database, if it is a column of a table."""
        return "" if self.declared is None else self.declared.sql_type


def over_rows(tree: exp.Expr, *items: exp.Expr) -> exp.Select:
    """SELECT DISTINCT <items> FROM (<query>) AS "the rows"."""
    rows = exp.Subquery(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier(ROWS, quoted=True)))
    return exp.Select(expressions=list(items), distinct=exp.Distinct(), from_=exp.From(this=rows))


def listed_columns(query: Query, catalog: Catalog, public: PublicTables, scratch: Scratch,
                   parameters: Mapping[str, ParameterValue]) -> list[RowColumn]:
    """The columns of a query's rows. Raises SqlError or Unsupported, located."""
    def listed(tree: exp.Expr, context: BindingContext) -> list[RowColumn]:
        scope = bind_from(over_rows(tree), context, Names())
        return [RowColumn(name=name, facts=field.facts, declared=column_of(catalog, scope.origins.get(field.id)),
                          like=_like(catalog, scope.origins.get(field.id))) for _, name, field in scope.columns()]

    return checked(query, catalog, public, scratch, parameters, listed)


def _like(catalog: Catalog, origin: Origin | None) -> str:
    return "" if origin is None else catalog.patterns.get(origin.table, {}).get(origin.column, "")
