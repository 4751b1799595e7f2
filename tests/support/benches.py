"""Benchmarks, run as from a shell: in a process of their own, as some put readers of theirs in the place of dpsql's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def printed(script: str, *options: object) -> list[list[str]]:
    """What a script prints, as the cells of its lines."""
    ended = subprocess.run([sys.executable, PROJECT / "tests" / "bench" / script, *map(str, options)], capture_output=True, text=True,
                           check=False, env={**os.environ, "PYTHONPATH": str(PROJECT), "OPENBLAS_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stderr
    return [re.split(r" {2,}", line.strip()) for line in ended.stdout.splitlines() if line.strip()]
