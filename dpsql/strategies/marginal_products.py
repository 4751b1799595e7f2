"""Products asked of marginals, and sums over their subsets of products of two numbers of each attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.strategies.closure import Closure, closure
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array, Factor
from dpsql.workload.workload import Product, Workload

Kind: TypeAlias = tuple[Factor, ...]  # the different ways in which an attribute is asked for


class Pair(Frozen):
    """Of a kind of attribute: residual and total of each of its factors, and what a residual costs."""

    residuals: Array
    totals: Array
    norm: float = 1.0


class Weights(Frozen):
    """How much the queries count: a row of a part counts as much as the part times the product of its factors' rows."""

    parts: Array
    rows: Mapping[Kind, tuple[Array, ...]]  # for each factor of a kind its rows


class MarginalProducts(Frozen):
    """The parts of a workload and their subsets. A slot is an attribute and one of the ways in which it is asked for."""

    workload: Workload
    kinds: tuple[Kind, ...]  # for each attribute
    slots: list[tuple[int, ...]]  # for each part, those of its attributes
    closure: Closure

    @classmethod
    def of(cls, workload: Workload) -> MarginalProducts:
        ways: list[dict[Factor, None]] = [{} for _ in workload.domain.shape]
        for part in workload.parts:
            for i in part.axes:
                ways[i][part.factors[i]] = None
        kinds = tuple(tuple(sorted(factors, key=lambda factor: repr(factor.key))) for factors in ways)
        first = np.cumsum([0, *(len(kind) for kind in kinds)]).tolist()
        places = [{factor: at for at, factor in enumerate(kind)} for kind in kinds]
        slots = [tuple(first[i] + places[i][part.factors[i]] for i in part.axes) for part in workload.parts]
        return cls(workload=workload, kinds=kinds, slots=slots, closure=closure([part.axes for part in workload.parts]))

    @property
    def different(self) -> list[Kind]:
        return list(dict.fromkeys(kind for kind in self.kinds if kind))

    def ones(self) -> Weights:
        """Weights that count every query once."""
        return Weights(parts=np.ones(len(self.workload.parts)),
                       rows={kind: tuple(np.ones(factor.rows) for factor in kind) for kind in self.different})

    def of_part(self, each: Mapping[Kind, tuple[Array, ...]], part: Product, axis: int) -> Array:
        """The array for a part's factor, of those given for each factor of each kind."""
        return each[self.kinds[axis]][self._places[axis][part.factors[axis]]]

    @cached_property
    def _places(self) -> list[dict[Factor, int]]:
        """The index of each factor among the different ones of an attribute."""
        return [{factor: at for at, factor in enumerate(kind)} for kind in self.kinds]

    def each(self, weights: Weights) -> Array:
        """The weight of every query."""
        found = []
        for part, own in zip(self.workload.parts, weights.parts.tolist(), strict=True):
            each = np.full(1, own)
            for axis in part.axes:
                each = np.multiply.outer(each, self.of_part(weights.rows, part, axis)).reshape(-1)
            found.append(each)
        return np.concatenate(found)

    @cached_property
    def _tables(self) -> list[NDArray[np.int64]]:
        """For each pattern the slots of its marginals, a row each."""
        members = [pattern.marginals.tolist() for pattern in self.closure.patterns]
        return [np.array([self.slots[at] for at in each], dtype=np.int64).reshape(len(each), -1) for each in members]

    def _shares(self, pairs: Mapping[Kind, Pair], parts: Array) -> tuple[Array, list[Array]]:
        """The sums of each subset, and what each marginal of each pattern adds to them."""
        residuals = np.concatenate([pairs[kind].residuals for kind in self.kinds if kind] or [np.zeros(0)])
        totals = np.concatenate([pairs[kind].totals for kind in self.kinds if kind] or [np.zeros(0)])
        sums = np.zeros(len(self.closure.kinds))
        shares = []
        for pattern, slots in zip(self.closure.patterns, self._tables, strict=True):
            inside = np.isin(np.arange(slots.shape[1]), pattern.places)
            share = np.prod(residuals[slots[:, inside]], axis=1) * np.prod(totals[slots[:, ~inside]], axis=1)
            shares.append(share * parts[pattern.marginals])
            np.add.at(sums, pattern.subsets, shares[-1])
        return sums, shares

    def sums(self, pairs: Mapping[Kind, Pair], parts: Array) -> Array:
        """For each subset S the sum over parts A that contain it of A's weight prod_S residual_i prod_{A - S} total_i."""
        return self._shares(pairs, parts)[0]

    def costs(self, pairs: Mapping[Kind, Pair]) -> Array:
        """For each subset S prod_{i in S} norm_i."""
        norms = [pairs[kind].norm if kind else 1.0 for kind in self.kinds]
        return np.array([np.prod([norms[i] for i in axes]) for axes in self.closure.kinds])

    def value(self, pairs: Mapping[Kind, Pair], parts: Array) -> float:
        """(sum_S sqrt(cost_S sum_S))^2."""
        return float(np.sqrt(self.costs(pairs) * self.sums(pairs, parts)).sum() ** 2)

    def slopes(self, pairs: Mapping[Kind, Pair], parts: Array) -> dict[Kind, tuple[Array, Array]]:
        """The derivatives of the root of the value with respect to norm * residual, and to total, of each kind's factors."""
        sums, shares = self._shares(pairs, parts)
        steep = np.sqrt(self.costs(pairs) / np.maximum(sums, 1e-300)) / 2
        inner = np.zeros(sum(len(kind) for kind in self.kinds))
        outer = np.zeros_like(inner)
        for pattern, slots, share in zip(self.closure.patterns, self._tables, shares, strict=True):
            for place in range(slots.shape[1]):
                np.add.at(inner if place in pattern.places else outer, slots[:, place], share * steep[pattern.subsets])
        found = {kind: (np.zeros(len(kind)), np.zeros(len(kind))) for kind in self.different}
        at = 0
        for kind in self.kinds:
            if kind:
                here, pair = slice(at, at + len(kind)), pairs[kind]
                found[kind][0][:] += inner[here] / np.maximum(pair.residuals * pair.norm, 1e-300)
                found[kind][1][:] += outer[here] / np.maximum(pair.totals, 1e-300)
                at += len(kind)
        return found
