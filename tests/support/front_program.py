"""A program for a front process: asks statements of an account, and tells what it found."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.vaults import PASSWORD

from dpsql.backends.duckdb import DuckReader
from dpsql.dbapi import Connection
from dpsql.kernel.ledger import Ledger
from dpsql.kernel.run import Kernel
from dpsql.server.front import Control
from dpsql.server.remote_session import open_remote_session

SEIZE = 0x4206  # to trace a process without stopping it


def ask(control: Control) -> None:
    """Answer the statements on standard output, and say what this process holds; then wait to be ended."""
    channel = control.channel()
    session = open_remote_session(channel, channel.log_in("ada", "", lambda message: PASSWORD))
    connection = Connection(session)
    rows = connection.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex").fetchall()
    held = [type(found).__name__ for found in gc.get_objects() if isinstance(found, DuckReader | Ledger | Kernel)]
    tell(rows=rows, held=held, environment=sorted(os.environ), folder=os.getcwd())
    sys.stdin.read()


def break_out(control: Control) -> None:
    """Try all that a front may not do, with the names of files on standard input, and tell which of it worked."""
    vault, files = os.getppid(), sys.stdin.readline().split()
    library, port = ctypes.CDLL(None), int(files.pop())
    tries: dict[str, Callable[[], Any]] = {
        **{f"read {Path(path).name}": lambda path=path: Path(path).read_bytes() for path in files},  # type: ignore[misc]
        **{f"change {Path(path).name}": lambda path=path: os.open(path, os.O_APPEND | os.O_WRONLY) for path in files},  # type: ignore[misc]
        "list the folder": lambda: os.listdir(Path(files[0]).parent), "remove": lambda: Path(files[0]).unlink(),
        "link": lambda: os.link(files[0], os.environ["TMPDIR"] + "/linked"),
        "rename": lambda: os.rename(files[0], os.environ["TMPDIR"] + "/renamed"),
        "make a file elsewhere": lambda: os.open(f"{files[0]}.made", os.O_CREAT | os.O_WRONLY),
        **{f"the vault's {name}": lambda name=name: Path(f"/proc/{vault}/{name}").read_bytes()  # type: ignore[misc]
           for name in ("mem", "environ", "maps")},
        "the vault's files": lambda: os.listdir(f"/proc/{vault}/fd"), "the vault's first file": lambda: os.readlink(f"/proc/{vault}/fd/0"),
        "signal the vault": lambda: os.kill(vault, 0), "trace the vault": lambda: library.ptrace(SEIZE, vault, 0, 0) == 0 or 1 / 0,
        "take a file of the vault": lambda: library.syscall(438, os.pidfd_open(vault), 0, 0) >= 0 or 1 / 0,
        "connect": lambda: socket.create_connection(("127.0.0.1", port)), "a local socket": lambda: socket.socket(socket.AF_UNIX),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)), "the terminal": lambda: os.open("/dev/tty", os.O_RDWR),
        "become root": lambda: os.setresuid(0, 0, 0) if os.getuid() else os.setgroups([7]),
        "a program in between": lambda: subprocess.run(["/bin/cat", files[0]], check=True, capture_output=True)}
    tell(worked=[name for name, attempt in tries.items() if works(attempt)], tried=len(tries))


def works(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except (OSError, ArithmeticError, subprocess.CalledProcessError):
        return False
    return True


def tell(**told: Any) -> None:
    print(told, flush=True)
