"""Released measurements, stored with the answers in the ledger, so that later questions can reuse them.

A record holds the queries that were asked of which cells, with which noise, and the noisy integers that resulted: all of this was
released to the account with whose answer it is stored. It is identified by the canonical digest of the rows, of what is summed,
and of the columns with their values; only records of the same version of the data are used. Where answers are
shared, those of other accounts are used under the policy under which they were measured.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.batch.measured import in_line, widened, widened_compactly
from dpsql.frozen import Frozen, field, replace
from dpsql.questions.identity import digest
from dpsql.strategies.optimality_gap import Noise
from dpsql.strategies.strategy import Block
from dpsql.trusted.measurements.block_sums import Axis, Blocked, Blocks
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.workload.factor_blocks import with_factors
from dpsql.workload.factors import Dense, Factor, Identity, Prefix, Ranges, Total

MOST_NUMBERS = 300_000  # entries of matrices and answers of one record; larger measurements are not kept
SHORT = (Identity, Total, Prefix, Ranges)  # factors that are stored by their parameters
EVERY_ROW = "every row is in a cell"  # part of every digest: records in which this does not hold never match


class MeasuredQueries(Frozen):
    """The queries that were asked of some cells. `sums` identifies the rows and the summand, `columns` each column with its
    values, and `sizes` are the numbers of these values. With `line`, all cells are one axis."""

    sums: str
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    blocks: tuple[Block, ...]
    noise: Noise
    line: bool


class Record(Frozen):
    """What was asked and what was answered: for each block its noisy integers.

    Where answers are shared, `policy` is the policy under which this was measured. `charge` is the charge of another account
    that it was paid with, 0 for what the account was told.
    """

    asked: MeasuredQueries
    answers: tuple[tuple[int, ...], ...]
    policy: str = ""
    charge: int = field(default=0, compare=False)


def about(view: Node, axes: Sequence[Axis], summand: Count | GridSum) -> tuple[str, tuple[str, ...]]:
    """Texts that identify the rows and the summand of a measurement, and its columns. They do not depend on other queries in the
    same statement."""
    names = {axis.column for axis in axes} | {"value"}
    if not (isinstance(view, Project) and {column for column, *_ in view.columns} <= names):
        return digest(EVERY_ROW, view, None, summand), ()
    exprs = {column: expr for column, _, expr in view.columns}
    return digest(EVERY_ROW, view.input, exprs.get("value"), summand), tuple(
        digest(exprs[axis.column], axis.values, axis.rest) for axis in axes)


def asked_of(request: Blocks) -> MeasuredQueries:
    """A request in a form that can be compared with later ones over the same rows."""
    sums, columns = about(request.view, request.axes, request.summand)
    sizes = tuple(len(axis.values) for axis in request.axes)
    places = _places(request)
    blocks = tuple(_over_all(with_factors(block), places) for block in request.blocks)
    return MeasuredQueries(sums=sums, columns=columns, sizes=sizes, blocks=blocks, noise=request.noise, line=request.line)


def _places(request: Blocks) -> list[NDArray[np.int64]]:
    """The cell of each value of each axis, -1 for none; with `line`, of each combination of values."""
    numbers = [np.array(axis.numbers, dtype=np.int64) for axis in request.axes]
    return [in_line(numbers, [axis.size for axis in request.axes])] if request.line else numbers


def _over_all(block: Block, places: Sequence[NDArray[np.int64]]) -> Block:
    """A block over cells as one over all values of its columns."""
    factors = _factors(block, places)
    return replace(block, axes=tuple(factors), factors=tuple(widened(own, places[axis]) for axis, own in factors.items()))


def _factors(block: Block, places: Sequence[NDArray[np.int64]]) -> dict[int, Factor]:
    """The factors of a block, by axis. A column that it sums out becomes one of its axes if not all values are counted."""
    factors: dict[int, Factor] = {axis: Total(int(numbers.max()) + 1) for axis, numbers in enumerate(places)
                                  if (numbers < 0).any()}
    return factors | dict(zip(block.axes, block.factors, strict=True))


def _is_small(request: Blocks) -> bool:
    """Whether the record of a request is small enough to be kept, found before any matrix over all values is made."""
    numbers, places = sum(block.rows for block in request.blocks), _places(request)
    for block in map(with_factors, request.blocks):
        for axis, own in _factors(block, places).items():
            if not isinstance(widened_compactly(own, places[axis]), SHORT):
                numbers += own.rows * len(places[axis])
    return numbers <= MOST_NUMBERS


def recording(steps: Generator[Request, Any, Any], found: list[Record]) -> Generator[Request, Any, Any]:
    """Run the same steps, and add a record of each measurement to `found`, unless it is too large to be kept.

    What was asked is written down before it is asked, so that nothing of it can fail after a charge.
    """
    try:
        request = next(steps)
        while True:
            asked = asked_of(request) if isinstance(request, Blocks) and _is_small(request) else None
            released = yield request
            if asked is not None and isinstance(released, Blocked):
                found.append(Record(asked=asked, answers=released.answers))
            request = steps.send(released)
    except StopIteration as done:
        return done.value


def without_requests(steps: Generator[Request, Any, Any]) -> Any:
    """The result of steps that make no request. Raises RuntimeError if they do."""
    try:
        next(steps)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a request was made that was not paid for")


# -- as text


def encoded(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Records as JSON values, without those that are too large."""
    return [_told(record) for record in records if _size(record) <= MOST_NUMBERS]


def _size(record: Record) -> int:
    """The number of entries that are written out; a factor that several blocks share is written in each of them."""
    factors = [factor for block in record.asked.blocks for factor in block.factors]
    return sum(math.prod(factor.shape) for factor in factors if not isinstance(factor, SHORT)) + sum(map(len, record.answers))


def _told(record: Record) -> dict[str, Any]:
    asked = record.asked
    return {"sums": asked.sums, "columns": asked.columns, "sizes": asked.sizes, "noise": asked.noise, "line": asked.line,
            "blocks": [{"axes": block.axes, "scale": block.scale.hex(), "factors": [_factor_told(f) for f in block.factors]}
                       for block in asked.blocks],
            "answers": [_packed(answers) for answers in record.answers],
            **({"policy": record.policy} if record.policy else {})}


def _packed(numbers: Any) -> Any:
    """Integers as a JSON value: compressed if they fit into 64 bits."""
    if all(-(2**63) <= int(number) < 2**63 for number in numbers):
        return base64.b64encode(zlib.compress(np.array(numbers, dtype="<i8").tobytes())).decode()
    return [int(number) for number in numbers]


def _unpacked(told: Any) -> tuple[int, ...]:
    if isinstance(told, list):
        return tuple(int(number) for number in told)
    return tuple(np.frombuffer(_inflated(told), dtype="<i8").tolist())


def _inflated(text: str) -> bytes:
    return zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 8 * MOST_NUMBERS)


def _factor_told(factor: Factor) -> list[Any]:
    match factor:
        case Ranges():
            return ["Ranges", factor.size, factor.lows, factor.highs]
        case Identity() | Total() | Prefix():
            return [type(factor).__name__, factor.size]
    return ["Dense", *factor.shape, _packed(factor.dense().reshape(-1).tolist())]


def decoded(text: str) -> list[Record]:
    """The records in the text of a stored answer, without those that cannot be read or whose parts do not fit together."""
    try:
        told = json.loads(text).get("measured", [])
    except (ValueError, AttributeError):
        return []
    found = [_readable(each) for each in (told if isinstance(told, list) else [])]
    return [record for record in found if record is not None]


def _readable(told: Any) -> Record | None:
    try:
        return _record(told)
    except Exception:  # a faulty record is simply not used
        return None


def _record(told: Any) -> Record:
    blocks = tuple(Block(axes=tuple(int(axis) for axis in block["axes"]), scale=float.fromhex(block["scale"]),
                         factors=tuple(_factor(factor) for factor in block["factors"])) for block in told["blocks"])
    asked = MeasuredQueries(sums=str(told["sums"]), columns=tuple(map(str, told["columns"])),
                            sizes=tuple(int(size) for size in told["sizes"]), blocks=blocks, noise=told["noise"],
                            line=bool(told["line"]))
    answers = tuple(_unpacked(each) for each in told["answers"])
    sizes = (math.prod(asked.sizes),) if asked.line else asked.sizes
    fits = len(asked.columns) == len(asked.sizes) and asked.noise in ("gaussian", "laplace") and all(
        0 < block.scale < math.inf and len(set(block.axes)) == len(block.axes)
        and [sizes[axis] for axis in block.axes] == [factor.n for factor in block.factors] for block in blocks)
    if not fits or [len(each) for each in answers] != [block.rows for block in blocks]:
        raise ValueError("its parts do not fit together")
    return Record(asked=asked, answers=answers, policy=str(told.get("policy", "")))


def _factor(told: Any) -> Factor:
    kind, *rest = told
    if kind == "Dense":
        rows, columns, entries = rest
        numbers = _unpacked(entries)
        wide = any(not -(2**63) <= number < 2**63 for number in numbers)
        return Dense(np.array(numbers, dtype=object if wide else np.int64).reshape(int(rows), int(columns)))
    if kind == "Ranges":
        size, lows, highs = rest
        return Ranges(int(size), tuple(int(low) for low in lows), tuple(int(high) for high in highs))
    plain: dict[str, Callable[[int], Factor]] = {"Identity": Identity, "Total": Total, "Prefix": Prefix}
    return plain[kind](int(rest[0]))
