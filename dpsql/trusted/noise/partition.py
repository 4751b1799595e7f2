"""The partition of a sequence of places with the least noisy cost: the first stage of DAWA.

Buckets are blocks of 2^h places that begin at a multiple of 2^h (the last ones end at n). A bucket b costs

    cost(b) = deviation(b) + noise_b + log_priors[h],

with independent discrete Laplace noise of one scale for every block, and public log-priors. The partition with the least total
cost is released, the coarser one in case of a tie (compared at the root of the tree of blocks first, then in its left half,
then in its right half), and nothing else: neither costs nor noise.

Cost. An entity changes x by at most D in l1, D = k l1 as in `Blocks`; go from x to its neighbour in D steps of 1 at one
place j. One step is a loss of at most 2 / scale, so all of them are at most epsilon = 2 D / scale.

Proof for one step, from x to y. Deviations move by 1 at most, as every sum of |x_j - t| does and so their minimum, and only those
of blocks that contain j. Let P be a partition and b its one bucket that contains j. Take noise with which x yields P, and lower
noise_b by 2. From x with the old noise to y with the new, the costs of all partitions with the bucket b change by the same
amount, so that P is still the cheapest of these. Any other partition has another bucket that contains j: its cost falls by at
most 1, and that of P by at least 1. So P is still the cheapest of all; where costs were equal, the order of ties, which is fixed,
gives the same result or is no longer needed. Lowering one noise by 2 changes its probability by a factor of at most exp(2 /
scale), and the map is one to one, so P(y gives P) >= exp(-2 / scale) P(x gives P).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.trusted.accounting.cost import Cost, pure
from dpsql.trusted.noise.source import Source


def partition_cost(steps: Fraction | int, scale: float) -> Cost:
    """The cost if an entity changes the places by a total of `steps` steps of 1."""
    return pure(2 * Fraction(steps) / Fraction(scale))


def cheapest_partition(deviations: Sequence[Sequence[int]], log_priors: Sequence[int], places: int, scale: float,
                       source: Source) -> tuple[int, ...]:
    """The ends of the buckets of the cheapest partition, given the deviations of the blocks of each height."""
    costs = [[number + noise + log_prior for number, noise in zip(here, source.laplace([0] * len(here), scale), strict=True)]
             for here, log_prior in zip(deviations, log_priors, strict=True)]
    return cheapest(costs, places)


def cheapest(costs: Sequence[Sequence[int]], places: int) -> tuple[int, ...]:
    """The ends of the buckets of the cheapest partition; a block stays whole unless splitting it is cheaper.

    >>> cheapest([[3, 3, 3], [5, 3], [7]], 3)
    (3,)
    """
    best = list(costs[0])
    whole = [[True] * len(best)]
    for here in costs[1:]:
        parts = [sum(best[i: i + 2]) for i in range(0, len(best), 2)]
        whole.append([mine <= theirs for mine, theirs in zip(here, parts, strict=True)])
        best = [min(mine, theirs) for mine, theirs in zip(here, parts, strict=True)]
    ends: list[int] = []
    while not ends or ends[-1] < places:
        start = ends[-1] if ends else 0
        h = max(h for h in range(len(costs)) if start % 2**h == 0 and whole[h][start >> h])
        ends.append(min(start + 2**h, places))
    return tuple(ends)
