"""The same bytes sent to PostgreSQL and to dpsql, over tables of the same columns and rows, and what both reply.

A transcript has the types of messages, tags, SQLSTATEs, names, types, sizes and formats of columns, types of parameters, and the status
of transactions; numbers and texts are left out, as are notices, by which dpsql tells prices.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from support import postgres, worlds
from support.frontend_messages import GSS, SSL, TERMINATE
from support.postgres import Postgres
from support.wire_servers import Raw, fields, running, startup

import dpsql
from dpsql.frozen import Frozen
from dpsql.server.front.statements.seat import seats

WIDER = {21: 20, 23: 20, 700: 701, 1043: 25, 1042: 25, 19: 25, 705: 25, 1184: 1114}
"""The types of PostgreSQL in whose place dpsql has a wider one: it has one type for whole numbers, one for doubles, one for texts,
and moments in UTC. Their sizes are those of the wider types."""
SIZES = {20: 8, 701: 8, 25: 65535, 1114: 8}
NAMES = {16: "bool", 20: "int8", 25: "text", 701: "float8", 1082: "date", 1114: "timestamp", 1186: "interval", 1700: "numeric",
         1016: "int8[]", 1009: "text[]", 1007: "int8[]", 1015: "text[]"}


class TypedColumn(Frozen):
    """A column of a RowDescription: its name, the number and size of its type, and its format."""

    name: str
    oid: int
    size: int
    form: int

    def __str__(self) -> str:
        oid = WIDER.get(self.oid, self.oid)
        size = SIZES.get(oid, self.size) if oid != self.oid else self.size
        return f"{self.name}{'*' * self.form} {NAMES.get(oid, oid)}/{size if size < 2**15 else -1}"


def columns_of(body: bytes) -> list[TypedColumn]:
    """The columns of a row."""
    found, at = [], 2
    for _ in range(int.from_bytes(body[:2], "big")):
        end = body.index(b"\0", at)
        oid, size, _, form = struct.unpack_from("!IHiH", body, end + 7)
        found.append(TypedColumn(name=body[at:end].decode(), oid=oid, size=size, form=form))
        at = end + 19
    return found


def types_of(body: bytes) -> list[str]:
    """The types of parameters."""
    oids = struct.unpack_from(f"!{int.from_bytes(body[:2], 'big')}I", body, 2)
    return [str(NAMES.get(WIDER.get(oid, oid), oid)) for oid in oids]


def told(kind: str, body: bytes) -> str:
    """A message in a transcript; empty for one that does not count."""
    match kind:
        case "C":
            return f"C {body[:-1].decode()}"
        case "E":
            return f"E {fields(body)['C']}{' FATAL' if fields(body)['S'] == 'FATAL' else ''}"
        case "N":
            return f"N {fields(body)['C']}" if fields(body)["S"] == "WARNING" else ""
        case "Z":
            return f"Z {body.decode()}"
        case "T":
            return "T " + ", ".join(map(str, columns_of(body)))
        case "t":
            return "t " + ", ".join(types_of(body))
        case "D":
            return f"D {int.from_bytes(body[:2], 'big')}"
        case "S":
            return "S " + body[:-1].decode().replace("\0", " = ")
        case "H":
            return f"H {body[0]} {int.from_bytes(body[1:3], 'big')}"
    return kind


def counted(transcript: Sequence[str]) -> list[str]:
    """The transcript with equal messages after another as one, with their number."""
    found: list[tuple[str, int]] = []
    for each in transcript:
        if found and found[-1][0] == each:
            found[-1] = each, found[-1][1] + 1
        else:
            found.append((each, 1))
    return [each if number == 1 else f"{each} x{number}" for each, number in found]


class Pair:
    """Both servers. `transcripts` are those of PostgreSQL and of dpsql for the same bytes."""

    def __init__(self, theirs: Postgres, ours: int) -> None:
        self.theirs, self.ours = theirs, ours

    def transcripts(self, *sent: bytes) -> tuple[list[str], list[str]]:
        """After a login; the client leaves at the end."""
        with self.logged_in() as (theirs, ours):
            return replies(theirs, sent), replies(ours, sent)

    @contextlib.contextmanager
    def logged_in(self) -> Iterator[tuple[Raw, Raw]]:
        """A client of each server, after its login."""
        with Raw(self.theirs.port) as theirs, Raw(self.ours) as ours:
            theirs.send(startup(user="owner", database=self.theirs.name))
            assert theirs.until("Z")[-1] == ("Z", b"I")
            assert ours.login(database="study")[-1] == ("Z", b"I")
            yield theirs, ours


def replies(raw: Raw, sent: Sequence[bytes]) -> list[str]:
    with contextlib.suppress(OSError):
        raw.send(*sent, TERMINATE)
    with contextlib.suppress(OSError):
        found = raw.until("")
    return counted([each for message in found[:-1] if (each := told(*message))])


def first_replies(port: int, *sent: bytes) -> list[str]:
    """What a server says to the first packets of a client; single bytes answer requests to encrypt. A server that waits for more is
    left after a moment."""
    found: list[str] = []
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock, sock.makefile("rb") as file:
        for part in sent:
            sock.sendall(part)
            kind = file.read(1)
            if kind in (b"N", b"S", b"G") and part in (SSL, GSS):
                found.append(kind.decode())
                continue
            while kind:
                found.append(told(kind.decode(), file.read(struct.unpack("!I", file.read(4))[0] - 4)))
                if found[-1] == "R":  # the challenge of a login, which is another one without a password
                    return found
                kind = file.read(1)
            return [*found, "end"]
    return found


@contextlib.contextmanager
def pair(folder: Path, people: int = 60) -> Iterator[Pair]:
    """Skips the test where there is no PostgreSQL."""
    theirs = postgres.fresh()
    world = worlds.world(people=people)
    for table, columns in worlds.SCHEMA.items():
        theirs.run(f"CREATE TABLE {table} ({worlds.in_postgresql(columns)})")
        if world.rows.get(table):
            theirs.fill(table, world.rows[table])
    project = folder / "project"
    project.mkdir()
    worlds.project(project, people=people)
    opening = threading.Lock()

    def connected(user: str, database: str) -> dpsql.Connection:
        with opening:
            return dpsql.connect(project / "people.duckdb", budget="person", analyst=user, epsilon=1, delta=1e-6)

    open_seat = seats(connected)
    with running(folder, lambda name, database, given: open_seat(name, "study", given), statements_a_minute=10**6) as ours:
        yield Pair(theirs, ours.port)

