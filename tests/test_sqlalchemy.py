"""The dialect of SQLAlchemy: what it compiles is answered, what it reflects is the policy, and errors keep their place."""

from __future__ import annotations

import datetime as dt
import tomllib
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import worlds

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

sa = pytest.importorskip("sqlalchemy", reason="an extra")
from sqlalchemy import and_, case, cast, distinct, exc, func, or_, select, text  # noqa: E402

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    worlds.world(people=400).save(folder / "people.duckdb")
    (folder / "dpsql.toml").write_text('database = "people.duckdb"\n' + worlds.POLICY, encoding="utf-8")
    Ledger.create(folder / "dpsql.ledger").close()
    return folder / "dpsql.toml"


def engine_of(policy: Path, budget: str = "person", **terms: Any) -> Any:
    sa.dialects.registry.register("dpsql", "dpsql.sqlalchemy_dialect", "DpsqlDialect")  # as the entry point does
    return sa.create_engine(f"dpsql:///{policy}?budget={budget}&analyst=ada&epsilon=1&delta=1e-6", **terms)


@pytest.fixture(scope="module")
def engine(policy: Path) -> Iterator[Any]:
    made = engine_of(policy)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def tables(engine: Any) -> Any:
    found = sa.MetaData()
    found.reflect(engine)
    return found.tables


def test_the_entry_point_names_the_dialect() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["sqlalchemy.dialects"]
    (name, value), = points.items()
    assert EntryPoint(name, value, "sqlalchemy.dialects").load().name == "dpsql"


def test_reflection_gives_the_policy(policy: Path, tables: Any) -> None:
    assert set(tables) == {"people", "visits", "scores", "clinics"} and "secret" not in tables["people"].columns
    assert [column.name for column in tables["people"].primary_key] == ["person_id"] and not list(tables["clinics"].primary_key)
    (key,) = tables["visits"].foreign_keys
    assert key.target_fullname == "people.person_id" and not tables["people"].foreign_keys, "households are not of this budget"
    kinds = {column.name: type(column.type).__name__ for column in tables["people"].columns}
    assert kinds["age"] == "BIGINT" and kinds["income"] == "DOUBLE" and kinds["born"] == "DATE" and kinds["sex"] == "VARCHAR"
    assert not tables["people"].columns["age"].nullable and tables["people"].columns["income"].nullable
    other = engine_of(policy, "household")
    inspector = sa.inspect(other)
    assert [key["referred_table"] for key in inspector.get_foreign_keys("people")] == ["households"]
    assert inspector.has_table("households") and not inspector.has_table("unlisted") and inspector.get_table_names("main") == []
    with pytest.raises(exc.NoSuchTableError):
        inspector.get_columns("unlisted")
    other.dispose()


QUERIES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "groups": lambda p, v, c: select(p.c.sex, func.count()).group_by(p.c.sex).order_by(p.c.sex.desc()),
    "limits": lambda p, v, c: select(p.c.sex, func.avg(p.c.income)).group_by(p.c.sex).order_by(p.c.sex).limit(1).offset(1),
    "conditions": lambda p, v, c: select(func.count()).where(p.c.age.between(10, 30), p.c.sex.in_(["f", "m"]), p.c.active.is_(True)),
    "not in nothing": lambda p, v, c: select(func.count()).select_from(p).where(p.c.sex.not_in([])),
    "NULL": lambda p, v, c: select(func.count()).select_from(p).where(or_(p.c.sex.is_(None), p.c.age.is_distinct_from(3))),
    "a join": lambda p, v, c: select(func.count()).select_from(v.join(p)).where(and_(p.c.age > 5, ~p.c.active)),
    "a filter": lambda p, v, c: select(func.count().filter(p.c.age > 50), func.sum(p.c.age), func.count(distinct(p.c.person_id))),
    "whole division": lambda p, v, c: select((p.c.age // 10).label("d"), func.count()).group_by(p.c.age // 10),
    "division": lambda p, v, c: select(func.sum(p.c.income) / func.count()),
    "casts": lambda p, v, c: select(cast(p.c.age, sa.String).label("a"), func.sum(cast(p.c.income, sa.Integer))).group_by("a").limit(2),
    "CASE": lambda p, v, c: select(func.sum(case((p.c.age > 50, 1), else_=0))),
    "a subquery": lambda p, v, c: select(func.avg(select(v.c.person_id, func.sum(v.c.cost).label("t")).group_by(
        v.c.person_id).subquery().c.t)),
    "IN (SELECT ...)": lambda p, v, c: select(func.count()).select_from(p).where(p.c.person_id.in_(select(v.c.person_id))),
    "a quantile": lambda p, v, c: select(func.percentile_cont(0.5).within_group(p.c.age)),
    "dates": lambda p, v, c: select(func.count()).select_from(p).where(p.c.born >= dt.date(1980, 1, 1)),
    "parts of dates": lambda p, v, c: select(sa.extract("year", p.c.born).label("y"), func.count()).group_by("y").limit(2),
    "HAVING": lambda p, v, c: select(p.c.sex, func.count().label("n")).group_by(p.c.sex).having(func.count() > 10),
    "LIKE": lambda p, v, c: select(func.count()).select_from(p).where(or_(p.c.sex.like("f%"), p.c.sex.ilike("F"), p.c.sex.not_ilike("M"))),
    "parts of texts": lambda p, v, c: select(func.count()).select_from(p).where(or_(p.c.sex.contains("f"), ~p.c.sex.startswith("m"),
                                                                                    p.c.sex.iendswith("F", autoescape=True))),
    "units of time": lambda p, v, c: select(func.date_trunc("month", v.c.seen).label("m"), func.count()).group_by("m").fetch(2),
    "a public table": lambda p, v, c: select(c).limit(2),
    "names": lambda p, v, c: select(func.count().label("Mixed Case"), func.count().label("order")).select_from(p),
    "a price": lambda p, v, c: select(func.count()).select_from(p).prefix_with("WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1)"),
    "an accuracy": lambda p, v, c: select(p.c.sex, func.count()).group_by(p.c.sex).suffix_with("ERROR WITHIN 25")}


@pytest.mark.parametrize("kind", QUERIES)
def test_what_is_compiled_is_answered(kind: str, engine: Any, tables: Any) -> None:
    with engine.connect() as connection:
        query = QUERIES[kind](tables["people"], tables["visits"], tables["clinics"])
        assert connection.execute(query).fetchall()


@pytest.mark.parametrize(("word", "cities"), [("contains", {"os": 0, "sl": 2, "o": 3, "O_l": 2, "%": 3}), ("startswith", {"O": 2, "R": 1}),
                                                ("endswith", {"o": 2, "e": 1}), ("icontains", {"OS": 2}), ("istartswith", {"ro": 1})])
def test_patterns_are_what_they_say(word: str, cities: dict[str, int], engine: Any, tables: Any) -> None:
    """One compiled statement serves all values."""
    city = tables["clinics"].c.city
    with engine.connect() as connection:
        for text_, most in cities.items():
            assert connection.execute(select(func.count()).where(getattr(city, word)(text_))).scalar() == most
        if word == "contains":
            assert connection.execute(select(func.count()).where(city.contains("_", autoescape=True))).scalar() == 0
            assert connection.execute(select(func.count()).where(~city.contains("sl"))).scalar() == 1


def test_errors_stand_beside_the_rows(engine: Any) -> None:
    with engine.connect() as connection:
        result = connection.execute(text("SELECT COUNT(*) FROM people WHERE age > :least"), {"least": 3})
        assert result.cursor.cost == "ε = 1" and result.cursor.errors[0][0] > 0
        assert result.scalar() > 300
    with engine.connect() as connection, connection.begin():
        assert connection.execute(text("EXPLAIN PRIVACY SELECT COUNT(*) FROM people")).scalars().all()[0].startswith("plan")


def test_pandas_reads_without_a_warning(engine: Any, tables: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        people = tables["people"]
        frames = [pd.read_sql(select(func.count()).select_from(people).where(people.c.age > 3), engine),
                  pd.read_sql("SELECT COUNT(*) FROM people WHERE age > ?", engine, params=(3,)),
                  pd.read_sql(text("SELECT COUNT(*) FROM people WHERE age > :least"), engine, params={"least": 3})]
        assert all(frame.shape == (1, 1) for frame in frames)
        assert list(pd.read_sql_table("clinics", engine).columns) == ["clinic", "city", "beds"]


def test_errors_keep_their_place(engine: Any) -> None:
    with engine.connect() as connection, pytest.raises(exc.ProgrammingError) as caught:
        connection.execute(text("SELECT AVG(incme) FROM people"))
    assert isinstance(caught.value.orig, dpsql.SqlError) and caught.value.orig.span is not None
    assert "line 1, column 12" in str(caught.value) and "^^^^^" in str(caught.value) and "try income" in str(caught.value)
    with engine.connect() as connection, pytest.raises(exc.NotSupportedError):
        connection.execute(text("DELETE FROM people"))


def test_pools_return_test_and_replace_connections(policy: Path) -> None:
    engine = engine_of(policy, pool_pre_ping=True, pool_size=2)
    with engine.connect() as connection:
        first = connection.connection.driver_connection
        assert first.execute("SELECT COUNT(*) FROM clinics").fetchall()
    with engine.connect() as connection:
        assert connection.connection.driver_connection is first
    first.close()
    with engine.connect() as connection:
        assert connection.connection.driver_connection is not first and connection.execute(text("SHOW TABLES")).fetchall()
    engine.dispose()


@pytest.mark.parametrize("url", ["dpsql:///x.toml?bdget=main", "dpsql://ada@host/x.toml", "dpsql:///x.toml?epsilon=a",
                                 "dpsql:///x.toml?epsilon=1&epsilon=2"])
def test_a_url_that_is_wrong_is_refused(url: str, engine: Any) -> None:
    with pytest.raises(dpsql.OptionError, match="try"):
        sa.create_engine(url).connect()
