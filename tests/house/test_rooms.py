"""The rooms of the house and the arrows between them, as imports draw them; so that growth and circles are noticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
         for path in sorted((ROOT / "dpsql").rglob("*.py"))}


GROUND = {"dpsql.errors", "dpsql.types", "dpsql.frozen", "dpsql.trusted.cached", "dpsql.estimates"}


def imports(module: str) -> Iterator[str]:
    """The files that a file imports, in functions too, but not for type checkers alone."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    hidden = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
              for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in hidden:
            for name in node.names:
                full = f"{node.module}.{name.name}"
                yield full if full in FILES else node.module


def room(module: str) -> str:
    """The folder of a file; at the top the faces, and the ground that all rooms stand on."""
    inside = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    if inside != "dpsql":
        return inside.removeprefix("dpsql.")
    return "ground" if module in GROUND else "faces"


def test_the_house_is_small_and_has_no_circle_of_files() -> None:
    files = nx.DiGraph([(module, other) for module in FILES for other in imports(module) if other in FILES and other != module])
    rooms = nx.DiGraph([(room(one), room(other)) for one, other in files.edges if room(one) != room(other)])
    circles = [sorted(found) for found in nx.strongly_connected_components(files) if len(found) > 1]
    pairs = sorted({tuple(sorted(edge)) for edge in rooms.edges if rooms.has_edge(*edge[::-1])})
    print(f"{len(FILES)} files, {files.number_of_edges()} arrows; {rooms.number_of_nodes()} rooms, {rooms.number_of_edges()} arrows")
    print(f"circles of files: {circles or 'none'}; rooms that know each other: {pairs}")
    assert not circles
    assert rooms.number_of_nodes() <= 56
    # the vault asks `extras` for the library that checks tokens of a sign-on; a front tells the vault that it was interrupted; thirteen of the room of agents, another face; a range of periods states the numbers it may have, as requests do; running totals choose a strategy, and published series are shown as answers
    assert rooms.number_of_edges() <= 495


def test_no_name_of_a_file_stands_twice() -> None:
    names = [path.stem for path in FILES.values() if path.name != "__init__.py"]
    assert not {name for name in names if names.count(name) > 1}


def test_no_name_of_a_class_stands_twice() -> None:
    names = [node.name for path in FILES.values() for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.ClassDef)]
    assert not {name for name in names if names.count(name) > 1}
