"""Commands and their options, as parts of one parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple


class Commands(NamedTuple):  # help needs no more of the project
    """The commands of a parser, to which each group of them is added."""

    of: Any  # what argparse calls its subparsers

    def add(self, name: str, run: Callable[[Any], int | None], help_: str) -> argparse.ArgumentParser:
        """The parser of a new command. `run` executes the command, and returns an exit code or None for 0."""
        made: argparse.ArgumentParser = self.of.add_parser(name, help=help_, description=help_)
        made.set_defaults(run=run)
        return made


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--database", metavar="FILE", help="a DuckDB, CSV or Parquet file (default: from the policy)")
    parser.add_argument("--policy", metavar="FILE", help="the policy (default: dpsql.toml beside the database, or here)")
    parser.add_argument("--ledger", metavar="FILE", help="the ledger (default: from the policy, or beside it)")
    parser.add_argument("--budget", metavar="NAME", help="the budget (required if the policy has several)")
    parser.add_argument("--analyst", metavar="NAME", help="the analyst who asks (default: your login name)")


def add_terms(parser: argparse.ArgumentParser) -> None:
    for name in ("epsilon", "delta", "rho"):
        parser.add_argument(f"--{name}", type=number(name), metavar="NUMBER", help=f"{name} of statements that state none")
    parser.add_argument("--confidence", type=number("confidence"), metavar="NUMBER",
                        help="the confidence of intervals (default: 0.95)")


def add_notes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--notes", action="store_true", help="print long notes below answers in full")


def number(name: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        from decimal import Decimal, InvalidOperation
        try:
            return Decimal(text)
        except InvalidOperation:
            raise argparse.ArgumentTypeError(f"{name} is a number, not {text!r}") from None

    return read
