"""Two entities in each row: an exact maximum flow."""

from __future__ import annotations

import numpy as np

from dpsql.kernel.extensions.owned import Codes, Integers
from dpsql.plan.operators.shares import EXACT_FLOW, UNIT


def flow(owners: Codes, weights: Integers, capacities: Integers) -> int:
    """max { sum x_r : 0 <= x_r <= w_r, loads within capacities } in units, for rows of exactly two different entities.

    Take every entity e twice, left and right, and for each row r = {v, w} the arcs v_left -> w_right and w_left -> v_right
    of capacity w_r; a source feeds e_left and a sink drains e_right with capacity c_e. The maximum is *half* the largest flow.

    Proof. From x, the flow that sends x_r along both arcs of r loads e_left and e_right with the load of e: twice sum x_r.
    From a flow f, x_r = (f(v_left w_right) + f(w_left v_right)) / 2 <= w_r loads e with half of what passes e_left and
    e_right together, c_e at most, and its sum is half the flow. Capacities are integers, so the maximum is a whole number of
    halves. (Where the rows have two kinds of entities, the graph is two separate copies of the one flow that is enough.)

    scipy keeps capacities in 32 bits and lets larger ones wrap without a word: hence the limit.
    """
    if capacities.max(initial=0) >= EXACT_FLOW:
        raise OverflowError("these capacities are too large for a flow")
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    count = len(capacities)
    first, second = owners[:, 0].astype(np.int32), owners[:, 1].astype(np.int32)
    weights = np.minimum(weights, np.minimum(capacities[first], capacities[second]))
    source, sink = 2 * count, 2 * count + 1
    left, right = np.arange(count, dtype=np.int32), np.arange(count, 2 * count, dtype=np.int32)
    tails = np.concatenate((first, second, np.full(count, source, np.int32), right))
    heads = np.concatenate((second + count, first + count, left, np.full(count, sink, np.int32)))
    sizes = np.concatenate((weights, weights, capacities, capacities)).astype(np.int32)
    graph = csr_array((sizes, (tails, heads)), shape=(2 * count + 2, 2 * count + 2))
    return UNIT * int(maximum_flow(graph, source, sink).flow_value) // 2
