"""Which system user runs the front, if root starts the server.

A front that runs as root can open root's files, even without capabilities. So the default is another user: `dpsql-front` if the
owner has created it, otherwise an unused number from the range that systemd gives to services while they run. It is not `nobody`,
because other services run as that user, and some files belong to it.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
from pathlib import Path

from dpsql.errors import OperationalError

USUAL = "dpsql-front"
NUMBERS = range(61184, 65520)


def user_of_front(name: str | None) -> tuple[int, int] | None:
    """The numbers of a user and a group; None to keep those of the server, which root has to request explicitly by the name
    `root`.

    Raises OperationalError if the front cannot run as the user that is named.
    """
    if os.geteuid() != 0:
        if name is not None:
            raise OperationalError("only root can run the front as another user", code="front-user")
        return None
    try:
        found = pwd.getpwnam(USUAL if name is None else name)
    except KeyError:
        if name is None:
            return _unused()
        raise OperationalError(f"there is no user {name} of the system", code="front-user", subject=name) from None
    return None if found.pw_uid == 0 else (found.pw_uid, found.pw_gid)


def _unused() -> tuple[int, int]:
    """A number that belongs to no user, group or running process."""
    running = {owner for path in Path("/proc").glob("[0-9]*") if (owner := _owner(path)) is not None}
    first = os.getpid()  # two servers that start at the same time get different numbers
    for offset in range(len(NUMBERS)):
        number = NUMBERS[(first + offset) % len(NUMBERS)]
        if number not in running and _is_unknown(number):
            return number, number
    raise OperationalError("all user numbers are taken", code="front-user", try_="--front-user NAME")


def _owner(process: Path) -> int | None:
    with contextlib.suppress(OSError):  # it may have ended
        return process.stat().st_uid
    return None


def _is_unknown(number: int) -> bool:
    for known in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            known(number)
            return False
    return True
