"""The fast tier runs most test functions once; what is left to the long tier takes long, or is only combinations."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import seconds
from support.tiers import ENOUGH, LONGEST, LONGEST_OF_PROOFS, MANY, short_ones, spread, turn_of

TESTS = Path(__file__).parents[1]


def test_most_test_functions_have_a_fast_instance(tiers: Any) -> None:
    """Shown by `pytest -s`: those that have none, as they take long."""
    if tiers.files != set(TESTS.rglob("test_*.py")):
        pytest.skip("some files only were collected")
    slow = sorted(tiers.functions - tiers.fast)
    print(*slow, sep="\n")
    assert len(slow) <= 0.3 * len(tiers.functions), slow
    assert seconds.kept().keys() <= tiers.functions, "run `pytest --measure`, or remove what is no more"


class Instance(SimpleNamespace):
    """As much of a test as tiers ask for."""

    __hash__ = object.__hash__

    @classmethod
    def of(cls, function: str, **values: object) -> Instance:
        name = f"test_some.py::{function}[{'-'.join(map(str, values.values()))}]"
        return cls(nodeid=name, callspec=SimpleNamespace(params=values), get_closest_marker=lambda name: None)


def kept(instances: list[Instance], took: float = 0.005) -> list[Instance]:
    found: Any = spread(instances, {"test_some.py::test_many": took})  # type: ignore[arg-type]
    return [instance for instance in instances if instance in found]


def test_few_instances_all_stay() -> None:
    few = [Instance.of("test_few", a=a) for a in range(MANY)]
    assert kept(few) == few


def test_of_many_every_value_stays_but_not_every_combination() -> None:
    many = [Instance.of("test_many", a=a, b=f"b{b}") for a in range(30) for b in range(20)]
    stay = kept(many)
    assert many[0] in stay and len(stay) < 100
    assert {one.callspec.params["a"] for one in stay} == set(range(30))
    assert {one.callspec.params["b"] for one in stay} == {f"b{b}" for b in range(20)}


def test_fewer_stay_of_what_takes_long() -> None:
    many = [Instance.of("test_many", a=a) for a in range(300)]
    assert len(kept(many, ENOUGH / 300.5)) == 300 and len(kept(many, ENOUGH / 6.5)) == 6 and len(kept(many, 2 * ENOUGH)) == 1


def test_what_takes_too_long_does_not_stay_but_every_file_does() -> None:
    took = {"tests/stat/test_a.py::test_long": 2 * LONGEST, "tests/stat/test_a.py::test_longer": 2 * LONGEST_OF_PROOFS,
            "tests/sql/test_b.py::test_long": 2 * LONGEST, "tests/sql/test_c.py::test_long": 2 * LONGEST}
    assert short_ones([*took, "tests/sql/test_b.py::test_short"], took) == [
        "tests/stat/test_a.py::test_long", "tests/sql/test_b.py::test_short", "tests/sql/test_c.py::test_long"]


def test_every_statement_stays_in_some_of_the_functions_that_ask_it() -> None:
    functions = ("test_answers", "test_plans", "test_columns")
    many = [Instance.of(function, text=f"SELECT {i}") for function in functions for i in range(200)]
    stay = kept(many)
    assert {one.callspec.params["text"] for one in stay} == {f"SELECT {i}" for i in range(200)}
    for function in functions:
        assert MANY <= sum(function in one.nodeid for one in stay) < 120


def test_every_test_has_its_turn_and_slow_ones_of_a_file_have_it_together() -> None:
    some: list[Any] = [Instance.of("test_many", a=a) for a in range(100)]
    assert {turn_of(one) % 8 for one in some} == set(range(8))
    for one in some:
        one.get_closest_marker = lambda name: name == "slow"
    assert len({turn_of(one) for one in some}) == 1
