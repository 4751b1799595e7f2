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

from dpsql.frozen import Frozen


class Listening(Frozen):
    """A server that runs: its ports (that of HTTP is 0 if it is not served), the number of its process, which is the vault, and the
    lines of its log so far."""

    port: int
    http_port: int
    process: int
    log: list[str]


@contextlib.contextmanager
def serving(policy: Path, *terms: str) -> Iterator[Listening]:
    """A context in which a policy is served. `terms` are further arguments of the command, such as ``--http 127.0.0.1:0``."""
    words = [sys.executable, "-m", "dpsql.cli", "serve", "--policy", policy, "--listen", "127.0.0.1:0", *terms]
    with subprocess.Popen(words, text=True, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stderr is not None
        try:
            log = list[str]()
            for line in process.stderr:
                log.append(line)
                if found := re.match(r"serving at 127.0.0.1:(\d+);(?:.*https?://127.0.0.1:(\d+)/)?", line):
                    break
            else:
                raise AssertionError("the server ended before it listened: " + "".join(log))
            reading = threading.Thread(target=log.extend, args=(process.stderr,), daemon=True)
            reading.start()
            yield Listening(port=int(found[1]), http_port=int(found[2] or 0), process=process.pid, log=log)
            process.terminate()
            reading.join(60)
        finally:
            process.terminate()


def environment() -> dict[str, str]:
    """The environment of a process that runs this copy of dpsql."""
    return {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
