"""Files that are replaced as a whole: whoever reads one, or kills the writer, finds the old content or the new one."""

from __future__ import annotations

import os
from pathlib import Path

from dpsql.errors import OperationalError


def replace_file(target: Path, content: bytes) -> bool:
    """Give a file this content, unless it has it; returns whether it was written. The content is on the disk before the file has
    its name. The caller is the only writer of the folder. Raises OperationalError if that is impossible."""
    try:
        if target.is_file() and target.read_bytes() == content:
            return False
        fresh = temporary(target)
        fresh.unlink(missing_ok=True)  # of somebody who was killed; a link would be followed
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
        _sync_folder(target.parent)
    except OSError as fault:
        raise OperationalError(f"{target} cannot be written ({type(fault).__name__})", code="file",
                               try_="a folder that you may write to, and space on its disk") from None
    return True


def temporary(target: Path) -> Path:
    """The name of a file until it is complete."""
    return target.with_name(f".{target.name}.unfinished")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
