"""The degrees of a graph, brought down to a limit, with noise."""

from __future__ import annotations

import numpy as np

from dpsql.kernel.extensions.degrees import Arcs, extended, projected
from dpsql.kernel.extensions.owned import coded
from dpsql.kernel.looks.context import Context
from dpsql.requests import Degrees, DiscreteGaussian, DiscreteLaplace, Histogram


def look(request: Degrees, context: Context) -> Histogram:
    """See `Degrees` for the numbers and their noise."""
    arcs = read(request, context)
    counts = (projected if request.way == "projection" else extended)(arcs, request.most)
    above = [0, *(-int(number) for number in np.cumsum(counts[::-1]))][::-1]  # c_0, ..., c_most with n = 0
    match request.noise:
        case DiscreteLaplace(scale=scale):
            noisy = context.noise.laplace(above, scale)
        case DiscreteGaussian(sigma=sigma):
            noisy = context.noise.gaussian(above, sigma)
    return Histogram(counts=tuple(noisy[i + 1] - noisy[i] for i in range(request.most)))


def read(request: Degrees, context: Context) -> Arcs:
    """The arcs in the order of their hashes; pairs with one hash in that of their names."""
    tails, heads, order, sizes = context.reader.arrays(context.sql(request.plan))
    ends, entities = coded([tails, heads])
    first = np.lexsort((ends[:, 1], ends[:, 0], np.asarray(order)))
    tail, head = (ends[first, at].astype(np.int64) for at in (0, 1))
    return Arcs(tail, head, np.asarray(sizes, dtype=np.int64)[first], entities, request.plan.mutual)
