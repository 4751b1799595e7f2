"""Groups of few entities are withheld where the policy says so, from every kind of statement, with the chance that is told."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.forged import made_of
from support.joined_worlds import POLICY, Small
from support.sessions import session_of

from dpsql.answers.answer import CHANCE, Answer, withheld
from dpsql.catalog.policy import parse_policy
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.engine.together import workload
from dpsql.errors import OptionError, PolicyError, Unsupported
from dpsql.estimates import Estimate, NoiseTerm
from dpsql.questions.question import MinimumFrequency, Question
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

LEAST = POLICY.replace('key = "person"\n', 'key = "person"\nminimum_frequency = 12\n', 1)
TOWNS = [0] * 60 + [1] * 4 + [2] * 20
WORLD = Small({"people": [(i, town, i % 7 - 2) for i, town in enumerate(TOWNS)], "friends": [(i, (i + 1) % 84) for i in range(84)],
               "calls": [(i % 84, i % 4) for i in range(400)] + [(60, 3)] * 40,  # a person with more calls than twelve people
               "likes": [(i, i % 40 // 39, 0) for i in range(80)]})


def session(folder: Path, policy: str = LEAST) -> Session:
    return session_of(folder, reader=WORLD.reader(), policy=policy)


def asked(text: str, folder: Path, policy: str = LEAST) -> Answer:
    found = answer(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 400, delta = 1e-4)", 1), session(folder, policy))
    assert isinstance(found, Answer)
    return found


SHOWN = [  # statements, and the groups that they show
    ("SELECT town, COUNT(*) FROM people GROUP BY town", [0, 2]),
    ("SELECT town, AVG(size) FROM people GROUP BY town", [0, 2]),
    ("SELECT town, MEDIAN(size) FROM people GROUP BY town", [0, 2]),
    ("SELECT town, COUNT(*) FROM people GROUP BY town ORDER BY 2 LIMIT 1", [2]),  # withheld before LIMIT
    ("SELECT town, COUNT(*) FROM people GROUP BY ROLLUP (town)", [0, 2, None]),
    ("SELECT town, MEDIAN(size) FROM people GROUP BY ROLLUP (town)", [0, 2, None]),
    ("SELECT thing, COUNT(*) FROM likes GROUP BY ROLLUP (thing)", [0, None]),
    ("SELECT town, SUM(COUNT(*)) OVER (ORDER BY town) FROM people GROUP BY town", [0, 2]),
    ("SELECT people.town, COUNT(*) FROM people JOIN calls USING (person) GROUP BY people.town", [0, 2]),
    ("SELECT people.town, SUM(size) FROM people JOIN calls USING (person) GROUP BY people.town", [0, 2]),
    ("SELECT thing, COUNT(*) FROM likes GROUP BY thing", [0]),
    ("SELECT thing FROM likes GROUP BY thing", [0]),
    ("SELECT people.town, COUNT(*) FROM friends JOIN people ON people.person = friends.a GROUP BY people.town", [0]),
    ("SELECT people.town, COUNT(*) FROM friends JOIN people ON people.person = friends.a GROUP BY ROLLUP (people.town)", [0, None]),
    ("SELECT people.town, MEDIAN(size) FROM friends JOIN people ON people.person = friends.a GROUP BY people.town", [0]),
]


@pytest.mark.parametrize(("text", "groups"), SHOWN, ids=[text for text, _ in SHOWN])
def test_small_groups_are_withheld(text: str, groups: list[int | None], tmp_path: Path) -> None:
    found = asked(text, tmp_path)
    assert sorted((row[0] for row in found.rows), key=lambda key: (key is None, key)) == groups
    assert any("groups of fewer than 12 entities (person) are withheld" in note for note in found.notes)


def test_without_the_rule_all_are_shown(tmp_path: Path) -> None:
    found = asked("SELECT town, COUNT(*) FROM people GROUP BY town", tmp_path, POLICY)
    assert len(found.rows) == 5 and not any("withheld" in note for note in found.notes)


def test_a_total_of_few_is_withheld_too(tmp_path: Path) -> None:
    assert asked("SELECT COUNT(*) FROM people WHERE town = 1", tmp_path).rows == ()
    assert len(asked("SELECT COUNT(*) FROM people WHERE town = 2", tmp_path).rows) == 1


def test_rows_of_few_entities_are_few_however_many_they_are(tmp_path: Path) -> None:
    """Of workloads rows are counted, of which each entity has as many as the limit: they show a group for that many as much."""
    text = "SELECT people.town, COUNT(*) FROM people JOIN calls USING (person) WHERE people.town = 1 GROUP BY ROLLUP (people.town)"
    found = answer(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 40, max_rows = 20)", 1), session(tmp_path))
    assert isinstance(found, Answer) and found.rows == ()


def test_rows_of_several_entities_count_those_that_have_a_row_of_their_own(tmp_path: Path) -> None:
    """Every second one of a ring of friends does, and of a star only one, however many there are: so it may withhold too much."""
    assert len(asked("SELECT COUNT(*) FROM friends", tmp_path).rows) == 1
    assert asked("SELECT COUNT(*) FROM friends WHERE a < 10", tmp_path).rows == ()
    star = Small({"people": WORLD.rows["people"], "friends": [(0, i) for i in range(1, 84)]})
    found = answer("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 400) COUNT(*) FROM friends", session_of(
        tmp_path / "star", reader=star.reader(), policy=LEAST))
    assert isinstance(found, Answer) and found.rows == ()


def test_a_value_of_few_is_null(tmp_path: Path) -> None:
    found = asked("SELECT COUNT(*) FROM people WHERE size > (SELECT AVG(size) FROM people WHERE town = 1)", tmp_path)
    assert found.rows == () and any("= NULL was released first" in note for note in found.notes)


def test_workloads_withhold(tmp_path: Path) -> None:
    texts = ["SELECT town, COUNT(*) FROM people GROUP BY town", "SELECT COUNT(*) FROM people WHERE town = 1", "SELECT SUM(size) FROM people"]
    queries = [query for text in texts if isinstance(query := parse(text), Query)]
    found = workload(queries, session_of(tmp_path, reader=WORLD.reader(), policy=LEAST, at={"epsilon": 40}))
    assert [len(one.rows) for one in found.answers] == [2, 0, 1]


@pytest.mark.parametrize(("option", "text"), [
    *((f"bound = '{bound}'", "SELECT town, COUNT(*) FROM people GROUP BY town") for bound in ("elastic", "residual", "r2t", "bands")),
    ("strategy = 'dawa'", "SELECT town, COUNT(*) FROM people GROUP BY town"), ("strategy = 'dawa'", "SELECT town, SUM(size) FROM people GROUP BY town"),
    ("strategy = 'privtree'", "SELECT COUNT(*) FROM people WHERE town BETWEEN 1 AND 2 AND size BETWEEN 0 AND 1"),
    ("consistency = 'nnls'", "SELECT town, COUNT(*) FROM people GROUP BY town"),
    ("strategy = 'identity', consistency = 'nnls', rounding = 'whole'", "SELECT town, COUNT(*) FROM people GROUP BY town")])
def test_counts_that_may_be_off_by_more_than_is_told_decide_on_no_group(option: str, text: str, tmp_path: Path) -> None:
    """Groups of neighbouring towns share their counts, and numbers below zero are made up for by others: by these half of all
    groups of one entity too few were shown. Noise as wide as the data need has other tails than the normal one."""
    with pytest.raises(OptionError, match="groups of fewer than 12 entities") as caught:
        answer(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, {option})", 1), session(tmp_path))
    assert caught.value.code == "minimum-frequency" and caught.value.span is not None


@pytest.mark.parametrize("aggregate", ["COUNT(*) ERROR WITHIN 1", "SUM(size) ERROR WITHIN 2", "SUM(size) ERROR WITHIN 200"])
def test_accuracies_measure_how_many_there_are(aggregate: str, tmp_path: Path) -> None:
    found = answer(f"SELECT town, {aggregate} FROM people GROUP BY town", session(tmp_path))
    assert isinstance(found, Answer)
    assert {row[0] for row in found.rows} <= {0, 2} and 0 in {row[0] for row in found.rows}


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM (SELECT DISTINCT town FROM people) AS t",
                                  "SELECT tag, COUNT(likes.person) FROM tags LEFT JOIN likes USING (thing) GROUP BY tag"])
def test_where_entities_are_not_counted_the_statement_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="the entities of a group cannot be counted") as caught:
        asked(text, tmp_path)
    assert caught.value.code == "minimum-frequency" and caught.value.span is not None


def test_public_tables_are_shown(tmp_path: Path) -> None:
    assert asked("SELECT COUNT(*) FROM tags", tmp_path).rows


@pytest.mark.parametrize("open_above", [False, True])
@pytest.mark.parametrize(("kind", "rows"), [("laplace", 1), ("laplace", 3), ("gaussian", 1)])
def test_smaller_groups_are_shown_as_seldom_as_is_told(kind: str, rows: int, open_above: bool) -> None:
    """A million groups that have one entity too few, each with as many rows as it may have. Of an interval that is open above
    all of the chance of an error is the lower end's."""
    entities, size, scale, draw = 12, 1_000_000, 2.0 * rows, np.random.default_rng(5)
    ratio = -math.expm1(-1 / scale)  # noise is whole numbers
    noise = draw.geometric(ratio, size) - draw.geometric(ratio, size) if kind == "laplace" else np.round(draw.normal(0, scale, size))
    count = Estimate(values=rows * (entities - 1) + noise,
                     slopes={(0, 0): (NoiseTerm(kind=kind, scale=scale), np.ones(size))})  # type: ignore[arg-type]
    count = count.beyond(0.0, math.inf if open_above else 0.0)
    rule = MinimumFrequency(count="n", rows=rows, entities=entities, entity="person")
    shown = size - len(withheld(_question(rule), {"n": count}))
    spread = 4 * math.sqrt(size * CHANCE)
    assert size * CHANCE / 3 < shown < size * CHANCE + spread


def _question(rule: MinimumFrequency) -> Question:
    found: Question = made_of(Question, {"minimum": rule})
    return found


@pytest.mark.parametrize(("kinds", "both", "least"), [((5, 12), 0, 12), ((5, 0), 7, 7), ((0, 0), 0, 1), ((5, 0), 0, 5)])
def test_one_of_several_kinds_has_the_largest_minimum_of_them(kinds: tuple[int, int], both: int, least: int) -> None:
    """A rule that is declared of a kind is not lost where it is protected together with another."""
    def rule(number: int) -> str:
        return f"minimum_frequency = {number}\n" if number else ""

    entities = "".join(f'[entities.{name}]\ntable = "{name}s"\nkey = "{name}"\n{rule(number)}' for name, number in zip(("a", "b"), kinds, strict=True))
    tables = "".join(f'[tables.{name}s.columns]\n{name} = {{}}\n' for name in "ab")
    text = (f'version = 1\n{entities}[entities.either]\nany_of = ["a", "b"]\n{rule(both)}{tables}'
            '[budgets.main]\nentity = "either"\nepsilon = 1\n')
    assert parse_policy(text).entities["either"].minimum_frequency == least


@pytest.mark.parametrize("value", ["0", "-3", "2000000", '"ten"', "1.5", "true"])
def test_the_policy_names_a_whole_number(value: str) -> None:
    with pytest.raises(PolicyError, match="minimum_frequency"):
        parse_policy(LEAST.replace("minimum_frequency = 12", f"minimum_frequency = {value}"))


def test_what_is_told_of_a_group_does_not_rest_on_rows_alone(tmp_path: Path) -> None:
    """Which groups are withheld follows from the released count: by other noise other groups near the least are."""
    world = Small({"people": [(i, i % 4, 0) for i in range(56)]})  # fourteen each
    seen = set()
    for turn in range(12):
        folder = tmp_path / str(turn)
        folder.mkdir()
        found = answer("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) town, COUNT(*) FROM people GROUP BY town",
                       session_of(folder, reader=world.reader(), policy=LEAST))
        assert isinstance(found, Answer)
        seen.add(tuple(row[0] for row in found.rows))
    assert len(seen) > 1
