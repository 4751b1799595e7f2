"""The lists beside this file: a line for each entry, which goes on in the lines below it that begin with spaces."""

from __future__ import annotations

from pathlib import Path


def listed(name: str) -> list[str]:
    """The entries of a list, each as one line."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return text.replace("\n    ", " ").splitlines()
