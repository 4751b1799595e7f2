"""A kernel for many releases of one statement over a database that stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpsql.trusted.kernel.run import Kernel, Priced
from dpsql.trusted.measurements.reading.content import Content
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node, Printing
from dpsql.trusted.reader import Query

MOST = 256  # requests that are kept; a limit that is learned makes a request of its own for each value


class Repeating(Kernel):
    """What the kernel derives of a request, of its own copy and by its own code, is kept for requests that are equal to it.

    The cost of every release is worked out and compared with the price each time, and noise is drawn, as by any kernel.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._content = _Printed(self._reader)
        self._seen: list[tuple[Request, Priced]] = []

    def _certified(self, request: Request) -> Priced:
        for known, found in self._seen:
            if type(known) is type(request) and known == request:
                return found
        found = super()._certified(request)
        self._seen = [*self._seen[-MOST:], (request, found)]
        return found


class _Printed(Content):
    """Prints every plan once."""

    def __init__(self, reader: Any) -> None:
        super().__init__(reader)
        self._texts: dict[int, tuple[Node, Printing, Query]] = {}

    def query(self, plan: Node, printing: Printing, split_parts: Callable[[Node], Sequence[Node]]) -> Query:
        known = self._texts.get(id(plan))
        if known is None or known[0] is not plan or known[1] != printing:
            known = self._texts[id(plan)] = plan, printing, super().query(plan, printing, split_parts)
        return known[2]
