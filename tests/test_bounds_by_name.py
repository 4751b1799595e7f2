"""Every way of limiting what an entity adds, by its name: exact where noise is off and nothing binds, refused with a way out
where it cannot be used, and explained.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import OptionError
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.planning.explain import Explanation

PAIRS = "people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id"
OWN = "COUNT(*), SUM(points), AVG(points) FROM scores"
OPTIONS = {"reservoir": ", max_groups = 1", "bands": "", "rows": "", "clip": "", "balance": "", "r2t": "", "extension": ""}
BOTH = [name for name in OPTIONS if next(bound for bound in BOUNDS if bound.name == name).several]


def room(folder: Path, **more: object) -> Session:
    return session_of(folder, worlds.world(seed=5, people=40, most_visits=3), at={"epsilon": 900}, **more)  # type: ignore[arg-type]


def clipped(name: str, number: int) -> str:
    return f", clip = {number}" if name in ("reservoir", "extension") else ""


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(("text", "clip"), [("COUNT(*) FROM scores", 100), ("SUM(points) FROM scores", 1000),
                                            ("COUNT(points) FILTER (WHERE points > 0) FROM scores", 100)])
def test_sums_of_rows_of_one_owner_are_exact_without_noise(name: str, text: str, clip: int, tmp_path: Path) -> None:
    found = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = '{name}'{OPTIONS[name]}{clipped(name, clip)}) {text}",
                   room(tmp_path, noise=Exact()))
    connection = duckdb.connect(":memory:")
    worlds.world(seed=5, people=40, most_visits=3).fill(connection)
    truth = connection.execute(f"SELECT {text.replace('SUM(points)', 'SUM(CASE WHEN points IS NOT NULL THEN LEAST(GREATEST(points, -5), 5) END)')}").fetchall()[0][0]
    assert isinstance(found, Answer) and found.rows[0][0] == pytest.approx(truth, rel=0.05, abs=2)


@pytest.mark.parametrize("name", OPTIONS)
def test_groups_are_exact_without_noise(name: str, tmp_path: Path) -> None:
    options = f"bound = '{name}', max_groups = 4{clipped(name, 100)}"
    text = "year, COUNT(*) FROM visits GROUP BY year ORDER BY year"
    found = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {text}", room(tmp_path, noise=Exact()))
    connection = duckdb.connect(":memory:")
    worlds.world(seed=5, people=40, most_visits=3).fill(connection)
    plain = dict(connection.execute(f"SELECT {text}").fetchall())
    assert isinstance(found, Answer)
    for year, count in found.rows:
        assert count == pytest.approx(plain.get(year, 0), abs=0.1 * plain.get(year, 0) + 0.5), year  # type: ignore[call-overload]


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("text", [f"COUNT(*) FROM {PAIRS}", f"SUM(b.age) FROM {PAIRS}",
                                  f"a.sex, COUNT(*) FROM {PAIRS} WHERE a.sex IS NOT NULL GROUP BY a.sex ORDER BY 1"])
def test_sums_of_rows_of_several_owners_are_exact_without_noise(name: str, text: str, tmp_path: Path) -> None:
    found = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = '{name}'{clipped(name, 10000)}) {text}",
                   room(tmp_path, noise=Exact()))
    connection = duckdb.connect(":memory:")
    worlds.world(seed=5, people=40, most_visits=3).fill(connection)
    assert isinstance(found, Answer)
    shown = [row for row in found.rows if row[0] is not None]
    for ours, theirs in zip(shown, connection.execute(f"SELECT {text}").fetchall(), strict=True):
        assert ours[-1] == pytest.approx(float(theirs[-1]), rel=0.03 if name == "r2t" else 0.01, abs=0.5)


def test_a_reservoir_keeps_so_many_groups_and_clamps_each(tmp_path: Path) -> None:
    connection = duckdb.connect(":memory:")
    worlds.world(seed=5, people=40, most_visits=3).fill(connection)
    declared = "visits WHERE year BETWEEN 2018 AND 2021"
    counts = connection.execute(f"SELECT COUNT(DISTINCT year) FROM {declared} GROUP BY person_id").fetchall()
    for groups in (1, 2):
        (tmp_path / str(groups)).mkdir()
        found = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'reservoir', clip = 1, max_groups = {groups}) year, COUNT(*) "
                       f"FROM {declared} GROUP BY year", room(tmp_path / str(groups), noise=Exact()))
        assert isinstance(found, Answer)
        assert sum(row[1] for row in found.rows) == sum(min(number, groups) for number, in counts)  # type: ignore[misc]


@pytest.mark.parametrize(("options", "note"), [
    ("bound = 'clip', clip = 20", "each entity's total is limited to clip = 20"),
    ("bound = 'reservoir', clip = 2.5, max_groups = 2", "each entity's total is limited to clip = 2.5")])
def test_a_clip_that_is_given_is_told(options: str, note: str, tmp_path: Path) -> None:
    found = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, {options}) SUM(points) FROM scores", session_of(tmp_path))
    assert isinstance(found, Answer) and any(each.startswith(note) for each in found.notes), found


REFUSED = [
    ("bound = 'rows'", f"COUNT(*) FROM {PAIRS}", "rows that belong to one entity", "bound = 'balance'", "bound = 'rows'"),
    ("bound = 'clip'", f"COUNT(*) FROM {PAIRS}", "rows that belong to one entity", "extension', clip = ...", "bound = 'clip'"),
    ("bound = 'bands'", f"SUM(a.age) FROM {PAIRS}", "rows that belong to one entity", "bound = 'r2t'", "bound = 'bands'"),
    ("bound = 'reservoir', clip = 3, max_groups = 2", f"COUNT(*) FROM {PAIRS}", "rows that belong to one entity", "balance", "bound"),
    ("max_rows = 3", f"COUNT(*) FROM {PAIRS}", "max_rows needs rows that belong to one entity each", "bound = ", "max_rows = 3"),
    ("bound = 'extension'", "COUNT(*) FROM scores", "needs clip", "clip = 100", "bound = 'extension'"),
    ("bound = 'reservoir'", "COUNT(*) FROM scores", "needs clip and max_groups", "clip = 100, max_groups = 100", "bound = 'reservoir'"),
    ("bound = 'reservoir', clip = 3", "COUNT(*) FROM scores", "needs max_groups", "max_groups = ", "bound = 'reservoir'"),
    ("bound = 'reservoir', max_groups = 3", "COUNT(*) FROM scores", "needs clip", "clip = ", "bound = 'reservoir'"),
    ("bound = 'rows', clip = 3", "COUNT(*) FROM scores", "clip has no effect with bound = 'rows'", "bound = 'clip'", "clip = 3"),
    ("bound = 'bands', clip = 3", "COUNT(*) FROM scores", "clip has no effect with bound = 'bands'", "bound = 'clip'", "clip = 3"),
    ("bound = 'bands'", "SUM(points), MEDIAN(points) FROM scores", "MEDIAN(points) is not bounded", "a statement of its own",
     "MEDIAN(points)"),
    ("bound = 'r2t'", "COUNT(*), VAR_POP(points) FROM scores", "it bounds COUNT(*)", "a statement of its own", "VAR_POP(points)"),
    ("bound = 'balance'", "COUNT(DISTINCT points) FROM scores", "for COUNT, SUM and AVG", "bound = 'rows'", "COUNT(DISTINCT points)"),
    ("bound = 'extension', clip = 3", "COUNT(*), SUM(points) FROM scores", "clip could mean", "one statement for each", None),
    ("bound = 'extension', clip = 3", "AVG(points) FROM scores", "clip could mean", "one statement for each", None),
    ("bound = 'clip'", "SUM(points), MEDIAN(points) FROM scores", "MEDIAN(points) needs a limit on rows", "max_rows", "MEDIAN(points)"),
    ("bound = 'balance'", "AVG(weight) FROM people JOIN scores USING (person_id)", "needs a limit on rows", "bounds = ", "AVG(weight)"),
    ("bound = 'bands'", "points > 0 AS up, COUNT(*) FROM scores GROUP BY up", "number of groups that one entity is in", "max_groups = 4", "bound = 'bands'"),
    ("bound = 'balance', delta = 1e-6, epsilon = 1", "note, COUNT(*) FROM visits GROUP BY note", "computes every group by itself",
     "bound = 'clip'", "note"),
]


@pytest.mark.parametrize(("options", "text", "reason", "way_out", "place"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_a_bound_cannot_do_is_refused_at_its_place(options: str, text: str, reason: str, way_out: str, place: str | None,
                                                        tmp_path: Path) -> None:
    statement = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {text}"
    with pytest.raises(OptionError) as caught:
        answer(statement, room(tmp_path))
    told = caught.value
    assert reason in told.reason and way_out in told.try_, told
    if place is not None:
        assert told.span is not None and place in statement[told.span.start : told.span.end]


AUTO = [
    ("COUNT(*) FROM visits", "rows", "one entity has at most 3 of these rows"),
    ("COUNT(*) FROM scores", "clip", "nothing limits an entity's rows"),
    ("SUM(points), COUNT(*), VAR_POP(points) FROM scores", "clip", "nothing limits an entity's rows"),
    ("SUM(points), MEDIAN(points) FROM scores", "rows", "MEDIAN(points) needs a limit on rows"),
    (f"COUNT(*) FROM {PAIRS}", "balance", "a row belongs to several entities"),
    (f"COUNT(*), AVG(a.age) FROM {PAIRS}", "balance", "a row belongs to several entities"),
]


@pytest.mark.parametrize(("text", "bound", "because"), AUTO, ids=[case[0] for case in AUTO])
def test_what_is_chosen_is_explained(text: str, bound: str, because: str, tmp_path: Path) -> None:
    made = room(tmp_path)
    found = answer(f"EXPLAIN PRIVACY SELECT {text}", made)
    assert isinstance(found, Explanation) and found.bound.startswith(f"{bound}: what each person adds") and because in found.bound
    assert found.bound in str(found)


def test_a_number_for_clip_is_the_limit_of_whatever_there_is(tmp_path: Path) -> None:
    made = room(tmp_path)
    for text, bound in (("COUNT(*) FROM scores", "clip"), (f"COUNT(*) FROM {PAIRS}", "extension")):
        found = answer(f"EXPLAIN PRIVACY SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (clip = 7) {text}", made)
        assert isinstance(found, Explanation) and found.bound.startswith(f"{bound}:") and "(7); clip is the limit" in found.bound


def test_groups_are_told_in_rho_where_a_delta_is_given(tmp_path: Path) -> None:
    """Noise for several groups grows with the root of their number under rho, and with their number under epsilon."""
    made = session_of(tmp_path, dense(people=50), at={"epsilon": 0.8, "delta": 1e-6})
    text = "SELECT a.year, a.clinic, COUNT(*) FROM visits a JOIN visits b USING (note) GROUP BY a.year, a.clinic"
    many, one = (answer(f"EXPLAIN PRIVACY {query}", made) for query in (text, "SELECT COUNT(*) FROM visits a JOIN visits b USING (note)"))
    assert isinstance(many, Explanation) and isinstance(one, Explanation)
    assert "ρ" in many.measurements[0].price and "ε" in one.measurements[0].price
