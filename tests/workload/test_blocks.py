"""What is measured is one matrix of integers: what is applied, what is charged for, and what is written out are the same."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from support.forged import tampered

import dpsql.trusted.matrices.blocks as trusted
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.matrices.blocks import IntegerBlock, sensitivity_of
from dpsql.trusted.matrices.matrices import (
    AllStretches,
    Centre,
    Halves,
    Matrix,
    Prefixes,
    Root,
    Stacked,
    Stretches,
    Sum,
    Unit,
    Written,
)
from dpsql.trusted.measurements.all_measurements import VALUES
from dpsql.workload.factor_blocks import Block, check_blocks, factor_of, integer_blocks, sensitivity, with_factors
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
    made, dense = copied_request(factor.matrix_of()), [[int(entry) for entry in row] for row in factor.dense().tolist()]
    assert (made.rows, made.n) == factor.shape == (len(dense), len(dense[0]))
    for j in range(made.n):
        unit = np.zeros(made.n, dtype=object)
        unit[j] = 1
        assert [int(entry) for entry in made.apply(unit).tolist()] == [row[j] for row in dense]
    for power in (1, 2):
        assert made.powers(power) == tuple(sum(abs(row[j]) ** power for row in dense) for j in range(made.n)) == factor.column_powers(power)
    table = np.array(numbers(3, made.n, 2), dtype=object)
    assert (made.apply(table, 1) == np.moveaxis(np.tensordot(np.array(dense, dtype=object), table, (1, 1)), 0, 1)).all()


@pytest.mark.parametrize("factor", some(), ids=named)
def test_a_factor_is_found_again_from_its_matrix(factor: Factor) -> None:
    found = factor_of(factor.matrix_of())
    assert type(found) is type(factor) and (found.dense() == factor.dense()).all()
    block = Block(axes=(0,), factors=(factor,), scale=2.0)
    assert integer_blocks([with_factors(made) for made in integer_blocks([block])]) == integer_blocks([block])


def test_all_kinds_are_looked_at() -> None:
    matrices = {type(factor.matrix_of()) for factor in some()}
    assert matrices == set(get_args(Matrix)) == {kind for kind in VALUES if kind.__module__ == "dpsql.trusted.matrices.matrices"}


@pytest.mark.parametrize("total", [1, 2**20, 2**61, 2**62, 2**63 - 1, 2**80])
@pytest.mark.parametrize("seed", range(4))
def test_answers_are_exact_however_large(seed: int, total: int) -> None:
    """Of products of two matrices over a table that holds as much as it may, against Python's integers."""
    dice = np.random.default_rng(seed)
    kinds = some()
    for _ in range(8):
        pair = tuple(kinds[i] for i in dice.integers(0, len(kinds), 2))
        (part,) = integer_blocks([Block(axes=(0, 1), factors=pair, scale=1.0)])
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


class Cheap(Written):
    """A matrix that states its own sensitivity."""

    def powers(self, power: int) -> tuple[int, ...]:
        return (0,) * self.n


class Loud(int):
    def __le__(self, other: object) -> bool:
        return True


class Bytes(bytes):
    def __len__(self) -> int:
        return 16


def words(*numbers: int) -> bytes:
    return np.array(numbers, dtype=np.int64).tobytes()


FORGED: dict[str, Callable[[], Any]] = {
    "a subclass": lambda: Cheap(1, 2, words(10**6, 1)),
    "no matrix": lambda: object(),
    "a factor": lambda: Identity(2),
    "floats": lambda: Written(1, 2, (0.5, 1.0)),
    "not a number": lambda: Written(1, 2, (float("nan"), 1)),
    "endless entries": lambda: Written(1, 2, (float("inf"), 1)),
    "truth values": lambda: Written(1, 2, (True, False)),
    "numbers of their own": lambda: Written(1, 2, (Loud(7), 1)),
    "too large": lambda: Written(1, 2, (2**300, 1)),
    "too small": lambda: Written(1, 2, (-2**300, 1)),
    "a list": lambda: Written(2, 2, [1, 0, 0, 1]),
    "an array": lambda: Written(2, 2, np.eye(2, dtype=np.int64)),
    "bytes of their own": lambda: Written(1, 2, Bytes(words(9, 9))),
    "bytes that change": lambda: Written(1, 2, bytearray(words(9, 9))),
    "an entry less": lambda: tampered(Written(2, 2, words(1, 0, 0, 1)), entries=words(1, 0, 0)),
    "half an entry": lambda: tampered(Written(1, 1, words(1)), entries=words(1)[:4]),
    "a number less": lambda: Written(2, 2, (1, 0, 0)),
    "rows of floats": lambda: Written(2.0, 2, words(1, 0, 0, 1)),
    "negative rows": lambda: Written(-1, 2, b""),
    "no columns": lambda: Written(3, 0, b""),
    "size of floats": lambda: Unit(2.0),
    "size of truth": lambda: Unit(True),
    "empty": lambda: Unit(0),
    "negative": lambda: Sum(-2),
    "endless": lambda: Prefixes(10**12),
    "own numbers": lambda: AllStretches(Loud(2)),
    "no square root": lambda: Root(0),
    "no centre": lambda: Centre("2"),
    "intervals outside": lambda: Stretches(2, words(0), words(3)),
    "intervals before": lambda: Stretches(2, words(-1), words(1)),
    "intervals backwards": lambda: Stretches(2, words(2), words(1)),
    "intervals of half words": lambda: Stretches(2, words(0)[:4], words(2)[:4]),
    "intervals of lists": lambda: Stretches(2, (0,), (2,)),
    "fewer begins": lambda: Stretches(2, words(0), words(1, 2)),
    "fewer own entries": lambda: Stacked(words(1), Written(1, 2, words(1, 1))),
    "own entries of floats": lambda: Stacked((0.5, 1.0), Written(0, 2, b"")),
    "others forged": lambda: Stacked(words(1, 1), tampered(Written(1, 2, words(1, 1)), n=3)),
    "others of another kind": lambda: Stacked(words(1, 1), Unit(2)),
    "odd widths": lambda: Halves(4, 3),
    "no width": lambda: Halves(4, 0),
}


@pytest.mark.parametrize("make", FORGED.values(), ids=FORGED)
def test_what_is_forged_is_not_measured(make: Callable[[], Any]) -> None:
    matrix = make()
    with pytest.raises((ValueError, TypeError)):
        copied_request(IntegerBlock(axes=(0,), matrices=(matrix,), scale=1.0))


UNFIT: dict[str, Callable[[], Factor]] = {
    "no integers": lambda: Dense(np.array([[0.5, 1.0]])),
    "not a number": lambda: Dense(np.array([[np.nan, 1.0]])),
    "truth values": lambda: Dense(np.array([[True, False]])),
    "objects": lambda: Dense(np.array([[Loud(7), 1]], dtype=object)),
    "floats among objects": lambda: Dense(np.array([[float("inf"), 1]], dtype=object)),
    "too large": lambda: Dense(np.array([[2**300, 1]], dtype=object)),
    "empty": lambda: Identity(0),
    "negative": lambda: Total(-2),
    "endless": lambda: Prefix(10**12),
    "ranges outside": lambda: Ranges(2, (0,), (2,)),
    "ranges backwards": lambda: Ranges(2, (1,), (0,)),
    "own entries of floats": lambda: PIdentity(own=np.array([0.5, 1]), others=np.zeros((0, 2), dtype=np.int64)),
    "fewer own entries": lambda: PIdentity(own=np.array([1]), others=np.array([[1, 1]])),
    "odd widths": lambda: Differences(4, 3),
    "a product": lambda: JoinedFactor(Product((Dense(np.array([[0.5]])),))),
}


@pytest.mark.parametrize("make", UNFIT.values(), ids=UNFIT)
def test_what_has_no_integer_matrix_is_not_measured(make: Callable[[], Factor]) -> None:
    with pytest.raises(ValueError):
        sensitivity((Block(axes=(0,), factors=(make(),), scale=1.0),), "laplace")


def test_methods_that_are_brought_are_not_called() -> None:
    """A forged block cannot hold methods and cached values of its own: it has no place for them, and is made again."""
    matrix = Written(2, 2, words(10**6, 1, 0, -5))
    for name in ("powers", "apply", "array", "other"):
        with pytest.raises((AttributeError, TypeError)):
            tampered(matrix, **{name: lambda *given: (0, 0)})
    asked = IntegerBlock(axes=(0,), matrices=(matrix,), scale=1.0)
    own = copied_request(asked)
    assert own is not asked and own.matrices[0] is not matrix and own == asked
    assert sensitivity_of([own, IntegerBlock(axes=(0,), matrices=(Unit(2),), scale=1.0)], "laplace").value == 10**6 + 1
    assert own.answers(np.array([3, 4]), 7).tolist() == [3 * 10**6 + 4, -20]


def test_what_was_looked_at_cannot_change() -> None:
    matrix = np.array([[1, 2], [3, 4]])
    factor = Dense(matrix)
    part = copied_request(*integer_blocks((Block(axes=(0,), factors=(factor,), scale=1.0),)))
    factor.matrix.flags.writeable = True
    factor.matrix[0, 0] = 10**9
    matrix[0, 1] = 10**9
    assert part.matrices[0].powers(1) == (4, 6) and part.answers(np.array([1, 1]), 2).tolist() == [3, 7]
    with pytest.raises(ValueError):
        part.matrices[0].array.flags.writeable = True  # type: ignore[union-attr]
    asked = IntegerBlock(axes=(0,), matrices=(Written(1, 1, words(7)),), scale=1.0)
    own = copied_request(asked)
    tampered(asked.matrices[0], entries=words(10**9))
    assert own.matrices[0].powers(1) == (7,)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), True, "1", None, 10**400, 1j])
def test_every_block_has_noise(scale: Any) -> None:
    with pytest.raises(ValueError, match="noise"):
        sensitivity((Block(axes=(0,), factors=(Identity(2),), scale=scale),), "laplace")
    with pytest.raises((ValueError, TypeError)):
        copied_request(IntegerBlock(axes=(0,), matrices=(Unit(2),), scale=scale))


@pytest.mark.parametrize("axes", [(0, 0), (-1,), (True,), (1.0,), [0], (2,), (0, 1), ("0",)])
def test_axes_are_different_and_there(axes: Any) -> None:
    factors = (Identity(2),) * len(axes)
    with pytest.raises(ValueError, match="fit"):
        check_blocks((Block(axes=axes, factors=factors, scale=1.0),), (2, 3))


def test_a_negative_entry_counts_as_much_as_a_positive_one() -> None:
    with pytest.raises(ValueError):
        PIdentity(own=np.array([-10**6, 1]), others=np.array([[10**6, 0]]))
    asked = copied_request(IntegerBlock(axes=(0,), matrices=(Stacked(words(-10**6, 1), Written(1, 2, words(10**6, 0))),), scale=1.0))
    assert sensitivity_of([asked], "laplace").value == 2 * 10**6


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
    waiting = [trusted.__name__, "dpsql.trusted.measurements.block_sums"]
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
