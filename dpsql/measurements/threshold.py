"""The first rung of a ladder that few rows exceed: the sparse vector technique."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cost import FREE, Cost, pure
from dpsql.measurements.reading.context import Context
from dpsql.noise.integer import check_scale
from dpsql.plan.certificate import Certificate
from dpsql.plan.operators.summands import Count
from dpsql.plan.operators.summary import Summary
from dpsql.plan.operators.tally import Tally
from dpsql.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The first rung of a ladder that few rows exceed: the sparse vector technique with one answer.

    The plan counts rows by an integer key 0, 1, ... up to the number of `limits`; q_j counts those with a key above j. Asked are
    q_0, q_1, ... in order, until q_j + noise <= `limits[j]` + noise'; the answer is that j, or the number of limits. Limits that
    rise keep a noise' far below zero, which all rungs share, from sending the answer to the top.

    Cost. Let u rows leave and w rows come with an entity, u + w <= r. Then q_j moves to between q_j - u and q_j + w, for all j.
    Take the noises at which the answer is k, and shift noise' down by u: what went on before k goes on still, as q_j falls by u
    at most. Shift the noise of q_k down by u + w: it stops at k still, as q_k rises by w at most and the limit has fallen by u.
    So the probabilities of k differ by a factor exp(u / scale_limit + (u + w) / scale_query) at most, and epsilon =
    r / scale_limit + r / scale_query. (Where an entity moves one count of the ladder, r = 1, that is Dwork et al. 2009, with the
    halved noise of queries that move one way of Lyu, Su and Li 2017; here rows may come and go at once, and it
    still is not doubled.) Answers before the stop are a prefix of the output and cost nothing more.
    """

    plan: Tally
    limits: tuple[int, ...]
    scale_limit: float
    scale_query: float

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.plan,)

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        if rows is None or len(self.plan.keys) != 1 or [type(part) for part in self.plan.summands] != [Count]:
            raise ValueError("a ladder counts rows that are limited, once")
        if self.plan.input.field(self.plan.keys[0]).facts.type is not Type.BIGINT or any(
                type(limit) is not int for limit in self.limits):
            raise ValueError("the rungs of a ladder are whole numbers, and so are its limits")
        check_scale(self.scale_limit)
        check_scale(self.scale_query)
        if rows == 0:
            return FREE
        return pure(rows * (1 / Fraction(self.scale_limit) + 1 / Fraction(self.scale_query)))

    def release(self, context: Context, certificate: Certificate) -> Rung:
        """Climb until the noisy number of rows above a rung falls to the noisy limit; see `Threshold`."""
        rungs = len(self.limits)
        counts = [0] * (rungs + 1)
        for key, count in context.reader.rows(context.sql(self.plan)):
            if key is not None and 0 <= key <= rungs:
                counts[key] += count
        shared = context.noise.laplace([0], self.scale_limit)[0]
        above = sum(counts)
        for rung, limit in enumerate(self.limits):
            above -= counts[rung]
            if context.noise.laplace([above], self.scale_query)[0] <= limit + shared:
                return Rung(rung=rung)
        return Rung(rung=rungs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """The rung at which the ladder stopped."""

    rung: int


