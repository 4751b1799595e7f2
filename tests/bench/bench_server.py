"""A server of dpsql in processes of its own, for benchmarks."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def serving(policy: Path) -> Iterator[tuple[int, int]]:
    """A context in which a policy is served: the port, and the number of the server's process, which is the vault."""
    paths = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with subprocess.Popen([sys.executable, "-m", "dpsql.cli", "serve", "--policy", policy, "--listen", "127.0.0.1:0"], text=True,
                          stderr=subprocess.PIPE, env=paths) as process:
        assert process.stderr is not None
        try:
            said = next((line for line in process.stderr if line.startswith("serving at ")), "")
            found = re.match(r"serving at 127.0.0.1:(\d+);", said)
            assert found is not None, "the server ended before it listened"
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(found[1]), process.pid
        finally:
            process.terminate()
