"""Options of the whole test run."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy loads: threads fight over small matrices on a busy machine
os.environ["DPSQL_CACHE"] = ""  # no test leans on what another left behind
os.environ["DPSQL_STATE"] = ""

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# The same examples in every run, and none refused for being slow: a machine that is busy says nothing about the code.
settings.register_profile("dpsql", derandomize=True, database=None, deadline=None,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.load_profile("dpsql")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--effort", type=float, default=1.0,
                     help="multiplies the number of random cases, sentences and samples of the statistical and fuzz tiers")


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> float:
    """How much more (or less) than the default the statistical and fuzz tiers should try."""
    return float(request.config.getoption("--effort"))
