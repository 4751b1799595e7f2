"""The only code that sees private rows. Rules of this room:

1. Nothing leaves but a release.
2. Check, charge, read, add noise, store, release: in that order. A charge is never taken back.
3. Trust no caller: a request is copied (`copied_request`), its certificate and cost are derived again from the plan in the
   copy, and the claims of that plan's operators are used only if `checker` confirms them.
4. After the charge, every fault becomes the same `Incident`: its text, type and cause reveal nothing. A statement that is
   interrupted before its outcome leaves becomes the same `Interrupted`, whatever it had come to, and one whose files are others
   when it leaves the same `SourceChanged`.
5. Until then nothing reveals that a statement is over, not even the ledger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dpsql.errors import Incident, Interrupted, OperationalError, SourceChanged
from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import FREE, NOTHING, Account, Cost
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.declarations.account_limits import INCIDENTS, LATE
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers
from dpsql.trusted.kernel.chain import NO_LIMITS, NO_WINDOWS, InParts
from dpsql.trusted.kernel.claims import Claims
from dpsql.trusted.kernel.data_versions import DataVersions
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.kernel.model_progress import SERIES, next_progress, paid_for
from dpsql.trusted.kernel.period_costs import PeriodCosts
from dpsql.trusted.kernel.period_reads import PeriodReads, static_tables
from dpsql.trusted.kernel.period_sums import WindowLimits
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.kernel.taken import Held, Script, continue_script, copied_request
from dpsql.trusted.measurements.all_measurements import MEASUREMENTS
from dpsql.trusted.measurements.online_comparisons import ComparisonResult, Comparisons, Opening
from dpsql.trusted.measurements.reading.content import Content, RememberedAnswers
from dpsql.trusted.measurements.reading.request import Context, Release, Request
from dpsql.trusted.noise.source import Secure, Source
from dpsql.trusted.plan.certificate import Certificate, Unbounded, certify
from dpsql.trusted.plan.decompose_join import decompose_join
from dpsql.trusted.plan.node import Node, Printing, Summary
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.reader import Reader, cause_of, is_interruption
from dpsql.trusted.stopping import is_to_stop


class AnsweredBefore(Exception):
    """The same statement was answered before, on the same `data`, for the same account or, where answers are `shared`, for
    another one; `body` is the stored answer."""

    def __init__(self, body: str, data: str, *, shared: bool = False) -> None:
        super().__init__("answered before")
        self.body, self.data, self.shared = body, data, shared


class Departure(NamedTuple):
    """How an outcome left: at which step if that was a `late` one, otherwise 0; whether the statement was `crowded`; and the
    cause for which it was `stopped` before, if it was."""

    late: int = 0
    crowded: bool = False
    stopped: str | None = None


class Leave:
    """Decides when a statement's outcome may be published: here immediately. This is for sessions in their own process, because
    whoever has the rows on their machine can observe how busy it is anyway."""

    def begin(self, first: int, crowded: int) -> None:
        """Record that the statement is charged; its outcome leaves at the `first` step of a grid of times or later, or at that of
        statements that are `crowded`."""

    def hold(self) -> Departure:
        """Wait, after the end of a statement, until its outcome may be published. There is no answer to a stopped statement."""
        return Departure()


AT_ONCE = Leave()
REQUEST, SOURCE = "request", "data changed"  # causes for which statements are stopped; those of a server come from it


class Priced(NamedTuple):
    """The kernel's own copy of a request, the certificates of its plans, and its cost."""

    request: Any
    certificates: tuple[Certificate, ...]
    cost: Cost


class Kernel:
    """Owns the reader of private rows, the ledger and the noise. Only one thread at a time may use it, except for `interrupt`."""

    def __init__(self, reader: Reader, ledger: Ledger, noise: Source | None = None, incidents: int = INCIDENTS, late: int = LATE,
                 solvers: Solvers = NO_SOLVERS, answers: RememberedAnswers | None = None) -> None:
        """`noise` is for audits; no connection that a user can make sets it. `incidents` is the number of statements of an
        account that may fail, and `late` the number that may be late before all have to wait. `solvers` save time; their
        results are checked. `answers` are the remembered answers to questions about the rows.
        """
        self._reader, self._ledger, self._noise, self.incidents = reader, ledger, noise or Secure(), incidents
        self.late, self._solvers = late, solvers
        self._content, self._publics = Content(reader, answers), Publics(reader)
        self._claims = Claims(reader, self._publics, Printing(salt=ledger.salt))
        self._held: dict[str, str] = {}
        self._versions = DataVersions(reader, self._publics, self._held)
        self._first: Priced | None = None
        self._reads: PeriodReads | None = None
        self._copies: Held = {}

    @property
    def version(self) -> str:
        """Identifies the content of the database; see `reader`."""
        return self._reader.version

    def version_of(self, tables: Iterable[Table]) -> str:
        """See `data_versions.DataVersions`."""
        return self._versions.of(tables)

    def check(self) -> None:
        """See `reader.Reader`."""
        self._reader.check()

    def interrupt(self) -> None:
        """See `reader.Reader`. A charged statement that is stopped keeps its charge."""
        self._reader.interrupt()

    def close(self) -> None:
        self._reader.close()

    def run(self, script: Script, *, cost: Cost, account: Account, limits: Mapping[str | None, Limit], digest: str, sql: str,
            encode: Callable[[Any], str | InParts], views: Sequence[Node] = (), leaving: Leave = AT_ONCE,
            unless_stored: bool = False, in_periods: Mapping[str | None, Limit] = NO_LIMITS, in_any: WindowLimits = NO_WINDOWS,
            data: str | None = None) -> Any:
        """Charge, then serve the requests of a script, store its answer when it may leave, and return it.

        The relations queried (the script's `views`) and the first request are known, and so checked, before the charge. If they
        read growing tables, `data` begins with the periods (`PeriodReads`), `in_periods` are the limits in each of them, and
        `in_any` those in any so many consecutive ones. Otherwise `data` is the version of the content, or of the tables that
        the views read (`version_of`).

        Raises, before anything is read or charged, AnsweredBefore where that is wanted and an answer is stored, or where the
        ledger shares answers and any account of the budget has one (`ledgers.shared_answers`), chain.Refused where a limit would
        be exceeded, Closed and Busy where too many statements of the account failed or are running, claims.Disagreement where a
        claim is not confirmed, TypeError or ValueError where the first request is invalid or costs more than `cost`, where other
        periods are read than `data` states, or what they cost there has no bound, or where `digest` names comparisons with an
        online model, which would forget how many updates it made, and any exception that the script raises before that request;
        after the charge Interrupted or SourceChanged where it is stopped, and Incident where anything else fails.
        """
        if digest.startswith(SERIES):
            raise ValueError("this is the name of comparisons with an online model")
        stated = self.version if data is None else data
        if unless_stored and (body := self._ledger.stored(account, digest, stated)) is not None:
            raise AnsweredBefore(body, stated)
        self._claims.begin()
        self._copies = {}  # views are parts of requests, and requests share parts; each is copied once
        queried = [copied_request(view, self._copies) for view in views]
        for view in queried:
            self._claims.relation(view)
        script = self._begun(script, cost)
        self._reads = self._reads_charged(queried, stated, cost)
        seq = self._ledger.charge(account, cost.rounded(), digest=digest, data=stated, sql=sql, allows=limits,
                                  incidents=self.incidents, body=self._opened(), in_periods=in_periods, in_any=in_any)
        return self._answered(seq, account, lambda: self._serve(script, cost), encode, leaving)

    def compare(self, asked: Comparisons, *, model: str, account: Account, sql: str,
                leaving: Leave = AT_ONCE) -> ComparisonResult | None:
        """Compare counts with those that an online model expects; None if all of the model's updates are used up.

        `model` identifies the statement that opened it, for this account and these data: what is made use of here was charged
        then (`measurements.online_comparisons`). Comparisons of a model are made one after the other, and each is recorded, as
        a charge of nothing, before rows are read.

        Raises as `run` does, and ValueError if no such model was opened.
        """
        self._claims.begin()
        asked = copied_request(asked)
        if type(asked) is not Comparisons:
            raise TypeError("these are not comparisons")
        certificate = self._borne_out(asked.plan)
        if self._claims.reads([asked.plan]) is not None:
            raise ValueError("an online model has no bound for a person in one period")
        with self._ledger.alone(f"model-{model}"):
            series, opened = paid_for(self._ledger.answered(account, model, self.version))
            asked.check(certificate, opened)
            progress = next_progress(self._ledger.newest(series), opened, self._noise)
            if progress is None:
                return None
            seq = self._ledger.charge(account, NOTHING, digest=series, data=self.version, sql=sql, allows={},
                                      incidents=self.incidents, body=progress.as_json())
            made: ComparisonResult = self._answered(
                seq, account, lambda: asked.release(self._context(), certificate, opened, progress.shared),
                ComparisonResult.as_json, leaving)
            return made

    def _answered(self, seq: int, account: Account, serve: Callable[[], Any], encode: Callable[[Any], str | InParts],
                  leaving: Leave) -> Any:
        """Serve a charged statement, store its answer when it may leave, and return it. All faults become the same Incident,
        except where the statement is stopped (`chain`)."""
        answer, left = None, Departure()
        body: str | InParts = ""
        fault: BaseException | None = None
        failed: str | None = None  # the cause, if it failed by itself
        stopped: str | None = None  # the cause, if it was stopped
        try:
            leaving.begin(self._ledger.first_step(account, self.late), self._ledger.first_step(account, self.late, crowded=True))
            answer = serve()
            body = encode(answer)
        except BaseException as caught:
            fault, failed, stopped = _told(caught, is_to_stop())
        try:  # outside the handler: what was read is given back before the wait, not after it
            left = leaving.hold()
            if left.stopped is not None:
                fault, stopped = Interrupted(), left.stopped
            if self._has_changed():
                fault, failed, stopped = SourceChanged(), None, SOURCE
            if fault is None:
                self._ledger.answer(seq, body, left.late, crowded=left.crowded)
        except BaseException as caught:
            fault, failed, stopped = _told(caught, False)  # too late to be stopped
        if fault is not None:  # raised here, outside the handlers, so that no cause is attached
            with contextlib.suppress(BaseException):  # rule 4; if it cannot be recorded, it counts as failed
                if failed is None and stopped is not None:
                    self._ledger.stopped(seq, stopped, left.late, crowded=left.crowded)
                else:
                    self._ledger.incident(seq, left.late, crowded=left.crowded, cause=failed)
            raise fault
        return answer

    def _has_changed(self) -> bool:
        """Whether the files of the database are not those that were opened."""
        try:
            self._reader.check()
        except OperationalError as fault:
            return fault.code == SourceChanged.code
        return False

    def hold(self, name: str, identity: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        """See `reader.Reader`. If the name referred to other rows before, the counts taken from them are forgotten, because
        bounds depend on how many public rows agree."""
        self._reader.hold(name, identity, columns)
        if self._held.setdefault(name, identity) != identity:
            self._held[name] = identity
            self._publics.forget()
            self._claims.forget()

    def public_rows(self, relation: Node) -> list[tuple[Any, ...]]:
        """See `publics.Publics`."""
        return self._publics.public_rows(relation)

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        """See `publics.Publics`."""
        return self._publics.fanout(relation, columns)

    # -- one script

    def _begun(self, script: Script, cost: Cost) -> Script:
        """The same script, after checking its first request, which depends on nothing private. Raises the error of that
        request.

        The script continues with the kernel's own copy, to whose values nobody else has a reference: so its certificates are
        still valid when it is served, and are kept with it. Those of later requests are derived when they are served. Values that
        were copied for the statement before are not copied again, even if the original has changed since.
        """
        self._first = None
        try:
            begun = copied_request(next(script), self._copies)
        except StopIteration as ended:
            return continue_script(script, ended)
        self._first = self._priced(begun)
        _check_paid(self._first.cost, cost)
        return continue_script(script, begun)

    def _opened(self) -> str | None:
        """The advance payment of the statement, if its first request opens an online model."""
        return own.request.opened(*own.certificates).as_json() if (own := self._first) and type(own.request) is Opening else None

    def _serve(self, script: Script, cost: Cost) -> Any:
        spent, context = FREE, self._context()
        costs = None if self._reads is None else PeriodCosts(self._reads)
        try:
            asked = self._certified(next(script))
            while True:
                spent += asked.cost
                _check_paid(spent, cost)
                self._check_reads(self._reads, costs, asked)
                asked = self._certified(script.send(self._look(asked.request, asked.certificates, context)))
        except StopIteration as done:
            return done.value

    def _certified(self, request: Request) -> Priced:
        """A request as the kernel copied it, with its certificates and cost. They are derived now, or were derived before the
        charge."""
        if self._first and request is self._first.request:
            return self._first
        if len(self._copies) > 10_000:  # or a script of many requests would fill memory
            self._copies = {}
            self._claims.begin()
        return self._priced(copied_request(request, self._copies))

    def _priced(self, own: Request) -> Priced:
        certificates = self._certificates(own)
        return Priced(own, certificates, own.cost(*certificates))

    def _reads_charged(self, queried: Sequence[Node], stated: str, cost: Cost) -> PeriodReads | None:
        """The periods that a statement is charged for, given the relations that it queries and its first request. Raises
        ValueError if they are not those that are stated, or the cost has no bound there."""
        first = None if self._first is None else self._first.request
        reads = self._claims.reads((*queried, *(() if first is None else first.plans)))
        told = PeriodReads.from_text(stated)
        versions = reads is not None or stated in (self.version, self.version_of(static_tables(queried)))
        if reads != (told and replace(told, stated=())) or not versions:
            raise ValueError("a statement reads other periods than it states")
        if told is not None and (type(first) is Opening or not told.can_cost(cost)):
            raise ValueError("what a person in one period costs is not known")
        if told is not None and self._first is not None:
            self._check_reads(told, PeriodCosts(told), self._first)
        return told

    def _check_reads(self, charged: PeriodReads | None, costs: PeriodCosts | None, asked: Priced) -> None:
        """Raises ValueError if a request reads periods that the statement was not charged for, or costs more in one of them;
        `costs` are those of the requests before."""
        reads = self._claims.reads(asked.request.plans)
        if reads is None:
            return
        if charged is None or costs is None or (reads not in charged and not charged.stated):
            raise ValueError("a script reads more periods than were charged")
        if charged.stated:
            costs.add(reads, asked.request, asked.certificates)

    def _certificates(self, request: Request) -> tuple[Certificate, ...]:
        """One certificate for each plan of a request. Raises TypeError for anything but a measurement."""
        if type(request) not in MEASUREMENTS:
            raise TypeError("private rows are read only by measurements")
        plans = request.plans
        known = {id(plan): self._borne_out(plan) for plan in {id(plan): plan for plan in plans}.values()}
        return tuple(known[id(plan)] for plan in plans)

    def _borne_out(self, plan: Summary) -> Certificate:
        """The certificate of a plan, after all of its claims have been derived again."""
        self._claims.size(plan)
        certificate = self._certify(plan)
        self._claims.summary(plan, certificate)
        certificate = replace(certificate, in_period=self._claims.in_period(plan, certificate))
        if isinstance(plan, JoinSum):
            relations = decompose_join(plan.input, self._publics).relations
            for relation in relations:
                self._claims.relation(relation.node, rows=relation.moved)
            return replace(certificate, joined=len(relations))
        return certificate

    def _certify(self, plan: Summary) -> Certificate:
        if isinstance(plan, GroupedSums):
            return certify(plan, self._publics, self._claims.claimed(plan.input))
        _ = plan.fields
        below = self._claims.claimed(plan.input)[id(plan.input)]
        if below.rows is None and not isinstance(plan, OwnerSets | Arcs | JoinSum):
            raise Unbounded(plan, below)
        return Certificate(below=below, summands=())

    def _look(self, request: Request, certificates: tuple[Certificate, ...], context: Context) -> Release:
        return request.release(context, *certificates)

    def _context(self) -> Context:
        return Context(reader=self._reader, noise=self._noise, printing=Printing(salt=self._ledger.salt), content=self._content,
                       public=self._publics, solvers=self._solvers, split_parts=self._claims.split_parts)


def _check_paid(spent: Cost, cost: Cost) -> None:
    """Raises ValueError if the requests cost more than was charged."""
    if not cost.covers(spent):
        raise ValueError("a script asks for more than was charged")


def _told(fault: BaseException, is_stopped: bool) -> tuple[BaseException, str | None, str | None]:
    """What is raised for a fault; why the statement failed, if by itself; and why it was stopped, if it was.

    It was stopped only if the fault itself says so (`is_interruption`), and somebody has asked for it. That it is to stop by now
    is not enough: giving back what a failed query had takes a while, in which it may have been interrupted. A fault that does not
    say so is one of the statement, and is counted; see `chain`, *Stopped*.
    """
    if isinstance(fault, KeyboardInterrupt):
        return KeyboardInterrupt(), None, REQUEST
    return (Interrupted(), None, REQUEST) if is_stopped and is_interruption(fault) else (Incident(), cause_of(fault), None)
