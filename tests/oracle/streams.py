"""Streams without limit, from a checkout: `PYTHONPATH=.:tests python -m oracle.streams --seconds 600 --seed 1`.

Every stream follows from its number: `--only 17` runs one again, and shows its policy, its rows and what was asked. A part of them is
in the suite: `python -m pytest tests/oracle/test_streams.py`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: its threads would only wait for each other
os.environ["DPSQL_CACHE"] = os.environ["DPSQL_STATE"] = ""  # nothing is left on this machine, or found there

from oracle.stream_events import Ask, Changed, Stream, stream_of  # noqa: E402
from oracle.stream_law import Found, examine  # noqa: E402

SHOWN = 3  # violations of a stream


def main() -> None:
    parser = argparse.ArgumentParser(prog="oracle.streams", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the first stream")
    parser.add_argument("--stride", type=int, default=1, help="streams are seed, seed + stride, ...")
    parser.add_argument("--only", type=int, help="only this stream, which is shown")
    parser.add_argument("--statements", type=int, default=40, help="of each stream")
    parser.add_argument("--replays", type=int, default=1, help="people in a period, or in all, without whom a stream is run anew")
    parser.add_argument("--often", default="", help="kinds of statements, separated by commas, of which most are")
    given = parser.parse_args()
    often = [*filter(None, given.often.split(","))]
    found, start, seed = Found(), time.monotonic(), given.seed if given.only is None else given.only
    if given.only is not None:
        _show(stream_of(seed, given.statements, often))
    while True:
        before, worked = len(found.broken), time.process_time()
        examine(seed, found, stream=stream_of(seed, given.statements, often), replays=given.replays)
        print(f"stream {seed}: {time.process_time() - worked:.1f} s of work, {len(found.broken) - before} broken", flush=True)
        for broken in found.broken[before:before + SHOWN]:
            print(f"VIOLATION {broken}", flush=True)
        seed += given.stride
        if given.only is not None or time.monotonic() - start > given.seconds:
            break
    print(f"{found}; {time.process_time() / max(1, found.statements):.2f} s of work a statement\nanswered, by kind: {found.kinds}")
    for fault, times in Counter(found.faults).most_common(20):
        print(f"FAULT, {times} times: {fault}")


def _show(stream: Stream) -> None:
    print(stream.world.policy)
    for event in stream.events:
        match event:
            case Ask():
                print(f"{event.analyst}: {event.asked.text}")
            case Changed():
                print(*(f"    {name}: {rows}" for name, rows in event.state.items()), sep="\n")
            case _:
                print(event)


if __name__ == "__main__":
    main()
