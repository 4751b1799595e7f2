"""What each command imports, so that it starts at once: only what it needs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from dpsql.cli.arguments import Commands
from dpsql.cli.entry import GROUPS
from dpsql.demo import folder

HEAVY = {"numpy", "duckdb", "sqlglot", "pandas", "scipy", "networkx", "pulp", "highspy", "opendp", "rich", "dp_accounting", "asyncio", "msgspec"}
UNASKED = {"aio", "audit", "batch", "demo", "guides", "microdata", "models", "notebooks", "server", "sqlalchemy_dialect", "strategies",
           "synthesis", "validation"}
COUNT = "SELECT health, COUNT(*) FROM people GROUP BY health"
HERE = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
RUN = "import json, sys; from dpsql.cli import main; code = main(sys.argv[1:]); print(); print(json.dumps([code, *sys.modules]))"


@cache
def loaded(*words: str, here: Path | None = None) -> frozenset[str]:
    """The modules that a command has imported when it ends."""
    made = subprocess.run([sys.executable, "-c", RUN, *words], cwd=here, env=HERE, capture_output=True, text=True, check=True)
    code, *modules = json.loads(made.stdout.splitlines()[-1])
    assert code == 0, made.stdout + made.stderr
    return frozenset(modules)


def rooms(modules: frozenset[str]) -> set[str]:
    return {module.split(".")[1] for module in modules if module.startswith("dpsql.")}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder.export(tmp_path_factory.mktemp("start") / "study").parent


def test_importing_the_package_imports_nothing_else() -> None:
    made = subprocess.run([sys.executable, "-c", "import dpsql, sys; dpsql.Error; print(*sys.modules)"], env=HERE, capture_output=True,
                          text=True, check=True)
    modules = frozenset(made.stdout.split())
    assert rooms(modules) == {"errors"} and not HEAVY & modules


def test_windows_is_refused_with_a_way_out() -> None:
    made = subprocess.run([sys.executable, "-c", "import sys; sys.platform = 'win32'; import dpsql.cli"], env=HERE, capture_output=True,
                          text=True)
    assert made.returncode == 1
    assert made.stderr.splitlines()[-1].startswith("ImportError: dpsql does not run on Windows") and "Subsystem for Linux" in made.stderr


@pytest.mark.parametrize("words", [("help",), ("help", "start")], ids=" ".join)
def test_help_needs_no_library(words: tuple[str, ...]) -> None:
    modules = loaded(*words)
    assert rooms(modules) == {"cli", "errors", "guides"} and not HEAVY & modules


def test_the_version_needs_no_command() -> None:
    made = subprocess.run([sys.executable, "-X", "importtime", "-m", "dpsql.cli", "--version"], env=HERE, capture_output=True, text=True, check=True)
    modules = frozenset(line.rpartition("|")[2].strip() for line in made.stderr.splitlines())
    assert rooms(modules) == {"cli", "errors"} and not HEAVY & modules


@pytest.mark.parametrize("words", [("query", "--budget", "study", COUNT), ("explain", "--budget", "study", COUNT), ("budget", "--budget", "study")],
                         ids=lambda words: words[0])
def test_small_work_needs_no_large_room(words: tuple[str, ...], study: Path) -> None:
    modules = loaded(*words, here=study)
    assert not UNASKED & rooms(modules)
    assert not {"pandas", "scipy", "networkx", "pulp", "highspy", "dp_accounting"} & modules
    assert len([module for module in modules if module.startswith("dpsql")]) <= 420  # with 21 of periods, as the demo has a table that grows, one for released rows, the schema of standing queries, revisions of periods, versions of tables, certificates for one person in one period, those that keep sums of periods, those that read arrays and durations of parameters, and what policies and charges say of periods


def test_the_list_of_commands_says_which_file_has_each() -> None:
    for group, names in GROUPS.items():
        added: list[str] = []

        class Noted(Commands):
            def add(self, name: str, run: object, help_: str) -> object:  # type: ignore[override]
                added.append(name)
                return super().add(name, run, help_)  # type: ignore[arg-type]

        import_module(f"dpsql.cli.{group}").add(Noted(of=argparse.ArgumentParser().add_subparsers()))
        assert sorted(added) == sorted(names), group
