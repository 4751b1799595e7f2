"""What is set on a connection to DuckDB holds on the cursors that read, and cannot be changed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from support.files import opened_files

from dpsql.backends.duckdb import SETTINGS, SMALL, DuckReader, connected, open_database, scratch, with_memory
from dpsql.errors import OperationalError


def made(path: Path, rows: int) -> Path:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT i AS x FROM range({rows}) s(i)")
    return path


def setting(reader: DuckReader, name: str) -> str:
    return str(reader.rows(f"SELECT current_setting('{name}')")[0][0]).lower()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not list threads")
def test_an_engine_without_files_starts_no_threads() -> None:
    def threads(config: dict[str, str | int]) -> int:
        before = {*os.listdir("/proc/self/task")}
        with contextlib.closing(connected(config=config)) as connection:
            assert connection.execute("SELECT SUM(i) FROM range(100000) t(i)").fetchone() == (4999950000,)
            return len({*os.listdir("/proc/self/task")} - before)

    assert threads(SMALL) == 0 < threads({"threads": 1})


@pytest.mark.parametrize("kind", ["database", "files"])
def test_every_setting_reaches_the_cursors(kind: str, tmp_path: Path) -> None:
    if kind == "database":
        reader = open_database(made(tmp_path / "d.duckdb", 5))
    else:
        (tmp_path / "t.csv").write_text("x\n1\n")
        reader = opened_files({"t": tmp_path / "t.csv"})
    assert {name: setting(reader, name) for name in SETTINGS} == dict(SETTINGS)
    assert setting(reader, "lock_configuration") == "true"
    assert reader.rows("SELECT 1 // 0, 1 % 0, CAST(1 AS DOUBLE) / 0") == [(None, None, float("inf"))]
    reader.close()


def test_connections_of_one_process_share_a_file(tmp_path: Path) -> None:
    path = made(tmp_path / "d.duckdb", 5)
    first, second = open_database(path), open_database(path)
    for reader in (first, second):
        assert {name: setting(reader, name) for name in SETTINGS} == dict(SETTINGS)
        assert reader.rows("SELECT COUNT(*) FROM t") == [(5,)]
    first.close()
    third = open_database(path)
    for reader in (second, third):
        assert setting(reader, "lock_configuration") == "true" and reader.rows("SELECT SUM(x) FROM t") == [(10,)]
        reader.close()


def test_a_file_that_was_locked_otherwise_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "d.duckdb", 5)
    with duckdb.connect(str(path), read_only=True, config=with_memory(None)) as other:
        other.execute("SET lock_configuration = true")
        with pytest.raises(OperationalError):
            open_database(path)


def test_the_scratch_engine_is_locked_too() -> None:
    connection = scratch()
    with pytest.raises(duckdb.InvalidInputException, match="locked"):
        connection.cursor().execute("SET GLOBAL enable_external_access = true")
    connection.close()


def test_interactive_sessions_see_no_bar_of_progress(tmp_path: Path) -> None:
    """DuckDB takes a process without a main file, such as this one, for an interactive session."""
    made(tmp_path / "d.duckdb", 5)
    program = (
        "import duckdb, sys\n"
        "from dpsql.backends.uploaded_tables import open_uploads\n"
        "from dpsql.backends.duckdb import open_database, scratch\n"
        "from dpsql.backends.file_tables import open_files\n"
        "from dpsql.backends.upload_folders import Uploads\n"
        "made = duckdb.connect(), scratch(), open_database(sys.argv[1])._connection, open_files([])._connection, "
        "open_uploads({}, Uploads())[0]._connection\n"
        "print(*[one.execute(\"SELECT current_setting('enable_progress_bar')\").fetchone()[0] for one in made])\n")
    found = subprocess.run([sys.executable, "-c", program, str(tmp_path / "d.duckdb")], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False", "False", "False", "False"]


@pytest.mark.parametrize(("rows", "bits"), [(10, 12), (100_000, 14)])
def test_arrays_of_groups_grow_with_the_largest_table(rows: int, bits: int, tmp_path: Path) -> None:
    reader = open_database(made(tmp_path / "d.duckdb", rows))
    assert int(setting(reader, "perfect_ht_threshold")) == bits
    assert reader.rows("SELECT COUNT(*), SUM(n) FROM (SELECT x % 1000, COUNT(*) AS n FROM t GROUP BY x % 1000)")[0][1] == rows
    reader.close()


def test_each_process_spills_to_a_folder_of_its_own_and_removes_it() -> None:
    told = subprocess.run([sys.executable, "-c", "from dpsql.backends.duckdb import with_memory; import os\n"
                           "path = with_memory('1GB')['temp_directory']\n"
                           "if not os.fork(): raise SystemExit\n"
                           "os.wait()\nprint(path, oct(os.stat(path).st_mode & 0o777), with_memory(None)['temp_directory'] == path)"],
                          capture_output=True, text=True, check=True).stdout.split()
    assert told[1:] == ["0o700", "True"] and not Path(told[0]).exists()


def test_folders_of_processes_that_were_killed_are_removed(tmp_path: Path) -> None:
    program = "from dpsql.backends.duckdb import with_memory\nprint(with_memory(None)['temp_directory'], flush=True)\ninput()"
    started = [subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "TMPDIR": str(tmp_path)}) for _ in range(2)]
    folders = [Path(process.stdout.readline().strip()) for process in started if process.stdout is not None]
    started[0].kill()
    started[0].wait()
    assert all(folder.exists() for folder in folders)
    third = subprocess.run([sys.executable, "-c", program], input="\n", capture_output=True, text=True, check=True,
                           env={**os.environ, "TMPDIR": str(tmp_path)})
    assert [folder.exists() for folder in folders] == [False, True] and not Path(third.stdout.strip()).exists()
    started[1].communicate("\n")
    assert not folders[1].exists()
