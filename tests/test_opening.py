"""Files that are not there, or not what the policy says, are told at the line of the policy that names them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.catalog.policy import read_policy
from dpsql.errors import DatabaseError, IntegrityError, OperationalError
from dpsql.opening import open_reader

FILES = """\
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "people.csv"
[tables.people.columns]
id = {}
[budgets.main]
entity = "person"
epsilon = 1
"""
DATABASE = FILES.replace("version = 1", 'version = 1\ndatabase = "people.duckdb"').replace('source = "people.csv"\n', "")


def told(folder: Path, text: str, database: str | None = None) -> DatabaseError:
    (folder / "dpsql.toml").write_text(text, encoding="utf-8")
    with pytest.raises(DatabaseError) as caught:
        open_reader(read_policy(folder / "dpsql.toml"), database)
    return caught.value


@pytest.mark.parametrize(("name", "content", "kind", "line"), [
    ("people.csv", None, OperationalError, 7), ("people.xlsx", b"", OperationalError, 7), ("people.csv", b"", OperationalError, 7),
    ("people.parquet", b"not one", OperationalError, 7), ("people.csv", b"id,a\n1,2\n1,3\n", IntegrityError, 6)],
    ids=["missing", "of-another-kind", "empty", "damaged", "with-shared-keys"])
def test_a_wrong_file_is_told_where_the_policy_names_it(name: str, content: bytes | None, kind: type[DatabaseError], line: int,
                                                        tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    fault = told(tmp_path, FILES.replace("people.csv", name))
    assert isinstance(fault, kind)
    assert (fault.as_dict()["line"], fault.subject, fault.source) == (line, "people", str(tmp_path / "dpsql.toml"))


def test_a_wrong_database_is_told_where_it_is_named(tmp_path: Path) -> None:
    assert told(tmp_path, DATABASE).as_dict()["line"] == 2
    (tmp_path / "people.duckdb").write_bytes(b"not one")
    assert "cannot be opened" in told(tmp_path, DATABASE).reason
    named = told(tmp_path, DATABASE, str(tmp_path / "other.duckdb"))
    assert named.span is None and "other.duckdb" in named.reason, "the policy is not at fault"


def test_a_database_is_opened(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "people.duckdb")).execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
    (tmp_path / "dpsql.toml").write_text(DATABASE, encoding="utf-8")
    reader = open_reader(read_policy(tmp_path / "dpsql.toml"), None)
    assert set(reader.schema()) == {"people"}
    reader.close()
