"""Sessions of agents: the SDK's own client, in memory or with `dpsql mcp` as another process, over a folder with a policy."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.agents.agent_desk import AgentDesk
from dpsql.demo import folder as demo_folder

ROOT = Path(__file__).parents[2]
TERMS = """
[budgets.study.agents.robot]
per_day = { epsilon = 2, delta = 1e-7 }
confirm_above = { epsilon = 0.6, delta = 1e-6 }
"""
Talk = Callable[[Any], Awaitable[None]]


def study(folder: Path, terms: str = TERMS) -> Path:
    """The policy of a new folder with the demo, in which an agent has these terms."""
    policy = demo_folder.export(folder / "study")
    policy.write_text(policy.read_text(encoding="utf-8") + terms, encoding="utf-8")
    return policy


def desk(policy: Path, analyst: str = "robot", budget: str = "study", **terms: Any) -> AgentDesk:
    return AgentDesk(dpsql.connect(policy=policy, budget=budget, analyst=analyst, **terms))


def talk(server: Any, conversation: Talk, **client: Any) -> None:
    """Hold a conversation with a server, or with a command that is one."""
    pytest.importorskip("anyio").run(lambda: converse(server, conversation, **client))


async def converse(server: Any, conversation: Talk, **client: Any) -> None:
    async with pytest.importorskip("mcp").Client(server, **client) as connected:
        await conversation(connected)


def command(policy: Path, analyst: str = "robot", budget: str = "study") -> Any:
    """`dpsql mcp` as a process that the client starts."""
    mcp = pytest.importorskip("mcp")
    words = ["-m", "dpsql.cli", "mcp", "--policy", str(policy), "--budget", budget, "--analyst", analyst]
    return mcp.StdioServerParameters(command=sys.executable, args=words, env={
        "PYTHONPATH": str(ROOT), "PATH": os.environ.get("PATH", ""), "HOME": str(policy.parent), "OPENBLAS_NUM_THREADS": "1"})


def in_memory(made: AgentDesk) -> Any:
    pytest.importorskip("mcp")
    from dpsql.agents.protocol_server import local_server

    return local_server(made)
