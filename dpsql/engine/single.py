"""One statement by itself: bound, bounded, compiled to a program, charged and run."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.answers.answer import ALL_ROWS, Answer, of_json
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, compose_answer, located, with_minimum_frequency
from dpsql.engine.parameters import Parameters, given_values
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.mechanisms.all_mechanisms import NAMES
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.compilation import compile_question
from dpsql.planning.left_out import left_out
from dpsql.planning.options import Options, read_options
from dpsql.planning.program import Program
from dpsql.planning.script import script
from dpsql.questions.identity import digest
from dpsql.questions.question import Question, Scalar
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.statement import Query
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node, Stability

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation


def strategies() -> Sequence[str]:
    """The names of strategies for workloads."""
    from dpsql.batch.plan_choice import NAMES

    return NAMES


def fits() -> Sequence[str]:
    """The names of the methods that fit tables to noisy answers."""
    from dpsql.microdata.all_fits import METHODS

    return tuple(METHODS)


def bound_to(query: Query, session: Session, parameters: Parameters) -> tuple[Question, Options]:
    """The question that a query asks, and its options, derived from the text, the policy and public tables.

    Raises a located error if the query is wrong.
    """
    options = read_options(query.options, default=session.price, confidence=session.confidence, known=(*NAMES, *RULES),
                           strategies=strategies, fits=fits)
    none = isinstance(parameters, tuple) and not parameters and not query.parameters  # as of most statements: a shorter walk
    values = {} if none else given_values(query, parameters)
    return bind(query, session.catalog, session.kernel, session.scratch, values), options


def compiled(question: Question, options: Options, view: Node, known: Stability, session: Session) -> Program:
    """The program for a question over private rows and for its scalar subqueries. Raises Unsupported or OptionError."""
    first = [_first(scalar, options.inside(outer_public=known.public), session) for scalar in question.scalars]
    return compile_question(question, options, session.budget, session.kernel, view, known, first)


def _first(scalar: Scalar, options: Options, session: Session) -> tuple[Scalar, Node, Stability]:
    """A scalar subquery, the rows that it reads, and their stability."""
    view, known = limited_view(scalar.question, options, session.kernel, scalar.span)
    return replace(scalar, question=with_minimum_frequency(scalar.question, known, session)), view, known


class SingleStatement(Charged[Answer]):
    """A statement over private rows, by itself.

    LIMIT and OFFSET take no part in what it is: the program is of the `whole` question, whose answer is stored with all of its
    rows, in their order; the rows at the places `shown` are taken from it. So the same statement with another LIMIT, as tools add
    it, is answered without a charge.
    """

    program: Program
    shown: slice

    @property
    def by_tables(self) -> bool:
        return True

    @cached_property
    def identity(self) -> str:
        return digest(self.session.policy, self.program.question, self.program.options)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.program.question)

    def explanation(self) -> Explanation:
        from dpsql.planning.explain import explained

        told = explained(self.program, self.session.kernel, entity=self.session.catalog.entity.name,
                         left=left_in_budget(self.session))
        return replace(told, notes=self._notes)

    @cached_property
    def _notes(self) -> tuple[str, ...]:
        program, session = self.program, self.session
        notes = *self.notes_on_periods(program.cost), *left_out(program, session.catalog, session.kernel)
        if not session.released and not session.series:
            return notes
        from dpsql.engine.synthetic_notes import notes_on_public_parts  # loaded only where there are synthetic tables

        return *notes, *notes_on_public_parts(program, session)

    def answer(self) -> Answer:
        with located(self.text):
            made = self.stored_or_paid_at_once(self.bill())
        return made if self.shown == ALL_ROWS else made.at(self.shown)

    def read(self, stored: str) -> Answer:
        return of_json(stored).named([output.name for output in self.program.question.outputs])

    def bill(self) -> ChargeRequest:
        program = self.program
        views, cost = self.queried()
        return ChargeRequest(steps=_steps(program, self.session, self._notes), cost=cost, options=program.options, views=views)

    def first_request(self) -> Request | None:
        return next(_steps(self.program, self.session, ()), None)

    def queried(self) -> tuple[Sequence[Node], Cost]:
        return (self.program.view, *(below.view for _, below in self.program.first)), self.program.cost


def program_steps(program: Program, session: Session) -> Generator[Request, Any, Answer]:
    """The requests of a program, and the answer made from them. What the answer leaves out is determined at once, before any
    charge."""
    return _steps(program, session, left_out(program, session.catalog, session.kernel))


def _steps(program: Program, session: Session, notes: tuple[str, ...]) -> Generator[Request, Any, Answer]:
    released = yield from script(program, session.kernel, session.scratch)
    released = replace(released, notes=(*released.notes, *notes)) if notes else released
    return compose_answer(program.question, program.options, released, session, price=program.price_charged)
