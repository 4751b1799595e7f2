"""Timing in CPU time of all threads, and tables that line up."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence

from dpsql.frozen import Frozen

os.environ.setdefault("DPSQL_STATE", "")  # data made for a benchmark are not noted as served


class Time(Frozen):
    """Seconds of one run, or the medians of several."""

    cpu: float
    wall: float


def timed(action: Callable[[], object]) -> Time:
    """CPU time of this process with all its threads, and wall time."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Time(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall)


def side_by_side(actions: Sequence[Callable[[int], object]], runs: int) -> list[Time]:
    """The median times of actions that take turns, so that a slow spell of the machine hits all of them.

    One run of each goes before and is not counted; every action is given the number of the run.
    """
    taken: list[list[Time]] = [[] for _ in actions]
    for run in range(runs + 1):
        for action, times in zip(actions, taken, strict=True):
            times.append(timed(lambda action=action, run=run: action(run)))
    return [Time(cpu=statistics.median(time.cpu for time in times[1:]), wall=statistics.median(time.wall for time in times[1:]))
            for times in taken]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def ratio(time: float, base: float) -> str:
    return f"{time / base:.2f}" if base > 0 else ""


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of text: the first column to the left, all others to the right."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    lines = [title, ""]
    for row in (heads, ["-" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
