"""Traffic of many clients, for benchmarks: the demo study with users, what the requests of each kind took and how they ended, and the
sizes of the server's processes."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench_clock import milliseconds
from bench_server import environment

from dpsql.frozen import Frozen

PASSWORD = "correct horse"


# -- a study with users


def command(*words: str | Path, said: str = "") -> str:
    """What a command of dpsql prints."""
    ended = subprocess.run([sys.executable, "-m", "dpsql.cli", *words], input=said, capture_output=True, text=True, check=False, env=environment())
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def add_user(policy: Path, name: str, *terms: str) -> None:
    command("user", "add", name, "--policy", policy, "--password-stdin", *terms, said=PASSWORD + "\n")


# -- what requests took, and how they ended


class Ended(Frozen):
    """A request: when it was sent, how long it took, and how it ended: `answered`, or a word or message that says what else."""

    kind: str
    at: float
    seconds: float
    how: str


class Requests:
    """What was asked so far, and what is being asked. Safe with threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: list[Ended] = []
        self._begun: dict[int, tuple[str, float]] = {}

    @contextlib.contextmanager
    def one(self, kind: str, told: Callable[[Exception], str]) -> Iterator[None]:
        """A context for one request. `told` says how it ended, from its exception."""
        begun, how = time.monotonic(), "answered"
        with self._lock:
            number = max(self._begun, default=0) + 1
            self._begun[number] = kind, begun
        try:
            yield
        except Exception as fault:
            how = told(fault)
        finally:
            with self._lock:
                del self._begun[number]
                self._ended.append(Ended(kind=kind, at=begun, seconds=time.monotonic() - begun, how=how))

    def ended(self, since: int = 0) -> list[Ended]:
        """All requests that have ended, but for so many of the first."""
        with self._lock:
            return self._ended[since:]

    def longest(self) -> tuple[float, str]:
        """For how many seconds the oldest request has waited that has not ended, and its kind."""
        with self._lock:
            kind, begun = min(self._begun.values(), key=lambda each: each[1], default=("", time.monotonic()))
        return time.monotonic() - begun, kind


def quantile(seconds: Sequence[float], share: float) -> float:
    """The least value that is not below this share of the values; NaN if there are none."""
    return sorted(seconds)[max(0, math.ceil(len(seconds) * share) - 1)] if seconds else math.nan


def in_milliseconds(seconds: Sequence[float], share: float) -> str:
    return milliseconds(quantile(seconds, share)) if seconds else "-"


BY_KIND = ("kind", "asked", "a second", "answered", "as meant", "refused", "p50 ms", "p95 ms", "largest ms")


def by_kind(ended: Sequence[Ended], wall: float, meant: Sequence[str]) -> list[list[str]]:
    """A line of a table for each kind of request and one for all. Requests that ended in a way that is `meant` are no refusals."""
    kinds = defaultdict(list)
    for each in ended:
        kinds[each.kind].append(each)
    return [_of_kind(name, some, wall, meant) for name, some in [*sorted(kinds.items()), ("all", list(ended))]]


def _of_kind(name: str, ended: Sequence[Ended], wall: float, meant: Sequence[str]) -> list[str]:
    taken = [each.seconds for each in ended if each.how == "answered" or each.how in meant]
    how = Counter("answered" if each.how == "answered" else "meant" if each.how in meant else "refused" for each in ended)
    return [name, f"{len(ended):,}", f"{len(ended) / wall:.1f}", *(f"{how[each]:,}" for each in ("answered", "meant", "refused")),
            *(in_milliseconds(taken, share) for share in (0.5, 0.95, 1))]


def refusals(ended: Sequence[Ended], meant: Sequence[str]) -> list[list[str]]:
    """How requests ended that were neither answered nor meant to end so, with their number, the most frequent first."""
    found = Counter((each.kind, each.how) for each in ended if each.how != "answered" and each.how not in meant)
    return [[how[:160], kind, str(number)] for (kind, how), number in found.most_common()]


# -- processes


class Size(Frozen):
    """Of a process: the megabytes of memory that are resident, the open files and sockets, and the threads."""

    megabytes: float
    files: int
    threads: int


def size_of(process: int) -> Size:
    """The size of a process. Its files are unknown, -1, where the system shows them to root alone, as it does those of a server."""
    told = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines())
    try:
        files = sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())
    except PermissionError:
        files = -1
    return Size(megabytes=int(told["VmRSS"].split()[0]) / 1024, files=files, threads=int(told["Threads"]))


def megabytes(*paths: Path) -> float:
    """The size of files, of those that exist."""
    return sum(path.stat().st_size for path in paths if path.exists()) / 2**20


class Slope(Frozen):
    """The least squares line through points: its slope, and the standard error of that."""

    slope: float
    error: float


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """Raises ValueError for fewer than three points."""
    if len(points) < 3:
        raise ValueError("a line with an error needs three points")
    x, y = ([point[at] for point in points] for at in (0, 1))
    centre, level = sum(x) / len(x), sum(y) / len(y)
    spread = sum((each - centre) ** 2 for each in x) or math.nan
    found = sum((a - centre) * (b - level) for a, b in points) / spread
    left = sum((b - level - found * (a - centre)) ** 2 for a, b in points)
    return Slope(slope=found, error=math.sqrt(left / (len(x) - 2) / spread))
