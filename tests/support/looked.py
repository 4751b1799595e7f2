"""One request that is measured many times, by the kernel's own code and nothing else.

The certificate is derived from the plan as for any request, the cost is the one that the kernel would check, and the measurement
and its noise are those of every answer. Only the charge and the surrounding statement are left out, so the results are not
private; this is for databases that an auditor made up. Plans are printed once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from dpsql.audit.prepared import PreparedStatement
from dpsql.frozen import field
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.reading.request import Context, Release, Request
from dpsql.trusted.plan.node import Node
from dpsql.trusted.reader import Query


class Printed(Context):
    """A context that prints each plan only once."""

    texts: list[tuple[Node, Query]] = field(default_factory=list)

    def query(self, plan: Node) -> Query:
        for known, text in self.texts:
            if known is plan or known == plan:
                return text
        self.texts.append((plan, super().query(plan)))
        return self.texts[-1][1]


class Looked:
    """A request to a kernel, and the cost that it would be charged."""

    def __init__(self, request: Request, kernel: Kernel) -> None:
        at_hand = kernel._context()
        self._context = Printed(reader=at_hand.reader, noise=at_hand.noise, printing=at_hand.printing, content=at_hand.content,
                                public=at_hand.public, split_parts=at_hand.split_parts)
        self._certificates, self._kernel = kernel._certificates(request), kernel
        self.request = request
        self.cost: Cost = request.cost(*self._certificates)

    def look(self) -> Release:
        return self._kernel._look(self.request, self._certificates, self._context)


def requests_of(statement: PreparedStatement) -> list[Request]:
    """The requests of one run of a statement's script."""
    return asked_by(lambda: statement.measure(), statement.session.kernel)


def asked_by(run: Callable[[], Any], kernel: Kernel) -> list[Request]:
    """The requests that a kernel receives while `run` is running."""
    asked: list[Request] = []
    serve = kernel._serve

    def listening(script: Generator[Request, Any, Any], cost: Cost) -> Any:
        def heard() -> Generator[Request, Any, Any]:
            answer = None
            while True:
                try:
                    request = next(script) if answer is None else script.send(answer)
                except StopIteration as done:
                    return done.value
                asked.append(request)
                answer = yield request

        return serve(heard(), cost)

    kernel._serve = listening  # type: ignore[method-assign]
    try:
        run()
    finally:
        del kernel._serve
    return asked
