"""What a server answers without a charge, where the owner wants it held back; and statements that ask to leave later."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from support.wire_servers import PASSWORD, Served, served

from dpsql.demo import folder
from dpsql.server.front.wire.steady_answers import at_a_multiple

PACE = 0.2
TEXT = "SELECT COUNT(*) FROM people WHERE income < 7777"


@pytest.mark.parametrize(("seconds", "pace", "least"), [(0.0, 0.05, 0.05), (0.06, 0.05, 0.1), (0.02, 0.0, 0.02)])
def test_a_context_takes_a_multiple(seconds: float, pace: float, least: float) -> None:
    async def taken(fails: bool) -> float:
        begun = time.monotonic()
        try:
            async with at_a_multiple(pace):
                await asyncio.sleep(seconds)
                if fails:
                    raise ValueError
        except ValueError:
            assert fails
        return time.monotonic() - begun

    for fails in (False, True):
        assert asyncio.run(taken(fails)) >= least - 0.001


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    policy = folder.export(tmp_path_factory.mktemp("steady") / "demo")
    text = policy.read_text(encoding="utf-8").replace("version = 1", f'version = 1\npace = "1 ms"\npace_stored = "{1000 * PACE:.0f} ms"', 1)
    policy.write_text(text.replace("[budgets.study]\n", "[budgets.study]\nlate = 0\n", 1), encoding="utf-8")
    with served(policy, budget="study", terms=("--http", "127.0.0.1:0")) as made:
        yield made


def test_all_that_is_answered_is_held_back(server: Served) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(host="127.0.0.1", port=server.port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as connection:
        for text in (TEXT, TEXT, f"EXPLAIN PRIVACY {TEXT}", "SELECT relname FROM pg_catalog.pg_class", "SHOW BUDGET", "SELECT nothing"):
            begun = time.monotonic()
            if text.endswith("nothing"):
                with pytest.raises(psycopg.Error):
                    connection.execute(text)
            else:
                connection.execute(text)
            assert time.monotonic() - begun >= PACE - 0.002, text


def by_http(server: Served) -> Callable[..., dict[str, Any]]:
    """What asks ada's statements by HTTP: a path, and a body where it has one."""
    headers = {"Content-Type": "application/json"}

    def ask(path: str, body: object = None) -> dict[str, Any]:
        sent = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"http://127.0.0.1:{server.http_port}/api/{path}", sent, headers)) as reply:
            return cast(dict[str, Any], json.load(reply))

    headers["Authorization"] = f"Bearer {ask('login', {'name': 'ada', 'password': PASSWORD})['token']}"
    return ask


def test_by_http_too(server: Served) -> None:
    ask = by_http(server)
    begun = time.monotonic()
    ask("query", {"sql": TEXT})
    assert time.monotonic() - begun >= PACE - 0.002


def test_a_statement_that_asks_for_it_leaves_later(server: Served) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(host="127.0.0.1", port=server.port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as connection:
        connection.execute("SET pace = '700ms'")
        begun = time.monotonic()
        connection.execute("SELECT COUNT(*) FROM people WHERE income < 6666")
        assert time.monotonic() - begun >= 1.024 - 0.002, "at step 10"
        begun = time.monotonic()
        connection.execute("SELECT COUNT(*) FROM people WHERE income < 6666")
        assert time.monotonic() - begun < 1.024, "what is stored is not meant"


def test_whose_answers_wait_is_told_so_and_what_helps(server: Served) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(host="127.0.0.1", port=server.port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as connection:
        told = list[str]()
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        connection.execute("SELECT COUNT(*) FROM people WHERE income < 5555")
        charged = [text for text in told if text.startswith("your answers leave after 0.")]
        assert "SET pace" in charged[0]
        connection.execute("EXPLAIN PRIVACY SELECT COUNT(*) FROM people")
        assert told[-1] == charged[0], "nothing is told where nothing is charged"
        told.clear()
        connection.execute("SHOW BUDGET")
        assert told == charged


def test_by_http_a_pace_is_stated_and_waits_are_told_as_by_the_wire(server: Served) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    ask = by_http(server)
    ask("query", {"sql": "SELECT COUNT(*) FROM people WHERE income < 3333"})  # whatever ran before: an answer of this account was late
    begun = time.monotonic()
    made = ask("query", {"sql": "SELECT COUNT(*) FROM people WHERE income < 4444", "pace": 0.7})
    assert time.monotonic() - begun >= 1.024 - 0.002, "at step 10"
    with psycopg.connect(host="127.0.0.1", port=server.port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as connection:
        told = list[str]()
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        connection.execute("SHOW BUDGET")
    assert len(told) == 1 and made["notes"][-1:] == told == ask("query", {"sql": "SHOW BUDGET"})["notes"]
    assert ask("budget")["words"].endswith(f"{told[0][1:]}.")
    again = ask("query", {"sql": "SELECT COUNT(*) FROM people WHERE income < 4444"})
    assert again["stored"] and told[0] not in again["notes"]
