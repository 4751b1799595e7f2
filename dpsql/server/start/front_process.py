"""The vault's end of the front process: it starts it, hands channels over to it, and interrupts statements when it asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import dpsql
from dpsql.errors import OperationalError
from dpsql.server.link.vault_calls import MOST_ASKED
from dpsql.server.vault.vault import Vault
from dpsql.server.walls import own_root, shut_in
from dpsql.server.walls.call_filter import filter_of_front

PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""The environment variables that the front gets from the vault; others may contain passwords of databases."""
SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/usr/share/locale",
          "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/etc/ssl/openssl.cnf", "/dev/urandom", "/dev/random",
          "/proc/self/maps", "/proc/self/status", "/proc/self/cgroup", "/proc/cpuinfo", "/proc/meminfo",
          "/sys/devices/system/cpu", "/sys/devices/system/node")
"""What programs read of the system: libraries, time zones, and how many processors and how much memory there are."""


def start_front(program: str, control: socket.socket, *, folder: Path, readable: Iterable[str | Path] = (),
                handles: tuple[int, ...] = (), input: int = subprocess.DEVNULL, output: int = subprocess.DEVNULL,
                errors: int | None = None, user: tuple[int, int] | None = None) -> subprocess.Popen[bytes]:
    """Start a sandboxed front process that runs a program, such as ``package.module:function``. It gets its end of the control
    socket, and no other open file but `handles`.

    It can read what is installed and `readable`, and write in `folder` alone, which becomes that of temporary files. With `user`,
    the numbers of a user and a group, it runs as these, which root alone can say. `input`, `output` and `errors` are as of
    `subprocess.Popen`.
    """
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    others = (path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)
    folders = [str(Path(each).absolute()) for each in (str(Path(dpsql.__file__).parents[1]), *others)]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    environment |= {"TMPDIR": str(folder), "HOME": str(folder), "DPSQL_CACHE": str(folder)}
    known = [*_installed(), *SYSTEM, *map(str, readable)]
    begun = [sys.executable, "-P", "-m", "dpsql.server.front.control", str(control.fileno()), program]
    shut = _alone(shut_in.__file__, readable=known, listed=folders, writable=str(folder), calls=filter_of_front(), command=begun)
    return subprocess.Popen(  # noqa: S603 - ourselves; without the terminal, on which it could type
        _alone(own_root.__file__, needed=[*known, "/dev/null"], writable=str(folder), user=user, command=shut), env=environment,
        cwd="/", start_new_session=True, pass_fds=(control.fileno(), *handles), close_fds=True, stdin=input, stdout=output,
        stderr=errors)


def _alone(script: str, **told: object) -> list[str]:
    """The command that runs a script of ours with the standard library alone."""
    return [sys.executable, "-I", "-S", script, json.dumps(told)]


def _installed() -> list[str]:
    """The folders of Python and of what is installed for it. A folder that holds these and other things is not among them, such
    as one with an environment in it, or one on PYTHONPATH."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {place for place in sys.path if Path(place).name in ("site-packages", "dist-packages", "lib-dynload")}
    programs = sys.executable, os.path.realpath(sys.executable)
    return sorted({str(Path(dpsql.__file__).parent), str(Path(sys.prefix) / "pyvenv.cfg"), str(Path(sys.base_prefix) / "lib"),
                   *places, *programs})


def serve_control(front: socket.socket, vault: Vault, ready: Callable[[], None] = lambda: None) -> None:
    """In the vault: answer requests of the front on the control socket until the front ends. An invalid message ends the loop.
    `ready` is called when the front reports that it accepts clients."""
    with front:
        while data := front.recv(MOST_ASKED):
            try:
                (what, which), = json.loads(data).items()
            except (ValueError, AttributeError, RecursionError):
                return
            match what, which:
                case "channel", None:
                    _hand_over(front, vault)
                case "interrupt", [int(), int(), str(), bool(if_free)]:
                    threading.Thread(target=vault.interrupt, args=which[:3], kwargs={"if_free": if_free}, daemon=True).start()
                case "ready", None:
                    ready()


def _hand_over(front: socket.socket, vault: Vault) -> None:
    made = vault.channel()
    if made is None:
        front.send(json.dumps({"channel": None}).encode())
        return
    number, theirs = made
    with theirs:
        socket.send_fds(front, [json.dumps({"channel": number}).encode()], [theirs.fileno()])


def control_sockets() -> tuple[socket.socket, socket.socket]:
    """The vault's and the front's end of a control socket, which preserves message boundaries. Raises OperationalError on systems
    without such sockets, such as macOS."""
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        raise OperationalError("this system lacks the sockets through which the two processes of a server talk",
                               code="system", try_="dpsql serve on Linux; the library and dpsql shell work here") from None
