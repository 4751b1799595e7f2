"""From the words of a command line to an exit code.

Exit codes: 0 answered; 1 a statement failed after its charge, or a fault of dpsql, or `check --rows` found something suspicious;
2 something in what was given is wrong, and nothing was charged; 3 the budget is spent; 4 the ledger cannot be used.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Sequence

from dpsql import __version__
from dpsql.cli import (
    data_commands,
    demo_commands,
    draft_commands,
    ledger_commands,
    query_commands,
    synthesize_command,
    validate_command,
)
from dpsql.cli.arguments import Commands
from dpsql.errors import BudgetExhausted, Error, InternalError, LedgerError

EXIT = {"wrong": 2, "budget": 3, "ledger": 4, "failed": 1}
GROUPS = (demo_commands, draft_commands, data_commands, query_commands, validate_command, synthesize_command, ledger_commands)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = parsed(arguments)
    try:
        return options.run(options) or 0
    except Error as fault:
        say_fault(fault, as_json=getattr(options, "json", False))
        return exit_code(fault)
    except KeyboardInterrupt:
        print("interrupted; what was charged stays charged, and counts as an incident", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception:  # whatever it was, its text may depend on the data
        say_fault(InternalError("a fault of dpsql itself; what was charged stays charged, and its answer is kept", code="fault"),
                   as_json=getattr(options, "json", False))
        return EXIT["failed"]


def exit_code(fault: Error) -> int:
    match fault:
        case BudgetExhausted():
            return EXIT["budget"]
        case LedgerError():
            return EXIT["ledger"]
        case InternalError():
            return EXIT["failed"]
        case _:
            return EXIT["wrong"]


def say_fault(fault: Error, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(fault.as_dict()))
    else:
        print(fault, file=sys.stderr)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; leaves with exit code 2 where one is unknown, and says which one may be meant."""
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        usage = options.parser.format_usage()
        name = next((text for text in unknown if text.startswith("--")), unknown[0]).partition("=")[0]
        close = difflib.get_close_matches(name, re.findall(r"--[a-z-]+", usage), n=1)
        options.parser.error(f"there is no option {name}" + (f"; try {close[0]}" if close else "") if name.startswith("-")
                             else f"{name} is one argument too many; put all of a statement in quotes")
    return options


def _parser() -> argparse.ArgumentParser:
    """The parser of all commands, in the order in which help lists them."""
    parser = argparse.ArgumentParser(prog="dpsql", description="Ask SQL of confidential tables and get private answers.",
                                     epilog="guides: dpsql help; exit codes: 0 answered, 1 failed after a charge, 2 wrong input "
                                     "(nothing charged), 3 budget spent, 4 ledger unusable")
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    commands = Commands(of=parser.add_subparsers(title="commands", required=True, metavar="command"))
    for group in GROUPS:
        group.add(commands)
    return parser
