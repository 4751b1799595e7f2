"""Statements that are full of constants, drawn at random: as keys, as arguments of every aggregate, in lists that may be empty, through
several levels of relations; and sentences of the grammar over a relation whose columns are constants."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from support.grammar_sentences import KINDS, Sentences

CONSTANTS = (
    "'all'", "''", "'x''y'", "'3'", "'2020-02-29'", "NULL", "TRUE", "FALSE", "0", "1", "-1", "2", "1.5", "0.0", "-0.0", "100",
    "1e308", "-1e308", "1.7976931348623157e308", "5e-324", "1e-300", "1e15", "1e100", "-1e100", "1e19", "9223372036854775807",
    "-9223372036854775808", "9223372036854775806", "9007199254740993", "4611686018427387904",
    "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000001", "12345678901234567890.123456789012345678",
    "DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '2020-02-29'", "DATE '9999-12-30'", "TIMESTAMP '0001-01-01 00:00:00'",
    "TIMESTAMP '9999-12-31 23:59:59'", "TIMESTAMP '2020-02-29 12:00:00'", "INTERVAL 1 DAY", "x'00'", "[1, 2]", "TIME '00:00:00'",
    "CAST(NULL AS BIGINT)", "CAST(NULL AS VARCHAR)", "CAST(NULL AS DOUBLE)", "CAST(NULL AS DATE)", "CAST(NULL AS BOOLEAN)",
    "CAST(NULL AS TIMESTAMP)", "CAST(NULL AS DECIMAL(38, 2))", "CAST('3' AS INTEGER)", "CAST(1e308 AS BIGINT)", "CAST(0.1 AS FLOAT)",
    "CAST('nan' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "CAST(9223372036854775807 AS DOUBLE)",
    "CAST(1.005 AS DECIMAL(38, 9))", "CAST(99999999 AS TINYINT)", "TRY_CAST('x' AS INTEGER)", "CAST('x' AS INTEGER)",
    "DATE '2020-01-01' - DATE '0001-01-01'", "DATE '9999-12-31' + 1", "DATE '0001-01-01' - 1", "1 / 0", "0 / 0", "1 % 0", "5 // 0",
    "1e308 * 10", "1e308 + 1e308", "9223372036854775807 + 1", "-(-9223372036854775808)", "2 ** 1024", "SQRT(-1)", "LN(0)", "EXP(1000)",
    "1 = 1", "NULL IS NULL", "NULL = NULL", "'a' || 'b'", "UPPER('x')", "COALESCE(NULL, 'x')", "NULLIF(1, 1)", "ABS(-1)",
    "CASE WHEN TRUE THEN 'a' END", "CASE WHEN FALSE THEN 1 END", "(SELECT 1)", "(SELECT NULL)", "ROUND(1.005, 2)", "1 & 1", "1 << 61",
)
PEOPLE = ("age", "sex", "income", "active", "born", "nickname", "person_id", "weight")
VISITS = ("cost", "year", "clinic", "note", "seen", "person_id", "person_id")
MADE = ("k", "k", "j", "j", "person_id")
UNARY = ("ABS({})", "-({})", "CAST({} AS DOUBLE)", "CAST({} AS BIGINT)", "CAST({} AS VARCHAR)", "CAST({} AS DATE)", "UPPER({})",
         "COALESCE({}, NULL)", "({}) IS NULL", "NOT ({})", "ROUND({}, 2)", "FLOOR({})", "YEAR({})", "LENGTH({})", "SQRT({})", "LN({})",
         "EXP({})", "DATE_TRUNC('month', {})", "({})", "CASE WHEN {} IS NULL THEN 1 END", "NULLIF({}, NULL)", "SIGN({})", "LOG10({})",
         "COALESCE(NULL, {})", "CAST({} AS DECIMAL(38, 9))", "CAST({} AS BOOLEAN)", "CAST({} AS TIMESTAMP)")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} ** {}", "{} || {}", "{} = {}", "{} < {}", "{} <> {}",
          "{} IS DISTINCT FROM {}", "COALESCE({}, {})", "NULLIF({}, {})", "LEAST({}, {})", "GREATEST({}, {})", "{} AND {}",
          "CASE WHEN {} IS NOT NULL THEN {} END", "IF({} IS NULL, {}, NULL)", "{} & {}", "{} << {}", "DATE_DIFF('day', {}, {})",
          "{} IN ({}, NULL)", "CONCAT({}, {})", "ROUND({}, {})", "POWER({}, {})", "{} IN ({})")
AGGREGATES = (
    "COUNT(*)", "COUNT({})", "SUM({})", "AVG({})", "MIN({})", "MAX({})", "MEDIAN({})", "MODE({})", "VAR_POP({})", "VAR_SAMP({})",
    "STDDEV({})", "STDDEV_POP({})", "COVAR_POP({}, {})", "COVAR_SAMP({}, {})", "CORR({}, {})", "REGR_SLOPE({}, {})",
    "REGR_INTERCEPT({}, {})", "REGR_R2({}, {})", "QUANTILE_CONT({}, 0.5)", "QUANTILE_DISC({}, [0.25, 0.75])", "COUNT(DISTINCT {})",
    "COUNT_IF({})", "BOOL_OR({})", "BOOL_AND({})", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {})", "GEOMEAN({})",
    "MODE() WITHIN GROUP (ORDER BY {})", "SUM({}) FILTER (WHERE {})", "COUNT(*) FILTER (WHERE {})", "AVG({}) FILTER (WHERE {} IS NULL)",
    "SUM(SUM({})) OVER (ORDER BY {})", "SUM({}) * {}", "{} - SUM({})", "AVG({}) / {}", "COALESCE(SUM({}), {})", "COUNT(*) + {}",
    "CASE WHEN COUNT(*) > {} THEN {} END", "ROUND(SUM({}), {})", "CAST(SUM({}) AS VARCHAR)", "COUNT(*) / COUNT({})",
)
KEYS = ("{}", "{}, {}", "ROLLUP({}, {})", "CUBE({}, {})", "GROUPING SETS (({}), ({}), ())", "GROUPING SETS (({}, {}))")
CONDITIONS = ("{} = {}", "{} IS NULL", "{} IS NOT NULL", "{} IN ({})", "{} IN ({}, {})", "{} NOT IN ({}, NULL)", "{} BETWEEN {} AND {}",
              "NOT ({} = {})", "{} < {}", "{} >= {}", "{}", "FALSE", "TRUE", "NULL", "{} IN ()", "{} IN (SELECT {})", "{} LIKE {}",
              "sex = 'f'", "age BETWEEN 3 AND 20", "sex IN ('f', {})", "age IN ({}, 3)", "{} = sex OR {} = 3",
              "EXISTS (SELECT {} FROM visits v WHERE v.person_id = t.person_id)", "{} IN (SELECT {} FROM visits)", "{} = ANY([{}])")
RELATIONS = (
    "SELECT [people] FROM people", "SELECT [people] FROM people WHERE sex = 'f'", "SELECT DISTINCT [people] FROM people",
    "SELECT [visits] FROM visits", "SELECT [visits] FROM visits WHERE year = 2020",
    "SELECT [made] FROM (below) AS t", "SELECT [made] FROM (below) AS t WHERE k = j", "SELECT DISTINCT [made] FROM (below) AS t",
    "SELECT * FROM (below) AS t", "SELECT [made] FROM (below) AS t UNION ALL SELECT [made] FROM (below) AS t",
    "SELECT [made] FROM (below) AS t EXCEPT SELECT [made] FROM (below) AS t", "SELECT [made] FROM (below) AS t UNION SELECT [people] FROM people",
    "SELECT [people] FROM people UNION ALL BY NAME SELECT * FROM (below) AS t", "SELECT [made] FROM visits AS v JOIN (below) AS t USING (person_id)",
    "SELECT [made] FROM visits AS v LEFT JOIN (below) AS t USING (person_id)", "SELECT [made] FROM (below) AS t, (VALUES ({}), ({})) AS c(z)",
    "SELECT [people] FROM people AS p LEFT JOIN (SELECT {} AS z) AS c ON z = {}", "SELECT [made] FROM (below) AS t ORDER BY k LIMIT 3",
    "SELECT [people] FROM people AS p JOIN clinics AS c ON c.clinic = {}", "SELECT [made] FROM people SEMI JOIN (below) AS t USING (person_id)",
    "SELECT [made], ROW_NUMBER() OVER (PARTITION BY k, person_id ORDER BY j) AS r FROM (below) AS t QUALIFY r = 1",
    "SELECT {} AS k, COUNT(*) AS j, person_id FROM visits GROUP BY k, person_id", "SELECT MAX({}) AS k, {} AS j, person_id FROM visits GROUP BY ALL",
    "SELECT k, COUNT(*) AS j, person_id FROM (below) AS t GROUP BY ALL", "WITH w AS (below) SELECT [made] FROM w",
)
STATEMENTS = (
    "SELECT {keys}, {aggregate} FROM {source} GROUP BY {keys}", "SELECT {aggregate} FROM {source}", "SELECT {one}, {aggregate} FROM {source}",
    "SELECT {one} AS a, {aggregate} FROM {source} GROUP BY a", "SELECT {aggregate}, {aggregate} FROM {source} GROUP BY {sets}",
    "SELECT {one}, {aggregate} FROM {source} GROUP BY ALL", "SELECT DISTINCT {one} FROM {source}", "SELECT {one}, {one} FROM {source}",
    "SELECT {one} AS a, {aggregate} AS b FROM {source} GROUP BY {sets}", "SELECT {keys}, {aggregate} FROM {source} GROUP BY ROLLUP({keys})",
    "SELECT * FROM (SELECT {one} AS a, {aggregate} AS b FROM {source} GROUP BY a) AS u WHERE a = {one}",
    "SELECT {one}, {aggregate} FROM {source} GROUP BY 1 UNION ALL SELECT {one}, {aggregate} FROM {source} GROUP BY 1",
)


class Constants:
    """Draws statements, from numbers that say which."""

    def __init__(self) -> None:
        self._sentences: dict[str, Sentences] = {}

    def statement(self, dice: random.Random) -> str:
        if dice.random() < 0.25:
            return self._sentence(dice)
        if dice.random() < 0.15:
            source, names = "people AS t", PEOPLE
        else:
            source, names = f"({self._relation(dice, dice.choice((0, 0, 1, 2)))}) AS t", MADE
        keys = ", ".join(self._operand(dice, names, 1) for _ in range(dice.choice((1, 1, 2))))
        text = dice.choice(STATEMENTS)
        draws: dict[str, Callable[[], str]] = {
            "keys": lambda: keys, "one": lambda: self._operand(dice, names, 1), "source": lambda: source,
            "aggregate": lambda: self._filled(dice.choice(AGGREGATES), dice, names),
            "sets": lambda: self._filled(dice.choice(KEYS), dice, names),
        }
        for part, draw in draws.items():
            while f"{{{part}}}" in text:
                text = text.replace(f"{{{part}}}", draw(), 1)
        plain = "GROUP BY" in text and "UNION" not in text and " AS u " not in text
        return self._under_conditions(text, dice, names) if plain else text

    def _under_conditions(self, text: str, dice: random.Random, names: Sequence[str]) -> str:
        """The statement under conditions on its rows and its groups, and sorted."""
        if dice.random() < 0.4:
            before, after = text.rsplit(" GROUP BY", 1)
            text = f"{before} WHERE {self._filled(dice.choice(CONDITIONS), dice, names)} GROUP BY{after}"
        if dice.random() < 0.3:
            text += f" HAVING {self._filled(dice.choice(CONDITIONS), dice, names)}"
        if dice.random() < 0.2:
            text += f" ORDER BY {self._operand(dice, names, 0)}"
        return text + (f" LIMIT {dice.choice((0, 1, 9223372036854775807))}" if dice.random() < 0.1 else "")

    def _relation(self, dice: random.Random, depth: int) -> str:
        """Rows with the columns k, j and person_id."""
        text = dice.choice(RELATIONS if depth else RELATIONS[:5])
        for place, names in (("[people]", PEOPLE), ("[visits]", VISITS), ("[made]", MADE)):
            while place in text:
                text = text.replace(place, f"{self._operand(dice, names, 1)} AS k, {self._operand(dice, names, 0)} AS j, person_id", 1)
        while "(below)" in text:
            text = text.replace("(below)", f"({self._relation(dice, depth - 1)})", 1)
        return self._filled(text, dice, ("NULL",), 0)

    def _operand(self, dice: random.Random, names: Sequence[str], depth: int) -> str:
        """A constant, a column, or an expression of such."""
        what = dice.random()
        if what < 0.4 or depth == 0 and what < 0.6:
            return dice.choice(CONSTANTS)
        if what < 0.8 or depth == 0:
            return dice.choice(names)
        return self._filled(dice.choice(UNARY if what < 0.9 else BINARY), dice, names, depth - 1)

    def _filled(self, form: str, dice: random.Random, names: Sequence[str], depth: int = 0) -> str:
        while "{}" in form:
            form = form.replace("{}", self._operand(dice, names, depth), 1)
        return form

    def _sentence(self, dice: random.Random) -> str:
        """A sentence of the grammar over a relation whose columns of the world's names are constants."""
        kind = dice.choice(list(KINDS))
        sentences = self._sentences.setdefault(kind, Sentences(kind))
        tables = [table for table in KINDS[kind]["TABLE"] if table != "nothing"]
        table, columns = dice.choice(tables), sorted(set(KINDS[kind]["COLUMN"]))
        replaced = ", ".join(f"{dice.choice(CONSTANTS)} AS {column}" for column in dice.sample(columns, min(len(columns), dice.choice((1, 2)))))
        start = dice.choice(("query", "query", "expr__aggregate", "condition", "outputs"))
        drawn = sentences.draw(dice, start, dice.randint(4, 14))
        forms = {"query": "{}", "expr__aggregate": f"SELECT {{}} FROM {table}", "condition": f"SELECT COUNT(*) FROM {table} WHERE {{}}",
                 "outputs": f"SELECT {{}} FROM {table} GROUP BY ALL"}
        text = forms[start].format(drawn)
        if text.lstrip().upper().startswith("WITH"):
            return text
        return f"WITH {table} AS (SELECT * REPLACE ({replaced}) FROM main.{table}) {text}"
