"""Linear programs that float solvers leave too far from their optimum, refined in integers.

Not trusted: what is found here is checked as any answer is, by `extensions.certified` and `extensions.removal_distance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.extensions.linear_program import Reals
from dpsql.trusted.extensions.owned import Integers
from dpsql.trusted.extensions.packing import Packing

Numbers: TypeAlias = NDArray[np.object_]
"""Integers of any size."""

ROUNDS = 6
STEP = 20  # bits that a round is sure to add; solvers answer to about 2^-23
GRID = 2**200

Solver: TypeAlias = Callable[[Reals, Any, Reals, Reals], tuple[Reals, Reals]]
"""max { costs z : M z = 0, low <= z <= high } in floats: z, and the prices of the equations."""


def refined(program: Packing, solver: Solver | None = None) -> Iterator[tuple[Reals, Reals]]:
    """Iterative refinement: the residual of an answer is computed in integers, scaled up and solved again.

    With s = limits - A x and d = costs - A' y, exactly, an improvement (dx, ds) and dy is looked for in

        max { d dx - y ds : A dx + ds = 0, -x <= dx <= most - x, -s <= ds },

    its bounds and costs times 2^(STEP k) in round k. The remaining improvement is small by then, so steps are kept small:
    jumping to a distant optimum would be as inaccurate as the first answer. Numbers are integers over GRID.
    Source: Gleixner, Steffy and Wolter, Iterative refinement for linear programming, INFORMS Journal on Computing 2016.
    """
    from scipy.sparse import csr_array, hstack

    count, lines = len(program.costs), len(program.limits)
    size = max([1, *program.limits])
    entries = np.array(program.entries, dtype=object)
    largest = np.ones(lines)
    np.maximum.at(largest, program.lines, np.abs(entries.astype(np.float64)))
    matrix = hstack([csr_array((entries.astype(np.float64) / largest[program.lines], (program.lines, program.columns)),
                               shape=(lines, count)), csr_array((np.ones(lines), (range(lines), range(lines))))]).tocsr()
    most = None if program.most is None else np.array(program.most, dtype=object) * GRID
    x, y = np.full(count, 0, dtype=object), np.full(lines, 0, dtype=object)
    for at in range(ROUNDS):
        room = np.array(program.limits, dtype=object) * GRID - _sums(entries * x[program.columns], program.lines, lines)
        short = np.array(program.costs, dtype=object) * GRID - _sums(entries * y[program.lines], program.columns, count)
        free = np.full(count, np.inf) if most is None else _floats(most - x, at, size)
        low = np.concatenate((_floats(-x, at, size), _floats(-room, at, size) / largest))
        gain = np.concatenate((_floats(short, at), -_floats(y, at) * largest))
        high = np.concatenate((free, np.full(lines, np.inf)))
        if at:
            far = 2.0 ** (STEP // 2)
            gain, low, high = np.clip(gain, -far * 2**STEP, far * 2**STEP), np.maximum(low, -far), np.minimum(high, far)
        step, price = (solver or scipys)(gain, matrix, np.minimum(low, high), high)
        x = np.maximum(x + _numbers(step[:count], at, size), 0)
        if most is not None:
            x = np.minimum(x, most)
        y = np.maximum(y + _numbers(price / largest, at), 0)
        yield _floats(x), _floats(y)


def _sums(terms: Numbers, at: Integers, count: int) -> Numbers:
    found = np.full(count, 0, dtype=object)
    np.add.at(found, at, terms)
    return found


def _floats(numbers: Numbers, round_: int = 0, size: int = 1) -> Reals:
    """Of integers over GRID, in units of `size`, times the scale of a round."""
    return np.array([float(Fraction(one << STEP * round_, size * GRID)) for one in numbers.tolist()])


def _numbers(floats: Reals, round_: int, size: int = 1) -> Numbers:
    return np.array([int(Fraction(one) * GRID * size) >> STEP * round_ for one in floats.tolist()], dtype=object)


def scipys(gain: Reals, matrix: Any, low: Reals, high: Reals) -> tuple[Reals, Reals]:
    from scipy import optimize

    linprog: Any = optimize.linprog
    found = linprog(-gain, A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=np.column_stack((low, high)), method="highs-ds",
                    options={"presolve": False})
    return found.x, -found.eqlin.marginals
