"""A wire to a server that is cut at a chosen moment, or tells of another process of the server, as a pooler of connections does."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Literal


class CutWire:
    """Forwards connections to a port of this machine. Once `cut` is set, the connection in which the client says `word` next is
    cut: before the server hears it, or after it has done what it was told, and before the client hears that."""

    def __init__(self, port: int, word: bytes = b"COMMIT\0", *, pooled: bool = False) -> None:
        self._to, self._word, self._pooled = port, word, pooled
        self.cut: Literal["before", "after"] | None = None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server, said, done = socket.create_connection(("127.0.0.1", self._to)), threading.Event(), threading.Event()
                threading.Thread(target=self._up, args=(client, server, said, done), daemon=True).start()
                threading.Thread(target=self._down, args=(client, server, said, done), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket, said: threading.Event, done: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self.cut is not None and self._word in data:
                    how, self.cut = self.cut, None
                    said.set()
                    if how == "after":
                        server.sendall(data)
                        done.wait(30)
                    break
                server.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _down(self, client: socket.socket, server: socket.socket, said: threading.Event, done: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if self._pooled and (at := data.find(b"K\x00\x00\x00\x0c")) >= 0:
                    data = data[:at + 5] + struct.pack(">i", 12345) + data[at + 9:]
                if said.is_set():
                    done.set()
                else:
                    client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
