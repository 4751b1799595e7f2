"""Messages of clients, as bytes."""

from __future__ import annotations

import struct

from support.wire_servers import packet, query

__all__ = ["FLUSH", "GSS", "SSL", "SYNC", "TERMINATE", "bind", "cancel", "close", "describe", "execute", "packet", "parse", "query"]

SYNC, FLUSH, TERMINATE = packet(b"S", b""), packet(b"H", b""), packet(b"X", b"")
SSL, GSS = struct.pack("!II", 8, 80877103), struct.pack("!II", 8, 80877104)  # requests to encrypt, by TLS and by GSSAPI


def cancel(process: int, key: bytes) -> bytes:
    """The request to interrupt the statement of another connection."""
    return struct.pack("!III", 12 + len(key), 80877102, process) + key


def parse(text: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    return packet(b"P", f"{name}\0{text}\0".encode() + struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def bind(values: tuple[bytes | None, ...] = (), portal: str = "", name: str = "", forms: tuple[int, ...] = (),
         results: tuple[int, ...] = ()) -> bytes:
    body = f"{portal}\0{name}\0".encode() + struct.pack(f"!H{len(forms)}H", len(forms), *forms) + struct.pack("!H", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return packet(b"B", body + struct.pack(f"!H{len(results)}H", len(results), *results))


def describe(kind: str, name: str = "") -> bytes:
    return packet(b"D", f"{kind}{name}\0".encode())


def execute(portal: str = "", most: int = 0) -> bytes:
    return packet(b"E", f"{portal}\0".encode() + struct.pack("!I", most))


def close(kind: str, name: str = "") -> bytes:
    return packet(b"C", f"{kind}{name}\0".encode())
