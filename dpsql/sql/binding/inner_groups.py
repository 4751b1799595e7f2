"""GROUP BY inside a query: exact aggregates over the rows of each group, of one entity or of many."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.frozen import replace
from dpsql.questions.chosen_grids import quantizer
from dpsql.sql.binding.aggregates import Aggregated
from dpsql.sql.binding.binding_context import Origin, SelectHost
from dpsql.sql.binding.grouping import Grouping
from dpsql.sql.binding.owners import parent_keys
from dpsql.sql.text.places import span_of
from dpsql.sql.text.trees import item_name
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Ref
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import FOLDS, Fold, GroupBy
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.types import Type


def bind_groups(select: exp.Expr, host: SelectHost) -> tuple[list[tuple[str, Expr]], Node, Mapping[str, Origin]]:
    """The SELECT list of a grouped query, over its groups. Keys keep the origin of their column."""
    grouping = Grouping(host, host.context.fresh, exact=True)
    grouping.read_keys(select)
    exprs = grouping.read_items(select)
    condition = grouping.read_having(select)
    node: Node = replace(grouped(grouping, host), span=span_of(select.args.get("group") or select))
    if condition is not None:
        node = Filter(input=node, condition=condition)
    origins = {key.id: host.scope.origins[key.expr.column] for key in grouping.keys
               if isinstance(key.expr, Ref) and key.expr.column in host.scope.origins}
    return [(item_name(item), expr) for item, expr in zip(select.expressions, exprs, strict=True)], node, origins


def grouped(grouping: Grouping, host: SelectHost) -> GroupBy:
    """Groups by the keys and, if these determine the entity, also by the owner."""
    context, carried = host.context, [(key.id, key.name or "key", key.expr) for key in grouping.keys]
    folds = [_fold(found, carried, host) for found in grouping.aggregates]
    owners, keys = context.owners(host.node), [key.id for key in grouping.keys]
    named = {key.expr.column for key in grouping.keys if isinstance(key.expr, Ref)}
    apart = all(names_entity(named, host, owner, owners) for owner in owners)
    for owner in owners if apart else ():
        if owner not in named:
            carried.append((context.fresh.column(), host.node.names[owner], Ref(column=owner, type=host.node.env[owner].type)))
            keys.append(carried[-1][0])
    if not carried:
        carried.append((context.fresh.column(), "one", Literal(value=1, type=Type.BIGINT)))
    below = Project(input=host.node, columns=tuple(carried))
    most = context.stability(below).rows if owners and apart else below.max_frequency(keys)
    return GroupBy(input=below, keys=tuple(keys), folds=tuple(folds), most_rows=most or None)


def names_entity(refs: Collection[str], host: SelectHost, owner: str, owners: tuple[str, ...]) -> bool:
    """Whether columns determine the entity: they include the owner itself or, for a single owner, another copy of its name, a key
    of a private table, or a foreign key to one."""
    if owner in refs:
        return True
    if len(owners) > 1:
        return False
    context, origins = host.context, host.scope.origins
    readings: dict[tuple[int, str], set[str]] = {}
    for column in refs:
        origin = origins.get(column)
        if origin is None or host.node.env[column].nullable:
            continue
        if context.names_owner(origin):
            return True
        readings.setdefault((origin.scan, origin.table), set()).add(origin.column)
    for (_, name), found in readings.items():
        table = context.catalog.table(name)
        if table is None or table.public:
            continue
        if any(unique <= found for unique in table.unique) or any(
                set(key.columns) <= found for key, _ in parent_keys(table, context.catalog)):
            return True
    return False


def _fold(found: Aggregated, carried: list[tuple[str, str, Expr]], host: SelectHost) -> Fold:
    """One aggregate of a subquery; its argument becomes a column of the relation below."""
    argument, grid = exact_argument(found, host.env)
    if argument is None:
        return Fold(id=found.id, name=found.function, function="count")
    column = next((id_ for id_, _, expr in carried if expr == argument), None)
    if column is None:
        column = host.context.fresh.column()
        carried.append((column, "argument", argument))
    return Fold(id=found.id, name=found.function, function=found.function, column=column, grid=grid)


def exact_argument(found: Aggregated, env: Mapping[str, Facts]) -> tuple[Expr | None, Quantizer | None]:
    """The argument of an exact aggregate, NULL if its FILTER is not true; and the grid to which its values are rounded."""
    if found.function not in FOLDS:
        raise Unsupported(f"{found.function} inside a query is not answered", code="inner-aggregate", span=found.span,
                          try_="COUNT, SUM, AVG, MIN, MAX or MEDIAN inside, and this statistic outside")
    argument = found.args[0] if found.args else None
    if found.when is not None:
        value = argument if argument is not None else Literal(value=1, type=Type.BIGINT)
        argument = Case(branches=((found.when, value),), otherwise=Literal(value=None, type=value.type), type=value.type)
    if argument is None:
        return None, None
    known = facts(argument, env)
    if found.function not in ("sum", "avg") or known.type is not Type.DOUBLE:
        return argument, None
    grid = quantizer(known, from_low=False)
    if grid is None:
        raise Unsupported(
            f"the values that {found.function.upper()} adds up have no declared bounds", code="no-bounds", span=found.span,
            try_="bounds = [low, high] for the column in the policy, or LEAST(GREATEST(x, 0), 1000)")
    return argument, grid
