"""Random policies and databases: a few entities whose rows hang on them in every way, and every neighbour of the database.

A value is kept as the SQL that makes it, so that a world can be shown as statements that make it again, and dates that Python
does not know are values like any other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from dpsql.frozen import Frozen, field, replace

NULL = "NULL"
Row: TypeAlias = tuple[str, ...]
Rows: TypeAlias = Mapping[str, tuple[Row, ...]]


class Kind(Frozen):
    """A kind of column: its type in the database, how it may be declared, and values, common and odd."""

    name: str
    type: str
    declared: tuple[str, ...]
    common: tuple[str, ...]
    odd: tuple[str, ...]


def _dates(*texts: str) -> tuple[str, ...]:
    return tuple(f"DATE '{text}'" for text in texts)


def _doubles(*texts: str) -> tuple[str, ...]:
    return tuple(f"CAST('{text}' AS DOUBLE)" for text in texts)


def _texts(*texts: str) -> tuple[str, ...]:
    return tuple(f"'{text}'" for text in texts)


def _cast(kind: str, *texts: str) -> tuple[str, ...]:
    return tuple(f"CAST('{text}' AS {kind})" for text in texts)


LARGE = ("9223372036854775807", "-9223372036854775807 - 1", "3037000500", "-4611686018427387905")
FAR_DAYS = _dates("0001-01-01", "9999-12-31", "20025-01-01", "30025-01-01", "infinity", "-infinity", "0044-03-15 (BC)")
KINDS = (
    Kind(name="g", type="VARCHAR", declared=('{ values = ["a", "b"] }', '{ values = ["a", "b"] }', "{}"),
         common=_texts("a", "b"), odd=_texts("c", "A", "victim", "", "b ")),
    Kind(name="s", type="VARCHAR", declared=("{}", "{}", '{ values = ["x", "y"] }'), common=_texts("x", "y"),
         odd=_texts("", "X", "é", "victim", "1e999", "x%", "20025-01-01", "İ", "e\u0301", "ss", "ß", "\u200d", "🦆", "x ")),
    Kind(name="n", type="INTEGER", declared=("{ range = [0, 3] }", "{ range = [0, 3], bins = 2 }", "{ bounds = [-2, 5] }", "{}",
                                             "{ values = [0, 1, 7] }"),
         common=("0", "1", "2", "3"), odd=("7", "-1", "2147483647", "-2147483648")),
    Kind(name="k", type="BIGINT", declared=("{}", "{ bounds = [0, 1000] }", "{ range = [-4, 4] }"),
         common=("1", "2", "5", "1000"), odd=(*LARGE, "0", "-5")),
    Kind(name="x", type="DOUBLE", declared=("{ bounds = [-10, 10] }", "{ bounds = [0, 4], decimals = 1 }", '{ bounds = "search" }',
                                            "{}", "{ bounds = [-1e6, 1e6], power_of_two = -3 }"),
         common=_doubles("0.0", "1.5", "-2.5", "10.0"), odd=_doubles("nan", "inf", "-inf", "-0.0", "1e308", "5e-324")),
    Kind(name="m", type="DECIMAL(12,2)", declared=("{ bounds = [0, 50], decimals = 2 }", "{ range = [-5, 5] }"),
         common=("0.50", "4.25", "50.00"), odd=("-7.01", "99999.99", "0.01")),
    Kind(name="d", type="DATE", declared=("{ range = [2000-01-01, 2000-01-04] }", "{}"),
         common=_dates("2000-01-01", "2000-01-02", "2000-01-04"), odd=FAR_DAYS),
    Kind(name="t", type="TIMESTAMP", declared=("{ bounds = [2000-01-01T00:00:00, 2001-01-01T00:00:00] }", "{}"),
         common=("TIMESTAMP '2000-01-01 10:00:00'", "TIMESTAMP '2000-06-01 00:00:00'"),
         odd=("TIMESTAMP 'infinity'", "TIMESTAMP '-infinity'", "TIMESTAMP '20025-01-01 00:00:00'",
              "TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '30025-01-01 00:00:00'")),
    Kind(name="f", type="BOOLEAN", declared=("{}",), common=("TRUE", "FALSE"), odd=()),
)
NEWER = (  # in the worlds of larger numbers alone
    Kind(name="r", type="FLOAT", declared=("{ bounds = [-2, 2] }", "{}", "{ bounds = [0, 100], decimals = 1 }"),
         common=_cast("FLOAT", "0.5", "1.25", "0.1", "2"), odd=_cast("FLOAT", "nan", "inf", "-inf", "-0.0", "3.4028235e38", "1e-45", "16777217")),
    Kind(name="y", type="TINYINT", declared=("{ range = [0, 3] }", "{ values = [1, 2] }", "{}", "{ bounds = [-128, 127] }"),
         common=("0", "1", "2", "3"), odd=("127", "-128", "-1")),
    Kind(name="w", type="UBIGINT", declared=("{}", "{ bounds = [0, 1000] }"), common=("0", "1", "2", "1000"),
         odd=("18446744073709551615", "9223372036854775808", "9007199254740993")),
    Kind(name="h", type="HUGEINT", declared=("{}", "{ bounds = [-5, 1000] }"), common=("0", "1", "-2", "1000"),
         odd=("170141183460469231731687303715884105727", "-170141183460469231731687303715884105727", "9007199254740993", "9007199254740992")),
    Kind(name="u", type="UUID", declared=("{}",), common=_texts("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"),
         odd=_texts("ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-0000-0000-000000000000")),
    Kind(name="e", type="ENUM('y', 'x', 'A', '', 'a')", declared=("{}", '{ values = ["x", "y"] }'), common=_texts("x", "y"), odd=_texts("", "A", "a")),
    *(Kind(name=name, type=kind, declared=("{ bounds = [2000-01-01T00:00:00, 2001-01-01T00:00:00] }", "{}"),
           common=_cast(kind, "2000-01-01 10:00:00", "2000-06-01 00:00:00"), odd=_cast(kind, *odd))
      for name, kind, odd in (("ts", "TIMESTAMP_S", ("20025-01-01 00:00:00", "0001-01-01 00:00:00", "infinity", "-infinity")),
                              ("tm", "TIMESTAMP_MS", ("2000-01-01 10:00:00.001", "20025-01-01 00:00:00", "infinity")),
                              ("tn", "TIMESTAMP_NS", ("2000-01-01 10:00:00.000000001", "2000-01-01 10:00:00.000000999", "1700-01-01 00:00:00", "infinity")))),
)
BY_NAME = {kind.name: kind for kind in (*KINDS, *NEWER)}
TAME = {"{ range = [0, 3] }": ("0", "1", "2", "3"), "{ range = [0, 3], bins = 2 }": ("0", "1", "3"), "{ values = [0, 1, 7] }": ("0", "1"),
        "{ range = [-4, 4] }": ("1", "2"), "{ range = [-5, 5] }": ("0.50", "4.25")}
"""Values that lie in what is declared, where not all common ones do."""

NAMES: Mapping[str, tuple[str, ...]] = {  # of entities
    "BIGINT": ("0", "1", "2", "-1", "3", "9223372036854775807", "-9223372036854775807 - 1", "5", "6"),
    "INTEGER": ("0", "1", "2", "-1", "3", "2147483647", "4", "5", "6"),
    "VARCHAR": _texts("a", "b", "", "A", "é", "0:a", "zz", "1", "c"),
    "TINYINT": ("0", "1", "2", "-1", "127", "-128", "3"),
    "UUID": _texts(*(f"{letter * 8}-{letter * 4}-{letter * 4}-{letter * 4}-{letter * 12}" for letter in "0f1a2e")),
    "ENUM('b', 'a', '', 'A', 'c', 'é')": _texts("b", "a", "", "A", "c", "é"),
}
OLDER_NAMES = ("BIGINT", "INTEGER", "INTEGER", "VARCHAR")
FIRST_NEWER = 1000
"""From this number on, worlds have all types and shapes; those before it are as they were when the faults of the suite were chosen."""
GROUP = 3000
"""More rows than DuckDB keeps in one group where groups are as small as they can be."""
SAME = "the same rows in another order"


class Hangs(Frozen):
    """A foreign key that a deletion follows."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


class Table(Frozen):
    """A table as it is declared. `kinds` tells of a column which values it takes, `owner` which name entities."""

    name: str
    columns: Mapping[str, str]
    declared: Mapping[str, str]
    public: bool = False
    key: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    hangs: tuple[Hangs, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(column for hang in self.hangs for column in hang.columns if column in ("id", "a", "b", "c", "firm"))

    @property
    def schema(self) -> str:
        parts = [f"{name} {kind}" for name, kind in self.columns.items()]
        parts += [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []
        parts += [f"UNIQUE ({', '.join(self.unique)})"] if self.unique else []
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"

    @property
    def policy(self) -> str:
        lines = [f"[tables.{self.name}]", *(["public = true"] if self.public else []), *self.limits]
        if self.key:
            lines.append(f"key = [{', '.join(map(_quoted, self.key))}]")
        if self.hangs:
            told = (f"{{ columns = [{', '.join(map(_quoted, hang.columns))}], "
                    f"references = \"{hang.table}({', '.join(hang.references)})\" }}" for hang in self.hangs)
            lines.append(f"foreign_keys = [{', '.join(told)}]")
        return "\n".join([*lines, f"[tables.{self.name}.columns]", *(f"{name} = {how}" for name, how in self.declared.items())])


def _quoted(name: str) -> str:
    return f'"{name}"'


class World(Frozen):
    """A policy and the rows of a database. `entities` are the kinds that are protected, by table and key; groups of fewer than
    `least` of them are withheld. Rows of some tables are there `times` over, in more than one group of rows of the engine."""

    tables: Mapping[str, Table]
    entities: Mapping[str, tuple[str, str]]
    budget: str
    least: int = 1
    theme: tuple[str, ...] = ()
    rows: Rows = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)

    @property
    def policy(self) -> str:
        kinds = [f'[entities.{name}]\ntable = "{table}"\nkey = "{key}"\nminimum_frequency = {self.least}' for name, (table, key) in self.entities.items()]
        if len(kinds) > 1:
            kinds.append(f'[entities.either]\nany_of = [{", ".join(map(_quoted, self.entities))}]')
        protected = "either" if len(self.entities) > 1 else next(iter(self.entities))
        return "\n\n".join(["version = 1", *kinds, *(table.policy for table in self.tables.values()),
                            f'[budgets.main]\nentity = "{protected}"\n{self.budget}'])

    @property
    def statements(self) -> Iterator[str]:
        """The statements that make the database."""
        for name, table in self.tables.items():
            yield table.schema
            if self.rows[name]:
                yield f"INSERT INTO {name} VALUES {', '.join('(' + ', '.join(row) + ')' for row in self.rows[name])}"
            if name in self.times:
                yield f"INSERT INTO {name} SELECT t.* FROM range({self.times[name] - 1}) AS r, {name} AS t"

    def neighbours(self) -> Iterator[tuple[str, World]]:
        """Every world without one entity, and without all rows that hang on it, in another order where rows are missing; and this
        world with all of its rows in another order."""
        for kind, (table, key) in self.entities.items():
            at = list(self.tables[table].columns).index(key)
            for name in dict.fromkeys(row[at] for row in self.rows[table] if row[at] != NULL):
                other = self.without(table, lambda row, name=name: row[at] == name)
                yield f"{kind} {name}", other.shuffled([each for each in self.tables if other.rows[each] != self.rows[each]])
        yield SAME, self.shuffled([*self.tables])

    def shuffled(self, tables: Sequence[str]) -> World:
        """The same rows, some tables' in an order that does not depend on which there are."""
        def place(row: Row) -> float:
            return random.Random(repr(row)).random()

        return replace(self, rows={name: tuple(sorted(rows, key=place)) if name in tables else rows for name, rows in self.rows.items()})

    def without(self, table: str, gone: object) -> World:
        rows = dict(self.rows)
        left = {table: [row for row in rows[table] if gone(row)]}  # type: ignore[operator]
        while any(left.values()):
            for name, out in left.items():
                rows[name] = tuple(row for row in rows[name] if row not in out)
            left = {name: found for name in self.tables if (found := [
                row for row in rows[name] if any(self._hangs(name, row, hang, parent, out)
                                                 for parent, out in left.items() for hang in self.tables[name].hangs)])}
        return replace(self, rows=rows)

    def _hangs(self, name: str, row: Row, hang: Hangs, parent: str, out: Sequence[Row]) -> bool:
        if hang.table != parent:
            return False
        own, above = list(self.tables[name].columns), list(self.tables[parent].columns)
        mine = tuple(row[own.index(column)] for column in hang.columns)
        return NULL not in mine and mine in [tuple(gone[above.index(column)] for column in hang.references) for gone in out]


class Maker:
    """Draws a policy and rows that go with it."""

    def __init__(self, seed: int) -> None:
        self.draw, self.newer = random.Random(seed), seed >= FIRST_NEWER
        self.kinds = (*KINDS, *NEWER, *NEWER) if self.newer else KINDS
        self.named = self.draw.choice([*NAMES] if self.newer else OLDER_NAMES)
        self.odd = self.draw.choice([0.0, 0.05, 0.15, 0.4])
        self.absent = self.draw.choice([0.0, 0.1, 0.3])
        self.theme = self.draw.sample(self.kinds, 2)
        self.sticky = {kind.name: self.draw.choice([NULL, *kind.common, *kind.odd]) for kind in self.theme
                       if self.draw.random() < 0.4}  # what the odd entity has in all of its rows
        self.tame: dict[str, Mapping[str, str]] = {}

    def world(self) -> World:
        either = self.draw.random() < 0.2
        entities = {"person": ("people", "id")}
        tables = [self.people(), self.visits()]
        visits = tables[1]
        if visits.key and not {"x", "m", "f", "t"} & {*visits.key} and self.draw.random() < 0.7:
            tables.append(self.notes(visits))
            if self.newer and self.draw.random() < 0.7:
                tables.append(self.marks(tables[-1]))
        if self.newer and self.draw.random() < 0.4:
            tables.append(self.trios())
        if self.draw.random() < 0.5:
            tables.append(self.edges())
        if visits.key == ("vid",) and self.draw.random() < 0.25:
            tables.append(self.bills())
        if either:
            entities["firm"] = ("firms", "firm")
            tables += [self.firms(), self.deals()]
        tables += [self.places(), *(self.synthetic(table) for table in tables[:2])]
        tables.append(Table(name="empty", columns={"n": "INTEGER", "s": "VARCHAR"}, declared={"n": "{}", "s": "{}"}, public=True))
        budget = self.draw.choice(["epsilon = 1000", "epsilon = 1000\ndelta = 0.1", "epsilon = 1000\ndelta = 0.1",
                                   "rho = 1000\ndelta = 0.1"])
        world = World(tables={table.name: table for table in tables}, entities=entities, budget=budget,
                      theme=tuple(kind.name for kind in self.theme))
        made = replace(world, rows=self.rows(world))
        loose = self.newer and not visits.key and not visits.unique and made.rows["visits"]
        return replace(made, times={"visits": -(-GROUP // len(made.rows["visits"]))}) if loose and self.draw.random() < 0.5 else made

    # -- tables

    def some(self, *, least: int = 2, most: int = 5, public: bool = False) -> tuple[dict[str, str], dict[str, str]]:
        drawn = [*(kind for kind in self.theme if self.draw.random() < 0.8), *self.draw.sample(self.kinds, most)]
        chosen = sorted(dict.fromkeys(drawn[: self.draw.randint(least, most)]), key=lambda kind: kind.name)
        return ({kind.name: kind.type for kind in chosen},
                {kind.name: "{}" if public else self.draw.choice(kind.declared) for kind in chosen})

    def limit(self, *, share: float = 0.75) -> tuple[str, ...]:
        found = []
        if self.draw.random() < share:
            found.append(f"rows_per_entity = {self.draw.choice([1, 1, 2, 3, 5])}")
        return tuple(found)

    def people(self) -> Table:
        columns, declared = self.some(least=3, most=6)
        keyed = self.draw.random() < 0.85
        return Table(name="people", columns={"id": self.named, **columns}, declared={"id": "{}", **declared},
                     key=("id",) if keyed else (), limits=() if keyed else self.limit())

    def visits(self) -> Table:
        columns, declared = self.some(least=3, most=6)
        columns, declared = {"vid": "BIGINT", "id": self.named, **columns}, {"vid": "{}", "id": "{}", **declared}
        keys: list[tuple[str, ...]] = [("vid",), ("vid",), ()]
        keys += [("id", kind.name) for kind in (*self.theme, *self.theme, BY_NAME["n"]) if kind.name in columns and kind.name != "f"]
        key = self.draw.choice(keys)
        if key == () and self.draw.random() < 0.5:
            del columns["vid"]
            del declared["vid"]
        loose = [name for name in ("n", "s", "k") if name in columns]
        unique = ("id", self.draw.choice(loose)) if not key and loose and self.draw.random() < 0.5 else ()
        given = self.limit()
        if self.draw.random() < 0.15 and "n" in columns:
            given = (*given, f"rows_per_value = {{ n = {self.draw.choice([1, 2, 4])} }}")
        if self.newer and loose and self.draw.random() < 0.3:
            several = ", ".join(f"{name} = {self.draw.choice([1, 2, 4])}" for name in loose)
            given = (*(limit for limit in given if "rows_per_value" not in limit), f"rows_per_value = {{ {several} }}")
        return Table(name="visits", columns=columns, declared=declared, key=key, unique=unique, limits=given,
                     hangs=(Hangs(columns=("id",), table="people", references=("id",)),))

    def notes(self, visits: Table) -> Table:
        columns, declared = self.some()
        above = visits.key
        named = {f"of_{column}": visits.columns[column] for column in above}
        if self.newer:
            columns, declared = {"nid": "BIGINT", **columns}, {"nid": "{}", **declared}
        return Table(name="notes", columns={**named, **columns}, declared={**dict.fromkeys(named, "{}"), **declared},
                     key=("nid",) if self.newer else (), limits=self.limit(), hangs=(Hangs(columns=tuple(named), table="visits", references=above),))

    def marks(self, notes: Table) -> Table:
        """Three steps from their entity."""
        columns, declared = self.some()
        return Table(name="marks", columns={"of_nid": "BIGINT", **columns}, declared={"of_nid": "{}", **declared}, limits=self.limit(),
                     hangs=(Hangs(columns=("of_nid",), table="notes", references=("nid",)),))

    def trios(self) -> Table:
        """Rows of three owners each."""
        columns, declared = self.some(least=1, most=3)
        hangs = tuple(Hangs(columns=(end,), table="people", references=("id",)) for end in "abc")
        return Table(name="trios", columns={**dict.fromkeys("abc", self.named), **columns}, declared={**dict.fromkeys("abc", "{}"), **declared},
                     hangs=hangs, limits=self.limit(share=0.3))

    def edges(self) -> Table:
        columns, declared = self.some(least=1, most=3)
        key = self.draw.choice([(), (), ("a", "b")])
        hangs = tuple(Hangs(columns=(end,), table="people", references=("id",)) for end in "ab")
        return Table(name="edges", columns={"a": self.named, "b": self.named, **columns}, key=key, hangs=hangs,
                     declared={"a": "{}", "b": "{}", **declared}, limits=self.limit(share=0.3))

    def bills(self) -> Table:
        columns, declared = self.some()
        hangs = (Hangs(columns=("vid",), table="visits", references=("vid",)),
                 Hangs(columns=("id",), table="people", references=("id",)))
        return Table(name="bills", columns={"vid": "BIGINT", "id": self.named, **columns}, hangs=hangs,
                     declared={"vid": "{}", "id": "{}", **declared})

    def firms(self) -> Table:
        columns, declared = self.some()
        return Table(name="firms", columns={"firm": self.named, **columns}, declared={"firm": "{}", **declared}, key=("firm",))

    def deals(self) -> Table:
        columns, declared = self.some()
        hangs = (Hangs(columns=("id",), table="people", references=("id",)),
                 Hangs(columns=("firm",), table="firms", references=("firm",)))
        return Table(name="deals", columns={"id": self.named, "firm": self.named, **columns}, hangs=hangs,
                     declared={"id": "{}", "firm": "{}", **declared})

    def places(self) -> Table:
        columns, declared = self.some(least=3, most=6, public=True)
        if self.draw.random() < 0.3:
            columns, declared = {"id": self.named, **columns}, {"id": "{}", **declared}
        return Table(name="places", columns=columns, declared=declared, public=True)

    def synthetic(self, table: Table) -> Table:
        """A public table that stands for a private one; it keeps to what is declared of that."""
        self.tame[f"{table.name}_syn"] = table.declared
        return Table(name=f"{table.name}_syn", columns=table.columns, declared=dict.fromkeys(table.columns, "{}"), public=True)

    # -- rows

    def rows(self, world: World) -> Rows:
        pool = list(NAMES[self.named])
        names = {"id": self.draw.sample(pool, self.draw.choice([2, 2, 3, 3, 3, 3, 4, 6])), "firm": self.draw.sample(pool, 2)}
        special = self.draw.choice(names["id"])
        found: dict[str, tuple[Row, ...]] = {}
        for name, table in world.tables.items():
            made = list(self._rows_of(table, names, special, found, world))
            if made and self.draw.random() < 0.3:
                made += self.draw.choices(made, k=self.draw.randint(1, 3))
            self.draw.shuffle(made)
            found[name] = tuple(_keyed(_keyed(made, table, table.key, nulls=False), table, table.unique, nulls=True))
        return found

    def _rows_of(self, table: Table, names: Mapping[str, list[str]], special: str, found: Mapping[str, tuple[Row, ...]],
                 world: World) -> Iterator[Row]:
        if table.name in ("people", "firms"):
            key = next(iter(table.columns))
            for name in names[key]:
                yield self.row(table, {key: name}, odd=name == special)
        elif table.name in self.tame:
            for _ in range(self.draw.choice([4, 9])):
                yield tuple(self.draw.choice(TAME.get(self.tame[table.name][column]) or (
                    BY_NAME[column].common if column in BY_NAME else names["id"] if column == "id" else ("1", "2", "3")))
                    for column in table.columns)
        elif table.public:
            for _ in range(self.draw.choice([0, 2, 4, 8]) if table.name != "empty" else 0):
                yield self.row(table, {column: self.draw.choice(names["id"]) for column in table.columns if column == "id"})
        elif table.name in ("notes", "marks"):
            hang, = table.hangs
            above = list(world.tables[hang.table].columns)
            for parent in found[hang.table]:
                for _ in range(self.draw.choice([0, 1, 1, 2, 4])):
                    given = {child: parent[above.index(column)] for child, column in zip(hang.columns, hang.references, strict=True)}
                    given |= {"nid": str(self.draw.randint(0, 99))} if self.newer and table.name == "notes" else {}
                    yield self.row(table, given, odd=special in parent and self.draw.random() < 0.7)
        elif table.name == "visits":
            for name in [*names["id"], *self.draw.choice([[], [], ["NULL"], [self.draw.choice(NAMES[self.named])]])]:
                for _ in range(self.draw.choice([0, 1, 2, 3, 6]) + (4 if name == special and self.draw.random() < 0.3 else 0)):
                    yield self.row(table, {"vid": str(self.draw.randint(0, 60)), "id": name}, odd=name == special)
        else:
            hub = self.draw.random() < 0.5
            for _ in range(self.draw.choice([2, 5, 9])):
                given = {}
                for hang in table.hangs:
                    if hang.table == "visits":
                        given["vid"] = self.draw.choice([row[0] for row in found["visits"]] or ["1"])
                    else:
                        given[hang.columns[0]] = self.draw.choice(names["firm" if hang.table == "firms" else "id"])
                if hub and self.draw.random() < 0.6:
                    given[table.hangs[-1].columns[0] if table.name in ("edges", "trios") else "id"] = special
                yield self.row(table, given, odd=special in given.values())

    def row(self, table: Table, given: Mapping[str, str], *, odd: bool = False) -> Row:
        return tuple(given[column] if column in given else self.value(column, odd=odd, public=table.public) for column in table.columns)

    def value(self, column: str, *, odd: bool = False, public: bool = False) -> str:
        kind = BY_NAME.get(column)
        if kind is None:
            return str(self.draw.randint(0, 60))
        if odd and column in self.sticky and self.draw.random() < 0.9:
            return self.sticky[column]
        if self.draw.random() < (0.35 if public else self.absent):
            return NULL
        themed = kind in self.theme and self.odd > 0
        strange = kind.odd and self.draw.random() < (0.8 if odd and themed else 0.4 if odd and self.odd else self.odd)
        return self.draw.choice(kind.odd if strange else kind.common)


def _keyed(rows: list[Row], table: Table, key: tuple[str, ...], *, nulls: bool) -> list[Row]:
    """The rows that a key of the database lets in: the first of each."""
    if not key:
        return rows
    at, seen, kept = [list(table.columns).index(column) for column in key], set(), []
    for row in rows:
        named = tuple(_same(row[i]) for i in at)
        if (nulls and NULL in named) or (NULL not in named and named not in seen):
            seen.add(named)
            kept.append(row)
    return kept


def _same(value: str) -> str:
    return value.replace("'-0.0'", "'0.0'")


def world_of(seed: int) -> World:
    """The world of a number."""
    return replace(Maker(seed).world(), least=2 if seed % 8 == 7 else 1)
