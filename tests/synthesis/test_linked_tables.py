"""CREATE SYNTHETIC TABLES: tables that hang together, from the text to joins of what was drawn."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from oracle.moves import LAWS, View

import dpsql
from dpsql import cli
from dpsql.engine.synthesizing_linked import linked_synthesis
from dpsql.sql.text.parse import parse
from dpsql.synthesis import doubtful_nulls
from dpsql.synthesis.released_database import ReleasedDatabase, database_of_json
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """version = 1
[entities.owner]
table = "owners"
key = "id"
[tables.owners]
key = "id"
source = "owners.parquet"
[tables.owners.columns]
id = {}
region = { range = [0, 3], nullable = false }
rich = { nullable = false }
[tables.visits]
key = ["owner", "year"]
source = "visits.parquet"
foreign_keys = [{ columns = "owner", references = "owners(id)" }]
rows_per_entity = 4
[tables.visits.columns]
owner = {}
year = { range = [1, 5], nullable = false }
kind = { values = ["a", "b", "c"] }
cost = { bounds = [0, 100], nullable = false }
[tables.pets]
key = "pet"
source = "pets.parquet"
foreign_keys = [{ columns = "owner", references = "owners(id)" }]
rows_per_entity = 3
[tables.pets.columns]
pet = {}
owner = {}
size = { range = [1, 4], nullable = false }
name = {}
[tables.bites]
source = "bites.parquet"
foreign_keys = [{ columns = "pet", references = "pets(pet)" }]
rows_per_entity = 4
[tables.bites.columns]
pet = {}
deep = { nullable = false }
[tables.letters]
source = "letters.parquet"
foreign_keys = [{ columns = "owner", references = "owners(id)" }]
[tables.letters.columns]
owner = {}
long = { nullable = false }
code = { like = "[A-Z]{3}-[0-9]{2}" }
[tables.plain]
public = true
source = "plain.parquet"
[tables.plain.columns]
x = {}
[budgets.all]
entity = "owner"
rho = 800
"""
OWNERS, VISITS = "owners_syn AS SELECT id, region, rich FROM owners", "visits_syn AS SELECT owner, year, kind, cost FROM visits"
PETS, BITES = "pets_syn AS SELECT pet, owner, size FROM pets", "bites_syn AS SELECT pet, deep FROM bites"
MAKE = f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 0.5, bins = 4)"


def world(folder: Path, number: int = 900) -> Path:
    """Owners in regions; visits of the owner's own kind mostly, which depends on the region; pets as large as each other; bites."""
    draws = np.random.default_rng(11)
    region = draws.integers(0, 4, number)
    habit = np.where(draws.random(number) < 0.7, region % 3, draws.integers(0, 3, number))
    rows = np.minimum(draws.integers(0, 5, number), 1 + region)
    owner = np.repeat(np.arange(number), rows)
    year = np.concatenate([np.sort(draws.choice(5, count, replace=False)) + 1 for count in rows])
    kind = np.where(draws.random(len(owner)) < 0.9, habit[owner], draws.integers(0, 3, len(owner)))
    texts: list[str | None] = ["a", "b", "c"]
    pets = np.repeat(np.arange(number), draws.integers(0, 4, number))
    size = 1 + (habit[pets] + (draws.random(len(pets)) < 0.2)) % 4
    bitten = np.repeat(np.arange(len(pets)), size // 2)
    frames = {"owners": {"id": np.arange(number), "region": region, "rich": draws.random(number) < 0.2 + 0.2 * region},
              "visits": {"owner": owner, "year": year, "kind": [texts[at] if draws.random() < 0.95 else None for at in kind],
                         "cost": 30.0 * kind + draws.random(len(owner)) * 20},
              "pets": {"pet": np.arange(len(pets)), "owner": pets, "size": size, "name": [f"pet {at}" for at in range(len(pets))]},
              "bites": {"pet": bitten, "deep": draws.random(len(bitten)) < 0.3},
              "letters": {"owner": owner, "long": draws.random(len(owner)) < 0.5, "code": [f"secret {at}" for at in owner]}, "plain": {"x": [1, 2]}}
    for name, columns in frames.items():
        pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet")
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world(tmp_path_factory.mktemp("linked"))


def opened(place: Path, folder: Path) -> dpsql.Connection:
    ledger = folder / "test.ledger"
    if not ledger.exists():
        Ledger.create(ledger, None).close()
    return dpsql.connect(policy=place / "dpsql.toml", analyst="ada", ledger=ledger)


@pytest.fixture
def connection(place: Path, tmp_path: Path) -> Iterator[dpsql.Connection]:
    with opened(place, tmp_path) as made:
        yield made


def made_by(connection: dpsql.Connection, text: str = MAKE) -> ReleasedDatabase:
    database = connection.execute(text).database
    assert database is not None
    return database


def spent(connection: dpsql.Connection) -> list[str]:
    return [account.left_exactly() for account in connection.budget().accounts]


def shares(frame: pd.DataFrame, by: list[str]) -> pd.Series:
    return frame.groupby(by, dropna=False).size() / len(frame)


def apart(one: pd.DataFrame, other: pd.DataFrame, by: list[str]) -> float:
    return float(shares(one, by).sub(shares(other, by), fill_value=0).abs().sum() / 2)


def test_keys_agree_and_limits_hold(connection: dpsql.Connection) -> None:
    owners, visits = (table.df() for table in made_by(connection).tables)
    assert owners.id.tolist() == list(range(1, len(owners) + 1)) and set(visits.owner) <= set(owners.id)
    assert list(owners.columns) == ["id", "region", "rich"] and list(visits.columns) == ["owner", "year", "kind", "cost"]
    assert visits.owner.value_counts().max() <= 4 and not visits.duplicated(["owner", "year"]).any()
    assert visits.groupby("owner").year.is_monotonic_increasing.all() and set(visits.year) <= set(range(1, 6))
    assert visits.kind.isna().any() and visits.cost.between(0, 100).all() and abs(len(owners) - 900) < 60


def test_they_resemble_the_private_tables(connection: dpsql.Connection, place: Path) -> None:
    """Rows of one owner are alike, and follow the owner's region: independent tables would be farther off by several times."""
    owners, visits = (table.df() for table in made_by(connection, MAKE.replace("0.5", "100")).tables)
    truth = [pd.read_parquet(place / f"{name}.parquet") for name in ("owners", "visits")]
    joined = [many.merge(one, left_on="owner", right_on="id") for one, many in (truth, (owners, visits))]
    assert apart(*joined, ["region", "kind"]) < 0.06 < apart(joined[0], joined[1].assign(region=random.Random(1).sample(list(joined[1].region), len(joined[1]))), ["region", "kind"])
    after = [frame.sort_values(["owner", "year"]).assign(next=lambda rows: rows.groupby("owner").kind.shift(-1), last=lambda rows: ~rows.owner.duplicated(keep="last"))
             for frame in joined]
    pairs = [frame[~frame["last"]] for frame in after]
    mixed = pairs[0].assign(next=random.Random(1).sample(list(pairs[0].next), len(pairs[0])))
    assert apart(*pairs, ["kind", "next"]) < 0.14 < apart(mixed, pairs[0], ["kind", "next"])
    same = [float((frame.kind == frame.next).mean()) for frame in pairs]
    assert same[1] == pytest.approx(same[0], abs=0.06) and same[0] > 0.6
    rows = [one.assign(rows=one.id.map(many.owner.value_counts()).fillna(0)) for one, many in (truth, (owners, visits))]
    assert apart(*rows, ["region", "rows"]) < 0.06


def test_rows_below_are_compared_as_they_were_counted(connection: dpsql.Connection) -> None:
    """One later row of each owner was counted, however many there are, so the drawn ones of an owner share the weight of one. With
    a weight for each, kinds and costs would be off by 9 to 17 a cell, as owners of many rows have other kinds."""
    _, visits = made_by(connection, MAKE.replace("0.5", "100")).tables
    off = {each.columns: each.off for each in visits.marginals}
    assert off["visits_syn.kind",] + off["visits_syn.cost",] < 13


def other_world(folder: Path, *pairs: tuple[str, str]) -> dpsql.Connection:
    """The same rows under a changed policy."""
    folder.mkdir()
    world(folder)
    text = POLICY
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (folder / "dpsql.toml").write_text(text, encoding="utf-8")
    return opened(folder, folder)


def test_null_is_drawn_only_where_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that may be NULL and never are have none, in the top table, in first rows and in later ones; others keep theirs."""
    monkeypatch.setattr(doubtful_nulls, "SURE", 4)  # which noise alone reaches once in 30,000 times
    free = [(f"{column}, nullable = false", column) for column in ("region = { range = [0, 3]", "cost = { bounds = [0, 100]", "size = { range = [1, 4]")]
    with other_world(tmp_path / "free", *free) as connection:
        made = made_by(connection, f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS}, {PETS}, {BITES} OPTIONS (rho = 5, bins = 4)")
        owners, visits, pets, _ = (table.df() for table in made.tables)
    assert not owners.region.isna().any() and not visits.cost.isna().any() and not pets["size"].isna().any()
    assert visits.kind.isna().mean() == pytest.approx(0.05, abs=0.03)
    told = {table.name: [note for note in table.notes if "no NULL" in note] for table in made.tables}
    assert told["owners_syn"][0].startswith("no NULL is drawn in owners_syn.region: fewer were measured than 4 standard errors")
    assert told["visits_syn"][0].startswith("no NULL is drawn in visits_syn.cost") and told["pets_syn"] and not told["bites_syn"]


NAMED = "named AS SELECT name, pet, owner, size FROM pets"


def test_columns_of_linked_tables_may_be_made_up(connection: dpsql.Connection) -> None:
    """An option names them, perhaps with their table; the policy gives a pattern; nothing of them is measured."""
    text = (f"CREATE SYNTHETIC TABLES {OWNERS}, {NAMED}, l AS SELECT owner, code, long FROM letters "
            "OPTIONS (rho = 2, max_rows = 2, made_up = 'named.name LIKE [a-z]{4}')")
    told = str(connection.explain(text))
    assert "named.name is made up (texts like [a-z]{4})" in told and "l.code is made up (texts like [A-Z]{3}-[0-9]{2})" in told
    made = made_by(connection, text)
    owners, named, letters = (table.df() for table in made.tables)
    assert list(named.columns) == ["name", "pet", "owner", "size"] and list(letters.columns) == ["owner", "code", "long"]
    assert named.name.nunique() == len(named) and named.name.str.fullmatch("[a-z]{4}").all()
    assert letters.code.nunique() == len(letters) and letters.code.str.fullmatch("[A-Z]{3}-[0-9]{2}").all() and len(letters) > 100
    assert not {"named.name", "l.code"} & {column for table in made.tables for each in table.marginals for column in each.columns}
    assert set(named.owner) <= set(owners.id) and database_of_json(made.as_json()) == made
    with pytest.raises(dpsql.Error, match="there is a table owners_syn already"):
        connection.execute(text.replace("{4}", "{5}"))


def test_a_column_that_orders_rows_may_be_made_up(connection: dpsql.Connection) -> None:
    made = made_by(connection, f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, kind, year FROM visits OPTIONS (rho = 2, made_up = 'year')")
    assert made.table("v").df().year.tolist() == list(range(1, made.table("v").rows + 1))


RULES = """[tables.visits]
rules = ["kind IS NOT NULL", "cost >= 30 OR kind <> 'c'", "owner >= 0", "kind DETERMINES year", "year * 10 < cost + 45"]
"""


def test_rules_hold_in_linked_tables(tmp_path: Path) -> None:
    """Those of the policy, and those of the statement: in rows of the top table, in first rows, in later ones, and further below."""
    text = (f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS}, {PETS}, bites_syn AS SELECT pet, deep, TRUE AS yes FROM bites "
            "OPTIONS (rho = 5, bins = 4, rules = 'region < 2 OR rich; size + 0 <> 3; deep AND yes')")
    with other_world(tmp_path / "ruled", ("[tables.visits]\n", RULES)) as connection:
        told = str(connection.explain(text))
        assert "in every row of visits_syn: NOT kind IS NULL; cost >= 30 OR kind <> 'c'; year * 10 < cost + 45" in told
        assert "the rule owner >= 0 does not apply to visits_syn: keys" in told and "kind DETERMINES year does not apply to visits_syn" in told
        made = made_by(connection, text)
        owners, visits, pets, bites = (table.df() for table in made.tables)
    assert ((owners.region < 2) | owners.rich.astype(bool)).all() and (pets["size"] != 3).all() and bites.deep.all()
    assert not visits.kind.isna().any() and ((visits.cost >= 30) | (visits.kind != "c")).all() and (visits.year * 10 < visits.cost + 45).all()
    assert min(len(visits), len(pets), len(bites)) > 100 and not any("all the same" in note for note in made.notes)
    assert visits.groupby("owner").year.is_monotonic_increasing.all() and not visits.duplicated(["owner", "year"]).any()
    assert set(visits.owner) <= set(owners.id) and len(owners) == pytest.approx(900, abs=60)


def test_columns_may_follow_from_others_in_linked_tables(connection: dpsql.Connection, place: Path) -> None:
    """How is counted for a part of the price; conditions may be about such columns."""
    text = ("CREATE SYNTHETIC TABLES o AS SELECT id, region, rich, region % 2 = 0 AS even FROM owners, "
            "v AS SELECT CASE WHEN kind = 'a' THEN 'first' ELSE 'other' END AS code, owner, year, kind, cost FROM visits, "
            "b AS SELECT pet, deep, NOT deep AS flat FROM bites, p AS SELECT pet, owner, size FROM pets OPTIONS "
            "(rho = 20, bins = 4, rules = 'region DETERMINES even; kind DETERMINES code; deep DETERMINES flat; code = ''first'' OR cost > 5')")
    told = str(connection.explain(text))
    assert "region and even, of which one determines the other" in told and "pairs of v" in told and "pairs of b" in told
    made = made_by(connection, text)
    owners, visits, bites, _ = (table.df() for table in made.tables)
    assert list(visits.columns) == ["code", "owner", "year", "kind", "cost"] and len(visits) > 500 and len(bites) > 100
    assert (owners.even == (owners.region % 2 == 0)).all() and (bites.flat != bites.deep).all()
    assert (visits.code == np.where(visits.kind == "a", "first", "other")).all() and ((visits.code == "first") | (visits.cost > 5)).all()
    assert database_of_json(made.as_json()) == made
    with pytest.raises(dpsql.Error, match="the values of cost are not listed"):
        connection.explain(f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 1, rules = 'cost DETERMINES kind')")


def test_rows_that_no_draw_makes_obey_are_counted(connection: dpsql.Connection) -> None:
    made = made_by(connection, f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 5, bins = 4, rows = 50, rules = 'cost > 1000 OR year = 7')")
    visits = made.table("visits_syn")
    assert f"{visits.rows} rows of visits_syn break a rule all the same, as no draw obeyed it" in visits.notes


def test_joins_and_validation_read_them_like_public_tables(connection: dpsql.Connection) -> None:
    database = made_by(connection)
    owners, visits = (table.df() for table in database.tables)
    left = spent(connection)
    joined = visits.merge(owners, left_on="owner", right_on="id")
    found = connection.execute("SELECT o.region, COUNT(*), AVG(v.cost) FROM visits_syn AS v JOIN owners_syn AS o ON v.owner = o.id GROUP BY o.region").fetchall()
    assert {row[0]: row[1] for row in found if row[1]} == {**joined.region.value_counts()}
    assert sum(row[1] * (row[2] or 0) for row in found) == pytest.approx(joined.cost.sum())
    assert [row[0] for row in connection.execute("SHOW TABLES").fetchall()][-2:] == ["owners_syn", "visits_syn"]
    assert spent(connection) == left
    beside = connection.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 1) COUNT(*) FROM owners "
                                "WHERE region IN (SELECT region FROM owners_syn WHERE rich)").fetchall()
    assert beside[0][0] > 300
    checked = connection.execute("VALIDATE SELECT COUNT(*) FROM visits AS v JOIN owners AS o ON v.owner = o.id WHERE o.rich "
                                 "AGAINST owners_syn FOR owners, visits_syn FOR visits WITHIN 30 PERCENT OPTIONS (rho = 1)")
    assert checked.validation is not None and checked.validation.findings[0].decision == "yes"
    assert database.table("VISITS_SYN").parent is not None and database.table("visits_syn").key == ("owner", "year")
    assert connection.synthetic_table("visits_syn").df().equals(visits)


def test_one_charge_and_the_same_tables_again_for_nothing(connection: dpsql.Connection, place: Path, tmp_path: Path) -> None:
    before = spent(connection)
    first = made_by(connection)
    left = spent(connection)
    assert left != before and len(connection.execute("SHOW RELEASES").fetchall()) == 1
    assert made_by(connection) == first == database_of_json(first.as_json()) and spent(connection) == left
    with opened(place, tmp_path) as later:
        assert made_by(later) == first and later.execute("SELECT COUNT(*) FROM visits_syn").fetchall() == [(first.tables[1].rows,)]
    connection.execute("DROP SYNTHETIC TABLE visits_syn")
    assert [row[0] for row in connection.execute("SHOW TABLES").fetchall()][-1] == "owners_syn"
    assert made_by(connection) == first and spent(connection) == left
    assert connection.execute("SELECT COUNT(*) FROM visits_syn").fetchall() == [(first.tables[1].rows,)]
    with pytest.raises(dpsql.Error, match="there is a table OWNERS_SYN already"):
        connection.execute(MAKE.replace("owners_syn", "OWNERS_SYN").replace("visits_syn", "others"))


@pytest.mark.parametrize("method", ["aim", "mst"])
def test_brothers_and_grandchildren(connection: dpsql.Connection, place: Path, method: str) -> None:
    made = made_by(connection, f"CREATE SYNTHETIC TABLES {BITES}, {PETS}, {OWNERS}, {VISITS} OPTIONS (rho = 200, method = '{method}')")
    bites, pets, owners, visits = (table.df() for table in made.tables)
    assert [table.name for table in made.tables] == ["bites_syn", "pets_syn", "owners_syn", "visits_syn"]
    assert set(bites.pet) <= set(pets.pet) and set(pets.owner) <= set(owners.id) and set(visits.owner) <= set(owners.id)
    assert pets.pet.tolist() == list(range(1, len(pets) + 1)) and pets.owner.value_counts().max() <= 3
    bitten = [float(many.pet.map(one.set_index("pet")["size"]).mean()) for one, many in (
        (pets, bites), (pd.read_parquet(place / "pets.parquet"), pd.read_parquet(place / "bites.parquet")))]
    assert bitten[0] == pytest.approx(bitten[1], rel=0.1)
    assert [made.table(name).key for name in ("bites_syn", "pets_syn")] == [(), ("pet",)]
    sizes = pets.groupby("owner")["size"].apply(lambda rows: rows.is_monotonic_increasing)
    assert not sizes.all()  # their order is that of their key, not of their values


def test_conditions_expressions_and_stars(connection: dpsql.Connection) -> None:
    made = made_by(connection, "CREATE SYNTHETIC TABLES few AS SELECT region + 1 AS place, id AS number FROM owners WHERE rich, "
                   "more AS SELECT * FROM visits AS v WHERE v.year > 2 OPTIONS (rho = 2, bins = 4, rows = 50, method = 'independent')")
    few, more = (table.df() for table in made.tables)
    assert len(few) == 50 and list(few.columns) == ["place", "number"] and list(more.columns) == ["owner", "year", "kind", "cost"]
    assert more.owner.value_counts().max() <= 3 and set(more.year) <= {3, 4, 5} and not more.duplicated(["owner", "year"]).any()


@pytest.mark.parametrize("rho", [1e-5, 1e-3])
def test_at_a_low_price_columns_are_independent(connection: dpsql.Connection, rho: float) -> None:
    """Noise hides how columns depend on each other, in both views or in that of later rows alone."""
    owners, visits = (table.df() for table in made_by(connection, MAKE.replace("0.5", f"{rho}, rows = 100")).tables)
    assert len(owners) == 100 and set(visits.owner) <= set(owners.id)


@pytest.mark.parametrize("text", [
    MAKE, f"CREATE SYNTHETIC TABLES {OWNERS}, {PETS}, {BITES} OPTIONS (rho = 0.5)",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 0.5, bins = 4, rules = 'region DETERMINES rich; year DETERMINES kind; cost > 1')",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 0.5, rules = 'region DETERMINES rich; cost > 1')",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 20)"])
def test_requests_move_no_further_on_neighbours_than_they_cost(text: str, place: Path, tmp_path: Path) -> None:
    """The requests of the statement on the database without one owner, by the distances of the oracle; and all cost the price."""
    statement = parse(text)
    for folder in ("full", "less"):
        (tmp_path / folder).mkdir()
        world(tmp_path / folder, 120)
    for name, key in (("owners", "id"), ("visits", "owner"), ("pets", "owner"), ("letters", "owner")):
        frame = pd.read_parquet(tmp_path / "less" / f"{name}.parquet")
        gone = frame[frame[key] == 7]
        frame[frame[key] != 7].to_parquet(tmp_path / "less" / f"{name}.parquet")
        if name == "pets":
            bites = pd.read_parquet(tmp_path / "less" / "bites.parquet")
            bites[~bites.pet.isin(gone.pet)].to_parquet(tmp_path / "less" / "bites.parquet")
    with opened(tmp_path / "full", tmp_path) as one, opened(tmp_path / "less", tmp_path) as other:  # one ledger: one keyed hash
        planned = linked_synthesis(statement, one.session)
        kernel, steps, asked, cost = one.session.kernel, planned.bill().steps, [], planned.plan.price
        less = other.session.kernel
        left, context = cost, kernel._context()
        request = next(steps)
        spent_in_all, moved = [], 0.0
        try:
            while True:
                own, certificates, _ = kernel._certified(request)
                spent_in_all.append(own.cost(*certificates).rho)
                read, compare = LAWS[type(own)]
                for move in compare(own, certificates, read(own, certificates, View(kernel)), read(own, certificates, View(less))):
                    assert not move.broken, move
                    moved = max(moved, move.share)
                asked.append(own)
                request = steps.send(kernel._look(own, certificates, context))
        except StopIteration as done:
            assert len(done.value.tables) == len(planned.spans)
        assert moved > 0.5 and 0.99 * left.rho <= sum(spent_in_all) <= left.rho


MISTAKES = {
    f"CREATE SYNTHETIC TABLES {OWNERS}": "there is only one table",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {BITES}": "bites has no foreign key to another of these tables",
    f"CREATE SYNTHETIC TABLES {OWNERS}, other AS SELECT id, rich FROM owners": "two of these tables are made from owners",
    f"CREATE SYNTHETIC TABLES {OWNERS}, owners_syn AS SELECT owner, year FROM visits": "two tables are named owners_syn",
    f"CREATE SYNTHETIC TABLES {OWNERS}, visits AS SELECT owner, year FROM visits": "there is a table visits already",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT year, kind FROM visits": "v lacks owner, which names rows of owners_syn",
    f"CREATE SYNTHETIC TABLES o AS SELECT region FROM owners, {VISITS}": "o lacks id, by which rows of visits_syn name its rows",
    f"CREATE SYNTHETIC TABLES o AS SELECT id FROM owners, {VISITS}": "o has no columns besides keys",
    f"CREATE SYNTHETIC TABLES {OWNERS}, letters_syn AS SELECT owner, long FROM letters": "there is no limit on the rows of letters",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT x FROM plain": "these rows are public",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, COUNT(*) AS n FROM visits GROUP BY owner": "a row of one table",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, year FROM visits JOIN pets USING (owner)": "a row of one table",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, yeer FROM visits": "there is no column yeer",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, owner + 1 AS next FROM visits": "the values of next are not known",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 1, workload = 'all 2-way')": "a workload is for a single table",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 1, rules = 'age > 3')": "no table has all columns of rule 1: age > 3",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 1, rules = 'cost > 3 OR rich')": "no table has all columns of rule 1: cost > 3 OR rich",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 1, rules = 'cost')": "needs a condition",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 1, rules = 'year > 1; id > 3')": "rule 2 is about id, which is a key or made up",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, year AS region FROM visits OPTIONS (rho = 1, rules = 'region > 1')":
        "rule 1 may be about owners_syn and about v: region > 1",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {NAMED} OPTIONS (rho = 1, made_up = 'nmae LIKE a')": "none of the tables has a column nmae",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {NAMED} OPTIONS (rho = 1, made_up = 'name')": "name is a text, and has no pattern",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {NAMED} OPTIONS (rho = 1, made_up = 'pet')": "pet is a key, and keys are new numbers",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {NAMED} OPTIONS (rho = 1, made_up = 'name LIKE a; named.name LIKE b')": "named.name is made up twice",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {NAMED}, v AS SELECT owner, year AS name FROM visits OPTIONS (rho = 1, made_up = 'name')":
        "name is a column of named and of v",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, year FROM visits OPTIONS (rho = 1, made_up = 'year')":
        "v has no columns besides keys and columns that are made up",
    f"CREATE SYNTHETIC TABLES {OWNERS}, v AS SELECT owner, year FROM visits WHERE year > ?": "cannot have parameters",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 1, max_rows = 0)": "max_rows",
    f"CREATE SYNTHETIC TABLES {OWNERS}, {VISITS} OPTIONS (rho = 900)": "left",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_cost_nothing_and_are_located(connection: dpsql.Connection, text: str) -> None:
    left = spent(connection)
    with pytest.raises(dpsql.Error, match=MISTAKES[text]) as told:
        connection.execute(text if "OPTIONS" in text else f"{text} OPTIONS (rho = 1)")
    assert told.value.try_ and told.value.span is not None and spent(connection) == left
    assert len(connection.execute("SHOW TABLES").fetchall()) == 6


def test_a_limit_for_rows_that_have_none(connection: dpsql.Connection) -> None:
    made = made_by(connection, f"CREATE SYNTHETIC TABLES {OWNERS}, l AS SELECT owner, long FROM letters OPTIONS (rho = 1, max_rows = 2)")
    assert made.tables[1].df().owner.value_counts().max() == 2


def test_what_fails_after_the_charge_leaves_no_table(connection: dpsql.Connection) -> None:
    left = spent(connection)
    with patch("dpsql.synthesis.linked_draws.LinkedDraws.made", side_effect=ValueError("no")), pytest.raises(dpsql.Incident):
        connection.execute(MAKE)
    assert spent(connection) != left and len(connection.execute("SHOW TABLES").fetchall()) == 6


def test_explaining_tells_of_each_view_and_costs_nothing(connection: dpsql.Connection) -> None:
    left, told = spent(connection), str(connection.explain(MAKE))
    for part in ("owners_syn with first rows", "later rows of visits_syn", "ρ = 0.2", "ρ = 0.3", "cost    ρ = 0.5", "Keep at most 4 rows"):
        assert part in told
    assert spent(connection) == left


def test_in_python_and_in_the_shell(connection: dpsql.Connection, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = {"a": "SELECT id, region FROM owners", "b": "SELECT owner, year FROM visits"}
    made = connection.synthesize(queries, rho=1, rows=40)
    assert [table.name for table in made.tables] == ["a", "b"] and made.tables[0].rows == 40
    with pytest.raises(dpsql.Error, match="the dictionary gives the names"):
        connection.synthesize(queries, name="c", rho=1)  # type: ignore[call-overload]
    with pytest.raises(dpsql.Error, match="there is no query"):
        connection.synthesize({}, rho=1)
    with pytest.raises(KeyError):
        made.table("c")
    words = ["query", "--policy", str(place / "dpsql.toml"), "--ledger", str(tmp_path / "test.ledger"), "--analyst", "ada"]
    assert cli.main([*words, MAKE]) == 0
    assert "visits_syn: " in capsys.readouterr().out
