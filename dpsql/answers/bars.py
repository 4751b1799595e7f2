"""Shares as bars with their words, in HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable

BAR_STYLE = """
.dpsql .account { display: grid; grid-template-columns: minmax(6rem, max-content) minmax(8rem, 16rem) 1fr; gap: .2rem .8rem;
  align-items: center; margin: .4rem 0; } .dpsql .track { border: 1px solid var(--mark); height: .8rem; }
.dpsql .used { background: var(--bar); height: 100%; } .dpsql p { margin: .4rem 0; }
@media (max-width: 40rem) { .dpsql .account { grid-template-columns: 1fr; gap: 0; } }
"""


def bars(rows: Iterable[tuple[str, float, str]]) -> str:
    """For each row: a name, a bar filled to a share from 0 to 1, and a description."""
    return "".join(f"<div class=account><span class=word>{html.escape(name)}</span><div class=track><div class=used "
                   f"style='width:{100 * share:g}%'></div></div><span>{html.escape(words)}</span></div>"
                   for name, share, words in rows)
