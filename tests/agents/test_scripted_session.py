"""An agent's session of thirty questions over the demo, by the SDK's own client and `dpsql mcp` as a process: every tool, and
mistakes of every kind. At the end the ledger says what was charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import agent_sessions

import dpsql

mcp_types = pytest.importorskip("mcp_types")
WHY = "health and income for the annual report"
AT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) "
BY_HEALTH = f"{AT.format(0.4)}health, COUNT(*) AS n, AVG(income) AS income FROM people GROUP BY health"
BY_SITE = f"{AT.format(0.2)}site, COUNT(*) AS n FROM people GROUP BY site"
BY_YEAR = f"{AT.format(0.2)}year, AVG(medical_dollars) AS dollars FROM person_years GROUP BY year"
SYNTHETIC = "CREATE SYNTHETIC TABLE people_syn AS SELECT health, female FROM people OPTIONS (epsilon = 0.4)"


def ask(sql: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "ask", {"sql": sql, "purpose": WHY, **more}


SESSION: list[tuple[tuple[str, dict[str, Any]], str]] = [  # a question, and the code of the error that it gets
    (("catalogue", {}), ""), (("catalogue", {"table": "people"}), ""), (("catalogue", {"table": "persons"}), "unknown-table"),
    (("released", {}), ""), (("price", {"sql": BY_HEALTH}), ""), (("explain", {"sql": BY_HEALTH}), ""),
    (ask("SELECT helth, COUNT(*) FROM people GROUP BY helth"), "unknown-column"), (ask("SELECT COUNT(*) FROM persons"), "unknown-table"),
    (ask("SELECT income FROM people"), "no-aggregate"), (ask("SELECT COUNT(* FROM people"), "syntax"), (("ask", {"sql": BY_HEALTH, "purpose": "why"}), "purpose"),
    (ask(BY_HEALTH, most=0.1), "above-most"), (ask(BY_HEALTH, most=0.4), ""), (ask(BY_HEALTH.replace("health,", "health ,")), ""),
    (("price", {"sql": BY_HEALTH}), ""), (ask(BY_SITE), ""), (ask(BY_YEAR), ""), (ask("SELECT plan, coinsurance FROM plans"), ""),
    (ask(f"{AT.format(0.8)}AVG(age) FROM person_years"), "needs-consent"), (ask(f"{AT.format(0.9)}COUNT(*) FROM people"), ""),
    (("check_claims", {"text": "Health is excellent for 12 people. In 1974 it began."}), ""), (("released", {"contains": "site"}), ""),
    (ask(SYNTHETIC, most=0.4), "day-share"), (ask(SYNTHETIC.replace("0.4", "0.2")), ""), (ask("SELECT health, COUNT(*) FROM people_syn GROUP BY health"), ""),
    (("validate", {"queries": ["SELECT COUNT(*) FROM people"], "table": "people_syn", "within": "5 PERCENT", "purpose": WHY,
                   "options": "epsilon = 0.05"}), ""),
    (("validate", {"queries": ["SELECT COUNT(*) FROM people"], "table": "people_syn", "within": "much", "purpose": WHY}), "validate"),
    (ask(f"{AT.format(0.1)}female, COUNT(*) AS n FROM people GROUP BY female"), "day-share"), (ask(BY_SITE), ""), (("catalogue", {}), "")]
SPENT = 0.4 + 0.2 + 0.2 + 0.9 + 0.2 + 0.05


def test_thirty_questions(tmp_path: Path) -> None:
    policy, questions, told = agent_sessions.study(tmp_path), [], []

    async def person(context: Any, asked: Any) -> Any:
        """Agrees to the second statement only."""
        questions.append(asked.message)
        return mcp_types.ElicitResult(action="accept", content={"agree": len(questions) == 2})

    async def conversation(client: Any) -> None:
        for (tool, arguments), _ in SESSION:
            told.append(await client.call_tool(tool, arguments))

    agent_sessions.talk(agent_sessions.command(policy), conversation, elicitation_callback=person)
    assert len(SESSION) == 30 and {tool for (tool, _), _ in SESSION} == {"catalogue", "price", "explain", "ask", "validate", "released",
                                                                          "check_claims"}
    codes = [made.structured_content["code"] if made.is_error else "" for made in told]
    assert codes == [code for _, code in SESSION]
    assert len(questions) == 2 and "ε = 0.8" in questions[0]
    assert all(made.structured_content["try"] for made in told if made.is_error)
    assert told[13].structured_content["stored"] and told[14].structured_content["free"] and told[28].structured_content["stored"]
    assert [found["verdict"] for found in told[20].structured_content["findings"]] == ["contradicted", "not from here"]
    assert told[21].structured_content["in_all"] == 1 and told[24].structured_content["cost"] == "nothing"
    assert told[29].structured_content["today"]["share_left"] == pytest.approx(1 - SPENT / 2, abs=0.001)
    with dpsql.connect(policy=policy, budget="study", analyst="robot") as connection:
        assert connection.session.ledger.spent("study", "robot").epsilon == round(SPENT * 10**9)
