"""Rules of the house that linters do not know."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dpsql

ROOT = Path(__file__).parents[2]
TRUSTED = ROOT / "dpsql" / "trusted"
MODULES = sorted((ROOT / "dpsql").rglob("*.py"))


def test_the_top_level_holds_what_it_should() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines() if not line.startswith(".")}
    assert top == {"pyproject.toml", "dpsql", "grammar", "tests", "examples", "README.md", "LICENSE"}


def test_one_version_is_named_everywhere() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / ".github/CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited and cited[1] == dpsql.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"## [{dpsql.__version__}]" in (ROOT / ".github/CHANGELOG.md").read_text(encoding="utf-8")
    assert (ROOT / "tests/formats" / dpsql.__version__).is_dir()


def test_every_module_says_what_it_is_for() -> None:
    """A module starts with a sentence."""
    silent = [path for path in MODULES if path.name != "__init__.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert len(MODULES) > 300 and silent == []


def test_every_operator_and_measurement_carries_its_proof() -> None:
    operators = priced = 0
    for path in (TRUSTED / "plan/operators").glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) and base.id in ("Node", "Summary") for base in node.bases):
                operators += 1
                assert "Proof" in (ast.get_docstring(node) or ""), f"{path.name}: {node.name}"
    for path in [*(TRUSTED / "measurements").rglob("*.py"), *(TRUSTED / "noise").glob("*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and any(isinstance(part, ast.FunctionDef) and part.name == "cost"
                                                      for part in node.body):
                priced += 1
                assert re.search(r"Cost|Movement|Proof|Source|cost", ast.get_docstring(node) or ""), node.name
    assert operators > 20 and priced > 20


def test_no_numpy_or_random_noise_near_an_answer() -> None:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert "np.random" not in text and "numpy.random" not in text, path
        if re.search(r"^\s*(import random|from random)", text, re.MULTILINE):
            assert path.name in ("ledger.py", "sqlite_store.py"), f"{path}: only the ledger's pauses are random by the library"


def test_importing_is_light() -> None:
    heavy = {"scipy", "pandas", "networkx", "pulp", "opendp", "pyarrow", "rich", "dp_accounting"}
    made = subprocess.run([sys.executable, "-c", "import sys, dpsql; print(*sorted(sys.modules))"], cwd=ROOT, capture_output=True,
                          text=True, check=True)
    assert not heavy & set(made.stdout.split())


FIRST = """
import sys
from pathlib import Path
import dpsql
from dpsql.cli import main
try:
    main(["demo", "--to", sys.argv[1]])
except SystemExit:
    pass
with dpsql.connect(policy=Path(sys.argv[1]) / "dpsql.toml", budget="study", analyst="ada") as con:
    assert len(con.execute("SELECT female, COUNT(*), AVG(income) FROM people GROUP BY female").fetchall()) == 2
print("answered", *sorted(sys.modules))
"""


def test_a_first_answer_loads_no_library_that_it_does_not_use(tmp_path: Path) -> None:
    """`import scipy` loads its parts when they are first used; a part that is imported by name is loaded at once."""
    made = subprocess.run([sys.executable, "-c", FIRST, str(tmp_path / "study")], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(made.stdout.rsplit("answered", 1)[1].split())
    assert not {"scipy.linalg", "scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.stats", "pulp"} & loaded


HOMES = ("home", "root", "work", "workspace", "Users", "mnt")  # folders that are somebody's
FOREIGN = re.compile(rf"(?<![\w.])[/\\]({'|'.join(HOMES)})[/\\]|python[h]osted|pypi\.org")


def test_nothing_of_one_machine_or_of_a_registry_is_written_down() -> None:
    for name in HOMES:
        assert FOREIGN.search(f"--adult /{name}/data/adult.parquet") and not FOREIGN.search(f"../{name}/data")
    folders = [ROOT / name for name in ("dpsql", "grammar", "tests", "examples", ".ci", ".github")]
    for path in [*ROOT.glob("[!.]*"), *(path for folder in folders for path in folder.rglob("*"))]:
        if path.is_file() and "__pycache__" not in path.parts:
            found = FOREIGN.search(path.read_text(encoding="utf-8", errors="ignore"))
            assert found is None, f"{path}: {found[0]}"
