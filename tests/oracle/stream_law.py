"""The law over time: what a stream tells of a person in one period, in a window of consecutive periods, or in all, costs at most what
was charged to that account.

For each person in each period, in each window, and in all, the same stream is taken without these rows. Two checks:

* *The same is seen.* All that is read where no statement is served gives the same without the rows, so plans, refusals, messages and
  charges are the same. For some people the whole stream is run once more to see that it is so.
* *Each charge is enough.* The exact numbers of each request are compared, and what their distance costs by the law of the mechanism
  is added up: for each charge, and over the stream for each account.

Beside the law stands what the engine says of its own: it reads closed periods only, and refuses others; nothing depends on rows that
came too late where the owner drops these; no answer from before a revision of its periods is shown as stored; and prepared stores
give what the rows give.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb
from oracle.moves import CLOSE, LAWS, Move, View, compare_rows, read_rows, spent
from oracle.replay import Book, Loud, Reader, Recorder
from oracle.stream_events import Stream, stream_of
from oracle.stream_runs import Looked, Paid, Run, Seen, differences, inserted, salt_of, salted
from oracle.stream_worlds import IN_ALL, IN_PERIOD, IN_WINDOW, LATE, Owned, Part, State, StreamWorld

from dpsql.backends.duckdb import attach_memory, lock_down
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import ATTO, FREE, NANO, Charge, Cost
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.revisions import Revision
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.plan.node import bottom_up
from dpsql.trusted.plan.operators.scan import Scan

COUNTED = 0.4  # of the requests, below which rows are compared too
OTHERS = 0.3  # of the parts of people in periods that are not read, for each request
AT_ONCE = frozenset({"both ways", "ways"})
"""Claims of what one entity's removal never does. Two steps may do it."""


class Broken(Frozen, kw_only=False):
    """A stream in which the law does not hold, with what makes it again."""

    stream: int
    part: Part | None
    what: str
    text: str = ""

    def __str__(self) -> str:
        without = "" if self.part is None else f", without {self.part}"
        return f"stream {self.stream}{without}: {self.what}\n    {self.text}"


class Found:
    """What was seen of some streams."""

    def __init__(self) -> None:
        self.streams = self.statements = self.answered = self.stored = self.charges = self.requests = self.parts = self.moved = 0
        self.replayed = self.two_steps = self.stated = self.weighted = self.revisions = self.prepared = 0
        self.shares: dict[str, list[float]] = {IN_PERIOD: [], IN_WINDOW: [], IN_ALL: []}  # of charges that are used
        self.codes: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self.broken: list[Broken] = []
        self.faults: list[str] = []

    def __str__(self) -> str:
        return (f"{self.streams} streams, {self.statements} statements, {self.answered} answered ({self.stored} stored), "
                f"{self.charges} charges ({self.two_steps} of two steps, {self.stated} stated), {self.requests} requests ({self.weighted} of "
                f"weighted periods), {self.revisions} revisions, {self.prepared} stores, {self.parts} parts of people, {self.replayed} "
                f"of them run anew, {self.moved} moved; shares of charges used {self.used}; {len(self.broken)} broken, "
                f"{len(self.faults)} faults; {self.codes}")

    @property
    def used(self) -> dict[str, str]:
        """For each unit, how often a charge was used at least by a half, wholly, and the most of one that was."""
        return {unit: f"{len(shares)}, {sum(share > 0.5 for share in shares)} by half, {sum(share > 0.999 for share in shares)} wholly, "
                      f"{max(shares, default=0):.6f} at most" for unit, shares in self.shares.items()}


def examine(seed: int, found: Found, *, statements: int = 40, replays: int = 1, stream: Stream | None = None) -> None:
    """Run a stream, and hold it to the law."""
    stream = stream or stream_of(seed, statements)
    parts = stream.world.parts(stream.states)
    draw = random.Random(f"parts {seed}")
    with salted() as folder:
        here = Run(stream, stream.states, folder)
        for part in draw.sample(parts, min(replays, len(parts))):
            there = Run(stream, [Owned(stream.world, state).without(part) for state in stream.states], folder, here)
            found.replayed += 1
            found.broken += [Broken(seed, part, "is seen", told) for told in differences(here, there)]
        salt = salt_of(folder)
    _count(here, found)
    found.broken += [Broken(seed, None, what, seen.text) for seen, what in unexpected(here)]
    found.broken += [Broken(seed, None, what, here.seen[paid.ask].text) for paid, what in misstated(here)]
    found.parts += len(parts)
    found.broken += list(_in_all_states(here, parts, salt, found))


def _count(run: Run, found: Found) -> None:
    found.streams += 1
    for seen in run.seen:
        found.statements += 1
        found.answered += seen.is_answered
        found.stored += seen.is_stored
        found.codes[seen.code] = found.codes.get(seen.code, 0) + (not seen.is_answered)
        found.kinds[seen.ask.asked.kind] = found.kinds.get(seen.ask.asked.kind, 0) + seen.is_answered
        if seen.code in ("crash", "policy", "store") or seen.told.startswith("InternalError"):
            found.faults.append(f"stream {run.stream.seed}: {seen.code}: {seen.text}\n    {seen.told}")
    found.faults += [f"stream {run.stream.seed}: incident: {fault!r}" for fault in run.faults]
    found.charges, found.requests = found.charges + len(run.paid), found.requests + len(run.released)
    found.revisions, found.prepared = found.revisions + len(run.revised), found.prepared + run.prepared
    found.weighted += sum(isinstance(looked.request, WeightedPeriods) for looked in run.released)
    found.stated += sum(paid.reads is not None and paid.reads.stated != () for paid in run.paid)
    found.two_steps += sum(paid.reads is not None and paid.reads.steps == 2 for paid in run.paid)


# -- what is known without the rows


def unexpected(run: Run) -> Iterator[tuple[Seen, str]]:
    """Statements of periods whose closing is known that ended otherwise; and stored answers of other data than there are."""
    world, told = run.stream.world, dict[tuple[str, str], tuple[int, int, list[PeriodReads]]]()
    for at, seen in enumerate(run.seen):
        of = seen.ask.asked.of
        is_closed = None if of is None else of[1] in world.closed(world.tables[of[0]], seen.day)
        if is_closed is False and seen.code not in ("open-period", "periods"):
            yield seen, f"a period that is not closed on {seen.day} was {'answered' if seen.is_answered else seen.code}"
        if is_closed and seen.code in ("open-period", "periods"):
            yield seen, f"a period that is closed on {seen.day} was refused: {seen.code}"
        key = seen.ask.analyst, seen.text
        named = {name for name, table in world.tables.items() if not table.public and re.search(rf"\b{name}\b", seen.text)}
        stays = any(world.tables[name].time is None for name in named)
        if seen.is_stored and key in told:
            before, state, reads = told[key]
            if stays and state != seen.state and not (reads and all(one.steps == 1 or one.stated for one in reads)):
                yield seen, "an answer of other data was shown as stored"
            grown = [name for name in named if world.tables[name].time is not None]
            since = [when for name in grown for when, one in run.revised if before < when <= at and _meets(one, name, reads)]
            revised = all(any(_meets(one, name, reads) for when, one in run.revised if before < when <= at) for name in grown)
            if reads and grown and revised and not _measured_since(run, max(since), at, reads):
                yield seen, "an answer from before a revision was shown as stored"
        if seen.is_answered and not seen.is_stored:
            told[key] = at, seen.state, [paid.reads for paid in run.paid if paid.ask == at and paid.reads is not None]


def _meets(revision: Revision, table: str, reads: Sequence[PeriodReads]) -> bool:
    """Whether all periods of a statement that has read a table were revised there."""
    return revision.table == table and all(one.periods in revision.periods for one in reads)


def _measured_since(run: Run, since: int, at: int, reads: Sequence[PeriodReads]) -> bool:
    """Whether all these periods were measured after a revision: a statement in other words may have had the same parts."""
    return all(any(since <= paid.ask < at and paid.reads is not None and paid.reads.periods == one.periods for paid in run.paid)
               for one in reads)


def misstated(run: Run) -> Iterator[tuple[Paid, str]]:
    """Charges of periods that are not closed on the day."""
    world = run.stream.world
    last = {day: max(world.closed(table, day).stop for table in world.growing) for day in {seen.day for seen in run.seen}}
    for paid in run.paid:
        day = run.seen[paid.ask].day
        late = [number for number in paid.in_periods if not world.first <= number < last[day]]
        if late:
            yield paid, f"periods {late} are charged on {day}, when they are not closed"


# -- the law


class States:
    """The rows of one moment and of each neighbour of it, in an engine. Neighbours with the same rows share a database."""

    def __init__(self, world: StreamWorld, state: State, parts: Sequence[Part], salt: int) -> None:
        self.engine = duckdb.connect(":memory:", config={"threads": 1})
        self.world, self.state, self.salt, owned = world, state, salt, Owned(world, state)
        self.same: dict[Part, Part] = {}  # for each part, one with the same rows
        firsts: dict[tuple[tuple[tuple[Any, ...], ...], ...], Part] = {}
        without: dict[Part, State] = {}
        for part in parts:
            left = owned.without(part)
            if left != state:
                self.same[part] = firsts.setdefault(tuple(left.values()), part)
                without[self.same[part]] = left
        self.parts = [*self.same]
        cursors = {part: self._filled(f"w{i}", state if part is None else without[part]) for i, part in enumerate((None, *without))}
        attach_memory(self.engine)
        lock_down(self.engine)
        self.changed: dict[Part, set[str]] = {}
        parsed: dict[str, Any] = {}
        self.readers: dict[Part | None, Reader] = {None: Reader(cursors[None], parsed)}
        for part, left in without.items():
            others = [name for name in state if left[name] != state[name]]
            self.readers[part] = Reader(cursors[part], parsed, self.readers[None], others)
            self.changed[part] = set(others)
        book = type("Salted", (Book,), {"salt": salt})
        self.views = {part: View(Recorder(reader, book(), None)) for part, reader in self.readers.items()}

    def _filled(self, name: str, state: State) -> duckdb.DuckDBPyConnection:
        self.engine.execute(f"ATTACH ':memory:' AS {name} (ROW_GROUP_SIZE 2048)")
        cursor = self.engine.cursor()
        cursor.execute(f"USE {name}")
        cursor.execute("PRAGMA disable_optimizer")  # it takes longer than so few rows; and no answer may depend on it
        same = [table for table in state if state is not self.state and state[table] == self.state[table]]
        for table in same:
            cursor.execute(f"CREATE VIEW {table} AS SELECT * FROM w0.main.{table}")
        for statement in inserted(self.world, {table: rows for table, rows in state.items() if table not in same}):
            cursor.execute(statement)
        return cursor


def _in_all_states(run: Run, parts: Sequence[Part], salt: int, found: Found) -> Iterator[Broken]:
    """What moves, and what it costs: for each charge, then for each account over the whole stream."""
    spent_of: dict[Part, Cost] = {}
    for number, state in enumerate(run.stream.states):
        paid = [one for one in run.paid if one.state == number]
        planned = [(how, sql) for at, how, sql in run.planned if at == number]
        if not paid and not planned:
            continue
        states = States(run.stream.world, state, parts, salt)
        try:
            yield from _planned(run, states, planned)
            for one in paid:
                yield from _charged(run, one, states, spent_of, found)
        finally:
            states.engine.close()
    for part, cost in spent_of.items():
        account = account_of(part, run.spent, run.spent_in_periods, run.spent_in_windows)
        if not pays(account, cost):
            yield Broken(run.stream.seed, part, f"over the stream, {cost} was told, and charged were {account}")


def account_of(part: Part, in_all: Charge, in_periods: Mapping[int, Charge], in_windows: Mapping[int, Charge]) -> Charge | None:
    """What the account of a part was charged. Late rows have none."""
    if part is LATE:
        return None
    if part.periods is None:
        return in_all
    return (in_periods if part.unit == IN_PERIOD else in_windows).get(part.periods.start)


def _planned(run: Run, states: States, planned: Sequence[tuple[str, str]]) -> Iterator[Broken]:
    for how, sql in planned:
        here = _told(states.readers[None], how, sql)
        for part in dict.fromkeys(states.same.values()):
            if _told(states.readers[part], how, sql) != here:
                yield Broken(run.stream.seed, part, "is read where nothing is charged", sql)


def _charged(run: Run, paid: Paid, states: States, spent_of: dict[Part, Cost], found: Found) -> Iterator[Broken]:
    total = dict[Part, Cost]()
    text, seed = run.seen[paid.ask].text, run.stream.seed
    draw = random.Random(f"looks {seed} {paid.ask} {paid.state}")
    for looked in paid.looked:
        counts = draw.random() < COUNTED
        here = _reading(looked, states.views[None], counts)
        if isinstance(here, Exception):
            raise RuntimeError(f"the oracle cannot read what was answered: {text}") from here
        if isinstance(looked.request, NoisySums | WeightedPeriods) and (
                states.views[None].look(looked.request, looked.certificates, Loud(looked.noise)) != looked.release):
            yield Broken(seed, None, "the rows give another answer than was released", text)
        readings: dict[Part, Any] = {}
        losses: dict[tuple[Part, int, bool], tuple[Cost, list[Move]]] = {}
        tables = _tables(looked.request)
        for part, same in states.same.items():
            if tables.isdisjoint(states.changed[same]) or not (_is_claimed(part, paid.reads) or draw.random() < OTHERS):
                continue
            if same not in readings:
                readings[same] = _reading(looked, states.views[same], counts)
            there = readings[same]
            if isinstance(there, Exception):
                yield Broken(seed, part, f"the outcome differs: {there!r}", text)
                continue
            steps, once = steps_of(part, paid.reads)
            if (same, steps, once) not in losses:
                losses[same, steps, once] = loss(looked, here, there, steps, once)
            cost, wrong = losses[same, steps, once]
            total[part] = total.get(part, FREE) + cost
            for move in wrong if _is_claimed(part, paid.reads) else ():
                what = f"{type(looked.request).__name__}: {move.what} moved {move.moved:g}, claimed {move.claimed:g}"
                yield Broken(seed, part, f"{what} in {steps} steps", text)
    for part, cost in total.items():
        charge = account_of(part, paid.in_all, paid.in_periods, paid.in_windows)
        spent_of[part] = spent_of.get(part, FREE) + cost
        found.moved += not is_free(cost)
        if not is_free(cost) and charge is not None:
            found.shares[part.unit].append(share_of(charge, cost))
        if not pays(charge, cost):
            yield Broken(seed, part, f"{_words(cost)} was told, and charged was {charge} ({paid.stated[:60]})", text)


def steps_of(part: Part, reads: PeriodReads | None) -> tuple[int, bool]:
    """In how many steps between neighbours in all a statement reaches a neighbour; and whether the certificates for a person in one
    period say how far it moves instead."""
    if part.periods is None or reads is None or reads.steps == 1:
        return 1, False
    return (1, True) if reads.stated and (part.unit == IN_PERIOD or len(reads.periods) == 1) else (2, False)


def _is_claimed(part: Part, reads: PeriodReads | None) -> bool:
    """Whether anything is claimed of a part: of those in other periods, it is only that they cost nothing."""
    return part.periods is None or (reads is not None and any(number in part.periods for number in reads.numbers))


def loss(looked: Looked, here: Any, there: Any, steps: int, once: bool = False) -> tuple[Cost, list[Move]]:
    """What the difference between two readings of a request costs, and its claims that do not hold in so many steps; `once` has the
    claims for a person in one period."""
    request = looked.request
    certificates = tuple(one.in_period or one for one in looked.certificates) if once else looked.certificates
    if isinstance(request, NoisySums | WeightedPeriods):
        total = FREE
        for noise, one, other in zip(request.noises, here[0], there[0], strict=True):
            total += spent([a - b for a, b in zip(one, other, strict=True)], noise)
        if once and isinstance(request, WeightedPeriods):  # what is claimed of a period depends on its weight, and is charged to it
            return total, []
    _, compare = LAWS[type(request)]
    moves = [*compare(request, certificates, here[0], there[0])]
    rows = [*compare_rows(certificates, here[1], there[1])]
    wrong = [move for move in (*moves, *rows) if move.moved > steps * move.claimed * CLOSE * _stretched(request, move, steps)
             and not (steps > 1 and move.what in AT_ONCE)]
    if isinstance(request, NoisySums | WeightedPeriods):
        return total, wrong
    share = max((Fraction(move.share) for move in moves if move.claimed and move.what != "keys"), default=Fraction(0))
    keys = max((Fraction(move.share) for move in moves if move.what == "keys"), default=Fraction(0))
    charged = request.cost(*certificates)
    if keys and charged.epsilon is None:  # it is told in rho, not in its root
        return Cost(epsilon=None, rho=keys * charged.rho, delta=charged.delta if share else Fraction(0)), wrong
    share = max(share, keys)
    epsilon = None if charged.epsilon is None else share * charged.epsilon
    return Cost(epsilon=epsilon, rho=share**2 * charged.rho, delta=share * charged.delta), wrong


def _stretched(request: Any, move: Move, steps: int) -> float:
    """A smooth bound half-way may be larger than those at both ends."""
    beta = getattr(request, "beta", getattr(getattr(request, "noise", None), "beta", 0.0))
    return math.exp(float(beta)) if move.what == "smooth value" and steps > 1 else 1.0


def pays(charge: Charge | None, cost: Cost) -> bool:
    """Whether a charge, or an account, pays for a cost."""
    return is_free(cost) if charge is None else share_of(charge, cost) <= CLOSE


def is_free(cost: Cost) -> bool:
    return cost.rho == 0 and cost.delta == 0


def share_of(charge: Charge, cost: Cost) -> float:
    """How much of a charge a cost is: of the epsilons where both are pure, of the rhos otherwise; and of delta."""
    if cost.delta * ATTO > charge.delta * CLOSE:
        return math.inf
    both = charge.epsilon is not None and cost.epsilon is not None
    used, paid = (cost.epsilon, charge.epsilon) if both else (cost.rho, charge.rho)
    return float(used * NANO) / paid if paid else math.inf if used else 0.0


def _words(cost: Cost) -> str:
    return f"epsilon {float(cost.epsilon):g}" if cost.epsilon is not None else f"rho {float(cost.rho):g}"


def _tables(request: Any) -> set[str]:
    """The tables that a request reads, also to find owners."""
    scans = [node for plan in request.plans for node in bottom_up(plan) if isinstance(node, Scan)]
    return {scan.table.name for scan in scans} | {step.table for scan in scans for way in scan.table.owners for step in way.steps}


def _reading(looked: Looked, view: View, counts: bool) -> Any:
    """What a request reads; with the rows below its plans if `counts`."""
    read, _ = LAWS[type(looked.request)]
    try:
        return read(looked.request, looked.certificates, view), (
            read_rows(looked.request, looked.certificates, view) if counts else [Counter[Any]() for _ in looked.certificates])
    except Exception as fault:
        return fault


def _told(reader: Reader, how: str, sql: str) -> str:
    try:
        return repr(getattr(reader, how)(sql))
    except Exception as fault:
        return type(fault).__name__
