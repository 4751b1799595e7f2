"""A cluster of Spark on this machine: a master and two workers, each with one executor."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dpsql.frozen import Frozen


class Standalone(Frozen, kw_only=False):
    """The address of its master, what a driver has to find in its environment, and the processes of its workers."""

    master: str
    environment: dict[str, str]
    workers: list[int]

    def executors(self) -> list[int]:
        """The processes of executors that run, by worker."""
        return [child for worker in self.workers for child in children(worker)]


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """Start a cluster, and stop it."""
    port, environment = _free_port(), _environment(folder)
    master = f"spark://127.0.0.1:{port}"
    asked = [("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")]
    asked += [("worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / name), master)
              for name in ("first", "second")]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, *options in asked:
            log = (folder / f"{name}-{len(started)}.log").open("wb")
            started.append(subprocess.Popen([_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *options],
                                            env=environment, stdout=log, stderr=subprocess.STDOUT))
            log.close()
            if len(started) == 1:
                _wait_for(port)
        yield Standalone(master=master, environment=environment, workers=[process.pid for process in started[1:]])
    finally:
        for process in reversed(started):
            for child in children(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            process.kill()
            process.wait()


def children(parent: int) -> list[int]:
    """The processes that a process started and that run."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, its_parent = place.read_text().rpartition(")")[2].split()[:2]
            if int(its_parent) == parent and state != "Z":
                found.append(int(place.parent.name))
    return found


def _environment(folder: Path) -> dict[str, str]:
    conf = folder / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.executor.memory 512m\nspark.executor.cores 1\n")
    return {**os.environ, "SPARK_HOME": str(_home()), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}


def _home() -> Path:
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _wait_for(port: int, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(.2)
    raise TimeoutError
