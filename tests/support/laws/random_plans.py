"""Random plans, put together from operators without much sense: laws hold of all plans, not only of those of sensible texts."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpsql.backends.row_orders import row_order, tie_breaks
from dpsql.catalog.model import Catalog
from dpsql.frozen import replace
from dpsql.questions.chosen_grids import quantizer
from dpsql.questions.rules.keep_first import keep_first
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.functions import FUNCTIONS, Overload
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, PublicFacts, Stability
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import NUMBER, Numbers
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import ENDS, RANKS, SHIFTS, Frame, Window, WindowFunction
from dpsql.types import Type

LITERALS: dict[Type, tuple[object, ...]] = {
    Type.BOOLEAN: (True, False, None), Type.BIGINT: (0, 1, -3, 7, 2019, 50, None),
    Type.DOUBLE: (0.0, -0.0, 1.5, -2.0, 100.0, 300.25, float("nan"), None),
    Type.VARCHAR: ("a", "b", "f", "ill", "", "x'y", None), Type.DATE: (dt.date(1960, 2, 29), dt.date(2001, 1, 1), None),
    Type.TIMESTAMP: (dt.datetime(2020, 1, 1, 12), dt.datetime(2019, 5, 5), None),
}
TRUE = Literal(value=True, type=Type.BOOLEAN)


def equal(a: Expr, b: Expr) -> Expr:
    return Call(function="=", args=(a, b), type=Type.BOOLEAN)


class Builder:
    """Draws plans over the tables of a catalog. Raises InvalidPlan where what it put together is none."""

    def __init__(self, draw: random.Random, catalog: Catalog, public: PublicFacts) -> None:
        self.draw, self.catalog, self.public = draw, catalog, public
        self.limited, self._ids = True, 0

    def plans(self, depth: int = 3) -> tuple[Node, ...]:
        """A relation as a tally and in one other way; limits of the policy are enforced in most."""
        self.limited = self.draw.random() < 0.85
        made = self.relation(self.draw.randint(1, depth))
        made = keep_first(made) if self.draw.random() < 0.7 else made
        made = limit_rows(made) if self.limited else made
        return self.tally(made), self.draw.choice([self.tally, self.clipped, self.ranks])(made)

    def relation(self, depth: int) -> Node:
        if depth <= 0:
            return self.leaf()
        unary: list[Callable[[Node], Node]] = [self.filter, self.project, self.distinct, self.group, self.truncate,
                                               self.truncate_keys, self.numbers, self.clip, self.norms, self.window]
        binary: list[Callable[[Node, Node], Node]] = [self.join, self.join, self.join, self.lookup, self.lookup, self.union,
                                                      self.set_operation]
        if self.draw.random() < 0.62:
            return self.draw.choice(unary)(self.relation(depth - 1))
        return self.draw.choice(binary)(self.relation(depth - 1), self.relation(self.draw.randint(0, depth - 1)))

    # -- leaves

    def leaf(self) -> Node:
        table = self.draw.choices(["people", "visits", "scores", "clinics", "households", "values"], [4, 5, 3, 2, 1, 1])[0]
        return self.values() if table == "values" or table not in self.catalog.tables else self.scan(table)

    def scan(self, name: str) -> Node:
        table = self.catalog.tables[name]
        chosen = [column for column in table.columns if self.draw.random() < 0.75]
        pairs = tuple((self.fresh(), column) for column in chosen) or ((self.fresh(), next(iter(table.columns))),)
        owners: tuple[str, ...] = ()
        if table.owner is not None:
            ids = {column: id_ for id_, column in pairs}
            owners = ((ids.get(table.owner.column) if not table.owner.steps else None) or self.fresh(),)
        return Scan(table=table, columns=pairs, owners=owners)

    def values(self) -> Node:
        kinds = self.draw.sample([Type.VARCHAR, Type.BIGINT, Type.DOUBLE], self.draw.randint(1, 2))
        rows = tuple(tuple(self.draw.choice(LITERALS[kind]) for kind in kinds) for _ in range(self.draw.randint(1, 4)))
        columns = tuple(Field(id=self.fresh(), name="x", facts=Facts(type=kind)) for kind in kinds)
        return Constants(columns=columns, rows=rows)  # type: ignore[arg-type]

    # -- one input

    def filter(self, node: Node) -> Node:
        return Filter(input=node, condition=self.expr(node, Type.BOOLEAN, 2))

    def project(self, node: Node) -> Node:
        columns = [(self.fresh(), "x", self.expr(node, self.draw.choice(list(Type)), 2)) for _ in range(self.draw.randint(1, 3))]
        columns += [(self.fresh(), field.name, field.ref) for field in node.fields if self.draw.random() < 0.5]
        if self.draw.random() < 0.9:
            for owner in self.known(node).owners:
                columns.insert(self.draw.randint(0, len(columns)), (self.fresh(), "owner", node.field(owner).ref))
        if self.draw.random() < 0.2:
            columns.append((self.fresh(), "again", self.draw.choice(node.fields).ref))
        return Project(input=node, columns=tuple(columns))

    def distinct(self, node: Node) -> Node:
        return Distinct(input=self.narrow(node) if self.draw.random() < 0.7 else node)

    def narrow(self, node: Node) -> Node:
        """One or two columns of a relation, so that rows agree."""
        kept = self.draw.sample(node.fields, min(len(node.fields), self.draw.randint(1, 2)))
        if self.draw.random() < 0.4:
            kept += [node.field(owner) for owner in self.known(node).owners if owner not in [field.id for field in kept]]
        return Project(input=node, columns=tuple((self.fresh(), field.name, field.ref) for field in kept))

    def group(self, node: Node) -> Node:
        keys = [field.id for field in self.draw.sample(node.fields, min(len(node.fields), self.draw.randint(0, 2)))]
        if self.draw.random() < 0.9:
            keys = [*(owner for owner in self.known(node).owners if owner not in keys), *keys]
        folds = []
        for _ in range(self.draw.randint(0, 3)):
            column = self.draw.choice(node.fields)
            grid = quantizer(column.facts, from_low=False) if column.facts.type is Type.DOUBLE else None
            adds = column.facts.type is Type.BIGINT or grid is not None
            function = self.draw.choice(["count", "count_distinct", "min", "max", *(["sum", "avg"] * adds)])
            folds.append(Fold(id=self.fresh(), name=function, function=function, column=column.id, grid=grid))
        folds.append(Fold(id=self.fresh(), name="n", function="count"))
        owners = self.known(node).owners
        rows = self.known(node).rows if owners and set(owners) <= set(keys) else node.max_frequency(keys)
        return GroupBy(input=node, keys=tuple(keys), folds=tuple(folds), most_rows=rows or None)

    def truncate(self, node: Node) -> Node:
        owner = self.known(node).owner
        if owner is None or self.draw.random() < 0.05:
            owner = self.draw.choice(node.fields).id
        order = row_order(node, owner) if self.draw.random() < 0.85 else tuple(
            field.id for field in self.draw.sample(node.fields, min(2, len(node.fields))))
        return Truncate(input=node, rows=self.draw.randint(1, 4), owner=owner, order=order)

    def truncate_keys(self, node: Node) -> Node:
        keys = tuple(field.id for field in self.draw.sample(node.fields, min(len(node.fields), self.draw.choice([0, 1, 1, 1, 2]))))
        if self.draw.random() < 0.2:
            keys = tuple(dict.fromkeys((*self.known(node).owners, *keys)))
        order = tuple(field.id for field in node.fields if field.id not in keys or field.facts.type is Type.DOUBLE)
        if self.draw.random() < 0.2:
            order = order[:1]
        terms = tuple(Term(column=field.id, descending=self.draw.random() < 0.5) for field in self.draw.sample(node.fields, 1))
        return TruncateKeys(input=node, rows=self.draw.randint(1, 3), keys=keys, order=order,
                            first=terms if self.draw.random() < 0.3 else ())

    def window(self, node: Node) -> Node:
        """Over the rows of each entity, of values that few rows have, or of anything; its first functions are drawn often."""
        if self.draw.random() < 0.3:
            node = self.truncate_keys(node)
        partition = [field.id for field in self.draw.sample(node.fields, min(len(node.fields), self.draw.choice([0, 1, 1, 2])))]
        if isinstance(node, TruncateKeys) and self.draw.random() < 0.7:
            partition = list(dict.fromkeys((*node.keys, *partition[:1])))
        elif self.draw.random() < 0.5:
            partition = list(dict.fromkeys((*self.known(node).owners, *partition[:1])))
        order = tuple(Term(column=field.id, descending=self.draw.random() < 0.5, nulls_first=self.draw.random() < 0.5)
                      for field in self.draw.sample(node.fields, min(len(node.fields), self.draw.choice([0, 1, 1, 2]))))
        ties = tie_breaks(node, {*partition, *(term.column for term in order)})
        if self.draw.random() < 0.05:
            ties = ties[:1]
        near = self.draw.random() < 0.5
        functions = tuple(self.over(node, near) for _ in range(self.draw.choice([1, 1, 2, 3])))
        owners = self.known(node).owners
        rows = self.known(node).rows if owners and set(owners) <= set(partition) else None
        made = Window(input=node, partition=tuple(partition), order=order, ties=ties, functions=functions, most_rows=rows or None)
        numbers = [part.id for part in functions if part.function == "row_number"]
        if not numbers or self.draw.random() < 0.3:
            return made
        limit = Literal(value=self.draw.randint(1, 3), type=Type.BIGINT)
        wanted = Call(function=self.draw.choice(["<=", "=", "<"]), args=(made.field(numbers[0]).ref, limit), type=Type.BOOLEAN)
        return Filter(input=made, condition=wanted)

    def over(self, node: Node, near: bool) -> WindowFunction:
        """A window function; one that looks at a few rows only, if it is to be `near`."""
        column = self.draw.choice(node.fields)
        grid = quantizer(column.facts, from_low=False) if column.facts.type is Type.DOUBLE else None
        adds = column.facts.type is Type.BIGINT or grid is not None
        folds = ["count", "count_distinct", "min", "max", *(["sum", "avg"] * adds)]
        function = self.draw.choice([*SHIFTS, *SHIFTS, *ENDS, *folds, *([] if near else RANKS * 2)])
        alike = [field.id for field in node.fields if field.facts.type is column.facts.type]
        counted = function == "count" and self.draw.random() < 0.5
        return WindowFunction(id=self.fresh(), name=function, function=function, frame=self.frame(near), grid=grid,
                              column=None if function in RANKS or counted else column.id, number=self.draw.randint(1, 2),
                              otherwise=self.draw.choice([None, *alike]) if function in SHIFTS else None)

    def frame(self, near: bool) -> Frame:
        if near or self.draw.random() < 0.3:
            start = self.draw.randint(-2, 2)
            return Frame(rows=True, start=start, end=max(start, self.draw.randint(-1, 2)))
        return Frame(rows=self.draw.random() < 0.4, start=self.draw.choice([None, None, 0]), end=self.draw.choice([None, 0, 0]))

    def numbers(self, node: Node) -> Node:
        keys = [field for field in node.fields if field.id != NUMBER]
        numbered = Numbers(input=node, keys=tuple(field.id for field in self.draw.sample(keys, self.draw.randint(1, min(2, len(keys))))))
        return Project(input=numbered, columns=tuple((self.fresh(), field.name, field.ref) for field in numbered.fields))

    def contributions(self, node: Node) -> Contributions:
        owner = self.known(node).owner or self.draw.choice(node.fields).id
        keys = tuple(field.id for field in self.draw.sample(node.fields, min(len(node.fields), self.draw.randint(0, 2)))
                     if field.id != owner)
        return Contributions(input=node, owner=owner, keys=keys, summands=self.summands(node))

    def clip(self, node: Node) -> Node:
        given = self.contributions(node)
        return Clip(input=given, owner=given.owner, columns=given.totals, order=self.draw.choice([1, 2]),
                    bound=self.draw.choice([1, 2, 3, 5, 10, 1000, 2**30]))

    def norms(self, node: Node) -> Node:
        given = self.contributions(node)
        return Norms(input=given, owner=given.owner, columns=given.totals, order=self.draw.choice([1, 2]))

    # -- two inputs

    def join(self, left: Node, right: Node) -> Node:
        pair = self.pair(left, right)
        if pair is not None and self.draw.random() < 0.4:
            left, right = self.capped(left, pair[0]), self.capped(right, pair[1])
        side_by_side = Join(left=left, right=right, condition=TRUE)
        parts: list[Expr] = []
        owners = [(ours, theirs) for ours in self.known(left).owners for theirs in self.known(right).owners
                  if left.env[ours].type is right.env[theirs].type]
        if owners and self.draw.random() < 0.7:
            ours, theirs = self.draw.choice(owners)
            parts.append(equal(left.field(ours).ref, right.field(theirs).ref))
        side_public = self.known(left).public != self.known(right).public
        if pair is not None and self.draw.random() < (0.3 if parts else 0.6 if side_public else 0.9):
            a, b = pair
            kind = self.draw.choice(["=", "=", "=", "is not distinct from"])
            parts.append(Call(function=kind, args=self.draw.choice([(a.ref, b.ref), (b.ref, a.ref)]), type=Type.BOOLEAN))
        if self.draw.random() < 0.2:
            parts.append(self.expr(side_by_side, Type.BOOLEAN, 1))
        condition: Expr = TRUE
        for part in parts:
            condition = part if condition is TRUE else Call(function="and", args=(condition, part), type=Type.BOOLEAN)
        made = Join(left=left, right=right, condition=condition, keep_left=self.draw.random() < 0.4,
                    keep_right=self.draw.random() < 0.3)
        if made.keep_left is not made.keep_right and self.draw.random() < 0.3:
            return replace(made, bare=True)
        if made.keep_left and made.keep_right and self.draw.random() < 0.7:
            return replace(made, merged=tuple(Merged(id=self.fresh(), name="m", left=a, right=b) for a, b in made.equated))
        return made

    def capped(self, node: Node, column: Field) -> Node:
        """At most a few rows of each value of a column; not always."""
        order = tuple(field.id for field in node.fields if field.id != column.id)
        if self.draw.random() < 0.3:
            return node
        return TruncateKeys(input=node, rows=self.draw.randint(1, 3), keys=(column.id,), order=order)

    def pair(self, left: Node, right: Node) -> tuple[Field, Field] | None:
        """Two columns that can be compared; half of the time of one name, so that rows do meet."""
        pairs = [(a, b) for a in left.fields for b in right.fields if a.facts.type is b.facts.type]
        alike = [(a, b) for a, b in pairs if a.name == b.name]
        return self.draw.choice(alike if alike and self.draw.random() < 0.5 else pairs) if pairs else None

    def lookup(self, node: Node, listed: Node) -> Node:
        keys: list[tuple[Expr, str]] = []
        if self.known(node).owners and self.draw.random() < 0.6:
            keys += [(node.field(self.draw.choice(self.known(node).owners)).ref, theirs) for theirs in self.known(listed).owners]
        if not keys or self.draw.random() < 0.5:
            pair = self.pair(node, listed)
            column = pair[1] if pair is not None else self.draw.choice(listed.fields)
            if pair is not None and self.draw.random() < 0.5:
                node = self.capped(node, pair[0])
            keys.append((pair[0].ref if pair is not None and self.draw.random() < 0.8
                         else self.expr(node, column.facts.type, 1), column.id))
        condition = self.expr(Join(left=node, right=listed, condition=TRUE), Type.BOOLEAN, 1) if self.draw.random() < 0.2 else None
        if condition is not None and self.draw.random() < 0.3:
            keys = []
        return Lookup(input=node, listed=listed, keys=tuple(keys), mark=self.fresh(), condition=condition,
                      keep=self.draw.choice([None, None, True, False]))

    def set_operation(self, left: Node, right: Node) -> Node:
        arms = self.arms([left, right])
        return SetOperation(kind=self.draw.choice(["intersect", "except"]), all=self.draw.random() < 0.5, left=arms[0],
                            right=arms[1], columns=tuple((self.fresh(), "u") for _ in arms[0].fields))

    def union(self, first: Node, second: Node) -> Node:
        arms = self.arms([first, second] if self.draw.random() < 0.8 else [first, second, self.leaf()])
        return UnionAll(parts=tuple(arms), columns=tuple((self.fresh(), "u") for _ in arms[0].fields))

    def arms(self, parts: list[Node]) -> list[Node]:
        """Projections to columns of the same types; most show the owner in the same place."""
        kinds = [self.draw.choice([Type.VARCHAR, Type.BIGINT, Type.DOUBLE]) for _ in range(self.draw.randint(1, 2))]
        owners = [self.known(part).owner for part in parts]
        types = {part.env[owner].type for part, owner in zip(parts, owners, strict=True) if owner is not None}
        place = self.draw.randint(0, len(kinds))
        if len(types) == 1:
            kinds.insert(place, types.pop())
        arms: list[Node] = []
        for part, owner in zip(parts, owners, strict=True):
            exprs = [self.expr(part, kind, 1) for kind in kinds]
            if owner is not None and len(kinds) > place and self.draw.random() < 0.95:
                exprs[place] = part.field(owner).ref
            arms.append(Project(input=part, columns=tuple((self.fresh(), "u", expr) for expr in exprs)))
        return arms

    # -- tops

    def tally(self, node: Node) -> Node:
        return GroupedSums(input=node, keys=self.keys(node), summands=self.summands(node))

    def clipped(self, node: Node) -> Node:
        given = self.clip(node)
        assert isinstance(given, Clip)
        below: Node = self.filter(given) if self.draw.random() < 0.2 else given
        keys = given.input.keys if self.draw.random() < 0.6 else self.keys(below)  # type: ignore[attr-defined]
        return GroupedSums(input=below, keys=keys, summands=(Clipped(clipped=given.columns),))

    def ranks(self, node: Node) -> Node:
        ranked = [field for field in node.fields if field.facts.type.numeric] or list(node.fields)
        column = self.draw.choice(ranked)
        return Ranks(input=node, keys=self.keys(node), column=column.id, grid=self.grid(column, from_low=True),
                     when=self.when(node), ties=self.draw.choice([0, 0, 3]))

    def keys(self, node: Node) -> tuple[str, ...]:
        return tuple(field.id for field in self.draw.sample(node.fields, min(len(node.fields), self.draw.choice([0, 1, 1, 2]))))

    def when(self, node: Node) -> str | None:
        truths = [field.id for field in node.fields if field.facts.type is Type.BOOLEAN]
        return self.draw.choice(truths) if truths and self.draw.random() < 0.5 else None

    def summands(self, node: Node) -> tuple[Summand, ...]:
        found: list[Summand] = []
        for _ in range(self.draw.randint(1, 2)):
            column, when = self.draw.choice(node.fields), self.when(node)
            match self.draw.randint(0, 3) if column.facts.type.numeric or column.facts.type is Type.DATE else 0:
                case 0:
                    found.append(Count(column=self.draw.choice([None, column.id]), when=when))
                case 1 | 2:
                    found.append(GridSum(column=column.id, when=when, grid=self.grid(column, from_low=False)))
                case 3:
                    found.append(Moments(column=column.id, when=when, grid=self.grid(column, from_low=True),
                                         degree=self.draw.choice([1, 2]), missing=self.draw.random() < 0.5))
        return tuple(found)

    def grid(self, column: Field, *, from_low: bool) -> Quantizer:
        if column.facts.type is Type.DATE:
            return Quantizer(low=710_000.0, high=740_000.0, step=Fraction(self.draw.choice([1, 7])), from_low=True)
        low, high = self.draw.choice([(0.0, 10.0), (-5.0, 5.0), (-2.5, 100.0), (3.0, 4.0), (0.0, 1.0)])
        step = self.draw.choice([Fraction(1), Fraction(1, 2), Fraction(1, 10), Fraction(3)])
        return Quantizer(low=low, high=high, step=min(step, Fraction(high - low)), from_low=from_low)

    # -- expressions

    def expr(self, node: Node, kind: Type, depth: int) -> Expr:
        """An expression that is safe over a relation."""
        refs = [field.ref for field in node.fields if field.facts.type is kind]
        for _ in range(4 if depth > 0 else 0):
            made = self._composite(node, kind, depth)
            if made is None:
                continue
            try:
                facts(made, node.env)
            except NotTotal:
                continue
            return made
        if refs and self.draw.random() < 0.85:
            return self.draw.choice(refs)
        return self.literal(kind)

    def literal(self, kind: Type) -> Literal:
        return Literal(value=self.draw.choice(LITERALS[kind]), type=kind)  # type: ignore[arg-type]

    def _composite(self, node: Node, kind: Type, depth: int) -> Expr | None:
        shape = self.draw.random()
        if shape < 0.15:
            return self.draw.choice([field.ref for field in node.fields if field.facts.type is kind] or [self.literal(kind)])
        if shape < 0.3:
            return Case(branches=((self.expr(node, Type.BOOLEAN, depth - 1), self.expr(node, kind, depth - 1)),),
                        otherwise=self.expr(node, kind, depth - 1), type=kind)
        if shape < 0.4:
            target = {Type.BIGINT: self.draw.choice(["TINYINT", "INTEGER", "BIGINT"]),
                      Type.DOUBLE: self.draw.choice(["DOUBLE", "FLOAT", "DECIMAL(6,2)"])}.get(kind, kind.value)
            return Cast(input=self.expr(node, self.draw.choice(list(Type)), depth - 1), target=target, type=kind)
        name, row = self.draw.choice([(name, row) for name, row in CALLS if row.result is kind])
        wanted = [*row.args, *([row.args[-1]] * (self.draw.randint(0, 1) if row.variadic else 0))]
        args = tuple(self.literal(part) if i in row.constants else self.expr(node, part, depth - 1)
                     for i, part in enumerate(wanted))
        return Call(function=name, args=args, type=kind)

    # -- what is known

    def known(self, node: Node) -> Stability:
        return stability(limit_rows(node) if self.limited else node, self.public)

    def fresh(self) -> str:
        self._ids += 1
        return f"c{self._ids}"


CALLS: Sequence[tuple[str, Overload]] = [
    (name, row) for name, rows in FUNCTIONS.items() for row in rows
    if not any(word in name for word in ("regexp", "like", "strftime"))]


def random_plans(seed: int, catalog: Catalog, public: PublicFacts, builder: type[Builder] = Builder) -> tuple[Node, ...]:
    """Two plans over one relation, or none where what was drawn is not a plan."""
    drawn = builder(random.Random(seed), catalog, public)
    try:
        made = drawn.plans()
        for plan in made:
            stability(plan, public)
    except (InvalidPlan, ValueError):
        return ()
    return made
