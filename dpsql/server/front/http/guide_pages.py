"""The guides as pages for browsers: the same Markdown, with links between the pages and their pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from string import Template
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from dpsql import guides
from dpsql.server.front.http.console_files import FOLDER, ConsoleFile, console_files

_CODE = re.compile(r"<code.*?</code>", re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
MARKDOWN = ("commonmark", {"html": False})  # with what stands in < and > as text


@cache
def guide_page(topic: str) -> bytes:
    """The page of a topic of `guides.TOPICS`, in HTML."""
    frame = Template((FOLDER / "guide.html").read_text(encoding="utf-8"))
    return frame.substitute(title=escape(title_of(topic)), topics=_topics(topic), content=_drawn(guides.page(topic))).encode()


@cache
def guide_pictures() -> Mapping[str, ConsoleFile]:
    """The pictures of the guides, by their names."""
    return console_files(guides.HERE / "pictures")


def title_of(topic: str) -> str:
    return guides.page(topic).partition("\n")[0].removeprefix("# ")


def _topics(shown: str) -> str:
    """Links to all pages, in reading order."""
    current = {True: " aria-current='page'", False: ""}
    return "\n".join(f"<li><a href='/guides/{topic}'{current[topic == shown]}>{escape(title_of(topic))}</a></li>"
                     for topic in guides.TOPICS)


def _drawn(text: str) -> str:
    drawing = MarkdownIt(*MARKDOWN).enable("table")
    for kind, rule in RULES.items():
        drawing.add_render_rule(kind, rule)
    tokens = drawing.parse(text)
    for token in tokens:
        _lead(token.children or [])
    made = str(drawing.renderer.render(tokens, drawing.options, {}))
    made = _CODE.sub(lambda code: _OPTION.sub(r"<span class='option'>\g<0></span>", code[0]), made)
    return made.replace("<th></th>", "<td></td>")  # an empty cell is the head of nothing


def _lead(tokens: list[Token]) -> None:
    """Have links lead to pages, by their titles, and pictures be found."""
    topic = ""  # of the link that has begun
    for token in tokens:
        if token.type == "image":
            token.attrSet("src", f"/guides/{token.attrGet('src')}")
        elif token.type == "link_open":
            topic = str(token.attrGet("href")).removesuffix(".md")
            token.attrSet("href", f"/guides/{topic}")
        elif token.type == "code_inline" and topic:  # the command that shows the page on a terminal
            token.type, token.content = "text", title_of(topic)
        elif token.type == "link_close":
            topic = ""


def _table(self: Any, tokens: list[Token], at: int, *_: Any) -> str:
    """A table that is moved sideways alone, where it is too wide."""
    return "<div class='scroll' tabindex='0' role='group' aria-label='Table'><table>"


RULES: Mapping[str, Callable[..., str]] = {"table_open": _table, "table_close": lambda *_: "</table></div>"}
