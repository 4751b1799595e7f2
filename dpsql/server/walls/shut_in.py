"""Shuts a process in before it becomes the front: what it may open, and whom it may reach, is decided by the system.

    python -I -S shut_in.py '{"readable": [...], "listed": [...], "writable": "...", "calls": [...], "command": [...]}'

The settings are made, and then the program is run in the place of this one. Both Landlock and the filter of system calls hold for
a program and all that it starts, and Landlock for none of the threads that there were before: so nothing but the standard library
is imported here, which starts none, and the front begins shut in. This comes after `own_root`, and does not rely on it.

* *Landlock* (Linux 5.13): files outside of the lists cannot be opened, nor programs outside of them be run. Where it is newer, no
  connection of TCP is made or awaited (6.7), and no process outside is sent a signal or reached by an abstract socket (6.12). It
  also keeps the memory and the open files of processes outside, in /proc and by ptrace, from being read, for root too.
* *A filter of system calls* (`call_filter`) allows those on a list. So calls that Linux will get later are refused, too.
* No new privileges, and none of root's; no dump of memory. How many processes there may be is counted for all of a user, so that
  is not limited: it would be the vault's limit too.

This is done by calls of the system. The package landlock is in development, has no signals, and would be imported before the
walls stand.
"""

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from typing import Any

READ, LIST, WRITE = 0b1101, 0b1000, 0b0010  # to execute, to read a file, to read a folder; the last alone; to write a file
ACCESS = {1: 2**13 - 1, 2: 2**14 - 1, 3: 2**15 - 1, 5: 2**16 - 1}
"""All that Landlock decides on files, by the version that began to."""
TCP, SCOPES = 0b11, 0b11  # to bind and to connect; abstract sockets and signals
CREATE, ADD, RESTRICT, BENEATH, TELL_VERSION = 444, 445, 446, 1, 1
OF_FILES = 0xC007  # the parts of an access that a file can have: execute, write, read, truncate, devices
PARENT_ENDS, DUMPABLE, NO_NEW_PRIVILEGES, SECUREBITS = 1, 4, 38, 28
NO_ROOT = 0b11  # what is run by root has no capabilities, and this stays so
SECCOMP, ALL_THREADS = {"x86_64": 317, "aarch64": 277}, 1


def landlock_version() -> int:
    """The version of Landlock in the kernel; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(ctypes.c_long(CREATE), None, ctypes.c_long(0), ctypes.c_long(TELL_VERSION))))


def be_unreadable() -> None:
    """Prevent all users but root from reading the memory and the open files of this process, and from tracing it."""
    if sys.platform == "linux":
        _prctl(DUMPABLE, 0)


def shut_in(readable: list[str], listed: list[str], writable: str, calls: list[Any] | None) -> None:
    """Sandbox this process. In `listed` folders and their subfolders, file names can be listed, but no file can be read. Missing
    paths are left out. `calls` is the filter; None if there is none for this machine. Raises OSError if the system offers a
    protection but refuses to set it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    version = landlock_version()
    for wall, stands in (("Landlock", version), ("a filter of system calls", calls)):
        if not stands:
            print(f"warning: the process that parses what analysts send runs without {wall} (see `dpsql help server`)",
                  file=sys.stderr)
    if sys.platform != "linux":
        return
    _prctl(PARENT_ENDS, signal.SIGTERM)  # the front ends with the vault, whatever ends that
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):  # of a container whose root may little already
            _prctl(SECUREBITS, NO_ROOT)
    _prctl(NO_NEW_PRIVILEGES, 1)
    if version:
        _restrict_files(version, [*((path, READ) for path in readable), *((path, LIST) for path in listed)], writable)
    if calls is not None:
        filter_calls(calls)


def _restrict_files(version: int, known: list[tuple[str, int]], writable: str) -> None:
    access = ACCESS[max(each for each in ACCESS if each <= version)]
    attributes = struct.pack("QQQ", access, TCP, SCOPES)[:8 if version < 4 else 16 if version < 6 else 24]
    rules = _call(CREATE, attributes, len(attributes), 0)
    for path, what in [*known, (writable, access), ("/dev/null", READ | WRITE)]:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        within = what if os.path.isdir(path) else what & OF_FILES
        _call(ADD, rules, BENEATH, struct.pack("=Qi", within & access, handle), 0)
        os.close(handle)
    _call(RESTRICT, rules, 0)
    os.close(rules)


def filter_calls(program: list[Any]) -> None:
    """Apply a filter of `call_filter` to all threads of this process. Earlier filters stay in effect."""
    lines = (struct.pack("=HBBI", *line, os.getpid() if value == "pid" else value) for *line, value in program)
    code = ctypes.create_string_buffer(b"".join(lines))
    _call(SECCOMP[platform.machine()], 1, ALL_THREADS, struct.pack("HP", len(program), ctypes.addressof(code)))


def _prctl(what: int, *given: int) -> None:
    _call_of("prctl", ctypes.c_int(what), *(ctypes.c_ulong(each) for each in (*given, 0, 0, 0, 0)[:4]))


def _call(*given: Any) -> int:
    return _call_of("syscall", *(ctypes.c_long(each) if isinstance(each, int) else each for each in given))


def _call_of(name: str, *given: Any) -> int:
    found: int = getattr(ctypes.CDLL(None, use_errno=True), name)(*given)
    if found < 0:
        raise OSError(ctypes.get_errno(), "the system refused to shut the front in")
    return found


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    shut_in(told["readable"], told["listed"], told["writable"], told["calls"])
    try:
        os.execv(told["command"][0], told["command"])  # noqa: S606 - the front
    except OSError as error:
        sys.exit(f"{told['command'][0]} cannot be run: {error.strerror}")
