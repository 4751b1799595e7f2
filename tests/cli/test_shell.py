"""`dpsql shell` in a terminal, as a person types in it."""

from __future__ import annotations

import argparse
import io
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pexpect
import pytest
from prompt_toolkit.history import InMemoryHistory

import dpsql
from dpsql import cli
from dpsql.cli.completion import PublicWords
from dpsql.cli.conversation import COMMANDS, Conversation, history, is_finished
from dpsql.demo import folder
from dpsql.engine import answering

ROOT = str(Path(dpsql.__file__).parents[1])
PROMPT = r"study, [\d.]+ % left>"
READS, READS_NO_MORE = r"\x1b\[\?2004h", r"\x1b\[\?2004l"  # with which a prompt tells a terminal that it begins and ends


LONG = ("SELECT COUNT(*) FROM people a JOIN people b ON a.site = b.site JOIN people c ON b.site = c.site "  # hours, if nobody stops it
        "WHERE a.income + b.income + c.income > 30000;")


class Typist:
    """A person at a terminal of some width."""

    def __init__(self, study: Path, *words: str, columns: int = 100) -> None:
        self.study = study
        self.child = pexpect.spawn(sys.executable, ["-m", "dpsql.cli", "shell", "--budget", "study", "--analyst", "ada", *words], cwd=study,
                                   dimensions=(50, columns), encoding="utf-8", timeout=20, env={
            **os.environ, "PYTHONPATH": ROOT, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "XDG_STATE_HOME": str(study / "state")})
        self.wait()

    def wait(self, for_: str = READS + ".*?" + PROMPT) -> str:
        """What is shown until then, without what moves the cursor."""
        self.child.expect(for_)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.child.before)

    def type(self, *lines: str) -> None:
        """Type lines, of which the last one ends the text."""
        for line in lines:
            self.child.send(line + "\r")
        self.child.expect(READS_NO_MORE)

    def ask(self, *lines: str) -> str:
        """What is shown after a text is typed, up to the next prompt."""
        self.type(*lines)
        return self.wait()

    def leave(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.exitstatus is not None
        return self.child.exitstatus


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder.export(tmp_path / "study")
    return tmp_path / "study"


@pytest.fixture
def typist(study: Path) -> Iterator[Typist]:
    made = Typist(study)
    yield made
    made.child.close(force=True)


def test_a_statement_goes_over_lines_and_the_prompt_tells_what_is_left(typist: Typist) -> None:
    assert "100 %" in typist.child.after
    told = typist.ask("SELECT health, COUNT(*)", "FROM people GROUP BY health;")
    assert told.count("±") == 5 and "cost ε = 0.5" in told and "90 %" in typist.child.after
    assert "answered before" in typist.ask("SELECT health, COUNT(*) FROM people GROUP BY health;") and "90 %" in typist.child.after


def test_commands_of_the_shell(typist: Typist) -> None:
    assert "person_years" in typist.ask("\\d")
    assert "0 .. 500" in typist.ask("\\d person_years") or "[0, 500]" in typist.ask("\\d person_years")
    assert "enough for" in typist.ask("\\budget")
    assert "expected standard errors" in typist.ask("\\explain SELECT COUNT(*) FROM people")
    assert "timing is on" in typist.ask("\\timing")
    assert re.search(r"time \d+\.\d{3} s", typist.ask("\\d plans"))
    assert "Ctrl-C" in typist.ask("\\help")
    assert "no such command" in typist.ask("\\x")
    assert "there is no column nothing" in typist.ask("SELECT nothing FROM people;")
    assert "100 %" in typist.child.after, "none of this costs anything"
    typist.child.send("\\q\r")
    assert typist.leave() == 0


def test_a_dear_statement_is_asked_back(typist: Typist) -> None:
    dear = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) COUNT(*) FROM people;"
    for answer, told, left in (("", "nothing was charged", "100 %"), ("y", "cost ε = 2", "60 %")):
        typist.type(dear)
        assert "of what is left" in typist.wait(r"\[y/N\]")
        typist.child.send(answer + "\r")
        assert told in typist.wait() and left in typist.child.after
    assert "answered before" in typist.ask(dear), "what is free is not asked back"


def test_a_statement_is_planned_once_for_its_price_and_its_answer(study: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(study)
    options = argparse.Namespace(confirm=Decimal(1), analyst="ada", json=False, csv=False)
    planned, decide = [], answering.decide
    monkeypatch.setattr(answering, "decide", lambda *given: planned.append(given) or decide(*given))
    with dpsql.connect(budget="study", analyst="ada") as connection:
        talk = Conversation(connection=connection, options=options)
        for text, count, told in (("SELECT COUNT(*) FROM people;", 1, "cost ε = 0.5"), ("SELECT COUNT(*) FROM people", 1, "answered before"),
                                  ("SHOW TABLES", 1, "person_years"), ("EXPLAIN PRIVACY SELECT COUNT(*) FROM plans", 1, "public")):
            planned.clear()
            talk.do(text)
            assert len(planned) == count and told in capsys.readouterr().out


def test_without_a_home_the_history_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert isinstance(history(), InMemoryHistory)


def test_what_is_asked_back_is_chosen(study: Path) -> None:
    typist = Typist(study, "--confirm", "0.01")
    typist.type("SELECT COUNT(*) FROM people;")
    typist.wait(r"\[y/N\]")
    typist.child.send("\x03")
    assert "interrupted" in typist.wait()
    typist.child.send("\x04")
    assert typist.leave() == 0


def test_what_has_no_room_is_refused_and_not_asked_back(typist: Typist) -> None:
    told = typist.ask("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 7) COUNT(*) FROM people;")
    assert "BudgetExhausted" in told and "[y/N]" not in told


def test_keys_drop_a_text_and_leave(typist: Typist) -> None:
    typist.child.send("SELECT nonsense\r\x03")
    typist.wait()
    assert "±" in typist.ask("SELECT COUNT(*) FROM people;"), "the text before is gone"
    typist.child.send("\x04")
    assert typist.leave() == 0


def test_an_interrupted_statement_stays_charged(typist: Typist) -> None:
    typist.type(LONG)
    time.sleep(1.5)
    typist.child.send("\x03")
    told = typist.wait()
    assert "interrupted" in told and "stays charged" in told
    assert "90 %" in typist.child.after
    assert "±" in typist.ask("SELECT COUNT(*) FROM people;"), "the connection goes on"


def test_tab_completes(typist: Typist) -> None:
    for typed in ("SELECT heal", ", COUNT(*) FROM person_", " JOIN people USING (person_i", ") WHERE health = 'exc"):
        typist.child.send(typed + "\t")
        time.sleep(0.5)  # what is typed before the words are there drops them
    told = typist.ask(" GROUP BY 1;")
    assert "excellent" in told and "±" in told


def test_the_history_is_its_users_alone(study: Path, typist: Typist) -> None:
    typist.ask("SELECT COUNT(*) FROM plans;")
    typist.child.send("\x04")
    assert typist.leave() == 0
    path = study / "state" / "dpsql" / "history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and "SELECT COUNT(*) FROM plans;" in path.read_text()
    again = Typist(study)
    assert "public, no cost" in again.ask("\x1b[A"), "the arrow brings it back"
    again.child.close(force=True)


@pytest.mark.parametrize(("text", "done"), [
    ("", True), ("\\d people", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT 1; -- said", True), ("SELECT ';", False),
    ("SELECT ';';", True), ("-- only this;", False), ("SELECT 1; SELECT 2", False), ("  \\explain SELECT", True)])
def test_enter_ends_a_text_at_a_semicolon(text: str, done: bool) -> None:
    assert is_finished(text) is done


def completed(study: Path, text: str) -> list[str]:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    with dpsql.connect(policy=study / "dpsql.toml", budget="study", analyst="ada") as con:
        words = PublicWords(catalog=con.session.catalog, commands=COMMANDS)
        return [found.text for found in words.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(("text", "words"), [
    ("\\b", ["\\budget"]), ("\\d pl", ["plans"]), ("SELECT COUNT(*) FROM PERS", ["person_years"]),
    ("SELECT * FROM people JOIN pla", ["plans"]), ("SELECT femal", ["female"]), ("sel", ["SELECT"]),
    ("SELECT COUNT(*) FROM people WHERE health = 'go", ["good'"]), ("... WHERE health IN ('good', 'f", ["fair'"]),
    ("... WHERE plan = 'go", []), ("... WHERE 'po", ["poor'"]), ("SELECT 'a' AS femal", ["female"])])
def test_completion_is_of_public_metadata(study: Path, text: str, words: list[str]) -> None:
    assert completed(study, text) == words


def test_statements_from_a_pipe_are_answered_as_by_query(study: Path, capsys: pytest.CaptureFixture[str],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study)
    text = "SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM plans"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert cli.main(["shell", "--budget", "study", "--json"]) == 0
    shown = capsys.readouterr().out
    assert cli.main(["query", "--budget", "study", "--json", text]) == 0
    again = capsys.readouterr().out
    assert shown.count("\n") == 2 and again.replace('"stored": true', '"stored": false') == shown.replace('"stored": true', '"stored": false')


def test_a_wrong_share_is_told(study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study)
    assert cli.main(["shell", "--budget", "study", "--confirm", "2"]) == 2
    assert "--confirm must be a share" in capsys.readouterr().err


def test_the_extra_is_named_where_it_is_missing(study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.delitem(sys.modules, "dpsql.cli.conversation", raising=False)
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    assert cli.main(["shell", "--budget", "study"]) == 2
    assert "pip install 'dpsql[shell]'" in capsys.readouterr().err


def test_bare_dpsql_says_what_to_do_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    told = capsys.readouterr().out
    assert "dpsql demo" in told and "dpsql init" in told and "dpsql --help" in told
