"""What was found to hold of private files, remembered beside the ledger: a sensitivity may rest on it.

A file with one line for each fact, which only who knows the ledger's secret can write: a line is a code of the fact (HMAC-SHA256,
RFC 2104) with a key derived from the ledger's salt. So nobody who can write files but not read the ledger makes a key unique by
claiming so. A fact names the files by their place, size and time of change: to who alters a file and puts these back, as the
machine's administrator can, the promise does not extend. A file that is missing, or damaged, costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os

from dpsql.kernel.ledger import Ledger


class FactsBesideLedger:
    """The facts that are remembered beside a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._path = ledger.path.with_name(f"{ledger.path.name}.facts")
        self._key = hashlib.sha256(f"facts about files {ledger.salt}".encode()).digest()

    def known(self, fact: str) -> bool:
        """Whether a fact was kept."""
        code = self._code(fact)
        with contextlib.suppress(OSError):
            lines = self._path.read_bytes().split(b"\n")
            return any(hmac.compare_digest(line, code) for line in lines)
        return False

    def keep(self, fact: str) -> None:
        """Remember a fact, if the file can be written."""
        with contextlib.suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, self._code(fact) + b"\n")
            finally:
                os.close(handle)

    def _code(self, fact: str) -> bytes:
        return hmac.new(self._key, fact.encode(), hashlib.sha256).hexdigest().encode()
