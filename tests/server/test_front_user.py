"""The front of a server that root starts runs as a user who can open nothing of root's. For root alone."""

from __future__ import annotations

import io
import json
import os
import pwd
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
from pathlib import Path
from urllib.request import Request, urlopen

import psycopg
import pytest
from support.walls import has_own_root
from support.wire_servers import PASSWORD, add, certificate, served

import dpsql
from dpsql.demo import folder
from dpsql.errors import OperationalError
from dpsql.server.start import serving
from dpsql.server.vault.passwords import users_file
from dpsql.server.walls.front_users import NUMBERS, USUAL, user_of_front

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="for root alone")
COUNT = "SELECT health, COUNT(*) FROM people GROUP BY health"
PACKAGES = [sysconfig.get_path("purelib")]


def python_of_everybody() -> str:
    """A Python of this version that nobody can run, with the packages that are installed for this one."""
    wanted = f"import sys, dpsql.server.front.http.http_desk, duckdb; assert sys.version_info[:2] == {sys.version_info[:2]}"
    environment = {"PYTHONPATH": os.pathsep.join([str(Path(dpsql.__file__).parents[1]), *PACKAGES]), "PATH": os.environ["PATH"]}
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = subprocess.run([python, "-c", wanted], user="nobody", env=environment, cwd="/", capture_output=True)
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    pytest.skip("nobody can run no Python that has what is installed here")


@pytest.mark.parametrize("named", [None, "nobody", "root"])
def test_a_front_serves_with_files_that_only_root_reads(named: str | None, tmp_path: Path) -> None:
    policy = folder.export(tmp_path / "demo")
    python = sys.executable if named == "root" or has_own_root() else python_of_everybody()
    pem = certificate(tmp_path)
    for path in (tmp_path, policy.parent):
        path.chmod(0o700)
    for path in (pem, tmp_path / "key.pem", *policy.parent.iterdir()):
        path.chmod(0o600)
    terms = ["--http", "127.0.0.1:0", "--certificate", str(tmp_path / "cert.pem"), "--key", str(tmp_path / "key.pem"),
             *([] if named is None else ["--front-user", named])]
    with served(policy, budget="study", terms=terms, python=python, packages=PACKAGES) as server:
        front, = (int(pid) for pid in Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split())
        told = dict(re.findall(r"^(\w+):(.*)$", Path(f"/proc/{front}/status").read_text(), re.MULTILINE))
        users, groups = ({int(number) for number in told[name].split()} for name in ("Uid", "Gid"))
        if named is None:
            assert users == groups and users < {*NUMBERS} and len(users) == 1
        else:
            assert users == {pwd.getpwnam(named).pw_uid} and groups == {pwd.getpwnam(named).pw_gid}
        assert told["Groups"].split() == ([] if named != "root" else [str(each) for each in os.getgroups()])
        assert int(told["CapEff"], 16) == int(told["CapPrm"], 16) == 0 and told["NoNewPrivs"].strip() == "1"
        assert any(f"parsed by the user {users.pop()} " in line for line in server.log)
        handles = {number: os.readlink(f"/proc/{front}/fd/{number}") for number in (0, 1, 2)}
        assert handles[1] == "/dev/null" and handles[2].startswith("pipe:"), "neither a file nor a terminal of the owner"
        own, = (path for path in Path("/proc", str(front), "environ").read_bytes().decode().split("\0") if path.startswith("TMPDIR="))
        assert not [path for path in Path(own.partition("=")[2]).iterdir() if path.suffix == ".pem"], "they were read, and are gone"
        with psycopg.connect(server.dsn, sslmode="verify-full", sslrootcert=str(tmp_path / "cert.pem")) as connection:
            rows = connection.execute(COUNT).fetchall()
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))

        def ask(path: str, body: dict[str, str], **headers: str) -> dict[str, object]:
            asked = Request(f"https://localhost:{server.http_port}/api/{path}", json.dumps(body).encode(),
                            {"Content-Type": "application/json", **headers})
            found: dict[str, object] = json.load(urlopen(asked, context=context, timeout=30))
            return found

        token = ask("login", {"name": "ada", "password": PASSWORD})["token"]
        assert ask("query", {"sql": COUNT}, Authorization=f"Bearer {token}")["rows"] == [list(row) for row in rows]
    assert server.process.returncode == 0 and not Path(own.partition("=")[2]).exists()


def test_folders_too_deep_to_be_removed_end_no_server(caplog: pytest.LogCaptureFixture) -> None:
    with serving._folder_of_front() as folder:
        here = os.open(folder, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
    assert f"{folder} cannot be removed" in caplog.text or not Path(folder).exists()
    subprocess.run(["rm", "-rf", folder], check=True)


def test_the_log_of_a_front_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    serving._copy_log(io.BytesIO("né\tlog\n\x1b[2J\x9b1mhidden\n".encode() + b"\xff" * 70_000))
    told = capsys.readouterr().err
    assert told.startswith("né\tlog\n?[2J?1mhidden\n\ufffd") and len(told) > 70_000


@pytest.mark.parametrize("python", ["of root", "/bin/false"])
def test_a_front_that_cannot_begin_is_told(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = folder.export(tmp_path / "demo")
    add(users_file(policy))
    made = tmp_path / "python"
    shutil.copy(os.path.realpath(sys.executable), made)
    made.chmod(0o700)
    monkeypatch.setattr(serving, "be_unreadable", lambda: None)  # which would hold for the tests
    monkeypatch.setattr(sys, "executable", str(made) if python == "of root" else python)
    with pytest.raises(OperationalError, match=f"the user {pwd.getpwnam('nobody').pw_uid} must be able to run") as refused:
        serving.serve(policy, "127.0.0.1:0", front_user="nobody")
    assert "--front-user root" in str(refused.value)


def test_a_user_made_for_the_front_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(pwd, "getpwnam", lambda name: {USUAL: nobody}[name])
    assert user_of_front(None) == (nobody.pw_uid, nobody.pw_gid)


def test_a_number_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a known user's or group's, nor one as which something runs."""
    def known(number: int) -> object:
        if number in (NUMBERS[0], NUMBERS[3]):
            return object()
        raise KeyError(number)

    monkeypatch.setattr(os, "getpid", lambda: 2 * len(NUMBERS))
    monkeypatch.setattr(pwd, "getpwuid", known)
    assert user_of_front(None) == (NUMBERS[1],) * 2
    with subprocess.Popen(["/bin/sleep", "60"], user=NUMBERS[1], cwd="/") as sleeping:
        assert user_of_front(None) == (NUMBERS[2],) * 2
        sleeping.kill()
    monkeypatch.setattr(os, "getpid", lambda: 2 * len(NUMBERS) - 1)
    assert user_of_front(None) == (NUMBERS[-1],) * 2


def test_users_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OperationalError, match="there is no user"):
        user_of_front("no such user")
    assert user_of_front("root") is None
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert user_of_front(None) is None
    with pytest.raises(OperationalError, match="only root can run"):
        user_of_front("nobody")
