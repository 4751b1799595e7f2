"""The requests of real statements: what forgeries are made from, and what they exchange."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from forging.tables import SMALL, STATEMENTS
from oracle.replay import Family, Recorder

from dpsql.engine.answering import answer
from dpsql.frozen import Frozen, field_names, is_frozen, replace
from dpsql.trusted.matrices.blocks import IntegerBlock
from dpsql.trusted.matrices.matrices import AllStretches, Centre, Halves, Prefixes, Root, Stacked, Stretches, Sum, Unit, Written
from dpsql.trusted.measurements.block_sums import Blocks

Path = tuple[str | int, ...]
TOGETHER = ("levels", "noises", "penalties", "log_priors", "marginals", "expected", "weights", "candidates", "offsets", "tests", "steps")
LONG = 4
PLANS = ("plan", "view", "input")  # fields below which a request is an operator


class Base(Frozen, kw_only=False):
    """A request as a statement made it. `opened` is the statement that opened its online model, for comparisons."""

    request: Any
    text: str
    slots: tuple[Slot, ...] = ()
    model: tuple[str, Any] | None = None

    @property
    def name(self) -> str:
        return type(self.request).__name__


class Slot(Frozen, kw_only=False):
    """A place in a request: the way to it, the class and field that it is in, and the value there."""

    path: Path
    owner: str
    field: str
    value: Any
    deep: bool  # within a plan

    def __str__(self) -> str:
        return f"{self.owner}.{self.field}"


@dataclasses.dataclass
class Corpus:
    """Requests over one family of databases; values by the fields that hold them, and frozen values and their classes."""

    family: Family
    bases: list[Base] = dataclasses.field(default_factory=list)
    by_field: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    by_class: dict[type, list[Any]] = dataclasses.field(default_factory=dict)

    def add(self, base: Base) -> None:
        made = replace(base, slots=tuple(slots_of(base.request)))
        self.bases.append(made)
        for slot in made.slots:
            _keep(self.by_field, slot.field, slot.value)
            _keep(self.by_class, type(slot.value), slot.value)
        _keep(self.by_class, type(made.request), made.request)


def _keep(pool: dict[Any, list[Any]], key: Any, value: Any, most: int = 40) -> None:
    found = pool.setdefault(key, [])
    if len(found) < most and not any(kept is value for kept in found):
        found.append(value)


def recorded() -> Corpus:
    """The requests of all statements; only a few of one statement that are of one class."""
    made = Corpus(Family(SMALL))
    for number, texts in enumerate(STATEMENTS):
        for request in requests_of(texts, made.family, number):
            made.add(Base(request, texts[0]))
    blocks = next(base for base in made.bases if isinstance(base.request, Blocks) and base.request.axes and not base.request.line)
    made.add(replace(blocks, request=with_all_matrices(blocks.request)))
    return made


def requests_of(texts: Sequence[str], family: Family, seed: int) -> Iterator[Any]:
    """What statements of one session ask for; at most two requests of a class."""
    session = family.session(seed)
    kernel = session.kernel
    assert isinstance(kernel, Recorder)
    for text in texts:
        answer(text, session)
    kinds = Counter[type]()
    for asked in kernel.asked:
        kinds[type(asked.request)] += 1
        if kinds[type(asked.request)] <= 2:
            yield thinned(asked.request)


def with_all_matrices(request: Blocks) -> Blocks:
    """A request that asks for every kind of matrix over its first axis: no strategy of the statements has them all."""
    n = request.axes[0].size
    first, after, entries = (np.array(numbers, dtype=np.int64).tobytes() for numbers in ([0, n - 1], [n, n], [1, -2, *[3] * (n - 2)][:n]))
    row = Written(1, n, entries)
    wide = {Root(n): 2.0**30, Centre(n): 8.0 * n}
    return replace(request, blocks=tuple(IntegerBlock(axes=(0,), matrices=(matrix,), scale=wide.get(matrix, 8.0)) for matrix in (
        Unit(n), Sum(n), Prefixes(n), AllStretches(n), Stretches(n, first, after), row, Stacked(entries, row), Halves(n, 2), Centre(n), Root(n))))


def thinned(request: Any) -> Any:
    """A request whose long lists that go together, of levels and candidates, are shorter: a forgery of it takes less time."""
    lists = {name: part for name in field_names(type(request)) if type(part := getattr(request, name)) is tuple}
    sizes = [len(part) for name, part in lists.items() if name in TOGETHER]
    most = max(sizes, default=0)
    if most <= LONG or type(request).__name__ in ("Partition", "Comparisons"):
        return request
    return replace(request, **{name: part[:LONG] for name, part in lists.items() if name in TOGETHER and len(part) == most})


def slots_of(request: Any) -> Iterator[Slot]:
    """All places in a request, each once however often it is used."""
    seen: set[int] = set()

    def below(value: Any, path: Path, owner: str, name: str, *, deep: bool) -> Iterator[Slot]:
        if name == "span":
            return  # places in a text, of which nothing that is read depends
        if path:
            yield Slot(path, owner, name, value, deep)
        if id(value) in seen or type(value) in (bool, int, float, str, type(None)):
            return
        seen.add(id(value))
        if is_frozen(value) and type(value).__name__ not in ("Table", "Domain"):
            for name in field_names(type(value)):
                yield from below(getattr(value, name), (*path, name), type(value).__name__, name,
                                 deep=deep or name in PLANS)
        elif type(value) is tuple:
            for at, part in enumerate(value[:12]):
                yield from below(part, (*path, at), owner, name, deep=deep)

    yield from below(request, (), "", "", deep=False)


def parts_of(request: Any) -> set[type]:
    """The classes of all frozen values in a request."""
    return {type(request), *(type(slot.value) for slot in slots_of(request) if is_frozen(slot.value))}
