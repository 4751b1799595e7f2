"""Notes on answers from synthetic tables, and from tables of standing queries: how far they may be off, from what the query
reads and what was released."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpsql.engine.session import Session
from dpsql.planning.columns_read import PlanColumns
from dpsql.planning.program import Program
from dpsql.questions.question import Question
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan

if TYPE_CHECKING:
    from dpsql.synthesis.answer_errors import ColumnsRead
    from dpsql.synthesis.measured_counts import MeasuredCounts

TOGETHER = "how rows of several synthetic tables belong together follows from their models only"


def synthetic_notes(view: Node, session: Session, question: Question | None = None) -> tuple[str, ...]:
    """Notes on the synthetic tables that a view reads, in the order of the query, and on those of standing queries; `question` is
    what is asked of the view."""
    tables, series = dict(_tables_read(view, session)), _series_read(view, session)
    if not tables:
        return series
    from dpsql.synthesis.answer_errors import about_answer, about_rows, how_to_be_sure  # loaded only where there is such a table

    if question is not None and not question.aggregates:
        return (*map(about_rows, tables.values()), *series)
    notes = [about_answer(counts, _read(name, view, question)) for name, counts in tables.items()]
    return (*notes, *((TOGETHER,) if len(tables) > 1 else ()), how_to_be_sure([*tables.values()]), *series)


def notes_on_public_parts(program: Program, session: Session) -> tuple[str, ...]:
    """The notes on the parts of a program that read no private rows."""
    parts = [part for part in (*(below for _, below in program.first), program) if part.known.public]
    return tuple(dict.fromkeys(note for part in parts for note in synthetic_notes(part.view, session, part.question)))


def _series_read(view: Node, session: Session) -> tuple[str, ...]:
    """A note for each table of a standing query that is read."""
    scans = (node for node in bottom_up(view) if isinstance(node, Scan)) if session.series else ()
    found = ((session.series.get(scan.table.name.lower()), scan.table.content) for scan in scans)
    return tuple(dict.fromkeys(held.note for held, content in found if held is not None and held.content == content))


def _tables_read(view: Node, session: Session) -> Iterator[tuple[str, MeasuredCounts]]:
    if not session.released:
        return
    for scan in (node for node in bottom_up(view) if isinstance(node, Scan)):
        held = session.released.get(scan.table.name.lower())
        if held is not None and held.content == scan.table.content:
            yield scan.table.name, held.counts


def _read(table: str, view: Node, question: Question | None) -> ColumnsRead:
    """What a view and the question about it read of a table."""
    from dpsql.synthesis.answer_errors import ColumnsRead

    plan = PlanColumns(view)
    if question is None or any(call.over is not None for call in question.aggregates) or not all(
            isinstance(node, Scan | Filter | Project) for node in bottom_up(view)):
        # aggregates of groups, or of joined rows, are not those of the table's rows
        read = question.read if question is not None else [field.id for field in view.fields]
        return ColumnsRead(counted=plan.sources([*read, *plan.conditions], table), fixed=plan.passed(plan.compared, table))
    keys = [key.column for at, key in enumerate(question.keys) if all(at in chosen for chosen in question.sets or ())]
    of = {kind: [column for call in question.aggregates if call.function == kind for column in call.columns]
          for kind in {call.function for call in question.aggregates if not call.aggregate.counts}}
    values = frozenset().union(*of.values())
    counted = plan.sources([*question.read.difference(values), *(key.column for key in question.keys), *plan.conditions], table)
    others = plan.sources(values, table) - counted
    changed = others - plan.passed(values, table)
    unlike = plan.sources([column for kind, own in of.items() if kind not in ("sum", "avg") for column in own], table)
    return ColumnsRead(
        counted=counted, fixed=plan.passed([*keys, *plan.compared], table), values=others,
        sums=(plan.passed(of.get("sum", ()), table) & others), means=(plan.passed(of.get("avg", ()), table) & others),
        others=others & (changed | unlike),
        rows=not others or any(call.aggregate.counts for call in question.aggregates))
