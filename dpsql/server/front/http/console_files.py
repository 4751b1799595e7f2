"""The files of the console, as browsers load them: read once and served by their names alone, so that no path is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpsql.frozen import Frozen

FOLDER = Path(__file__).parents[2] / "console"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8"}


class ConsoleFile(Frozen):
    content: bytes
    type: str


def console_files(folder: Path = FOLDER) -> Mapping[str, ConsoleFile]:
    """The files by their names, such as ``vendor/x.js``; only files with a known type are included."""
    return {path.relative_to(folder).as_posix(): ConsoleFile(content=path.read_bytes(), type=TYPES[path.suffix])
            for path in sorted(folder.rglob("*")) if path.suffix in TYPES and path.is_file()}
