"""All that the front sends, at whole multiples of a time, where the owner wants that: then what is not held in the vault, as
stored answers and the catalogue, tells less of how busy the machine is.

What takes longer on a busy machine leaves at a later multiple, so this hides load only where one such time is well above what
these answers take then. They are multiples and not steps that double, as a charged statement has left the vault at a step and
needs but little more. The front knows nothing private; nothing that privacy rests on is decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator


@contextlib.asynccontextmanager
async def at_a_multiple(pace: float) -> AsyncGenerator[None]:
    """A context whose duration is rounded up to a multiple of `pace` seconds, at least one; 0 for no rounding."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        yield
    finally:
        if pace:
            await asyncio.sleep(begun + pace * max(1, math.ceil((loop.time() - begun) / pace)) - loop.time())
