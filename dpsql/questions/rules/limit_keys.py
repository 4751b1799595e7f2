"""Limit how many rows agree on a join key, so that one entity's rows match few rows of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpsql.frozen import Frozen, replace
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.name_keys import name_keys
from dpsql.questions.rules.rule import rule_about
from dpsql.questions.shown_expressions import show
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type


class Meeting(Frozen):
    """An input, `side`, of the operator described by `at`, in which any number of rows may agree on `keys`, the join columns.

    declared  the most rows that agree on the keys, if the values in the tables below have no more rows than the policy declares
    mutual    whether the same is true of the other side of a join
    """

    side: Node
    keys: tuple[str, ...]
    at: str
    declared: int | None
    mutual: bool = False

    @property
    def label(self) -> str:
        return " and ".join(self.side.names[key] for key in self.keys)


@rule_about(Join, Lookup, Window)
def limit_keys(plan: Node, public: PublicFacts, choose: Callable[[Meeting], int | None]) -> Node:
    """The plan with at most `choose(meeting)` rows of each value of a key, wherever an operator would otherwise have no bound.

    It works from the bottom up, so a choice may depend on those made below it. Nothing changes where `choose` gives None, or
    where no equality joins the rows. The rule decides which rows are left out; stability is derived from the resulting plan.

    Source: Kotsogiannis et al., PrivateSQL, VLDB 2019.
    """

    def change(node: Node) -> Node:
        if not isinstance(node, Join | Lookup | Window) or stability(node, public).rows is not None:
            return node
        found = name_keys(node) if isinstance(node, Join | Lookup) else node
        limits: dict[str, Node] = {}
        sides = list(_meetings(found, public))
        for name, keys in sides:
            side: Node = getattr(found, name)
            most = choose(Meeting(side=side, keys=keys, at=_told(node), declared=_declared(side, keys),
                                  mutual=len(sides) > 1))
            limits |= {name: keep_keys(side, keys, most)} if most is not None else {}
        return _shown(replace(found, **limits), node) if limits else node  # type: ignore[arg-type]

    return rebuild(plan, change)


def _shown(found: Node, node: Node) -> Node:
    """The new operator with the columns of the old one, without those that were added for keys."""
    if [field.id for field in found.fields] == [field.id for field in node.fields]:
        return found
    return Project(input=found, columns=tuple((field.id, field.name, found.field(field.id).ref) for field in node.fields))


def keep_keys(node: Node, keys: tuple[str, ...], rows: int) -> TruncateKeys:
    """Keep at most `rows` rows of each value of `keys`. Rows are ordered by the smallest key that the database guarantees, or
    otherwise by all columns. This includes a key that is a DOUBLE, as -0.0 and 0.0 are equal but distinct.
    """
    unique = sorted((sorted(key - set(keys)) for key in node.unique), key=len)
    order = unique[0] if unique and unique[0] else [
        field.id for field in node.fields if field.id not in keys or field.facts.type is Type.DOUBLE]
    return TruncateKeys(input=node, rows=rows, keys=keys, order=tuple(order))


def _meetings(node: Join | Lookup | Window, public: PublicFacts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The inputs of an operator in which too many rows may agree on keys: the field's name, and these keys."""
    match node:
        case Join():
            left, right = stability(node.left, public), stability(node.right, public)
            if not left.public and not right.public:
                keys = [tuple(dict.fromkeys(pair[place] for pair in node.equated)) for place in (0, 1)]
                yield from ((name, found) for name, found, most in (
                    ("left", keys[0], node.left_of_right), ("right", keys[1], node.right_of_left)) if found and most is None)
        case Lookup():
            keys_ = tuple(dict.fromkeys(node.looked_up))
            if keys_ and node.input.max_frequency(keys_) is None and not stability(node.input, public).public:
                yield "input", keys_
        case Window():
            if node.partition and node.input.max_frequency(node.partition) is None:
                yield "input", node.partition


def _declared(side: Node, keys: tuple[str, ...]) -> int | None:
    """The most rows that agree on the keys, if each table is as the policy declares; None if it declares too little."""
    def change(node: Node) -> Node:
        if not isinstance(node, Scan):
            return node
        capped: Node = node
        for column, name in node.columns:
            if name in node.table.rows_per_value:
                capped = keep_keys(capped, (column,), node.table.rows_per_value[name])
        return capped

    return rebuild(side, change).max_frequency(keys)


def _told(node: Join | Lookup | Window) -> str:
    match node:
        case Join():
            return f"the join on {show(node.condition, {**node.left.names, **node.right.names})}"
        case Lookup():
            return "the test of each row against private rows"
        case Window():
            return "the window functions"
