"""A cache on disk for strategies that took long to find.

A file has matrices derived from a workload, which is public: never an answer, never anything from the data. It consists of arrays
of numbers and a JSON text. Privacy does not depend on it: a strategy from a file is like any other, and its sensitivity is
computed from its integers, here and again in the kernel (`matrices.blocks`). Nothing in a file is taken as a proof. It is read
only if it is a regular file owned by this user; no more than the largest allowed size is read, and arrays may not contain Python
objects. If a strategy does not fit, or does not measure the workload, or measures it so unevenly that its errors cannot be
computed to many digits, it is searched for again. The errors of what is read are computed from its matrices; only the lower bound
that they are compared with is taken from the file.

Files are in the folder given by DPSQL_CACHE (empty: nothing is kept), or else in the folder dpsql in XDG_CACHE_HOME, or in the
system's usual place for caches. A folder that cannot be read or written is silently ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import stat
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpsql.strategies import clock
from dpsql.strategies.least_squares import LeastSquares, even
from dpsql.strategies.optimality_gap import Noise, OptimalityBound
from dpsql.strategies.p_identity import PIdentity
from dpsql.strategies.strategy import Block, Refusal, Strategy
from dpsql.workload.factor_blocks import check_blocks
from dpsql.workload.factors import Array, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Workload, joined

KEPT: dict[str, Noise] = {"convex": "gaussian", "fitness-for-use": "gaussian", "p-identity": "laplace", "kronecker": "laplace"}
"""The searches that may take long, by name, with the kind of noise of their strategies."""
VERSION = 2  # of the format; part of the file name
ENDED = 1e9  # seconds, recorded for a search that was not cut short
NEARLY = 1.5  # a search is repeated only if there is more than this many times as much time
WORTH = 0.2  # seconds; results of shorter searches are not kept
TOTAL = "total variance"  # the objective of some; the largest variance over target is that of the others
LARGEST = 2**26  # bytes of a file, packed or not
MOST_FILES = 300
MOST_ARRAYS = 64  # in a file


def remembered(name: str, workload: Workload, targets: Array | None,
               search: Callable[[Workload, Array | None], Strategy | Refusal]) -> Strategy | Refusal:
    """The result of a search, from the cache if it is there. The search is repeated if much more time is available now."""
    folder = cache_folder()
    if folder is None or name not in KEPT:
        return search(workload, targets)
    path = folder / (key_of(name, workload, targets) + ".npz")
    found, sought = _read(path, KEPT[name], workload, targets)
    if found is not None and sought * NEARLY >= min(clock.remaining(), ENDED):
        return found
    begun, limit = time.perf_counter(), clock.remaining()
    made = search(workload, targets)
    if isinstance(made, LeastSquares) and time.perf_counter() - begun >= WORTH:
        _write(path, made, limit if clock.cut_short() else ENDED)
    return made


def cache_folder() -> Path | None:
    """The folder where strategies are cached; None if there is none."""
    named = os.environ.get("DPSQL_CACHE")
    if named is not None:
        return Path(named) / "strategies" if named else None
    with contextlib.suppress(RuntimeError):  # there may be no home
        return _usual() / "dpsql" / "strategies"
    return None


def _usual() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def key_of(name: str, workload: Workload, targets: Array | None) -> str:
    """The key of a search in the cache: equal for equal searches."""
    goals = b"" if targets is None else np.asarray(targets, dtype="<f8").tobytes()
    return hashlib.sha256(f"{VERSION}\n{name}\n{workload.fingerprint}\n".encode() + goals).hexdigest()


# -- files


def _write(path: Path, strategy: LeastSquares, sought: float) -> None:
    arrays: dict[str, Any] = {}
    known = strategy.certificate
    told = {"name": strategy.name, "domain": [[a.name, a.size] for a in strategy.domain.attributes],
            "blocks": [{"axes": block.axes, "scale": block.scale, "factors": [_told(factor, arrays) for factor in block.factors]}
                       for block in strategy.measured],
            "certificate": None if known is None else [known.objective, known.value, known.bound, known.covers],
            "sought": min(sought, ENDED)}
    if any(factor is None for block in cast(Any, told["blocks"]) for factor in block["factors"]):
        return  # a kind of factor that is found fast
    if sum(array.nbytes for array in arrays.values()) > LARGEST:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(file, told=np.frombuffer(json.dumps(told).encode(), dtype=np.uint8), **arrays)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _forget_old(path.parent)


def _told(factor: Factor, arrays: dict[str, Any]) -> list[object] | None:
    match factor:
        case Identity() | Total() | Prefix():
            return [type(factor).__name__, factor.size]
        case Ranges():
            return ["Ranges", factor.size, factor.lows, factor.highs]
        case Dense() if factor.matrix.dtype == np.int64:
            name = f"m{len(arrays)}"
            arrays[name] = np.ascontiguousarray(factor.matrix)
            return ["Dense", name]
        case PIdentity():
            name = f"m{len(arrays)}"
            arrays[name] = np.vstack([factor.own, factor.others])
            return ["PIdentity", name, *factor.shape]
    return None


def _forget_old(folder: Path) -> None:
    files = sorted(folder.glob("*.npz"), key=lambda file: file.stat().st_mtime)
    for file in files[: max(0, len(files) - MOST_FILES)]:
        file.unlink(missing_ok=True)


def _read(path: Path, noise: Noise, workload: Workload, targets: Array | None) -> tuple[Strategy | None, float]:
    """The strategy in a file, or None if there is none that answers the workload; and the seconds that its search took, or was
    allowed to take."""
    try:
        arrays = _arrays(path)
        told = json.loads(arrays["told"].tobytes())
        domain = workload.domain
        sizes = [size for _, size in told["domain"]]
        if sizes != list(domain.shape):
            domain = joined(workload).domain
        if sizes != list(domain.shape):
            raise ValueError("another domain")
        (block,) = told["blocks"]
        measured = Block(axes=tuple(block["axes"]), scale=block["scale"],
                         factors=tuple(_factor(part, arrays) for part in block["factors"]))
        return _checked(LeastSquares(name=str(told["name"]), domain=domain, noise=noise, measured=(measured,)),
                        told["certificate"], workload, targets), float(told["sought"])
    except Exception:  # whatever is wrong with a file, the strategy can be searched for again
        return None, 0.0


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The contents of a file: arrays of 64-bit integers, and the text. Raises ValueError, or whatever reading raises."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        known = os.fstat(handle)
        if not stat.S_ISREG(known.st_mode) or known.st_size > LARGEST or not _own(known):
            raise ValueError("not a file of dpsql")
        with zipfile.ZipFile(file) as packed:
            members = packed.infolist()
            if len(members) > MOST_ARRAYS or sum(member.file_size for member in members) > LARGEST:
                raise ValueError("it is too large")
            return {member.filename.removesuffix(".npy"): _array(packed.read(member)) for member in members}


def _own(known: os.stat_result) -> bool:
    """Whether a file belongs to this user, and nobody else may write to it. (Not all systems have users.)"""
    return not hasattr(os, "geteuid") or (known.st_uid == os.geteuid() and not known.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _array(data: bytes) -> NDArray[Any]:
    """An array in numpy's format, of one of the two types that are kept. Memory is allocated only for data that is there."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("another format")
    shape, backwards, kind = np.lib.format.read_array_header_1_0(file)
    if backwards or kind not in (np.dtype("<i8"), np.dtype("u1")) or math.prod(shape) * kind.itemsize != len(data) - file.tell():
        raise ValueError("only whole numbers are kept")
    return np.frombuffer(data, dtype=kind, offset=file.tell()).reshape(shape)


def _factor(told: Any, arrays: Mapping[str, NDArray[Any]]) -> Factor:
    kind, *rest = told
    if kind in ("Dense", "PIdentity"):
        matrix = arrays[rest[0]]
        if matrix.dtype != np.int64 or matrix.ndim != 2:
            raise ValueError("only whole numbers are measured")
        if kind == "Dense":
            return Dense(matrix)
        made = PIdentity(own=matrix[0], others=matrix[1:])
        if list(made.shape) != rest[1:]:
            raise ValueError("a row was lost")
        return made
    if kind == "Ranges":
        size, lows, highs = rest
        return Ranges(size, tuple(lows), tuple(highs))
    plain: dict[str, Callable[[int], Factor]] = {"Identity": Identity, "Total": Total, "Prefix": Prefix}
    return plain[kind](rest[0])


def _checked(found: LeastSquares, told: Any, workload: Workload, targets: Array | None) -> Strategy:
    """The strategy with its value. Raises ValueError if it does not fit the workload or does not measure it well."""
    check_blocks(found.measured, found.domain.shape)
    if not even(found):
        raise ValueError("its errors could not be computed precisely")
    variances = found.variances(workload)  # raises where a query is no combination of what is measured
    if told is None or not np.isfinite(variances).all() or not (variances > 0).all():
        raise ValueError("its errors are unknown")
    objective, _, bound, covers = told
    value = float(variances.sum() if objective == TOTAL else (variances if targets is None else variances / targets).max())
    return found.certified(OptimalityBound(objective=str(objective), value=value, bound=min(float(bound), value), covers=covers))
