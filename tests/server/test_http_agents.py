"""Agents over HTTP: `dpsql serve --mcp` as it is run, behind its walls, and the SDK's own client with the token of a session."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support import agent_sessions
from support.agent_sessions import ROOT
from support.wire_servers import PASSWORD, add

mcp_types, httpx2, anyio = pytest.importorskip("mcp_types"), pytest.importorskip("httpx2"), pytest.importorskip("anyio")
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) health, COUNT(*) AS n FROM people GROUP BY health"
WHY = "compare health for the annual report"
LISTED = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    policy = agent_sessions.study(tmp_path_factory.mktemp("agents"), agent_sessions.TERMS + "[budgets.study.agents.second]\n"
                                  "confirm_above = { epsilon = 0.6, delta = 1e-6 }\n")
    for name in ("robot", "second", "third"):
        add(policy.parent / "dpsql.users.json", name)
    users = json.loads((policy.parent / "dpsql.users.json").read_text(encoding="utf-8"))
    text = json.dumps(users).replace('"budget": null', '"budget": "study"')
    (policy.parent / "dpsql.users.json").write_text(text, encoding="utf-8")
    made = subprocess.Popen([sys.executable, "-m", "dpsql.cli", "serve", "--policy", str(policy), "--listen", "127.0.0.1:0", "--http",
                             "127.0.0.1:0", "--mcp"], stderr=subprocess.PIPE, text=True, env={
                                 "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "OPENBLAS_NUM_THREADS": "1"})
    assert made.stderr is not None
    told = ""
    while (found := re.search(r"browser: (http://[\d.:]+)/", told)) is None:
        told += (line := made.stderr.readline())
        assert line, told
    yield found[1]
    made.send_signal(signal.SIGTERM)
    assert made.wait(30) == 0


def post(address: str, path: str, body: Any, **headers: str) -> Any:
    given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} | headers
    return json.load(urlopen(Request(address + path, json.dumps(body).encode(), given), timeout=30))


def token(address: str, name: str = "robot") -> str:
    return str(post(address, "/api/login", {"name": name, "password": PASSWORD})["token"])


def talk(address: str, key: str, conversation: Callable[[Any], Awaitable[None]], **client: Any) -> None:
    from mcp.client.streamable_http import streamable_http_client

    async def held() -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http:
            await agent_sessions.converse(streamable_http_client(f"{address}/mcp", http_client=http), conversation, **client)

    anyio.run(held)


@MODES
def test_every_tool_over_http(mode: str, address: str) -> None:
    name = {"auto": "robot", "legacy": "third"}[mode]

    async def conversation(client: Any) -> None:
        assert len((await client.list_tools()).tools) == 7
        assert (await client.call_tool("catalogue", {})).structured_content["analyst"] == name
        sql = COUNT.format(0.3)
        assert (await client.call_tool("price", {"sql": sql})).structured_content["epsilon"] == 0.3
        told = (await client.call_tool("ask", {"sql": sql, "purpose": WHY, "most": 0.3})).structured_content
        again = (await client.call_tool("ask", {"sql": sql, "purpose": WHY})).structured_content
        assert again["stored"] and again["rows"] == told["rows"] and again["number"] == told["number"]
        assert (await client.call_tool("released", {"number": told["number"]})).structured_content["answer"]["rows"] == told["rows"]
        claims = await client.call_tool("check_claims", {"text": f"There are {told['rows'][0][1]:,} people in excellent health."})
        assert claims.structured_content["supported"] == 1
        assert (await client.call_tool("explain", {"sql": sql})).structured_content["stored"]
        checked = await client.call_tool("validate", {"queries": ["SELECT COUNT(*) FROM people"], "table": "plans", "within": "5 PERCENT",
                                                      "purpose": WHY, "options": "epsilon = 0.1"})
        assert checked.structured_content["rows"]
        wrong = await client.call_tool("price", {"sql": "SELECT helth, COUNT(*) FROM people GROUP BY helth"})
        assert wrong.is_error and wrong.structured_content["code"] == "unknown-column" and wrong.structured_content["try"] == "health"
        assert "# Agents" in (await client.read_resource("dpsql://guides/agents")).contents[0].text
        if mode == "auto":  # who has a share for each day
            dear = await client.call_tool("ask", {"sql": COUNT.format(0.59), "purpose": WHY})
            dearer = [await client.call_tool("ask", {"sql": COUNT.format(each), "purpose": WHY}) for each in (0.58, 0.57)]
            assert not dear.is_error and [each.is_error for each in dearer] == [False, True]
            assert dearer[1].structured_content["code"] == "day-share"

    talk(address, token(address, name), conversation, mode=mode)


@MODES
def test_a_person_is_asked_where_the_protocol_allows_it(mode: str, address: str) -> None:
    questions = []

    async def person(context: Any, asked: Any) -> Any:
        questions.append(asked.message)
        return mcp_types.ElicitResult(action="accept", content={"agree": True})

    async def conversation(client: Any) -> None:
        sql = COUNT.format(0.7 if mode == "auto" else 0.71)  # neither was asked before
        told = await client.call_tool("ask", {"sql": sql, "purpose": WHY})
        assert told.is_error == (mode == "legacy") and len(questions) == (mode == "auto")
        if told.is_error:
            assert told.structured_content["code"] == "needs-consent"

    talk(address, token(address, "second"), conversation, mode=mode, elicitation_callback=person)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic cm9ib3Q6"}])
def test_without_a_session_there_is_nothing(headers: dict[str, str], address: str) -> None:
    with pytest.raises(HTTPError) as caught:
        post(address, "/mcp", LISTED, **headers)
    assert caught.value.code == 401 and caught.value.headers["WWW-Authenticate"] == "Bearer"


def test_the_guard_is_in_front(address: str) -> None:
    key = {"Authorization": f"Bearer {token(address)}"}
    assert len(post(address, "/mcp", LISTED, **key)["result"]["tools"]) == 7
    for more, code in (({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403), ({"Content-Type": "text/plain"}, 415)):
        with pytest.raises(HTTPError) as caught:
            post(address, "/mcp", LISTED, **key, **more)
        assert caught.value.code in (code, 400, 403)
    for method in ("GET", "DELETE"):
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(f"{address}/mcp", headers=key, method=method), timeout=30)
        assert caught.value.code in (403, 405)
    post(address, "/api/logout", {}, **key)
    with pytest.raises(HTTPError) as caught:
        post(address, "/mcp", LISTED, **key)
    assert caught.value.code == 401


def test_a_session_sees_its_own_account_only(address: str) -> None:
    """Two clients at the same time, each with its token."""
    keys = {name: {"Authorization": f"Bearer {token(address, name)}"} for name in ("second", "third")}
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "catalogue", "arguments": {}}}
    for name in ("second", "third", "second"):
        assert post(address, "/mcp", called, **keys[name])["result"]["structuredContent"]["analyst"] == name
    with contextlib.suppress(HTTPError):
        post(address, "/mcp", called | {"params": {"name": "catalogue", "arguments": {"analyst": "third"}}}, **keys["second"])


def test_the_budget_tells_what_is_left_of_this_day(address: str) -> None:
    told = {name: json.load(urlopen(Request(f"{address}/api/budget", headers={"Authorization": f"Bearer {token(address, name)}"}), timeout=30))
            for name in ("robot", "third")}
    assert told["third"]["today"] is None
    today = told["robot"]["today"]
    assert (today["whose"], today["limit"]) == ("robot", "ε = 2, δ = 1e-07") and 0 <= today["share"] <= 1 and today["renews"].endswith("T00:00:00+00:00")


def test_agents_need_the_http_server(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, "-m", "dpsql.cli", "serve", "--mcp"], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(ROOT), "PATH": ""})
    assert made.returncode == 2 and "--http" in made.stderr
