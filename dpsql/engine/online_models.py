"""CREATE ONLINE MODEL: from its text to a plan, charged once; the model is kept in the ledger like any answer."""

from __future__ import annotations

from fractions import Fraction

from dpsql.answers.described_columns import OF_ONLINE_MODEL, DescribedColumn, columns_of
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.session import Session
from dpsql.engine.synthesizing import check_name, coded_question, limited_rows, named_once, rows_left_out, shortened
from dpsql.errors import Unsupported
from dpsql.frozen import replace
from dpsql.models.table_domain import most_numbers
from dpsql.planning.choose import budgets_by_account, price_charged
from dpsql.planning.explain import Explanation
from dpsql.planning.program import priced
from dpsql.questions.identity import digest
from dpsql.questions.question import Question
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import OpenModel
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.method import CodedColumn, CodedTable
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.net_mechanism import MOST_CANDIDATES, NetPlan, candidates
from dpsql.synthesis.online_model import OnlineModel, OnlinePlan, model_of_json
from dpsql.synthesis.online_options import OnlineTerms, read_online_terms, usual_updates
from dpsql.trusted.accounting.cost import Cost
from dpsql.types import Span

MOST_CELLS = 2**20  # of the histogram of a model


def opening(statement: OpenModel, session: Session) -> OpeningStatement:
    """The plan of a statement that opens an online model; no private rows are read. Raises a located error if it is wrong."""
    with located(statement.text):
        terms = read_online_terms(statement.options, default=session.price)
        price = priced(terms.options.price, session.budget, terms.options.span)
        terms = replace(terms, options=replace(terms.options, price=price))
        if session.catalog.entity.minimum_frequency > 1:
            raise Unsupported("the policy has a minimum frequency, and an online model shows counts of any group",
                              code="synthesis", span=statement.span, try_="GROUP BY queries, whose small groups are withheld")
        question, table, forms, owners = coded_rows(statement, terms, session)
        plan = _plan(statement, table, forms, terms, budgets_by_account(price)[-1].part(Fraction(1)), owners)
        plan = replace(plan, notes=rows_left_out(question, table.view, session))
        made = OpeningStatement(plan=plan, question=question, text=statement.text, session=session, span=statement.span)
        check_name(statement.name, made, statement.span)
        return made


def coded_rows(statement: OpenModel, terms: OnlineTerms, session: Session) -> tuple[Question, CodedTable, tuple[Form, ...], bool]:
    """The rows of a model: their query, the columns with their listed values, the forms of these, and whether an entity only adds
    rows. Raises a located error."""
    place = span_of(statement.query.tree)
    if statement.query.parameters:
        raise Unsupported("an online model cannot have parameters, as each count plans its statement again", code="parameters",
                          span=place, try_="the values themselves")
    question, forms = coded_question(statement.query, session, terms.bins, ())
    view, known = limited_rows(question, session, terms.options, place)
    table = CodedTable(view=view, rows=known.rows or 0, columns=tuple(
        CodedColumn(column=key.column, name=form.name, values=key.values)
        for key, form in zip(question.keys, forms, strict=True)))
    _check_size(table, place)
    return replace(question, view=view), table, forms, bool(known.owners)


def _plan(statement: OpenModel, table: CodedTable, forms: tuple[Form, ...], terms: OnlineTerms, allotted: Cost,
          owners: bool) -> OnlinePlan | NetPlan:
    """Raises Unsupported, located, if the domain is too large for the method."""
    if terms.method == "pmw":
        return OnlinePlan(name=statement.name, table=table, forms=forms, terms=terms, statement=statement.text, allotted=allotted,
                          updates=terms.updates or usual_updates(allotted), adds=owners)
    plan = NetPlan(name=statement.name, table=table, forms=forms, terms=terms, statement=statement.text, allotted=allotted)
    if plan.rows < 2:
        raise Unsupported(
            f"the net mechanism chooses among all small tables, and for {plan.cells:,} combinations of values there are "
            f"{candidates(plan.cells, 2):,} tables of two rows, more than {MOST_CANDIDATES:,}", code="too-large",
            span=span_of(statement.query.tree), subject="method", try_="method = 'pmw', or columns of few values")
    return plan


def _check_size(table: CodedTable, span: Span | None) -> None:
    cells, most = table.domain.cells(table.domain.columns), min(MOST_CELLS, most_numbers())
    if cells > most:
        largest = max(table.columns, key=lambda column: len(column.values))
        raise Unsupported(
            f"these columns have {cells:,} combinations of values, and an online model has at most {most:,}",
            code="too-large", span=span, subject=largest.name, try_=f"fewer columns; bins = 8 among the OPTIONS, if there are "
            f"columns of numbers; a coarser expression of {largest.name}, which has {len(largest.values)} values; or CREATE "
            "SYNTHETIC TABLE")


class OpeningStatement(Charged[OnlineModel]):
    """The statement: what it will do, and the model, new or as it was opened before."""

    plan: OnlinePlan | NetPlan
    question: Question
    span: Span | None = None

    @property
    def identity(self) -> str:
        return digest(self.session.policy, "online", self.plan.name, self.question, self.plan.terms, self.plan.forms)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_ONLINE_MODEL)

    def explanation(self) -> Explanation:
        plan, session, domain = self.plan, self.session, self.plan.table.domain
        return Explanation(
            entity=session.catalog.entity.name, steps=shortened(plan.table.view, session), rewrites=(), stages=(),
            measurements=(measurement(plan.stages[0], plan.name, plan.method, plan.allotted, plan.stages[1:]),),
            expected=(plan.expected,),
            groups=f"{len(domain.columns)} columns of {domain.cells(domain.columns):,} combinations of listed values",
            cost=str(price_charged(plan.terms.options.price, plan.allotted)),
            left=tuple(left_in_budget(session)), notes=plan.notes)

    def answer(self) -> OnlineModel:
        with located(self.text), named_once(self.plan.name, self, self.span):
            return self.stored_or_paid()

    def read(self, stored: str) -> OnlineModel:
        return model_of_json(stored)

    def bill(self) -> ChargeRequest:
        return ChargeRequest(steps=self.plan.steps(self.identity), cost=self.plan.allotted, options=self.plan.terms.options,
                             views=(self.plan.table.view,))
