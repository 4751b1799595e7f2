"""Mutants of the trusted rooms, and the tests that kill them, from a checkout: `PYTHONPATH=.:tests python -m mutants --mutants 2000`.

Every mutant is one small change: a comparison, a constant, an operator, a call or a branch that is left out, a piece of printed SQL.
It is tried by the quickest tests that execute its line, then, if it survives these, by more of them. What survives is looked up in
`survivors.toml`, where the reason stands why no test can or need kill it; other survivors are printed, and the run fails.

Why a script of our own: of the kept tools, cosmic-ray starts a process for every mutant, which imports for three seconds here, and
mutmut leaves out functions with decorators, which are most of our claims (properties), and what runs at import. Here all is imported
once, and every trial is a copy of that process (`fork`) in which the changed code is put in the place of the old: a third of a second.

A survivor is a question, not yet a gap: the tests that were tried are those that fit into `--steps` seconds of a processor, a few
instances of each. Try those that survived `--again` with more: `--instances 1000 --steps 20`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: threads do not survive a fork

import pytest
from mutants.mutations import ROOT, Mutant, mutants_of
from mutants.planted import forget, functions
from mutants.trials import Reached, reach, trial

ROOMS = (*(f"trusted/{room}" for room in ("kernel", "noise", "accounting", "measurements", "extensions", "plan/operators")), "ledgers", "budgets")
NEAR = ("tests/noise", "tests/accounting", "tests/measurements", "tests/extensions", "tests/plan", "tests/kernel")
FURTHER = ("tests/laws", "tests/validation/test_slack_moves.py", "tests/oracle/test_by_hand.py")
ELSEWHERE = ("processes", "late", "turns", "postgres", "attacks", "evaluation", "suspicious", "any_options")
"""Words in the names of tests that are slow, or run in other processes."""
INSTANCES = 6  # of one test function that are tried at most; of those further away, one
STEPS = (0.5, 5.0)  # seconds of tests for each mutant, and for one that survives these
ALIVE = ("survived", "not reached", "not tried")
KEPT = ROOT / ".pytest_cache" / "mutants"
EXPLAINED = Path(__file__).with_name("survivors.toml")


class Trials:
    """A plugin of pytest that runs mutants in the place of the tests that were collected."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in some_of(session.items, self.given.instances)}
        files = sorted({path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / "dpsql" / room).rglob("*.py")})
        forget()
        KEPT.mkdir(parents=True, exist_ok=True)
        reached = reach([*items.values()], files, KEPT, workers=self.given.workers, told=_tell)
        for name in [name for name in reached.modules if name.partition(".")[0] in sys.modules and name not in sys.modules]:
            try:
                importlib.import_module(name)
            except Exception:
                _tell(f"{name} is not imported")
        forget()
        functions()
        gc.freeze()
        drawn = sample(files, self.given)
        _tell(f"{len(drawn)} mutants, {len(reached.seconds)} tests, of which {len(reached.failed)} fail by themselves: {reached.failed[:9]}")
        self.run(drawn, Choice(reached, items))
        return True

    def run(self, drawn: Sequence[Mutant], choice: Choice) -> None:
        known = {record_key(record) for record in records(self.given.found) if not (self.given.again and record["ended"] in ALIVE)}
        left = [mutant for mutant in drawn if (mutant.path, mutant.number) not in known]
        workers = []
        for at in range(self.given.workers):
            child = os.fork()
            if child == 0:
                try:
                    for mutant in left[at :: self.given.workers]:
                        note(self.given.found, mutant, *tried(mutant, choice, self.given.steps))
                finally:
                    os._exit(0)
            workers.append(child)
        for child in workers:
            os.waitpid(child, 0)


def some_of(items: Sequence[pytest.Item], instances: int) -> Iterator[pytest.Item]:
    """Some instances of each test function, spread over all; the first ones of all functions come first."""
    by_function = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        by_function[item.nodeid.partition("[")[0]].append(item)
    chosen = [found[:: max(1, -(-len(found) // (instances if name.startswith(NEAR) else 1)))] for name, found in by_function.items()]
    for at in range(max(map(len, chosen), default=0)):
        yield from (found[at] for found in chosen if at < len(found))


class Choice:
    """The tests of a mutant, from the cheapest on, of as many files as there are."""

    def __init__(self, reached: Reached, items: Mapping[str, pytest.Item]) -> None:
        self.items, self.reached, self.bad = items, reached, {*reached.failed}
        self.setting = defaultdict[str, float](float)
        for name, seconds in reached.setting_up.items():
            self.setting[_file(name)] = max(self.setting[_file(name)], seconds)
        self.in_file = defaultdict[str, set[str]](set)
        for (path, _), names in reached.lines.items():
            self.in_file[path] |= {*names}

    def __call__(self, mutant: Mutant, seconds: float) -> list[pytest.Item]:
        names = {name for line in range(mutant.lines[0], mutant.lines[1] + 1) for name in self.reached.lines.get((mutant.path, line), ())}
        if mutant.at_import or not names:
            names |= self.in_file[mutant.path]
        by_file = defaultdict[str, list[str]](list)
        for name in sorted(names, key=lambda name: self.reached.seconds.get(name, 99.0)):
            if name in self.items and name in self.reached.seconds and name not in self.bad:
                by_file[_file(name)].append(name)
        own = {file for file in by_file if is_about(file, mutant.path)}
        taken = [*self._cheapest({file: by_file[file] for file in own}, seconds / 2)]
        taken += self._cheapest({file: tests for file, tests in by_file.items() if file not in own}, seconds - seconds / 2 * bool(own))
        if not taken and by_file:
            taken = [min((tests[0] for tests in by_file.values()), key=lambda name: self.reached.seconds[name])]
        order = {file: i for i, file in enumerate(dict.fromkeys(map(_file, taken)))}
        return [self.items[name] for name in sorted(taken, key=lambda name: order[_file(name)])]

    def _cheapest(self, by_file: Mapping[str, Sequence[str]], left: float) -> Iterator[str]:
        """Tests for so many seconds, of every file the quickest, then of every file the second, and so on."""
        for at in range(max(map(len, by_file.values()), default=0)):
            for file, tests in sorted(by_file.items(), key=lambda told: self.setting[told[0]] + self.reached.seconds[told[1][0]]):
                if at < len(tests):
                    cost = self.reached.seconds[tests[at]] + (self.setting[file] if at == 0 else 0.0) + 0.004
                    if cost <= left:
                        yield tests[at]
                        left -= cost


def is_about(file: str, path: str) -> bool:
    """Whether tests are those of a module: in the folder of its room, or called like it."""
    *_, room, module = Path(path).with_suffix("").parts
    return f"/{room}/" in file or module.rstrip("s") in file


def tried(mutant: Mutant, choice: Choice, steps: Sequence[float]) -> tuple[str, str, float]:
    """What becomes of a mutant: with few tests, and with many where it survives."""
    start = time.monotonic()
    if not choice(mutant, steps[-1]):
        return "not reached", "", 0.0
    for seconds in steps:
        ended, by = trial(mutant, choice(mutant, seconds), seconds * 4 + 5)
        if ended != "survived":
            break
    return ended, by, time.monotonic() - start


def sample(files: Sequence[str], given: argparse.Namespace) -> list[Mutant]:
    """Mutants of each room, as many as it has of all mutants, but no fewer than a twentieth of them all."""
    by_room = defaultdict[str, list[Mutant]](list)
    for name in files:
        if not any(name.startswith(left) for left in given.leave) and (not given.only or any(name.startswith(one) for one in given.only)):
            for mutant in mutants_of(ROOT / name):
                by_room[mutant.room if mutant.room in ROOMS else "trusted/plan/operators"].append(mutant)
    total, drawn = sum(map(len, by_room.values())), list[Mutant]()
    for room, found in sorted(by_room.items()):
        many = min(len(found), max(given.mutants // 20, round(given.mutants * len(found) / total)))
        drawn += random.Random(f"{given.seed} {room}").sample(found, many)
    random.Random(given.seed).shuffle(drawn)
    return drawn


def note(path: Path, mutant: Mutant, ended: str, by: str, seconds: float) -> None:
    line = {**vars(mutant), "room": mutant.room, "ended": ended, "by": by, "seconds": round(seconds, 2)}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def records(path: Path) -> list[dict[str, Any]]:
    """What was noted, of each mutant the last."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [*{record_key(record): record for record in map(json.loads, lines)}.values()]


def record_key(record: Mapping[str, Any]) -> tuple[str, int]:
    return record["path"], record["number"]


def explained() -> dict[tuple[str, str, str, str], str]:
    """Why each explained survivor may survive, by path, function, original and mutated text."""
    listed = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    return {(path, entry["function"], original, mutated): entry["why"]
            for path, entries in listed.items() for entry in entries for original, mutated in entry["changes"]}


def report(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The table of rooms, and the survivors without a reason."""
    found = [*found]
    ends = ("killed", "timed out", "crashed", *ALIVE)
    yield f"{'':26}{'mutants':>9}" + "".join(f"{end:>13}" for end in ends)
    for room in (*sorted({record["room"] for record in found}), ""):
        counts = Counter(record["ended"] for record in found if room in ("", record["room"]))
        yield f"{room or 'all':26}{counts.total():9}" + "".join(f"{counts[end]:13}" for end in ends)
    reasons = explained()
    alive = [one for one in found if one["ended"] in ALIVE]
    new = [one for one in alive if (one["path"], one["function"], one["original"], one["mutated"]) not in reasons]
    yield f"{len(alive) - len(new)} survivors are explained; {len(new)} are not"
    for one in sorted(new, key=lambda one: (one["path"], one["line"])):
        yield f"{one['path']}:{one['line']} ({one['function']}) [{one['kind']}, {one['ended']}]: {one['original']}  ->  {one['mutated']}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=float, nargs="+", default=STEPS, help="seconds of tests for a mutant, then for one that survives")
    parser.add_argument("--leave", nargs="*", default=[], help="files, or beginnings of their names, of which none are drawn")
    parser.add_argument("--only", nargs="*", default=[], help="draw mutants of these files alone")
    parser.add_argument("--tests", nargs="*", default=[], help="use these tests instead of all quick ones of the trusted rooms")
    parser.add_argument("--instances", type=int, default=INSTANCES, help="of each test function that are tried")
    parser.add_argument("--again", action="store_true", help="try those again that survived")
    parser.add_argument("--found", type=Path, default=KEPT / "found.jsonl", help="where each mutant's end is noted; those noted are not run again")
    parser.add_argument("--report", action="store_true", help="only show what was found")
    given = parser.parse_args()
    given.found.parent.mkdir(parents=True, exist_ok=True)
    if not given.report:
        pytest.main(["-q", "-o", "addopts=", "--import-mode=importlib", "-m", "not slow", "-p", "no:xdist", "-p", "no:cacheprovider", "-p",
                     "no:rerunfailures", "--capture=sys", "--rootdir", str(ROOT), *(given.tests or [str(ROOT / name) for name in (*NEAR, *FURTHER)]), "-k", " and ".join(f"not {name}" for name in ELSEWHERE)],
                    plugins=[Trials(given)])
    lines = [*report(records(given.found))]
    print(*lines, sep="\n")
    return int(" 0 are not" not in "".join(lines))


def _file(name: str) -> str:
    return name.partition("::")[0]


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.__stderr__, flush=True)


if __name__ == "__main__":
    sys.exit(main())
