"""Nobody without a password keeps others out, with real sockets; and whoever is refused is told so."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support.frontend_messages import GSS, SSL, cancel
from support.seats import ScriptedSeat, wait_until
from support.wire_servers import Raw, Running, add, fields, kinds, packet, query, running, startup

from dpsql.server.front.wire.strangers import Stranger, Strangers


@contextlib.contextmanager
def idle(port: int, number: int, *sent: bytes, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """So many sockets of an address of this machine, which say what they say and then nothing."""
    with contextlib.ExitStack() as opened:
        found = []
        for _ in range(number):
            sock = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(address, 0)))
            with contextlib.suppress(OSError):  # it may have given way already
                for part in sent:
                    sock.sendall(part)
            found.append(sock)
        yield found


def logs_in(port: int, seconds: float = 5.0) -> None:
    begun = time.monotonic()
    with Raw(port) as raw:
        assert raw.login(database="study")[-1] == ("Z", b"I")
        raw.send(query("ROWS 1"))
        assert kinds(raw.until("Z")) == "TDCZ"
    assert time.monotonic() - begun < seconds


def is_closed(sock: socket.socket) -> bool:
    """Whether the server has closed it, or reads no more of it."""
    sock.setblocking(False)
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def strangers(server: Running) -> int:
    return len(server.server._strangers)


@pytest.mark.parametrize("sent", [(), (b"\0",), (SSL,), (startup(user="ada"),)], ids=["silent", "slow", "asking", "begun"])
def test_idle_sockets_of_one_address_do_not_shut_it_out(sent: tuple[bytes, ...], tmp_path: Path) -> None:
    with running(tmp_path, logins_of_address=20) as server, idle(server.port, 60, *sent) as socks:
        wait_until(lambda: strangers(server) == 20)
        logs_in(server.port)
        wait_until(lambda: sum(map(is_closed, socks)) >= 40)


def test_idle_sockets_of_many_addresses_do_not_shut_out_others(tmp_path: Path) -> None:
    with running(tmp_path, connections=40) as server, contextlib.ExitStack() as held:
        for number in range(10):
            held.enter_context(idle(server.port, 20, address=f"127.0.1.{number + 1}"))
        wait_until(lambda: strangers(server) == 40)
        for _ in range(5):
            logs_in(server.port)
        assert strangers(server) <= 40


def test_a_login_goes_on_while_others_come(tmp_path: Path) -> None:
    """Those who have said nothing do not take the place of one whose login is under way, though it is older."""
    with running(tmp_path, unproven_of_address=5) as server, Raw(server.port) as first:
        first.send(startup(user="ada", database="study"))
        assert first.receive()[0] == "R"
        with idle(server.port, 20):
            wait_until(lambda: strangers(server) == 6)
            first.send(packet(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", 3) + b"n,,"))
            assert first.receive()[0] in ("R", "E"), "it was not shed"


def test_who_gives_way_is_told_so_if_a_login_was_under_way(tmp_path: Path) -> None:
    with running(tmp_path, logins_of_address=1) as server, Raw(server.port) as first:
        first.send(startup(user="ada"))
        assert first.receive()[0] == "R"
        logs_in(server.port)
        assert fields(first.until("E")[-1][1])["C"] == "53300"


def test_who_has_proved_a_password_is_no_stranger_while_the_seat_is_opened(tmp_path: Path) -> None:
    """Opening one may take long on a busy server. Neither do more of them than may log in at once shed each other, nor do they wait
    for each other."""
    opened = threading.Event()

    def slow(*given: Any) -> ScriptedSeat:
        assert opened.wait(20)
        return ScriptedSeat(*given)

    with running(tmp_path, slow, unproven_of_address=2, logins_of_address=2) as server, contextlib.ExitStack() as held:
        raws, logins = list[Raw](), list[threading.Thread]()
        for number in range(1, 13):
            raws.append(held.enter_context(Raw(server.port)))
            logins.append(threading.Thread(target=raws[-1].login, daemon=True))
            logins[-1].start()
            wait_until(lambda: server.server.use._connected["ada"] == number and strangers(server) == 0)  # noqa: B023 - called at once
        opened.set()
        for login in logins:
            login.join(20)
        for raw in raws:
            raw.send(query("ROWS 1"))
            assert kinds(raw.until("Z")) == "TDCZ"


def test_a_seat_that_is_opened_too_late_is_closed(tmp_path: Path) -> None:
    def slow(*given: Any) -> ScriptedSeat:
        time.sleep(1.0)
        return ScriptedSeat(*given)

    with running(tmp_path, slow, authentication_seconds=0.5) as server, Raw(server.port) as raw:
        assert fields(raw.login()[-1][1])["C"] == "08006"
        wait_until(lambda: bool(server.seats) and server.seats[0].closed)
        wait_until(lambda: not server.server.use._connected)


def test_requests_to_cancel_and_logins_do_not_shed_each_other(tmp_path: Path) -> None:
    with running(tmp_path, unproven_of_address=1, logins_of_address=1) as server, contextlib.ExitStack() as held:
        one = held.enter_context(Raw(server.port))
        one.login()
        one.send(query("SLEEP 20"))
        wait_until(lambda: server.seats[0].executed)
        login = held.enter_context(Raw(server.port))
        login.send(startup(user="ada"))
        assert login.receive()[0] == "R"
        for _ in range(50):
            with Raw(server.port) as other:
                other.send(cancel(one.key[0], b"none"))
                assert other.file.read() == b""
        with Raw(server.port) as other:
            other.send(cancel(*one.key))
            assert other.file.read() == b""
        assert fields(one.until("E")[-1][1])["C"] == "57014"
        login.send(packet(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", 3) + b"n,,"))
        kind, told = login.receive()  # of its malformed proof, not of others
        assert kind == "E" and fields(told)["C"] == "08P01"


def test_connections_with_a_password_are_not_shed(tmp_path: Path) -> None:
    with running(tmp_path, connections=2) as server, Raw(server.port) as one, Raw(server.port) as two:
        for raw in (one, two):
            assert raw.login()[-1][0] == "Z"
        with idle(server.port, 1), Raw(server.port) as late:
            late.send(startup(user="ada"))
            assert fields(late.until("E")[-1][1])["C"] == "53300"
        for raw in (one, two):
            raw.send(query("ROWS 1"))
            assert kinds(raw.until("Z")) == "TDCZ"


@pytest.mark.parametrize("asked", [(), (SSL,), (GSS,), (GSS, SSL), (SSL, GSS)])
def test_at_the_limit_requests_to_encrypt_are_answered_before_the_refusal(asked: tuple[bytes, ...], tmp_path: Path) -> None:
    with running(tmp_path, connections=1) as server, Raw(server.port) as one:
        assert one.login()[-1][0] == "Z"
        with Raw(server.port) as other:
            for part in asked:
                other.send(part)
                assert other.file.read(1) == b"N"
            other.send(startup(user="ada"))
            said = other.until("")
            assert fields(said[0][1])["C"] == "53300" and fields(said[0][1])["S"] == "FATAL" and kinds(said) == "E"


def test_at_the_limit_a_statement_can_be_cancelled(tmp_path: Path) -> None:
    with running(tmp_path, connections=1) as server, Raw(server.port) as one:
        one.login()
        one.send(query("SLEEP 20"))
        wait_until(lambda: server.seats[0].executed)
        with Raw(server.port) as other:
            other.send(cancel(*one.key))
            assert other.file.read() == b""
        assert fields(one.until("E")[-1][1])["C"] == "57014"


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_shows_why_it_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, connections=1) as server, Raw(server.port) as one:
        assert one.login()[-1][0] == "Z"
        said = subprocess.run(["psql", "-X", server.dsn, "-c", "ROWS 1"], capture_output=True, text=True, timeout=20)
        assert "sorry, too many clients already" in said.stderr, said.stderr
    with running(tmp_path, connections_of_account=1) as server, Raw(server.port) as one:
        assert one.login()[-1][0] == "Z"
        said = subprocess.run(["psql", "-X", server.dsn, "-c", "ROWS 1"], capture_output=True, text=True, timeout=20)
        assert "too many connections for role" in said.stderr, said.stderr


def test_those_who_are_refused_take_no_place_of_others(tmp_path: Path) -> None:
    with running(tmp_path, connections=2) as server:
        add(server.users, "eve")
        with Raw(server.port) as one, Raw(server.port) as two:
            assert one.login()[-1][0] == "Z" and two.login("eve")[-1][0] == "Z"
            with idle(server.port, 2):  # they are only refused, but stay for a while
                time.sleep(0.1)
                two.close()
                wait_until(lambda: len(server.server._admitted) == 1)
                logs_in(server.port, 2.0)


def test_who_gives_way_first() -> None:
    known, shed = Strangers(silent=2, logging_in=2), list[str]()

    def stranger(name: str) -> Stranger:
        return Stranger(lambda: shed.append(name))

    with contextlib.ExitStack() as stack:
        assert not known.shed_one()
        made = {name: stranger(name) for name in ("begun", "silent", "alone", "newer", "newest", "second", "third")}

        def comes(network: str, name: str, *, logs_in: bool = False) -> None:
            stack.enter_context(known.counted(network, made[name]))
            if logs_in:
                known.speaks(network, made[name], made[name].give_way)

        comes("a", "begun", logs_in=True)
        comes("b", "alone")
        for name in ("silent", "newer"):
            comes("a", name)
        assert shed == [] and len(known) == 4
        comes("a", "newest")
        assert shed == ["silent"], "the oldest of those that say nothing"
        comes("a", "second", logs_in=True)
        assert shed == ["silent", "newer"], "which it was itself for a moment"
        comes("a", "third", logs_in=True)
        assert shed[2:] == ["begun"], "the oldest of those that log in"
        assert known.shed_one() and shed[3:] == ["newest"], "of the network with the most, who said nothing"
        assert all(known.shed_one() for _ in range(3)) and len(known) == 0 and sorted(shed[4:]) == ["alone", "second", "third"]
    assert len(known) == 0
