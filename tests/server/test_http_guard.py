"""Who may ask over HTTP, from where, and how much: tokens, cookies, pages of other servers, limits, and what is malformed."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra dpsql[server] is not installed")
pytest.importorskip("uvicorn", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")
pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")

from support.http_servers import HttpClient, HttpRunning, Reply, http_running
from support.seats import wait_until
from support.wire_servers import PASSWORD, add, certificate

from dpsql.server.front.http import http_listening
from dpsql.server.front.http.console_files import console_files
from dpsql.server.front.http.http_errors import HttpRefusal
from dpsql.server.front.http.http_guard import check_json
from dpsql.server.front.http.http_sessions import HttpSessions
from dpsql.server.front.wire.server_limits import ServerLimits
from dpsql.server.vault.proof_attempts import ProofAttempts

LOGIN = {"name": "ada", "password": PASSWORD}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRunning]:
    with http_running(tmp_path_factory.mktemp("guard"), names=frozenset({"dpsql.example"}), connections_of_account=1000) as found:
        yield found


@pytest.fixture(scope="module")
def ada(server: HttpRunning) -> HttpClient:
    return server.logged_in()


def raw(server: HttpRunning, data: bytes, *, seconds: float = 10) -> bytes:
    """What is answered to bytes, until the connection ends or nothing comes for some time."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection, contextlib.suppress(OSError):
        connection.sendall(data)
        found = b""
        while piece := connection.recv(65536):
            found += piece
        return found
    return found


def test_logins(server: HttpRunning) -> None:
    client = server.client()
    made = client.post("/api/login", LOGIN)
    assert re.fullmatch(r"[-\w]{43}", made.body["token"]) and (made.body["name"], made.body["budget"]) == ("ada", "person")
    cookie = made.headers["Set-Cookie"]
    assert cookie == f"dpsql-{server.port}={made.body['token']}; HttpOnly; Path=/; SameSite=strict"
    assert "Strict-Transport-Security" not in made.headers
    assert client.post("/api/login", {"name": "ADA", "password": PASSWORD}).body["name"] == "ada"
    wrong = [client.post("/api/login", {"name": name, "password": password}) for name, password in (
        ("ada", "wrong horse"), ("nobody", PASSWORD), ("", PASSWORD), ("ada", ""), ("ada", "\x07bell"), ("a\nb", "x\r\ny"))]
    assert {(reply.status, reply.content) for reply in wrong} == {(401, wrong[0].content)}
    assert server.desk._failed.delay("127.0.0.1", time.monotonic()) > 0  # more than five, as on the wire
    server.desk._failed._failed.clear()


def test_passwords_are_neither_kept_nor_told(server: HttpRunning, caplog: pytest.LogCaptureFixture) -> None:
    made = server.client().post("/api/login", {"name": "ada", "password": "secret horse"})
    assert b"secret" not in made.content and "secret" not in caplog.text
    token = server.client().post("/api/login", LOGIN).body["token"]
    held = repr([session.key for session in server.desk.sessions.all()])
    assert token not in held and token not in repr(vars(server.desk.sessions))


def test_tokens_are_needed(server: HttpRunning, ada: HttpClient) -> None:
    for path in ("account", "tables", "budget", "releases"):
        made = server.client().get(f"/api/{path}")
        assert (made.status, made.code, made.headers["WWW-Authenticate"]) == (401, "session", "Bearer")
    for path in ("describe", "price", "query", "cancel", "logout"):
        assert server.client().post(f"/api/{path}", {"sql": "SELECT COUNT(*) FROM people"}).status == 401
    token = ada.token or ""
    for wrong in (f"Bearer {token}x", f"Bearer {token[:-1]}", "Bearer", f"Basic {token}", token, f"Bearer {token.lower()}", "Bearer \xff"):
        assert server.client().get("/api/account", Authorization=wrong).status == 401
    assert server.client().get("/api/account", Authorization=f"bearer  {token} ").status == 200
    assert server.client().get("/api/account", Authorization="Bearer x", Cookie=f"dpsql-{server.port}={token}").status == 401


def test_logging_out_ends_one_session(server: HttpRunning) -> None:
    one, two = server.logged_in(), server.logged_in()
    made = one.post("/api/logout")
    assert made.body == {} and "Max-Age=0" in made.headers["Set-Cookie"]
    assert (one.get("/api/account").status, one.post("/api/logout").status, two.get("/api/account").status) == (401, 401, 200)


def test_sessions_are_of_one_account(server: HttpRunning, ada: HttpClient) -> None:
    with contextlib.suppress(Exception):
        add(server.users, "bob")
    bob = server.logged_in("bob")
    ada.query("SELECT COUNT(*) FROM people WHERE age > 51")
    assert bob.get("/api/account").body["name"] == "bob" and ada.get("/api/account").body["name"] == "ada"
    assert not bob.get("/api/budget").body["history"] and not bob.get("/api/releases").body["answers"]
    assert bob.post("/api/cancel").body == {"interrupting": False}


def test_cookies_need_this_servers_own_pages(server: HttpRunning, ada: HttpClient) -> None:
    page, cookie = server.client(), f"dpsql-{server.port}={ada.token}"
    own = f"http://127.0.0.1:{server.port}"
    asked = {"sql": "SELECT COUNT(*) FROM people"}
    assert page.get("/api/account", Cookie=cookie).status == 200
    assert page.get("/api/account", Cookie=cookie, Sec_Fetch_Site="same-origin", Origin=own).status == 200
    assert page.post("/api/price", asked, Cookie=cookie, Origin=own, X_Dpsql="1").status == 200
    for more in ({}, {"Origin": own}, {"X_Dpsql": "1"}, {"X_Dpsql": "0", "Origin": own}, {"X_Dpsql": "1", "Origin": "null"},
                 {"X_Dpsql": "1", "Origin": "http://evil.example"}, {"X_Dpsql": "1", "Origin": f"{own}.evil.example"},
                 {"X_Dpsql": "1", "Origin": "http://127.0.0.1"}, {"X_Dpsql": "1", "Origin": own, "Sec_Fetch_Site": "cross-site"}):
        for path in ("query", "price", "describe", "cancel", "logout"):
            assert page.post(f"/api/{path}", asked, Cookie=cookie, **more).status == 403, (path, more)
    assert ada.get("/api/account").status == 200
    assert page.post("/api/login", LOGIN, Cookie=f"dpsql-{server.port}=of-before").status == 200
    for site in ("cross-site", "same-site"):
        assert page.get("/api/account", Cookie=cookie, Sec_Fetch_Site=site).code == "origin"
    assert page.post("/api/login", LOGIN, Origin="http://evil.example").code == "origin"
    assert ada.post("/api/price", asked, Origin="http://evil.example").code == "origin"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_cookie_of_a_page_by_tls_is_for_tls_alone(scheme: str, server: HttpRunning) -> None:
    """Also where TLS ends at a proxy."""
    made = server.client().post("/api/login", {"name": "ada", "password": PASSWORD}, Origin=f"{scheme}://127.0.0.1:{server.port}")
    assert ("Secure" in made.headers["Set-Cookie"]) is (scheme == "https")


def test_no_answer_allows_other_origins(server: HttpRunning, ada: HttpClient) -> None:
    for method, path in (("OPTIONS", "/api/query"), ("GET", "/api/account"), ("GET", "/openapi.json")):
        made = ada.ask(method, path, None, {"Origin": f"http://127.0.0.1:{server.port}", "Access-Control-Request-Method": "POST"})
        assert not [name for name in made.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost:1", "localhost", "[::1]:{port}", "127.0.0.2:{port}",
                                  "localhost.:{port}", "127.0.0.1:{port}:{port}", "127.1:{port}", "", "a@127.0.0.1:{port}", "127.0.0.1:{port}/",
                                  "evil.example:{port}", "127.0.0.1:{port} ", "127.0.0.1:00000000{port}"])
def test_hosts_are_checked(server: HttpRunning, ada: HttpClient, host: str) -> None:
    given = host.format(port=server.port)
    made = ada.get("/api/account", Host=given)
    assert made.status == (200 if given.endswith(" ") else 403) and (made.status == 200 or made.code == "host")


def test_hosts_of_this_server(server: HttpRunning, ada: HttpClient) -> None:
    for host in (f"127.0.0.1:{server.port}", f"LOCALHOST:{server.port}", "dpsql.example", "dpsql.example:8443"):
        assert ada.get("/api/account", Host=host).status == 200
    assert b" 403 " in raw(server, b"GET / HTTP/1.0\r\n\r\n")
    assert raw(server, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("path", ["/static/../wire.py", "/static/%2e%2e/wire.py", "/static/..%2fwire.py", "/static//etc/passwd", "/static/",
                                  "/static/%2fetc%2fpasswd", "/static/..\\wire.py", "/static/index.html%00.js", "/static/./x", "/../x", "//",
                                  "/static/%c0%ae%c0%ae/x", "/docs", "/redoc", "/api", "/api/", "/api/account/", "/nothing", "/static/" + "a" * 9000])
def test_there_is_nothing_else(server: HttpRunning, path: str) -> None:
    answered = raw(server, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode())
    assert answered.startswith(b"HTTP/1.1 404") and b'"not-found"' in answered


def test_files_of_the_console(tmp_path: Path, server: HttpRunning) -> None:
    (tmp_path / "vendor").mkdir()
    for name in ("index.html", "a.js", "b.css", "c.py", "vendor/d.js", ".htaccess"):
        (tmp_path / name).write_text(name)
    files = console_files(tmp_path)
    assert {*files} == {"index.html", "a.js", "b.css", "vendor/d.js"} and files["a.js"].type.startswith("text/javascript")
    for name, file in console_files().items():
        made = server.client().get(f"/static/{name}")
        assert made.content == file.content and made.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("body", [
    b"", b"{", b"null", b"[]", b'"x"', b'{"sql": NaN}', b'{"sql": "SELECT 1", "parameters": [Infinity]}', b'{"sql": "a", "sql": "b"}',
    b'{"sql": "SELECT 1", "parameters": [1e999]}', b'{"sql": "\\ud800"}', b'{"sql": "\xff"}', b'{"sql": 1}', b'{"sql": null}', b"{}",
    b'{"sql": "SELECT 1", "more": 1}', b'{"sql": "SELECT 1", "parameters": [[[1]]]}', b'{"sql": "SELECT 1", "parameters": 1}',
    b'{"sql": "x", "parameters": ' + b"[" * 5000 + b"]" * 5000 + b"}", b"[" * 200_000, b'{"a":' * 100_000, b"1" * 10_000,
    b'{"sql": "SELECT 1", "parameters": {"a": {"type": "BLOB", "value": "x"}}}', b'\xef\xbb\xbf{"sql": "SELECT 1"}',
    '{"sql": "SELECT 1"}'.encode("utf-16")])
def test_bodies_that_are_none(ada: HttpClient, body: bytes) -> None:
    for path in ("query", "price", "describe"):
        made = ada.ask("POST", f"/api/{path}", body, {})
        assert made.status == 400 and made.code in ("json", "request"), made.content


def test_json_is_strict() -> None:
    check_json(b'{"a": [1, 2.5, "\\ud83d\\ude00", null, true, {"b": []}]}')
    for wrong in (b'{"\\udc00": 1}', b"[" * 11 + b"]" * 11, b'[{"a": 1, "a": 1}]', b"[-Infinity]", b"[1,]", b"\x00"):
        with pytest.raises(HttpRefusal):
            check_json(wrong)


def test_a_body_has_few_values(ada: HttpClient) -> None:
    """A megabyte of empty lists was checked against each type of a value: seconds in which nobody was served, and gigabytes."""
    begun = time.process_time()
    for body in (b'{"sql": "SELECT 1", "parameters": [' + b"[]," * 300_000 + b"[]]}", b'{"sql": "SELECT 1", "parameters": [' + b"0," * 9999 + b"0]}"):
        assert ada.ask("POST", "/api/price", body, {}).code == "json"
    assert time.process_time() - begun < 3
    assert ada.post("/api/price", {"sql": "SELECT 1", "parameters": [[[]]] * 3000}).code == "request"


def test_other_bodies_and_methods(ada: HttpClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert ada.ask("POST", "/api/query", b'{"sql": "SELECT 1"}', {"Content-Type": kind}).code == "content-type"
    for method, path in (("GET", "/api/query"), ("POST", "/api/account"), ("DELETE", "/api/account"), ("HEAD", "/api/account"), ("TRACE", "/")):
        made = ada.ask(method, path, None, {})
        assert made.status == 405
    assert ada.post("/api/query?errors=perhaps", {"sql": "SELECT 1"}).code == "request"


def test_a_request_is_told_what_is_wrong_with_it_and_never_a_value(server: HttpRunning, ada: HttpClient) -> None:
    def told(reply: Reply) -> tuple[str, str | None]:
        return reply.body["error"]["message"], reply.body["error"]["try"]

    assert told(ada.post("/api/query", {"query": "SELECT 1"})) == ("sql is missing; query is not a field here", "GET /openapi.json")
    assert told(ada.post("/api/query?errors=perhaps", {"sql": "SELECT 1"}))[0] == "errors has the wrong form"
    assert told(ada.post("/api/query", {"sql": 1, "parameters": [[[]]]}))[0] == "sql has the wrong form; parameters has the wrong form"
    assert told(server.client().post("/api/login", {"name": "ada", "password": ["secret word"]}))[0] == "password has the wrong form"
    assert told(ada.get("/api/query")) == ("GET is not allowed for this path", "POST")


def test_sizes(server: HttpRunning, ada: HttpClient) -> None:
    stranger = server.client()
    assert stranger.post("/api/login", {**LOGIN, "name": "x" * 20_000}).code == "too-large"
    assert stranger.post("/api/login", {**LOGIN, "name": "x" * 2000}).code == "request"
    assert ada.query("SELECT 1 -- " + "x" * 262_144).code == "too-large"
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        assert ada.query("SELECT 1 -- " + "x" * 2_000_000).code == "too-large"
    for size in (17_000, 100_000):
        head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX: {'x' * size}\r\n\r\n".encode()
        assert raw(server, head)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")
    assert b" 413 " in raw(server, f"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {10**15}\r\n\r\n".encode())
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    told = raw(server, f"POST /api/login HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk * 4)
    assert told[:12] in (b"", b"HTTP/1.1 413")  # an end while one still sends may take the answer with it


def test_a_request_states_its_length_once(server: HttpRunning, ada: HttpClient) -> None:
    """A proxy that believes the other length takes the end of a body for the next request, which may be anybody's."""
    first = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {ada.token}\r\n"
    second = f"GET /api/account HTTP/1.1\r\n{first}\r\n"
    for lengths in (f"Content-Length: {5 + len(second)}\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5"):
        told = raw(server, f"POST /api/logout HTTP/1.1\r\n{first}{lengths}\r\n\r\n0\r\n\r\n{second}".encode())
        assert told.count(b"HTTP/1.1 ") == told.count(b"HTTP/1.1 400") == 1 and b"onnection: close" in told
    assert ada.get("/api/account").status == 200


def test_clients_that_are_slow_are_cut_off(tmp_path: Path) -> None:
    with http_running(tmp_path, request_seconds=0.3, description=False) as server:
        host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
        assert raw(server, b"") == b"" and raw(server, b"GET / HTTP/1.1\r\n") == b""
        assert b" 408 " in raw(server, b"POST /api/login HTTP/1.1\r\n" + host + b"Content-Length: 10\r\n\r\n{")
        assert raw(server, b"not http\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_fault_says_nothing(server: HttpRunning, ada: HttpClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def failing(*_: Any) -> Any:
        raise RuntimeError("a secret")

    monkeypatch.setattr("dpsql.server.front.http.http_answers.tables_of", failing)
    monkeypatch.setattr("dpsql.server.front.http.http_answers.price_of", failing)
    made = ada.post("/api/price", {"sql": "SELECT 1"})
    assert (made.status, made.code) == (500, "fault") and b"secret" not in made.content and "secret" not in caplog.text
    assert ada.get("/api/account").status == 200


def test_sessions_are_over_when_they_are_idle_or_old() -> None:
    sessions, connection = HttpSessions(ServerLimits(session_idle_seconds=10, session_seconds=100)), Any
    token = sessions.begin("ada", connection, 0.0, lambda: None)
    found = sessions.find(token, 9.0)
    assert found is not None and sessions.find(token, 10.0) is None and sessions.find(token + "x", 0.0) is None
    found.used = 95.0
    assert sessions.find(token, 99.0) is found and not sessions.over(99.0) and sessions.over(100.0) == [found]
    found.working = True
    assert not sessions.over(1000.0)
    assert sessions.take(found) and not sessions.take(found) and sessions.find(token, 99.0) is None


def test_idle_sessions_end(tmp_path: Path) -> None:
    with http_running(tmp_path, session_idle_seconds=0.2, description=False) as server:
        ada = server.logged_in()
        wait_until(lambda: not len(server.desk.sessions) and not server.desk.use._connected)
        assert ada.get("/api/account").status == 401


def test_accounts_and_addresses_are_limited(tmp_path: Path) -> None:
    with http_running(tmp_path, connections_of_account=2, statements_a_minute=3, unproven_of_address=2, request_seconds=5.0,
                      description=False) as server:
        first, second = server.logged_in(), server.logged_in()
        third = server.client().post("/api/login", LOGIN)
        assert (third.status, third.code, third.headers["Retry-After"]) == (503, "limit", "10")
        second.post("/api/logout")
        assert server.client().post("/api/login", LOGIN).status == 200
        for _ in range(3):
            assert first.get("/api/account").status == 200
        assert first.get("/api/account").code == "limit"
        for _ in range(3):  # which are counted apart
            assert first.post("/api/query", {"sql": "SELECT COUNT(*) FROM persons"}).code != "limit"
        assert first.post("/api/query", {"sql": "SELECT COUNT(*) FROM persons"}).code == "limit"


def test_the_oldest_that_asks_nothing_is_shed(tmp_path: Path) -> None:
    """Idle connections shut their address out, and those of many addresses everybody."""
    with http_running(tmp_path, unproven_of_address=2, connections=5, description=False) as server, contextlib.ExitStack() as held:
        ada = server.logged_in()
        wait_until(lambda: not _connections(server))
        idle = []
        for number in range(5):
            idle.append(held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10)))
            wait_until(lambda: _connections(server) == min(number + 1, 2))  # noqa: B023 - it is called at once
        assert [each.recv(1) for each in idle[:3]] == [b""] * 3
        assert ada.get("/api/account").status == 200
        assert idle[3].recv(1) == b""
        idle[4].sendall(f"GET /api/guides HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        assert idle[4].recv(12) == b"HTTP/1.1 200"
    wait_until(lambda: not server.http._server._strangers._held)


def test_slow_strangers_are_shed_and_answers_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sends its body slowly, one does not read, and one waits for the answer to its login."""
    waiting, go = threading.Event(), threading.Event()

    def waits(self: ProofAttempts, name: str) -> float:
        waiting.set()
        go.wait(60)
        return 0.0

    monkeypatch.setattr(ProofAttempts, "_admitted", waits)
    monkeypatch.setattr("dpsql.guides.page", lambda name: "x" * 20_000_000)
    with http_running(tmp_path, strangers_of_address=3, description=False) as server, contextlib.ExitStack() as held:
        host, body = f"Host: 127.0.0.1:{server.port}\r\n", json.dumps({"name": "ada", "password": "wrong horse"})
        login = f"POST /api/login HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        sockets = []
        for sent in (login + body, login + body[:5], f"GET /api/guides/promise HTTP/1.1\r\n{host}\r\n"):
            made = held.enter_context(socket.socket())
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.settimeout(20)
            made.connect(("127.0.0.1", server.port))
            made.sendall(sent.encode())
            sockets.append(made)
            time.sleep(0.3)
        assert waiting.wait(20)
        for _ in range(2):
            assert server.client().get("/api/guides").status == 200
        assert sockets[1].recv(1) == b"", "it had not sent its body"
        with pytest.raises(OSError), contextlib.suppress(TimeoutError):
            while sockets[2].recv(65536):
                pass
            raise OSError("it was ended before the end of its answer")
        go.set()
        assert sockets[0].recv(12) == b"HTTP/1.1 401"


@pytest.mark.parametrize("text", [
    "GET / HTTP/1.1\nHost: {host}\n\n", "GET / HTTP/1.1\r\nHost: {host}\n\r\n", "GET / HTTP/1.1\nHost: {host}\r\n\r\n", "GET / HTTP/1.1\r\nHost: {host}\r\n\n",
    "GET / HTTP/1.1\r\nHost: {host}\r\nX: a\r\n b\r\n\r\n", "GET / HTTP/1.1\r\nHost: {host}\r\nX: a\r\n\tb\r\n\r\n",
    "GET / HTTP/1.1\r\n Host: {host}\r\n\r\n", "GET / HTTP/1.1\r\nHost: {host}\r\nX:\r\n \r\n\r\n", "GET / HTTP/1.1\rX\r\nHost: {host}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {host}\r\nX: a\rb\r\n\r\n", "\nGET / HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "POST /api/login HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\nX: a\r\n\r\n"])
@pytest.mark.parametrize("piece", [1, 10_000])
def test_lines_that_proxies_may_read_in_another_way_are_refused(server: HttpRunning, text: str, piece: int) -> None:
    sent = text.format(host=f"127.0.0.1:{server.port}").encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = b""
        with contextlib.suppress(ConnectionError):  # where it is refused before its end, what is sent after that resets the connection
            for at in range(0, len(sent), piece):
                client.sendall(sent[at:at + piece])
            client.shutdown(socket.SHUT_WR)
            while data := client.recv(65536):
                found += data
    assert len(re.findall(rb"HTTP/1.1 \d", found)) <= 1
    if found or piece > 1:
        assert found.startswith(b"HTTP/1.1 400") and b'"http"' in found


@pytest.mark.parametrize("trailer", ["X: a\n\r\n", "X: a\r\n b\r\n\r\n", "X: a\r\n\n"])
def test_trailers_are_as_strict(server: HttpRunning, trailer: str) -> None:
    """The head is whole, so the request is begun; it is never answered as if it were whole, and nothing after it is read."""
    host = f"127.0.0.1:{server.port}"
    head = f"POST /api/login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n"
    found = raw(server, f"{head}{trailer}GET /api/guides HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert found.startswith(b"HTTP/1.1 400") and len(re.findall(rb"HTTP/1.1 \d", found)) == 1 and b'"http"' in found


def test_those_who_log_in_hold_up_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof may wait for ten seconds in the vault. So strangers from a few addresses had all threads that answer."""
    waiting, go = threading.Semaphore(0), threading.Event()

    def waits(self: ProofAttempts, name: str) -> float:
        waiting.release()
        go.wait(60)
        return 0.0

    with http_running(tmp_path, connections=6, description=False) as server:
        ada = server.logged_in()
        monkeypatch.setattr(ProofAttempts, "_admitted", waits)
        strangers = [threading.Thread(target=server.client().post, args=("/api/login", {**LOGIN, "password": "wrong horse"})) for _ in range(3)]
        for each in strangers:
            each.start()
        try:
            for _ in range(2):
                assert waiting.acquire(timeout=20)
            assert ada.get("/api/account").status == 200
        finally:
            go.set()
            for each in strangers:
                each.join()


def test_there_are_few_connections(tmp_path: Path) -> None:
    with http_running(tmp_path, connections=3, description=False) as server, contextlib.ExitStack() as held:
        for _ in range(3):
            held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        wait_until(lambda: _connections(server) == 3)
        assert raw(server, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400"), "one that asks nothing has left for it"
        ada = server.logged_in()
        known = f"GET /api/account HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {ada.token}\r\n\r\n".encode()
        for _ in range(3):
            made = held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            made.sendall(known)
            assert made.recv(12) == b"HTTP/1.1 200"
        assert raw(server, b"GET / HTTP/1.1\r\n\r\n") == b"", "all are of accounts"


def test_strangers_of_one_address_leave_connections_to_others(tmp_path: Path) -> None:
    """They were counted until they sent the head of a request: so one machine had all connections, without a password."""
    with http_running(tmp_path, strangers_of_address=4, description=False) as server, contextlib.ExitStack() as held:
        ada = server.logged_in()
        asked = f"GET /api/account HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"

        def connection(head: str) -> bytes:
            made = held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            try:
                made.sendall(head.encode())
                return made.recv(65536)[:12]
            except OSError:
                return b""

        wait_until(lambda: not _connections(server))
        known = f"{asked}Authorization: Bearer {ada.token}\r\n\r\n"
        assert [connection(known) for _ in range(2)] == [b"HTTP/1.1 200"] * 2
        assert [connection(f"{asked}\r\n") for _ in range(6)] == [b"HTTP/1.1 401"] * 6
        assert _connections(server) == 6, "the two oldest strangers were shed"
    wait_until(lambda: not server.http._server._strangers._held)


def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.guides.page", lambda name: "x" * 20_000_000)
    with http_running(tmp_path, send_seconds=0.3, description=False) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(f"GET /api/guides/promise HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        wait_until(lambda: server.desk is not None and _connections(server) == 1)
        wait_until(lambda: _connections(server) == 0)


def _connections(server: HttpRunning) -> int:
    return len(server.http._server.server_state.connections)


def test_tls(tmp_path: Path) -> None:
    with http_running(tmp_path, tls=certificate(tmp_path)) as server:
        made = server.client().post("/api/login", LOGIN)
        assert made.headers["Set-Cookie"].endswith("SameSite=strict; Secure") and made.headers["Strict-Transport-Security"]
        ada = server.client(made.body["token"])
        assert ada.get("/api/account").status == 200
        cookie, own = f"__Host-dpsql-{server.port}={ada.token}", f"https://127.0.0.1:{server.port}"
        assert server.client().post("/api/cancel", Cookie=cookie, Origin=own, X_Dpsql="1").status == 200
        assert server.client().post("/api/cancel", Cookie=cookie, Origin=own.replace("https", "http"), X_Dpsql="1").status == 403
        assert raw(server, b"GET / HTTP/1.1\r\n\r\n") == b""  # in the clear
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_alpn_protocols(["http/1.1"])
        with socket.create_connection(("127.0.0.1", server.port)) as plain, old.wrap_socket(plain) as encrypted:
            assert encrypted.selected_alpn_protocol() == "http/1.1"


def test_those_who_do_not_begin_tls_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listening, "HANDSHAKE_SECONDS", 0.3)
    with http_running(tmp_path, tls=certificate(tmp_path), unproven_of_address=1, description=False) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as silent:
            time.sleep(0.1)
            begun = time.monotonic()
            assert raw(server, b"GET /") == b""
            assert silent.recv(1) == b"" and time.monotonic() - begun < 5
        wait_until(lambda: not server.http._server._strangers._held)
        assert server.client().get("/api/guides").status == 200


def test_what_is_no_http_is_answered_like_other_mistakes(server: HttpRunning) -> None:
    head, _, body = raw(server, b"GET / HTTP/1.1\r\nHost : a\r\n<secret>\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400") and json.loads(body)["error"]["code"] == "http" and b"secret" not in body
    assert b"nosniff" in head and b"no-store" in head and b"frame-ancestors 'none'" in head


def test_a_cookie_of_another_port_is_none(server: HttpRunning, ada: HttpClient) -> None:
    other = server.client()
    assert other.get("/api/account", Cookie=f"dpsql-{server.port + 1}={ada.token}").status == 401
    assert other.get("/api/account", Cookie=f"dpsql-{server.port + 1}=x; dpsql-{server.port}={ada.token}").status == 200


def test_errors_are_json(ada: HttpClient) -> None:
    assert {*json.loads(ada.get("/nothing").content)["error"]} == {"type", "code", "message", "try", "start", "end", "line", "sqlstate"}
