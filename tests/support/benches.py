"""Benchmarks, run as from a shell, but in this process: most of what a new one takes is to read the code. So whatever they put in
the place of parts of dpsql they put back."""

from __future__ import annotations

import io
import re
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

BENCHES = Path(__file__).parents[1] / "bench"


def printed(script: str, *options: object) -> list[list[str]]:
    """What a script prints, as the cells of its lines."""
    said, path = io.StringIO(), str(BENCHES / script)
    with patch.object(sys, "argv", [path, *map(str, options)]), patch.object(sys, "path", [str(BENCHES), *sys.path]), redirect_stdout(said):
        runpy.run_path(path, run_name="__main__")
    return [re.split(r" {2,}", line.strip()) for line in said.getvalue().splitlines() if line.strip()]
