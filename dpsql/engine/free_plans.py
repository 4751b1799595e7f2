"""Plans that read no private rows, and so cost nothing: public tables, declared groups, EXPLAIN, and lists of public facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import OF_EXPLANATION, DescribedColumn, columns_of, of_question
from dpsql.answers.listing import Listing, Tabular
from dpsql.engine.charging import compose_answer, located
from dpsql.engine.plan import Plan
from dpsql.engine.session import Session
from dpsql.frozen import Frozen, replace
from dpsql.planning.options import Options
from dpsql.planning.public import exact
from dpsql.planning.script import Released
from dpsql.questions.question import Question
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.node import Node

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation


class Public(Frozen):
    """A statement over public tables: it is free and exact."""

    question: Question
    options: Options
    view: Node
    text: str
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        from dpsql.planning.explain import explained_public

        with located(self.text):
            told = explained_public(self.question, self.view, self.session.kernel, entity=self.session.catalog.entity.name)
            return replace(told, notes=self._notes())

    def answer(self) -> Answer:
        with located(self.text):
            cells, aggregates = exact(self.question, self.view, self.session.kernel)
            released = Released(cells=cells, aggregates=aggregates, notes=self._notes())
            return compose_answer(self.question, self.options, released, self.session)

    def _notes(self) -> tuple[str, ...]:
        if not self.session.released and not self.session.series:
            return ()
        from dpsql.engine.synthetic_notes import synthetic_notes  # loaded only where there are synthetic tables

        return synthetic_notes(self.view, self.session, self.question)


ALL_DECLARED = "these are all groups that the policy declares, with rows or without; COUNT(*) tells how many rows each has"


class DeclaredGroups(Frozen):
    """A statement that shows declared groups and no aggregate, so that it reads no private rows.

    `beside` makes the plan that would answer aggregates of these groups; EXPLAIN shows that plan.
    """

    question: Question
    options: Options
    cells: Cells
    text: str
    session: Session
    beside: Callable[[], Plan]

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        return self.beside().explain()

    def answer(self) -> Answer:
        with located(self.text):
            return compose_answer(self.question, self.options, Released(cells=self.cells, aggregates={}, notes=(ALL_DECLARED,)),
                                  self.session)


class Explaining(Frozen):
    """EXPLAIN PRIVACY of a statement."""

    plan: Plan

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_EXPLANATION)

    def explain(self) -> Explanation:
        return self.plan.explain()

    def answer(self) -> Explanation:
        return self.plan.explain()


class Listings(Frozen):
    """SHOW, DESCRIBE and DROP: lists of what is public. `titles` are the columns where they are known without listing."""

    listed: Callable[[], Tabular]
    titles: tuple[DescribedColumn, ...] | None = None

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        if self.titles is not None:
            return self.titles
        table = self.listed().as_table()
        return columns_of(table.columns) if isinstance(table, Listing) else ()

    def explain(self) -> Explanation:
        raise TypeError("a listing has no price")

    def answer(self) -> Tabular:
        return self.listed()
