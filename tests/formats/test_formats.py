"""Files of earlier versions are opened, and say what they said to the version that wrote them. `make.py` writes those of this one."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from formats.make import BUDGET, HERE, STATEMENTS, contents, in_postgres, rows_of_snapshot, shown

from dpsql.backends.store import Store
from dpsql.catalog.policy import read_policy
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.vault.passwords import read_users
from dpsql.trusted.accounting.cost import Account, pure

VERSIONS = sorted(path.parent.name for path in HERE.glob("*/expected.json"))


@pytest.fixture(params=VERSIONS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the files of a version, which only their owner can read."""
    folder = tmp_path / request.param
    shutil.copytree(HERE / request.param, folder)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def test_there_are_versions() -> None:
    assert "0.1.0" in VERSIONS


def test_a_ledger_in_a_file_says_what_it_said(written: Path) -> None:
    """Its chain and anchor are verified, and every stored answer is read."""
    found = json.loads(json.dumps(contents(written), default=str))
    assert found == expected(written)["files"]
    kinds = {kind for kind, _ in found["bodies"]}
    assert {"Answer", "Answers", "Validation", "SyntheticTable", "ReleasedDatabase", "OnlineModel", "TableNote"} <= kinds
    assert len(found["entries"]) > len(STATEMENTS)


def test_a_ledger_in_postgres_says_what_it_said(written: Path) -> None:
    with in_postgres(written) as store:
        assert json.loads(json.dumps(contents(written, "postgres", store), default=str)) == expected(written)["postgres"]


def test_a_ledger_in_a_file_takes_charges(written: Path) -> None:
    takes_charges(ReportingLedger(written / "dpsql.ledger", written / "dpsql.ledger.anchor"))


def test_a_ledger_in_postgres_takes_charges(written: Path) -> None:
    with in_postgres(written) as store:
        takes_charges(ReportingLedger(written / "postgres.ledger", written / "postgres.ledger.anchor", store))


def takes_charges(ledger: ReportingLedger) -> None:
    ada, before = Account(budget=BUDGET, analyst="ada"), ledger.spent(BUDGET).rho
    cost = pure(Fraction(1, 1000)).rounded()
    seq = ledger.charge(ada, cost, digest="later", data="v", sql="SELECT 1", allows={}, incidents=3)
    ledger.answer(seq, "body")
    assert ledger.stored(ada, "later", "v") == "body" and ledger.spent(BUDGET).rho == before + cost.rho
    ledger.close()


def test_a_changed_byte_is_noticed(written: Path) -> None:
    """That the files are verified at all: an anchor of another ledger is refused."""
    anchor = written / "dpsql.ledger.anchor"
    lines = anchor.read_text(encoding="utf-8")
    digit = lines.rstrip()[-1]
    anchor.write_text(lines.rstrip()[:-1] + ("0" if digit != "0" else "1") + "\n", encoding="utf-8")
    with pytest.raises(Exception, match=r"(?i)anchor|ledger"):
        contents(written)


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


def test_a_snapshot_of_another_database_has_its_rows(written: Path) -> None:
    found = rows_of_snapshot(written)
    assert found == expected(written)["snapshot"] and len(found["people"]) == 4


def test_answers_of_no_known_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="no such"):
        shown('{"no such": "kind"}')
