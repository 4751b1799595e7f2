"""Files written for people. Existing files are never overwritten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.errors import OperationalError


def free_file(name: str | Path, example: str, *forms: str) -> Path:
    """Check the name of a file to be written: it must end in one of `forms`, and the file must not exist. Raises OperationalError
    otherwise. Call this before anything is charged."""
    path = Path(name)
    wrong = ("exists, and is not overwritten" if os.path.lexists(path) else "is in no folder" if not path.parent.is_dir() else
             "" if path.suffix.lower() in forms else f"is not named {' or '.join(forms)}")
    if wrong:
        raise OperationalError(f"{path} {wrong}", code="file", try_=f"another name, such as {example}")
    return path


def save(text: str, target: str | Path, *, private: bool = False) -> None:
    """Write a text to a new file, which only its owner may read where it is `private`. Raises OperationalError if the file
    exists, or cannot be written."""
    with new_file(Path(target)):
        opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with open(opened, "w", encoding="utf-8") as file:
            file.write(text)


@contextmanager
def new_file(target: Path, faults: type[Exception] = OSError) -> Iterator[None]:
    """A context that raises OperationalError where the file exists, or cannot be written."""
    try:
        yield
    except FileExistsError:
        raise OperationalError(f"{target} exists, and is not overwritten", code="exists", try_="another name") from None
    except (OSError, faults) as fault:
        raise OperationalError(f"{target} cannot be written ({type(fault).__name__})", code="file") from None
