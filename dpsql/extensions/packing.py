"""Linear programs that float solvers leave too far from their optimum: refined in integers, and at last solved in fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.extensions.owned import Integers
from dpsql.extensions.program import Reals

Numbers: TypeAlias = NDArray[np.object_]
"""Integers of any size."""

ROUNDS = 6
STEP = 20  # bits that a round is sure to add; solvers answer to about 2^-23
GRID = 2**200


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """max { costs x : A x <= limits, 0 <= x <= most }, all integers, limits >= 0; None for no `most`. `entries[k]` stands in
    row `lines[k]` and column `columns[k]` of A.
    """

    costs: list[int]
    limits: list[int]
    most: list[int] | None
    lines: Integers
    columns: Integers
    entries: list[int]


Solver: TypeAlias = Callable[[Reals, Any, Reals, Reals], tuple[Reals, Reals]]
"""max { costs z : M z = 0, low <= z <= high } in floats: z, and the prices of the equations."""


def stack_of(program: Packing, solver: Solver | None = None) -> Iterator[tuple[Reals, Reals]]:
    """x and the prices of `limits`, better and better, the last ones exact but for their rounding to floats."""
    with suppress(Exception):  # a solver that fails is one that says nothing
        yield from refined(program, solver or scipys)
    x, y = exact(program)
    yield np.array([float(one) for one in x]), np.array([float(one) for one in y])


def refined(program: Packing, solver: Solver) -> Iterator[tuple[Reals, Reals]]:
    """Iterative refinement: what is wrong with an answer is worked out in integers, scaled up and solved again.

    With s = limits - A x and d = costs - A' y, exactly, an improvement (dx, ds) and dy is looked for in

        max { d dx - y ds : A dx + ds = 0, -x <= dx <= most - x, -s <= ds },

    its bounds and costs times 2^(STEP k) in round k. What is left to improve is small by then, so steps are kept so: an answer
    from the other end of all best points would be as rough as the first. Numbers are integers over GRID.
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
        step, price = solver(gain, matrix, np.minimum(low, high), high)
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


def exact(program: Packing) -> tuple[list[Fraction], list[Fraction]]:
    """The simplex method over fractions: a best x, and best prices of `limits`. It always ends.

    Variables are those of the program, then what is left of each limit, then of each of `most`. Line i says that its basic
    variable is ends[i] less the sum of its entries times the variables at zero; as limits are not below zero, x = 0 is where
    it begins. What enters gains most, unless the last step gained nothing: then it is the first that gains (Bland's rule),
    so that no line-up of basic variables comes again. The prices are what the variables of the limits would lose.
    """
    count = len(program.costs)
    lines: list[dict[int, Fraction]] = [{} for _ in program.limits]
    for line, column, entry in zip(program.lines.tolist(), program.columns.tolist(), program.entries, strict=True):
        lines[line][column] = lines[line].get(column, Fraction(0)) + entry
    ends = [Fraction(limit) for limit in program.limits]
    for column, most in enumerate(program.most or []):
        lines.append({column: Fraction(1)})
        ends.append(Fraction(most))
    basic = [count + at for at in range(len(lines))]
    gains = {column: Fraction(cost) for column, cost in enumerate(program.costs)}
    moved = True
    while True:
        open_ = [column for column, gain in gains.items() if gain > 0]
        if not open_:
            break
        enters = max(open_, key=lambda column: (gains[column], -column)) if moved else min(open_)
        ratios = [(ends[at] / line[enters], basic[at], at) for at, line in enumerate(lines) if line.get(enters, 0) > 0]
        if not ratios:
            raise ArithmeticError("a bounded program has no bound")
        moved = min(ratios)[0] > 0
        _pivot(lines, ends, basic, gains, min(ratios)[2], enters)
    values = dict(zip(basic, ends, strict=True))
    return ([values.get(column, Fraction(0)) for column in range(count)],
            [-gains.get(count + at, Fraction(0)) for at in range(len(program.limits))])


def _pivot(lines: list[dict[int, Fraction]], ends: list[Fraction], basic: list[int], gains: dict[int, Fraction], at: int,
           enters: int) -> None:
    """The variable that enters takes the place of the basic variable of line `at`."""
    entry = lines[at].pop(enters)
    line = {column: value / entry for column, value in lines[at].items()} | {basic[at]: 1 / entry}
    end = ends[at] / entry
    for other, there in enumerate(lines):
        if other != at and (factor := there.pop(enters, None)):
            _less(there, line, factor)
            ends[other] -= factor * end
    _less(gains, line, gains.pop(enters))
    lines[at], ends[at], basic[at] = line, end, enters


def _less(there: dict[int, Fraction], line: dict[int, Fraction], factor: Fraction) -> None:
    """Take so many times the line off another one."""
    for column, value in line.items():
        left = there.get(column, 0) - factor * value
        if left:
            there[column] = left
        else:
            there.pop(column, None)
