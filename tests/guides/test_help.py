"""`dpsql help`: pages and their list, for people and for pipes."""

from __future__ import annotations

import re
import sys

import pytest
from support.pages import blocks

from dpsql import cli
from dpsql.guides import TOPICS, page, summary


def test_topics_are_listed_in_reading_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in lines] == list(TOPICS)
    assert all(line.endswith(summary(topic)) for line, topic in zip(lines, TOPICS, strict=True))


@pytest.mark.parametrize("topic", [*TOPICS, "OWNER"])
def test_a_pipe_gets_the_markdown(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", topic]) == 0
    assert capsys.readouterr().out == page(topic)


def test_a_terminal_gets_it_drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for topic in TOPICS:
        assert cli.main(["help", topic]) == 0
        shown = capsys.readouterr().out
        assert "\n# " not in shown and "\n```" not in shown and "\x1b[" in shown


@pytest.mark.parametrize("topic", TOPICS)
def test_what_is_typed_can_be_copied_from_a_terminal(topic: str, capsys: pytest.CaptureFixture[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow it is, no line of a command or a program is broken or filled up."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    assert cli.main(["help", topic]) == 0
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    for block in blocks(page(topic)):
        assert [line for line in block.text.splitlines() if line not in shown] == []


@pytest.mark.parametrize(("topic", "advice"), [("bound", "bounds"), ("workload", "workloads"), ("budget", "dpsql help, which lists"),
                                               ("", "dpsql help, which lists"), ("../demo/NOTE", "dpsql help, which lists"),
                                               ("\x1b[2J", "dpsql help, which lists"), ("__init__", "dpsql help, which lists")])
def test_a_wrong_topic_is_told_with_its_place_and_the_list(topic: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", topic]) == cli.EXIT["wrong"] == 2
    made = capsys.readouterr()
    assert made.out == "" and "\x1b" not in made.err
    assert "line 1, column 12 of the command" in made.err and "^" in made.err and f"try {advice}" in made.err
    assert all(name in made.err for name in TOPICS)
