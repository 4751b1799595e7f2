"""The protocol, byte by byte: what no client of a library can be made to do."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support import frontend_messages
from support.frontend_messages import FLUSH, GSS, SSL, SYNC, bind, close, describe, execute, parse
from support.seats import wait_until
from support.wire_servers import PASSWORD, Raw, Running, add, fields, kinds, packet, query, running, startup

from dpsql.server.front.wire.wire import Client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("wire")) as found:
        yield found


@pytest.fixture
def raw(server: Running) -> Iterator[Raw]:
    with Raw(server.port) as found:
        assert found.login(database="study")[-1] == ("Z", b"I")
        yield found


def errors(messages: list[tuple[str, bytes]]) -> list[str]:
    return [fields(body)["C"] for kind, body in messages if kind == "E"]


def test_a_login_says_what_clients_wait_for(server: Running) -> None:
    with Raw(server.port) as raw:
        found = raw.login(database="study", application_name="x")
    assert kinds(found) == "RRRR" + "S" * 6 + "KZ"
    assert found[-2][1][4:] != found[-2][1][:4] and len(found[-2][1]) == 8
    assert server.seats[-1].user == "ada" and server.seats[-1].startup["application_name"] == "x"


def test_a_name_is_an_account_in_its_normal_form(server: Running) -> None:
    with Raw(server.port) as raw:
        assert raw.login(user=" ADA ")[-1] == ("Z", b"I")
    assert server.seats[-1].user == "ada"


def test_versions_and_options_are_negotiated(server: Running) -> None:
    with Raw(server.port) as raw:
        found = raw.login(version=0x30002)
        assert kinds(found)[:1] == "R" and len(found[-2][1]) == 4 + 32  # a long key in 3.2
    with Raw(server.port) as raw:
        found = raw.login(version=0x3270F, **{"_pq_.grease": "on"})
        assert found[0] == ("v", struct.pack("!II", 0x30002, 1) + b"_pq_.grease\0") and found[-1][0] == "Z"
    with Raw(server.port) as raw:
        assert raw.login(version=0x30001)[0] == ("v", struct.pack("!II", 0x30000, 0))
    with Raw(server.port) as raw:
        assert errors(raw.login(version=0x20000)) == ["0A000"]


def test_gss_is_refused_and_tls_too_without_a_certificate(server: Running) -> None:
    with Raw(server.port) as raw:
        raw.send(GSS)
        assert raw.file.read(1) == b"N"
        raw.send(SSL)
        assert raw.file.read(1) == b"N"
        assert raw.login()[-1][0] == "Z"
    with Raw(server.port) as raw:
        for _ in range(2):
            raw.send(SSL)
        assert raw.file.read(1) == b"N" and errors(raw.until("")) == ["0A000"], "once"


def test_startups_without_a_user_or_for_replication_are_refused(server: Running) -> None:
    with Raw(server.port) as raw:
        raw.send(startup(database="study"))
        assert errors(raw.until("E")) == ["28000"]
    with Raw(server.port) as raw:
        assert errors(raw.login(replication="database")) == ["0A000"]


def test_several_statements_of_a_query(raw: Raw) -> None:
    raw.send(query("ROWS 2; SET x; NOTE; BOGUS; ROWS 1"))
    found = raw.until("Z")
    assert kinds(found) == "TDDC" + "C" + "NTDC" + "E" + "Z"
    assert fields(found[-2][1]) == {"S": "ERROR", "V": "ERROR", "C": "42601", "M": "no such statement", "D": "a detail",
                                    "H": "a hint", "P": "21"}
    raw.send(query(" ; "))
    assert kinds(raw.until("Z")) == "IZ"


def test_a_fault_tells_nothing(raw: Raw) -> None:
    for sent in ((query("CRASH"),), (parse("ROWS 1"), bind(), execute(), SYNC, query("CRASH"))):
        raw.send(*sent)
        found = raw.until("Z")
        if "E" not in kinds(found):
            found = raw.until("Z")
        assert errors(found) == ["XX000"] and b"secret" not in b"".join(body for _, body in found)


def test_describing_before_binding_and_after(raw: Raw) -> None:
    raw.send(parse("ECHO $1::BIGINT $2::DATE $3", "s", (0, 0, 1043)), describe("S", "s"), FLUSH)
    found = raw.until("T")
    assert kinds(found) == "1tT" and found[1][1] == struct.pack("!H3I", 3, 20, 1082, 1043)
    raw.send(bind((b"7", None, b"x"), "p", "s", results=(1, 0, 0)), describe("P", "p"), execute("p"), SYNC)
    found = raw.until("Z")
    assert kinds(found) == "2TDCZ"
    assert found[2][1] == struct.pack("!H", 3) + struct.pack("!iq", 8, 7) + struct.pack("!i", -1) + struct.pack("!i", 1) + b"x"
    raw.send(parse("SET x", "t"), describe("S", "t"), SYNC)
    assert kinds(raw.until("Z")) == "1tnZ"


def test_portals_are_suspended_and_go_on(raw: Raw) -> None:
    raw.send(query("BEGIN"))
    assert raw.until("Z")[-1] == ("Z", b"T")
    raw.send(parse("ROWS 2500"), bind(portal="p"), execute("p", 1), execute("p", 2), SYNC)
    assert kinds(raw.until("Z")) == "12DsDDsZ"
    raw.send(execute("p", 2000), execute("p"), execute("p"), SYNC)  # portals last as long as a transaction
    assert kinds(raw.until("Z")) == "D" * 2000 + "s" + "D" * 497 + "C" + "C" + "Z"
    raw.send(query("COMMIT"), execute("p"), SYNC)
    assert kinds(raw.until("Z")) == "CZ"
    assert errors(raw.until("Z")) == ["34000"]


def test_rows_that_wait_to_be_fetched_are_bounded_for_an_account(tmp_path: Path) -> None:
    with running(tmp_path, suspended_bytes=100_000) as found, Raw(found.port) as one, Raw(found.port) as two:
        for raw in (one, two):
            raw.login()
            raw.send(query("BEGIN"), parse("ROWS 1000", "s"), bind(portal="p", name="s"), FLUSH)
            raw.until("2")
        one.send(execute("p", 1), FLUSH)
        assert kinds(one.until("s")) == "Ds"
        two.send(execute("p", 1), SYNC)
        assert errors(two.until("Z")) == ["53400"], "before a row was sent"
        assert found.server.use._suspended.total() < 100_000
        one.send(execute("p"), SYNC)  # all of them
        assert kinds(one.until("Z")) == "D" * 999 + "CZ" and not found.server.use._suspended
        two.send(query("ROLLBACK"), query("BEGIN"), bind(portal="q", name="s"), execute("q", 1), FLUSH)
        assert kinds(two.until("s")).endswith("2Ds") and found.server.use._suspended
        one.send(query("COMMIT"), bind(name="s"), execute("", 1), SYNC)
        assert errors(one.until("E")) == ["53400"]
        two.close()
        wait_until(lambda: not found.server.use._suspended)


def test_after_an_error_all_is_skipped_until_sync(raw: Raw) -> None:
    raw.send(parse("BOGUS"), bind(), execute(), parse("ROWS 1", "never"), SYNC, parse("ROWS 1"), bind(), execute(), SYNC)
    assert kinds(raw.until("Z")) == "EZ"
    assert kinds(raw.until("Z")) == "12DCZ"
    raw.send(bind(name="never"), SYNC)
    assert errors(raw.until("Z")) == ["26000"]


def test_many_batches_in_a_row(raw: Raw) -> None:
    raw.send(*[part for _ in range(200) for part in (parse("ROWS 3"), bind(), describe("P"), execute(), SYNC)])
    for _ in range(200):
        assert kinds(raw.until("Z")) == "12TDDDCZ"
    raw.send(query("ROWS 1"), query("ROWS 1"))
    assert kinds(raw.until("Z") + raw.until("Z")) == "TDCZTDCZ"


def test_names_are_taken_until_they_are_closed(raw: Raw) -> None:
    raw.send(parse("ROWS 1", "s"), parse("ROWS 2", "s"), SYNC)
    assert errors(raw.until("Z")) == ["42P05"]
    raw.send(close("S", "s"), parse("ROWS 2", "s"), bind(name="s", portal="p"), bind(name="s", portal="p"), SYNC)
    assert errors(raw.until("Z")) == ["42P03"]
    raw.send(query("DEALLOCATE s"), parse("ROWS 1"), bind(), execute(), SYNC, query("DEALLOCATE nobody"), query("DEALLOCATE ALL"))
    assert kinds(raw.until("Z")) == "CZ" and kinds(raw.until("Z")) == "12DCZ"
    assert errors(raw.until("Z")) == ["26000"] and kinds(raw.until("Z")) == "CZ"
    raw.send(close("P", "nobody"), close("S", "nobody"), SYNC)
    assert kinds(raw.until("Z")) == "33Z"


def test_a_failed_transaction_refuses_all_but_its_end(raw: Raw) -> None:
    raw.send(query("BEGIN"), query("FAIL"), query("ROWS 1"), parse("ROWS 1"), SYNC, query("SAVEPOINT a"))
    assert raw.until("Z")[-1][1] == b"T"
    found = raw.until("Z")
    assert errors(found) == ["42883"] and found[-1][1] == b"E"
    for _ in range(3):
        found = raw.until("Z")
        assert errors(found) == ["25P02"] and found[-1][1] == b"E"
    raw.send(parse("COMMIT"), bind(), execute(), SYNC)
    found = raw.until("Z")
    assert kinds(found) == "12CZ" and found[2][1] == b"ROLLBACK\0" and found[-1][1] == b"I"


def test_savepoints_and_warnings(raw: Raw) -> None:
    raw.send(query("start transaction isolation level serializable; SAVEPOINT a; BEGIN"))
    assert kinds(raw.until("Z")) == "CCNCZ"
    raw.send(query("FAIL"), query(" /* a */ -- b\n rollback to savepoint a"), query("RELEASE a; END"), query("COMMIT"), query("SAVEPOINT a"))
    states = [raw.until("Z") for _ in range(5)]
    assert [found[-1][1] for found in states] == [b"E", b"T", b"I", b"I", b"I"]
    assert kinds(states[3]) == "NCZ" and errors(states[4]) == ["25P01"]


def test_others_have_their_turn_within_a_long_message(raw: Raw, server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, seen, answer = [0], Counter[int](), Client._answer_itself

    def turn() -> None:
        turns[0] += 1
        if turns[0] < 10**6:
            server.loop.call_soon(turn)

    def answered(*given: Any) -> None:
        seen[turns[0]] += 1
        answer(*given)

    monkeypatch.setattr(Client, "_answer_itself", answered)
    server.loop.call_soon_threadsafe(turn)
    raw.send(query("BEGIN;COMMIT;" * 1000))
    assert kinds(raw.until("Z")).count("C") == 2000
    turns[0] = 10**6
    assert sum(seen.values()) == 2000 and max(seen.values()) <= 100


def test_copy_and_calls_are_refused(raw: Raw) -> None:
    raw.send(query("COPY people FROM STDIN"), packet(b"F", struct.pack("!IHHH", 1, 0, 0, 0)), query("ROWS 1"))
    assert errors(raw.until("Z")) == errors(raw.until("Z")) == ["0A000"]
    assert kinds(raw.until("Z")) == "TDCZ"


@pytest.mark.parametrize("sent", [
    b"\x00\x00\x00\x00\x04", b"Q\xff\xff\xff\xff", b"Q\x00\x00\x00\x03", b"p\x00\x00\x00\x05a", b"?\x00\x00\x00\x04",
], ids=repr)
def test_what_is_no_message_ends_the_connection(raw: Raw, sent: bytes) -> None:
    raw.send(sent)
    found = raw.until("")
    assert errors(found) in (["08P01"], ["54000"]) and fields(found[-2][1])["S"] == "FATAL"


@pytest.mark.parametrize(("sent", "in_batch"), [
    (b"Q\x00\x00\x00\x04", False), (b"Q\x00\x00\x00\x06\xff\x00", False), (b"D\x00\x00\x00\x04", True),
    (b"P\x00\x00\x00\x06\x00\x00", True), (b"E\x00\x00\x00\x05\x00", True)], ids=repr)
def test_a_message_with_a_malformed_body_is_an_error(raw: Raw, sent: bytes, in_batch: bool) -> None:
    """As in PostgreSQL: its end is known, so the next message is found."""
    raw.send(sent, query("ROWS 1"), SYNC)
    assert kinds(raw.until("Z")) == "EZ"
    if not in_batch:
        assert kinds(raw.until("Z")) == "TDCZ"
        raw.until("Z")
    raw.send(packet(b"d", b"x"), packet(b"c", b""), packet(b"f", b"x\0"), query("ROWS 1"))
    assert kinds(raw.until("Z")) == "TDCZ", "nothing is copied in, so these are ignored"


def test_malformed_parameters_are_errors(raw: Raw) -> None:
    for value, form, oid, state in ((b"x", 0, 20, "22P02"), (b"\0", 1, 20, "08P01"), (bytes(9), 1, 20, "22P03"), (b"1", 2, 20, "22023"),
                                    (b"1", 0, 600, "0A000"), (b"9" * 30, 0, 20, "22003")):
        raw.send(parse("ECHO $1::BIGINT", oids=(oid,)), bind((value,), forms=(form,)), execute(), SYNC)
        assert errors(raw.until("Z")) == [state]
    raw.send(parse("ECHO $1::BIGINT"), bind(()), SYNC)
    assert errors(raw.until("Z")) == ["08P01"]
    raw.send(parse("ROWS 1; ROWS 2"), SYNC)
    assert errors(raw.until("Z")) == ["42601"]
    raw.send(parse(""), bind(), describe("P"), execute(), SYNC)
    assert kinds(raw.until("Z")) == "12nIZ"


def cancel(server: Running, process: int, key: bytes) -> None:
    with Raw(server.port) as other:
        other.send(frontend_messages.cancel(process, key))
        assert other.file.read() == b""


def test_cancel_needs_the_key(server: Running, raw: Raw) -> None:
    process, key = raw.key
    raw.send(query("SLEEP 1"))
    wait_until(lambda: server.seats[-1].executed)
    for wrong in (bytes(4), key[:3], key + b"x", b"", bytes(256)):
        cancel(server, process, wrong)
    cancel(server, process ^ 1, key)
    assert kinds(raw.until("Z")) == "TDCZ"
    executed = server.seats[-1].executed
    raw.send(query("SLEEP 20"))
    wait_until(lambda: server.seats[-1].executed > executed)
    begun = time.monotonic()
    cancel(server, process, key)
    assert errors(raw.until("Z")) == ["57014"] and time.monotonic() - begun < 5
    cancel(server, process, key)  # nothing runs
    raw.send(query("SLEEP 0.05"))
    assert kinds(raw.until("Z")) == "TDCZ"


def test_wrong_passwords_and_unknown_users_look_alike(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        said = []
        for user in ("ada", "eve"):
            with Raw(server.port) as raw:
                found = raw.login(user=user, password="wrong password")
            assert kinds(found) == "RRE"
            salt, iterations = found[1][1].split(b",s=")[1].split(b",i=")
            said.append((len(salt), iterations, found[2][1].replace(user.encode(), b"?"), found[0]))
        assert said[0] == said[1] and b"28P01" in said[0][2]
        salts = set()
        for _ in range(2):
            with Raw(server.port) as raw:
                salts.add(raw.login(user="eve")[1][1].split(b",s=")[1])
        assert len(salts) == 1  # as a user's is


def test_a_user_who_is_removed_is_out(tmp_path: Path) -> None:
    from dpsql.server.vault import passwords

    with running(tmp_path) as server:
        add(server.users, "eve")
        with Raw(server.port) as raw:
            assert raw.login(user="eve")[-1][0] == "Z"
            passwords.remove_user(server.users, "eve")
            raw.send(query("ROWS 1"))
            assert errors(raw.until("")) == ["28000"]
        with Raw(server.port) as raw:
            assert errors(raw.login(user="eve", password=PASSWORD)) == ["28P01"]
