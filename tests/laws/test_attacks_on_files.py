"""Attacks on files that are read where they are; the first ones succeeded once."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from support.files import opened_files
from support.golden.comparison import released
from support.parquet_footers import altered, blocks, told, write
from support.policies import policy_of
from support.sessions import open_ledger, session_of

import dpsql
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, attach_memory, lock_down
from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.source_files import files_of
from dpsql.catalog.reading import CellReading
from dpsql.errors import DatabaseError, IntegrityError, OperationalError
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.trusted.kernel.ledger import Ledger


def ill_texts(count: int, at: int) -> pyarrow.Array:
    """Texts, one of which is not UTF-8."""
    cells = [b"\xff\xfe%05d" % i if i == at else b"ok%05d" % i for i in range(count)]
    return pyarrow.Array.from_buffers(pyarrow.string(), count, pyarrow.array(cells, pyarrow.binary()).buffers())


# -- texts

TEXTS = ("COUNT(*) FROM t WHERE s = 'bob'", "COUNT(*) FROM t WHERE s >= 'a'", "COUNT(*) FROM t WHERE s IN ('ada', 'zoe')", "COUNT(*) FROM t WHERE s LIKE 'b%'",
         "COUNT(*) FROM t WHERE s <> 'bob'", "SUM(CASE WHEN s = 'bob' THEN 1 ELSE 0 END) FROM t", "COUNT(*) FROM t JOIN t AS u USING (s, id)",
         "COUNT(*) FROM (SELECT s FROM t GROUP BY s)")


def answers(reader: DuckReader, queries: tuple[str, ...], table: str = "t") -> list[object]:
    return [reader.rows(f"SELECT {query.replace('FROM t', f'FROM {table}').replace('JOIN t', f'JOIN {table}')}")[0][0] for query in queries]


def test_a_persons_text_with_an_accent_hides_no_other_rows(tmp_path: Path) -> None:
    """Writers before parquet-mr 1.10 (Spark 2, Hive) compared bytes as signed numbers, so that é comes before a."""
    found = []
    for names in (["ada", "bob", "zoe"], ["ada", "bob", "zoe", "éva"]):
        write(tmp_path / "new.parquet", {"id": range(len(names)), "s": names})
        by_old = sorted((name.encode() for name in names), key=lambda text: [byte - 256 * (byte > 127) for byte in text])

        def alter(footer: dict[int, Any], by_old: list[bytes] = by_old) -> None:
            footer[6] = [8, b"parquet-mr version 1.8.1 (build 4aba4da)"]
            footer.pop(7, None)
            told("s", min=by_old[0], max=by_old[-1])(footer)

        altered(tmp_path / "new.parquet", tmp_path / "old.parquet", alter)
        reader = opened_files({"t": tmp_path / "old.parquet"}, {"t": ["id"]})
        found.append(reader.rows("SELECT COUNT(*) FROM t WHERE s = 'bob'"))
        reader.close()
    assert found == [[(1,)], [(1,)]]


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("ends", [{"min_value": b"zoe", "max_value": b"zoe"}, {"min_value": b"zoe", "max_value": b"ada"}, {"min": b"ada", "max": b"ada"}])
def test_wrong_ends_of_texts_hide_no_row(ends: dict[str, bytes], files: int, tmp_path: Path) -> None:
    for part in range(files):
        write(tmp_path / "new", {"id": range(part * 300, part * 300 + 300), "s": ["ada", "bob", "zoe"] * 100}, row_group_size=100)
        (tmp_path / "t").mkdir(exist_ok=True)
        altered(tmp_path / "new", tmp_path / f"t/{part}.parquet", told("s", **ends))
    reader = opened_files({"t": tmp_path / "t"}, {"t": ["id"]})
    reader.rows("CREATE TABLE m AS SELECT * FROM t")
    assert answers(reader, TEXTS) == answers(reader, TEXTS, "m")


# -- a row that is read later, though not when the data are opened

VISITS = """\
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "people.parquet"
[tables.people.columns]
id = {}
[tables.visits]
key = ["id", "number"]
source = "visits.parquet"
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 5
[tables.visits.columns]
id = {}
number = {}
s = {}
[budgets.main]
entity = "person"
epsilon = 1000
"""


def test_a_row_that_lacks_a_part_of_its_key_fails_no_statement(tmp_path: Path) -> None:
    """The engine evaluates the condition on `s` before the one on the key, once it finds that faster."""
    (tmp_path / "dpsql.toml").write_text(VISITS, encoding="utf-8")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    count = 1_000_000
    write(tmp_path / "people.parquet", {"id": range(count)})
    write(tmp_path / "visits.parquet", {"s": ill_texts(count, 999_000), "id": range(count), "number": [None if i == 999_000 else 1 for i in range(count)]},
          use_dictionary=False)
    try:
        connection = dpsql.connect(policy=tmp_path / "dpsql.toml", analyst="ada", epsilon=5)
    except OperationalError:
        return  # told when the data are opened: nobody learns of the row from a statement
    with connection:
        for _ in range(3):
            connection.execute("SELECT COUNT(*) FROM visits WHERE s = 'ok00001'")  # raises Incident, after the charge
            connection.execute("SELECT COUNT(*) FROM visits WHERE s IS NULL")


# -- facts that were never found


@pytest.fixture
def facts(tmp_path: Path) -> FactsBesideLedger:
    return FactsBesideLedger(Ledger.create(tmp_path / "dpsql.ledger"))


def keyed(source: Path, *key: str, types: Mapping[str, str] | None = None) -> FileTable:
    return FileTable(source=files_of("t", source), key=key, cells={name: CellReading(type=kind) for name, kind in (types or {}).items()})


def test_what_was_found_of_one_file_is_not_kept_for_another(facts: FactsBesideLedger, tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", {"id": [1, 1]})
    write(tmp_path / "other", {"id": [1, 2]})
    table = keyed(tmp_path / "t.parquet", "id")
    (tmp_path / "t.parquet").rename(tmp_path / "away")
    (tmp_path / "other").rename(tmp_path / "t.parquet")
    with pytest.raises(OperationalError, match="were changed"):
        open_files([table], facts=facts)
    (tmp_path / "away").rename(tmp_path / "t.parquet")
    with pytest.raises(IntegrityError):
        open_files([keyed(tmp_path / "t.parquet", "id")], facts=facts)


def test_a_fact_is_of_the_folder_of_the_source(facts: FactsBesideLedger, tmp_path: Path) -> None:
    """The same files have other values, so another key, where the source is another folder."""
    for year in (2020, 2021):
        write(tmp_path / f"t/year=2019/year={year}/a.parquet", {"id": [1]})
    year = {"year": "BIGINT"}
    open_files([keyed(tmp_path / "t/year=2019", "id", "year", types=year)], facts=facts).close()
    with pytest.raises(IntegrityError):
        open_files([keyed(tmp_path / "t", "id", "year", types=year)], facts=facts)


# -- smaller ones


def test_a_number_of_rows_beyond_belief_is_a_mistake_or_nothing(tmp_path: Path) -> None:
    for part in (1, 2):
        write(tmp_path / "new", {"id": [part]})
        (tmp_path / "t").mkdir(exist_ok=True)
        altered(tmp_path / "new", tmp_path / f"t/{part}.parquet", lambda footer: footer[3].__setitem__(1, 2**63 - 1))
    with contextlib.suppress(DatabaseError):
        assert opened_files({"t": tmp_path / "t"}, {"t": ["id"]}).rows("SELECT COUNT(*) FROM t") == [(2,)]


def test_a_file_is_another_though_its_time_was_put_back(tmp_path: Path) -> None:
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    write(tmp_path / "t.parquet", {"id": [1, 2, 3]}, **options)
    write(tmp_path / "other", {"id": [1, 1, 3]}, **options)
    reader = opened_files({"t": tmp_path / "t.parquet"}, {"t": ["id"]})
    before = (tmp_path / "t.parquet").stat()
    with (tmp_path / "t.parquet").open("r+b") as file:
        file.write((tmp_path / "other").read_bytes())
    os.utime(tmp_path / "t.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (tmp_path / "t.parquet").stat().st_size == before.st_size
    with pytest.raises(OperationalError, match="were changed"):
        reader.check()


# -- what held

KINDS = {
    "flag": ("i % 2 = 0", b"\0", b"\0"), "small": ("(i % 100)::TINYINT", *[struct.pack("<i", 5)] * 2), "whole": ("(i % 100)::INTEGER", *[struct.pack("<i", 5)] * 2),
    "large": ("(i % 100)::BIGINT", struct.pack("<q", 9), struct.pack("<q", 5)), "positive": ("(i % 100)::UBIGINT", *[struct.pack("<Q", 5)] * 2),
    "single": ("(i % 100)::FLOAT", *[struct.pack("<f", 5)] * 2), "double": ("(i % 100)::DOUBLE", struct.pack("<d", 9), struct.pack("<d", 5)),
    "money": ("(i % 100)::DECIMAL(18, 3)", *[struct.pack("<q", 5000)] * 2), "day": ("DATE '2020-01-01' + (i % 100)::INTEGER", *[struct.pack("<i", 18267)] * 2),
    "time": ("TIMESTAMP '2020-01-01' + to_days((i % 100)::INTEGER)", *[struct.pack("<q", 1578268800000000)] * 2),
    "name": ("md5((i % 100)::VARCHAR)::UUID", b"\7" * 16, b"\7" * 16)}


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_ends_of_other_types_hide_no_row(kind: str, tmp_path: Path) -> None:
    value, low, high = KINDS[kind]
    duckdb.sql(f"SELECT i AS id, CASE WHEN i % 5 <> 0 THEN {value} END AS v FROM range(400) AS r(i)").write_parquet(str(tmp_path / "new"))
    altered(tmp_path / "new", tmp_path / "t.parquet", told("v", nulls=0, min_value=low, max_value=high))
    reader = opened_files({"t": tmp_path / "t.parquet"}, {"t": ["id"]})
    reader.rows("CREATE TABLE m AS SELECT * FROM t")
    reader.rows(f"CREATE TABLE truth AS SELECT i AS id, CASE WHEN i % 5 <> 0 THEN {value} END AS v FROM range(400) AS r(i)")
    for at in (1, 52, 99):
        one = f"(SELECT {value} FROM (SELECT {at} AS i))"
        queries = tuple(query.format(one) for query in (
            "COUNT(*) FROM t WHERE v = {0}", "COUNT(*) FROM t WHERE v > {0}", "COUNT(*) FROM t WHERE NOT v > {0}", "COUNT(*) FROM t WHERE v IS NULL",
            "COUNT(v) FROM t", "MIN(v) FROM t", "MAX(v) FROM t", "COUNT(*) FROM (SELECT v FROM t GROUP BY v)", "COUNT(*) FROM t JOIN t AS u USING (v)",
            "LIST(v) FROM (SELECT v FROM t ORDER BY v DESC NULLS LAST LIMIT 9)", "SUM(k) FROM (SELECT RANK() OVER (ORDER BY v) * id AS k FROM t)"))
        assert answers(reader, queries) == answers(reader, queries, "m") == answers(reader, queries, "truth")
    reader.close()


@pytest.mark.parametrize("texts", [False, True])
def test_a_key_is_never_null_whatever_the_file_says(texts: bool, tmp_path: Path) -> None:
    write(tmp_path / "new", {"id": [None if i % 10 == 0 else f"k{i}" if texts else i for i in range(400)], "v": range(400)}, row_group_size=100)
    altered(tmp_path / "new", tmp_path / "t.parquet", told("id", nulls=0))
    reader = opened_files({"t": tmp_path / "t.parquet"}, {"t": ["id"]})
    assert reader.rows("SELECT COUNT(*), COUNT(id), SUM((id IS NULL)::INTEGER), COUNT(DISTINCT id) FROM t") == [(360, 360, 0, 360)]
    assert reader.rows("SELECT COUNT(*) FROM t WHERE id IS NULL OR v < 0") == [(0,)]


@pytest.mark.parametrize("options", [
    {}, {"data_page_version": "2.0", "data_page_size": 200}, {"write_page_index": True, "data_page_size": 200, "row_group_size": 700}, {"write_statistics": False},
    {"use_dictionary": False, "column_encoding": {"s": "DELTA_BYTE_ARRAY", "f": "BYTE_STREAM_SPLIT"}}, {"dictionary_pagesize_limit": 50, "data_page_size": 100}])
def test_all_ways_of_writing_show_the_same_rows(options: dict[str, Any], tmp_path: Path) -> None:
    columns = {
        "id": range(3000), "f": [(float("nan"), 0.0, -0.0, float("inf"), None, i % 50.0)[i % 6] for i in range(3000)],
        "s": [(None, "", "\0", "é" * 30 + str(i % 9), "x" * 100, "\U0001f600")[i % 6] for i in range(3000)],
        "n": pyarrow.array([(None, i, 2**63 - 1)[i % 3] for i in range(3000)], pyarrow.timestamp("ns")),
        "d": pyarrow.array([(None, i, -700_000)[i % 3] for i in range(3000)], pyarrow.date32()),
        "m": pyarrow.array([Decimal(i) if i % 3 else None for i in range(3000)], pyarrow.decimal128(30, 2)), "nested": [{"a": i, "b": [i]} for i in range(3000)]}
    write(tmp_path / "t.parquet", columns, **options)
    reader, true = opened_files({"t": tmp_path / "t.parquet"}, {"t": ["id"]}), duckdb.connect()
    true.register("arrow", pyarrow.table(columns))
    true.execute("CREATE TABLE t AS SELECT * FROM arrow")
    for column in "fsnd":
        least = "f + 0" if column == "f" else column  # whichever of 0.0 and -0.0 comes first is the least
        for query in (f"SELECT {column}::VARCHAR, COUNT(*) FROM t GROUP BY {column} ORDER BY ALL", f"SELECT COUNT({column}), MIN({least})::VARCHAR, MAX({column})::VARCHAR FROM t",
                      f"SELECT id FROM t ORDER BY {column} DESC NULLS LAST, id LIMIT 20", f"SELECT COUNT(*) FROM t JOIN (SELECT {column} FROM t WHERE id < 9) AS u USING ({column})",
                      *(f"SELECT COUNT(*) FROM t WHERE {column} {sign} (SELECT {column} FROM t WHERE id = 1003)" for sign in ("=", ">", "<=", "<>"))):
            assert reader.rows(query) == true.execute(query).fetchall(), query
    reader.close()


def test_bloom_filters_that_deny_hide_no_row(tmp_path: Path) -> None:
    duckdb.sql("SELECT i AS id, 'ok' || (i % 50) AS s, (i % 50)::BIGINT AS n FROM range(4000) AS t(i)").write_parquet(str(tmp_path / "new"), row_group_size=2048)
    text = bytearray((tmp_path / "new").read_bytes())

    def alter(footer: dict[int, Any]) -> None:
        for column in ("s", "n"):
            for block in blocks(footer, column):
                block.pop(12)
                start, length = block[14][1], block[15][1]
                text[start + 20:start + length] = bytes(length - 20)

    altered(tmp_path / "new", tmp_path / "t.parquet", alter)
    footer = (tmp_path / "t.parquet").read_bytes()
    start = len((tmp_path / "new").read_bytes()) - 8 - struct.unpack("<I", (tmp_path / "new").read_bytes()[-8:-4])[0]
    (tmp_path / "t.parquet").write_bytes(bytes(text[:start]) + footer[start:])
    assert duckdb.sql(f"SELECT COUNT(*) FROM '{tmp_path}/t.parquet' WHERE n = 7").fetchall() == [(0,)]
    reader = opened_files({"t": tmp_path / "t.parquet"}, {"t": ["id"]})
    assert reader.rows("SELECT (SELECT COUNT(*) FROM t WHERE n = 7), (SELECT COUNT(*) FROM t WHERE s = 'ok7')") == [(80, 80)]


@pytest.mark.parametrize("part", ["year=2019' OR 1", "year=a%27b", "year=%2F..", "year=a=b", "year=a\nb", "year=\\1", "year=%00"])
@pytest.mark.parametrize("root", ["x", "e\u0301", "year=2018"])
def test_names_of_folders_are_values_and_nothing_else(root: str, part: str, tmp_path: Path) -> None:
    write(tmp_path / root / part / "a.parquet", {"id": [1]})
    value = part.partition("=")[2].replace("%27", "'").replace("%2F", "/").replace("%00", "\0")
    assert open_files([keyed(tmp_path / root, "id", types={"year": "VARCHAR"})]).rows("SELECT year FROM t") == [(value,)]


@pytest.mark.parametrize("name", ["it's", "a{b,c}", "a\\b", "a\nb", "%41", 'a"b', "a;b", "é"])
def test_odd_names_of_files_name_one_file(name: str, tmp_path: Path) -> None:
    write(tmp_path / f"{name}.parquet", {"id": [1]})
    for other in ("ab", "ac", "aA", "A"):
        write(tmp_path / f"{other}.parquet", {"id": [2]})
    assert opened_files({"t": tmp_path / f"{name}.parquet"}).rows("SELECT id FROM t") == [(1,)]


def test_a_file_with_two_names_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "t/a.parquet", {"id": [1, 2]})
    (tmp_path / "t/b.parquet").symlink_to("a.parquet")
    assert opened_files({"t": tmp_path / "t"}, {"t": ["id"]}).rows("SELECT COUNT(*) FROM t") == [(2,)]
    (tmp_path / "t/c.parquet").hardlink_to(tmp_path / "t/a.parquet")
    assert opened_files({"t": tmp_path / "t"}).rows("SELECT COUNT(*) FROM t") == [(2,)]


def test_files_with_columns_in_other_orders_or_without_rows_go_together(tmp_path: Path) -> None:
    write(tmp_path / "t/a.parquet", {"id": [1], "a": ["x"], "b": ["y"]})
    write(tmp_path / "t/b.parquet", {"b": ["y"], "id": [2], "a": pyarrow.array(["x"]).dictionary_encode()})
    write(tmp_path / "t/c.parquet", {"id": pyarrow.array([], pyarrow.int64()), "a": pyarrow.array([], pyarrow.string()), "b": pyarrow.array([], pyarrow.string())})
    assert opened_files({"t": tmp_path / "t"}, {"t": ["id"]}).rows("SELECT id, a, b FROM t ORDER BY id") == [(1, "x", "y"), (2, "x", "y")]


# -- neighbours: the same rows in memory and in files, with and without one person whose values are odd

ODD = """VALUES (1, 1.0, 'ada', DATE '2020-01-01', 5), (1, 1.0, 'ada', DATE '2020-01-01', 5), (2, 'nan'::DOUBLE, 'éva', DATE '9999-12-31', NULL),
(2, NULL, NULL, NULL, NULL), (2, -0.0, '', DATE '0001-01-01', 9223372036854775807), (2, 'inf'::DOUBLE, 'zoe', NULL, -9223372036854775808),
(3, 0.0, 'zoe', DATE '2020-01-02', 7), (NULL, 3.0, 'bob', DATE '2020-01-03', 7), (4, 1e300, 'bob', DATE '2020-01-03', 101)"""
ASKED = ("SELECT COUNT(*), COUNT(x), COUNT(s), SUM(n), AVG(x) FROM v", "SELECT COUNT(*) FROM v WHERE x > 0", "SELECT COUNT(*) FROM v WHERE NOT x <= 100",
         "SELECT COUNT(*) FROM v WHERE s >= 'b'", "SELECT COUNT(*) FROM v WHERE s IN ('bob', 'zoe') OR s IS NULL", "SELECT s, COUNT(*) FROM v GROUP BY s",
         "SELECT COUNT(*) FROM v WHERE d BETWEEN DATE '2020-01-01' AND DATE '2020-12-31'", "SELECT MAX(n), MIN(x) FROM v", "SELECT MEDIAN(x) FROM v",
         "SELECT COUNT(DISTINCT s), COUNT(DISTINCT id) FROM v", "SELECT SUM(t) FROM (SELECT id, SUM(n) AS t FROM v GROUP BY id) AS q",
         "SELECT COUNT(*) FROM v JOIN p USING (id) WHERE x IS NOT NULL", "SELECT COUNT(*) FROM v JOIN words USING (s)", "SELECT COUNT(*) FROM v WHERE n > 100 AND x < 1")
ODD_POLICY = policy_of("p", """
""", """
[tables.v]
foreign_keys = [{ columns = "id", references = "p(id)" }]
rows_per_entity = 3
[tables.v.columns]
id = {}
x = { bounds = [0, 100] }
s = { values = ["ada", "bob", "zoe"] }
d = { bounds = [2019-01-01, 2021-01-01] }
n = { bounds = [0, 100] }
[tables.words]
public = true
[tables.words.columns]
s = {}
w = {}
""", budget="main")
WORDS = "VALUES ('ada', 1), ('ada', 1), (NULL, 2), ('éva', 3), ('', 4)"  # a public table with NULL and with keys that repeat


@pytest.mark.parametrize("gone", [None, 1, 2, 3, 4])
def test_answers_over_files_are_those_in_memory_without_anybody(gone: int | None, tmp_path: Path) -> None:
    """In memory the neighbour laws are tested; so they hold over files where each answer is equal, on each of the neighbours."""
    keep = "TRUE" if gone is None else f"id IS DISTINCT FROM {gone}"
    tables = {"p": f"SELECT id::BIGINT AS id FROM range(1, 6) AS t(id) WHERE {keep}", "words": f"FROM ({WORDS}) AS t(s, w)",
              "v": f"SELECT id::BIGINT AS id, x::DOUBLE AS x, s, d, n::BIGINT AS n FROM ({ODD}) AS t(id, x, s, d, n) WHERE {keep}"}
    memory = duckdb.connect(config={"threads": 1})
    for name, query in tables.items():
        memory.execute(f"CREATE TABLE {name} AS {query}")
        rows = memory.sql(f"FROM {name}").to_arrow_table()
        write(tmp_path / f"{name}/0.parquet", dict(zip(rows.column_names, rows.columns, strict=True)), row_group_size=2)
    memory.execute("ALTER TABLE p ADD PRIMARY KEY (id)")
    attach_memory(memory)
    lock_down(memory)
    readers = [DuckReader(memory, "memory"), opened_files({name: tmp_path / name for name in tables}, {"p": ["id"]})]
    ledger = open_ledger(tmp_path)  # one salt
    sessions = [session_of(tmp_path, reader=reader, noise=Exact(), budget="main", policy=ODD_POLICY, at={"epsilon": 900}, ledger=ledger)
                for reader in readers]
    for text in ASKED:
        made, other = (released(text, session)[0] for session in sessions)
        assert str(made.rows) == str(other.rows), text  # as texts, so that NaN equals NaN
