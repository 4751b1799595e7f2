"""Grouping sets that a workload does not measure together: every set is released by itself, for a share of the price.

If each entity has a limited number of rows, the counts and sums of all sets are sums over one table of cells, and a workload
measures them together. Quantiles, variances, modes and numbers of distinct values are no such sums, and undeclared keys have no
such cells. If a row belongs to several entities, what an entity adds is limited to a level, for each group separately: a total is
then not the sum of its groups, but has a level of its own, and far less is cut off it than off all of its groups together. So
each set is a question of its own, like those inside SQL over released rows (`engine.around_statements`); the groups of all sets
are shown one set after the other, and all are charged together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.answers.answer import Answer, of_json
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.around_statements import released_first
from dpsql.engine.charging import Charged, ChargeRequest, compose_answer, located, with_minimum_frequency
from dpsql.engine.session import Session
from dpsql.engine.single import compiled
from dpsql.estimates import joined
from dpsql.frozen import replace
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.groups import kept_keys, levels_of
from dpsql.planning.left_out import left_out
from dpsql.planning.options import Options
from dpsql.planning.program import Program
from dpsql.planning.script import Released, parts_released
from dpsql.questions.identity import digest
from dpsql.questions.question import Question, Scalar
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.certificate import stabilities
from dpsql.trusted.plan.expr.nodes import Placeholder
from dpsql.trusted.plan.node import Node, Stability
from dpsql.types import ANY_NUMBER, Span, Type

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation


def set_by_set(question: Question, known: Stability, options: Options, text: str, span: Span | None,
               session: Session) -> SetBySet:
    """The plan of a statement whose grouping sets are released separately. Raises Unsupported or OptionError, with a span."""
    sets = dict.fromkeys(kept_keys(question))
    asked = released_first((*question.scalars, *(_one_of(question, kept, span) for kept in sets)))
    view, public = limited_view(asked, options, session.kernel, span)
    return SetBySet(question=with_minimum_frequency(question, known, session), text=text, session=session,
                    program=compiled(asked, options, view, public, session))


def _one_of(question: Question, kept: tuple[int, ...], span: Span | None) -> Scalar:
    """The question of one set."""
    keys = tuple(question.keys[i] for i in kept)
    named = Placeholder(id=_name(kept), type=Type.BIGINT, physical=ANY_NUMBER, declared=ANY_NUMBER,
                        text=f"GROUP BY ({', '.join(key.name for key in keys)})")
    return Scalar(awaited=named, span=span, question=replace(
        question, keys=keys, sets=None, levels=(), outputs=(), having=None, ordering=(), limit=None, offset=0, distinct=False,
        scalars=()))


def _name(kept: tuple[int, ...]) -> str:
    return f"set {' '.join(map(str, kept))}"


class SetBySet(Charged[Answer]):
    """A statement whose grouping sets are released one by one."""

    question: Question
    program: Program

    @property
    def identity(self) -> str:
        return digest(self.session.policy, "set by set", self.question, self.program.options)

    @property
    def reads_rows(self) -> bool:
        """Whether private rows decide what is shown: aggregates, or groups that are not declared."""
        return bool(self.question.aggregates) or any(key.domain is None for key in self.question.keys)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explanation(self) -> Explanation:
        from dpsql.planning.explain import explained, steps

        session, entity = self.session, self.session.catalog.entity.name
        told = explained(self.program, session.kernel, entity=entity, left=left_in_budget(session))
        view, sets = self.program.first[-1][1].view, kept_keys(self.question)
        cost = told.cost if self.reads_rows else "nothing: only declared groups are shown"
        return replace(told, steps=tuple(steps(view, stabilities(view, session.kernel), 0, entity)),
                       groups=f"those of {len(sets)} grouping sets, each released separately", notes=self._notes(), cost=cost)

    def _notes(self) -> tuple[str, ...]:
        program, session = self.program, self.session
        return *self.notes_on_periods(program.cost), *left_out(program, session.catalog, session.kernel)

    def answer(self) -> Answer:
        with located(self.text):
            return self.stored_or_paid()

    def read(self, stored: str) -> Answer:
        return of_json(stored).named([output.name for output in self.question.outputs])

    def bill(self) -> ChargeRequest:
        views, cost = self.queried()
        return ChargeRequest(steps=self._steps(self._notes()), cost=cost, options=self.program.options, views=views)

    def queried(self) -> tuple[Sequence[Node], Cost]:
        return [below.view for _, below in self.program.first], self.program.cost

    def _steps(self, left: tuple[str, ...]) -> Generator[Request, Any, Answer]:
        question, program, session = self.question, self.program, self.session
        names = [_name(kept) for kept in kept_keys(question)]
        found = yield from parts_released(program, names, session.kernel, session.scratch)
        cells = [cell for kept, name in zip(kept_keys(question), names, strict=True)
                 for cell in _placed(question, kept, found[name])]
        aggregates = {call.id: joined([found[name].aggregates[call.id] for name in names]) for call in question.aggregates}
        notes = dict.fromkeys(note for name in names for note in found[name].notes)
        released = Released(cells=tuple(cells), aggregates=aggregates, notes=(*notes, *left),
                            singles=found[names[-1]].singles)
        return compose_answer(question, program.options, released, session, price=program.price_charged)


def _placed(question: Question, kept: tuple[int, ...], released: Released) -> Generator[tuple[Any, ...], None, None]:
    """The groups of one set with a value for each key, NULL for those that are summed out, and then the values of GROUPING."""
    level = levels_of(question, kept)
    for cell in released.cells:
        values = dict(zip(kept, cell, strict=True))
        yield (*(values.get(i) for i in range(len(question.keys))), *level)
