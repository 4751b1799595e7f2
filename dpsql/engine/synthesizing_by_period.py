"""CREATE SYNTHETIC TABLE of a growing table: a synthetic table for each closed period, and one name for all of them.

A model of all periods would cost each of them two steps (`trusted.kernel.period_reads`), and with the next one all rows would
change. So there is a model for each period, charged to it and stored, and its rows stay: next month, the same statement fits a
model of the new month only. Rows of different periods are of unrelated synthetic people. A column that is the start of the
period, or of a longer time, is a constant in each.

Only a SELECT that reads the growing table itself is split, perhaps beside tables that it joins: in subqueries and windows, rows
of several periods may meet. Such statements are answered as a whole.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from sqlglot import exp

from dpsql.answers.described_columns import OF_SYNTHETIC_TABLE, DescribedColumn, columns_of
from dpsql.catalog.growing import within
from dpsql.engine.charging import ChargeRequest, located
from dpsql.engine.conditions_of_periods import each_period, growing_scan, only_in, parsed
from dpsql.engine.kept_tables import parts_of_wholes, standing
from dpsql.engine.parameters import Parameters
from dpsql.engine.period_by_period import dues_of, explained
from dpsql.engine.room_for_periods import check_room
from dpsql.engine.session import Session
from dpsql.engine.synthesizing import SynthesisStatement, made_before, row_columns, synthesis, uncut_question
from dpsql.errors import SqlError
from dpsql.frozen import Frozen, replace
from dpsql.planning.explain import Explanation
from dpsql.sql.text.statement import Synthesize
from dpsql.synthesis.made_up_columns import made_up_columns
from dpsql.synthesis.synthetic_table import SyntheticTable, of_json
from dpsql.trusted.declarations.growth import KINDS, PeriodRange, first_day, name_of, names_of, period_of
from dpsql.trusted.plan.operators.scan import Scan

OF_ALL_ROWS = ("workload", "accept", "public")  # options that name the table, or rows of all periods


def synthesis_of(statement: Synthesize, session: Session, parameters: Parameters = ()) -> SynthesisStatement | SynthesisByPeriod:
    """The plan of a statement that makes a synthetic table. Raises a located error if it is wrong."""
    split = synthesis_by_period(statement, session, parameters) if session.catalog.periods else None
    return synthesis(statement, session, parameters) if split is None else split


def synthesis_by_period(statement: Synthesize, session: Session, parameters: Parameters) -> SynthesisByPeriod | None:
    """The plan of a statement whose rows are those of several periods of one growing table; None for others. Raises a located
    error if it is wrong."""
    with located(statement.text):
        scan = _growing_scan(statement, session, parameters)
        if scan is None or any(option.name in OF_ALL_ROWS for option in statement.options):
            return None
        _check_name(statement, session, parameters)
    each = each_period(scan)
    names = [names_of(one) for one in each]
    parts = tuple(replace(synthesis(_of_period(statement, scan, one), _session_of(session, scan, one), parameters),
                          session=session, whole=statement.name) for one in each)
    return SynthesisByPeriod(statement=statement, parts=parts, names=tuple(names), session=session)


def _growing_scan(statement: Synthesize, session: Session, parameters: Parameters) -> Scan | None:
    """The scan of the growing table that a SELECT reads itself, in several periods."""
    tree = statement.query.tree
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) is not None for part in (
            "group", "having", "distinct", "qualify", "limit", "offset")):
        return None
    columns = row_columns(statement.query, session, parameters)
    made_up = made_up_columns(next((option for option in statement.options if option.name == "made_up"), None), columns, None)
    question, _ = uncut_question(statement.query, session, None, parameters, columns, {each.at for each in made_up})
    return growing_scan(tree, question.view)


def _session_of(session: Session, scan: Scan, period: PeriodRange) -> Session:
    """The session where the growing table has this period alone: what is known of its columns then stays, whatever comes later.
    """
    name, catalog = scan.table.name, session.catalog
    return replace(session, catalog=replace(catalog, tables={**catalog.tables, name: within(catalog.tables[name], period)},
                                            periods={**catalog.periods, name: period}))


def _of_period(statement: Synthesize, scan: Scan, period: PeriodRange) -> Synthesize:
    """The statement of one period: with a condition that leaves it alone."""
    query, growth = only_in(statement.query, scan, period), scan.table.growth
    assert growth is not None and isinstance(query.tree, exp.Select)
    query.tree.set("expressions", [_known_item(item, growth.column, period) for item in query.tree.expressions])
    name = re.sub(r"\W", "_", name_of(period.period, period.first).removeprefix("week of "))
    return replace(statement, name=f"{statement.name}_{name}", query=query)


def _known_item(item: exp.Expr, time: str, period: PeriodRange) -> exp.Expr:
    """A column of the rows: the start of a time that contains the period as a constant, and others as they are."""
    inner = item.this if isinstance(item, exp.Alias) else item
    if not (isinstance(inner, exp.TimestampTrunc | exp.DateTrunc) and isinstance(inner.this, exp.Column)
            and str(inner.this.name).lower() == time.lower()):
        return item
    unit = next((kind for kind in KINDS if kind == str(inner.args["unit"].name).lower()), None)
    if unit is None or period_of(unit, period.start) != period_of(unit, period.end - dt.timedelta(days=1)):
        return item
    start = first_day(unit, period_of(unit, period.start))
    made: exp.Expr = parsed("", f"TIMESTAMP '{start} 00:00:00'").expressions[0]
    return exp.Alias(this=made, alias=item.args["alias"]) if isinstance(item, exp.Alias) else made


def _check_name(statement: Synthesize, session: Session, parameters: Parameters) -> None:
    """Raises SqlError if the name is that of another table, or of one of all periods with other columns."""
    name, known = statement.name.lower(), standing(session)
    columns = [column.name for column in row_columns(statement.query, session, parameters)]
    wholes = parts_of_wholes(known)
    others = any([column.name for column in of_json(part, session.part).columns] != columns for part in wholes.get(name, ()))
    declared = {each.lower() for each in (*session.catalog.tables, *session.catalog.undeclared)} - {*wholes}
    if others or name in known or name in declared:
        raise SqlError(f"there is a table {statement.name} already", code="synthesis", span=statement.span,
                       subject=statement.name, try_=f"{statement.name}_2")


class SynthesisByPeriod(Frozen):
    """The statements of the periods, in order, and the table that they make together."""

    statement: Synthesize
    parts: tuple[SynthesisStatement, ...]
    names: tuple[str, ...]
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_SYNTHETIC_TABLE)

    def explain(self) -> Explanation:
        return explained(self.parts, self.names, "model", "made")

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills of the periods whose tables were not made before."""
        return dues_of(self.parts)

    def answer(self) -> SyntheticTable:
        """The table of all periods told so far, those of other statements of its name included."""
        with located(self.statement.text):
            check_room(self.parts, self.session)
        made = [part.answer() for part in self.parts]
        return replace(made_before(self.statement.name, self.session), stored=all(table.stored for table in made))
