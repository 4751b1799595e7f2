"""SQL over released rows of growing tables, such as a window that compares months: a released part that has a key for the period
is one statement for each period.

What was told of a period stays, and is stored. The SQL around is computed from the stored numbers, at no cost, whenever it is
asked for. Parts without such a key are statements of their own. All parts have an equal share of the price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dpsql.answers.answer import Answer, together, told_withheld
from dpsql.answers.described_columns import DescribedColumn
from dpsql.engine.around_statements import ROWS, meant
from dpsql.engine.charging import ChargeRequest, located
from dpsql.engine.merged_periods import base_of, can_be_base, merged, shown_notes
from dpsql.engine.parameters import Parameters, given_values
from dpsql.engine.period_by_period import KeyedPeriods, PeriodPart, PeriodParts, as_parts, parts_of, periods_of, sharing
from dpsql.engine.room_for_periods import check_room
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.all_mechanisms import NAMES
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.planning.explain import Explanation, steps
from dpsql.planning.options import Options, read_options
from dpsql.postprocessing.around_released import AroundReleased, ReleasedTable, bind_around
from dpsql.postprocessing.around_rows import columns_of, composed, loaded
from dpsql.postprocessing.moved_rows import LoadedColumn
from dpsql.questions.identity import digest
from dpsql.questions.question import Question
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.certificate import stabilities


def around_periods(query: Query, session: Session, parameters: Parameters,
                   plan: Callable[[Question, Options], object]) -> AroundPeriods | None:
    """The plan of a statement that is SQL over released rows, of which some have a key for the period; None for others. `plan`
    makes the plan of a question that is answered by itself."""
    if query.goals:
        return None
    try:
        with located(query.text):
            around = bind_around(query, session.catalog, session.kernel, session.scratch, given_values(query, parameters))
    except Error:  # reported where the statement is bound as a whole
        return None
    if around is None or not meant(around) or len(around.scalars) != len(around.tables):
        return None
    questions = [table.question for table in around.tables.values()]
    found = [periods_of(question, session) for question in questions]
    if not any(found) or any(question.scalars or not can_be_base(question) for question in questions):
        return None
    with located(query.text):
        options = read_options(query.options, default=session.price, confidence=session.confidence, known=(*NAMES, *RULES))
        options = sharing(options, len(questions), session)
        made = []
        for (name, table), keyed in zip(around.tables.items(), found, strict=True):
            base = base_of(table.question, None)
            parts = as_parts([plan(base, options)]) if keyed is None else (
                parts_of(base, keyed, lambda asked: plan(asked, options)))
            if parts is None:
                return None
            made.append(PartOfPeriods(name=name, table=table, base=base, parts=parts,
                                      found=keyed, names=() if keyed is None else keyed.names))
    return AroundPeriods(around=around, tables=tuple(made), options=options, text=query.text, session=session)


class PartOfPeriods(Frozen):
    """A released part: its table, and the statements that release it. `found` are its periods and `names` their names; there are
    none of a part that is one statement."""

    name: str
    table: ReleasedTable
    base: Question
    parts: Sequence[PeriodPart]
    found: KeyedPeriods | None
    names: tuple[str, ...]

    def told(self) -> PeriodParts:
        """The statements of the periods."""
        return PeriodParts(parts=self.parts, names=self.names or ("all periods",), question=self.base, text="")


class AroundPeriods(Frozen):
    """SQL over released parts that are read from statements of single periods."""

    around: AroundReleased
    tables: tuple[PartOfPeriods, ...]
    options: Options
    text: str
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(self.around)

    def explain(self) -> Explanation:
        node, session = self.around.rows.node, self.session
        each = [table.told().explain() for table in self.tables]
        return replace(each[0], groups=ROWS, measurements=tuple(one for told in each for one in told.measurements),
                       steps=tuple(steps(node, stabilities(node, session.kernel), 0, session.catalog.entity.name)),
                       stored=all(told.stored for told in each), cost="; ".join(dict.fromkeys(told.cost for told in each)),
                       notes=tuple(dict.fromkeys(note for told in each for note in told.notes)))

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills for what was not answered before."""
        for table in self.tables:
            yield from table.told().dues()

    def answer(self) -> Answer:
        with located(self.text):
            check_room([part for table in self.tables for part in table.parts], self.session)
            return self.of([table.told().answers() for table in self.tables])

    def of(self, found: Sequence[Sequence[Answer]]) -> Answer:
        """The answer, given those of the periods of each table."""
        with located(self.text):
            rows: dict[str, dict[str, LoadedColumn]] = {}
            notes: list[str] = []
            wholes = []
            for table, answers in zip(self.tables, found, strict=True):
                whole = together(answers)
                released = merged(table.table.question, table.base, answers, None)
                rows[table.name], withheld = loaded(table.table, released.cells, released.aggregates, self.session.scratch, {})
                notes += [*shown_notes(table.base, table.told().notes(answers)),
                          *told_withheld(table.table.question, withheld, len(released.cells))]
                wholes.append(whole)
            seed = digest(self.session.policy, "around periods", self.around.identity, self.options)
            cost = ", ".join(dict.fromkeys(whole.cost for whole in wholes if whole.cost))
            made = composed(self.around, rows, self.session.kernel, confidence=float(self.options.confidence), price=cost,
                            notes=tuple(dict.fromkeys(notes)), seed=int(seed[:16], 16))
        return replace(made, stored=all(whole.stored for whole in wholes), shared=any(whole.shared for whole in wholes))
