"""Run the statements of one client in other threads, within the limits of its account; they can be interrupted. Rows are sent in
parts."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeVar

from dpsql.frozen import Frozen
from dpsql.server.front.statements.uncounted import is_uncounted
from dpsql.server.front.terms.answers_on_wire import Described, Outcome, RefusedOnWire, Seat
from dpsql.server.front.wire.encoded_rows import EncodedRows, encoded_rows, least
from dpsql.server.front.wire.packets import Packets, encoded_notices
from dpsql.server.front.wire.server_faults import quietly, told_faults
from dpsql.server.front.wire.serving_terms import Serving
from dpsql.server.front.wire.steady_answers import at_a_multiple
from dpsql.server.link.vault_calls import LEFT, REQUEST

_FEW = 100  # rows that are encoded at once, as another thread would take longer to begin
_SHORT = 2_000  # characters of a text that is read at once, as another thread would take longer to begin

Made = TypeVar("Made")


class Parameters(Frozen):
    """The values of a statement's parameters, and their kinds as they were described."""

    values: tuple[object, ...] = ()
    kinds: tuple[str, ...] = ()


class StatementWork:
    """For the connection's own task; `cancel` alone comes from others."""

    def __init__(self, serving: Serving, packets: Packets, seat: Seat, account: str) -> None:
        self._serving, self._packets, self._limits = serving, packets, serving.limits
        self._working = False
        self.seat, self.account = seat, account

    def cancel(self, cause: str = REQUEST) -> None:
        """Interrupt the running statement, if there is one. The statement may end by itself first; the next one is never
        affected."""
        if self._working:
            quietly(lambda: self.seat.cancel(cause))

    async def split(self, text: str) -> list[str]:
        """The statements of a text."""
        return await self.read(text, self.seat.split)

    async def read(self, text: str, reader: Callable[[str], Made]) -> Made:
        """What a function makes of a text. Raises RefusedOnWire."""
        if len(text) > _SHORT:
            async with self._steadily():
                return await self._in_thread(lambda: reader(text))
        with told_faults():
            return reader(text)

    async def describe(self, statement: str, given: Sequence[str | None]) -> Described:
        """What a statement takes and gives. Raises RefusedOnWire."""
        with self._counted(self._serving.use.describing, statement):
            return await self._described(statement, given)

    async def _described(self, statement: str, given: Sequence[str | None]) -> Described:
        async with self._steadily():
            with told_faults():
                described = await self.seat.described_lately(statement, given)
            if described is None:
                described = await self._in_thread(lambda: self.seat.describe(statement, given))
            return described

    async def outcome(self, text: str, parameters: Parameters, formats: Callable[[Outcome], Sequence[int]],
                      most: int | None = None) -> tuple[Outcome, EncodedRows]:
        """Execute a statement, encode its first rows in the formats that `formats` returns, and send its notices. Raises
        RefusedOnWire."""
        def begun(outcome: Outcome) -> tuple[Outcome, EncodedRows]:
            return outcome, encoded_rows(outcome, formats(outcome), least(most))

        async with self._steadily(), self._at_work():
            with told_faults():
                shown = await self.seat.shown_lately(text, parameters.values)
                made = begun(shown) if shown is not None and operator.length_hint(shown.rows) <= _FEW else None
            if made is None:
                made = await self._in_thread(lambda: begun(shown or self.seat.execute(text, parameters.values, parameters.kinds)))
        self._packets.send_encoded(encoded_notices(made[0].notices))
        return made

    async def whole_outcome(self, text: str, parameters: Parameters) -> tuple[Outcome, list[tuple[object, ...]]]:
        """Execute a statement, fetch all of its rows, and send its notices. Raises RefusedOnWire."""
        def answered() -> tuple[Outcome, list[tuple[object, ...]]]:
            outcome = self.seat.execute(text, parameters.values, parameters.kinds)
            return outcome, list(outcome.rows)

        with self.admitted(text):
            async with self._steadily(), self._at_work():
                made = await self._in_thread(answered)
        self._packets.send_encoded(encoded_notices(made[0].notices))
        return made

    async def send_rows(self, outcome: Outcome, formats: Sequence[int], most: int | None = None,
                        first: EncodedRows | None = None) -> tuple[int, bool]:
        """Send at most `most` rows of an outcome, of which the `first` may be encoded already. Returns how many were sent, and
        whether these were the last."""
        rows = first or await self._rows(outcome, formats, least(most))
        sent = rows.number
        while await self._send(rows) and (most is None or sent < most):
            rows = await self._rows(outcome, formats, least(None if most is None else most - sent))
            sent += rows.number
        return sent, rows.last

    async def _send(self, rows: EncodedRows) -> bool:
        """Whether more may follow."""
        self._packets.send_encoded(rows.encoded)
        await self._packets.flush(whole=False)
        return not rows.last

    async def _rows(self, outcome: Outcome, formats: Sequence[int], most: int) -> EncodedRows:
        if outcome.columns is not None and 0 <= operator.length_hint(outcome.rows, -1) <= _FEW:
            with told_faults():
                return encoded_rows(outcome, formats, most)
        async with self._steadily(), self._at_work():
            return await self._in_thread(lambda: encoded_rows(outcome, formats, most))

    def admitted(self, text: str, more: int = 0, *, again: bool = False) -> contextlib.AbstractContextManager[None]:
        """A context for a statement of the account, with `more` bytes of parameters; it counts once, so not `again`. Raises
        RefusedOnWire."""
        return contextlib.nullcontext() if again else self._counted(self._serving.use.asking, text, more)

    def _counted(self, counted: Callable[[str, int, float], contextlib.AbstractContextManager[None]], text: str,
                 more: int = 0) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if is_uncounted(text) else counted(self.account, len(text) + more, time.monotonic())

    def suspended(self, size: int) -> contextlib.AbstractContextManager[None]:
        """A context for rows of the account that wait to be fetched. Raises RefusedOnWire."""
        return self._serving.use.suspended(self.account, size)

    def check_size(self, text: str) -> None:
        """Raises RefusedOnWire for a text that is too long."""
        if len(text.encode("utf-8", "replace")) > self._limits.text_bytes:
            raise RefusedOnWire(f"the text of a statement can have at most {self._limits.text_bytes} bytes", sqlstate="54000")

    def _steadily(self) -> contextlib.AbstractAsyncContextManager[None]:
        """A context that ends at a multiple of `pace_seconds`, if the owner has set that."""
        return at_a_multiple(self._limits.pace_seconds) if self._limits.pace_seconds else contextlib.nullcontext()

    @contextlib.asynccontextmanager
    async def _at_work(self) -> AsyncGenerator[None]:
        """A context in which a statement runs and can be interrupted. If its client leaves, a statement that waits for its turn
        is interrupted at once, and any other after `left_seconds`."""
        loop = asyncio.get_running_loop()
        late: list[asyncio.TimerHandle] = []

        def left() -> None:
            quietly(self.seat.give_up_turn)
            late.append(loop.call_later(self._limits.left_seconds, self.cancel, LEFT))

        self._working = True
        try:
            with self._packets.watched(left):
                yield
        finally:
            self._working = False
            for timer in late:
                timer.cancel()

    async def _in_thread(self, work: Callable[[], Made]) -> Made:
        """The result of work in another thread. Raises RefusedOnWire, without details of any other exception."""
        def told() -> Made:
            with told_faults():
                return work()

        return await self._serving.run(told)
