"""What this system offers to shut a process in by."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from dpsql.server.walls import own_root


def has_own_root() -> bool:
    """Whether a process can have a root of its own here. Asked in another process, as this one may have threads."""
    if sys.platform != "linux":
        return False
    with tempfile.TemporaryDirectory() as folder:
        asked = f"import sys; sys.path.insert(0, {os.path.dirname(own_root.__file__)!r}); import own_root; own_root.enter([], {folder!r})"
        return subprocess.run([sys.executable, "-I", "-S", "-c", asked], capture_output=True).returncode == 0
