"""Gives the front a root of its own: a file system that contains what the front needs, and nothing else.

    python -I -S own_root.py '{"needed": [...], "writable": "...", "user": [61184, 61184], "command": [...]}'

Files outside of it cannot be opened, and their names, sizes and times cannot be read either, which Landlock does not prevent. It
holds where the system has no Landlock, too. The process gets new mount, IPC and network namespaces: it sees no other network
connection and no shared memory of others, and the sockets that it inherits go on working. It keeps its process number, and sees
its own part of /proc only.

This takes root, or a system that lets every user create namespaces, which many containers and some distributions do not. So a
child process tries it first: if that fails, or is ended by the filter of a service manager, this process is unchanged. It then
prints a warning. At the end it becomes the user that is given, and executes the command.

bubblewrap does the same. It is a program of the system, which Python images lack, and cannot keep the process that the vault
started.
"""

import ctypes
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

MOUNT, IPC, USER, NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x40000000  # CLONE_NEW*: namespaces
WITH_ALL_BELOW, BIND, PRIVATE, DETACH = 0x4000, 0x1000, 0x40000, 2
READ_ONLY, NO_SUID = 1, 2  # MOUNT_ATTR_*
SYSTEM_CALLS = {"pivot_root": {"x86_64": 155, "aarch64": 41}, "mount_setattr": {"x86_64": 442, "aarch64": 442}}
RECURSIVE, OLD = 0x8000, "/.old"


def enter(needed: list[str], writable: str) -> None:
    """Make `needed` and `writable` the whole file system of this process, at the same paths, all read-only except `writable`.
    Paths that do not exist are left out. Raises OSError or KeyError if the system refuses; some steps may have been taken by
    then."""
    links, places = _resolved([*needed, writable])
    user, group = os.geteuid(), os.getegid()
    _check(_library().unshare(MOUNT | IPC | NETWORK | (USER if user else 0)))
    if user:  # has the capabilities of the user namespace until it executes the next program
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text)
    before = os.umask(0o022)
    _mount("none", "/", None, WITH_ALL_BELOW | PRIVATE)
    _mount("none", writable, "tmpfs", 0, "mode=755")
    os.mkdir(writable + OLD)
    os.chdir(writable)
    _call("pivot_root", b".", OLD.lstrip("/").encode())
    os.chdir("/")
    for place in places:
        _bind(place)
    for link, target in links.items():
        if not os.path.lexists(link):
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
    _check(_library().umount2(OLD.encode(), DETACH))
    os.rmdir(OLD)
    _call("mount_setattr", -100, b"/", RECURSIVE, struct.pack("QQQQ", READ_ONLY | NO_SUID, 0, 0, 0), 32)
    _call("mount_setattr", -100, os.path.realpath(writable).encode(), 0, struct.pack("QQQQ", 0, READ_ONLY, 0, 0), 32)
    os.umask(before)


def _resolved(paths: list[str]) -> tuple[dict[str, str], list[str]]:
    """The symbolic links on the paths, with their targets; and the places where the paths end, without places inside others."""
    links, ends = dict[str, str](), set[str]()
    for path in filter(os.path.exists, paths):  # so that no links go in a circle
        place, parts = "/", [part for part in path.split("/") if part]
        while parts:
            here = os.path.normpath(os.path.join(place, parts.pop(0)))
            if os.path.islink(here):
                links[here] = os.readlink(here)
                parts = [*(part for part in links[here].split("/") if part), *parts]
                place = "/" if links[here].startswith("/") else place
            else:
                place = here
        ends.add(place)
    return links, sorted(end for end in ends if not any(end.startswith(f"{other}/") for other in ends if other != end))


def _bind(place: str) -> None:
    """Mount what the old root has at a place at the same place."""
    if os.path.isdir(OLD + place):
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(OLD + place, place, None, BIND | WITH_ALL_BELOW)


def become(user: int, group: int) -> None:
    """Change to a user and a group, and drop all other groups."""
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def _works(needed: list[str], writable: str) -> bool:
    """Whether a child process can have a root of its own."""
    child = os.fork()
    if not child:
        try:
            enter(needed, writable)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _mount(source: str, place: str, kind: str | None, flags: int, terms: str = "") -> None:
    _check(_library().mount(source.encode(), place.encode(), None if kind is None else kind.encode(), ctypes.c_ulong(flags),
                            terms.encode()))


def _call(name: str, *given: Any) -> None:
    number = SYSTEM_CALLS[name][os.uname().machine]
    _check(_library().syscall(ctypes.c_long(number), *(ctypes.c_long(each) if isinstance(each, int) else each for each in given)))


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "the system refused a separate root directory")


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    if sys.platform == "linux" and _works(told["needed"], told["writable"]):
        enter(told["needed"], told["writable"])
    else:
        print("warning: the process that parses what analysts send runs without a root of its own (see `dpsql help server`)",
              file=sys.stderr)
    if told["user"] is not None:
        become(*told["user"])
    try:
        os.execv(told["command"][0], told["command"])  # noqa: S606 - shut_in
    except OSError as error:
        sys.exit(f"{told['command'][0]} cannot be run: {error.strerror}")
