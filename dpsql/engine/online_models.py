"""CREATE ONLINE MODEL: from its text to a plan, charged once; the model is kept in the ledger like any answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accounting.allotment import budgets_by_account
from dpsql.accounting.reports import amount
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Bill, Charged, located
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.engine.synthesizing import check_name, coded_question, limited_rows, rows_left_out, shortened
from dpsql.errors import Unsupported
from dpsql.plan.identity import digest
from dpsql.plan.question import Question
from dpsql.planning.explain import Expected, Explanation, Measurement
from dpsql.planning.program import priced
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import OpenModel
from dpsql.synthesis.method import CodedColumn, CodedTable
from dpsql.synthesis.online_model import OnlineModel, OnlinePlan, model_of_json
from dpsql.synthesis.online_options import read_online_terms, usual_updates
from dpsql.types import Span

MOST_CELLS = 2**20  # of the histogram of a model


def opening(statement: OpenModel, session: Session, parameters: Parameters = ()) -> OpeningStatement:
    """The plan of the statement; no private rows are read. Raises a located error if it is wrong."""
    with located(statement.text):
        terms = read_online_terms(statement.options, default=session.price)
        price = priced(terms.options.price, session.budget, terms.options.span)
        terms = replace(terms, options=replace(terms.options, price=price))
        if session.catalog.entity.minimum_frequency > 1:
            raise Unsupported("the policy has a minimum frequency, and an online model shows counts of any group",
                              code="synthesis", span=statement.span, try_="GROUP BY queries, whose small groups are withheld")
        question, forms = coded_question(statement.query, session, terms.bins, parameters)
        view, known = limited_rows(question, session, terms.options, span_of(statement.query.tree))
        table = CodedTable(view=view, rows=known.rows or 0, columns=tuple(
            CodedColumn(column=key.column, name=form.name, values=key.values)
            for key, form in zip(question.keys, forms, strict=True)))
        _check_size(table, span_of(statement.query.tree))
        allotted = budgets_by_account(price)[-1].part(Fraction(1))
        plan = OnlinePlan(name=statement.name, table=table, forms=forms, terms=terms, adds=bool(known.owners), allotted=allotted,
                          updates=terms.updates or usual_updates(allotted), statement=statement.text,
                          notes=rows_left_out(question, view, session))
        made = OpeningStatement(plan=plan, question=replace(question, view=view), text=statement.text, session=session)
        check_name(statement.name, made, statement.span)
        return made


def _check_size(table: CodedTable, span: Span | None) -> None:
    cells = table.domain.cells(table.domain.columns)
    if cells > MOST_CELLS:
        largest = max(table.columns, key=lambda column: len(column.values))
        raise Unsupported(
            f"these columns have {cells:,} combinations of values, and an online model has {MOST_CELLS:,} at most",
            code="too-large", span=span, subject=largest.name, try_=f"fewer columns; bins = 8 among the OPTIONS, where there are "
            f"numbers; a coarser expression of {largest.name}, which has {len(largest.values)} values; or CREATE SYNTHETIC TABLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningStatement(Charged[OnlineModel]):
    """The statement: what it will do, and the model, new or as it was opened before."""

    plan: OnlinePlan
    question: Question

    @property
    def identity(self) -> str:
        return digest(self.session.policy, "online", self.plan.name, self.question, self.plan.terms, self.plan.forms)

    def explain(self) -> Explanation:
        plan, session = self.plan, self.session
        domain, updates, reach = plan.table.domain, plan.updates, plan.reach(0.95)
        alone, spread = 1.96 * plan.independent_error, 1.96 * math.sqrt(plan.noise.variance)
        pays = ("a model pays" if alone >= reach else "a model does not pay; it would for more counts, as in queries = 100000")
        told = (f"up to {updates:,} counts that are far from the model: within {spread:,.4g}",
                f"other counts: within {reach:,.4g} of the model",
                f"{plan.terms.queries:,} counts with noise of their own, for the same price: within {alone:,.4g}, so {pays}",
                f"after {updates:,} of the first kind, the model answers by itself, and no accuracy is promised")
        return Explanation(
            entity=session.catalog.entity.name, steps=shortened(plan.table.view, session), rewrites=(), stages=(),
            measurements=(Measurement(what="the columns one by one, then counts that are far from the model",
                                      price=amount(plan.allotted), aggregates=(plan.name,), mechanism="pmw",
                                      noise="discrete, on counts", about=told, against={}),),
            expected=(Expected(aggregate="COUNT(*) that is measured", error=math.sqrt(plan.noise.variance), named=""),),
            groups=f"{len(domain.columns)} columns of {domain.cells(domain.columns):,} combinations of listed values",
            cost=str(plan.terms.options.price), left=tuple(left_in_budget(session)), stored=self.is_stored, notes=plan.notes)

    def answer(self) -> OnlineModel:
        with located(self.text):
            return self.stored_or_paid()

    def read(self, stored: str) -> OnlineModel:
        return model_of_json(stored)

    def bill(self) -> Bill:
        return Bill(steps=self.plan.steps(self.identity), cost=self.plan.allotted, options=self.plan.terms.options,
                    views=(self.plan.table.view,))
