"""Forge a million requests, from a checkout: `PYTHONPATH=.:tests python -m forging --mutants 1000000`.

Every forgery follows from its number: `--number 4711` makes one again, and shows it. `--wire` sends so many more to a vault in a
process of its own. A small part is in the suite: `python -m pytest tests/forging`.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import resource
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: its threads would only wait for each other

import numpy as np
from forging.corpus import recorded
from forging.forging import SECOND, Forging, Totals, honest
from forging.watched import replaced
from forging.wire import Wire, serve

STEP = 60.0  # seconds between two lines
MEMORY = 16 * 2**30  # bytes of addresses that a process may take, far more than it uses: what needs more is a fault


def main() -> None:
    parser = argparse.ArgumentParser(prog="forging", description=__doc__)
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--wire", type=int, default=0, help="so many more to a vault in a process of its own")
    parser.add_argument("--unchecked", action="store_true", help="begin at once: do not ask the real requests first")
    parser.add_argument("--number", type=int, help="only this one, which is shown")
    parser.add_argument("--vault", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    np.seterr(all="ignore")
    if given.vault is not None:
        serve(given.vault, given.folder)
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if given.number is not None:
        _show(given.number)
        return
    start = time.monotonic()
    totals = _shared(given.first, given.mutants, given.processes, checked=not given.unchecked)
    print(f"{time.monotonic() - start:.0f} s: {totals}\n{totals.breadth()}", *totals.bad(), sep="\n", flush=True)
    failed = bool(totals.bad())
    if given.wire:
        over = Totals()
        with replaced(), Wire(Forging(recorded())) as wire:
            wire.run(range(given.first, given.first + given.wire), over)
        print(f"over the wire, {over}", *over.bad(), sep="\n")
        failed = failed or bool(over.bad())
    sys.exit(failed)


def _shared(first: int, number: int, processes: int, *, checked: bool) -> Totals:
    """The forgeries of several processes together. Each has every so manyth of them."""
    children: list[tuple[int, Any]] = []
    for at in range(processes):
        theirs, ours = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(theirs)
            try:
                found = _run(range(first + at, first + number, processes), f"process {at}", checked=checked and not at)
                with os.fdopen(ours, "wb") as told:
                    pickle.dump(found, told)
            finally:
                os._exit(0)
        os.close(ours)
        children.append((child, os.fdopen(theirs, "rb")))
    totals = Totals()
    for child, told in children:
        data = told.read()
        os.waitpid(child, 0)
        if not data:
            raise RuntimeError("a process ended before its forgeries did; its last line says where")
        totals.join(pickle.loads(data))
    return totals


def _run(numbers: range, name: str, *, checked: bool) -> Totals:
    totals, start, last = Totals(), time.monotonic(), time.monotonic()
    with replaced():
        forging = Forging(recorded())
        for line in honest(forging) if checked else ():
            print(f"NOT FORGED, and yet: {line}", flush=True)

        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 20, 50)  # trees of plans come and go; hardly any of them are rings

        def told(number: int, totals: Totals) -> None:
            nonlocal last
            if time.monotonic() - last > STEP:
                last = time.monotonic()
                print(f"{name}, {last - start:.0f} s, up to {number}: {totals}; {totals.forged / time.process_time():.0f} a second of work",
                      *totals.bad(), sep="\n    ", flush=True)

        forging.run(numbers, totals, told)
    return totals


def _show(number: int) -> None:
    with replaced():
        forging = Forging(recorded())
        forgery = forging.forger.forgery(number)
        verdict = forging.verdict(forgery, number, second=number % SECOND == 0)
        print(f"{forgery.base.text}\n\n{forgery.base.request!r:.5000}\n\n{forgery.what}\n\n{forgery.request!r:.5000}\n\n{verdict}")


if __name__ == "__main__":
    main()
