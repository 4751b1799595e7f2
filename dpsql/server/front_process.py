"""The vault's end of the front process: it starts it, hands channels over to it, and interrupts statements when it asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import dpsql
from dpsql.server.vault import Vault
from dpsql.server.vault_calls import MOST_ASKED

PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "DPSQL_CACHE")
"""What the front has of the vault's environment; passwords of databases may be in others."""


def start_front(program: str, control: socket.socket, *, handles: tuple[int, ...] = (), input: int = subprocess.DEVNULL,
                output: int | None = None) -> subprocess.Popen[bytes]:
    """Start a front process that runs a program, such as ``package.module:function``, with its end of the control socket and no
    other open file but `handles`. `input` and `output` are as of `subprocess.Popen`."""
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    others = (path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)
    folders = [str(Path(dpsql.__file__).parents[1]), *others]
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(folder).absolute()) for folder in folders)
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", "dpsql.server.front", str(control.fileno()), program], env=environment, cwd="/",
        pass_fds=(control.fileno(), *handles), close_fds=True, stdin=input, stdout=output)


def serve_control(front: socket.socket, vault: Vault) -> None:
    """In the vault: answer what the front asks on the control socket, until it goes. What is no message ends it."""
    with front:
        while data := front.recv(MOST_ASKED):
            try:
                asked = json.loads(data)
                what, number = next(iter(asked.items()))
            except (ValueError, AttributeError, StopIteration, RecursionError):
                return
            if what == "channel":
                _hand_over(front, vault)
            elif what == "interrupt" and type(number) is int:
                threading.Thread(target=vault.interrupt, args=(number,), daemon=True).start()


def _hand_over(front: socket.socket, vault: Vault) -> None:
    made = vault.channel()
    if made is None:
        front.send(json.dumps({"channel": None}).encode())
        return
    number, theirs = made
    with theirs:
        socket.send_fds(front, [json.dumps({"channel": number}).encode()], [theirs.fileno()])


def control_sockets() -> tuple[socket.socket, socket.socket]:
    """The vault's and the front's end of a control socket, which keeps messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
