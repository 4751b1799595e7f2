"""What the client, the front and the vault say to each other when a client proves that it knows a password.

The exchange is SCRAM-SHA-256, with channel binding where there is TLS: then a man in the middle with a certificate of their own
cannot pass the proof on. The front passes the messages on, and the vault checks them (`password_proofs`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from dpsql.extras import extra
from dpsql.frozen import Frozen

PLAIN, BOUND = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
BINDING = "tls-server-end-point"
WRONG, MALFORMED = "login", "login-message"  # codes of the vault's errors: a wrong proof, and what is none
UNPROVEN = "sign-on"  # the same of a sign-on elsewhere that failed


class NotProven(Exception):
    """The client did not prove that it knows the password, or sent what is no message of SCRAM (`malformed`)."""

    def __init__(self, *, malformed: bool = False) -> None:
        super().__init__()
        self.malformed = malformed


class FirstProof(Frozen):
    """The first message of a client that logs in by SCRAM, the mechanism that it chose, and whether its connection is encrypted
    with a certificate to which a proof can be bound."""

    mechanism: str
    message: bytes
    bound: bool

    def as_bytes(self) -> bytes:
        return json.dumps([self.mechanism, base64.b64encode(self.message).decode("ascii"), self.bound]).encode()

    @classmethod
    def of_bytes(cls, data: bytes) -> FirstProof:
        """Read a message. Raises ValueError for anything that `as_bytes` did not write."""
        match json.loads(data):
            case [str(mechanism), str(message), bool(bound)]:
                return cls(mechanism=mechanism, message=base64.b64decode(message, validate=True), bound=bound)
        raise ValueError("this is not a first message")


def library() -> Any:
    """The scramp module. Raises InterfaceError if it is not installed."""
    return extra("scramp", "server")


def can_bind(certificate: str) -> bool:
    """Whether clients can bind their proof to this certificate, in PEM. They cannot if its signature has no hash, as with
    Ed25519."""
    scramp = library()
    try:
        scramp.ScramMechanism(BOUND).make_server(lambda _: None, channel_binding=(BINDING, certificate))
    except scramp.ScramException:
        return False
    return True


def mechanisms(certificate: str | None) -> Sequence[str]:
    return [PLAIN] if certificate is None else [BOUND, PLAIN]
