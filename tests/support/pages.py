"""Pages of Markdown that tests hold to what they say: their blocks run, their terms are explained before they are used."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql import cli
from dpsql.catalog.policy import parse_policy, read_policy
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.sql.text.split import split

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXPECTED = re.compile(r"# exit code (\d)$")


class Block(Frozen, kw_only=False):
    """A fenced block of a page, and the line on which it begins."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    return [Block(found[1], found[2], page.count("\n", 0, found.start()) + 1) for found in FENCE.finditer(page)]


def prose(page: str) -> str:
    """What is read as English: neither code nor headings, nor where links lead to."""
    text = re.sub(r"^#.*$", "", FENCE.sub("", page), flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", text))


# -- what is run


@dataclasses.dataclass
class Reader:
    """Someone who follows a page to the letter, from an empty folder, block by block.

    Statements in blocks of SQL are asked by themselves, each of a new ledger, so that a page may show more than a budget holds.
    """

    capsys: pytest.CaptureFixture[str]
    names: dict[str, Any] = dataclasses.field(default_factory=dict)
    shown: str = ""

    def follow(self, page: str) -> None:
        for block in blocks(page):
            where = f"line {block.line}: "
            match block.language:
                case "sh":
                    for line in block.text.splitlines():
                        self._type(line, where)
                case "sql":
                    for statement in _statements(block.text):
                        self._ask(statement, where)
                case "python":
                    exec(compile(block.text, f"block at {where}", "exec"), self.names)
                    self.shown = self.capsys.readouterr().out
                case "toml":
                    _declare(block.text)
                case "text":
                    assert _fits(_shape(block.text), _shape(self.shown)), f"{where}this is not what is shown:\n{self.shown}"
                case "json":
                    json.loads(block.text)
                case "console":
                    pass  # what asks back or goes on: tests/server does it
                case "ini" | "dockerfile":
                    pass  # a service and an image: tests/server/test_recipes.py looks at them
                case other:
                    raise AssertionError(f"{where}nobody runs a block of {other or 'no language'}")

    def _type(self, line: str, where: str) -> None:
        """One line of shell: commands of dpsql, and `cd`."""
        expected = int(found[1]) if (found := EXPECTED.search(line)) else 0
        words = shlex.split(line, comments=True)
        for command in _parted(words):
            if command[0] == "cd":
                os.chdir(command[1])
                continue
            assert command[0] == "dpsql", f"{where}nobody runs {command[0]}"
            self._run(command[1:], expected, f"{where}{line}")

    def _ask(self, statement: str, where: str) -> None:
        expected = 2 if re.search(r"-- refused$", statement) else 0
        with tempfile.TemporaryDirectory() as folder:
            ledger = Path(folder) / "ledger"
            ReportingLedger.create(ledger, None).close()
            self._run(["query", "--budget", "study", "--analyst", "ada", "--ledger", str(ledger), statement], expected,
                      f"{where}{statement}")

    def _run(self, words: list[str], expected: int, where: str) -> None:
        try:
            code = cli.main(words)
        except SystemExit as left:  # an argument that the parser does not know
            code = left.code
        made = self.capsys.readouterr()
        assert code == expected, f"{where}\n{made.out}{made.err}"
        self.shown = made.out if expected == 0 else made.err
        assert self.shown.strip(), f"{where} shows nothing"


def _parted(words: list[str]) -> Iterator[list[str]]:
    """The commands of a line, between `&&`."""
    while "&&" in words:
        at = words.index("&&")
        yield words[:at]
        words = words[at + 1 :]
    if words:
        yield words


def _statements(text: str) -> list[str]:
    """The statements of a block, each with the comment that follows its semicolon in the same line."""
    return split(re.sub(r"; +(-- refused)$", r" \1\n;", text, flags=re.MULTILINE))


def _declare(text: str) -> None:
    """A policy, to be saved or only to be read; or a part that is added to one."""
    if found := re.match(r"# FILE: (\S+)\n", text):
        Path(found[1]).write_text(text, encoding="utf-8")
        read_policy(Path(found[1]))
    elif found := re.match(r"# ADD: (\S+)\n", text):
        with Path(found[1]).open("a", encoding="utf-8") as file:
            file.write("\n" + text)
        read_policy(Path(found[1]))
    else:
        parse_policy(text)


def _fits(told: list[str], shown: list[str]) -> bool:
    """Whether a page tells what is shown, of which `...` may leave out the beginning or the end."""
    if told[0] == "...":
        return told[1:] == shown[1 - len(told) :]
    if told[-1] == "...":
        return told[:-1] == shown[: len(told) - 1]
    return told == shown


def _shape(shown: str) -> list[str]:
    """What is shown but for chance: numbers and the widths of columns."""
    plain = re.sub(r"-?\d[\d,]*(\.\d+)?(e-?\d+)?", "#", re.sub(r"─+", "─", shown))
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


# -- what is explained


class Term(Frozen, kw_only=False):
    """A term of the glossary: its forms, and the page that explains it."""

    forms: tuple[str, ...]
    page: str

    def first(self, text: str) -> re.Match[str] | None:
        """Where a text uses the term first."""
        forms = "|".join(re.sub("y$", "(?:y|ie)", re.escape(form)).replace(r"\ ", r"\s+") for form in self.forms)
        return re.search(rf"(?<![\w-])(?:{forms})(?:s|es)?(?![\w-])", text, re.IGNORECASE)

    def is_explained_in(self, text: str) -> bool:
        """Whether the first use is in bold."""
        found = self.first(text)
        return found is not None and any(bold.start() < found.start() < bold.end() for bold in re.finditer(r"\*\*[^*]+\*\*", text))


def terms(glossary: str) -> list[Term]:
    rows = re.findall(r"^\| (.+?) \| .+ \| \[(\w+)\]\(\w+\.md\) \|$", glossary, re.MULTILINE)
    return [Term(tuple(forms.split(", ")), page) for forms, page in rows]
