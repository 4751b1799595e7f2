"""Processes that run `dpsql publish` on any day, and may be killed: forked from one that has loaded the program, so at once."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

PROGRAM = """
import datetime as dt, json, os, sys
import duckdb, numpy, opendp.prelude
from dpsql import cli
from dpsql.answers import published_series, replaced_files, series_page
from dpsql.catalog import growing
from dpsql.cli import publish_command
from dpsql.engine import publishing
for line in sys.stdin:
    day, *words = json.loads(line)
    child = os.fork()
    if child == 0:
        growing.today = lambda: dt.date.fromisoformat(day)
        os.dup2(2, 1)  # standard output is for the test
        os._exit(cli.main(words))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Publishers:
    """A process that starts publishers, one after another."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, day: dt.date, policy: Path, out: Path) -> int:
        """Start one; returns the number of its process."""
        assert self._process.stdin is not None
        words = ["publish", "--policy", str(policy), "--budget", "study", "--analyst", "ada", "--out", str(out)]
        self._process.stdin.write(json.dumps([day.isoformat(), *words]) + "\n")
        self._process.stdin.flush()
        return self._told()

    def ended(self) -> int:
        """Wait for it; returns its exit code."""
        return self._told()

    def run(self, day: dt.date, policy: Path, out: Path) -> int:
        self.start(day, policy, out)
        return self.ended()

    def killed(self, day: dt.date, policy: Path, out: Path, seconds: float) -> bool:
        """Start one and kill it after some time; whether it had not ended by then."""
        number = self.start(day, policy, out)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        return self.ended() == -signal.SIGKILL

    def _told(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def publishers() -> Iterator[Publishers]:
    """A context with such a process, which ends with it."""
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=here)
    try:
        yield Publishers(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def moments(number: int, longest: float, seed: int) -> Sequence[float]:
    """Random moments within a run."""
    drawn = random.Random(seed)
    return [drawn.uniform(0, longest) for _ in range(number)]
