"""Facts about private files that were verified and are stored beside the ledger: a sensitivity may rest on them.

A file with one line for each fact, which only who knows the ledger's secret can write: a line is a code of the fact (HMAC-SHA256,
RFC 2104) with a key derived from the ledger's salt. A fact may be the answer to a question about the rows, which is private: it
is written behind the codes of the question and of both together, of one length, and with a pad that only the secret and the
question tell (SHAKE-256; used once, as a question about these files has one answer). So nobody who can write files but not read
the ledger makes a key unique by claiming so. A fact names the files by their place, size and time of change: to who alters a
file and puts these back, as the machine's administrator can, the promise does not extend. A file that is missing, or damaged,
costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from collections.abc import Iterable, Sequence

from dpsql.trusted.kernel.ledger import Ledger

LONGEST = 96  # bytes of an answer
CODE = 64  # bytes of a code


class FactsBesideLedger:
    """The facts that are remembered beside a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._path = ledger.path.with_name(f"{ledger.path.name}.facts")
        self._key = hashlib.sha256(f"facts about files {ledger.salt}".encode()).digest()

    def known(self, fact: str) -> bool:
        """Whether a fact was kept before."""
        code = self._code(fact)
        with contextlib.suppress(OSError):
            lines = self._path.read_bytes().split(b"\n")
            return any(hmac.compare_digest(line, code) for line in lines)
        return False

    def keep(self, fact: str) -> None:
        """Remember a fact, if the file can be written."""
        self._write(self._code(fact))

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, line + b"\n")
            finally:
                os.close(handle)

    def recall(self, question: str) -> str | None:
        """The answer that was kept for a question; None if there is none."""
        return self.recall_each([question])[0]

    def recall_each(self, questions: Sequence[str]) -> list[str | None]:
        """The answers that were kept for questions, or None, after reading the file once."""
        lines: dict[bytes, list[bytes]] = {}
        with contextlib.suppress(OSError):
            for line in self._path.read_bytes().split(b"\n"):
                lines.setdefault(line[:CODE], []).append(line)
        return [self._answer(question, lines.get(self._code(f"asked {question}"), ())) for question in questions]

    def _answer(self, question: str, lines: Iterable[bytes]) -> str | None:
        """The answer to a question in the lines that begin with its code."""
        with contextlib.suppress(ValueError):
            for line in lines:
                _, code, hidden = line.split(b" ")
                answer = self._padded(question, bytes.fromhex(hidden.decode())).decode().rstrip()
                if hmac.compare_digest(code, self._code(f"{answer} answers {question}")):
                    return answer
        return None

    def note(self, question: str, answer: str) -> None:
        """Keep the answer to a question, if it is short and the file can be written."""
        if len(answer.encode()) <= LONGEST:
            hidden = self._padded(question, answer.encode().ljust(LONGEST)).hex().encode()
            self._write(b" ".join([self._code(f"asked {question}"), self._code(f"{answer} answers {question}"), hidden]))

    def _padded(self, question: str, answer: bytes) -> bytes:
        """Encode an answer, and decode a stored one."""
        pad = hashlib.shake_256(self._key + question.encode()).digest(LONGEST)
        return bytes(one ^ other for one, other in zip(answer, pad, strict=True))

    def _code(self, fact: str) -> bytes:
        return hmac.new(self._key, fact.encode(), hashlib.sha256).hexdigest().encode()
