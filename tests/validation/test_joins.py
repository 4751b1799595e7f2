"""Checks over rows that are not limited for each entity: joins in which many meet, and tables without a limit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import worlds
from support.sessions import reader_of, session_of
from support.validations import validated

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import Unsupported
from dpsql.validation.explain_checks import explained_validation

PAIRS = "SELECT COUNT(*) FROM people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id"
TRIPLES = PAIRS + " JOIN people c ON c.household_id = a.household_id AND c.person_id > b.person_id"
AGES = PAIRS.replace("COUNT(*)", "SUM(LEAST(GREATEST(a.age, 0), 90))")
SCORES = "SELECT COUNT(*) FROM scores"
QUERIES = {PAIRS: "people", TRIPLES: "people", AGES: "people", SCORES: "scores"}


def world(seed: int) -> worlds.World:
    """A dozen people in two households, some with many scores."""
    draw = random.Random(seed)
    people = [(i, draw.choice([0, 1]), "f", draw.randrange(90), 1.0, 1.0, True, None, "al", "x") for i in range(draw.randrange(9, 13))]
    scores = [(draw.choice([0, 0, 0, 1, 2, 3]), draw.randrange(5)) for _ in range(12)]
    return worlds.World({"households": [(0, "east"), (1, "west")], "people": people, "visits": [], "scores": scores,
                         "clinics": list(worlds.CLINICS), "unlisted": [(1,)]})


def frame(table: str, rows: list[Any]) -> pd.DataFrame:
    names = [part.split()[0] for part in worlds.SCHEMA[table].replace("PRIMARY KEY", "").split(", ")]
    return pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows])


def slack(query: str, here: worlds.World, synthetic: pd.DataFrame, clip: int, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    at = session_of(folder, reader=reader_of(here), noise=Exact())
    found = validated(query, at, {QUERIES[query]: synthetic}, 7, epsilon=1, clip=clip).decide().findings[0]  # type: ignore[arg-type]
    at.close()
    assert found.slack is not None and found.held == clip
    return found.slack


@pytest.mark.parametrize("query", QUERIES)
def test_one_person_moves_a_slack_by_one(query: str, tmp_path: Path) -> None:
    full, table, moved = world(1), QUERIES[query], 0
    rows = full.rows[table]
    for clip in (50, 90) if query == AGES else (1, 4):
        synthetic = frame(table, rows[: len(rows) // 2 + 1])
        known = slack(query, full, synthetic, clip, tmp_path / f"{clip}")
        for person in (0, 1, 5):
            there = slack(query, full.without("person", person), synthetic, clip, tmp_path / f"{clip}{person}")
            assert abs(there - known) <= 1, (clip, person)
            moved += there != known
    assert moved


def test_a_level_that_nobody_passes_decides_about_the_count_itself(tmp_path: Path) -> None:
    here = world(3)
    pairs = sum(a[1] == b[1] and a[0] < b[0] for a in here.rows["people"] for b in here.rows["people"])
    same = frame("people", here.rows["people"])
    assert slack(PAIRS, here, same, 11, tmp_path) == 1  # 7 pairs to the border, of which one person has up to 11
    assert slack(PAIRS, here, same, 1, tmp_path / "held") < 1 < pairs  # held to one pair each: far fewer


def test_levels_are_learned_where_none_is_given(tmp_path: Path) -> None:
    here = world(5)
    connection = Connection(session_of(tmp_path, reader=reader_of(here)))
    made = connection.validate([PAIRS, SCORES], within=60, epsilon=200, synthetic={
        "people": frame("people", here.rows["people"]), "scores": frame("scores", here.rows["scores"])})
    assert [found.decision for found in made.findings] == ["yes", "yes"]
    assert all(found.decider == "held_distance" and found.held is not None and found.held >= 4 for found in made.findings)
    assert any("each entity's contribution is limited to" in line for line in made.as_table().notes)
    far = connection.validate(SCORES, within=2, epsilon=200, synthetic={"scores": frame("scores", here.rows["scores"] * 20)})
    assert far.findings[0].decision == "no"


def test_entities_are_counted_without_a_limit_of_their_rows(tmp_path: Path) -> None:
    here = world(1)
    at = session_of(tmp_path, reader=reader_of(here), noise=Exact())
    made = validated("SELECT COUNT(DISTINCT person_id) FROM scores", at,
                     {"scores": frame("scores", here.rows["scores"])}, 3, epsilon=1).decide()  # type: ignore[arg-type]
    assert made.findings[0].slack == 3 and made.findings[0].held is None


def test_suites_take_held_sums_at_a_level_that_is_given(tmp_path: Path) -> None:
    here = world(2)
    connection = Connection(session_of(tmp_path, reader=reader_of(here)))
    synthetic = {"people": frame("people", here.rows["people"]), "scores": frame("scores", here.rows["scores"])}
    for suite in ("independent", "conjunction", "sparse"):
        made = connection.validate([PAIRS, SCORES], synthetic=synthetic, within=90, epsilon=200, suite=suite, clip=12)
        assert [found.decision for found in made.findings] == ["yes", "yes"], suite
    with pytest.raises(Unsupported, match="a limit can be learned for only one check at a time"):
        connection.validate([PAIRS, SCORES], synthetic=synthetic, within=90, epsilon=200, suite="sparse")


def test_explanations_tell_what_sums_are_held_to(tmp_path: Path) -> None:
    here = world(2)
    at = session_of(tmp_path, reader=reader_of(here))
    synthetic: Any = {"scores": frame("scores", here.rows["scores"])}
    for options, told in (({}, "limited to a level that is learned first"), ({"clip": 5}, "limited to 5")):
        made = validated(SCORES, at, synthetic, 5, epsilon=1, **options)
        text = str(explained_validation(made.plan, at.kernel, entity="person", left=[]))
        assert told in text and "or more entities (person) would have to be added or removed" in text, text
    assert not at.ledger.entries("person")
