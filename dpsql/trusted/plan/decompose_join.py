"""Decomposition of a join: its relations, their equated columns, and plans that count how often values occur together in them.

A statement over joins counts the combinations of one row of each relation on which all conditions are true. However the joins
are nested, they reduce to this: equated columns form one *variable*; conditions on one relation become part of it; other
conditions are kept with the relations that they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.frozen import Frozen, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.certificate import stabilities
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, all_of, columns, conjuncts, predicate, rewrite
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count

MOST_RELATIONS = 6  # as there are up to two to this power of residual joins
Some = frozenset[int]


class NotDecomposable(Exception):
    """A join that cannot be decomposed. `node` is the lowest operator responsible, `join` the nearest join around it that is
    decomposed; `relations` is their number if there are too many.
    """

    def __init__(self, node: Node, join: Join | None, because: str, relations: int = 0) -> None:
        super().__init__(because)
        self.node, self.join, self.because, self.relations = node, join, because, relations


class JoinedRelation(Frozen):
    """A relation of the join. `moved` is the largest number of its rows that one entity moves, 0 for a public one; `columns`
    names the column of each variable.

    Rows in which a variable is NULL are left out: a variable is made of columns that `=` equates, so they meet no row. What IS
    NOT DISTINCT FROM says of two relations is a condition between them, and makes no variable.
    """

    node: Node
    moved: int
    columns: Mapping[int, str]

    def max_frequency(self, variables: Some) -> int | None:
        """A bound, if one is known, on the number of rows that agree on variables in any database."""
        return self.node.max_frequency([self.columns[variable] for variable in variables])

    def frequencies(self, variables: Some) -> GroupedSums:
        """The number of rows with each combination of values of some variables."""
        keys = tuple(self.columns[variable] for variable in sorted(variables))
        return GroupedSums(input=self.node, keys=keys, summands=(Count(),), in_engine=True)


class JoinParts(Frozen):
    """The combinations of one row from each relation that agree on all variables and satisfy all conditions."""

    relations: tuple[JoinedRelation, ...]
    conditions: tuple[tuple[Some, Expr], ...]

    @property
    def private(self) -> Some:
        """The private relations."""
        return frozenset(i for i, relation in enumerate(self.relations) if relation.moved)

    @cached_property
    def all(self) -> Some:
        return frozenset(range(len(self.relations)))

    def variables(self, part: Some) -> Some:
        return frozenset(variable for i in part for variable in self.relations[i].columns)

    def boundary(self, part: Some) -> Some:
        """The variables of some relations that other relations have too."""
        return self.variables(part) & self.variables(self.all - part)

    def components(self, part: Some) -> Iterator[Some]:
        """The connected components: maximal subsets of relations linked by variables."""
        left = set(part)
        while left:
            found, new = set[int](), {min(left)}
            while new:
                found |= new
                reached = self.variables(frozenset(found))
                new = {i for i in left - found if reached & self.relations[i].columns.keys()}
            left -= found
            yield frozenset(found)

    def multiplicities(self, component: Some) -> GroupedSums:
        """The number of combinations of rows of one component, for each combination of values at its boundary.

        Conditions that read no other relation are part of it.
        """
        first, *others = self._connected(component)
        node, named = self.relations[first].node, dict(self.relations[first].columns)
        for i in others:
            relation = self.relations[i]
            same = [_equal(named[variable], node, column, relation.node)
                    for variable, column in relation.columns.items() if variable in named]
            condition = all_of(same)
            if condition is None:
                raise ValueError("the relations of a component share variables")
            node, named = Join(left=node, right=relation.node, condition=condition), {**relation.columns, **named}
        inside = all_of([condition for read, condition in self.conditions if read <= component])
        node = node if inside is None else Filter(input=node, condition=inside)
        keys = tuple(named[variable] for variable in sorted(self.boundary(component)))
        return GroupedSums(input=node, keys=keys, summands=(Count(),), in_engine=True)

    def _connected(self, component: Some) -> Iterator[int]:
        """The relations of a component, each after one with which it shares a variable."""
        placed: list[int] = []
        while len(placed) < len(component):
            reached = self.variables(frozenset(placed))
            placed.append(next(i for i in sorted(component - set(placed))
                               if not placed or reached & self.relations[i].columns.keys()))
            yield placed[-1]


def _equal(left: str, above: Node, right: str, below: Node) -> Expr:
    return predicate("=", above.field(left).ref, below.field(right).ref)


def decompose_join(plan: Node, public: PublicFacts) -> JoinParts:
    """The join in a plan, with filters, projections and lookups above, below and between. Any other operator is a relation of
    the join.

    A lookup marks the rows of one relation by that row alone: so it can be moved below the joins. Raises NotDecomposable if
    one entity moves rows of a relation without a limit, or there are more than MOST_RELATIONS.
    """
    pieces = _Pieces()
    pieces.take(plan, None)
    if len(pieces.leaves) > MOST_RELATIONS:
        raise NotDecomposable(plan, None, f"{len(pieces.leaves)} relations are joined", len(pieces.leaves))
    return pieces.together(public)


class _Pieces:
    """The leaves of a join tree, each with the nearest join, and the conditions between them over their columns."""

    def __init__(self) -> None:
        self.leaves: list[tuple[Node, Join | None]] = []
        self._conditions: list[Expr] = []

    def take(self, node: Node, join: Join | None) -> Mapping[str, Expr]:
        """The columns of a node as expressions over columns of leaves."""
        match node:
            case Filter() if _joins(node.input):
                found = self.take(node.input, join)
                self._conditions += [_over(part, found) for part in conjuncts(node.condition)]
                return found
            case Project() if _joins(node.input):
                below = self.take(node.input, join)
                return {column: _over(expr, below) for column, _, expr in node.columns}
            case Lookup() if _joins(node.input):
                return self._looked_up(node, join)
            case Join() if _inner(node):
                found = {**self.take(node.left, node), **self.take(node.right, node)}
                self._conditions += [_over(part, found) for part in conjuncts(node.condition)]
                return found
        self.leaves.append((node, join))
        return {field.id: field.ref for field in node.fields}

    def _looked_up(self, node: Lookup, join: Join | None) -> Mapping[str, Expr]:
        found = self.take(node.input, join)
        listed = {field.id: field.ref for field in node.listed.fields}
        keys = tuple((_over(expr, found), column) for expr, column in node.keys)
        condition = None if node.condition is None else _over(node.condition, {**listed, **found})
        read = frozenset[str]().union(*(columns(expr) for expr, _ in keys), columns(condition) if condition is not None else ())
        for i, (leaf, around) in enumerate(self.leaves):
            if read - listed.keys() <= leaf.env.keys():
                marked = replace(node, input=leaf, keys=keys, condition=condition)
                self.leaves[i] = (marked, around)
                return {**found, node.mark: marked.field(node.mark).ref}
        raise NotDecomposable(node, join, "a lookup combines columns of several relations")

    def together(self, public: PublicFacts) -> JoinParts:
        home = {field.id: i for i, (leaf, _) in enumerate(self.leaves) for field in leaf.fields}
        groups = _equated(self._conditions, home)
        alone: dict[int, list[Expr]] = {i: [] for i in range(len(self.leaves))}
        between = []
        for condition in self._conditions:
            read = frozenset(home[column] for column in columns(condition))
            if len(read) > 1 and not _equality(condition, home):
                between.append((read, condition))
            elif len(read) <= 1 and not (isinstance(condition, Literal) and condition.value is True):
                alone[min(read, default=0)].append(condition)
        relations = []
        for i, (leaf, around) in enumerate(self.leaves):
            mine = {variable: [column for column in group if home[column] == i] for variable, group in enumerate(groups)}
            mine = {variable: names for variable, names in mine.items() if names}
            for first, *others in mine.values():
                alone[i].append(predicate("is not null", leaf.field(first).ref))
                alone[i] += [_equal(first, leaf, other, leaf) for other in others]
            mine_alone = all_of(alone[i])
            node = leaf if mine_alone is None else Filter(input=leaf, condition=mine_alone)
            relations.append(JoinedRelation(node=node, moved=_moved(node, around, public),
                                            columns={variable: names[0] for variable, names in mine.items()}))
        return JoinParts(relations=tuple(relations), conditions=tuple(between))


def _moved(node: Node, join: Join | None, public: PublicFacts) -> int:
    """The most rows of a relation that one entity moves."""
    known = stabilities(node, public)
    rows = known[id(node)].rows
    if rows is not None:
        return rows
    while lost := [below for below in node.inputs if known[id(below)].rows is None]:
        node = lost[0]
    raise NotDecomposable(node, join, known[id(node)].because)


def _joins(node: Node) -> bool:
    return (isinstance(node, Join) and _inner(node)) or (isinstance(node, Filter | Project | Lookup) and _joins(node.input))


def _inner(join: Join) -> bool:
    return not join.keep_left and not join.keep_right


def _over(expr: Expr, found: Mapping[str, Expr]) -> Expr:
    return rewrite(expr, lambda part: found[part.column] if isinstance(part, Ref) else None)


def _equality(condition: Expr, home: Mapping[str, int]) -> tuple[str, str] | None:
    """Two columns of different leaves that a condition equates; None for other conditions."""
    if isinstance(condition, Call) and condition.function == "=":
        first, second = condition.args
        if isinstance(first, Ref) and isinstance(second, Ref) and home[first.column] != home[second.column]:
            return first.column, second.column
    return None


def _equated(conditions: Sequence[Expr], home: Mapping[str, int]) -> list[list[str]]:
    """The sets of columns that are all equal in every combination, each in the order in which it was found."""
    groups: list[list[str]] = []
    for condition in conditions:
        pair = _equality(condition, home)
        if pair is not None:
            touched = [group for group in groups if set(pair) & set(group)]
            groups = [group for group in groups if group not in touched]
            groups.append(list(dict.fromkeys([column for group in touched for column in group] + list(pair))))
    return groups
