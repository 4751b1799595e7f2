"""Classes of this room have names of their own, and its files know each other one way."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dpsql"
ROOM = PACKAGE / "sql"


def classes(path: Path) -> set[str]:
    return {node.name.lstrip("_") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)}


def test_no_class_has_the_name_of_one_elsewhere() -> None:
    found = [(name, path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") for name in classes(path)]
    ours = {name for name, path in found if path.parts[0] == "sql"}
    assert {name for name in ours if sum(other == name for other, _ in found) > 1} == set()


def test_no_import_is_for_types_only() -> None:
    assert [path.name for path in ROOM.rglob("*.py") if "TYPE_CHECKING" in path.read_text(encoding="utf-8")] == []


def test_what_is_bound_elsewhere_is_returned_and_not_written() -> None:
    """Only a SELECT's own binder changes its rows: no other file assigns an attribute of a host."""
    for path in (ROOM / "binding").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
            for target in (part for whole in targets for part in ast.walk(whole)):
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                    assert isinstance(target.value, ast.Name) and target.value.id in ("self", "fault"), f"{path.name}:{node.lineno}"
