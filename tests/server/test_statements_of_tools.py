"""What Superset and dbt ask of tables, as they sent it to a server: answered, or refused with what a person can do about it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import worlds
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql.demo import folder
from dpsql.engine.free_plans import ALL_DECLARED
from dpsql.server.front.statements.database_names import without_database
from dpsql.server.front.statements.seat import ConnectionSeat, seats
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire

FOLDER = Path(__file__).parent
STATEMENTS = re.findall(r"^-- # (.+) \| (.+)\n((?:.+\n|\n(?!-- #))+)", (FOLDER / "statements_of_tools.sql").read_text(encoding="utf-8"), re.MULTILINE)
AGAIN = "cost: nothing, as this was answered before"


@pytest.fixture(scope="module")
def seat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectionSeat]:
    project = worlds.project(tmp_path_factory.mktemp("project"), people=60)
    made = seats(lambda user, database: dpsql.connect(project / "people.duckdb", budget="person", analyst=user, epsilon=1, delta=1e-9))("ada", "study", {})
    yield made
    made.close()


@pytest.mark.parametrize(("title", "expected", "text"), [pytest.param(*each, id=each[0]) for each in STATEMENTS])
def test_statements_of_tools(title: str, expected: str, text: str, seat: ConnectionSeat) -> None:
    """`expected` says how many rows there are, or how the refusal begins; what is answered is free from the second time on."""
    if not expected.split()[0].isdigit():
        with pytest.raises(RefusedOnWire) as told:
            seat.execute(text, ())
        assert told.value.message.startswith(expected)
        return
    for turn in range(2):
        found = seat.execute(text, ())
        assert len(list(found.rows)) == int(expected.split()[0])
        assert not turn or not found.notices or found.notices[0].text in (AGAIN, ALL_DECLARED)
    assert [column.name for column in found.columns or ()] == [column.name for column in seat.describe(text, ()).columns or ()]


def test_another_row_limit_costs_nothing(seat: ConnectionSeat) -> None:
    text = "SELECT sex AS sex, COUNT(*) AS count \nFROM public.people GROUP BY sex ORDER BY count DESC \n LIMIT {}"
    shown = [list(seat.execute(text.format(most), ()).rows) for most in (10000, 2)]
    assert shown[1] == shown[0][:2] and seat.execute(text.format(1001), ()).notices[0].text == AGAIN


@pytest.mark.parametrize(("text", "left"), [
    ('FROM "study"."public"."people"', 'FROM         "public"."people"'), ("FROM Study.public.people", "FROM       public.people"),
    ("SELECT study.main.people.age", "SELECT       main.people.age"), ('FROM "other"."public"."people"', None), ("FROM study.people", None),
    ("SELECT 'study.public.people'", None), ("-- study.public.people\nFROM people", None), ("FROM a.study.public.people", None),
    ("SELECT 'study.public.people", None), ("FROM study.pg_catalog.pg_class", None)])
def test_the_name_of_the_database_says_nothing(text: str, left: str | None) -> None:
    assert without_database(text, "study") == (text if left is None else left)


def test_a_place_in_an_error_is_that_of_the_text(seat: ConnectionSeat) -> None:
    text = 'SELECT COUNT(*) FROM "study"."public"."people" WHERE nothing = 1'
    with pytest.raises(RefusedOnWire) as told:
        seat.execute(text, ())
    assert told.value.position == text.index("nothing") + 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dbt") is None, reason="dbt is not installed")
def test_dbt_shows_a_model_and_writes_none(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("{name: study, version: 1.0.0, profile: study}")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "sources.yml").write_text("{version: 2, sources: [{name: study, database: study, schema: public, tables: [{name: people}]}]}")
    (tmp_path / "models" / "sites.sql").write_text("SELECT site, COUNT(*) AS n FROM {{ source('study', 'people') }} GROUP BY site")
    with served(folder.export(tmp_path / "demo"), budget="study") as server:
        (tmp_path / "profiles.yml").write_text(
            f"study: {{target: dev, outputs: {{dev: {{type: postgres, host: 127.0.0.1, port: {server.port}, user: ada, "
            f"password: '{PASSWORD}', dbname: study, schema: public}}}}}}")

        def dbt(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(["dbt", "--no-use-colors", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "DBT_PROFILES_DIR": str(tmp_path), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"})

        assert "connection ok" in dbt("debug").stdout
        shown = dbt("show", "--select", "sites", "--limit", "6").stdout
        assert len(re.findall(r"^\| +[1-6] \| +\d+ \|$", shown, re.MULTILINE)) == 6
        refused = dbt("run")
        assert refused.returncode and "only queries are answered" in refused.stdout
