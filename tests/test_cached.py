"""Values that several threads ask at the same time."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property

ROOT = Path(__file__).parents[1]


class Left(Frozen, kw_only=False):
    meets: Callable[[], None]
    right: Right | None = None

    @cached_property
    def value(self) -> int:
        self.meets()
        return 1 if self.right is None else 1 + self.right.value


class Right(Frozen, kw_only=False):
    meets: Callable[[], None]
    left: Left | None = None

    @cached_property
    def value(self) -> int:
        self.meets()
        return 1 if self.left is None else 1 + self.left.value


def test_threads_that_ask_in_different_orders_do_not_wait_for_each_other() -> None:
    """Each thread has values of its own, and is in one property when the other one is in the other."""
    both, nothing = threading.Barrier(2, timeout=20), lambda: None
    first = Left(meets=lambda: both.wait() and None, right=Right(meets=nothing))
    second = Right(meets=lambda: both.wait() and None, left=Left(meets=nothing))
    pool = ThreadPoolExecutor(2)
    found = [pool.submit(lambda asked=asked: asked.value) for asked in (first, second)]
    assert [one.result(timeout=20) for one in found] == [2, 2]
    assert first.__dict__["value"] == 2, "it is computed once"
    pool.shutdown()


def test_no_property_of_ours_has_a_lock() -> None:
    for path in (ROOT / "dpsql").rglob("*.py"):
        assert path.name in ("cached.py", "frozen.py") or not re.search(r"functools.*\bcached_property", path.read_text(encoding="utf-8")), path
