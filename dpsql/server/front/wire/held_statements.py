"""The prepared statements, portals and cursors of one connection, by name, within limits on their number and size."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from dpsql.frozen import Frozen
from dpsql.server.front.terms import types_on_wire
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Outcome, RefusedOnWire
from dpsql.server.front.wire.cursors import CursorOnWire
from dpsql.server.front.wire.server_limits import ServerLimits


class PreparedOnWire(Frozen):
    """A statement of one client. `word` is that of statements of transactions; `oids` are the types of its parameters."""

    text: str
    word: str | None
    described: Described
    oids: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.text) + 8 * len(self.oids)


@dataclasses.dataclass(slots=True, kw_only=True)
class PortalOnWire:
    """A statement with its parameters, and its outcome as far as it was taken: None before it is executed.

    Only the connection's own task changes it. `size` is in bytes; `suspended` is closed when no rows wait any more. `taken` is
    the number of rows that were sent; `done` says that it cannot be executed again, as it returns no rows.
    """

    statement: PreparedOnWire
    parameters: tuple[object, ...]
    formats: tuple[int, ...]
    size: int
    outcome: Outcome | None = None
    taken: int = 0
    done: bool = False
    suspended: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)

    @property
    def columns(self) -> tuple[ColumnOnWire, ...] | None:
        """Those of its statement."""
        return self.statement.described.columns


class HeldStatements:
    """What a connection holds."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._statements: dict[str, PreparedOnWire] = {}
        self._portals: dict[str, PortalOnWire] = {}
        self._cursors: dict[str, CursorOnWire] = {}
        self._uncommitted: set[str] = set()  # cursors that were declared in this transaction

    def hold_statement(self, name: str, statement: PreparedOnWire) -> None:
        """Keep a prepared statement. Raises RefusedOnWire if the name is taken, or if there are too many."""
        if name and name in self._statements:
            raise RefusedOnWire(f"prepared statement \"{name}\" already exists", sqlstate="42P05")
        self._statements.pop(name, None)
        self._check(len(self._statements), statement.size)
        self._statements[name] = statement

    def hold_portal(self, name: str, portal: PortalOnWire) -> None:
        """Keep a portal. Raises RefusedOnWire as `hold_statement` does."""
        if (name and name in self._portals) or name in self._cursors:
            raise RefusedOnWire(f"cursor \"{name}\" already exists", sqlstate="42P03")
        self.drop_portal(name)
        self._check(len(self._portals), portal.size)
        self._portals[name] = portal

    def check_cursor(self, name: str) -> None:
        """Raises RefusedOnWire if no cursor can have this name now."""
        if name in self._cursors or name in self._portals:
            raise RefusedOnWire(f"cursor \"{name}\" already exists", sqlstate="42P03")
        self._check(len(self._portals) + len(self._cursors), 0)

    def hold_cursor(self, cursor: CursorOnWire) -> None:
        """Keep a cursor, whose name was checked; it takes the place of a portal that is moved by its name."""
        name = cursor.declared.name
        self.drop_portal(name)
        self._cursors[name] = cursor
        self._uncommitted.add(name)

    def cursor(self, name: str) -> CursorOnWire:
        """Raises RefusedOnWire if there is none of this name."""
        if name not in self._cursors:
            raise RefusedOnWire(f"cursor \"{name}\" does not exist", sqlstate="34000")
        return self._cursors[name]

    def has_cursor(self, name: str) -> bool:
        return name in self._cursors

    def has_portal(self, name: str) -> bool:
        return name in self._portals

    def has_statement(self, name: str) -> bool:
        return name in self._statements

    def statement(self, name: str) -> PreparedOnWire:
        if name not in self._statements:
            raise RefusedOnWire(f"prepared statement \"{name}\" does not exist", sqlstate="26000")
        return self._statements[name]

    def portal(self, name: str) -> PortalOnWire:
        if name not in self._portals:
            raise RefusedOnWire(f"portal \"{name}\" does not exist", sqlstate="34000")
        return self._portals[name]

    def drop_statement(self, name: str) -> None:
        self._statements.pop(name, None)

    def drop_all_statements(self) -> None:
        """All that have a name, as in PostgreSQL."""
        self._statements = {name: statement for name, statement in self._statements.items() if not name}

    def open_names(self) -> frozenset[str]:
        """The names of the cursors and portals that are open."""
        return frozenset((*self._cursors, *self._portals))

    def drop_opened_after(self, names: frozenset[str]) -> None:
        """Drop the cursors and portals but those of these names."""
        for name in self.open_names() - names:
            self.drop_portal(name)
            self.drop_cursor(name)
            self._uncommitted.discard(name)

    def drop_portal(self, name: str) -> None:
        if name in self._portals:
            self._portals.pop(name).suspended.close()

    def drop_cursor(self, name: str) -> None:
        if name in self._cursors:
            self._cursors.pop(name).counted.close()

    def drop_all_cursors(self) -> None:
        for name in [*self._cursors]:
            self.drop_cursor(name)

    def end_of_transaction(self) -> None:
        """Drop all portals and cursors but those that are held, as they end with the transaction."""
        for name in [*self._portals]:
            self.drop_portal(name)
        for name in [name for name, cursor in self._cursors.items() if not cursor.declared.is_held]:
            self.drop_cursor(name)
        self._uncommitted.clear()

    def undo_transaction(self) -> None:
        """Drop the cursors that were declared in the transaction, also those that would be held after it."""
        for name in self._uncommitted:
            self.drop_cursor(name)
        self._uncommitted.clear()

    def drop_all(self) -> None:
        """Drop everything."""
        self.drop_all_statements()
        self.drop_all_cursors()
        self.end_of_transaction()

    def _check(self, number: int, size: int) -> None:
        held = sum(statement.size for statement in self._statements.values()) + sum(
            portal.size for portal in self._portals.values())
        if number >= self._limits.prepared or held + size > self._limits.held_bytes:
            raise RefusedOnWire("the connection holds too many prepared statements or portals", sqlstate="54000",
                                hint="close those that are no longer used: DEALLOCATE ALL, or connect again")


def described_types(stated: Sequence[int], described: Described) -> tuple[int, ...]:
    """The types of a statement's parameters: those that the client states, others as they were described."""
    oids = [*stated, *[0] * len(described.parameters)][:len(described.parameters)]
    return tuple(oid if oid not in (0, types_on_wire.UNKNOWN) else types_on_wire.OIDS[kind]
                 for oid, kind in zip(oids, described.parameters, strict=True))


def formats_of(stated: Sequence[int], number: int) -> tuple[int, ...]:
    """One format for each of a number of values, given none, one for all, or one for each. Raises RefusedOnWire."""
    if len(stated) not in (0, 1, number):
        raise RefusedOnWire(f"there are {len(stated)} formats for {number} values", sqlstate="08P01")
    if any(form not in (0, 1) for form in stated):
        raise RefusedOnWire("a format is neither 0, for text, nor 1, for binary", sqlstate="22023")
    return tuple(stated) if len(stated) == number else (*stated, 0)[:1] * number


def same_columns(one: Sequence[ColumnOnWire] | None, other: Sequence[ColumnOnWire] | None) -> bool:
    return (None if one is None else tuple(one)) == (None if other is None else tuple(other))
