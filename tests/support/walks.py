"""How far a statement walks through the house: calls of our own functions, files, switches between files, files that call back."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import dpsql
from dpsql.frozen import Frozen, field

HOUSE = str(Path(dpsql.__file__).parent)
NAMELESS = ("<genexpr>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>")  # parts of a function, which a reader meets in it


class Walk(Frozen):
    """What was called while something ran.

    functions  how often each function of ours was entered that has a name; a generator once
    arrows     how often a function of one file called one of another; a method that calls another one of the same object stays
               where it is, though its class may be written in two files
    """

    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    arrows: Counter[tuple[str, str]] = field(default_factory=Counter)

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


class _Walker:
    """Follows the calls of one thread."""

    def __init__(self) -> None:
        self.walk = Walk()
        self._files: dict[CodeType, str | None] = {}
        self._begun: dict[int, FrameType] = {}  # generators; a frame that is held keeps its number

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        here = self._file(frame) if event == "call" else None
        if here is None or frame.f_code.co_name in NAMELESS or self._resumed(frame):
            return
        self.walk.functions[here, frame.f_code.co_qualname] += 1
        caller = frame.f_back
        while caller is not None and (self._file(caller) is None or caller.f_code.co_name in NAMELESS):
            caller = caller.f_back
        there = self._file(caller) if caller is not None else None
        if caller is not None and there not in (None, here) and not _same_object(frame, caller):
            self.walk.arrows[str(there), here] += 1

    def _file(self, frame: FrameType) -> str | None:
        code = frame.f_code
        if code not in self._files:
            inside = code.co_filename.startswith(HOUSE)
            self._files[code] = str(Path(code.co_filename).relative_to(HOUSE)) if inside else None
        return self._files[code]

    def _resumed(self, frame: FrameType) -> bool:
        if not frame.f_code.co_flags & CO_GENERATOR or id(frame) in self._begun:
            return bool(frame.f_code.co_flags & CO_GENERATOR)
        self._begun[id(frame)] = frame
        return False


def walked(run: Callable[[], Any]) -> Walk:
    """What is called while something runs, in this thread."""
    walker, before = _Walker(), sys.getprofile()
    sys.setprofile(walker)
    try:
        run()
    finally:
        sys.setprofile(before)
    return walker.walk


def milliseconds(run: Callable[[], Any]) -> float:
    """The CPU time that something takes, of all threads."""
    begin = time.process_time()
    run()
    return 1000 * (time.process_time() - begin)


def _same_object(frame: FrameType, caller: FrameType) -> bool:
    mine = frame.f_locals.get("self")
    return mine is not None and mine is caller.f_locals.get("self")
