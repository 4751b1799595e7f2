"""Strategies that are kept on disk: found again, never believed, and no matter where they cannot be kept."""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.strategies import cache, p_identity
from dpsql.strategies.all_strategies import GAUSSIAN, LAPLACE, best
from dpsql.strategies.strategy import Block, sensitivity
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Array, Identity, Prefix, Total
from dpsql.workload.workload import Product, Workload

RANGES = Workload(domain(40), (Product((AllRange(40),)),))
TABLES = Workload(domain(4, 3), (Product((Identity(4), Total(3))), Product((Prefix(4), Identity(3)))))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that keeps everything, however fast it was found."""
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTH", 0.0)
    return tmp_path / "cache" / "strategies"


@functools.cache
def found_once() -> Any:
    """What the search finds for the ranges: most of these tests are about the file."""
    return p_identity.plan(RANGES, None)


def search(*_: object) -> Any:
    return found_once()


def unused(*_: object) -> Any:
    raise AssertionError("it was to be read from the cache")


@pytest.mark.parametrize("workload", [RANGES, TABLES], ids=["ranges", "tables"])
@pytest.mark.parametrize("targets", [None, 2.5], ids=["total", "targets"])
@pytest.mark.parametrize("name", sorted(cache.KEPT))
def test_what_is_read_is_what_was_found(name: str, targets: float | None, workload: Workload, folder: Path) -> None:
    goals = None if targets is None else np.linspace(1, targets, workload.rows)
    plan = {**GAUSSIAN, **LAPLACE}[name]
    made = cache.remembered(name, workload, goals, plan)
    if not list(folder.glob("*")):
        assert not isinstance(made, cache.LeastSquares)
        return
    again = cache.remembered(name, workload, goals, unused)
    assert isinstance(made, cache.LeastSquares) and isinstance(again, cache.LeastSquares)
    assert again.measured == made.measured and again.domain == made.domain and again.noise == made.noise == cache.KEPT[name]
    assert again.certificate is not None and made.certificate is not None
    assert again.certificate.value == pytest.approx(made.certificate.value, rel=1e-12)
    assert again.certificate.ratio == pytest.approx(made.certificate.ratio, rel=1e-12)


def test_other_workloads_and_targets_are_other_files(folder: Path) -> None:
    keys = {cache.key_of("convex", RANGES, None), cache.key_of("convex", TABLES, None), cache.key_of("p-identity", RANGES, None),
            cache.key_of("convex", RANGES, np.ones(RANGES.rows)), cache.key_of("convex", RANGES, 2 * np.ones(RANGES.rows))}
    assert len(keys) == 5
    for plans in (GAUSSIAN, LAPLACE):
        best(RANGES, None, plans)
    assert len(list(folder.glob("*.npz"))) == 2 and not list(folder.glob("*.part"))
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())


def _rewrite(path: Path, **changed: Any) -> None:
    with np.load(path, allow_pickle=False) as file:
        held = {name: file[name] for name in file.files}
    np.savez_compressed(path, **{**held, **changed})


def _told(path: Path, change: Any) -> None:
    with np.load(path, allow_pickle=False) as file:
        told = json.loads(bytes(file["told"]))
    change(told)
    _rewrite(path, told=np.frombuffer(json.dumps(told).encode(), dtype=np.uint8))


def _only(folder: Path) -> Path:
    (path,) = folder.glob("*.npz")
    return path


DAMAGE: dict[str, Any] = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("what is this"),
    "floats": lambda path: _rewrite(path, m0=np.eye(40) * 0.5),
    "objects": lambda path: np.savez(path, told=np.array([object()], dtype=object), allow_pickle=True),
    "too small": lambda path: _rewrite(path, m0=np.eye(3, dtype=np.int64)),
    "one query": lambda path: _rewrite(path, m0=np.ones((1, 40), dtype=np.int64)),
    "no noise": lambda path: _told(path, lambda told: told["blocks"][0].update(scale=0.0)),
    "endless noise": lambda path: _told(path, lambda told: told["blocks"][0].update(scale=float("inf"))),
    "axes": lambda path: _told(path, lambda told: told["blocks"][0].update(axes=[1])),
    "factor": lambda path: _told(path, lambda told: told["blocks"][0].update(factors=[["Path", 40]])),
    "another domain": lambda path: _told(path, lambda told: told.update(domain=[["a", 13]])),
    "a negative entry": lambda path: _changed(path, lambda m: m.__setitem__((0, 0), -(10**6))),
    "a zero": lambda path: _changed(path, lambda m: m.__setitem__((0, 3), 0)),
    "a very thin cell": lambda path: _changed(path, lambda m: m.__setitem__((0, 3), 4)),
    "the least word": lambda path: _changed(path, lambda m: m.__setitem__((1, 1), -(2**63))),
    "words without a sign": lambda path: _rewrite(path, m0=np.ones((5, 40), dtype=np.uint64)),
    "truth values": lambda path: _rewrite(path, m0=np.ones((5, 40), dtype=bool)),
    "by columns": lambda path: _rewrite(path, m0=np.asfortranarray(np.ones((5, 40), dtype=np.int64))),
    "one axis": lambda path: _rewrite(path, m0=np.ones(40, dtype=np.int64)),
    "no rows": lambda path: _rewrite(path, m0=np.ones((0, 40), dtype=np.int64)),
    "three axes": lambda path: _rewrite(path, m0=np.ones((2, 40, 1), dtype=np.int64)),
    "more than it may hold": lambda path: np.savez_compressed(path, told=np.zeros(2**27, dtype=np.uint8)),
    "a shape that is not there": lambda path: _boasted(path, (2**40, 2**20)),
    "many arrays": lambda path: _rewrite(path, **{f"x{i}": np.zeros(1, dtype=np.int64) for i in range(100)}),
    "a pickle": lambda path: path.write_bytes(pickle.dumps(Bomb())),
    "a pickled array": lambda path: np.savez(path, told=np.array([Bomb()], dtype=object), allow_pickle=True),
    "deep text": lambda path: _rewrite(path, told=np.frombuffer(b"[" * 10**5, dtype=np.uint8)),
    "text of another kind": lambda path: _rewrite(path, told=np.frombuffer(b"[1, 2]", dtype=np.uint8)),
    "a link": lambda path: (path.rename(path.with_suffix(".old")), path.symlink_to(path.with_suffix(".old"))),
    "a link to nothing": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "writable by all": lambda path: path.chmod(0o666),
    "two blocks": lambda path: _told(path, lambda told: told.update(blocks=told["blocks"] * 2)),
    "noise that is true": lambda path: _told(path, lambda told: told["blocks"][0].update(scale=True)),
    "noise that is no number": lambda path: _told(path, lambda told: told["blocks"][0].update(scale=float("nan"))),
    "an axis twice": lambda path: _told(path, lambda told: told["blocks"][0].update(axes=[0, 0], factors=told["blocks"][0]["factors"] * 2)),
    "half an axis": lambda path: _told(path, lambda told: told["blocks"][0].update(axes=[0.5])),
    "a size that is none": lambda path: _told(path, lambda told: told["blocks"][0].update(factors=[["Identity", True]])),
    "a very long range": lambda path: _told(path, lambda told: told["blocks"][0].update(factors=[["Ranges", 40, [0], [10**30]]])),
}


class Bomb:
    """Where it is unpickled, somebody else's code runs."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise SystemExit("code of a file was run")


def _changed(path: Path, change: Any) -> None:
    with np.load(path, allow_pickle=False) as file:
        matrix = file["m0"].copy()
    change(matrix)
    _rewrite(path, m0=matrix)


def _boasted(path: Path, shape: tuple[int, ...]) -> None:
    """An array whose head tells of more than there is."""
    with zipfile.ZipFile(path) as packed:
        held = {name: packed.read(name) for name in packed.namelist()}
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<i8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in {**held, "m0.npy": head.getvalue() + b"0" * 800}.items():
            packed.writestr(name, data)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_found_anew(damage: Any, folder: Path) -> None:
    made = cache.remembered("p-identity", RANGES, None, search)
    damage(_only(folder))
    asked = []

    def searched(workload: Workload, targets: Array | None) -> Any:
        asked.append(workload)
        return search(workload, targets)

    again = cache.remembered("p-identity", RANGES, None, searched)
    assert asked == [RANGES]
    assert isinstance(again, cache.LeastSquares) and isinstance(made, cache.LeastSquares) and again.measured == made.measured
    assert cache.remembered("p-identity", RANGES, None, unused) == again  # the file is whole again


def test_tampering_costs_accuracy_and_never_privacy(folder: Path) -> None:
    """What is measured with a tampered strategy costs what its integers cost, and its errors are told as they are."""
    made = cache.remembered("p-identity", RANGES, None, search)
    path = _only(folder)
    with np.load(path, allow_pickle=False) as file:
        matrix = file["m0"].copy()
    matrix[0] *= 50
    _rewrite(path, m0=matrix)
    again = cache.remembered("p-identity", RANGES, None, unused)
    assert isinstance(again, cache.LeastSquares) and isinstance(made, cache.LeastSquares)
    block = Block(axes=(0,), factors=(again.measured[0].factors[0],), scale=again.measured[0].scale)
    assert again.sensitivity == sensitivity([block], "laplace") and again.sensitivity.value > 5 * made.sensitivity.value
    assert again.certificate is not None and made.certificate is not None
    assert again.certificate.value == pytest.approx(float(again.variances(RANGES).sum())) and again.certificate.value > made.certificate.value


def test_a_boast_is_no_better_than_the_truth(folder: Path) -> None:
    cache.remembered("p-identity", RANGES, None, search)

    def boast(told: Any) -> None:
        told["certificate"][1] = 1e-9  # its value
        told["certificate"][2] = 1e9  # the bound

    _told(_only(folder), boast)
    again = cache.remembered("p-identity", RANGES, None, unused)
    assert isinstance(again, cache.LeastSquares) and again.certificate is not None
    assert again.certificate.value == pytest.approx(float(again.variances(RANGES).sum())) and again.certificate.ratio == 1


@pytest.mark.parametrize("made", ["file", "unwritable", "none"])
def test_where_nothing_can_be_kept_strategies_are_found(made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WORTH", 0.0)
    place = tmp_path / "place"
    if made == "file":
        place.write_text("")  # a folder cannot be made below it
    if made == "unwritable":
        place.mkdir()
        monkeypatch.setattr(cache.tempfile, "mkstemp", _refusing)
    monkeypatch.setenv("DPSQL_CACHE", "" if made == "none" else str(place))
    found = cache.remembered("p-identity", RANGES, None, search)
    assert isinstance(found, cache.LeastSquares)
    assert not place.is_dir() or not list(place.rglob("*.npz"))


def _refusing(*_: object, **__: object) -> Any:
    raise PermissionError("read only")


def test_the_folder_is_where_users_keep_such_things(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPSQL_CACHE", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "strategies"
    monkeypatch.delenv("DPSQL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder() == tmp_path / "xdg" / "dpsql" / "strategies"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache.sys, "platform", "linux")
    assert cache.cache_folder() == tmp_path / "home" / ".cache" / "dpsql" / "strategies"


def test_few_files_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 2)
    for size in (4, 5, 6):
        workload = Workload(domain(size), (Product((AllRange(size),)),))
        cache.remembered("p-identity", workload, None, p_identity.plan)
        for path in folder.glob("*.npz"):
            os.utime(path, (path.stat().st_atime - 10, path.stat().st_mtime - 10))
    assert len(list(folder.glob("*.npz"))) == 2
    cache.remembered("p-identity", workload, None, unused)  # the last one is there
