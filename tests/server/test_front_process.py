"""The front is a process of its own, without handles of the data, the ledger or the policy, and without secrets in its environment."""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.vaults import knows

from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.errors import OperationalError
from dpsql.server.start.front_process import control_sockets, serve_control, start_front
from dpsql.server.vault.vault import Vault
from dpsql.trusted.kernel.ledger import Ledger

TESTS = Path(__file__).parents[1]
TRACES = pytest.mark.skipif(os.geteuid() != 0, reason="of the front, root alone sees the open files")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    worlds.world(3).save(tmp_path / "people.duckdb")
    (tmp_path / "dpsql.toml").write_text(worlds.POLICY.replace("version = 1", 'version = 1\ndatabase = "people.duckdb"', 1))
    Ledger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path


def test_a_system_without_such_sockets_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*kind: int) -> None:
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    monkeypatch.setattr("socket.socketpair", lacking)
    with pytest.raises(OperationalError, match="dpsql serve on Linux"):
        control_sockets()


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("front")


@pytest.fixture
def vault(project: Path) -> Iterator[Vault]:
    made = Vault(lambda user, database: open_session(None, project / "dpsql.toml", None, ConnectionTerms(
        analyst=user, budget="person", epsilon=1, delta=1e-6)), knows, pace=None)
    yield made
    made.close()


def front_of(vault: Vault, monkeypatch: pytest.MonkeyPatch, folder: Path) -> subprocess.Popen[bytes]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    ours, theirs = control_sockets()
    with theirs:
        process = start_front("support.front_program:ask", theirs, folder=folder, readable=[TESTS],
                              output=subprocess.PIPE, input=subprocess.PIPE)
    threading.Thread(target=serve_control, args=(ours, vault), daemon=True).start()
    return process


@pytest.mark.slow
@TRACES
def test_a_front_answers_and_holds_nothing(vault: Vault, project: Path, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = (project / "people.duckdb").open("rb")  # of which the child inherits nothing
    os.set_inheritable(kept.fileno(), True)
    with kept, front_of(vault, monkeypatch, empty) as process:
        assert process.stdout is not None and process.stdin is not None
        told: dict[str, Any] = ast.literal_eval(process.stdout.readline().decode())
        handles = [os.readlink(f"/proc/{process.pid}/fd/{name}") for name in os.listdir(f"/proc/{process.pid}/fd")]
        mapped = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
        process.stdin.close()
        assert process.wait(20) == 0
    assert [row[0] for row in told["rows"]] == ["f", "m", None]
    assert told["held"] == []
    assert not [handle for handle in handles if str(project) in handle] and str(project) not in mapped
    assert "DATABASE_PASSWORD" not in told["environment"] and told["folder"] == "/"
    assert sum(handle.startswith("socket:") for handle in handles) == 2  # the control socket, and its channel


@pytest.mark.slow
def test_a_front_that_ends_takes_nothing_with_it(vault: Vault, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with front_of(vault, monkeypatch, empty) as process:
            assert process.stdout is not None
            assert b"rows" in process.stdout.readline()
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_nobody_reads_the_memory_of_a_process_that_says_so() -> None:
    told = "import ctypes; from dpsql.server.walls.shut_in import be_unreadable as b; f = ctypes.CDLL(None).prctl; print(f(3)); b(); print(f(3))"
    made = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["1", "0"]
