"""What holds of every page that people read: it is well-formed, nothing in it runs and nothing is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input"}
MAY_BE_OPEN = {"html", "head", "body", "meta"}  # whose end tags HTML leaves out


class _Parts(HTMLParser):
    """Elements that are open, those that were met, and the texts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1] != tag and self.open[-1] in MAY_BE_OPEN:
            self.open.pop()
        assert self.open and self.open[-1] == tag, f"</{tag}> ends {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)


def texts_of(page: str) -> str:
    """The text of a page. Asserts that it is well-formed, and that nothing in it runs or is fetched."""
    parts = _Parts()
    parts.feed(page)
    parts.close()
    assert set(parts.open) <= MAY_BE_OPEN, parts.open
    for tag, attributes in parts.tags:
        assert tag not in ("script", "iframe", "object", "embed", "link", "img", "base", "form"), tag
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href", "xlink:href", "srcset")]
    assert not re.search(r"@import|url\(|expression\(", page)
    assert "@media print" in page and "prefers-color-scheme: dark" in page and "name=viewport" in page
    return " ".join(" ".join(parts.texts).split())


def rows_of(page: str) -> list[list[str]]:
    """The cells of all rows of tables of numbers in a page, as texts, with the heads."""
    tables = re.findall(r"<table class='figures.*?</table>", page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", "".join(tables), re.DOTALL)
    return [[" ".join(_plain(cell).split()) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)] for row in rows]


def _plain(text: str) -> str:
    parts = _Parts()
    parts.feed(text)
    parts.close()
    return "".join(parts.texts)
