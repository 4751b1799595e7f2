"""`dpsql shell`: a conversation in SQL, which remembers what was typed and shows what is left of the budget."""

from __future__ import annotations

import argparse
import sys

from dpsql.answers.confirming import MOST_UNASKED
from dpsql.cli.arguments import Commands, add_notes, add_place, add_terms, number
from dpsql.cli.inputs import connected
from dpsql.cli.statements import answer_all
from dpsql.errors import OperationalError


def add(commands: Commands) -> None:
    made = commands.add("shell", _shell, "ask SQL in an interactive session (\\help lists its commands)")
    add_place(made)
    add_terms(made)
    made.add_argument("--confirm", type=number("confirm"), default=MOST_UNASKED, metavar="SHARE",
                      help="ask before a statement that costs more than this share of what is left (default: %(default)s)")
    made.add_argument("--json", action="store_true", help="print JSON, one line for each statement")
    made.add_argument("--csv", action="store_true", help="print CSV, with standard errors and intervals")
    add_notes(made)


def _shell(options: argparse.Namespace) -> None:
    """Converse where a person types; statements from a file or a pipe are answered as `dpsql query` answers them."""
    if not 0 <= options.confirm <= 1:
        raise OperationalError("--confirm must be a share of what is left, from 0 to 1", code="argument", try_="--confirm 0.2")
    if not sys.stdin.isatty():
        with connected(options) as connection:
            answer_all(sys.stdin.read(), connection, options, show_sql=False)
        return
    try:
        from dpsql.cli.conversation import Conversation
    except ModuleNotFoundError:
        raise OperationalError("the shell needs prompt_toolkit, which is not installed", code="extra",
                               try_="pip install 'dpsql[shell]', or dpsql query") from None
    with connected(options) as connection:
        Conversation(connection=connection, options=options).run()
