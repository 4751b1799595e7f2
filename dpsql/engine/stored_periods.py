"""Stored answers of periods that are found without planning the statement of each period.

The statements of the periods of one question have one form, so what identifies them follows from the plan of one of them. Each
file that asks compares what follows with what a second plan says, and else plans them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpsql.answers.answer import Answer, of_json
from dpsql.engine.charging import ChargeRequest
from dpsql.engine.session import Session
from dpsql.engine.single import SingleStatement
from dpsql.frozen import Frozen, replace
from dpsql.questions.identity import SharedTexts, digest_of
from dpsql.questions.question import Question
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.growth import PeriodRange
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.revisions import newest_of
from dpsql.trusted.plan.node import Node

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation


def data_of_closed(reads: PeriodReads, views: Sequence[Node], session: Session) -> str:
    """What identifies the data of a statement whose answer stays once its periods are closed; see `Charged.data`."""
    from dpsql.planning.claimed_periods import revisions_of  # loaded only where tables grow

    newest = newest_of(revisions_of(views, session.revised)) if session.revised else 0
    return f"{reads} closed revised {newest}" if newest else f"{reads} closed"


def found_stored(session: Session, text: str, names: Mapping[int, tuple[str, str]]) -> dict[int, str]:
    """The stored answers that the account was told, by the places of their periods; `names` are the identities of the statements
    and of their data. Most were told to the same text, and are read at once; each of the others is looked up."""
    if not names:
        return {}
    told = session.ledger.bodies_to(session.account, text)
    made = {}
    for at, (identity, data) in names.items():
        body = told.get((identity, data))
        if body is None:
            body = session.ledger.stored(session.account, identity, data)
        if body is not None:
            made[at] = body
    return made


class StoredPeriod(Frozen):
    """The statement of a period whose answer is stored. It is planned if more is asked of it."""

    body: str
    reads: PeriodReads | None
    names: tuple[str, ...]
    plan: Callable[[], object]

    @property
    def is_stored(self) -> bool:
        return True

    @cached_property
    def planned(self) -> SingleStatement:
        """The plan of the statement."""
        made = self.plan()
        assert isinstance(made, SingleStatement)  # as that of the last period is
        return made

    def bill(self) -> ChargeRequest:
        return self.planned.bill()

    def explain(self) -> Explanation:
        return self.planned.explain()

    def dues(self) -> Iterator[ChargeRequest]:
        yield from ()

    def answer(self) -> Answer:
        return of_json(self.body).named(self.names)


def stored_parts(periods: Sequence[PeriodRange], asked: Callable[[PeriodRange], Question],
                 plan: Callable[[PeriodRange], object], first: object, last: object) -> dict[int, StoredPeriod]:
    """The statements whose answers are stored, by the places of their periods, without a plan of each. `asked` makes the question
    of a period, and `plan` its plan; `first` and `last` are the plans of the first and the last period.

    Questions of two periods differ in the rows that are read and in the values of keys of time. A plan of one statement has one
    question, which may add to what is asked, but not to these; so that of another period follows by replacing them. What follows
    for the first period is compared with its plan: if they differ, nothing is looked up in this way.
    """
    if len(periods) < 3 or type(last) is not SingleStatement or type(first) is not SingleStatement or last.program.first:
        return {}
    session, question, newest = last.session, last.program.question, asked(periods[-1])
    if (question.view, question.keys) != (newest.view, newest.keys) or (reads := last.reads) is None or reads.stated or (
            last.data != data_of_closed(reads, [question.view], session)):
        return {}
    texts, found_reads = SharedTexts(question), dict[int, PeriodReads]()

    def name(at: int) -> tuple[str, str]:
        here = asked(periods[at])
        found_reads[at] = replace(reads, periods=periods[at])
        text = texts.of(replace(question, view=here.view, keys=here.keys))
        return (digest_of((session.policy,), text, (last.program.options,)),
                data_of_closed(found_reads[at], [here.view], session))

    if name(0) != (first.identity, first.data):
        return {}
    names = tuple(output.name for output in question.outputs)
    found = found_stored(session, last.text, {at: name(at) for at in range(1, len(periods) - 1)})
    return {at: StoredPeriod(body=body, reads=found_reads[at], names=names, plan=partial(plan, periods[at]))
            for at, body in found.items()}
