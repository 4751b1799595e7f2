"""Limits, TLS and the end of a server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from dpsql.frozen import replace

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support.frontend_messages import SSL
from support.seats import ScriptedSeat, wait_until
from support.standalone_spark import children
from support.wire_servers import PASSWORD, Raw, add, certificate, fields, kinds, packet, query, running, served, startup

import dpsql
from dpsql.demo import folder
from dpsql.errors import LedgerError, OperationalError, PolicyError
from dpsql.server.front.statements.transaction_status import word_of
from dpsql.server.front.statements.uncounted import is_uncounted
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire import listening
from dpsql.server.front.wire.listening import TlsFiles, tls_terms
from dpsql.server.front.wire.login_delays import FailedLogins
from dpsql.server.link.login_messages import NotProven
from dpsql.server.start.serving import serve
from dpsql.server.vault import passwords
from dpsql.trusted.kernel.ledger import Ledger


def code(messages: list[tuple[str, bytes]]) -> str:
    return fields(next(body for kind, body in messages if kind == "E"))["C"]


def test_connections_are_limited_in_all_and_for_each_account(tmp_path: Path) -> None:
    with running(tmp_path, connections=3, connections_of_account=1) as server:
        for name in ("eve", "bob"):
            add(server.users, name)
        with Raw(server.port) as one, Raw(server.port) as two:
            assert one.login()[-1][0] == "Z" and code(two.login()) == "53300"
        wait_until(lambda: not server.server._connections)
        with Raw(server.port) as one, Raw(server.port) as two, Raw(server.port) as three:
            assert [raw.login(user=name)[-1][0] for raw, name in ((one, "ada"), (two, "eve"), (three, "bob"))] == ["Z"] * 3
            with Raw(server.port) as four:  # only now, as one of those who have not logged in would give way
                four.send(startup(user="ada"))
                assert code(four.until("")) == "53300"


def test_those_who_do_not_log_in_leave_soon(tmp_path: Path) -> None:
    with running(tmp_path, authentication_seconds=0.6) as server:
        with Raw(server.port) as silent:
            assert silent.file.read() == b""
        with Raw(server.port) as raw:
            raw.send(startup(user="ada"))
            assert code(raw.until("")) == "08006"
        with Raw(server.port) as raw:
            assert raw.login()[-1][0] == "Z"
            time.sleep(0.8)
            raw.send(query("ROWS 1"))
            assert kinds(raw.until("Z")) == "TDCZ"


def test_what_strangers_send_is_small(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        with Raw(server.port) as raw:
            raw.send(struct.pack("!II", 100_000, 0x30000))
            assert code(raw.until("")) == "54000"
        with Raw(server.port) as raw:
            raw.send(startup(user="ada"))
            raw.receive()
            raw.send(b"p" + struct.pack("!I", 1 << 29))
            assert code(raw.until("")) == "54000"


def test_idle_connections_end(tmp_path: Path) -> None:
    with running(tmp_path, idle_seconds=0.3) as server, Raw(server.port) as raw:
        assert raw.login()[-1][0] == "Z"
        assert code(raw.until("")) == "57P05"
        wait_until(lambda: server.seats[0].closed)


def test_texts_messages_and_statements_are_limited(tmp_path: Path) -> None:
    with running(tmp_path, text_bytes=1000, message_bytes=5000, statements_a_minute=3, prepared=2) as server, Raw(server.port) as raw:
        raw.login()
        raw.send(query("ROWS 1 -- " + "x" * 1000))
        assert code(raw.until("Z")) == "54000"
        for name, found in (("a", ""), ("b", ""), ("c", "54000"), ("d", "53400")):  # which are counted apart
            raw.send(packet(b"P", f"{name}\0ROWS 1\0".encode() + bytes(2)), packet(b"S", b""))
            assert (code(said) if "E" in kinds(said := raw.until("Z")) else "") == found
        for _ in range(3):
            raw.send(query("ROWS 1"))
            assert kinds(raw.until("Z")) == "TDCZ"
        raw.send(query("ROWS 1"))
        assert code(raw.until("Z")) == "53400"
        raw.send(query("x" * 5000))
        assert code(raw.until("")) == "54000"


ABOUT_THE_CONNECTION = ("BEGIN", "SET x = 1", "SAVEPOINT s", "ROLLBACK TO s", "COMMIT", "SHOW x", "DEALLOCATE ALL")


@pytest.mark.parametrize("text", [*ABOUT_THE_CONNECTION, "RESET ALL", "DISCARD ALL", "UNLISTEN *", "/* a */ show all", "SELECT pg_advisory_unlock_all();",
                                  "SHOW TRANSACTION ISOLATION LEVEL"])
def test_statements_about_the_connection_are_uncounted(text: str) -> None:
    assert is_uncounted(text) or word_of(text) is not None


@pytest.mark.parametrize("text", ["ROWS 1", "SELECT 1", "SHOW BUDGET", "SHOW budget", "SHOW tables", "SHOW SPENDING", "SHOW analysts;",
                                  "EXPLAIN SELECT 1", "SELECT pg_advisory_unlock_all() FROM persons", "-- SET\nSELECT 1", "", "SET '"])
def test_statements_of_dpsql_are_counted(text: str) -> None:
    assert not is_uncounted(text) and word_of(text) is None


def test_statements_about_the_connection_do_not_count(tmp_path: Path) -> None:
    """Drivers and pools send several for each statement of dpsql, by both protocols."""
    with running(tmp_path, statements_a_minute=2) as server, Raw(server.port) as raw:
        raw.login()
        for text in 5 * ABOUT_THE_CONNECTION:
            raw.send(query(text))
            assert "E" not in kinds(raw.until("Z")), text
            raw.send(packet(b"P", f"\0{text}\0".encode() + bytes(2)), packet(b"B", bytes(8)), packet(b"D", b"P\0"),
                     packet(b"E", bytes(5)), packet(b"S", b""))
            raw.until("Z")
        for _ in range(2):
            raw.send(query("ROWS 1"))
            assert kinds(raw.until("Z")) == "TDCZ"
        raw.send(query("ROWS 1"))
        assert code(raw.until("Z")) == "53400"


@pytest.mark.parametrize("message", [packet(b"S", b""), query("BEGIN;COMMIT")], ids=["Sync", "transactions"])
def test_a_flood_of_messages_leaves_others_their_turn(message: bytes, tmp_path: Path) -> None:
    """This is what bounds the messages that do not count."""
    number, answered = 50_000, [0]
    with running(tmp_path) as server, Raw(server.port) as flood, Raw(server.port) as calm:
        flood.login()
        calm.login()

        def read() -> None:
            with contextlib.suppress(OSError):
                while flood.until("Z")[-1][0]:
                    answered[0] += 1

        def send() -> None:
            with contextlib.suppress(OSError):
                flood.send(message * number)

        threads = [threading.Thread(target=work, daemon=True) for work in (read, send)]
        for thread in threads:
            thread.start()
        wait_until(lambda: answered[0] > 10)
        for _ in range(3):
            calm.send(query("ROWS 1"))
            assert kinds(calm.until("Z")) == "TDCZ"
        assert answered[0] < number // 2
        flood.socket.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(20)


@pytest.mark.parametrize("limits", [{"waiting_of_account": 1}, {"waiting_bytes": 12}])
def test_statements_that_an_account_has_waiting_are_limited(limits: dict[str, int], tmp_path: Path) -> None:
    with running(tmp_path, **limits) as server, Raw(server.port) as one, Raw(server.port) as two:
        one.login()
        two.login()
        one.send(query("SLEEP 0.7"))
        wait_until(lambda: server.seats[0].executed)
        two.send(query("ROWS 1"))
        assert code(two.until("Z")) == "53400"
        one.until("Z")
        two.send(query("ROWS 1"))
        assert kinds(two.until("Z")) == "TDCZ"


def test_the_front_has_as_many_statements_at_once_as_connections(tmp_path: Path) -> None:
    """Which of them wait is decided where they are charged, so here none waits for another."""
    with running(tmp_path, connections_of_account=40, unproven_of_address=40) as server, contextlib.ExitStack() as opened:
        raws = [opened.enter_context(Raw(server.port)) for _ in range(40)]
        for raw in raws:
            raw.login()
        for raw in raws[1:]:
            raw.send(query("SLEEP 60"))
        wait_until(lambda: all(seat.executed for seat in server.seats[1:]))
        raws[0].send(query("ROWS 1"))
        assert kinds(raws[0].until("Z")) == "TDCZ"
        for seat in server.seats:
            seat.interrupted.set()


def test_a_client_that_leaves_gives_up_its_turn_at_once(tmp_path: Path) -> None:
    with running(tmp_path, left_seconds=0.5) as server:
        with Raw(server.port) as raw:
            raw.login()
            raw.send(query("SLEEP 60"))
            wait_until(lambda: server.seats[0].executed)
        wait_until(lambda: server.seats[0].given_up)
        assert not server.seats[0].interrupted.is_set()
        wait_until(lambda: server.seats[0].closed)
        assert (server.seats[0].cause, server.seats[0].given_up) == ("client left", 1)


def test_a_client_that_does_not_read_holds_little_and_is_cut_off(tmp_path: Path) -> None:
    with running(tmp_path, send_seconds=0.5) as server:
        with Raw(server.port) as warm:
            warm.login()
            warm.send(query("WIDE 200"))
            warm.until("Z")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        raw = Raw(server.port)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.login()
        raw.send(query("WIDE 100000"))  # a gigabyte
        wait_until(lambda: server.seats[1].closed, 20)
        raw.close()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_failed_logins_are_slowed_down() -> None:
    failed = FailedLogins()
    for i in range(5):
        assert failed.delay("192.0.2.1", float(i)) == 0
        failed.failed("192.0.2.1", float(i))
    assert failed.delay("192.0.2.1", 5.0) == 1 and failed.delay("192.0.2.2", 5.0) == 0
    for _ in range(20):
        failed.failed("192.0.2.1", 5.0)
    assert failed.delay("192.0.2.1", 5.0) == 16 and failed.delay("192.0.2.1", 66.0) == 0
    for i in range(6):
        failed.failed(f"2001:db8::{i}", 0.0)
    assert failed.delay("2001:db8::ffff", 1.0) > 0 and failed.delay("2001:db8:1::1", 1.0) == 0
    for i in range(FailedLogins.ADDRESSES + 10):
        failed.failed(str(i), 0.0)
    assert len(failed._failed) == FailedLogins.ADDRESSES


def test_logins_under_way_count_as_those_that_failed() -> None:
    failed, begun = FailedLogins(), list[float]()

    async def attempt(seconds: float, *, proven: bool) -> None:
        with contextlib.suppress(NotProven):
            async with failed.attempt("192.0.2.1"):
                begun.append(time.monotonic())
                await asyncio.sleep(seconds)
                if not proven:
                    raise NotProven

    async def many(number: int, seconds: float, *, proven: bool) -> float:
        begun.clear()
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(attempt(seconds, proven=proven))
        return max(begun) - min(begun)

    assert asyncio.run(many(15, 0.01, proven=True)) < 0.9, "those who log in do not wait long for each other"
    failed.LONGEST = 2.0  # type: ignore[misc]
    assert asyncio.run(many(7, 2.5, proven=False)) > 1.9 and [then - begun[0] > 0.9 for then in begun] == [False] * 5 + [True] * 2
    assert not failed._under_way and failed.delay("192.0.2.1", time.monotonic()) == 2.0


def test_a_statement_whose_client_has_left_is_finished_if_it_takes_little(tmp_path: Path) -> None:
    with running(tmp_path, left_seconds=0.4) as server:
        for number, (text, interrupted) in enumerate((("SLEEP 0.2", False), ("SLEEP 30", True))):
            raw = Raw(server.port)
            raw.login()
            raw.send(query(text))
            wait_until(lambda at=number: server.seats[at].executed)
            begun = time.monotonic()
            raw.close()
            wait_until(lambda at=number: server.seats[at].closed)
            assert server.seats[number].interrupted.is_set() is interrupted and time.monotonic() - begun < 5


def test_stopping_waits_for_statements_and_tells_the_others(tmp_path: Path) -> None:
    with (running(tmp_path) as server, Raw(server.port) as busy, Raw(server.port) as idle, Raw(server.port),
          Raw(server.port) as unproven):
        busy.login()
        idle.login()
        unproven.send(startup(user="ada"))
        unproven.receive()
        busy.send(query("SLEEP 0.7"))
        wait_until(lambda: server.seats[0].executed)
        server.loop.call_soon_threadsafe(server.stop.set)
        begun = time.monotonic()
        assert code(idle.until("")) == "57P01" and time.monotonic() - begun < 0.5
        found = busy.until("")
        assert kinds(found) == "TDCZE" and code(found) == "57P01"
        with pytest.raises(OSError):
            Raw(server.port)
        server.thread.join(5)
        assert not server.thread.is_alive() and all(seat.closed for seat in server.seats)


def test_a_statement_that_takes_too_long_is_interrupted_when_stopping(tmp_path: Path) -> None:
    with running(tmp_path, stop_seconds=0.3) as server, Raw(server.port) as busy:
        busy.login()
        busy.send(query("SLEEP 30"))
        wait_until(lambda: server.seats[0].executed)
        begun = time.monotonic()
        server.stopped()
        assert time.monotonic() - begun < 6


def test_a_seat_may_refuse(tmp_path: Path) -> None:
    def refuse(*_: object) -> ScriptedSeat:
        raise RefusedOnWire("no budget of this name", sqlstate="3D000")

    def crash(*_: object) -> ScriptedSeat:
        raise ValueError("a secret")

    for open_seat, state in ((refuse, "3D000"), (crash, "XX000")):
        with running(tmp_path, open_seat) as server, Raw(server.port) as raw:
            found = raw.login()
            assert code(found) == state and b"secret" not in found[-1][1] and fields(found[-1][1])["S"] == "FATAL"


# -- TLS


def bound(port: int, cert: Path, **parameters: str) -> subprocess.CompletedProcess[str]:
    dsn = " ".join(f"{key}={value}" for key, value in
                   {"host": "localhost", "hostaddr": "127.0.0.1", "port": port, "user": "ada", "dbname": "d", **parameters}.items())
    return subprocess.run(["psql", "-X", "-At", dsn, "-c", "SELECT 1"], capture_output=True, text=True, timeout=30,
                          env={**os.environ, "PGPASSWORD": PASSWORD, "PGSSLROOTCERT": str(cert)})


@pytest.mark.skipif(not Path("/usr/bin/psql").exists() or not Path("/usr/bin/openssl").exists(), reason="needs psql and openssl")
def test_tls_with_a_bound_proof_and_without(tmp_path: Path) -> None:
    tls = listening.tls_terms(listening.TlsFiles(certificate=str(certificate(tmp_path))))
    assert tls.certificate is not None
    with running(tmp_path, tls=tls, needs_tls=True) as server:
        cert = tmp_path / "cert.pem"
        assert bound(server.port, cert, sslmode="verify-full", channel_binding="require").stdout == "1\n"
        assert bound(server.port, cert, sslmode="require", channel_binding="disable").stdout == "1\n"
        assert "connections are encrypted here" in bound(server.port, cert, sslmode="disable").stderr


@pytest.mark.skipif(not Path("/usr/bin/openssl").exists(), reason="needs openssl")
def test_what_is_sent_in_the_clear_behind_a_request_for_tls_is_never_read(tmp_path: Path) -> None:
    tls = listening.tls_terms(listening.TlsFiles(certificate=str(certificate(tmp_path))))
    with running(tmp_path, tls=tls) as server, Raw(server.port) as raw:
        raw.send(SSL + startup(user="ada"))
        assert raw.file.read(1) == b"S"
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(raw.socket, server_hostname="localhost")
        assert server.seats == []


@pytest.mark.parametrize("text", ["5433", "host", ":1", "host:-1", "host:99999", "host:x", "host:"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(OperationalError):
        listening.address_of(text)


def test_addresses() -> None:
    assert listening.address_of("[::1]:5433") == ("::1", 5433) and listening.address_of("localhost:0") == ("localhost", 0)
    assert listening.is_loopback("::1") and listening.is_loopback("127.3.2.1") and not listening.is_loopback("0.0.0.0")
    assert not listening.is_loopback("example.org")


def test_other_machines_need_tls(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="needs a certificate"):
        serve(tmp_path / "dpsql.toml", "0.0.0.0:0")


def test_what_is_wrong_with_the_owners_files_is_told_at_the_start(tmp_path: Path) -> None:
    policy = folder.export(tmp_path / "demo")
    with pytest.raises(OperationalError, match="no file of users"):
        serve(policy, "127.0.0.1:0")
    add(passwords.users_file(policy))
    policy.with_name("dpsql.ledger").unlink()
    with pytest.raises(LedgerError, match="no ledger"):
        serve(policy, "127.0.0.1:0")
    with pytest.raises(PolicyError):
        serve(policy.with_name("nothing.toml"), "127.0.0.1:0")


def test_sigterm_stops_both_processes(tmp_path: Path) -> None:
    with served(folder.export(tmp_path / "demo"), budget="study") as server, Raw(server.port) as raw:
        assert raw.login(database="study")[-1][0] == "Z"
        front = children(server.process.pid)
        assert len(front) == 1
        server.process.send_signal(signal.SIGTERM)
        assert code(raw.until("")) == "57P01"
        assert server.process.wait(20) == 0 and not Path(f"/proc/{front[0]}").exists()


def test_sigterm_is_heard_as_soon_as_the_server_says_that_it_serves(tmp_path: Path) -> None:
    policy = folder.export(tmp_path / "demo")
    with served(policy, budget="study", terms=("--http", "127.0.0.1:0")) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    early = subprocess.Popen([sys.executable, "-m", "dpsql.cli", "serve", "--policy", policy, "--listen", "127.0.0.1:0"],
                             stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    wait_until(lambda: children(early.pid), 60)  # the front has begun, and knows of no signals
    early.send_signal(signal.SIGTERM)
    assert early.wait(60) == 0


def test_the_log_names_what_analysts_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSQL_STATE", str(tmp_path / "state"))
    policy = folder.export(tmp_path / "demo")
    Ledger.create(tmp_path / "other.ledger").close()
    with dpsql.connect(policy=policy, budget="study", analyst="ada", ledger=tmp_path / "other.ledger") as elsewhere:
        elsewhere.execute("SHOW TABLES")
    with served(policy, budget="study", terms=("--http", "127.0.0.1:0")) as server, Raw(server.port) as raw:
        assert any(str(tmp_path / "other.ledger") in line for line in server.log)
        assert raw.login(database="study")[-1][0] == "Z"
        login = Request(f"http://127.0.0.1:{server.http_port}/api/login", json.dumps({"name": "ada", "password": PASSWORD}).encode(),
                        {"Content-Type": "application/json"})
        token = json.load(urlopen(login))["token"]
        told = urlopen(Request(f"http://127.0.0.1:{server.http_port}/api/account", headers={"Authorization": f"Bearer {token}"})).read()
        assert b"served before under a ledger that the log of the server names" in told and str(tmp_path).encode() not in told
        (policy.parent / "dpsql.ledger").rename(tmp_path / "away")
        raw.send(query("SELECT COUNT(*) FROM people"))
        refused = raw.until("Z")
        assert code(refused) == "58000" and str(tmp_path).encode() not in b"".join(body for _, body in refused)
        wait_until(lambda: any("was removed or replaced" in line and str(policy.parent) in line for line in server.log))


def test_the_vault_ends_with_its_front(tmp_path: Path) -> None:
    with served(folder.export(tmp_path / "demo"), budget="study") as server:
        os.kill(children(server.process.pid)[0], signal.SIGKILL)
        assert server.process.wait(20) != 0


def test_the_front_ends_with_its_vault(tmp_path: Path) -> None:
    with served(folder.export(tmp_path / "demo"), budget="study") as server:
        server.process.kill()
        server.process.wait()

        def is_served() -> bool:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.port)):
                return True
            return False

        wait_until(lambda: not is_served())


@pytest.mark.skipif(os.geteuid() != 0, reason="of the front, root alone sees the open files")
def test_the_front_holds_no_file_of_the_owner(tmp_path: Path) -> None:
    policy = folder.export(tmp_path / "demo")
    with served(policy, budget="study") as server, Raw(server.port) as raw:
        assert raw.login(database="study")[-1][0] == "Z"
        raw.send(query("SELECT COUNT(*) FROM people"))
        assert "D" in kinds(raw.until("Z"))
        front = Path(f"/proc/{children(server.process.pid)[0]}")
        held = [os.readlink(handle) for handle in (front / "fd").iterdir()]
        assert not [path for path in held if str(policy.parent) in path] and str(policy.parent) not in (front / "maps").read_text()


def test_a_user_who_is_removed_is_out_of_both_processes(tmp_path: Path) -> None:
    with served(folder.export(tmp_path / "demo"), budget="study") as server:
        with Raw(server.port) as raw:
            assert raw.login(database="study")[-1][0] == "Z"
            for _ in range(3):  # what was shown before is not shown either
                raw.send(query("SELECT COUNT(*) FROM people"))
                assert "D" in kinds(raw.until("Z"))
            passwords.remove_user(server.users, "ada")
            raw.send(query("SELECT COUNT(*) FROM people"))
            assert code(raw.until("")) == "28000"
        with Raw(server.port) as raw:
            assert code(raw.login(database="study")) == "28P01"


def rows(messages: list[tuple[str, bytes]]) -> list[list[str | None]]:
    """The values of rows, as texts."""
    found = []
    for kind, body in messages:
        if kind == "D":
            at, row = 2, list[str | None]()
            for _ in range(int.from_bytes(body[:2], "big")):
                size = int.from_bytes(body[at:at + 4], "big", signed=True)
                row.append(None if size < 0 else body[at + 4:at + 4 + size].decode())
                at += 4 + max(size, 0)
            found.append(row)
    return found


def test_auditors_see_who_spent_and_spend_nothing(tmp_path: Path) -> None:
    with served(folder.export(tmp_path / "demo"), budget="study") as server:
        for name in ("auditor", "owner"):
            passwords.add_user(server.users, passwords.User(name=name, verifier=passwords.verifier(PASSWORD), budget="study", role=name))
        with Raw(server.port) as ada, Raw(server.port) as auditor:
            for raw, name in ((ada, "ada"), (auditor, "auditor")):
                assert raw.login(name, database="study")[-1][0] == "Z"
            ada.send(query("SELECT COUNT(*) AS adas FROM people"))
            count = rows(ada.until("Z"))
            for text in ("SHOW SPENDING", "show analysts;"):
                ada.send(query(text))
                assert code(ada.until("Z")) == "42501"
            auditor.send(query("SELECT COUNT(*) AS adas FROM people"))
            assert code(auditor.until("Z")) == "42501"
            auditor.send(query("SHOW SPENDING"))
            spending, = rows(auditor.until("Z"))
            assert spending[2:4] == ["ada", "0.5"] and spending[6:] == ["answered", "SELECT COUNT(*) AS adas FROM people"]
            assert count[0][0] not in spending
            auditor.send(query("SHOW ANALYSTS"))
            states = {row[0]: row for row in rows(auditor.until("Z"))}
            assert [states[name][1:3] for name in (None, "ada")] == [["1", "0.5"]] * 2 and states["ada"][-3] == "0"
            assert (states[None][-1], states["ada"][-1]) == (None, "0")
            users = passwords.read_users(server.users).users["auditor"]
            passwords.remove_user(server.users, "auditor")
            passwords.add_user(server.users, replace(users, role="analyst"))  # a role that is taken away is gone at once
            auditor.send(query("SHOW SPENDING"))
            assert code(auditor.until("Z")) == "42501"


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    pem = certificate(tmp_path)
    for files, told in ((TlsFiles(certificate=str(tmp_path / "none.pem")), f"there is no file {tmp_path / 'none.pem'}"),
                        (TlsFiles(certificate=str(pem), key=str(tmp_path / "none.pem")), f"there is no file {tmp_path / 'none.pem'}"),
                        (TlsFiles(certificate=str(tmp_path / "cert.pem")), "and its key cannot be used")):
        with pytest.raises(OperationalError, match=re.escape(told)):
            tls_terms(files)
