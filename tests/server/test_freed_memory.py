"""Memory that is handed back to the system."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable

import pytest

from dpsql.server.link.freed_memory import FreedMemory

SCATTERED = """
import ctypes
from pathlib import Path
from dpsql.server.link.freed_memory import FreedMemory

def resident():
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

memory, library = FreedMemory(clock=lambda: 0.0), ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes, library.memset.argtypes = ctypes.c_void_p, [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
pieces = [library.malloc(20_000) for _ in range(5_000)]
for piece in pieces:
    library.memset(piece, 1, 20_000)
full = resident()
for at, piece in enumerate(pieces):
    if at % 10:
        library.free(piece)
freed = resident()
memory.give_back()
print(full, freed, resident())
"""


class Cyclic:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def used(*seconds: float) -> Callable[[], float]:
    """A clock that shows these, each at one look."""
    shown = iter(seconds)
    return lambda: next(shown)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have another C library")
def test_pages_between_those_in_use_are_handed_back() -> None:
    ended = subprocess.run([sys.executable, "-c", SCATTERED], capture_output=True, text=True, check=True)
    full, freed, after = map(float, ended.stdout.split())
    assert freed > full - 20 and after < freed - 50  # of 86 MB that were freed


def test_a_quiet_process_is_left_alone() -> None:
    memory = FreedMemory(clock=used(0, 5, 5, 5.1, 5.1, 5.2, 9, 9))
    assert [memory.give_back() for _ in range(4)] == [True, True, False, True]


def test_cycles_are_collected_when_nobody_waits() -> None:
    gc.disable()
    try:
        memory, made = FreedMemory(clock=used(0, 5, 5, 5.1, 5.1)), weakref.ref(Cyclic())
        memory.give_back()
        assert made() is not None
        memory.give_back()
        assert made() is None
    finally:
        gc.enable()
