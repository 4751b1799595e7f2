"""Random statements over a world that grows: of one period or several, of open ones, and wrong ones.

To add a kind of statement, add a method of its name to `Writer`, and the name to `KINDS`. Conditions on time are drawn in one place,
`Writer.times`.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence

from oracle.stream_worlds import PEOPLE, StreamTable, StreamWorld, start_of

from dpsql.frozen import Frozen

KINDS: Mapping[str, int] = {
    "aggregates": 22, "groups": 12, "by_period": 12, "beside": 12, "two_growing": 8, "per_person": 8, "split_people": 8, "windows": 8, "unions": 6,
    "kept_people": 8, "nobody": 5, "apart": 5, "quantiles": 6, "distinct": 6, "undeclared": 6, "static": 6, "pairs": 3, "accuracy": 3,
    "lists": 3, "explained": 3, "open": 6, "before": 2, "wrong": 4, "running": 16, "sets": 5, "around": 4, "checks": 8, "checks_by_period": 4}
"""Kinds of statements, and how often they are drawn."""
WRONG = ("SELECT", "SELECT COUNT(*) FROM nobody", "SELECT nothing FROM visits", "SELECT * FROM visits", "SELECT COUNT(*) FROM visits WHERE",
         "SELECT seen, cost FROM visits LIMIT 3", "SELECT STRING_AGG(sex) FROM people", "DELETE FROM visits", "SELECT COUNT(*) FROM visits a JOIN visits b ON a.seen = b.seen")
ANSWER = "$ANSWER"
"""Stands for a whole number that an earlier answer gives, so that statements depend on answers."""


class Asked(Frozen, kw_only=False):
    """A statement, and a table and the number of the one period of it that it asks for: None where the oracle does not know."""

    kind: str
    text: str
    of: tuple[str, int] | None = None


class Writer:
    """Draws statements that are asked on a day."""

    def __init__(self, world: StreamWorld, draw: random.Random, day: dt.date) -> None:
        self.world, self.draw, self.day = world, draw, day

    def statement(self, kind: str | None = None) -> Asked:
        kind = kind or self.draw.choices([*KINDS], [*KINDS.values()])[0]
        made = getattr(self, kind)()
        text, of = made if isinstance(made, tuple) else (made, None)
        return Asked(kind, self.priced(text) if text.startswith("SELECT") and kind not in ("wrong", "running") else text, of)

    def priced(self, text: str) -> str:
        """Sometimes with a price of its own."""
        if self.draw.random() < 0.85:
            return text
        name = "rho" if "rho" in self.world.price else "epsilon"
        return text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({name} = {self.draw.choice([0.25, 0.5, 2])})", 1)

    # -- parts of statements

    @property
    def table(self) -> StreamTable:
        return self.draw.choice([table for table in self.world.growing if len(table.references) == 1])

    def value(self, table: StreamTable) -> str:
        return {"visits": "cost", "lines": "amount", "calls": "length"}[table.name]

    def person(self, table: StreamTable) -> str:
        return "card_id" if "card_id" in table.columns else "person_id"

    def days(self, table: StreamTable, numbers: range, alias: str) -> str:
        """A condition that leaves these periods."""
        start, end = (start_of(self.world.period, number) for number in (numbers.start, numbers.stop))
        at = f"{alias}seen"
        if len(numbers) == 1 and self.draw.random() < 0.3:
            return f"date_trunc('{self.world.period}', {at}) = DATE '{start}'"
        if table.columns["seen"] == "DATE" and self.draw.random() < 0.3:
            return f"{at} BETWEEN DATE '{start}' AND DATE '{end - dt.timedelta(days=1)}'"
        kind = table.columns["seen"]
        clock = "" if kind == "DATE" else " 00:00:00"
        return f"{at} >= {kind} '{start}{clock}' AND {at} < {kind} '{end}{clock}'"

    def times(self, *tables: StreamTable, one: float = 0.55, aliases: Sequence[str] = ("",)) -> str:
        """Conditions on time that closed periods satisfy: one period, several, a part of one, or no condition."""
        closed = range(self.world.first, min(self.world.closed(table, self.day).stop for table in tables))
        numbers, drawn = closed, self.draw.random()
        if closed and drawn < one:
            first = self.draw.choice(closed)
            numbers = range(first, first + 1)
        elif closed and drawn < one + 0.25:
            first, last = sorted(self.draw.choices(closed, k=2))
            numbers = range(first, last + 1)
        elif drawn < 0.95:
            return "TRUE"
        found = [self.days(table, numbers, alias) for table, alias in zip(tables, aliases, strict=True) if numbers]
        return " AND ".join(found or ["TRUE"])

    def test(self, table: StreamTable, alias: str = "") -> str:
        value = f"{alias}{self.value(table)}"
        return self.draw.choice(["TRUE", "TRUE", f"{value} > 2", f"{value} < {ANSWER}", f"{value} IS NOT NULL", f"{value} BETWEEN 1 AND 5"])

    def aggregate(self, table: StreamTable, alias: str = "") -> str:
        value = f"{alias}{self.value(table)}"
        return self.draw.choice(["COUNT(*)", "COUNT(*)", f"SUM({value})", f"AVG({value})", f"COUNT({value})", f"SUM({value} * {value})",
                                 f"SUM(CASE WHEN {value} > 3 THEN 1 ELSE 0 END)", f"STDDEV({value})"])

    def rows(self, table: StreamTable) -> str:
        return f"(SELECT * FROM {table.name} WHERE {self.times(table)})"

    # -- kinds

    def aggregates(self) -> str:
        table = self.table
        shown = ", ".join(f"{self.aggregate(table)} AS a{i}" for i in range(self.draw.choice([1, 1, 2, 3])))
        return f"SELECT {shown} FROM {table.name} WHERE {self.times(table)} AND {self.test(table)}"

    def groups(self) -> str:
        table = self.table
        if table.name == "visits" and self.draw.random() < 0.5:
            return f"SELECT place, {self.aggregate(table)} AS a FROM visits WHERE {self.times(table)} GROUP BY place"
        if self.person(table) == "card_id":
            return (f"SELECT kind, {self.aggregate(table)} AS a FROM {table.name} JOIN cards USING (card_id) "
                    f"WHERE {self.times(table)} GROUP BY kind")
        return (f"SELECT sex, {self.aggregate(table)} AS a FROM {table.name} JOIN people USING (person_id) "
                f"WHERE {self.times(table)} AND {self.test(table)} GROUP BY sex")

    def by_period(self) -> str:
        table, unit = self.table, self.world.period
        time = "seen" if table.columns["seen"] == "DATE" and self.draw.random() < 0.1 and unit in ("day", "week") else f"date_trunc('{unit}', seen)"
        where = f"WHERE {self.times(table, one=0.2)} AND {self.test(table)}" if self.draw.random() < 0.6 else ""
        order = self.draw.choice(["", "", " ORDER BY p DESC LIMIT 2"])
        return f"SELECT {time} AS p, {self.aggregate(table)} AS a FROM {table.name} {where} GROUP BY p{order}"

    def beside(self) -> str:
        """With a public table, or the person's own row."""
        table = self.table
        if table.name == "visits" and self.draw.random() < 0.5:
            return (f"SELECT town, {self.aggregate(table)} AS a FROM visits JOIN (SELECT DISTINCT place, town FROM places) AS p USING (place) "
                    f"WHERE {self.times(table)} GROUP BY town")
        if self.person(table) != "person_id":
            return f"SELECT {self.aggregate(table)} AS a FROM {table.name} LEFT JOIN cards USING (card_id) WHERE {self.times(table)}"
        join = self.draw.choice(["JOIN", "LEFT JOIN", "JOIN"])
        return (f"SELECT {self.aggregate(table, 't.')} AS a, SUM(age) AS b FROM {table.name} AS t {join} people AS o USING (person_id) "
                f"WHERE {self.times(table)} AND {self.draw.choice(['age > 4', 'TRUE'])}")

    def two_growing(self) -> str:
        ours, theirs = self.table, self.table
        if "person_id" not in ours.columns or "person_id" not in theirs.columns:
            ours = theirs = self.world.tables["visits"]
        times = self.draw.choice([
            f"{self.times(ours, theirs, aliases=('a.', 'b.'))}", f"{self.times(ours, aliases=('a.',))} AND {self.times(theirs, aliases=('b.',))}"])
        join = self.draw.choice(["JOIN", "JOIN", "LEFT JOIN"])
        return (f"SELECT {self.aggregate(ours, 'a.')} AS n FROM {ours.name} AS a {join} {theirs.name} AS b ON a.person_id = b.person_id "
                f"{self.draw.choice(['', 'AND a.seen = b.seen '])}WHERE {times}")

    def per_person(self) -> str:
        table = self.table
        own, inner = self.person(table), self.draw.choice(["COUNT(*)", f"SUM({self.value(table)})", f"MAX({self.value(table)})", f"MIN({self.value(table)})"])
        shown = self.draw.choice(["COUNT(*)", "SUM(CASE WHEN n > 2 THEN 1 ELSE 0 END)", "COUNT(DISTINCT n)"])
        return f"SELECT {shown} AS a FROM (SELECT {own}, {inner} AS n FROM {table.name} WHERE {self.times(table)} GROUP BY {own}) WHERE n > {self.draw.choice([-9, 0, 1, 4])}"

    def split_people(self) -> str:
        """Groups of people by what they have: without a part of it, a person leaves one group and comes into another."""
        table = self.table
        own, inner = self.person(table), self.draw.choice(["COUNT(*)", f"SUM({self.value(table)})"])
        rows = f"SELECT {own}, {inner} AS n FROM {table.name} WHERE {self.times(table, one=0.2)} GROUP BY {own}"
        return f"SELECT n > {self.draw.choice([1, 1, 2, 4])} AS more, COUNT(*) AS a FROM ({rows}) GROUP BY more"

    def windows(self) -> str:
        table = self.table
        own, value = self.person(table), self.value(table)
        made = self.draw.choice([f"LAG({value}) OVER (PARTITION BY {own} ORDER BY seen, {value})", f"ROW_NUMBER() OVER (PARTITION BY {own} ORDER BY seen, {value})",
                                 f"COUNT(*) OVER (PARTITION BY {own})", f"SUM({value}) OVER (PARTITION BY {own})"])
        outer = self.draw.choice(["TRUE", "TRUE", self.times(table)])
        return f"SELECT COUNT(*) AS a FROM (SELECT seen, {value}, {made} AS w FROM {table.name} WHERE {self.times(table)}) WHERE w > {self.draw.choice([0, 1, 3])} AND {outer}"

    def unions(self) -> str:
        ours, theirs = self.table, self.table
        parts = [f"SELECT seen, {self.value(table)} AS v FROM {table.name} WHERE {self.times(table)}" for table in (ours, theirs)]
        return f"SELECT {self.draw.choice(['COUNT(*)', 'COUNT(v)'])} AS a FROM ({' UNION ALL '.join(parts)})"

    def kept_people(self) -> str:
        """All people, or cards, with what they have."""
        table = self.table
        own = self.person(table)
        above = "cards" if own == "card_id" else "people"
        shown = self.draw.choice(["COUNT(*)", "COUNT(v.seen)", f"SUM(v.{self.value(table)})", "SUM(CASE WHEN v.seen IS NULL THEN 1 ELSE 0 END)"])
        return f"SELECT {shown} AS a FROM {above} LEFT JOIN {self.rows(table)} AS v USING ({own})"

    def nobody(self) -> str:
        table = self.table
        own = self.person(table)
        above = "cards" if own == "card_id" else "people"
        return f"SELECT COUNT(*) AS a FROM {above} WHERE {own} {self.draw.choice(['IN', 'NOT IN'])} (SELECT {own} FROM {table.name} WHERE {self.times(table)})"

    def apart(self) -> str:
        """With a number of a table that does not grow, or of another period."""
        table = self.table
        other = self.draw.choice(["SELECT COUNT(*) FROM people", f"SELECT COUNT(*) FROM {(again := self.table).name} WHERE {self.times(again)}"])
        return f"SELECT ({other}) - COUNT(*) AS a FROM {table.name} WHERE {self.times(table)}"

    def quantiles(self) -> str:
        table = self.table
        shown = self.draw.choice([f"median({self.value(table)})", f"quantile_cont({self.value(table)}, 0.9)", f"MAX({self.value(table)})"])
        return f"SELECT {shown} AS a FROM {table.name} WHERE {self.times(table)}"

    def distinct(self) -> str:
        table = self.table
        return f"SELECT COUNT(DISTINCT {self.draw.choice([self.person(table), self.value(table), 'seen'])}) AS a FROM {table.name} WHERE {self.times(table)}"

    def undeclared(self) -> str:
        table = self.table
        return f"SELECT {self.value(table)} AS v, COUNT(*) AS a FROM {table.name} WHERE {self.times(table, one=0.8)} GROUP BY v"

    def static(self) -> str:
        return self.draw.choice(["SELECT sex, COUNT(*) AS a FROM people GROUP BY sex", "SELECT SUM(age) AS a FROM people", "SELECT median(age) AS a FROM people",
                                 f"SELECT COUNT(*) AS a FROM people WHERE age < {ANSWER}",
                                 "SELECT kind, COUNT(*) AS a FROM cards GROUP BY kind" if "cards" in self.world.tables else "SELECT AVG(age) AS a FROM people"])

    def pairs(self) -> str:
        """Rows that belong to two people."""
        if "meetings" not in self.world.tables:
            return self.aggregates()
        return f"SELECT COUNT(*) AS a FROM meetings WHERE {self.times(self.world.tables['meetings'])}"

    @property
    def unit(self) -> str:
        return f"date_trunc('{self.world.period}', seen)"

    def keyed(self, table: StreamTable) -> tuple[str, str]:
        """A relation with declared keys, and one of these."""
        if table.name == "visits" and self.draw.random() < 0.4:
            return "visits", "place"
        if self.person(table) == "card_id":
            return f"{table.name} JOIN cards USING (card_id)", "kind"
        return f"{table.name} JOIN people USING (person_id)", "sex"

    def running(self) -> str:
        """Running totals over periods, by a strategy over time where the price is a rho; of all, or by another key."""
        table = self.table
        value = self.value(table)
        sums = self.draw.choices(["COUNT(*)", f"SUM({value})", f"COUNT({value})", f"SUM(CASE WHEN {value} > 3 THEN 1 ELSE 0 END)"],
                                 k=self.draw.choice([1, 1, 2]))
        where = self.draw.choice(["", "", f" WHERE {self.test(table)}", f" WHERE {self.times(table, one=0.1)}"])
        source, key = self.keyed(table) if self.draw.random() < 0.6 else (table.name, "")
        if key and self.draw.random() < 0.3:
            key = ""  # a join alone
        frame = self.draw.choice(["", "", "", "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"])
        over = f"({f'PARTITION BY {key} ' if key else ''}ORDER BY {self.unit}{frame})"
        shown = ", ".join(f"SUM({one}) OVER {over} AS a{i}" for i, one in enumerate(sums))
        start = "SELECT"
        if {"rho", "delta"} & {*self.world.price} and self.draw.random() < 0.8:
            start = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho = {self.draw.choice([0.25, 0.5, 1])})"
        return f"{start} {f'{key}, ' if key else ''}{self.unit} AS p, {shown} FROM {source}{where} GROUP BY {f'{key}, ' if key else ''}p"

    def sets(self) -> str:
        """Grouping sets with the period: totals of them follow from the numbers of each period."""
        table = self.table
        source, key = self.keyed(table)
        sets = self.draw.choice([f"CUBE(p, {key})", f"ROLLUP(p, {key})", f"GROUPING SETS ((p), ({key}))", f"GROUPING SETS ((p, {key}), ())"])
        where = self.draw.choice(["", f" WHERE {self.times(table, one=0.2)}"])
        return f"SELECT {self.unit} AS p, {key}, {self.aggregate(table)} AS a FROM {source}{where} GROUP BY {sets}"

    def around(self) -> str:
        """What compares released numbers of periods."""
        table = self.table
        made = self.draw.choice(["LAG(COUNT(*)) OVER (ORDER BY p)", "SUM(COUNT(*)) OVER (ORDER BY p ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
                                 "RANK() OVER (ORDER BY COUNT(*))"]).replace("BY p", f"BY {self.unit}")
        return f"SELECT {self.unit} AS p, COUNT(*) AS n, {made} AS w FROM {table.name} WHERE {self.test(table)} GROUP BY p"

    def checks(self) -> str:
        """Whether a public table answers like the visits."""
        visits = self.world.tables["visits"]
        if "visits_syn" not in self.world.tables:
            return self.running()
        shown = self.draw.choice(["COUNT(*)", "COUNT(*)", "SUM(cost)", "AVG(cost)", "MEDIAN(cost)"])
        several = [f"(SELECT {shown} FROM visits WHERE {self.times(visits)} AND cost {sign} 4) WITHIN {self.draw.choice([1, 3, 10])}" for sign in (">", "<")]
        return f"VALIDATE {', '.join(several[:self.draw.choice([1, 1, 2])])} AGAINST visits_syn FOR visits WITHIN 5"

    def checks_by_period(self) -> str:
        if "visits_syn" not in self.world.tables:
            return self.running()
        key = self.draw.choice(["", "", "place, "])
        return (f"VALIDATE SELECT {key}{self.unit} AS p, COUNT(*) FROM visits WHERE {self.test(self.world.tables['visits'])} "
                f"GROUP BY {key}p AGAINST visits_syn FOR visits WITHIN {self.draw.choice([1, 3, 10])}")

    def accuracy(self) -> str:
        table = self.table
        return f"SELECT COUNT(*) AS a FROM {table.name} WHERE {self.times(table)} ERROR WITHIN {self.draw.choice([2, 5, 20])} CONFIDENCE 0.9"

    def lists(self) -> str:
        return self.draw.choice(["SHOW PERIODS", "SHOW BUDGET", "DESCRIBE visits"])

    def explained(self) -> str:
        return f"EXPLAIN PRIVACY {self.draw.choice([self.aggregates, self.by_period, self.kept_people, self.per_person])()}"

    def open(self) -> tuple[str, tuple[str, int]]:
        """A period at the border of what is closed, on either side of it, whose whole days are named."""
        table = self.table
        closed = self.world.closed(table, self.day)
        number = max(self.world.first, closed.stop + self.draw.choice([-1, 0, 0, 1]))
        where = self.days(table, range(number, number + 1), "")
        return f"SELECT COUNT(*) AS a FROM {table.name} WHERE {where}", (table.name, number)

    def before(self) -> str:
        """A period before the first one."""
        table = self.table
        where = self.days(table, range(self.world.first - 1, self.world.first + self.draw.choice([0, 1])), "")
        return f"SELECT COUNT(*) AS a FROM {table.name} WHERE {where}"

    def wrong(self) -> str:
        return self.draw.choice([*WRONG, f"SELECT COUNT(*) FROM visits WHERE person_id = {self.draw.randrange(PEOPLE)} AND {self.times(self.world.tables['visits'])}"])
