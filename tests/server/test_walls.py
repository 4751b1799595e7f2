"""A front in other hands changes nothing outside and learns nothing of it, whichever of the walls stand.

What remains where some of them are missing is named here, as in the guide to servers.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import known_calls
from support.walls import has_own_root
from support.ways_out import KEY, Outside

from dpsql.frozen import Frozen
from dpsql.server.start import front_process
from dpsql.server.start.front_process import control_sockets, start_front
from dpsql.server.walls import own_root, shut_in
from dpsql.server.walls.allowed_calls import DEADLY
from dpsql.server.walls.call_filter import HERE, filter_of_front
from dpsql.server.walls.front_users import user_of_front

TESTS = Path(__file__).parents[1]
NO_WALL, NO_LANDLOCK = (str(TESTS / "support" / name) for name in ("no_wall.py", "no_landlock.py"))
FILES = ("dpsql.ledger", "dpsql.toml", "dpsql.users.json", "people.duckdb")
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

pytestmark = [pytest.mark.skipif(not HERE, reason="of Linux, on machines whose calls are listed"),
              pytest.mark.skipif(known_calls.library() is None, reason="libseccomp tells the numbers of calls")]


@dataclasses.dataclass
class Place:
    """The owner's folder; a process that sleeps, as the user as whom the front runs; and a folder for the front."""

    folder: Path
    own: Path
    user: tuple[int, int] | None
    victim: subprocess.Popen[bytes]

    def outside(self, only: list[str] | None = None) -> Outside:
        return Outside(folder=str(self.folder), files=[str(self.folder / name) for name in FILES], victim=self.victim.pid,
                       calls=known_calls.calls_of(platform.machine()), only=only)

    def state(self) -> object:
        """All that an attempt could have changed."""
        files = {}
        for path in (self.folder, *sorted(self.folder.rglob("*"))):
            told = os.lstat(path)
            files[str(path)] = (told.st_mode, told.st_uid, told.st_gid, told.st_nlink, told.st_ino, told.st_mtime_ns, told.st_ctime_ns,
                                path.read_bytes() if path.is_file() else None, os.listxattr(path))
        pid = self.victim.pid
        shared = [path.name for path in Path("/proc/sysvipc").glob("*") if str(KEY) in path.read_text()]
        return (files, Path(f"/proc/{pid}/limits").read_text(), shared, os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid), os.sched_getscheduler(pid),
                os.getpgid(pid), os.uname().nodename, self.victim.poll())


class Walls(Frozen, kw_only=False):
    """Which of the walls stand."""

    root: bool = True
    landlock: bool = True
    other_user: bool = IS_ROOT
    searchable: bool = False
    remains: frozenset[str] = frozenset()
    """The ways that work."""
    ordinary: bool = False
    """Whether the server was started by that other user, and not by root."""
    everything: bool = False
    """Whether all files of others that this user may read can be read, whatever they are."""


SIZES = frozenset({*(f"{what} {name}" for name in FILES for what in ("size of", "a place of")), *(f"size of {name} by statx" for name in FILES),
                   *(f"whether {name} is there" for name in FILES), "stat", "lstat", "access", "faccessat2"})
"""What Landlock does not hide."""
READ = frozenset({*(f"reading {name}" for name in FILES), "open", "the names of files", "the names in the folder"})
CHANGED = frozenset({*(f"writing {name}" for name in FILES), "rename", "unlink", "mkdir", "a file in the folder", "a file without a name"})

@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    walls: Walls = request.param
    folder, own = tmp_path / "study", tmp_path / "own"
    for made in (folder, own):
        made.mkdir(0o700)
    for name in FILES:
        (folder / name).write_bytes(b"private" * 100)
        (folder / name).chmod(0o600)
    if walls.searchable:
        for made in (folder, *folder.parents):
            if "pytest-of-" in str(made):  # up to the folder of all runs, however deep that of this one is
                made.chmod(0o711)
    user = user_of_front(None) if walls.other_user else None
    if user is not None:
        os.chown(own, *user)
    with subprocess.Popen(["/bin/sleep", "600"], **({} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}),  # type: ignore[call-overload]
                          cwd="/") as victim:
        yield Place(folder, own, user, victim)
        victim.kill()


def tried(place: Place, monkeypatch: pytest.MonkeyPatch, only: list[str] | None = None) -> tuple[list[str], set[str]]:
    """The ways that a front tried, and those that worked."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    ours, theirs = control_sockets()
    with ours, theirs, start_front("support.ways_out:run", theirs, folder=place.own, readable=[TESTS], output=subprocess.PIPE,
                                   input=subprocess.PIPE, user=place.user) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdin.write((json.dumps(place.outside(only).__dict__) + "\n").encode())
        process.stdin.flush()
        told: dict[str, Any] = json.loads(process.stdout.readline())
        process.stdin.close()
        process.wait(20)
    return told["tried"], {*told["worked"]}


def by_ordinary_user(script: str, *, command: list[str], **told: Any) -> list[str]:
    """The command that runs a script of the walls, as if the user of the front had started the server: root first becomes that."""
    user = told.get("user")
    run = [sys.executable, "-I", "-S", script, json.dumps({**told, "command": command, "user": None})]
    return run if user is None else [sys.executable, "-I", "-S", NO_WALL, json.dumps({"user": user, "command": run})]


SHIPPED, SAME_USER = Walls(), Walls(other_user=False)
NO_ROOT = pytest.mark.skipif(not has_own_root(), reason="this system lets nobody have a root of its own")
LANDLOCK = pytest.mark.skipif(shut_in.landlock_version() < 6, reason="a part of this is refused by Landlock of version 6")
AS_ROOT = pytest.mark.skipif(not IS_ROOT or not all(place.stat().st_mode & 0o5 == 0o5 for place in TESTS.parents),
                             reason="root alone has another user, who has to read this folder")


@pytest.mark.slow
@pytest.mark.parametrize(("place", "walls"), [
    pytest.param(walls, walls, id=name, marks=marks) for name, walls, marks in (
        ("as shipped", SHIPPED, [NO_ROOT, LANDLOCK]),
        ("as the same user", SAME_USER, [NO_ROOT, LANDLOCK]),
        ("as shipped, started by an ordinary user", Walls(ordinary=True, searchable=True), [NO_ROOT, LANDLOCK, AS_ROOT]),
        ("without Landlock", Walls(landlock=False), [NO_ROOT]),
        ("without Landlock, started by an ordinary user", Walls(landlock=False, ordinary=True, searchable=True), [NO_ROOT, AS_ROOT]),
        ("without Landlock, as the same user", Walls(landlock=False, other_user=False), [NO_ROOT]),
        ("without a root of its own", Walls(root=False), [LANDLOCK, AS_ROOT]),
        ("without a root of its own, where the folder can be searched", Walls(root=False, searchable=True, remains=SIZES), [LANDLOCK, AS_ROOT]),
        ("without a root of its own, as the same user", Walls(root=False, other_user=False, remains=SIZES), [LANDLOCK]),
        ("another user alone", Walls(root=False, landlock=False, everything=True), [AS_ROOT]),
        ("the filter alone", Walls(root=False, landlock=False, other_user=False, remains=SIZES | READ | CHANGED, everything=True), []),
    )], indirect=["place"])
def test_a_front_changes_and_learns_nothing(place: Place, walls: Walls, monkeypatch: pytest.MonkeyPatch) -> None:
    if not walls.root:
        monkeypatch.setattr(own_root, "__file__", NO_WALL)
    if not walls.landlock:
        monkeypatch.setattr(shut_in, "__file__", NO_LANDLOCK)
    if walls.ordinary:
        monkeypatch.setattr(front_process, "_alone", by_ordinary_user)
    before = place.state()
    ways, worked = tried(place, monkeypatch)
    if walls.everything:
        worked -= {way for way in ways if way.startswith(("reading /", "the names in /"))}
    assert len(ways) > 250
    assert worked == walls.remains
    if not walls.remains & CHANGED:
        assert place.state() == before


@pytest.mark.slow
@pytest.mark.parametrize("place", [Walls(other_user=False)], indirect=True)
def test_ways_out_are_found_where_there_is_no_wall(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that harm nobody: otherwise a test that finds none proves nothing."""
    for script in (own_root, shut_in):
        monkeypatch.setattr(script, "__file__", NO_WALL)
    tame = ["chmod of people.duckdb", "utimensat of dpsql.ledger", "stat", "limits of another", "setpriority", "inotify_init1", "memfd_create",
            "sched_setaffinity", "shmget", "clock_gettime of another", "a pair of datagrams", "a socket of family 1", "a socket of messages of family 16",
            "whether it is there", "pidfd_open", "reading /proc/PID/environ", "getsid", "outliving the vault", "reading /proc/net/tcp"]
    ways, worked = tried(place, monkeypatch, only=tame)
    assert worked == {*tame} == {*ways}


ON_FILES = [f"{what} of {name}" for name in FILES for what in ("chmod", "chown", "utimensat", "setxattr", "listxattr", "size")]
ON_OTHERS = ["limits of another", "clock_gettime of another", "memfd_create"]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "root"), [pytest.param(Walls(other_user=False), True, marks=NO_ROOT), (Walls(other_user=False), False)],
                         indirect=["place"])
def test_without_the_filter_files_are_safe_in_a_root_of_its_own(place: Place, root: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Landlock does not look at what is changed here. Other processes of the user can be reached in both cases."""
    monkeypatch.setattr(front_process, "filter_of_front", lambda: None)
    if not root:
        monkeypatch.setattr(own_root, "__file__", NO_WALL)
    _, worked = tried(place, monkeypatch, only=[*ON_FILES, *ON_OTHERS])
    assert worked == {*ON_OTHERS} if root else worked >= {*ON_OTHERS, "chmod of people.duckdb", "utimensat of dpsql.ledger", "size of people.duckdb"}


@pytest.mark.parametrize("name", DEADLY)
def test_calls_that_no_library_makes_end_a_front(name: str, tmp_path: Path) -> None:
    if name not in known_calls.calls_of(platform.machine()):
        pytest.skip("this machine has no such call")
    assert died_of(tmp_path, known_calls.calls_of(platform.machine())[name]) == -signal.SIGSYS


def test_a_call_of_another_kind_ends_a_front(tmp_path: Path) -> None:
    assert died_of(tmp_path, 0x40000000 + 39) == -signal.SIGSYS


def test_a_front_survives_what_it_may_call(tmp_path: Path) -> None:
    assert died_of(tmp_path, known_calls.calls_of(platform.machine())["getpid"]) == 0


def died_of(folder: Path, number: int) -> int:
    """The exit code of a process that is shut in, after one call."""
    command = [sys.executable, "-I", "-S", str(TESTS / "support" / "ways_out.py"), str(number)]
    shut = front_process._alone(shut_in.__file__, readable=[*front_process._installed(), *front_process.SYSTEM, str(TESTS)], listed=[],
                                writable=str(folder), calls=filter_of_front(), command=command)
    return subprocess.run(shut, capture_output=True).returncode
