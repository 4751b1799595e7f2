"""Pages drawn on a terminal. Commands stay in one line, however long, so that they can be copied and typed as shown."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, ImageItem, Markdown, MarkdownElement
from rich.syntax import Syntax
from rich.text import Text


class Unwrapped(CodeBlock):
    """A block of code whose lines are left to the terminal to break, which knows that they are one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Syntax("", self.lexer_name, theme="ansi_dark").highlight(str(self.text).rstrip())
        text.no_wrap, text.overflow = True, "ignore"
        yield text


class Picture(ImageItem):
    """What a picture shows, in words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"[picture: {self.text.plain}]", style="dim", end="")


class Page(Markdown):
    """A page of Markdown with such blocks."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "fence": Unwrapped, "image": Picture}


def draw(page: str) -> None:
    Console(emoji=False).print(Page(page), crop=False)
