"""Clients of a server that cost little: sockets in one process, each of which sends the next statement when it has its answer.

It is told what to do in lines of JSON, and says what it met in lines of JSON. See `server.py`.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import scramp

PARAMETER = "$1"


def packet(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def text(told: str) -> bytes:
    return told.encode() + b"\0"


@dataclass(slots=True)
class Met:
    """Seconds of each statement that was answered, and how many were refused, by their SQLSTATE."""

    waits: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


class OneClient:
    """One connection."""

    def __init__(self, port: int, account: str, password: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._got, self._refused = b"", ""
        self._asked_at, self.jobs = 0.0, iter(())
        self.prepared: set[str] = set()
        body = struct.pack("!I", 0x30000) + text("user") + text(account) + b"\0"
        self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
        self._log_in(account, password)

    def _log_in(self, account: str, password: str) -> None:
        client = scramp.ScramClient(["SCRAM-SHA-256"], account, password)
        self._expect(b"R")
        first = client.get_client_first().encode()
        self.socket.sendall(packet(b"p", text("SCRAM-SHA-256") + struct.pack("!I", len(first)) + first))
        client.set_server_first(self._expect(b"R")[4:].decode())
        self.socket.sendall(packet(b"p", client.get_client_final().encode()))
        while self._expect() != b"Z":
            pass

    def _expect(self, kind: bytes | None = None) -> bytes:
        """The body of a message of this kind, or the kind of any; raises ConnectionRefusedError with the SQLSTATE of an error."""
        while (made := self._message()) is None:
            self._read()
        found, body = made
        if found == b"E":
            raise ConnectionRefusedError(sqlstate(body))
        return found if kind is None else body

    def _message(self) -> tuple[bytes, bytes] | None:
        if len(self._got) < 5 or len(self._got) < 1 + (size := int.from_bytes(self._got[1:5])):
            return None
        found = self._got[:1], self._got[5:1 + size]
        self._got = self._got[1 + size:]
        return found

    def _read(self) -> None:
        got = self.socket.recv(1 << 16)
        if not got:
            raise ConnectionRefusedError("closed")
        self._got += got

    def ask(self) -> bool:
        """Send the next statement, if there is one."""
        asked = next(self.jobs, None)
        if asked is not None:
            self._refused, self._asked_at = "", time.perf_counter()
            self.socket.sendall(asked)
        return asked is not None

    def take(self, met: Met) -> bool:
        """Read what came; whether the statement is answered."""
        self._read()
        while (made := self._message()) is not None:
            kind, body = made
            if kind == b"E":
                self._refused = sqlstate(body)
            elif kind == b"Z":
                if self._refused:
                    met.refused[self._refused] += 1
                else:
                    met.waits.append(time.perf_counter() - self._asked_at)
                return True
        return False


def sqlstate(body: bytes) -> str:
    return next((part[1:].decode() for part in body.split(b"\0") if part[:1] == b"C"), "")


def simple(sql: str, value: str) -> bytes:
    return packet(b"Q", text(sql.replace(PARAMETER, value)))


def bound(value: str, name: str) -> bytes:
    """Bind, Describe, Execute and Sync, as drivers send them together."""
    told = value.encode()
    bind = b"\0" + text(name) + struct.pack("!HHI", 0, 1, len(told)) + told + struct.pack("!H", 0)
    return packet(b"B", bind) + packet(b"D", b"P\0") + packet(b"E", b"\0" + bytes(4)) + packet(b"S", b"")


def extended(sql: str, value: str) -> bytes:
    return packet(b"P", b"\0" + text(sql) + struct.pack("!H", 0)) + bound(value, "")


def prepared(client: OneClient, sql: str) -> bytes:
    name = f"s{len(client.prepared)}"
    client.prepared.add(name)
    return packet(b"P", text(name) + text(sql) + struct.pack("!H", 0))


def jobs(client: OneClient, at: int, task: dict[str, Any]) -> Any:
    """The messages of a client, whose place is `at`: values are different for every client."""
    values = [f"{40 + (at * 1_000_000 + number) / 2e8:.9f}" for number in task["numbers"]]
    sqls = [task["sql"][place % len(task["sql"])] for place in range(len(values))]
    if task["mode"] == "prepared":
        first, name = prepared(client, sqls[0]), f"s{len(client.prepared) - 1}"
        for place, value in enumerate(values):
            yield (first if place == 0 else b"") + bound(value, name)
    else:
        yield from map(simple if task["mode"] == "simple" else extended, sqls, values)


def together(clients: list[OneClient], task: dict[str, Any]) -> dict[str, Any]:
    """Ask, all at the same time, for so many seconds at most, and say what was met."""
    met, waiting, until = Met(), selectors.DefaultSelector(), time.perf_counter() + task["seconds"]
    for at, client in enumerate(clients):
        client.jobs = jobs(client, at, task)
        waiting.register(client.socket, selectors.EVENT_READ, client)
    wall, cpu = time.perf_counter(), time.process_time()
    busy = sum([client.ask() for client in clients])
    while busy:
        for key, _ in waiting.select():
            if key.data.take(met) and not (time.perf_counter() < until and key.data.ask()):
                busy -= 1
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "waits": sorted(met.waits), "refused": met.refused}


def main() -> None:
    clients: list[OneClient] = []
    for line in sys.stdin:
        task, refused = json.loads(line), Counter[str]()
        if "connect" in task:
            until = time.perf_counter() + task["seconds"]
            for account in task["connect"]:
                if time.perf_counter() > until:
                    refused["no time"] += 1
                    continue
                try:
                    clients.append(OneClient(task["port"], account, task["password"]))
                except ConnectionRefusedError as fault:
                    refused[str(fault)] += 1
            said: dict[str, Any] = {"connected": len(clients), "refused": refused}
        else:
            said = together(clients, task)
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
