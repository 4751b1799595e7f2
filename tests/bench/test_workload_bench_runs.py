"""The benchmarks of workloads still run, on their smallest cases, and their numbers are those of the certified optima."""

from __future__ import annotations

import pytest
from support.benches import printed


@pytest.mark.slow
@pytest.mark.long
def test_adaptive() -> None:
    lines = printed("adaptive.py", "--runs", "1", "--rows", "300")
    head = next(i for i, line in enumerate(lines) if line[0].startswith("PrivTree"))
    assert [line[:3] for line in lines[3:head]] == [[name, "300", epsilon] for name in ("like NETTRACE", "like HEPTH", "steps")
                                                    for epsilon in ("0.01", "0.1", "1")]
    assert all(float(line[3]) > 0 and int(line[8]) >= 1 for line in lines[3:head])
    assert len(lines[head + 3:]) == 6 and all(float(line[3].split(" / ")[0]) > 0 for line in lines[head + 3:])


@pytest.mark.slow
@pytest.mark.long
def test_workloads() -> None:
    lines = printed("workloads.py", "--largest", "16")
    rows = {tuple(line[:2]): line for line in lines}
    (pl94,) = [line for line in lines if line[:2] == ["4", "PL94"]]
    assert abs(float(pl94[-3]) / float(pl94[-4]) - 1) < 1e-4
    assert rows["<=3-way 10^100, total", "162196001"][4] == "303.216110"
    (adult,) = [line for line in lines if line[0] == "Adult 3-way"]
    assert float(adult[-2]) < 0.967
    assert any(line[0] == "prefix 16, RMSE" for line in lines)
    (eight,) = [line for line in lines if line[0] == "<=3-way 10^8"]
    assert eight[-3] == "marginals" and float(eight[-4]) < 0.95


@pytest.mark.slow
@pytest.mark.long
def test_pyramid() -> None:
    """Together costs less than one by one, and in turn something between."""
    lines = printed("pyramid.py", "--first", "2")
    assert [line[0] for line in lines[3:]] == ["ρ", "ε"]
    for _, _, alone, turn, _, together, _, ratio in lines[3:]:
        assert float(together) < float(alone) and float(turn) < float(alone) and float(ratio) <= 1


@pytest.mark.slow
@pytest.mark.long
def test_many_ranges() -> None:
    lines = printed("many_ranges.py", "--conditions", "12", "--checks", "3")
    planned = [line for line in lines if line[0].startswith("12 ")]
    assert len(planned) == 6 and all(float(line[2]) > 0 for line in planned)
    assert sum(line[0].startswith("3 ") for line in lines) == 2
