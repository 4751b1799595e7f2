"""Frozen values: as Python's own dataclasses compare, hash and show them, and never changed."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import itertools
import math
import pickle
from abc import abstractmethod
from typing import Any

import pytest

from dpsql import frozen
from dpsql.frozen import AbstractFrozen, Frozen, asdict, field, field_names, is_frozen, replace
from dpsql.trusted.cached import cached_property

NAN = math.nan
VALUES = [0, 0.0, -0.0, False, 1, True, 1.0, None, "", "a", NAN, float("nan"), (NAN,), (), (1,), (True,), frozenset({1})]


class Pair(Frozen, kw_only=False):
    first: Any
    second: Any = 0


@dataclasses.dataclass(frozen=True)
class PlainPair:
    first: Any
    second: Any = 0


class Partly(Frozen):
    """Compared by one field, as it is shown."""

    name: Any
    cost: Any = field(default=0, compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class PlainPartly:
    name: Any
    cost: Any = dataclasses.field(default=0, compare=False, repr=False)


class Other(Pair, kw_only=False):
    pass


class ByName:
    """Equality that a class has from elsewhere."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByName) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class One(ByName, Frozen):
    name: str
    size: int


class Doubled(Frozen):
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("no size")

    @cached_property
    def double(self) -> int:
        return 2 * self.size


class Shape(AbstractFrozen):
    @abstractmethod
    def area(self) -> int: ...


class Square(Shape):
    side: int

    def area(self) -> int:
        return self.side**2


def test_the_example_is_true() -> None:
    assert doctest.testmod(frozen) == (0, 2)


@pytest.mark.parametrize(("ours", "plain"), [(Pair, PlainPair), (Partly, PlainPartly)], ids=["all fields", "some fields"])
def test_values_are_equal_and_shown_as_those_of_dataclasses(ours: Any, plain: Any) -> None:
    """NaN, numbers that are equal across types, and zeros of both signs included: what plans remember rests on it."""
    kinds = [list(itertools.starmap(kind, itertools.product(VALUES, repeat=2))) if kind in (Pair, PlainPair) else
             [kind(name=name, cost=cost) for name, cost in itertools.product(VALUES, repeat=2)] for kind in (ours, plain)]
    for (one, its), (other, others) in itertools.combinations_with_replacement(list(zip(*kinds, strict=True)), 2):
        assert (one == other) is (its == others), (one, other)
        assert one != other or hash(one) == hash(other), (one, other)
    assert [repr(one) for one in kinds[0]] == [repr(its).replace("Plain", "") for its in kinds[1]]


def test_another_class_is_never_equal() -> None:
    assert Pair(1, 2) != Other(1, 2) and Other(1, 2) != Pair(1, 2) and Pair(1, 2) != (1, 2) and Pair(1, 2) != PlainPair(1, 2)
    assert Other(1, 2) == Other(1, 2)


def test_equality_from_elsewhere_stays() -> None:
    assert One(name="a", size=1) == One(name="a", size=2) != One(name="b", size=2)
    assert hash(One(name="a", size=1)) == hash(One(name="a", size=2))


@pytest.mark.parametrize("value", [Pair(1), Partly(name="a"), One(name="a", size=1), Doubled(size=1), Square(side=2)], ids=lambda value: type(value).__name__)
def test_nothing_changes_a_value(value: Any) -> None:
    name = field_names(type(value))[0]
    for change in (lambda: setattr(value, name, 7), lambda: delattr(value, name), lambda: object.__setattr__(value, name, 7)):
        with pytest.raises((AttributeError, TypeError)):
            change()
    with pytest.raises((AttributeError, TypeError)):
        value.added = 7
    assert copy.copy(value) == value == copy.deepcopy(value) == pickle.loads(pickle.dumps(value))


def test_a_copy_is_checked_and_computed_anew() -> None:
    one = Doubled(size=3)
    assert (one.double, replace(one, size=4).double) == (6, 8)
    for made in (lambda: Doubled(size=-1), lambda: replace(one, size=-1), lambda: pickle.loads(pickle.dumps(one).replace(b"K\x03", b"J\xff\xff\xff\xff"))):
        with pytest.raises(ValueError, match="no size"):
            made()


def test_fields_are_listed() -> None:
    assert field_names(Pair) == ("first", "second") and is_frozen(Pair) and is_frozen(Pair(1)) and not is_frozen(PlainPair(1))
    assert asdict(Pair(Pair(1), [Doubled(size=2)])) == {"first": {"first": 1, "second": 0}, "second": [{"size": 2}]}


def test_fields_are_given_by_name_and_abstract_classes_are_not_made() -> None:
    with pytest.raises(TypeError):
        Doubled(3)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Shape()  # type: ignore[abstract]
    assert Square(side=3).area() == 9
