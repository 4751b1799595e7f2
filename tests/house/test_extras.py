"""Extras: each that an error or a guide names is in pyproject.toml, and each that is there is named by one of them."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
OF_DEVELOPERS = {"browser", "site", "test"}


def named_in_errors() -> set[str]:
    """The extras that `extras.extra` and other errors name."""
    found = set[str]()
    for path in (ROOT / "dpsql").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= {name for names in re.findall(r"dpsql\[([\w,]+)\]'", text) for name in names.split(",")}
        if "extra(" in text:
            calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "extra")
            found |= {call.args[1].value for call in calls if isinstance(call.args[1], ast.Constant) and isinstance(call.args[1].value, str)}
    return found


def named_in_guides() -> set[str]:
    """By `dpsql[name]`, or in the first column of a table of extras."""
    found = set[str]()
    for path in (ROOT / "dpsql" / "guides").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"dpsql\[(\w+)\]", text))
        for table in re.findall(r"^\| extra \|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE):
            found |= set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    return found


def test_extras_that_are_named_are_declared() -> None:
    assert {"server", "arrow", "polars"} <= named_in_errors() and {"server", "spark"} <= named_in_guides()
    assert named_in_errors() | named_in_guides() <= DECLARED.keys()


def test_extras_that_are_declared_are_named() -> None:
    assert DECLARED.keys() - named_in_errors() - named_in_guides() == OF_DEVELOPERS
