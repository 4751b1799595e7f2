"""CREATE SYNTHETIC TABLE: from its text to a plan, charged once; the table is kept in the ledger like any answer."""

from __future__ import annotations

import contextlib
import hashlib
import textwrap
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.answers.described_columns import OF_SYNTHETIC_TABLE, DescribedColumn, columns_of
from dpsql.batch.counted_keys import CountedKeys, counted_keys, recording_counts
from dpsql.batch.records import Record, encoded, recording
from dpsql.catalog.model import Catalog
from dpsql.catalog.name_faults import fault_of
from dpsql.engine.acceptance_criteria import SHARE, Criteria, MeasuredAnswers, bound_criteria
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.kept_measurements import KnownMarginals, known_marginals, policy_of_records
from dpsql.engine.kept_tables import content_of, keep_again, parts_of_wholes, standing
from dpsql.engine.parameters import Parameters, given_values
from dpsql.engine.public_support import public_places
from dpsql.engine.session import Session, StandingTable
from dpsql.engine.stored_models import models
from dpsql.engine.table_rules import Dependency, TableRules, check_rules, read_rules
from dpsql.errors import OptionError, ProgrammingError, SqlError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.models.table_domain import most_numbers
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.choose import budgets_by_account
from dpsql.planning.explain import Explanation, Step, steps
from dpsql.planning.left_out import ownerless, rows_kept, undeclared
from dpsql.planning.options import Options
from dpsql.planning.program import priced
from dpsql.questions.identity import digest
from dpsql.questions.question import Key, Question
from dpsql.sql.binding.bind import bind
from dpsql.sql.binding.listed_columns import ROWS, RowColumn, listed_columns, over_rows
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Option, Query, Synthesize
from dpsql.synthesis.acceptance import REFUSED, RefusedTable, refused_of_json
from dpsql.synthesis.column_forms import (
    MOST_VALUES,
    BinnedColumn,
    Form,
    ListedColumn,
    PlannedForm,
    UncutColumn,
    form_of,
    not_learned,
)
from dpsql.synthesis.dependent_columns import DependentColumn, without_dependent
from dpsql.synthesis.learned_bins import coded_in_bins, parts_of
from dpsql.synthesis.made_up_columns import instead_of, made_up_columns, unknown_because
from dpsql.synthesis.method import CodedColumn, CodedTable, Method, SynthesisTask, domain_of
from dpsql.synthesis.method_choice import chosen, in_best_account
from dpsql.synthesis.methods.all_methods import METHODS, methods_for
from dpsql.synthesis.named_workload import read_workload
from dpsql.synthesis.stored_values import ReadPart
from dpsql.synthesis.synthetic_table import SyntheticTable, declared, of_json, stored_in_parts
from dpsql.synthesis.table_draw import TableDraw
from dpsql.synthesis.table_options import SynthesisTerms, read_terms
from dpsql.synthesis.table_plan import TablePlan
from dpsql.synthesis.tables_of_periods import whole_table
from dpsql.synthesis.valid_combinations import following_columns
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.chain import InParts
from dpsql.trusted.kernel.marks import ONLINE
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.certificate import stabilities, stability
from dpsql.trusted.plan.node import Node, Stability
from dpsql.trusted.stopping import go_on
from dpsql.types import Span

LONGEST = 100  # letters of a step of the plan that EXPLAIN shows: the bins of columns are long expressions


def statement_of(query: str, name: object, options: Sequence[Option]) -> Synthesize:
    """A CREATE SYNTHETIC TABLE statement from its parts. Raises ProgrammingError, or a located error for a wrong query."""
    asked = parse(query)
    if not isinstance(asked, Query):
        raise ProgrammingError("a synthetic table needs a query for rows", code="synthesis",
                               try_="SELECT age, sex FROM people")
    wrong = fault_of(name) if isinstance(name, str) else "is not a text"
    if wrong is not None:
        raise ProgrammingError(f"the name of the table {wrong}", code="synthesis", try_="people_syn")
    return Synthesize(name=str(name), query=asked, options=tuple(options), text=query)


def synthesis(statement: Synthesize, session: Session, parameters: Parameters = ()) -> SynthesisStatement:
    """The plan of a statement that makes a synthetic table; no private rows are read. Raises a located error if it is wrong."""
    with located(statement.text):
        terms, accounts = terms_and_price(statement.options, session, statement.span)
        read = uncut_question if terms.public is None else coded_question
        columns = row_columns(statement.query, session, parameters)
        made_up = made_up_columns(terms.made_up, columns, terms.rows)
        question, all_forms = read(statement.query, session, terms.bins, parameters, columns, {each.at for each in made_up})
        following = following_columns(question, all_forms) if terms.workload is None and terms.public is None else ()
        rules = read_rules(terms.rules, statement.query, session, parameters)
        check_rules(rules, [each.name for each in made_up])
        dependent = dependent_columns(rules, question, all_forms, [column.form.name for column in following])
        left_out = {*(one.at for one in following), *(one.at for one in dependent)}
        question, forms = _without(left_out, question, all_forms)
        forms = tuple(listed_form(form, key) if form.name in {one.of for one in dependent} else form
                      for form, key in zip(forms, question.keys, strict=True))
        view, stable = limited_rows(question, session, terms.options, span_of(statement.query.tree))
        table = CodedTable(view=view, rows=stable.rows or 0, columns=tuple(map(coded_column, question.keys, forms)))
        named_columns = (*table.columns, *(one.coded for one in dependent)) if terms.workload is not None else table.columns
        workload = without_dependent(read_workload(terms.workload, statement.name, domain_of(named_columns)), dependent)
        listed = [key for key, form in zip(question.keys, forms, strict=True) if not isinstance(form, UncutColumn) or form.listed]
        counted = counted_keys(view, listed, session.kernel, session.scratch)
        known = KnownMarginals() if counted is None else known_marginals(counted, {
            column.column: column.name for column in table.columns}, table.domain, session)
        forms = _listed_where_known(forms, known)
        table = replace(table, columns=tuple(map(coded_column, question.keys, forms)))
        public = None if terms.public is None else public_places(
            terms.public, with_synthetic_tables(session), tuple(map(not_learned, forms)), table.columns)
        share = 1 - SHARE if terms.acceptance is not None else Fraction(1)
        task = SynthesisTask(table=table, price=accounts[-1].part(share), workload=workload, known=known.marginals, public=public,
                             single=terms.single)
        choice = chosen(task, terms.method, methods_for(terms))
        uncut = [at for at, form in enumerate(forms) if isinstance(form, UncutColumn)]
        task = in_best_account(task, choice.method, [account.part(share) for account in accounts], parts_of(len(uncut)))
        check_method(choice.method, [task], statement.options, statement.span)
        allotted = next(account for account in accounts if (account.epsilon is None) == (task.price.epsilon is None))
        criteria = None if terms.acceptance is None else bound_criteria(
            terms.acceptance, statement.name, statement.query, all_forms, terms.options, allotted.part(SHARE), session,
            given_values(statement.query, parameters))
        notes = tuple(f"{column.form.name} is determined by {column.of}, according to a public table" for column in following)
        plan = TablePlan(name=statement.name, task=task, forms=forms, choice=choice, terms=terms, statement=statement.text,
                         following=following, dependent=dependent, rules=rules.conditions, made_up=made_up,
                         combinations=question.combinations,
                         notes=(*notes, *(each.note for each in made_up),
                                *rows_left_out(_without(uncut, question, forms)[0], view, session)))
        if terms.rows is not None and terms.rows > plan.most_rows:
            place = next(option.span for option in statement.options if option.name == "rows")
            raise OptionError(f"at most {plan.most_rows:,} rows of these columns can be drawn", span=place, subject="rows",
                              try_=f"rows = {plan.most_rows}, or fewer columns")
        made = SynthesisStatement(plan=plan, question=replace(question, view=view), counted=counted, text=statement.text,
                                  session=session, span=statement.span, charges=known.charges, allotted=allotted,
                                  criteria=criteria)
        check_name(statement.name, made, statement.span)
        return made


def dependent_columns(rules: TableRules, question: Question, forms: Sequence[PlannedForm], known: Sequence[str]) -> tuple[
        DependentColumn, ...]:
    """The columns that rules say others determine, without those that are `known` to follow from a public table. Raises
    Unsupported if the values of a column are not listed."""
    at, found = {form.name: number for number, form in enumerate(forms)}, dict[str, DependentColumn]()

    def listed(name: str, rule: Dependency) -> ListedColumn:
        form = listed_form(forms[at[name]], question.keys[at[name]])
        if not isinstance(form, ListedColumn):
            raise Unsupported(f"{rule.determines} DETERMINES {rule.column}: the values of {name} are not listed", code="rule",
                              subject=name, try_=f"values = [...] for {name} in the policy, or a condition as the rule")
        return form

    for one in rules.dependencies:
        listed(one.determines, one)
        form = listed(one.column, one)
        free = one.column not in (*known, *found, *(other.of for other in found.values()))
        if free and one.determines not in (*known, *found) and one.determines != one.column:
            place = at[one.column]
            found[one.column] = DependentColumn(at=place, form=form, coded=coded_column(question.keys[place], form),
                                                of=one.determines)
    return tuple(found.values())


def listed_form(form: PlannedForm, key: Key) -> PlannedForm:
    """An uncut column with its values listed, if they are few enough; others as they are."""
    if not isinstance(form, UncutColumn) or not 0 < len(key.values) <= MOST_VALUES:
        return form
    return ListedColumn(name=form.name, type=form.type, sql_type=form.sql_type)


def _listed_where_known(forms: Sequence[PlannedForm], known: KnownMarginals) -> tuple[PlannedForm, ...]:
    """The forms, with the values listed of columns whose values earlier statements counted."""
    told = {column for each in known.marginals for column in each.columns}
    return tuple(not_learned(form) if form.name in told else form for form in forms)


def coded_column(key: Key, form: PlannedForm) -> CodedColumn:
    """A key with the list of its values, or with as many bins as will be learned at most."""
    if isinstance(form, UncutColumn):
        return coded_in_bins(key.column, form.name, form.most, nullable=form.nullable)
    return CodedColumn(column=key.column, name=form.name, values=key.values,
                       ordered=isinstance(form, BinnedColumn) or form.type.numeric or form.type.temporal)


def _without(places: Collection[int], question: Question, forms: Sequence[PlannedForm]) -> tuple[
        Question, tuple[PlannedForm, ...]]:
    """The columns to be measured: all but those at some places."""
    kept = [at for at in range(len(forms)) if at not in places]
    return replace(question, keys=tuple(question.keys[at] for at in kept)), tuple(forms[at] for at in kept)


def terms_and_price(options: Sequence[Option], session: Session, span: Span | None) -> tuple[
        SynthesisTerms, list[Cost]]:
    """The options of a statement, and its price in each account, rho last. Raises a located error if an option is wrong, or if
    the policy does not allow synthetic rows."""
    terms = read_terms(options, default=session.price, methods=tuple(METHODS))
    price = priced(terms.options.price, session.budget, terms.options.span)
    if session.catalog.entity.minimum_frequency > 1:
        raise Unsupported("the policy has a minimum frequency, and rows of a synthetic table could reveal a single entity",
                          code="synthesis", span=span, try_="GROUP BY queries, whose small groups are withheld")
    accounts = [given.part(Fraction(1)) for given in budgets_by_account(price)]
    return replace(terms, options=replace(terms.options, price=price)), accounts


def check_method(method: Method, tasks: Sequence[SynthesisTask], options: Sequence[Option], span: Span | None) -> None:
    """Raises Unsupported, located, if the method cannot do a task, or if a column has too many values for every method."""
    for column in (column for task in tasks for column in task.table.columns):
        if len(column.values) > most_numbers():
            raise Unsupported(f"{column.name} has {len(column.values):,} values, and at most {most_numbers():,} are possible",
                              code="too-large", span=span, subject=column.name, try_="OPTIONS (bins = 8), or coarser values")
    refusal = next((refusal for task in tasks if (refusal := method.refusal(task)) is not None), None)
    if refusal is not None:
        place = next((option.span for option in options if option.name == "method"), span)
        raise Unsupported(f"{method.name} cannot make this table: {refusal.why}", code="synthesis", span=place,
                          subject=method.name, try_=refusal.try_)


def row_columns(query: Query, session: Session, parameters: Parameters) -> list[RowColumn]:
    """The columns of the rows that a query returns. Raises a located error."""
    return listed_columns(query, session.catalog, session.kernel, session.scratch, given_values(query, parameters))


def coded_question(query: Query, session: Session, bins: int | None, parameters: Parameters,
                   columns: Sequence[RowColumn] | None = None, unread: Collection[int] = ()) -> tuple[
        Question, tuple[Form, ...]]:
    """The query's rows with the listed values, or the bins, of each column as keys; and the forms of the columns, except for
    those at the places `unread`."""
    question, forms = _question(query, session, bins, parameters, columns, unread, not_learned)
    return question, tuple(form for form in forms if not isinstance(form, UncutColumn))


def uncut_question(query: Query, session: Session, bins: int | None, parameters: Parameters,
                   columns: Sequence[RowColumn] | None = None, unread: Collection[int] = ()) -> tuple[
        Question, tuple[PlannedForm, ...]]:
    """The same, but the keys of columns that nothing says how to cut are their values, from which bins will be learned."""
    question, forms = _question(query, session, bins, parameters, columns, unread, lambda form: form)
    together = {key for one in question.combinations for key in one.keys}
    return question, tuple(listed_form(form, key) if key.column in together else form  # what public tables list is listed
                           for form, key in zip(forms, question.keys, strict=True))


def _question(query: Query, session: Session, bins: int | None, parameters: Parameters, columns: Sequence[RowColumn] | None,
              unread: Collection[int], settled: Callable[[PlannedForm], PlannedForm]) -> tuple[Question, tuple[PlannedForm, ...]]:
    known = row_columns(query, session, parameters) if columns is None else columns
    found = query.tree.selects if len(query.tree.selects) == len(known) else [query.tree] * len(known)
    again = next((each for i, each in enumerate(known) if each.name.lower() in [other.name.lower() for other in known[:i]]), None)
    if again is not None:
        raise SqlError(f"two columns are named {again.name}", code="synthesis", span=span_of(query.tree), subject=again.name,
                       try_=f"AS and another name for one of them, such as {again.name}_2")
    read = [(column, item) for at, (column, item) in enumerate(zip(known, found, strict=True)) if at not in unread]
    forms = tuple(settled(form_of(column.name, column.facts, bins, span_of(item), column.bins, column.sql_type or cast_to(item)))
                  for column, item in read)
    kinds = None if columns is None else {column.name: column.sql_type for column, _ in read}
    return question_by(query, forms, [item for _, item in read], session, given_values(query, parameters), kinds), forms


def cast_to(item: exp.Expr) -> str:
    """The type to which an item of a query is cast; "" if it is none."""
    cast = item.unalias() if isinstance(item, exp.Alias) else item
    return cast.to.sql(dialect="duckdb").upper() if isinstance(cast, exp.Cast) else ""


def question_by(query: Query, forms: Sequence[PlannedForm], items: Sequence[exp.Expr], session: Session,
                values: Mapping[str, ParameterValue], kinds: Mapping[str, str] | None = None) -> Question:
    """The query's rows, with each column in its form as a key. Raises Unsupported, located at the column's item, if its values
    are not known. `kinds` are the types in the database of columns that could be made up instead."""
    rows = exp.to_identifier(ROWS, quoted=True)
    read = [exp.column(exp.to_identifier(form.name, quoted=True), table=rows.copy()) for form in forms]
    keys = [exp.alias_(form.key(column), f"key {at}", quoted=True)
            for at, (form, column) in enumerate(zip(forms, read, strict=True))]
    question = bind(replace(query, tree=over_rows(query.tree, *keys)), session.catalog, session.kernel, session.scratch, values)
    for key, form, item in zip(question.keys, forms, items, strict=True):
        if isinstance(form, UncutColumn):
            continue
        if key.domain is None:
            check_owner(stability(question.view, session.kernel), span_of(query.tree))
            kind = None if kinds is None else kinds.get(form.name, "")
            raise Unsupported(f"the values of {form.name} are not known: {unknown_because(form.type, kind)}", code="synthesis",
                              span=span_of(item), subject=form.name, try_=instead_of(form.name, form.type, kind))
        if not key.values:
            raise Unsupported(f"no row can have a value of {form.name}", code="synthesis", span=span_of(item), subject=form.name,
                              try_="another condition")
    return question


def limited_rows(question: Question, session: Session, options: Options, span: Span | None) -> tuple[Node, Stability]:
    """The rows, with a limit on the number per entity. Raises Unsupported, located."""
    view, known = limited_view(question, options, session.kernel, span)
    check_owner(known, span)
    if known.rows is None:
        raise Unsupported(f"there is no limit on the rows of one {session.catalog.entity.name}", code="no-limit", span=span,
                          try_="max_rows = 10 among the OPTIONS, or rows_per_entity in the policy")
    return view, known


def check_owner(known: Stability, span: Span | None) -> None:
    """Raises Unsupported, located, if rows are public, or if they belong to several entities each."""
    if known.public:
        raise Unsupported("these rows are public, so they need no synthetic table", code="synthesis", span=span,
                          try_="the table itself")
    if known.owner is None:
        raise Unsupported("these rows belong to several entities each, and a synthetic table is made of rows of one entity each",
                          code="several-owners", span=span, try_="GROUP BY the key of an entity in a subquery")


def rows_left_out(question: Question, view: Node, session: Session) -> tuple[str, ...]:
    left = (*rows_kept(view, session.catalog.entity.name), *ownerless([view], session.catalog))
    others = any(True for _ in undeclared([question]))
    return (*left, *(("rows with undeclared values of a column are not counted",) if others else ()))


def shortened(view: Node, session: Session) -> tuple[Step, ...]:
    """The steps of a plan, for EXPLAIN."""
    return tuple(replace(step, label=textwrap.shorten(step.label, LONGEST, placeholder=" ..."))
                 for step in steps(view, stabilities(view, session.kernel), 0, session.catalog.entity.name))


class Undrawn(Frozen, eq=False):
    """What was measured for a table. Its rows are drawn when the ledger asks for them: the kernel has given back by then what it
    read of the private rows, which may be as large. The rows of a large table are read in the ledger afterwards, by `read`, so
    they do not stay in memory."""

    make: Callable[[], SyntheticTable | RefusedTable]
    read: ReadPart

    @cached_property
    def _made(self) -> tuple[SyntheticTable | RefusedTable, InParts | None]:
        table = self.make()
        if isinstance(table, RefusedTable) or not table.is_large:
            return table, None
        stored = stored_in_parts(table)
        return replace(of_json(stored.text, self.read), stored=False), stored

    @property
    def drawn(self) -> SyntheticTable | RefusedTable:
        """The table."""
        return self._made[0]

    def as_json(self) -> str | InParts:
        """The stored form of the table."""
        table, stored = self._made
        return stored or table.as_json()


class SynthesisStatement(Charged[SyntheticTable | RefusedTable | Undrawn]):
    """The statement: what it will do, and the table, new or as it was made before.

    counted   the columns whose counts are kept for later statements
    allotted  what the statement costs
    criteria  when a drawn table is accepted; None: always
    charges   those of other accounts whose counts are reused
    whole     the table of all periods, where this one is of a period of a growing table
    """

    plan: TablePlan
    question: Question
    counted: CountedKeys | None
    allotted: Cost
    criteria: Criteria | None = None
    span: Span | None = None
    charges: tuple[int, ...] = ()
    whole: str = ""

    @property
    def identity(self) -> str:
        plan, criteria = self.plan, self.criteria
        public = () if plan.task.public is None else (hashlib.sha256(plan.task.public.tobytes()).hexdigest(),)
        terms = replace(plan.terms, workload=None, public=None, made_up=None, rules=None, acceptance=None)
        return digest(self.session.policy, "synthetic", plan.name, self.question, terms, plan.task.workload,
                      plan.choice.method.name, plan.forms, *public, *plan.made_up, *plan.rules, *plan.dependent,
                      *(() if criteria is None else criteria.identity))

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_SYNTHETIC_TABLE)

    def explanation(self) -> Explanation:
        plan, session, criteria = self.plan, self.session, self.criteria
        view, domain, entity = plan.task.table.view, plan.task.table.domain, session.catalog.entity.name
        return Explanation(
            entity=entity, steps=shortened(view, session), rewrites=(), stages=(), measurements=plan.measurements,
            expected=(*plan.expected, *(() if criteria is None else criteria.expected)),
            groups=f"{len(domain.columns)} columns of {domain.cells(domain.columns):,} combinations of listed values",
            cost=plan.price, left=tuple(left_in_budget(session)),
            notes=(*plan.notes, *plan.used, *(() if criteria is None else (criteria.note,))))

    def answer(self) -> SyntheticTable:
        with located(self.text), named_once(self.plan.name, self, self.span):
            made = self.stored_or_paid()
            if isinstance(made, Undrawn):
                made = made.drawn
            if isinstance(made, RefusedTable):
                raise made.error
            if made.stored:
                keep_again(self.plan.name, self.stored_form or "", self.session, self.text)
            return made

    def read(self, stored: str) -> SyntheticTable | RefusedTable:
        return refused_of_json(stored) if stored.startswith(REFUSED) else of_json(stored, self.session.part)

    def bill(self) -> ChargeRequest:
        return ChargeRequest(steps=self._steps(), cost=self.allotted, options=self.plan.terms.options,
                             views=(self.plan.task.table.view, *(() if self.criteria is None else self.criteria.views)))

    def _steps(self) -> Generator[Request, Any, Undrawn]:
        """Measure the model and the criteria. The table keeps what was measured."""
        found: list[Record] = []
        asked = None if self.criteria is None else recording(self.criteria.measured(), found)
        steps = self.plan.modelled(self.session.scratch)
        draw = yield from steps if self.counted is None else recording_counts(steps, self.counted, found)
        known: MeasuredAnswers = () if asked is None else (yield from asked)
        policy = policy_of_records(self.session)
        records = tuple(encoded([replace(record, policy=policy) for record in found]))
        return Undrawn(make=lambda: self._kept(self._drawn(draw, known), records), read=self.session.part)

    def _kept(self, made: SyntheticTable | RefusedTable, records: tuple[object, ...]) -> SyntheticTable | RefusedTable:
        kept = replace(made, records=records)
        return replace(kept, whole=self.whole) if isinstance(kept, SyntheticTable) else kept

    def _drawn(self, draw: TableDraw, known: MeasuredAnswers) -> SyntheticTable | RefusedTable:
        return self.plan.drawn(draw, self.identity) if self.criteria is None else self._first_accepted(self.criteria, draw, known)

    def _first_accepted(self, criteria: Criteria, draw: TableDraw, known: MeasuredAnswers) -> SyntheticTable | RefusedTable:
        """The first candidate that is accepted; or, if none is, how close the closest one came. Everything here is public."""
        plan, scratch, closest = self.plan, self.session.scratch, None
        draws = plan.draws(self.identity)
        for made in range(1, criteria.candidates + 1):
            go_on()
            rows, copied = draw.drawn(plan.rows_of(draw), draws)
            chosen = criteria.weighted(draw.columns(rows.values), known, draws, scratch) if made > 1 else None
            rows = rows if chosen is None else draw.redrawn(rows, chosen, draws)
            found = criteria.judged(draw.columns(rows.values), known, scratch, made=made, weighted=chosen is not None)
            if found.holds:
                return replace(plan.drawn_at_once(draw, rows, self.identity, copied), acceptance=found)
            if closest is None or found.shortfall < closest.shortfall:
                closest = found
        assert closest is not None
        return RefusedTable(name=plan.name, price=plan.price, closest=replace(closest, made=criteria.candidates))

    def uses(self) -> tuple[int, ...]:
        return self.charges


def check_name(name: str, made: Charged[Any], span: Span | None, part: Callable[[str], str] = str) -> None:
    """Raises SqlError if another table or an online model has this name. A table made by the same statement is allowed; `part`
    finds it in the statement's stored form."""
    session, whole = made.session, made.stored_form
    stored = None if whole is None else part(whole)
    online = name.lower() in {model.lower() for model in models(session)} and not (stored or "").startswith(ONLINE)
    table = standing(session).get(name.lower())
    if online or (table is not None and table != stored) or (stored is None and name.lower() in _names(session.catalog)):
        raise SqlError(f"there is {'an online model' if online else 'a table'} {name} already", code="synthesis", span=span,
                       subject=name, try_=f"{name}_2" if online or table is None else f"{name}_2, or DROP SYNTHETIC TABLE {name}")


@contextlib.contextmanager
def named_once(name: str, made: Charged[Any], span: Span | None, part: Callable[[str], str] = str) -> Iterator[None]:
    """A context in which no other process can give this name to a table of the account, until the statement has its answer.
    Raises as `check_name` does."""
    with made.session.ledger.naming(made.session.account, name):
        check_name(name, made, span, part)
        yield


def with_synthetic_tables(session: Session) -> Session:
    """The session, extended by the synthetic tables of its account as public tables. If the policy or the database has a table
    with the same name, that table takes precedence."""
    known = _names(session.catalog)
    stored = {name: body for name, body in standing(session).items() if name not in known}
    made = [_held(name, body, session) for name, body in stored.items()]
    if session.catalog.periods:
        made += [_held_whole(name, parts, session) for name, parts in parts_of_wholes(stored).items() if name not in known]
    return replace(session, catalog=replace(session.catalog, tables={
        **session.catalog.tables, **{table.name: table for table in made}})) if made else session


def _held(name: str, stored: str, session: Session) -> Table:
    """The declaration of a stored table, whose rows the session's reader holds. It is read once."""
    content = content_of(stored)
    held = session.released.get(name)
    if held is None or held.content != content:
        table = of_json(stored, session.part)
        session.kernel.hold(table.name, content, {column.name: (column.kind, column.values) for column in table.columns})
        held = StandingTable(content=content, table=declared(table, content), kept=table)
        session.released[name] = held
    return held.table


def _held_whole(name: str, parts: Sequence[str], session: Session) -> Table:
    """The declaration of a table of all periods whose tables are stored. Its rows are put together once."""
    content = content_of("".join(map(content_of, parts)))
    held = session.released.get(name)
    if held is None or held.content != content:
        table = whole_table([of_json(part, session.part) for part in parts])
        session.kernel.hold(table.name, content, {column.name: (column.kind, column.values) for column in table.columns})
        held = StandingTable(content=content, table=declared(table, content), kept=table)
        session.released[name] = held
    return held.table


def made_before(name: str, session: Session) -> SyntheticTable:
    """A synthetic table of the account, by its name. Raises ProgrammingError if there is none."""
    known = standing(session)
    stored = known.get(name.lower())
    if stored is None and (parts := parts_of_wholes(known).get(name.lower())):
        return whole_table([of_json(part, session.part) for part in parts])
    if stored is None:
        raise ProgrammingError(f"there is no synthetic table {name}", code="unknown-table", subject=name,
                               try_="SHOW TABLES, which lists them")
    return of_json(stored, session.part)


def _names(catalog: Catalog) -> set[str]:
    return {name.lower() for name in (*catalog.tables, *catalog.undeclared)}
