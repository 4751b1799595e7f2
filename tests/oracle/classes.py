"""What a statement is made of: classes, of which a run counts how often each was answered."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from oracle.statements import Asked
from oracle.worlds import BY_NAME, FAR_DAYS, LARGE, NEWER, NULL, Table, World

from dpsql.batch.plan_choice import NAMES as STRATEGIES
from dpsql.mechanisms.all_mechanisms import NAMES as MECHANISMS
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.validation.deciders.all_deciders import NAMES as DECIDERS

WORDS = {
    "inner join": r"(?<!LEFT )(?<!RIGHT )(?<!FULL )JOIN", "left join": "LEFT JOIN", "right join": "RIGHT JOIN", "full join": "FULL JOIN",
    "join: NULL-safe": r" ON [^()]*IS NOT DISTINCT FROM", "join: by order": r" ON [^()=]*[.\w] (<=|<) ", "join: with constants": r"\(VALUES",
    "join: with repeated or absent constants": r"\(VALUES .*\(NULL, \d+\)", "join: with a public table": r"(places|_syn|empty) AS t",
    "join: within itself, of several owners": r"\b(\w+) AS \w+ (?:\w+ )?JOIN \1 AS",
    "window": r"\bOVER \(", "window: framed": "ROWS BETWEEN", "window: order alone": r"OVER \(ORDER", "QUALIFY": "QUALIFY",
    "UNION ALL": "UNION ALL", "UNION": r"UNION (?!ALL)", "INTERSECT": "INTERSECT", "EXCEPT": "EXCEPT", "DISTINCT inside": r"\(SELECT DISTINCT",
    "EXISTS": r"(?<!NOT )EXISTS", "NOT EXISTS": "NOT EXISTS", "IN (SELECT ...)": r"(?<!NOT )IN \(SELECT", "NOT IN (SELECT ...)": r"NOT IN \(SELECT",
    "count of a subquery": r"\(SELECT COUNT\(\*\) FROM [^()]+\) >", "groups inside": r"\(SELECT [^()]*(\([^()]*\)[^()]*)*GROUP BY",
    "HAVING": "HAVING", "ORDER BY and LIMIT": r"LIMIT \d", "sets of groups": r"CUBE|ROLLUP|GROUPING SETS", "FILTER": r"FILTER \(",
    "CASE": r"\bCASE\b", "cast of a text to a day": r"TRY_CAST\(\S+ AS DATE\)", "days made of numbers": "10001",
    "ends of days": r"0001-01-01|9999-12-31", "ends of numbers": r"9223372036854775807|2147483648|1e308|4000000000000000000",
    "COUNT(DISTINCT)": r"COUNT\(DISTINCT", "SUM": r"\bSUM\(", "AVG": r"\bAVG\(", "VAR, STDDEV": r"VAR_POP|STDDEV", "MIN, MAX outermost": r"^[^(]*\([^()]*\) [^(]*\b(MIN|MAX)\(",
    "MEDIAN, quantiles": "MEDIAN|QUANTILE", "several aggregates": r"^[^(]*\([^()]*\) ((?!FROM).)*\), ", "price far too large or small": r"(epsilon|rho) = (0.01|60)\b",
    "max_rows": "max_rows", "max_groups": "max_groups", "clip": "clip =", "clip: far too large or small": r"clip = (1000000000|0\.0)",
    "max_rows: far too large": r"max_rows = 1000000|max_groups = 1000", "rho": "rho =", "epsilon and delta": "epsilon = [^,)]+, delta",
    "accuracy": "ERROR WITHIN|STANDARD ERROR", "parameters": r"\$p", "statistics of two columns": "CORR|COVAR|REGR_", "MODE": r"MODE\(", "GEOMEAN": "GEOMEAN",
    "shares of totals": r"/ SUM\(.*OVER", "released rows as a table": r"AS r\b|FROM r\b", "DISTINCT ON": "DISTINCT ON", "tuples": r"\) (NOT )?IN \(\(",
    "LATERAL": "LATERAL", "UNION BY NAME": "BY NAME", "SEMI JOIN": "SEMI JOIN", "ANTI JOIN": "ANTI JOIN", "EXISTS within EXISTS": r"EXISTS \([^()]*EXISTS",
    "strftime, time_bucket, epoch": "strftime|time_bucket|epoch", "SIMILAR TO": "SIMILAR TO"}
NAMED = {"bound": [bound.name for bound in BOUNDS], "mechanism": MECHANISMS, "rule": RULES, "strategy": STRATEGIES, "decider": DECIDERS,
         "suite": ["independent", "conjunction", "sparse"]}
ALL = (*WORDS, *(f"{option} {name}" for option, names in NAMED.items() for name in names))


def classes_of(asked: Asked, world: World) -> Iterator[str]:
    """The classes that a statement belongs to, some of them more than once."""
    text = ";\n".join(asked.texts)
    yield f"kind: {asked.kind}"
    yield from (name for name, pattern in WORDS.items() if re.search(pattern, text))
    given = {**asked.options, **dict(re.findall(r"(\w+) = '([\w-]+)'", text))}
    given["rule"] = given.get("mechanism")
    yield from (f"{option} {given[option]}" for option in NAMED if given.get(option) in NAMED[option])
    yield from (f"parameter {_told(value)}" for value in asked.parameters.values())
    yield from _of_tables({name: table for name, table in world.tables.items() if re.search(rf"\b{name}\b", text)}, world, text)


def _told(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN or infinite"
    return type(value).__name__


def _of_tables(used: Mapping[str, Table], world: World, text: str) -> Iterator[str]:
    if len(world.entities) > 1:
        yield "world: one of two kinds of entity is protected"
    for name, table in used.items():
        columns = {column: [row[i] for row in world.rows[name]] for i, column in enumerate(table.columns)
                   if re.search(rf"\.{column}\b", text)}
        if table.public:
            yield from (f"public keys: {what}" for what, found in {
                "absent": any(NULL in values for values in columns.values()),
                "repeated": any(len({*values}) < len(values) for values in columns.values())}.items() if found)
            continue
        yield from ("table: several paths to an entity",) if len(table.hangs) > 1 else ()
        yield from ("table: without a key",) if not table.key else ()
        yield from ("table: key of the owner and a value",) if len(table.key) > 1 else ()
        yield from ("table: unique columns with NULL",) if table.unique else ()
        yield from ("table: two steps from its entity",) if any(hang.table == "visits" for hang in table.hangs) else ()
        yield from ("table: three steps from its entity",) if any(hang.table == "notes" for hang in table.hangs) else ()
        yield from ("table: rows of three owners",) if len(table.hangs) > 2 else ()
        yield from (f"type: {BY_NAME[name].type.partition('(')[0]}" for name in columns if name in BY_NAME and BY_NAME[name] in NEWER)
        yield from (f"private values: {what}" for what, found in {
            "absent": {NULL}, "NaN or infinite": {f"CAST('{text}' AS DOUBLE)" for text in ("nan", "inf", "-inf")},
            "far days": {*FAR_DAYS, *(day.replace("DATE", "TIMESTAMP") for day in FAR_DAYS), "TIMESTAMP '20025-01-01 00:00:00'"},
            "ends of whole numbers": {*LARGE, "2147483647", "-2147483648"}}.items() if any(found & {*values} for values in columns.values()))
