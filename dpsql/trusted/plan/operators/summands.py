"""Summands: each row of a cell becomes a small vector of integers with a known norm.

A summand's `l1` and `l2` bound the norms of the vector of one row, in every database. Sensitivities follow: if an entity
moves at most k rows of the relation below, the sums over cells move by at most k * l1 and k * l2 in those norms (triangle
inequality; the rows may all fall into one cell).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.types import Type


class Summand(Frozen):  # without ABCMeta, as `Node`
    """A row function with integer vector values. `when` names a truth-valued column; rows where it is not true count as 0."""

    when: str | None = None

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""

    @property
    @abc.abstractmethod
    def components(self) -> int: ...

    @property
    @abc.abstractmethod
    def l1(self) -> int: ...

    @property
    def l2(self) -> int:
        return self.l1

    def accepts(self, kinds: Mapping[str, Facts]) -> bool:
        """Whether it can be computed from columns of these types without errors."""
        return True

    @abc.abstractmethod
    def cells(self, names: dict[str, str], kinds: dict[str, Facts]) -> tuple[str, ...]:
        """The integer SQL values of a row (BIGINT or NULL) from which `sums` is computed."""

    @abc.abstractmethod
    def sums(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """For each component, the SQL sum (HUGEINT, NULL for no rows) of the values that `cells` computes."""

    @abc.abstractmethod
    def size(self, cells: tuple[str, ...]) -> str:
        """The SQL sum of the l1 norms of all rows' vectors, from the values that `cells` computes; NULL for no rows."""

    def _conditional(self, value: str, names: dict[str, str]) -> str:
        return value if self.when is None else f"(CASE WHEN {names[self.when]} THEN {value} END)"


def present(printed: str, kind: Type) -> str:
    """The condition that a value is neither NULL nor NaN."""
    return f"(NOT isnan({printed}))" if kind is Type.DOUBLE else f"({printed} IS NOT NULL)"


def value_or_null(printed: str, kind: Type, shown: str = "") -> str:
    """A value, or `shown` in its place; NULL if it is NULL or NaN."""
    return f"(CASE WHEN {present(printed, kind)} THEN {shown or printed} END)" if kind is Type.DOUBLE else shown or printed


def _on_grid(grid: Quantizer, printed: str, known: Facts) -> str:
    return grid.to_sql(printed, known.type, known.physical)


class Count(Summand):
    """1 for each row; with `column`, for each row in which it is neither NULL nor NaN. Proof: the vector is 0 or 1.

    Sums leave NaN out, as no clamp can place it; a count next to them must cover the same rows.
    """

    column: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in (self.column, self.when) if name is not None)

    @property
    def components(self) -> int:
        return 1

    @property
    def l1(self) -> int:
        return 1

    def cells(self, names: dict[str, str], kinds: dict[str, Facts]) -> tuple[str, ...]:
        tests = [present(names[self.column], kinds[self.column].type)] if self.column is not None else []
        tests += [names[self.when]] if self.when is not None else []
        return (f"(CASE WHEN {' AND '.join(tests)} THEN 1 END)",) if tests else ()

    def sums(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        return (f"COUNT({cells[0] if cells else '*'})",)

    def size(self, cells: tuple[str, ...]) -> str:
        total, = self.sums(cells)
        return total


class GridSum(Summand):
    """The value of a column as an integer on its grid, counted from zero. Proof: |n| <= max(|least|, |most|)."""

    column: str
    grid: Quantizer

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,) if self.when is None else (self.column, self.when)

    @property
    def components(self) -> int:
        return 1

    @property
    def l1(self) -> int:
        return self.grid.largest

    def accepts(self, kinds: Mapping[str, Facts]) -> bool:
        return self.grid.fits(kinds[self.column].type)

    def cells(self, names: dict[str, str], kinds: dict[str, Facts]) -> tuple[str, ...]:
        return (self._conditional(_on_grid(self.grid, names[self.column], kinds[self.column]), names),)

    def sums(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        return (f"SUM({cells[0]})",)

    def size(self, cells: tuple[str, ...]) -> str:
        return f"SUM(abs({cells[0]}))"


class Moments(Summand):
    """The Bernstein polynomials of a value scaled to [0, 1]: all moments up to `degree` (1 or 2) at the price of one count.

    With n the integer of the value, 0 <= n <= M, the vector is (n, M - n) for degree 1 and (n^2, 2n(M - n), (M - n)^2) for
    degree 2; with `missing` one more component is M^degree where the value is NULL. Rows with NULL or NaN are otherwise 0.

    Proof. The components are non-negative and add up to (n + (M - n))^degree = M^degree, for a missing value too. So the l1
    norm of a row is M^degree at most, and the l2 norm is no larger than the l1 norm.

    Why: count, sum and sum of squares are linear in these sums, so that COUNT, SUM, AVG and VAR of a column all come from one
    measurement that spends the whole price once. For an average this equals the error of a two-stage method that first
    learns a centre: Var(AVG) = (w / n)^2 Var(noise) (p^2 + (1 - p)^2) with p the place of the mean in the range of width w.
    """

    column: str
    grid: Quantizer
    degree: int
    missing: bool = False

    def __post_init__(self) -> None:
        if self.degree not in (1, 2) or not self.grid.from_low or self.grid.most < 1:
            raise ValueError("moments need degree 1 or 2 and a grid that starts at the lower bound")
        if self.total > 2**42:
            raise ValueError("the grid of these moments is too fine")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,) if self.when is None else (self.column, self.when)

    @property
    def components(self) -> int:
        return self.degree + 1 + self.missing

    @property
    def total(self) -> int:
        """M^degree: the sum of all components of a row."""
        return int(self.grid.most**self.degree)

    @property
    def l1(self) -> int:
        return self.total

    def accepts(self, kinds: Mapping[str, Facts]) -> bool:
        return self.grid.fits(kinds[self.column].type)

    def cells(self, names: dict[str, str], kinds: dict[str, Facts]) -> tuple[str, ...]:
        value = self._conditional(_on_grid(self.grid, names[self.column], kinds[self.column]), names)
        return (value, self._conditional("1", names)) if self.missing else (value,)

    def sums(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        m, n = f"CAST({self.grid.most} AS HUGEINT)", cells[0]
        count, first = f"COUNT({n})", f"COALESCE(SUM({n}), 0)"
        if self.degree == 1:
            parts = [first, f"(({m} * {count}) - {first})"]
        else:
            second = f"COALESCE(SUM({n} * {n}), 0)"
            parts = [second, f"((2 * {m} * {first}) - (2 * {second}))",
                     f"((({m} * {m} * {count}) - (2 * {m} * {first})) + {second})"]
        if self.missing:
            parts.append(f"(CAST({self.total} AS HUGEINT) * (COUNT({cells[1]}) - {count}))")
        return tuple(parts)

    def size(self, cells: tuple[str, ...]) -> str:
        return f"(CAST({self.total} AS HUGEINT) * COUNT({cells[-1]}))"


class Clipped(Summand):
    """The sums of columns that `Clip` has already bounded for each entity.

    It has no bound for a row; its sensitivity is the bound of the norm, which `certify` takes from the relation below.
    """

    clipped: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.clipped

    @property
    def components(self) -> int:
        return len(self.clipped)

    @property
    def l1(self) -> int:
        raise TypeError("the sensitivity of a clipped sum is a property of the relation, not of a row")

    def accepts(self, kinds: Mapping[str, Facts]) -> bool:
        return self.when is None and all(kinds[column].type is Type.BIGINT for column in self.clipped)

    def cells(self, names: dict[str, str], kinds: dict[str, Facts]) -> tuple[str, ...]:
        return tuple(names[column] for column in self.clipped)

    def sums(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"SUM({cell})" for cell in cells)

    def size(self, cells: tuple[str, ...]) -> str:
        return f"SUM({' + '.join(f'abs({cell})' for cell in cells)})"
