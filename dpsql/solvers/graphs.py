"""Flows and cuts of networks by scipy, for degrees.

Not trusted: `extensions.bounded_degrees` checks flows in integers, augments them to a maximum, and uses a cut only if no open
arc leads out of it.
"""

from __future__ import annotations

import numpy as np

from dpsql.trusted.extensions.linear_program import Network, Truths
from dpsql.trusted.extensions.owned import Integers


def largest(part: Network, limit: int) -> Integers:
    """The part of each arc that a largest flow uses."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    lefts, rights = len(part.given), len(part.room)
    if not len(part.tails):
        return np.zeros(0, dtype=np.int64)
    source, sink = lefts + rights, lefts + rights + 1
    tails = np.concatenate((part.tails, np.full(lefts, source), lefts + np.arange(rights))).astype(np.int32)
    heads = np.concatenate((lefts + part.heads, np.arange(lefts), np.full(rights, sink))).astype(np.int32)
    sizes = np.concatenate((part.sizes, np.maximum(limit - part.given, 0), part.room)).astype(np.int32)
    graph = csr_array((sizes, (tails, heads)), shape=(sink + 1, sink + 1))
    graph.sum_duplicates()
    flow = maximum_flow(graph, source, sink).flow
    return np.asarray(flow[part.tails.astype(np.int32), (lefts + part.heads).astype(np.int32)]).reshape(-1).astype(np.int64)


def reached(part: Network, open_: Truths, begun: Truths, spare: Truths) -> tuple[Truths, Truths]:
    """The left and right points that can be reached from left points with spare capacity."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    lefts = len(part.given)
    source, free = lefts + len(part.room), np.flatnonzero(spare)
    tails = np.concatenate((part.tails[open_], lefts + part.heads[begun], np.full(len(free), source)))
    heads = np.concatenate((lefts + part.heads[open_], part.tails[begun], free))
    graph = csr_array((np.ones(len(tails), dtype=np.int8), (tails, heads)), shape=(source + 1, source + 1))
    seen = np.zeros(source + 1, dtype=bool)
    seen[breadth_first_order(graph, source, return_predecessors=False)] = True
    return seen[:lefts], seen[lefts:source]
