"""Plans of which rows are of one person and one period each, and others that look like them; and what the kernel claims of them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from support.laws.bad_worlds import KINDS as BAD
from support.laws.family import nodes
from support.laws.growing import IN_A_PERIOD, LEAP, Growing, GrowingBuilder, GrowingFamily, grown
from support.laws.law import Evaluation, Row, Rows, Violation, certificate_of, evaluate, longer, moved, sums_moved
from support.laws.random_plans import random_plans

from dpsql.frozen import replace
from dpsql.questions.rules.limit_in_periods import show_periods
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.trusted.declarations.growth import KINDS, PeriodRange, first_day
from dpsql.trusted.kernel import period_certificate
from dpsql.trusted.kernel.claims import Derived
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, predicate, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type

PERIOD, TIME = "period", ("seen", "scored")
"""The names of columns that are made to tell a period, by a right function or by a wrong one, and of those with the time."""
Step: TypeAlias = Callable[[Node], Node]


class PairsBuilder(GrowingBuilder):
    """Draws relations over several periods that show a period, and what limits, groups, joins or unites them: mostly by owner and
    period, often by one of them alone."""

    def plans(self, depth: int = 4) -> tuple[Node, ...]:
        self.one, self.beside, self.limited = None, False, False
        made = self.pairs(self.draw.randint(1, depth))
        if self.draw.random() < 0.3:
            made = show_periods(limit_rows(made))
        elif self.draw.random() < 0.85:
            made = self.held(self.limit(self.show(made)))
        return tuple(self.tally(made) for _ in range(4))

    def pairs(self, depth: int) -> Node:
        made = self.scan(self.draw.choice(sorted(self.growing.tables)))
        made = self.show(made) if self.draw.random() < 0.9 else made
        steps: list[Step] = [self.filter, self.shown_again, self.show, self.limit, self.limit, self.by_owner_and_period, self.over_period,
                             self.distinct_in_period, self.beside_fixed, self.beside_fixed, self.looked_up, self.united, self.united]
        for _ in range(depth):
            made = self.draw.choice(steps)(made)
        return made

    def scan(self, name: str) -> Node:
        made = super().scan(name)
        if not isinstance(made, Scan) or made.table.growth is None or self.draw.random() < 0.05:
            return made
        time = made.table.growth.column  # in most, the time is read
        first, last = (self.growing.numbers[end] for end in (0, -1))
        some = made.periods if self.draw.random() < 0.2 else PeriodRange(period=self.growing.period, first=first, last=last)
        return replace(made, periods=some, columns=made.columns if time in dict(made.columns).values() else (*made.columns, (self.fresh(), time)))

    # -- period columns

    def show(self, node: Node) -> Node:
        """A further column that tells the period, or seems to."""
        times = [field for field in node.fields if field.facts.type in (Type.DATE, Type.TIMESTAMP) and field.name in (*TIME, PERIOD)]
        if not times:
            return node
        made = self.period(self.draw.choice(times).ref)
        return Project(input=node, columns=(*((field.id, field.name, field.ref) for field in node.fields), (self.fresh(), PERIOD, made)))

    def period(self, time: Ref) -> Expr:
        kind = self.growing.period if self.draw.random() < 0.85 else self.draw.choice(KINDS)
        if self.draw.random() < 0.25:
            return Call(function=f"date_trunc_{kind}", args=(time,), type=Type.TIMESTAMP)
        day = first_day(self.growing.period, self.growing.numbers[self.draw.choice([0, 0, 0, 0, 1])])
        day = self.draw.choice([day, day, day, day, LEAP, day - dt.timedelta(days=7)])
        start = day if time.type is Type.DATE else dt.datetime.combine(day, dt.time(self.draw.choice([0, 23])))
        return Call(function=f"date_diff_{kind}", args=(Literal(value=start, type=time.type), time), type=Type.BIGINT)

    def told(self, node: Node) -> list[str]:
        """Columns by which an operator acts on groups: mostly the owner and what is named a period."""
        owners, periods = list(self.known(node).owners), [field.id for field in node.fields if field.name == PERIOD]
        keys = [*(owners if self.draw.random() < 0.95 else ()), *(self.draw.sample(periods, 1) if periods and self.draw.random() < 0.85 else ())]
        keys += [field.id for field in self.draw.sample(node.fields, min(len(node.fields), self.draw.choice([0, 0, 1])))]
        return list(dict.fromkeys(keys))

    # -- one input

    def filter(self, node: Node) -> Node:
        """By one column, so that most rows stay."""
        tested = self.draw.choice(node.fields).ref
        return Filter(input=node, condition=Call(function="is not null", args=(tested,), type=Type.BOOLEAN)) if (
            self.draw.random() < 0.6) else super().filter(node)

    def limit(self, node: Node) -> Node:
        keys = tuple(self.told(node))
        order = tuple(field.id for field in node.fields if field.id not in keys or field.facts.type is Type.DOUBLE)
        return TruncateKeys(input=node, rows=self.draw.randint(1, 2), keys=keys, order=order)

    def held(self, node: Node) -> Node:
        """Only rows whose numbers of periods are small, from which follows how many rows an entity has in all."""
        numbers = [field.ref for field in node.fields if field.name == PERIOD and field.facts.type is Type.BIGINT]
        ends = [predicate(sign, number, whole(end)) for number in numbers for sign, end in ((">=", -3), ("<=", 3))]
        return Filter(input=node, condition=predicate("and", *ends)) if ends else node

    def shown_again(self, node: Node) -> Node:
        """A projection that keeps the names of what tells periods, mostly."""
        kept = [field for field in node.fields if field.name in (*TIME, PERIOD) and self.draw.random() < 0.9 or self.draw.random() < 0.5]
        kept += [node.field(owner) for owner in self.known(node).owners if owner not in [field.id for field in kept]]
        return Project(input=node, columns=tuple((self.fresh(), field.name, field.ref) for field in kept or node.fields))

    def by_owner_and_period(self, node: Node) -> Node:
        made = self.group(node)
        return replace(made, keys=tuple(self.told(node)), most_rows=None) if isinstance(made, GroupBy) else made

    def over_period(self, node: Node) -> Node:
        made = self.window(node)
        if not isinstance(made, Window):
            return made
        partition = tuple(self.told(made.input))
        ties = tuple(field.id for field in made.input.fields if field.id not in partition or field.facts.type is Type.DOUBLE)
        return replace(made, partition=partition, ties=ties, most_rows=None)

    def distinct_in_period(self, node: Node) -> Node:
        columns = self.told(node) or [node.fields[0].id]
        return Distinct(input=Project(input=node, columns=tuple((self.fresh(), node.field(column).name, node.field(column).ref) for column in columns)))

    # -- two inputs

    def fixed(self) -> Node:
        """A relation that does not grow, mostly with few rows of each owner."""
        beside = [name for name in ("people", "visits", "scores", "clinics", "households") if name in self.catalog.tables and name not in self.growing.tables]
        made = self.scan(self.draw.choice(beside)) if self.draw.random() < 0.9 else self.values()
        made = self.draw.choice([self.filter, self.group])(made) if self.draw.random() < 0.2 else made
        owner = self.known(made).owner
        return self.capped(made, made.field(owner)) if owner is not None else made

    def beside_fixed(self, node: Node) -> Node:
        sides = [node, self.fixed() if self.draw.random() < 0.9 else self.scan(self.draw.choice(sorted(self.growing.tables)))]
        self.draw.shuffle(sides)
        made = self.join(*sides)
        assert isinstance(made, Join)
        return replace(made, keep_left=False, keep_right=False, bare=False, merged=()) if self.draw.random() < 0.5 else made

    def looked_up(self, node: Node) -> Node:
        return self.lookup(node, self.fixed() if self.draw.random() < 0.7 else self.scan(self.draw.choice(sorted(self.growing.tables))))

    def united(self, node: Node) -> Node:
        """With other rows that tell the period in the same way, or in another, or not at all."""
        owner = self.known(node).owner
        periods = [field for field in node.fields if field.name == PERIOD]
        if owner is None or not periods:
            return node
        other = self.pairs(self.draw.choice([0, 0, 1])) if self.draw.random() < 0.85 else self.fixed()
        theirs, found = self.known(other).owner, self.draw.choice(periods)
        alike = [field for field in other.fields if field.facts.type is found.facts.type and (field.name == PERIOD or self.draw.random() < 0.1)]
        if theirs is None or not alike:
            return node
        sides = ((node, owner, found), (other, theirs, self.draw.choice(alike)))
        arms = tuple(Project(input=side, columns=((self.fresh(), "owner", side.field(name).ref), (self.fresh(), PERIOD, shown.ref)))
                     for side, name, shown in sides)
        return UnionAll(parts=arms, columns=((self.fresh(), "owner"), (self.fresh(), PERIOD)))

    # -- tops

    def keys(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, GroupBy) and self.draw.random() < 0.5:
            return node.keys
        periods = [field.id for field in node.fields if field.name == PERIOD and self.draw.random() < 0.4]
        return tuple(dict.fromkeys((*periods, *super().keys(node))))


def pairs_plans(seed: int, entity: str, family: GrowingFamily) -> tuple[Node, ...]:
    """Four plans over one relation, or none."""
    builder = type("Drawn", (PairsBuilder,), {"growing": family.growing})
    return random_plans(seed, family.catalog(entity), family.kernel, builder)


def pairs_families(size: int) -> list[GrowingFamily]:
    """Worlds in which people have several rows in a period, by each kind of period; in some, one of the two tables does not grow."""
    beside = {"visits": frozenset({"visits"}), "scores": frozenset({"scores"})}
    worlds = (("crowded", Growing(period="month", rows=2)), ("crowded", Growing(period="week", rows=1)), ("twins", Growing(period="day", rows=2)),
              ("tame", Growing(period="quarter", rows=1)), ("crowded", Growing(period="year", rows=3, tables=beside["visits"])),
              ("small", Growing(period="month", rows=1, tables=beside["scores"])), ("crowded", Growing(period="day", rows=1, tables=beside["visits"])))
    return [GrowingFamily(grown(BAD[name](size), growing, size + at), name=f"{name} by {growing.period}") for at, (name, growing) in enumerate(worlds)]


# -- the law


def claimed(plan: GroupedSums, family: GrowingFamily) -> tuple[Certificate | None, Derived]:
    """The certificate in a period that the kernel has for a plan, and what it derives of the relations. Raises Disagreement where
    it confirms no certificate at all."""
    claims, whole = family.kernel._claims, certificate_of(plan, family)
    claims.begin()
    claims.relation(plan.input)
    if whole is None:
        return None, Derived(claims._found)
    claims.summary(plan, whole)
    return claims.in_period(plan, whole), Derived(claims._found)


def violations_of_pairs(plans: Sequence[Node], entity: str, family: GrowingFamily, moves: Counter[str] | None = None) -> list[Violation]:
    """All claims about relations of pairs, and about their sums, that do not hold; `moves` counts the plans with a certificate in a
    period whose rows moved, and those whose rows were in different cells."""
    seen, found = evaluate(plans, IN_A_PERIOD[entity], family), list[Violation]()
    for plan in plans:
        assert isinstance(plan, GroupedSums)
        certificate, derived = claimed(plan, family)
        for node in nodes(plan.input):
            found += [Violation(claim, node, detail, plan) for claim, detail in _broken_pairs(node, derived, seen)]
        if certificate is not None:
            found += [Violation(claim, plan, detail, plan) for claim, detail in _broken_sums(plan, certificate, seen)]
            if moves is not None and any(rows[id(plan)] != seen.full[id(plan)] for rows in seen.without.values()):
                moves["moved"] += 1
                moves["apart"] += certificate.disjoint_cells
                moves.update({type(node).__name__ for node in nodes(plan.input)})
    return found


def _broken_pairs(node: Node, derived: Derived, seen: Evaluation) -> Iterator[tuple[str, str]]:
    """Without an entity's rows of a period exactly those rows are gone that name it and are of that period, by each column that
    tells it."""
    told = period_certificate._told(node, derived)
    owner = None if told is None else derived.owner(node)
    if told is None or owner is None:
        return
    ids, full = [field.id for field in node.fields], seen.full[id(node)]
    gone = {key: full - rows[id(node)] for key, rows in seen.without.items()}
    for key, rows in seen.without.items():
        if rows[id(node)] - full:
            yield "pairs", f"without {key}, rows come"
        if any(row[ids.index(owner)] != str(key[0]) for row in gone[key]):
            yield "pairs", f"without {key}, rows of others go"
    for at in (ids.index(column) for column in period_certificate.period_columns(node, derived)):
        yield from _broken_column(at, ids.index(owner), full, gone)


def _broken_column(at: int, owner: int, full: Rows, gone: Mapping[Any, Rows]) -> Iterator[tuple[str, str]]:
    values: dict[Any, set[str | None]] = {}
    for (_, period), rows in gone.items():
        values.setdefault(period, set()).update(row[at] for row in rows)
    if any(len(found) > 1 or None in found for found in values.values()):
        yield "column", f"a period has several values: {values}"
    if len(set().union(*values.values())) < sum(map(len, values.values())):
        yield "column", f"periods have the same value: {values}"
    for (entity, period), rows in gone.items():
        of_both: Rows = Counter({row: many for row, many in full.items() if row[owner] == str(entity) and row[at] in values[period]})
        if of_both != rows:
            yield "column", f"without {entity} in {period}, other rows go than those of both"


def _broken_sums(plan: GroupedSums, certificate: Certificate, seen: Evaluation) -> Iterator[tuple[str, str]]:
    keys = [[field.id for field in plan.input.fields].index(key) for key in plan.keys]
    for key, rows in seen.without.items():
        before, after = seen.full[id(plan.input)], rows[id(plan.input)]
        if moved(before, after) > certificate.rows:
            yield "rows", f"without {key}, {moved(before, after)} rows move; claimed are {certificate.rows}"
        cells: Counter[Row] = Counter()
        for row, many in (before - after).items():
            cells[tuple(row[at] for at in keys)] += many
        if certificate.disjoint_cells and max(cells.values(), default=0) > 1:
            yield "apart", f"without {key}, two rows of one cell go"
    for key, summand, vector in sums_moved(plan, seen):
        of = certificate.summands[summand]
        if of.l1 is None or longer(vector, 1, of.l1) or longer(vector, 2, of.l2):
            yield "tally", f"without {key}, summand {summand} moves by {vector}; claimed is {of}"
