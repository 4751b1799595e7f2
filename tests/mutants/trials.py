"""Tests of a process that has imported everything, each trial in a copy of it: which lines they reach, and which mutants they kill."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.runner import call_and_report
from mutants.mutations import NONE, ROOT, Mutant
from mutants.planted import import_anew, note_lines, plant, unchanged

from dpsql.frozen import replace

ANEW = "imported anew"
LONG = 60  # seconds after which a test of ours hangs
EACH = 30.0  # seconds of a processor in which as many tests of a file are run as there is time for, to see which lines they reach


@dataclass
class Reached:
    """By test: how long it takes, which lines it reaches, and whether it passes; and what is imported in the end."""

    seconds: dict[str, float] = field(default_factory=dict)
    setting_up: dict[str, float] = field(default_factory=dict)
    lines: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    def add(self, other: Reached) -> None:
        self.seconds |= other.seconds
        self.setting_up |= other.setting_up
        self.failed += other.failed
        self.modules += [name for name in other.modules if name not in {*self.modules}]
        for place, tests in other.lines.items():
            self.lines[place] += tests


def passes(item: pytest.Item, after: pytest.Item | None) -> tuple[bool, float, float]:
    """Whether a test passes, and for how long it kept a processor before it was called, and from then on."""
    item._initrequest()  # type: ignore[attr-defined]
    start, reports, steps = time.process_time(), [], list[float]()
    for when in ("setup", "call", "teardown"):
        if when != "call" or reports[-1].passed:
            reports.append(call_and_report(item, when, log=False, **({"nextitem": after} if when == "teardown" else {})))  # type: ignore[arg-type]
        steps.append(time.process_time())
    item._request = False  # type: ignore[attr-defined]
    item.funcargs = None  # type: ignore[attr-defined]
    return not any(report.failed for report in reports), steps[0] - start, steps[-1] - steps[0]


def forked(work: Callable[[], int], seconds: float) -> str:
    """How a copy of this process ends that does some work: 'survived', 'killed', 'timed out' or 'crashed'. Seconds are those of a
    processor, of which others may take the larger part."""
    folder = tempfile.mkdtemp(prefix="trial")
    child = os.fork()
    if child == 0:
        ended = 3
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.alarm(round(20 * seconds))  # for what waits
            tempfile.tempdir = os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            ended = work()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(ended)
    with contextlib.suppress(OSError):
        os.setpgid(child, child)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what the tests have started and not ended
    shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(status):
        return "timed out" if os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM) else "crashed"
    return {0: "survived", 1: "killed"}.get(os.WEXITSTATUS(status), "crashed")


def reach(items: Sequence[pytest.Item], files: Sequence[str], kept: Path, *, workers: int, told: Callable[[str], None]) -> Reached:
    """Run tests once in copies of this process, one for each file of tests. What a file reaches is kept in a folder until the file
    or the code changes."""
    by_file = defaultdict(list)
    for item in items:
        by_file[item.path].append(item)
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((ROOT / "dpsql").rglob("*.py"))))
    places = {}
    for path, some in by_file.items():
        digest = code.copy()
        digest.update(path.read_bytes() + "".join(item.nodeid for item in some).encode())
        places[path] = kept / f"{path.stem}-{digest.hexdigest()[:16]}"
    missing = sorted((path for path, place in places.items() if not place.exists()), key=lambda path: -len(by_file[path]))
    children = []
    for at in range(workers):
        child = os.fork()
        if child == 0:
            try:
                seen = note_lines(files)
                for done, path in enumerate(mine := missing[at::workers]):
                    told(f"lines that are executed by {path.name}, {done + 1} of {len(mine)}")
                    places[path].write_bytes(pickle.dumps(_reach(by_file[path], seen)))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    whole = Reached()
    for place in places.values():
        if place.exists():
            whole.add(pickle.loads(place.read_bytes()))
    return whole


def _reach(left: list[pytest.Item], seen: set[tuple[str, int]]) -> Reached:
    whole = Reached()
    while left:
        with tempfile.NamedTemporaryFile(suffix=".reached") as kept:
            ended = forked(lambda: _reached(left, seen, Path(kept.name)), LONG)  # noqa: B023 - used at once
            found = _loaded(Path(kept.name))
        whole.add(found)
        left = [item for item in left if item.nodeid not in found.seconds]
        if ended == "survived":
            break
        if left:
            whole.failed.append(left.pop(0).nodeid)  # which hangs, or ends the process
    return whole


def _loaded(path: Path) -> Reached:
    found = Reached()
    with path.open("rb") as file, contextlib.suppress(EOFError):
        while True:
            name, passed, setting, calling, lines, modules = pickle.load(file)
            found.seconds[name], found.setting_up[name] = calling, setting
            found.failed += [] if passed else [name]
            found.modules += modules
            for place in lines:
                found.lines[place].append(name)
    return found


def _reached(items: Sequence[pytest.Item], seen: set[tuple[str, int]], path: Path) -> int:
    known, start = set(sys.modules), time.process_time()
    with path.open("wb") as file:
        for item, after in zip(items, [*items[1:], None], strict=True):
            seen.clear()
            passed, setting, calling = passes(item, after)
            modules, known = sorted(set(sys.modules) - known), set(sys.modules)
            pickle.dump((item.nodeid, passed, setting, calling, seen, modules), file)
            file.flush()
            if time.process_time() - start > EACH:
                break
    return 0


def trial(mutant: Mutant, items: Sequence[pytest.Item], seconds: float) -> tuple[str, str]:
    """How a mutant fares with some tests, and which of them failed."""
    with tempfile.NamedTemporaryFile(suffix=".test") as told:
        work = _anew if mutant.at_import else _swapped
        unchanged(mutant.path)  # compiled once, before any copy is made
        ended = forked(lambda: work(mutant, items, Path(told.name)), seconds)
        by = Path(told.name).read_text(encoding="utf-8").strip()
        if ended != "survived" and by.startswith(ANEW) and forked(
                lambda: _anew(replace(mutant, number=NONE), items, Path(told.name)), seconds) != "survived":
            return "not tried", "these tests fail when all is imported a second time"
        return ended, by


def _swapped(mutant: Mutant, items: Sequence[pytest.Item], told: Path) -> int:
    if not plant(mutant):
        return _anew(mutant, items, told)
    for item, after in zip(items, (*items[1:], None), strict=True):
        told.write_text(item.nodeid, encoding="utf-8")
        passed, _, _ = passes(item, after)
        if not passed:
            return 1
    told.write_text("", encoding="utf-8")
    return 0


def _anew(mutant: Mutant, items: Sequence[pytest.Item], told: Path) -> int:
    import_anew(mutant)
    told.write_text(ANEW, encoding="utf-8")
    names = [f"{ROOT / item.nodeid}" for item in items]
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        code = pytest.main(["-x", "-q", "-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:xdist", "-p",
                            "no:rerunfailures", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), *names])
    told.write_text(ANEW if code else "", encoding="utf-8")
    return int(code != 0)
