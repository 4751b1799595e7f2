"""Files that are not there, or not what the policy says, are told at the line of the policy that names them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql import cli
from dpsql.catalog.policy import parse_policy, read_policy
from dpsql.engine.opening import ConnectionTerms, open_reader
from dpsql.errors import DatabaseError, IntegrityError, OperationalError, PolicyError
from dpsql.trusted.kernel.ledger import Ledger

FILES = """\
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "people.csv"
[tables.people.columns]
id = { type = "BIGINT" }
[budgets.main]
entity = "person"
epsilon = 1
"""
UNTYPED = FILES.replace('{ type = "BIGINT" }', "{}")
DATABASE = UNTYPED.replace("version = 1", 'version = 1\ndatabase = "people.duckdb"').replace('source = "people.csv"\n', "")


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
    fault = told(tmp_path, (UNTYPED if name.endswith(".parquet") else FILES).replace("people.csv", name))
    assert isinstance(fault, kind)
    assert (fault.as_dict()["line"], fault.subject, fault.source) == (line, "people", str(tmp_path / "dpsql.toml"))


def test_a_wrong_database_is_told_where_it_is_named(tmp_path: Path) -> None:
    assert told(tmp_path, DATABASE).as_dict()["line"] == 2
    (tmp_path / "people.duckdb").write_bytes(b"not one")
    assert "cannot be opened" in told(tmp_path, DATABASE).reason
    named = told(tmp_path, DATABASE, str(tmp_path / "other.duckdb"))
    assert named.span is None and "other.duckdb" in named.reason, "the policy is not at fault"


TYPED = FILES.replace('id = { type = "BIGINT" }', 'id = { type = "BIGINT" }\nage = { type = "bigint" }\nborn = { type = "DATE" }')
NOTED = TYPED.replace('born = { type = "DATE" }', 'born = { type = "DATE" }\nnote = { type = "VARCHAR" }')


def opened(folder: Path, lines: str, text: str = NOTED) -> tuple[dict[str, str], list[tuple[object, ...]]]:
    """The types of the columns, and the rows."""
    (folder / "people.csv").write_bytes(lines.encode("utf-8", "surrogateescape"))
    (folder / "dpsql.toml").write_text(text, encoding="utf-8")
    reader = open_reader(read_policy(folder / "dpsql.toml"), None)
    columns = dict(reader.schema()["people"].columns)
    rows = reader.rows("SELECT * FROM people ORDER BY id")
    reader.close()
    return columns, rows


def test_no_row_decides_how_others_are_read(tmp_path: Path) -> None:
    """Neighbouring files: with one more row of anything, the schema is the same, and so is every other row."""
    names, lines = "id,Age,born,note\n", '1,30,2000-01-31,"a,b"\n2,,,\n'
    columns, rows = opened(tmp_path, names + lines)
    assert columns == {"id": "BIGINT", "Age": "BIGINT", "born": "DATE", "note": "VARCHAR"}
    assert rows == [(1, 30, dt.date(2000, 1, 31), "a,b"), (2, None, None, None)]
    for odd in ("3,old,31/12/2020,x\n", "3,1e99,2020-99-99,\n", "3\n", "3,1,2000-01-01,x,y,z\n", '3,"x ""y""",,\n', "3,0x1F,now,\n",
                "\n", ";;;\n", "3;4;2000-01-01;x\n", *ODD):
        for text in (names + lines + odd, names + odd + lines):
            other, found = opened(tmp_path, text)
            assert other == columns and [row for row in found if row[0] in (1, 2)] == rows, odd
            assert all(row[0] == 3 or row[0] is None for row in found if row not in rows), odd


# Rows that are broken, or end otherwise; \udcff is a byte that is no letter.
ODD = ("3,1,2000-01-01,a\rb\n", "3,1,2000-01-01,a\r", "3,1,2000-01-01,a\r\n", "\r\n", "3,1,2000-01-01,\udcff\n", '3,1,2000-01-01,"\udcff"\n',
       "\udcff,1,2000-01-01,x\n", "3,1,2000-01-01,a\0b\n", "3,1,infinity,x\n", "3,1,20025-01-01,x\n", '3,1,,"a\nb"\n', '3,1,,"a\r\nb"\n',
       '3,1,,"a\rb"\n', '3,1,,"1,30,2000-01-31\n1,30,2000-01-31,x\n"\n', '3,1,,a"b\n', '3,1,,a"b"\n', "3,1,,a\\\n", "x,1,2000-01-01,\n",
       ",1,2000-01-01,\n", "1e30,1,2000-01-01,\n", "3,1,," + "x" * 3_000_000 + "\n", '3,1,,"' + "x" * 3_000_000 + '"\n', "id,Age,born,note\n")


@pytest.mark.parametrize("odd", ["2,30,2000-01-01,Jos\udce9\n", "2,30,2000-01-01,a\rb\n", "2,30,2000-01-01,b\r\n", "none,30,2000-01-01,b\n"],
                         ids=["a letter of Latin-1", "a carriage return", "a line of another system", "no key"])
def test_one_row_does_not_decide_whether_a_file_is_served(odd: str, tmp_path: Path) -> None:
    """One person whose row is broken closed the database for everybody, and no other person did."""
    Ledger.create(tmp_path / "dpsql.ledger").close()
    for lines in ("", odd):
        opened(tmp_path, "id,age,born,note\n1,30,2000-01-31,a\n" + lines)
        with dpsql.connect(policy=tmp_path / "dpsql.toml", analyst="ada", epsilon=0.1) as connection:
            assert connection.execute("SELECT COUNT(*) FROM people").fetchall()


def test_texts_that_look_like_rows_are_texts_in_large_files_too(tmp_path: Path) -> None:
    """Threads that began in the middle of a file took lines of a text for rows, and lost or repeated the rows around them."""
    fake, rows = "".join(f"7,{age},2000-01-31,x\n" for age in range(20)), 90_000
    with (tmp_path / "people.csv").open("w", encoding="utf-8") as file:
        file.write("id,age,born,note\n")
        file.writelines(f'{i},{i % 90},2000-01-31,"\n{fake}"\n' for i in range(rows))
    (tmp_path / "dpsql.toml").write_text(NOTED.replace('key = "id"\nsource', "source"), encoding="utf-8")
    reader = open_reader(read_policy(tmp_path / "dpsql.toml"), None)
    assert reader.rows("SELECT COUNT(*), COUNT(DISTINCT id), SUM(age) FROM people") == [(rows, rows, sum(i % 90 for i in range(rows)))]
    reader.close()


def test_rows_decide_no_type(tmp_path: Path) -> None:
    for lines in ("id\n1\n", "id\nold\n", "id\n"):
        with pytest.raises(PolicyError, match="needs a type, as its rows must not decide it") as caught:
            opened(tmp_path, lines, UNTYPED)
        assert caught.value.as_dict()["line"] == 9


def test_rows_decide_no_type_in_a_folder_either(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "people/a.csv").write_text("id\n1\n", encoding="utf-8")
    fault = told(tmp_path, UNTYPED.replace("people.csv", "people"))
    assert (fault.code, fault.as_dict()["line"]) == ("no-type", 9)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_policy_tells_the_separator(separator: str, tmp_path: Path) -> None:
    lines = "\ufeffid;age;born;\"the \"\"note\"\"\"\n1;30;2000-01-31;\"a,b;c\"\n".replace(";", separator)
    note = "'the \"note\"' = { type = \"VARCHAR\" }"
    said = f'csv = {{ delimiter = "{separator}" }}\n[tables.people.columns]'.replace("\t", "\\t")
    columns, rows = opened(tmp_path, lines, TYPED.replace("[budgets", f"{note}\n[budgets").replace("[tables.people.columns]", said))
    assert list(columns) == ["id", "age", "born", 'the "note"']
    assert rows == [(1, 30, dt.date(2000, 1, 31), f"a,b{separator}c")]


def test_a_file_that_is_written_otherwise_is_told(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id;age;born\n1;30;2000-01-31\n", encoding="utf-8")
    fault = told(tmp_path, TYPED)
    assert "column id has a type, but is neither in" in fault.reason and 'csv = { delimiter = ";" }' in fault.try_
    assert fault.as_dict()["line"] == 7 and "30" not in str(fault).replace(str(tmp_path), "")


def test_types_are_for_all_columns_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        opened(tmp_path, "id,age,born\n", TYPED.replace('age = { type = "bigint" }', "age = {}"))
    assert (caught.value.as_dict()["line"], caught.value.try_) == (10, 'type = "VARCHAR", or another; dpsql init drafts the types')


def test_a_draft_of_a_csv_file_declares_its_types(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,age,born,at,paid,name\n1,30,2000-01-31,2000-01-31 12:00:00,1.5,x\n", encoding="utf-8")
    assert cli.main(["init", str(tmp_path / "people.csv"), "--to", str(tmp_path / "dpsql.toml")]) == 0
    policy = read_policy(tmp_path / "dpsql.toml")
    assert [column.type for column in policy.tables["people"].columns.values()] == [
        "BIGINT", "BIGINT", "DATE", "TIMESTAMP", "DOUBLE", "VARCHAR"]
    open_reader(policy, None).close()


def test_a_database_is_opened(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "people.duckdb")).execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
    (tmp_path / "dpsql.toml").write_text(DATABASE, encoding="utf-8")
    reader = open_reader(read_policy(tmp_path / "dpsql.toml"), None)
    assert set(reader.schema()) == {"people"}
    reader.close()


@pytest.mark.parametrize("macro", ["round(x) AS x * 1000000", '"SUM"(x) AS 7', '"+"(a, b) AS 7', '"count_star"() AS 5', "isnan(x) AS CAST('no' AS BOOLEAN)",
                                   "duckdb_functions() AS TABLE SELECT 1 AS function_name, TRUE AS internal"])
def test_a_database_whose_functions_stand_in_for_those_of_the_engine_is_refused(macro: str, tmp_path: Path) -> None:
    """The engine would call them in what is printed for it, of which nothing is proven then: not that it raises for no row, and
    not how far a sum moves."""
    connection = duckdb.connect(str(tmp_path / "people.duckdb"))
    connection.execute(f"CREATE TABLE people (id INTEGER PRIMARY KEY); CREATE MACRO {macro}")
    connection.close()
    fault = told(tmp_path, DATABASE)
    assert fault.code == "own-functions" and fault.as_dict()["line"] == 2
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        name = macro.partition("(")[0]
        connection.execute(f"DROP MACRO {'TABLE ' * ('TABLE' in macro)}{name}; CREATE MACRO {macro.replace(name, 'ours', 1)}")
    open_reader(read_policy(tmp_path / "dpsql.toml"), None).close()


def test_other_functions_of_a_database_are_its_own_matter(tmp_path: Path) -> None:
    connection = duckdb.connect(str(tmp_path / "people.duckdb"))
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY); CREATE MACRO bmi(kg, m) AS kg / m / m; CREATE SCHEMA s; "
                       "CREATE MACRO s.round(x) AS x")
    connection.close()
    (tmp_path / "dpsql.toml").write_text(DATABASE, encoding="utf-8")
    open_reader(read_policy(tmp_path / "dpsql.toml"), None).close()


@pytest.mark.parametrize("name", ["people.csv", "./people.csv", "link.csv", "hard.csv"])
def test_a_public_table_is_no_private_file_under_another_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id\n1\n", encoding="utf-8")
    (tmp_path / "link.csv").symlink_to(tmp_path / "people.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "people.csv")
    fault = told(tmp_path, FILES + f'[tables.towns]\npublic = true\nsource = "{name}"\n[tables.towns.columns]\nid = {{ type = "BIGINT" }}\n')
    assert "has the file of people, which is private" in fault.reason and fault.as_dict()["line"] == 15


@pytest.mark.parametrize("name", ["people[1].csv", "peopl?.csv", "people*.csv", "people[1].parquet"])
def test_a_name_that_the_engine_takes_for_a_pattern_reads_no_other_file(name: str, tmp_path: Path) -> None:
    """A public table could have the rows of a private file by it, and a change of the file that is read would not be seen."""
    for other in ("people1", "people2"):
        (tmp_path / f"{other}.csv").write_text("id\n1\n", encoding="utf-8")
        duckdb.sql("SELECT 1 AS id").write_parquet(str(tmp_path / f"{other}.parquet"))
    (tmp_path / name).write_text("id\n5\n", encoding="utf-8")
    fault = told(tmp_path, (UNTYPED if name.endswith(".parquet") else FILES).replace("people.csv", name))
    assert "as a pattern for other files too" in fault.reason and fault.as_dict()["line"] == 7


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_the_folder_of_a_file_names_nobody(name: str, tmp_path: Path) -> None:
    """The engine would show the value of a folder `id=7` in place of what the rows have."""
    (tmp_path / "id=7").mkdir()
    duckdb.sql("FROM (VALUES (1), (2)) AS t(id)").write_csv(str(tmp_path / "id=7/people.csv"))
    duckdb.sql("FROM (VALUES (1), (2)) AS t(id)").write_parquet(str(tmp_path / "id=7/people.parquet"))
    text = (FILES if name.endswith(".csv") else UNTYPED).replace("people.csv", f"id=7/{name}")
    (tmp_path / "dpsql.toml").write_text(text, encoding="utf-8")
    reader = open_reader(read_policy(tmp_path / "dpsql.toml"), None)
    assert sorted(reader.rows("SELECT id FROM people")) == [(1,), (2,)]
    reader.close()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "x" * 300 + ".csv", 5, b"people.csv"])
@pytest.mark.parametrize("which", ["database", "policy", "ledger"])
def test_what_no_file_can_be_named_is_told(which: str, name: object, tmp_path: Path) -> None:
    opened(tmp_path, "id,age,born,note\n")
    given: dict[str, object] = {"policy": tmp_path / "dpsql.toml", which: name}
    with pytest.raises(DatabaseError):
        dpsql.connect(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [["init", "x" * 300], ["init", "x" * 300 + ".csv"], ["budget", "--create", "--ledger", "x" * 300],
                                       ["demo", "--to", "x" * 300], ["query", "--database", "x" * 300, "SELECT 1"]])
def test_the_shell_tells_it_too(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    opened(tmp_path, "id,age,born,note\n")
    assert cli.main(arguments) == 2 and "OperationalError: the name of a file" in capsys.readouterr().err


def test_a_database_that_is_named_stands_for_files_that_are_not_there(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "other.duckdb")).execute("CREATE TABLE people AS SELECT 7 AS id; ALTER TABLE people ADD PRIMARY KEY (id)")
    (tmp_path / "dpsql.toml").write_text(FILES, encoding="utf-8")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    with dpsql.connect(tmp_path / "other.duckdb", policy=tmp_path / "dpsql.toml", analyst="ada", epsilon=0.1) as connection:
        assert connection.execute("SELECT COUNT(*) FROM people").fetchall()


@pytest.mark.parametrize(("usual", "given", "price"), [
    ("epsilon = 0.5, delta = 1e-8", {"epsilon": 0.1}, "ε = 0.1, δ = 1e-08"),
    ("epsilon = 0.5, delta = 1e-8", {"epsilon": 0.1, "delta": 0}, "ε = 0.1"),
    ("epsilon = 0.5, delta = 1e-8", {"epsilon": 0.1, "delta": 1e-9}, "ε = 0.1, δ = 1e-09"),
    ("epsilon = 0.5, delta = 1e-8", {}, "ε = 0.5, δ = 1e-08"), ("epsilon = 0.5", {"epsilon": 0.1}, "ε = 0.1"),
    ("rho = 0.01, delta = 1e-8", {"epsilon": 0.1}, "ε = 0.1"), ("epsilon = 0.5, delta = 1e-8", {"rho": 0.1}, "ρ = 0.1")])
def test_an_epsilon_alone_takes_the_delta_of_a_statement(usual: str, given: dict[str, object], price: str) -> None:
    total = "rho = 9\ndelta = 1e-6" if "rho" in usual else "epsilon = 9\ndelta = 1e-6"
    policy = parse_policy(FILES.replace("epsilon = 1\n", f"{total}\nper_statement = {{ {usual} }}\n"))
    assert str(ConnectionTerms(**given).price_under(policy.budgets["main"])) == price
