"""The front process: a fresh interpreter that parses what analysts send, and has no handle of rows, ledger or policy.

The vault starts it shut in (`shut_in`), with one open socket, the *control* socket, on which it asks for channels and has
statements interrupted:

    python -m dpsql.server.front.control FD MODULE:FUNCTION

The function, which the vault names, is called with a `Control` and serves until it is done.
"""

from __future__ import annotations

import functools
import importlib
import json
import socket
import sys
import threading

from dpsql.errors import OperationalError
from dpsql.server.front.statements.remote_session import VaultChannel
from dpsql.server.link.vault_calls import MOST_ASKED, gone
from dpsql.server.walls.call_filter import filter_of_programs
from dpsql.server.walls.shut_in import be_unreadable, filter_calls


class Control:
    """The front's end of the control socket. Safe with threads."""

    def __init__(self, vault: socket.socket) -> None:
        self._vault, self._turn = vault, threading.Lock()

    def channel(self) -> VaultChannel:
        """A new channel, which waits for a login. Raises OperationalError if there are too many."""
        with self._turn:
            self._vault.send(json.dumps({"channel": None}).encode())
            answer, handles, _, _ = socket.recv_fds(self._vault, MOST_ASKED, 1)
        if not answer:
            raise gone()
        number = json.loads(answer)["channel"]
        if number is None:
            raise OperationalError("too many analysts are connected", code="busy", try_="connecting later")
        return VaultChannel(socket.socket(fileno=handles[0]), functools.partial(self._interrupt, number))

    def ready(self) -> None:
        """Report that clients are accepted, and that SIGTERM is handled."""
        with self._turn:
            self._vault.send(json.dumps({"ready": None}).encode())

    def _interrupt(self, number: int, statement: int, cause: str, if_free: bool) -> None:
        """Have a statement of a channel stop, by its number, if it runs; with `if_free`, only if it is not charged yet. Does not
        wait for that."""
        with self._turn:
            self._vault.send(json.dumps({"interrupt": [number, statement, cause, if_free]}).encode())


def main(arguments: list[str]) -> None:
    be_unreadable()
    if (calls := filter_of_programs()) is not None:
        filter_calls(calls)  # the front was run in the place of another program, and runs none itself
    handle, program = arguments
    module, _, function = program.partition(":")
    getattr(importlib.import_module(module), function)(Control(socket.socket(fileno=int(handle))))


if __name__ == "__main__":
    main(sys.argv[1:])
