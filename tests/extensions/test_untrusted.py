"""Solvers that are missing, raise, write into what they are given or answer nonsense change nothing but the time it takes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from extensions.test_degrees import arcs
from extensions.test_totality import cases, fewest, oracle, removal_cases
from support import worlds
from support.extensions.given import Given
from support.neighbours import Exact
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.backends.duckdb import DuckReader
from dpsql.engine.answering import answer
from dpsql.frozen import field_names, is_frozen, replace
from dpsql.solvers.usual import USUAL, for_crowd, for_packing, for_program
from dpsql.trusted.extensions import ask_solvers
from dpsql.trusted.extensions.ask_solvers import MOST_ANSWERS, NO_SOLVERS, Solvers, each_heard
from dpsql.trusted.extensions.bounded_degrees import extended
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.removal_distance import RemovalDistances
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.measurements.several.many_sets import Listed, Streamed
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.owner_sets import NEAR, UNIT, OwnerSets, slack
from dpsql.trusted.plan.operators.summands import Count

ROLES = [*field_names(Solvers)]

Lie = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What becomes of an honest answer: of numbers that belong together, as an object or a tuple of arrays, or of one array."""


def changed(found: Any, change: Callable[[Any], Any]) -> Any:
    """The same answer with each of its arrays changed."""
    if isinstance(found, tuple):
        return tuple(change(part) for part in found)
    if isinstance(found, np.ndarray):
        return change(found)
    return SimpleNamespace(**{name: change(getattr(found, name)) for name in field_names(type(found))})


def each(change: Callable[[Any], Any]) -> Lie:
    return lambda honest: lambda *given: changed(honest(*given), change)


def raising(fault: type[BaseException]) -> Lie:
    def lie(honest: Callable[..., Any]) -> Callable[..., Any]:
        def door(*given: Any) -> Any:
            raise fault
        return door
    return lie


def mutating(honest: Callable[..., Any]) -> Callable[..., Any]:
    """Right answers, and what was asked is spoilt: arrays, lists, and those of dataclasses."""
    def spoil(thing: Any) -> None:
        if isinstance(thing, np.ndarray):
            base: Any = thing
            while base is not None:
                if isinstance(base, np.ndarray):
                    base.setflags(write=True)
                    base.fill(1)
                base = getattr(base, "base", None)
        elif isinstance(thing, list):
            thing[:] = [7] * 3
        elif is_frozen(thing):
            for name in field_names(type(thing)):
                spoil(getattr(thing, name))

    def door(*given: Any) -> Any:
        found = changed(honest(*given), lambda part: np.array(part))
        spoil(list(given)), [spoil(one) for one in given]
        return found
    return door


def late(honest: Callable[..., Any]) -> Callable[..., Any]:
    """Half right, from one list of arrays that is written into at the next call."""
    kept: list[Any] = []

    def door(*given: Any) -> Any:
        for part in kept:
            part.fill(0)
        return changed(honest(*given), lambda part: kept.append(np.array(part) // 2) or kept[-1])  # type: ignore[func-returns-value]
    return door


class Hostile:
    """An answer that raises whatever is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise SystemExit

    def __iter__(self) -> Iterator[Any]:
        raise GeneratorExit


class Late:
    """Something that is an array only when it is asked for one, and another each time."""

    def __init__(self, part: Any) -> None:
        self._part, self._asked = part, 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._asked += 1
        return np.array(self._part * (self._asked % 2), dtype=dtype)


LIES: dict[str, Lie] = {
    "zero": each(lambda part: part * 0), "all one": each(lambda part: part * 0 + 1), "twice": each(lambda part: part + part),
    "half": each(lambda part: part / 2), "below zero": each(lambda part: -1.0 * part), "one less": each(lambda part: part - 1.0),
    "nan": each(lambda part: part * np.nan), "infinite": each(lambda part: part + np.inf), "minus infinite": each(lambda part: part - np.inf),
    "huge": each(lambda part: part + 1e300), "a huge integer": each(lambda part: (part * 0).astype(np.int64) + 2**62),
    "the least integer": each(lambda part: (part * 0).astype(np.int64) - 2**63), "integers that are no truths": each(lambda part: np.full(part.shape, 2)),
    "a byte": each(lambda part: np.asarray(part).astype(np.int8)), "a float": each(lambda part: np.asarray(part).astype(np.float16)),
    "unsigned": each(lambda part: np.asarray(part).astype(np.uint64) + np.uint64(2**63)),
    "complex": each(lambda part: part + 1j), "texts": each(lambda part: part.astype(str)), "objects": each(lambda part: part.astype(object)),
    "nothings": each(lambda part: np.array([None] * len(part))), "huge objects": each(lambda part: np.array([10**400] * len(part), dtype=object)),
    "dates": each(lambda part: np.zeros(part.shape, dtype="datetime64[s]")), "records": each(lambda part: np.zeros(part.shape, dtype="i8,f8")),
    "masked": each(lambda part: np.ma.masked_all(part.shape)), "a matrix": each(lambda part: np.asmatrix(part)),
    "a row": each(lambda part: part.reshape(1, -1)), "a column": each(lambda part: part.reshape(-1, 1)), "short": each(lambda part: part[:-1]),
    "one alone": each(lambda part: part[:1]), "long": each(lambda part: np.append(part, part)), "empty": each(lambda part: part[:0]),
    "a number": each(lambda part: part.dtype.type(1)), "not flat": each(lambda part: np.ones((1,) * 30)), "a list": each(lambda part: part.tolist()),
    "a generator": each(lambda part: (one for one in part)), "none": each(lambda part: None), "another each time": each(Late),
    "backwards": each(lambda part: part[::-1]), "turned": each(lambda part: np.roll(part, 1)), "the other truth": each(lambda part: ~part.astype(bool)),
    "a broadcast": each(lambda part: np.broadcast_to(part[:1], part.shape)),
    "nothing": lambda honest: lambda *given: None, "no tuple": lambda honest: lambda *given: 5, "three": lambda honest: lambda *given: (1, 2, 3),
    "hostile": lambda honest: lambda *given: Hostile(), "the question": lambda honest: lambda *given: given[0], "the solver": lambda honest: lambda *given: honest,
    "mutating": mutating, "late": late,
    **{fault.__name__: raising(fault) for fault in (
        RuntimeError, MemoryError, ImportError, SystemExit, GeneratorExit, StopIteration, RecursionError, FloatingPointError, BaseException)}}


def lying(lie: Lie, *roles: str) -> Solvers:
    """The usual solvers, of which these tell lies and nothing but lies."""
    return replace(USUAL, **{role: made for role, made in {
        "programs": lambda program: tuple(lie(door) for door in for_program(program)),
        "crowds": lambda crowd: tuple(lie(door) for door in for_crowd(crowd)),
        "packings": lambda packing: (lie(lambda packing, pair=pair: pair)(packing) for pair in for_packing(packing)),
        "flows": lie(USUAL.flows), "cuts": lie(USUAL.cuts)}.items() if role in roles})


def strange(one: Any) -> Solvers:
    """In every role the same strange thing."""
    return Solvers(**dict.fromkeys(ROLES, one))


def endless(*given: Any) -> Iterator[Any]:
    while True:
        yield lambda *asked: (np.zeros(1), np.zeros(1))


STRANGE = {
    "none": None, "a number": 5, "no doors": lambda *given: None, "a door": lambda *given: lambda *more: None, "raises": raising(SystemExit)(print),
    "doors that are none": lambda *given: (None, 5, "door", (print, 0.0)), "a text": lambda *given: "abc", "endless": endless, "hostile": lambda *given: Hostile()}
WAYS: dict[str, Solvers] = {
    "without": NO_SOLVERS, **{f"strange: {name}": strange(one) for name, one in STRANGE.items()},
    **{f"lies: {name}": lying(lie, *ROLES) for name, lie in LIES.items()}}
pytestmark = pytest.mark.filterwarnings("ignore")  # a matrix is out of fashion
ALL = pytest.mark.parametrize("solvers", WAYS.values(), ids=WAYS)


# -- what they are asked for, by name


@ALL
def test_sums_are_what_the_usual_solvers_say(solvers: Solvers, effort: float) -> None:
    for rows, level in cases(21, int(12 * effort)):
        truth = UNIT * oracle(rows, level)
        found = LipschitzExtension(rows.owned(), [level], rows.width, solvers).value(0)
        assert int(truth) <= found <= truth + slack(level, rows.width)
        assert rows.width > 2 or found == truth


def test_without_solvers_small_sums_are_the_same_to_the_last_unit(effort: float) -> None:
    for rows, level in cases(31, int(60 * effort)):
        usual, alone = (LipschitzExtension(rows.owned(), [level], rows.width, solvers).value(0) for solvers in (USUAL, NO_SOLVERS))
        assert usual == alone


@ALL
def test_removals_are_what_the_usual_solvers_say(solvers: Solvers, effort: float) -> None:
    for given, level in removal_cases(22, int(8 * effort)):
        truth = UNIT * fewest(given, level)
        assert truth <= RemovalDistances(given.sets(), [level], solvers).value(0) <= truth + NEAR


@ALL
def test_degrees_are_what_the_usual_solvers_say(solvers: Solvers, effort: float) -> None:
    draw = random.Random(23)
    for _ in range(int(6 * effort)):
        people = draw.randint(2, 9)
        edges = tuple((draw.randrange(people), draw.randrange(people), draw.randint(1, 4)) for _ in range(draw.randint(1, 18)))
        made, most = arcs(edges, people, mutual=draw.random() < 0.5), draw.randint(1, 5)
        assert (extended(made, most, solvers) == extended(made, most, USUAL)).all()


ROW = ("a", "BIGINT"), ("b", "BIGINT"), ("c", "BIGINT"), ("v", "BIGINT")


@pytest.mark.parametrize("name", ["without", "strange: doors that are none", *(f"lies: {name}" for name in (
    "half", "twice", "nan", "infinite", "below zero", "a float", "short", "turned", "mutating", "late", "SystemExit"))])
def test_sets_that_find_no_room_are_held_all_the_same(name: str) -> None:
    """Prices for some of the sets, and what they are worth for all of them: a sum over what the engine lists."""
    rows = tuple((*sets, 1) for sets in itertools.combinations(range(7), 3))
    plan = OwnerSets(input=Given(columns=ROW, rows=rows), owners=("a", "b", "c"), summand=Count())
    reader = DuckReader(duckdb.connect(config={"threads": 1}), "v")
    context = Context(reader=reader, noise=Secure(), printing=Printing(), content=Content(reader), public=Publics(reader),
                      solvers=WAYS[name])
    found, levels = Streamed(Listed(plan, None, context), (1, 2), 16), (1, 2)  # of 35 sets
    for j, level in enumerate(levels):
        truth = Fraction(7 * level, 3) * UNIT
        assert int(truth) <= found.value(j) <= truth + slack(level, 3)


# -- one role at a time, the others honest


@pytest.mark.parametrize("role", ["programs", "packings"])
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_one_that_lies_about_sums_among_honest_ones(lie: Lie, role: str, effort: float) -> None:
    for rows, level in cases(25, int(8 * effort), (1, 3, 50)):
        truth = UNIT * oracle(rows, level)
        for solvers in (lying(lie, role), replace(lying(lie, role), programs=lambda program: ()) if role == "packings" else lying(lie, role)):
            assert int(truth) <= LipschitzExtension(rows.owned(), [level], rows.width, solvers).value(0) <= truth + slack(level, rows.width)


@pytest.mark.parametrize("role", ["flows", "cuts"])
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_one_that_lies_about_degrees_among_honest_ones(lie: Lie, role: str, effort: float) -> None:
    draw = random.Random(26)
    for _ in range(int(6 * effort)):
        people = draw.randint(2, 8)
        edges = tuple((draw.randrange(people), draw.randrange(people), draw.randint(1, 3)) for _ in range(draw.randint(1, 14)))
        made, most = arcs(edges, people, mutual=draw.random() < 0.5), draw.randint(1, 4)
        assert (extended(made, most, lying(lie, role)) == extended(made, most, USUAL)).all()


def test_one_arc_where_a_length_of_one_fits_everything() -> None:
    """What is broadcast without a word elsewhere."""
    made = arcs([(0, 1, 3)], 2, mutual=False)
    for lie in LIES.values():
        assert extended(made, 2, lying(lie, *ROLES)).tolist() == [0, 1]


# -- what else is promised


def test_what_is_asked_is_a_copy(effort: float) -> None:
    """Nothing that a solver is given shares memory with what is worked with: not even with what another one was given."""
    seen: list[Any] = []

    def keep(answer: Any, *given: Any) -> Any:
        seen.extend(part for one in given for part in ([getattr(one, name) for name in field_names(type(one))] if is_frozen(one) else [one]) if isinstance(part, np.ndarray) and part.size)
        raise RuntimeError

    spies = Solvers(programs=lambda program: (partial(keep, None), partial(keep, None)), crowds=lambda crowd: (partial(keep, None),) * 2,
                    packings=partial(keep, None), flows=partial(keep, None), cuts=partial(keep, None))
    rows, level = next((rows, level) for rows, level in cases(28, 100) if rows.width == 3 and level > 2)
    owned = rows.owned()
    before = owned.weights.copy(), owned.owners.copy()
    for rows, level in cases(28, int(15 * effort)):
        LipschitzExtension(rows.owned(), [level], rows.width, spies).value(0)
    for given, level in removal_cases(28, int(10 * effort)):
        RemovalDistances(given.sets(), [level], spies).value(0)
    extended(arcs([(0, 1, 3), (1, 2, 2), (2, 0, 5)], 3, mutual=True), 2, spies)
    assert len(seen) > 30 and all(part.flags.writeable for part in seen)
    assert not any(np.shares_memory(a, b) for at, a in enumerate(seen) for b in seen[:at])
    assert (owned.weights == before[0]).all() and (owned.owners == before[1]).all()


def test_who_sits_at_the_keyboard_may_stop_a_solver() -> None:
    def stopped(*given: Any) -> Any:
        raise KeyboardInterrupt

    made = arcs([(0, 1, 3)], 2, mutual=False)
    with pytest.raises(KeyboardInterrupt):
        extended(made, 2, strange(stopped))


def test_answers_are_heard_up_to_the_first_that_fails() -> None:
    assert [*each_heard(int, lambda: iter(["1", "2", "x", "4"]))] == [1, 2]
    assert [*each_heard(int, itertools.count)] == [*range(MOST_ANSWERS)]
    assert [*each_heard(int, raising(RuntimeError)(print))] == []


def test_answers_without_end_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def idle(*given: Any) -> Any:
        nonlocal asked
        asked += 1

    def without_end(*given: Any) -> Iterator[Any]:
        while True:
            yield idle

    for rows, level in cases(30, 30):
        LipschitzExtension(rows.owned(), [level], rows.width, Solvers(programs=without_end, packings=without_end)).value(0)
    assert 0 < asked <= 30 * ask_solvers.MOST_ANSWERS


# -- through the kernel


MEETINGS = ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({}) COUNT(*) FROM people a JOIN people b ON a.sex = b.sex "
            "WHERE a.person_id < b.person_id")
BOUNDS = ["bound = 'extension', clip = 2", "bound = 'r2t'", "bound = 'balance'", "bound = 'removals'", "bound = 'recursive'"]


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_kernel_asks_those_that_it_was_handed_and_believes_none(bound: str, tmp_path: Path) -> None:
    """Without noise, as far as the slack: the exact number whoever solves it, with one session for each."""
    asked = []

    def counted(role: str) -> Callable[..., Any]:
        return lambda *given: asked.append(role)

    told = {}
    for name, solvers in {"usual": USUAL, "none": NO_SOLVERS, "counted": Solvers(**{role: counted(role) for role in ROLES}),
                          "nan": lying(LIES["nan"], *ROLES), "exits": strange(raising(SystemExit)(print))}.items():
        session = session_of(tmp_path / name, worlds.world(seed=5, people=12), noise=Exact(), at={"epsilon": 1}, solvers=solvers)
        found = answer(MEETINGS.format(bound), session)
        assert isinstance(found, Answer)
        told[name] = float(found.rows[0][0])
    assert max(told.values()) - min(told.values()) <= 0.1, told
    assert asked or bound in BOUNDS[1::3], "races and recursions of this size need none"
