"""The law over time: what a stream tells of a person in one period, or in all, costs at most what was charged to that account.

For each person in each period, and in all, the same stream is taken without these rows. Two checks:

* *The same is seen.* All that is read where no statement is served gives the same without the rows, so plans, refusals, messages and
  charges are the same. For some people the whole stream is run once more to see that it is so.
* *Each charge is enough.* The exact numbers of each request are compared, and what their distance costs by the law of the mechanism
  is added up: for each charge, and over the stream for each account.

Beside the law stands what the engine says of its own: that it reads closed periods only, and refuses others.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import duckdb
from oracle.moves import CLOSE, LAWS, Move, View, compare_rows, read_rows, spent
from oracle.replay import Book, Reader, Recorder
from oracle.stream_events import Stream, stream_of
from oracle.stream_runs import Looked, Paid, Run, Seen, differences, inserted, salt_of, salted
from oracle.stream_worlds import WHOLE, Part, State, StreamWorld

from dpsql.backends.duckdb import attach_memory, lock_down
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import ATTO, FREE, NANO, Charge, Cost
from dpsql.trusted.measurements.noisy_sums import NoisySums

AT_ONCE = frozenset({"both ways", "ways"})
"""Claims of what one entity's removal never does. Two steps may do it."""


class Broken(Frozen, kw_only=False):
    """A stream in which the law does not hold, with what makes it again."""

    stream: int
    part: Part | None
    what: str
    text: str = ""

    def __str__(self) -> str:
        person, period = self.part or ("", WHOLE)
        without = "" if self.part is None else f", without person {person} in {'all' if period is WHOLE else f'period {period}'}"
        return f"stream {self.stream}{without}: {self.what}\n    {self.text}"


class Found:
    """What was seen of some streams."""

    def __init__(self) -> None:
        self.streams = self.statements = self.answered = self.stored = self.charges = self.requests = self.parts = self.moved = 0
        self.replayed = self.two_steps = 0
        self.most = {"in one period": 0.0, "in all": 0.0}
        self.codes: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self.broken: list[Broken] = []
        self.faults: list[str] = []

    def __str__(self) -> str:
        return (f"{self.streams} streams, {self.statements} statements, {self.answered} answered ({self.stored} stored), "
                f"{self.charges} charges ({self.two_steps} of two steps), {self.requests} requests, {self.parts} people in a period or "
                f"all, {self.replayed} of them run anew, {self.moved} moved; the most of a charge {self.most}; "
                f"{len(self.broken)} broken, {len(self.faults)} faults; {self.codes}")


def examine(seed: int, found: Found, *, statements: int = 40, replays: int = 1, stream: Stream | None = None) -> None:
    """Run a stream, and hold it to the law."""
    stream = stream or stream_of(seed, statements)
    parts = stream.world.parts(stream.states)
    draw = random.Random(f"parts {seed}")
    with salted() as folder:
        here = Run(stream, stream.states, folder)
        for part in draw.sample(parts, min(replays, len(parts))):
            there = Run(stream, [stream.world.without(state, part) for state in stream.states], folder, here)
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
        if seen.code in ("fault", "crash", "policy"):
            found.faults.append(f"stream {run.stream.seed}: {seen.code}: {seen.text}\n    {seen.told}")
    found.faults += [f"stream {run.stream.seed}: incident: {fault!r}" for fault in run.faults]
    found.charges, found.requests = found.charges + len(run.paid), found.requests + len(run.released)
    found.two_steps += sum(paid.reads is not None and paid.reads.steps == 2 for paid in run.paid)


# -- what is known without the rows


def unexpected(run: Run) -> Iterator[tuple[Seen, str]]:
    """Statements of periods whose closing is known that ended otherwise; and stored answers of other data than there are."""
    world, told = run.stream.world, dict[tuple[str, str], int]()
    for seen in run.seen:
        is_open = seen.ask.asked.is_open
        if is_open and seen.code not in ("open-period", "periods"):
            yield seen, f"a period that is not closed on {seen.day} was {'answered' if seen.is_answered else seen.code}"
        if is_open is False and seen.code in ("open-period", "periods"):
            yield seen, f"a period that is closed on {seen.day} was refused: {seen.code}"
        stays = [name for name, table in world.tables.items()
                 if not table.public and table.time is None and re.search(rf"\b{name}\b", seen.text)]
        if seen.is_stored and stays and told.get((seen.ask.analyst, seen.text)) != seen.state:
            yield seen, "an answer of other data was shown as stored"
        if seen.is_answered and not seen.is_stored:
            told[seen.ask.analyst, seen.text] = seen.state


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
    """The rows of one moment and of each neighbour of it, in an engine."""

    def __init__(self, world: StreamWorld, state: State, parts: Sequence[Part], salt: int) -> None:
        self.engine = duckdb.connect(":memory:", config={"threads": 1})
        without = {part: world.without(state, part) for part in parts}
        self.parts = [part for part in parts if without[part] != state]
        cursors = {part: self._filled(f"w{i}", world, state if part is None else without[part])
                   for i, part in enumerate((None, *self.parts))}
        attach_memory(self.engine)
        lock_down(self.engine)
        parsed: dict[str, Any] = {}
        self.readers: dict[Part | None, Reader] = {None: Reader(cursors[None], parsed)}
        for part in self.parts:
            others = [name for name in state if without[part][name] != state[name]]
            self.readers[part] = Reader(cursors[part], parsed, self.readers[None], others)
        book = type("Salted", (Book,), {"salt": salt})
        self.views = {part: View(Recorder(reader, book(), None)) for part, reader in self.readers.items()}

    def _filled(self, name: str, world: StreamWorld, state: State) -> duckdb.DuckDBPyConnection:
        self.engine.execute(f"ATTACH ':memory:' AS {name} (ROW_GROUP_SIZE 2048)")
        cursor = self.engine.cursor()
        cursor.execute(f"USE {name}")
        for statement in inserted(world, state):
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
        account = run.spent if part[1] is WHOLE else run.spent_in_periods.get(part[1])
        if not pays(account, cost):
            yield Broken(run.stream.seed, part, f"over the stream, {cost} was told, and charged were {account}")


def _planned(run: Run, states: States, planned: Sequence[tuple[str, str]]) -> Iterator[Broken]:
    for how, sql in planned:
        here = _told(states.readers[None], how, sql)
        for part in states.parts:
            if _told(states.readers[part], how, sql) != here:
                yield Broken(run.stream.seed, part, "is read where nothing is charged", sql)


def _charged(run: Run, paid: Paid, states: States, spent_of: dict[Part, Cost], found: Found) -> Iterator[Broken]:
    total = dict[Part, Cost]()
    text, seed = run.seen[paid.ask].text, run.stream.seed
    for looked in paid.looked:
        here = _reading(looked, states.views[None])
        if isinstance(here, Exception):
            raise RuntimeError(f"the oracle cannot read what was answered: {text}") from here
        for part in states.parts:
            there = _reading(looked, states.views[part])
            if isinstance(there, Exception):
                yield Broken(seed, part, f"the outcome differs: {there!r}", text)
                continue
            steps = 1 if part[1] is WHOLE or paid.reads is None else paid.reads.steps
            cost, wrong = loss(looked, here, there, steps)
            total[part] = total.get(part, FREE) + cost
            if part[1] is WHOLE or paid.reads is not None and part[1] in paid.in_periods:
                for move in wrong:
                    what = f"{type(looked.request).__name__}: {move.what} moved {move.moved:g}, claimed {move.claimed:g}"
                    yield Broken(seed, part, f"{what} in {steps} steps", text)
    for part, cost in total.items():
        charge = paid.in_all if part[1] is WHOLE else paid.in_periods.get(part[1])
        spent_of[part] = spent_of.get(part, FREE) + cost
        found.moved += not is_free(cost)
        if not is_free(cost) and charge is not None:
            unit = "in all" if part[1] is WHOLE else "in one period"
            found.most[unit] = max(found.most[unit], share_of(charge, cost))
        if not pays(charge, cost):
            yield Broken(seed, part, f"{_words(cost)} was told, and charged was {charge} ({paid.stated[:60]})", text)


def loss(looked: Looked, here: Any, there: Any, steps: int) -> tuple[Cost, list[Move]]:
    """What the difference between two readings of a request costs, and its claims that do not hold in so many steps."""
    request, certificates = looked.request, looked.certificates
    _, compare = LAWS[type(request)]
    moves = [*compare(request, certificates, here[0], there[0])]
    rows = [*compare_rows(certificates, here[1], there[1])]
    wrong = [move for move in (*moves, *rows) if move.moved > steps * move.claimed * CLOSE * _stretched(request, move, steps)
             and not (steps > 1 and move.what in AT_ONCE)]
    if isinstance(request, NoisySums):
        total = FREE
        for noise, one, other in zip(request.noises, here[0], there[0], strict=True):
            total += spent([a - b for a, b in zip(one, other, strict=True)], noise)
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


def _reading(looked: Looked, view: View) -> Any:
    read, _ = LAWS[type(looked.request)]
    try:
        return read(looked.request, looked.certificates, view), read_rows(looked.request, looked.certificates, view)
    except Exception as fault:
        return fault


def _told(reader: Reader, how: str, sql: str) -> str:
    try:
        return repr(getattr(reader, how)(sql))
    except Exception as fault:
        return type(fault).__name__
