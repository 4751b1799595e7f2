"""What text and policy decide is decided before the charge: with any limit of size at one, every statement is answered, or refused
with nothing charged."""

from __future__ import annotations

import ast
import importlib
import math
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import duckdb
import pytest
from support import worlds
from support.every_script import EVERY, FIRST, NAMED, PLAIN, asked
from support.policies import policy_of
from support.sessions import session_of

import dpsql
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.batch import measured, records
from dpsql.engine import together
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident, Unsupported
from dpsql.frozen import Frozen
from dpsql.sql.text.parse import parse
from dpsql.workload import domain

HOUSE = Path(dpsql.__file__).parent
ROOMS = ("answers", "batch", "engine", "mechanisms", "microdata", "models", "planning", "questions", "solvers", "sql", "strategies", "synthesis",
         "trusted/matrices", "trusted/plan", "validation", "workload")
SIZE = re.compile(r"(MOST|LARGEST|LONGEST|WIDEST|ROOM|DENSE|WRITTEN|MERGED|ENTRIES|CELLS|MANY|ROWS|PARTS|PAIRS|COMBINATIONS|COMPARED|FARTHEST|"
                  r"SOLVED|LARGE|SMALL|LISTED|WORK|FEW|NODES|MIXED|TABLE|CANDIDATES)(_[A-Z]+)*")


class Limit(Frozen, kw_only=False):
    """A limit of size: where it is defined, and the modules that import it from there."""

    module: str
    name: str
    readers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.module.removeprefix('dpsql.')}.{self.name}"

    def lower(self, patch: pytest.MonkeyPatch) -> None:
        for module in (self.module, *self.readers):
            patch.setattr(importlib.import_module(module), self.name, 1)


def modules() -> dict[str, ast.Module]:
    assert all((HOUSE / room).is_dir() for room in ROOMS)
    files = (path for room in ROOMS for path in (HOUSE / room).rglob("*.py"))
    return {".".join(path.relative_to(HOUSE.parent).with_suffix("").parts): ast.parse(path.read_text("utf-8")) for path in sorted(files)}


def named(module: ModuleType, tree: ast.Module) -> Iterator[str]:
    """The numbers that a module names as limits of sizes."""
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else []:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name) and SIZE.fullmatch(part.id) and type(value := getattr(module, part.id)) in (int, float) and value > 1:
                    yield part.id


def limits() -> list[Limit]:
    trees = modules()
    readers: dict[tuple[str, str], list[str]] = {}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    if alias.asname is None and hasattr(importlib.import_module(module), alias.name):
                        readers.setdefault((node.module, alias.name), []).append(module)
    return [Limit(module, name, tuple(readers.get((module, name), ()))) for module, tree in trees.items()
            for name in named(importlib.import_module(module), tree)]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a ledger with synthetic tables and an online model."""
    folder = tmp_path_factory.mktemp("begun")
    session = session_in(folder)
    for text in FIRST:
        asked(text)(session)
    session.close()
    return folder


def session_in(folder: Path) -> Session:
    """A session in which any number of incidents may follow each other."""
    session = session_of(folder, worlds.world(3), at={"epsilon": 1, "delta": 1e-8})
    session.kernel.incidents = 10**9
    return session


def charged_in_vain(text: str, session: Session) -> str:
    """What is wrong with the outcome of a statement, if anything is: a charge for what was not answered."""
    before = session.ledger.events
    measured._LATELY.clear()
    try:
        EVERY[text](session)
    except Incident:
        return "an incident"
    except Error as fault:
        return f"refused after the charge: {fault.reason}" if session.ledger.events != before else ""
    return ""


def statements_about(limit: Limit, many: int) -> list[str]:
    """Some of the statements whose scripts may come upon a limit, of which most are about its room."""
    texts = {"of tables": [text for text in EVERY if text.startswith(("CREATE", "VALIDATE"))],
             "of workloads": [text for text in EVERY if re.search("strategy|consistency|CUBE|ERROR|; ", text)],
             "plain": [text for text in (*PLAIN, *NAMED) if not text.startswith(("CREATE", "VALIDATE"))]}
    room = limit.module.removeprefix("dpsql.trusted.").removeprefix("dpsql.").split(".")[0]
    first = {"models": "of tables", "synthesis": "of tables", "validation": "of tables", "batch": "of workloads",
             "strategies": "of workloads", "microdata": "of workloads", "workload": "of workloads", "matrices": "of workloads"}.get(room, "plain")
    dice = random.Random(str(limit))
    return [text for kind, own in texts.items() for text in dice.sample(own, min(len(own), many if kind == first else many // 3))]


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_no_limit_of_size_is_found_after_the_charge(room: str, begun: Path, tmp_path: Path, effort: float) -> None:
    """All limits of a room with an effort of 4, else a part of them."""
    own = [limit for limit in limits() if limit.module.startswith(f"dpsql.{room.replace('/', '.')}.")]
    for limit in random.Random(room).sample(own, min(len(own), math.ceil(len(own) * effort / 4))):
        shutil.copytree(begun, tmp_path / str(limit))
        session = session_in(tmp_path / str(limit))
        with pytest.MonkeyPatch.context() as patch:
            limit.lower(patch)
            texts = statements_about(limit, max(3, round(8 * effort)))
            assert not {text: fault for text in texts if (fault := charged_in_vain(text, session))}, limit
        session.close()


CREATED = [text for text in EVERY if text.startswith("CREATE")]


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [2, 30])
@pytest.mark.parametrize("text", CREATED)
def test_no_table_is_too_large_after_the_charge(text: str, numbers: int, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(begun, tmp_path / "ledger")
    session = session_in(tmp_path / "ledger")
    monkeypatch.setattr(domain, "ROOM", numbers * domain.WORD)
    assert not charged_in_vain(text, session)
    session.close()


WIDE = policy_of("m", """
a = { range = [1, 600] }
b = { range = [1, 600] }
c = { range = [1, 600] }
""", """
[tables.open]
public = true
[tables.open.columns]
a = {}
b = {}
c = {}
""", entity="row", budget="row", price="epsilon = 100\ndelta = 0.01")


@pytest.mark.parametrize("method", ["dualquery", "mwem_pub', public = 'open", "mwem"])
def test_marginals_of_a_workload_are_counted_before_the_charge(method: str, tmp_path: Path) -> None:
    """Three columns of hundreds of values have hundreds of millions of combinations, which these methods look at one by one."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    columns = "SELECT i AS id, 1 + i * 7 % 600 AS a, 1 + i * 11 % 600 AS b, 1 + i * 13 % 600 AS c FROM range(500) AS t(i)"
    connection.execute(f"CREATE TABLE m AS {columns}; ALTER TABLE m ADD PRIMARY KEY (id); CREATE TABLE open AS SELECT a, b, c FROM m")
    lock_down(connection)
    session = session_of(tmp_path, reader=DuckReader(connection, "v1"), policy=WIDE, budget="row", at={"epsilon": 1, "delta": 1e-8})
    text = f"CREATE SYNTHETIC TABLE wide AS SELECT a, b, c FROM m OPTIONS (bins = 600, method = '{method}')"
    with pytest.raises(Unsupported, match="method|fits"):
        answer(text, session)
    assert session.ledger.events == 0
    session.close()


@pytest.mark.parametrize("warm", [False, True])
def test_a_workload_that_is_too_large_to_be_kept_is_answered(warm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its strategy is found anew or was found before: ranges of a column under a condition have no compact form over all
    of its values."""
    monkeypatch.setattr(domain, "ROOM", 8 * 60_000)
    monkeypatch.setattr(records, "MOST_NUMBERS", 2000)
    session, dice = session_in(tmp_path), random.Random(1)
    ends = [sorted(dice.sample(range(101), 2)) for _ in range(40)]
    queries = [parse(f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high} AND age < 41") for low, high in ends if low < 41]
    for _ in range(1 + warm):
        measured._LATELY.clear()
        assert len(together.workload(queries, session).answers) == len(queries)  # type: ignore[arg-type]
    session.close()
