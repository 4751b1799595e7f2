"""The kernel takes a request of exact classes only, as a copy: whatever is forged in it is refused before a charge, or dropped."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from typing import Literal as OneOf
from unittest.mock import patch

import numpy as np
import pytest
from support.forged import fields_of, made_of, tampered

from dpsql.frozen import is_frozen, replace
from dpsql.trusted.accounting.cost import Account, Cost, pure
from dpsql.trusted.declarations.tables import Column, OwnerPath, Table
from dpsql.trusted.field_types import NumberRange
from dpsql.trusted.kernel import shapes
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.kernel.taken import HANDED, MADE, copied_request, forms_of
from dpsql.trusted.matrices.blocks import IntegerBlock
from dpsql.trusted.matrices.matrices import AllStretches, Centre, Halves, Prefixes, Root, Stacked, Stretches, Sum, Unit, Written
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfCounts, AboveThresholdOfSums, AboveThresholdOfTests, Rising
from dpsql.trusted.measurements.all_measurements import MEASUREMENTS, VALUES
from dpsql.trusted.measurements.block_sums import Axis, Blocks, MergedAxis
from dpsql.trusted.measurements.boxes import Tree
from dpsql.trusted.measurements.buckets import Numbered, Partition
from dpsql.trusted.measurements.dependent_parents import ConvexInformation, DependentParents, ProductDistance
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.flip_distance import DistinctWithin, ExtensionWithin, Form, NoisyFlipDistance, Within
from dpsql.trusted.measurements.frequent_keys import Keys
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.online_comparisons import Opening
from dpsql.trusted.measurements.select import Segment, Select, Target
from dpsql.trusted.measurements.several.balanced_levels import Balance, BalancedLevel
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram
from dpsql.trusted.measurements.several.race import Race
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums, Removed
from dpsql.trusted.measurements.several.smooth_join_sum import SmoothSum
from dpsql.trusted.measurements.smooth_quantile import Smooth
from dpsql.trusted.measurements.vote import Vote
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.noise.key_selection import GaussianThreshold, TruncatedGeometric
from dpsql.trusted.noise.smooth import Student
from dpsql.trusted.plan.cells import Grid
from dpsql.trusted.plan.expr.nodes import Literal, Value
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type

GRID = Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)
TABLE = Table(name="people", public=False, columns={"a": Column(name="a", type=Type.BIGINT, sql_type="BIGINT")},
              owners=(OwnerPath(column="a", type=Type.BIGINT, steps=()),))
VIEW = Truncate(rows=2, owner="o", order=("a",), input=Filter(
    input=Scan(table=TABLE, columns=(("a", "a"),), owners=("o",)), condition=Literal(value=True, type=Type.BOOLEAN)))
TALLY = GroupedSums(input=VIEW, keys=("a",), summands=(Count(), GridSum(column="a", grid=GRID), Moments(column="a", grid=GRID, degree=2)))
COUNTED = GroupedSums(input=VIEW, keys=("a",), summands=(Count(),))
ONCE = replace(COUNTED, input=Distinct(input=VIEW))
ENDS = Scan(columns=(("u", "u"), ("v", "v")), owners=("u", "v"), table=Table(
    name="edges", public=False, columns={name: Column(name=name, type=Type.BIGINT, sql_type="BIGINT", nullable=False) for name in "uv"},
    owners=tuple(OwnerPath(column=name, type=Type.BIGINT, steps=()) for name in "uv")))
RANKS = Ranks(input=VIEW, keys=(), column="a", grid=GRID)
SHARES = OwnerSets(input=VIEW, owners=("o",), summand=Count())
LAPLACE, GAUSSIAN = DiscreteLaplace(scale=3.0), DiscreteGaussian(sigma=2.0)
HALF, TARGET = Fraction(1, 2), Target(fraction=Fraction(1, 2), offset=1)
TESTS = (Within(plan=replace(TALLY, summands=TALLY.summands[:2]), cells=((1,),), forms=(Form(at=0, sign=1, constants=(3,)),)),
         DistinctWithin(plan=Multiplicities(input=VIEW, keys=(), column="a"), cells=((),), first=(1,), last=(4,)),
         ExtensionWithin(plan=SHARES, level=2, first=0, last=9))


def words(*numbers: int) -> bytes:
    return np.array(numbers, dtype=np.int64).tobytes()


LEVELS: dict[str, Any] = {"plan": SHARES, "levels": (1, 2), "noises": (LAPLACE, GAUSSIAN)}
HONEST: dict[str, Any] = {type(made).__name__: made for made in (
    NoisySums(plan=TALLY, cells=((1,), (None,)), noises=(LAPLACE, GAUSSIAN, LAPLACE)),
    Select(plan=RANKS, cells=((),), segments=((Segment(low=0, high=9, target=TARGET),),), scale=2.0, flip=True),
    Smooth(plan=RANKS, cells=((),), target=TARGET, epsilon=HALF, delta=Fraction(1, 10**6), epsilon_size=HALF),
    AboveThresholdOfCounts(plan=COUNTED, limits=(3,), scale_limit=2.0, scale_query=4.0),
    WeightedPeriods(plan=TALLY, cells=((),), weights=((2, 5), (1, 9)), noises=(LAPLACE, GAUSSIAN, LAPLACE)),
    Keys(plan=COUNTED, rule=TruncatedGeometric(epsilon=HALF, delta=Fraction(1, 10**6))),
    Race(**LEVELS, penalties=(1, 2)), Balance(**LEVELS, log_priors=(0, 1), scale=2.0),
    Removed(**LEVELS, log_priors=(0, 1), scale=2.0), RecursiveSums(**LEVELS, scale=2.0, shift=1),
    NoisyFlipDistance(tests=TESTS, noise=LAPLACE), SmoothSum(plan=JoinSum(input=VIEW, summand=Count()), residual=True,
                                                             noise=Student(epsilon=HALF, beta=0.01), epsilon_size=HALF),
    AboveThresholdOfTests(tests=TESTS, most=2, limits=(1, 2), scale_limit=2.0, scale_query=4.0),
    AboveThresholdOfSums(plan=replace(COUNTED, keys=()), steps=(Rising(at=0, threshold=HALF),), scale_limit=2.0, scale_query=4.0),
    Vote(plan=replace(COUNTED, keys=()), low=HALF, high=Fraction(9), most=Fraction(4), scale=2.0),
    Blocks(view=VIEW, axes=(Axis(column="a", values=(0, 1, None)),), summand=Count(), noise="laplace",
           blocks=(IntegerBlock(axes=(0,), matrices=(Unit(3),), scale=2.0),)),
    FarthestMarginal(view=VIEW, axes=(Axis(column="a", values=(0, 1, None)),), merged=(MergedAxis(of=0, cells=(1, 0, 1)),), marginals=((1,), ()),
                     expected=((5, 0), (7,)), weights=(1, 2), penalties=(3, 0), scale=2.0),
    FarthestCount(view=VIEW, axes=(Axis(column="a", values=(0, 1, None)),), marginals=((0,), ()), expected=((5, 0, 1), (7,)), scale=2.0,
                  multiplier=3, draws=2),
    DependentParents(view=VIEW, axes=(Axis(column="a", values=(0, 1, None)),), candidates=((0,),), offsets=(3,), scale=2.0,
                     score=ProductDistance(grain=2)),
    Opening(view=VIEW, updates=3, scale_limit=2.0, scale_query=4.0, noise=GAUSSIAN),
    BalancedLevel(plan=SHARES, levels=(1, 2), log_priors=(0, 1), scale=2.0),
    DegreeHistogram(plan=Arcs(input=ENDS, tail="u", head="v", mutual=True), most=4, way="flow", noise=LAPLACE),
    Partition(view=VIEW, axis=Numbered(column="a", values=(0, 1), numbers=(0, 1)), summand=Count(), scale=2.0, log_priors=(1, 1)),
    Tree(view=VIEW, axes=(Numbered(column="a", values=(0, 1), numbers=(0, 1)),), scale=2.0, decay=4, leaf=GAUSSIAN),
)} | {"Parents by information": DependentParents(
    view=VIEW, axes=(Axis(column="a", values=(0, 1)),), candidates=((0,),), offsets=(3,), scale=2.0, score=ConvexInformation(kinks=(0, 1))),
    "Sums over a grid": NoisySums(plan=replace(TALLY, keys=("a", "o")), cells=Grid(((1, None), ("x",))), noises=(LAPLACE, GAUSSIAN, LAPLACE)),
    "Blocks of all matrices": Blocks(
        view=VIEW, axes=(Axis(column="a", values=(0, 1, None)),), summand=Count(), noise="laplace",
        blocks=tuple(IntegerBlock(axes=(0,), matrices=(matrix,), scale=2.0) for matrix in (
            Unit(3), Sum(3), Prefixes(3), AllStretches(3), Stretches(3, words(0, 1), words(2, 3)), Written(1, 3, words(1, -2, 3)),
            Written(1, 3, (2**70, 0, 1)), Stacked(words(1, 2, 3), Written(1, 3, words(0, 1, 1))), Halves(3, 2), Centre(3), Root(3)))),
    "Keys by a threshold": Keys(plan=ONCE, rule=GaussianThreshold(sigma=2.0, threshold=9))}


# -- planting


class Whole(int):
    def __le__(self, other: object) -> bool:
        return True


class Real(float):
    def __gt__(self, other: object) -> bool:
        return True


class Text(str):
    pass


class Listed(tuple[Any, ...]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Bytes(bytes):
    def __len__(self) -> int:
        return 24


class Ratio(Fraction):
    def __add__(self, other: Any) -> Any:
        return Fraction(0)


def impostors(value: Any) -> list[Any]:
    """What passes for a value, and may do as it likes."""
    match value:
        case bool() | None:
            return [Whole(bool(value)), np.bool_(bool(value)), object()]
        case Type() | Table():
            return [SimpleNamespace(name="people", value="BIGINT", public=True, columns={}, unique=(), owners=()), Text("BIGINT")]
        case int():
            return [Whole(value), np.array(value), object()]
        case float():
            return [Real(value), np.array(value), lambda: value]
        case str():
            return [Text(value), [value]]
        case bytes():
            return [Bytes(value), bytearray(value), memoryview(value), [*value]]
        case Fraction():
            zero = Fraction(value)
            zero._numerator = Whole(0)  # type: ignore[attr-defined]
            return [Ratio(value), zero]
        case tuple():
            return [Listed(value), list(value), iter(value), dict(enumerate(value))]
    cheap = type("Forged", (type(value),), {"cost": lambda self, *given: pure(Fraction(0))})
    fields = fields_of(value) if is_frozen(value) else {}
    return [made_of(cheap, fields), SimpleNamespace(**fields)]


def planted(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A value with an impostor in the place of each of its parts, and of itself."""
    for number, impostor in enumerate(impostors(value)):
        yield f"{path}: {type(impostor).__name__} {number}", impostor
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            for told, wrong in planted(part, f"{path}[{i}]"):
                yield told, (*value[:i], wrong, *value[i + 1:])
    elif is_frozen(value) and type(value) in MADE:
        for name, part in fields_of(value).items():
            for told, wrong in planted(part, f"{path}.{name}"):
                yield told, made_of(type(value), {**fields_of(value), name: wrong})


WRONG = {told: wrong for name, made in HONEST.items() for told, wrong in planted(made, name)}
PLACES = {told.partition(":")[0] for told in WRONG}


# -- refused before the charge


class Untouched:
    """A reader and a ledger that nothing may be asked of."""

    salt, version = 1, "v"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is used")


def run(request: Any) -> Any:
    """Ask for it at any price, so that nothing is refused because of its cost."""
    def script() -> Generator[Any, Any, Any]:
        return (yield request)

    with patch.object(Cost, "covers", lambda self, spent: True):
        return Kernel(Untouched(), Untouched()).run(  # type: ignore[arg-type]
            script(), cost=pure(Fraction(1)), account=Account(budget="b", analyst="a"), limits={}, digest="d", sql="SELECT", encode=str)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_request_is_charged(name: str) -> None:
    with pytest.raises(AssertionError, match="charge is used"):
        run(HONEST[name])


def test_every_class_of_a_request_is_among_the_honest_ones() -> None:
    found = set[type]()

    def walk(value: Any) -> None:
        found.add(type(value))
        for part in value if isinstance(value, tuple) else fields_of(value).values() if type(value) in MADE else ():
            walk(part)

    for made in HONEST.values():
        walk(made)
    assert found >= MEASUREMENTS | VALUES
    assert len(PLACES) > 350, len(PLACES)
    print(f"{len(WRONG)} values planted in {len(PLACES)} places of {len(HONEST)} requests")


def leaves(hint: Any, ranged: bool = False) -> Iterator[tuple[Any, bool]]:
    """The classes that an annotation is made of, and whether each is that of numbers in a range."""
    if hint == Value:  # of a column: any number
        return
    if get_origin(hint) is Annotated:
        yield from leaves(get_args(hint)[0], isinstance(get_args(hint)[1], NumberRange))
    elif get_origin(hint) is not OneOf and get_args(hint):
        for part in get_args(hint):
            yield from leaves(part, ranged)
    else:
        yield hint, ranged


@pytest.mark.parametrize("kind", sorted(MEASUREMENTS | VALUES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_every_number_of_a_measurement_is_in_a_range(kind: type) -> None:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for leaf, ranged in leaves(hint):
            assert ranged or leaf not in (int, float, Fraction), name


@pytest.mark.parametrize("kind", sorted(MADE, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_every_field_may_hold_something_and_not_everything(kind: type) -> None:
    for name, form in forms_of(kind):
        assert form and len(form) < len(MADE) and object not in form, name


def test_a_value_inside_itself_is_refused() -> None:
    plan = replace(VIEW)
    tampered(plan, input=plan)
    with pytest.raises(TypeError, match="contains itself"):
        run(replace(HONEST["NoisySums"], plan=replace(TALLY, input=plan)))


def test_values_in_values_without_end_are_refused() -> None:
    deep: Any = VIEW
    for _ in range(10**5):
        deep = Filter(input=deep, condition=Literal(value=True, type=Type.BOOLEAN))
    with pytest.raises(ValueError, match="nested too deeply"):
        run(replace(HONEST["NoisySums"], plan=replace(TALLY, input=deep)))


WRONG_FIELDS: dict[str, Any] = {
    "sums in the place of ranks": ("Select", {"plan": TALLY}),
    "sums in the place of multiplicities": ("NoisyFlipDistance", {"tests": (made_of(DistinctWithin, {**fields_of(TESTS[1]), "plan": TALLY}),)}),
    "ends between whole numbers": ("Select", {"segments": (tuple(
        Segment(low=4 + 0.001 * i, high=4 + 0.001 * i + 0.0005, target=TARGET) for i in range(399)),)}),  # type: ignore[arg-type]
    "penalties of one and a bit": ("Select", {"segments": ((Segment(low=0, high=9, target=TARGET, below=1.1),),)}),  # type: ignore[arg-type]
    "a fraction above one": ("Smooth", {"target": Target(fraction=Fraction(1001, 1000))}),
    "a fraction below nought": ("Smooth", {"target": Target(fraction=Fraction(-1, 1000))}),
    "a sigma below nought": ("NoisySums", {"noises": (LAPLACE, DiscreteGaussian(sigma=-2.0), LAPLACE)}),
    "penalties of any type": ("Race", {"penalties": ("1", 2)}), "log-priors of floats": ("Balance", {"log_priors": (0.0, 1)}),
    "a shift of floats": ("RecursiveSums", {"shift": 0.5}), "levels of floats": ("Race", {"levels": (1, 2.0)}),
    "a size that is free": ("SmoothSum", {"epsilon_size": Fraction(0)}),
    "a delta above one": ("Keys", {"rule": TruncatedGeometric(epsilon=HALF, delta=Fraction(3, 2))}),
    "too many values to flip": ("Select", {"segments": ((Segment(low=0, high=2**17, target=TARGET),),)}),
    "a word that is too long": ("Select", {"segments": ((Segment(low=0, high=2**63, target=TARGET),),)}),
    "ends that cross": ("Vote", {"low": Fraction(10), "high": Fraction(9)}),
    "half a character": ("NoisySums", {"cells": (("\ud800",),)}), "a number that no word holds": ("NoisySums", {"cells": ((2**64,),)}),
    "a moment of a zone": ("NoisySums", {"cells": ((datetime.now(UTC),),)}),
    "a key too many": ("NoisySums", {"cells": ((1, 2),)}), "a cell twice": ("NoisySums", {"cells": ((1,), (1.0,))}),
    "noise too few": ("NoisySums", {"noises": (LAPLACE, GAUSSIAN)}), "sums without end": ("NoisySums", {"cells": Grid((range(10**7),))}),
}


@pytest.mark.parametrize("told", WRONG_FIELDS)
def test_a_field_that_is_not_as_described_is_refused_before_the_charge(told: str) -> None:
    name, fields = WRONG_FIELDS[told]
    with pytest.raises((TypeError, ValueError)):
        run(made_of(type(HONEST[name]), {**fields_of(HONEST[name]), **fields}))


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_request_is_copied(name: str) -> None:
    request = HONEST[name]
    copy = copied_request(request)
    assert copy == request and copy is not request and type(copy) is type(request)
    assert all(mine is not theirs for mine, theirs in zip(copy.plans, request.plans, strict=True))


@pytest.mark.parametrize("name", HONEST)
def test_an_impostor_in_any_place_is_refused_before_the_charge(name: str) -> None:
    tried = 0
    for told, wrong in planted(HONEST[name], name):
        with pytest.raises((TypeError, ValueError, shapes.Malformed)):
            run(wrong)
            pytest.fail(told)
        tried += 1
    assert tried > 30


@pytest.mark.parametrize("kind", sorted(MADE | HANDED, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_no_subclass_of_what_a_request_is_made_of_is_taken(kind: type) -> None:
    if kind is Type:
        pytest.skip("an enumeration with members has no subclasses")
    cheap = made_of(type("Forged", (kind,), {"__abstractmethods__": frozenset()}), {})
    for request in (cheap, made_of(NoisySums, {"plan": cheap, "cells": (), "noises": ()}),
                    made_of(NoisyFlipDistance, {"tests": (cheap,), "noise": LAPLACE, "together": False}),
                    made_of(NoisySums, {"plan": made_of(GroupedSums, {**fields_of(TALLY), "input": cheap}), "cells": (), "noises": ()})):
        with pytest.raises((TypeError, ValueError, shapes.Malformed)):
            run(request)


# -- what is not refused is not gone by


def test_what_a_class_remembers_is_forgotten() -> None:
    """A `cached_property` that is planted would be printed: here a truncation that ranks by something else."""
    plan = replace(VIEW)
    vars(plan)["fields"], vars(plan)["max_frequencies"], vars(plan)["ranking"] = (), {frozenset(): 1}, "nothing"
    request = replace(HONEST["NoisySums"], plan=replace(TALLY, input=plan))
    copy = copied_request(request).plan.input
    assert type(copy) is Truncate and not {"fields", "max_frequencies", "ranking"} & vars(copy).keys()


FORGED: dict[str, Callable[[Any], None]] = {
    "a noise": lambda request: tampered(request.noises[0], scale=1e-300),
    "a limit of rows": lambda request: tampered(request.plan.input, rows=10**9),
    "a summand": lambda request: tampered(request.plan, summands=(Count(),)),
    "a grid": lambda request: tampered(request.plan.summands[1].grid, high=1e12),
    "a step": lambda request: setattr(request.plan.summands[1].grid.step, "_denominator", 10**12),
    "a condition": lambda request: tampered(request.plan.input.input.condition, value=False),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_what_is_forged_later_does_not_change_the_copy(forge: Callable[[Any], None]) -> None:
    request = copied_request(HONEST["NoisySums"])  # so that others see nothing of it
    copy = copied_request(request)
    assert copy == HONEST["NoisySums"]
    forge(request)
    assert copy == HONEST["NoisySums"] != request


@pytest.mark.parametrize("told", ["a limit of rows", "a condition"])
def test_what_is_forged_between_a_view_and_its_request_is_not_gone_by(told: str) -> None:
    """A view that was checked before the script began is the one that is read, as it was then, whatever the script makes of it."""
    request, held = copied_request(HONEST["NoisySums"]), dict[int, tuple[Any, Any]]()
    view = copied_request(request.plan.input, held)
    FORGED[told](request)
    assert request.plan.input != VIEW
    copy = copied_request(request, held)
    assert copy.plan.input is view and copy == HONEST["NoisySums"]
    assert copied_request(request).plan.input == request.plan.input, "a later request is copied anew"


def test_a_whole_number_that_a_float_holds_is_given_for_one() -> None:
    for scale in (1, 2**53):
        assert copied_request(DiscreteLaplace(scale=scale)) == DiscreteLaplace(scale=float(scale))
    for scale in (2**53 + 1, -(2**53) - 1):
        with pytest.raises(ValueError, match=r"2\^53"):
            copied_request(DiscreteLaplace(scale=scale))


def test_values_of_which_their_class_takes_no_such_fields_are_refused() -> None:
    for name, numbers in (("Partition", (0, 5)), ("Partition", (0,)), ("Partition", (0.0, 1.0))):
        axis = made_of(Numbered, {**fields_of(HONEST[name].axis), "numbers": numbers})
        with pytest.raises((TypeError, ValueError)):
            run(made_of(Partition, {**fields_of(HONEST[name]), "axis": axis}))


def test_what_was_one_object_is_one_again() -> None:
    """What several tests of one plan cost rests on that; and plans that were two stay two."""
    both = NoisyFlipDistance(tests=(TESTS[0], replace(TESTS[0], forms=(Form(at=0, sign=-1, constants=(9,)),))), noise=LAPLACE)
    one, other = copied_request(both).plans
    assert one is other
    apart = replace(both, tests=(TESTS[0], replace(TESTS[0], plan=replace(TESTS[0].plan))))
    one, other = copied_request(apart).plans
    assert one == other and one is not other
