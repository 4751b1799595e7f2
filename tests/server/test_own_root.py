"""The file system of the front: the same paths, and the links on the way to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.walls import has_own_root

from dpsql.server.walls import own_root
from dpsql.server.walls.own_root import _resolved


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files that are reached by links, beside one that nobody needs."""
    root = Path(os.path.realpath(tmp_path))
    for folder in ("real/inner", "links", "own"):
        (root / folder).mkdir(parents=True)
    (root / "real" / "inner" / "file").write_text("needed")
    (root / "real" / "secret").write_text("private")
    (root / "links" / "first").symlink_to("../links/second")
    (root / "links" / "second").symlink_to(root / "real")
    (root / "links" / "circle").symlink_to("circle")
    return root


def test_links_are_followed_step_by_step(tree: Path) -> None:
    links, places = _resolved([f"{tree}/links/first/inner/file", f"{tree}/own", f"{tree}/links/circle", f"{tree}/none"])
    assert links == {f"{tree}/links/first": "../links/second", f"{tree}/links/second": f"{tree}/real"}
    assert places == [f"{tree}/own", f"{tree}/real/inner/file"]


def test_what_is_within_another_is_there_already(tree: Path) -> None:
    assert _resolved([f"{tree}/real/inner/file", f"{tree}/real", f"{tree}/links/second/inner"])[1] == [f"{tree}/real"]


@pytest.mark.skipif(not has_own_root(), reason="this system lets nobody have a root of its own")
def test_nothing_else_is_there(tree: Path) -> None:
    tried = "\n".join([
        "import os, socket, sys", f"sys.path.insert(0, {os.path.dirname(own_root.__file__)!r})", "import own_root",
        f"own_root.enter([{f'{tree}/links/first/inner/file'!r}, '/proc/self/status', '/none'], {f'{tree}/own'!r})",
        f"print(open({f'{tree}/links/first/inner/file'!r}).read())", f"print(sorted(os.listdir({str(tree)!r})), os.listdir({f'{tree}/real'!r}))",
        f"print(os.path.lexists({f'{tree}/real/secret'!r}), os.path.exists('/etc/passwd'), os.path.exists('/usr'))",
        "print(sorted(each.isdigit() and each != str(os.getpid()) for each in os.listdir('/proc'))[-1])",
        f"open({f'{tree}/own/made'!r}, 'w').write('1')",
        "def refused(*names):", "    for name in names:", "        try:", "            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))",
        "        except OSError as error:", "            print(error.strerror)",
        f"refused('/new', {f'{tree}/real/inner/file'!r})", "print([name for _, name in socket.if_nameindex()])"])
    made = subprocess.run([sys.executable, "-I", "-S", "-c", tried], capture_output=True, text=True)
    assert made.stderr == "" and made.returncode == 0
    assert made.stdout.splitlines() == ["needed", "['links', 'own', 'real'] ['inner']", "False False False", "False",
                                        "Read-only file system", "Read-only file system", "['lo']"]
    assert (tree / "own" / "made").read_text() == "1" and not list(Path(tree / "own").glob(".old"))
    assert Path("/etc/passwd").exists() and (tree / "real" / "secret").exists(), "out here, nothing has changed"
