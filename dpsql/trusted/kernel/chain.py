"""The rules of the ledger, without its file: what was spent, what failed, and whether one more charge is allowed.

A `Chain` has the verified events and the sums that follow from them, and decides what the next event is. `ledger` keeps the
events in a file, and guarantees:

  turns    while an event is made and written nobody else writes, and everything written before has been accepted here
  durable  an event is on disk before anything relies on it; one that could not be written is forgotten here too
  locks    a charge's lock is taken before the charge is written, released when its statement is over, and never taken again; if
           it is lost before, as a connection broke, the charge gets neither answer nor incident

*Events.* Each is hashed together with its predecessor; the first hash includes the identity of the ledger. So an event that was
changed, removed or inserted is not accepted, nor is any event after it.

*Limits.* A charge becomes an event only if every limit that applies allows the sum of all charges including it. Sums run over
accepted events, in exact integers, and nothing is ever subtracted from them.

*Incidents.* A statement that fails after its charge reveals to its analyst that it failed, which no proof covers, so an
account (a budget and an analyst) is closed after a few failures. A charge is *failed* once its incident is recorded, and also
if it has neither an answer nor an incident, was not stopped (below), and no process runs it any more (`running`): its process was
killed, which the analyst sees as well. It is *running* while it has none of these and its lock is held. Nothing else matters:
neither what went wrong nor how long it took.

Claim: between two acts of the owner, at most `incidents` charges of an account ever fail. Proof: a charge becomes an event only
if failed + running < incidents, in the same turn that writes it, holding its lock already; so failed + running <= incidents just
after. Later a charge leaves the sum (it is answered or stopped) or passes from running to failed, which does not change the sum,
as no lock is taken again; only another charge increases it. An account can therefore run at most `incidents` statements at a
time, too. A charge whose lock is lost has failed then, whatever becomes of its statement: no answer is recorded or shown, so the
failure that its analyst sees later is the one that was counted, also if the owner has forgiven it in between. It is enough that
the lock is held in the turn that writes the answer, as others decide by what runs in turns only.

*Stopped.* A `stopped` event ends a charge that gets no answer and does not count as failed; its text names the cause. There are
two causes: the statement was interrupted before its outcome left (by its analyst, by a time limit, because its client had left,
or because the server stops), or the files of the database were others when it left. `run` writes no such event for a statement
that failed by itself before it was interrupted: this is an incident, although its analyst sees it as interrupted.

Claim: on a server with a pace, whether a statement is answered or stopped depends on rows only through the step at which it
would have left, and that is counted: if private rows decide it, there is a late event. Proof: let D be the first step of the
statement. Nothing leaves before D, and up to D the effect of an interruption is the same whether the statement runs, is over or
has failed: it is stopped, and leaves at a step of the grid that begins at the interruption. Whoever interrupts knows neither; so
what they see is decided by when they interrupt. After D, a statement that was on time is answered and one that was not is
stopped: so an interruption after D states that the statement is late, as an answer at that time would
(`server.vault.departure`). Stopping may take longer than a first step, too, which is late as well. Whether the files are others
is looked up at the time of departure, in all cases alike, and files are changed by the owner, never by a statement. Without a
pace, an interruption reveals whether the statement was still running, as its answer would have: times are not hidden there.

Claim: the number of failures is bounded as before. Proof: a stopped charge leaves the sum, as an answered one does. A statement
that failed by itself is an incident even if it is interrupted before that can be seen, because it is told by the fault and not by
the time: `run` writes `stopped` only for a fault that says of itself that it is an interruption (`reader.is_interruption`). The
engine says so of a query only after `Reader.interrupt`, never because of a row; a script says so only between requests, where it
knows nothing but releases. Every other fault is an incident, whether memory or a disk was full or a value could not be read, and
also if it comes after the interruption. So nobody can try out what fails and interrupt it each time, not even a front that sees,
before the outcome leaves, that a release does not come. The release that would come next may still be on its way when the
statement is interrupted; then it is as for one that takes long.

A row may still decide a race: a query that fails at a row at about the time of the interruption is stopped if the engine has
noticed that first, and an incident otherwise. Claim: this reveals no more than `incidents` failures do. Proof: suppose that the
row were not there, and all else the same. The statement would be interrupted too, by the same call at the same time, which
whoever interrupts has chosen by what they knew; it would be stopped, and leave at the same step unless it is late, which is
counted. With the row, it is stopped, which is the same outcome at the same step, or it is an incident, which is counted and after
so many of which the account is closed. So a sequence of statements, all interrupted as well as they can be, shows which few of
them were counted and nothing else. The other way round, what the engine calls by another name although only the interruption
caused it counts against the account: that is on the safe side. Tasks of Spark are not interrupted: their faults are incidents,
and a statement that waits for them stops when they have ended.

Only with the files do failures go uncounted that such a front could see: those of the at most `incidents` statements that run
when the owner changes files.

What remains an incident: every fault of an engine but an interruption, such as a full disk and exhausted memory, because queries
write to disk and fill memory as their rows have it; and a killed process, as one that runs out of memory is killed by the same
signal as one that its owner kills. Also if another account's statement did it. The text of an incident names the cause for the
owner where it is known; nobody else gets it.

A `reopened` event names the failed charges that the owner forgives, never a running one, so that it cannot falsify the sum.

*Late.* Answers and incidents leave at the steps of a grid of times (`server.vault.departure`). If one leaves after the first
step of its statement, private rows decide at which step. A `late` event of the same charge, written before the answer or
incident, states that step; steps count from 1. Once an account has `late` such events, each further one raises the first step
of all its later statements (`first_step`) by one, which doubles the time, but never beyond the largest step that these events
state. A `late` event without a charge forgives them; it is an act of the owner.

*Crowded.* If another statement of the server was under way between the charge and the first step, its load may be why a statement
is late, and a `crowded` event takes the place of the `late` one. Such events raise the first step only of statements that are
crowded themselves: the delay ends with the load. They are counted all the same, and never excused. For however great the load of
others is, whether one statement is on time under this load depends on its own rows; and a second account could make any load.
Which statements are under way is known from when they are charged and leave, so from public facts and from late events, and it
is looked up for the same period whether the statement is over or not.

*Fading.* Events of `FADES` days and more before today, by the date that they state, no longer count.

Claim: if all outcomes leave at step K or before, fewer than late + incidents * (K + 1) outcomes of an account are late, and
fewer than as many crowded, in any `FADES` consecutive days between two such acts (if the clock does not go back). Proof: first
for all days, as if nothing faded, and for either kind, by induction on j: once late + incidents * j late events were recorded,
the largest step is j or more; so there are never late + incidents * (K + 1). First steps of crowded statements follow from both
kinds, so at least from their own. For j = 0 there is nothing to show. Consider the next `incidents` late events after these. Not
all of their statements can have been charged before the last of the former was recorded, as its own statement was running then,
and at most incidents - 1 others. A statement that was charged later looked up its first step since: both incidents * j, if that
is less, and the largest step are at least j, so it was late at j + 1 or more. (For late = 0 and j = 0, none ran before.)
Statements that had been charged when the owner acted are among those that run. Now take only the events of `FADES` consecutive
days: a statement that is late on one of these days, and was charged after events of these days, looked up its first step on one
of them too, when all of those events counted. So the same induction holds for them.

*Checkpoints.* From time to time an event states all sums (`sums`), so that a ledger can be opened from there on. Claim: a
reader that resumes at a checkpoint, and then accepts the head of the chain that the anchor has seen, has the same sums as a
reader that accepted all events. Proof: the hash of the head covers everything before it, including the text of the checkpoint;
so, unless someone finds a collision of SHA-256, that text is the one that was there when the anchor saw the head (`ledger`
chooses no checkpoint after it). A chain that had these sums wrote it in its turn, as an event like all others, and each reader
that accepted it then compared it with its own sums. The first hash, of the identity and the salt, is a part of it. So to forge
a checkpoint is exactly as hard as to forge any other event: the anchor would have to be forged too.

A checkpoint of an earlier version states less: no revisions, no sums of periods, no days of late events, no hashes of the
events between checkpoints, no skips (`waypoint`), no reports (`reported`). Nobody resumes at such a checkpoint: an earlier
version may have written it after charges in periods, which it does not count, or states them by period and not in runs. It is
accepted for what it states besides these, and the next event is followed by a checkpoint that states everything. In turn, earlier
versions accept our checkpoints without comparing those parts: no charge of theirs depends on them, and someone who has only the
file could just as well add events that nobody can tell from genuine ones.

*Promises.* A `promise` event states what the charges of a budget promise from there on, until the next such event of the
budget (`catalog.promise` decides its text; here it is only kept). Its `data` names the `promise` event before it. The sums
include the newest one, and the newest one that *changed* a promise and did not only extend it: a charge that relies on an
earlier change is refused.

*Told.* Where the owner has the analysts of a budget share their answers, an `answer` event without a text says that its account
was told the answer to a charge of another account of the budget: `answers` is that charge. It charges nothing.

Claim: the total bounds what is revealed about one entity to everybody together, with such events or without. Proof: what is told
is a text that the ledger already has, as an answer that the total was charged for; no row is read for it.

Claim: what one analyst knows is bounded by three kinds of charges, each counted once: those of their account, those that their
account was told of, and earlier ones whose answers were used for an answer to one of these (a statement reuses counts, or an
earlier count determines its price). The last kind has no event for this analyst: the events of the account that paid show what it
was told before. So the limit of an analyst bounds what they ask, and no longer what they know; the total bounds that. (Analysts
who pool what they know were never bounded by anything but the total.) Proof: an answer depends on the rows through its own charge
and through answers that its account was told before that charge. Nothing that depends on an answer of another account is shown
before the account has an `answer` event of that charge, or of a charge whose answer was made with it, on disk. Until then a plan
may depend on what was measured, and with which noise, but not on what came out (`engine.kept_measurements`).

Claim: of the statements whose answers are shared, no two with equal `digest` and `data` are charged to a budget, unless the first
one failed. Proof: both are looked up in the turn that writes the charge. If the other one is running, the statement waits
(`Underway`); if it is answered, it is told (`AnsweredBefore`); so it is charged only if the other one has failed.

*Parts.* An answer that would be too long for one event is stored in several, which are written in one turn: first `part` events,
each with a piece of the text, whose `answers` is the charge and whose `digest` is the SHA-256 of the piece; then the `answer`
event, whose text names the digests of its parts.

Claim: parts change no sum, and a charge with parts is answered, running or failed as it would be without them. Proof: to accept a
`part` event changes nothing but the head (`_follow`), no charge depends on its text, and lists do not count it (`LISTED`). If a
process is killed between two parts, or a part cannot be written, the charge has no answer, and fails like any other; parts that
were written without an answer are named by nothing.

Claim: an answer is read with the parts that were written for it, or it is refused. Proof: its text, which is accepted or verified
like every other, names the SHA-256 of each part, and a text that is read as a part must have that hash; another text would be a
collision. A part that was removed, changed or moved breaks the chain besides, as every event does.

Claim: an account that reads a part learns nothing that it was not told. Proof: `ledgers.ledger_reports` returns the pieces of
answers to charges of the account, and to those whose answers it was told (*Told*), and no others.

*Periods.* The `data` of a charge whose statement reads growing tables states the periods (`period_reads`), and with the charge
what it costs a person in each of them. These costs have limits of their own, one for each period, which are decided in the same
turn, by sums over accepted events. So do those in any so many consecutive periods (`period_sums`).

Claim: at all times, every limit in all, in each period and in each window of periods allows the sum of the charges there, if all
charges were made with these limits. Proof: the sums change with accepted events only, and nobody else writes during a turn. A
charge becomes an event if every limit allows its sum with the charge, for each period that is read and each window that meets
one; sums of other periods and windows stay as they are. If one limit does not allow it, there is no event, so nothing is added
anywhere.

*Revisions.* A `revised` event states that the owner has changed rows of some periods of a table, and why (`revisions`). Answers
from before are then no longer those to the same statements (`engine.charging`), so new ones are charged.

Claim: a revision lowers no sum and renews no account; every later charge is allowed or refused as it would be without it. Proof:
to accept it only adds it to the list of revisions (`_follow`), which nothing reads that decides about a charge. It costs nothing,
and if someone wrote one with a cost, sums would be larger (`_count`). What is charged anew is charged to the same accounts of the
same periods.

*Time.* `day` is the newest day that an event states. Periods are closed by the day of the machine's clock or, if that is earlier,
by this one (`days_behind`): so a clock that is set back closes no period again, and opens none. It is public, as what was
recorded when. Claim: no sum and no charge depends on it. Proof: `charge` does not read it. If a clock was ahead, all days up to
that one seem to be over, until the owner says that it was wrong: after a `clock` event, only the days of it and of later events
count. Charges of periods that were not over yet are not taken back.

*Names.* An account is identified by the normal form of its analyst's name (`declarations.names`), whatever form an event holds.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.declarations.account_limits import FADES
from dpsql.trusted.declarations.names import normal
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.period_runs import ChargesByPeriod, as_charge
from dpsql.trusted.kernel.period_sums import PeriodSums, WindowLimits, charge_in_window
from dpsql.trusted.kernel.revisions import Revision
from dpsql.trusted.kernel.sums import NONE, ChainSums, Late
from dpsql.trusted.kernel.waypoint import Head, Waypoint

LISTED = "charge", "answer"  # kinds of events that make a list of statements
CHANGED, EXTENDED = "changed", "extended"  # what `promise` events do
EVERY = 1000  # events, at least, between two checkpoints
KINDS = ("charge", "answer", "incident", "reopened", "checkpoint", "late", "promise", "part", "stopped", "crowded", "revised",
         "clock")
NOBODY = Account(budget="", analyst="")  # of events that concern all accounts
NO_LIMITS: Mapping[str | None, Limit] = {}
NO_WINDOWS = WindowLimits()
LONG = 2**26  # characters of events after which there is a checkpoint all the same, as they would take long to verify


class InParts(NamedTuple):
    """An answer in parts: its text, which names the digest of each part, and the parts."""

    text: str
    parts: tuple[str, ...]


class Event(NamedTuple):
    """A row of the ledger. `answers` is the number of the charge that an answer, part, incident, stopped, late or crowded event
    belongs to."""

    seq: int
    kind: str
    at: str
    budget: str
    analyst: str
    digest: str
    data: str
    sql: str
    epsilon: int | None
    rho: int
    delta: int
    answers: int | None
    body: str | None

    @property
    def account(self) -> Account:
        return Account(budget=self.budget, analyst=self.analyst)

    @property
    def cost(self) -> Charge:
        return Charge(epsilon=self.epsilon, rho=self.rho, delta=self.delta)

    def link(self, previous: str) -> str:
        """The hash of the chain up to this event."""
        return hashlib.sha256((previous + json.dumps(self, ensure_ascii=True, separators=(",", ":"))).encode()).hexdigest()


class Refused(Exception):
    """A charge would exceed the limit of `analyst` (None: the total), in all or in so many consecutive `periods` from `period`
    on. `spent` is what was charged before."""

    def __init__(self, analyst: str | None, spent: Charge, period: int | None = None, periods: int = 1) -> None:
        super().__init__("limit")
        self.analyst, self.spent, self.period, self.periods = analyst, spent, period, periods


class Closed(Exception):
    """Too many charges of an account have failed, so it is closed. `failed` contains their numbers."""

    def __init__(self, failed: Sequence[int]) -> None:
        super().__init__("closed")
        self.failed = tuple(failed)


class Busy(Exception):
    """So many statements of an account are running that it would have to be closed if all of them failed."""

    def __init__(self, running: int) -> None:
        super().__init__("busy")
        self.running = running


class Outdated(Exception):
    """The promise of the budget has changed, but the session relies on an earlier one."""


class Broken(Exception):
    """An event is not the expected next event of the chain."""


class Hashes:
    """The hashes of consecutive events, from some event on. A server may accept millions, so each hash takes only its 32
    bytes."""

    def __init__(self, seq: int, link: str) -> None:
        self._first, self._kept = seq, bytearray.fromhex(link)

    def append(self, link: str) -> None:
        self._kept += bytes.fromhex(link)

    def get(self, seq: int) -> str | None:
        """The hash of an event, if it is among these."""
        at = 32 * (seq - self._first)
        return self._kept[at:at + 32].hex() if 0 <= at < len(self._kept) else None


class Chain:
    """The accepted events, represented by their hashes, and the sums that follow from them."""

    def __init__(self, genesis: str, is_running: Callable[[int], bool]) -> None:
        self.genesis, self._is_running = genesis, is_running
        self.hashes = Hashes(0, genesis)  # of accepted events, from the checkpoint on at which the chain was resumed
        self.head = 0, genesis  # the number of the newest event (0 if there is none) and the hash up to it
        self.checkpoint = self.head  # the newest one
        self._resumable = 0  # the newest one that states everything
        self._checkpoints, self._skips = 0, tuple[Head, ...]()
        self._between = hashlib.sha256()  # of the links since the newest checkpoint
        self._length = 0  # of the texts since the newest checkpoint that states everything
        self.sums = ChainSums()

    @property
    def promised(self) -> Mapping[str, tuple[int, int]]:
        """By budget: the event that changed its promise last, and the one that states it."""
        return self.sums.promised

    def spent(self, budget: str, analyst: str | None = None) -> Charge:
        """What was charged to a budget in total, or by one analyst."""
        return self.sums.spent.get((budget, None if analyst is None else normal(analyst)), NOTHING)

    def spent_in_periods(self, budget: str, analyst: str | None = None) -> ChargesByPeriod:
        """What was charged to a budget in each period of growing tables, in total or by one analyst, by the period's number."""
        return self._in_periods(budget, analyst).by_period()

    def spent_in_windows(self, budget: str, analyst: str | None, periods: int) -> ChargesByPeriod:
        """The same in any so many consecutive periods, by the number of the first of them."""
        return self._in_periods(budget, analyst).by_window(periods)

    def _in_periods(self, budget: str, analyst: str | None) -> PeriodSums:
        return self.sums.periods.get((budget, None if analyst is None else normal(analyst)), NONE)

    def failed(self, account: Account) -> list[int]:
        """The charges of an account that failed and are not forgiven."""
        lost = [seq for seq in self.sums.pending.get(account.named, ()) if not self._is_running(seq)]
        return sorted({*self.sums.failed.get(account.named, ()), *lost})

    def first_step(self, account: Account, late: int, *, crowded: bool = False) -> int:
        """The first step at which outcomes of an account may leave now, if `late` of them may be late; of statements that are
        `crowded`, or of others."""
        since = (dt.datetime.now(dt.UTC).date() - dt.timedelta(days=FADES - 1)).isoformat()
        counted = {each: number for each, number in self.sums.late.get(account.named, Counter()).items()
                   if each.day >= since and each.crowded <= crowded}
        return min(max(0, sum(counted.values()) - late), max((each.step for each in counted), default=0))

    def number_late(self, account: Account) -> int:
        """How many outcomes of an account left late, and are not forgiven."""
        return self.sums.late.get(account.named, Counter()).total()

    @property
    def days_behind(self) -> int:
        """By how many days this machine's clock is behind the newest event."""
        try:
            return max(0, (dt.date.fromisoformat(self.sums.day) - dt.datetime.now(dt.UTC).date()).days)
        except ValueError:  # there is no event yet
            return 0

    def kept(self, digest: str) -> int | None:
        """The newest charge with this digest for which the kernel keeps data."""
        return self.sums.kept.get(digest)

    # -- the next event

    def charge(self, account: Account, charge: Charge, *, digest: str, data: str, sql: str, allows: Mapping[str | None, Limit],
               incidents: int | None, body: str | None, promise: int | None = None,
               in_periods: Mapping[str | None, Limit] = NO_LIMITS, in_any: WindowLimits = NO_WINDOWS) -> Event:
        """The event of a charge, if it is allowed; `body` is the data that the kernel keeps with it, and `promise` the event of
        the promise that the session relies on. `in_periods` are the limits in each period that `data` states, and `in_any` those
        in each window with one of them. Raises Outdated if there is a newer promise, Closed or Busy if too many charges of the
        account failed or are running, Refused if a limit would be exceeded, and ValueError if periods are read without one."""
        if promise is not None and promise != self.promised[account.budget][0]:
            raise Outdated
        if incidents is not None:
            self._check_open(account, incidents)
        for analyst, limit in allows.items():
            spent = self.spent(account.budget, analyst)
            if not limit.allows(spent + charge):
                raise Refused(analyst, spent)
        if (reads := PeriodReads.from_text(data)) is not None:
            self._check_periods(account.budget, reads, charge, in_periods)
            self._check_windows(account.budget, reads, charge, in_any)
        return self._next("charge", account, digest=digest, data=data, sql=sql, charge=charge, body=body)

    def _check_periods(self, budget: str, reads: PeriodReads, charge: Charge, limits: Mapping[str | None, Limit]) -> None:
        if None not in limits:
            raise ValueError("periods are read without a limit")
        for analyst, limit in limits.items():
            each = self._in_periods(budget, analyst).each
            for periods, cost in reads.charges(charge):
                for first, _, sums in each.between(periods[0], periods[-1]):
                    if not limit.allows((spent := as_charge(sums)) + cost):
                        raise Refused(analyst, spent, first)

    def _check_windows(self, budget: str, reads: PeriodReads, charge: Charge, in_any: WindowLimits) -> None:
        cost, length = charge_in_window(reads, charge), in_any.periods
        for analyst, limit in in_any.limits.items():
            refused = self._in_periods(budget, analyst).refused(limit, length, reads, cost)
            if refused is not None:
                window, spent = refused
                raise Refused(analyst, spent, window, length)

    def following(self, charged: Event, kind: str, body: str | None) -> Event:
        """The event that a charge is answered, has failed or was stopped, or that one of these is late."""
        return self._next(kind, charged.account, digest=charged.digest, data=charged.data, sql=charged.sql, answers=charged.seq,
                          body=body)

    def part(self, charged: Event, body: str) -> Event:
        """The event of a part of a charge's answer, which is written before the answer."""
        return self._next("part", charged.account, digest=part_digest(body), data=charged.data, answers=charged.seq, body=body)

    def reopened(self, account: Account) -> Event:
        """The event by which the owner forgives the failed charges of an account."""
        return self._next("reopened", account, body=json.dumps(self.failed(account)))

    def on_time(self, account: Account) -> Event:
        """The event by which the owner forgives the late outcomes of an account."""
        return self._next("late", account)

    def promise(self, budget: str, text: str, *, changed: bool) -> Event:
        """The event that states what charges of a budget promise from now on, and whether the promise was changed or only
        extended."""
        return self._next("promise", Account(budget=budget, analyst=""), digest=CHANGED if changed else EXTENDED, body=text,
                          data=str(self.promised.get(budget, (0, 0))[1]))

    def revised(self, revision: Revision) -> Event:
        """The event by which the owner revises some periods of a table."""
        return self._next("revised", NOBODY, body=revision.as_text())

    def clock(self) -> Event:
        """The event by which the owner says that a clock was ahead, and that this machine's is right."""
        return self._next("clock", NOBODY)

    def checkpoint_due(self) -> Event | None:
        """A checkpoint, if so many events were written since the last one that its cost is comparatively small."""
        if self.head[0] - self._resumable < EVERY + self.sums.size and self._length < LONG:
            return None
        told = {"ledger": self.genesis, **self._waypoint().as_values(), **self.sums.as_values()}
        return self._next("checkpoint", NOBODY, body=json.dumps(told))

    def _waypoint(self) -> Waypoint:
        """The statements of a checkpoint besides the sums, as they are if it is the next event."""
        return Waypoint(number=self._checkpoints + 1, before=self.checkpoint, skips=self._skips,
                        between=self._between.hexdigest())

    def _check_open(self, account: Account, incidents: int) -> None:
        failed = self.failed(account)
        if len(failed) >= incidents:
            raise Closed(failed)
        running = len(self.sums.pending.get(account.named, set()).difference(failed))
        if len(failed) + running >= incidents:
            raise Busy(running)

    def _next(self, kind: str, account: Account, *, digest: str = "", data: str = "", sql: str = "", charge: Charge = NOTHING,
              answers: int | None = None, body: str | None = None) -> Event:
        return Event(seq=self.head[0] + 1, kind=kind, at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                     budget=account.budget, analyst=account.analyst, digest=digest, data=data, sql=sql, epsilon=charge.epsilon,
                     rho=charge.rho, delta=charge.delta, answers=answers, body=body)

    # -- events that were written

    def accept(self, event: Event, link: str) -> None:
        """Count an event that is in the file. Raises Broken if it is not exactly the next event."""
        if event.seq != self.head[0] + 1 or event.link(self.head[1]) != link:
            raise Broken
        waypoint = self._agreed(event) if event.kind == "checkpoint" else None
        if waypoint is None:
            self._count_or_break(event)
            self._between.update(f"{link}\n".encode())
        self._length += len(event.body or "")
        self.head = event.seq, link
        self.hashes.append(link)
        if waypoint is not None:
            self._pass(waypoint)

    def _agreed(self, checkpoint: Event) -> Waypoint:
        """All statements of a checkpoint besides the sums. Raises Broken if one of them, or a sum, differs from the one computed
        here."""
        (told, sums, whole), own = self._read(checkpoint), self._waypoint()
        same = told == own if told.between is not None else told.before == own.before
        if not same or not self.sums.agree(sums, checkpoint.seq):
            raise Broken
        return own if whole else replace(own, between=None)

    def resume(self, event: Event, link: str, previous: str) -> None:
        """Begin at a checkpoint in the file, given the hash before it. It counts only after a later head has proved to be known.
        Raises Broken unless it is a complete checkpoint of this ledger."""
        if event.kind != "checkpoint" or event.link(previous) != link:
            raise Broken
        waypoint, self.sums, whole = self._read(event)
        if not whole:
            raise Broken
        self.head = event.seq, link
        self.hashes = Hashes(event.seq, link)
        self._pass(waypoint)

    def _read(self, checkpoint: Event) -> tuple[Waypoint, ChainSums, bool]:
        """The statements of a checkpoint, and whether it states everything. One of an earlier version lacks the reports, the days
        of late events, the sums of periods or the revisions, which are taken from this chain. Raises Broken if it is not a
        checkpoint of this ledger."""
        try:
            told = json.loads(checkpoint.body or "")
            if told["ledger"] == self.genesis:
                waypoint = Waypoint.from_values(told)
                own = {"late": sorted(self.sums.late_ones()), "days": self.sums.late_days(),
                       "period_runs": self.sums.in_periods(), **self.sums.of_time()}
                silent = own | (self.sums.reported.as_values() if waypoint.between is None else {})
                whole = waypoint.between is not None and own.keys() <= told.keys()
                return waypoint, ChainSums.from_values(silent | told), whole
        except (AttributeError, LookupError, TypeError, ValueError):
            pass
        raise Broken

    def _pass(self, waypoint: Waypoint) -> None:
        """Continue after a checkpoint, which is the head."""
        self.checkpoint = self.head
        if waypoint.between is not None:
            self._resumable, self._length = self.head[0], 0
        self._checkpoints, self._skips, self._between = waypoint.number, waypoint.skips_after(self.head), hashlib.sha256()

    def _count_or_break(self, event: Event) -> None:
        try:
            self._count(event)
        except ValueError:  # its text is none that a ledger writes
            raise Broken from None

    def _count(self, event: Event) -> None:
        sums, account = self.sums, event.account.named
        sums.day = max(sums.day, event.at[:10]) if event.kind != "clock" else event.at[:10]
        if event.kind in LISTED:
            sums.reported.listed[account] += 1
        self._follow(event, sums.pending[account], sums.failed[account])
        if (charge := event.cost) != NOTHING:
            sums.reported.count(account, charge)
            whose = (account.budget, None), (account.budget, account.analyst)
            for key in whose:
                sums.spent[key] = sums.spent.get(key, NOTHING) + charge
            if event.kind == "charge" and (reads := PeriodReads.from_text(event.data)) is not None:
                for key in whose:
                    sums.periods[key].count(reads, charge)

    def _follow(self, event: Event, pending: set[int], failed: set[int]) -> None:
        """Update the charges of an account that have no answer yet, and those that have failed."""
        match event.kind, event.answers:
            case "charge", None:
                pending.add(event.seq)
                if event.body is not None:
                    self.sums.kept[event.digest] = event.seq
            case "answer" | "stopped", int(charged):
                pending.discard(charged)
            case ("part", int()) | ("clock", None):
                pass
            case "revised", None:
                self.sums.revised.append(Revision.from_values(event.body or "", event.seq, event.at))
            case "incident", int(charged):
                pending.discard(charged)
                failed.add(charged)
            case "promise", None:
                changed, _ = self.promised.get(event.budget, (event.seq, 0))
                self.sums.promised[event.budget] = event.seq if event.digest == CHANGED else changed, event.seq
            case "late" | "crowded", int():
                at = Late(day=event.at[:10], crowded=event.kind == "crowded", step=int(event.body or ""))
                self.sums.late[event.account.named][at] += 1
            case "late", None:
                self.sums.late.pop(event.account.named, None)
            case "reopened", None:
                forgiven = json.loads(event.body or "[]")
                pending.difference_update(forgiven)
                failed.difference_update(forgiven)
                self.sums.forgiven.update(forgiven)
            case _:
                raise Broken


def part_digest(text: str) -> str:
    """The digest by which an answer names one of its parts."""
    return hashlib.sha256(text.encode()).hexdigest()


def genesis(meta: Mapping[str, str]) -> str:
    """The head of an empty chain: it binds the identity, the salt and the version."""
    return hashlib.sha256(f"dpsql ledger {json.dumps(dict(meta), sort_keys=True)}".encode()).hexdigest()
