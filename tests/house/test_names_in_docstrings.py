"""What docstrings name in backticks, with the room or file it stands in, is there."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "dpsql").rglob("*.py"))
PLACES = defaultdict[str, list[tuple[str, ...]]](list)  # a file and a room may share a name
for path in FILES:
    for place in {path, path.parent}:
        if place.name != "__init__.py" and (parts := place.relative_to(ROOT).with_suffix("").parts) not in PLACES[place.stem]:
            PLACES[place.stem].append(parts)
OURS = {"dpsql.toml"}  # a file


def named(text: str) -> set[str]:
    """Dotted names whose first part is a room or a file of the package."""
    return {name for name in re.findall(r"`((?:\w+\.)+\w+)`", text) if name.split(".")[0] in {*PLACES, "dpsql"}} - OURS


def is_there(name: str) -> bool:
    first, *rest = name.split(".")
    return any(resolves((*parts, *rest)) for parts in PLACES.get(first, [(first,)]))


def resolves(parts: Sequence[str]) -> bool:
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_what_is_named_is_there() -> None:
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path in FILES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) for name in named(ast.get_docstring(node) or "")
             if not is_there(name)]
    assert not wrong, "\n".join(wrong)
