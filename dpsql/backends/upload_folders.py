"""Which files users may upload: those below folders that the owner allows, except files with private rows."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, replace

CHUNK = 2**20  # bytes that are copied at once


class Uploads(Frozen):
    """The folders of uploads, and the files that are never uploads, wherever they lie: sources, database, ledger and policy."""

    folders: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()

    def also(self, folder: Path) -> Uploads:
        """The same uploads with one more folder."""
        return replace(self, folders=(*self.folders, folder))

    @contextlib.contextmanager
    def opened(self, path: Path) -> Iterator[Path]:
        """A private copy of an upload under a plain name, so that an engine reads only this file even if its own name contains
        special characters.

        The copy is made from the open descriptor of the file that was checked. So a link, a second name of a file that is closed
        to users, or a name that now stands for another file does not lead out of the folders. Raises OperationalError if it is no
        upload; the error is the same whether there is such a file or not, unless the name lies in a folder of uploads.
        """
        found = self._place(path)
        if found is None:
            raise OperationalError(f"{path} is not in a folder for uploads, or belongs to the policy", code="upload",
                                   subject=str(path), try_='a pandas frame, uploads = ["folder"] in the policy, or the name of a '
                                   "public table")
        with tempfile.TemporaryDirectory(prefix="dpsql-upload-") as folder:
            copy = Path(folder) / ("upload" + "".join(path.suffixes[-2:]).lower())
            if not self._copied(found, copy):
                raise OperationalError(f"there is no CSV or Parquet file {path}", code="no-file", subject=str(path),
                                       try_="the path of such a file, or the name of a public table")
            yield copy

    def _place(self, path: Path) -> Path | None:
        """Where a file lies, with all links followed; None if that is outside of every folder, or the file is closed to users."""
        try:
            found = path.resolve()
            below = any(folder in found.parents for folder in (folder.resolve() for folder in self.folders))
            closed = any(own == found or own in found.parents or (own.parent == found.parent and found.name.startswith(own.name))
                         for own in (own.resolve() for own in self.closed))
        except (OSError, RuntimeError, ValueError):
            return None
        return found if below and not closed else None

    def _copied(self, found: Path, copy: Path) -> bool:
        """Whether the content of a regular file that is not closed was copied."""
        with contextlib.suppress(OSError):
            descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as source:
                here = os.fstat(descriptor)
                if not stat.S_ISREG(here.st_mode) or (here.st_dev, here.st_ino) in self._inodes() or self._place(found) != found:
                    return False
                if not _lies_at(descriptor, here, found) or here.st_size > shutil.disk_usage(copy.parent).free // 2:
                    return False
                with copy.open("xb") as target:
                    left = here.st_size  # and no more, however it grows
                    while left > 0 and (read := source.read(min(left, CHUNK))):
                        left -= target.write(read)
            return True
        return False

    def _inodes(self) -> set[tuple[int, int]]:
        """The closed files by what they are, whatever they are called."""
        found = set()
        for own in self.closed:
            with contextlib.suppress(OSError):
                here = own.stat()
                found.add((here.st_dev, here.st_ino))
        return found


def _lies_at(descriptor: int, here: os.stat_result, found: Path) -> bool:
    """Whether an open file is the one at this place: a folder on the path may have been a link just while the file was opened.
    Where the system tells what was opened, that decides."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(found)
    there = os.lstat(found)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
