"""Every rewrite rule is listed, and one that loses a column does not go unseen."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.plan import rules
from dpsql.plan.expr.facts import facts
from dpsql.plan.expr.nodes import Literal
from dpsql.plan.node import Field, InvalidPlan, Node
from dpsql.plan.operators.constants import Constants
from dpsql.plan.operators.project import Project
from dpsql.plan.rules.all_rules import RULES
from dpsql.plan.rules.rule import rule
from dpsql.types import Type

FOLDER = Path(str(rules.__file__)).parent


def test_every_rule_is_listed_under_a_verb_phrase() -> None:
    found = set()
    for path in FOLDER.glob("*.py"):
        module = importlib.import_module(f"dpsql.plan.rules.{path.stem}")
        found |= {made for _, made in inspect.getmembers(module, inspect.isfunction)
                  if hasattr(made, "__wrapped__") and made.__module__ == module.__name__}
    assert found == set(RULES)
    assert len({made.__name__ for made in RULES}) == len(RULES)
    assert all("_" in made.__name__ for made in RULES), "a verb and what it is done to"


@rule
def lose_a_column(plan: Node) -> Node:
    assert isinstance(plan, Project)
    return replace(plan, columns=plan.columns[1:])


def test_a_rule_that_loses_a_column_is_stopped() -> None:
    one, two = (Literal(value=value, type=Type.BIGINT) for value in (1, 2))
    row = Constants(columns=(Field(id="x", name="x", facts=facts(one, {})),), rows=((1,),))
    plan = Project(input=row, columns=(("a", "a", one), ("b", "b", two)))
    with pytest.raises(InvalidPlan, match="the rule lose_a_column lost a column"):
        lose_a_column(plan)
