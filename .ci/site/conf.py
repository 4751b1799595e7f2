"""The site: the guides, the grammar and an API reference from docstrings, by Sphinx.

    pip install -e '.[site]' && sphinx-build -W -c .ci/site . built/site

The pages stay where they are, so that their links work in a checkout too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dpsql

project, author, release = "dpsql", "The dpsql developers", dpsql.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = ".ci/site/index"
include_patterns = [".ci/site/*.md", "dpsql/guides/*.md", "dpsql/demo/NOTE.md", "grammar/README.md", "tests/corpus/README.md",
                    "tests/bench/README.md", ".github/*.md", "README.md"]
exclude_patterns = [".venv", "**/__pycache__"]
myst_heading_anchors = 3
html_theme, html_title, html_show_sourcelink = "furo", f"dpsql {release}", False
autodoc_member_order = "bysource"
suppress_warnings = ["myst.xref_missing"]  # links to folders and programs of the checkout


def as_list(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Write aligned columns of a docstring, such as `policy    the policy file`, as a list, indented lines as code, and names in
    backticks too."""
    found, listed = [""], False
    for line in (re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line) for line in lines):
        column = re.match(r"(\w[\w, ]*?\w) {2,}(\S.*)", line)
        if column:
            found += [*([] if listed else [""]), f"* ``{column[1]}``: {column[2]}"]
        elif listed and line:
            found.append(f"  {line.strip()}")
        else:
            found += ["::", "", line] if line.startswith("    ") and not found[-1] else [line]
        listed = bool(column) or (listed and bool(line))
    lines[:] = found


def lead_to_first_page(app: Any, fault: Exception | None) -> None:
    page = '<!doctype html><meta http-equiv="refresh" content="0; url=.ci/site/index.html"><title>dpsql</title>\n'
    (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", as_list)
    app.connect("build-finished", lead_to_first_page)
