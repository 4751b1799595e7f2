"""Running totals over periods: errors of the strategy over time, beside binary trees and adding up, and what they take.

    python tests/bench/over_time.py
    python tests/bench/over_time.py --periods 64 1024 --runs 400

A person may have one row in each period, and each period is charged the same rho altogether by each way. Errors are in those of
one total that is measured alone at this rho. `told` follows from formulas; `measured` is over runs with the integer noise of the
engine: exact sums of integers with weights, discrete Gaussian noise, totals from the measurements. The horizon of the strategy is
the number of periods; the engine's, for tables by day, is 1,024, after which a new stream begins (the line `of 1,024`).

binary     a tree of sums over 2^k periods; each total adds up the nodes that it consists of
Honaker    the same tree; each node is estimated from itself and those below it, weighted by their variances (the estimates that are
           known when a period closes, so that nothing changes later)
adding up  each period is measured by itself
least      a lower bound for the root mean square error of every strategy
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from bench_clock import table, timed
from numpy.typing import NDArray

from dpsql.strategies.over_time import square_root
from dpsql.strategies.square_root import prefix_bound
from dpsql.trusted.noise.integer import DiscreteGaussian, added
from dpsql.trusted.noise.source import Secure

SIGMA = 1000.0  # of one total that is measured alone, in rows: so large that rounding to integers is no part of errors
STREAM = 1024
Numbers = NDArray[np.float64]


def drawn(size: int, sigma: float) -> Numbers:
    return np.array(added([0] * size, DiscreteGaussian(sigma=sigma), Secure()), dtype=np.float64)


def of_strategy(periods: int, horizon: int, rows: NDArray[np.int64]) -> Numbers:
    """The errors of running totals of some rows, as the engine measures them."""
    strategy, made, before = square_root(horizon), np.zeros(periods), 0.0
    for start in range(0, periods, horizon):
        here = rows[start:start + horizon]
        exact = np.convolve(here, strategy.weights)[:len(here)]
        measured = exact + drawn(len(here), SIGMA * strategy.length)
        totals = strategy.totals([np.array([number]) for number in measured])
        made[start:start + horizon] = before + np.concatenate(totals)
        before = made[start + len(here) - 1]
    return made - np.cumsum(rows)


def told_of_strategy(periods: int, horizon: int) -> Numbers:
    strategy = square_root(horizon)
    squares, errors = np.zeros(periods), (strategy.length * strategy.errors(min(periods, horizon))) ** 2
    for start in range(0, periods, horizon):
        later = periods - start
        squares[start:] += np.pad(errors[:later], (0, max(0, later - len(errors))), mode="edge")
    return np.sqrt(squares)


def levels(periods: int) -> int:
    """How many nodes of a binary tree a period is in."""
    return math.ceil(math.log2(periods)) + 1


def of_tree(periods: int, *, honaker: bool) -> Numbers:
    """The errors of totals by a binary tree. Those of a node's estimate from all nodes below it: half of its own and half of the
    sum of those of its halves would do for one level; the weights are inverse to the variances."""
    sigma = SIGMA * math.sqrt(levels(periods))
    nodes = [drawn(-(-periods // 2**level), sigma) for level in range(levels(periods))]
    known, variance = nodes[:1], 1.0
    for own in nodes[1:]:
        below = known[-1]
        pairs = below[:len(below) // 2 * 2].reshape(-1, 2).sum(axis=1)
        weight = 2 * variance / (1 + 2 * variance) if honaker else 1.0
        known.append(weight * own[:len(pairs)] + (1 - weight) * pairs)
        variance = weight if honaker else 1.0
    made = np.zeros(periods)
    for at in range(1, periods + 1):
        start = 0
        for level in reversed(range(levels(periods))):
            if at >> level & 1:
                made[at - 1] += known[level][start >> level]
                start += 1 << level
    return made


def told_of_tree(periods: int, *, honaker: bool) -> Numbers:
    variances = [1.0]
    for _ in range(1, levels(periods)):
        variances.append(2 * variances[-1] / (1 + 2 * variances[-1]) if honaker else 1.0)
    squares = [sum(variances[level] for level in range(levels(periods)) if at >> level & 1) for at in range(1, periods + 1)]
    return np.sqrt(np.array(squares) * levels(periods))


def shown(errors: Numbers, told: Numbers, periods: int, seconds: float, name: str) -> list[str]:
    """A line: errors of many runs, by run and period, in those of one total alone."""
    squares = (errors / SIGMA) ** 2
    own, least = math.sqrt(squares.mean()), math.sqrt(prefix_bound(periods))
    wide = np.array_split(squares, min(periods, 16), axis=1)  # the mean of a stretch is known better than that of one period
    return [name, f"{own:.2f}", f"{math.sqrt((told**2).mean()):.2f}", f"{math.sqrt(max(part.mean() for part in wide)):.2f}",
            f"{told.max():.2f}", f"{math.sqrt((told**2).mean()) / least:.2f}", f"{seconds:.3f}"]


def lines(periods: int, runs: int) -> list[list[str]]:
    generator = np.random.default_rng(periods)
    ways = [("square root", lambda rows: of_strategy(periods, periods, rows), told_of_strategy(periods, periods))]
    if periods > STREAM:
        ways.append((f"of {STREAM:,}", lambda rows: of_strategy(periods, STREAM, rows), told_of_strategy(periods, STREAM)))
    ways += [("Honaker", lambda rows: of_tree(periods, honaker=True), told_of_tree(periods, honaker=True)),
             ("binary", lambda rows: of_tree(periods, honaker=False), told_of_tree(periods, honaker=False)),
             ("adding up", lambda rows: np.cumsum(drawn(periods, SIGMA)), np.sqrt(np.arange(1, periods + 1)))]
    found = []
    for name, way, told in ways:
        made: list[Numbers] = []
        taken = timed(lambda way=way, made=made: made.extend(
            way(generator.integers(0, 1000, periods)) for _ in range(runs)))
        found.append(shown(np.array(made), told, periods, taken.cpu / runs, name))
    return [*found, ["least", "", f"{math.sqrt(prefix_bound(periods)):.2f}", "", "", "1.00", ""]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--periods", type=int, nargs="*", default=[64, 1024, 10_000])
    parser.add_argument("--runs", type=int, default=100)
    given = parser.parse_args()
    for periods in given.periods:
        print(table(f"{periods:,} periods, {given.runs} runs: errors of running totals, in those of one total alone",
                    ("way", "rmse measured", "rmse told", "largest measured", "largest told", "over least", "seconds"),
                    lines(periods, given.runs)))


if __name__ == "__main__":
    main()
