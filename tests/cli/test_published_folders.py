"""The folder of `dpsql publish` is that of one ledger and one budget, whose numbers are never replaced by those of another."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from support.growing_worlds import add_visits, project

import dpsql
from dpsql import cli
from dpsql.answers.published_folder import MARKER, PublishedFolder
from dpsql.catalog import growing
from dpsql.errors import LedgerError, OperationalError

BY_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"


@pytest.fixture(autouse=True)
def march_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 4, 6))


def made(folder: Path, query: str = BY_MONTH) -> Path:
    """A project with a standing query."""
    folder.mkdir()
    policy = project(folder)
    add_visits(policy, itertools.product(range(40), [dt.date(2025, month, 9) for month in range(1, 7)]))
    create(policy, query)
    return policy


def create(policy: Path, query: str, analyst: str = "ada") -> None:
    with dpsql.connect(policy=policy, budget="study", analyst=analyst) as connection:
        connection.execute(f"CREATE STANDING QUERY visits AS {query} OPTIONS (epsilon = 0.5)")


def publish(policy: Path, out: Path, budget: str = "study") -> int:
    return cli.main(["publish", "--policy", str(policy), "--budget", budget, "--analyst", "ada", "--out", str(out)])


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def spent(policy: Path) -> int:
    with dpsql.connect(policy=policy, budget="study", analyst="ada") as connection:
        return connection.session.ledger.spent("study").epsilon or 0


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_another_ledger_is_refused_before_anything_is_charged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, out = made(tmp_path / "one"), made(tmp_path / "other"), tmp_path / "out"
    assert publish(one, out) == 0
    before = contents(out)
    assert publish(other, out) == 4 and spent(other) == 0 and contents(out) == before
    assert re.search(r"another ledger publishes the budget study in .*out.* try the policy \(--policy\) whose ledger has the identity [0-9a-f]{32}; or a folder for study alone: --out FOLDER", said(capsys))
    assert publish(other, tmp_path / "another") == 0 and publish(one, out) == 0 and contents(out) == before


def test_another_budget_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    policy.write_text(policy.read_text(encoding="utf-8") + '\n[budgets.more]\nentity = "person"\nepsilon = 10\ndelta = 1e-3\nper_period = { epsilon = 10, delta = 1e-4 }\n', encoding="utf-8")
    with dpsql.connect(policy=policy, budget="more", analyst="ada") as connection:
        connection.execute(f"CREATE STANDING QUERY visits AS {BY_MONTH} OPTIONS (epsilon = 0.5)")
    assert publish(policy, out) == 0
    before = contents(out)
    assert publish(policy, out, "more") == 2 and contents(out) == before
    assert "the budget study is published in" in said(capsys)


def test_a_moved_project_goes_on(tmp_path: Path) -> None:
    """It is the same ledger, wherever its file is."""
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    assert publish(policy, out) == 0
    before = contents(out)
    (tmp_path / "one").rename(tmp_path / "moved")
    assert publish(tmp_path / "moved" / policy.name, out) == 0 and contents(out) == before


def test_two_copies_of_a_ledger_do_not_overwrite_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both go on from one backup, each with its own anchor, and measure the same months with other noise."""
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    assert publish(policy, out) == 0
    before = contents(out)
    assert publish(tmp_path / "copy" / policy.name, out) == 4 and contents(out) == before and spent(tmp_path / "copy" / policy.name) == 0
    assert "3 periods, 2025-01 to 2025-03, of visits were published before, but not measured with this ledger" in said(capsys)
    assert publish(tmp_path / "copy" / policy.name, tmp_path / "elsewhere") == 0
    assert publish(tmp_path / "copy" / policy.name, out) == 4 and contents(out) == before
    assert re.search("has other numbers for 2025-0[123] of visits than the ledger", said(capsys))  # one may be the same by chance


def test_a_query_that_is_made_anew_replaces_the_old_one(tmp_path: Path) -> None:
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    assert publish(policy, out) == 0
    with dpsql.connect(policy=policy, budget="study", analyst="ada") as connection:
        connection.execute("DROP STANDING QUERY visits")
    create(policy, BY_MONTH.replace("GROUP", "WHERE cost < 50 GROUP"))
    assert publish(policy, out) == 0 and "cost &lt; 50" in (out / "visits.html").read_text(encoding="utf-8")
    assert len(json.loads((out / MARKER).read_text(encoding="utf-8"))["queries"]["visits"]["periods"]) == 3


def test_one_that_another_account_makes_anew_replaces_the_old_one(tmp_path: Path) -> None:
    """Also with the same text: it is charged to the other account, which has numbers of its own, and the ledger knows of both."""
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    assert publish(policy, out) == 0
    with dpsql.connect(policy=policy, budget="study", analyst="ada") as connection:
        connection.execute("DROP STANDING QUERY visits")
    create(policy, BY_MONTH, analyst="bob")
    assert publish(policy, out) == 0 and "<td>bob</td>" in (out / "visits.html").read_text(encoding="utf-8")
    assert spent(policy) == 3 * 10**9  # three months of ada and three of bob


@pytest.mark.parametrize("name", ["index.html", "visits.csv", "visits.parquet", "visits.html"])
def test_files_of_somebody_else_are_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """An analyst names a query as the owner's data are named, and the owner publishes to their folder: nothing is charged."""
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    out.mkdir()
    (out / name).write_bytes(b"the only copy")
    assert publish(policy, out) == 2 and (out / name).read_bytes() == b"the only copy" and spent(policy) == 0
    assert f"{name} exists, and dpsql publish did not write it" in said(capsys)
    (out / name).unlink()
    assert publish(policy, out) == 0
    (out / name).unlink()  # but what it wrote, it writes again
    (out / name).write_bytes(b"edited by hand")
    assert publish(policy, out) == 0 and (out / name).read_bytes() != b"edited by hand"


def test_without_room_for_temporary_files_the_others_go_on(
        tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was charged is kept, and is published by the next run."""
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert publish(policy, out) == 2 and "a temporary file cannot be written" in said(capsys) and (out / "index.html").exists()
    monkeypatch.undo()
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 4, 6))
    before = spent(policy)
    assert publish(policy, out) == 0 and spent(policy) == before > 0 and (out / "visits.parquet").exists()


@pytest.mark.parametrize("text", [
    "", "{}", "[]", '{"ledger": 1, "budget": "study", "queries": {}}',
    *('{"ledger": "$", "budget": "study", "queries": {"visits": #}}'.replace("#", query) for query in (
        "null", "[]", '{"statement": "a"}', '{"statement": "a", "periods": ["2025-01"]}', '{"statement": 1, "periods": {}}'))])
def test_a_marker_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    policy, out = made(tmp_path / "one"), tmp_path / "out"
    with dpsql.connect(policy=policy, budget="study", analyst="ada") as connection:
        text = text.replace("$", connection.session.ledger.identity)
    out.mkdir()
    (out / MARKER).write_text(text, encoding="utf-8")
    assert publish(policy, out) == 2 and contents(out) == {MARKER: text.encode()} and spent(policy) == 0
    assert "which says what was published there, cannot be read" in said(capsys)


def test_of_many_that_claim_a_folder_at_once_one_gets_it(tmp_path: Path) -> None:
    for turn in range(20):
        folder, both, won = tmp_path / str(turn), threading.Barrier(4), list[str]()
        folder.mkdir()

        def claim(name: str, folder: Path = folder, both: threading.Barrier = both, won: list[str] = won) -> None:
            both.wait()
            try:
                PublishedFolder.of(folder, name, "study")
            except LedgerError:
                return
            won.append(name)

        threads = [threading.Thread(target=claim, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1 and [path.name for path in folder.iterdir()] == [MARKER]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="cannot be written"):
        PublishedFolder.of(tmp_path / "missing", "a", "study")
