"""What went wrong, said to a person or a program, and as an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from dpsql.cli.terminal import print_wrapped
from dpsql.errors import BudgetExhausted, Error, InternalError, LedgerError

EXIT = {"wrong": 2, "budget": 3, "ledger": 4, "failed": 1, "later": 75}  # the last as EX_TEMPFAIL of sysexits.h


def said(step: Callable[[], int | None], *, as_json: bool = False) -> int:
    """Run a step and report its error, if any; returns the exit code."""
    try:
        return step() or 0
    except Error as fault:
        say(fault, as_json=as_json)
        return exit_code(fault)
    except KeyboardInterrupt:
        print("interrupted; what was charged stays charged", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception:  # whatever it was, its text may depend on the data
        say(InternalError("a fault of dpsql itself; what was charged stays charged, and its answer is kept", code="fault"),
             as_json=as_json)
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


def say(fault: Error, *, as_json: bool = False) -> None:
    """Report an error: as JSON on standard output, otherwise on standard error."""
    if as_json:
        print(json.dumps(fault.as_dict()))
        return
    for i, line in enumerate(str(fault).split("\n")):
        if i == 0 or line.startswith("    try "):
            print_wrapped(line, sys.stderr)
        else:  # the statement, and the mark below it
            print(line, file=sys.stderr)
