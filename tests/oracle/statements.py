"""Random statements over a random world: typed, so that most can be answered, and without much sense otherwise."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.worlds import BY_NAME, NULL, World

from dpsql.batch.plan_choice import NAMES as STRATEGIES
from dpsql.frozen import Frozen, field, replace
from dpsql.mechanisms.all_mechanisms import NAMES as MECHANISMS
from dpsql.mechanisms.named_bounds import BOUNDS
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.validation.deciders.all_deciders import NAMES as DECIDERS

NUMBER, TEXT, DAY, TIME, TRUTH = "number", "text", "day", "time", "truth"
TYPES = {"VARCHAR": TEXT, "DATE": DAY, "TIMESTAMP": TIME, "BOOLEAN": TRUTH, "UUID": TEXT, "TIMESTAMP_S": TIME, "TIMESTAMP_MS": TIME,
         "TIMESTAMP_NS": TIME}
WHOLE, UNEVEN = ("BIGINT", "INTEGER", "TINYINT"), ("DOUBLE", "DECIMAL(12,2)", "FLOAT", "UBIGINT", "HUGEINT")
NUMBERS = ("0", "1", "2", "-1", "3", "1000", "0.5", "-0.0", "1e308", "9223372036854775807", "-2147483648", "50", "1e9")
TEXTS = ("'a'", "'b'", "'x'", "'victim'", "''", "'A'", "'20025-01-01'")
DAYS = ("DATE '2000-01-01'", "DATE '2000-01-03'", "DATE '0001-01-01'", "DATE '9999-12-31'")
TIMES = ("TIMESTAMP '2000-01-01 10:00:00'", "TIMESTAMP '2000-03-01 00:00:00'")
CONSTANTS = {NUMBER: NUMBERS, TEXT: TEXTS, DAY: DAYS, TIME: TIMES, TRUTH: ("TRUE", "FALSE")}
VALUES: Mapping[str, tuple[Any, ...]] = {
    NUMBER: (0, 1, -1, 2.0, 0.5, float("nan"), float("inf"), -0.0, 2**63 - 1, -(2**63), 1e308, 5e-324, None),
    TEXT: ("a", "victim", "", None), DAY: (dt.date(2000, 1, 2), dt.date.min, dt.date.max, None),
    TIME: (dt.datetime(2000, 1, 1, 10), dt.datetime.max, None), TRUTH: (True, None)}


FOR_RHO = ("residual-planner", "convex", "fitness-for-use", "oblique-residual-planner", "square-root", "convex-by-targets",
           "convex-by-squared-targets", "fitness-for-use-refined", "fitness-for-use-hybrid", "weighted-hierarchy")
FOR_DELTA = ("gaussian", "smooth_sensitivity")
PURE = ("p-identity", "marginals", "union", "kronecker")
KINDS = {"select": 22, "plain": 6, "nulls": 3, "days": 3, "ranges": 3, "layers": 14, "lists": 8, "unions": 7, "bounds": 8, "named": 6,
         "sets": 3, "running": 2, "accuracy": 3, "workload": 4, "validate": 18, "strategy": 9, "several": 10, "statistics": 7, "parts": 3,
         "released": 4, "firsts": 4, "words": 7, "least": 3, "around": 5, "ordered": 6, "crowds": 5,
         "synthetic": 6, "online": 4, "lateral": 6, "by_name": 5, "semi": 6, "nested": 6, "accuracies": 5}
"""Kinds of statements, and how often they are drawn."""
NEWER = ("statistics", "parts", "released", "firsts", "words", "least", "around", "ordered", "crowds", "synthetic", "online")
CROWDED = ("plain", "nulls", "ranges", "lists", "bounds", "named", "sets", "running", "strategy", "statistics", "parts", "least", "words", "nested")
"""What may be asked of thousands of rows: hardly any meets each of them with each."""
NEWEST = ("lateral", "by_name", "semi", "nested", "accuracies")


class Column(Frozen, kw_only=False):
    """A column of a relation: how it is written, its type, whether sums of it are bounded, whether it names entities."""

    name: str
    type: str
    bounded: bool = False
    owner: bool = False
    domain: bool = False
    whole: bool = False


class Relation(Frozen, kw_only=False):
    """What stands after FROM, and its columns. `many` tells whether a row may belong to several entities, or to none."""

    text: str
    columns: tuple[Column, ...]
    many: bool = False

    def of(self, *types: str) -> list[Column]:
        return [column for column in self.columns if column.type in types]

    @property
    def owners(self) -> list[Column]:
        return [column for column in self.columns if column.owner]


class Asked(Frozen, kw_only=False):
    """A statement, or several that are asked together; and the values of its parameters."""

    kind: str
    texts: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


class Writer:
    """Draws statements over the tables of a world."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.draw = world, random.Random(seed)
        self.budget, self.theme = world.budget, {*world.theme}
        self._likely = [self.draw.choice([1, 1, 3, 8]) for _ in range(8)]  # each statement is about a few things
        self._names, self.parameters = 0, dict[str, Any]()

    def statement(self, kinds: Sequence[str] = tuple(KINDS)) -> Asked:
        if self.world.times:
            kinds = [kind for kind in kinds if kind in CROWDED] or kinds
        kind = self.draw.choices(kinds, [KINDS[name] for name in kinds])[0]
        self._names, self.parameters = 0, {}
        return getattr(self, kind)()  # type: ignore[no-any-return]

    def pick(self, columns: Sequence[Column]) -> Column:
        """One of some columns, often one that the world is about."""
        themed = [column for column in columns if column.name.split(".")[-1] in self.theme]
        return self.draw.choice(themed if themed and self.chance(0.5) else columns)

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def fresh(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    # -- whole statements

    def select(self) -> Asked:
        source = self.relation(self.draw.choice([0, 1, 1, 2, 2, 3]))
        if source.many and self.chance(0.9):
            return self.shared(source)
        options = self.options(source)
        limited = any(option.startswith(("bound", "clip")) for option in options)
        return self.asked("select", self.query(source, options=options, simple=limited and self.chance(0.9)))

    def plain(self) -> Asked:
        """Sums over the rows of one table, of which an entity has several."""
        source = self.table(self.draw.choice(["visits", "visits", "notes" if "notes" in self.world.tables else "visits"]), self.fresh("t"))
        keys = self.keys(source)[:1] if self.chance(0.45) else []
        shown = ", ".join([*(f"{key} AS {self.fresh('k')}" for key in keys), *self.sums(source)])
        text = f"{self.opened([self.price(), f'max_rows = {self.draw.choice([2, 3, 4])}'])}{shown} FROM {source.text}"
        return self.asked("plain", f"{text}{self.where(source, share=0.2)}{f' GROUP BY {keys[0]}' if keys else ''}")

    def nulls(self) -> Asked:
        """Rows that meet constants, of which NULL is repeated most, by an equality that NULL keeps to, or does not."""
        source = self.table(self.draw.choice(["visits", "visits", "people"]), self.fresh("t"))
        column = self.pick([column for column in source.columns if not column.owner])
        kind = BY_NAME.get(column.name.split(".")[1])
        values = list(dict.fromkeys(kind.common if kind is not None else ("1", "2")))
        alias, rows = self.fresh("t"), [*values[:2], *[NULL] * self.draw.choice([2, 3, 6])]
        public = f"(VALUES {', '.join(f'({row}, {i})' for i, row in enumerate(rows))}) AS {alias}(v, w)"
        test = f"{column.name} {self.draw.choice(['IS NOT DISTINCT FROM', 'IS NOT DISTINCT FROM', '='])} {alias}.v"
        join = self.draw.choice([f"{source.text} JOIN {public}", f"{public} JOIN {source.text}", f"{source.text} LEFT JOIN {public}"])
        return self.asked("nulls", f"{self.opened(self.terms())}COUNT(*) FROM {join} ON {test}")

    def days(self) -> Asked:
        """One row of each entity and day, far ones too, which meet themselves by both."""
        table = self.world.tables["visits"]
        source = self.table("visits", self.fresh("t"))
        told = [column for column in source.columns if not column.owner]
        made, keyed = self.day(Relation("", tuple(told))), [column for column in table.key if TYPES.get(table.columns[column]) in (DAY, TIME)]
        kept = [column.name for column in self.draw.sample(told, min(2, len(told)))]
        other = ", ".join(f"{name} AS o{i}" for i, name in enumerate(kept))
        rows = f"(SELECT {source.owners[0].name} AS e, {keyed[0] if keyed else made or 'NULL'} AS d, {other} FROM {source.text})"
        if not keyed:
            if not made:
                return self.layers()
            over = f"OVER (PARTITION BY e, d ORDER BY {self.draw.choice(['o0', f'o{len(kept) - 1}'])})"
            shown, test = self.draw.choice([("ROW_NUMBER()", "r = 1"), ("LAG(o0)", "r IS NULL"), ("ROW_NUMBER()", "r <= 1")])
            rows = f"(SELECT * FROM (SELECT q.*, ROW_NUMBER() {over} AS rn, {shown} {over} AS r FROM {rows} AS q) AS u WHERE rn = 1 AND {test})"
        once = f"(SELECT DISTINCT e, d, o0 FROM {rows} AS w)" if self.chance(0.8) else rows
        return self.asked("days", f"{self.opened(self.terms())}COUNT(*) FROM {once} AS a JOIN {once} AS b ON a.e = b.e AND a.d = b.d")

    def ranges(self) -> Asked:
        """Whole numbers that a window shows, are held in a range, and are then calculated with."""
        source = self.table(self.draw.choice(["visits", "visits", "people"]), self.fresh("t"))
        whole = [column for column in source.columns if column.whole]
        large = f"CASE WHEN {self.condition(source)} THEN 4000000000000000000 ELSE 1 END"
        name = self.pick(whole).name if whole and self.chance(0.7) else large
        function = self.draw.choice(["MAX", "MIN", "SUM", "FIRST_VALUE", "LAG"])
        order = f" ORDER BY {self.pick(source.columns).name}" if function in ("FIRST_VALUE", "LAG") or self.chance(0.3) else ""
        shown = f"{function}({name}) OVER (PARTITION BY {source.owners[0].name}{order})" if self.chance(0.8) else name
        below = f"(SELECT {source.owners[0].name} AS e, {shown} AS a FROM {source.text}) AS q"
        held = self.draw.choice(["a <= 100 AND a >= -100", "a BETWEEN 0 AND 1000", "a IN (1, 2, 5)", "abs(a) < 9"])
        made = self.draw.choice(["a * a * a", "a * a", "a + a", "-a", "a * 3037000500", "a - 1", "abs(a)", "9 // a"])
        test = self.draw.choice(["b > 0", "b <> 1", "b IS NOT NULL", "b + b > 1"])
        return self.asked("ranges", f"{self.opened(self.terms())}COUNT(*) FROM (SELECT e, {made} AS b FROM {below} WHERE {held}) AS x "
                                    f"WHERE {test}")

    def statistics(self) -> Asked:
        """Statistics of two columns, geometric means, modes, and numbers of declared values."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        options = self.terms() if self.chance(0.7) else [self.price(), f"clip = {self.draw.choice(['1', '3', '0.01'])}"]
        return self.asked("statistics", self.told(source, options=options, parts=[
            self.statistic(source) for _ in range(self.draw.choice([1, 1, 2]))]).format(self.where(source, share=0.4)))

    def statistic(self, source: Relation) -> str:
        listed = [column.name for column in source.columns if column.domain]
        made = [f"{self.draw.choice(['MODE', 'MODE', 'COUNT(DISTINCT'])}({name})".replace("DISTINCT(", "DISTINCT ") for name in listed[:3]]
        y, x = self.bounded(source), self.bounded(source)
        if y:
            two = self.draw.choice(["CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2", "REGR_COUNT", "REGR_AVGX"])
            made += [f"{two}({y}, {x})", f"{two}({y}, {x})", f"{two}({x}, {y})", f"GEOMEAN(LEAST(GREATEST({self.number(source)}, 1), 900))",
                     f"APPROX_QUANTILE({x}, {self.draw.choice(['0.5', '0.9'])})"]
        found = self.draw.choice(made) if made else "COUNT(*)"
        return f"{found} FILTER (WHERE {self.condition(source)})" if self.chance(0.15) else found

    def parts(self) -> Asked:
        """Shares of totals."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        keys = [column.name for column in source.columns if column.domain][: self.draw.choice([1, 2])]
        if not keys:
            return self.statistics()
        what = self.draw.choice([part for part in ["COUNT(*)", *self.sums(source)] if "AVG" not in part])
        over = self.draw.choice(["", f"PARTITION BY {keys[0]}"])
        return self.asked("parts", f"{self.opened(self.terms())}{', '.join(keys)}, 100.0 * {what} / SUM({what}) OVER ({over}) FROM "
                                   f"{source.text}{self.cells(source)} GROUP BY {', '.join(keys)}")

    def released(self) -> Asked:
        """A query around a released one; or rows of public tables."""
        if self.chance(0.1):
            source = self.base(private=False)
            return self.asked("released", f"SELECT {self.pick(source.columns).name} FROM {source.text}{self.where(source)} LIMIT 3")
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        keys, part = self.keys(source)[:1], self.draw.choice([self.aggregate(source), *self.sums(source)])
        inner = f"SELECT {''.join(f'{key} AS k, ' for key in keys)}{part} AS n, COUNT(*) AS m FROM {source.text}{self.where(source)}"
        inner += f" GROUP BY {keys[0]}" if keys else ""
        outer = self.draw.choice(["n", "100.0 * n / m", "n, m", "CASE WHEN m > 2 THEN n END", "*"])
        rest = self.draw.choice(["", " WHERE m > 1", " WHERE n IS NOT NULL ORDER BY 1 DESC LIMIT 2"])
        if self.chance(0.3):
            return self.asked("released", f"WITH r AS ({inner}) {self.opened([self.price()])}{outer} FROM r{rest}")
        return self.asked("released", f"{self.opened([self.price()])}{outer} FROM ({inner}) AS r{rest}")

    def around(self) -> Asked:
        """SQL over several releases: windows, unions, joins, aggregates and subqueries of noisy rows."""
        one, other = self.told_by_key(), self.told_by_key()
        text = self.draw.choice([
            "k, n, RANK() OVER (ORDER BY n DESC), SUM(n) OVER () FROM ({one}) AS r",
            "k, n FROM ({one}) AS r UNION ALL SELECT k, n FROM ({other}) AS s",
            "a.k, a.n - b.n, a.n / b.n FROM ({one}) AS a {how} JOIN ({other}) AS b ON a.k {same} b.k",
            "MAX(n), AVG(n), COUNT(*) FILTER (WHERE n > 1) FROM ({one}) AS r",
            "k, n FROM ({one}) AS r WHERE n > (SELECT AVG(n) FROM ({other}) AS s)",
            "k, n / (SELECT SUM(n) FROM ({one}) AS s) FROM ({one}) AS r ORDER BY n DESC LIMIT 2",
            "n > 1 AS large, MEDIAN(n) FROM ({one}) AS r GROUP BY large", "DISTINCT k FROM ({one}) AS r QUALIFY ROW_NUMBER() OVER (ORDER BY n) = 1",
        ]).format(one=one, other=other, how=self.draw.choice(["", "LEFT", "FULL"]), same=self.draw.choice(["=", "IS NOT DISTINCT FROM"]))
        return self.asked("around", self.opened([self.price()]) + text)

    def told_by_key(self) -> str:
        """A released query of a key k and a number n."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        part = self.draw.choice([self.aggregate(source), *self.sums(source)])
        key = (self.keys(source) or ["1"])[0]
        return f"SELECT {key} AS k, {part} AS n FROM {source.text}{self.where(source, share=0.4)} GROUP BY {key}"

    def ordered(self) -> Asked:
        """Quantiles, ends, means and numbers of different values of rows of several entities."""
        source = self.many()
        number, column = self.bounded(source), self.pick(source.columns).name
        what = self.draw.choice([f"COUNT(DISTINCT {column})", *([
            f"MEDIAN({number})", f"MIN({number})", f"MAX({number})", f"AVG({number})",
            f"QUANTILE_DISC({number}, {self.draw.choice(['0.1', '0.5', '0.9'])})"] if number else [])])
        keys = [column.name for column in source.columns if column.domain and self.chance(0.3)][:1]
        group = f" GROUP BY {keys[0]}" if keys else ""
        options = [self.price(), *([f"max_rows = {self.draw.choice([1, 2, 5])}"] if self.chance(0.2) else [])]
        return self.asked("ordered", f"{self.opened(options)}{', '.join([*keys, what])} FROM {source.text}{self.where(source, share=0.4)}{group}")

    def firsts(self) -> Asked:
        """The first row of each value by an order that may not tell rows apart, met by itself at times."""
        below = self.table(*self.draw.choice([("visits", self.fresh("t")), ("visits", self.fresh("t")), ("people", self.fresh("t"))]))
        focus = self.pick([column for column in below.columns if not column.owner])
        on = [*(column.name for column in below.owners if self.chance(0.85)), *([focus.name] if self.chance(0.5) else [])] or [focus.name]
        order = f" ORDER BY {', '.join([*on, self.pick(below.columns).name])}{self.draw.choice(['', ' DESC'])}" if self.chance(0.7) else ""
        made, found = self.kept(below, focus, rest=order, before=f"DISTINCT ON ({', '.join(on)}) ")
        if self.chance(0.4):
            made, found = self.with_itself(made, found)
        if made.many or not made.owners:
            return self.shared(made)
        return self.asked("firsts", self.told(made).format(self.where(made, share=0.4)))

    def words(self) -> Asked:
        """What newer functions make of a column: grouped, counted, met by constants, or compared."""
        below = self.table(*self.draw.choice([("visits", self.fresh("t")), ("visits", self.fresh("t")), ("people", self.fresh("t"))]))
        made, focus = self.worded_focus(below, self.pick([column for column in below.columns if not column.owner]))
        for step in self.draw.sample([self.over_focus, self.one_of_focus, self.met_by_focus, self.worded_focus], self.draw.choice([0, 1, 2])):
            made, focus = step(made, focus)
        if self.chance(0.3):
            made, focus = self.with_itself(made, focus)
        key = "delta" in self.budget and self.chance(0.4)
        where = f" WHERE {self.draw.choice([self.about(focus, wide=True), self.tuples(made)])}" if self.chance(0.5) else ""
        text = f"{self.opened(self.terms())}{focus.name + ', ' if key else ''}{self.draw.choice(['COUNT(*)', f'COUNT(DISTINCT {focus.name})'])} "
        return self.asked("words", f"{text}FROM {made.text}{where}{f' GROUP BY {focus.name}' if key else ''}")

    def worded_focus(self, below: Relation, focus: Column) -> tuple[Relation, Column]:
        name = focus.name
        held = f"CASE WHEN {name} BETWEEN -9 AND 9000 THEN {name} END"
        made = {
            NUMBER: [(f"make_date({name}, 2, 29)", DAY), (f"make_date({held}, {name}, 1)", DAY), (f"sign({name})", NUMBER),
                     (f"make_date(2000, 1, {name})", DAY), (f"{name} = ANY (ARRAY[1, 2, 5])", TRUTH), (f"atan2({name}, 1)", NUMBER),
                     (f"concat_ws('-', {name}, 'x')", TEXT), (f"asin({name})", NUMBER), (f"tanh({name})", NUMBER),
                     *((f"CAST({name} AS BIGINT) {bits}", NUMBER) for bits in ("& 6", "| 1", "<< 2", ">> 1")), (f"xor(~CAST({name} AS INTEGER), 5)", NUMBER)],
            TEXT: [(f"lpad({name}, 3, '.')", TEXT), (f"replace({name}, 'i', '')", TEXT), (f"strip_accents({name})", TEXT),
                   (f"{name} SIMILAR TO '(a|x).*'", TRUTH), (f"{name} ILIKE 'V!%%' ESCAPE '!'", TRUTH), (f"rpad({name}, 2, 'é')", TEXT),
                   (f"{name} <> ALL (ARRAY['a', 'x'])", TRUTH), (f"trim({name}, 'ab')", TEXT), (f"regexp_matches({name}, 'A', 'i')", TRUTH),
                   (f"regexp_extract({name}, '{self.pattern()}')", TEXT), (f"regexp_replace({name}, '{self.pattern()}', 'y')", TEXT),
                   (f"regexp_replace({name}, '{self.pattern()}', '', 'g')", TEXT),
                   (f"regexp_replace({name}, '({self.pattern()})(.?)', '\\2-\\1')", TEXT), (f"{name} GLOB '[!a]*'", TRUTH),
                   (f"regexp_extract({name}, '({self.pattern()})?', 1)", TEXT), (f"lower({name})", TEXT), (f"reverse({name})", TEXT),
                   (f"regexp_full_match({name}, '{self.pattern()}')", TRUTH), (f"{name} LIKE '_'", TRUTH), (f"length({name})", NUMBER)],
            DAY: [(f"strftime({name}, '%Y-%m')", TEXT), (f"time_bucket(INTERVAL 2 DAY, {name})", DAY), (f"epoch({name})", NUMBER),
                  (f"decade({name})", NUMBER), (f"time_bucket(INTERVAL 3 MONTH, {name})", DAY), (f"century({name})", NUMBER),
                  (f"date_sub('year', {name}, DATE '2000-01-01')", NUMBER), (f"last_day({name})", DAY), (f"dayname({name})", TEXT)],
            TIME: [(f"strftime({name}, '%H %j')", TEXT), (f"time_bucket(INTERVAL 5 HOUR, {name})", TIME), (f"epoch({name})", NUMBER),
                   (f"{name} - INTERVAL 3 SECOND", TIME), (f"monthname({name})", TEXT), (f"decade({name})", NUMBER)],
            TRUTH: [(f"CASE WHEN {name} THEN 'a' ELSE 'victim' END", TEXT), (f"({name}, 1) = (TRUE, 1)", TRUTH)]}[focus.type]
        text, kind = self.draw.choice(made)
        return self.kept(below, focus, (text, Column("", kind)))

    def pattern(self) -> str:
        """A regular expression, of which some find parts of letters, or nothing."""
        return "".join(self.draw.choices([".", "a", "i", "é", "[^x]", "(?i)", "^", "$", r"\b", r"\B", r"\C", "*", "|", r"\pL", "x?"], k=2))

    def tuples(self, source: Relation) -> str:
        """Several columns in a list of constants, NULL among them, or in a list of rows."""
        kinds = self.draw.choices(source.columns, k=2)
        word, names = self.draw.choice(["IN", "IN", "NOT IN"]), f"({kinds[0].name}, {kinds[1].name})"
        if self.chance(0.3) and source.owners:
            inner = self.table("visits", self.fresh("t"))
            alike = [column for column in inner.columns if column.type == kinds[1].type]
            if alike:
                return f"({source.owners[0].name}, {kinds[1].name}) {word} (SELECT {inner.owners[0].name}, {self.draw.choice(alike).name} FROM {inner.text})"
        rows = ", ".join(f"({', '.join(self.draw.choice([*CONSTANTS[kind.type], *([NULL] if self.chance(0.2) else [])]) for kind in kinds)})" for _ in range(2))
        return f"{names} {word} ({rows})"

    def least(self) -> Asked:
        """Groups that may be few, beside what else a statement may have; by a subquery that may be of few at times."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        text = self.query(source, options=self.terms())
        inner = self.table("visits", self.fresh("t"))
        value = f"(SELECT {self.draw.choice(['COUNT(*)', *self.sums(inner)])} FROM {inner.text}{self.where(inner)})"
        if self.chance(0.5):
            text = f"{self.opened(self.terms())}COUNT(*), {value} FROM {source.text} WHERE {self.number(source) or '1'} < {value}"
        return self.asked("least", text)

    def asked(self, kind: str, *texts: str, **options: Any) -> Asked:
        used = {name: value for name, value in self.parameters.items() if any(f"${name}" in text for text in texts)}
        return Asked(kind, texts, used, options)

    def layers(self) -> Asked:
        """One table below a stack of simple steps that are all about one column, and what is made of it."""
        below = self.table(*self.draw.choice([("visits", self.fresh("t")), ("visits", self.fresh("t")), ("people", self.fresh("t"))]))
        whole = [column for column in below.columns if column.whole and not column.owner]
        focus = self.pick(whole if whole and self.chance(0.5) else below.columns)
        over, narrowed, made, one, met = steps = [self.over_focus, self.narrowed_focus, self.made_of_focus, self.one_of_focus,
                                                  self.met_by_focus]
        usual = self.draw.choice([(over, narrowed, made), (over, narrowed, made), (narrowed, over, made), (made, over, narrowed),
                                  (made, one), (made, one, over), (one, made, narrowed), (met,), (met, over), (made, met)])
        for step in usual if self.chance(0.6) else self.draw.choices(steps, k=self.draw.choice([1, 2, 3, 4])):
            below, focus = step(below, focus)
        if self.chance(0.3) and below.text.startswith("("):
            below, focus = self.with_itself(below, focus)
        what = ["COUNT(*)", "COUNT(*)", f"COUNT({focus.name})"]
        if focus.type == NUMBER:
            what += [f"SUM(LEAST(GREATEST({focus.name}, 0), 1000))", f"AVG(LEAST(GREATEST({focus.name}, -5), 5))"]
        where = f" WHERE {self.about(focus, wide=True)}" if self.chance(0.7) else ""
        key = self.chance(0.35) and ("delta" in self.budget or focus.domain)
        text = f"{self.opened(self.terms())}{focus.name + ', ' if key else ''}{self.draw.choice(what)} FROM {below.text}{where}"
        return self.asked("layers", text + (f" GROUP BY {focus.name}" if key else ""))

    def about(self, focus: Column, *, wide: bool = False) -> str:
        """A condition on one column; a wide one leaves most rows."""
        if focus.whole and self.chance(0.2 if wide else 0.8):
            return self.narrowed(Relation("", (focus,)))[0]
        if focus.type == NUMBER:
            return f"{focus.name} {self.draw.choice(['>', '<', '=', '<>'])} {self.draw.choice(['1', '0', '-1', '5'])}"
        if focus.type == TRUTH:
            return focus.name
        return f"{focus.name} {self.draw.choice(['=', '>=', '<', 'IS NOT DISTINCT FROM'])} {self.draw.choice(CONSTANTS[focus.type])}"

    def kept(self, below: Relation, focus: Column, *shown: tuple[str, Column], rest: str = "", before: str = "") -> tuple[
            Relation, Column]:
        """A query inside that shows the owners and the column; the last that is shown is the column from then on."""
        first = [(column.name, column) for column in dict.fromkeys([*below.owners, focus])]
        made = self.wrapped([*first, *shown], below.text + rest, below, before=before)
        return made, made.columns[-1] if shown else made.columns[len(first) - 1 if focus not in below.owners else 0]

    def over_focus(self, below: Relation, focus: Column) -> tuple[Relation, Column]:
        """A window over the entity's rows."""
        if not below.owners or below.many:
            return below, focus
        group = [below.owners[0].name, *([focus.name] if self.chance(0.4) else [])]
        order = f" ORDER BY {self.pick(below.columns).name}" if self.chance(0.6) else ""
        function = self.draw.choice(["ROW_NUMBER()", "COUNT(*)", "COUNT(*)", "RANK()", f"LAG({focus.name})", f"MAX({focus.name})"])
        over = f"OVER (PARTITION BY {', '.join(group)}{order})"
        rest = f" QUALIFY ROW_NUMBER() {over} = 1" if self.chance(0.3) else ""
        first, _ = self.kept(below, focus, (f"{function} {over}", Column("", NUMBER)), rest=rest)
        return first, first.columns[-2]

    def narrowed_focus(self, below: Relation, focus: Column) -> tuple[Relation, Column]:
        return self.kept(below, focus, rest=f" WHERE {self.about(focus)}")

    def made_of_focus(self, below: Relation, focus: Column) -> tuple[Relation, Column]:
        name = focus.name
        made = {
            NUMBER: [(f"{name} * {name}", NUMBER), (f"{name} * {name}", NUMBER), (f"{name} * 1000", NUMBER), (f"{name} + {name}", NUMBER),
                     (f"CAST(CAST(10001 + {name} AS VARCHAR) || '-01-01' AS DATE)", DAY), (f"{name} - 1", NUMBER), (f"-{name}", NUMBER),
                     (f"CAST(CAST(10001 + {name} AS VARCHAR) || '-01-01' AS DATE)", DAY), (f"CAST({name} AS VARCHAR)", TEXT),
                     (f"CASE WHEN {self.about(focus)} THEN {name} * {name} END", NUMBER), (f"{name} % 2", NUMBER)],
            TEXT: [(f"upper({name})", TEXT), (f"TRY_CAST({name} AS DATE)", DAY), (f"TRY_CAST({name} AS BIGINT)", NUMBER)],
            DAY: [(f"{name} + 1", DAY), (f"year({name})", NUMBER), (f"{name} - 365", DAY), (f"CAST({name} AS VARCHAR)", TEXT)],
            TIME: [(f"CAST({name} AS DATE)", DAY), (f"date_trunc('year', {name})", TIME), (f"{name} + INTERVAL 1 DAY", TIME)],
            TRUTH: [(f"NOT {name}", TRUTH), (f"CASE WHEN {name} THEN 1 ELSE 0 END", NUMBER)]}[focus.type]
        text, kind = self.draw.choice(made)
        return self.kept(below, focus, (text, Column("", kind, whole=kind == NUMBER and focus.whole)))

    def one_of_focus(self, below: Relation, focus: Column) -> tuple[Relation, Column]:
        """One row of each entity and value."""
        if self.chance(0.5):
            return self.kept(below, focus, before="DISTINCT ")
        names = ", ".join(column.name for column in dict.fromkeys([*below.owners, focus]))
        made, found = self.kept(below, focus, ("COUNT(*)", Column("", NUMBER, whole=True)), rest=f" GROUP BY {names}")
        return made, made.columns[-2] if self.chance(0.7) else found

    def met_by_focus(self, below: Relation, focus: Column) -> tuple[Relation, Column]:
        """A join with constants or public rows by the column."""
        public = self.constants(Relation("", (focus,)))
        return Relation(f"{below.text} {self.draw.choice(['JOIN', 'JOIN', 'LEFT JOIN', 'FULL JOIN'])} {public.text} ON {focus.name} "
                        f"{self.draw.choice(['=', 'IS NOT DISTINCT FROM'])} {public.columns[0].name}", below.columns, below.many), focus

    def with_itself(self, below: Relation, focus: Column) -> tuple[Relation, Column]:
        """A relation and itself, met by the entity and the column, or by the column alone."""
        inner, _, alias = below.text.rpartition(" AS ")
        if " " in alias or ")" in alias:
            return below, focus
        other = self.fresh("t")
        tests = [f"{column.name} = {other}.{column.name.split('.')[1]}" for column in below.owners[:1] if self.chance(0.85)]
        same = self.draw.choice(["=", "=", "IS NOT DISTINCT FROM"])
        tests.append(f"{focus.name} {same} {other}.{focus.name.split('.')[1]}")
        return Relation(f"{below.text} JOIN {inner} AS {other} ON {' AND '.join(tests)}", below.columns, len(tests) < 2), focus

    def several(self) -> Asked:
        """Rows of several entities each, with every bound that is for such."""
        return self.shared(self.many())

    def shared(self, source: Relation) -> Asked:
        names = [bound.name for bound in BOUNDS if bound.several or bound.degrees]
        name = self.draw.choice([*names, "auto", "auto", "auto"])
        options = [self.price(), f"bound = '{name}'"]
        if name == "extension" or self.chance(0.05):
            options.append(f"clip = {self.draw.choice(['1', '2', '7', '0.001', '1000000000'])}")
        if name == "frequency":
            options.append(f"max_frequency = {self.draw.choice([1, 2, 5])}")
        if self.chance(0.05):
            options.append(f"max_rows = {self.draw.choice([1, 2, 3])}")
        if name in ("projection", "flow") or self.chance(0.15):
            owner = self.draw.choice(source.owners or list(source.columns))
            inner = f"(SELECT {owner.name} AS o, COUNT(*) AS n FROM {source.text} GROUP BY {owner.name}) AS q"
            keys = self.chance(0.5)
            text = f"{'n, ' if keys else ''}COUNT(*){', SUM(n)' if self.chance(0.1) else ''} FROM {inner}"
            text += " WHERE n BETWEEN 1 AND 5 GROUP BY n" if keys else ""
            return self.asked("degrees", self.opened(options) + text)
        return self.asked("several", self.query(source, options=options, simple=True))

    def crowds(self) -> Asked:
        """Rows of several entities each: both ends of them in one column, the most frequent value, sets of groups, columns beside rows."""
        source, terms = self.many(), self.terms() if self.chance(0.3) else [self.price()]
        ends, number = [column.name for column in source.owners], self.bounded(source)
        domains = [column.name for column in source.columns if column.domain]
        if len(ends) > 1 and self.chance(0.5):
            a, b = self.draw.sample(ends, 2)
            source = Relation(f"(SELECT {a} AS e, {number or 1} AS v FROM {source.text} UNION ALL SELECT {b}, {number or 2} FROM {source.text}) AS q",
                              (Column("e", NUMBER), Column("v", NUMBER)), many=True)
            number, domains = "LEAST(GREATEST(v, -3), 7)", []
        elif number and self.chance(0.3):
            source = replace(source, text=f"{source.text} CROSS JOIN LATERAL (SELECT CAST({number} AS INTEGER) & 6 AS low) AS q")
            domains.append("low") if self.chance(0.5) else None
            number = "low"
        if not domains:
            return self.asked("crowds", f"{self.opened(terms)}COUNT(*){f', SUM({number})' if number else ''} FROM {source.text}")
        keys = self.draw.sample(domains, min(len(domains), self.draw.choice([1, 2])))
        told = self.draw.choice([f"MODE({self.draw.choice(domains)})", f"MODE({keys[0]}), COUNT(*)", f"AVG({number or 1})", "COUNT(*)"])
        how = self.draw.choice([", ".join(keys), f"CUBE ({', '.join(keys)})", f"ROLLUP ({', '.join(keys)})"])
        return self.asked("crowds", f"{self.opened(terms)}{', '.join(keys)}, {told} FROM {source.text} GROUP BY {how}")

    def synthetic(self) -> Asked:
        """A synthetic table, which is then asked, and meets private rows."""
        name, options = self.made(), [f"method = '{self.draw.choice([*METHODS])}'"] if self.chance(0.8) else []
        options += [f"rows = {self.draw.choice([1, 20, 300])}"] if self.chance(0.6) else []
        if self.chance(0.3):
            width = self.draw.choice(["5 PERCENT OR 40", "2000", "80 PERCENT"])
            options += [f"candidates = {self.draw.choice([1, 3])}", f"accept = 'SELECT COUNT(*) FROM {name} WITHIN {width}'"]
        made, shown = self.made_of(f"CREATE SYNTHETIC TABLE {name}", options)
        other = self.table(self.draw.choice(["people", "visits"]), self.fresh("t"))
        column, alike = self.draw.choice(shown), self.fresh("t")
        met = [each.name for each in other.columns if each.type == column.type]
        texts = [f"SELECT COUNT(*), COUNT(DISTINCT {column.name}) FROM {name}"]
        if met:
            opened, own = self.opened(self.terms()), self.draw.choice(met)
            test = f"{own} {self.draw.choice(['=', 'IS NOT DISTINCT FROM'])} {alike}.{column.name}"
            texts += [f"{opened}COUNT(*) FROM {other.text} {self.draw.choice(['JOIN', 'LEFT JOIN'])} {name} AS {alike} ON {test}",
                      f"{opened}COUNT(*) FROM {other.text} WHERE {own} IN (SELECT {column.name} FROM {name})"]
        text = self.draw.choice(texts)
        return self.asked("synthetic", made, text)

    def online(self) -> Asked:
        """An online model, asked for counts over and over."""
        name, updates = self.made(), self.draw.choice([1, 3, 20])
        options = [f"updates = {updates}", *(["queries = 2"] if self.chance(0.3) else []), *(["method = 'net'"] if self.chance(0.1) else [])]
        made, shown = self.made_of(f"CREATE ONLINE MODEL {name}", options)
        while "$" in made and self.chance(0.95):
            made, shown = self.made_of(f"CREATE ONLINE MODEL {name}", options)
        some = [column.name for column in shown]
        texts = [f"SELECT {some[0]}, COUNT(*) FROM {name} GROUP BY {some[0]}",
                 f"SELECT {', '.join(some)}, COUNT(*) FROM {name}{self.where(Relation('', tuple(shown)))} GROUP BY {', '.join(some)}",
                 f"SELECT COUNT(*), COUNT({some[-1]}), COUNT(*) FILTER (WHERE {self.about(shown[-1])}) FROM {name}"]
        return self.asked("online", made, *self.draw.choices(texts, k=3))

    def made(self) -> str:
        """A name that no other statement over these tables gives."""
        return f"made{self.draw.randrange(10**9)}"

    def made_of(self, what: str, options: Sequence[str]) -> tuple[str, list[Column]]:
        """CREATE ... AS SELECT of columns whose values are known, mostly; and these columns."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1, 2]))
        known = [(column.name, column) for column in source.columns if column.domain or column.type == TRUTH]
        known += [(f"({self.condition(source)})", Column("", TRUTH)), (f"CASE WHEN {self.condition(source)} THEN 1 ELSE 0 END", Column("", NUMBER))]
        known += [(number, Column("", NUMBER)) for number in (self.bounded(source), self.bounded(source)) if number]
        known += [(self.pick(source.columns).name, source.columns[0])] if self.chance(0.1) else []
        shown = self.draw.sample(known, min(len(known), self.draw.choice([1, 2, 2, 3])))
        columns = [replace(column, name=f"c{i}", owner=False) for i, (_, column) in enumerate(shown)]
        rows = ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(shown))
        limited = [f"max_rows = {self.draw.choice([1, 2, 4])}"] if self.chance(0.8) else []
        terms = [self.price(), *limited, *options, f"bins = {self.draw.choice([1, 2, 5])}"]
        return f"{what} AS SELECT {rows} FROM {source.text}{self.where(source, share=0.4)} OPTIONS ({', '.join(terms)})", columns

    def one_owner(self, *, depth: int = 0) -> Relation:
        """A relation whose rows belong to one entity each."""
        found = self.relation(depth)
        return self.table(self.draw.choice(["people", "visits", "visits"]), self.fresh("t")) if found.many or not found.owners else found

    def told(self, source: Relation, *, options: Sequence[str] = (), parts: Sequence[str] = ()) -> str:
        """Sums over a relation, at times by a declared column."""
        keys = [column.name for column in source.columns if column.domain and self.chance(0.2)][:1]
        group = f" GROUP BY {keys[0]}" if keys else ""
        return f"{self.opened(options or self.terms())}{', '.join([*keys, *(parts or self.sums(source))])} FROM {source.text}{{}}{group}"

    def lists(self) -> Asked:
        """Rows that stand in a list, or do not."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        tests = [self.listed(source), *([self.condition(source)] if self.chance(0.3) else [])]
        self.draw.shuffle(tests)
        return self.asked("lists", self.told(source).format(f" WHERE {self.draw.choice([' AND ', ' AND ', ' OR ']).join(tests)}"))

    def unions(self) -> Asked:
        """Two relations of the same columns put together, and at times what is made of that."""
        source = self.combined(1)
        for _ in range(3):
            source = source if source.owners and not source.many else self.combined(1)
        if self.chance(0.3) and source.owners:
            source, _ = self.one_of_focus(source, self.pick(source.columns))
        if source.many or not source.owners:
            return self.shared(source)
        return self.asked("unions", self.told(source).format(self.where(source, share=0.3)))

    def bounds(self) -> Asked:
        """Every bound for rows of one entity each."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        name = self.draw.choice([bound.name for bound in BOUNDS if bound.one])
        own = {"reservoir": [f"clip = {self.draw.choice([1, 3, 0.01])}", f"max_groups = {self.draw.choice([1, 2, 9])}"],
               "extension": [f"clip = {self.draw.choice(['1', '2.5', '1000000000'])}"],
               "frequency": [f"max_frequency = {self.draw.choice([1, 2, 6])}", f"max_rows = {self.draw.choice([1, 2])}"],
               "rows": [f"max_rows = {self.draw.choice([1, 2, 4, 1000000])}"],
               "clip": [f"clip = {self.draw.choice(['1', '2.5', '0.000001', '1000000000'])}"] if self.chance(0.5) else []}.get(name, [])
        return self.asked("bounds", self.told(source, options=[self.price(), f"bound = '{name}'", *own]).format(self.where(source)))

    def named(self) -> Asked:
        """Every mechanism and every rule of keys, asked for by its name where it may fit."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        name = self.draw.choice([*MECHANISMS, *RULES, *RULES, *RULES])
        options = [self.price_for(name), f"mechanism = '{name}'"]
        number = self.bounded(source)
        if name in ("exponential", "permute_and_flip", "rank_counts", "smooth_sensitivity") and number:
            what = f"QUANTILE_CONT({number}, [0.1, 0.5, 0.75])" if name == "rank_counts" else self.draw.choice([f"MEDIAN({number})", f"{'MEDIAN' if name in FOR_DELTA else 'MIN'}({number})", f"QUANTILE_CONT({number}, {self.draw.choice(['0.25', '0.9'])})"])
            text = f"{self.opened([*options, f'max_rows = {self.draw.choice([1, 1, 2])}'])}{what} FROM {source.text}{self.where(source, share=0.3)}"
            return self.asked("named", text)
        told = [column for column in source.columns if not column.owner]
        if name in RULES and "delta" in self.budget and told:
            key = self.pick(told).name
            options = [f"epsilon = {self.draw.choice([0.5, 4])}, delta = 0.01", *options[1:], f"max_rows = {self.draw.choice([1, 2, 3, 5])}"]
            return self.asked("named", f"{self.opened(options)}{key}, COUNT(*) FROM {source.text} GROUP BY {key}")
        bounds = {bound.name: bound for bound in BOUNDS}
        if name in bounds and bounds[name].degrees:
            source = self.many()
            owner = self.draw.choice(source.owners or list(source.columns)).name
            options = [options[0], f"bound = '{name}'", *(options[1:] if self.chance(0.5) else [])]
            return self.asked("named", f"{self.opened(options)}COUNT(*) FROM (SELECT {owner} AS o, COUNT(*) AS n FROM {source.text} "
                                       f"GROUP BY {owner}) AS q")
        if name in bounds and bounds[name].several and self.chance(0.5):
            source = self.many()
        if name in bounds and not bounds[name].degrees:
            options.append(f"bound = '{name}'")
        options += ["clip = 2"] if name == "extension" else [f"max_rows = {self.draw.choice([1, 3])}"] if name in ("laplace", "gaussian") else []
        return self.asked("named", self.told(source, options=options).format(self.where(source)))

    def sets(self) -> Asked:
        source = self.relation(self.draw.choice([0, 0, 1]))
        keys = [column.name for column in self.draw.sample([*source.columns], min(len(source.columns), 3)) if column.domain]
        if not keys:
            return self.select()
        told = ", ".join(keys)
        how = self.draw.choice([f"CUBE ({told})", f"ROLLUP ({told})", f"GROUPING SETS (({told}), ({keys[0]}), ())"])
        shown = ", ".join([*keys, *self.sums(source)])
        return self.asked("sets", f"{self.opened(self.terms())}{shown} FROM {source.text}{self.where(source)} GROUP BY {how}")

    def running(self) -> Asked:
        source = self.relation(self.draw.choice([0, 0, 1]))
        keys = [column.name for column in source.columns if column.domain]
        if not keys:
            return self.select()
        key = self.draw.choice(keys)
        over = self.draw.choice([f"ORDER BY {key}", "", f"ORDER BY {key} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                                 f"ORDER BY {key} DESC"])
        inner = self.draw.choice(["COUNT(*)", "COUNT(*)", *(self.sums(source)[:1])])
        if inner.startswith("AVG"):
            inner = "COUNT(*)"
        name = self.draw.choice(["square-root", "square-root", "haar", "hierarchy"])
        options = self.terms()
        if self.chance(0.5):
            options = [self.price_for(name), f"max_rows = {self.draw.choice([1, 2])}", f"strategy = '{name}'"]
        return self.asked("running", f"{self.opened(options)}{key}, {self.draw.choice(['SUM', 'SUM', 'AVG'])}({inner}) OVER "
                                     f"({over}) FROM {source.text}{self.cells(source)} GROUP BY {key}")

    def accuracy(self) -> Asked:
        """The same question twice, with other accuracies: the second may rest on what is kept of the first."""
        source = self.relation(self.draw.choice([0, 0, 1]))
        keys = [column.name for column in source.columns if column.domain][: self.draw.choice([0, 1, 2])]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        shown = ", ".join([*keys, self.draw.choice(["COUNT(*)", *[part for part in self.sums(source) if "AVG" not in part]])])
        text = f"SELECT {shown} FROM {source.text}{self.where(source)}{group}"
        text = text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = {self.draw.choice([1, 3])})", 1) if (
            self.chance(0.5)) else text
        goals = [f"ERROR WITHIN {self.draw.choice([5, 20, 100])}", f"STANDARD ERROR {self.draw.choice([1, 3, 40])}"]
        return self.asked("accuracy", *(f"{text} {self.draw.choice(goals)}" for _ in range(2)))

    def accuracies(self) -> Asked:
        """One question, and coarser ones of the same rows, each as exactly as is said, over and over: later ones may rest on what is kept."""
        source = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        keys = [column.name for column in source.columns if column.domain][:2]
        where, parts = self.where(source, share=0.4), [part for part in self.sums(source) if "AVG" not in part] or ["COUNT(*)"]
        limited = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = {self.draw.choice([1, 3])}) " if self.chance(0.5) else ""
        texts = []
        for _ in range(self.draw.choice([3, 4, 5])):
            some = self.draw.choice([keys, keys, keys[:1], []])
            part = self.draw.choice([*parts, "COUNT(*)"])
            goal = self.draw.choice([f"ERROR WITHIN {self.draw.choice([2, 5, 20, 100])} CONFIDENCE {self.draw.choice(['0.9', '0.99'])}",
                                     f"ERROR WITHIN {self.draw.choice([5, 20, 100])}", f"STANDARD ERROR {self.draw.choice([1, 3, 40])}"])
            texts.append(f"SELECT {limited}{', '.join([*some, part])} FROM {source.text}{where}{' GROUP BY ' + ', '.join(some) if some else ''} {goal}")
        return self.asked("accuracies", *texts)

    def lateral(self) -> Asked:
        """Rows beside each row: of another table, or made of its own."""
        left, right = self.table(self.draw.choice(["people", "visits", "visits"]), self.fresh("t")), self.base(private=self.chance(0.8))
        alias, mine = self.fresh("q"), self.pick(left.columns)
        pairs = [(a, b) for a in left.columns for b in right.columns if a.type == b.type and not (a.owner or b.owner)]
        tests = [f"{left.owners[0].name} = {right.owners[0].name}"] if right.owners and self.chance(0.9) else []
        if pairs and (not tests or self.chance(0.6)):
            a, b = self.draw.choice(pairs)
            tests.append(f"{b.name} {self.draw.choice(['=', '<', '>=', '<>', 'IS NOT DISTINCT FROM'])} {a.name}")
        theirs = self.pick(right.columns)
        below = f"FROM {right.text} WHERE {' AND '.join(tests) or 'TRUE'}"
        made = self.draw.choice([
            f"SELECT {theirs.name} AS c {below}", f"SELECT DISTINCT {theirs.name} AS c {below}", f"SELECT COUNT(*) AS c {below}",
            f"SELECT MAX({theirs.name}) AS c {below}", f"SELECT {theirs.name} AS c {below} ORDER BY {theirs.name} LIMIT 1",
            f"SELECT {mine.name} AS c", f"SELECT {mine.name} AS c UNION ALL SELECT {mine.name}"])
        how = self.draw.choice([", LATERAL", "CROSS JOIN LATERAL", "JOIN LATERAL", "LEFT JOIN LATERAL"])
        text = f"{left.text}{'' if how[0] == ',' else ' '}{how} ({made}) AS {alias}{' ON TRUE' if how.endswith('JOIN LATERAL') and 'CROSS' not in how else ''}"
        what = self.draw.choice(["COUNT(*)", f"COUNT({alias}.c)", f"COUNT(DISTINCT {alias}.c)"])
        return self.asked("lateral", f"{self.opened(self.terms())}{what} FROM {text}{self.where(left, share=0.3)}")

    def by_name(self) -> Asked:
        """Two relations put together by the names of their columns, in another order, some of one of them alone."""
        left, right = self.table("visits", self.fresh("t")), self.table(self.draw.choice(["visits", "visits", "people"]), self.fresh("t"))
        named = {column.name.split(".")[1]: column for column in left.columns}
        both = [name for name in named if name in {column.name.split(".")[1] for column in right.columns}]
        kept = [name for name in both if named[name].owner or self.chance(0.7)]
        first = [*kept, *self.draw.sample([name for name in named if name not in kept], self.draw.choice([0, 0, 1]) if len(named) > len(kept) else 0)]
        second = self.draw.sample(kept, len(kept))
        alias = self.fresh("t")
        rows = (f"(SELECT {', '.join(named[name].name for name in first)} FROM {left.text}{self.where(left, share=0.3)} "
                f"{self.draw.choice(['UNION ALL BY NAME', 'UNION ALL BY NAME', 'UNION BY NAME'])} "
                f"SELECT {', '.join(f'{right.text.split()[-1]}.{name}' for name in second)} FROM {right.text}{self.where(right, share=0.3)}) AS {alias}")
        columns = tuple(replace(named[name], name=f"{alias}.{name}", bounded=False, domain=False) for name in first)
        made = Relation(rows, columns)
        return self.asked("by_name", self.told(made).format(self.where(made, share=0.4)))

    def semi(self) -> Asked:
        """Rows that meet others, or do not, as a join says it."""
        left = self.one_owner(depth=self.draw.choice([0, 0, 1]))
        right = self.base(private=self.chance(0.8))
        pairs = [(a, b) for a in left.columns for b in right.columns if a.type == b.type and not (a.owner or b.owner)]
        tests = [f"{left.owners[0].name} = {right.owners[0].name}"] if right.owners and left.owners and self.chance(0.9) else []
        if pairs and (not tests or self.chance(0.5)):
            a, b = self.draw.choice(pairs)
            tests.append(f"{a.name} {self.draw.choice(['=', '=', '<', '<>', '>='])} {b.name}")
        tests += [self.condition(right, 1)] if self.chance(0.2) else []
        source = Relation(f"{left.text} {self.draw.choice(['SEMI', 'SEMI', 'ANTI'])} JOIN {right.text} ON {' AND '.join(tests) or 'TRUE'}", left.columns, left.many)
        return self.asked("semi", self.told(source).format(self.where(left, share=0.3)))

    def nested(self) -> Asked:
        """Rows of which there are others, of which there are others, that are more or less in something."""
        source = self.table(self.draw.choice(["people", "visits", "visits"]), self.fresh("t"))
        return self.asked("nested", self.told(source).format(f" WHERE {self.exists(source, 2)}"))

    def exists(self, above: Relation, depth: int) -> str:
        inner = self.base(private=self.chance(0.85))
        tests = [f"{inner.owners[0].name} = {above.owners[0].name}"] if inner.owners and above.owners and self.chance(0.95) else []
        pairs = [(a, b) for a in above.columns for b in inner.columns if a.type == b.type and not (a.owner or b.owner)]
        if pairs and self.chance(0.8):
            a, b = self.draw.choice(pairs)
            tests.append(f"{b.name} {self.draw.choice(['>', '<', '<=', '<>', '='])} {a.name}")
        if depth > 1 and self.chance(0.7):
            tests.append(self.exists(inner, depth - 1))
        return f"{self.draw.choice(['', '', 'NOT '])}EXISTS (SELECT 1 FROM {inner.text} WHERE {' AND '.join(tests) or self.condition(inner, 1)})"

    def workload(self) -> Asked:
        texts, name = [], self.draw.choice([None, "union", "privtree", *STRATEGIES])
        shared = self.one_owner(depth=self.draw.choice([0, 0, 1])) if self.chance(0.6) else None
        for _ in range(self.draw.choice([1, 2, 3])):
            source = shared or self.one_owner(depth=self.draw.choice([0, 0, 1]))
            keys = [column.name for column in source.columns if column.domain and self.chance(0.5)][:2]
            where, limited = self.cells(source), [column.name for column in source.of(NUMBER) if column.bounded]
            if (name == "privtree" or self.chance(0.1)) and len(limited) > 1:
                keys, where = [], " WHERE " + " AND ".join(f"{column} BETWEEN {self.draw.choice([0, 1])} AND {self.draw.choice([2, 3])}"
                                                          for column in self.draw.sample(limited, 2))
            group = f" GROUP BY {', '.join(keys)}" if keys else ""
            sums = ["COUNT(*)"] if name in ("union", "privtree") else self.sums(source)
            texts.append(f"SELECT {', '.join([*keys, *sums])} FROM {source.text}{where}{group}")
        options: dict[str, Any] = dict(self.price_values())
        if name is not None:
            named = [part.split(" = ") for part in self.price_for(name).split(", ")]
            options = {"strategy": name, **{price: float(value) for price, value in named}}
        if self.chance(0.85):
            options["max_rows"] = self.draw.choice([1, 2, 4])
        if self.chance(0.2):
            options["consistency"] = self.draw.choice(["none", "ols", "nnls", "sequential"])
            if options["consistency"] != "none" and self.chance(0.5):
                options["rounding"] = "whole"
        return self.asked("workload", *texts, **options)

    def strategy(self) -> Asked:
        source = self.one_owner(depth=self.draw.choice([0, 0, 0, 1]))
        name = self.draw.choice([name for name in STRATEGIES if not name.endswith("targets")])  # which no statement with a price has
        domains = [column.name for column in source.columns if column.domain]
        keys = self.draw.sample(domains, min(len(domains), 1 if name in ("hierarchy", "haar", "dawa") else self.draw.choice([0, 1, 2, 2, 3])))
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        options = [self.price_for(name), f"max_rows = {self.draw.choice([1, 2, 4])}", f"strategy = '{name}'"]
        sums = self.sums(source) if self.chance(0.4) else ["COUNT(*)"]
        return self.asked("strategy", f"{self.opened(options)}{', '.join([*keys, *sums])} FROM {source.text}{self.cells(source)}{group}")

    def cells(self, source: Relation) -> str:
        """A condition on cells of declared values, mostly: constants that one column is compared with."""
        if self.chance(0.2):
            return self.where(source)
        return f" WHERE {self.about(self.pick(source.columns), wide=True)}" if self.chance(0.4) else ""

    def validate(self) -> Asked:
        table = self.draw.choice(["people", "visits", "visits"])
        alias = self.fresh("t")
        source = self.table(table, alias)
        what, where = self.measured(source), ""
        column = self.pick(source.columns)
        beside = [part for part in source.columns if part.name.split(".")[1] in self.world.tables[table].key and not part.owner]
        if beside and self.chance(0.6):
            column = beside[0]
        style = self.draw.choice(["=", "=", "=", "in", "two columns", "any"])
        decider = self.draw.choice(DECIDERS) if self.chance(0.4) else None
        shared, anew = self.parameter(column.type), self.chance(0.4)
        known = BY_NAME.get(column.name.split(".")[1])
        constants = known.common if known is not None else ("1", "2", "3")
        checks = []
        alone = decider is not None and self.chance(0.7)  # most deciders are for one sum
        if alone and decider is not None:
            what, anew = self.decided(source, decider), False
        for i in range(1 if alone else self.draw.choice([1, 2, 3, 4, 6])):
            what = self.measured(source) if anew else what
            tested = self.pick(source.columns) if style == "two columns" else column
            value = constants[i % len(constants)] if tested is column else self.draw.choice(CONSTANTS[tested.type])
            where = f" WHERE {tested.name} = {value}"
            if style == "in":
                where = f" WHERE {column.name} IN ({shared}, {value})"
            elif style == "any":
                where = self.where(source)
            text = f"SELECT {what} FROM {source.text}{where}"
            if self.chance(0.1) and (keys := [part.name for part in source.columns if part.domain]):
                text = f"SELECT {keys[0]}, {what} FROM {source.text}{where} GROUP BY {keys[0]}"
            checks.append(f"({text}) WITHIN {self.draw.choice(['100', '100', '2', '0.5', '5 PERCENT OR 10'])}")
        options = self.terms() if decider is None or self.chance(0.3) else [self.price(), f"max_rows = {self.draw.choice([1, 2, 4])}"]
        options = options[: None if decider != "held_distance" else 1]
        if self.chance(0.1 if alone else 0.5):
            options.append(f"suite = '{self.draw.choice(['independent', 'conjunction', 'sparse'])}'")
        if decider is not None:
            options.append(f"decider = '{decider}'")
        if "'sparse'" in options[-1] and self.chance(0.4):
            options.append(f"failures = {self.draw.choice([1, 2])}")
        return self.asked("validate", f"VALIDATE {', '.join(checks)} AGAINST {table}_syn FOR {table} WITHIN 5 OPTIONS "
                                      f"({', '.join(options)})")

    def decided(self, source: Relation, decider: str) -> str:
        """An aggregate that a decider is for."""
        numbers = [column.name for column in source.of(NUMBER)]
        if not numbers or decider in ("coin", "naive_coin"):
            return "COUNT(*)"
        held = f"LEAST(GREATEST({self.draw.choice(numbers)}, 0), {self.draw.choice([1, 5, 1000])})"
        if decider in ("exponential", "histogram"):
            return self.draw.choice([f"MEDIAN({held})", f"QUANTILE_CONT({held}, 0.25)"])
        return f"SUM({held})" if decider in ("r2t", "svt", "svt_all_levels") or self.chance(0.7) else self.measured(source)

    # -- options

    def price_values(self) -> dict[str, Any]:
        amount = self.draw.choice([0.01, 0.5, 1, 1, 4, 60])
        if "rho" in self.budget:
            return self.draw.choice([{"rho": amount, "delta": 1e-6}, {"rho": amount}, {"epsilon": amount, "delta": 1e-6}])
        if "delta" in self.budget:
            return self.draw.choice([{"epsilon": amount, "delta": self.draw.choice([1e-6, 0.01])},
                                     {"epsilon": amount, "delta": 1e-6}, {"rho": amount, "delta": 1e-6}, {"epsilon": amount}])
        return {"epsilon": amount}

    def price_for(self, name: str) -> str:
        """A price in the account that a strategy or a mechanism takes, where the budget has one."""
        amount = self.draw.choice([0.01, 0.5, 4])
        if name in FOR_RHO and "delta" in self.budget:
            return f"rho = {amount}"
        if name in PURE and "rho" not in self.budget:
            return f"epsilon = {amount}"
        return f"epsilon = {amount}, delta = 1e-6" if name in FOR_DELTA and "delta" in self.budget else self.price()

    def price(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.price_values().items())

    def terms(self) -> list[str]:
        return [self.price(), *([f"max_rows = {self.draw.choice([1, 2, 4])}"] if self.chance(0.5) else [])]

    def opened(self, options: Sequence[str]) -> str:
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({', '.join(options)}) " if options else "SELECT "

    def options(self, source: Relation) -> list[str]:
        found = [self.price()]
        if self.chance(0.45):
            return found
        roll = self.draw.random()
        if roll < 0.35:
            name = self.draw.choice([bound.name for bound in BOUNDS if bound.one])
            found.append(f"bound = '{name}'")
            if name in ("reservoir", "extension"):
                found.append(f"clip = {self.draw.choice(['1', '3', '0.01', '1000000000'])}")
            if name == "reservoir":
                found.append(f"max_groups = {self.draw.choice([1, 2, 9])}")
            if name == "frequency":
                found.append(f"max_frequency = {self.draw.choice([1, 2, 6])}")
            if name in ("rows", "frequency", "elastic", "residual") and self.chance(0.6):
                found.append(f"max_rows = {self.draw.choice([1, 2, 4])}")
        elif roll < 0.5:
            found.append(f"clip = {self.draw.choice(['1', '2.5', '1000', '0.000001', '1000000000'])}")
        elif roll < 0.7:
            found.append(f"max_rows = {self.draw.choice([1, 2, 3, 1000000])}")
        elif roll < 0.8:
            found.append(f"max_groups = {self.draw.choice([1, 2, 3, 1000])}")
        elif self.chance(0.5):
            found.append(f"mechanism = '{self.draw.choice([*MECHANISMS, *RULES])}'")
        return found

    # -- the outermost query

    def query(self, source: Relation, *, options: Sequence[str], simple: bool = False) -> str:
        keys = self.keys(source) if self.chance(0.4 if simple else 0.55) else []
        parts = self.sums(source) if simple else self.aggregates(source)
        shown = ", ".join([*(f"{key} AS {self.fresh('k')}" for key in keys), *parts])
        text = f"{self.opened(options)}{shown} FROM {source.text}{self.where(source, share=0.6)}"
        if keys:
            text += f" GROUP BY {', '.join(keys)}"
        if keys and self.chance(0.15):
            text += f" HAVING {parts[0]} > {self.draw.choice(['0', '2', '-5'])}"
        if keys and self.chance(0.15):
            text += f" ORDER BY {self.draw.choice([parts[0] + ' DESC', keys[0]])} LIMIT {self.draw.choice([0, 1, 5])}"
        return text

    def keys(self, source: Relation) -> list[str]:
        domains = [column for column in source.columns if column.domain]
        found = []
        for _ in range(self.draw.choice([1, 1, 1, 2])):
            if domains and self.chance(0.6):
                column = self.draw.choice(domains)
                found.append(column.name)
            elif "delta" in self.budget and self.chance(0.6):
                found.append(self.pick(source.columns).name)
            else:
                column = self.pick(source.columns)
                number = column.type == NUMBER
                found.append(self.draw.choice([f"{column.name} IS NULL", f"CASE WHEN {self.condition(source)} THEN 1 ELSE 0 END",
                                               f"{column.name} > 1" if number else f"{column.name} IS NULL"]))
        return list(dict.fromkeys(found))

    def aggregates(self, source: Relation) -> list[str]:
        return [self.aggregate(source) for _ in range(self.draw.choice([1, 1, 1, 2, 3]))]

    def aggregate(self, source: Relation) -> str:
        any_column = self.pick(source.columns).name
        number = self.bounded(source)
        made = self.draw.choice([
            "COUNT(*)", "COUNT(*)", f"COUNT({any_column})", f"COUNT(DISTINCT {any_column})",
            *([f"{name}({number})" for name in ("SUM", "SUM", "AVG", "VAR_POP", "STDDEV_SAMP", "MIN", "MAX", "MEDIAN")] if number
              else []), *([f"QUANTILE_CONT({number}, {self.draw.choice(['0.25', '0.9', '1', '0'])})"] if number else [])])
        return f"{made} FILTER (WHERE {self.condition(source)})" if self.chance(0.15) else made

    def measured(self, source: Relation) -> str:
        """An aggregate that is validated."""
        number = self.bounded(source)
        column = self.pick(source.columns).name
        made = ["COUNT(*)", f"COUNT(DISTINCT {column})", f"COUNT({column})"]
        kinds = ["SUM", "SUM", *(["AVG", "MEDIAN", "MAX"] if self.chance(0.15) else [])]  # the others need synthetic rows
        return self.draw.choice([*made, *made, *([f"{name}({number})" for name in kinds] if number else [])])

    def sums(self, source: Relation) -> list[str]:
        number = self.bounded(source)
        return [self.draw.choice(["COUNT(*)", f"COUNT({self.pick(source.columns).name})",
                                  *([f"SUM({number})", f"AVG({number})"] if number else [])])
                for _ in range(self.draw.choice([1, 1, 2]))]

    def bounded(self, source: Relation) -> str:
        """A number that may be summed; none where there is none."""
        found = source.of(NUMBER)
        if not found:
            return ""
        good = [column for column in found if column.bounded]
        if good and self.chance(0.7):
            return self.draw.choice(good).name
        low, high = self.draw.choice([("0", "1"), ("-5", "5"), ("0", "1000"), ("-1e6", "1e6")])
        return f"LEAST(GREATEST({self.number(source)}, {low}), {high})"

    # -- relations

    def table(self, name: str, alias: str) -> Relation:
        table = self.world.tables[name]
        columns = tuple(Column(f"{alias}.{column}", TEXT if kind.startswith("ENUM") else TYPES.get(kind, NUMBER),
                               owner=column in ("id", "firm", "a", "b", "c"),
                               bounded="[" in table.declared[column] and "values" not in table.declared[column],
                               domain=any(word in table.declared[column] for word in ("values", "range"))
                               and kind not in UNEVEN or kind == "BOOLEAN",
                               whole=kind in WHOLE) for column, kind in table.columns.items())
        return Relation(f"{name} AS {alias}", columns, many=len(table.hangs) > 1)

    def base(self, *, private: bool = True) -> Relation:
        names = [name for name, table in self.world.tables.items() if table.public != private]
        names += [name for name in names if len(self.world.tables[name].hangs) < 2] * 2
        return self.table(self.draw.choice(names), self.fresh("t"))

    def relation(self, depth: int) -> Relation:
        if depth <= 0:
            return self.base()
        make = self.draw.choices([self.filtered, self.joined, self.with_public, self.windowed, self.grouped, self.distinct,
                                  self.combined, self.base_of],
                                 [a * b for a, b in zip([4, 7, 5, 5, 4, 2, 2, 1], self._likely, strict=True)])[0]
        return make(depth)

    def base_of(self, depth: int) -> Relation:
        return self.base()

    def filtered(self, depth: int) -> Relation:
        """A query inside, with expressions and a condition."""
        below = self.relation(depth - 1)
        kept = self.draw.sample(below.columns, self.draw.randint(1, len(below.columns)))
        kept = list(dict.fromkeys([*[column for column in below.owners if self.chance(0.85)], *kept]))
        shown = [(column.name, column) for column in kept]
        for _ in range(self.draw.choice([0, 1, 2])):
            kind = self.draw.choice([NUMBER, NUMBER, TEXT, DAY])
            made = {NUMBER: self.number, TEXT: self.text, DAY: self.day}[kind](below)
            if made:
                shown.append((made, Column("", kind, whole=kind == NUMBER)))
        where = self.where(below, share=0.7)
        condition, made = self.narrowed(below)
        if made and self.chance(0.25):
            where = f" WHERE {condition}"
            if self.chance(0.6):
                shown.append((made, Column("", NUMBER, whole=True)))
        return self.wrapped(shown, f"{below.text}{where}", below)

    def names(self, shown: Sequence[str]) -> list[str]:
        """Names of columns that a query inside shows: those they have, or fresh ones."""
        found: list[str] = []
        for made in shown:
            last = made.split(".")[-1] if made.replace(".", "").isalnum() else ""
            found.append(last if last in BY_NAME and last not in found else self.fresh("c"))
        return found

    def wrapped(self, shown: Sequence[tuple[str, Column]], rest: str, below: Relation, *, before: str = "") -> Relation:
        alias = self.fresh("t")
        names = self.names([made for made, _ in shown])
        text = ", ".join(f"{made} AS {name}" for (made, _), name in zip(shown, names, strict=True))
        columns = tuple(Column(f"{alias}.{name}", column.type, column.bounded, column.owner, column.domain, column.whole)
                        for (_, column), name in zip(shown, names, strict=True))
        return Relation(f"(SELECT {before}{text} FROM {rest}) AS {alias}", columns, below.many)

    def joined(self, depth: int) -> Relation:
        """A join, mostly by the entity."""
        left, right = self.relation(depth - 1), self.relation(self.draw.choice([0, 0, depth - 1]))
        kind = self.draw.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        tests, many = [], left.many or right.many
        if left.owners and right.owners and (self.chance(0.95) or not kind.startswith("JOIN")):
            same = self.draw.choice(["=", "=", "=", "=", "IS NOT DISTINCT FROM"])
            tests.append(f"{self.draw.choice(left.owners).name} {same} {self.draw.choice(right.owners).name}")
        many = many or not tests
        if not tests or self.chance(0.3):
            tests.append(self.meeting(left, right))
        if self.chance(0.2):
            tests.append(self.condition(Relation("", (*left.columns, *right.columns))))
        return Relation(f"{left.text} {kind} {right.text} ON {' AND '.join(tests)}", (*left.columns, *right.columns),
                        many)

    def many(self) -> Relation:
        """Rows of several entities each."""
        if self.chance(0.25) and (names := [name for name in ("edges", "bills", "deals", "trios") if name in self.world.tables]):
            return self.table(self.draw.choice(names), self.fresh("t"))
        left, right = self.relation(self.draw.choice([0, 0, 1])), self.relation(self.draw.choice([0, 0, 1]))
        kind = self.draw.choice([*["JOIN"] * 12, "LEFT JOIN", "FULL JOIN"])
        test = self.meeting(left, right)
        if left.owners and right.owners and self.chance(0.3):
            test += f" AND {left.owners[0].name} {self.draw.choice(['<', '<>'])} {right.owners[0].name}"
        found = Relation(f"{left.text} {kind} {right.text} ON {test}", (*left.columns, *right.columns), many=True)
        if self.chance(0.2):
            third = self.base()
            found = Relation(f"{found.text} JOIN {third.text} ON {self.meeting(found, third)}", (*found.columns, *third.columns),
                             many=True)
        return found

    def meeting(self, left: Relation, right: Relation) -> str:
        """A condition by which rows of two relations meet."""
        pairs = [(a, b) for a in left.columns for b in right.columns if a.type == b.type and a.whole == b.whole]
        if not pairs:
            return "TRUE"
        a, b = self.draw.choice(pairs)
        same = self.draw.choice(["=", "=", "=", "=", "IS NOT DISTINCT FROM", "<=" if self.chance(0.6) else "="])
        return f"{a.name} {same} {b.name}"

    def with_public(self, depth: int) -> Relation:
        below = self.relation(depth - 1)
        public = self.constants(below) if self.chance(0.4) else self.base(private=False)
        kind = self.draw.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        pairs = [(a, b) for a in below.columns for b in public.columns if a.type == b.type]
        tests = []
        for a, b in self.draw.sample(pairs, min(len(pairs), self.draw.choice([1, 1, 2]))):
            same = self.draw.choice(["=", "=", "IS NOT DISTINCT FROM"])
            sides = [a.name, b.name]
            self.draw.shuffle(sides)
            tests.append(f"{sides[0]} {same} {sides[1]}")
        if not tests or self.chance(0.15):
            tests.append(self.condition(Relation("", (*below.columns, *public.columns))))
        columns = (*below.columns, *(Column(column.name, column.type, whole=column.whole) for column in public.columns))
        return Relation(f"{below.text} {kind} {public.text} ON {' AND '.join(tests)}", columns, below.many)

    def constants(self, near: Relation) -> Relation:
        """VALUES of the type of some column, NULL and repeated ones among them."""
        column = self.pick(near.columns)
        pool = [*CONSTANTS[column.type], NULL] if column.type != NUMBER or not column.whole else ["0", "1", "2", "3", "NULL", "7"]
        kind = BY_NAME.get(column.name.split(".")[1])
        pool += kind.common if kind is not None and column.type != NUMBER else ()
        rows = [self.draw.choice(pool) for _ in range(self.draw.choice([1, 2, 4, 6]))]
        rows += [self.draw.choice([NULL, rows[0]])] * self.draw.choice([0, 0, 1, 5])
        if all(row == NULL for row in rows):
            rows.append(pool[0])
        alias = self.fresh("t")
        listed = ", ".join(f"({row}, {i % 3})" for i, row in enumerate(rows))
        return Relation(f"(VALUES {listed}) AS {alias}(v, w)", (Column(f"{alias}.v", column.type, whole=column.whole),
                                                               Column(f"{alias}.w", NUMBER, whole=True)))

    def windowed(self, depth: int) -> Relation:
        below = self.relation(depth - 1)
        if below.many and self.chance(0.9):
            return below
        own = below.owners and self.chance(0.92)
        group = [self.draw.choice(below.owners).name] if own else []
        if self.chance(0.3):
            group.append(self.pick(below.columns).name)
        order = [self.pick(below.columns).name + self.draw.choice(["", " DESC", " NULLS FIRST"])
                 for _ in range(self.draw.choice([0, 1, 1, 2]))]
        parts = ([f"PARTITION BY {', '.join(group)}"] if group else []) + ([f"ORDER BY {', '.join(order)}"] if order else [])
        frame = ""
        if order and (not own or self.chance(0.3)):
            frame = self.draw.choice([" ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
                                      *([" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"] if own else [])])
        shown = [(column.name, column) for column in self.draw.sample(below.columns, self.draw.randint(1, len(below.columns)))]
        shown += [(column.name, column) for column in below.owners if column not in [known for _, known in shown]]
        over = " ".join(parts)
        where, (condition, number) = self.where(below, share=0.5), self.narrowed(below)
        if number and self.chance(0.35):
            where = f" WHERE {condition}"
        else:
            number = self.number(below) or "1"
        for _ in range(self.draw.choice([1, 1, 2])):
            shown.append(self.window(below, over, frame, number, own=bool(own), ordered=bool(order)))
        rest = f"{below.text}{where}"
        if self.chance(0.35) and order:
            rest += f" QUALIFY ROW_NUMBER() OVER ({over}) <= {self.draw.choice([1, 2])}"
        return self.wrapped(shown, rest, below)

    def window(self, below: Relation, over: str, frame: str, number: str, *, own: bool, ordered: bool) -> tuple[str, Column]:
        column = self.pick(below.columns)
        ranks = ["ROW_NUMBER()", "RANK()", "DENSE_RANK()", "NTILE(2)"] if own else []
        shifts = [f"LAG({column.name})", f"LEAD({column.name}, 2)", f"LAG({number})"] if ordered else []
        folds = ["COUNT(*)", f"COUNT(DISTINCT {column.name})" if not frame else "COUNT(*)", f"SUM({number})", f"MIN({number})",
                 f"AVG({number})"]
        ends = [f"FIRST_VALUE({column.name})", f"LAST_VALUE({column.name})"] if ordered else []
        function = self.draw.choice([*ranks, *shifts, *folds, *ends])
        framed = "" if function in ranks or function in shifts else frame
        kind = column.type if function in (*shifts[:2], *ends) else NUMBER
        return f"{function} OVER ({over}{framed})", Column("", kind, whole=kind == NUMBER and "AVG" not in function)

    def grouped(self, depth: int) -> Relation:
        below = self.relation(depth - 1)
        if below.many and self.chance(0.8):
            return below
        keys = [column for column in below.owners if self.chance(0.95)][:2]
        keys += [column for column in self.draw.sample(below.columns, self.draw.choice([0, 1, 1])) if column not in keys]
        number = self.bounded(below) if self.chance(0.6) else self.number(below)
        folds = ["COUNT(*)", *([f"{name}({number})" for name in ("SUM", "MIN", "MAX", "AVG")] if number else []),
                 f"COUNT(DISTINCT {self.pick(below.columns).name})"]
        shown = [(column.name, column) for column in keys]
        shown += [(fold, Column("", NUMBER, whole=fold.startswith("COUNT"))) for fold in self.draw.sample(folds, self.draw.choice([1, 2]))]
        rest = f"{below.text}{self.where(below, share=0.3)}"
        if keys:
            rest += f" GROUP BY {', '.join(column.name for column in keys)}"
            rest += f" HAVING {self.draw.choice(['COUNT(*) > 1', 'COUNT(*) <= 2'])}" if self.chance(0.3) else ""
        return self.wrapped(shown, rest, below)

    def distinct(self, depth: int) -> Relation:
        below = self.relation(depth - 1)
        kept = list(dict.fromkeys([*(column for column in below.owners if self.chance(0.7)),
                                   *self.draw.sample(below.columns, min(len(below.columns), self.draw.choice([1, 2])))]))
        return self.wrapped([(column.name, column) for column in kept], f"{below.text}{self.where(below, share=0.3)}", below,
                            before="DISTINCT ")

    def combined(self, depth: int) -> Relation:
        """Two relations put together, column by column."""
        left, right = self.relation(depth - 1), self.relation(0) if self.chance(0.7) else self.base(private=False)
        pairs = []
        for column in self.draw.sample(left.columns, len(left.columns)):
            alike = [other for other in right.columns if (other.type, other.owner) == (column.type, column.owner)]
            if alike and len(pairs) < 3:
                pairs.append((column, self.draw.choice(alike)))
        if not pairs:
            return left
        how = self.draw.choice(["UNION ALL", "UNION ALL", "UNION ALL", "UNION", "UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"])
        alias, names = self.fresh("t"), [self.fresh("c") for _ in pairs]
        first = ", ".join(f"{a.name} AS {name}" for (a, _), name in zip(pairs, names, strict=True))
        second = ", ".join(b.name for _, b in pairs)
        columns = tuple(Column(f"{alias}.{name}", a.type, False, a.owner, False, a.whole)
                        for (a, _), name in zip(pairs, names, strict=True))
        return Relation(f"(SELECT {first} FROM {left.text} {how} SELECT {second} FROM {right.text}) AS {alias}", columns, left.many or right.many)

    # -- conditions and values

    def where(self, source: Relation, *, share: float = 0.5) -> str:
        return f" WHERE {self.condition(source)}" if self.chance(share) else ""

    def condition(self, source: Relation, depth: int = 2) -> str:
        roll = self.draw.random()
        if depth and roll < 0.2:
            word = self.draw.choice(["AND", "OR"])
            return f"({self.condition(source, depth - 1)} {word} {self.condition(source, depth - 1)})"
        if depth and roll < 0.26:
            return f"NOT ({self.condition(source, depth - 1)})"
        if depth and roll < 0.34 and source.owners:
            return self.listed(source)
        if depth and roll < 0.36:
            return self.tuples(source)
        column = self.pick(source.columns)
        name, kind = column.name, column.type
        if kind == TRUTH:
            return self.draw.choice([name, f"NOT {name}", f"{name} IS NULL", f"{name} IS NOT TRUE"])
        constants = CONSTANTS[kind]
        a, b = (self.parameter(kind) if self.chance(0.2) else self.draw.choice(constants) for _ in range(2))
        if column.whole and kind == NUMBER and self.chance(0.25):
            name = self.number(source, whole=True) or name
        tests = [f"{name} = {a}", f"{name} < {a}", f"{name} >= {a}", f"{name} IS NULL", f"{name} IS NOT NULL", f"{name} IN ({a}, {b})",
                 f"{name} BETWEEN {a} AND {b}", f"{name} IS NOT DISTINCT FROM {a}", f"{name} <> {a}"]
        if kind == TEXT:
            tests += [f"{name} LIKE '%i%'", f"upper({name}) = 'A'", f"length({name}) > 1", f"{name} SIMILAR TO '(a|victim)'"]
        others = [other for other in source.columns if other.type == kind and other is not column]
        if others and self.chance(0.2):
            return f"{name} {self.draw.choice(['<', '=', '<>'])} {self.draw.choice(others).name}"
        return self.draw.choice(tests)

    def listed(self, source: Relation) -> str:
        """A list of rows that a condition looks in."""
        inner = self.base()
        mine = self.draw.choice(source.owners)
        if inner.owners and self.chance(0.7):
            theirs = self.draw.choice(inner.owners)
            return self.draw.choice([
                f"{mine.name} IN (SELECT {theirs.name} FROM {inner.text}{self.where(inner)})",
                f"EXISTS (SELECT 1 FROM {inner.text} WHERE {theirs.name} = {mine.name})",
                f"NOT EXISTS (SELECT 1 FROM {inner.text} WHERE {theirs.name} = {mine.name})",
                f"(SELECT COUNT(*) FROM {inner.text} WHERE {theirs.name} = {mine.name}) > {self.draw.choice([0, 1])}"])
        public = self.base(private=False)
        pairs = [(a, b) for a in source.columns for b in public.columns if a.type == b.type]
        if not pairs:
            return "TRUE"
        a, b = self.draw.choice(pairs)
        return f"{a.name} {self.draw.choice(['IN', 'NOT IN'])} (SELECT {b.name} FROM {public.text})"

    def parameter(self, kind: str) -> str:
        name = self.fresh("p")
        self.parameters[name] = float("nan") if kind == NUMBER and self.chance(0.3) else self.draw.choice(VALUES[kind])
        return f"${name}"

    def number(self, source: Relation, *, whole: bool = False) -> str:
        """Arithmetic over columns of numbers, which may be too large for them."""
        found = [column.name for column in source.of(NUMBER) if column.whole or not whole]
        if not found:
            return ""
        a, b = self.draw.choice(found), self.draw.choice(found)
        return self.draw.choice([a, f"{a} + {b}", f"{a} * {a}", f"{a} * {b}", f"{a} - {b}", f"abs({a})", f"{a} % 2", f"-{a}",
                                 f"CASE WHEN {a} BETWEEN 0 AND 10 THEN {a} * {a} END", f"COALESCE({a}, 0)", f"{a} % 3",
                                 f"{a} * 1000000000"])

    def narrowed(self, source: Relation) -> tuple[str, str]:
        """A condition that holds a whole number in a range, and arithmetic that needs the range."""
        found = [column for column in source.of(NUMBER) if column.whole]
        if not found:
            return "", ""
        name, high = self.pick(found).name, self.draw.choice([4, 1000, 1000000])
        condition = self.draw.choice([f"{name} BETWEEN {-high} AND {high}", f"{name} BETWEEN 0 AND {high}",
                                      f"({name} >= 0 AND {name} < {high})", f"abs({name}) <= {high}", f"{name} IN (1, 2, {high})"])
        return condition, self.draw.choice([f"{name} * {name}", f"{name} + {name}", f"-{name}", f"{name} * 1000", f"{name} - 1000",
                                            f"({name} + 1) * {name}", f"abs({name})", f"{high} // {name}", f"{name} * {name} * {name}"])

    def text(self, source: Relation) -> str:
        found = source.of(TEXT)
        if found:
            name = self.draw.choice(found).name
            return self.draw.choice([name, f"lower({name})", f"{name} || 'x'", f"COALESCE({name}, 'none')", f"left({name}, 1)"])
        return f"CAST({self.pick(source.columns).name} AS VARCHAR)"

    def day(self, source: Relation) -> str:
        """A day: one that is there, one that is made, far beyond what Python's calendar holds at times."""
        days, numbers, texts = source.of(DAY), source.of(NUMBER), source.of(TEXT)
        made = [f"{column.name} + 1" for column in days] + [f"TRY_CAST({column.name} AS DATE)" for column in texts]
        made += [f"CAST(CAST({10001} + {column.name} AS VARCHAR) || '-01-01' AS DATE)" for column in numbers if column.whole]
        return self.draw.choice(made) if made else ""
