"""Linear queries over the cells of a view, measured as blocks of integer queries over its marginals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsql.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.plan.certificate import Certificate
from dpsql.plan.expr.nodes import Value
from dpsql.plan.node import Node
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.operators.tally import Tally
from dpsql.requests.noise import WIDEST
from dpsql.strategies.base import Block, sensitivity
from dpsql.strategies.certificate import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A column of the view and its values, NULL among them where it may occur; rows with other values are in no cell."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Every block's integer queries of the marginal over its axes, each answer with independent noise of the block's scale.

    With `line`, all cells are one axis, the last column's values changing fastest.

    Cost. A row adds a number of at most l1 (the summand's bound) to one cell of x, so the answers of a block move by at most
    l1 times the column of that cell in the block's matrix; an entity moves k rows, and k l1 is what the certificate of the
    summand says. With S the largest over all cells of the sum over blocks of the column's L1 norm over the scale, Laplace
    noise costs epsilon = k l1 S: the losses of all answers add up, and rows add up by the triangle inequality. With S that of
    the squared L2 norm over the squared scale, the k rows move all answers, each in units of its scale, by a vector of length
    k l1 sqrt(S) at most: rho = (k l1)^2 S / 2. S is computed from the integer matrices, rounded upwards
    (`strategies.base.sensitivity`). How blocks were found, and what is made of their answers, does not matter.
    """

    view: Node
    axes: tuple[Axis, ...]
    summand: Count | GridSum
    blocks: tuple[Block, ...]
    noise: Noise
    line: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each axis of the blocks has."""
        sizes = tuple(len(axis.values) for axis in self.axes)
        return (math.prod(sizes),) if self.line else sizes

    @property
    def plan(self) -> Tally:
        """The sum over all rows: its certificate bounds what an entity adds to the cells."""
        return Tally(input=self.view, keys=(), summands=(self.summand,))

    @property
    def cells(self) -> Tally:
        """The sums of all cells that have rows."""
        return Tally(input=self.view, keys=tuple(axis.column for axis in self.axes), summands=(self.summand,))

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        moved = certificate.l1
        sizes = self.sizes
        for block in self.blocks:
            fits = len(block.axes) == len(block.factors) and all(0 <= axis < len(sizes) for axis in block.axes)
            if not fits or len(set(block.axes)) != len(block.axes) or [sizes[axis] for axis in block.axes] != [
                    factor.n for factor in block.factors]:
                raise ValueError("a block does not fit the cells")
        if any(not block.scale <= WIDEST for block in self.blocks):
            raise ValueError("64 bits hold every noise")
        worst = sensitivity(self.blocks, self.noise).value
        return pure(moved * worst) if self.noise == "laplace" else concentrated(moved * moved * worst / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """For each block its noisy answers, the last factor's rows changing fastest."""

    answers: tuple[tuple[int, ...], ...]
