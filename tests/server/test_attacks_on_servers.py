"""What an analyst with a raw socket, or SQL of their own making, can do to a server: each of these worked once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import resource
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support.sessions import session_of
from support.wire_servers import Raw, certificate, fields, running

from dpsql.errors import Error, OptionError, Unsupported
from dpsql.server.front.catalogue.catalog_queries import CatalogDatabase, read_question
from dpsql.server.front.catalogue.catalog_rewriting import Asking
from dpsql.server.front.statements.statements_about_connection import MOST_SET, Settings, read_setting
from dpsql.server.front.statements.transaction_status import word_of
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.login_delays import network
from dpsql.server.front.wire.server_limits import AccountUse, ServerLimits
from dpsql.server.link.login_messages import BOUND, PLAIN, NotProven
from dpsql.server.vault.password_proofs import Exchange
from dpsql.server.vault.passwords import Verifier, verifier

PASSWORD = "correct horse"


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[CatalogDatabase]:
    session = session_of(tmp_path)
    made = CatalogDatabase(session.catalog, Asking(user="eve", database="d", version="v", schema="main"))
    yield made
    made.close()
    session.close()


def ask(catalogue: CatalogDatabase, text: str) -> list[tuple[object, ...]]:
    tree = read_question(text, [])
    assert tree is not None
    return catalogue.ask(tree).rows


# -- the catalogue


@pytest.mark.parametrize("name", ["sqlite_master", "duckdb_settings", "people", "/etc/passwd", "x.csv", "information_schema.tables"])
def test_a_name_given_elsewhere_lets_no_other_relation_be_read(name: str, catalogue: CatalogDatabase) -> None:
    """Names of WITH were kept as they are, wherever they stood: so one that is not in scope was a relation of DuckDB."""
    with pytest.raises(Error):
        ask(catalogue, f'SELECT * FROM (WITH "{name}" AS (SELECT 1 AS pg_) SELECT 1) AS x, "{name}"')


@pytest.mark.parametrize(("text", "rows"), [
    ("WITH x AS (SELECT 1 AS pg_a) SELECT x.pg_a FROM x", [(1,)]), ("WITH x AS (SELECT 1 AS pg_a) SELECT y.pg_a FROM x AS y", [(1,)]),
    ('WITH "X" AS (SELECT 1 AS pg_a), y AS (SELECT * FROM "X") SELECT "X".pg_a, y.* FROM "X", y', [(1, 1)]),
    ("WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x WHERE a < 3) SELECT max(a) AS pg_a FROM x", [(3,)]),
    ("WITH x AS (SELECT 1 AS a) SELECT (WITH x AS (SELECT 2 AS a) SELECT a FROM x), a AS pg_ FROM x", [(2, 1)])])
def test_names_given_by_with_mean_what_they_did(text: str, rows: list[tuple[object, ...]], catalogue: CatalogDatabase) -> None:
    assert ask(catalogue, text) == rows


def test_an_answer_of_the_catalogue_takes_little_memory(catalogue: CatalogDatabase) -> None:
    """DuckDB holds one long text once, for a hundred thousand rows; here each row was a text of its own: 1.7 GB, or any number."""
    long = "SELECT relname AS a FROM pg_class LIMIT 1"
    for _ in range(12):
        long = f"SELECT a || a AS a FROM ({long}) AS t"
    ask(catalogue, "SELECT 1 FROM pg_class LIMIT 1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unsupported, match="letters in all"):
        ask(catalogue, f"SELECT a FROM ({long}) AS t, generate_series(1, 90000) AS s")
    with pytest.raises(Error):
        ask(catalogue, "SELECT " + ", ".join(["relname"] * 1700) + " FROM pg_class")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes


def test_a_text_is_read_in_time_that_grows_as_it_does() -> None:
    """Each pair of brackets had all words before it copied: a minute and more for 64 kilobytes."""
    begun = time.thread_time()
    for text in ("SELECT a" + "[]" * 30_000 + " FROM pg_class", "SELECT a" + "[1]" * 20_000 + " FROM pg_class"):
        assert read_question(text, []) is None
    assert time.thread_time() - begun < 3


def test_what_is_about_a_connection_is_read_in_time_that_grows_as_it_does() -> None:
    """Comments were parted in all of 2^n ways, and a name began at each dash: one short text stopped the server for ever."""
    begun = time.thread_time()
    settings = Settings(version="15.0", startup={"options": "-" * 16_000})
    for text in ("/**/" * 27 + "!", "/*" * 4000 + "!", "--\n" * 3000 + "!", " " * 9000 + "!"):
        assert read_setting(text, settings) is None
    assert word_of("/*" + "*a" * 100_000) is None and word_of("/**/" * 60_000 + "BEGIN") == "BEGIN"
    shown = read_setting("/* a */ -- b\n/**/ SHOW server_version", settings)
    assert shown is not None and shown.rows == (("15.0",),)
    assert time.thread_time() - begun < 3


def test_a_connection_keeps_few_settings() -> None:
    """Names with a dot were kept without end: ten kilobytes each."""
    settings = Settings(version="15.0", startup={})
    for number in range(MOST_SET):
        settings.set(f"own.setting{number}", "x")
    with pytest.raises(OptionError, match="settings"):
        settings.set("own.other", "x")
    settings.set("own.setting0", "y")
    settings.reset()
    settings.set("own.other", "x")


# -- connections


def test_one_machine_does_not_take_all_connections_by_having_many_addresses() -> None:
    use = AccountUse(ServerLimits(unproven_of_address=2))
    first, second = (use.unproven(network(f"2001:db8::{last}")) for last in (1, 2))
    with first, second, pytest.raises(RefusedOnWire, match="too many"), use.unproven(network("2001:db8::3")):
        pass
    with use.unproven(network("2001:db8:1::1")), use.unproven(network("192.0.2.1")):
        pass


def test_a_strangers_name_is_short(tmp_path: Path) -> None:
    """The normal form of 16 kilobytes took a fifth of a second, in which nobody else was served, and more memory than they did."""
    with running(tmp_path) as server, Raw(server.port) as raw:
        assert fields(raw.login(user="a" + "\u0301\u0323" * 3000)[-1][1])["C"] == "28000"


# -- logins: nothing of this worked


def prove(kept: Verifier, mechanism: str, header: str, *, binding: bytes = b"", certificate: str | None = None) -> bytes:
    """The server's last word for a client that knows the password, and begins with a header of its own."""
    exchange, bare = Exchange(kept, mechanism=mechanism, certificate=certificate), "n=,r=nonce"
    challenge = exchange.challenge(f"{header}{bare}".encode()).decode()
    told = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(told["s"]), int(told["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    final = f"c={base64.b64encode(header.encode() + binding).decode()},r={told['r']}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{challenge},{final}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    return exchange.proven(f"{final},p={proof}".encode())


def test_a_login_cannot_be_talked_down(tmp_path: Path) -> None:
    """A client that can bind its proof, and was told by somebody in the middle that the server cannot, says so: y."""
    text, kept = (certificate(tmp_path).parent / "cert.pem").read_text(encoding="ascii"), verifier(PASSWORD)
    bound = hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).digest()
    assert prove(kept, BOUND, "p=tls-server-end-point,,", binding=bound, certificate=text)
    assert prove(kept, PLAIN, "n,,", certificate=text) and prove(kept, PLAIN, "y,,")
    for mechanism, header, binding, known in [
            (PLAIN, "y,,", b"", text), (BOUND, "n,,", b"", text), (BOUND, "p=tls-unique,,", bound, text),
            (BOUND, "p=tls-server-end-point,,", b"", text), (BOUND, "p=tls-server-end-point,,", bytes(32), text),
            (BOUND, "p=tls-server-end-point,,", bound, None), (PLAIN, "n,a=root,", b"", None)]:
        with pytest.raises(NotProven):
            prove(kept, mechanism, header, binding=binding, certificate=known)
