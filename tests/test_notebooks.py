"""`%dpsql` and `%%dpsql`, in the shell of IPython."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from support import worlds

import dpsql
from dpsql.dbapi import Connection, Cursor
from dpsql.planning.explain import Explanation
from dpsql.trusted.kernel.ledger import Ledger

GROUPED = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    worlds.world(people=200).save(tmp_path / "people.duckdb")
    (tmp_path / "dpsql.toml").write_text('database = "people.duckdb"\n' + worlds.POLICY, encoding="utf-8")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path / "dpsql.toml"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made = InteractiveShell()
    made.history_manager.enabled = False
    made.extension_manager.load_extension("dpsql")
    yield made
    atexit.unregister(made.atexit_operations)
    made.atexit_operations()


def opened(shell: Any, policy: Path, more: str = "--budget person --analyst ada --epsilon 1 --delta 1e-6") -> Connection:
    found = shell.run_line_magic("dpsql", f"'{policy}' {more}")
    assert isinstance(found, Connection)
    return found


def test_a_line_opens_a_connection_and_cells_ask_it(shell: Any, policy: Path) -> None:
    connection = opened(shell, policy)
    assert shell.run_line_magic("dpsql", "") is connection, "which a notebook shows with what may be asked"
    cursor = shell.run_cell_magic("dpsql", "", GROUPED + "\n")
    assert isinstance(cursor, Cursor) and len(cursor.fetchall()) == 3 and cursor.cost == "ε = 1"
    assert shell.run_cell_magic("dpsql", "counts <<", GROUPED) is None and shell.user_ns["counts"].cost == ""
    told = shell.run_cell_magic("dpsql", "--explain", "SELECT COUNT(*) FROM people WHERE age > 7")
    assert isinstance(told, Explanation) and connection.budget().statements == 1, "nothing was charged"
    assert shell.run_cell_magic("dpsql", "told << --explain", GROUPED) is None
    assert isinstance(shell.user_ns["told"], Explanation)


def test_variables_of_the_notebook_are_connections_and_parameters(shell: Any, policy: Path) -> None:
    with dpsql.connect(policy=policy, budget="person", analyst="bea", epsilon=1) as connection:
        shell.user_ns.update(con=connection, least=3, other=object())
        cursor = shell.run_cell_magic("dpsql", "con", "SELECT COUNT(*) FROM people WHERE age > :least")
        assert cursor.connection is connection
        assert shell.run_cell_magic("dpsql", "", "EXPLAIN PRIVACY SELECT COUNT(*) FROM people WHERE age > $least").explanation
        with pytest.raises(dpsql.ProgrammingError, match="most"):
            shell.run_cell_magic("dpsql", "", "SELECT COUNT(*) FROM people WHERE age > :most")
        mine = opened(shell, policy)
        assert connection.budget(), "what a variable holds is not closed"
        again = opened(shell, policy)
        assert again is not mine
        with pytest.raises(dpsql.InterfaceError):
            mine.budget()


@pytest.mark.parametrize(("line", "cell"), [
    ("--bdget person", None), ("x <<", None), ("--explain", None), ("a b", GROUPED), ("1x <<", GROUPED), ("<<", GROUPED), ("'a", GROUPED),
    ("--epsilon much", GROUPED), ("", GROUPED), ("", None)])
def test_a_line_that_is_wrong_is_refused(line: str, cell: str | None, shell: Any) -> None:
    with pytest.raises(dpsql.Error) as caught:
        shell.run_line_magic("dpsql", line) if cell is None else shell.run_cell_magic("dpsql", line, cell)
    assert caught.value.try_ and caught.value.code == "magic"


def test_an_error_is_shown_in_a_few_lines(shell: Any, policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened(shell, policy)
    capsys.readouterr()
    shell.run_cell("%%dpsql\nSELECT AVG(incme)\nFROM people")
    shown = capsys.readouterr().out.strip().splitlines()
    assert shown == ["SqlError at line 1, column 12: there is no column incme", "    SELECT AVG(incme)", "               ^^^^^",
                     "    try income"]
