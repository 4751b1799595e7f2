"""The first rung of a ladder that few entities exceed: the sparse vector technique."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cost import FREE, Cost, pure
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The first rung of a ladder that few entities exceed: the sparse vector technique with one answer.

    The plan counts entities by an integer key 0 .. `rungs`; q_j counts those with a key above j. Asked are q_0, q_1, ... in
    order, until q_j + noise <= `limit` + j * `rise` + noise'; the answer is that j, or `rungs`. The limit rises, so that a noise'
    far below zero, which all rungs share, does not send the answer to the top.

    Cost. One entity adds 0 or 1 to every q_j, all in one direction. For the larger of two neighbours shift noise' by one (a
    factor exp(1 / scale_limit)) and the noise of the answer that stops by at most one (exp(1 / scale_query)); for the smaller
    one only the latter moves. So epsilon = 1 / scale_limit + 1 / scale_query (Dwork et al. 2009; Lyu, Su and Li 2017 for
    queries that move together). Answers before the stop are a prefix of the output and cost nothing more.
    """

    plan: Tally
    rungs: int
    limit: int
    rise: int = 0
    scale_limit: float
    scale_query: float

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.rows == 0:
            return FREE
        if certificate.below.rows != 1 or certificate.summands[0].l1 != 1 or len(self.plan.keys) != 1:
            raise ValueError("a ladder counts each entity once")
        return pure(1 / Fraction(self.scale_limit) + 1 / Fraction(self.scale_query))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """The rung at which the ladder stopped."""

    rung: int
