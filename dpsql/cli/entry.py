"""From the words of a command line to an exit code.

Exit codes: 0 answered; 1 a statement failed after its charge, or a fault of dpsql, or `check --rows` found something suspicious;
2 something in what was given is wrong, and nothing was charged; 3 the budget is spent; 4 the ledger cannot be used.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from dpsql import __version__
from dpsql.cli.arguments import Commands
from dpsql.cli.faults import said

GROUPS: Mapping[str, tuple[str, ...]] = {
    "demo_commands": ("demo", "help"), "draft_commands": ("init",), "data_commands": ("check", "prepare", "refresh"),
    "query_commands": ("query", "explain", "workload"), "publish_command": ("publish",),
    "validate_command": ("validate",), "synthesize_command": ("synthesize",),
    "shell_command": ("shell",), "server_commands": ("serve", "user"), "agent_commands": ("mcp", "purposes"),
    "ledger_commands": ("budget", "releases", "revise", "ledger")}
"""The commands of each file, in the order in which help lists them. A file is imported when one of its commands is asked for."""
FIRST = """\
dpsql answers SQL over confidential tables with statistics that protect every individual.

What to do first:
  dpsql demo                      see it answer SQL over real data
  dpsql demo --to study           a folder with this data to try things out in: cd study
  dpsql query --budget study "SELECT health, COUNT(*) FROM people GROUP BY health"
  dpsql shell --budget study      the same in a conversation
  dpsql init people.duckdb        draft a policy for your own data
  dpsql help                      the guides

dpsql --help lists all commands, and dpsql COMMAND --help the options of one.\
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Without any, say what to do first."""
    if arguments is None:  # a process of its own
        gc.set_threshold(50_000)  # what commands import is kept, and collectors would look through it again and again
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        print(FIRST)
        return 0
    options = parsed(words)
    return said(lambda: options.run(options), as_json=getattr(options, "json", False))


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options, which may be anywhere after the command. For an unknown option, exits with code 2 and suggests the most
    similar one."""
    every, parsers = _parser(words[0])
    if words[0].startswith("-"):
        every.parse_known_args(words[:1])  # which leaves after --help and --version
        every.error(f"the command comes first: dpsql COMMAND {words[0]}")
    if words[0] not in parsers:
        every.error(f"there is no command {words[0]}; {_meant(words[0], parsers) or 'dpsql --help lists them'}")
    parser = parsers[words[0]]
    in_order = "--" in words  # argparse loses what follows it where options may stand anywhere
    options, unknown = (parser.parse_known_args if in_order else parser.parse_known_intermixed_args)(words[1:])
    if unknown:
        name = next((text for text in unknown if text.startswith("--")), unknown[0]).partition("=")[0]
        usage = parser.format_usage()
        meant = _meant(name, re.findall(r"--[a-z-]+", usage)) if name.startswith("-") else (
            "put the whole statement in quotes" if "[sql]" in usage else "")
        told = f"there is no option {name}" if name.startswith("-") else f"{name} is one argument too many"
        parser.error("; ".join([told, *filter(None, [meant])]))
    return options


def _meant(word: str, known: Iterable[str]) -> str:
    """The advice to try what is written in nearly the same way, if anything is."""
    return "".join(f"try {close}" for close in difflib.get_close_matches(word, known, n=1))


def _parser(word: str) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser of the commands of the file that has this one, or of all if none has it (the version needs none); and those of
    each."""
    parser = argparse.ArgumentParser(prog="dpsql", description="Query confidential tables in SQL and get differentially private "
                                                               "answers.",
                                     epilog="guides: dpsql help; exit codes: 0 answered, 1 failed after a charge, 2 wrong input "
                                     "(nothing charged), 3 budget spent, 4 ledger unusable")
    parser.add_argument("--version", action="version", version=f"dpsql {__version__}")
    commands = Commands(of=parser.add_subparsers(title="commands", metavar="command"))
    for group in () if word == "--version" else [group for group, names in GROUPS.items() if word in names] or GROUPS:
        import_module(f"dpsql.cli.{group}").add(commands)
    return parser, commands.of.choices
