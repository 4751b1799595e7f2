"""Every rewrite rule is listed, and one that loses a column does not go unseen."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from dpsql.frozen import replace
from dpsql.questions import rules
from dpsql.questions.rebuilding import rebuild, updated
from dpsql.questions.rules.all_rules import RULES
from dpsql.questions.rules.rule import rule, rule_about
from dpsql.trusted.plan.expr.facts import facts
from dpsql.trusted.plan.expr.nodes import TRUE, Literal
from dpsql.trusted.plan.node import Field, InvalidPlan, Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Type

FOLDER = Path(str(rules.__file__)).parent


def test_every_rule_is_listed_under_a_verb_phrase() -> None:
    found = set()
    for path in FOLDER.glob("*.py"):
        module = importlib.import_module(f"dpsql.questions.rules.{path.stem}")
        found |= {made for _, made in inspect.getmembers(module, inspect.isfunction)
                  if hasattr(made, "__wrapped__") and made.__module__ == module.__name__}
    assert found == set(RULES)
    assert len({made.__name__ for made in RULES}) == len(RULES)
    assert all("_" in made.__name__ for made in RULES), "a verb and what it is done to"


@rule
def lose_a_column(plan: Node) -> Node:
    assert isinstance(plan, Project)
    return replace(plan, columns=plan.columns[1:])


@rule_about(Filter)
def keep_nothing(plan: Node) -> Node:
    raise AssertionError("a rule about filters is asked of a plan without any")


ONE, TWO = (Literal(value=value, type=Type.BIGINT) for value in (1, 2))
ROW = Constants(columns=(Field(id="x", name="x", facts=facts(ONE, {})),), rows=((1,),))
PLAN = Project(input=ROW, columns=(("a", "a", ONE), ("b", "b", TWO)))


def test_a_rule_is_asked_only_of_plans_that_it_is_about() -> None:
    assert keep_nothing(PLAN) is PLAN
    with pytest.raises(AssertionError):
        keep_nothing(Project(input=Filter(input=ROW, condition=TRUE), columns=PLAN.columns))


def test_what_does_not_change_stays_the_same_object() -> None:
    """What was derived of it stays with it."""
    assert rebuild(PLAN, lambda node: node) is PLAN
    changed = rebuild(PLAN, lambda node: replace(node, rows=((2,),)) if isinstance(node, Constants) else node)
    assert changed == replace(PLAN, input=replace(ROW, rows=((2,),)))
    assert updated(PLAN, input=ROW, columns=tuple(PLAN.columns)) is PLAN
    assert updated(PLAN, input=replace(ROW)) is not PLAN, "an equal input that may know other things"
    assert updated(PLAN, columns=PLAN.columns[:1]) == replace(PLAN, columns=PLAN.columns[:1])


def test_a_rule_that_loses_a_column_is_stopped() -> None:
    with pytest.raises(InvalidPlan, match="the rule lose_a_column lost a column"):
        lose_a_column(PLAN)
