"""Rules change how a question is asked, not its answer: the rows before and after, on random plans and worlds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from support.laws.asked import question_of, view_of
from support.laws.bad_worlds import KINDS
from support.laws.family import ENTITIES, Family, Row, catalog, printed
from support.laws.law import exact_rows
from support.laws.random_plans import Builder
from support.laws.texts import HOUSEHOLD, TEXTS

from dpsql.errors import Error
from dpsql.questions.rules.keep_marks import keep_marks
from dpsql.questions.rules.limit_keys import limit_keys
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.push_equalities import push_equalities
from dpsql.questions.rules.push_filters import push_filters
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import TRUE, Call, Expr, Literal, Ref, all_of, conjuncts
from dpsql.trusted.plan.node import InvalidPlan, Node, fold
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import LISTED
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type

CASES = 60


@pytest.fixture(scope="module")
def families() -> Iterator[list[Family]]:
    made = [Family(kind(3), name=name, entities=()) for name, kind in KINDS.items()]
    yield made
    for family in made:
        family.close()


def drawn(seed: int, family: Family) -> tuple[Builder, Node] | None:
    builder = Builder(random.Random(seed), catalog(ENTITIES[seed % 2]), family.kernel)
    try:
        plan = builder.relation(builder.draw.randint(1, 3))
        stability(plan, family.kernel)
    except (InvalidPlan, ValueError):
        return None
    return (builder, plan) if all(map(is_settled, below(plan))) else None


def is_settled(node: Node) -> bool:
    """Whether an engine has no choice, and the order of rows does not change with the columns that are at hand."""
    return node.keyed if isinstance(node, Window) else not isinstance(node, Truncate | TruncateKeys) or node.ranking.total


def keeps_bound(before: int | None, after: int | None, asked: Node, pruned: Node) -> bool:
    """Whether a bound is the same, or smaller where window functions are not computed because nothing reads them."""
    counted = [sum(len(node.functions) for node in below(plan) if isinstance(node, Window)) for plan in (asked, pruned)]
    smaller = after is not None and (before is None or after < before)
    return before == after or (smaller and counted[1] < counted[0])


def below(plan: Node) -> list[Node]:
    return fold(plan, lambda node, found: [node, *(part for parts in found for part in parts)])


def rows(plan: Node, family: Family) -> Counter[Row]:
    return exact_rows(family.rows(printed(plan)))


# -- prune_columns


def test_pruning_keeps_what_is_asked_for(families: list[Family], effort: float) -> None:
    pruned = 0
    for seed in range(int(CASES * effort)):
        family = families[seed % len(families)]
        found = drawn(seed, family)
        if found is None:
            continue
        builder, plan = found
        kept = builder.draw.sample(plan.fields, builder.draw.randint(1, len(plan.fields)))
        asked = Project(input=plan, columns=tuple((builder.fresh(), field.name, field.ref) for field in kept))
        after = prune_columns(asked)
        assert after.fields == asked.fields
        assert rows(after, family) == rows(asked, family), f"seed {seed}"
        assert keeps_bound(stability(asked, family.kernel).rows, stability(after, family.kernel).rows, asked, after)
        pruned += len(printed(after)) < len(printed(asked))
    assert pruned > CASES * effort / 3


def test_pruning_keeps_limits_and_owners(families: list[Family]) -> None:
    """The plans of statements, limited after and before they are pruned."""
    for entity in ENTITIES:
        for number, text in enumerate(TEXTS if entity == "person" else (*TEXTS, *HOUSEHOLD)):
            family = families[number % len(families)]
            try:
                question = question_of(text, entity, family)
            except Error:
                continue
            known = [stability(plan, family.kernel) for plan in (limit_rows(question.view), view_of(question))]
            assert known[0].owner == known[1].owner, text
            assert keeps_bound(known[0].rows, known[1].rows, question.view, view_of(question)), text


@pytest.mark.parametrize("text", [
    "SELECT COUNT(*) FROM (SELECT clinic FROM visits UNION ALL SELECT clinic FROM clinics) AS u",
    "SELECT COUNT(*) FROM people, (SELECT 1 AS one FROM clinics) AS c", "SELECT COUNT(*) FROM clinics CROSS JOIN people",
    "SELECT COUNT(*) FROM people CROSS JOIN (SELECT COUNT(*) AS n, MIN(beds) AS b FROM clinics) AS c",
    "SELECT COUNT(*) FROM (SELECT clinic FROM (SELECT clinic, cost FROM visits) AS a) AS b",
])
def test_rows_may_be_all_that_is_asked_for(text: str, families: list[Family]) -> None:
    question = question_of(text, "person", families[0])
    assert rows(prune_columns(question.view), families[0]).total() == rows(question.view, families[0]).total() > 0


# -- push_equalities


def test_pushed_equalities_filter_the_same_rows(families: list[Family], effort: float) -> None:
    pushed = 0
    for seed in range(int(CASES * effort)):
        family = families[seed % len(families)]
        builder = Builder(random.Random(seed), catalog(ENTITIES[seed % 2]), family.kernel)
        try:
            plan = builder.filter(_joined(builder))
            stability(plan, family.kernel)
        except InvalidPlan:
            continue
        plan = Filter(input=plan.inputs[0], condition=_equalities(builder, plan))
        after = push_equalities(plan)
        assert rows(after, family) == rows(plan, family), f"seed {seed}"
        pushed += after != plan
    assert pushed > CASES * effort / 3


def _joined(builder: Builder) -> Node:
    """Two to four relations side by side; some outer joins, some conditions."""
    plan = builder.leaf()
    for _ in range(builder.draw.randint(1, 3)):
        other = builder.leaf()
        join = Join(left=plan, right=other, condition=Literal(value=True, type=Type.BOOLEAN),
                    keep_left=builder.draw.random() < 0.2)
        plan = join if builder.draw.random() < 0.7 else Join(left=other, right=plan, condition=join.condition)
    return plan


def _equalities(builder: Builder, plan: Node) -> Expr:
    assert isinstance(plan, Filter)
    condition = plan.condition
    for _ in range(builder.draw.randint(1, 3)):
        a = builder.draw.choice(plan.fields)
        b = builder.draw.choice([field for field in plan.fields if field.facts.type is a.facts.type])
        equal = Call(function="=", args=(a.ref, b.ref), type=Type.BOOLEAN)
        condition = Call(function="and", args=(condition, equal), type=Type.BOOLEAN)
    return condition


def test_equalities_of_where_become_conditions_of_the_join_they_link(families: list[Family]) -> None:
    text = ("SELECT COUNT(*) FROM people p, visits v, clinics c "
            "WHERE p.person_id = v.person_id AND v.clinic = c.clinic AND p.age > 1")
    view = question_of(text, "person", families[0]).view
    (kept,) = [node for node in below(view) if isinstance(node, Filter)]
    outer, inner = (node for node in below(view) if isinstance(node, Join))
    names = {field.id: field.name for node in below(view) for field in node.fields}

    def equated(condition: Expr) -> list[tuple[str, ...]]:
        return [tuple(names[arg.column] for arg in part.args if isinstance(arg, Ref))
                for part in conjuncts(condition) if isinstance(part, Call) and part.function == "="]

    assert equated(inner.condition)[0] == ("person_id", "person_id")
    assert equated(outer.condition)[0] == ("clinic", "clinic")
    assert not equated(kept.condition)


@pytest.mark.parametrize("rule", [push_filters, keep_marks], ids=lambda rule: rule.__name__)
def test_moved_conditions_keep_the_same_rows(rule: Callable[[Node], Node], families: list[Family], effort: float) -> None:
    moved, effort = 0, max(1, effort)
    for seed in range(int(2 * CASES * effort)):
        family = families[seed % len(families)]
        found = drawn(seed, family)
        if found is None:
            continue
        builder, plan = found
        marks = [field.ref for field in plan.fields if field.name == LISTED]
        conditions = [builder.expr(plan, Type.BOOLEAN, 1), *(Call(function="not", args=(mark,), type=Type.BOOLEAN) for mark in marks)]
        asked: Node = Filter(input=plan, condition=all_of(conditions) or TRUE)
        after = rule(asked)
        assert after.env.keys() == asked.env.keys()
        assert rows(after, family) == rows(asked, family), f"seed {seed}"
        moved += after != asked
    assert moved > CASES * effort / 20


@pytest.mark.slow
def test_limits_of_keys_that_are_wide_enough_keep_all_rows(families: list[Family], effort: float) -> None:
    limited = 0
    for seed in range(int(3 * CASES * effort)):
        family = families[seed % len(families)]
        found = drawn(seed, family)
        if found is None:
            continue
        _, plan = found
        bounded = limit_rows(plan, lambda scan: 10**6)
        after = limit_keys(bounded, family.kernel, lambda meeting: 10**6)
        assert [field.id for field in after.fields] == [field.id for field in plan.fields]
        assert rows(after, family) == rows(bounded, family), f"seed {seed}"
        limited += after != bounded
    assert limited > CASES * effort / 20


def test_nothing_is_pushed_below_an_outer_join(families: list[Family]) -> None:
    """WHERE drops padded rows, ON does not."""
    text = "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id WHERE p.age = v.year - 2000"
    view = question_of(text, "person", families[0]).view
    (join,) = [node for node in below(view) if isinstance(node, Join)]
    assert len(conjuncts(join.condition)) == 1


# -- limit_rows


@pytest.mark.parametrize("entity", ENTITIES)
def test_only_rows_beyond_a_limit_are_dropped(entity: str, families: list[Family]) -> None:
    dropped = 0
    for family in families:
        for table in catalog(entity).tables.values():
            if table.public or table.owner is None:
                continue
            ids = {name: f"c{i}" for i, name in enumerate(table.columns)}
            owner = ids.get(table.owner.column, "o") if not table.owner.steps else "o"
            scan = Scan(table=table, columns=tuple((column, name) for name, column in ids.items()), owners=(owner,))
            before, after = rows(scan, family), rows(limit_rows(scan), family)
            at = [field.id for field in scan.fields].index(owner)
            had, keeps = (Counter(row[at] for row in found.elements()) for found in (before, after))
            assert after <= before
            assert keeps == {name: count if table.rows is None else min(count, table.rows) for name, count in had.items()}
            dropped += before.total() - after.total()
    assert dropped > 0
