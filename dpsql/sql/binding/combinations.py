"""Which combinations of the values of keys there can be: those of the rows of a public table of which the keys are columns.

Proof. A row of a view holds, in the columns of one occurrence of a public table, a row of that table, or NULL in all of them
where an outer join pads it. A column that an inner join equates with one of them has its value. So a group whose keys are no such
combination has no row, whatever private rows there are; and which combinations there are, everybody can list. Nor has it one if
a condition about these columns alone, which every row of the view fulfils, is not true of the combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.frozen import Frozen, replace
from dpsql.questions.question import Combinations, Key
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.declarations.tables import Domain, ValidCombinations
from dpsql.trusted.plan.expr.nodes import Expr, Placeholder, Ref, Value, columns, conjuncts, walk
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type


class _PublicColumn(Frozen):
    """A column of one occurrence of a public table, and whether rows of it may be NULL because an outer join pads them."""

    scan: Scan
    column: str
    listing: ValidCombinations
    padded: bool = False


def combinations_of(view: Node, keys: Sequence[str], scratch: Scratch) -> tuple[Combinations, ...]:
    """For each occurrence of a public table in a view, the combinations of values of those columns that come from it."""
    found: dict[tuple[int, int], dict[str, _PublicColumn]] = {}
    for key in keys:
        for origin in _origins(view, key):
            found.setdefault((id(origin.scan), id(origin.listing)), {}).setdefault(key, origin)
    return tuple(_combined(origins, view, scratch) for origins in found.values())


def narrowed(key: Key, combinations: Sequence[Combinations]) -> Key:
    """A key with only the declared values that can occur; without declared values, it gets those of a public table."""
    for one in (one for one in combinations if key.column in one.keys):
        there = dict.fromkeys(row[one.keys.index(key.column)] for row in one.rows)
        if key.domain is not None:
            key = replace(key, domain=key.domain.only(tuple(value for value in key.domain.values if value in there)),
                          nullable=key.nullable and None in there)
        elif one.enforced:
            key = replace(key, nullable=key.nullable and None in there, domain=Domain(tuple(sorted(
                value for value in there if value is not None))))
    return key


def _combined(origins: Mapping[str, _PublicColumn], view: Node, scratch: Scratch) -> Combinations:
    first, *_ = origins.values()
    listing = first.listing
    places = [listing.columns.index(origin.column) for origin in origins.values()]
    padded = [(None,) * len(places)] if all(origin.padded for origin in origins.values()) else []

    def of_keys(rows: Sequence[tuple[Value, ...]]) -> tuple[tuple[Value, ...], ...]:
        return tuple(dict.fromkeys([*(tuple(row[place] for place in places) for row in rows), *padded]))

    whole = of_keys(listing.rows)
    return Combinations(keys=tuple(origins), unconditioned=whole, enforced=first.scan.table.public,
                        rows=whole if first.padded else of_keys(_fulfilling(first, view, scratch)))


def _fulfilling(of: _PublicColumn, view: Node, scratch: Scratch) -> Sequence[tuple[Value, ...]]:
    """The listed rows of an occurrence of a table of which the conditions about its columns alone are true."""
    tests: list[Expr] = []
    named: dict[str, tuple[Type, list[Value]]] = {}
    for node in (node for node in bottom_up(view) if isinstance(node, Filter)):
        for test in (test for test in conjuncts(node.condition) if not any(isinstance(part, Placeholder) for part in walk(test))):
            read = {name: next((each for each in _origins(node.input, name) if each.scan is of.scan and each.listing is of.listing
                                and not each.padded), None) for name in columns(test)}
            if read and None not in read.values():
                tests.append(test)
                named |= {name: (node.input.env[name].type, of.listing.values(each.column)) for name, each in read.items()
                          if each is not None}
    if not tests or not of.listing.rows:
        return of.listing.rows
    return [row for row, held in zip(of.listing.rows, scratch.evaluate(tests, named), strict=True) if all(
        value is True for value in held)]


def _origins(node: Node, column: str) -> Iterator[_PublicColumn]:
    """The columns of public tables whose value a column of a relation has in each row, unless it is NULL because it is padded."""
    match node:
        case Scan():
            name = dict(node.columns).get(column)
            yield from (_PublicColumn(scan=node, column=name, listing=listing) for listing in node.table.listings
                        if name in listing.columns)
        case Project():
            expr = next((expr for name, _, expr in node.columns if name == column), None)
            if isinstance(expr, Ref):
                yield from _origins(node.input, expr.column)
        case Filter() | Truncate() | Lookup() if column in node.input.env:
            yield from _origins(node.input, column)
        case Join():
            yield from _in_join(node, column)


def _in_join(join: Join, column: str) -> Iterator[_PublicColumn]:
    for side, others_kept in ((join.left, join.keep_right), (join.right, join.keep_left)):
        if column in side.env:
            yield from (replace(origin, padded=origin.padded or others_kept) for origin in _origins(side, column))
    if join.keep_left or join.keep_right:
        return
    for left, right in join.equated:
        if join.left.env[left].type is join.right.env[right].type:
            if column == left:
                yield from _origins(join.right, right)
            elif column == right:
                yield from _origins(join.left, left)
