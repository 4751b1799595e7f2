"""Shares as bars with their words, in HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable


def bars(rows: Iterable[tuple[str, float, str]]) -> str:
    """For each row: a name, a bar filled to a share from 0 to 1, and a description."""
    return "".join(f"<div class=account><span class=word>{html.escape(name)}</span><div class=track><div class=used "
                   f"style='width:{100 * share:g}%'></div></div><span>{html.escape(words)}</span></div>"
                   for name, share, words in rows)
