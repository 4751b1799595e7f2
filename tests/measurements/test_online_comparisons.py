"""Comparisons with an online model: their distribution, exactly, on neighbours; what they release; and what they refuse."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from bench.bench_cells import VIEW, Cells
from support.requests import cost_of

from dpsql.audit.exact import Exact
from dpsql.trusted.accounting.cost import FREE
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.online_comparisons import MOST_UPDATES, Comparisons, Opened, Opening, Progress
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Stability

AXES = (Axis(column="a0", values=(0, 1, 2)), Axis(column="a1", values=("x", None)))
GROUPS = (0, 1, 2, -1, 1, 0)
OPENING = Opening(view=VIEW, updates=5, scale_limit=3.0, scale_query=6.0, noise=DiscreteGaussian(sigma=4.0))
LONG = 200  # of the noise that comparisons share, no more is looked at


def certificate(moved: int = 1, *, adds: bool = True) -> Certificate:
    return Certificate(below=Stability(rows=moved, owners=("o",) if adds else ()), summands=(Sensitivity(l1=moved, l2=moved),))


def asked(**given: Any) -> Comparisons:
    return Comparisons(**{"view": VIEW, "axes": AXES, "groups": GROUPS, "expected": (2, 3, 1), "limit": 2, **given})


def counts_of(cells: Sequence[int], request: Comparisons) -> list[int]:
    return [sum(count for count, group in zip(cells, request.groups, strict=True) if group == at) for at in range(len(request.expected))]


def outcomes(counts: Sequence[int], request: Comparisons, opened: Opened) -> list[float]:
    """The chance that so many groups are near before the first that is far, by the definition; the last is that all are."""
    found = [0.0] * (len(counts) + 1)
    weights = [math.exp(-z / opened.limit) * (1 - math.exp(-1 / opened.limit)) for z in range(LONG)]
    for above, below in itertools.product(range(LONG), repeat=2):
        chance = weights[above] * weights[below]
        for at, (count, expected) in enumerate(zip(counts, request.expected, strict=True)):
            near = 1.0
            for gap, z in ((expected - count, above), (count - expected, below)):
                near *= 1 - math.exp(-max(gap + request.limit + z, 0) / opened.query)
            found[at] += chance * (1 - near)
            chance *= near
        found[-1] += chance
    return found


@pytest.mark.parametrize(("moved", "adds"), [(1, True), (2, True), (1, False)])
def test_neighbours_are_told_apart_by_no_more_than_is_charged(moved: int, adds: bool) -> None:
    """An entity adds so many rows; or, where it may also replace rows, moves so many from one group to another. Nearly as much is
    reached as is charged."""
    draw, most = random.Random(1), 0.0
    opening = Opening(view=VIEW, updates=1, scale_limit=2.0, scale_query=3.0, noise=DiscreteLaplace(scale=1e9))
    opened, cost = opening.opened(certificate(moved, adds=adds)), opening.cost(certificate(moved, adds=adds))
    for _ in range(12):
        request = asked(expected=tuple(draw.randint(0, 4) for _ in range(3)), limit=draw.randint(-1, 3))
        cells = [draw.randint(0, 3) for _ in GROUPS]
        others = list(cells)
        for _ in range(moved):
            others[draw.randrange(len(cells))] += 1
            if not adds:
                taken = draw.randrange(len(cells))
                others[taken] = max(others[taken] - 1, 0)
        one, two = (outcomes(counts_of(each, request), request, opened) for each in (cells, others))
        loss = max(abs(math.log(a / b)) for a, b in zip(one, two, strict=True))
        assert cost.epsilon is not None and loss <= float(cost.epsilon) * (1 + 1e-9)
        most = max(most, loss / float(cost.epsilon))
    assert most > (0.5 if adds else 0.25)


class Scripted(Exact):
    """Gives these numbers as noise, one after the other."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return [value + next(self.numbers) for value in values]

    gaussian = laplace


def test_what_is_released_follows_the_definition() -> None:
    draw, seen = random.Random(2), set[int]()
    for _ in range(300):
        request, cells = asked(limit=draw.randint(0, 3)), [draw.randint(0, 3) for _ in GROUPS]
        noise, shared = [draw.randint(0, 4) for _ in range(7)], (draw.randint(0, 2), draw.randint(0, 2))
        opened = OPENING.opened(certificate())
        context: Any = Cells([cells[0:2], cells[2:4], cells[4:6]], Scripted(iter(noise)))
        context.found[2][:] = [("x", None).index(value) if isinstance(value, str) else value for value in context.found[2]]
        context.found[1] = context.found[1].astype(object)
        context.found[1][:] = [("x", None)[place] for place in context.found[1]]
        result = request.release(context, certificate(), opened, shared)
        numbers, expected = iter(noise), None
        for at, (count, goal) in enumerate(zip(counts_of(cells, request), request.expected, strict=True)):
            if any(side * (goal - count) + request.limit + z <= next(numbers) for side, z in zip((1, -1), shared, strict=True)):
                expected = at, count + next(numbers)
                break
        assert (result.near, result.count) == (expected or (3, None))
        seen.add(result.near)
    assert seen == {0, 1, 2, 3}


def test_the_price_is_that_of_every_update() -> None:
    each = Fraction(1, 3) + Fraction(1, 6)
    cost = OPENING.cost(certificate())
    assert cost.epsilon is None and cost.rho == 5 * (each**2 / 2 + Fraction(1, 32))
    assert OPENING.cost(certificate(2)).rho == 5 * (4 * each**2 / 2 + Fraction(4, 32))
    assert OPENING.cost(certificate(adds=False)).rho == 5 * ((2 * each) ** 2 / 2 + Fraction(1, 32))
    assert OPENING.cost(certificate(3, adds=False)).rho == 5 * ((6 * each) ** 2 / 2 + Fraction(9, 32))
    laplace = Opening(view=VIEW, updates=5, scale_limit=3.0, scale_query=6.0, noise=DiscreteLaplace(scale=4.0))
    assert laplace.cost(certificate()).epsilon == 5 * (each + Fraction(1, 4))
    assert OPENING.cost(certificate(0)) == laplace.cost(certificate(0)) == FREE


@pytest.mark.parametrize("given", [{"updates": 0}, {"updates": MOST_UPDATES + 1}, {"updates": True}, {"scale_limit": 0.0},
                                   {"scale_query": math.nan}, {"scale_query": -1.0}, {"noise": DiscreteLaplace(scale=0.0)}, {"noise": 3}])
def test_a_price_without_a_proof_is_refused(given: dict[str, Any]) -> None:
    fields = {"updates": 5, "scale_limit": 3.0, "scale_query": 6.0, "noise": DiscreteLaplace(scale=4.0), **given}
    with pytest.raises((TypeError, ValueError), match="must|known classes"):
        cost_of(Opening(view=VIEW, **fields), certificate())


@pytest.mark.parametrize("given", [
    {"groups": GROUPS[1:]}, {"groups": (3, *GROUPS[1:])}, {"groups": (-2, *GROUPS[1:])}, {"groups": (0.0, *GROUPS[1:])}, {"groups": [*GROUPS]},
    {"expected": ()}, {"expected": (2, 3)}, {"expected": (2, 3, 2**60)}, {"expected": (2, 3, 1.5)}, {"limit": 2**60}, {"limit": math.inf},
    {"axes": AXES[:1]}, {"axes": (AXES[0], AXES[0])}, {"axes": [*AXES]}, {"about": 3}, {"axes": (Axis(column="a0", values=(0, 0, 1)), AXES[1])}])
def test_comparisons_without_a_proof_are_refused(given: dict[str, Any]) -> None:
    opened = OPENING.opened(certificate())
    asked().check(certificate(), opened)
    with pytest.raises((TypeError, ValueError), match=r"\w+"):
        copied_request(asked(**given)).check(certificate(), opened)


def test_what_moves_farther_than_was_paid_for_is_refused() -> None:
    asked().check(certificate(1), OPENING.opened(certificate(2)))
    for now, then in ((certificate(3), certificate(2)), (certificate(1, adds=False), certificate(1))):
        with pytest.raises(ValueError, match="can change more than"):
            asked().check(now, OPENING.opened(then))


def test_noise_is_shared_until_an_update_was_made_or_may_have_been() -> None:
    progress = Progress(used=2, shared=(4, 0))
    assert progress.after('{"near": 3, "count": null, "about": ""}') == progress
    assert progress.after('{"near": 3, "count": 7, "about": ""}') is None and progress.after(None) is None
