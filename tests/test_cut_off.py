"""What a limit cuts off is in the interval: it is open above where nobody knows how much that is, and closed where declared limits hold."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.joined_worlds import POLICY, Small
from support.sessions import session_of

from dpsql.answers.answer import Answer
from dpsql.answers.display import as_dict, as_html, interval_text, legend, shown
from dpsql.engine.answering import answer

LIMITED = POLICY.replace("[tables.friends]", "[tables.friends]\nrows_per_entity = 4")
DECLARED = LIMITED.replace("rows_per_entity", "limits_hold = true\nrows_per_entity")
RING = [(i, (i + 1) % 30) for i in range(30)]
WORLD = Small({"people": [(i, i % 4, i % 7 - 2) for i in range(30)], "friends": RING, "calls": [(i % 30, i % 4) for i in range(90)]})
DEGREES = "FROM (SELECT p, COUNT(*) AS k FROM (SELECT a AS p FROM friends UNION ALL SELECT b FROM friends) AS ends GROUP BY p) AS degrees"


def asked(text: str, options: str, folder: Path, policy: str = POLICY) -> Answer:
    head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 8{', ' + options if options else ''}) "
    found = answer(head + text, session_of(folder, reader=WORLD.reader(), policy=policy))
    assert isinstance(found, Answer)
    return found


def open_ends(found: Answer) -> list[tuple[bool, bool]]:
    return [(ends is None or math.isinf(ends[0]), ends is None or math.isinf(ends[1])) for ends in found.intervals[0]]


CLOSED, ABOVE, BELOW, EITHER = (False, False), (False, True), (True, False), (True, True)
ANY_COUNT = (True, True)  # shown as 0 or more
CASES = [
    ("COUNT(*) FROM calls", "max_rows = 5", POLICY, [ABOVE]),
    ("COUNT(*), SUM(town) FROM people", "", POLICY, [CLOSED, CLOSED]),
    ("SUM(size), AVG(size) FROM people JOIN calls USING (person)", "max_rows = 5", POLICY, [EITHER, CLOSED]),  # by declared bounds
    ("MIN(size), MAX(size), MEDIAN(size) FROM people JOIN calls USING (person)", "max_rows = 5", POLICY, [CLOSED, CLOSED, CLOSED]),
    ("SUM(people.town) / COUNT(*), COUNT(*) / SUM(people.town) FROM people JOIN calls USING (person)", "max_rows = 5", POLICY, [ABOVE, ABOVE]),
    ("SUM(people.town) - COUNT(*), 2 - COUNT(*), SQRT(COUNT(*)) FROM people JOIN calls USING (person)", "max_rows = 5", POLICY, [EITHER, BELOW, ABOVE]),
    ("COUNT(*), SUM(people.town), AVG(people.town) FROM people JOIN calls USING (person)", "max_rows = 5, strategy = 'identity'", POLICY, [ABOVE, ABOVE, CLOSED]),
    ("COUNT(*) FROM likes", "strategy = 'identity'", DECLARED, [CLOSED]),
    ("COUNT(*) FROM likes", "strategy = 'identity'", POLICY, [ABOVE]),
    ("SUM(-people.town) FROM people JOIN calls USING (person)", "max_rows = 5", POLICY, [BELOW]),
    ("COUNT(*) FROM likes", "", DECLARED, [CLOSED]),
    ("COUNT(*) FROM likes", "", POLICY, [ABOVE]),
    ("COUNT(*) FROM likes", "max_rows = 9", DECLARED, [CLOSED]),  # two are declared
    ("COUNT(*) FROM likes", "max_rows = 1", DECLARED, [ABOVE]),
    ("COUNT(*) FROM likes", "bound = 'clip', clip = 3", DECLARED, [ABOVE]),
    ("COUNT(*) FROM likes", "bound = 'bands'", DECLARED, [ABOVE]),
    ("COUNT(DISTINCT person), COUNT(DISTINCT how) FROM likes", "", POLICY, [CLOSED, ABOVE]),  # everybody keeps some row
    ("COUNT(DISTINCT person) FROM likes WHERE how = 0", "", POLICY, [ABOVE]),
    ("COUNT(*) FROM people WHERE person IN (SELECT person FROM likes)", "", POLICY, [CLOSED]),
    ("COUNT(*) FROM people WHERE person IN (SELECT person FROM likes WHERE how = 0)", "", POLICY, [ABOVE]),
    ("COUNT(*) FROM people WHERE person NOT IN (SELECT person FROM likes WHERE person IS NOT NULL AND how = 0)", "", POLICY, [ANY_COUNT]),
    ("COUNT(*), MAX(n) FROM (SELECT person, COUNT(*) AS n FROM likes GROUP BY person) AS each", "", POLICY, [CLOSED, EITHER]),
    ("COUNT(*) FROM (SELECT person, COUNT(*) AS n FROM likes GROUP BY person HAVING COUNT(*) = 1) AS each", "", POLICY, [ANY_COUNT]),
    ("COUNT(*), SUM(town) FROM people LEFT JOIN likes USING (person)", "", POLICY, [ABOVE, ABOVE]),
    ("COUNT(*) FROM people LEFT JOIN likes USING (person) WHERE how IS NULL", "", POLICY, [ANY_COUNT]),
    ("COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY person ORDER BY how) AS r FROM likes) AS rows WHERE r = 1", "", POLICY, [ANY_COUNT]),
    ("COUNT(*) FROM calls", "", POLICY, [ABOVE]),
    ("COUNT(*) FROM friends", "", POLICY, [ABOVE]),
    ("COUNT(*) FROM friends", "", DECLARED, [CLOSED]),
    ("COUNT(*) FROM friends", "", LIMITED, [ABOVE]),
    ("COUNT(*) FROM friends JOIN people ON a = person WHERE town > 1", "", DECLARED, [CLOSED]),
    ("COUNT(*) FROM friends", "bound = 'extension', clip = 3", DECLARED, [ABOVE]),
    ("COUNT(*) FROM friends", "bound = 'extension'", DECLARED, [CLOSED]),
    ("COUNT(*) FROM friends", "bound = 'balance'", DECLARED, [ABOVE]),
    (f"COUNT(*), SUM(k), AVG(k) {DEGREES}", "", DECLARED, [CLOSED, CLOSED, CLOSED]),
    (f"COUNT(*), SUM(k), AVG(k) {DEGREES}", "", LIMITED, [ABOVE, ABOVE, CLOSED]),
    (f"COUNT(*), SUM(k), AVG(k) {DEGREES}", "", POLICY, [ABOVE, ABOVE, CLOSED]),  # a mean is at most the largest degree
    (f"COUNT(*) {DEGREES} WHERE k < 3", "max_rows = 2", DECLARED, [ANY_COUNT]),  # of degrees that are brought down some are counted
]


@pytest.mark.parametrize(("text", "options", "policy", "ends"), CASES, ids=lambda value: value if isinstance(value, str) and len(value) < 60 else "")
def test_an_interval_is_open_where_it_is_not_known_what_is_cut_off(text: str, options: str, policy: str, ends: list[tuple[bool, bool]],
                                                                  tmp_path: Path) -> None:
    found = asked(text, options, tmp_path, policy)
    if ends == [ANY_COUNT] and text.startswith("COUNT"):
        assert found.intervals == (((0.0, math.inf),),)
    else:
        assert open_ends(found) == ends, found.intervals


def test_a_note_says_which_numbers_may_be_moved_either_way(tmp_path: Path) -> None:
    notes = asked("COUNT(*), SUM(size), AVG(size) FROM people JOIN calls USING (person)", "bound = 'clip'", tmp_path).notes
    assert any("it may move SUM(size) and AVG(size) either way" in note for note in notes)


@pytest.mark.parametrize(("text", "options"), [
    ("AVG(size) FROM people JOIN calls USING (person)", "max_rows = 5"), ("AVG(size) FROM people JOIN calls USING (person)", ""),
    ("MEDIAN(size) FROM people JOIN calls USING (person)", "max_rows = 5"), ("AVG(size) FROM people JOIN friends ON person = a", ""),
    ("AVG(size) FROM people JOIN calls USING (person)", "bound = 'bands'"),
    ("AVG(size) FROM people JOIN calls USING (person)", "bound = 'r2t'"),
])
def test_the_interval_of_a_mean_of_some_rows_is_all_that_the_policy_allows(text: str, options: str, tmp_path: Path) -> None:
    found = asked(text, options, tmp_path)
    assert found.intervals[0][0] == (-2.0, 4.0) and found.errors[0][0] is not None


SKEWED = Small({"people": [(i, 0, 4 if i < 3 else 0) for i in range(40)], "calls": [(i % 40, 0) for i in range(40)] + [(i % 3, 0) for i in range(180)]})


@pytest.mark.parametrize(("text", "options"), [("AVG(size)", "max_rows = 1"), ("SUM(size) / COUNT(*)", "max_rows = 1"),
                                               ("100 * AVG(size) / 100.0", "max_rows = 1"), ("AVG(size)", "max_rows = 1, strategy = 'identity'")])
def test_a_mean_of_some_rows_does_not_rule_out_that_of_all(text: str, options: str, tmp_path: Path) -> None:
    """Three of forty people have most of the rows, and other values in them: 732 in 220 rows."""
    session = session_of(tmp_path, reader=SKEWED.reader(), policy=POLICY)
    found = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 900, {options}) {text} FROM people JOIN calls USING (person)", session)
    assert isinstance(found, Answer) and found.intervals[0][0] is not None
    low, high = found.intervals[0][0]
    assert found.rows[0][0] < 1 and low <= 732 / 220 <= high  # type: ignore[operator]


def test_an_open_interval_is_told_as_at_least(tmp_path: Path) -> None:
    found = asked("COUNT(*) FROM calls", "max_rows = 5", tmp_path)
    (low, _), = found.intervals[0]
    assert interval_text(found.intervals[0][0], found.rows[0][0]) == f"≥ {round(low):,}" and "≥ is a lower bound" in legend(found)
    assert as_dict(found)["intervals"] == [[[low, None]]]


def test_a_number_of_which_nothing_is_known_is_shown_all_the_same(tmp_path: Path) -> None:
    found = asked("SUM(size) / 2.0, AVG(size) FROM people JOIN calls USING (person)", "max_rows = 5", tmp_path)
    both, mean = zip(found.intervals[0], found.rows[0], strict=True)
    assert shown(both[1], both[0]) == f"{both[1]:,.10g}" and interval_text(*both) == "of any error"
    assert mean[0] == (-2.0, 4.0) and "of any error" in as_html(found)


def test_a_level_that_is_declared_is_held_to_whatever_the_rows_are(tmp_path: Path) -> None:
    """Nothing rests on the owner's word: person 0 is in all of thirty rows, and four of them are kept."""
    star = Small({"people": WORLD.of("people"), "friends": [(0, i) for i in range(1, 30)]})
    session = session_of(tmp_path, reader=star.reader(), policy=DECLARED, at={"epsilon": 900})
    found = answer("SELECT COUNT(*) FROM friends", session)
    assert isinstance(found, Answer) and found.rows[0][0] == 4


FULL = Small({"people": [(i, i % 4, i % 7 - 2) for i in range(40)], "calls": [(i % 40, i % 4) for i in range(60)],
              "likes": [(i % 40, i % 3, (i // 40) % 3) for i in range(120)] + [(i % 5, 2, 2) for i in range(60)]})
BEYOND = (
    "SELECT COUNT(*) FROM likes", "SELECT COUNT(*) FROM likes WHERE how = 2", "SELECT SUM(how) FROM (SELECT LEAST(GREATEST(how, 0), 2) AS how FROM likes) AS l",
    "SELECT COUNT(DISTINCT person), COUNT(*) FROM likes", "SELECT COUNT(DISTINCT person) FROM likes WHERE how = 2",
    "SELECT COUNT(*), SUM(people.town), AVG(people.town) FROM people JOIN likes USING (person)",
    "SELECT people.town, COUNT(*) FROM people JOIN likes USING (person) GROUP BY people.town",
    "SELECT COUNT(*) FROM people LEFT JOIN likes USING (person)", "SELECT COUNT(*) FROM people LEFT JOIN likes ON people.person = likes.person AND how = 2",
    "SELECT COUNT(*) FROM people LEFT JOIN likes USING (person) WHERE how IS NULL",
    "SELECT COUNT(*) FROM people WHERE person IN (SELECT person FROM likes)", "SELECT COUNT(*) FROM people WHERE person IN (SELECT person FROM likes WHERE how = 2)",
    "SELECT COUNT(*) FROM people WHERE person NOT IN (SELECT person FROM likes WHERE how = 2 AND person IS NOT NULL)",
    "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM likes WHERE likes.person = people.person AND thing = 0)",
    "SELECT COUNT(*) FROM (SELECT person, COUNT(*) AS n FROM likes GROUP BY person) AS t",
    "SELECT COUNT(*) FROM (SELECT person, COUNT(*) AS n FROM likes GROUP BY person HAVING COUNT(*) >= 3) AS t",
    "SELECT SUM(n), AVG(n), MAX(n) FROM (SELECT person, LEAST(COUNT(*), 20) AS n FROM likes GROUP BY person) AS t",
    "SELECT COUNT(*) FROM (SELECT DISTINCT person, how FROM likes) AS t", "SELECT COUNT(*) FROM (SELECT DISTINCT person FROM likes) AS t",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY person ORDER BY how, thing) AS r FROM likes) AS t WHERE r = 3",
    "SELECT COUNT(*) FROM (SELECT person, how FROM likes UNION ALL SELECT person, town FROM calls) AS t",
    "SELECT COUNT(*) FROM (SELECT person FROM people EXCEPT SELECT person FROM likes WHERE how = 2) AS t",
    "SELECT COUNT(*) FROM (SELECT person FROM people INTERSECT SELECT person FROM likes WHERE how = 2) AS t",
    "SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM likes l WHERE l.person = p.person) > 2",
)


@pytest.mark.parametrize("text", BEYOND)
def test_the_truth_of_all_rows_is_in_the_interval(text: str, tmp_path: Path) -> None:
    """Two rows of each person are kept, of three to fifteen: what is asked of all rows is in an interval, though noise is tiny."""
    session = session_of(tmp_path, reader=FULL.reader(), policy=POLICY.replace("[tables.calls]", "[tables.calls]\nrows_per_entity = 1"),
                         at={"epsilon": 900})
    found = answer(text, session)
    assert isinstance(found, Answer)
    with FULL.connection() as connection:
        rows = connection.execute(text).fetchall()
    width = sum(column.exact for column in found.columns)
    truth = {row[:width]: row[width:] for row in rows}
    for row, intervals in zip(found.rows, found.intervals, strict=True):
        for value, ends in zip(truth.get(row[:width], (0,) * (len(row) - width)), intervals[width:], strict=True):
            assert ends is not None and ends[0] <= value <= ends[1], (found.rows, found.intervals, rows)
