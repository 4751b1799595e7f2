"""`--front-user`: what root starts has its front run as a user who can open nothing of root's. For root alone."""

from __future__ import annotations

import json
import os
import pwd
import re
import ssl
import subprocess
import sys
import sysconfig
from pathlib import Path
from urllib.request import Request, urlopen

import psycopg
import pytest
from support.wire_servers import PASSWORD, add, certificate, served

import dpsql
from dpsql.demo import folder
from dpsql.errors import OperationalError
from dpsql.server import serving
from dpsql.server.passwords import users_file

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="for root alone")
COUNT = "SELECT health, COUNT(*) FROM people GROUP BY health"
PACKAGES = [sysconfig.get_path("purelib")]


def python_of_everybody() -> str:
    """A Python of this version that nobody can run, with the packages that are installed for this one."""
    wanted = f"import sys, dpsql.server.http_desk, duckdb; assert sys.version_info[:2] == {sys.version_info[:2]}"
    environment = {"PYTHONPATH": os.pathsep.join([str(Path(dpsql.__file__).parents[1]), *PACKAGES]), "PATH": os.environ["PATH"]}
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = subprocess.run([python, "-c", wanted], user="nobody", env=environment, cwd="/", capture_output=True)
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    pytest.skip("nobody can run no Python that has what is installed here")


def test_a_front_of_nobody_serves_with_files_that_only_root_reads(tmp_path: Path) -> None:
    python, policy = python_of_everybody(), folder.export(tmp_path / "demo")
    pem = certificate(tmp_path)
    for path in (tmp_path, policy.parent):
        path.chmod(0o700)
    for path in (pem, tmp_path / "key.pem", *policy.parent.iterdir()):
        path.chmod(0o600)
    terms = ["--http", "127.0.0.1:0", "--certificate", str(tmp_path / "cert.pem"), "--key", str(tmp_path / "key.pem"), "--front-user",
             "nobody"]
    with served(policy, budget="study", terms=terms, python=python, packages=PACKAGES) as server:
        front, = (int(pid) for pid in Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split())
        told = dict(re.findall(r"^(Uid|Gid|Groups):(.*)$", Path(f"/proc/{front}/status").read_text(), re.MULTILINE))
        nobody = pwd.getpwnam("nobody")
        assert told["Uid"].split() == [str(nobody.pw_uid)] * 4 and told["Gid"].split() == [str(nobody.pw_gid)] * 4
        assert told["Groups"].split() == []
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


@pytest.mark.parametrize("python", ["of root", "/bin/false"])
def test_a_front_that_cannot_begin_is_told(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = folder.export(tmp_path / "demo")
    add(users_file(policy))
    made = tmp_path / "python"
    made.write_text("#!/bin/sh\n")
    made.chmod(0o700)
    tmp_path.chmod(0o700)
    monkeypatch.setattr(serving, "be_unreadable", lambda: None)  # which would hold for the tests
    monkeypatch.setattr(sys, "executable", str(made) if python == "of root" else python)
    with pytest.raises(OperationalError, match="nobody must be able to run"):
        serving.serve(policy, "127.0.0.1:0", front_user="nobody")
