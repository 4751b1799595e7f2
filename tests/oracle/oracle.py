"""One statement on a database and on every neighbour: what it was charged, and how far each of its requests moved."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from oracle.classes import ALL, classes_of
from oracle.moves import LAWS, Move, View, compare_rows, read_rows
from oracle.replay import Asked as Request
from oracle.replay import Family, Recorder, differing
from oracle.statements import KINDS, Asked, Writer
from oracle.worlds import SAME, world_of

from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.engine.together import workload
from dpsql.errors import Error, Incident, InternalError
from dpsql.frozen import Frozen
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Option, Query
from dpsql.trusted.plan.certificate import Certificate

REACHED = 0.999  # of a claim, so that nothing less would do
PER_WORLD = 36  # statements over one family of databases


class Violation(Frozen, kw_only=False):
    """A claim that does not hold, with what makes it again."""

    seed: int
    number: int
    asked: Asked
    neighbour: str
    kind: str
    move: Move
    detail: str = ""

    def __str__(self) -> str:
        return (f"{self.kind}: {self.move.what} moved {self.move.moved:g}, claimed {self.move.claimed:g}  [world {self.seed}, "
                f"statement {self.number}, without {self.neighbour}] {self.detail}\n    " + ";\n    ".join(self.asked.texts)
                + (f"\n    parameters {dict(self.asked.parameters)}" if self.asked.parameters else "")
                + (f"\n    options {dict(self.asked.options)}" if self.asked.options else ""))


@dataclasses.dataclass
class Shape:
    """A kind of claim: of how many requests it was made, in how many some entity reached it, and the most that one did."""

    requests: int = 0
    reached: int = 0
    most: float = 0.0

    def saw(self, share: float) -> None:
        self.requests += 1
        self.reached += share > REACHED
        self.most = max(self.most, share)


@dataclasses.dataclass
class Totals:
    """What a run has seen."""

    statements: int = 0
    worlds: int = 0
    answered: int = 0
    compared: int = 0
    requests: int = 0
    refused: Counter[str] = dataclasses.field(default_factory=Counter)
    classes: Counter[str] = dataclasses.field(default_factory=Counter)
    crashed: list[str] = dataclasses.field(default_factory=list)
    incidents: list[str] = dataclasses.field(default_factory=list)
    violations: list[Violation] = dataclasses.field(default_factory=list)
    kept: list[Seen] = dataclasses.field(default_factory=list)
    tight: Counter[str] = dataclasses.field(default_factory=Counter)
    shapes: dict[str, Shape] = dataclasses.field(default_factory=dict)

    def table(self) -> str:
        """Of every kind of claim, how much of it was reached at most, in what share of requests by some entity, and of how many."""
        return "\n".join(f"{seen.most:8.3f} {seen.reached / max(1, seen.requests):8.1%} {seen.requests:8d}  {shape}"
                         for shape, seen in sorted(self.shapes.items()))

    def breadth(self) -> str:
        """The share of each class in the answered statements, and of how many of it some entity reached what it was charged for."""
        counts = {name: self.classes[name] for name in {*ALL, *self.classes}}
        return "\n".join(f"{count / max(1, self.answered):8.2%} {self.tight[name] / max(1, count):8.1%}  {name}"
                         for name, count in sorted(counts.items(), key=lambda item: item[::-1]))

    def __str__(self) -> str:
        share = self.answered / max(1, self.statements)
        return (f"{self.statements} statements, {self.answered} answered ({share:.0%}), {self.requests} requests, "
                f"{self.compared} neighbours compared, {len(self.incidents)} incidents, "
                f"{len(self.crashed)} crashes, {len(self.violations)} violations")


def run_on(seed: int, totals: Totals, *, statements: int = PER_WORLD, only: int | None = None, until: float = math.inf,
           keep: bool = False, kinds: Sequence[str] = tuple(KINDS)) -> None:
    """Some statements over the world of a number."""
    try:
        family = Family(world_of(seed), large=seed % 2 == 1)
    except Error as fault:
        totals.refused[f"{type(fault).__name__} {fault.code}"] += 1
        return
    totals.worlds += 1
    try:
        for number in range(statements):
            if only in (None, number) and time.monotonic() < until:
                asked = Writer(family.world, hash((seed, number))).statement(kinds)
                examine(asked, family, totals, seed=seed, number=number, keep=keep)
    finally:
        if not keep:
            family.close()


def examine(asked: Asked, family: Family, totals: Totals, *, seed: int = 0, number: int = 0, keep: bool = False) -> None:
    """Ask a statement, and look at all neighbours."""
    family.begin()
    totals.statements += 1
    session = family.session(hash((seed, number, 1)))
    outcome = outcome_of(asked, session)
    kernel = session.kernel
    assert isinstance(kernel, Recorder)

    def broken(neighbour: str, kind: str, move: Move, detail: str = "") -> None:
        totals.violations.append(Violation(seed, number, asked, neighbour, kind, move, detail))

    for neighbour, sql in differing(family):
        broken(neighbour, "planning", Move("what planning reads", 1, 0), sql)
    classes = {*classes_of(asked, family.world)} if outcome == "answered" else set[str]()
    if outcome == "answered":
        totals.answered += 1
        totals.classes.update(classes)
    elif outcome == "Incident":
        totals.incidents.append(f"world {seed}, statement {number}: {kernel.faults!r}: {asked.texts}")
    elif outcome.startswith("!"):
        totals.crashed.append(f"world {seed}, statement {number}: {outcome}: {asked.texts} {dict(asked.parameters)}")
    else:
        totals.refused[f"{outcome} ({asked.kind})"] += 1
    tight = False
    for request in {id(request.request): request for request in kernel.asked}.values():
        seen = everywhere(request, family)
        if outcome == "answered" and isinstance(fault := seen.readings[None], Exception):
            raise RuntimeError(f"the oracle cannot read what was answered: {asked.texts}") from fault
        totals.requests += 1
        totals.kept += [seen] if keep else []
        most: dict[str, float] = {}
        for neighbour, kind, move, detail in moved(seen, request.certificates):
            if move.broken:
                broken(neighbour, kind, move, detail)
            most[kind] = max(most.get(kind, 0.0), move.share)
        for kind, share in most.items():
            totals.shapes.setdefault(kind, Shape()).saw(share)
        tight = tight or any(share > REACHED for kind, share in most.items() if not kind.endswith(" rows"))
    totals.tight.update(classes if tight else ())
    totals.compared += len(family.readers) - 1 if kernel.asked else 0


class Seen(Frozen, kw_only=False):
    """A request, and what it reads on the database (None) and on every neighbour: numbers and rows, or the fault."""

    request: Request
    family: Family
    readings: Mapping[str | None, Any]


def everywhere(request: Request, family: Family) -> Seen:
    read, _ = LAWS[type(request.request)]
    views = {name: View(kernel) for name, kernel in family.kernels.items()}

    def reading(how: Callable[..., Any], view: View) -> Any:
        try:
            return how(request.request, request.certificates, view)
        except Exception as fault:
            return fault

    looks = {name: reading(read, view) for name, view in views.items()}  # a text is executed on all, one after the other
    rows = {name: reading(read_rows, view) for name, view in views.items()}
    faults = {name: next((part for part in (looks[name], rows[name]) if isinstance(part, Exception)), None) for name in views}
    return Seen(request, family, {name: faults[name] or (looks[name], rows[name]) for name in views})


def moved(seen: Seen, certificates: Sequence[Certificate]) -> Iterator[tuple[str, str, Move, str]]:
    """How far a request moves, for each neighbour; with the certificates that it is charged by."""
    request, here = seen.request.request, seen.readings[None]
    _, compare = LAWS[type(request)]
    kind = type(request).__name__
    for name, there in seen.readings.items():
        faults = [found for found in (here, there) if isinstance(found, Exception)]
        if len(faults) == 1:
            yield str(name), kind, Move("outcome", 1, 0), f"{type(faults[0]).__name__}: {faults[0]}"[:300]
        elif name == SAME and not faults:
            if here != there:
                yield SAME, f"{kind} order", Move("order", 1, 0), f"{here} {there}"[:300]
        elif not faults and name is not None:
            for move in (*compare(request, certificates, here[0], there[0]), *compare_rows(certificates, here[1], there[1])):
                yield name, f"{kind} {move.what}", move, ""


def outcome_of(asked: Asked, session: Session) -> str:
    """'answered', the code of a refusal, 'Incident', or what crashed."""
    try:
        if asked.kind == "workload":
            queries = [parse(text) for text in asked.texts]
            options = [Option(name=name, value=value, span=None) for name, value in asked.options.items()]
            used = asked.parameters
            workload([query for query in queries if isinstance(query, Query)], session, options, used)
        else:
            for text in asked.texts:
                answer(text, session, {name: value for name, value in asked.parameters.items() if f"${name}" in text})
    except Incident:
        return "Incident"
    except InternalError as fault:  # a fault of planning, or a claim that is not borne out
        return f"!{fault.code}: {fault}"[:200]
    except Error as fault:
        return f"{type(fault).__name__} {fault.code}"
    except Exception as fault:
        return f"!{type(fault).__name__}: {fault}"[:200]
    return "answered"
