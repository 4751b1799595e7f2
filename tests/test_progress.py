"""The line about long work: in a notebook, in the shell, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

import dpsql
from dpsql.demo.folder import BUDGET, export
from dpsql.progress import shown_by, working

WORKLOAD = ("SELECT health, site, COUNT(*) FROM people GROUP BY CUBE (health, site)", "SELECT site, COUNT(*) FROM people GROUP BY site")
Shown = Callable[[str], list[tuple[str, str]]]


@pytest.fixture(scope="module")
def notebook() -> Iterator[Shown]:
    """Runs a cell in a real kernel: what it displays, as kinds of messages and texts."""
    manager, client = start_new_kernel(kernel_name="python3")

    def run(cell: str) -> list[tuple[str, str]]:
        messages: list[dict[str, Any]] = []
        reply = client.execute_interactive(cell, output_hook=messages.append, timeout=60)
        assert reply["content"]["status"] == "ok", reply["content"]
        return [(message["header"]["msg_type"], message["content"]["data"]["text/plain"]) for message in messages
                if "data" in message["content"]]

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_notebook_shows_a_line_for_as_long_as_the_work_lasts(notebook: Shown) -> None:
    assert notebook("import time\nfrom dpsql.progress import working\n"
                    "with working('asking ...'):\n    time.sleep(1)\n    with working('looking ...'):\n        pass") == [
        ("display_data", "asking ..."), ("update_display_data", "looking ..."), ("update_display_data", "asking ..."),
        ("update_display_data", "")]


@pytest.mark.slow
def test_a_notebook_shows_no_line_for_short_work_nor_after_a_fault(notebook: Shown) -> None:
    assert notebook("import time\nfrom dpsql.progress import working\nwith working('asking ...'):\n    pass\ntime.sleep(.8)") == []
    assert notebook("try:\n    with working('asking ...'):\n        time.sleep(1)\n        raise ValueError\nexcept ValueError:\n    pass") == [
        ("display_data", "asking ..."), ("update_display_data", "")]


def test_a_search_is_told_to_whoever_watches(tmp_path: Path) -> None:
    lines: list[str] = []
    with dpsql.connect(policy=export(tmp_path / "demo"), budget=BUDGET, analyst="auditor") as connection, shown_by(lines.append, "waiting"):
        connection.workload(WORKLOAD, epsilon=0.1, planning=1)
    assert lines[0] == "asking ..." and lines[-1] == "waiting" and "looking for a strategy, at most 1 s ..." in lines


def test_a_line_is_put_back_after_a_fault() -> None:
    lines: list[str] = []
    with shown_by(lines.append, "outside"), pytest.raises(ValueError), working("inside"):
        raise ValueError
    with shown_by(lines.append, "outside"), working("again"):
        pass
    assert lines == ["inside", "outside", "again", "outside"]


def test_a_script_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with working("asking ..."):
        pass
    assert capfd.readouterr() == ("", "")
