"""The weight of every set of entities, from which bounds on sums over rows that name several entities each are computed."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Printing, Summary, columns_of
from dpsql.trusted.plan.operators.grouped_sums import check_summands, saturated
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Interval, Type

WEIGHT, NAME, MOST_COMPARED = "weight", "@", 4
"""`MOST_COMPARED` names are compared one by one; of more the text is too long, as an engine writes each out in the next."""
LARGEST = 2**36  # of a weight and of a level; so that the weights of 2^26 sets can be added up in 64 bits
NAMES = (Type.BIGINT, Type.VARCHAR)  # other types of names leave the engine as text
ENTITY, VALUE = "e", "v"  # before names, in this order, where there are both


class OwnerSets(Summary):
    """For each set of entities that some rows name in `owners`, the sum of an integer over these rows, clamped to ±2^36.

    Each set is printed once, with its names in rising order; a name that is in several columns is repeated as often. A NULL
    names nobody: another name of the row takes its place, and rows in which every owner is NULL are left out. With a `cell`, a
    column of whole numbers, each of its values has sets of its own.

    Proof. It carries no stability as a relation. The rows of a set are the input's rows that name exactly its
    entities, and are in its cell. So where removing an entity deletes exactly the input's rows that name it, it deletes
    exactly the sets it is in, and no other set's sum moves; clamping one set's sum to a public range keeps that. What is
    computed from the sums of all sets of a cell is bounded by `extensions`.

    With `once`, each row also names a value of that column, and this value belongs to the row's set. Each value has room for one
    row, while an entity has room for as many rows as the level says. Names are then texts: those of entities begin with "e" and
    those of values with "v", so that no value is taken for an entity, and values come last.
    """

    owners: tuple[str, ...]
    summand: Count | GridSum
    cell: str | None = None
    once: str | None = None

    @property
    def name_columns(self) -> tuple[str, ...]:
        """The columns whose values are names."""
        return self.owners if self.once is None else (*self.owners, self.once)

    @property
    def width(self) -> int:
        """The largest number of names in a set."""
        return len(self.name_columns)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        check_summands(self.input, (self.summand,))
        if self.summand.components != 1:
            raise InvalidPlan("each row must share exactly one number")
        if not self.owners or len(set(self.owners)) != len(self.owners):
            raise InvalidPlan("shares need the columns that name their entities, each once")
        if set(self.name_columns) & {*self._cells} or self.once in self.owners:
            raise InvalidPlan("a column of names cannot be a cell, and counted values cannot be owners")
        if self.once is not None and (self.input.field(self.once).facts.nullable or not isinstance(self.summand, Count)):
            raise InvalidPlan("values that have room for one row are there, and their rows are counted")
        for cell in self._cells:
            if self.input.field(cell).facts.type is not Type.BIGINT or self.input.field(cell).facts.nullable:
                raise InvalidPlan("cells are whole numbers")
        named = [self.input.field(owner) for owner in self.owners]
        if len({field.facts.type for field in named}) != 1:
            raise InvalidPlan("the names of entities have different types")
        kind = named[0].facts.type if named[0].facts.type in NAMES and self.once is None else Type.VARCHAR
        named += [self.input.field(self.once)] if self.once is not None else []
        limits = Interval(-LARGEST if self.signed else 0, LARGEST)
        return (*(self.input.field(cell) for cell in self._cells),
                *(Field(id=field.id, name=field.name, facts=Facts(type=kind, nullable=False)) for field in named),
                Field(id=WEIGHT, name=WEIGHT, facts=Facts(type=Type.BIGINT, nullable=False, physical=limits, declared=limits,
                                                          whole=True)))

    @property
    def _cells(self) -> tuple[str, ...]:
        return () if self.cell is None else (self.cell,)

    @property
    def signed(self) -> bool:
        """Whether a weight may be below zero, judged from public facts."""
        return isinstance(self.summand, GridSum) and self.summand.grid.least < 0

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        keys = ", ".join(f"t1.{quote(key)}" for key in (*self._cells, *self.name_columns))
        total, = self.summand.sums(tuple(f"t1.{quote(value)}" for value in self.summed))
        return (f"SELECT {keys}, {saturated(total, LARGEST)} AS {quote(WEIGHT)} FROM ({self.listed(below[0])}) AS t1 "
                f"GROUP BY {keys}")

    @property
    def summed(self) -> list[str]:
        """The columns of `listed` that the summand adds up."""
        return [f"#{i}" for i in range(len(self.summand.cells(columns_of("t0", self.input), dict(self.input.env))))]

    def listed(self, below: str) -> str:
        """The rows before those of a set are added up: their names in increasing order, their cell, and `summed`."""
        names = columns_of("t0", self.input)
        cells = self.summand.cells(names, dict(self.input.env))
        printed = {name: self._name(name, names[name], self.input.env[name]) for name in self.name_columns}
        parts = [f"{self._present(name, printed)} AS {quote(name)}" for name in self.name_columns]
        parts += [f"{names[cell]} AS {quote(cell)}" for cell in self._cells]
        parts += [f"{cell} AS {quote(value)}" for cell, value in zip(cells, self.summed, strict=True)]
        source = f"SELECT {', '.join(parts)} FROM ({below}) AS t0"
        if all(self.input.env[owner].nullable for owner in self.owners):
            source += " WHERE (" + " OR ".join(f"({names[owner]} IS NOT NULL)" for owner in self.owners) + ")"
        if self.width > MOST_COMPARED:
            return self._sorted(source, [*self._cells, *self.summed])
        for low, high in network(self.name_columns):
            source = self._compared(source, low, high, [*self._cells, *self.summed])
        return source

    def sampled(self, below: str) -> str:
        """For each value of `once`, in each cell: its cell, the number of its rows, whether all of them are of one entity, the
        name of one of its entities, and the hashes of the names of three, which may be the same: of that one, and of those whose
        hash is the nearest to that of the value and the farthest from it, by the number that the differing bits make."""
        keys, mixed = 't1."#k", t1."#v"', 'xor(hash(t1."#e"), hash(t1."#v"))'
        groups = (f'SELECT {keys}, COUNT(*) AS "#c", MIN(t1."#e") AS "#e", MIN(t1."#e") = MAX(t1."#e") AS "#1", '
                  f'MIN({mixed}) AS "#n", MAX({mixed}) AS "#f" FROM ({self._pairs(below)}) AS t1 GROUP BY {keys}')
        ends = ", ".join(f'xor(t2.{end}, hash(t2."#v")) AS {end}' for end in ('"#n"', '"#f"'))
        return f'SELECT t2."#k", t2."#c", t2."#1", t2."#e", hash(t2."#e") AS "#h", {ends} FROM ({groups}) AS t2'

    def gathered(self, below: str) -> str:
        """For each row of a value that several entities have: its cell, a number of the value, and the name of the entity."""
        groups = (f'SELECT t1."#k", row_number() OVER () AS "#v", list(t1."#e") AS "#e" FROM ({self._pairs(below)}) AS t1 '
                  'GROUP BY t1."#k", t1."#v" HAVING MIN(t1."#e") < MAX(t1."#e")')
        return f'SELECT t2."#k", t2."#v", unnest(t2."#e") AS "#e" FROM ({groups}) AS t2'

    def _pairs(self, below: str) -> str:
        """The rows with the number of their cell and the names of their value and of the one entity, which is not NULL."""
        (owner,), names, once = self.owners, columns_of("t0", self.input), str(self.once)
        who, what = (_plain(names[column], self.input.env[column]) for column in (owner, once))
        cell = "0" if self.cell is None else names[self.cell]
        return f'SELECT {cell} AS "#k", {who} AS "#e", {what} AS "#v" FROM ({below}) AS t0 WHERE ({names[owner]} IS NOT NULL)'

    def _name(self, column: str, printed: str, known: Facts) -> str:
        if self.once is None:
            return _plain(printed, known)
        return f"('{VALUE if column == self.once else ENTITY}' || CAST({settled(printed, known.type)} AS VARCHAR))"

    def _present(self, owner: str, printed: dict[str, str]) -> str:
        """The name in a column, or another name of the row if it is NULL."""
        if not self.input.env[owner].nullable:
            return printed[owner]
        at = self.owners.index(owner)
        return f"COALESCE({', '.join(printed[other] for other in (*self.owners[at:], *self.owners[:at]))})"

    def _compared(self, source: str, low: str, high: str, others: list[str]) -> str:
        a, b = f"t1.{quote(low)}", f"t1.{quote(high)}"
        parts = [f"(CASE WHEN {a} <= {b} THEN {a} ELSE {b} END) AS {quote(low)}",
                 f"(CASE WHEN {a} <= {b} THEN {b} ELSE {a} END) AS {quote(high)}"]
        parts += [f"t1.{quote(name)} AS {quote(name)}" for name in (*self.name_columns, *others) if name not in (low, high)]
        return f"SELECT {', '.join(parts)} FROM ({source}) AS t1"

    def _sorted(self, source: str, others: list[str]) -> str:
        listed = ", ".join(f"t1.{quote(name)}" for name in self.name_columns)
        parts = [f"t2.{quote(NAME)}[{i}] AS {quote(name)}" for i, name in enumerate(self.name_columns, 1)]
        parts += [f"t2.{quote(name)} AS {quote(name)}" for name in others]
        return f"SELECT {', '.join(parts)} FROM (SELECT t1.*, list_sort([{listed}]) AS {quote(NAME)} FROM ({source}) AS t1) AS t2"


def _plain(printed: str, known: Facts) -> str:
    """A name as it leaves the engine."""
    stands = settled(printed, known.type)
    return stands if known.type in NAMES else f"CAST({stands} AS VARCHAR)"


def network(columns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The comparisons that sort a row's columns: bubble sort."""
    for last in range(len(columns) - 1, 0, -1):
        for at in range(last):
            yield columns[at], columns[at + 1]


UNIT = 64  # released sums are integers in units of 1 / UNIT
NEAR = 2  # units by which a number of entities that must leave may be above its exact value
EXACT_FLOW = 2**30  # levels up to which sums over rows of two entities are exact


def slack(level: int, owners: int) -> int:
    """The number of units by which a sum limited to this level may exceed its exact value, because it is approximated."""
    return 0 if owners == 1 or (owners == 2 and level < EXACT_FLOW) else level


def lipschitz_constant(level: int, owners: int) -> int:
    """The largest number of units by which one entity moves the sum limited to this level; see
    `extensions.lipschitz_extension`."""
    return UNIT * level + slack(level, owners)
