"""Counts FROM an online model: each is compared with the model in private, and answered by it or, where it is far off, measured.

The query is bound over the combinations of values of the columns that it names, as over a public table. So it is known which of
these combinations each count is about; the counts come from the model in place of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from itertools import product
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import compose_answer, located, open_account
from dpsql.engine.online_models import coded_rows
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.engine.single import bound_to
from dpsql.engine.stored_models import models
from dpsql.errors import SqlError, Unsupported
from dpsql.estimates import Ends, Estimate, NoiseTerm
from dpsql.frozen import Frozen, replace
from dpsql.models.joint_histogram import GroupCount, JointHistogram
from dpsql.models.table_domain import Columns
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.explain import Expected, Explanation
from dpsql.planning.options import Options
from dpsql.planning.public import exact
from dpsql.planning.script import Released
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import Question
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import OpenModel, Query
from dpsql.synthesis.counted_groups import NOWHERE, CountedGroups, counts_of
from dpsql.synthesis.method import CodedTable
from dpsql.synthesis.online_model import OnlineModel, shown_columns, within
from dpsql.synthesis.online_options import read_online_terms
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.synthetic_table import declared_column
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.model_progress import paid_for
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.online_comparisons import ComparisonResult, Comparisons
from dpsql.trusted.plan.cells import Cells, cell_of
from dpsql.types import Type

CELL = "the cell"  # the column that numbers the combinations of values
FORM = "SELECT sex, COUNT(*) FROM people_model WHERE age > 40 GROUP BY sex"


def asked_online(query: Query, names: Set[str], session: Session, parameters: Parameters) -> OnlineStatement | None:
    """The plan of a query that reads an online model of the account, given the names of its tables; None for other queries.
    Raises a located error."""
    model = next((made for name, made in models(session).items() if name.lower() in names), None)
    if model is None:
        return None
    with located(query.text):
        tree = _plain(query, model)
        bound_to(query, _declaring(model, model.columns, session), parameters)  # first of all, whether it has these columns
        inside = _named_columns(tree, model)
        session = _holding(model, inside, session)
        question, options = bound_to(query, session, parameters)
        _check(question, query)
        again = tree.copy()
        group = again.args.get("group") or exp.Group(expressions=[])
        group.append("expressions", exp.column(exp.to_identifier(CELL, quoted=True)))
        again.set("group", group)
        by_cell, _ = bound_to(replace(query, tree=again), session, parameters)
        cells, groups = _groups(question, by_cell, options, inside, model, session)
        return OnlineStatement(model=model, question=question, options=options, cells=cells, groups=groups, text=query.text,
                               session=session)


def _plain(query: Query, model: OnlineModel) -> exp.Select:
    """The tree, if it is a SELECT from the model alone."""
    tree = query.tree
    others = [part for part in (exp.Subquery, exp.Join, exp.With, exp.Window) if tree.find(part) is not None]
    if not isinstance(tree, exp.Select) or others or sum(1 for _ in tree.find_all(exp.Table)) != 1:
        raise Unsupported(f"{model.name} is an online model, which answers counts of its rows by groups", code="online",
                          span=span_of(tree), subject=model.name, try_=FORM.replace("people_model", model.name))
    priced = next((option for option in query.options if option.name != "confidence"), None)
    if priced is not None or query.goals:
        span = priced.span if priced is not None else query.goals[0].span
        raise Unsupported("an online model was paid for when it was made, which also fixed its accuracy",
                          code="online", span=span, try_="the query without it")
    return tree


def _named_columns(tree: exp.Select, model: OnlineModel) -> Columns:
    """The model's columns that a query names, in the order of the model."""
    found = {column.name.lower() for column in tree.find_all(exp.Column)}
    return tuple(each.name for each in model.columns if each.name.lower() in found)


def _declaring(model: OnlineModel, columns: Sequence[SyntheticColumn], session: Session) -> Session:
    """The session in which the model is a public table of these columns."""
    table = Table(name=model.name, public=True, columns={each.name: declared_column(each) for each in columns})
    return replace(session, catalog=replace(session.catalog, tables={**session.catalog.tables, model.name: table}))


def _holding(model: OnlineModel, inside: Columns, session: Session) -> Session:
    """The session in which the model is a public table of the combinations of values of these columns, with their numbers."""
    chosen = [column for column in model.columns if column.name in inside]
    rows = [*product(*(column.values for column in chosen))]
    held = {column.name: (column.type.value, [row[at] for row in rows]) for at, column in enumerate(chosen)}
    session.kernel.hold(model.name, f"{model.identity} {' '.join(map(str, map(model.domain.columns.index, inside)))}",
                        {**held, CELL: (Type.BIGINT.value, list(range(len(rows))))})
    numbers = SyntheticColumn(name=CELL, type=Type.BIGINT, values=tuple(range(len(rows))))
    return _declaring(model, [*chosen, numbers], session)


def _check(question: Question, query: Query) -> None:
    """Raise Unsupported, located, for what is no count of rows."""
    for call in question.aggregates:
        if call.aggregate.kind is not Kind.COUNT or call.over is not None:
            raise Unsupported("an online model answers counts of rows", code="online", span=call.span, subject=call.text,
                              try_="COUNT(*), with FILTER (WHERE ...) if need be, or a synthetic table")
    group = query.tree.args.get("group")
    if question.sets is not None or (group is not None and not group.expressions):
        raise Unsupported("an online model answers one GROUP BY at a time, with named columns", code="online",
                          span=span_of(group or query.tree), try_=FORM)
    if not question.aggregates or question.scalars:
        raise Unsupported("an online model answers counts of rows", code="online", span=span_of(query.tree), try_=FORM)


def _groups(question: Question, by_cell: Question, options: Options, inside: Columns, model: OnlineModel,
            session: Session) -> tuple[Cells, tuple[CountedGroups, ...]]:
    """The groups of a query, and for each of its counts the group that each combination of values counts in, if it counts."""
    kernel = session.kernel
    cells, _ = exact(question, limited_view(question, options, kernel, None)[0], kernel)
    places = {cell_of(cell): i for i, cell in enumerate(cells)}
    rows, ones = exact(by_cell, limited_view(by_cell, options, kernel, None)[0], kernel)
    found = []
    for call in by_cell.aggregates:
        groups = np.full(model.domain.cells(inside), NOWHERE, dtype=np.int64)
        for row, one in zip(rows, ones[call.id].values.tolist(), strict=True):
            number = row[len(by_cell.keys) - 1]
            if one and isinstance(number, int):
                groups[number] = places[cell_of(row[: len(by_cell.keys) - 1])]
        found.append(CountedGroups(columns=inside, groups=groups, size=len(cells)))
    return cells, tuple(found)


class OnlineStatement(Frozen):
    """A query over an online model. Nothing is charged: the model was paid for when it was made."""

    model: OnlineModel
    question: Question
    options: Options
    cells: Cells
    groups: tuple[CountedGroups, ...]
    text: str
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        model, used = self.model, len(self._found())
        if not model.updates:
            return self._explained((f"counts are within {model.reach(0.95):,.4g}",))
        left = max(model.updates - used, 0)
        return self._explained((
            f"{sum(each.size for each in self.groups):,} counts are compared with the model",
            f"those that are within {model.reach(0.95):,.4g} of it are answered by it",
            f"others are measured: {left:,} of {model.updates:,} are left" if left else
            "no more counts can be measured, so no accuracy is promised"), (
            Expected(aggregate="COUNT(*) that is measured", error=model.spread, named=""),))

    def _explained(self, stages: tuple[str, ...], expected: tuple[Expected, ...] = ()) -> Explanation:
        return Explanation(
            entity=self.session.catalog.entity.name, steps=(), rewrites=(), measurements=(), stages=stages, expected=expected,
            groups=f"{len(self.cells):,}", cost="nothing: the model was paid for when it was made",
            left=tuple(left_in_budget(self.session)))

    def answer(self) -> Answer:
        with located(self.text), open_account(self.text, self.session):
            table = self._private()
            made = [self._asked(groups, table) for groups in self.groups]
        told = {call.id: estimate for call, (estimate, _) in zip(self.question.aggregates, made, strict=True)}
        notes = tuple(dict.fromkeys(note for _, notes in made for note in notes))
        return compose_answer(self.question, self.options, Released(cells=self.cells, aggregates=told, notes=notes), self.session)

    def _private(self) -> CodedTable:
        """The private rows and the columns that were coded, from the statement that opened the model. Raises a located error."""
        statement = parse(self.model.statement)
        assert isinstance(statement, OpenModel)
        tables = {name: table for name, table in self.session.catalog.tables.items() if name != self.model.name}
        session = replace(self.session, catalog=replace(self.session.catalog, tables=tables))
        with located(self.model.statement, f"the statement that made {self.model.name}"):
            terms = read_online_terms(statement.options, default=None)
            _, table, forms, _ = coded_rows(statement, terms, session)
        if shown_columns(table, forms) != self.model.columns:
            raise SqlError(f"the policy has changed its list of values since {self.model.name} was made", code="online",
                           subject=self.model.name, try_="another CREATE ONLINE MODEL")
        return table

    def _found(self) -> list[GroupCount]:
        """The counts that were measured, in the order of their measurements."""
        session = self.session
        if not self.model.updates:
            return []
        series, _ = paid_for(session.ledger.answered(session.account, self.model.identity, session.kernel.version))
        return counts_of(session.ledger.answers(series), self.model.domain)

    def _histogram(self, found: Sequence[GroupCount]) -> JointHistogram:
        """The model with what was measured. It is public, and computed once for each measurement."""
        key = f"{self.model.identity} {len(found)}"
        if key not in self.session.online:
            self.session.online[key] = self.model.start.agreeing(found)
        made: JointHistogram = self.session.online[key]
        return made

    def _asked(self, groups: CountedGroups, table: CodedTable) -> tuple[Estimate, tuple[str, ...]]:
        """The counts of all groups, with their errors."""
        values, kinds, at = np.zeros(groups.size), np.full(groups.size, "", dtype="<U8"), 0
        while at < groups.size:
            expected = np.rint(groups.counts(self._histogram(self._found())))
            result = self._compared(groups.after(at), expected[at:], table)
            near = groups.size - at if result is None else result.near
            values[at : at + near], kinds[at : at + near] = expected[at : at + near], "model" if result is None else "near"
            at += near
            if result is not None and result.count is not None:
                values[at], kinds[at] = max(result.count, 0), "measured"
                at += 1
        return self._estimate(values, kinds), tuple(self._notes(kinds))

    def _compared(self, groups: CountedGroups, expected: np.ndarray[Any, np.dtype[np.float64]], table: CodedTable) -> (
            ComparisonResult | None):
        if not self.model.updates:  # all of it is answered by the model, within what was told
            return ComparisonResult(near=groups.size, count=None, about="")
        columns = {each.name: each for each in table.columns}
        return self.session.kernel.compare(
            Comparisons(view=table.view, limit=self.model.limit, groups=tuple(groups.groups.tolist()), about=groups.as_text(),
                        axes=tuple(Axis(column=columns[name].column, values=columns[name].values) for name in groups.columns),
                        expected=tuple(int(count) for count in expected)),
            model=self.model.identity, account=self.session.account, sql=self.text)

    def _estimate(self, values: np.ndarray[Any, np.dtype[np.float64]], kinds: np.ndarray[Any, np.dtype[np.str_]]) -> Estimate:
        def reaches(confidence: float) -> np.ndarray[Any, np.dtype[np.float64]]:
            return np.select([kinds == "near", kinds == "measured"],
                             [self.model.reach(confidence), within(self.model.noise, confidence)], default=math.nan)

        def ends(confidence: float) -> Ends:
            return np.maximum(values - reaches(confidence), 0), values + reaches(confidence)

        errors = np.select([kinds == "near", kinds == "measured"], [self.model.reach(0.68), self.model.spread], default=math.nan)
        return Estimate(values=values, slopes={(0,): (NoiseTerm(kind="approximate", scale=1.0), errors)}, drawn=ends)

    def _notes(self, kinds: np.ndarray[Any, np.dtype[np.str_]]) -> Iterator[str]:
        model = self.model
        if (kinds == "near").any():
            yield f"counts answered by the model are within {model.reach(float(self.options.confidence)):,.4g} of it"
        if (kinds == "measured").any():
            yield f"{int((kinds == 'measured').sum()):,} counts were far from the model and were measured"
        if (kinds == "model").any():
            yield f"all {model.updates:,} measurements of {model.name} are used up: no accuracy is promised any more"
