"""Degree histograms of graphs with degrees limited to `most`, in one of two ways.

Rows are arcs from one entity to another, and the degree of an entity is the number of arcs from it. `mutual` rows count for
both of their entities: row {a, b} is the arcs a -> b and b -> a. Arcs have multiplicities, and may be loops (a mutual loop is
two arcs). Where no entity has more than `most` arcs from it or to it, both ways give the exact degrees. Both
yield

    counts[i] = the number of entities of degree i, 1 <= i <= most.

Sensitivity. Let entity e be added to a graph, with arcs from it and to it. Let d be the degrees without e, and d' those with e;
d'_e is the degree of e itself. For both ways it is proved below that the sum of |d'_v - d_v| over all v but e is at most

    d'_e for mutual rows, d'_e + most for others.                                                                         (*)

Let n be any number, c_i = n - (number of entities with a degree > i) for 0 <= i <= most, so that c_most = n, and let n grow by
one when e is added. Then e adds one to each of c_(d'_e), ..., c_most, which are most + 1 - d'_e of them; and a change of a degree
by one changes one c_i by one. So c moves by at most most + 1 for mutual rows, 2 most + 1 for others, in the l1 norm
(`plan.operators.arcs.moves`). n need not be known: counts[i] = c_i - c_(i-1). (Released directly, `counts` would move by 2
most + 1 for mutual rows: the degree of e, and two cells for each of d'_e degrees.) Entities of degree 0 are not counted,
whether they have no rows or lost them.
"""

from __future__ import annotations

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.ask_solvers import NO_SOLVERS, Solvers, heard
from dpsql.trusted.extensions.linear_program import Network, Truths
from dpsql.trusted.extensions.owned import Integers


class ArcList(Frozen, kw_only=False):
    """Arcs as numbers 0 .. entities - 1 of their ends, with multiplicities >= 1, in the order in which they are added."""

    tails: Integers
    heads: Integers
    sizes: Integers
    entities: int
    mutual: bool


def counted(degrees: Integers, most: int) -> Integers:
    """The numbers of entities with degree 1, ..., most."""
    return np.bincount(degrees, minlength=most + 1)[1:]


# -- edge addition up to the limit


def projected(arcs: ArcList, most: int) -> Integers:
    """The degrees when arcs are added one after another, each only if both of its ends have room.

    A mutual row has room where both entities have less than `most`, a loop where its own has less than `most` - 1. Otherwise an
    arc a -> b has room where fewer than `most` arcs from a and fewer than `most` arcs to b were added. The order is a function of
    each row alone, so that rows that are in both graphs have the same order in both.

    Proof of (*). The rows of e that are not added have no effect, so leave them out. Insert the others, k of them, into the graph
    one by one in their order. A run of the algorithm is the same up to the inserted row, so that row is added when it is
    inserted. Compare the runs with and without it. From there on the degrees so far (for arcs that are not mutual, the numbers
    from and to every entity) are equal in both runs except at e and for one number, which differs by one: at first that of the
    row's other end. Proof by induction over the rows that follow. Rows that do not involve the differing number are treated
    alike. Let a row involve it, x in one run and x + 1 in the other. If both runs treat the row alike, the difference stays. If
    not, it is added where the number is x and not where it is x + 1; so x + 1 = most, x becomes most, and now the number of the
    row's other end differs by one. A mutual loop that is treated differently raises x = most - 2 to most, and the other run has
    most - 1: still a difference of one. So every row of e changes at most one number at the end, by one. A loop of e involves no
    other entity.
    Mutual rows: d'_e counts every row of e once, loops twice, so k without loops is at most d'_e. Others: at most d'_e rows from
    e and `most` to it are added, and each changes one number of arcs from or to an entity.

    Source: edge addition, Day, Li and Lyu, Publishing graph degree distribution with node differential privacy, SIGMOD 2016.
    """
    out = [0] * arcs.entities
    into = out if arcs.mutual else [0] * arcs.entities
    for tail, head, size in zip(arcs.tails.tolist(), arcs.heads.tolist(), arcs.sizes.tolist(), strict=True):
        if arcs.mutual and tail == head:
            out[tail] += 2 * min(size, (most - out[tail]) // 2)
            continue
        added = min(size, most - out[tail], most - into[head])
        if added > 0:
            out[tail] += added
            into[head] += added
    return counted(np.array(out, dtype=np.int64), most)


# -- the fairest maximum flow


def extended(arcs: ArcList, most: int, solvers: Solvers = NO_SOLVERS) -> Integers:
    """The degrees of the fairest flow: of all ways to keep arcs so that at most `most` are kept from and to every entity.

    The network has two nodes for every entity v, left and right. An arc a -> b of size m becomes an arc from a_left to b_right of
    capacity m; arcs of capacity `most` lead from a source to each left node and from each right node to a sink. Of the integer
    flows x, with out_v from v_left and in_v to v_right, take one that is best for the sum of phi_v(out_v) + phi_v(in_v), with
    steps phi_v(i + 1) - phi_v(i) = most - i + tiny_(v,i), where sums of differences of the tiny numbers are smaller than one and
    no two of these are equal. The degrees are out_v.

    Proof of (*). Let x be best without e and x' with it. x' - x, with source and sink as one node g, is a circulation: a sum
    of simple cycles of one unit, each with the signs of x' - x, so that each can be added to x (if it does not pass e) or
    subtracted from x'. A cycle through g but not through e changes two of the numbers out, in by one each. Adding it to x gains
    A, subtracting it from x' gains B. Where one of the two numbers moves by 2 or more in all, A + B >= 1 - tiny > 0, as phi is
    concave; otherwise B = -A, and A is not 0: one gains and one loses a step, of different entities, or both gain, or both lose,
    at steps of most - i > 0. So A > 0 or B > 0, although x and x' are both best: a contradiction. So every cycle that changes a
    number goes through e: out'_e of them through e_left, in'_e through e_right. Those through e_left take one unit from some
    out_v, or add one to some in_v, or end at e_right; those through e_right add one to some out_v or take one from some in_v.
    Altogether

        sum over v but e of |out'_v - out_v| + |in'_v - in_v| <= out'_e + in'_e, which is at most d'_e + most.

    Mutual rows: exchanging left and right gives another best flow; as two best flows differ by no cycle through g, for the same
    reason, out = in. So the out numbers change by as much as the in numbers do, by the units of cycles through e_left: the sum
    of |out'_v - out_v| is at most the number of cycles through e_left, d'_e.

    Exact where no entity has more than `most` arcs from or to it: then all arcs can be kept together, and a best flow keeps them,
    as phi increases.

    Which entity has which degree depends on the tiny numbers, but the sorted degrees do not: these are what `fairest` computes.

    Source: the extension of degree lists by flows of strictly convex cost, Raskhodnikova and Smith, Lipschitz extensions for
    node-private graph statistics and the generalized exponential mechanism, FOCS 2016.
    """
    tails, heads, sizes = arcs.tails, arcs.heads, arcs.sizes
    if arcs.mutual:
        tails, heads, sizes = np.concatenate((tails, heads)), np.concatenate((heads, tails)), np.concatenate((sizes, sizes))
    pairs, place = np.unique(tails * arcs.entities + heads, return_inverse=True)
    sizes = np.minimum(np.bincount(place, weights=np.minimum(sizes, most), minlength=len(pairs)), most).astype(np.int64)
    lefts, tails = np.unique(pairs // arcs.entities, return_inverse=True)
    rights, heads = np.unique(pairs % arcs.entities, return_inverse=True)
    none, full = np.zeros(len(lefts), dtype=np.int64), np.full(len(rights), most, dtype=np.int64)
    return counted(fairest(Network(tails, heads, sizes, none, full), most, solvers), most)


def fairest(whole: Network, most: int, solvers: Solvers = NO_SOLVERS) -> Integers:
    """The sorted degrees of a best flow, each at most `most`: a maximum flow whose degrees are as even as possible.

    Let F(k) be the value of a maximum flow when every left node is limited to k.

    (1) *For a best flow, sum over p of min(d_p, k) = F(k) for every k.* Let h be a flow with degrees at most k and more than the
    sum of min(d_p, k). The difference of h and the best flow is a sum of cycles as above. Let a cycle add one to p,
    d_p < k. It does not add one to a right node, or the best flow could be improved. So it takes one from some p', and
    d_p' <= d_p + 1 <= k, or it would make the best flow fairer (between two equally good ones the tiny numbers decide, and (1) is
    about the multiset). So what h has more at some nodes it has less at nodes where min(d_p', k) counts every unit: no more in
    all.

    So the multiset of the degrees is that of any flow for which (1) holds for all k.

    (2) *Halves.* Take a maximum flow for limit k, and let L and R be the left and right nodes that can be reached from the source
    in its residual graph. Nodes in R are full; arcs from L to nodes outside R are full; arcs from other left nodes into R are
    empty, and those nodes have k. There is a best flow with the same property: nodes in L have at most k and full arcs to nodes
    outside R; the others have k or more and send nothing into R. So there are two separate problems: L with its arcs into R; and
    the other left nodes with their arcs to nodes outside R, reduced by the full arcs from L. Each has half of the range of k.
    """
    found, work = np.zeros(len(whole.given), dtype=np.int64), [(whole, np.arange(len(whole.given)), 0, most)]
    while work:
        part, points, low, high = work.pop()
        if low == high or not len(points):
            found[points] = low
            continue
        limit = high if high == low + 1 else (low + high) // 2
        kept = _largest(part, limit, solvers)
        if high == low + 1:  # each node has one of the two degrees
            up = int(part.given.sum() + kept.sum()) - low * len(points)
            found[points[:up]], found[points[up:]] = high, low
            continue
        left, right = _reached(part, kept, limit, solvers)
        for side, bottom, top in ((True, low, limit), (False, limit, high)):
            mine, theirs = left == side, right == side
            inside = mine[part.tails] & theirs[part.heads]
            crossing = left[part.tails] & ~right[part.heads]
            given, room = part.given.copy(), part.room.copy()
            if side:
                np.add.at(given, part.tails[crossing], part.sizes[crossing])
            else:
                np.subtract.at(room, part.heads[crossing], part.sizes[crossing])
            number = np.cumsum(mine) - 1, np.cumsum(theirs) - 1
            work.append((Network(number[0][part.tails[inside]], number[1][part.heads[inside]], part.sizes[inside], given[mine],
                               room[theirs]), points[mine], bottom, top))
    return found


def _largest(part: Network, limit: int, solvers: Solvers = NO_SOLVERS) -> Integers:
    """A maximum flow for this limit of left nodes, arc by arc.

    It starts from a solver's flow, or from zero if that is not a valid flow, and is augmented along paths of the residual
    graph as long as there is one: so it is a maximum flow whatever the solver returned.
    """
    kept = heard(lambda found: _flow(part, limit, found), solvers.flows, part, limit)
    if kept is None:
        kept = np.zeros(len(part.tails), dtype=np.int64)
    while path := _path(part, kept, limit, solvers):
        for arc, forward in path:
            kept[arc] += 1 if forward else -1
    return kept


def _flow(part: Network, limit: int, given: object) -> Integers:
    """A solver's answer, checked to be a flow: each arc within its size, and each node within its limit."""
    kept = np.array(given)
    if kept.dtype != np.int64 or kept.shape != part.sizes.shape or ((kept < 0) | (kept > part.sizes)).any():
        raise ValueError("this is not a flow")
    spare, room = _spare(part, kept, limit)
    if (spare < np.minimum(0, limit - part.given)).any() or (room < 0).any():
        raise ValueError("this flow exceeds the limit of a node")
    return kept


def _spare(part: Network, kept: Integers, limit: int) -> tuple[Integers, Integers]:
    """The residual capacity of each left and each right node."""
    spare, room = limit - part.given, part.room.copy()
    np.subtract.at(spare, part.tails, kept)
    np.subtract.at(room, part.heads, kept)
    return spare, room


def _path(part: Network, kept: Integers, limit: int, solvers: Solvers) -> list[tuple[int, bool]]:
    """An augmenting path: arcs along which one more unit can be sent, and whether forwards; none where the flow is maximum."""
    spare, room = _spare(part, kept, limit)
    if not (room[_reached(part, kept, limit, solvers)[1]] > 0).any():
        return []
    after: dict[int, list[tuple[int, int, bool]]] = {}
    lefts, tails, heads = len(spare), part.tails.tolist(), (len(spare) + part.heads).tolist()
    for arc, (tail, head) in enumerate(zip(tails, heads, strict=True)):
        if kept[arc] < part.sizes[arc]:
            after.setdefault(tail, []).append((head, arc, True))
        if kept[arc] > 0:
            after.setdefault(head, []).append((tail, arc, False))
    found: dict[int, tuple[int, int, bool] | None] = dict.fromkeys(np.flatnonzero(spare > 0).tolist())
    for point in (queue := list(found)):
        if point >= lefts and room[point - lefts] > 0:
            path, step = [], found[point]
            while step is not None:
                path.append(step[1:])
                step = found[step[0]]
            return path
        for there, arc, forward in after.get(point, []):
            if there not in found:
                found[there] = point, arc, forward
                queue.append(there)
    return []


def _reached(part: Network, kept: Integers, limit: int, solvers: Solvers) -> tuple[Truths, Truths]:
    """The left and right nodes reachable from the source, given the flow on each arc.

    A solver's answer is checked: no open arc may lead out of the set, and, as the flow is maximum, every right node in it must
    be full. That makes it a minimum cut, which is the only property used. Otherwise the set is computed here.
    """
    open_, begun = kept < part.sizes, kept > 0
    spare, room = _spare(part, kept, limit)

    def cut(given: tuple[object, object]) -> tuple[Truths, Truths]:
        left, right = (np.array(side) for side in given)
        if left.dtype != np.bool_ or right.dtype != np.bool_ or (left.shape, right.shape) != (spare.shape, room.shape):
            raise ValueError("these are not sets of nodes")
        out = (open_ & left[part.tails] & ~right[part.heads]) | (begun & right[part.heads] & ~left[part.tails])
        if out.any() or not left[spare > 0].all() or (room[right] > 0).any():
            raise ValueError("this is not a cut")
        return left, right

    if found := heard(cut, solvers.cuts, part, open_, begun, spare > 0):
        return found
    left, right = spare > 0, np.zeros(len(room), dtype=bool)
    while True:
        before = int(left.sum() + right.sum())
        right[part.heads[open_ & left[part.tails]]] = True
        left[part.tails[begun & right[part.heads]]] = True
        if int(left.sum() + right.sum()) == before:
            return left, right
