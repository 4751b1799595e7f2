"""The distance of answers from leaving their intervals, on which the private deciders are based."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, Natural, Word
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.measurements.several import sets
from dpsql.trusted.measurements.several.levels import Level, are_bounded, times
from dpsql.trusted.noise.integer import TOO_WIDE, Noise, drawn, fits_a_word
from dpsql.trusted.plan.cells import Cells, are_cells, cell_of
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.disjoint import Known, disjoint, is_simple, known, pairs_apart
from dpsql.trusted.plan.expr.nodes import Expr, conjuncts
from dpsql.trusted.plan.node import Summary
from dpsql.trusted.plan.operators.grouped_sums import SATURATION, GroupedSums
from dpsql.trusted.plan.operators.largest import Largest
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.owner_sets import OwnerSets, lipschitz_constant, slack
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count, GridSum

NEVER = 2**50  # a distance that cannot be reached: more entities than exist
LISTED = 2**9  # of the largest values of a sum: at any useful price, a greater distance leaves no doubt about the answer
MOST_TESTS = 2**10  # of one request: which of them one row moves together is found pair by pair
DIFFERENT_CELLS = "cells must be different, each with a value for every key"
BOTH_ENDS = "no number may violate both ends of an interval"
FARTHEST_END = SATURATION // 2  # of intervals for listed values, so that no end is near the point where totals are cut off


class Form(Frozen):
    """One end of an interval. The answer of cell g respects it if `sign` * (total of summand `at`) + `constants[g]` is at least
    1."""

    at: Natural
    sign: Literal[1, -1]
    constants: tuple[Word, ...]


class Within(Frozen):
    """Whether the answers of all cells are within their intervals: all `forms` are at least 1 in every cell.

    With `exact` the forms must be the two ends for one sum without groups, whose flip distance is then computed from its values.
    """

    plan: GroupedSums
    cells: Cells
    forms: tuple[Form, ...]
    exact: bool = False

    def assumptions(self) -> Assumptions:
        parts, cells = self.plan.summands, len(self.cells)
        yield cells and are_cells(self.cells, self.plan.keys), DIFFERENT_CELLS
        yield {*map(type, parts)} <= {Count, GridSum}, "forms must refer to counts, or to sums of one number per row"
        yield self.forms, "a test needs at least one form"
        fit = all(form.at < len(parts) and len(form.constants) == cells for form in self.forms)
        yield fit, "a form needs a summand, and a constant for each cell"
        if self.exact:
            low, high = self.forms if len(self.forms) == 2 else (self.forms[0],) * 2
            low, high = (low, high) if low.sign == 1 else (high, low)
            ends = (low.sign, high.sign, low.at) == (1, -1, high.at) and type(parts[low.at]) is GridSum and not self.plan.keys
            yield ends, "an exact test needs the two ends of one sum without groups"
            (below,), (above,) = low.constants, high.constants
            yield 1 - below <= above, BOTH_ENDS
            yield max(abs(below), abs(above)) <= FARTHEST_END, "an end of the interval is too large"

    @property
    def ways(self) -> tuple[int, ...]:
        """For each form, 1 if added rows can only raise it, -1 if they can only lower it, 0 otherwise."""
        parts = [self.plan.summands[form.at] for form in self.forms]
        return tuple(form.sign if isinstance(part, Count) or (isinstance(part, GridSum) and part.grid.least >= 0) else 0
                     for form, part in zip(self.forms, parts, strict=True))

    def sides(self, totals: Sequence[Sequence[int]], values: Callable[[Largest], Sequence[int]]) -> Sides:
        """For each form and cell, the slack: if d rows must be added or removed to change its truth, d if it is true and 1 - d
        if it is false, or a number nearer to the border between 1 and 0.

        Write F for a form and l for the most that a row moves it. Then ceil(F / l) moves by at most 1 with a row, is 1 or more
        where F is, and is never further from the border than the flip distance. For a single sum that distance follows from the
        largest values: F falls when rows with large values are removed (or, where values may be negative, when rows with the
        least one are added), and the fewest rows that lower it by F are those with the largest effect. The distance moves by at
        most 1 with a row; so does its minimum with a constant (the number of values listed), and so does the maximum of that
        and ceil(F / l). (Totals are cut off at 2^62, where |F| is 2^61 or more and ceil(F / l) is more than are listed.)

        Values are read for the nearer end first, and for the other one only if it is then no farther. An end that is not read
        does not affect the minimum: the interval is so wide that at most one end is violated (`check`). So the unread end, whose
        ceil(F / l) exceeds the other's slack, is not violated, and its slack is only larger still.
        """
        numbers = [[form.sign * totals[form.at][g] + form.constants[g] for g in range(len(self.cells))] for form in self.forms]
        plain = [[-(-number // max(1, self.plan.summands[form.at].l1)) for number in side]
                 for form, side in zip(self.forms, numbers, strict=True)]
        if self.exact:  # the minimum is exact once that of the nearer end is
            for at in sorted(range(len(self.forms)), key=lambda i: plain[i][0]):
                if plain[at][0] <= min(side[0] for side in plain):
                    plain[at] = [self._exact(self.forms[at].sign, numbers[at][0], plain[at][0], values)]
        return plain

    def _exact(self, sign: int, number: int, slack: int, values: Callable[[Largest], Sequence[int]]) -> int:
        """The slack of a form of one sum, at least as far from the border as `slack`."""
        part = self.plan.summands[self.forms[0].at]
        if not isinstance(part, GridSum):
            raise TypeError("only the values of a sum can be listed")
        inside = number >= 1
        plain, need = (slack, number) if inside else (1 - slack, 1 - number)
        down = (sign == 1) == inside  # the sum has to fall
        come = max(0, -part.grid.least if down else part.grid.most)
        if come == part.l1 or plain >= LISTED:
            return slack
        leave = Largest(input=self.plan.input, summand=part, sign=1 if down else -1, most=LISTED)
        far = max(plain, min(LISTED, fewest(need, come, values(leave))))
        return far if inside else 1 - far


def fewest(need: int, come: int, leave: Iterable[int]) -> int:
    """The fewest amounts that add up to `need`: `come` any number of times, and each of the decreasing amounts `leave` at most
    once."""
    many = 0
    for amount in leave:
        if need <= 0 or amount <= come:
            break
        need, many = need - amount, many + 1
    return many if need <= 0 else many + -(-need // come) if come else NEVER


class DistinctWithin(Frozen):
    """Whether the numbers of distinct values in all cells lie between `first` and `last`, inclusive.

    The flip distance is exact where an entity has one row: one added row can add a value, and a value is removed with all its
    rows, so the fewest rows whose removal lowers the number by k are those of the k rarest values. (A column of few possible
    values may have no new values left: the distance is then larger than computed here.)
    """

    plan: Multiplicities
    cells: Cells
    first: tuple[Word, ...]
    last: tuple[Word, ...]

    def assumptions(self) -> Assumptions:
        yield self.cells and are_cells(self.cells, self.plan.keys), DIFFERENT_CELLS
        yield len(self.first) == len(self.last) == len(self.cells), "every cell needs an interval"
        yield all(first <= last + 1 for first, last in zip(self.first, self.last, strict=True)), BOTH_ENDS

    @property
    def ways(self) -> tuple[int, ...]:
        """Added rows can only raise the slack of the lower end, and only lower that of the upper end."""
        return (1, -1)

    def sides(self, counts: Sequence[Mapping[int, int]]) -> Sides:
        """The slacks of both ends, in rows; `counts[cell][n]` is the number of values that have n rows each."""
        low, high = [], []
        for g, found in enumerate(counts):
            many = sum(found.values())
            above, left = many - self.first[g] + 1, self.last[g] - many + 1
            low.append(above if above < 1 else scarcest(found, above))
            high.append(left if left >= 1 else 1 - scarcest(found, 1 - left))
        return low, high


class ExtensionWithin(Frozen):
    """Whether a Lipschitz extension at `level` of a sum over rows that may belong to several entities each lies between
    `first` and `last`, inclusive, in units of 1 / UNIT.

    An entity moves the extension F by at most K units, its `lipschitz_constant` (`extensions.lipschitz_extension`), and
    so moves ceil((F - first + 1) / K) and ceil((last - F + 1) / K) by 1. Where F is exact, an added entity can only raise it.
    """

    plan: OwnerSets
    level: Level
    first: Word
    last: Word

    def assumptions(self) -> Assumptions:
        yield not self.plan.signed and self.plan.cell is None, "an extension is tested without groups or negative values"
        yield self.first <= self.last + 1, BOTH_ENDS

    @property
    def ways(self) -> tuple[int, ...]:
        return (0, 0) if slack(self.level, self.plan.width) else (1, -1)

    def sides(self, held: int) -> Sides:
        """The slacks of both ends, in entities, from the extension of the sum."""
        moved = lipschitz_constant(self.level, self.plan.width)
        return ([-(-(held - self.first + 1) // moved)], [-(-(self.last - held + 1) // moved)])


def scarcest(counts: Mapping[int, int], many: int) -> int:
    """The total rows of the `many` values with the fewest rows; NEVER if there are fewer values."""
    rows = 0
    for each, values in sorted(counts.items()):
        taken = min(many, values)
        rows, many = rows + taken * each, many - taken
    return rows if many <= 0 else NEVER


Test: TypeAlias = Within | DistinctWithin | ExtensionWithin
Sides: TypeAlias = Sequence[Sequence[int]]
"""For each side of the intervals the slack of every cell."""


def slack_of(sides: Sides, rows: int) -> int:
    """The slack of all cells and sides together, if an entity moves at most `rows` rows; see `NoisyFlipDistance`."""
    cells = [min(slacks) for slacks in zip(*sides, strict=True)]
    inside: int = min(cells)
    here: int = inside if inside >= 1 else 1 - sum(max(0, 1 - cell) for cell in cells)
    return -(-here // rows)


class NoisyFlipDistance(Frozen):
    """The slack of every test, or with `together` the least one, plus noise. The slack is at least 1 if the test is true,
    otherwise at most 0.

    The slack is about the number of entities to add or remove until the truth changes. *Cost.* A row of cell g moves each side of
    its interval by at most 1 (`Within`, `DistinctWithin`), and hence their minimum s_g. Let S = min s_g where that is 1 or more,
    else 1 - sum over g of max(0, 1 - s_g). A row of cell g moves only s_g: within either case S moves by at most 1; and where S
    passes from one case to the other, s_g passes between 1 and 0 while all others are at least 1, so S passes between 1 and 0.
    An entity that changes k rows of the test's plan moves S by at most k, and ceil(S / k) by 1; k is taken from the certificate
    of that plan. The slack of an extension (`ExtensionWithin`) already moves by 1.

    The minimum over tests moves by 1 at most, and so does the slack of each test. `touched` bounds the number m of slacks that
    one entity moves, added up over plans: tests that are summands of one plan are counted together, every other one as 1. Noise
    on m numbers that move by 1 costs m times as much as on one (in l1, and in the square of l2).

    With discrete Laplace noise of scale 1 / epsilon, "yes where the noisy slack is 1 or more" is wrong with probability
    exp(-epsilon (d - 1)) / (1 + exp(epsilon)) at distance d from a change of the truth value; where the slack is that
    distance, no epsilon-DP decider with the same worst case is better on any database: by group privacy along a shortest path
    its error is at least exp(-epsilon (d - 1)) times that at the border.
    """

    tests: tuple[Test, ...]
    noise: Noise
    together: bool = False

    def assumptions(self) -> Assumptions:
        yield 1 <= len(self.tests) <= MOST_TESTS, f"there must be 1 to {MOST_TESTS} tests"
        yield fits_a_word(self.noise), TOO_WIDE

    @property
    def plans(self) -> tuple[Summary, ...]:
        return tuple(test.plan for test in self.tests)

    def cost(self, *certificates: Certificate) -> Cost:
        check_slacks(self.tests, certificates)
        many = touched(self.tests, certificates)
        if many == 0:
            return FREE
        return times(self.noise.cost(Sensitivity(l1=1, l2=1)), 1 if self.together else many)

    def release(self, context: Context, *certificates: Certificate) -> FlipDistances:
        """The slacks of the tests, or the smallest one, each with noise."""
        exact = [slack_of(sides, moved(test, certificate))
                 for test, sides, certificate in zip(self.tests, read(self.tests, context), certificates, strict=True)]
        told = [min(exact)] if self.together else exact
        return FlipDistances(slacks=tuple(slack + drawn(self.noise, context.noise) for slack in told))


def touched(tests: Sequence[Test], certificates: Sequence[Certificate]) -> int:
    """A bound on the number of tests whose slack one entity moves.

    Tests that share one plan object are sums over the rows of one relation, which is executed once, unchanged (by `read`, and
    once more as the same relation where values are listed). If by its certificate an entity changes k of these rows, and a row
    adds to at most t of the tests (`overlap`), the entity moves at most k t of them. Nothing is assumed about what different
    plans have in common, as each may keep different rows: their bounds are added up.
    """
    found, shared = 0, dict[int, list[tuple[Within, int]]]()
    for test, certificate in zip(tests, certificates, strict=True):
        if isinstance(test, Within) and not certificate.below.public:
            shared.setdefault(id(test.plan), []).append((test, moved(test, certificate)))
        elif not certificate.below.public:
            found += 1
    for own in shared.values():
        rows = max(each for _, each in own)
        found += min(len(own), rows * overlap([test for test, _ in own]))
    return found


def overlap(tests: Sequence[Within]) -> int:
    """A bound on how many of these tests of one plan a single row of the plan's input adds to.

    A row adds to a test where it adds to one of the summands that the test reads, and to a summand only where its `when` is true.
    So it adds to two tests only where some condition of one and some condition of the other are both true of it. The plan's input
    is a projection of a relation, row by row; where all such pairs of conditions are `disjoint` on that relation, no row adds to
    both tests. All tests to which one row adds overlap pairwise, so a colouring that gives overlapping tests different colours
    gives them all different colours: the number of colours of any such colouring is a bound.
    """
    conditions = [_conditions(test) for test in tests]
    simple = [len(own) == 1 and is_simple(own[0]) for own in conditions]
    apart = pairs_apart([own[0] if plain else {} for own, plain in zip(conditions, simple, strict=True)])
    colours: list[int] = []
    for i, mine in enumerate(conditions):
        meeting = np.flatnonzero(~apart[i, :i]).tolist()
        taken = {colours[j] for j in meeting if (simple[i] and simple[j]) or not _never_together(mine, conditions[j])}
        colours.append(next(colour for colour in range(i + 1) if colour not in taken))
    return max(colours) + 1


def _conditions(test: Within) -> list[Known]:
    """Conditions such that every row that contributes to a test satisfies at least one of them."""
    return [known(conjuncts(_meant(test.plan, when))) for when in {test.plan.summands[form.at].when for form in test.forms}]


def _meant(plan: GroupedSums, when: str | None) -> Expr | None:
    """The condition of a summand, in terms of the relation that the plan's input projects; None for all rows."""
    if when is None:
        return None
    if type(plan.input) is Project:
        return next(expr for column, _, expr in plan.input.columns if column == when)
    return plan.input.field(when).ref


def _never_together(first: Sequence[Known], second: Sequence[Known]) -> bool:
    return all(disjoint(mine, theirs) for mine in first for theirs in second)


def moved(test: Test, certificate: Certificate) -> int:
    """The largest number of rows that an entity changes, by which a slack in rows is divided; 1 for the slack of an extension,
    which is in entities already."""
    return 1 if isinstance(test, ExtensionWithin) else certificate.rows


def check_slacks(tests: Sequence[Test], certificates: Sequence[Certificate]) -> None:
    """Raises ValueError if the proof of `NoisyFlipDistance` does not bound the slack of a test."""
    for test, certificate in zip(tests, certificates, strict=True):
        _ = are_bounded(test.plan, certificate) if isinstance(test, ExtensionWithin) else certificate.rows


class FlipDistances(Frozen):
    """The noisy slack of every test, or the least one."""

    slacks: tuple[int, ...]


def read(tests: Sequence[Test], context: Context) -> list[Sides]:
    """The slacks of each side of every test. A plan that several tests share is read only once, as their cost assumes."""
    columns: dict[int, Sequence[np.ma.MaskedArray[Any, Any]]] = {}
    sums: dict[int, tuple[Cells, list[list[int]]]] = {}  # of each plan, in the cells of the last test
    found: list[Sides] = []

    def values(listed: Largest) -> list[int]:
        return [int(value) for value in context.arrays(listed)[0]]

    for test in tests:
        if isinstance(test, DistinctWithin):
            found.append(test.sides(_counts(test, context)))
            continue
        if isinstance(test, ExtensionWithin):
            (held,), = sets.read(test.plan, (test.level,), 1, context)
            found.append(test.sides(held.value(0)))
            continue
        plan = test.plan
        if id(plan) not in columns:
            columns[id(plan)] = context.columns(plan)
        if id(plan) not in sums or sums[id(plan)][0] != test.cells:
            sums[id(plan)] = test.cells, sums_in(columns[id(plan)], len(plan.keys), test.cells)
        found.append(test.sides(sums[id(plan)][1], values))
    return found


def _counts(test: DistinctWithin, context: Context) -> list[dict[int, int]]:
    """For each cell and number n, the number of values with n rows each."""
    found: list[dict[int, int]] = [{} for _ in test.cells]
    place = {cell_of(cell): at for at, cell in enumerate(test.cells)}
    for *cell, rows, values in context.rows(test.plan):
        at = place.get(cell_of(tuple(cell)))
        if at is not None:
            found[at][rows] = found[at].get(rows, 0) + values
    return found
