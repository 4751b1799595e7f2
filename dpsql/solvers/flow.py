"""Two entities in each row: a maximum flow, and the cut that shows it to be one.

Not trusted: `extensions.certified` evaluates the point and the prices in integers.
"""

from __future__ import annotations

import numpy as np

from dpsql.trusted.extensions.linear_program import LinearProgram, Point, Truths
from dpsql.trusted.extensions.owned import Codes, Integers


def flow(program: LinearProgram, gap: float) -> Point:
    """A best point of max { sum x_r : 0 <= x_r <= w_r, loads within capacities } for rows of exactly two different entities,
    and best prices, all of them multiples of 1/2.

    Take every entity e twice, left and right, and for each row r = {v, w} the arcs v_left -> w_right and w_left -> v_right
    of capacity w_r; a source feeds e_left and a sink drains e_right with capacity c_e. The maximum is *half* the largest flow.

    Proof. From x, the flow that sends x_r along both arcs of r loads e_left and e_right with the load of e: twice sum x_r.
    From a flow f, x_r = (f(v_left w_right) + f(w_left v_right)) / 2 <= w_r loads e with half of what passes e_left and
    e_right together, c_e at most, and its sum is half the flow. Capacities are integers, so the maximum is a whole number of
    halves. (Where the rows have two kinds of entities, the graph is two separate copies of the one flow that is enough.)

    Let S be what can be reached from the source in the residual graph, so that the flow is the capacity of the arcs out of S.
    The price of e is ([e_left not in S] + [e_right in S]) / 2. Then 1 - y_v - y_w is half of ([v_left in S] - [w_right in S])
    + ([w_left in S] - [v_right in S]), at most half the number of arcs of the row that leave S. So D of these prices is at most
    half the cut, which is the maximum. (The caller does not rely on this: it computes D and P again.)

    scipy stores capacities in 32 bits and silently wraps larger ones: hence the limit, below which
    `usual.for_program` chooses this way, and `large_flow` beyond it.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    capacities, count = program.capacities, len(program.capacities)
    first, second = program.owners[:, 0].astype(np.int32), program.owners[:, 1].astype(np.int32)
    weights = np.minimum(program.weights, np.minimum(capacities[first], capacities[second]))
    if max(capacities.max(initial=0), weights.max(initial=0)) >= 2**31:
        raise OverflowError("these capacities are too large for a flow")
    begins = np.zeros(count, dtype=bool)
    begins[first] = True
    if not begins[second].any():
        return _between_kinds(LinearProgram(program.owners, weights, capacities), begins)
    source, sink = 2 * count, 2 * count + 1
    left, right = np.arange(count, dtype=np.int32), np.arange(count, 2 * count, dtype=np.int32)
    tails = np.concatenate((first, second, np.full(count, source, np.int32), right))
    heads = np.concatenate((second + count, first + count, left, np.full(count, sink, np.int32)))
    sizes = np.concatenate((weights, weights, capacities, capacities)).astype(np.int32)
    graph = csr_array((sizes, (tails, heads)), shape=(2 * count + 2, 2 * count + 2))
    found = maximum_flow(graph, source, sink).flow.tocoo()
    arc = (found.data > 0) & (found.row < count) & (found.col >= count) & (found.col < source)
    narrow = LinearProgram(program.owners, weights, capacities)
    return _point(narrow, found.row[arc], found.col[arc] - count, found.data[arc].astype(np.int64))


def _between_kinds(program: LinearProgram, begins: Truths) -> Point:
    """The point and the prices of one copy, if the entities that are the greater ones of rows (`begins`) are never the lesser."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    count, first, second = len(program.capacities), program.owners[:, 0].astype(np.int32), program.owners[:, 1].astype(np.int32)
    source, sink, every = count, count + 1, np.arange(count, dtype=np.int32)
    tails = np.concatenate((first, np.where(begins, source, every).astype(np.int32)))
    heads = np.concatenate((second, np.where(begins, every, sink).astype(np.int32)))
    sizes = np.concatenate((program.weights, program.capacities)).astype(np.int32)
    graph = csr_array((sizes, (tails, heads)), shape=(count + 2, count + 2))
    found = maximum_flow(graph, source, sink).flow
    left = csr_array(graph - found)
    left.eliminate_zeros()
    seen = np.zeros(count + 2, dtype=bool)
    seen[breadth_first_order(left, source, return_predecessors=False)] = True
    sent, arcs = np.zeros(len(first)), found.tocoo()
    used = (arcs.data > 0) & (arcs.row < count) & (arcs.col < count)
    key = first.astype(np.int64) * count + second
    sent[np.searchsorted(key, arcs.row[used].astype(np.int64) * count + arcs.col[used])] = arcs.data[used]
    return Point(rows=sent, prices=np.where(begins, ~seen[:count], seen[:count]) * 1.0)


def _point(program: LinearProgram, tails: Codes, heads: Codes, sizes: Integers) -> Point:
    """The point and the prices of a flow along these arcs. Rows are in the order of their owners, the greater one first."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    count, first, second = len(program.capacities), program.owners[:, 0], program.owners[:, 1]
    key = first.astype(np.int64) * count + second
    row = np.searchsorted(key, np.maximum(tails, heads).astype(np.int64) * count + np.minimum(tails, heads))
    ahead = tails > heads
    sent = np.zeros((2, len(key)), dtype=np.int64)  # from the greater owner to the lesser one, and back
    sent[0, row[ahead]], sent[1, row[~ahead]] = sizes[ahead], sizes[~ahead]
    used = np.bincount(first, weights=sent[0], minlength=count) + np.bincount(second, weights=sent[1], minlength=count)
    links = [np.stack((np.full(count, 2 * count), np.arange(count)))[:, used < program.capacities]]
    for amount, tail, head in ((sent[0], first, second), (sent[1], second, first)):
        links.append(np.stack((tail, head + count))[:, amount < program.weights])
        links.append(np.stack((head + count, tail))[:, amount > 0])
    start, end = np.concatenate(links, axis=1).astype(np.int32)
    graph = csr_array((np.ones(len(start), dtype=np.int8), (start, end)), shape=(2 * count + 1, 2 * count + 1))
    seen = np.zeros(2 * count + 1, dtype=bool)
    seen[breadth_first_order(graph, 2 * count, return_predecessors=False)] = True
    return Point(rows=sent.sum(axis=0) / 2, prices=(~seen[:count] * 1.0 + seen[count:-1]) / 2)


def large_flow(program: LinearProgram, gap: float) -> Point:
    """The same for whole capacities of any size, by networkx, which computes in Python integers; for few rows."""
    import networkx as nx

    graph, source, sink = nx.DiGraph(), "source", "sink"
    capacities, owners = program.capacities.tolist(), program.owners[:, :2].tolist()
    for (one, other), weight in zip(owners, program.weights.tolist(), strict=True):
        for tail, head in ((one, other), (other, one)):
            graph.add_edge(("left", tail), ("right", head), capacity=weight)
    for at, capacity in enumerate(capacities):
        graph.add_edge(source, ("left", at), capacity=capacity)
        graph.add_edge(("right", at), sink, capacity=capacity)
    residual = nx.flow.preflow_push(graph, source, sink)
    _, (reached, _) = nx.minimum_cut(graph, source, sink, flow_func=lambda *_, **__: residual)
    sent = [sum(residual["left", tail]["right", head]["flow"] for tail, head in ((one, other), (other, one)))
            for one, other in owners]
    prices = [((("left", at) not in reached) + (("right", at) in reached)) / 2 for at in range(len(capacities))]
    return Point(rows=np.array(sent, dtype=np.float64) / 2, prices=np.array(prices))
