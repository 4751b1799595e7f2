"""The table of all mechanisms, after the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.strength import HEAD, Strength

LINES = "strengths"


@pytest.fixture
def told(record_property: Any) -> Iterator[list[Strength]]:
    """What a test puts here is in the table."""
    found: list[Strength] = []
    yield found
    for strength in found:
        record_property(LINES, strength.line())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    lines = [line for reports in terminalreporter.stats.values() for report in reports
             if getattr(report, "when", "") == "teardown" or hasattr(report, "user_properties")
             for name, line in getattr(report, "user_properties", ()) if name == LINES]
    if lines:
        terminalreporter.section("lower bounds of privacy loss, at 99.9 %")
        for line in (HEAD, *dict.fromkeys(lines)):
            terminalreporter.write_line(line)
