"""Forgeries, one after the other: each is refused before it is charged, or moves no further than it was charged for."""

from __future__ import annotations

import dataclasses
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any

from forging.corpus import Corpus
from forging.forger import Forger, Forgery
from forging.judge import Found, judged, judged_comparisons
from oracle.replay import Asked, Book, Loud, Recorder

from dpsql.errors import Error, Incident, InternalError
from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import Account, Cost
from dpsql.trusted.kernel.claims import Disagreement
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.online_comparisons import Comparisons, Opening
from dpsql.trusted.plan.certificate import Unbounded
from dpsql.trusted.plan.decompose_join import NotDecomposable
from dpsql.trusted.plan.node import InvalidPlan

ALLOWED = Cost(epsilon=None, rho=Fraction(10**900), delta=Fraction(10**9))  # pays for everything that has a price
REFUSALS = (TypeError, ValueError, Error, InvalidPlan, NotDecomposable, Unbounded)
ADA = Account(budget="main", analyst="ada")
LONGEST = 15.0  # seconds of the processor for one forgery: a list of a million parts is copied before it is counted
EVERYWHERE = 8  # of so many forgeries that are answered, one is compared with all neighbours, the others with one
SECOND = 20  # of so many forgeries, one comes after an honest request of its script
STOPPED = 30.0  # when it is stopped


class TooLong(KeyboardInterrupt):
    """A forgery takes far too long. What interrupts a statement is all that passes through the solvers."""


class Verdict(Frozen, kw_only=False):
    """How a forgery ended: 'refused', 'refused by chance' (by a fault that no check raises), 'refused later' (as the second request of a
    script, whose first one was charged), 'held', 'unjudged' (it would take too long to find out), or one of the `FAULTS`; and why."""

    outcome: str
    cause: str = ""
    found: tuple[Found, ...] = ()


FAULTS = ("moved", "incident", "crashed", "slow")


@dataclasses.dataclass
class Group:
    """Forgeries that ended alike."""

    first: int
    what: str
    example: str
    count: int = 0


@dataclasses.dataclass
class Totals:
    """What a run has seen."""

    forged: int = 0
    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    answered: Counter[str] = dataclasses.field(default_factory=Counter)
    kinds: Counter[str] = dataclasses.field(default_factory=Counter)
    faults: dict[tuple[str, str, str, str], Group] = dataclasses.field(default_factory=dict)

    def add(self, number: int, forgery: Forgery, verdict: Verdict) -> None:
        self.forged += 1
        self.outcomes[verdict.outcome] += 1
        self.kinds[forgery.base.name] += 1
        self.answered[forgery.base.name] += verdict.outcome in ("held", "moved")
        if verdict.outcome in FAULTS:
            place = forgery.what.split(";")[0].split(" ")[0]
            key = verdict.outcome, type(forgery.request).__name__, place, verdict.cause.split(":")[0]
            group = self.faults.setdefault(key, Group(number, forgery.what, verdict.cause))
            group.count += 1
            if len(forgery.what) < len(group.what):
                self.faults[key] = Group(number, forgery.what, verdict.cause, group.count)

    def join(self, other: Totals) -> None:
        """Take what another run has seen, too."""
        self.forged += other.forged
        for mine, theirs in ((self.outcomes, other.outcomes), (self.answered, other.answered), (self.kinds, other.kinds)):
            mine.update(theirs)
        for key, group in other.faults.items():
            own = self.faults.setdefault(key, Group(group.first, group.what, group.example))
            own.count += group.count

    def bad(self, *outcomes: str) -> list[str]:
        """The faults, the most frequent first, a line for each kind."""
        return [f"{outcome:8} {group.count:6d} x  {name}: {group.what[:150]}  [{group.first}]  {group.example[:200]}"
                for (outcome, name, _, _), group in sorted(self.faults.items(), key=lambda item: (item[0][0], -item[1].count))
                if outcome in (outcomes or FAULTS)]

    def __str__(self) -> str:
        shares = ", ".join(f"{count} {outcome} ({count / max(1, self.forged):.1%})" for outcome, count in self.outcomes.most_common())
        return f"{self.forged} forgeries: {shares}"

    def breadth(self) -> str:
        """Of every measurement the forgeries, and the share that was answered."""
        return "\n".join(f"{count:8d} {self.answered[name] / count:7.1%}  {name}" for name, count in sorted(self.kinds.items()))


class Forging:
    """A kernel over a small database, to which forgeries are sent."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.forger, self.book = corpus, Forger(corpus), Book()
        self.kernel = Recorder(corpus.family.readers[None], self.book, None)
        self.cost: Cost | None = None  # of the forgery that was served last
        self._honest = next(base.request for base in corpus.bases if type(base.request) is NoisySums)
        self.models: list[Any] = []  # what was paid for the online models that comparisons are with
        for opening in [base.request for base in corpus.bases if type(base.request) is Opening]:
            self._ask(opening, f"model {len(self.models)}")
            self.models.append(opening.opened(*self.kernel._certificates(opening)))

    def run(self, numbers: Sequence[int], totals: Totals, told: Callable[[int, Totals], None] = lambda number, totals: None) -> None:
        for number in numbers:
            forgery = self.forger.forgery(number)
            totals.add(number, forgery, self.verdict(forgery, number, second=number % SECOND == 0))
            told(number, totals)

    def verdict(self, forgery: Forgery, number: int = 0, *, second: bool = False) -> Verdict:
        """What comes of a forgery, as the first request of a script or the second."""
        start = time.process_time()
        try:
            with _stopped(STOPPED):
                ended = self._sent(forgery, number, second=second)
        except TooLong:
            return Verdict("slow", f"stopped after {STOPPED:.0f} s")
        spent = time.process_time() - start
        try:
            with _stopped(STOPPED):
                verdict = ended if isinstance(ended, Verdict) else _moved(tuple(ended))
        except TooLong:
            verdict = Verdict("unjudged")
        return replace(verdict, outcome="slow", cause=f"{spent:.1f} s") if spent > LONGEST and verdict.outcome != "moved" else verdict

    def _sent(self, forgery: Forgery, number: int, *, second: bool) -> Verdict | Iterator[Found]:
        """How it ended; where it was answered, what moves further than it was charged for."""
        kernel = self.kernel
        kernel.asked, kernel.faults, self.cost = [], [], None
        kernel._noise = Loud(number)
        charged = len(self.book.charges)
        try:
            if isinstance(forgery.request, Comparisons) and not second:
                return self._compared(forgery.request, number)
            self._ask(forgery.request, f"forged {number}", second=second)
        except (Incident, KeyboardInterrupt) as fault:
            return self._failed(fault, second=second)
        except Exception as fault:
            if len(self.book.charges) != charged:
                return Verdict("crashed", f"after the charge, {_told(fault)}")
            if isinstance(fault, MemoryError) or (isinstance(fault, InternalError) and not isinstance(fault, Disagreement)):
                return Verdict("crashed", _told(fault))
            return Verdict("refused" if isinstance(fault, REFUSALS) else "refused by chance", _told(fault))
        if not kernel.asked:
            return Verdict("held")  # a script that asked for nothing
        served = kernel.asked[-1]
        self.cost = cost = served.request.cost(*served.certificates)
        only = None if number % EVERYWHERE == 0 else number % (len(self.corpus.family.kernels) - 1)
        return self._judged(served, cost, planned=forgery.planned, only=only)

    def _judged(self, served: Asked, cost: Cost, *, planned: bool, only: int | None) -> Iterator[Found]:
        return judged(served.request, served.certificates, cost, self.corpus.family, planned=planned, only=only)

    def _compared(self, request: Comparisons, number: int) -> Iterator[Found]:
        """Comparisons with one of the models, as if they were the first with it."""
        model, book = number % len(self.models), self.book
        before = len(book.charges)
        try:
            self.kernel.compare(request, model=f"model {model}", account=ADA, sql="forged")
        finally:
            del book.charges[before:], book.told[before:]
            book.bodies = {seq: body for seq, body in book.bodies.items() if seq <= before}
        served = self.kernel.asked[-1]
        return judged_comparisons(served.request, served.certificates, self.models[model], self.corpus.family)

    def _ask(self, request: Any, digest: str, *, second: bool = False) -> None:
        def script() -> Generator[Any, Any, str]:
            if second:
                yield self._honest
            yield request
            return "done"

        self.kernel.run(script(), cost=ALLOWED, account=ADA, limits={}, digest=digest, sql="forged", encode=str)

    def _failed(self, fault: BaseException, *, second: bool) -> Verdict:
        cause = self.kernel.faults[-1] if self.kernel.faults else fault
        if isinstance(fault, KeyboardInterrupt):
            raise TooLong
        looked = len(self.kernel.asked) > second
        if second and not looked:
            return Verdict("refused later", _told(cause))
        return Verdict("incident", ("in the release, " if looked else "") + _told(cause))


def _moved(found: tuple[Found, ...]) -> Verdict:
    return Verdict("moved", "; ".join(dict.fromkeys(one.what for one in found)) + f": {found[0]}", found) if found else Verdict("held")


@contextmanager
def _stopped(seconds: float) -> Iterator[None]:
    """A context that is left by force after so many seconds of the processor."""
    def stop(*told: Any) -> None:
        raise TooLong

    with suppress(ValueError):  # not in the main thread: then nothing is stopped
        before = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


def _told(fault: BaseException) -> str:
    """A fault by its class and place, then its text."""
    frames = traceback.StackSummary.extract(traceback.walk_tb(fault.__traceback__), lookup_lines=False)
    place = next((f"{frame.filename.rsplit('dpsql/', 1)[-1]} {frame.name}" for frame in reversed(frames) if "/dpsql/" in frame.filename), "")
    return f"{type(fault).__name__} in {place}: {str(fault)[:120]}"


def honest(forging: Forging) -> list[str]:
    """The real requests that move further than they were charged for, or fail: none, unless this package is wrong."""
    found = []
    for number, base in enumerate(forging.corpus.bases):
        verdict = forging.verdict(Forgery(base.request, base, "nothing"), number * EVERYWHERE)
        if verdict.outcome != "held":
            found.append(f"{base.name} of {base.text[:100]}: {verdict}")
    return found
