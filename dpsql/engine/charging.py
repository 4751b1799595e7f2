"""What every kind of statement needs: errors with a location, charges for answers, and the composition of their rows."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from dpsql.answers.answer import Answer, compose
from dpsql.answers.spending import busy, closed, exhausted, used_up_today
from dpsql.catalog.price import Price
from dpsql.engine.accounts import account_of_today, accounts_of
from dpsql.engine.guard import fault_of_dpsql
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted, Error, InternalError, Unsupported
from dpsql.frozen import AbstractFrozen, Frozen, replace
from dpsql.mechanisms.begun import begun, stopping_between
from dpsql.planning.minimum_frequency import with_minimum
from dpsql.planning.options import Options
from dpsql.planning.script import Released
from dpsql.questions.question import Question
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.ledger import Busy, Closed, Refused
from dpsql.trusted.kernel.period_reads import PeriodReads, static_tables
from dpsql.trusted.kernel.plan_size import check_size
from dpsql.trusted.kernel.revisions import Revision, newest_of
from dpsql.trusted.kernel.run import AnsweredBefore
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.certificate import Unbounded
from dpsql.trusted.plan.node import InvalidPlan, Node, Stability
from dpsql.trusted.stopping import go_on
from dpsql.types import Span

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

Made = TypeVar("Made")


@contextlib.contextmanager
def located(text: str, source: str = "SQL") -> Iterator[None]:
    """A context that locates errors in their text, and reports faults of dpsql itself in planning, before any row is read, as
    internal errors."""
    try:
        yield
    except Error as fault:
        if fault.text == text:  # binding gave the position, but does not know which of several statements it is in
            fault.source = source
        if fault.span is None and fault.code == "too-large":  # no single part is at fault, but the statement as a whole
            fault.span = Span(0, len(text))
        raise fault.located(text, source) from None
    except MemoryError:  # while planning, before anything is charged: what is public is too large for this machine
        raise Unsupported("this statement is too large to be planned here", code="too-large", span=Span(0, len(text)),
                          try_="fewer values, fewer grouping sets, or coarser keys").located(text, source) from None
    except (InvalidPlan, Unbounded) as fault:
        raise InternalError(f"this statement could not be planned ({fault})", code="plan").located(text, source) from None


class ChargeRequest(Frozen):
    """What is executed and charged: its `steps` produce the answer, `views` are the relations they query."""

    steps: Generator[Request, Any, Any]
    cost: Cost
    views: Sequence[Node]
    options: Options


@runtime_checkable
class Billed(Protocol):
    """A plan that is charged."""

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills for what was not answered before."""
        ...


class Charged(AbstractFrozen, Generic[Made]):
    """A statement that is charged once: the same statement, of the same account on the same data, gets the stored answer. Where
    the budget has its analysts share answers, this also holds for the same statement of another account.

    The same statement has the same `identity`: a digest of the policy, the bound question, its values and its options, and of the
    content of released or uploaded tables that it names. The ledger adds the budget and the version of the data.
    """

    text: str
    session: Session

    @property
    def by_tables(self) -> bool:
        """Whether the answer is looked for by this statement alone: then only the tables that it reads matter. What later
        statements use is looked for by the version of all data."""
        return False

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """Identifies the statement."""

    @abc.abstractmethod
    def read(self, stored: str) -> Made:
        """A stored answer, in the form requested now."""

    @abc.abstractmethod
    def bill(self) -> ChargeRequest | Made:
        """The bill for the statement; or the answer itself, if it is free."""

    @abc.abstractmethod
    def explanation(self) -> Explanation:
        """What the statement would do and cost if it had not been answered before; spends nothing."""

    def explain(self) -> Explanation:
        """What the statement would do and cost; spends nothing. Raises a located error if the statement is too large to be
        answered."""
        is_stored = self.is_stored
        if not is_stored:
            with located(self.text):
                _check_size(self.bill(), self.text)
        return replace(self.explanation(), stored=is_stored)

    @property
    def is_stored(self) -> bool:
        """Whether the statement is free, as it was answered before."""
        session, identity = self.session, self.identity
        return self._stored(identity) is not None or (
            session.budget.share_answers and session.ledger.is_told(session.budget.name, identity, self.data))

    @property
    def stored_form(self) -> str | None:
        """The stored answer that the account was told, as the ledger keeps it, if there is one."""
        return self._stored(self.identity)

    @cached_property
    def reads(self) -> PeriodReads | None:
        """The periods of growing tables that the statement reads, and in how many steps; None if it reads none. Raises
        Unsupported if there is no bound for a person in one period."""
        return self._growing[0]

    @property
    def data(self) -> str:
        """What identifies the data for which an answer is stored: the periods that are read and, where people without a row in
        them count, or rows of several periods together, the version of the tables that do not grow. Everything else that was
        told of closed periods stays, also where other tables say more of their people, until the owner declares a revision: its
        number is then a part of it, and answers from before are found no more. Without growing tables, it is the version of all
        data."""
        reads, static = self._growing
        kernel, newest = self.session.kernel, newest_of(self.revised)
        if reads is None:
            return kernel.version if static is None else kernel.version_of(static)
        stays = not static or reads.steps == 1 or bool(reads.stated)
        version = kernel.version_of(static or ()) if self.by_tables else kernel.version
        data = f"{reads} closed" if stays else f"{reads} {version}"
        return f"{data} revised {newest}" if newest else data

    @cached_property
    def revised(self) -> tuple[Revision, ...]:
        """The revisions of the periods that the statement reads."""
        if not self.session.revised or (asked := self.queried()) is None:
            return ()
        from dpsql.planning.claimed_periods import revisions_of  # loaded only where tables grow

        return revisions_of(asked[0], self.session.revised)

    def notes_on_periods(self, cost: Cost) -> tuple[str, ...]:
        """What a person is charged in each period that is read, at this cost, and which of the periods were revised."""
        if (reads := self.reads) is None:
            return ()
        from dpsql.planning.claimed_periods import charged_in, charged_in_any, revised_in_words  # loaded only where tables grow

        entity, many = self.session.catalog.entity.name, self.session.budget.in_any_periods
        return (charged_in(reads, cost, entity), *([charged_in_any(reads, entity, many)] if many else []),
                *revised_in_words(self.revised))

    @cached_property
    def _growing(self) -> tuple[PeriodReads | None, Sequence[Table] | None]:
        """The periods that are read, and the tables that do not grow; None for these if the version of all data stands for them,
        as where no table grows."""
        if not self.session.catalog.grows or (asked := self.queried()) is None:
            return None, None
        from dpsql.planning.claimed_periods import reads_of_views  # loaded only where tables grow

        views, cost = asked
        static = static_tables(views)
        with located(self.text):
            reads = reads_of_views(views, cost, self.session.kernel, Span(0, len(self.text)), self.first_request())
        return reads, static if reads is not None or self.by_tables else None

    def first_request(self) -> Request | None:
        """The first request of a statement, as far as it is known before anything is charged."""
        return None

    def queried(self) -> tuple[Sequence[Node], Cost] | None:
        """The relations that a statement queries, and its cost; None if it is free."""
        due = self.bill()
        return (due.views, due.cost) if isinstance(due, ChargeRequest) else None

    def dues(self) -> Iterator[ChargeRequest]:
        """The bill for the statement, if it is not free."""
        if not self.is_stored and isinstance(due := self.bill(), ChargeRequest):
            yield due

    def uses(self) -> Sequence[int]:
        """The charges of other accounts whose measurements the answer uses."""
        return ()

    def stored_or_paid(self) -> Made:
        """The stored answer, or a new one, which is charged first."""
        identity, session = self.identity, self.session
        stored = self._stored(identity)
        if stored is not None:
            return self.read(stored)
        if session.budget.share_answers and (
                told := session.ledger.tell(session.account, identity, self.data, self.text)) is not None:
            return _shared(self.read(told))
        due = self.bill()
        if used := self.uses():
            session.ledger.tell_of(session.account, used, self.data, self.text)
        if not isinstance(due, ChargeRequest):
            return due
        try:
            return self._paid(due, identity)
        except AnsweredBefore as found:  # meanwhile, for another account
            return self._read_now(found)

    def stored_or_paid_at_once(self, due: ChargeRequest) -> Made:
        """The same for a small bill: the kernel itself looks for a stored answer, so that a server needs only one round trip."""
        try:
            return self._paid(due, self.identity, unless_stored=True)
        except AnsweredBefore as found:
            return self._read_now(found)

    def _read_now(self, found: AnsweredBefore) -> Made:
        return _shared(self.read(found.body)) if found.shared else self.read(found.body)

    def _stored(self, identity: str) -> str | None:
        return self.session.ledger.stored(self.session.account, identity, self.data)

    def _paid(self, due: ChargeRequest, identity: str, *, unless_stored: bool = False) -> Made:
        session = self.session
        session.kernel.check()  # files may have been changed while the statement was planned
        data = None if self._growing == (None, None) else self.data
        try:
            with open_account(self.text, session):
                made: Made = session.kernel.run(
                    _begun_uncharged(stopping_between(due.steps), self.text), cost=due.cost, account=session.account,
                    sql=self.text, limits=session.limits, digest=identity, encode=methodcaller("as_json"), views=due.views,
                    unless_stored=unless_stored, in_periods=session.period_limits, in_any=session.window_limits,
                    data=data)
                return made
        except Refused as refused:
            raise self.too_dear(refused, due).located(self.text) from None

    def too_dear(self, refused: Refused, due: ChargeRequest) -> BudgetExhausted:
        """The error for a charge that would exceed a limit."""
        return refusal(refused, due, self.session)


def _shared(made: Made) -> Made:
    """A stored answer that another account paid for and that this account had not seen."""
    as_shared: Callable[[], Made] | None = getattr(made, "as_shared", None)  # of answers that say so
    return as_shared() if as_shared is not None else made


def _check_size(due: object, text: str) -> None:
    """Raises the OperationalError with which the kernel refuses, before a charge, relations or a first request that are too
    large, and what `_begun_uncharged` raises."""
    if not isinstance(due, ChargeRequest):
        return
    first = next(_begun_uncharged(due.steps, text), None)
    for plan in (*due.views, *(first.plans if first is not None else ())):
        check_size(plan)


def _begun_uncharged(steps: Generator[Request, Any, Made], text: str) -> Generator[Request, Any, Made]:
    """The same steps, where every fault up to the first request is an errors.Error: the kernel, which asks for that request
    before the charge, raises these at once. Up to there nothing depends on private rows, so nothing is to be charged.
    """
    started: Generator[Request, Any, Made] | None = None
    try:
        with located(text):
            started = begun(steps)
    except Error:
        raise
    except Exception:  # noqa: S110 - reported below, so that no cause is attached
        pass
    if started is None:
        raise fault_of_dpsql(text)
    return (yield from started)


@contextlib.contextmanager
def open_account(text: str, session: Session) -> Iterator[None]:
    """A context that raises BudgetExhausted, located, if the account has too many failed or running statements. Before that it
    raises OperationalError if the statement was interrupted."""
    go_on()
    try:
        yield
    except Closed as told:
        raise closed(session.budget.name, session.analyst, len(told.failed)).located(text) from None
    except Busy as told:
        raise busy(session.analyst, told.running).located(text) from None


def with_minimum_frequency(question: Question, known: Stability, session: Session, *, linear: bool = False) -> Question:
    """The question; if the policy has a minimum frequency, with the count of entities that decides which groups are withheld."""
    entity = session.catalog.entity
    return with_minimum(question, known, entity, linear=linear) if entity.minimum_frequency > 1 else question


def compose_answer(question: Question, options: Options, released: Released, session: Session,
                   price: Price | None = None) -> Answer:
    """The answer to a statement, composed from what was released."""
    return compose(question, released.cells, released.aggregates, session.scratch, confidence=float(options.confidence),
                   price=price, notes=released.notes, singles=released.singles)


def refusal(refused: Refused, due: ChargeRequest, session: Session) -> BudgetExhausted:
    """The error for a charge that a budget cannot pay, stating what is left."""
    if refused.period is not None:
        from dpsql.engine.period_accounts import exhausted_in  # loaded only where tables grow

        return exhausted_in(refused, refused.period, due.options.price, session, due.views,
                            due.options.span.get("epsilon", due.options.span.get("rho")))
    options, accounts = due.options, {account.whose: account for account in accounts_of(session)}
    place = options.span.get("epsilon", options.span.get("rho"))
    today = None if refused.analyst is None else account_of_today(session, refused.spent)
    if today is not None and (refused.analyst not in accounts or accounts[refused.analyst].limit.allows(
            refused.spent + due.cost.rounded())):
        return used_up_today(today, options.price, place)
    account = replace(accounts.pop(refused.analyst), spent=refused.spent)
    return exhausted(account, options.price, place, others=tuple(accounts.values()))
