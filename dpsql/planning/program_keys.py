"""Keys whose values are not declared, and the rules that select which of their groups are shown."""

from __future__ import annotations

from dpsql.errors import Unsupported
from dpsql.frozen import replace
from dpsql.mechanisms.select.undeclared_keys import KeyChoice, choices_for_rows, key_choices
from dpsql.planning.entity_columns import names_one_entity
from dpsql.planning.groups import not_listed
from dpsql.planning.program import Program
from dpsql.trusted.plan.node import Stability
from dpsql.types import Type


def with_rules(program: Program) -> Program:
    """The program with the rules that select undeclared keys, both its own and those of its scalar subqueries."""
    return replace(_with_rule(program), first=tuple((scalar, _with_rule(below)) for scalar, below in program.first))


def _with_rule(program: Program) -> Program:
    """The program with the rule that selects its undeclared keys, if it has any."""
    if not program.undeclared_keys:
        return program
    first = program.undeclared_keys[0]
    name, span, because = first.name, first.span, not_listed(program.question, first)
    between = f"WHERE {name} BETWEEN 1 AND 100, " if program.known.owner is None and first.type is Type.BIGINT else ""
    if program.known.rows is None and program.known.owner is None:
        raise Unsupported(f"{because}, and rows here belong to several entities each, so that one of "
                          "them could be in any number of groups", code="no-owner", span=span, subject=name,
                          try_=f"{between}values = [...] for the column in the policy, or OPTIONS (bound = 'frequency', "
                          "max_frequency = 10)")
    _check_entities(program)
    if not program.allotted.delta:
        raise Unsupported(f"{because}, so which of them occur is private, and selecting them needs a delta", code="no-delta",
                          span=span, subject=name,
                          try_=f"{between}OPTIONS (epsilon = 0.5, delta = 1e-6) where the budget has a delta, or values = [...] "
                          "for the column in the policy")
    found = rules_of(program, program.known)
    named = [choice for choice in found if choice.name in program.options.mechanisms]
    if not found:
        raise Unsupported("the price is too small to select groups", code="price", span=span, try_="a larger epsilon or delta")
    return replace(program, rule=(named or list(found))[0])


def _check_entities(program: Program) -> None:
    """Raises Unsupported if each group has rows of only one entity, so that none could be shown."""
    known, keys = program.known, program.question.keys
    alone = [key for key in program.undeclared_keys if key.column in known.owners][:1]
    if known.owner is not None and names_one_entity(program.view, [key.column for key in keys]):
        alone = list(keys)
    if alone:
        names, first = ", ".join(key.name for key in alone), program.undeclared_keys[0]
        raise Unsupported(f"each group of {names} has rows of only one entity, and such groups are never shown",
                          code="entity-group", span=first.span, subject=first.name,
                          try_=f"(SELECT {names}, COUNT(*) AS n FROM ... GROUP BY {names}) as a subquery, and AVG(n) or another "
                          "aggregate over it")


def rules_of(program: Program, known: Stability) -> tuple[KeyChoice, ...]:
    """The rules that can select undeclared keys of rows with this stability, the best one first; empty if the price is too
    small."""
    price = program.stages["keys"]
    return key_choices(price, program.groups) if known.owner is not None else choices_for_rows(price, known.rows or 1)
