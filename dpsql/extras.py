"""Libraries that are not installed with dpsql itself: each belongs to an extra, which an error names where it is missing."""

from __future__ import annotations

import importlib
from typing import Any

from dpsql.errors import InterfaceError


def extra(module: str, name: str) -> Any:
    """A module of a library that the extra `name` installs. Raises InterfaceError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        fault = InterfaceError(f"{library} is not installed", code="extra", subject=library, try_=f"pip install 'dpsql[{name}]'")
    raise fault
