"""Lists of statements that are files: `-- # NAME` begins a list, and a line that begins with spaces goes on with the one above."""

from __future__ import annotations

from pathlib import Path


def sections(path: Path) -> dict[str, tuple[str, ...]]:
    """The lists of a file by their names. Other comments are left out."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("-- # "):
            name = line.removeprefix("-- # ")
        elif line.startswith("    "):
            found[name][-1] += f" {line.strip()}"
        elif not line.startswith("-- "):
            found.setdefault(name, []).append(line)
    return {name: tuple(texts) for name, texts in found.items()}
