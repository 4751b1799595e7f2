"""The guides: pages of Markdown beside this file, which `dpsql help` shows.

A page begins with its title and one sentence that says what it is for. They are read in the order of `TOPICS`: none uses a
term of the glossary that an earlier one has not explained.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

from dpsql.errors import OptionError

TOPICS = ("start", "owner", "sql", "bounds", "workloads", "accuracy", "synthetic", "validate", "time", "server", "clients",
          "agents", "promise", "architecture", "glossary")
HERE = Path(__file__).parent


def page(topic: str) -> str:
    """The Markdown of a topic. Raises OptionError, located in the command, if there is no such topic."""
    name = topic.lower()
    if name not in TOPICS:
        from dpsql.types import Span

        close = difflib.get_close_matches(name, TOPICS, n=1)
        shown, command = "".join(letter if letter.isprintable() else "?" for letter in topic), "dpsql help "
        raise OptionError(f"there is no topic {shown!r}; there are " + ", ".join(TOPICS), code="unknown-topic", subject=shown,
                          text=command + shown, span=Span(len(command), len(command) + len(shown)), source="the command",
                          try_=close[0] if close else "dpsql help, which lists the topics")
    return (HERE / f"{name}.md").read_text(encoding="utf-8")


def summary(topic: str) -> str:
    """The purpose of a page: the sentence below its title, in one line."""
    return " ".join(page(topic).split("\n\n")[1].split())


def contents() -> str:
    """The topics in reading order, one line each."""
    width = max(map(len, TOPICS))
    return "\n".join(f"  {topic:{width}}  {summary(topic)}" for topic in TOPICS)


def show(topic: str | None) -> None:
    """Print a page, or the list of pages: formatted on a terminal, and as plain Markdown elsewhere."""
    if topic is None:
        print(f"Guides, in reading order; dpsql help TOPIC shows one:\n\n{contents()}")
    elif sys.stdout.isatty():
        from dpsql.guides.drawn import draw

        draw(page(topic))
    else:
        print(page(topic), end="")
