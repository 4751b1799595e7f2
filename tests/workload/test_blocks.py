"""What is measured is one matrix of integers: what is applied, what is charged for, and what is written out are the same."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql.workload.blocks as trusted
from dpsql.workload.blocks import CLOSED, Block, checked, matrix_of, sensitivity
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.implicit import Centered, Differences, PIdentity, SquareRoot
from dpsql.workload.workload import JoinedFactor, Product

RANDOM = np.random.default_rng(47)
MOST = 2**63 - 1


def numbers(*shape: int, low: int = -9, high: int = 10) -> np.ndarray:
    return RANDOM.integers(low, high, size=shape)


def some() -> list[Factor]:
    found: list[Factor] = [Ranges(6, (0, 2, 1), (5, 2, 4)), Dense(np.array([[2**62, -MOST - 1], [MOST, 1]])),
                           Dense(np.array([[3**50, -1], [0, 2**64]], dtype=object)), Dense(np.array([[2**64 - 1, 1]], dtype=np.uint64)),
                           Dense(np.zeros((2, 3), dtype=np.int64)), PIdentity(own=np.array([MOST, 1]), others=np.array([[-MOST - 1, 2]])),
                           Dense(np.array([[5, -7]], dtype=np.int8)), PIdentity(own=np.array([3]), others=np.zeros((0, 1), dtype=np.int64))]
    for n in (1, 2, 5, 8, 13):
        found += [Identity(n), Total(n), Prefix(n), AllRange(n), Centered(n), SquareRoot(n), Differences(n, 2), Differences(n, 8),
                  Dense(numbers(4, n)), PIdentity(own=numbers(n, low=1), others=numbers(3, n))]
    return found


def named(factor: Factor) -> str:
    return f"{type(factor).__name__}-{factor.rows}x{factor.n}"


@pytest.mark.parametrize("factor", some(), ids=named)
def test_one_matrix_is_applied_and_charged_for(factor: Factor) -> None:
    made, dense = matrix_of(factor), [[int(entry) for entry in row] for row in factor.dense().tolist()]
    assert (made.rows, made.n) == factor.shape == (len(dense), len(dense[0]))
    for j in range(made.n):
        unit = np.zeros(made.n, dtype=object)
        unit[j] = 1
        assert [int(entry) for entry in made.apply(unit).tolist()] == [row[j] for row in dense]
    for power in (1, 2):
        assert made.powers(power) == tuple(sum(abs(row[j]) ** power for row in dense) for j in range(made.n)) == factor.column_powers(power)
    table = np.array(numbers(3, made.n, 2), dtype=object)
    assert (made.apply(table, 1) == np.moveaxis(np.tensordot(np.array(dense, dtype=object), table, (1, 1)), 0, 1)).all()


def test_all_kinds_are_looked_at() -> None:
    assert {type(factor) for factor in some()} == CLOSED


@pytest.mark.parametrize("total", [1, 2**20, 2**61, 2**62, 2**63 - 1, 2**80])
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_exact_however_large(seed: int, total: int) -> None:
    """Of products of two matrices over a table that holds as much as it may, against Python's integers."""
    dice = np.random.default_rng(seed)
    kinds = some()
    for _ in range(8):
        pair = tuple(kinds[i] for i in dice.integers(0, len(kinds), 2))
        (part,) = checked((Block(axes=(0, 1), factors=pair, scale=1.0),))
        table = np.zeros((pair[0].n, pair[1].n), dtype=object if total >= 2**62 else np.int64)
        table[dice.integers(pair[0].n), dice.integers(pair[1].n)] = total // 2 * int(dice.choice([-1, 1]))
        table[dice.integers(pair[0].n), dice.integers(pair[1].n)] += total - total // 2
        first, second = (factor.dense().astype(object) for factor in pair)
        expected = np.tensordot(np.tensordot(first, table.astype(object), (1, 0)), second, (1, 1))
        assert (part.answers(table, total).astype(object) == expected).all()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_what_is_charged_is_never_less_than_what_moves(noise: Any) -> None:
    for seed in range(30):
        dice = np.random.default_rng(seed)
        kinds = [factor for factor in some() if factor.n == 5]
        blocks = tuple(Block(axes=(0,), factors=(kinds[i],), scale=float(dice.choice([0.3, 1.0, 7.0]))) for i in dice.integers(0, len(kinds), 3))
        power = 1 if noise == "laplace" else 2
        moved = [sum(Fraction(abs(int(row[j]))) ** power / Fraction(block.scale) ** power for block in blocks
                     for row in block.factors[0].dense().tolist()) for j in range(5)]
        found = sensitivity(blocks, noise)
        assert max(moved) <= found.value <= max(moved) * (1 + Fraction(1, 2**60)) and found.exact


# -- forged


class Cheap(Dense):
    """A factor that states its own sensitivity."""

    def column_powers(self, power: int) -> tuple[int, ...]:
        return (0,) * self.n

    def matrix_of(self) -> Any:
        return matrix_of(Identity(self.n))


class Loud(int):
    def __le__(self, other: object) -> bool:
        return True


def forged(factor: Factor, **fields: Any) -> Factor:
    for name, value in fields.items():
        object.__setattr__(factor, name, value)
    return factor


class Array(np.ndarray):
    def max(self, *_: Any, **__: Any) -> Any:
        return 0


def view(matrix: np.ndarray) -> np.ndarray:
    return matrix.view(Array)


FORGED: dict[str, Callable[[], Any]] = {
    "a subclass": lambda: Cheap(np.array([[10**6, 1]])),
    "no factor": lambda: object(),
    "no integers": lambda: Dense(np.array([[0.5, 1.0]])),
    "not a number": lambda: Dense(np.array([[np.nan, 1.0]])),
    "truth values": lambda: Dense(np.array([[True, False]])),
    "objects": lambda: Dense(np.array([[Loud(7), 1]], dtype=object)),
    "floats among objects": lambda: Dense(np.array([[float("inf"), 1]], dtype=object)),
    "too large": lambda: Dense(np.array([[2**300, 1]], dtype=object)),
    "a list": lambda: forged(Dense(np.eye(2, dtype=np.int64)), matrix=[[1, 0], [0, 1]]),
    "an array of its own": lambda: forged(Dense(np.eye(2, dtype=np.int64)), matrix=view(np.array([[9, 0], [0, 9]]))),
    "three axes": lambda: forged(Dense(np.eye(2, dtype=np.int64)), matrix=np.zeros((2, 2, 2), dtype=np.int64)),
    "identity of floats": lambda: forged(Identity(2), size=2.0),
    "identity of truth": lambda: forged(Identity(2), size=True),
    "empty": lambda: forged(Identity(2), size=0),
    "negative": lambda: forged(Total(2), size=-2),
    "endless": lambda: forged(Prefix(2), size=10**12),
    "own numbers": lambda: forged(AllRange(2), size=Loud(2)),
    "ranges outside": lambda: forged(Ranges(2, (0,), (1,)), highs=(2,)),
    "ranges before": lambda: forged(Ranges(2, (0,), (1,)), lows=(-1,)),
    "ranges backwards": lambda: forged(Ranges(2, (0,), (1,)), lows=(2,), highs=(0,)),
    "ranges of floats": lambda: forged(Ranges(2, (0,), (1,)), lows=(0.5,)),
    "fewer lows": lambda: forged(Ranges(2, (0, 1), (1, 1)), lows=(0,)),
    "own entries of floats": lambda: forged(PIdentity(own=np.array([1, 1]), others=np.zeros((0, 2), dtype=np.int64)), own=np.array([0.5, 1])),
    "fewer own entries": lambda: forged(PIdentity(own=np.array([1, 1]), others=np.array([[1, 1]])), own=np.array([1])),
    "odd widths": lambda: forged(Differences(4, 2), width=3),
    "no width": lambda: forged(Differences(4, 2), width=0),
    "a product": lambda: JoinedFactor(Product((Identity(2),))),
}


@pytest.mark.parametrize("make", FORGED.values(), ids=FORGED)
def test_what_is_forged_is_not_measured(make: Callable[[], Any]) -> None:
    factor = make()
    with pytest.raises(ValueError):
        sensitivity((Block(axes=(0,), factors=(factor,), scale=1.0),), "laplace")


@pytest.mark.parametrize("change", [
    {"column_powers": lambda power: (0, 0)}, {"matrix_of": lambda: matrix_of(Identity(2))}, {"key": ("identity", 2)}, {"rows": 1},
    {"apply": lambda array, axis=0: array * 10**6}, {"dense": lambda: np.eye(2, dtype=np.int64)}], ids=lambda change: next(iter(change)))
def test_methods_that_are_brought_are_not_called(change: dict[str, Any]) -> None:
    """A forged object may hold methods and cached values of its own: nothing of them is read."""
    factor = Dense(np.array([[10**6, 1], [0, -5]]))
    for name, value in change.items():
        factor.__dict__[name] = value
    honest = Identity(2)
    blocks = (Block(axes=(0,), factors=(factor,), scale=1.0), Block(axes=(0,), factors=(honest,), scale=1.0))
    assert sensitivity(blocks, "laplace").value == 10**6 + 1
    part, _ = checked(blocks)
    assert part.answers(np.array([3, 4]), 7).tolist() == [3 * 10**6 + 4, -20]


def test_what_was_looked_at_cannot_change() -> None:
    matrix = np.array([[1, 2], [3, 4]])
    factor = Dense(matrix)
    (part,) = checked((Block(axes=(0,), factors=(factor,), scale=1.0),))
    factor.matrix.flags.writeable = True
    factor.matrix[0, 0] = 10**9
    matrix[0, 1] = 10**9
    assert part.matrices[0].powers(1) == (4, 6) and part.answers(np.array([1, 1]), 2).tolist() == [3, 7]
    with pytest.raises(ValueError):
        part.matrices[0].array.flags.writeable = True  # type: ignore[attr-defined]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), True, "1", None, 10**400, 1j])
def test_every_block_has_noise(scale: Any) -> None:
    with pytest.raises(ValueError, match="noise"):
        sensitivity((Block(axes=(0,), factors=(Identity(2),), scale=scale),), "laplace")


@pytest.mark.parametrize("axes", [(0, 0), (-1,), (True,), (1.0,), [0], (2,), (0, 1), ("0",)])
def test_axes_are_different_and_there(axes: Any) -> None:
    factors = (Identity(2),) * len(axes)
    with pytest.raises(ValueError, match="fit"):
        checked((Block(axes=axes, factors=factors, scale=1.0),), (2, 3))


def test_a_negative_entry_counts_as_much_as_a_positive_one() -> None:
    with pytest.raises(ValueError):
        PIdentity(own=np.array([-10**6, 1]), others=np.array([[10**6, 0]]))
    forged_ = forged(PIdentity(own=np.array([1, 1]), others=np.array([[10**6, 0]])), own=np.array([-10**6, 1]))
    assert sensitivity((Block(axes=(0,), factors=(forged_,), scale=1.0),), "laplace").value == 2 * 10**6


def test_noise_is_of_a_known_kind() -> None:
    for noise in ("Laplace", "", None, "gauss"):
        with pytest.raises(ValueError, match="noise"):
            sensitivity((Block(axes=(0,), factors=(Identity(2),), scale=1.0),), noise)  # type: ignore[arg-type]


def test_two_long_opposite_ramps_take_no_time() -> None:
    """No value beats another in both, so comparing all with all would take minutes."""
    n = 60_000
    blocks = (Block(axes=(0,), factors=(Prefix(n),), scale=1.0),
              Block(axes=(0,), factors=(Ranges(n, tuple(range(n)), (n - 1,) * n),), scale=2.0))
    assert sensitivity(blocks, "laplace").value == n + Fraction(1, 2)


def test_trusted_modules_import_trusted_ones_only() -> None:
    """Neither searches for strategies nor scipy are needed to know what a request costs."""
    seen: set[str] = set()
    waiting = [trusted.__name__, "dpsql.measurements.block_sums"]
    while waiting:
        name = waiting.pop()
        if name in seen or not name.startswith("dpsql."):
            seen.add(name)
            continue
        seen.add(name)
        __import__(name)
        for node in ast.walk(ast.parse(Path(str(sys.modules[name].__file__)).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                waiting += [node.module] + [inner for alias in node.names if (inner := f"{node.module}.{alias.name}") in sys.modules]
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
    assert not {name for name in seen if name.startswith(("dpsql.strategies", "dpsql.batch", "dpsql.mechanisms", "scipy"))}
