"""Manifests: files that say which others are in force, and are replaced at once, after what they name is on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def put_in_place(manifest: Path, text: str, files: Iterable[Path] = ()) -> None:
    """Replace a manifest, after the `files` that it names were written. The caller holds a lock. Raises OSError; the previous
    manifest is then still in place."""
    fresh = manifest.with_name(f".{manifest.name}")
    fresh.unlink(missing_ok=True)  # of somebody who was interrupted; a link would be followed
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    for path in (*files, fresh):
        _sync(path)
    fresh.replace(manifest)
    _sync(manifest.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
