"""Statements that are SQL over the released results of inner questions: these are charged together, and the SQL around them is
free."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsql.answers.answer import Answer, of_json, told_withheld
from dpsql.answers.described_columns import DescribedColumn
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.parameters import Parameters, given_values
from dpsql.engine.session import Session
from dpsql.engine.single import compiled
from dpsql.engine.synthetic_notes import notes_on_public_parts, synthetic_notes
from dpsql.errors import OptionError
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.all_mechanisms import NAMES
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.explain import Explanation, explained, steps
from dpsql.planning.left_out import left_out
from dpsql.planning.options import Options, read_options
from dpsql.planning.program import Program
from dpsql.planning.script import parts_released
from dpsql.postprocessing.around_released import AroundReleased, bind_around
from dpsql.postprocessing.around_rows import columns_of, composed, loaded
from dpsql.postprocessing.row_identity import moved
from dpsql.questions.all_aggregates import AGGREGATES, Kind
from dpsql.questions.identity import digest
from dpsql.questions.question import Output, Question, Scalar
from dpsql.questions.released_rows import GroupsOfReleased
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Query
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.certificate import stabilities
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Literal
from dpsql.trusted.plan.node import Field, bottom_up
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type

ROWS = "those of the SQL over released rows, which is exact except for the released numbers"


def around_released(query: Query, session: Session, parameters: Parameters) -> AroundStatement | AroundPublic | None:
    """The plan of a statement that is SQL over released rows; None if it is not. Raises a located error if it is wrong."""
    with located(query.text):
        values = given_values(query, parameters)
        around = bind_around(query, session.catalog, session.kernel, session.scratch, values)
        if around is None or not meant(around):
            return None
        options = read_options(query.options, default=session.price, confidence=session.confidence, known=(*NAMES, *RULES))
        if query.goals:
            raise OptionError("an accuracy applies to released numbers, not to SQL over them", code="accuracy",
                              span=query.goals[0].span, try_="the query inside by itself, or a price: OPTIONS (epsilon = 0.5)")
        if not around.scalars:
            return AroundPublic(around=around, options=options, text=query.text, session=session)
        question = released_first(around.scalars)
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        program = compiled(question, options, view, known, session)
    return AroundStatement(around=around, program=program, text=query.text, session=session)


def released_first(scalars: tuple[Scalar, ...]) -> Question:
    """A question that reads no rows of its own, only values that are released first."""
    return Question(view=_NO_ROWS, keys=(), aggregates=(), scalars=scalars, outputs=(
        Output(name="one", expr=Literal(value=1, type=Type.BIGINT)),))


def meant(around: AroundReleased) -> bool:
    """Whether aggregates over the released rows are meaningful. They are not if the rows were chosen by key selection, if they
    are grouped by noisy numbers, or if they are only counted: that would count all declared groups, with or without rows."""
    selected = {name for name, table in around.tables.items() if any(key.domain is None for key in table.question.keys)}
    noisy = around.measured
    for node in bottom_up(around.rows.node):
        if isinstance(node, GroupsOfReleased):
            below, above = moved(node.input, noisy).columns, moved(node, noisy).columns
            read = {scan.table.name for scan in bottom_up(node) if isinstance(scan, Scan)}
            if read.isdisjoint(around.tables):
                continue  # public rows are counted exactly
            if read & selected or any(key in below and node.env[key].type.numeric for key in node.keys):
                return False
            if node.calls and all(AGGREGATES[call.function].kind is Kind.COUNT and call.id not in above for call in node.calls):
                return False
    return True


_NO_ROWS = Constants(columns=(Field(id="none", name="one", facts=Facts(type=Type.BIGINT, nullable=False)),), rows=((1,),))


class AroundStatement(Charged[Answer]):
    """SQL over released rows."""

    around: AroundReleased
    program: Program

    @property
    def identity(self) -> str:
        return digest(self.session.policy, "around", self.program.question, self.program.options, self.around.identity)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(self.around)

    def explanation(self) -> Explanation:
        session, entity = self.session, self.session.catalog.entity.name
        told = explained(self.program, session.kernel, entity=entity, left=left_in_budget(session))
        node = self.around.rows.node
        return replace(told, steps=tuple(steps(node, stabilities(node, session.kernel), 0, entity)), groups=ROWS,
                       notes=self._left_out())

    def _left_out(self) -> tuple[str, ...]:
        notes = [note for _, below in self.program.first for note in left_out(below, self.session.catalog, self.session.kernel)]
        if any(isinstance(node, GroupsOfReleased | Window) for node in bottom_up(self.around.rows.node)) and any(
                key.domain is not None for table in self.around.tables.values() for key in table.question.keys):
            notes.append("the released rows include declared groups without rows, with numbers near 0")
        notes += notes_on_public_parts(self.program, self.session)
        notes += synthetic_notes(self.around.rows.node, self.session)
        return tuple(dict.fromkeys(notes))

    def answer(self) -> Answer:
        with located(self.text):
            return self.stored_or_paid()

    def read(self, stored: str) -> Answer:
        return of_json(stored).named([name for name, _ in self.around.rows.shown])

    def bill(self) -> ChargeRequest:
        program = self.program
        return ChargeRequest(steps=self._steps(self._left_out()), cost=program.cost, options=program.options,
                             views=[below.view for _, below in program.first])

    def _steps(self, left: tuple[str, ...]) -> Generator[Request, Any, Answer]:
        program, session, tables = self.program, self.session, self.around.tables
        released = yield from parts_released(program, tables, session.kernel, session.scratch)
        questions = {scalar.awaited.id: below.question for scalar, below in program.first}
        rows, notes = {}, list[str]()
        for name, table in tables.items():
            made = replace(table, question=questions[name])
            rows[name], withheld = loaded(made, released[name].cells, released[name].aggregates, session.scratch,
                                          released[name].singles)
            notes += [*released[name].notes, *told_withheld(questions[name], withheld, len(released[name].cells))]
        return composed(self.around, rows, session.kernel, confidence=float(program.options.confidence),
                        price=str(program.price_charged), notes=tuple(dict.fromkeys((*notes, *left))),
                        seed=int(self.identity[:16], 16))


class AroundPublic(Frozen):
    """SQL over public tables in a form that is supported only as SQL over released rows, such as windows and unions. It is free
    and exact."""

    around: AroundReleased
    options: Options
    text: str
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(self.around)

    def explain(self) -> Explanation:
        node, session = self.around.rows.node, self.session
        return Explanation(entity=session.catalog.entity.name, rewrites=(), stages=(), measurements=(), expected=(), left=(),
                           steps=tuple(steps(node, stabilities(node, session.kernel), 0, session.catalog.entity.name)),
                           groups=ROWS, cost="nothing: only public tables are read", notes=synthetic_notes(node, session))

    def answer(self) -> Answer:
        with located(self.text):
            return composed(self.around, {}, self.session.kernel, confidence=float(self.options.confidence), price="",
                            notes=synthetic_notes(self.around.rows.node, self.session), seed=0)
