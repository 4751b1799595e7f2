"""What drivers and programs ask beside the recorded questions: settings, keywords, vectors, and who the connection is."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")
pytest.importorskip("adbc_driver_postgresql", reason="the driver of the tests' PostgreSQL is not installed")

from support.replayed import Pair, pair
from support.wire_servers import PASSWORD, Raw, query

from dpsql.server.front.catalogue.catalog_lists import listed


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("catalogue")) as found:
        yield found


def values(raw: Raw, text: str) -> list[str]:
    """The first values of the rows."""
    raw.send(query(text))
    return [body[6:6 + struct.unpack("!i", body[2:6])[0]].decode() for kind, body in raw.until("Z") if kind == "D"]


def answers(both: Pair, text: str) -> tuple[list[str], list[str]]:
    with both.logged_in() as (theirs, ours):
        return values(theirs, text), values(ours, text)


@pytest.mark.parametrize("text", [
    "SELECT setting FROM pg_settings WHERE name = 'max_index_keys'", "SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'max_identifier_length'",
    "SELECT indkey[0] FROM pg_index WHERE indrelid = 'people'::regclass", "SELECT 1 WHERE 1 <> ALL('{2,3}'::int[])", "SELECT 1 = ALL('{1,1}'::int[])",
    "SELECT 1 = ALL(ARRAY[1,2])", "SELECT string_agg(word, ',' ORDER BY word) FROM pg_get_keywords() WHERE word <> ALL('{a,abs,absolute}'::text[])",
    "SELECT catdesc || baredesc FROM pg_get_keywords() WHERE word = 'between'", "SELECT pg_backend_pid() > 0", "SHOW transaction_read_only",
    "SELECT pg_is_in_recovery()::text", "SELECT count(*) FROM pg_cursors WHERE false", "SELECT abbrev FROM pg_timezone_names WHERE name = 'UTC'",
    "SELECT * FROM current_schema()", "SELECT s FROM current_schema() AS s", "SELECT current_schema FROM current_schema()", "SELECT 'int8'::regtype::text",
    "SELECT ('\"pg_catalog\".' || '\"int8\"')::regtype::text", "SELECT k FROM pg_index i, generate_subscripts(i.indkey, 1) AS k WHERE i.indrelid = 'people'::regclass",
    "SELECT generate_subscripts(indkey, 1) FROM pg_index WHERE indrelid = 'people'::regclass", "SELECT k FROM pg_am, generate_subscripts(ARRAY[7, 8], 1) AS k WHERE amname = 'heap' ORDER BY k DESC",
    "SELECT indexdef FROM pg_indexes WHERE tablename = 'people'", "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'people'::regclass",
    "SELECT pg_get_indexdef(indexrelid, 0, true) FROM pg_index WHERE indrelid = 'people'::regclass"])
def test_an_answer_is_that_of_postgresql(text: str, both: Pair) -> None:
    theirs, ours = answers(both, text)
    assert ours == theirs and ours


def test_settings_are_those_of_now(both: Pair) -> None:
    with Raw(both.ours) as raw:
        raw.login(database="study")
        raw.send(query("SET application_name = 'now'"))
        raw.until("Z")
        assert values(raw, "SELECT setting FROM pg_settings WHERE name = 'application_name'") == ["now"] == values(raw, "SELECT current_setting('application_name')")
        assert values(raw, "SELECT pg_backend_pid()") == [str(raw.key[0])]


def test_all_keywords_are_there(both: Pair) -> None:
    theirs, ours = answers(both, "SELECT word FROM pg_get_keywords() ORDER BY word")
    assert ours == theirs and sum(len(line.split()) - 2 for line in listed("postgres_keywords.txt")) == len(ours)


COMMANDS = (r"\d", r"\d people", r"\d+ people", r"\di", r"\di+", r"\df", r"\df+", r"\df lower", r"\sf nothing", r"\dt+", r"\dn+", r"\l+", r"\du", r"\dp", r"\dv", r"\dm",
            r"\dT", r"\dF", r"\deu", r"\dl", r"\dconfig work_mem", r"\dRp", r"\dX", r"\z", r"\conninfo", r"\dO", r"\da")


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
@pytest.mark.parametrize("command", COMMANDS)
def test_psql_commands_work_where_they_do_with_postgresql(command: str, both: Pair) -> None:
    theirs, ours = (subprocess.run(["psql", "-X", "-At", dsn, "-c", command], capture_output=True, text=True, timeout=60) for dsn in (
        f"host=127.0.0.1 port={both.theirs.port} user=owner dbname={both.theirs.name}", f"host=127.0.0.1 port={both.ours} user=ada dbname=study password='{PASSWORD}'"))
    assert ours.returncode == theirs.returncode, ours.stderr


@pytest.mark.parametrize("wanted", ["any", "read-write", "primary", "prefer-standby"])
def test_libpq_finds_a_primary(wanted: str, both: Pair) -> None:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    dsn = f"host=127.0.0.1 port={both.ours} user=ada dbname=study password='{PASSWORD}' target_session_attrs={wanted}"
    assert subprocess.run(["psql", "-X", "-At", dsn, "-c", "SELECT 1"], capture_output=True, text=True, timeout=30).stdout == "1\n"


def jars() -> list[Path]:
    return [path for path in (Path("/usr/share/java/postgresql.jar"), *Path.home().glob(".m2/repository/org/postgresql/postgresql/*/postgresql-*.jar")) if path.exists()]


@pytest.mark.slow
@pytest.mark.skipif(not jars() or shutil.which("javac") is None, reason="the JDBC driver of PostgreSQL or a compiler is not installed")
@pytest.mark.parametrize("more", ["", "?targetServerType=primary", "?autosave=always", "?preferQueryMode=simple"])
def test_keys_and_keywords_of_jdbc(more: str, both: Pair, tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "support" / "client_programs" / "Keys.java"
    subprocess.run(["javac", "-cp", jars()[-1], "-d", tmp_path, program], check=True, capture_output=True)
    said = subprocess.run(["java", "-cp", f"{jars()[-1]}:{tmp_path}", "Keys", f"jdbc:postgresql://127.0.0.1:{both.ours}/study{more}", "ada", PASSWORD], capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == ["imported", "people.person_id", "exported", "scores", "visits", "cross", "visits", "index", "people_pkey", "keywords", "portions", "4"], said.stderr
