"""The tools of an agent, without the protocol: prices, limits, purposes, what was released."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import agent_sessions

import dpsql
from dpsql import cli
from dpsql.agents.agent_desk import AgentDesk
from dpsql.agents.purposes import LONGEST, MARK, purpose_of, with_purpose
from dpsql.agents.shown_results import MOST_ROWS

COUNT = "SELECT health, COUNT(*) AS n FROM people GROUP BY health"
AT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) health, COUNT(*) AS n FROM people GROUP BY health"
WHY = "compare health for the annual report"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return agent_sessions.study(tmp_path)


@pytest.fixture
def made(policy: Path) -> AgentDesk:
    return agent_sessions.desk(policy)


def spent(desk: AgentDesk) -> int | None:
    return desk.connection.budget().spent.epsilon


def test_the_free_tools_charge_nothing(made: AgentDesk) -> None:
    whole, one = made.catalogue().data, made.catalogue("people").data
    assert whole["today"]["share_left"] == 1 and whole["confirm_above"] == "ε = 0.6, δ = 1e-06" and whole["unit"] == "epsilon"
    assert [table["name"] for table in one["tables"]] == ["people"] and len(whole["tables"]) == 4
    for example in whole["examples"]:
        assert not made.price(example).data["free"]
    priced = made.price(COUNT).data
    assert priced["epsilon"] == 0.5 and priced["affordable"] and not priced["needs_consent"]
    assert priced["expected"][0]["standard_error"] == pytest.approx(2.8, abs=0.1)
    assert made.explain(COUNT).data["plan"] and made.released().data == {"statements": [], "in_all": 0, "offset": 0, "answer": None}
    with pytest.raises(dpsql.Error, match="there is no table peple") as caught:
        made.catalogue("peple")
    assert caught.value.try_ == "people" and spent(made) == 0


def test_an_answer_has_values_errors_intervals_cost_and_its_number(made: AgentDesk) -> None:
    told = made.ask(COUNT, WHY, 0.5)
    assert [row[0] for row in told.data["rows"]] == ["excellent", "good", "fair", "poor"] and told.data["cost"] == "ε = 0.5, δ = 1e-07"
    for row, errors, ends in zip(told.data["rows"], told.data["errors"], told.data["intervals"], strict=True):
        assert errors[0] is None and errors[1] > 0 and ends[1][0] < row[1] < ends[1][1]
    again, listed = made.ask(f"  {COUNT} ;", "another purpose", 0.1), made.released(told.data["number"]).data
    assert again.data["stored"] and again.data["cost"] == "nothing" and again.data["rows"] == told.data["rows"]
    assert again.data["number"] == told.data["number"] and listed["answer"]["rows"] == told.data["rows"]
    assert listed["statements"][0]["purpose"] == WHY and listed["statements"][0]["sql"] == COUNT
    assert spent(made) == 5 * 10**8 and "health = excellent, n = " in told.words


def test_nothing_is_charged_above_the_most_or_the_threshold(made: AgentDesk) -> None:
    for sql, most, code in ((COUNT, 0.4, "above-most"), (AT.format(0.7), None, "needs-consent"), (AT.format(0.7), 0.1, "above-most")):
        with pytest.raises(dpsql.BudgetExhausted) as caught:
            made.ask(sql, WHY, most)
        assert caught.value.code == code and caught.value.try_
    assert spent(made) == 0
    assert made.question_for_person(COUNT, None) is None and made.question_for_person(AT.format(0.7), 0.1) is None
    assert "ε = 0.7" in (made.question_for_person(AT.format(0.7), None) or "")
    assert made.ask(AT.format(0.7), WHY, is_agreed=True).data["cost"].startswith("ε = 0.7")
    assert made.question_for_person(AT.format(0.7), None) is None  # free now
    with pytest.raises(dpsql.BudgetExhausted, match="today"):
        made.ask(AT.format(1.9), WHY, is_agreed=True)
    assert made.question_for_person(AT.format(1.9), None) is None  # nobody is asked for what is refused anyway
    with pytest.raises(dpsql.BudgetExhausted, match="does not pay for it"):
        made.ask(AT.format(1.9), WHY)


def test_a_price_in_rho_is_compared_as_the_budget_compares_it(made: AgentDesk) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = {}) COUNT(*) FROM people"
    assert made.ask(text.format(0.001), WHY, 0.5).data["cost"] == "ρ = 0.001"
    with pytest.raises(dpsql.BudgetExhausted, match="more than"):
        made.ask(text.format(0.05), WHY, 0.5)


@pytest.mark.parametrize("most", [0, -1, float("nan"), float("inf"), 1e9, True])
def test_an_impossible_most_is_refused(most: float, made: AgentDesk) -> None:
    with pytest.raises(dpsql.OptionError):
        made.ask(COUNT, WHY, most)
    assert spent(made) == 0


@pytest.mark.parametrize("sql", ["SELECT helth, COUNT(*) FROM people GROUP BY helth", "SELECT * FROM people", "", "DROP SYNTHETIC TABLE x",
                                 "SELECT COUNT(*) FROM people; SELECT 1", "SELECT 'open", "SELECT COUNT(*) FROM people WHERE health = 'good"])
def test_a_wrong_statement_is_an_error_with_advice_and_costs_nothing(sql: str, made: AgentDesk) -> None:
    with pytest.raises(dpsql.Error) as caught:
        made.ask(sql, WHY + " '")
    assert caught.value.code and spent(made) == 0


def test_public_tables_and_lists_are_answered_for_free(made: AgentDesk) -> None:
    assert made.ask("SELECT COUNT(*) FROM plans", WHY, 0.0000001).data["rows"] == [[18]]
    assert made.ask("SHOW TABLES", WHY).data["rows_in_all"] == 4 and spent(made) == 0


def test_long_answers_come_in_parts(made: AgentDesk) -> None:
    sql = ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) site, plan, health, COUNT(*) AS n FROM people GROUP BY site, plan, health")
    told = made.ask(sql, WHY).data
    assert len(told["rows"]) == MOST_ROWS < told["rows_in_all"] == 6 * 18 * 4
    rest = [made.released(told["number"], offset=offset).data["answer"]["rows"] for offset in (0, 200, 400)]
    assert [len(part) for part in rest] == [200, 200, 32] and rest[0] == told["rows"]
    with pytest.raises(dpsql.OptionError, match="no statement of this account has the number 99"):
        made.released(99)
    with pytest.raises(dpsql.OptionError, match="offset"):
        made.released(offset=-1)


def test_a_synthetic_table_is_validated(made: AgentDesk) -> None:
    told = made.validate(["SELECT COUNT(*) FROM people", "(SELECT COUNT(*) FROM people WHERE coinsurance = 25) WITHIN 10"], "plans", "5 PERCENT", WHY,
                         0.2, "epsilon = 0.2")
    assert told.data["cost"].startswith("ε = 0.2") and len(told.data["rows"]) == 2
    with pytest.raises(dpsql.Error, match="no query"):
        made.validate([], "plans", "5 PERCENT", WHY)
    with pytest.raises(dpsql.Error):
        made.validate(["SELECT COUNT(*) FROM people) AGAINST plans WITHIN 5 PERCENT; SELECT (1"], "plans", "5 PERCENT", WHY)


# -- purposes


@pytest.mark.parametrize("purpose", ["", "short", "x" * (LONGEST + 1), "\n\n\n\n\n\n\n\n\n"])
def test_a_purpose_is_a_sentence(purpose: str, made: AgentDesk) -> None:
    with pytest.raises(dpsql.OptionError, match="a purpose has"):
        made.ask(COUNT, purpose)
    assert spent(made) == 0


@pytest.mark.parametrize(("sql", "purpose"), [
    (COUNT, "it's \"quoted\" /* and */ -- commented; DROP TABLE x"), (f"{COUNT}; ", f"two\nlines\r\n{MARK}of it"),
    (f"{COUNT} -- a comment\n{MARK}a false purpose", "the true purpose")])
def test_a_purpose_is_one_comment_at_the_end(sql: str, purpose: str) -> None:
    text = with_purpose(sql, purpose)
    assert purpose_of(text) == (sql.rstrip(" ;"), " ".join(purpose.split()))
    assert purpose_of(COUNT) == (COUNT, "")


def test_the_owner_reads_the_purposes(made: AgentDesk, policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.ask(AT.format(0.1), WHY)
    made.connection.execute(AT.format(0.2))  # without one
    capsys.readouterr()
    assert cli.main(["purposes", "--policy", str(policy), "--budget", "study", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert WHY in json.dumps(listed, ensure_ascii=False) and MARK not in json.dumps(listed) and "epsilon = 0.2" not in json.dumps(listed)
    assert cli.main(["purposes", "--policy", str(policy), "--budget", "study", "--analyst", "nobody", "--json"]) == 0
    assert WHY not in capsys.readouterr().out
    assert cli.main(["ledger", "--policy", str(policy), "verify"]) == 0
