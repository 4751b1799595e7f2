"""PEP 249, and what dpsql gives beside it."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
import threading
from collections.abc import Iterator
from copy import copy, deepcopy
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from support import worlds

import dpsql
from dpsql import dbapi, errors
from dpsql.answers.answer import Answer
from dpsql.answers.connection_html import connection_html
from dpsql.answers.display import half_width
from dpsql.dbapi import Connection
from dpsql.frozen import replace

GROUPED = "SELECT sex, COUNT(*) AS n, AVG(age) AS mean, MIN(born) AS first FROM people GROUP BY sex ORDER BY sex"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return worlds.project(tmp_path_factory.mktemp("project"), people=400)


@pytest.fixture
def connection(project: Path) -> Iterator[Connection]:
    with dpsql.connect(project / "people.duckdb", budget="person", analyst="ada", epsilon=1, delta=1e-6) as made:
        yield made


# -- the module

def test_the_module_says_what_it_is() -> None:
    for module in (dpsql, dbapi):
        assert module.apilevel == "2.0" and module.threadsafety == 2 and module.paramstyle == "qmark"
        assert callable(module.connect)


def test_the_module_makes_values_as_pep_249_wants() -> None:
    assert dpsql.Date(2020, 1, 31) == dt.date(2020, 1, 31) and dpsql.Timestamp(2020, 1, 31, 12, 5) == dt.datetime(2020, 1, 31, 12, 5)
    assert dpsql.Time(12, 5) == dt.time(12, 5) and dpsql.Binary(b"x") == b"x"
    moment = dt.datetime(2020, 1, 31, 12, 5)
    ticks = moment.timestamp()
    assert (dpsql.DateFromTicks(ticks), dpsql.TimeFromTicks(ticks), dpsql.TimestampFromTicks(ticks)) == (moment.date(), moment.time(), moment)


def test_exceptions_form_the_tree_of_pep_249() -> None:
    parents = {"InterfaceError": "Error", "DatabaseError": "Error", "DataError": "DatabaseError", "OperationalError": "DatabaseError",
               "IntegrityError": "DatabaseError", "InternalError": "DatabaseError", "ProgrammingError": "DatabaseError",
               "NotSupportedError": "DatabaseError", "Error": "Exception", "Warning": "Exception"}
    for name, parent in parents.items():
        made = getattr(errors, name)
        assert made is getattr(dpsql, name) is getattr(Connection, name)
        assert [base.__name__ for base in made.__bases__] == [parent]
    for name in ("SqlError", "PolicyError", "OptionError", "Unsupported", "BudgetExhausted", "LedgerError", "Incident"):
        assert issubclass(getattr(dpsql, name), dpsql.Error)


def test_type_objects_are_equal_to_the_codes_of_their_kind(connection: Connection) -> None:
    cursor = connection.execute(GROUPED)
    codes = [column[1] for column in cursor.description or ()]
    assert codes == [dpsql.STRING, dpsql.NUMBER, dpsql.NUMBER, dpsql.DATETIME]
    assert codes[0] != dpsql.NUMBER and dpsql.STRING != dpsql.NUMBER and codes[0] not in (dpsql.BINARY, dpsql.ROWID)
    assert len({dpsql.STRING, dpsql.NUMBER, dpsql.DATETIME}) == 3


# -- cursors

def test_a_cursor_before_anything_was_asked(connection: Connection) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.arraysize, cursor.connection) == (None, -1, 1, connection)
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.df, cursor.arrow, lambda: cursor.errors, lambda: cursor.cost):
        with pytest.raises(dpsql.InterfaceError):
            fetch()


def test_rows_are_fetched_one_after_another(connection: Connection) -> None:
    cursor = connection.execute(GROUPED)
    assert cursor.rowcount == 3
    assert [len(column) for column in cursor.description or ()] == [7] * 4
    assert [column[0] for column in cursor.description or ()] == ["sex", "n", "mean", "first"]
    first = cursor.fetchone()
    assert isinstance(first, tuple) and first[0] == "f" and isinstance(first[1], int) and isinstance(first[2], float)
    assert isinstance(first[3], dt.date)
    assert [row[0] for row in cursor.fetchmany()] == ["m"], "arraysize is one"
    assert [row[0] for row in cursor.fetchmany(5)] == [None]
    assert cursor.fetchone() is None and cursor.fetchmany(2) == [] == cursor.fetchall()
    assert [row[0] for row in connection.execute(GROUPED)] == ["f", "m", None]
    cursor = connection.execute(GROUPED)
    cursor.arraysize = 2
    assert len(cursor.fetchmany()) == 2 and len(cursor.fetchall()) == 1


def test_a_failed_statement_leaves_no_result_behind(connection: Connection) -> None:
    cursor = connection.execute(GROUPED)
    with pytest.raises(dpsql.SqlError):
        cursor.execute("SELECT COUNT(*) FROM nowhere")
    assert cursor.description is None and cursor.rowcount == -1 and cursor.answer is None
    with pytest.raises(dpsql.InterfaceError):
        cursor.fetchall()


def test_executemany_asks_for_each_set_of_parameters(connection: Connection) -> None:
    cursor = connection.cursor().executemany("SELECT COUNT(*) FROM people WHERE age > ?", [[10], [90]])
    rows = cursor.fetchall()
    assert cursor.rowcount == 2 and len(rows) == 2 and rows[0][0] > rows[1][0]
    assert connection.cursor().executemany("SELECT COUNT(*) FROM people WHERE age > ?", [[90]]).fetchall() == rows[1:]
    with pytest.raises(dpsql.ProgrammingError):
        connection.cursor().executemany("SELECT COUNT(*) FROM people WHERE age > ?", [[1, 2]])
    for wrong in ([1], None, 5, "ab", {"a": 1}):
        with pytest.raises(dpsql.ProgrammingError):
            connection.cursor().executemany("SELECT COUNT(*) FROM people WHERE age > ?", wrong)  # type: ignore[arg-type]


def test_executemany_keeps_errors_beside_all_rows(connection: Connection) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM people WHERE age > ? GROUP BY sex ORDER BY sex"
    cursor = connection.cursor().executemany(sql, ([least] for least in (11, 12)))
    assert len(cursor.errors) == len(cursor.intervals) == cursor.rowcount == 6
    assert cursor.cost == "2 times ε = 1" and list(cursor.df(errors=True)["n_error"]) == [row[1] for row in cursor.errors]
    again = connection.cursor().executemany(sql, [[12], [13]])
    assert again.cost == "ε = 1" and again.fetchmany(3) == cursor.fetchall()[3:]


def test_executemany_of_nothing_has_no_rows(connection: Connection) -> None:
    cursor = connection.execute(GROUPED)
    assert cursor.executemany("SELECT COUNT(*) FROM people WHERE age > ?", []).fetchall() == []
    assert (cursor.rowcount, cursor.description, cursor.answer) == (0, None, None)
    cursor.close()
    with pytest.raises(dpsql.InterfaceError):
        cursor.executemany("SELECT COUNT(*) FROM people WHERE age > ?", [])


@pytest.mark.parametrize("size", [-1, "2", 1.5, True])
def test_a_number_of_rows_is_a_whole_number(size: object, connection: Connection) -> None:
    cursor = connection.execute(GROUPED)
    with pytest.raises(dpsql.ProgrammingError):
        cursor.fetchmany(size)  # type: ignore[arg-type]
    cursor.arraysize = size  # type: ignore[assignment]
    with pytest.raises(dpsql.ProgrammingError):
        cursor.fetchmany()
    assert len(cursor.fetchall()) == 3, "no row was lost"


def test_a_cursor_is_its_own_iterator(connection: Connection) -> None:
    cursor = connection.execute(GROUPED)
    assert iter(cursor) is cursor and next(cursor)[0] == "f" and [row[0] for row in cursor] == ["m", None]
    with pytest.raises(StopIteration):
        next(cursor)


def test_a_program_may_connect_several_times(project: Path) -> None:
    """Two analysts, and the cell of a notebook that is run again."""
    counts = [dpsql.connect(project / "people.duckdb", budget="person", analyst=name, epsilon=1) for name in ("eve", "fay", "eve")]
    rows = [made.execute("SELECT COUNT(*) FROM people WHERE age > 8").fetchall() for made in counts]
    assert rows[0] == rows[2], "the second time eve is given the stored answer"
    for made in counts:
        made.close()


def test_threads_share_a_connection(project: Path) -> None:
    """Statements of one connection take turns: none fails, none is charged twice, and every thread gets its own answer."""
    found: dict[int, object] = {}

    def ask(number: int) -> None:
        try:
            rows = shared.execute(f"SELECT COUNT(*) FROM people WHERE age > {number % 4}").fetchall()
            assert shared.explain(GROUPED).cost and shared.budget().statements > 0
            found[number] = rows
        except BaseException as fault:
            found[number] = fault

    with dpsql.connect(project / "people.duckdb", budget="person", analyst="threads", epsilon=1) as shared:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(found[number] == found[number % 4] and isinstance(found[number], list) for number in range(12)), found
        assert len(shared.execute("SHOW RELEASES").fetchall()) == 4


def test_closed_cursors_and_connections_refuse(project: Path) -> None:
    connection = dpsql.connect(project / "people.duckdb", budget="person", epsilon=1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM clinics")
    for attempt in (cursor.fetchone, lambda: cursor.execute("SHOW BUDGET"), cursor.df, lambda: cursor.notes):
        with pytest.raises(dpsql.InterfaceError):
            attempt()
    cursor.close()
    other = connection.cursor()
    connection.close()
    connection.close()
    for attempt in (connection.cursor, connection.commit, connection.rollback, connection.budget, lambda: other.execute("SHOW BUDGET"),
                    lambda: connection.explain("SELECT COUNT(*) FROM people")):
        with pytest.raises(dpsql.InterfaceError):
            attempt()


def test_transactions_are_what_they_can_be(connection: Connection) -> None:
    connection.commit()
    before = connection.execute("SELECT COUNT(*) FROM people WHERE age > 11").fetchall()
    connection.rollback()
    again = connection.sql("SELECT COUNT(*) FROM people WHERE age > 11")
    assert again.fetchall() == before and again.answer is not None and again.answer.stored, "a charge is not taken back"
    cursor = connection.cursor()
    cursor.setinputsizes([1])
    cursor.setoutputsize(10)


@pytest.mark.parametrize("sql", [None, 3, b"SELECT 1", ["SELECT COUNT(*) FROM people"]])
def test_a_statement_is_a_text(sql: object, connection: Connection) -> None:
    for ask in (connection.execute, connection.explain):
        if ask == connection.execute or not isinstance(sql, list):  # a list is explained as a workload
            with pytest.raises(dpsql.ProgrammingError):
                ask(sql)  # type: ignore[arg-type]


def test_connections_are_not_copied(connection: Connection) -> None:
    for attempt in (lambda: pickle.dumps(connection), lambda: copy(connection), lambda: deepcopy(connection)):
        with pytest.raises(TypeError, match="cannot be copied"):
            attempt()


# -- beside PEP 249

def test_errors_intervals_cost_and_notes_are_beside_the_rows(connection: Connection) -> None:
    cursor = connection.execute("SELECT sex, COUNT(*) AS n, AVG(age) FROM people WHERE age > 1 GROUP BY sex ORDER BY sex")
    assert cursor.errors == cursor.answer.errors and all(row[0] is None and row[1] > 0 for row in cursor.errors)  # type: ignore[union-attr]
    for row, ends in zip(cursor.fetchall(), cursor.intervals, strict=True):
        assert ends[0] is None and ends[1] is not None and ends[1][0] < row[1] < ends[1][1]
    assert cursor.cost == "ε = 1" and cursor.notes == (
        "values are clamped to their bounds: age to [2, 100]",
        "rows with undeclared values of sex are not in any group")
    again = connection.execute("SELECT sex, COUNT(*) AS n, AVG(age) FROM people WHERE age > 1 GROUP BY sex ORDER BY sex")
    assert again.cost == "" and again.answer is not None and again.answer.stored


def test_frames_hold_rows_and_errors(connection: Connection) -> None:
    frame = connection.execute(GROUPED).df()
    assert list(frame.columns) == ["sex", "n", "mean", "first"] and len(frame) == 3
    wide = connection.execute(GROUPED).df(errors=True)
    assert list(wide.columns) == ["sex", "n", "n_error", "n_low", "n_high", "mean", "mean_error", "mean_low", "mean_high",
                                  "first", "first_error", "first_low", "first_high"]
    assert (wide["n_low"] < wide["n"]).all() and (wide["n"] < wide["n_high"]).all() and (wide["mean_error"] > 0).all()
    assert list(connection.execute("SELECT city, beds FROM clinics GROUP BY city, beds").df(errors=True).columns) == ["city", "beds"]
    assert all(isinstance(low, dt.date) and low <= first <= high for low, first, high in zip(
        wide["first_low"], wide["first"], wide["first_high"], strict=True)), "the ends of dates are dates"
    twins = connection.execute("SELECT COUNT(*) AS n, SUM(age) AS n FROM people").df(errors=True)
    assert list(twins.columns) == ["n", "n_error", "n_low", "n_high"] * 2


def test_tables_of_arrow_are_typed(connection: Connection) -> None:
    table = connection.execute(GROUPED).arrow()
    assert table.column_names == ["sex", "n", "mean", "first"] and table.num_rows == 3
    assert [field.type for field in table.schema] == [pa.string(), pa.int64(), pa.float64(), pa.date32()]
    empty = connection.execute(GROUPED + " LIMIT 0").arrow()
    assert empty.num_rows == 0 and [field.type for field in empty.schema] == [field.type for field in table.schema]
    assert pa.RecordBatchReader.from_stream(connection.execute(GROUPED)).read_all() == table
    kinds = connection.execute("SELECT COUNT(*) > 3 AS many, 'x' AS letter FROM people").arrow()
    assert [field.type for field in kinds.schema] == [pa.bool_(), pa.string()]


def test_polars_gets_typed_frames(connection: Connection) -> None:
    polars = pytest.importorskip("polars", reason="an extra")
    frame = connection.execute(GROUPED).pl()
    assert frame.columns == ["sex", "n", "mean", "first"] and frame.height == 3 and frame.schema["first"] == polars.Date


@pytest.mark.parametrize(("library", "wanted"), [("polars", "pl"), ("pyarrow", "arrow")])
def test_a_library_that_is_missing_is_named(library: str, wanted: str, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(dpsql.InterfaceError, match=r"is not installed\n    try pip install 'dpsql\[\w+\]'") as caught:
        getattr(connection.execute(GROUPED), wanted)()
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_answers_are_drawn(connection: Connection) -> None:
    drawn = connection.execute(GROUPED).plot()
    assert [chart.title for chart in drawn.charts] == ["n by sex", "mean by sex"]
    with pytest.raises(dpsql.InterfaceError):
        connection.execute("SHOW TABLES").plot()


def test_pandas_reads_from_a_connection(connection: Connection) -> None:
    with pytest.warns(UserWarning, match="SQLAlchemy"):  # pandas says this of every plain connection
        frame = pd.read_sql(GROUPED, connection)
    assert list(frame.columns) == ["sex", "n", "mean", "first"] and len(frame) == 3


def test_notebooks_show_a_table(connection: Connection) -> None:
    shown = connection.execute("SELECT sex, COUNT(*) AS \"<n>\" FROM people GROUP BY sex")._repr_html_()
    assert shown is not None and shown.startswith("<table>") and "&lt;n&gt;" in shown and "±" in shown
    listed, told = connection.execute("SHOW BUDGET")._repr_html_(), connection.execute("EXPLAIN PRIVACY " + GROUPED)._repr_html_()
    assert listed is not None and listed.startswith("<table>") and "ε = 1000" in listed
    assert told is not None and told.startswith("<pre>") and "&lt;" not in told.replace("&lt;=", "") and "cost" in told
    assert connection.explain(GROUPED)._repr_html_() == told
    assert connection.cursor()._repr_html_() is None


def test_notebooks_show_a_budget_and_what_may_be_asked(connection: Connection, project: Path) -> None:
    connection.execute("SELECT COUNT(*) FROM people WHERE age > 12")
    budget = connection.budget()
    for shown in (repr(budget), budget._repr_html_(), connection._repr_html_()):
        assert "Fraction" not in shown and "protects each person" in shown and "all analysts" in shown
        assert "spent" in shown and "more statements like the last (ε = 1)" in shown
    shown = connection._repr_html_()
    assert "names a row of people" in shown and "at most 3 rows of each person count" in shown and "public, free" in shown
    assert "secret" not in shown and "unlisted" not in shown and "A statement costs ε = 1" in shown
    catalog = connection.session.catalog
    odd = replace(catalog, tables={"<b>": replace(catalog.tables["people"], name="<b>")})
    assert "&lt;b&gt;" in connection_html(odd, budget, None) and "<b>" not in connection_html(odd, budget, None)
    with dpsql.connect(project / "people.duckdb", budget="person", analyst="bea", epsilon=1) as other:
        assert "bea asks" in other._repr_html_()
    assert "closed" in other._repr_html_()


def test_a_notebook_shows_an_error_in_a_few_lines(connection: Connection) -> None:
    with pytest.raises(dpsql.SqlError) as caught:
        connection.execute("SELECT AVG(incme)\nFROM people")
    assert caught.value._render_traceback_() == [
        "SqlError at line 1, column 12: there is no column incme", "    SELECT AVG(incme)", "               ^^^^^", "    try income"]


def test_explanations_and_listings_are_rows_too(connection: Connection) -> None:
    cursor = connection.execute("EXPLAIN PRIVACY " + GROUPED)
    assert cursor.explanation is not None and "\n".join(row[0] for row in cursor.fetchall()) == str(cursor.explanation)
    assert str(connection.explain(GROUPED)) == str(connection.explain("EXPLAIN PRIVACY " + GROUPED))
    with pytest.raises(dpsql.ProgrammingError):
        connection.explain("SHOW BUDGET")
    assert [column[0] for column in connection.execute("SHOW TABLES").description or ()][:2] == ["table", "kind"]
    for least in range(4):
        connection.execute(f"SELECT COUNT(*) FROM people WHERE age > {least}")
    listed = connection.execute("SHOW RELEASES").fetchall()
    assert all(row[2] == "ada" for row in listed) and len(listed) > 3
    assert connection.execute("DESCRIBE people").rowcount == 9
    (account,) = connection.budget().accounts
    total, incidents = connection.execute("SHOW BUDGET").fetchall()
    assert total[:2] == ("all", "ε = 1000, δ = 0.01") and ", ".join(total[-2:]) == account.left()
    assert incidents == ("ada", "3 incidents", "0", "3", "")


@pytest.mark.parametrize("sql", [
    "SELECT COUNT(*) FROM people WHERE age > 77", "SELECT sex, active, COUNT(*) FROM people GROUP BY CUBE (sex, active)"])
def test_an_explanation_tells_that_a_statement_was_answered(sql: str, connection: Connection) -> None:
    before = connection.explain(sql)
    assert not before.stored and f"cost    {before.cost}" in str(before)
    paid = connection.execute(sql).cost
    after = connection.explain(sql)
    assert after.stored and after.cost == before.cost == paid and "cost    nothing, as it was answered before" in str(after)
    assert connection.execute(sql).cost == ""
    assert not connection.explain(sql.replace("people", "people AS p JOIN clinics AS c ON TRUE")).stored


def test_an_answer_is_a_value_that_can_be_kept(connection: Connection) -> None:
    made = connection.execute(GROUPED).answer
    assert isinstance(made, Answer) and pickle.loads(pickle.dumps(made)) == made


# -- connecting

@pytest.mark.parametrize(("given", "kind"), [
    ({"budget": "nobody"}, dpsql.OptionError), ({}, dpsql.OptionError), ({"budget": "person", "epsilon": 0}, dpsql.OptionError),
    ({"budget": "person", "epsilon": float("nan")}, dpsql.OptionError), ({"budget": "person", "epsilon": True}, dpsql.OptionError),
    ({"budget": "person", "epsilon": "1"}, dpsql.OptionError), ({"budget": "person", "epsilon": 1, "rho": 1}, dpsql.OptionError),
    ({"budget": "person", "delta": 1e-6}, dpsql.OptionError), ({"budget": "person", "confidence": 1}, dpsql.OptionError),
    ({"budget": "person", "confidence": 95}, dpsql.OptionError), ({"budget": "person", "analyst": ""}, dpsql.OptionError),
    ({"budget": "person", "analyst": "a\nb"}, dpsql.OptionError), ({"budget": "person", "policy": "none.toml"}, dpsql.Error),
    ({"budget": "person", "ledger": "none.ledger"}, dpsql.LedgerError)])
def test_connecting_with_what_cannot_be_is_refused(given: dict[str, object], kind: type[Exception], project: Path) -> None:
    with pytest.raises(kind):
        dpsql.connect(project / "people.duckdb", **given)  # type: ignore[arg-type]


def test_a_database_that_is_not_there_is_refused(project: Path) -> None:
    with pytest.raises(dpsql.OperationalError):
        dpsql.connect(project / "other.duckdb", policy=project / "dpsql.toml", budget="person")


def test_the_confidence_of_a_connection_is_that_of_its_intervals(project: Path) -> None:
    made = []
    for confidence in (0.5, 0.999):
        with dpsql.connect(project / "people.duckdb", budget="person", epsilon=1, confidence=confidence) as connection:
            cursor = connection.execute("SELECT SUM(age) FROM people WHERE age > 7")
            made.append(half_width(cursor.answer.intervals[0][0]))  # type: ignore[union-attr]
    assert made[0] is not None and made[1] is not None and made[1] > 3 * made[0]
