"""Over random streams of rows, days and statements, nothing tells more of a person in one period, in a window of periods, or in all, than was
charged; and no statement meets a fault of dpsql itself."""

from __future__ import annotations

from itertools import takewhile

import pytest
from oracle.stream_events import stream_of
from oracle.stream_faults import FAULTS, StreamFault
from oracle.stream_law import Found, examine

BLOCKS, STREAMS, STATEMENTS = 50, 10, 40  # 500 streams and 20,000 statements, of which each day has its share
FEW = 14  # streams among which each fault is found


def test_a_stream_follows_from_its_number() -> None:
    assert stream_of(5, 9) == stream_of(5, 9) != stream_of(6, 9)


@pytest.mark.slow
def test_a_short_stream_keeps_the_law() -> None:
    found = Found()
    examine(3, found, statements=12)
    assert not found.broken and not found.faults, [*found.broken, *found.faults][0]
    assert found.answered > 0 and found.moved > 0


@pytest.mark.long
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_stream_tells_more_than_is_charged(block: int, effort: float) -> None:
    found = Found()
    for seed in range(block * STREAMS, block * STREAMS + max(1, int(STREAMS * effort))):
        examine(seed, found, statements=STATEMENTS)
    assert not found.broken, f"{len(found.broken)} broken; the first: {found.broken[0]}"
    assert not found.faults, f"{len(found.faults)} internal errors; the first: {found.faults[0]}"
    assert found.answered > found.statements / 4 and found.moved > found.charges, found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what.replace(" ", "_"))
def test_a_fault_over_time_is_found(fault: StreamFault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    found = Found()
    for seed in takewhile(lambda seed: not found.broken, range(FEW)):
        examine(seed, found, stream=stream_of(seed, STATEMENTS // 2, fault.often), replays=0 if fault.often else 1)
    assert found.broken
