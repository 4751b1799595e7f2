"""Checks a client's proof that it knows a password, by the verifier of it."""

from __future__ import annotations

from dpsql.server.link.login_messages import BINDING, NotProven, library, mechanisms
from dpsql.server.vault.passwords import Verifier


class Exchange:
    """One exchange: the client's first message, then its last. `certificate` is that of the connection, where it can be bound."""

    def __init__(self, verifier: Verifier, *, mechanism: str, certificate: str | None) -> None:
        scramp = library()
        if mechanism not in mechanisms(certificate):
            raise NotProven(malformed=True)
        binding = None if certificate is None else (BINDING, certificate)
        known = verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations
        self._fault: type[Exception] = scramp.ScramException
        self._server = scramp.ScramMechanism(mechanism).make_server(lambda _: known, channel_binding=binding)

    def challenge(self, first: bytes) -> bytes:
        """The server's first message. Raises NotProven.

        The name in the client's message is ignored, as in PostgreSQL, whose clients leave it empty; the library wants one. So it
        is given another one, and then told the message as it was, which is what the client's proof is of.
        """
        try:
            text = first.decode("utf-8")
            header, name, rest = _parts(text)
            self._server.set_client_first(f"{header}n=user,{rest}")
            self._server.client_first_bare = f"{name},{rest}"
            return str(self._server.get_server_first()).encode("ascii")
        except (self._fault, UnicodeError, ValueError):
            raise NotProven(malformed=True) from None

    def proven(self, final: bytes) -> bytes:
        """The server's last message, which proves to the client that it has the verifier. Raises NotProven."""
        try:
            self._server.set_client_final(final.decode("utf-8"))
            return str(self._server.get_server_final()).encode("ascii")
        except (self._fault, UnicodeError, ValueError):
            raise NotProven from None


def _parts(first: str) -> tuple[str, str, str]:
    """The client's first message: its header with two commas, its name, the rest. Raises ValueError."""
    flag, authorization, name, rest = first.split(",", 3)
    if not name.startswith("n="):
        raise ValueError("no name")
    return f"{flag},{authorization},", name, rest
