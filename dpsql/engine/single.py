"""One statement by itself: bound, bounded, compiled to a program, charged and run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsql.answers.answer import Answer, of_json
from dpsql.batch.plan_choice import NAMES as STRATEGIES
from dpsql.engine.charging import finished, paid
from dpsql.engine.parameters import Parameters, named
from dpsql.engine.session import Session
from dpsql.measurements import Request
from dpsql.mechanisms.all_mechanisms import NAMES
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.plan.identity import digest
from dpsql.plan.node import Node, Stability
from dpsql.plan.question import Question
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.options import Options, read_options
from dpsql.planning.program import Program, compile_question
from dpsql.planning.script import Released, declared_cells, script
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.statement import Query


def bound_to(query: Query, session: Session, parameters: Parameters) -> tuple[Question, Options]:
    """What is asked and on which terms: from the text, the policy and public tables."""
    options = read_options(query.options, default=session.price, confidence=session.confidence, known=(*NAMES, *RULES),
                           strategies=STRATEGIES)
    return bind(query, session.catalog, session.kernel, session.scratch, named(parameters, query)), options


def compiled(question: Question, options: Options, view: Node, known: Stability, session: Session) -> Program:
    """What will be done for a question over private rows, and for its scalar subqueries."""
    inside = options.inside(outer_public=known.public)
    first = [(scalar, *limited_view(scalar.question, inside, session.kernel, scalar.span)) for scalar in question.scalars]
    return compile_question(question, options, session.budget, session.kernel, view, known, first)


def idle(program: Program, session: Session) -> Answer:
    """The answer of a statement that asks nothing of the kernel: declared groups alone."""
    groups = Released(cells=declared_cells(program), aggregates={})
    return finished(program.question, program.options, groups, session)


def identity_of(program: Program, session: Session) -> str:
    """What tells a statement from others: the same one is answered once."""
    return digest(session.policy, program.question, program.options)


def charged(program: Program, text: str, session: Session) -> Answer:
    """The stored answer of the same statement, or a new one that is charged."""
    identity = identity_of(program, session)
    stored = session.ledger.stored(session.account, identity, session.kernel.version)
    if stored is not None:
        return of_json(stored).named([output.name for output in program.question.outputs])
    views = (program.view, *(below.view for _, below in program.first))
    made: Answer = paid(program_steps(program, session), program.cost, program.options, identity, text, session, views)
    return made


def program_steps(program: Program, session: Session) -> Generator[Request, Any, Answer]:
    """What a program asks, and the answer that is made of it."""
    released = yield from script(program, session.kernel, session.scratch)
    return finished(program.question, program.options, released, session, price=program.options.price)
