"""The README does what it says: its commands run, its Python runs, its policy is one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql import cli
from dpsql.catalog.policy import parse_policy
from dpsql.demo import folder

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import pandas as pd

    folder.export(tmp_path / "study")
    pd.read_parquet(tmp_path / "study" / "people.parquet").to_csv(tmp_path / "study" / "people_syn.csv", index=False)
    monkeypatch.chdir(tmp_path / "study")
    return tmp_path / "study"


def test_the_shell_commands_run(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("dpsql ") and "--budget study" in line]
    assert len(lines) >= 3
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        assert cli.main(words) == 0, line
        assert capsys.readouterr().out


def test_the_python_runs(study: Path) -> None:
    import dpsql

    first, second = blocks("python")
    exec(compile(first, "README", "exec"), {})
    with dpsql.connect(policy="dpsql.toml", budget="study", analyst="bea") as con:
        given = {"con": con}
        exec(compile(second, "README", "exec"), given)
        assert given["found"].counts == {"yes": 2}


def test_the_policy_is_one() -> None:
    (text,) = blocks("toml")
    assert parse_policy(text).budgets["main"].per_statement is not None


def test_the_statement_is_answered(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql, accuracies, validate = blocks("sql")
    assert cli.main(["query", "--budget", "study", accuracies]) == 0
    assert cli.main(["query", "--budget", "study", sql]) == 0
    assert "90 % interval" in capsys.readouterr().out
    policy = (study / "dpsql.toml").read_text(encoding="utf-8")
    table = '[tables.people_syn]\npublic = true\nsource = "people_syn.csv"\n[tables.people_syn.columns]\nhealth = {}\n\n[budgets.study]'
    (study / "dpsql.toml").write_text(policy.replace("[budgets.study]", table, 1), encoding="utf-8")
    assert cli.main(["query", "--budget", "study", validate]) == 0
    assert "1 check: 1 yes" in capsys.readouterr().out


def test_the_map_of_the_house_names_rooms_that_exist() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \|$", README.split("## The house")[1].split("## Tests")[0], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w/.]+)`", row)]
    assert len(named) > 15
    for name in named:
        assert any((ROOT / base / name).exists() for base in (".", "dpsql")), name


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, ROOT / "examples" / example], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path), "USER": "ada"}, check=False)
    assert made.returncode == 0, made.stderr
    assert "error" in made.stdout
