"""What a table of counts is fitted to: groups of linear queries over its cells, with noisy answers and their variances.

All of it is public: answers that were released, and numbers that were never private. A variance of zero says that the answer
is exact, and the fitted table then has exactly this answer. Matrices are sparse, one row for each query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dpsql.frozen import Frozen, replace
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array

Sparse: TypeAlias = Any  # a scipy.sparse.csr_array of floats: its stubs do not tell what a product with a vector is

NOISES = ("gaussian", "laplace")


class QueryGroup(Frozen, eq=False):
    """Queries of one kind, such as all row totals: `matrix` is (queries x cells), `answers` and `variances` are (queries,).

    `noise` is the distribution of the noise, gaussian or laplace; discrete noise counts as that which it approximates.
    Groups of the same `stage` are fitted together by `sequential`, after those of lower stages.
    Raises ValueError for shapes that do not fit together, for numbers that are not finite, and for variances below zero.
    """

    name: str
    matrix: Sparse
    answers: Array
    variances: Array
    noise: str = "gaussian"
    stage: int = 0

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ValueError(f"noise must be one of {', '.join(NOISES)}, not {self.noise}")
        if self.matrix.shape[0] < 1 or self.matrix.shape[1] < 1:
            raise ValueError(f"{self.name}: a group has at least one query and one cell")
        if self.answers.shape != (self.matrix.shape[0],) or self.variances.shape != self.answers.shape:
            raise ValueError(f"{self.name}: every query has one answer and one variance")
        if not all(np.isfinite(numbers).all() for numbers in (self.matrix.data, self.answers, self.variances)):
            raise ValueError(f"{self.name}: queries, answers and variances are finite numbers")
        if (self.variances < 0).any():
            raise ValueError(f"{self.name}: a variance is not negative")

    @cached_property
    def deviations(self) -> Array:
        """Standard deviations of the noise, (queries,)."""
        return np.sqrt(self.variances)


def query_group(name: str, matrix: Any, answers: ArrayLike, variances: ArrayLike, noise: str = "gaussian", *,
                stage: int = 0) -> QueryGroup:
    """A group from a matrix of any kind, sparse or dense, and from one variance for all queries or one for each query."""
    rows: Any = scipy.sparse.csr_array(matrix, dtype=float)
    rows.eliminate_zeros()
    given = np.array(answers, dtype=float).reshape(-1)
    return QueryGroup(name=name, matrix=rows, answers=given, noise=noise, stage=stage,
                      variances=np.broadcast_to(np.asarray(variances, dtype=float), given.shape).copy())


class NoisyAnswers(Frozen, kw_only=False, eq=False):
    """Groups of queries over the same cells.

    Raises ValueError if there is no group, if two have one name, or if their numbers of cells differ.
    """

    groups: tuple[QueryGroup, ...]

    def __post_init__(self) -> None:
        if not self.groups or len({group.name for group in self.groups}) < len(self.groups):
            raise ValueError("there is at least one group of queries, and each has its own name")
        if len({group.matrix.shape[1] for group in self.groups}) > 1:
            raise ValueError("all groups are over the same cells")

    @property
    def cells(self) -> int:
        return int(self.groups[0].matrix.shape[1])

    @cached_property
    def matrix(self) -> Sparse:
        """All queries, group by group: (queries x cells)."""
        return self.groups[0].matrix if len(self.groups) == 1 else _stacked([group.matrix for group in self.groups])

    @cached_property
    def answers(self) -> Array:
        return np.concatenate([group.answers for group in self.groups])

    @cached_property
    def variances(self) -> Array:
        return np.concatenate([group.variances for group in self.groups])

    @cached_property
    def exact(self) -> NDArray[np.bool_]:
        """Which answers are exact: (queries,)."""
        return np.asarray(self.variances == 0)

    @cached_property
    def weights(self) -> Array:
        """The inverse variances; zero for exact answers, which are constraints."""
        return np.divide(1.0, self.variances, out=np.zeros(len(self.variances)), where=~self.exact)

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The position of each group's queries among all queries."""
        ends = np.cumsum([0, *(len(group.answers) for group in self.groups)]).tolist()
        return {group.name: slice(*at) for group, at in zip(self.groups, pairwise(ends), strict=True)}

    @property
    def stages(self) -> Iterator[NDArray[np.bool_]]:
        """The queries of each stage, (queries,), those of the lowest stage first."""
        of_group = np.repeat([group.stage for group in self.groups], [len(group.answers) for group in self.groups])
        return (of_group == stage for stage in sorted({group.stage for group in self.groups}))

    def with_answers(self, answers: Array) -> NoisyAnswers:
        """The same queries with other answers: (queries,)."""
        return NoisyAnswers(tuple(replace(group, answers=answers[self.slices[group.name]]) for group in self.groups))


def noisy_answers(*groups: QueryGroup) -> NoisyAnswers:
    """Combine the given groups."""
    return NoisyAnswers(groups)


def of_one_cell(matrix: Sparse) -> NDArray[np.bool_]:
    """Which queries are about one cell: (queries,)."""
    return np.asarray(np.diff(matrix.indptr) == 1)


def their_cells(matrix: Sparse, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Array]:
    """The cell of each of the chosen single-cell queries, and its coefficient."""
    at = matrix.indptr[:-1][chosen]
    return matrix.indices[at], matrix.data[at]


def _stacked(matrices: Sequence[Sparse]) -> Sparse:
    return scipy.sparse.vstack(matrices, format="csr")
