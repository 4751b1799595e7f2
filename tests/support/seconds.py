"""How many seconds of a processor test functions take: measured by `pytest --measure`, and kept beside this file.

What is not in the file takes less than `LEAST`, or is new. Measure on an idle machine: a busy one measures up to twice as much.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

KEPT = Path(__file__).with_name("seconds.txt")
LEAST = 0.1
PROPERTY = "seconds of a processor"


def function_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def kept() -> dict[str, float]:
    """Seconds by function, of its longest instance."""
    lines = (line.split(" ", 1) for line in KEPT.read_text(encoding="utf-8").splitlines())
    return {function: float(seconds) for seconds, function in lines}


def keep(seconds: Mapping[str, float]) -> None:
    text = "".join(f"{found:.1f} {function}\n" for function, found in sorted(seconds.items()) if found >= LEAST)
    KEPT.write_text(text, encoding="utf-8")


class Measuring:
    """Measures each test where it is run, and keeps what was measured where it is reported."""

    def __init__(self) -> None:
        self._begun, self._found = 0.0, dict[str, float]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._begun = used()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            item.user_properties.append((PROPERTY, used() - self._begun))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            function = function_of(report.nodeid)
            found = [float(str(value)) for name, value in report.user_properties if name == PROPERTY]
            self._found[function] = max(*found, self._found.get(function, 0))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._found:
            keep({**kept(), **self._found})


def used() -> float:
    """The seconds of this process and of those that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
