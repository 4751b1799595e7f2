"""Takes the pictures of pages, terminals and notebooks that the guides show: `python -m tests.support.page_pictures`, from the
root of the project. It needs playwright and a Chromium.

They are of the demo; the noise is fresh, so the numbers differ each time.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

FOLDER = Path(__file__).parents[2] / "dpsql" / "guides" / "pictures"
COLOURS = 128  # of a picture; more cannot be seen in pages of few colours
BY_HEALTH = "SELECT health, COUNT(*), AVG(income) FROM people GROUP BY health"
MANY = "SELECT health, COUNT(*), AVG(income), AVG(education_years), STDDEV(income), AVG(mental_health_index) FROM people GROUP BY health"
CHECKS = ["SELECT COUNT(*) FROM people WHERE female", "SELECT health, COUNT(*) FROM people GROUP BY health",
          "SELECT AVG(income) FROM people", "(SELECT AVG(education_years) FROM people WHERE income > 15000) WITHIN 3 PERCENT",
          "(SELECT AVG(income) FROM people WHERE health = 'poor') WITHIN 5 PERCENT"]
NOTEBOOK = """<body style='font: 14px system-ui, sans-serif; margin: 16px; width: 640px'><style>.cell { display: flex; gap: 10px;
margin: 4px 0 14px } .cell b { color: #1f5fa8; font: 13px monospace; width: 3.5rem; text-align: right; flex: none; padding-top: 7px }
.in { background: #f5f6f8; border: 1px solid #d5dae0; padding: 6px 10px; font: 13px monospace; flex: 1; white-space: pre-wrap }
table { border-collapse: collapse } td, th { padding: 3px 12px; font-size: 13px } tbody tr:nth-child(odd) { background: #f5f6f8 }
</style>"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    from dpsql.demo.folder import export

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started, contextlib.chdir(folder):
        found = shutil.which("chromium") or shutil.which("google-chrome")
        chromium = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, page, width in pages(export(Path(folder) / "study")):
            shown = chromium.new_page(viewport={"width": width, "height": 300})
            shown.set_content(page)
            kept = compressed(shown.screenshot(full_page=True))
            (FOLDER / f"{name}.png").write_bytes(kept)
            print(f"{name}.png: {len(kept) / 1000:.0f} kB")
        chromium.close()


def pages(policy: Path) -> Iterator[tuple[str, str, int]]:
    """The names of the pictures, with what they show as HTML and its width in pixels."""
    import dpsql

    with dpsql.connect(policy=policy, budget="study", analyst="ada", epsilon=0.5) as con:
        cursor = con.execute(BY_HEALTH)
        cursor.report("answer.html")
        yield "answer", Path("answer.html").read_text(encoding="utf-8"), 800
        yield "notebook", notebook(cursor), 680
        cursor = con.execute(MANY)
        for width in (80, 120):
            yield f"terminal-{width}", terminal(cursor, width), 10 * width
        con.synthesize("SELECT health, female, income, education_years FROM people", name="people_syn", epsilon=1, delta=1e-7)
        con.cursor().execute(f"VALIDATE {', '.join(wrapped(each) for each in CHECKS)} AGAINST people_syn WITHIN 5 PERCENT OR 100 "
                             "OPTIONS (epsilon = 2)").report("validation.html")
        yield "validation", Path("validation.html").read_text(encoding="utf-8"), 800


def wrapped(check: str) -> str:
    return check if check.startswith("(") else f"({check})"


def terminal(cursor: Any, width: int) -> str:
    """An answer as a terminal of this width shows it."""
    from argparse import Namespace

    from rich.console import Console

    from dpsql.cli import show

    screen = Console(record=True, width=width, file=io.StringIO(), markup=False, emoji=False, force_terminal=True)
    with mock.patch.object(show, "console", lambda: screen):
        show.show(cursor, Namespace())
    drawn = screen.export_svg(title=f"a terminal of {width} columns")
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    return f"<body style='margin: 0'>{drawn}</body>"


def notebook(cursor: Any) -> str:
    """A cell with an answer, and one with its plot."""
    cells = [("In [1]:", f"<div class=in>cur = con.execute(\"{BY_HEALTH}\")\ncur</div>"), ("Out[1]:", cursor._repr_html_()),
             ("In [2]:", "<div class=in>cur.plot(\"AVG(income)\")</div>"),
             ("Out[2]:", cursor.plot("AVG(income)")._repr_html_())]
    return NOTEBOOK + "".join(f"<div class=cell><b>{mark}</b><div style='flex: 1'>{cell}</div></div>" for mark, cell in cells)


def compressed(picture: bytes) -> bytes:
    """The same with fewer colours, and so a third of the size."""
    from PIL import Image

    made = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
            made, "PNG", optimize=True)
    return made.getvalue()


if __name__ == "__main__":
    sys.exit(main())
