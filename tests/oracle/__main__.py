"""The oracle without limit, from a checkout: `PYTHONPATH=.:tests python -m oracle --seconds 600 --seed 1`.

Every world and every statement follows from its numbers: `--seed 17 --statement 4` asks one again, and shows the world; name the
`--kinds` of the run where it had any. `--planted null` (days, filter, suite) plants a hole that there once was, and ends when it
is found. A small part of it is in the suite: `python -m pytest tests/oracle`.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: its threads would only wait for each other

import pytest
from oracle.faults import HOLES
from oracle.oracle import Totals, run_on
from oracle.statements import KINDS
from oracle.worlds import FIRST_NEWER, world_of

from dpsql.trusted.kernel.claims import Claims

STEP, WHOLE = 30.0, 900.0  # seconds between two lines, and between two tables


def main() -> None:
    parser = argparse.ArgumentParser(prog="oracle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=FIRST_NEWER, help="the first world")
    parser.add_argument("--stride", type=int, default=1, help="worlds are seed, seed + stride, ...")
    parser.add_argument("--statement", type=int, help="only this statement of the first world, which is shown")
    parser.add_argument("--kinds", type=lambda text: tuple(text.split(",")), default=tuple(KINDS), help="of statements")
    parser.add_argument("--planted", choices=HOLES, help="with a hole that there once was, and the kernel's checker switched off; "
                        "ends when it is found")
    parser.add_argument("--found", type=Path, help="a file to which violations are added as they are found")
    given = parser.parse_args()
    totals = Totals()
    gc.set_threshold(100_000, 20, 50)  # trees of expressions come and go; hardly any of them are rings
    if given.planted is not None:
        patch = pytest.MonkeyPatch()
        HOLES[given.planted].plant(patch)
        for method in ("summary", "relation"):
            patch.setattr(Claims, method, lambda *args, **kwargs: None)
    if given.statement is not None:
        world = world_of(given.seed)
        print(world.policy, *world.statements, sep=";\n")
        run_on(given.seed, totals, only=given.statement, kinds=given.kinds)
    start = time.monotonic()
    steps = Steps(start)
    seed = given.seed
    signal.signal(signal.SIGTERM, lambda *_: vars(given).update(seconds=0.0))  # after this world: a query that is cut would be a fault
    try:
        while given.statement is None and time.monotonic() - start < given.seconds and not (given.planted and totals.violations):
            before = len(totals.violations), len(totals.incidents), len(totals.crashed)
            run_on(seed, totals, until=start + given.seconds, kinds=given.kinds)
            _show(totals, before, given.found)
            steps.tell(totals, seed)
            seed += given.stride
    finally:
        print(f"{time.monotonic() - start:.0f} s: {totals}\n{_whole(totals)}", flush=True)
    if given.statement is not None:
        print(*totals.violations, *totals.incidents, *totals.crashed, sep="\n")


@dataclass
class Steps:
    """What is told of a run while it goes on: a line every so often, and everything seen every so many lines."""

    start: float
    lines: int = 0
    wholes: int = 0

    def tell(self, totals: Totals, seed: int) -> None:
        now = time.monotonic() - self.start
        if now > (self.lines + 1) * STEP:
            self.lines = int(now / STEP)
            rate = totals.answered / time.process_time()
            print(f"{now:.0f} s: {totals}; {rate:.1f} answered a second of work, last world {seed}", flush=True)
        if now > (self.wholes + 1) * WHOLE:
            self.wholes = int(now / WHOLE)
            print(_whole(totals), flush=True)


def _whole(totals: Totals) -> str:
    return f"refused: {totals.refused.most_common(12)}\n{totals.table()}\n{totals.breadth()}"


def _show(totals: Totals, before: tuple[int, int, int], found: Path | None) -> None:
    """What a world has added: each statement's worst violation, and the faults."""
    lines, seen = [], set()
    for violation in sorted(totals.violations[before[0]:], key=lambda one: -one.move.share):
        if (violation.number, violation.kind) not in seen:
            seen.add((violation.number, violation.kind))
            lines.append(f"VIOLATION after {totals.answered} answered: {violation}")
    lines += [f"INCIDENT on all: {line}" for line in totals.incidents[before[1]:]]
    lines += [f"CRASHED, uncharged: {line}" for line in totals.crashed[before[2]:]]
    for line in lines:
        print(line, flush=True)
    if found is not None and lines:
        with found.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
