"""Connections for programs with an event loop: the same statements, awaited, while the loop goes on.

    con = await dpsql.aio.connect(policy="dpsql.toml", budget="main", analyst="ada")
    cur = await con.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex")

Each connection has its own thread, in which its statements take turns, so a busy connection does not block others. When a task
that waits for a statement is cancelled, a statement whose turn has not come is not run, and nothing is charged. One that has
begun runs on to its end: to break it off after its charge would lose the answer that was paid for. Its charge stays, and its
answer is in the ledger, so that the same statement again is free. """

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dpsql import dbapi
from dpsql.errors import InterfaceError

if TYPE_CHECKING:
    from dpsql.answers.spending import Spending
    from dpsql.batch.workload_answers import Answers
    from dpsql.planning.explain import Explanation
    from dpsql.synthesis.released_database import ReleasedDatabase
    from dpsql.synthesis.synthetic_table import SyntheticTable
    from dpsql.validation.findings import Validation

P = ParamSpec("P")
R = TypeVar("R")


async def connect(*args: Any, **terms: Any) -> AsyncConnection:
    """Open a database under a policy, as `dbapi.connect` does. Raises what it raises."""
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dpsql")
    opening = _begin(worker, dbapi.connect, *args, **terms)
    try:
        return AsyncConnection(await asyncio.wrap_future(opening), worker)
    except BaseException:  # a cancellation too, which does not stop what has begun to be opened
        opening.add_done_callback(_close_unused)
        worker.shutdown(wait=False)
        raise


class AsyncConnection:
    """The methods of `dbapi.Connection` that may take long, to be awaited. A cursor holds the rows of its answer, so its methods
    are not awaited."""

    def __init__(self, connection: dbapi.Connection, worker: ThreadPoolExecutor) -> None:
        self._connection, self._worker = connection, worker
        self._closed = False
        self.notes = connection.notes

    async def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), *, epsilon: object = None,
                      delta: object = None, rho: object = None) -> dbapi.Cursor:
        """Run a statement when those submitted before it have ended; see `dbapi.Connection.execute`."""
        price = {name: value for name, value in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if value is not None}
        return await self._run(self._connection.execute, sql, parameters, **price)

    async def explain(self, sql: str | Sequence[str], parameters: Sequence[Any] | Mapping[str, Any] = (),
                      **options: Any) -> Explanation:
        """What a statement would do and cost; see `dbapi.Connection.explain`."""
        return await self._run(self._connection.explain, sql, parameters, **options)

    async def workload(self, statements: str | Sequence[str], parameters: Sequence[Any] | Mapping[str, Any] = (),
                       **options: Any) -> Answers:
        """Answer many statements for one price; see `dbapi.Connection.workload`."""
        return await self._run(self._connection.workload, statements, parameters, **options)

    async def validate(self, queries: str | Sequence[str], *, synthetic: Any, **options: Any) -> Validation:
        """Compare a synthetic table with the private one; see `dbapi.Connection.validate`."""
        return await self._run(self._connection.validate, queries, synthetic=synthetic, **options)

    async def synthesize(self, query: str | Mapping[str, str], **options: Any) -> SyntheticTable | ReleasedDatabase:
        """Make a synthetic table; see `dbapi.Connection.synthesize`."""
        call: Callable[..., SyntheticTable | ReleasedDatabase] = self._connection.synthesize
        return await self._run(call, query, **options)

    async def synthetic_table(self, name: str) -> SyntheticTable:
        """Find a synthetic table that was made before; see `dbapi.Connection.synthetic_table`."""
        return await self._run(self._connection.synthetic_table, name)

    async def describe(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[str, str]]:
        """The columns that the answer of a statement will have; see `dbapi.Connection.describe`."""
        return await self._run(self._connection.describe, sql, parameters)

    async def set_terms(self, **terms: Any) -> None:
        """Set the price and the confidence of later statements; see `dbapi.Connection.set_terms`."""
        await self._run(self._connection.set_terms, **terms)

    async def interrupt(self) -> None:
        """Stop the running statement and return when it has ended. Statements that wait in the queue still run."""
        await asyncio.to_thread(self._connection.interrupt)  # the connection's own thread is busy

    async def budget(self) -> Spending:
        """The amounts spent and left; see `dbapi.Connection.budget`."""
        return await self._run(self._connection.budget)

    async def close(self) -> None:
        """Close the connection after all statements submitted before. Cancelling this call does not prevent it."""
        if not self._closed:
            self._closed = True
            closing = _begin(self._worker, self._connection.close)
            self._worker.shutdown(wait=False)
            await asyncio.shield(asyncio.wrap_future(closing))

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _run(self, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._closed:
            raise InterfaceError("the connection is closed", code="closed", try_="await dpsql.aio.connect(...)")
        return await asyncio.wrap_future(_begin(self._worker, step, *args, **kwargs))


def _begin(worker: ThreadPoolExecutor, step: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Call a function in the worker's thread once it is free, in the context of the calling task."""
    return worker.submit(functools.partial(contextvars.copy_context().run, step, *args, **kwargs))


def _close_unused(opened: Future[dbapi.Connection]) -> None:
    """Close the connection, if there is one, when nobody waits for it any more."""
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
