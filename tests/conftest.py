"""Options of the whole test run, and its tiers.

    pytest -m fast -n 2         one instance of most test functions: three minutes, while you write
    pytest -n 2                 what the README runs: 10 to 13 minutes, before you hand in; all but the tier `long`
    pytest -m long -n 2         the rest; with `--share 1/14 --turn N` a part of it in turn, as `.ci/run` does day by day

Noise is drawn by the operating system and is never the same again, so what is asserted of it fails by chance now and then, in one of
thousands of tests. So a test whose assertion failed is run a second time (`--reruns` in pyproject.toml), and fails if that fails too;
the summary lists it under RERUN. Any other error counts at once.

Which test is in which tier is decided by `support/tiers.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import shutil
import signal
import sys
import time
from pathlib import Path

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
from support.seconds import Measuring  # noqa: E402
from support.tiers import Tiers, mark, turn_of  # noqa: E402

# The same examples in every run, and none refused for being slow: a machine that is busy says nothing about the code.
settings.register_profile("dpsql", derandomize=True, database=None, deadline=None,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.load_profile("dpsql")

gc.disable()  # until all tests are collected: what is collected stays

with contextlib.suppress(ValueError):  # outside of the main thread
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as what runs in the background of a shell has it, and its children
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--effort", type=float, default=0.25, help="multiplies the number of random cases, sentences and samples of the "
                                                               "statistical and fuzz tiers; below 1 none says that a claim is nearly met")
    parser.addoption("--share", type=parts_of, default=1, metavar="1/N", help="run one of N parts of what was selected")
    parser.addoption("--turn", type=int, default=None, metavar="N", help="which of these parts; that of the day, if not given")
    parser.addoption("--measure", action="store_true", help="keep how many seconds of a processor test functions take, for the tiers")


def parts_of(text: str) -> int:
    one, _, parts = text.partition("/")
    if one != "1" or not parts.isdecimal() or int(parts) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no share: write 1/N")
    return int(parts)


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> float:
    """How many random cases and samples the statistical and fuzz tiers should try."""
    return float(request.config.getoption("--effort"))


TIERS = pytest.StashKey[Tiers]()


def pytest_configure(config: pytest.Config) -> None:
    if config.option.turn is None:  # decided once, and told to every process
        config.option.turn = int(time.time() // 86400)
    if config.option.measure:
        config.pluginmanager.register(Measuring())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tiers before `-m` selects, and leave what is not of this turn."""
    config.stash[TIERS] = mark(items)
    others = [item for item in items if turn_of(item) % config.option.share != config.option.turn % config.option.share]
    config.hook.pytest_deselected(items=others)
    left = set(others)
    items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    """Tests and modules are never garbage: the collector need not look at them again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def tiers(request: pytest.FixtureRequest) -> Tiers:
    return request.config.stash[TIERS]
