"""One place to add: of each kind a toy is added to a copy of the package, by one new file and one line, and is used from there.

An operator is the exception. The checker derives how far it moves rows a second time and believes nothing that its own file says, so
its columns and its rule there are written by another hand, on purpose.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.frozen import Frozen

ROOT = Path(__file__).parents[2]
OPENED = """
from pathlib import Path
import dpsql
from dpsql.demo import folder
policy = folder.export(Path("study"))
con = dpsql.connect(policy=policy, budget=folder.BUDGET, epsilon=0.5)
"""


class Toy(Frozen):
    """A file that is added, the place of the one line with its import, what the checker has to know of it besides, and what shows
    that it is used."""

    file: str
    code: str
    catalogue: str
    line: tuple[str, str]  # what stands there, and what stands there then
    imports: str
    use: str
    checked: tuple[tuple[str, str, str], ...] = ()  # a file of the kernel, what stands there, and what stands there then


STRATEGY = Toy(
    file="strategies/toy.py", code='''
"""Noise on the cells, under another name."""

from dpsql.strategies.plain import plan_cells


def plan(workload, targets=None):
    return plan_cells(workload, targets)
''', catalogue="strategies/all_strategies.py", imports="from dpsql.strategies import toy",
    line=('    "identity": plain.plan_cells,\n', '    "identity": plain.plan_cells,\n    "toy": toy.plan,\n'), use=OPENED + """
told = con.explain("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'toy', rho = 0.01) female, COUNT(*) FROM people GROUP BY female")
assert "toy" in str(told), told
print(len(con.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'toy', rho = 0.01) female, COUNT(*) FROM people GROUP BY female").fetchall()))
""")

MECHANISM = Toy(
    file="mechanisms/toy.py", code='''
"""The discrete Laplace mechanism, under another name."""

from dpsql.mechanisms.additive_noise import Laplace


class Toy(Laplace):
    name = "toy"
''', catalogue="mechanisms/all_mechanisms.py", imports="from dpsql.mechanisms.toy import Toy",
    line=("(Laplace(), ", "(Laplace(), Toy(), "), use=OPENED + """
assert "toy" in str(con.explain("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'toy') COUNT(*) FROM people"))
print(con.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'toy') COUNT(*) FROM people").fetchall())
""")

DECIDER = Toy(
    file="validation/deciders/toy.py", code='''
"""A coin of another name."""

from dpsql.validation.deciders.coin import Coin


class Toy(Coin):
    def __init__(self):
        super().__init__("toy", blunt=False)
''', catalogue="validation/deciders/all_deciders.py", imports="from dpsql.validation.deciders.toy import Toy",
    line=("FlipDistance(), ", "FlipDistance(), Toy(), "), use=OPENED + """
import pandas as pd
syn = pd.DataFrame({"female": [True, False] * 1000})
told = con.validate("SELECT COUNT(*) FROM people", synthetic=syn, within="5 PERCENT", decider="toy")
print(told)
""")

REWRITE = Toy(
    file="questions/rules/keep_toys.py", code='''
"""A rewrite that changes nothing."""

from dpsql.questions.rules.rule import rule


@rule
def keep_toys(plan):
    return plan
''', catalogue="questions/rules/all_rules.py", imports="from dpsql.questions.rules.keep_toys import keep_toys",
    line=("    push_filters,", "    keep_toys,\n    push_filters,"), use="""
from dpsql.questions.rules.all_rules import RULES
assert "keep_toys" in [rule.__name__ for rule in RULES]
""")

MEASUREMENT = Toy(
    file="trusted/measurements/toy.py", code='''
"""The number of rows of a relation, with noise."""

from dpsql.frozen import Frozen
from dpsql.trusted.measurements.reading.occupied_cells import sums_in
from dpsql.trusted.noise.integer import Noise, drawn
from dpsql.trusted.plan.certificate import Sensitivity
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums


class Toy(Frozen):
    """Cost: one entity moves the count by its rows at most."""

    plan: GroupedSums
    noise: Noise

    @property
    def plans(self):
        return (self.plan,)

    def cost(self, certificate):
        rows = certificate.below.rows
        return self.noise.cost(Sensitivity(l1=rows, l2=rows))

    def release(self, context, certificate):
        return sums_in(context.reader.columns(*context.query(self.plan)), 0, ((),))[0][0] + drawn(self.noise, context.noise)
''', catalogue="trusted/measurements/all_measurements.py", imports="from dpsql.trusted.measurements.toy import Toy",
    line=("frozenset({\n", "frozenset({\n    Toy,\n"), use=OPENED + """
from dpsql.trusted.accounting.cost import pure
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.measurements.toy import Toy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count
table = con.session.catalog.table("people")
scan = Scan(table=table, columns=(), owners=("owner",))
request = Toy(plan=GroupedSums(input=scan, keys=(), summands=(Count(),)), noise=DiscreteLaplace(scale=1.0))
script = (lambda: (yield request))()
print(con.session.kernel.run(script, cost=pure(1), account=con.session.account, limits=con.session.limits, digest="toy",
                             sql="toy", encode=str))
""")

OPERATOR = Toy(
    file="trusted/plan/operators/toy.py", code='''
"""The same rows."""

from dpsql.trusted.plan.node import Node


class Toy(Node):
    """Proof. The rows are those below."""

    input: Node

    @property
    def fields(self):
        return self.input.fields

    @property
    def inputs(self):
        return (self.input,)

    def stability(self, below, public):
        return below[0]

    def render(self, below, printing):
        return below[0]
''', catalogue="trusted/kernel/shapes.py", imports="from dpsql.trusted.plan.operators.toy import Toy",
    line=("Project, Distinct, GroupBy,", "Project, Distinct, Toy, GroupBy,"),
    checked=(("trusted/kernel/shapes.py", "case Distinct():", "case Distinct() | Toy():"),
             ("trusted/kernel/checker.py", "shapes.Numbers: _numbers,", "shapes.Numbers: _numbers, shapes.Toy: lambda _, columns, below: below,")),
    use=OPENED + """
from dpsql.trusted.accounting.cost import pure
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count
from dpsql.trusted.plan.operators.toy import Toy
scan = Scan(table=con.session.catalog.table("people"), columns=(), owners=("owner",))
request = NoisySums(plan=GroupedSums(input=Toy(input=scan), keys=(), summands=(Count(),)), cells=((),),
                    noises=(DiscreteLaplace(scale=1.0),))
script = (lambda: (yield request))()
print(con.session.kernel.run(script, cost=pure(1), account=con.session.account, limits=con.session.limits, digest="toy",
                             sql="toy", encode=str))
""")

BACKEND = Toy(
    file="backends/toy.py", code='''
"""DuckDB files, by another way of naming them."""

from dpsql.backends.duckdb import open_database


def open_toy(place):
    return open_database(place.removeprefix("toy:"))
''', catalogue="backends/all_backends.py", imports="from dpsql.backends.toy import open_toy",
    line=('{"": open_database}', '{"": open_database, "toy:": open_toy}'), use="""
import duckdb
from dpsql.backends.all_backends import open_place
with duckdb.connect("people.duckdb") as made:
    made.execute("CREATE TABLE people AS SELECT i FROM range(1000) t(i)")
assert open_place("toy:people.duckdb").rows("SELECT COUNT(*) FROM people") == [(1000,)]
""")

TOYS = {"strategy": STRATEGY, "mechanism": MECHANISM, "decider": DECIDER, "rewrite": REWRITE, "measurement": MEASUREMENT,
        "operator": OPERATOR, "back end": BACKEND}


def add(toy: Toy, package: Path) -> list[str]:
    """The files that are touched."""
    (package / toy.file).write_text(toy.code.lstrip())
    for place, *line in (toy.catalogue, *toy.line), *toy.checked:
        text = (package / place).read_text()
        assert text.count(line[0]) >= 1, f"{place} has no {line[0]!r}"
        (package / place).write_text(text.replace(*line, 1))
    catalogue = package / toy.catalogue
    text = catalogue.read_text()
    first = re.search(r"^from dpsql", text, flags=re.M)
    assert first is not None
    catalogue.write_text(text[:first.start()] + toy.imports + "\n" + text[first.start():])
    return list(dict.fromkeys([toy.file, toy.catalogue, *(place for place, *_ in toy.checked)]))


@pytest.mark.parametrize("kind", TOYS)
def test_a_toy_of_each_kind_is_one_file_and_one_line(kind: str, tmp_path: Path) -> None:
    toy = TOYS[kind]
    shutil.copytree(ROOT / "dpsql", tmp_path / "dpsql")  # with what is compiled
    touched = add(toy, tmp_path / "dpsql")
    ran = subprocess.run([sys.executable, "-c", toy.use], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                         env={"PYTHONPATH": str(tmp_path), "DPSQL_STATE": "", "PATH": "/usr/bin:/bin"})
    print(f"{kind}: {', '.join(touched)}")
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert len(touched) == (3 if toy.checked else 2)
