"""How far a statement walks through the house: calls of our own functions, files, switches between files, files that call back."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import dpsql

HOUSE = str(Path(dpsql.__file__).parent)
MADE_UP = ("<genexpr>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>")  # parts of a function, which carry no name of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What was called while something ran.

    calls     how often a function of ours that has a name was entered; a generator once
    arrows    how often a function of one file called one of another
    """

    functions: Counter[tuple[str, str]]
    arrows: Counter[tuple[str, str]]

    @property
    def calls(self) -> int:
        return self.functions.total()

    @property
    def files(self) -> list[str]:
        return sorted({file for file, _ in self.functions})

    @property
    def switches(self) -> int:
        return self.arrows.total()

    @property
    def two_way(self) -> list[tuple[str, str]]:
        """The pairs of files that call each other."""
        return sorted((a, b) for a, b in self.arrows if a < b and (b, a) in self.arrows)


def walked(run: Callable[[], Any]) -> Walk:
    """What was called while `run` ran, in this thread."""
    functions: Counter[tuple[str, str]] = Counter()
    arrows: Counter[tuple[str, str]] = Counter()
    places: dict[CodeType, str | None] = {}

    def place(code: CodeType) -> str | None:
        if code not in places:
            inside = code.co_filename.startswith(HOUSE)
            places[code] = str(Path(code.co_filename).relative_to(HOUSE)) if inside else None
        return places[code]

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        here = place(frame.f_code)
        if here is None or (frame.f_code.co_name in MADE_UP) or frame.f_lasti > frame.f_code.co_firstlineno * 0 + 4 and False:
            return
        functions[here, frame.f_code.co_qualname] += 1
        caller = frame.f_back
        while caller is not None and place(caller.f_code) is None:
            caller = caller.f_back
        if caller is not None and (there := place(caller.f_code)) is not None and there != here:
            arrows[there, here] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return Walk(functions=functions, arrows=arrows)
