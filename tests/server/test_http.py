"""The interface over HTTP: every route, the same answers as in one process, and errors with their place."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import re
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra dpsql[server] is not installed")
pytest.importorskip("uvicorn", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")
pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")

import pyarrow as pa
from openapi_spec_validator import validate
from support.http_servers import ARROW, HttpClient, HttpRunning, Reply, http_running
from support.seats import wait_until
from support.sessions import reader_of, session_of
from support.standalone_spark import children
from support.wire_servers import PASSWORD, Raw, Served, add, kinds, packet, served
from support.worlds import world

from dpsql import guides
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader
from dpsql.dbapi import Connection
from dpsql.demo import folder
from dpsql.server.front.http.http_answers import tree_of
from dpsql.server.front.http.http_bodies import ToldAnswer
from dpsql.server.vault import passwords

COUNTS = "SELECT sex, COUNT(*) AS n, AVG(income) AS income FROM people GROUP BY sex"
SLOW = "SELECT COUNT(*) FROM range(100000000000) AS a(i) WHERE hash(i) % 7 = 3"
SAME = (
    (COUNTS, ()), ("SELECT clinic, beds FROM clinics ORDER BY beds", ()), ("SELECT COUNT(*) FROM people WHERE age > ?", (30,)),
    ("SELECT age, COUNT(*) FROM people GROUP BY age", ()), ("SELECT quantile_disc(born, 0.5) FROM people", ()),
    ("SHOW TABLES", ()), ("DESCRIBE people", ()), ("EXPLAIN PRIVACY " + COUNTS, ()), ("SELECT MAX(age) > 50 AS old FROM people", ()))


class Slowly:
    """A reader that runs a query that would take minutes, when it is to."""

    def __init__(self, reader: DuckReader) -> None:
        self._reader, self.begun, self.slow = reader, threading.Event(), False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def columns(self, sql: str, parts: Any = ()) -> Any:
        if self.slow:
            self.begun.set()
            self._reader.rows(SLOW)
        return self._reader.columns(sql, parts)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRunning]:
    place = tmp_path_factory.mktemp("http")
    with http_running(place, opened=lambda user: session_of(place, analyst=user, noise=Exact(), at={"epsilon": 0.01, "delta": 1e-9}),
                      idle_seconds=600) as found:
        add(found.users, "bob")
        yield found


@pytest.fixture(scope="module")
def ada(server: HttpRunning) -> HttpClient:
    """Who has spent something, so that what costs the whole budget is too dear in whatever order tests run."""
    found = server.logged_in()
    found.query("SELECT COUNT(*) FROM people WHERE age > 1")
    return found


def told(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53 else value


def test_the_description_is_valid(server: HttpRunning) -> None:
    validate(server.description)
    assert "422" not in json.dumps(server.description)
    names = {"login", "logout", "account", "tables", "budget", "describe", "price", "query", "cancel", "releases", "guides"}
    assert {f"/api/{name}" for name in names} <= {*server.description["paths"]}


@pytest.mark.parametrize(("sql", "parameters"), SAME, ids=[sql for sql, _ in SAME])
def test_answers_are_those_of_one_process(ada: HttpClient, tmp_path: Path, sql: str, parameters: tuple[Any, ...]) -> None:
    with Connection(session_of(tmp_path, noise=Exact(), at={"epsilon": 0.01, "delta": 1e-9})) as here:
        cursor = here.execute(sql, parameters)
        rows = [[told(value) for value in row] for row in cursor.fetchall()]
        there = ada.query(sql, parameters=[*parameters]).body
        assert [[column["name"], column["type"]] for column in there["columns"]] == [[name, kind] for name, kind, *_ in cursor.description]
        if not sql.startswith("EXPLAIN"):  # it tells what is left
            assert there["rows"] == rows
        if cursor.answer is None:
            assert not any(error for row in there["errors"] for error in row)
            return
        ends = [[None if found is None else [told(end) for end in found] for found in row] for row in cursor.intervals]
        assert ends == [[error and [error["low"], error["high"]] for error in row] for row in there["errors"]]
        assert [[error and error["error"] for error in row] for row in there["errors"]] == [[*row] for row in cursor.errors]
        assert (there["cost"], there["notes"], there["confidence"]) == (cursor.cost, [*cursor.notes], cursor.answer.confidence)


def test_what_was_answered_is_free_and_listed(server: HttpRunning) -> None:
    bob = server.logged_in("bob")
    first, second = bob.query(COUNTS, name="a name").body, bob.query(COUNTS).body
    assert (first["stored"], second["stored"], second["cost"]) == (False, True, "") and first["rows"] == second["rows"]
    assert first["cost"].startswith("ε = 0.01") and "bob" in first["left"] + "all analysts bob" and first["name"] == "a name"
    assert [found["sql"] for found in bob.get("/api/releases").body["answers"]] == [COUNTS]
    made = bob.get("/api/budget").body
    assert [(entry["sql"], entry["outcome"]) for entry in made["history"]] == [(COUNTS, "answered")]
    assert all(0 < account["share"] < 1 for account in made["accounts"])
    assert bob.query("CREATE SYNTHETIC TABLE syn AS SELECT sex, active FROM people").status == 200
    assert bob.get("/api/releases").body["tables"] == [{"name": "syn", "columns": ["sex", "active"]}]
    assert "syn" in {table["name"] for table in bob.get("/api/tables").body["tables"]}
    assert bob.query("SELECT COUNT(*) FROM syn").body["errors"] == [[None]]


def test_a_pace_is_of_one_statement(server: HttpRunning) -> None:
    ada = server.logged_in()
    session, = (each for each in server.desk.sessions.all() if each is server.desk.sessions.find(ada.token or "", time.monotonic()))
    kernel: Any = session.connection.session.kernel
    for pace in (10, 2.5, None):
        for headers in ({}, {"Accept": ARROW}):
            kernel.pace = 1.0
            assert ada.post("/api/query", {"sql": COUNTS} | ({} if pace is None else {"pace": pace}), **headers).status == 200
            assert kernel.pace == float(pace or 0) and type(kernel.pace) is float
    for wrong in (-1, 3600.5, "10 s", True, None, 10**400):
        assert ada.query(COUNTS, pace=wrong).body["error"]["message"] == "pace has the wrong form"
    sent = json.dumps({"sql": COUNTS, "pace": float("nan")}).encode()
    assert ada.ask("POST", "/api/query", sent, {"Content-Type": "application/json"}).status == 400


def test_charts_are_sent_where_they_are_asked_for(ada: HttpClient) -> None:
    plain, drawn = ada.query(COUNTS).body, ada.query(COUNTS, charts=True).body
    assert (plain["charts"], plain["undrawn"]) == ([], None) and plain["rows"] == drawn["rows"]
    assert [(chart["form"], chart["column"]) for chart in drawn["charts"]] == [
        ("bars", column["name"]) for column in drawn["columns"] if not column["exact"]]
    assert drawn["charts"][0]["caption"].endswith(", with 95 % intervals") and drawn["undrawn"] is None
    other = ada.query("SELECT sex, active, sex AS again, COUNT(*) FROM people GROUP BY sex, active", charts=True).body
    listed = ada.query("SHOW TABLES", charts=True).body
    assert (other["charts"], listed["charts"]) == ([], []) and other["undrawn"] and listed["undrawn"]
    for body in (plain, drawn, other, listed):
        ToldAnswer.model_validate(body)
    assert ada.query(COUNTS, charts="yes").status == 400


def test_account_and_tables(ada: HttpClient) -> None:
    account = ada.get("/api/account").body
    assert (account["name"], account["budget"], account["policy"], account["confidence"]) == ("ada", "person", "dpsql.toml", 0.95)
    assert "each person" in account["unit"] and account["limits"]["text_bytes"] == 262_144
    tables = {table["name"]: table for table in ada.get("/api/tables").body["tables"]}
    assert tables["clinics"]["public"] and not tables["people"]["public"]
    assert {column["name"]: column["words"] for column in tables["people"]["columns"]}["sex"] == "values: f, m"
    assert any("households" in note for note in tables["people"]["notes"])


def test_describing_and_pricing_cost_nothing(ada: HttpClient) -> None:
    before = ada.get("/api/budget").body["accounts"]
    asked = "SELECT sex, COUNT(*) AS n FROM people WHERE age > ? AND born > ? GROUP BY sex"
    assert ada.post("/api/describe", {"sql": asked}).body == {
        "columns": [{"name": "sex", "type": "VARCHAR"}, {"name": "n", "type": "BIGINT"}],
        "parameters": [{"name": "?1", "type": "BIGINT"}, {"name": "?2", "type": "DATE"}]}
    values = [30, {"type": "DATE", "value": "1990-01-31"}]
    assert parameters_of(ada, asked, values) == {"?1": "BIGINT", "?2": "DATE"}
    price = ada.post("/api/price", {"sql": asked, "parameters": values}).body
    assert price["affordable"] and not price["stored"] and price["cost"].startswith("ε = 0.01")
    assert price["errors"][0]["column"] == "n" and price["errors"][0]["error"] > 0 and price["plan"][0].startswith("plan")
    plan = price["tree"][0]
    assert plan["words"] == price["plan"][0] and plan["children"][0]["because"] and plan["children"][0]["children"]
    dear = ada.post("/api/price", {"sql": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) COUNT(*) FROM people"}).body
    assert (dear["affordable"], dear["costly"], dear["share"]) == (False, False, None)
    assert all(account["left_after"] is None and account["part_left"] > 0.9 for account in dear["accounts"])
    assert ada.get("/api/budget").body["accounts"] == before
    ada.query(asked, parameters=values)
    assert ada.post("/api/price", {"sql": asked, "parameters": values}).body["stored"]


def parameters_of(client: HttpClient, sql: str, values: Any = ()) -> dict[str, str]:
    """The parameters of a statement with their types, as they are described."""
    made = client.post("/api/describe", {"sql": sql, "parameters": values if isinstance(values, dict) else [*values]})
    assert made.status == 200, made.body
    return {found["name"]: found["type"] for found in made.body["parameters"]}


@pytest.mark.parametrize(("sql", "kinds"), [
    ("SELECT COUNT(*) FROM people WHERE age > :least AND born < :day", {"least": "BIGINT", "day": "DATE"}),
    ("SELECT COUNT(*) FROM people WHERE age > $2", {"2": "BIGINT"}),
    ("SELECT COUNT(*) FROM people WHERE age BETWEEN $2 AND $1 AND sex = $3", {"2": "BIGINT", "1": "BIGINT", "3": "VARCHAR"}),
    ("SELECT quantile_cont(income, $share) FROM people WHERE sex = :sex", {"share": "DOUBLE", "sex": "VARCHAR"}),
    ("SELECT COUNT(*) FROM people WHERE born = ANY(:days) AND age > :least", {"days": "DATE[]", "least": "BIGINT"}),
    ("EXPLAIN PRIVACY SELECT COUNT(*) FROM people WHERE active = :a", {"a": "BOOLEAN"}), ("SHOW TABLES", {}), (COUNTS, {})])
def test_parameters_are_described_by_name(ada: HttpClient, sql: str, kinds: dict[str, str]) -> None:
    assert parameters_of(ada, sql) == kinds


def test_each_mark_of_several_queries_is_a_parameter(ada: HttpClient) -> None:
    ada.query("CREATE SYNTHETIC TABLE made AS SELECT sex, active, age FROM people")
    asked = "VALIDATE (SELECT COUNT(*) FROM people WHERE age > ?), (SELECT COUNT(*) FROM people WHERE sex = ?) AGAINST made WITHIN 500"
    assert parameters_of(ada, asked) == {"?1": "BIGINT", "?2": "VARCHAR"}
    assert ada.post("/api/price", {"sql": asked, "parameters": [30, "f"]}).status == 200


def test_what_takes_much_of_what_is_left_is_said_to(ada: HttpClient) -> None:
    """In the price: `costly` beyond a fifth of what is left of one account, as in the shell."""
    left = ada.get("/api/budget").body["accounts"]
    room = min(float(re.search(r"ε = ([\d.]+) of", account["exactly"])[1]) for account in left)
    for part, is_costly in ((0.19, False), (0.21, True), (0.6, True)):
        sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {part * room:.4f}) COUNT(*) FROM people WHERE age > 21"
        price = ada.post("/api/price", {"sql": sql}).body
        assert price["costly"] == is_costly and abs(price["share"] - part) < 0.01
        assert all(found["part_left_after"] < found["part_left"] and found["left_after"] != found["left"] for found in price["accounts"])
    for free in ("SELECT COUNT(*) FROM clinics", "SELECT COUNT(*) FROM people WHERE age > 1"):
        told = ada.post("/api/price", {"sql": free}).body
        assert (told["costly"], told["share"], told["accounts"]) == (False, None, [])


def test_values_of_parameters(ada: HttpClient) -> None:
    typed = [{"type": "BIGINT", "value": str(2**60)}, {"type": "TIMESTAMP", "value": "2020-01-01T12:00:00"}, {"type": "DOUBLE", "value": "2.5"}]
    made = ada.query("SELECT beds + $1 AS a, $2 AS b, $3 AS c, $4 AS d, $5 AS e, $6 AS f FROM clinics LIMIT 1",
                     parameters=[*typed, True, None, "o'ä"])
    assert made.status == 200, made.body
    row = made.body["rows"][0]
    assert isinstance(row[0], str) and int(row[0]) > 2**60 and row[1:] == ["2020-01-01T12:00:00", 2.5, True, None, "o'ä"]
    assert ada.query("SELECT COUNT(*) FROM people WHERE age > :least", parameters={"least": 18}).status == 200
    for wrong in ({"type": "DATE", "value": "yesterday"}, {"type": "BIGINT", "value": "1.5"}, {"type": "TIMESTAMP", "value": "x"}):
        assert ada.query("SELECT COUNT(*) FROM people WHERE age > ?", parameters=[wrong]).code == "bad-value"
    for wrong in ({"type": "BIGINT", "value": "9" * 99}, 10**400, "x",
                  {"type": "TIMESTAMP", "value": "2020-01-01T00:00:00+05:00"}):
        assert ada.query("SELECT COUNT(*) FROM people WHERE age > ?", parameters=[wrong]).status == 400
    assert ada.query("SELECT COUNT(*) FROM people WHERE age > ?").status == 400


@pytest.mark.parametrize(("sql", "status", "kind", "state"), [
    ("SELECT nothing FROM people", 400, "SqlError", "42703"), ("SELECT * FROM people", 400, "Unsupported", "0A000"),
    ("SELECT 1; SELECT 2", 400, "Unsupported", "0A000"), ("", 400, "SqlError", "42601"), ("SELECT COUNT(*) FROM a\0b", 400, "SqlError", "42601"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) COUNT(*) FROM people", 402, "BudgetExhausted", "53400"),
    ("COPY people TO '/tmp/x'", 400, "Unsupported", "0A000"), ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", 400, None, None)])
def test_mistakes_are_told_with_their_place(ada: HttpClient, sql: str, status: int, kind: str | None, state: str | None) -> None:
    for route in ("query", "price", "describe"):
        made = ada.post(f"/api/{route}", {"sql": sql})
        if status == 402 and route != "query":
            continue
        error = made.body["error"]
        assert (made.status, error["type"], error["sqlstate"]) == (status, kind or error["type"], state or error["sqlstate"]), made.body
        assert error["start"] is None or 0 <= error["start"] <= error["end"] <= len(sql)
    if "nothing" in sql:
        assert sql[error["start"]:error["end"]] == "nothing" and error["line"] == 1


def test_arrow(ada: HttpClient) -> None:
    plain = ada.post("/api/query", {"sql": COUNTS}, Accept=ARROW)
    table = pa.ipc.open_stream(plain.content).read_all()
    assert table.column_names == ["sex", "n", "income"] and table.schema.field("n").type == pa.int64()
    about = json.loads(table.schema.metadata[b"dpsql"])
    assert about["confidence"] == 0.95 and about["notes"] == ada.query(COUNTS).body["notes"]
    assert json.loads(plain.headers["Dpsql-Answer"])["stored"] == about["stored"]
    wide = pa.ipc.open_stream(ada.post("/api/query?errors=true", {"sql": COUNTS}, Accept=ARROW).content).read_all()
    assert wide.column_names == ["sex", *(name + end for name in ("n", "income") for end in ("", "_error", "_low", "_high"))]
    errors = ada.query(COUNTS).body["errors"]
    assert wide["n_low"].to_pylist() == [row[1]["low"] for row in errors]
    for sql in ("SELECT quantile_disc(born, 0.5) AS d FROM people", "SELECT clinic FROM clinics WHERE beds < 0", "SHOW BUDGET"):
        assert ada.post("/api/query?errors=1", {"sql": sql}, Accept=ARROW).status == 200


def test_arrow_without_its_library_costs_nothing(ada: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    before = ada.get("/api/budget").body["accounts"]
    made = ada.post("/api/query", {"sql": "SELECT COUNT(*) FROM people WHERE age > 77"}, Accept=ARROW)
    assert (made.status, made.code, made.body["error"]["try"]) == (406, "extra", "pip install 'dpsql[arrow]'")
    assert ada.get("/api/budget").body["accounts"] == before


def test_an_answer_that_is_too_large_for_json_is_one_of_arrow(tmp_path: Path) -> None:
    with http_running(tmp_path, json_bytes=700, description=False) as server:
        eve = server.logged_in("ada")
        refused = eve.query(COUNTS)
        assert (refused.status, refused.code) == (406, "answer-size") and "arrow" in refused.body["error"]["try"]
        plain = eve.post("/api/query", {"sql": COUNTS}, Accept=ARROW)
        assert plain.status == 200 and json.loads(plain.headers["Dpsql-Answer"])["stored"], "it was kept"


def test_lines_as_a_tree() -> None:
    leaf: dict[str, Any] = {"words": "c", "because": "", "children": []}
    assert tree_of(["a", "", "  b  why   it is", "      c", "  d", "e"]) == [
        {"words": "a", "because": "", "children": [{"words": "b", "because": "why it is", "children": [leaf]}, {**leaf, "words": "d"}]},
        {**leaf, "words": "e"}]


def test_names_cannot_make_headers(ada: HttpClient) -> None:
    made = ada.post("/api/query", {"sql": COUNTS, "name": "a\r\nSet-Cookie: x=1\n\"ä;"}, Accept=ARROW)
    assert made.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x%3D1%0A%22%C3%A4%3B.arrows"
    assert made.headers["Set-Cookie"] is None


def test_guides(server: HttpRunning, ada: HttpClient) -> None:
    assert ada.get("/api/guides").body == {"guides": [*guides.TOPICS]}
    for name in guides.TOPICS:
        made = ada.get(f"/api/guides/{name}")
        assert made.content.decode() == guides.page(name) and made.headers["Content-Type"] == "text/markdown; charset=utf-8"
        page = ada.get(f"/guides/{name}")
        assert page.headers["Content-Type"] == "text/html; charset=utf-8" and "dpsql help" not in re.sub(r"<pre>.*?</pre>", "", page.text, flags=re.S)
        for target in re.findall(r"(?:href|src)=[\"'](/[^\"']*)", page.text):
            assert server.client().get(target).status == 200, target
    for name in ("nothing", "..%2fowner", "..", "owner.md", "__init__", "OWNER"):
        assert ada.get(f"/api/guides/{name}").status == ada.get(f"/guides/{name}").status == 404


def test_a_statement_is_cancelled_by_request_and_by_leaving(tmp_path: Path) -> None:
    slow = Slowly(reader_of(world(3)))
    with http_running(tmp_path, opened=lambda user: session_of(tmp_path, reader=slow, analyst=user), turn_seconds=0.2) as server:
        ada, replies = server.logged_in(), list[Reply]()
        assert ada.post("/api/cancel").body == {"interrupting": False}
        slow.slow = True
        thread = threading.Thread(target=lambda: replies.append(ada.query("SELECT COUNT(*) FROM people")))
        thread.start()
        assert slow.begun.wait(30)
        assert ada.get("/api/tables").code == "busy"
        assert ada.post("/api/cancel").body == {"interrupting": True}
        thread.join(30)
        assert (replies[0].status, replies[0].code, replies[0].body["error"]["type"]) == (409, "interrupted", "Interrupted")
        assert [entry["outcome"] for entry in ada.get("/api/budget").body["history"]] == ["stopped"]
        slow.begun.clear()
        with contextlib.closing(ada.connection()) as connection:
            connection.request("POST", "/api/query", json.dumps({"sql": "SELECT COUNT(*), 1 FROM people"}), {
                "Content-Type": "application/json", "Authorization": f"Bearer {ada.token}"})
            assert slow.begun.wait(30)
        wait_until(lambda: ada.get("/api/budget").status == 200)
        assert [entry["outcome"] for entry in ada.get("/api/budget").body["history"]] == ["stopped", "stopped"]
        slow.begun.clear()
        thread = threading.Thread(target=lambda: replies.append(ada.query("SELECT COUNT(*), 2 FROM people")))
        thread.start()
        assert slow.begun.wait(30)
        assert ada.post("/api/logout").status == 200  # which interrupts it
        thread.join(30)
        assert replies[1].status in (401, 409) and ada.get("/api/account").status == 401


def test_a_client_that_leaves_before_its_turn_pays_nothing(tmp_path: Path) -> None:
    with http_running(tmp_path) as server:
        ada = server.logged_in()
        session, = server.desk.sessions.all()
        held = server.desk._turn(session)
        asyncio.run_coroutine_threadsafe(held.__aenter__(), server.loop).result(10)
        with contextlib.closing(ada.connection()) as connection:
            connection.request("POST", "/api/query", json.dumps({"sql": "SELECT COUNT(*) FROM people"}), {
                "Content-Type": "application/json", "Authorization": f"Bearer {ada.token}"})
            wait_until(lambda: session.waiting == 1)
        wait_until(lambda: not server.http._server.server_state.connections)
        asyncio.run_coroutine_threadsafe(held.__aexit__(None, None, None), server.loop).result(10)
        wait_until(lambda: not session.waiting and not session.working)
        assert not ada.get("/api/budget").body["history"]


def test_a_server_that_stops_answers_what_runs(tmp_path: Path) -> None:
    slow = Slowly(reader_of(world(3)))
    with http_running(tmp_path, opened=lambda user: session_of(tmp_path, reader=slow, analyst=user), stop_seconds=1.0) as server:
        ada, replies = server.logged_in(), list[Reply]()
        slow.slow = True
        thread = threading.Thread(target=lambda: _suppressed(lambda: replies.append(ada.query("SELECT COUNT(*) FROM people"))))
        thread.start()
        assert slow.begun.wait(30)
        server.stop()
        thread.join(30)
        with pytest.raises(ConnectionRefusedError):
            ada.get("/api/account")


def _suppressed(work: Any) -> None:
    with contextlib.suppress(OSError, AssertionError, Exception):
        work()


def test_a_user_who_is_removed_is_out(tmp_path: Path) -> None:
    with http_running(tmp_path) as server:
        ada = server.logged_in()
        assert ada.get("/api/account").status == 200
        passwords.remove_user(server.users, "ada")
        assert (ada.get("/api/account").code, ada.get("/api/account").code) == ("user", "session")
        assert server.client().post("/api/login", {"name": "ada", "password": PASSWORD}).code == "login"
        wait_until(lambda: not len(server.desk.sessions))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demo, served by the command."""
    with served(folder.export(tmp_path_factory.mktemp("real") / "demo"), budget="study", terms=["--http", "127.0.0.1:0"]) as found:
        yield found


def test_the_example_of_the_guide(real: Served) -> None:
    example = guides.page("clients").split("```console\n>>> ", 1)[1].split("```")[0]
    lines = (">>> " + example).replace(":8433", f":{real.http_port}").splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in lines), names)  # noqa: S102 - ours
    frame = names["frame"]
    assert [*frame.columns] == ["health", "n", "n_error", "n_low", "n_high"] and len(frame) == 4


def test_both_protocols_have_one_account(real: Served) -> None:
    with Raw(real.port) as raw:
        assert raw.login(database="study")[-1][0] == "Z"
        raw.send(packet(b"Q", b"SELECT female, COUNT(*) FROM people GROUP BY female\0"))
        assert "D" in kinds(raw.until("Z"))
    ask = real_client(real)
    assert ask("query", {"sql": "SELECT female, COUNT(*) FROM people GROUP BY female"})["stored"]
    assert [entry["sql"] for entry in ask("budget", None)["history"]][-1].startswith("SELECT female")


def test_the_command_stops_with_both_and_knows_no_token_of_before(tmp_path: Path) -> None:
    policy = folder.export(tmp_path / "demo")
    with served(policy, budget="study", terms=["--http", "127.0.0.1:0"]) as first:
        ask = real_client(first)
        assert ask("account", None)["policy"] == policy.name
        front = Path(f"/proc/{children(first.process.pid)[0]}")
        held = [os.readlink(handle) for handle in (front / "fd").iterdir()]
        assert not [path for path in held if str(policy.parent) in path]
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(20) == 0
    passwords.remove_user(first.users, "ada")
    with served(policy, budget="study", terms=["--http", f"127.0.0.1:{first.http_port}"]), pytest.raises(urllib.error.HTTPError) as refused:
        ask("account", None)
    assert refused.value.code == 401


def real_client(server: Served) -> Any:
    """What asks a path for JSON, as a user."""
    def ask(path: str, body: Any, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        made = urllib.request.Request(f"http://127.0.0.1:{server.http_port}/api/{path}", data, {"Content-Type": "application/json", **headers})
        with urllib.request.urlopen(made, timeout=30) as answer:
            return json.load(answer)

    token = ask("login", {"name": "ada", "password": PASSWORD})["token"]
    return lambda path, body: ask(path, body, Authorization=f"Bearer {token}")


def test_a_value_may_be_a_list(ada: HttpClient) -> None:
    asked = {"sql": "SELECT COUNT(*) FROM people WHERE sex = ANY($1) AND born <> ALL($2)", "parameters": [["f"], [{"type": "DATE", "value": "1990-01-01"}]]}
    assert ada.post("/api/query", asked).status == 200
    assert ada.post("/api/describe", asked).body["parameters"] == [{"name": "1", "type": "VARCHAR[]"}, {"name": "2", "type": "DATE[]"}]
    assert ada.post("/api/query", {**asked, "parameters": ["f", []]}).status == 400
