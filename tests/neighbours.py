"""Suites of VALIDATE on a database and on all its neighbours: how far slacks move, against what is charged for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.engine import Session
from dpsql.engine.validating import validation
from dpsql.kernel.looks.slack import read
from dpsql.kernel.run import Kernel
from dpsql.plan.certificate import Sensitivity
from dpsql.requests import Slack, moved, slack_of
from dpsql.validation.calls import statement_of
from dpsql.validation.plan import Plan

Rows = Mapping[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class World:
    """Tables by their columns, their rows, a policy, and for each table the places of the columns that name an entity."""

    ddl: Mapping[str, str]
    policy: str
    rows: Rows
    named: Mapping[str, Sequence[int]]
    budget: str = "person"

    def reader(self, rows: Rows) -> DuckReader:
        connection = duckdb.connect(":memory:", config={"threads": 1})
        for table, columns in self.ddl.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            if rows[table]:
                connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[table][0]))})", rows[table])
        lock_down(connection)
        return DuckReader(connection, "v1")

    def session(self, folder: Path) -> Session:
        return session_of(folder, reader=self.reader(self.rows), policy=self.policy, budget=self.budget, noise=Exact())

    def frames(self, *tables: str) -> dict[str | None, pd.DataFrame]:
        """The tables as they are, to stand for themselves."""
        reader = self.reader(self.rows)
        found: dict[str | None, pd.DataFrame] = {table: reader._connection.execute(f"SELECT * FROM {table}").df() for table in tables}
        reader.close()
        return found

    def neighbours(self, session: Session) -> Iterator[Kernel]:
        """The kernel of each database that lacks one entity; the secret of truncations stays."""
        entities = {row[at] for table, places in self.named.items() for row in self.rows[table] for at in places}
        for entity in sorted(entities):
            rows = {table: [row for row in own if entity not in [row[at] for at in self.named.get(table, ())]]
                    for table, own in self.rows.items()}
            kernel = Kernel(self.reader(rows), session.ledger, Exact())
            yield kernel
            kernel.close()


@dataclass(frozen=True)
class Moved:
    """How many slacks are charged for, how far they move (l1, and the square of l2), and the plan."""

    charged: int
    l1: int
    l2: int
    plan: Plan


def planned(queries: Sequence[str], world: World, session: Session, *tables: str, within: object = 100,
            parameters: Sequence[Any] = (), **options: Any) -> Plan:
    statement, brought = statement_of(list(queries), world.frames(*tables), within, {"epsilon": 1, **options})
    return validation(statement, session, tuple(parameters), brought)


def slacks(request: Slack, kernel: Kernel) -> list[int]:
    """The slacks of the tests by themselves, whatever is told of them."""
    certificates = kernel._certificates(request)
    return [slack_of(sides, moved(test, certificate)) for test, sides, certificate in zip(
        request.tests, read(request.tests, kernel._context()), certificates, strict=True)]


def charged(request: Slack, kernel: Kernel) -> int:
    """Of how many numbers that move by 1 the price is charged."""
    once, whole = request.noise.cost(Sensitivity(l1=1, l2=1)), request.cost(*kernel._certificates(request))
    times = whole.rho / once.rho if once.epsilon is None else Fraction(whole.epsilon or 0) / once.epsilon
    assert times.denominator == 1
    return int(times)


def farthest(queries: Sequence[str], world: World, folder: Path, *tables: str, **options: Any) -> Moved:
    """The farthest that slacks move with any entity."""
    session = world.session(folder)
    plan = planned(queries, world, session, *tables, **options)
    request = next(plan.steps())
    assert isinstance(request, Slack)
    assert plan.purse.covers(request.cost(*session.kernel._certificates(request)))
    here = slacks(request, session.kernel)
    steps = [[abs(a - b) for a, b in zip(here, slacks(request, kernel), strict=True)] for kernel in world.neighbours(session)]
    found = Moved(charged=charged(request, session.kernel), l1=max(map(sum, steps)), plan=plan,
                  l2=max(sum(step * step for step in each) for each in steps))
    session.close()
    return found
