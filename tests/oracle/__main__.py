"""The oracle without limit, from a checkout: `PYTHONPATH=.:tests python -m oracle --seconds 600 --seed 1`.

Every world and every statement follows from its numbers: `--seed 17 --statement 4` asks one again, and shows the world; name the
`--kinds` of the run where it had any. `--planted null` (days, filter, suite) plants a hole that there once was, and ends when it
is found. A small part of it is in the suite: `python -m pytest tests/oracle`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest
from oracle.faults import HOLES
from oracle.oracle import Totals, run_on
from oracle.statements import KINDS
from oracle.worlds import world_of

from dpsql.kernel.claims import Claims

STEP = 30.0  # seconds between two lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="oracle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1, help="the first world")
    parser.add_argument("--stride", type=int, default=1, help="worlds are seed, seed + stride, ...")
    parser.add_argument("--statement", type=int, help="only this statement of the first world, which is shown")
    parser.add_argument("--kinds", type=lambda text: tuple(text.split(",")), default=tuple(KINDS), help="of statements")
    parser.add_argument("--planted", choices=HOLES, help="with a hole that there once was, and the kernel's checker switched off; "
                        "ends when it is found")
    parser.add_argument("--found", type=Path, help="a file to which violations are added as they are found")
    given = parser.parse_args()
    totals = Totals()
    if given.planted is not None:
        patch = pytest.MonkeyPatch()
        HOLES[given.planted].plant(patch)
        for method in ("summary", "relation"):
            patch.setattr(Claims, method, lambda *args, **kwargs: None)
    if given.statement is not None:
        world = world_of(given.seed)
        print(world.policy, *world.statements, sep=";\n")
        run_on(given.seed, totals, only=given.statement, kinds=given.kinds)
    start = told = time.monotonic()
    seed = given.seed
    while given.statement is None and time.monotonic() - start < given.seconds and not (given.planted and totals.violations):
        before = len(totals.violations), len(totals.incidents), len(totals.crashed)
        run_on(seed, totals, until=start + given.seconds, kinds=given.kinds)
        _show(totals, before, given.found)
        if time.monotonic() - told > STEP:
            told = time.monotonic()
            print(f"{told - start:.0f} s: {totals}", flush=True)
        seed += given.stride
    print(f"{time.monotonic() - start:.0f} s: {totals}\nrefused: {totals.refused.most_common(12)}\n{totals.table()}")
    if given.statement is not None:
        print(*totals.violations, *totals.incidents, *totals.crashed, sep="\n")


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
