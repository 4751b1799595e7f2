"""Exact solution, in fractions, of linear programs that solvers do not solve accurately enough."""

from __future__ import annotations

from fractions import Fraction

from dpsql.frozen import Frozen
from dpsql.trusted.extensions.owned import Integers
from dpsql.trusted.stopping import go_on


class Packing(Frozen):
    """max { costs x : A x <= limits, 0 <= x <= most }, all integers, limits >= 0; None for no `most`. `entries[k]` stands in
    row `lines[k]` and column `columns[k]` of A.
    """

    costs: list[int]
    limits: list[int]
    most: list[int] | None
    lines: Integers
    columns: Integers
    entries: list[int]


def exact(program: Packing) -> tuple[list[Fraction], list[Fraction]]:
    """The simplex method over fractions: a best x, and best prices of `limits`. It always ends.

    Variables are those of the program, then the slack of each limit, then that of each bound in `most`. The basic variable of
    line i is ends[i] minus the sum of its entries times the nonbasic variables; as limits are not negative, x = 0 is a feasible
    start. The entering variable is the one with the largest gain, unless the last step gained nothing: then it is the first one
    with a gain (Bland's rule), so that no basis recurs. The prices are the reduced costs of the slack variables of the limits.
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
        go_on()
        open_ = [column for column, gain in gains.items() if gain > 0]
        if not open_:
            break
        enters = max(open_, key=lambda column: (gains[column], -column)) if moved else min(open_)
        ratios = [(ends[at] / line[enters], basic[at], at) for at, line in enumerate(lines) if line.get(enters, 0) > 0]
        if not ratios:
            raise ArithmeticError("a program that should be bounded is unbounded")
        moved = min(ratios)[0] > 0
        _pivot(lines, ends, basic, gains, min(ratios)[2], enters)
    values = dict(zip(basic, ends, strict=True))
    return ([values.get(column, Fraction(0)) for column in range(count)],
            [-gains.get(count + at, Fraction(0)) for at in range(len(program.limits))])


def _pivot(lines: list[dict[int, Fraction]], ends: list[Fraction], basic: list[int], gains: dict[int, Fraction], at: int,
           enters: int) -> None:
    """Pivot: the entering variable replaces the basic variable of line `at`."""
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
    """Subtract `factor` times the line from another one."""
    for column, value in line.items():
        left = there.get(column, 0) - factor * value
        if left:
            there[column] = left
        else:
            there.pop(column, None)
