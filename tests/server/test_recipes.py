"""The service and the image of the guide: systemd takes the unit, and both are of the commands and the times that there are."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from support.pages import blocks

from dpsql.cli import server_commands
from dpsql.guides import page
from dpsql.server.front.wire.server_limits import ServerLimits

UNIT, = (block.text for block in blocks(page("server")) if "[Service]" in block.text)
IMAGE, = (block.text for block in blocks(page("server")) if block.language == "dockerfile")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    (tmp_path / "dpsql.service").write_text(UNIT.replace("/opt/dpsql/bin/dpsql", "/bin/true"), encoding="utf-8")
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "dpsql.service"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0 and "dpsql.service" not in said.stderr, said.stderr


def test_stopping_has_its_time() -> None:
    needed = ServerLimits().stop_seconds + 5
    seconds, = (int(line.partition("=")[2]) for line in UNIT.splitlines() if line.startswith("TimeoutStopSec="))
    assert needed < seconds and f"--time {seconds}" in page("server")


@pytest.mark.parametrize("command", [
    next(line for line in UNIT.replace("\\\n", " ").splitlines() if line.startswith("ExecStart=")).partition("bin/dpsql ")[2],
    " ".join(" ".join(eval(line.partition(" ")[2])) for line in IMAGE.splitlines() if line.startswith(("ENTRYPOINT", "CMD"))).removeprefix("dpsql ")])
def test_the_commands_are_those_that_there_are(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from dpsql.cli import main

    monkeypatch.setattr(server_commands, "_policy", lambda options: pytest.fail("reached"))
    with pytest.raises(pytest.fail.Exception, match="reached"):
        main(shlex.split(command))


def test_the_service_manager_is_told_when_clients_can_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        server_commands._say_ready(False, ("127.0.0.1", 5433))
        assert manager.recv(100) == b"READY=1"
    server_commands._say_ready(False, ("127.0.0.1", 5433))  # nobody listens any more
