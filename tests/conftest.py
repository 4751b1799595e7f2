"""Options of the whole test run, and its two tiers.

    pytest -m fast -n auto      one instance of nearly every test function: two minutes, while you write
    pytest -n auto              all of them, before you hand in; `.ci/run` then gives those that draw at random more effort

Noise is drawn by the operating system and is never the same again, so what is asserted of it fails by chance now and then, in one of
thousands of tests. So a test whose assertion failed is run a second time (`--reruns` in pyproject.toml), and fails if that fails too;
the summary lists it under RERUN. Any other error counts at once.

A test is `fast` if it is the first instance of its function that is not marked `slow`, and `drawn` if it asks for the effort:
nobody keeps a list. What starts Spark is marked `slow` and `spark`, and does not count among the functions that have to be fast.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy loads: threads fight over small matrices on a busy machine
os.environ["DPSQL_CACHE"] = ""  # no test leans on what another left behind
os.environ["DPSQL_STATE"] = ""
if sys.dont_write_bytecode:  # what is compiled is kept out of the tree then, and not compiled again in every process
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
_MEMORY = Path("/dev/shm")
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 4 * 2**30:  # a ledger waits for its disk at every step, thousands of times
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# The same examples in every run, and none refused for being slow: a machine that is busy says nothing about the code.
settings.register_profile("dpsql", derandomize=True, database=None, deadline=None,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.load_profile("dpsql")

with contextlib.suppress(ValueError):  # outside of the main thread
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as what runs in the background of a shell has it, and its children
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--effort", type=float, default=0.25, help="multiplies the number of random cases, sentences and samples of the "
                                                               "statistical and fuzz tiers; below 1 none says that a claim is nearly met")


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> float:
    """How many random cases and samples the statistical and fuzz tiers should try."""
    return float(request.config.getoption("--effort"))


class Tiers(NamedTuple):
    """What was collected, whatever was selected of it then: test functions, and which of them have a fast instance."""

    files: frozenset[Path]
    functions: frozenset[str]
    fast: frozenset[str]


TIERS = pytest.StashKey[Tiers]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the fast tier, and what draws as often as `--effort` says, before `-m` selects."""
    fast: dict[str, pytest.Item] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            fast.setdefault(function_of(item), item)
        if "effort" in getattr(item, "fixturenames", ()):
            item.add_marker("drawn")
    for item in fast.values():
        item.add_marker("fast")
    counted = frozenset(function_of(item) for item in items if item.get_closest_marker("spark") is None)
    config.stash[TIERS] = Tiers(files=frozenset(item.path for item in items), functions=counted, fast=frozenset(fast))


def function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.fixture
def tiers(request: pytest.FixtureRequest) -> Tiers:
    return request.config.stash[TIERS]
