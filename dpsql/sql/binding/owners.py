"""Which equalities imply that two rows belong to one entity.

The stability of a join or lookup uses an equality of owners that is part of the executed condition. Where the text implies it,
through a key that names the entity or a foreign key, it is added here. A mistake here could change the meaning of a query, but
not its privacy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product

from dpsql.catalog.model import Catalog
from dpsql.frozen import replace
from dpsql.sql.binding.binding_context import BindingContext, Origin, owner_column
from dpsql.trusted.declarations.tables import ForeignKey, Table
from dpsql.trusted.plan.expr.nodes import Call, Ref, all_of
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.types import Type


def say_owners(join: Join, origins: Mapping[str, Origin], context: BindingContext) -> Join:
    """The join, with the equality of the owners added to its condition if the other equalities imply it. A full join also gets
    a column with the owner from the side that has a row.
    """
    owners = context.owners(join.left), context.owners(join.right)
    pairs = [(origins[a], origins[b]) for a, b in join.equated if a in origins and b in origins]
    if len(owners[0]) == len(owners[1]) == 1 and same_owner(pairs, context):
        join = _equated(join, owners[0][0], owners[1][0])
    elif not join.keep_left and not join.keep_right:
        for ours, theirs in _same_owners(join, pairs, origins, context):
            join = _equated(join, ours, theirs)
    if not (join.keep_left and join.keep_right):
        return join
    known = {(made.left, made.right) for made in join.merged}
    made = [Merged(id=context.fresh.column(), name=join.left.names[a], left=a, right=b) for a, b in dict.fromkeys(join.equated)
            if a in owners[0] and b in owners[1] and (a, b) not in known]
    return replace(join, merged=(*join.merged, *made))


def _equated(join: Join, ours: str, theirs: str) -> Join:
    kinds = join.left.env[ours].type, join.right.env[theirs].type
    if (ours, theirs) in join.equated or kinds[0] is not kinds[1]:
        return join
    equal = Call(function="=", type=Type.BOOLEAN, args=(Ref(column=ours, type=kinds[0]), Ref(column=theirs, type=kinds[1])))
    condition = all_of([join.condition, equal])
    return join if condition is None else replace(join, condition=condition)


def _same_owners(join: Join, pairs: Sequence[tuple[Origin, Origin]], origins: Mapping[str, Origin],
                 context: BindingContext) -> Iterator[tuple[str, str]]:
    """The pairs of a left and a right owner that are the same wherever these columns agree, for rows with several owners."""
    places: dict[Origin, set[str]] = {}
    for side in (join.left, join.right):
        for column in set(side.env) & set(origins):
            places.setdefault(origins[column], set()).update(_equal_to(column, side) & set(context.owners(side)))
    readings = dict.fromkeys((a.scan, a.table, b.scan, b.table) for a, b in pairs)
    for left, first, right, second in readings:
        linked = [{origin.column: i for i, pair in enumerate(pairs) for origin in pair if origin.scan == scan}
                  for scan in (left, right)]
        ways = [_named_by(context.catalog.table(name), columns) for name, columns in zip((first, second), linked, strict=True)]
        for here, ours in ways[0].items():
            for there, theirs in ways[1].items():
                if ours & theirs:
                    found = (Origin(scan=left, table=first, column=here), Origin(scan=right, table=second, column=there))
                    yield from product(*(sorted(places.get(origin, ())) for origin in found))


def _equal_to(column: str, node: Node) -> set[str]:
    """The columns that the inner joins below make equal to this one."""
    links: list[tuple[str, str]] = []
    below: list[Node] = [node]
    while below:
        part = below.pop()
        if isinstance(part, Join) and not part.keep_left and not part.keep_right:
            links += part.equated
        below += part.inputs if isinstance(part, Join | Filter) else ()
    found, reached = set[str](), {column}
    while reached - found:
        found |= reached
        reached = found | {b for pair in links for a, b in (pair, pair[::-1]) if a in found}
    return found


def _named_by(table: Table | None, linked: Mapping[str, int]) -> dict[str, set[Hashable]]:
    """For each owner of a table, by the name of its column: which of the paired columns determine it, by their numbers. That is
    the owner itself, a key of the row, or a foreign key to the row through which the owner is found."""
    found: dict[str, set[Hashable]] = {}
    for i, way in enumerate(table.owners if table is not None else ()):
        assert table is not None
        names = found.setdefault(owner_column(table, i), set())
        if not way.steps and way.column in linked:
            names.add((way.kind, linked[way.column]))
        names |= {(table.name, frozenset((column, linked[column]) for column in key), way)
                  for key in table.unique if key <= set(linked)}
        for step in way.steps[:1]:
            if set(step.columns) <= set(linked):
                key = frozenset((there, linked[here]) for here, there in zip(step.columns, step.references, strict=True))
                names.add((step.table, key, replace(way, steps=way.steps[1:])))
    return found


def same_owner(pairs: Sequence[tuple[Origin, Origin]], context: BindingContext) -> bool:
    """Whether rows that agree on these pairs of columns belong to one entity.

    They do if both columns name the entity of their row, if the pairs are a foreign key from child to parent and the parent
    determines the entity, or if they are foreign keys of both rows to the same parent.
    """
    if any(context.names_owner(a) and context.names_owner(b) and _kind(a, context) == _kind(b, context) for a, b in pairs):
        return True
    return any(_parent_of(left, context.catalog) & _parent_of(right, context.catalog) for left, right in _readings(pairs))


def _kind(origin: Origin, context: BindingContext) -> int | None:
    table = context.catalog.table(origin.table)
    return table.owner.kind if table is not None and table.owner is not None else None


def parent_keys(table: Table, catalog: Catalog) -> Iterator[tuple[ForeignKey, Table]]:
    """The foreign keys of a table whose parent has one owner, and which identify a row of the parent."""
    for key in table.foreign_keys:
        target = catalog.table(key.table)
        if target is not None and target.owner is not None and any(unique <= set(key.references) for unique in target.unique):
            yield key, target


Rows = tuple[str, dict[str, int]]  # a table, and for some of its columns the number of the pair that each is in


def _readings(pairs: Sequence[tuple[Origin, Origin]]) -> Iterator[tuple[Rows, Rows]]:
    """The pairs of columns, grouped by the two readings of tables that they link."""
    linked: dict[tuple[int, int], tuple[Rows, Rows]] = {}
    for i, (a, b) in enumerate(pairs):
        left, right = linked.setdefault((a.scan, b.scan), ((a.table, {}), (b.table, {})))
        left[1][a.column] = i
        right[1][b.column] = i
    yield from linked.values()


def _parent_of(rows: Rows, catalog: Catalog) -> set[tuple[str, frozenset[tuple[str, int]]]]:
    """The rows that the paired columns identify: the row itself by a key, and its parents by foreign keys."""
    name, linked = rows
    table = catalog.table(name)
    if table is None or table.owner is None:
        return set()
    found = {(table.name, frozenset((column, linked[column]) for column in unique))
             for unique in table.unique if unique <= set(linked)}
    for key, target in parent_keys(table, catalog):
        if set(key.columns) <= set(linked):
            numbers = {there: linked[here] for here, there in zip(key.columns, key.references, strict=True)}
            found |= {(target.name, frozenset((column, numbers[column]) for column in unique))
                      for unique in target.unique if unique <= set(numbers)}
    return found
