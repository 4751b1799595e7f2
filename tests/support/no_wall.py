"""Runs the next program in the place of `own_root` or `shut_in`, as the user that is asked for, without the walls of either.

Where only root can reach this Python, such as one in the home of root, its folder is made reachable for the program, and nothing
else is.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

NO_NEW_PRIVILEGES = 38  # without which only root may have a filter, as the front does
FILES, BIND, PRIVATE = 0x20000, 0x5000, 0x44000
LIBRARY = ctypes.CDLL(None, use_errno=True)


def show_python() -> None:
    """Replace the closed folder on the way to this Python by one that has nothing but the next folder on the way."""
    way = [*reversed(Path(os.path.realpath(sys.executable)).parents)]
    for closed, within in zip(way, way[1:], strict=False):
        if not closed.stat().st_mode & 1:
            assert LIBRARY.unshare(FILES) == 0
            handle = os.open(within, os.O_PATH)
            mount("none", "/", PRIVATE)
            mount("none", str(closed), 0, b"tmpfs", b"mode=755")
            within.mkdir()
            mount(f"/proc/self/fd/{handle}", str(within), BIND)
            os.close(handle)
            return


def mount(source: str, place: str, flags: int, kind: bytes | None = None, terms: bytes = b"") -> None:
    made = LIBRARY.mount(source.encode(), place.encode(), kind, ctypes.c_ulong(flags), terms)
    assert made == 0, (source, place, ctypes.get_errno())


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    if told.get("user") is not None:
        user, group = told["user"]
        show_python()
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    LIBRARY.prctl(NO_NEW_PRIVILEGES, *(ctypes.c_ulong(each) for each in (1, 0, 0, 0)))
    os.execv(told["command"][0], told["command"])  # noqa: S606
