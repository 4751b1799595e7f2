"""What was shown lately, so that dashboards which ask for the same again and again need no plan: stored answers, and columns.

A stored answer is a function of its statement, the account, the terms, the policy and the content of the database: statements
that depend on anything else, as on the time or on chance, are refused. All of these are in its key, the content by the version
that the vault tells at each statement, with whether the user still is one. So what is found here is what would be answered
without it. Nothing is new in it: whoever is shown it was shown it before. The same holds for the kinds of a statement's
parameters and columns.

An answer that was paid for is stored before anybody is shown it, so it is kept at once, with the words of one that was stored:
what the ledger holds of it is read back as what it was. What is not kept: answers that are not stored, as those of public tables;
statements that name a table which the policy does not have, as a table of the account's own may be another one under the same
name; and what is too large.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar, cast

from dpsql.catalog import growing
from dpsql.engine.session import Session
from dpsql.frozen import Frozen
from dpsql.server.front.statements.remote_session import RemoteKernel
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Notice, OutcomeOnWire

MOST_BYTES = 2**25  # of all accounts together
MOST_OF_ONE = 2**20  # of one answer
CELL, ENTRY = 64, 1024  # bytes that a value takes beside its text, about, and what an entry does beside its values

Shown = TypeVar("Shown")


class ShownAnswer(Frozen):
    """An answer as it was shown."""

    tag: str
    columns: tuple[ColumnOnWire, ...] | None
    rows: tuple[tuple[object, ...], ...]
    notices: tuple[Notice, ...]

    def again(self) -> OutcomeOnWire:
        return OutcomeOnWire(tag=self.tag, columns=self.columns, rows=iter(self.rows), notices=self.notices)

    @property
    def size(self) -> int:
        """The approximate size in bytes; for an answer that is too large to be kept, a lower bound."""
        least = CELL * len(self.rows) * len(self.columns or ())
        return least if least > MOST_OF_ONE else least + 4 * sum(
            len(value) for row in self.rows for value in row if isinstance(value, str))


class LatelyShown(Generic[Shown]):
    """Things of all accounts by their keys; those that were not asked for longest are forgotten first. Safe with threads."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self.size = most, 0
        self._shown: OrderedDict[Hashable, tuple[Shown, int]] = OrderedDict()
        self._turn = threading.Lock()

    def find(self, key: Hashable) -> Shown | None:
        with self._turn:
            found = self._shown.get(key)
            if found is None:
                return None
            self._shown.move_to_end(key)
            return found[0]

    def keep(self, key: Hashable, shown: Shown, size: int) -> None:
        """Keep an item of `size` bytes, including the key."""
        if size > min(MOST_OF_ONE, self._most):
            return
        with self._turn:
            self.size += size - self._shown.pop(key, (None, 0))[1]
            self._shown[key] = shown, size
            while self.size > self._most:
                self.size -= self._shown.popitem(last=False)[1][1]


class ShownToAccounts:
    """What seats share: answers, and the kinds of parameters and columns."""

    def __init__(self) -> None:
        self.answers, self.columns = LatelyShown[ShownAnswer](), LatelyShown[Described](MOST_BYTES // 4)


def key_of(session: Session, text: str, values: Sequence[object]) -> Hashable:
    """Everything on which an answer depends; if tables grow, this includes the day, on which a period may have closed. Values are
    distinguished by their type and text: 1, 1.0 and true differ, as do 0.0 and -0.0."""
    day = growing.today() if session.catalog.grows else None
    return session.answer_key, session.kernel.version, day, text, tuple((type(value).__name__, repr(value)) for value in values)


async def current(shown: LatelyShown[Shown], session: Session, text: str, values: Sequence[object]) -> Shown | None:
    """The item shown before for this statement, if it is still valid. Raises errors.Error if the account may no longer ask, or if
    the data have changed. None where tables grow: whether periods were closed or revised since, the vault is asked."""
    if session.catalog.grows or shown.find(key_of(session, text, values)) is None:
        return None
    await cast(RemoteKernel, session.kernel).check_meanwhile()  # from here on the version is that of now
    return shown.find(key_of(session, text, values))
