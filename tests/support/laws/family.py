"""A small database and all its neighbours, in one engine, and what printed plans give on each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from types import MappingProxyType
from typing import Any, ClassVar

import duckdb
from support.worlds import CLINICS, POLICY, SCHEMA, World, insert, removals

from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.opening import public_values
from dpsql.frozen import Frozen
from dpsql.questions.labels import label
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.plan.node import Node, Printing, fold

PRINTING = Printing(salt=12345)
ENTITIES = ("person", "household")
Row = tuple[Any, ...]


class Salt(Frozen, kw_only=False):
    """All that a kernel asks of its ledger while nothing is charged."""

    salt: int = PRINTING.salt


class Family:
    """The full world, and the world without each entity of either kind in turn.

    The full one is in tables as a database has them. All of them together are in tables `all_*` with the number of the world
    in front, so that one statement is executed for each world. There it is not optimized: that takes the database longer than to
    read so few rows, and it is done anew whenever a statement is executed. What is executed on the full world is.
    """

    stored: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # no table is in a store
    schema: ClassVar[Mapping[str, str]] = SCHEMA
    content = ""
    keeps = False

    def __init__(self, full: World, *, name: str = "", tame: bool = False, entities: Sequence[str] = ENTITIES) -> None:
        self.world, self.name, self.tame = full, name, tame
        self._cursor = duckdb.connect(":memory:", config={"threads": 1})
        self._keys: dict[str, list[Any]] = {}
        self._first: dict[str, int] = {}
        worlds = [full]
        for entity in entities:
            found = list(self._removals(full, entity))
            self._keys[entity], self._first[entity] = [key for key, _ in found], len(worlds)
            worlds += [world for _, world in found]
        self._fill(worlds)
        self._unoptimized = self._cursor.cursor()
        self._unoptimized.execute("PRAGMA disable_optimizer")  # of this cursor alone
        lock_down(self._cursor)
        self.forget()

    def _removals(self, full: World, entity: str) -> Iterable[tuple[Any, World]]:
        """Every neighbour that lacks one entity of a kind."""
        return removals(full, entity)

    def _fill(self, worlds: Sequence[World]) -> None:
        for table, columns in self.schema.items():
            self._cursor.execute(f"CREATE TABLE {table} ({columns})")
            self._cursor.execute(f"CREATE TABLE all_{table} (db INTEGER, {columns.replace(' PRIMARY KEY', '')})")
            insert(self._cursor, table, worlds[0].rows.get(table, []))
            insert(self._cursor, f"all_{table}", [(i, *row) for i, found in enumerate(worlds) for row in found.rows.get(table, [])])

    def forget(self) -> None:
        """Start with a kernel that has looked nothing up."""
        self.kernel = Kernel(self, Salt())  # type: ignore[arg-type]

    def keys(self, entity: str) -> list[Any]:
        return self._keys[entity]

    def rows(self, sql: str, parts: Any = ()) -> list[Row]:
        """The rows of a statement on the full world."""
        return self._cursor.execute(sql).fetchall()

    def everywhere(self, order: Sequence[Node], entity: str) -> Iterator[tuple[Any, list[Row]]]:
        """The rows of nodes (see `all_at_once`): under None on the full world, then without each entity of a kind."""
        self._unoptimized.execute(f"PREPARE plan AS {all_at_once(order, self.schema)}")
        for key, number in ((None, 0), *zip(self._keys[entity], count(self._first[entity]), strict=False)):
            yield key, self._unoptimized.execute(f"EXECUTE plan({number})").fetchall()

    def close(self) -> None:
        self._unoptimized.close()
        self._cursor.close()


@lru_cache(maxsize=8)
def catalog(entity: str, policy: str = POLICY) -> Catalog:
    """What the policy declares for a kind of entity: the same for all worlds, as it holds nothing private."""
    connection = duckdb.connect(":memory:")
    World({"clinics": list(CLINICS)}).fill(connection)
    parsed = parse_policy(policy)
    budget = next(name for name, found in parsed.budgets.items() if found.entity == entity)

    reader = DuckReader(connection, "test")
    return fit(parsed, budget, reader.schema(), public_values(reader))


def printed(plan: Node) -> str:
    """The text of a plan."""
    return fold(plan, lambda node, below: node.render(below, PRINTING))


def nodes(*plans: Node) -> tuple[Node, ...]:
    """All nodes of plans, inputs first, each once."""
    found: dict[int, Node] = {}

    def visit(node: Node, below: tuple[None, ...]) -> None:
        found[id(node)] = node

    for plan in plans:
        fold(plan, visit)
    return tuple(found.values())


def all_at_once(order: Sequence[Node], schema: Mapping[str, str] = SCHEMA) -> str:
    """One statement with the rows of every node as (number of the node, values as text), on the world number $1.

    Each node is printed over the results of its inputs. Text tells -0.0 from 0.0, and is what every engine agrees on.
    """
    steps = [f"{table} AS (SELECT * EXCLUDE (db) FROM all_{table} WHERE db = $1)" for table in schema]
    names, shown = {}, []
    for number, node in enumerate(order):
        names[id(node)] = f"n{number}"
        text = node.render(tuple(f"SELECT * FROM {names[id(below)]}" for below in node.inputs), PRINTING)
        steps.append(f"n{number} AS MATERIALIZED ({text})")
        values = ", ".join(f'CAST(t."{field.id}" AS VARCHAR)' for field in node.fields)
        shown.append(f"SELECT {number}, [{values}] FROM n{number} AS t")
    return f"WITH {', '.join(steps)} {' UNION ALL '.join(shown)}"


def shown(plan: Node, depth: int = 0) -> str:
    """A plan for people, one operator a line."""
    lines = ["  " * depth + label(plan)]
    return "\n".join([*lines, *(shown(below, depth + 1) for below in plan.inputs)])
