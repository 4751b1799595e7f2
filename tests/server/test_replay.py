"""The same bytes to PostgreSQL and to dpsql: both reply alike, but where `replayed_sequences` gives the reason."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")
pytest.importorskip("adbc_driver_postgresql", reason="the driver of the tests' PostgreSQL is not installed")

from support.frontend_messages import GSS, SSL, SYNC, bind, cancel, close, describe, execute, parse, query
from support.replayed import Pair, first_replies, pair
from support.replayed_sequences import DIFFERENT, ROWS, SEQUENCES
from support.wire_servers import startup

STARTS = {
    "tls": (SSL,), "tls twice": (SSL, SSL), "no user": (startup(database="x"),), "cancel": (cancel(1, b"\0\0\0\1"),),
    "tls, then cancel": (SSL, cancel(1, b"\0\0\0\1")), "login": (startup(user="reader", database="postgres"),),
    "tls, then login": (SSL, startup(user="reader", database="postgres")), "a newer version": (startup(0x40000, user="x"),)}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("replay")) as found:
        yield found


@pytest.mark.parametrize("name", SEQUENCES)
def test_both_reply_alike(name: str, both: Pair) -> None:
    theirs, ours = both.transcripts(*SEQUENCES[name])
    if name not in DIFFERENT:
        assert ours == theirs
        return
    different = DIFFERENT[name]
    assert ours != theirs, "no longer different"
    assert different.reason and [(line, other) for line, other in different.lines if line not in theirs or other not in ours] == []
    if different.same_otherwise:
        lines = dict(different.lines)
        assert ours == [lines.get(line, line) for line in theirs]


@pytest.mark.parametrize("name", STARTS)
def test_both_begin_alike(name: str, both: Pair) -> None:
    assert first_replies(both.ours, *STARTS[name]) == first_replies(both.theirs.port, *STARTS[name])


@pytest.mark.parametrize(("sent", "said"), [
    ((SSL, GSS), "NN"), ((GSS, SSL), "NN"), ((GSS, GSS), "N"), ((SSL, GSS, SSL), "NN"), ((GSS,), "N")])
def test_requests_to_encrypt_in_every_order(sent: tuple[bytes, ...], said: str, both: Pair) -> None:
    """PostgreSQL is built with GSSAPI, which dpsql does not speak."""
    found = first_replies(both.ours, *sent)
    assert "".join(found[:len(said)]) == said and found[len(said):] in ([], ["E 0A000 FATAL", "end"])


TEXTS = (
    ROWS, "SELECT 1", "SELECT nothing FROM clinics", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "SET application_name = 'x'",
    f"DECLARE c CURSOR FOR {ROWS}", f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", f"DECLARE c NO SCROLL CURSOR FOR {ROWS}", "FETCH 1 FROM c",
    "FETCH PRIOR FROM c", "MOVE 2 c", "FETCH ALL p", "CLOSE c", "CLOSE ALL", "SHOW application_name", "SET LOCAL application_name = 'y'", "",
    f"COPY ({ROWS}) TO STDOUT", "DEALLOCATE ALL", "COMMIT AND CHAIN", f"PREPARE e AS {ROWS}", "EXECUTE e",
    "PREPARE t (bigint) AS SELECT clinic FROM clinics WHERE beds > $1", "EXECUTE t (7)")


def drawn(draw: random.Random) -> bytes:
    """A message of a client, of few names and texts, so that they meet."""
    name, portal = draw.choice(["", "s"]), draw.choice(["", "p", "c"])
    match draw.choice("QQQPBEEDCSSSA"):
        case "Q":
            return query(draw.choice(TEXTS))
        case "P":
            return parse(draw.choice(TEXTS), name)
        case "B":
            return bind((), portal, name)
        case "E":
            return execute(portal, draw.choice([0, 0, 1, 2]))
        case "D":
            return describe(draw.choice("SP"), draw.choice([name, portal]))
        case "C":
            return close(draw.choice("SP"), draw.choice([name, portal]))
        case "A":
            return parse(draw.choice(TEXTS)) + bind() + describe("P") + execute() + SYNC
    return SYNC


@pytest.mark.parametrize("seed", range(150))
def test_messages_at_random_are_replied_to_alike(seed: int, both: Pair) -> None:
    draw = random.Random(seed)
    sent = [drawn(draw) for _ in range(draw.randrange(3, 25))]
    theirs, ours = both.transcripts(*sent, SYNC)
    assert ours == theirs, sent
