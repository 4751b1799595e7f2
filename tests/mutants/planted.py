"""A mutant in the place of the code that runs: in the functions that are there, or in modules that are imported anew."""

from __future__ import annotations

import ast
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mutants.mutations import ROOT, Mutant, mutated

from dpsql.trusted.cached import cached_property as plain_cached

CACHED = (functools.cached_property, plain_cached)


def compiled(tree: ast.Module | str, path: str) -> types.CodeType:
    return compile(tree, str(ROOT / path), "exec", dont_inherit=True)


@functools.cache
def functions() -> dict[types.CodeType, list[types.FunctionType]]:
    """All functions of our files by their code."""
    found = defaultdict(list)
    gc.unfreeze()  # what a run of tests has frozen is not listed otherwise
    for one in gc.get_objects():
        if type(one) is types.FunctionType and one.__code__.co_filename.startswith(str(ROOT / "dpsql")):
            found[one.__code__].append(one)
    return found


@functools.cache
def unchanged(path: str) -> types.CodeType:
    return compiled((ROOT / path).read_text(encoding="utf-8"), path)


def plant(mutant: Mutant) -> bool:
    """Put the changed code into every function that has it; whether there was one."""
    before, changed = unchanged(mutant.path), 0
    for old, new in _pairs(before, compiled(mutated(mutant), mutant.path)):
        for function in functions().get(old, ()) if old != new else ():
            if function.__code__.co_filename == before.co_filename:
                function.__code__, changed = new, changed + 1
    return changed > 0


def _pairs(old: types.CodeType, new: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    yield old, new
    inner = [[part for part in code.co_consts if isinstance(part, types.CodeType)] for code in (old, new)]
    for pair in zip(*inner, strict=True):
        yield from _pairs(*pair)


class _Noting(ast.NodeTransformer):
    """Every statement of a function first tells its line."""

    def __init__(self, path: str) -> None:
        self.path, self.inside = path, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self.inside = self.inside, True
        self.generic_visit(node)
        self.inside = outer
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody") if self.inside else ():
            if isinstance(statements := getattr(node, name, None), list):
                setattr(node, name, [part for each in statements for part in self.told(each)])
        return node

    def told(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            place = ast.Tuple(elts=[ast.Constant(self.path), ast.Constant(statement.lineno)], ctx=ast.Load())
            yield ast.Expr(ast.Call(func=ast.Name(id=NOTED, ctx=ast.Load()), args=[place], keywords=[]))
        yield statement


NOTED = "__noted__"


def note_lines(paths: Iterable[str]) -> set[tuple[str, int]]:
    """From here on, every statement of functions of these files is noted in a set when it is executed."""
    seen = set[tuple[str, int]]()
    for path in paths:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        noting = compiled(ast.fix_missing_locations(_Noting(path).visit(tree)), path)
        for old, new in _pairs(unchanged(path), noting):
            for function in functions().get(old, ()):
                if function.__code__.co_filename == new.co_filename:
                    function.__code__ = new
                    function.__globals__[NOTED] = seen.add
    return seen


def forget() -> None:
    """Nothing is remembered that functions of ours, or of tests, have worked out."""
    gc.unfreeze()
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and _ours(getattr(one, "__module__", None) or ""):
            one.cache_clear()
        elif str(type.__dict__["__module__"].__get__(type(one))).startswith("dpsql") and isinstance(getattr(one, "__dict__", None), dict):
            for name in [name for name in one.__dict__ if isinstance(getattr(type(one), name, None), CACHED)]:
                del one.__dict__[name]


def _ours(module: str) -> bool:
    if module.startswith("dpsql"):
        return True
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return path.startswith(str(ROOT / "tests"))


def import_anew(mutant: Mutant) -> None:
    """All modules of ours and of the tests are imported again, one of them changed."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if (name.startswith("dpsql") or path.startswith(str(ROOT / "tests"))) and not name.startswith(("mutants", "__main__")):
            del sys.modules[name]
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.name = ".".join(Path(mutant.path).with_suffix("").parts).removesuffix(".__init__")
        self.mutant = mutant

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        file = ROOT / self.mutant.path
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, str(file), self.mutant))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> types.CodeType:
        return compiled(mutated(self.mutant), self.mutant.path)
