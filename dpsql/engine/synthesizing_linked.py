"""CREATE SYNTHETIC TABLES: several tables that hang together by foreign keys, planned and charged as one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dpsql.accounting.allotment import budgets_by_account
from dpsql.accounting.cost import Cost
from dpsql.catalog.model import ForeignKey, Table
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Bill, Charged, located
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.engine.synthesizing import check_name, chosen_method, coded_question, forms_of, limited_rows, rows_left_out, shortened, terms_of
from dpsql.errors import InternalError, SqlError, Unsupported
from dpsql.plan.identity import digest
from dpsql.plan.question import Question
from dpsql.planning.explain import Expected, Explanation
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Synthesize, SynthesizeTables
from dpsql.synthesis.column_forms import MOST_NUMBERS, Form, ListedColumn
from dpsql.synthesis.linked_plan import LinkedPlan, LinkedView, ViewsOfTable
from dpsql.synthesis.linked_views import LinkedTable, LinkedTables, LowerTable
from dpsql.synthesis.method import CodedColumn, CodedTable, SynthesisTask, marginals_of
from dpsql.synthesis.released_database import ReleasedDatabase, database_of_json
from dpsql.synthesis.table_options import SynthesisTerms
from dpsql.types import Span

PLAIN = "SELECT columns FROM one private table, with WHERE if need be"
CLAUSES = ("joins", "laterals", "group", "having", "distinct", "qualify", "order", "limit", "offset", "with_", "sample")


def linked_synthesis(statement: SynthesizeTables, session: Session, parameters: Parameters = ()) -> LinkedStatement:
    """The plan of the statement; no private rows are read. Raises a located error if it is wrong."""
    with located(statement.text):
        terms, allotted = terms_of(statement.options, session, statement.span)
        if parameters or any(asked.query.parameters for asked in statement.tables):
            raise Unsupported("several synthetic tables have no parameters", code="parameters", span=statement.span,
                              try_="the values themselves")
        tables = linked(statement, terms, session)
        planned = [(table, view) for table in (tables.top, *tables.lower) for view in _views_of(tables, table)]
        shares = {at: share for at, share in enumerate(_shares([kind for _, kind in planned]))}
        views: dict[int, list[LinkedView]] = {}
        questions, notes = [], dict[str, None]()
        for at, (table, kind) in enumerate(planned):
            question, view = _measured(tables, table, kind, terms, allotted.part(shares[at]), session)
            views.setdefault(table.at, []).append(view)
            questions.append(question)
            notes |= dict.fromkeys(rows_left_out(question, question.view, session))
        method = chosen_method(terms, [view.task for each in views.values() for view in each], statement.options, statement.span)
        plan = LinkedPlan(tables=tables, method=method, terms=terms, statement=statement.text, notes=tuple(notes),
                          views={at: ViewsOfTable(first=each[0], later=each[1] if len(each) > 1 else None)
                                 for at, each in views.items()})
        made = LinkedStatement(plan=plan, questions=tuple(questions), text=statement.text, session=session)
        for asked in statement.tables:
            check_name(asked.name, made, asked.span)
        return made


# -- how the tables hang together


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTable:
    """A query of the statement: of which table its rows are, the names of its columns, and which of them are columns as they are
    stored, by these."""

    asked: Synthesize
    base: Table
    names: tuple[str, ...]
    forms: Mapping[str, Form]
    stored: Mapping[str, str]

    def keys(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """The names of stored columns; None where one is not selected."""
        found = tuple(self.stored[column] for column in columns if column in self.stored)
        return found if len(found) == len(columns) else None


def linked(statement: SynthesizeTables, terms: SynthesisTerms, session: Session) -> LinkedTables:
    """Raises a located error where a query is no plain one, or the tables do not hang together."""
    plain = [_plain(asked, session) for asked in statement.tables]
    again = next((asked for i, asked in enumerate(statement.tables) if asked.name.lower() in [
        other.name.lower() for other in statement.tables[:i]]), None)
    if again is not None:
        raise SqlError(f"two tables are named {again.name}", code="synthesis", span=again.span, subject=again.name,
                       try_=f"{again.name}_2 for one of them")
    found: dict[int, LinkedTable] = {}
    waiting = dict(enumerate(plain))
    links = {at: _link(one, plain) for at, one in waiting.items()}
    tops = [at for at in waiting if links[at] is None]
    if len(tops) != 1 or len(plain) < 2:
        lost = plain[tops[-1] if len(tops) > 1 else 0]
        raise Unsupported(f"{lost.base.name} has no foreign key to another of these tables" if len(plain) > 1 else
                          "this is one table only", code="synthesis", span=lost.asked.span, subject=lost.base.name,
                          try_="CREATE SYNTHETIC TABLE for each by itself")
    while waiting:  # parents first
        at = next(at for at in waiting if (link := links[at]) is None or link[0] in found)
        one, link = waiting.pop(at), links[at]
        found[at] = _top(at, one, session) if link is None else _lower(at, one, plain[link[0]], link, terms, session)
    top = found.pop(tops[0])
    return LinkedTables(top=top, lower=tuple(table for table in found.values() if isinstance(table, LowerTable)))


def _plain(asked: Synthesize, session: Session) -> AskedTable:
    tree, place = asked.query.tree, span_of(asked.query.tree)
    source = tree.args.get("from_")
    extra = next((part for name in CLAUSES if (part := tree.args.get(name))), None)
    if not isinstance(tree, exp.Select) or source is None or not isinstance(source.this, exp.Table) or extra is not None:
        part = extra[0] if isinstance(extra, list) else extra
        raise Unsupported(f"the rows of {asked.name} are to be those of one table", code="synthesis",
                          span=(span_of(part) if isinstance(part, exp.Expr) else None) or place, subject=asked.name, try_=PLAIN)
    names = forms_of(asked.query, session)
    base = session.catalog.table(source.this.name)
    if base is None or base.public:
        raise Unsupported(f"the rows of {source.this.name} are public, so there is nothing to hide by synthetic ones",
                          code="synthesis", span=span_of(source.this), try_="the private tables only")
    written = [part for item in tree.selects for part in (
        base.columns if isinstance(item, exp.Star) or isinstance(item.unalias().this, exp.Star) else [item.unalias()])]
    stored: dict[str, str] = {}
    for name, part in zip(names, written, strict=True):
        column = part if isinstance(part, str) else part.name if isinstance(part, exp.Column) else None
        own = next((own for own in base.columns if column is not None and own.lower() == column.lower()), None)
        if own is not None:
            stored.setdefault(own, name)
    return AskedTable(asked=asked, base=base, names=tuple(names), stored=stored, forms={})


def _link(one: AskedTable, plain: Sequence[AskedTable]) -> tuple[int, ForeignKey] | None:
    """The one table among the others that this one has a foreign key to, and the key."""
    found = [(at, key) for key in one.base.foreign_keys for at, other in enumerate(plain)
             if other is not one and other.base.name.lower() == key.table.lower()]
    if len(found) > 1:
        raise Unsupported(f"the rows of {one.base.name} hang on rows of several of these tables, and each may hang on one only",
                          code="synthesis", span=one.asked.span, subject=one.base.name, try_="the tables that hang on one another "
                          "in one statement, and the others in another")
    return found[0] if found else None
