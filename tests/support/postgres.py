"""A PostgreSQL server of the tests' own: a cluster in a temporary folder that ends with the process; none where it is not installed.

It listens on a port of this machine alone. The user `owner` may do everything and needs no password; `reader` needs one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dpsql.frozen import Frozen

PASSWORD = "cl0ud/berry@#%"
ACCESS = """\
local all owner trust
host all owner 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""
SETTINGS = "fsync = off\nfull_page_writes = off\nlisten_addresses = '127.0.0.1'\nmax_connections = 20\n"
DURABLE = "listen_addresses = '127.0.0.1'\nmax_connections = 60\n"
WHY = "PostgreSQL is not installed: apt-get install postgresql"
_numbers = count()


class Postgres(Frozen, kw_only=False):
    """A database of the server."""

    port: int
    name: str

    @property
    def uri(self) -> str:
        return f"postgresql://owner@127.0.0.1:{self.port}/{self.name}"

    @property
    def place(self) -> str:
        """Where it is, without a user."""
        return f"127.0.0.1:{self.port}/{self.name}"

    def run(self, *statements: str) -> None:
        with _connection(self.uri) as connection:
            for sql in statements:
                _execute(connection, sql)

    def fill(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a table, their values as text of SQL."""
        lines = (f"({', '.join(map(literal, row))})" for row in rows)
        self.run(f"INSERT INTO {table} VALUES {', '.join(lines)}")


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def fresh(settings: str = SETTINGS) -> Postgres:
    """A new, empty database, of the server with these settings. Skips the test where there is no server."""
    server = Postgres(cluster(settings).port, "postgres")
    made = Postgres(server.port, f"test{next(_numbers)}")
    server.run(f"CREATE DATABASE {made.name}")
    return made


def program(name: str) -> str | None:
    """The path of a program of the server."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True)
    return shutil.which(name) or next((str(folder / name) for folder in folders if (folder / name).is_file()), None)


@contextlib.contextmanager
def _connection(uri: str) -> Iterator[Any]:
    import adbc_driver_postgresql
    from adbc_driver_manager import AdbcConnection, AdbcDatabase

    with AdbcDatabase(driver=adbc_driver_postgresql._driver_path(), uri=uri) as database, AdbcConnection(database) as connection:
        yield connection


def _execute(connection: Any, sql: str) -> None:
    from adbc_driver_manager import AdbcStatement

    with AdbcStatement(connection) as statement:
        statement.set_sql_query(sql)
        statement.execute_update()


class Cluster:
    """A running server and the folder of its data."""

    def __init__(self, postgres: str, folder: Path, as_other: dict[str, Any]) -> None:
        self._postgres, self._folder, self._as_other, self.port = postgres, folder, as_other, 0

    def start(self, port: int) -> bool:
        log = (self._folder / "log").open("ab")
        self.port, self._running = port, subprocess.Popen(
            [self._postgres, "-D", self._folder / "data", "-k", self._folder, "-p", str(port)], stdout=log, stderr=log, cwd=self._folder,
            preexec_fn=_end_with_this_process, **self._as_other)
        log.close()
        atexit.register(self._running.kill)
        return _answers(port, self._running)

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT ends whoever is connected, SIGQUIT everything at once, as a crash does."""
        self._running.send_signal(how)
        self._running.wait()

    @contextlib.contextmanager
    def standing_by(self) -> Iterator[None]:
        """A context in which it is a standby, of a primary that is away: it can be read."""
        for change in ((self._folder / "data/standby.signal").touch, (self._folder / "data/standby.signal").unlink):
            self.stop()
            change()
            assert self.start(self.port)
            if (self._folder / "data/standby.signal").exists():
                yield

    def crash(self) -> None:
        """End without warning, and start again."""
        self.stop(signal.SIGQUIT)
        assert self.start(self.port)


def cluster(settings: str) -> Cluster:
    """The server with these settings. Skips the test where there is none."""
    return _server(settings) or pytest.skip(WHY)


@cache
def _server(settings: str) -> Cluster | None:
    """The server of this process with these settings, which is started when it is first asked for."""
    initdb, postgres = program("initdb"), program("postgres")
    if initdb is None or postgres is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="dpsql-postgres-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    as_other = _other_user(folder)
    made = subprocess.run([initdb, "-D", folder / "data", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
                          capture_output=True, text=True, cwd=folder, **as_other)
    assert made.returncode == 0, made.stderr
    (folder / "data/pg_hba.conf").write_text(ACCESS, encoding="utf-8")
    with (folder / "data/postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(settings)
    made_server = Cluster(postgres, folder, as_other)
    for _ in range(5):  # another process may take the port first
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        if made_server.start(port):
            Postgres(port, "postgres").run(f"CREATE USER reader PASSWORD '{PASSWORD}'")
            atexit.register(made_server.stop)  # whoever is connected
            return made_server
    raise AssertionError((folder / "log").read_text(encoding="utf-8"))


def _other_user(folder: Path) -> dict[str, Any]:
    """The server refuses to run as root, so then it runs as somebody else, whose folder this is."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _end_with_this_process() -> None:
    """However it ends: where the system is Linux, the server is told to end too."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGINT)


def _answers(port: int, running: subprocess.Popen[bytes]) -> bool:
    """Whether the server comes up."""
    import time

    for _ in range(200):
        if running.poll() is not None:
            return False
        with contextlib.suppress(Exception), _connection(f"postgresql://owner@127.0.0.1:{port}/postgres"):
            return True
        time.sleep(0.05)
    return False
