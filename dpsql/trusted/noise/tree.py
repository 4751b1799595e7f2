"""PrivTree: a tree of boxes that grows where rows are, with noise that does not grow with its depth.

A box of depth i with c rows has b = max(-decay, c - i * decay), and is split if b + discrete Laplace noise of `scale` is above
0, with fresh noise for each box. Where a box is split does not depend on the rows.

Cost. Let y be x with one row more, which is in the boxes v_0, v_1, ... from the root on; no other count differs. Write q =
exp(-1 / scale), and f(b) for the probability that a box with the number b is split: f(b) = q^(1 - b) / (1 + q) for b <= 1 and
1 - q^b / (1 + q) for b >= 1. The logarithm of f(b + 1) / f(b) is
  1 / scale for b <= 0, and at most (1 - q) q^b <= q^b / scale for b >= 1 (as 1 + q - q^b >= 1),
and that of (1 - f(b)) / (1 - f(b + 1)) is between 0 and 1 / scale. Let a_i = c(v_i) - i decay, on x. As counts fall along the
path, a_(i+1) <= a_i - decay. A box with a_i < -decay has the same b on x and y. So the boxes on the path that are split and
differ have a_i >= -decay, and those of them with a_i <= 0 are one, or two if they have 0 and -decay exactly. In the second
case the ones above have a >= decay, 2 decay, ... and in the first a >= 1, decay, 2 decay, ... In both, all logarithms
together are at most
    up = (2 + r + r^2 + ...) / scale = (2 + 1 / (exp(decay / scale) - 1)) / scale,   r = q^decay.
The path ends in a box that is not split (or in a cell, at no loss), so the probability of any tree on y is
between exp(-1 / scale) and exp(up) times that on x. An entity adds and removes D rows in total: let rows first be removed, one by
one, and then added, so that counts are never below zero. Losses add up: epsilon = D up. Each step's loss lies in an interval of
length w = up + 1 / scale, so the whole loss in one of length D w, and such a release is ((D w)^2 / 8)-zCDP.
Proof of that: for L = log P / Q in an interval of length w, Hoeffding's lemma under P gives 0 = log E[exp(-L)] <= -E[L] +
w^2 / 8, and log E[exp((a - 1) L)] <= (a - 1) E[L] + (a - 1)^2 w^2 / 8 <= (a - 1) a w^2 / 8, for every a > 1.

Source: Zhang, Xiao and Xie, PrivTree: A Differentially Private Algorithm for Hierarchical Decompositions, SIGMOD 2016 (Theorem
3.1); here for noise on integers, with a bounded range for zCDP.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.noise.source import Source

TERMS, MOST = 40, 64  # terms of the exponential series, and the largest exponent


def tree_cost(rows: Fraction | int, scale: float, decay: int) -> Cost:
    """The cost of a tree if an entity adds or removes at most `rows` rows."""
    up = rise(scale, decay)
    width = up + 1 / Fraction(scale)
    return Cost(epsilon=rows * up, rho=(rows * width) ** 2 / 8)


def are_split(counts: NDArray[np.int64], depth: int, decay: int, scale: float, source: Source) -> NDArray[np.bool_]:
    """Whether each box of this depth is split."""
    biased = np.maximum(-decay, counts - depth * decay)
    return np.asarray(np.array(source.laplace(biased.tolist(), scale), dtype=np.int64) > 0)


def rise(scale: float, decay: int) -> Fraction:
    """(2 + 1 / (exp(decay / scale) - 1)) / scale, not below it: the exponential by the first terms of its series."""
    exponent = Fraction(decay) / Fraction(scale)
    held = exponent if exponent < MOST else Fraction(MOST)
    term = total = held
    for i in range(2, TERMS):
        term = Fraction(math.floor(term * held / i * 2**128), 2**128)
        total += term
    return (2 + 1 / total) / Fraction(scale)
