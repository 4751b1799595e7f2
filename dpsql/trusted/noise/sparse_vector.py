"""Which numbers of a sequence are small: the sparse vector technique (AboveThreshold).

Integers g_i are compared in order: is g_i + z <= noise_i + limit? A *yes* is released, and so is every *no* before it. All
numbers of a kind share one z of `scale_limit`; each comparison has its own noise. After `most` answers *yes* the sequence ends.

Cost. Between a database and its neighbour let every g of kind k fall by at most u_k and rise by at most w_k. Keep all noise but
the z_k, to which u_k is added, and the noise of each yes, to which u_k + w_k is added. A no stays a no, as g' + z' >= g + z; a
yes stays a yes, as g' + z' <= g + z + u + w. Shifting noise by n changes its probability by a factor of at most exp(n /
scale), and as all shifts are upward, one-sided noise is enough. So the log-probabilities of a set of answers differ by at most

    epsilon = (sum of the u_k) / scale_limit + most * (the largest u_k + w_k) / scale_query,

and in the other direction w takes the place of u. Which comparisons follow depends only on what was released.

*Several widths.* A number may be compared with noise of scale 2^j `scale_query` for decreasing j, each with its own limit: the
first yes ends this, and costs 1 / 2^j of a yes at the narrowest noise, of which `most` may be spent. The proof is the same, with
the price of each yes.

Sources: Dwork, Naor, Reingold, Rothblum and Vadhan, STOC 2009; Lyu, Su and Li, Understanding the Sparse Vector Technique, PVLDB
2017 (monotone queries); Liu, Wang, Liu, Li and Chen, Accuracy-enhanced Sparse Vector Technique with Exponential Noise, PVLDB
2024; Ding, Wang, Zhang and Kifer, Free Gap Information, PVLDB 2019 (adaptive prices).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from dpsql.trusted.accounting.cost import Cost, pure
from dpsql.trusted.noise.choice import one_sided
from dpsql.trusted.noise.source import Source


def sparse_cost(shared: int, own: int, scale_limit: float, scale_query: float, most: int = 1) -> Cost:
    """The cost if `shared` bounds the total shift of all z, and `own` the shift of the noise of a yes."""
    return pure(shared / Fraction(scale_limit) + most * own / Fraction(scale_query))


def first_small(gaps: Iterable[int], scale_limit: float, scale_query: float, source: Source) -> int | None:
    """The index of the first yes, with two-sided noise and limits of 0; None if there is none."""
    shared = source.laplace([0], scale_limit)[0]
    return next((i for i, gap in enumerate(gaps) if gap + source.laplace([0], scale_query)[0] <= shared), None)


def small(gaps: Iterable[Mapping[int, int]], limits: Sequence[int], scale_limit: float, scale_query: float, most: int,
          source: Source) -> list[bool]:
    """Whether each element of `gaps` is a yes, with one-sided noise and several widths, until the yes answers are used up.

    An element maps kinds (-1, 0 and 1) to numbers; it is a yes if any of them is small.
    """
    shared = {kind: one_sided(scale_limit, source) for kind in (-1, 0, 1)}
    finest = 2 ** (len(limits) - 1)
    left, found = most * finest, []
    for kinds in gaps:
        if left < finest:
            break
        price = next((finest >> j for kind, gap in kinds.items() for j in reversed(range(len(limits)))
                      if gap + shared[kind] <= one_sided(scale_query * 2**j, source) + limits[j]), 0)
        left -= price
        found.append(price > 0)
    return found
