"""CREATE SYNTHETIC TABLE: from its text to a plan, charged once; the table is kept in the ledger like any answer."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.accounting.allotment import budgets_by_account
from dpsql.accounting.cost import Cost
from dpsql.catalog.model import Catalog, Table
from dpsql.catalog.names import fault_of
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Bill, Charged, located
from dpsql.engine.parameters import Parameters, named
from dpsql.engine.session import Session
from dpsql.engine.stored_models import models
from dpsql.errors import ProgrammingError, SqlError, Unsupported
from dpsql.plan.certificate import stabilities
from dpsql.plan.expr.nodes import Value
from dpsql.plan.identity import digest
from dpsql.plan.node import Node, Stability
from dpsql.plan.question import Question
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.explain import Expected, Explanation, Step, steps
from dpsql.planning.left_out import ownerless, rows_kept, undeclared
from dpsql.planning.options import Options
from dpsql.planning.program import priced
from dpsql.sql.binding.bind import bind
from dpsql.sql.binding.listed_columns import ROWS, listed_columns, over_rows
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Option, Query, Synthesize
from dpsql.synthesis.column_forms import Form, form_of
from dpsql.synthesis.method import CodedColumn, CodedTable, Method, SynthesisTask, marginals_of
from dpsql.synthesis.methods.all_methods import METHODS, USUAL
from dpsql.synthesis.released_database import DATABASE_MARK, database_of_json
from dpsql.synthesis.synthetic_table import MARK, SyntheticTable, declared, of_json
from dpsql.synthesis.table_options import SynthesisTerms, read_terms
from dpsql.synthesis.table_plan import TablePlan
from dpsql.types import Span

LONGEST = 100  # letters of a step of the plan that EXPLAIN shows: the bins of columns are long expressions


def statement_of(query: str, name: object, options: Sequence[Option]) -> Synthesize:
    """CREATE SYNTHETIC TABLE from its parts. Raises ProgrammingError, or a located error for a wrong query."""
    asked = parse(query)
    if not isinstance(asked, Query):
        raise ProgrammingError("a synthetic table is made of the rows of a query", code="synthesis",
                               try_="SELECT age, sex FROM people")
    wrong = fault_of(name) if isinstance(name, str) else "is not a text"
    if wrong is not None:
        raise ProgrammingError(f"the name of the table {wrong}", code="synthesis", try_='name="people_syn"')
    return Synthesize(name=str(name), query=asked, options=tuple(options), text=query)


def synthesis(statement: Synthesize, session: Session, parameters: Parameters = ()) -> SynthesisStatement:
    """The plan of the statement; no private rows are read. Raises a located error if it is wrong."""
    with located(statement.text):
        terms, allotted = terms_and_price(statement.options, session, statement.span)
        question, forms = coded_question(statement.query, session, terms.bins, parameters)
        view, known = limited_rows(question, session, terms.options, span_of(statement.query.tree))
        table = CodedTable(view=view, rows=known.rows or 0, columns=tuple(
            CodedColumn(column=key.column, name=form.name, values=key.values)
            for key, form in zip(question.keys, forms, strict=True)))
        task = SynthesisTask(table=table, price=allotted, workload=marginals_of(table.domain))
        method = method_for([task], terms, statement.options, statement.span)
        plan = TablePlan(name=statement.name, task=task, forms=forms, method=method, terms=terms, statement=statement.text,
                         notes=rows_left_out(question, view, session))
        made = SynthesisStatement(plan=plan, question=replace(question, view=view), text=statement.text, session=session)
        check_name(statement.name, made, statement.span)
        return made


def terms_and_price(options: Sequence[Option], session: Session, span: Span | None) -> tuple[SynthesisTerms, Cost]:
    """The choices of a statement, and what it may spend. Raises a located error where an option is wrong, or where the policy
    allows no synthetic rows."""
    terms = read_terms(options, default=session.price, methods=tuple(METHODS))
    price = priced(terms.options.price, session.budget, terms.options.span)
    if session.catalog.entity.minimum_frequency > 1:
        raise Unsupported("the policy has a minimum frequency, and the rows of a synthetic table are no groups of entities",
                          code="synthesis", span=span, try_="GROUP BY queries, whose small groups are withheld")
    return replace(terms, options=replace(terms.options, price=price)), budgets_by_account(price)[-1].part(Fraction(1))


def method_for(tasks: Sequence[SynthesisTask], terms: SynthesisTerms, options: Sequence[Option], span: Span | None) -> Method:
    """The method that is named, or the usual one. Raises Unsupported, located, where it cannot do a task."""
    name = USUAL if terms.method == "auto" else terms.method
    method = METHODS[name]
    refusal = next((refusal for task in tasks if (refusal := method.refusal(task)) is not None), None)
    if refusal is not None:
        place = next((option.span for option in options if option.name == "method"), span)
        raise Unsupported(f"{name} cannot make this table: {refusal.why}", code="synthesis", span=place, subject=name,
                          try_=refusal.try_)
    return method


def coded_question(query: Query, session: Session, bins: int, parameters: Parameters) -> tuple[
        Question, tuple[Form, ...]]:
    """The query's rows with the listed values, or the bins, of each column as keys; and the forms of the columns."""
    values = {} if not query.parameters and not parameters else named(parameters, query)
    forms, items = forms_of(query, session, bins, values)
    rows = exp.to_identifier(ROWS, quoted=True)
    read = [exp.column(exp.to_identifier(form.name, quoted=True), table=rows.copy()) for form in forms]
    keys = [exp.alias_(form.key(column), f"key {at}", quoted=True)
            for at, (form, column) in enumerate(zip(forms, read, strict=True))]
    question = bind(replace(query, tree=over_rows(query.tree, *keys)), session.catalog, session.kernel, session.scratch, values)
    for key, form, item in zip(question.keys, forms, items, strict=True):
        if key.domain is None:
            raise Unsupported(f"the values of {form.name} are not known: it has neither declared values nor bounds",
                              code="synthesis", span=span_of(item), subject=form.name, try_=f"values = [...] or bounds = [...] "
                              f"for {form.name} in the policy, an expression such as CASE, or the other columns alone")
        if not key.values:
            raise Unsupported(f"no row can have a value of {form.name}", code="synthesis", span=span_of(item), subject=form.name,
                              try_="another condition")
    return question, forms


def forms_of(query: Query, session: Session, bins: int, values: Mapping[str, Value]) -> tuple[tuple[Form, ...], list[exp.Expr]]:
    """The forms of the columns of a query's rows, and where each is written. Raises a located error where one has none, or where
    two have the same name."""
    columns = listed_columns(query, session.catalog, session.kernel, session.scratch, values)
    items: list[exp.Expr] = [query.tree] * len(columns)
    if len(query.tree.selects) == len(columns):
        items = query.tree.selects
    forms = tuple(form_of(name, field.facts, bins, span_of(item))
                  for (name, field), item in zip(columns, items, strict=True))
    again = next((form for i, form in enumerate(forms) if form.name.lower() in [each.name.lower() for each in forms[:i]]), None)
    if again is not None:
        raise SqlError(f"two columns are named {again.name}", code="synthesis", span=span_of(query.tree), subject=again.name,
                       try_=f"AS and another name for one of them, such as {again.name}_2")
    return forms, items


def limited_rows(question: Question, session: Session, options: Options, span: Span | None) -> tuple[Node, Stability]:
    """The rows, of which an entity has a limited number. Raises Unsupported, located."""
    view, known = limited_view(question, options, session.kernel, span)
    if known.public:
        raise Unsupported("these rows are public, so there is nothing to hide by synthetic ones", code="synthesis", span=span,
                          try_="the table itself")
    if known.owner is None:
        raise Unsupported("these rows belong to several entities each, and a synthetic table is made of rows of one entity each",
                          code="several-owners", span=span, try_="GROUP BY the key of an entity in a subquery")
    if known.rows is None:
        raise Unsupported(f"there is no limit on the rows of one {session.catalog.entity.name}", code="no-limit", span=span,
                          try_="max_rows = 10 among the OPTIONS, or rows_per_entity in the policy")
    return view, known


def rows_left_out(question: Question, view: Node, session: Session) -> tuple[str, ...]:
    left = (*rows_kept(view, session.catalog.entity.name), *ownerless([view], session.catalog))
    others = any(True for _ in undeclared([question]))
    return (*left, *(("rows with undeclared values of a column are not counted",) if others else ()))


def shortened(view: Node, session: Session) -> tuple[Step, ...]:
    """The steps of a plan, for EXPLAIN."""
    return tuple(replace(step, label=textwrap.shorten(step.label, LONGEST, placeholder=" ..."))
                 for step in steps(view, stabilities(view, session.kernel), 0, session.catalog.entity.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisStatement(Charged[SyntheticTable]):
    """The statement: what it will do, and the table, new or as it was made before."""

    plan: TablePlan
    question: Question

    @property
    def identity(self) -> str:
        plan = self.plan
        return digest(self.session.policy, "synthetic", plan.name, self.question, plan.terms, plan.method.name, plan.forms)

    def explain(self) -> Explanation:
        plan, session = self.plan, self.session
        view, domain, entity = plan.task.table.view, plan.task.table.domain, session.catalog.entity.name
        return Explanation(
            entity=entity, steps=shortened(view, session), rewrites=(), stages=(),
            measurements=plan.measurements,
            expected=(Expected(aggregate="COUNT(*) by a measured marginal", error=None, named="shown with the table"),),
            groups=f"{len(domain.columns)} columns of {domain.cells(domain.columns):,} combinations of listed values",
            cost=str(plan.terms.options.price), left=tuple(left_in_budget(session)), stored=self.is_stored, notes=plan.notes)

    def answer(self) -> SyntheticTable:
        with located(self.text):
            return self.stored_or_paid()

    def read(self, stored: str) -> SyntheticTable:
        return of_json(stored)

    def bill(self) -> Bill:
        return Bill(steps=self.plan.steps(self.identity), cost=self.plan.task.price, options=self.plan.terms.options,
                    views=(self.plan.task.table.view,))


def check_name(name: str, made: Charged[Any], span: Span | None) -> None:
    """Raises SqlError where a table or an online model has this name, unless it was made by this very statement."""
    online = name.lower() in {model.lower() for model in models(made.session)}
    if (online or name.lower() in _names(beside(made.session).catalog)) and not made.is_stored:
        raise SqlError(f"there is {'an online model' if online else 'a table'} {name} already", code="synthesis", span=span,
                       subject=name, try_=f"{name}_2")


def beside(session: Session) -> Session:
    """The same session, in which the synthetic tables of its account are public tables. A name that the policy or the database
    gives to a table is that table's."""
    known = _names(session.catalog)
    stored = [body for mark in (MARK, DATABASE_MARK)
              for body in session.ledger.holding(session.account, session.kernel.version, mark) if body.startswith(mark)]
    made = [table for body in stored for table in _held(body, session, known) if table.name.lower() not in known]
    return replace(session, catalog=replace(session.catalog, tables={
        **session.catalog.tables, **{table.name: table for table in made}})) if made else session


def _held(stored: str, session: Session, known: Set[str]) -> tuple[Table, ...]:
    """The declarations of stored tables, whose rows the session's reader holds unless their names are known. They are read
    once."""
    content = hashlib.sha256(stored.encode()).hexdigest()  # the same statement of another account gave other rows
    if content not in session.released:
        tables = database_of_json(stored).tables if stored.startswith(DATABASE_MARK) else (of_json(stored),)
        for table in tables:
            if table.name.lower() not in known:
                rows = {column.name: (column.type.value, column.values) for column in table.columns}
                session.kernel.hold(table.name, f"{content} {table.name}", rows)
        session.released[content] = tuple(map(declared, tables))
    return session.released[content]


def _names(catalog: Catalog) -> set[str]:
    return {name.lower() for name in (*catalog.tables, *catalog.undeclared)}
