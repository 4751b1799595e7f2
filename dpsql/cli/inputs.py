"""What commands are given: a connection, statements, parameters, files."""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.cli.terminal import print_wrapped, waiting
from dpsql.errors import OperationalError

if TYPE_CHECKING:
    from dpsql.dbapi import Connection


def connected(options: argparse.Namespace) -> Connection:
    from dpsql.dbapi import connect

    given = {name: getattr(options, name, None) for name in ("epsilon", "delta", "rho")}
    confidence = getattr(options, "confidence", None)
    with warnings.catch_warnings(), waiting("opening the data ..."):
        warnings.simplefilter("ignore", UserWarning)  # reported below, in the terms of a shell
        made = connect(options.database, policy=options.policy, budget=options.budget, analyst=options.analyst,
                       ledger=options.ledger, confidence=0.95 if confidence is None else confidence, **given)
    for text in made.notes:
        print_wrapped(f"note: {text}", sys.stderr)
    return made


def place_of(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("policy", "database", "budget", "ledger")}


def statements_of(options: argparse.Namespace) -> str:
    if options.sql is not None and options.file is not None:
        raise OperationalError("the statements are given twice, as text and as a file", code="argument")
    if options.file is not None and options.file != "-":
        return read_file(options.file)
    if options.sql in (None, "-"):
        return sys.stdin.read()
    return str(options.sql)


def read_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = {FileNotFoundError: "there is no such file", IsADirectoryError: "it is a folder",
                  UnicodeDecodeError: "it is not text"}.get(type(fault), type(fault).__name__)
        raise OperationalError(f"{name} cannot be read: {reason}", code="file", try_="the path of a text file") from None


def page_of(options: argparse.Namespace, example: str) -> Path | None:
    """The file for a page; None if no page is requested. Raises OperationalError if it cannot be written."""
    from dpsql.answers.new_files import free_file

    return None if options.html is None else free_file(options.html, example, ".html")


def free_name(name: str) -> None:
    """Raises OperationalError if there is a file of this name."""
    if os.path.lexists(name):
        raise OperationalError(f"{name} exists, and is not overwritten", code="exists", try_="another name: --to FILE")


def parameters_of(texts: Sequence[str]) -> Any:
    """Parameter values: by name if all have names, otherwise in order."""
    named = [re.fullmatch(r"([A-Za-z_]\w*)=(.*)", text, re.DOTALL) for text in texts]
    if texts and all(named):
        return {match.group(1): value_of(match.group(2)) for match in named if match is not None}
    return [value_of(text) for text in texts]


def value_of(text: str) -> Any:
    """A number, boolean or NULL if written as one; otherwise a text, optionally in quotes."""
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", text):
        return int(text) if len(text) <= 400 else float(text)
    if re.fullmatch(r"-?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?", text):
        return float(text)
    if re.fullmatch(r"'.*'", text, re.DOTALL):
        return text[1:-1].replace("''", "'")
    return {"true": True, "false": False, "null": None}.get(text.lower(), text)
