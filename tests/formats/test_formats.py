"""Files of earlier versions are opened, and say what they said to the version that wrote them. `make.py` writes those of this one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from dpsql.server.passwords import read_users
from formats.make import BUDGET, HERE, STATEMENTS, bodies, shown, told

from dpsql.backends.store import Store
from dpsql.catalog.policy import read_policy
from dpsql.trusted.accounting.cost import Account
from dpsql.trusted.kernel.ledger import Ledger

VERSIONS = sorted(path.parent.name for path in HERE.glob("*/expected.json"))


@pytest.fixture(params=VERSIONS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the files of a version, which only their owner can read."""
    folder = tmp_path / request.param
    shutil.copytree(HERE / request.param, folder)
    for path in folder.iterdir():
        path.chmod(0o600)
    return folder


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def test_there_are_versions() -> None:
    assert "0.1.0" in VERSIONS


def test_a_ledger_says_what_it_said(written: Path) -> None:
    """Its chain and anchor are verified, and every stored answer is read."""
    found = json.loads(json.dumps(told(written), default=str))
    assert found == expected(written)
    kinds = {kind for kind, _ in found["bodies"]}
    assert {"Answer", "Answers", "Validation", "SyntheticTable", "ReleasedDatabase", "OnlineModel", "TableNote"} <= kinds
    assert len(found["entries"]) > len(STATEMENTS)


def test_a_ledger_goes_on(written: Path) -> None:
    account = Account(budget=BUDGET, analyst="ada")
    ledger = Ledger(written / "dpsql.ledger", written / "dpsql.ledger.anchor")
    before = ledger.events
    ledger.reopen(account)
    assert ledger.events >= before
    ledger.close()
    assert told(written)["spent"] == expected(written)["spent"]


def test_a_changed_byte_is_noticed(written: Path) -> None:
    """That the files are verified at all: an anchor of another ledger is refused."""
    anchor = written / "dpsql.ledger.anchor"
    lines = anchor.read_text(encoding="utf-8")
    digit = lines.rstrip()[-1]
    anchor.write_text(lines.rstrip()[:-1] + ("0" if digit != "0" else "1") + "\n", encoding="utf-8")
    with pytest.raises(Exception, match=r"(?i)anchor|ledger"):
        told(written)


def test_a_policy_and_users_are_read(written: Path) -> None:
    policy = read_policy(written / "dpsql.toml")
    assert BUDGET in policy.budgets and {"people", "person_years", "plans"} <= policy.tables.keys()
    users = read_users(written / "dpsql.users.json").users
    assert [*users] == ["ada"] and users["ada"].budget == BUDGET


def test_manifests_of_stores_are_read(written: Path) -> None:
    manifests = [*written.glob("store-*.json")]
    assert manifests
    for path in manifests:
        text = path.read_text(encoding="utf-8")
        assert json.loads(Store.from_json(text).as_json()) == json.loads(text)


def test_bodies_of_no_known_kind_are_refused(written: Path) -> None:
    assert all(shown(body) for body in bodies(written / "dpsql.ledger"))
    with pytest.raises(ValueError, match="no such"):
        shown('{"no such": "kind"}')
