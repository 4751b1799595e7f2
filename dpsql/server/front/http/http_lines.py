"""Heads of requests in which every line ends with CR LF and none is folded.

RFC 9112 allows a server to take LF alone for the end of a line, and to join a line that begins with a space to the one before it.
h11 does both, and neither it nor uvicorn has an option to forbid it. A proxy that reads such a head in another way sees other
headers, or another number of requests, than this server; so these heads are refused with 400. The lines of heads and trailers
are checked where h11 splits them, because only h11 knows where a body ends.
"""

from __future__ import annotations

import re

import h11
from h11._receivebuffer import ReceiveBuffer

_LOOSE = re.compile(rb"(?<!\r)\n|\n[ \t]|\r(?!\n)")  # LF alone; a folded line; CR alone


class StrictLines(ReceiveBuffer):
    """The buffer of a connection. A connection gets it before its first byte."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """See `ReceiveBuffer`. Raises LocalProtocolError, which h11 reports as a mistake of the client."""
        before = bytes(self)
        lines = super().maybe_extract_lines()
        if lines is not None and _LOOSE.search(before, 0, len(before) - len(self)) is not None:
            raise h11.LocalProtocolError("lines end with CR LF, and are not folded", error_status_hint=400)
        return lines
