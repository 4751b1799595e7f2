"""The conversation of `dpsql shell`: reads a text, does what it says, and reads the next one."""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from dpsql.answers.listings import price_in_words
from dpsql.answers.spending import percent, share_of_rest
from dpsql.cli.completion import PublicWords
from dpsql.cli.faults import said
from dpsql.cli.show import show
from dpsql.cli.statements import check_statement, each_statement
from dpsql.cli.terminal import print_wrapped, waiting
from dpsql.engine.accounts import accounts_of
from dpsql.engine.answering import charge_of
from dpsql.errors import ProgrammingError
from dpsql.sql.text.split import ends_whole

if TYPE_CHECKING:
    from dpsql.dbapi import Connection, Cursor
    from dpsql.engine.answering import PlannedStatement
    from dpsql.trusted.accounting.cost import Charge

HELP = """\
SQL is answered when a line ends with a semicolon; it may go over several lines.

\\d                 the tables that can be queried
\\d TABLE           the columns of a table, with what is declared of them
\\budget            what was spent, and what is left
\\explain SELECT    what a statement would do and cost; spends nothing
\\timing            show how long statements take, or stop showing it
\\help              this page
\\q                 leave; so does Ctrl-D

Tab completes keywords, tables, columns and declared values. The arrow keys bring back what was typed before. Ctrl-C drops the
text, or interrupts a statement, whose charge stays. The prompt shows what is left of the budget.
"""
COMMANDS = ("\\d", "\\budget", "\\explain", "\\timing", "\\help", "\\q")


@dataclass(kw_only=True)
class Conversation:
    """A connection, and how its statements are shown."""

    connection: Connection
    options: argparse.Namespace
    timed: bool = field(default=False, init=False)

    def run(self) -> None:
        """Read and answer statements until the person leaves."""
        session: PromptSession[str] = PromptSession(
            history=history(), completer=PublicWords(catalog=self.connection.session.catalog, commands=COMMANDS),
            complete_while_typing=False, multiline=Condition(lambda: not is_finished(get_app().current_buffer.text)),
            prompt_continuation=lambda width, *_: "> ".rjust(width))
        whose = "" if self.options.analyst is not None else ", as you are logged in; --analyst NAME says otherwise"
        print_wrapped(f"You ask as {self.connection.session.analyst}{whose}. \\help shows what can be typed, \\q leaves.")
        while True:
            try:
                text = session.prompt(self.prompt()).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text in ("\\q", "\\quit"):
                return
            said(lambda text=text: self.do(text))  # type: ignore[misc]

    def prompt(self) -> str:
        """The prompt: the budget, and how much of it this analyst has left."""
        session = self.connection.session
        return f"{session.budget.name}, {percent(min(account.share_left for account in accounts_of(session)))} left> "

    def do(self, text: str) -> None:
        """Execute a command or statements. Raises a located error if anything is wrong."""
        began = time.monotonic()
        command, _, rest = text.partition(" ")
        match command, rest.strip().removesuffix(";"):
            case "", _:
                return
            case "\\help" | "\\h" | "\\?", _:
                print_wrapped(HELP.rstrip())
            case "\\timing", _:
                self.timed = not self.timed
                print(f"timing is {'on' if self.timed else 'off'}")
                return
            case "\\d" | "\\dt", "":
                self._answer("SHOW TABLES")
            case "\\d", table:
                self._answer(f"DESCRIBE {table}")
            case "\\budget", _:
                self._answer("SHOW BUDGET")
            case "\\explain", statement:
                with waiting():
                    made = self.connection.explain(statement)
                print_wrapped(str(made))
            case _, _ if command.startswith("\\"):
                raise ProgrammingError("there is no such command in the shell", code="argument", try_="\\help")
            case _:
                self._answer(text)
        if self.timed:
            print(f"time {time.monotonic() - began:.3f} s")

    def _answer(self, text: str) -> None:
        """Answer statements; all are checked before the first one is charged."""
        for statement, told in each_statement(text, self.options)[1:]:
            with told:
                check_statement(statement, self.connection, ())
        for statement, told in each_statement(text, self.options):
            with told:
                with waiting():
                    planned = self.connection.planned(statement)
                    due = charge_of(planned)
                if due is not None and not self._is_wanted(due):
                    print("not asked; nothing was charged")
                    return
                with waiting():
                    cursor = self._stoppable(planned)
            show(cursor, self.options)

    def _stoppable(self, planned: PlannedStatement) -> Cursor:
        """A cursor with the answer to a statement, which another thread asks: so Ctrl-C stops it while the engine is busy, which
        would see it only later."""
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(copy_context().run, self.connection.execute, planned)
            try:
                return asked.result()
            except KeyboardInterrupt:
                while not asked.done():  # it may not have begun
                    self.connection.interrupt()
                    wait([asked], timeout=0.05)
                raise

    def _is_wanted(self, due: Charge) -> bool:
        """Whether a charge is small, or the person agrees to it. Where an account has no room, that is left to the refusal."""
        share = share_of_rest(accounts_of(self.connection.session), due)
        if share is None or share <= Fraction(self.options.confirm):
            return True
        try:
            told = f"This costs {price_in_words(due)}, which is {float(100 * share):.3g} % of what is left."
            answer = input(f"{told} Ask it? [y/N] ")
        except EOFError:
            return False
        return answer.strip().lower() in ("y", "yes")


def is_finished(text: str) -> bool:
    """Whether Enter ends this text: it is a command, empty, or statements up to a semicolon."""
    return not text.strip() or text.lstrip().startswith("\\") or ends_whole(text)


def history() -> History:
    """The history of this and earlier conversations, in a file that only its user can read; in memory if there can be no such
    file."""
    try:
        path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "dpsql" / "history"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(file, 0o600)
        os.close(file)
    except (OSError, RuntimeError):  # the latter where there is no home
        return InMemoryHistory()
    return FileHistory(str(path))
