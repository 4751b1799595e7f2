"""Metadata of SmartNoise SQL as a policy: what is carried over, what becomes a comment, and where mistakes are."""

from __future__ import annotations

import sys

import pytest

from dpsql.catalog.model import ColumnPolicy, Entity
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.catalog.smartnoise import FLAGS, OPTIONS, imported
from dpsql.errors import OperationalError, PolicyError
from dpsql.trusted.declarations.tables import ForeignKey, TableSchema

pytest.importorskip("yaml", reason="PyYAML, which reads the metadata, is an extra")

PUMS = """\
'':
  PUMS:
    PUMS:
      max_ids: 1
      rows: 1000
      rows_exact: 1000
      censor_dims: false
      clamp_counts: true
      clamp_columns: true
      sample_max_ids: false
      use_dpsu: true
      age: {type: int, lower: 0, upper: 100, nullable: false}
      sex: {type: string, cardinality: 2}
      income: {type: int, lower: 0, upper: 500000, missing_value: 0, sensitivity: 5}
      weight: {type: float, lower: -0.5, upper: 200}
      height: {type: float, lower: 0}
      married: {type: boolean}
      born: {type: datetime, lower: 0, upper: 1}
      photo: {type: unknown}
      "blood group": {type: string, colour: red}
      pid: {type: int, private_id: True}
    PUMS_LONG:
      max_ids: 3
      PID: {type: int, private_id: true}
      visits: {type: int, lower: 0, upper: 999}
      sales: {type: int, lower: 0, upper: 1000}
engine: postgres
"""


def around(text: str, header: str) -> str:
    """The comments and lines of one section, joined."""
    return " ".join(text.split(f"\n{header}\n")[1].split("\n[")[0].replace("#", " ").split())


def test_what_is_carried_over() -> None:
    policy = parse_policy(imported(PUMS, database="pums.duckdb"))
    assert policy.database == "pums.duckdb"
    assert policy.entities == {"person": Entity(name="person", table="PUMS", key="pid")}
    assert {name: budget.entity for name, budget in policy.budgets.items()} == {"main": "person"}
    pums, long = policy.tables["PUMS"], policy.tables["PUMS_LONG"]
    assert (pums.rows_per_entity, long.rows_per_entity) == ({"person": 1}, {"person": 3})
    assert (pums.public, long.public) == (False, False)
    assert long.foreign_keys == (ForeignKey(columns=("PID",), table="PUMS", references=("pid",)),)
    assert pums.columns == {
        "age": ColumnPolicy(name="age", bounds=(0, 100), complete=True, nullable=False), "sex": ColumnPolicy(name="sex"),
        "income": ColumnPolicy(name="income", bounds=(0, 500000)), "weight": ColumnPolicy(name="weight", bounds=(-0.5, 200)),
        "height": ColumnPolicy(name="height"), "married": ColumnPolicy(name="married"), "born": ColumnPolicy(name="born"),
        "blood group": ColumnPolicy(name="blood group"), "pid": ColumnPolicy(name="pid")}
    assert long.columns["visits"].complete and not long.columns["sales"].complete


def test_the_policy_fits_the_database() -> None:
    schema = {
        "PUMS": TableSchema(columns=(
            ("age", "INTEGER"), ("sex", "VARCHAR"), ("income", "BIGINT"), ("weight", "DOUBLE"), ("height", "FLOAT"),
            ("married", "BOOLEAN"), ("born", "TIMESTAMP"), ("photo", "BLOB"), ("blood group", "VARCHAR"), ("pid", "INTEGER"))),
        "PUMS_LONG": TableSchema(columns=(("pid", "INTEGER"), ("visits", "INTEGER"), ("sales", "INTEGER")))}
    catalog = fit(parse_policy(imported(PUMS)), "main", schema, lambda *_: [])
    assert {name: (table.owner.column, table.rows) for name, table in catalog.tables.items() if table.owner is not None} == {
        "PUMS": ("pid", 1), "PUMS_LONG": ("PID", 3)}
    assert not catalog.outside and catalog.hidden["PUMS"] == {"photo"}


def test_what_has_no_counterpart_becomes_a_comment_at_its_place() -> None:
    text = imported(PUMS)
    table, columns = around(text, "[tables.PUMS]"), text.splitlines()
    for option in ("rows is left out", "rows_exact is left out", "censor_dims = false has no counterpart", "clamp_counts",
                   "clamp_columns", "sample_max_ids = false has no counterpart", "use_dpsu", "In schema PUMS there"):
        assert option in table
    assert "1000" not in table  # a number of rows is private here
    notes = {line.split(" = ")[0].strip("# "): line.split("}")[-1] for line in columns if " = {" in line and "#" in line}
    assert "cardinality" in notes["sex"]
    assert "COALESCE(income, 0)" in notes["income"] and "sensitivity" in notes["income"]
    assert "lower = 0 alone" in notes["height"]
    assert "lower and upper left out" in notes["born"]
    assert "its type is unknown" in notes["photo"]
    assert "colour left out" in notes['"blood group"']
    assert "private_id" in notes["pid"]
    assert "engine: postgres is left out" in text


@pytest.mark.parametrize(("option", "given"), [
    *((option, "false") for option in FLAGS), *((option, "true") for option in FLAGS if option != "row_privacy"),
    *((option, "7") for option in OPTIONS if option not in FLAGS),
])
def test_no_option_of_a_table_is_lost(option: str, given: str) -> None:
    text = imported(f"a: {{b: {{t: {{{option}: {given}, id: {{type: int, private_id: true}}}}}}}}")
    if option not in ("row_privacy", "max_ids"):
        assert option in around(text, "[tables.t]")
    assert parse_policy(text).tables["t"].rows_per_entity == {"person": 7 if option == "max_ids" else 1}


ROWS = "a: {b: {visits: {row_privacy: true, max_ids: 4, row_id: {type: int}, cost: {type: float, lower: 0, upper: 9}}}}"


def test_row_privacy_needs_a_column_that_tells_rows_apart() -> None:
    with pytest.raises(PolicyError) as caught:
        imported(ROWS)
    fault = caught.value.as_dict()
    assert fault["code"] == "row-privacy"
    assert ROWS[fault["span"][0]:fault["span"][1]] == "true"
    assert "row_number() OVER () AS row_id" in fault["try"]
    policy = parse_policy(imported(ROWS, row_keys={"visits": "row_id"}))
    assert policy.entities == {"row_of_visits": Entity(name="row_of_visits", table="visits", key="row_id")}
    assert policy.tables["visits"].rows_per_entity == {"row_of_visits": 1}


def test_a_private_id_serves_as_the_row_key() -> None:
    text = imported(ROWS.replace("row_id: {type: int}", "row_id: {type: int, private_id: true}"))
    assert parse_policy(text).entities["row_of_visits"].key == "row_id"
    assert "must differ in every row" in text


@pytest.mark.parametrize(("row_keys", "says"), [
    ({"visits": "cots"}, "there is no column cots"), ({"visit": "cost"}, "there is no table visit"),
])
def test_a_wrong_row_key(row_keys: dict[str, str], says: str) -> None:
    with pytest.raises(PolicyError, match=says) as caught:
        imported(ROWS.replace("row_id: {type: int}", "row_id: {type: int, private_id: true}"), row_keys=row_keys)
    assert caught.value.try_ in ("cost", "visits")


def test_a_row_key_without_row_privacy() -> None:
    with pytest.raises(PolicyError, match="not row_privacy"):
        imported("a: {b: {t: {id: {type: int, private_id: true}}}}", row_keys={"t": "id"})


def test_two_kinds_of_entities() -> None:
    text = imported("a: {b: {t: {user_id: {type: int, private_id: true}}, "
                    "u: {max_ids: 2, firm_id: {type: int, private_id: true}}, v: {x: {type: int}}}}")
    policy = parse_policy(text)
    assert {name: (entity.table, entity.key) for name, entity in policy.entities.items()} == {
        "user": ("t", "user_id"), "firm": ("u", "firm_id")}
    assert {name: budget.entity for name, budget in policy.budgets.items()} == {"user": "user", "firm": "firm"}
    assert policy.tables["u"].rows_per_entity == {"firm": 2}
    assert "what is spent on them adds up" in " ".join(text.replace("#", " ").split())
    assert "cannot be queried" in around(text, "[tables.v]")


def test_merged_and_shared_parts_of_yaml() -> None:
    text = imported("""
a:
  b:
    t:
      id: {type: int, private_id: true}
      x: &number {type: int, lower: 0, upper: 10}
      y: {<<: *number, upper: 20}
      z: *number
""")
    bounds = {name: column.bounds for name, column in parse_policy(text).tables["t"].columns.items()}
    assert bounds == {"id": None, "x": (0, 10), "y": (0, 20), "z": (0, 10)}


def test_names_are_taken_as_written() -> None:
    text = imported("a: {b: {t: {on: {type: boolean}, 12: {type: int}, id: {type: int, private_id: true}}}}")
    assert set(parse_policy(text).tables["t"].columns) == {"on", "12", "id"}


def test_comments_keep_to_their_lines() -> None:
    text = imported('a: {"b\\n[tables.t]\\npublic = true": {t: {id: {type: int, private_id: true, '
                    'missing_value: "x\\npublic = true", "k\\nq = 1": 2}}}}')
    assert not parse_policy(text).tables["t"].public


# `§` stands before and after the place of the mistake.
MISTAKES = {
    "number-for-mapping": ("a: §1§", "must be a mapping of schema names"),
    "no-columns": ("a: {b: {t: §{}§}}", "must be a mapping of columns"),
    "two-databases": ("§a: {b: {}}\nc: {d: {}}§", "one database is expected"),
    "type-missing": ("a: {b: {t: {x: §{lower: 0}§}}}", "type is missing"),
    "type-unknown": ("a: {b: {t: {x: {type: §integer§}}}}", "this type is unknown"),
    "option-misspelt": ("a: {b: {t: {max_id: §3§, x: {type: int}}}}", "misspelt option"),
    "flag-text": ("a: {b: {t: {censor_dims: §'no way'§, x: {type: int}}}}", "must be true or false"),
    "private-id-number": ("a: {b: {t: {x: {type: int, private_id: §1§}}}}", "must be true or false"),
    "nullable-text": ("a: {b: {t: {x: {type: int, nullable: §maybe§}}}}", "must be true or false"),
    "max-ids-zero": ("a: {b: {t: {max_ids: §0§, x: {type: int}}}}", "from 1 to 1000000"),
    "max-ids-true": ("a: {b: {t: {max_ids: §true§, x: {type: int}}}}", "from 1 to 1000000"),
    "max-ids-fraction": ("a: {b: {t: {max_ids: §1.5§, x: {type: int}}}}", "from 1 to 1000000"),
    "two-ids": ("a: {b: {t: {x: {type: int, private_id: true}, y: §{type: int, private_id: true}§}}}", "x is the private_id"),
    "no-id": ("a: §{b: {t: {x: {type: int}}}}§", "not known who is protected"),
    "reversed": ("a: {b: {t: {x: {type: int, lower: 5, upper: §2§}}}}", "upper is below lower"),
    "nan": ("a: {b: {t: {x: {type: float, lower: §.nan§}}}}", "finite"),
    "infinite": ("a: {b: {t: {x: {type: float, upper: §.inf§}}}}", "finite"),
    "huge": ("a: {b: {t: {x: {type: float, upper: §1.0e+300§}}}}", "finite"),
    "true-bound": ("a: {b: {t: {x: {type: int, upper: §yes§}}}}", "finite number"),
    "text-bound": ("a: {b: {t: {x: {type: int, upper: §ten§}}}}", "finite number"),
    "list-bound": ("a: {b: {t: {x: {type: int, upper: §[1]§}}}}", "single value"),
    "date-bound": ("a: {b: {t: {x: {type: int, upper: §2020-13-45§}}}}", "cannot be read"),
    "fraction-of-int": ("a: {b: {t: {x: {type: int, upper: §1.5§}}}}", "whole numbers"),
    "column-twice": ("a: {b: {t: {x: {type: int}, §X§: {type: int}}}}", "twice"),
    "table-twice": ("a: {b: {t: {x: {type: int}}}, c: {T: §{x: {type: int}}§}}", "another schema has a table of this name"),
    "table-name": ("a: {b: {\"my\\ttable\": §{x: {type: int}}§}}", "visible characters"),
    "list-name": ("a: {b: {t: {§[x]§: {type: int}}}}", "single value"),
    "foreign-tag": ("a: {b: {t: {x: {type: §!!python/name:os.system ''§}}}}", "cannot be read"),
    "bad-merge": ("a: {b: {t: {x: §{<<: 5, type: int}§}}}", "merge"),
}


@pytest.mark.parametrize(("marked", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_located(marked: str, says: str) -> None:
    before, fault, after = marked.split("§")
    with pytest.raises(PolicyError) as caught:
        imported(before + fault + after, source="meta.yaml")
    span = caught.value.span
    assert says in caught.value.reason
    assert span is not None
    assert (before + fault + after)[span.start:span.end].rstrip() == fault
    assert "of meta.yaml" in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "a: *b", "\x00", "a: b: c", "\t- x", "[" * 3000, "a: {<<: &x {<<: *x}}"])
def test_what_is_no_yaml_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(PolicyError):
        imported(text)


def test_entities_are_named_by_columns_of_any_name() -> None:
    policy = parse_policy(imported("a: {b: {t: {'my (id)': {type: int, private_id: true}}, u: {'my (id)': {type: int, private_id: true}}}}"))
    assert policy.entities["person"].key == "my (id)"
    assert policy.tables["u"].foreign_keys[0].references == ("my (id)",)


def test_empty_metadata() -> None:
    with pytest.raises(PolicyError, match="empty"):
        imported("# nothing\n")


def test_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(OperationalError) as caught:
        imported(PUMS)
    assert caught.value.code == "no-pyyaml"
    assert "dpsql[smartnoise]" in caught.value.try_
