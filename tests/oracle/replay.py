"""A database and its neighbours in engines of their own, and one statement's requests, recorded on one and read on all.

What a statement asks follows from its text, from the catalog, from what planning reads in public tables, and from what was
released. So if all that planning read is the same on a neighbour, and every request is answered there too, the neighbour gives
every answer of the first one, with other probabilities: how different these are, `moves` says from the exact numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import duckdb
from oracle.worlds import World

from dpsql.backends.duckdb import RELEASED, DuckReader, attach_memory, lock_down
from dpsql.backends.held_columns import make_table
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.price import price
from dpsql.catalog.schema import TableSchema, fit
from dpsql.engine.opening import public_values
from dpsql.engine.session import Session
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import KeptAnswer
from dpsql.solvers.usual import USUAL
from dpsql.trusted.accounting.cost import Charge
from dpsql.trusted.kernel.run import Kernel, Leave
from dpsql.trusted.measurements.online_comparisons import ComparisonResult, Comparisons
from dpsql.trusted.measurements.reading.request import Context, Request
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.reader import Parts

NOTHING = Charge(epsilon=0, rho=0, delta=0)
SCRATCH = DuckScratch()
END = 2**62


class Book:
    """A ledger in memory that pays for everything: what the kernel and the engine ask of one."""

    salt = 0x5EED5EED5EED5EED

    def __init__(self) -> None:
        self.charges: list[Charge] = []
        self.told: list[tuple[str, str | None]] = []
        self.bodies: dict[int, str] = {}
        self.incidents = 0

    def charge(self, account: Any, charge: Charge, *, digest: str, body: str | None = None, **told: Any) -> int:
        self.charges.append(charge)
        self.told.append((digest, body))
        return len(self.charges)

    def first_step(self, account: Any, late: int, *, crowded: bool = False) -> int:
        return 0

    def answer(self, seq: int, body: str, late: int = 0, *, crowded: bool = False) -> None:
        self.bodies[seq] = body

    def incident(self, seq: int, late: int = 0, *, crowded: bool = False, cause: str | None = None) -> None:
        self.incidents += 1

    def stored(self, account: Any, digest: str, data: str) -> str | None:
        return next(iter(self.answers(digest)[::-1]), None)

    def holding(self, account: Any, data: str, mark: str) -> list[KeptAnswer]:
        return [KeptAnswer(body=body, shared=False) for body in self.bodies.values() if mark in body]

    def answered(self, account: Any, digest: str, data: str) -> tuple[int, str | None] | None:
        return max(((seq, self.told[seq - 1][1]) for seq in self.bodies if self.told[seq - 1][0] == digest), default=None)

    def newest(self, digest: str) -> tuple[str | None, str | None]:
        seq = max((seq for seq, (name, _) in enumerate(self.told, 1) if name == digest), default=0)
        return (self.told[seq - 1][1], self.bodies.get(seq)) if seq else (None, None)

    def answers(self, digest: str) -> list[str]:
        return [body for seq, body in self.bodies.items() if self.told[seq - 1][0] == digest]

    def alone(self, name: str) -> Any:
        return contextlib.nullcontext()

    def naming(self, *told: Any) -> Any:
        return contextlib.nullcontext()

    def spent(self, *told: Any) -> Charge:
        return NOTHING

    def entries(self, *told: Any) -> list[Any]:
        return []

    def texts(self, *told: Any, of_others: bool = False) -> list[str]:
        return []

    def refresh(self) -> None:
        pass


class Loud:
    """Noise of about the right shape from a seeded generator: what is released has to be possible, not likely."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._part = self._draw.choice([0.0, 0.05, 1.0])

    def _add(self, values: Sequence[int], scale: float) -> list[int]:
        return [max(-END, min(END, value + round(self._part * min(scale, 2.0**58) * self._draw.gauss(0, 1)))) for value in values]

    laplace = gaussian = student = _add

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        noisy = [score - self._part * scale * math.log(self._draw.expovariate(1) or 1.0) for score in scores]
        return max(range(len(noisy)), key=noisy.__getitem__)

    flip = exponential

    def below(self, end: int) -> int:
        return self._draw.randrange(end)

    def above(self, counts: Sequence[int], scale: float, reach: int) -> list[int | None]:
        return [count + self._draw.choice((0, 1, reach)) if self._draw.random() < 0.8 else None for count in counts]


class Cursor:
    """The one cursor of a database, as a connection from which it is taken for each query. A text is parsed once for a family."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, parsed: dict[str, Any]) -> None:
        self._cursor, self._parsed = cursor, parsed

    def cursor(self) -> Cursor:
        return self

    @property
    def description(self) -> Any:
        return self._cursor.description

    def execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        if sql not in self._parsed:
            self._parsed[sql], = self._cursor.extract_statements(sql)
        return self._cursor.execute(self._parsed[sql])

    def close(self) -> None:
        pass


class Reader:
    """A database in memory, which never changes. Every text is executed once, and what it gave is remembered until `forget`.

    `like` is the reader of a database that differs from it in some tables alone: what reads none of these is read there. Where it
    `keeps` rows, as of large tables, texts are those of large tables too.
    """

    stored: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # no table is in a store
    versions: ClassVar[Mapping[str, str]] = MappingProxyType({})
    content, version = "", "v1"

    def __init__(self, cursor: duckdb.DuckDBPyConnection, parsed: dict[str, Any], like: Reader | None = None,
                 other: Sequence[str] = (), *, keeps: bool = False) -> None:
        self.keeps = keeps
        self._below, self.cursor = DuckReader(Cursor(cursor, parsed), "v1"), cursor  # type: ignore[arg-type]
        self._like, self._other = like, [f'"{name}"' for name in other]
        self.seen: dict[tuple[str, str], Any] = {}
        self.planned: dict[tuple[str, str], None] = {}
        self.serving = False
        self.family: Sequence[Reader] = (self,)
        self._held: dict[str, str] = {}

    def _once(self, how: str, sql: str) -> Any:
        if not self.serving:
            self.planned[how, sql] = None
        if (how, sql) not in self.seen:
            self.seen[how, sql] = self._found(how, sql)
        found = self.seen[how, sql]
        if isinstance(found, Exception):
            raise found
        return found

    def _found(self, how: str, sql: str) -> Any:
        try:
            if self._like is not None and not any(name in sql for name in self._other):
                return self._like._once(how, sql)
            return getattr(self._below, how)(sql)
        except Exception as fault:
            return fault

    def rows(self, sql: str, parts: Sequence[Parts] = ()) -> Any:
        return list(self._once("rows", whole(sql, parts)))

    def arrays(self, sql: str, parts: Sequence[Parts] = ()) -> Any:
        return self._once("arrays", whole(sql, parts))

    def columns(self, sql: str, parts: Sequence[Parts] = ()) -> Any:
        return self._once("columns", whole(sql, parts))

    def check(self) -> None:
        self._below.check()

    def schema(self) -> Mapping[str, TableSchema]:
        return self._below.schema()

    def hold(self, name: str, identity: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        """Released rows are the same in every database of the family."""
        if name.lower() in {table.lower() for table in self.schema()}:
            raise ValueError("there is a table of this name")
        for reader in self.family if self._held.get(name) != identity else ():
            reader._held[name] = identity
            make_table(reader.cursor, f"{RELEASED}.main.{quote(identity)}", columns, unless_exists=True)
            reader.cursor.execute(f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS SELECT * FROM {RELEASED}.main.{quote(identity)}")
            reader.seen = {(how, sql): found for (how, sql), found in reader.seen.items() if quote(name) not in sql}


def whole(sql: str, parts: Sequence[Parts]) -> str:
    """A text with the statements of kept rows in place of the names of their tables."""
    for part in reversed(parts):
        sql = sql.replace(part.name, f"({part.statements[0]})")
    return sql


class Asked(Frozen, kw_only=False):
    """A request as the kernel served it."""

    request: Request | Comparisons
    certificates: tuple[Certificate, ...]


class Recorder(Kernel):
    """A kernel that keeps what it was asked."""

    def __init__(self, reader: Reader, book: Book, noise: Any) -> None:
        super().__init__(reader, book, noise, solvers=USUAL)  # type: ignore[arg-type]
        self.asked: list[Asked] = []
        self.faults: list[BaseException] = []

    def _look(self, request: Request, certificates: tuple[Certificate, ...], context: Context) -> Any:
        self.asked.append(Asked(request, certificates))
        return super()._look(request, certificates, context)

    def compare(self, asked: Comparisons, **told: Any) -> ComparisonResult | None:
        found = super().compare(asked, **told)
        if found is not None:
            self.asked.append(Asked(asked, (self._borne_out(asked.plan),)))
        return found

    def _answered(self, seq: int, account: Any, serve: Callable[[], Any], encode: Callable[[Any], str], leaving: Leave) -> Any:
        def served() -> Any:
            try:
                return serve()
            except BaseException as fault:
                self.faults.append(fault)
                raise

        self._reader.serving = True  # type: ignore[attr-defined]
        try:
            return super()._answered(seq, account, served, encode, leaving)
        finally:
            self._reader.serving = False  # type: ignore[attr-defined]


@dataclasses.dataclass
class Family:
    """A world and every neighbour of it, in engines of their own. Those that are `large` are read as large tables are."""

    world: World
    large: bool = False
    readers: dict[str | None, Reader] = dataclasses.field(init=False)
    kernels: dict[str | None, Kernel] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self._engine, self._parsed = duckdb.connect(":memory:", config={"threads": 1}), dict[str, Any]()
        worlds = {None: self.world, **dict(self.world.neighbours())}
        cursors = {name: self._database(f"w{i}", world) for i, (name, world) in enumerate(worlds.items())}
        attach_memory(self._engine)
        lock_down(self._engine)
        self.readers = {None: Reader(cursors.pop(None), self._parsed, keeps=self.large)}
        for name, cursor in cursors.items():
            other = [table for table, rows in worlds[name].rows.items() if rows != self.world.rows[table]]
            self.readers[name] = Reader(cursor, self._parsed, self.readers[None], other, keeps=self.large)
        for reader in self.readers.values():
            reader.family = [*self.readers.values()]
        self.kernels = {name: Recorder(reader, Book(), None) for name, reader in self.readers.items()}
        self._policy = parse_policy(self.world.policy)
        schema, reader = self.readers[None].schema(), self.readers[None]
        self._catalog = fit(self._policy, "main", schema,
                            public_values(reader))
        self.entity = self._catalog.entity

    def _database(self, name: str, world: World) -> duckdb.DuckDBPyConnection:
        """One of the worlds, as a database of the same engine. Statements read no other."""
        self._engine.execute(f"ATTACH ':memory:' AS {name} (ROW_GROUP_SIZE 2048)")
        cursor = self._engine.cursor()
        cursor.execute(f"USE {name}")
        for statement in world.statements:
            cursor.execute(statement)
        return cursor

    def session(self, seed: int, name: str | None = None) -> Session:
        """A connection to one of the worlds that records what it asks."""
        book, budget = Book(), self._policy.budgets["main"]
        return Session(catalog=self._catalog, budget=budget, analyst="ada",
                       kernel=Recorder(self.readers[name], book, Loud(seed)), ledger=book,  # type: ignore[arg-type]
                       scratch=SCRATCH, price=price(epsilon=1), policy="p")

    def begin(self) -> None:
        """Another statement is asked. What the databases gave to a text stays known: they never change."""
        for reader in self.readers.values():
            reader.planned = {}

    def forget(self) -> None:
        """Nothing is known of what texts print as or give: the code that prints has changed."""
        self.begin()
        for reader in self.readers.values():
            reader.seen = {}

    def close(self) -> None:
        self._engine.close()


def differing(family: Family) -> Iterator[tuple[str, str]]:
    """What planning read and is not the same on a neighbour, by the neighbour."""
    private = [name for name, table in family.world.tables.items() if not table.public]
    for how, sql in list(family.readers[None].planned):
        if not any(f'"{name}"' in sql for name in private):
            continue
        here = told(lambda: getattr(family.readers[None], how)(sql))  # noqa: B023 - used at once
        for name, reader in family.readers.items():
            if told(lambda: getattr(reader, how)(sql)) != here:  # noqa: B023 - used at once
                yield str(name), sql


def told(look: Callable[[], Any]) -> str:
    """What a look gives, or that it fails, as a text to compare."""
    try:
        return repr(look())
    except Exception as fault:
        return type(fault).__name__
