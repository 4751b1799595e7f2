"""The mutants of a file: small changes of its text, each of which a test should notice.

A mutant is found again by what it changes and in which function, not by its line, as lines move.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from dpsql.frozen import Frozen

ROOT = Path(__file__).parents[2]
COMPARED: dict[type, type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
CALCULATED: dict[type, type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitXor: ast.BitAnd}
OTHERS = {"min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor", "floor": "ceil"}
SQL = re.compile(r"\b(SELECT|FROM|WHERE|CASE|CAST|JOIN|PARTITION|ORDER BY|GROUP BY|SUM|AND|OR|IS NOT|NULL)\b")
PRINTED = ((r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" = ", " <> "), (r" AND ", " OR "), (r" OR ", " AND "),
           (r"\bMIN\(", "MAX("), (r"\bMAX\(", "MIN("), (r" UNION ALL ", " UNION "), (r" \+ ", " - "), (r" - ", " + "), (r"IS NOT NULL", "IS NULL"),
           (r"IS NULL", "IS NOT NULL"), (r"\bLEFT JOIN", "JOIN"), (r"PARTITION BY .*? ORDER", "ORDER"), (r"\bDISTINCT ", ""), (r"\b0\b", "1"), (r"\b1\b", "0"))
"""Pieces of printed SQL, and what stands there instead."""
SILENT = frozenset({"__repr__", "__str__"})
TELLS = frozenset({"because", "reason", "message", "hint", "what", "why", "help", "doc", "strict"})
"""Arguments that people alone read, or that guard against faults of ours alone."""
NONE = -1
Change = Callable[[ast.AST], ast.AST]


class Site(NamedTuple):
    """A node of a file, what it becomes, and where it stands: its function, its statement, whether that runs at import alone."""

    node: ast.AST
    kind: str
    change: Change
    function: str
    statement: ast.stmt
    at_import: bool


class Mutant(Frozen, kw_only=False):
    """One change. `lines` are those of its statement; `number` is its place among all changes of the file."""

    path: str
    number: int
    kind: str
    function: str
    line: int
    lines: tuple[int, int]
    original: str
    mutated: str
    at_import: bool

    @property
    def room(self) -> str:
        _, *folders, _ = Path(self.path).parts
        return "/".join(folders[:3] if folders[:2] == ["trusted", "plan"] else folders[:2])

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is known by when lines have moved."""
        return self.path, self.function, self.original, self.mutated

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.function}): {self.original}  ->  {self.mutated}"


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a file."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    made = []
    for number, site in enumerate(sites(ast.parse(text))):
        original = _short(site.node)
        mutated = "nothing" if isinstance(site.node, ast.stmt) and site.change is _never else _short(site.change(site.node))
        head = site.statement.body[0].lineno - 1 if isinstance(getattr(site.statement, "body", None), list) else site.statement.end_lineno
        made.append(Mutant(path=name, number=number, kind=site.kind, function=site.function, line=site.node.lineno,  # type: ignore[attr-defined]
                           lines=(site.statement.lineno, max(site.statement.lineno, head or 0)), original=original, mutated=mutated,
                           at_import=site.at_import))
    return made


def mutated(mutant: Mutant) -> ast.Module:
    """The file with the change made; unchanged, where the number is NONE."""
    tree = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    if mutant.number == NONE:
        return tree
    site = [*sites(tree)][mutant.number]
    return ast.fix_missing_locations(_Replace(site).visit(tree))  # type: ignore[no-any-return]


class _Replace(ast.NodeTransformer):
    def __init__(self, site: Site) -> None:
        self.site = site

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.site.node:
            return ast.copy_location(self.site.change(node), node)
        return super().visit(node)


def _short(node: ast.AST) -> str:
    if isinstance(node, ast.stmt) and isinstance(getattr(node, "body", None), list):
        return ast.unparse(node).splitlines()[0]
    return re.sub(r"\s+", " ", ast.unparse(ast.fix_missing_locations(node)))[:140]


def sites(tree: ast.Module) -> Iterator[Site]:
    """All places of a file that are changed, each with one change, in the order of the text."""
    yield from _Finder().body(tree.body, "")


class _Finder:
    def __init__(self) -> None:
        self.function, self.inside, self.statement = "", False, ast.Pass()

    def body(self, statements: list[ast.stmt], within: str) -> Iterator[Site]:
        for at, statement in enumerate(statements):
            if at == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # a docstring
            yield from self.stated(statement, within)

    def stated(self, node: ast.stmt, within: str) -> Iterator[Site]:
        self.function, self.statement = within, node
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal() | ast.Pass():
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.ClassDef():
                yield from self.body(node.body, f"{within}{node.name}.")
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name in SILENT or any("overload" in ast.unparse(one) for one in node.decorator_list):
                    return
                for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                    yield from self.valued(default)
                outer, self.inside = self.inside, True
                yield from self.body(node.body, f"{within}{node.name}.")
                self.inside = outer
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.Raise():
                yield self.site(node, "dropped raise", _never)
                return
            case ast.Assert():
                yield self.site(node, "dropped assertion", _never)
            case ast.Expr(value=ast.Call()):
                yield self.site(node, "dropped call", _never)
            case ast.AugAssign() if type(node.op) in (ast.Add, ast.Sub, ast.Mult) and not _is_text(node.value):
                yield self.site(node, "operator", lambda node: _with(node, op=CALCULATED[type(node.op)]()))
            case ast.If() | ast.While():
                yield self.site(node.test, "dropped branch", lambda test: ast.Subscript(
                    value=ast.Tuple(elts=[test, ast.Constant(False)], ctx=ast.Load()), slice=ast.Constant(1), ctx=ast.Load()))
        for name, value in ast.iter_fields(node):
            if name == "annotation":
                continue
            for part in value if isinstance(value, list) else [value]:
                match part:
                    case ast.stmt():
                        yield from self.stated(part, within)
                    case ast.ExceptHandler():
                        yield from self.body(part.body, within)
                    case ast.match_case():
                        if part.guard is not None:
                            self.statement = node
                            yield from self.valued(part.guard)
                        yield from self.body(part.body, within)
                    case ast.withitem():
                        yield from self.valued(part.context_expr)
                    case ast.expr():
                        self.function, self.statement = within, node
                        yield from self.valued(part)

    def valued(self, node: ast.expr) -> Iterator[Site]:
        match node:
            case ast.Compare() if len(node.ops) == 1:
                yield self.site(node, "comparison", lambda node: _with(node, ops=[COMPARED[type(node.ops[0])]()]))
            case ast.Compare():
                for at in range(len(node.ops)):
                    yield self.site(node, "comparison", lambda node, at=at: _with(  # type: ignore[misc]
                        node, ops=[COMPARED[type(op)]() if i == at else op for i, op in enumerate(node.ops)]))
            case ast.BinOp() if type(node.op) in CALCULATED and not (_is_text(node.left) or _is_text(node.right)):
                yield self.site(node, "operator", lambda node: _with(node, op=CALCULATED[type(node.op)]()))
            case ast.BoolOp():
                yield self.site(node, "and, or", lambda node: _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=ast.expr()) if not isinstance(node.operand, ast.Constant):
                yield self.site(node, "dropped not" if isinstance(node.op, ast.Not) else "dropped minus", lambda node: node.operand)
            case ast.Constant(value=bool() | int() | float()):
                yield self.site(node, "constant", lambda node: ast.Constant(_other(node.value)))
            case ast.Constant(value=str()) if SQL.search(node.value):
                yield from self.printed(node)
            case ast.IfExp():
                yield self.site(node.test, "branch turned round", lambda test: ast.UnaryOp(op=ast.Not(), operand=test))
            case ast.Call(func=ast.Name(id=name)) if name in OTHERS:
                yield self.site(node, "other function", lambda node: _with(node, func=ast.Name(id=OTHERS[node.func.id], ctx=ast.Load())))
            case ast.Call(func=ast.Attribute(attr=name)) if name in OTHERS:
                yield self.site(node, "other function", lambda node: _with(node, func=_with(node.func, attr=OTHERS[node.func.attr])))
            case ast.Call(func=ast.Name(id="abs" | "sorted" | "frozenset" | "ceil"), args=[_]) if not node.keywords:
                yield self.site(node, "dropped function", lambda node: node.args[0])
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                for generator in node.generators:
                    for test in generator.ifs:
                        yield self.site(test, "dropped filter", lambda test: ast.Subscript(
                            value=ast.Tuple(elts=[test, ast.Constant(True)], ctx=ast.Load()), slice=ast.Constant(1), ctx=ast.Load()))
            case ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "cast")):
                return
        for part in ast.iter_child_nodes(node):
            match part:
                case ast.keyword() if part.arg in TELLS:
                    continue
                case ast.keyword():
                    yield from self.valued(part.value)
                case ast.comprehension():
                    for inner in (part.iter, *part.ifs):
                        yield from self.valued(inner)
                case ast.FormattedValue():
                    yield from self.valued(part.value)
                case ast.expr():
                    outer, self.inside = self.inside, self.inside or isinstance(node, ast.Lambda)
                    yield from self.valued(part)
                    self.inside = outer

    def printed(self, node: ast.Constant) -> Iterator[Site]:
        for pattern, other in PRINTED:
            if re.search(pattern, node.value):
                yield self.site(node, "printed SQL", lambda node, pattern=pattern, other=other: ast.Constant(  # type: ignore[misc]
                    re.sub(pattern, other, node.value, count=1)))
                return

    def site(self, node: ast.AST, kind: str, change: Change) -> Site:
        return Site(node, kind, change, self.function.rstrip("."), self.statement, not self.inside)


def _with(node: ast.AST, **given: object) -> ast.AST:
    parts = {name: getattr(node, name) for name in node._fields} | given
    return ast.copy_location(type(node)(**parts), node)


def _never(node: ast.AST) -> ast.AST:
    """The statement, which is not reached; what it closes over stays the same, and so do the functions in it."""
    assert isinstance(node, ast.stmt)
    test = ast.Call(func=ast.Attribute(value=ast.Tuple(elts=[], ctx=ast.Load()), attr="__len__", ctx=ast.Load()), args=[], keywords=[])
    return ast.copy_location(ast.If(test=test, body=[node], orelse=[]), node)


def _other(value: bool | int | float) -> bool | int | float:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return 0 if value == 1 else value + 1
    return 1.0 if value == 0 else value * 2


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
