"""The protocol, by the SDK's own client: in memory, and with `dpsql mcp` as a process; both generations of the protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import agent_sessions
from support.agent_sessions import ROOT, command, in_memory, talk

from dpsql.agents.agent_desk import AgentDesk
from dpsql.guides import TOPICS, page

mcp_types = pytest.importorskip("mcp_types")
COUNT = "SELECT health, COUNT(*) AS n FROM people GROUP BY health"
DEAR = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.7) health, COUNT(*) AS n FROM people GROUP BY health"
WHY = "compare health for the annual report"
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return agent_sessions.study(tmp_path)


@pytest.fixture
def desk(policy: Path) -> AgentDesk:
    return agent_sessions.desk(policy)


def server(where: str, policy: Path) -> Any:
    return command(policy) if where == "process" else in_memory(agent_sessions.desk(policy))


@MODES
@pytest.mark.parametrize("where", ["memory", "process"])
def test_a_conversation(where: str, mode: str, policy: Path) -> None:
    async def conversation(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["catalogue", "price", "explain", "ask", "validate", "released", "check_claims"]
        assert all(tool.output_schema and tool.description for tool in tools.values())
        assert [name for name, tool in tools.items() if not tool.annotations.read_only_hint] == ["ask", "validate"]
        assert set(tools["ask"].input_schema["properties"]) == {"sql", "purpose", "most"}  # consent is no argument
        facts = (await client.call_tool("catalogue", {})).structured_content
        assert facts["analyst"] == "robot" and facts["protects"] == "person"
        assert (await client.call_tool("price", {"sql": COUNT})).structured_content["epsilon"] == 0.5
        told = await client.call_tool("ask", {"sql": COUNT, "purpose": WHY, "most": 0.5})
        assert not told.is_error and len(told.structured_content["rows"]) == 4 and "health = excellent" in told.content[0].text
        again = (await client.call_tool("ask", {"sql": COUNT, "purpose": WHY})).structured_content
        assert again["stored"] and again["number"] == told.structured_content["number"]
        excellent = told.structured_content["rows"][0][1]
        claims = await client.call_tool("check_claims", {"text": f"There are {excellent:,} people in excellent health."})
        assert claims.structured_content["supported"] == 1
        assert (await client.call_tool("released", {})).structured_content["in_all"] == 1
        assert (await client.call_tool("explain", {"sql": COUNT})).structured_content["stored"]

    talk(server(where, policy), conversation, mode=mode)


@MODES
def test_an_error_has_a_code_a_place_and_advice(mode: str, desk: AgentDesk) -> None:
    async def conversation(client: Any) -> None:
        wrong = await client.call_tool("price", {"sql": "SELECT helth, COUNT(*) FROM people GROUP BY helth"})
        assert wrong.is_error and wrong.structured_content["code"] == "unknown-column" and wrong.structured_content["try"] == "health"
        assert (wrong.structured_content["line"], wrong.structured_content["column"]) == (1, 45) and "^^^^^" in wrong.content[0].text
        for arguments in ({}, {"sql": 3, "purpose": WHY}, {"sql": COUNT}, {"sql": COUNT, "purpose": WHY, "most": "much"}):
            assert (await client.call_tool("ask", arguments)).is_error
        assert (await client.call_tool("validate", {"queries": ["SELECT"], "table": "plans", "within": "1", "purpose": WHY})).is_error

    talk(in_memory(desk), conversation, mode=mode)
    assert desk.connection.budget().spent.epsilon == 0


@MODES
@pytest.mark.parametrize(("action", "agree", "charged"), [("accept", True, True), ("accept", False, False), ("decline", None, False),
                                                          ("cancel", None, False)])
def test_a_person_is_asked_above_the_threshold(action: str, agree: bool | None, charged: bool, mode: str, desk: AgentDesk) -> None:
    questions = []

    async def person(context: Any, asked: Any) -> Any:
        questions.append(asked.message)
        return mcp_types.ElicitResult(action=action, content=None if agree is None else {"agree": agree})

    async def conversation(client: Any) -> None:
        assert not (await client.call_tool("ask", {"sql": COUNT, "purpose": WHY})).is_error and questions == []
        told = await client.call_tool("ask", {"sql": DEAR, "purpose": WHY})
        assert told.is_error is not charged and len(questions) == 1 and "ε = 0.7" in questions[0] and DEAR in questions[0]
        if not charged:
            assert told.structured_content["code"] == "needs-consent"

    talk(in_memory(desk), conversation, mode=mode, elicitation_callback=person)
    assert desk.connection.budget().spent.epsilon == 5 * 10**8 + 7 * 10**8 * charged


@MODES
def test_without_a_person_to_ask_it_is_refused(mode: str, desk: AgentDesk) -> None:
    async def conversation(client: Any) -> None:
        for arguments in ({}, {"agreed": True}, {"is_agreed": True}, {"agreed": {"action": "accept", "data": {"agree": True}}}):
            told = await client.call_tool("ask", {"sql": DEAR, "purpose": WHY, **arguments})
            assert told.is_error and told.structured_content["code"] == "needs-consent"
            assert "confirm_above in [budgets.study.agents.robot]" in told.structured_content["try"]

    talk(in_memory(desk), conversation, mode=mode)
    assert desk.connection.budget().spent.epsilon == 0


def test_guides_and_the_catalogue_are_resources_and_there_is_a_prompt(desk: AgentDesk) -> None:
    async def conversation(client: Any) -> None:
        listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
        assert listed == {"dpsql://catalogue", *(f"dpsql://guides/{topic}" for topic in TOPICS)}
        assert (await client.read_resource("dpsql://guides/agents")).contents[0].text == page("agents")
        assert json.loads((await client.read_resource("dpsql://catalogue")).contents[0].text)["budget"] == "study"
        for uri in ("dpsql://guides/../demo/NOTE", "dpsql://guides/none", "file:///etc/passwd", "dpsql://catalogue/../people"):
            with pytest.raises(Exception, match=r"(?i)unknown|not found|resource"):
                await client.read_resource(uri)
        prompt, = (await client.list_prompts()).prompts
        told = await client.get_prompt(prompt.name, {"question": "Is health related to income?"})
        assert "Is health related to income?" in told.messages[0].content.text and "check_claims" in told.messages[0].content.text

    talk(in_memory(desk), conversation)


def test_an_unexpected_fault_says_nothing(desk: AgentDesk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("a private value")

    monkeypatch.setattr(AgentDesk, "released", broken)

    async def conversation(client: Any) -> None:
        told = await client.call_tool("released", {})
        assert told.is_error and told.structured_content["code"] == "fault" and "private value" not in str(told)

    talk(in_memory(desk), conversation)
    caught = capfd.readouterr()
    assert "private value" not in caught.out + caught.err


def test_nothing_but_messages_is_on_the_output(policy: Path) -> None:
    """Also notes and warnings, such as that the data were served under another budget before, go elsewhere."""
    agent_sessions.desk(policy, budget="pure").ask(COUNT, WHY)
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
    calls = [{"jsonrpc": "2.0", "id": 2 + i, "method": "tools/call", "params": {"name": "ask", "arguments": {"sql": sql, "purpose": WHY}}}
             for i, sql in enumerate([COUNT, "SELECT", "SELECT COUNT(*) FROM nobody"])]
    sent = [first, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *calls]
    made = subprocess.Popen([sys.executable, "-m", "dpsql.cli", "mcp", "--policy", str(policy), "--budget", "study", "--analyst", "robot"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(policy.parent)})
    assert made.stdin is not None and made.stdout is not None
    made.stdin.write("\n".join(map(json.dumps, sent)) + "\n")
    made.stdin.flush()
    answers = [json.loads(made.stdout.readline()) for _ in range(4)]
    assert {answer["id"] for answer in answers} == {1, 2, 3, 4} and all(answer["jsonrpc"] == "2.0" for answer in answers)
    made.stdin.close()
    assert made.stdout.read() == "" and made.wait(30) == 0


def test_a_policy_that_is_wrong_ends_the_command(policy: Path) -> None:
    made = subprocess.run([sys.executable, "-m", "dpsql.cli", "mcp", "--policy", str(policy), "--budget", "stdy"], capture_output=True,
                          text=True, env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(policy.parent), "USER": "ada"}, stdin=subprocess.DEVNULL)
    assert made.returncode == 2 and made.stdout == "" and "try one of study" in made.stderr
