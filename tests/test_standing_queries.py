"""Standing queries: how they are created, listed and dropped, what they will cost, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.grammar_sentences import grammar
from support.growing_worlds import POLICY, Clock, add_visits, project_of_seven_months
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql import cli
from dpsql.agents.agent_desk import AgentDesk
from dpsql.dbapi import Connection
from dpsql.errors import Error, OptionError, ProgrammingError, SqlError, Unsupported

BY_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"
BY_SEX = "SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) GROUP BY month, sex"
CREATE = f"CREATE STANDING QUERY visits AS {BY_MONTH} OPTIONS (epsilon = 0.1)"
SHOW = "SHOW STANDING QUERIES"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return project_of_seven_months(tmp_path)


def connected(policy: Path, analyst: str = "ada", **terms: Any) -> Connection:
    return dpsql.connect(policy=policy, budget="study", analyst=analyst, **{"epsilon": 1, **terms})


def shown(connection: Connection) -> dict[str, dict[str, Any]]:
    """The rows of SHOW STANDING QUERIES, by name."""
    cursor = connection.execute(SHOW)
    titles = [column[0] for column in cursor.description or ()]
    rows = (dict(zip(titles, row, strict=True)) for row in cursor.fetchall())
    return {row["name"]: row for row in rows}


def charged(connection: Connection) -> int:
    connection.session.ledger.refresh()
    return connection.session.ledger.spent("study").epsilon or 0


def test_a_query_is_kept_and_listed_and_costs_nothing(policy: Path) -> None:
    with connected(policy) as connection:
        assert shown(connection) == {}
        cursor = connection.execute(CREATE)
        (row,) = cursor.fetchall()
        assert row == ("visits", "ada", "", "2025-01", "2025-02-06", "ε = 0.1", "ε = 0.1", "ε = 1.8", "yes", CREATE)  # June, and a year
        assert charged(connection) == 0 and connection.session.ledger.spent_in_periods("study") == {}
    with connected(policy) as connection:  # it survives the process
        assert tuple(shown(connection)["visits"].values()) == row


def test_it_stays_when_the_data_and_the_policy_change(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
    add_visits(policy, [(3, dt.date(2025, 7, 1))])
    policy.write_text(policy.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    clock.day = dt.date(2025, 8, 6)
    with connected(policy) as connection:
        assert shown(connection)["visits"]["year ahead, in all"] == "ε = 1.9"


def test_the_next_period_is_the_first_that_was_not_answered(policy: Path, clock: Clock) -> None:
    with connected(policy, epsilon=0.1) as connection:
        connection.execute(CREATE)
        connection.execute(BY_MONTH)  # the same statements: they are free now
        found = shown(connection)["visits"]
        assert (found["last period"], found["next period"], found["closes"]) == ("", "2025-07", "2025-08-06")
        assert found["year ahead, in all"] == "ε = 1.2"


def test_before_any_period_is_closed(policy: Path, clock: Clock) -> None:
    clock.day = dt.date(2025, 1, 20)
    with connected(policy) as connection:
        connection.execute(CREATE)
        found = shown(connection)["visits"]
        assert (found["next period"], found["closes"], found["price of a period"]) == ("2025-01", "2025-02-06", "ε = 0.1")


def test_both_units_are_priced(policy: Path) -> None:
    """What reads people who have no visit in the period costs twice as much there."""
    text = BY_MONTH.replace("COUNT(*) AS n", "COUNT(*) - (SELECT COUNT(*) FROM people) AS n")
    windows = ("SELECT date_trunc('month', visited_on) AS month, sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) "
               "GROUP BY month, sex")
    with connected(policy) as connection:
        connection.execute(f"CREATE STANDING QUERY one AS {windows} OPTIONS (epsilon = 0.2)")
        assert shown(connection)["one"]["price of a period"] == "ε = 0.2"
        with pytest.raises(Unsupported, match="charged anew whenever its data change"):
            connection.execute(f"CREATE STANDING QUERY two AS {text}")


def test_the_price_and_the_confidence_are_those_of_the_creation(policy: Path) -> None:
    with connected(policy, epsilon=0.3, confidence=0.9) as connection:
        connection.execute(f"CREATE STANDING QUERY visits AS {BY_MONTH}")
        connection.execute(f"CREATE STANDING QUERY dearer AS {BY_MONTH}", epsilon=0.5)
    with connected(policy, epsilon=1) as connection:
        found = shown(connection)
        assert (found["visits"]["price of a period"], found["dearer"]["price of a period"]) == ("ε = 0.3", "ε = 0.5")


def test_whether_the_budget_has_room(policy: Path) -> None:
    """Together with those above: 3, then 3 more of the 5 that ada may spend in a period; and 6 of 10 of all together."""
    with connected(policy, epsilon=3) as connection, connected(policy, "bob", epsilon=3) as other:
        connection.execute(f"CREATE STANDING QUERY a AS {BY_MONTH}")
        connection.execute(f"CREATE STANDING QUERY b AS {BY_SEX}")
        assert [row["has room"] for row in shown(connection).values()] == ["yes", "no: 2025-01 of ada"]
        other.execute(f"CREATE STANDING QUERY c AS {BY_MONTH}")
        other.execute(f"CREATE STANDING QUERY d AS {BY_MONTH}", epsilon=2)
        assert [row["has room"] for row in shown(other).values()] == ["yes", "yes", "yes", "no: 2025-01"]


def test_room_in_the_total(policy: Path) -> None:
    policy.write_text(POLICY.format(period="month", column="visited_on").replace("epsilon = 1000", "epsilon = 20"), encoding="utf-8")
    with connected(policy) as connection:
        connection.execute(f"CREATE STANDING QUERY a AS {BY_MONTH}")  # 18 of 20
        connection.execute(f"CREATE STANDING QUERY b AS {BY_SEX}")
        assert [row["has room"] for row in shown(connection).values()] == ["yes", "no: the total"]


@pytest.mark.parametrize(("text", "code", "words", "advice"), [
    ("CREATE STANDING QUERRY visits AS " + BY_MONTH, "standing", "QUERY is expected here", "CREATE STANDING QUERY"),
    ("CREATE STANDNG QUERY visits AS " + BY_MONTH, "not-a-query", "only queries are answered", "CREATE STANDING QUERY"),
    ("CREATE STANDING QUERY v AS SELECT COUNT(*) FROM visits", "standing", "must group by the month of visited_on", "date_trunc('month', visited_on)"),
    ("CREATE STANDING QUERY v AS SELECT sex, COUNT(*) FROM visits JOIN people USING (person_id) GROUP BY sex", "standing", "must group by the month", "GROUP BY month"),
    ("CREATE STANDING QUERY v AS SELECT date_trunc('year', visited_on) AS y, COUNT(*) FROM visits GROUP BY y", "standing", "must group by the month", "month"),
    ("CREATE STANDING QUERY v AS SELECT COUNT(*) FROM people", "standing", "must read a table that grows", "FROM visits"),
    (f"CREATE STANDING QUERY v AS {BY_MONTH} LIMIT 2", "standing", "shows all of its periods", "without LIMIT"),
    (f"CREATE STANDING QUERY v AS {BY_MONTH.replace('GROUP', 'WHERE cost > ? GROUP')}", "parameters", "cannot have parameters", "the values"),
    (f"CREATE STANDING QUERY v AS {BY_MONTH.replace('GROUP', 'WHERE visited_on < $d$ GROUP')}".replace("$d$", "DATE '2025-04-01'"), "standing", "ends with 2025-03", "without an end"),
    (f"CREATE STANDING QUERY v AS {BY_MONTH.replace('GROUP', 'WHERE visited_on < $d$ GROUP')}".replace("$d$", "DATE '2026-04-01'"), "standing", "goes on with each period", "without an end"),
    (f"CREATE STANDING QUERY v AS {BY_MONTH.replace('cost', 'x')} OPTIONS (epsilon = 0)", "option", "must be between", ""),
    (f"CREATE STANDING QUERY v AS {BY_MONTH.replace('COUNT(*)', 'SUM(costs)')}", "unknown-column", "costs", "cost"),
    (f'CREATE STANDING QUERY "../v" AS {BY_MONTH}', "standing", "files will have this name", "visits_by_month"),
    (f'CREATE STANDING QUERY "index" AS {BY_MONTH}', "standing", "must not be index", "visits_by_month"),
    (f"CREATE STANDING QUERY v AS {BY_MONTH} ERROR WITHIN 3", "accuracy", "cannot have an accuracy", ""),
    ("DROP STANDING QUERY visit", "unknown-standing-query", "there is no standing query visit", "visits"),
    ("DROP STANDING QUERY zzz", "unknown-standing-query", "there is no standing query zzz", "SHOW STANDING QUERIES"),
    (CREATE, "standing", "there is a standing query visits already", "visits_2, or DROP STANDING QUERY visits"),
    (CREATE.replace("visits AS", "VISITS AS"), "standing", "there is a standing query visits already", "visits_2"),
])
def test_refusals_are_located_and_give_advice(policy: Path, text: str, code: str, words: str, advice: str) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE)
        with pytest.raises(Error, match=re.escape(words)) as caught:
            connection.execute(text)
        assert caught.value.code == code and caught.value.span is not None and advice in caught.value.try_
        assert isinstance(caught.value, SqlError | Unsupported | OptionError) and [*shown(connection)] == ["visits"]


def test_without_a_price(policy: Path) -> None:
    with dpsql.connect(policy=policy, budget="study", analyst="ada") as connection:
        with pytest.raises(OptionError, match="no price is given"):
            connection.execute(f"CREATE STANDING QUERY v AS {BY_MONTH}")
        with pytest.raises(OptionError, match="costs nothing"):
            connection.execute(SHOW, epsilon=1)
        connection.execute(CREATE)


def test_whoever_created_it_drops_it_and_the_name_is_free(policy: Path) -> None:
    with connected(policy) as connection, connected(policy, "bob") as other:
        connection.execute(CREATE)
        with pytest.raises(SqlError, match="ada made the standing query visits, and nobody else drops it"):
            other.execute("DROP STANDING QUERY visits")
        with pytest.raises(SqlError, match="already, made by ada") as caught:
            other.execute(CREATE)
        assert "DROP" not in caught.value.try_
        assert connection.execute("drop standing query VISITS").fetchall() == [("visits",)]
        assert shown(connection) == {}
        other.execute(CREATE)
        assert shown(connection)["visits"]["made by"] == "bob"


def test_of_two_creations_at_once_the_ledger_decides(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked before either is recorded."""
    from dpsql.engine import creating_standing

    with connected(policy) as connection, connected(policy, "bob") as other:
        looked = iter([None])  # bob looks, and there is nothing; then ada is recorded first
        found = creating_standing.named

        def named(name: str, session: Any) -> Any:
            if session.analyst == "bob" and next(looked, 0) is None:
                connection.execute(CREATE)
                return None
            return found(name, session)

        monkeypatch.setattr(creating_standing, "named", named)
        with pytest.raises(SqlError, match="already, made by ada"):
            other.execute(CREATE)
        assert shown(other)["visits"]["made by"] == "ada"


def test_explain_says_what_each_period_will_cost(policy: Path) -> None:
    with connected(policy) as connection:
        told = str(connection.execute(f"EXPLAIN PRIVACY {CREATE}").explanation)
        assert "ε = 0.1" in told and "2025-07" in told and str(connection.explain(CREATE)) == told
        assert shown(connection) == {}


def test_a_policy_that_no_longer_allows_it_is_told(policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(CREATE.replace("COUNT(*)", "SUM(cost)"))
    policy.write_text(policy.read_text(encoding="utf-8").replace("cost = { bounds = [0, 100], decimals = 0 }\n", ""), encoding="utf-8")
    with connected(policy) as connection:
        assert shown(connection)["visits"]["has room"].startswith("no: ")
        connection.execute("DROP STANDING QUERY visits")


def test_the_shell_and_queries_of_a_script(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--policy", str(policy), "--budget", "study", "--analyst", "ada"]
    assert cli.main(["query", *place, f"{CREATE}; {SHOW}; DROP STANDING QUERY visits; {SHOW}", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["name"] for line in lines if "name" in line] == ["visits", "visits"] and lines[-1] == {"dropped": "visits"}
    assert cli.main(["query", *place, "--epsilon", "1", f"{SHOW}; CREATE STANDING QUERY v AS SELECT COUNT(*) FROM visits"]) == 2  # before the first one
    assert "must group by the month" in capsys.readouterr().err


@pytest.mark.parametrize("text", [CREATE, SHOW, "drop standing query v", f"EXPLAIN PRIVACY {CREATE}", f"create standing query v as {BY_SEX};"])
def test_the_grammar_has_these_sentences(text: str) -> None:
    grammar().parse(text)


def test_an_agent_makes_none(policy: Path) -> None:
    """Its periods would be charged later, when nobody is asked for consent."""
    text = policy.read_text(encoding="utf-8")
    policy.write_text(f"{text}\n[budgets.study.agents.robot]\nper_day = {{ epsilon = 1, delta = 1e-5 }}\n", encoding="utf-8")
    with connected(policy, "robot", epsilon=0.1) as connection:
        desk = AgentDesk(connection)
        for statement in (CREATE, "DROP STANDING QUERY visits"):
            with pytest.raises(ProgrammingError, match="an agent has no standing queries"):
                desk.ask(statement, "to see whether it works")
        with pytest.raises(ProgrammingError, match="an agent has no standing queries"):
            connection.execute(CREATE)


@pytest.fixture
def port(policy: Path) -> Iterator[int]:
    with served(policy, budget="study", price={"epsilon": 1}) as found:  # type: ignore[dict-item]
        yield found.port


@pytest.mark.slow
def test_over_the_network(port: int, policy: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with connected(policy, "bob") as connection:
        connection.execute(CREATE.replace("visits AS", "of_bob AS"))
    with psycopg.connect(host="127.0.0.1", port=port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as client:
        assert client.execute(CREATE).fetchone()[:2] == ("visits", "ada")
        assert {row[0]: row[1] for row in client.execute(SHOW).fetchall()} == {"of_bob": "bob", "visits": "ada"}
        with pytest.raises(psycopg.Error, match="nobody else drops it"):
            client.execute("DROP STANDING QUERY of_bob")
        client.execute("DROP STANDING QUERY visits")
    with connected(policy) as connection:
        assert [*shown(connection)] == ["of_bob"] and charged(connection) == 0
