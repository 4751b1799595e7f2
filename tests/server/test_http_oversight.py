"""What auditors and owners see and do over HTTP, and that nobody else does."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="the extra dpsql[server] is not installed")
pytest.importorskip("openapi_schema_validator", reason="openapi-schema-validator is not installed")

from support.http_servers import HttpClient, HttpRunning, http_running
from support.sessions import session_of
from support.wire_servers import PASSWORD, add
from support.worlds import POLICY

from dpsql.server.vault import passwords

PATHS = ("statements", "statements.csv", "accounts", "incidents", "health")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRunning]:
    place = tmp_path_factory.mktemp("oversight")
    (place / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    with http_running(place, opened=lambda user: session_of(place, analyst=user, at={"epsilon": 0.01, "delta": 1e-9})) as found:
        add(found.users, "eve")
        for role in ("auditor", "owner"):
            passwords.add_user(found.users, passwords.User(name=role, verifier=passwords.verifier(PASSWORD), role=role, budget="person"))
        for name in ("ada", "eve"):
            asking = found.logged_in(name)
            for age in range(3):
                assert asking.query(f"SELECT COUNT(*) AS secret FROM people WHERE age > {age}").status == 200
        yield found


@pytest.fixture(scope="module")
def auditor(server: HttpRunning) -> HttpClient:
    return server.logged_in("auditor")


def test_each_role_is_told_what_it_is(server: HttpRunning, auditor: HttpClient) -> None:
    assert auditor.get("/api/account").body["role"] == "auditor"
    assert server.logged_in("owner").get("/api/account").body["role"] == "owner"
    assert server.logged_in().get("/api/account").body["role"] == "analyst"


def test_an_analyst_oversees_nothing(server: HttpRunning) -> None:
    ada = server.logged_in()
    found = [ada.get(f"/api/oversight/{path}") for path in PATHS] + [ada.post("/api/oversight/checks")]
    found += [ada.post(f"/api/oversight/users{act}", {"name": "eve"}) for act in ("", "/close", "/reopen")]
    assert {(each.status, each.code) for each in found} == {(403, "role")}
    assert {server.client().get(f"/api/oversight/{path}").status for path in PATHS} == {401}


def test_statements_are_listed_in_pages(auditor: HttpClient) -> None:
    first = auditor.get("/api/oversight/statements?most=4").body
    assert first["found"] == 6 and [each["analyst"] for each in first["statements"]] == ["eve"] * 3 + ["ada"]
    second = auditor.get(f"/api/oversight/statements?most=4&before={first['before']}").body
    assert [each["analyst"] for each in second["statements"]] == ["ada"] * 2 and second["before"] is None
    one = auditor.get(f"/api/oversight/statements?analyst=eve&text={quote('AGE > 2')}&outcome=answered&since=2020-01-01T00:00:00%2B01:00").body
    assert [(each["analyst"], each["cost"]) for each in one["statements"]] == [("eve", "ε = 0.01")]
    assert auditor.get("/api/oversight/statements?outcome=failed").body["found"] == 0


@pytest.mark.parametrize("terms", ["since=yesterday", "until=2020-01-01", "outcome=gone", "most=501", "most=0", "before=-1", "text=%00",
                                   "before=99999999999999999999", "analyst=" + "x" * 2000])
def test_terms_that_are_none_are_refused(auditor: HttpClient, terms: str) -> None:
    assert auditor.get(f"/api/oversight/statements?{terms}").code == "request"


def test_a_file_has_all_of_them_and_no_formula(server: HttpRunning, auditor: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.server.front.http.http_oversight.MOST_LISTED", 2)
    server.logged_in().query("-1")  # it is refused, so it is not listed
    found = auditor.get("/api/oversight/statements.csv?analyst=ada")
    assert found.headers["Content-Type"].startswith("text/csv") and "statements.csv" in found.headers["Content-Disposition"]
    titles, *rows = csv.reader(io.StringIO(found.text))
    assert titles[0] == "number" and [row[2] for row in rows] == ["ada"] * 3 and [float(row[5]) for row in rows] == [0.01] * 3
    from dpsql.server.front.http.http_oversight import _text

    assert [_text(each) for each in ("=1+1", "@x", "\tSELECT", "SELECT")] == ["'=1+1", "'@x", "'\tSELECT", "SELECT"]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with http_running(tmp_path, json_bytes=60, description=False) as small:
        passwords.add_user(small.users, passwords.User(name="auditor", verifier=passwords.verifier(PASSWORD), role="auditor"))
        small.logged_in().query("SELECT COUNT(*) FROM people")
        assert small.logged_in("auditor").get("/api/oversight/statements.csv").code == "answer-size"


def test_accounts_and_the_server(auditor: HttpClient) -> None:
    told = auditor.get("/api/oversight/accounts").body
    accounts = {each["whose"]: each for each in told["accounts"]}
    assert {"ada", "eve", "auditor", "owner"} <= accounts.keys() and told["total"]["statements"] == 6
    assert accounts["eve"]["statements"] == 3 and accounts["auditor"]["role"] == "auditor" and accounts["owner"]["statements"] == 0
    health = auditor.get("/api/oversight/health").body
    assert health["connections"] >= 1 and health["events"] >= 12 and health["ledger_bytes"] > 0 and health["checkpoint"] is None
    assert auditor.get("/api/oversight/incidents").body == {"failures": [], "stopped": [], "late": []}


def test_checks_tell_outcomes_alone(auditor: HttpClient, server: HttpRunning) -> None:
    found = auditor.post("/api/oversight/checks").body["checks"]
    assert found[0] == {"name": "policy", "fine": True, "words": "The policy can be read."}
    assert str(server.users.parent) not in str(found)


def test_an_owner_adds_closes_and_reopens(server: HttpRunning, auditor: HttpClient) -> None:
    owner = server.logged_in("owner")
    for act in ("", "/close", "/reopen"):
        assert auditor.post(f"/api/oversight/users{act}", {"name": "eve"}).code == "role"
    made = owner.post("/api/oversight/users", {"name": "Fay"}).body
    fay = server.client(server.client().post("/api/login", {"name": "fay", "password": made["password"]}).body["token"])
    assert made["name"] == "fay" and fay.get("/api/account").status == 200
    assert owner.post("/api/oversight/users", {"name": "fay"}).code == "user-name"
    assert owner.post("/api/oversight/users/close", {"name": "fay"}).body == {}
    gone = fay.get("/api/account")
    assert (gone.status, gone.code) == (401, "user") and "closed" in gone.body["error"]["message"]
    refused = server.client().post("/api/login", {"name": "fay", "password": made["password"]})
    assert refused.status == 401 and refused.code == "user"
    assert server.client().post("/api/login", {"name": "fay", "password": "wrong horse"}).code == "login", "who proves nothing is told nothing"
    assert owner.post("/api/oversight/users/reopen", {"name": "fay"}).body == {}
    assert server.client().post("/api/login", {"name": "fay", "password": made["password"]}).status == 200
    assert owner.post("/api/oversight/users/close", {"name": "owner"}).code == "user-name"


def test_listings_of_the_wire_are_answered_too(server: HttpRunning, auditor: HttpClient) -> None:
    made = auditor.query("show spending;")
    assert made.body["cost"] == "" and [row[2] for row in made.body["rows"]] == ["ada"] * 3 + ["eve"] * 3
    assert [column["name"] for column in made.body["columns"]] == [column["name"] for column in auditor.post(
        "/api/describe", {"sql": "SHOW SPENDING"}).body["columns"]]
    assert auditor.query("SHOW ANALYSTS").body["rows"][0][:2] == [None, 6]
    assert auditor.post("/api/price", {"sql": "SHOW SPENDING"}).code == "explain"
    for text in ("SHOW SPENDING", "SHOW ANALYSTS"):
        refused = server.logged_in().query(text)
        assert (refused.status, refused.code) == (403, "role")
