"""CREATE SYNTHETIC TABLES: several tables that hang together by foreign keys, planned and charged as one statement."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Literal

from sqlglot import exp

from dpsql.answers.described_columns import OF_SYNTHETIC_TABLES, DescribedColumn, columns_of
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.kept_tables import keep_again
from dpsql.engine.linked_tables import linked_tables
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.engine.synthesizing import (
    check_method,
    check_name,
    coded_column,
    limited_rows,
    named_once,
    question_by,
    rows_left_out,
    shortened,
    statement_of,
    terms_and_price,
)
from dpsql.errors import OptionError, ProgrammingError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.planning.choose import price_charged
from dpsql.planning.explain import Expected, Explanation
from dpsql.questions.identity import digest
from dpsql.questions.question import Question
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Option, SynthesizeTables
from dpsql.synthesis.column_forms import PlannedForm, UncutColumn
from dpsql.synthesis.dependent_columns import part_for
from dpsql.synthesis.learned_bins import LEARNING
from dpsql.synthesis.linked_bins import MOST, UncutRows
from dpsql.synthesis.linked_draws import steps
from dpsql.synthesis.linked_plan import LinkedPairs, LinkedPlan
from dpsql.synthesis.linked_views import LinkedTable, LinkedTables, LowerTable
from dpsql.synthesis.measured_views import LinkedView
from dpsql.synthesis.method import CodedTable, SynthesisTask, marginals_of
from dpsql.synthesis.method_choice import chosen
from dpsql.synthesis.methods.all_methods import methods_for
from dpsql.synthesis.released_database import ReleasedDatabase, database_of_json, stored_tables
from dpsql.synthesis.row_rules import names_of
from dpsql.synthesis.synthetic_table import of_json
from dpsql.synthesis.table_options import MOST_LINKED_ROWS, SynthesisTerms
from dpsql.trusted.accounting.cost import Cost
from dpsql.types import Span

FIRST = Fraction(2, 5)  # of the price, for the view that all tables begin with; the others share the rest


def linked_statement_of(queries: Mapping[str, str], options: Sequence[Option]) -> SynthesizeTables:
    """A CREATE SYNTHETIC TABLES statement from its parts: queries by the names of the tables. Raises ProgrammingError, or a
    located error for a wrong query."""
    if not queries:
        raise ProgrammingError("there is no query", code="synthesis",
                               try_='{"people_syn": "SELECT id, ...", "visits_syn": "SELECT id, ..."}')
    tables = tuple(statement_of(query, name, ()) for name, query in queries.items())
    return SynthesizeTables(tables=tables, options=tuple(options), text=",\n".join(queries.values()))


def linked_synthesis(statement: SynthesizeTables, session: Session, parameters: Parameters = ()) -> LinkedStatement:
    """The plan of a statement that makes linked synthetic tables; no private rows are read. Raises a located error if it is
    wrong."""
    with located(statement.text):
        terms, (*_, allotted) = terms_and_price(statement.options, session, statement.span)
        if parameters or any(asked.query.parameters for asked in statement.tables):
            raise Unsupported("a statement for several synthetic tables cannot have parameters", code="parameters",
                              span=statement.span, try_="the values themselves")
        _check_single(terms, statement.options)
        tables = linked_tables(statement, terms, session)
        asked = list(_views(tables, session))
        shares = [FIRST, *[(1 - FIRST) / (len(asked) - 1)] * (len(asked) - 1)] if len(asked) > 1 else [Fraction(1)]
        pairs, rest = _pairs(tables, terms, allotted, session)
        uncut = _uncut(tables, terms, rest, session)
        rest = rest.part(1 - MOST) if uncut else rest
        found = [_measured(tables, one, terms, rest.part(share), session) for one, share in zip(asked, shares, strict=True)]
        views = {(one.kind, one.table.at): view for one, (_, view) in zip(asked, found, strict=True)}
        whole = views["rows", tables.top.at]
        choice = chosen(whole.task, terms.method, methods_for(terms))
        check_method(choice.method, [view.task for view in views.values()], statement.options, statement.span)
        notes = [*tables.notes]
        for table in (tables.top, *tables.lower):
            notes += [f"{table.name}.{each.note}" for each in table.made_up]
            notes += [f"in every row of {table.name}: {names_of(table.rules)}"] if table.rules else []
        notes += [note for question, _ in found for note in rows_left_out(question, question.view, session)]
        plan = LinkedPlan(
            tables=tables, choice=choice, terms=terms, price=allotted, statement=statement.text, whole=whole,
            first={at: view for (kind, at), view in views.items() if kind == "first"},
            later={at: view for (kind, at), view in views.items() if kind == "later"}, notes=tuple(dict.fromkeys(notes)),
            pairs={at: counted for at, (_, counted) in pairs.items()}, uncut={at: rows for at, (_, rows) in uncut.items()})
        questions = [question for question, _ in (*found, *pairs.values(), *uncut.values())]
        made = LinkedStatement(plan=plan, questions=tuple(questions), text=statement.text,
                               session=session, spans=tuple((each.name, each.span) for each in statement.tables))
        for name, span in made.spans:
            check_name(name, made, span, part_named(name))
        return made


def _check_single(terms: SynthesisTerms, options: Sequence[Option]) -> None:
    """Raises OptionError, located, for options that several tables cannot have."""
    place = {option.name: option.span for option in options}
    if terms.rows is not None and terms.rows > MOST_LINKED_ROWS:
        raise OptionError(f"at most {MOST_LINKED_ROWS:,} rows of linked tables can be drawn", span=place["rows"], subject="rows",
                          try_=f"rows = {MOST_LINKED_ROWS}")
    if terms.workload is not None:
        raise OptionError("a workload is for a single table", span=place["workload"], subject="workload",
                          try_="no workload: all columns are then measured, alone, in pairs, and from row to row")
    if terms.acceptance is not None:
        raise OptionError("criteria of acceptance are for a single table", span=terms.acceptance.option.span,
                          subject="accept", try_="the statement without accept, and VALIDATE with the new tables")


def part_named(name: str) -> Callable[[str], str]:
    """A function that finds the stored form of the table with this name in that of all tables."""
    return lambda stored: next(part for part in stored_tables(stored) if of_json(part).name == name)


class AskedView(Frozen):
    """A view to be measured, of a kind that `linked_views` describes.

    drawn  the columns that are drawn given the others
    rows   of one entity, that are kept; None: as many as the limits of the tables allow
    """

    kind: Literal["rows", "first", "later"]
    table: LinkedTable
    tree: exp.Query
    drawn: tuple[str, ...]
    rows: int | None


def _views(tables: LinkedTables, session: Session) -> Iterator[AskedView]:
    """The views of all tables. One row of each entity is enough: if all were used, noise would grow with the largest number of
    rows, and the counts only with the mean one."""
    top = tables.top
    base = session.catalog.table(top.base)
    yield AskedView(kind="rows", table=top, tree=tables.rows(), drawn=tables.drawn(top), rows=None if base is None else base.rows)
    for table in tables.lower:
        drawn = tables.drawn(table)
        if table.parent != top.at:
            yield AskedView(kind="first", table=table, tree=tables.first(table), drawn=drawn, rows=1)
        if table.most > 1:
            yield AskedView(kind="later", table=table, tree=tables.later(table), drawn=drawn, rows=1)


def _measured(tables: LinkedTables, asked: AskedView, terms: SynthesisTerms, price: Cost, session: Session) -> tuple[
        Question, LinkedView]:
    """Raises a located error if a view has no bound."""
    place, options = span_of(asked.table.query.tree), terms.options
    forms = tables.forms(asked.tree, some_lack_rows=asked.kind == "rows")
    items = [asked.table.query.tree] * len(forms)
    question = question_by(replace(asked.table.query, tree=asked.tree), forms, items, session, {})
    if asked.rows is not None:
        options = replace(options, max_rows=asked.rows)
    view, known = limited_rows(question, session, options, place)
    table = CodedTable(view=view, rows=known.rows or 0, columns=tuple(map(coded_column, question.keys, forms)))
    given = frozenset() if asked.kind == "rows" else frozenset(table.domain.columns) - {*asked.drawn}
    task = SynthesisTask(table=table, price=price, workload=_workload(asked, table.domain), given=given)
    return replace(question, view=view), LinkedView(task=task, forms=forms)


def _pairs(tables: LinkedTables, terms: SynthesisTerms, price: Cost, session: Session) -> tuple[
        Mapping[int, tuple[Question, LinkedPairs]], Cost]:
    """The rows by which columns that determine others are counted with these, by the place of the table, and what they leave of
    the price. One row of each entity is counted, but for the top table. Raises a located error if rows have no limit."""
    found, dependent = dict[int, tuple[Question, LinkedPairs]](), tables.dependent
    for table in (table for table in (tables.top, *tables.lower) if table.dependent):
        of = {form.name: form for own, form in zip(table.own, table.forms, strict=True)
              if own in [one.of for one in table.dependent]}
        question, coded = _own_rows(table, [*of.values(), *(one.form for one in table.dependent)], terms, session)
        each = part_for(dependent) / part_for(table.dependent)
        task = SynthesisTask(table=replace(coded, columns=coded.columns[:len(of)]), price=price.part(each), workload=())
        found[table.at] = question, LinkedPairs(task=task, dependent=tuple(
            replace(one, coded=column) for one, column in zip(table.dependent, coded.columns[len(of):], strict=True)))
    return found, price.part(1 - len(dependent) * part_for(dependent)) if dependent else price


def _uncut(tables: LinkedTables, terms: SynthesisTerms, price: Cost, session: Session) -> Mapping[
        int, tuple[Question, UncutRows]]:
    """The rows by which columns are cut into bins, by the place of the table. Raises a located error if rows have no limit."""
    uncut = {at: tuple(form for form in table.forms if isinstance(form, UncutColumn)) for at, table in tables.by_place.items()}
    found, columns = dict[int, tuple[Question, UncutRows]](), sum(map(len, uncut.values()))
    for at, forms in uncut.items():
        if forms:
            (question, coded), most = _own_rows(tables.by_place[at], forms, terms, session), MOST * len(forms) / columns
            task = SynthesisTask(table=coded, price=price.part(most / LEARNING), workload=())
            found[at] = question, UncutRows(task=task, forms=forms, most=most)
    return found


def _own_rows(table: LinkedTable, forms: Sequence[PlannedForm], terms: SynthesisTerms, session: Session) -> tuple[
        Question, CodedTable]:
    """The rows of one table with these columns. Below the top table it is one row of each entity."""
    tree, base, names = table.query.tree.copy(), session.catalog.table(table.base), [form.name for form in forms]
    tree.set("expressions", [item for item in tree.selects if item.alias in names])
    question = question_by(replace(table.query, tree=tree), forms, [table.query.tree] * len(forms), session, {})
    most = 1 if isinstance(table, LowerTable) or base is None else base.rows
    options = terms.options if most is None else replace(terms.options, max_rows=most)
    view, known = limited_rows(question, session, options, span_of(table.query.tree))
    return replace(question, view=view), CodedTable(view=view, rows=known.rows or 0,
                                                    columns=tuple(map(coded_column, question.keys, forms)))


def _workload(asked: AskedView, domain: TableDomain) -> tuple[Columns, ...]:
    """All marginals of a view of first rows; of others those by which columns that are drawn depend on one of the rest."""
    if asked.kind == "rows":
        return marginals_of(domain)
    return tuple(pair for pair in combinations(domain.columns, 2) if not set(asked.drawn).isdisjoint(pair))


class LinkedStatement(Charged[ReleasedDatabase]):
    """The statement: what it will do, and the tables, new or as they were made before."""

    plan: LinkedPlan
    questions: tuple[Question, ...]
    spans: tuple[tuple[str, Span | None], ...]  # the names of the tables, and where they stand

    @property
    def identity(self) -> str:
        plan = self.plan
        names = tuple((table.at, table.name, table.names, table.key) for table in (plan.tables.top, *plan.tables.lower))
        links = tuple((table.link, table.step, table.most) for table in plan.tables.lower)
        forms = tuple(view.forms for _, view in plan.views)
        more = [(table.name, *table.made_up, *table.rules, *((one.of, one.form) for one in table.dependent))
                for table in (plan.tables.top, *plan.tables.lower) if table.made_up or table.rules or table.dependent]
        terms = replace(plan.terms, made_up=None, rules=None)
        return digest(self.session.policy, "synthetic tables", names, links, self.questions, terms, forms,
                      plan.choice.method.name, *more)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_SYNTHETIC_TABLES)

    def explanation(self) -> Explanation:
        plan, session = self.plan, self.session
        return Explanation(
            entity=session.catalog.entity.name, rewrites=(), stages=(), measurements=plan.measurements,
            steps=tuple(step for view in plan.relations for step in shortened(view, session)),
            expected=(Expected(aggregate="COUNT(*) by a measured marginal", error=None, named="shown with the tables"),),
            groups="; ".join(f"{of}: {len(view.table.columns)} columns of "
                             f"{view.table.domain.cells(view.table.domain.columns):,} combinations of listed values"
                             for of, view in plan.views),
            cost=str(price_charged(plan.terms.options.price, plan.price)), left=tuple(left_in_budget(session)), notes=plan.notes)

    def answer(self) -> ReleasedDatabase:
        with located(self.text), contextlib.ExitStack() as names:
            for name, span in sorted(self.spans, key=lambda each: each[0].lower()):  # all statements take names in one order
                names.enter_context(named_once(name, self, span, part_named(name)))
            made = self.stored_or_paid()
            stored = self.stored_form or ""
            for name, _ in self.spans:
                keep_again(name, part_named(name)(stored), self.session, self.text)
            return made

    def read(self, stored: str) -> ReleasedDatabase:
        return database_of_json(stored, self.session.part)

    def bill(self) -> ChargeRequest:
        return ChargeRequest(steps=steps(self.plan, self.identity, self.session.scratch), cost=self.plan.price,
                             options=self.plan.terms.options, views=self.plan.relations)
