"""The tiers of the tests, which follow from marks, from what was measured (see `seconds.py`) and from parameters.

* `fast`: the first instance of a test function, unless that is `slow` or `long`, or takes more than `SOON`.
* `long`: what is marked so; functions that take more than `LONGEST`, unless their file has no other; and what is one of many instances
  of a function and adds no new value of a parameter to the others, or would make these take too long.
* `drawn`: what asks for the effort.

What starts Spark is marked `slow` and `spark`, is run by itself, and does not count among the functions that have to be fast.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from support import seconds

SOON = 0.4
"""The most seconds of a processor that a test of the fast tier takes."""
SLOW, SHORT = 2.0, 0.03
"""What a test takes that was not measured: one that is marked `slow`, or any other."""
LONGEST, LONGEST_OF_PROOFS = 1.5, 3.0
"""The most seconds that a test outside of the long tier takes, and one of the rooms that test the promise."""
PROOFS = ("forging", "kernel", "laws", "measurements", "noise", "oracle", "stat")
MANY, ENOUGH = 3, 0.5
"""How many instances of a function stay at least, and for how many seconds at most (though always one of them)."""


class Tiers(NamedTuple):
    """What was collected, whatever was selected of it then: test functions, and which of them have a fast instance."""

    files: frozenset[Path]
    functions: frozenset[str]
    fast: frozenset[str]


def mark(items: Sequence[pytest.Item]) -> Tiers:
    took = seconds.kept()
    kept, fast = spread(items, took), dict[str, pytest.Item]()
    for item in items:
        if "effort" in getattr(item, "fixturenames", ()):
            item.add_marker("drawn")
        if item not in kept:
            item.add_marker("long")
        elif took.get(function_of(item), 0) <= SOON and not {"slow", "long"} & {marker.name for marker in item.iter_markers()}:
            fast.setdefault(function_of(item), item)
    for item in fast.values():
        item.add_marker("fast")
    counted = frozenset(function_of(item) for item in items if item.get_closest_marker("spark") is None)
    return Tiers(files=frozenset(item.path for item in items), functions=counted, fast=frozenset(fast))


def spread(items: Iterable[pytest.Item], took: Mapping[str, float]) -> set[pytest.Item]:
    """Of each function that is not too long the first instance, some others, and those that are the first to have a value of a
    parameter: what is left out is only combinations, unless so many would take too long. The same statement (`text`) is asked of many
    functions, and stays in at least one of them.
    """
    by_function: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_function[function_of(item)].append(item)
    kept, asked = set[pytest.Item](), defaultdict[Hashable, list[pytest.Item]](list)
    for function in short_ones(by_function, took):
        instances = by_function[function]
        usual = SLOW if instances[0].get_closest_marker("slow") else SHORT
        most = max(1, int(ENOUGH / took.get(function, usual)))
        seen, stay = set[tuple[str, Hashable]](), list[pytest.Item]()
        for at, item in enumerate([instances[0], *sorted(instances[1:], key=number_of)]):
            values = dict(values_of(item))
            if "text" in values:
                asked[values.pop("text")].append(item)
            if at < min(MANY, most) or (not seen.issuperset(values.items()) and len(stay) < most):
                stay.append(item)
            seen.update(values.items())
        kept.update(stay)
    return kept | {min(those, key=number_of) for those in asked.values() if kept.isdisjoint(those)}


def short_ones(functions: Iterable[str], took: Mapping[str, float]) -> list[str]:
    """Those that do not take too long, and the shortest of each file."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for function in functions:
        by_file[function.partition("::")[0]].append(function)
    found = list[str]()
    for file, inside in by_file.items():
        longest = LONGEST_OF_PROOFS if Path(file).parent.name in PROOFS else LONGEST
        found += [function for function in inside if took.get(function, 0) <= longest] or [min(
            inside, key=lambda function: took.get(function, 0))]
    return found


def values_of(item: pytest.Item) -> Iterator[tuple[str, Hashable]]:
    """The values of plain parameters, and otherwise which object it is."""
    callspec = getattr(item, "callspec", None)
    for name, value in callspec.params.items() if callspec is not None else ():
        yield name, value if isinstance(value, str | int | float | None) else id(value)


def function_of(item: pytest.Item) -> str:
    return seconds.function_of(item.nodeid)


def turn_of(item: pytest.Item) -> int:
    """When a test has its turn. Slow tests of a file have it together, as they may share what takes long to make."""
    together = item.nodeid.partition("::")[0] if item.get_closest_marker("slow") else item.nodeid
    return zlib.crc32(together.encode())


def number_of(item: pytest.Item) -> tuple[int, str]:
    """The same in every process and every run, and otherwise as if it were drawn."""
    return zlib.crc32(item.nodeid.encode()), item.nodeid
