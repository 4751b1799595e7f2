"""Functions in FROM whose rows are constants, as VALUES: UNNEST of a list, and generate_series and range of numbers or times.

    FROM UNNEST([1, 2]) AS u(x)                                 FROM (VALUES (1), (2)) AS u(x)
    FROM UNNEST(['a', 'b']) WITH ORDINALITY AS u(x, i)          FROM (VALUES ('a', 1), ('b', 2)) AS u(x, i)
    FROM generate_series(0, 20, 10) AS s(x)                     FROM (VALUES (0), (10), (20)) AS s(x)
    FROM range(DATE '2020-01-01', DATE '2020-01-03', INTERVAL 1 DAY) AS d(t)   ... of two timestamps
    SELECT UNNEST([1, 2]) AS x                                  SELECT x FROM (VALUES (1), (2)) AS "unnest"(x)
"""

from __future__ import annotations

import datetime as dt

from sqlglot import exp

from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.literals import whole_number
from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.statement import LISTED

MOST = 1000  # rows that a series may have
_STEPS = {"SECOND": "seconds", "MINUTE": "minutes", "HOUR": "hours", "DAY": "days", "WEEK": "weeks"}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_TIMES = [exp.DataType.build(kind, dialect="duckdb") for kind in ("DATE", "TIMESTAMP")]
_SAFE_DAY = 28  # every month has it


def of_list(node: exp.Expr) -> exp.Expr | None:
    """VALUES for UNNEST of a list of constants, or of a parameter; None for others."""
    if len(node.expressions) != 1:
        return None
    given, counted = node.expressions[0], node.args.get("offset")
    parameter = parameter_of(given) is not None
    values = given.expressions if isinstance(given, exp.Array) else [given] if parameter and not counted else []
    if any(parameter_of(column) is None for value in values for column in value.find_all(exp.Column)):
        return None
    rows = [[value, *([exp.Literal.number(i)] if counted else [])] for i, value in enumerate(values, 1)]
    second = [counted.copy() if isinstance(counted, exp.Identifier) else exp.to_identifier("ordinality")] if counted else []
    made = _values(rows, node, "unnest", second)
    if made is not None and parameter:
        made.meta[LISTED] = True
    return made


def of_series(node: exp.Expr) -> exp.Expr | None:
    """VALUES for a table generate_series(...) or range(...) of constants; None for others, and for more than `MOST` rows."""
    series = node.this
    if not isinstance(series, exp.GenerateSeries) or {key for key, value in node.args.items() if value} - {"this", "alias"}:
        return None
    open_end = bool(series.args.get("is_end_exclusive"))
    ends, step = [series.args.get("start"), series.args.get("end")], series.args.get("step")
    first, last = (_number(part) for part in ends)
    made: list[exp.Expr]
    if first is not None and last is not None:
        by = 1 if step is None else _number(step)
        if not by:
            return None
        found = range(first, last if open_end else last + (1 if by > 0 else -1), by)[: MOST + 1]
        made = [exp.Literal.number(n) if n >= 0 else exp.Neg(this=exp.Literal.number(-n)) for n in found]
    else:
        made = [exp.Cast(this=exp.Literal.string(moment.isoformat(" ")), to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
                for moment in _moments([_moment(part) for part in ends], step, open_end=open_end)]
    if len(made) > MOST:
        return None
    return _values([[value] for value in made], node, "range" if open_end else "generate_series", [])


def of_selected(node: exp.Expr) -> exp.Expr | None:
    """SELECT UNNEST([...]) AS x alone, as a SELECT of the rows."""
    item = node.expressions[0] if len(node.expressions) == 1 else None
    inner = item.this if isinstance(item, exp.Alias) else item
    if not isinstance(inner, exp.Explode) or {key for key, value in node.args.items() if value} - {"expressions", "kind"}:
        return None
    name = exp.to_identifier(str(item.alias) if isinstance(item, exp.Alias) else "unnest", quoted=True)
    named = exp.TableAlias(this=exp.to_identifier("unnest"), columns=[name])
    rows = of_list(placed(exp.Unnest(expressions=[inner.this], alias=named), span_of(node)))
    if rows is None:
        return None
    return exp.Select(expressions=[exp.Column(this=name.copy())], from_=exp.From(this=rows))


def _values(rows: list[list[exp.Expr]], node: exp.Expr, name: str, second: list[exp.Identifier]) -> exp.Expr | None:
    """VALUES under the alias of a function in FROM; a column without a name has that of the table, as in DuckDB."""
    alias = node.args.get("alias")
    table = alias.this.copy() if alias is not None and alias.this is not None else exp.to_identifier(name)
    columns = list(alias.args.get("columns") or ()) if alias is not None else []
    if not rows or len(columns) > 1 + len(second):
        return None
    named = [*(column.copy() for column in columns)] or [table.copy()]
    named += second[len(named) - 1 :] if len(named) < 1 + len(second) else []
    return exp.Values(expressions=[exp.Tuple(expressions=row) for row in rows],
                      alias=exp.TableAlias(this=table, columns=named))


def _number(node: exp.Expr | None) -> int | None:
    minus = isinstance(node, exp.Neg)
    literal = node.this if minus and node is not None else node
    number = whole_number(str(literal.this)) if isinstance(literal, exp.Literal) and not literal.args.get("is_string") else None
    return None if number is None else -number if minus else number


def _moment(node: exp.Expr | None) -> dt.datetime | None:
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or node.to not in _TIMES:
        return None
    try:
        moment = dt.datetime.fromisoformat(str(node.this.this))
    except ValueError:
        return None
    return dt.datetime.combine(moment, dt.time()) if node.to.this is exp.DataType.Type.DATE else moment


def _moments(ends: list[dt.datetime | None], step: exp.Expr | None, *, open_end: bool) -> list[dt.datetime]:
    """The moments from the first to the last; none for steps of another form."""
    first, last = ends
    unit = str(step.args["unit"].this).upper().rstrip("S") if isinstance(step, exp.Interval) and step.args.get("unit") else ""
    number = whole_number(str(step.this.this)) if step is not None and isinstance(step.this, exp.Literal) else None
    if first is None or last is None or not number or first.tzinfo or last.tzinfo or not (
            unit in _STEPS or (unit in _MONTHS and first.day <= _SAFE_DAY)):
        return []
    found: list[dt.datetime] = []
    moment = first
    try:
        while (moment < last or (moment == last and not open_end)) and len(found) <= MOST:
            found.append(moment)
            if unit in _STEPS:
                moment += dt.timedelta(**{_STEPS[unit]: number})
            else:
                month = moment.month - 1 + number * _MONTHS[unit]
                moment = moment.replace(year=moment.year + month // 12, month=month % 12 + 1)
    except (OverflowError, ValueError):
        return []
    return found
