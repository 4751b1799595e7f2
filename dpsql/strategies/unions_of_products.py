"""Unions of products for Laplace noise: groups of queries, each measured by a product of its own with a share of the budget.

Groups with total errors e_g at epsilon = 1 have a total error of sum e_g / share_g^2. Shares in proportion to e_g^(1/3) minimise
it, at (sum e_g^(1/3))^3. Each group is planned over the values that its own queries distinguish, so that queries by age do not
pay for a distinction by race that only another group makes. Candidate groups are compared by rough plans, and the best are
planned fully.

Two groups, or any number over few cells, are solved by joint least squares: answers are consistent, and use the measurements of
all groups. With more groups over many cells each query is answered from its own group, by exact least squares in that group;
answers of different groups may be inconsistent.

Source: McKenna, Miklau, Hay and Machanavajjhala, HDMM, PVLDB 2018 (OPT_+), where groups and shares are given by the user.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.strategies import clock
from dpsql.strategies.kronecker import ROWS, by_turns, factors_of
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.marginal_products import MarginalProducts
from dpsql.strategies.marginals import MANY, candidates, cover
from dpsql.strategies.p_identity import LONG
from dpsql.strategies.plain import SOLVED
from dpsql.strategies.product_bound import valued
from dpsql.strategies.strategy import Block, Refusal, Strategy
from dpsql.strategies.two_products import TwoProducts
from dpsql.trusted.cached import cached_property
from dpsql.workload.domain import DENSE, room
from dpsql.workload.factors import Array, Dense, Factor
from dpsql.workload.workload import Product, ReducedWorkload, Workload, reduced

PARTS = 60  # most different products
CELLS = 2_000_000  # most cells for two groups that are solved together
GROUPS = 6  # most groups in the greedy search
TRIES = 120  # most groups that are planned roughly
SETTLED = 1 - 1e-3  # a smaller total than this times the old one counts as an improvement


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The best groups found, with the best shares of epsilon."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    different = len(set(workload.parts))
    if different == 1:
        return Refusal("the workload has only one product")
    if different > PARTS:
        return Refusal(f"the search for groups is limited to {PARTS} different products")
    if max(workload.domain.shape) > DENSE:
        return Refusal(f"the search for groups is limited to {DENSE} values of an attribute")
    groups = []
    for members in grouped(workload):
        group = planned(workload, members)
        if group is None:
            return Refusal(f"gradient descent is limited to {LONG} values of an attribute and products of {ROWS} rows")
        groups.append(group)
    roots = np.cbrt([group.error for group in groups])
    return valued(shared(workload, groups, roots / roots.sum()), workload)


def shared(workload: Workload, groups: Sequence[ProductGroup], shares: Array) -> Strategy:
    """The strategy with these shares of epsilon."""
    scaled = tuple(group.at(float(share)) for group, share in zip(groups, shares, strict=True))
    apart = Union(name="union", domain=workload.domain, noise="laplace", workload=workload, groups=scaled)
    if workload.domain.size <= SOLVED:
        return LeastSquares(name="union", domain=workload.domain, noise="laplace", measured=tuple(apart.blocks))
    if len(scaled) == 2 and workload.domain.size <= CELLS:
        one, other = apart.blocks
        return TwoProducts(name="union", domain=workload.domain, noise="laplace", measured=(one, other))
    return apart


def grouped(workload: Workload) -> list[list[int]]:
    """The indices of the parts of each group: the best of a few starts, each improved by merging groups and moving products."""
    search = GroupingSearch(workload)
    starts = [search.greedy(), search.covering(), *(search.split(axis) for axis in range(len(workload.domain.shape)))]
    return search.improved(min(starts, key=search.total))


class GroupingSearch(Frozen, kw_only=False):
    """Ways to group the different products of a workload."""

    workload: Workload

    @cached_property
    def alike(self) -> list[tuple[int, ...]]:
        """For each different product the indices of the parts equal to it, products with the largest errors first."""
        found: dict[Product, tuple[int, ...]] = {}
        for number, part in enumerate(self.workload.parts):
            found[part] = (*found.get(part, ()), number)
        return sorted(found.values(), key=self.root, reverse=True)

    @cached_property
    def _known(self) -> dict[tuple[int, ...], float]:
        return {}

    def root(self, members: Sequence[int]) -> float:
        """Roughly the cube root of the error of these parts when measured by a product of their own."""
        key = tuple(sorted(members))
        if key not in self._known:
            alone = reduced(Workload(self.workload.domain, tuple(self.workload.parts[at] for at in key))).workload
            axes = tuple(i for i, size in enumerate(alone.domain.shape) if size > 1)
            self._known[key] = by_turns(alone, axes, rough=True)[0] ** (1 / 3)
        return self._known[key]

    def total(self, groups: Sequence[Sequence[int]]) -> float:
        return sum(self.root(group) for group in groups)

    def greedy(self) -> list[list[int]]:
        """Groups built greedily: each product joins the group that increases the total least, or starts a new one."""
        groups: list[list[int]] = []
        for members in self.alike:
            growth = [self.root([*group, *members]) - self.root(group) for group in groups]
            if len(groups) < GROUPS and self.root(members) < min(growth, default=math.inf):
                groups.append(list(members))
            else:
                groups[int(np.argmin(growth))].extend(members)
        return groups

    def covering(self) -> list[list[int]]:
        """A group for each marginal of a cover."""
        asked = MarginalProducts.of(self.workload)
        kinds = candidates(asked)
        groups: dict[int, list[int]] = {}
        chosen = cover(kinds, asked) if len(kinds) <= MANY else []
        for number, part in enumerate(self.workload.parts):
            home = next((at for at in chosen if set(part.axes) <= set(kinds[at])), -1)
            groups.setdefault(home, []).append(number)
        return list(groups.values())

    def split(self, axis: int) -> list[list[int]]:
        """Two groups: parts with one query along an attribute, and parts with several."""
        sides: tuple[list[int], list[int]] = [], []
        for number, part in enumerate(self.workload.parts):
            sides[part.factors[axis].rows > 1].append(number)
        return [side for side in sides if side]

    def improved(self, groups: list[list[int]]) -> list[list[int]]:
        """Merge two groups or move a product to another group as long as that lowers the total, within a limit of steps."""
        while len(self._known) < TRIES and not clock.over():
            better = next((other for other in self._neighbours(groups) if self.total(other) < self.total(groups) * SETTLED), None)
            if better is None:
                break
            groups = better
        return groups

    def _neighbours(self, groups: list[list[int]]) -> Iterator[list[list[int]]]:
        for a, b in combinations(groups, 2):
            yield [[*a, *b], *(group for group in groups if group is not a and group is not b)]
        for members in self.alike:
            moved = set(members)
            for group in groups:
                if len(self._known) < TRIES and not moved <= set(group):
                    rest = ([at for at in other if at not in moved] for other in groups if other is not group)
                    yield [[*group, *members], *(other for other in rest if other)]


class ProductGroup(Frozen):
    """Parts of a workload over the values that they distinguish, and a product strategy for them."""

    members: tuple[int, ...]
    smaller: ReducedWorkload
    solved: LeastSquares

    @cached_property
    def error(self) -> float:
        """The total error if all of epsilon = 1 is spent on it."""
        return float(self.solved.variances(self.smaller.workload).sum())

    def at(self, share: float) -> ProductGroup:
        """The same at a share of epsilon."""
        scale = float(self.solved.sensitivity.value) / share
        return replace(self, solved=replace(self.solved, measured=(replace(self.solved.measured[0], scale=scale),)))

    @cached_property
    def block(self) -> Block:
        """The queries to measure, over all values: merged values have equal columns, values of no part have zeros."""
        (block,) = self.solved.measured
        wide = [_widened(factor, numbers) for factor, numbers in zip(block.factors, self.smaller.classes, strict=True)]
        axes = tuple(i for i, factor in enumerate(wide) if factor is not None)
        return Block(axes=axes, factors=tuple(factor for factor in wide if factor is not None), scale=block.scale)


def planned(workload: Workload, members: Sequence[int]) -> ProductGroup | None:
    """The best product of a group."""
    smaller = reduced(Workload(workload.domain, tuple(workload.parts[at] for at in members)))
    factors = factors_of(smaller.workload)
    if factors is None or math.prod(factor.rows for factor in factors) > ROWS:
        return None
    solved = LeastSquares(name="", domain=smaller.workload.domain, noise="laplace", measured=(one_block(*factors),))
    return ProductGroup(members=tuple(members), smaller=smaller, solved=solved)


def _widened(factor: Factor, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Factor | None:
    """The factor over all values; None if all are summed up."""
    if factor.shape == (1, 1) and (numbers == 0).all():
        return None
    if np.array_equal(numbers, np.arange(factor.n)):
        return factor
    dense = factor.dense()
    room("a matrix of queries", len(dense), len(numbers))
    wide = np.zeros((len(dense), len(numbers)), dtype=dense.dtype)
    wide[:, numbers >= 0] = dense[:, numbers[numbers >= 0]]
    return Dense(wide)


class Union(Strategy):
    """Groups of a workload's parts, each answered from its own measurements."""

    workload: Workload
    groups: tuple[ProductGroup, ...]

    @cached_property
    def _blocks(self) -> Sequence[Block]:
        return [group.block for group in self.groups]

    @property
    def blocks(self) -> Sequence[Block]:
        return self._blocks

    def variance_of(self, workload: Workload) -> Array:
        return self._placed([group.solved.variance_of(group.smaller.workload) for group in self.groups], workload)

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        return self._placed([group.solved.reconstruct([given], group.smaller.workload)
                             for group, given in zip(self.groups, answers, strict=True)], workload)

    def _placed(self, found: Sequence[Array], workload: Workload) -> Array:
        """The answers or variances of all groups, in the order of the workload."""
        if workload.fingerprint != self.workload.fingerprint:
            raise ValueError("this strategy answers only the workload it was made for")
        whole = np.zeros(workload.rows)
        for group, numbers in zip(self.groups, found, strict=True):
            for member, at in zip(group.members, group.smaller.workload.slices, strict=True):
                whole[workload.slices[member]] = numbers[at]
        return whole
