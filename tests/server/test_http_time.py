"""Periods, standing queries and their numbers over HTTP: for free, and those of others only where the budget shares answers."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra dpsql[server] is not installed")
pytest.importorskip("openapi_schema_validator", reason="openapi-schema-validator is not installed")

from support.growing_worlds import add_visits, project
from support.http_servers import HttpRunning, http_running
from support.wire_servers import PASSWORD, add

import dpsql
from dpsql.catalog import growing
from dpsql.engine.publishing import publish
from dpsql.engine.session import Session
from dpsql.engine.standing_queries import kept
from dpsql.server.vault import passwords

CREATE = "CREATE STANDING QUERY visits AS SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month OPTIONS (epsilon = 0.4)"


@pytest.fixture(params=["shared", "apart"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpRunning]:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 4, 6))  # March is closed
    policy = project(tmp_path)
    add_visits(policy, itertools.product(range(40), [dt.date(2025, month, 9) for month in range(1, 4)]))
    if request.param == "shared":
        policy.write_text(policy.read_text(encoding="utf-8") + "share_answers = true\n", encoding="utf-8")
    with dpsql.connect(policy=policy, budget="study", analyst="ada") as connection:
        connection.execute(CREATE)
        connection.execute(CREATE.replace("QUERY visits", "QUERY later").replace("0.4", "0.3"))
        publish(kept(connection.session)["visits"], connection.session)

    def opened(user: str) -> Session:
        return dpsql.connect(policy=policy, budget="study", analyst=user).session

    with http_running(tmp_path, opened=opened) as found:
        add(found.users, "bob")
        passwords.add_user(found.users, passwords.User(name="ann", verifier=passwords.verifier(PASSWORD), role="auditor", budget="study"))
        found.shared = request.param == "shared"  # type: ignore[attr-defined]
        yield found


def test_time_is_told_and_numbers_to_whom_they_may_be(server: HttpRunning) -> None:
    shared = server.shared  # type: ignore[attr-defined]
    ada, bob, ann = (server.logged_in(name) for name in ("ada", "bob", "ann"))
    assert ada.get("/api/account").body["grows"] is True
    told = ada.get("/api/time").body
    assert [(each["period"], each["whose"], each["left"]) for each in told["periods"]][:2] == [("2025-03", "all", "96 %"), ("2025-03", "ada", "92 %")]
    first, later = told["queries"]
    assert (first["name"], first["last"], first["next"], first["closes"], first["price"]) == ("visits", "2025-03", "2025-04", "2025-05-06", "ε = 0.4")
    assert first["own"] and first["readable"] and later["last"] == ""
    found = ada.post("/api/series", {"name": "VISITS"}).body
    assert [column["name"] for column in found["answer"]["columns"]] == ["month", "n"] and len(found["answer"]["rows"]) == 3
    assert found["answer"]["errors"][0][1]["error"] > 0 and found["answer"]["charts"] and found["answer"]["cost"] == ""
    assert [each["period"] for each in found["periods"]] == ["2025-01", "2025-02", "2025-03"]
    assert ada.post("/api/series", {"name": "later"}).body == {"name": "later", "answer": None, "periods": []}
    assert ada.post("/api/series", {"name": "visit"}).code == "unknown-standing-query"
    assert {each["readable"] for each in bob.get("/api/time").body["queries"]} == {shared}
    of_bob, of_ann = bob.post("/api/series", {"name": "visits"}), ann.post("/api/series", {"name": "visits"})
    if shared:
        assert of_bob.body == found and [each["cost"] for each in bob.get("/api/releases").body["answers"]] == ["free"] * 3
        assert of_ann.code == "role"
    else:
        assert of_bob.code == of_ann.code == "standing-shared"
    left = [(each["whose"], each["left"]) for each in bob.get("/api/time").body["periods"][:2]]
    assert left == [("all", "96 %"), ("bob", "100 %")]
    rows = bob.query("SELECT month, n FROM standing.visits ORDER BY month")
    assert (rows.body["rows"] == found["answer"]["rows"]) if shared else rows.code == "standing-shared"
    assert ("standing.visits" in {table["name"] for table in bob.get("/api/tables").body["tables"]}) is shared
