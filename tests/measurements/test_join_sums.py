"""Sums over joins: the loss of the noise by enumeration, what a release asks for, and what the kernel refuses."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import joined_worlds
from support.joined_worlds import context_of, planned
from support.released import released
from support.sessions import open_ledger

from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.trusted.accounting.cost import FREE, pure
from dpsql.trusted.kernel import run
from dpsql.trusted.kernel.claims import Disagreement
from dpsql.trusted.kernel.publics import Publics
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.several.smooth_join_sum import Counts, SmoothSum
from dpsql.trusted.measurements.smooth_quantile import Smoothed
from dpsql.trusted.noise.smooth import Student
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.decompose_join import JoinParts, NotDecomposable, decompose_join
from dpsql.trusted.plan.distance import smooth_bound
from dpsql.trusted.plan.node import InvalidPlan, Stability
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate

# -- the noise


def log_chance(z: int, scale: float) -> float:
    """The logarithm of the probability of integer noise z, by the closed form of the normaliser."""
    x = math.pi * scale
    total = x / 2 / math.tanh(x) + (x * x / 2 / math.sinh(x) ** 2 if x < 300 else 0)
    return -2 * math.log1p((z / scale) ** 2) - math.log(total)


def loss(scale: float, other: float, shift: int) -> float:
    """The most by which the logarithms of the probabilities of one answer differ; far out they differ by their ratio there."""
    far = math.ceil(6 * max(scale, other)) + shift + 3
    step = max(1, far // 1000)
    near = max(abs(log_chance(z, scale) - log_chance(z - shift, other)) for z in range(-far, far, step))
    return max(near, *(abs(log_chance(z, scale) - log_chance(z - shift, other)) for z in (10**12, -(10**12))))


BOUNDS = [1.0, 1.7, 8.0, 1234.5]
SPLITS = [(e, part) for e in (0.1, 1.0, 6.0) for part in (0.5, 0.1)]


def worst(noise: Student, dilation: float) -> float:
    """The largest loss over neighbours with smooth bounds up to exp(dilation) apart, and sums as far apart as the bounds allow."""
    found = []
    for bound, place in itertools.product(BOUNDS, (-1, -0.5, 0, 0.3, 1)):
        other = bound * math.exp(dilation * place)
        if other >= 1:
            shifts = {0, 1, math.floor(min(bound, other)), math.floor(min(bound, other)) // 2}
            found += [loss(noise.scale(bound), noise.scale(other), shift) for shift in shifts]
    return max(found)


@pytest.mark.parametrize(("epsilon", "part"), SPLITS)
def test_no_answer_tells_more_than_epsilon(epsilon: float, part: float) -> None:
    noise = Student(epsilon=Fraction(epsilon), beta=part * epsilon / 4)
    assert 0.5 * epsilon < worst(noise, noise.beta) <= epsilon
    assert noise.cost() == pure(Fraction(epsilon))


@pytest.mark.parametrize(("epsilon", "part"), SPLITS[:4])
def test_less_noise_or_less_smooth_bounds_would_tell_more(epsilon: float, part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = Student(epsilon=Fraction(epsilon), beta=part * epsilon / 4)
    assert worst(noise, 4 * noise.beta + epsilon / 2) > epsilon
    scale = Student.scale
    monkeypatch.setattr(Student, "scale", lambda self, sensitivity: scale(self, sensitivity) / 2)
    assert worst(noise, noise.beta) > epsilon


@pytest.mark.parametrize("beta", [0.0, -1.0, math.nan, 0.25, 1.0])
def test_a_beta_that_leaves_nothing_is_refused(beta: float) -> None:
    with pytest.raises(ValueError, match="beta"):
        copied_request(Student(epsilon=Fraction(1), beta=beta))


# -- the release


class Nothing:
    """A source that adds nothing, and remembers how much it was asked for."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def student(self, values: Sequence[int], scale: float) -> list[int]:
        self.asked.append(scale)
        return list(values)

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        self.asked.append(scale)
        return list(values)


TRIANGLES = "SELECT COUNT(*) FROM edges a JOIN edges b ON a.v = b.u JOIN edges c ON b.v = c.u AND c.v = a.u"
NOISE = Student(epsilon=Fraction(1), beta=0.125)


def request(view: Any, residual: bool = True, summand: Any = None) -> SmoothSum:
    return SmoothSum(plan=JoinSum(input=view, summand=summand or Count()), residual=residual, noise=NOISE,
                     epsilon_size=Fraction(1, 10))


@pytest.mark.parametrize("residual", [False, True])
def test_noise_is_scaled_to_the_bound_of_this_database(residual: bool) -> None:
    world = joined_worlds.edges(random.Random(3), 9, 4)
    reader = world.reader()
    view, noise = planned(TRIANGLES, reader, "edge"), Nothing()
    apart, context = decompose_join(view, Publics(reader)), context_of(reader, noise)
    counts = Counts(apart, context)
    bound = smooth_bound(apart, 0.125, counts.frequency, counts.multiplicity if residual else None)
    assert bound > 3
    found = released(request(view, residual), context)
    triangles = sum(a[2] == b[1] and b[2] == c[1] and c[2] == a[1] for a, b, c in itertools.product(world.of("edges"), repeat=3))
    assert found == Smoothed(values=(triangles,), sizes=(math.floor(math.log(bound) / 0.125),)) and triangles > 0
    assert noise.asked == [pytest.approx(4 * bound), pytest.approx(10)]


def test_sums_move_by_their_largest_value_for_each_row() -> None:
    world = joined_worlds.people(random.Random(2), 6)
    reader = world.reader()
    view = planned("SELECT SUM(a.size) FROM people a JOIN people b ON a.town = b.town", reader, "person")
    size = next(field.id for field in view.fields if field.name.endswith("size"))
    counted, summed = Nothing(), Nothing()
    grid = Quantizer(low=-2, high=4, step=Fraction(1), from_low=False)
    released(request(view), context_of(reader, counted))
    found = released(request(view, summand=GridSum(column=size, grid=grid)), context_of(reader, summed))
    assert summed.asked[0] == pytest.approx(4 * counted.asked[0])
    pairs = [a for a, b in itertools.product(world.of("people"), repeat=2) if a[1] is not None and a[1] == b[1]]
    assert found.values == (sum(max(-2, min(4, a[2])) for a in pairs),)


# -- the kernel


def test_the_kernel_works_out_the_relations_and_their_limits_itself(tmp_path: Path) -> None:
    """There is nothing in a request to say how many rows an entity moves; a plan without limits has no bound."""
    world = joined_worlds.people(random.Random(1), 5)
    reader = world.reader()
    kernel = Kernel(reader, open_ledger(tmp_path), Nothing())  # type: ignore[arg-type]
    limited = planned("SELECT COUNT(*) FROM likes a JOIN likes b ON a.thing = b.thing", reader, "person")
    assert [relation.moved for relation in decompose_join(limited, kernel).relations] == [2, 2]
    unlimited = rebuild(limited, lambda node: node.input if isinstance(node, Truncate) else node)

    def script(view: Any, cost: Any) -> Any:
        def asked() -> Any:
            return (yield request(view))
        return kernel._serve(asked(), cost)

    price = pure(Fraction(11, 10))
    assert script(limited, price).values
    with pytest.raises(NotDecomposable):
        script(unlimited, price)
    with pytest.raises(ValueError, match="more than was charged"):
        script(limited, pure(Fraction(1)))


def test_the_relations_of_a_join_are_confirmed_before_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = joined_worlds.people(random.Random(1), 5).reader()
    kernel = Kernel(reader, open_ledger(tmp_path), Nothing())  # type: ignore[arg-type]
    limited = planned("SELECT COUNT(*) FROM likes a JOIN likes b ON a.thing = b.thing", reader, "person")
    found, = kernel._certificates(request(limited))
    assert found.joined == 2
    with pytest.raises(NotDecomposable):
        kernel._certificates(request(rebuild(limited, lambda node: node.input if isinstance(node, Truncate) else node)))

    def one_less(*given: Any) -> JoinParts:
        made = decompose_join(*given)
        return replace(made, relations=tuple(replace(relation, moved=relation.moved - 1) for relation in made.relations))

    monkeypatch.setattr(run, "decompose_join", one_less)
    with pytest.raises(Disagreement):
        kernel._certificates(request(limited))


def test_public_joins_cost_nothing_and_private_ones_their_noise_and_its_size() -> None:
    reader = joined_worlds.people(random.Random(1), 2).reader()
    asked = request(planned("SELECT COUNT(*) FROM tags", reader, "person"))
    assert asked.cost(Certificate(below=Stability(rows=0), summands=())) == FREE
    assert asked.cost(Certificate(below=Stability(rows=None), summands=())) == pure(Fraction(1)) + pure(Fraction(1, 10))


def test_a_beta_that_takes_too_many_distances_is_refused_before_it_is_charged() -> None:
    reader = joined_worlds.people(random.Random(1), 2).reader()
    asked = request(planned("SELECT COUNT(*) FROM tags", reader, "person"))
    tiny = replace(asked, noise=replace(asked.noise, beta=2e-5))
    unlimited = Stability(rows=None)
    assert tiny.cost(Certificate(below=unlimited, summands=(), joined=2)).epsilon
    with pytest.raises(ValueError, match="too many distances"):
        tiny.cost(Certificate(below=unlimited, summands=(), joined=4))


def test_only_one_number_for_each_row_is_summed() -> None:
    reader = joined_worlds.people(random.Random(1), 2).reader()
    view = planned("SELECT SUM(size) FROM people", reader, "person")
    size = next(field.id for field in view.fields if field.name.endswith("size"))
    moments = Moments(column=size, grid=Quantizer(low=-2, high=4, step=Fraction(1), from_low=True), degree=2)
    with pytest.raises(InvalidPlan):
        _ = JoinSum(input=view, summand=moments).fields  # type: ignore[arg-type]
