"""From a query in PostgreSQL's words about its system catalogue to one that DuckDB runs over tables of the same rows.

sqlglot reads the text as PostgreSQL's and prints the tree as DuckDB's. Here the tree is checked, and what DuckDB does not have is
replaced in it. It may name relations of the catalogue and functions from a list, and nothing else.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import Frozen, field
from dpsql.server.front.catalogue.catalog_facts import CLASSES
from dpsql.server.front.catalogue.catalog_functions import CASTS, MACROS, NATIVE, OF_TABLES, ROWS
from dpsql.server.front.catalogue.catalog_parameters import FINAL, decimal
from dpsql.server.front.catalogue.catalog_words import KEYWORDS
from dpsql.server.front.terms.figured_names import own_name

SCHEMAS = ("pg_catalog", "information_schema")
FORBIDDEN = (exp.DDL, exp.DML, exp.Command, exp.Into, exp.Lock, exp.Semicolon)
# of those that sqlglot knows by a class of their own; DuckDB has them, or they are replaced below
KNOWN = (
    exp.And, exp.Or, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Coalesce, exp.Nullif, exp.Array, exp.ArrayToString,
    exp.ArrayAgg, exp.ArrayContainsAll, exp.ArrayPosition, exp.Concat, exp.ConcatWs, exp.Count, exp.Max, exp.Min, exp.Sum,
    exp.Avg, exp.GroupConcat, exp.Exists, exp.Lower, exp.Upper, exp.Length, exp.Substring, exp.Trim, exp.Replace,
    exp.StrPosition, exp.Left, exp.Right, exp.Split, exp.RegexpReplace, exp.RegexpLike, exp.RegexpILike,
    exp.ExplodingGenerateSeries, exp.GenerateSeries, exp.Unnest, exp.Explode, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Abs,
    exp.Round, exp.Floor, exp.Ceil, exp.Greatest, exp.Least, exp.LogicalAnd, exp.LogicalOr, exp.CurrentUser, exp.SessionUser,
    exp.CurrentSchema, exp.CurrentSchemas, exp.StringToArray, exp.CurrentDatabase, exp.CurrentCatalog, exp.CurrentVersion,
    exp.CurrentTimestamp, exp.CurrentDate, exp.Initcap, exp.SplitPart, exp.Any, exp.StartsWith, exp.Inline)
_REGISTERED = {"regclass": ("to_regclass", "relation_name"), "regtype": ("to_regtype", "type_name"),
               "regnamespace": ("to_regnamespace", "namespace_name"), "regrole": ("to_regrole", "role_name")}
_VECTORS = ("indkey", "indclass", "indcollation", "indoption")  # which count from 0
SUBSCRIPTS = "generate_subscripts"
_FUNCTIONS = ("typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze", "typsubscript")
_OPERATORS: Mapping[str, Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
    "~": lambda a, b: _matches(a, b), "!~": lambda a, b: exp.Not(this=_matches(a, b)),
    "~*": lambda a, b: _matches(a, b, "i"), "!~*": lambda a, b: exp.Not(this=_matches(a, b, "i")),
    "=": lambda a, b: exp.EQ(this=a, expression=b), "<>": lambda a, b: exp.NEQ(this=a, expression=b),
    "~~": lambda a, b: exp.Like(this=a, expression=b), "!~~": lambda a, b: exp.Not(this=exp.Like(this=a, expression=b)),
    "~~*": lambda a, b: exp.ILike(this=a, expression=b), "||": lambda a, b: exp.DPipe(this=a, expression=b),
    "+": lambda a, b: exp.Add(this=a, expression=b), "-": lambda a, b: exp.Sub(this=a, expression=b),
    ">": lambda a, b: exp.GT(this=a, expression=b), "<": lambda a, b: exp.LT(this=a, expression=b)}


class Asking(Frozen):
    """Who asks, as functions of PostgreSQL tell it; `settings` are those of the connection."""

    user: str
    database: str
    version: str
    schema: str
    settings: Mapping[str, str] = field(default_factory=dict)
    process: int = 0


def rewritten(tree: exp.Query, known: Set[str], asking: Asking, parameters: Sequence[exp.Expr]) -> exp.Expr:
    """The tree for DuckDB, over the `known` relations, which are named with their schema. Raises SqlError or Unsupported."""
    tree = tree.copy()
    for name in tree.find_all(exp.Identifier):
        if not name.args.get("quoted"):
            name.set("this", name.name.lower())
    _tell_classes(tree)
    _name_values(tree)
    _name_outputs(tree)
    made = _names_of_own(tree)
    steps: tuple[Callable[[exp.Expr], exp.Expr], ...] = (
        lambda node: _parameter(node, parameters), lambda node: _plain(node, asking),
        lambda node: _relation(node, known, made, asking), _function, _cast, _comparison)
    root = exp.Paren(this=tree)  # so that the tree itself has a place
    for step in steps:
        for node in reversed(list(root.this.walk(bfs=False))):  # what is inside first: it may be replaced by what is around it
            made_of = step(node)
            if made_of is not node:
                node.replace(made_of)
    _check(root.this)
    return root.this  # type: ignore[no-any-return]


def _tell_classes(tree: exp.Query) -> None:
    """a.tableoid, a column that every table of PostgreSQL has and no listing tells, becomes the oid of the relation a."""
    for column in [each for each in tree.find_all(exp.Column) if each.name == "tableoid" and each.table]:
        named = next((table.name for table in tree.find_all(exp.Table) if table.alias_or_name == column.table), "")
        column.replace(exp.Literal.number(CLASSES.get(named, 0)))


def _name_values(tree: exp.Query) -> None:
    """Give a function that stands for a table, as in FROM current_schema(), its own name before its value takes its place."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func) and not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(_name_of(table.this))))


def _names_of_own(tree: exp.Query) -> Set[str]:
    """The names that the query gives by WITH. In the tree they become names that no relation of DuckDB has: where one is used
    outside of the query that gives it, nothing else is meant."""
    made = set[str]()
    for each in tree.find_all(exp.CTE):
        made.add(each.alias.lower())
        each.args["alias"].set("this", _of_own(each.alias.lower()))
    return made


def _of_own(name: str) -> exp.Identifier:
    return exp.to_identifier(f"with {name}", quoted=True)


def _check(tree: exp.Expr) -> None:
    """Raise Unsupported for what is no question, or calls what is on no list."""
    for node in tree.walk():
        if isinstance(node, FORBIDDEN):
            raise _refused(type(node).__name__)
        if isinstance(node, exp.Anonymous):
            name = str(node.this).lower()
            if name not in MACROS and name not in NATIVE:
                raise _refused(f"the function {name}")
        elif isinstance(node, exp.Func) and not isinstance(node, (*KNOWN, exp.Predicate, exp.Connector)):
            raise _refused(f"the function {node.sql_name().lower()}")


def _refused(what: str) -> Unsupported:
    return Unsupported(f"{what} is not available in queries of the system catalogue", code="catalogue",
                       try_="SHOW TABLES, or DESCRIBE and a table")


def _name_outputs(tree: exp.Query) -> None:
    """Give the columns the names that PostgreSQL gives them."""
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if isinstance(first, exp.Select):
        first.set("expressions", [item if isinstance(item, exp.Alias) or item.is_star else exp.alias_(
            item, _name_of(item), quoted=True) for item in first.expressions])


def _name_of(item: exp.Expr) -> str:
    match item:
        case exp.Column() | exp.Identifier():
            return item.name
        case exp.Dot(expression=inner):
            return _name_of(inner) if isinstance(inner, exp.Expr) else str(inner)
        case exp.Cast(this=inner):
            return _name_of(inner) if _name_of(inner) != "?column?" else own_name(type_name(item.to).removeprefix("_"))
        case exp.Paren(this=inner) | exp.Subquery(this=exp.Select(expressions=[inner])):
            return inner.alias if isinstance(inner, exp.Alias) else _name_of(inner)
        case exp.Case():
            last = item.args.get("default")
            return "case" if last is None or _name_of(last) == "?column?" else _name_of(last)
        case exp.Anonymous():
            return str(item.this).lower()
        case exp.CurrentVersion():
            return "version"
        case exp.CurrentTimestamp():
            return "now"
        case exp.Func() if not isinstance(item, exp.Predicate | exp.Connector):
            return item.sql_name().lower()
    return "?column?"


def _parameter(node: exp.Expr, parameters: Sequence[exp.Expr]) -> exp.Expr:
    """A parameter becomes the constant that it stands for."""
    if not isinstance(node, exp.Parameter):
        return node
    number = int(node.name) if node.name.isdigit() else 0
    if not 1 <= number <= len(parameters):
        raise SqlError(f"there is no value for the parameter ${node.name}", code="parameter", try_="a value for each parameter")
    return parameters[number - 1].copy()


def _plain(node: exp.Expr, asking: Asking) -> exp.Expr:
    """What PostgreSQL writes in ways of its own: names with their schema, collations, escaped texts; and who asks."""
    match node:
        case exp.Dot(this=exp.Identifier() as schema, expression=call) if schema.name.lower() in SCHEMAS and isinstance(
                call, exp.Expr) and not isinstance(call, exp.Identifier):
            return call
        case exp.Collate(this=exp.Expr() as inner):
            return inner
        case exp.ByteString():
            return exp.Literal.string(node.name)
        case exp.Operator(this=left, expression=right) if (made := _OPERATORS.get(str(node.args["operator"]).split(".")[-1])):
            return made(left, right.this if isinstance(right, exp.Collate) else right)
        case exp.Column() if node.args.get("db") is not None:
            return exp.column(node.this, table=node.args["table"])
        case exp.CurrentTimestamp():
            return exp.cast(exp.Literal.string(dt.datetime.now(dt.UTC).replace(tzinfo=None).isoformat()), "TIMESTAMP")
        case exp.CurrentUser() | exp.SessionUser():
            return exp.Literal.string(asking.user)
        case exp.CurrentSchema():
            return exp.Literal.string(asking.schema)
        case exp.CurrentSchemas():
            return exp.Array(expressions=[exp.Literal.string(schema) for schema in (SCHEMAS[0], asking.schema)])
        case exp.CurrentDatabase() | exp.CurrentCatalog():
            return exp.Literal.string(asking.database)
        case exp.CurrentVersion():
            return exp.Literal.string(asking.version)
        case exp.Anonymous():
            return _about_session(node, asking)
    return node


def _about_session(node: exp.Anonymous, asking: Asking) -> exp.Expr:
    told = {"current_database": asking.database, "current_catalog": asking.database, "current_user": asking.user,
            "session_user": asking.user, "user": asking.user, "current_role": asking.user, "version": asking.version,
            "current_schema": asking.schema}
    name = str(node.this).lower()
    if name == "pg_backend_pid":
        return exp.Literal.number(asking.process)
    if name in told:
        return exp.Literal.string(told[name])
    if name == "current_schemas":
        return exp.Array(expressions=[exp.Literal.string(schema) for schema in (SCHEMAS[0], asking.schema)])
    if name == "current_setting" and node.expressions:
        asked = _uncast(node.expressions[0])
        found = asking.settings.get(asked.name.lower()) if isinstance(asked, exp.Literal) else None
        if found is None and isinstance(asked, exp.Literal) and len(node.expressions) == 1:
            raise SqlError(f"there is no setting {asked.name}", code="unknown-setting", subject=asked.name, try_="SHOW ALL")
        return exp.cast(exp.Null(), "VARCHAR") if found is None else exp.Literal.string(found)
    if name in ("json_build_object", "jsonb_build_object"):  # of sequences and such, of which there are none
        return exp.Null()
    if name == "set_config" and len(node.expressions) > 1:
        return node.expressions[1]  # type: ignore[no-any-return]
    return node


def _uncast(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Cast):
        node = node.this
    return node


def _relation(node: exp.Expr, known: Set[str], made: Set[str], asking: Asking) -> exp.Expr:
    """A relation of the catalogue under the name of its table; a function that gives rows stays, if it may be called."""
    if not isinstance(node, exp.Table):
        return node
    inside = node.this.expression if isinstance(node.this, exp.Dot) else node.this
    if isinstance(inside, exp.Func):
        name = str(inside.this).lower() if isinstance(inside, exp.Anonymous) else ""
        if f"{SCHEMAS[0]}.{name}" == KEYWORDS:
            return exp.Table(this=exp.to_identifier(KEYWORDS, quoted=True),
                             alias=node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name)))
        if name in OF_TABLES:
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
            nothing = [exp.alias_(exp.Null(), each) for each in [each.name for each in alias.columns] or [OF_TABLES[name]]]
            return exp.Subquery(this=exp.select(*nothing).where(exp.false()), alias=alias)
        if name == SUBSCRIPTS:
            return _subscripts(inside, node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name)))
        if name in ROWS or isinstance(inside, exp.ExplodingGenerateSeries | exp.GenerateSeries | exp.Unnest | exp.Explode):
            node.set("this", inside)
            node.set("db", None)
            return node
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name or inside.sql_name().lower()))
        return _one_value(inside, alias)
    if not isinstance(inside, exp.Identifier):
        return _one_value(inside, node.args["alias"])
    schema, name = node.db.lower(), node.name.lower()
    if not schema and name in made:
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        node.set("this", _of_own(name))
        return node
    if node.catalog and node.catalog.lower() != asking.database.lower():
        raise Unsupported(f"there is no database {node.catalog} here", code="catalogue", try_=asking.database)
    found = relation_named(schema, name, known)
    if found is None:
        raise SqlError(f"there is no relation {name} in the system catalogue", code="unknown-table", subject=name,
                       try_="information_schema.tables, or SHOW TABLES")
    return exp.Table(this=exp.to_identifier(found, quoted=True), joins=node.args.get("joins"),
                     alias=node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name)))


def _one_value(value: exp.Expr, alias: exp.TableAlias) -> exp.Expr:
    """A value as a table of one row, whose column has the name of the table."""
    shown = alias.columns[0].name if alias.columns else alias.name
    return exp.Subquery(this=exp.select(exp.alias_(value, shown)), alias=alias)


def _subscripts(call: exp.Func, alias: exp.TableAlias) -> exp.Expr:
    """The places of a list as a table. DuckDB has no such table for a list of the rows around it."""
    values = call.expressions[0]
    first = 0 if isinstance(values, exp.Column) and values.name in _VECTORS else 1
    places = exp.Explode(this=exp.GenerateSeries(start=exp.Literal.number(first), end=exp.Add(
        this=exp.Length(this=values.copy()), expression=exp.Literal.number(first - 1))))
    return _one_value(places, alias)


def relation_named(schema: str, name: str, known: Set[str]) -> str | None:
    """The relation of this name with its schema; without one, that of pg_catalog."""
    full = f"{schema or SCHEMAS[0]}.{name}"
    return full if full in known else None


def _function(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Any(this=exp.Literal() as inner) | exp.Any(this=exp.Paren(this=exp.Literal() as inner)):
            return exp.Any(this=_array(inner.name))
        case exp.Anonymous(expressions=[exp.Literal() as inner]) if _is_all(node):
            return exp.Anonymous(this="all", expressions=[_array(inner.name)])
        case exp.Bracket(this=exp.Column() as vector, expressions=[place]) if vector.name in _VECTORS:
            node.set("expressions", [exp.Add(this=exp.Paren(this=place), expression=exp.Literal.number(1))])
        case exp.Anonymous(expressions=[exp.Column() as vector, *_]) if str(node.this).lower() == SUBSCRIPTS and (
                vector.name in _VECTORS) and not isinstance(node.parent, exp.Sub):
            return exp.Sub(this=node.copy(), expression=exp.Literal.number(1))
        case exp.Anonymous() if str(node.this).lower() == "format" and node.expressions:
            return _function(exp.Format(this=node.expressions[0], expressions=node.expressions[1:]))
        case exp.Format():
            return exp.Anonymous(this="printf", expressions=[exp.Literal.string(node.this.name.replace("%I", "%s")) if isinstance(
                node.this, exp.Literal) else node.this, *node.expressions])
        case exp.Div(this=left, expression=right) if not _is_double(left) and not _is_double(right):
            return exp.IntDiv(this=left, expression=right)
        case exp.ArrayToString():
            return exp.Anonymous(this="array_to_string", expressions=[node.this, node.expression])
    return node


def _is_all(node: exp.Anonymous) -> bool:
    """Whether this is the ALL of x <> ALL(list), which sqlglot takes for a function."""
    return str(node.this).lower() == "all"


def _is_double(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Paren) else node
    return (isinstance(inner, exp.Cast) and CASTS.get(type_name(inner.to)) == "DOUBLE") or (
        isinstance(inner, exp.Literal) and not inner.name.isdigit())


def _array(text: str) -> exp.Expr:
    """An array that is written as a text: {a,b}."""
    inside = text.strip("{}")
    return exp.Array(expressions=[exp.Literal.string(part.strip().strip('"')) for part in inside.split(",")] if inside else [])


def type_name(kind: exp.Expr) -> str:
    """The name of a type without its schema, an array's as PostgreSQL's catalogue calls it."""
    if isinstance(kind, exp.DataType):
        inner = kind.args.get("kind")
        if isinstance(inner, exp.Expr):
            return inner.name.lower() if not isinstance(inner, exp.Dot) else inner.expression.name.lower()
        if isinstance(inner, str):
            return inner.split(".")[-1].strip('"').lower()
        if kind.this is exp.DType.ARRAY and kind.expressions:
            return f"_{type_name(kind.expressions[0])}"
    if isinstance(kind, exp.ObjectIdentifier):
        return str(kind.this).lower()
    return kind.sql(dialect="postgres").lower()


def _cast(node: exp.Expr) -> exp.Expr:
    """Casts to types of PostgreSQL: names of relations and types become their oids, and where they are shown, their names."""
    if not isinstance(node, exp.Cast) or node.meta.get(FINAL):
        return node
    name, inner = type_name(node.to), node.this
    if name in _REGISTERED:
        to_oid, to_name = _REGISTERED[name]
        around = node.parent
        shown = CASTS.get(type_name(around.to)) == "VARCHAR" if isinstance(around, exp.Cast) else isinstance(
            around, exp.Alias | exp.Select | exp.Order | exp.Ordered) and not isinstance(inner, exp.Literal)
        if shown and _is_text(inner):  # a name that is checked, and written as PostgreSQL writes it
            inner = exp.Anonymous(this=to_oid, expressions=[inner])
        return exp.Anonymous(this=to_name if shown else to_oid, expressions=[inner])
    if name in ("regproc", "regprocedure") and isinstance(inner, exp.Literal):
        return exp.Literal.string(inner.name.split(".")[-1])
    if name.split("(")[0] in ("numeric", "decimal", "_numeric", "_decimal") and (exact := _exact(inner)) is not None:
        return exact
    kind = CASTS.get(name.split("(")[0].split(" ")[0])
    if kind is None:
        known = isinstance(node.to, exp.DataType) and node.to.this is not exp.DType.USERDEFINED
        return node if known else exp.cast(inner, "VARCHAR")
    if isinstance(inner, exp.Literal) and inner.is_string and kind.endswith("[]"):
        return exp.cast(_array(inner.name), kind, dialect="duckdb")
    return exp.cast(inner, kind, dialect="duckdb")


def _is_text(node: exp.Expr) -> bool:
    """Whether an expression is a text by its form, where another one may be an oid."""
    inner = node.this if isinstance(node, exp.Paren) else node
    return isinstance(inner, exp.DPipe | exp.Concat) or (isinstance(inner, exp.Literal) and inner.is_string)


def _exact(inner: exp.Expr) -> exp.Expr | None:
    """A constant as a decimal with all of its digits; None for others. A parameter of that kind is one already."""
    if isinstance(inner, exp.Literal) and re.fullmatch(r"-?\d{1,20}(\.\d{0,15})?", inner.name):
        return decimal(inner)
    if isinstance(inner, exp.Cast) and inner.meta.get(FINAL) and inner.to.sql(dialect="duckdb").startswith("DECIMAL("):
        return inner
    return None


def _comparison(node: exp.Expr) -> exp.Expr:
    """x = ANY(list), which DuckDB reads as a subquery of its own, as a test of the list; and functions, which are names here,
    compared with the oid 0, which is that of none."""
    match node:
        case exp.EQ(this=exp.Column() as left, expression=exp.Literal() as right) | exp.NEQ(
                this=exp.Column() as left, expression=exp.Literal() as right) if left.name in _FUNCTIONS and right.name == "0":
            none = exp.Is(this=left, expression=exp.Null())
            return none if isinstance(node, exp.EQ) else exp.Not(this=none)
        case exp.EQ(this=left, expression=exp.Any(this=right)) if not isinstance(right, exp.Query | exp.Subquery):
            return exp.func("list_contains", right.this if isinstance(right, exp.Paren) else right, left)
        case exp.NEQ(this=left, expression=exp.Anonymous(expressions=[right]) as every) if _is_all(every):
            return exp.Not(this=exp.func("list_contains", right, left))
        case exp.EQ(this=left, expression=exp.Anonymous(expressions=[right]) as every) if _is_all(every):
            others = exp.Anonymous(this="array_remove", expressions=[right, left])
            return exp.EQ(this=exp.Anonymous(this="cardinality", expressions=[others]), expression=exp.Literal.number(0))
        case exp.RegexpLike(this=left, expression=right) if not node.args.get("flag"):
            return _matches(left, right)
        case exp.RegexpILike(this=left, expression=right):
            return _matches(left, right, "i")
    return node


def _matches(text: Any, pattern: Any, flags: str = "") -> exp.Expr:
    return exp.func("regexp_matches", text, pattern, *([exp.Literal.string(flags)] if flags else []))
