"""What has to be right for the promise to hold: derived from the imports, named in the guide to the architecture, and kept small."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "dpsql" / "guides" / "architecture.md").read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted((ROOT / "dpsql").rglob("*.py"))}
DOORS = ("dpsql.backends.duckdb", "dpsql.backends.file_tables", "dpsql.backends.snapshots", "dpsql.backends.store_parts", "dpsql.backends.store_writer",
         "dpsql.backends.spark_shuffle", "dpsql.ledgers.proven_facts", "dpsql.ledgers.postgres_store",
         "dpsql.catalog.policy", "dpsql.catalog.promise", "dpsql.catalog.schema", "dpsql.budgets.convert")
"""What the kernel is handed and cannot check: the reader of the rows, what was found of files, a store of the ledger in another
database, the declarations, and the limits of a budget."""
OUTSIDE = frozenset({"dpsql.errors", "dpsql.frozen", "dpsql.types"})
"""What is trusted and stands outside the trusted folder, as everybody's."""


@cache
def imported(module: str) -> frozenset[str]:
    """The modules of ours that a module imports, in functions too. Imports for type checkers alone count as well."""
    found = set()
    for node in ast.walk(tree_of(MODULES[module])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{module}: imports are by full names"
            found |= {f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in MODULES else node.module for alias in node.names}
    return frozenset(found & MODULES.keys())


def closure(*roots: str) -> frozenset[str]:
    """The modules and all that they import. A package whose own file holds nothing but a docstring is none."""
    found, new = set[str](), list(roots)
    while new:
        if (module := new.pop()) not in found:
            found.add(module)
            new += imported(module)
    return frozenset(module for module in found if not is_empty(MODULES[module]))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_empty(path: Path) -> bool:
    """Whether a file holds no code: nothing but a docstring."""
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree_of(path).body)


@cache
def lines_of(path: Path) -> int:
    """Lines of code: without docstrings, comments and blank lines."""
    text = path.read_text(encoding="utf-8")
    told = {line for node in ast.walk(tree_of(path)) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str) for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    return len({line for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in skipped
                for line in range(token.start[0], token.end[0] + 1)} - told)


def size(modules: Iterable[str]) -> int:
    return sum(lines_of(MODULES[module]) for module in modules)


def below(*rooms: str) -> list[str]:
    return [module for module in MODULES if any(module == room or module.startswith(f"{room}.") for room in rooms)]


KERNEL = closure("dpsql.trusted.kernel.run")
HANDED = closure("dpsql.trusted.kernel.run", *DOORS) - KERNEL


def test_a_lazy_import_counts() -> None:
    assert "dpsql.solvers.portable" in imported("dpsql.solvers.usual"), "imported in a function only"
    assert "dpsql.trusted.measurements.noisy_sums" in KERNEL and "dpsql.trusted.noise.source" in KERNEL


# -- the guide to the architecture


def listed(paragraph: str) -> Iterator[str]:
    """The modules that a paragraph names: `room/` is all of a room, `room/` (but `{a, b}`) all but these, `room/{a, b}` these."""
    for room, but, some in re.findall(r"`([\w/]*/|)(?:` \(but `\{([\w, ]+)\}`\)|\{([\w, ]+)\}`|`)", paragraph):
        base = ".".join(["dpsql", *room.strip("/").split("/")] if room else ["dpsql"])
        if some:
            yield from (f"{base}.{name}" for name in some.split(", "))
        elif room:
            yield from (module for module in below(base) if module not in [f"{base}.{name}" for name in but.split(", ")] and not is_empty(MODULES[module]))


@pytest.mark.parametrize(("begins", "modules"), [("Trusted for privacy", KERNEL), ("Handed to the kernel", HANDED)])
def test_the_guide_names_what_is_trusted(begins: str, modules: frozenset[str]) -> None:
    """An import into a trusted module makes this fail. Is it needed? Then what it brings is read as closely as the rest."""
    paragraph = GUIDE.split(f"\n{begins}")[1].split("\n\n")[0]
    named = [*listed(paragraph)]
    assert len(named) == len(set(named))
    assert set(named) - modules == set(), "named in the guide, and not imported"
    assert modules - set(named) == set(), "imported, and not named in the guide"


def test_one_folder_holds_what_is_trusted_and_nothing_else() -> None:
    assert {module for module in below("dpsql.trusted") if not is_empty(MODULES[module])} == KERNEL - OUTSIDE


def test_what_is_trusted_imports_nothing_that_is_not() -> None:
    """Linters check it, as the folder is one of the lowest layers: nothing is below it but what everybody uses."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    contract, = (one for one in settings["contracts"] if one.get("containers") == ["dpsql"])
    layers = [set(layer.split(" | ")) for layer in contract["layers"]]
    lower = {f"dpsql.{room}" for layer in layers[layers.index({"trusted"}) + 1:] for room in layer}
    assert contract["type"] == "layers" and "ignore_imports" not in contract and lower == OUTSIDE


SOLVING = "highspy", "scipy", "pulp", "networkx"


def test_what_is_trusted_solves_by_no_library() -> None:
    """Points, prices and flows come from outside or from exact arithmetic. The solvers say that they are not trusted, and why."""
    for module in KERNEL:
        found = re.findall(r"^\s*(?:import|from) (\w+)", MODULES[module].read_text(encoding="utf-8"), re.MULTILINE)
        assert not set(SOLVING) & set(found), module
    for module in below("dpsql.solvers"):
        told = ast.get_docstring(tree_of(MODULES[module])) or ""
        assert re.search("[Nn]ot(hing here is)? trusted", told) and "extensions" in told, module


def test_what_a_proof_needs_is_raised_and_not_asserted() -> None:
    """`python -O` leaves assertions out."""
    asserted = [(module, node.lineno) for module in sorted(KERNEL) for node in ast.walk(tree_of(MODULES[module]))
                if isinstance(node, ast.Assert)]
    assert len(KERNEL) > 100 and asserted == []


# -- sizes, so that growth is noticed


SAMPLERS = ("source", "student", "inverse_cdf")
INNERMOST = {
    "run": ["dpsql.trusted.kernel.run"],
    "what the ledger decides": [f"dpsql.trusted.kernel.{module}" for module in ("chain", "sums", "period_runs", "period_sums")],
    "samplers": [*(f"dpsql.trusted.noise.{module}" for module in SAMPLERS)],
    "primitives of noise": [module for module in below("dpsql.trusted.noise") if module.split(".")[-1] not in SAMPLERS],
    "accounting": sorted(module for module in KERNEL if module.startswith("dpsql.trusted.accounting.")),
    "checker": ["dpsql.trusted.kernel.checker"],
}
SPARK = sorted(module for module in HANDED if module.startswith("dpsql.backends.spark"))
SNAPSHOTS = [f"dpsql.backends.{module}" for module in (
    "catalog_rows", "dialects", "drivers", "key_equality", "manifests", "postgres_catalog", "snapshots", "sqlite_catalog")]
FOREIGN = [f"dpsql.backends.{module}" for module in (
    "arrow_files", "column_names", "foreign_files", "foreign_rows", "statistics_files", "workbooks")]
SIGN_ON = [f"dpsql.server.vault.{module}" for module in ("sign_on", "sign_on_names", "sign_on_provider", "sign_on_terms")]
CHECKER = 200  # lines that are read in one sitting
ROOMS = {
    **{f"innermost: {room}": (modules, most) for (room, modules), most in zip(
        INNERMOST.items(), (255, 561, 241, 256, 91, CHECKER), strict=True)},  # the first two with answers in parts, stopped statements told from failed ones, and periods that are charged and revised, kept as runs, and limited in any so many of them; the first with costs that are stated for periods, and versions of tables
    "innermost: all of it": ([module for modules in INNERMOST.values() for module in modules], 1601),
    "shapes, claims and copies of requests": (["dpsql.trusted.kernel.shapes", "dpsql.trusted.kernel.claims", "dpsql.trusted.kernel.split_by_entity", "dpsql.trusted.kernel.taken"], 673),  # with times of arrival, and certificates for one period
    "sizes of plans": (["dpsql.trusted.kernel.plan_size"], 98),
    "the store of the ledger": ([f"dpsql.trusted.kernel.{module}" for module in (
        "ledger", "anchor", "event_store", "marks", "past", "reported", "running_statements", "sqlite_store", "turns", "waypoint")], 1160),
    "the ledger in PostgreSQL": (["dpsql.ledgers.postgres_store"], 330),
    "measurements": (below("dpsql.trusted.measurements"), 2693),
    "extensions": (below("dpsql.trusted.extensions"), 1055),
    "operators": (sorted(module for module in KERNEL if module.startswith("dpsql.trusted.plan.operators.")), 2325),  # with late rows that are dropped
    "expressions": (below("dpsql.trusted.plan.expr"), 772),  # with places among the first days of periods
    "all that the kernel can run": (sorted(KERNEL), 12430),  # with weighted sums over periods, certificates for one person in one period, versions of tables, late rows, revisions and a clock that does not go back, interruptions that the engine tells from other faults, and periods of growing tables with what they are charged, and the parts of stores that they are read from
    "what charges promise": (["dpsql.catalog.promise"], 257),  # with calendars, and places that two tables may share
    "what it is handed": (sorted(HANDED - {*SNAPSHOTS, *FOREIGN, *SPARK, "dpsql.catalog.promise", "dpsql.ledgers.postgres_store"}), 4236),  # with the name of a Parquet file that is not complete, ends of files that the engine cannot read as texts, what policies say of growing tables and their late rows, and how their stores are added to, files of growing tables that are verified one by one, released rows by column, the terms of agents, engines without threads, and interruptions that do not hide a fault
    "stores that Spark reads": (SPARK, 890),
    "snapshots of other databases": (SNAPSHOTS, 1003),  # with growing tables, whose periods are copied once, by a clock that may have been ahead, and the day of which they are
    "files of other programs": (FOREIGN, 430),
    # lists for auditors and what owners change about users are decided in the vault, as the front may be in other hands: 300 lines,
    # of which people are closed who sign on elsewhere, and causes of stops are counted; turns, and what is crowded; an account's
    # charges before a day and in any periods, its stored answers, those told of standing queries, and a setting for agents; memory that is handed back to the system
    "the vault of a server": ([*(module for module in below("dpsql.server.vault", "dpsql.server.link") if module not in SIGN_ON),
                               "dpsql.server.start.serving"], 2060),
    "signing on elsewhere": (SIGN_ON, 420),  # with the names that keep people apart whose names are folded alike; with the states of
    # sessions by account, so that strangers fill no memory, a rest after a failed request to the provider, who is signed on, to be
    # closed, and whose each name is
    "the walls of its front": ([*below("dpsql.server.walls"), "dpsql.server.start.front_process"], 431),
}


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_trusted_stays_small(room: str) -> None:
    """Shown by `pytest -s`. A bound that is raised is a decision: it is more to read for whoever wants to trust."""
    modules, most = ROOMS[room]
    found = size(modules)
    print(f"{room:35} {len(modules):4} modules {found:6} lines of code, at most {most}")
    assert 0.95 * most - 10 <= found <= most, "lower the bound where a room has shrunk"
