"""Tables in the form that the kernel reads: columns, keys, and the path from a row to its entity.

`schema` makes them from the declarations (`model`) and from what a database says about itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.growth import Growth
from dpsql.types import ANY_NUMBER, Interval, Type

Scalar = bool | int | float | str | dt.date | dt.datetime
GENERATED = "GENERATED"


class Domain(Frozen, kw_only=False):
    """All values, other than NULL, that a column may show in an answer: ordered and distinct. The whole numbers of a long range
    are stored as a range, and the days of one as `days.Days`, which take no memory. `listed` are the same in the order in which
    the policy lists them, for people; empty if that is no other. `closed`: the owner says that no row has another value; one that
    has is in no group, and in no total of a workload."""

    values: Sequence[Scalar]
    listed: tuple[Scalar, ...] = field(default=(), compare=False, repr=False)
    closed: bool = field(default=False, repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def only(self, values: Sequence[Scalar]) -> Domain:
        """Some of the values, which are given in order."""
        kept = set(values) if self.listed else ()
        return Domain(values, listed=tuple(value for value in self.listed if value in kept), closed=self.closed)


class ForeignKey(Frozen):
    """A foreign key: `columns` of this table name a row of `table`, and deleting that row deletes the rows that name it."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


class TableSchema(Frozen):
    """The database's description of a table, without reading a row: (name, type) of its columns, and proven unique columns.

    `foreign_keys` are those that the database declares; they help to draft a policy, which alone decides what a deletion follows.
    `view` holds the tables that a view reads, in lower case; None for a table. `fixed` tells whether every read shows the same
    rows, which is not known of most views. The type of a column that is computed whenever it
    is read begins with GENERATED and is not supported: the computation may fail for a row, or differ from read to read.
    """

    columns: tuple[tuple[str, str], ...]
    unique: tuple[frozenset[str], ...] = ()
    not_null: frozenset[str] = field(default_factory=frozenset)
    foreign_keys: tuple[ForeignKey, ...] = ()
    view: frozenset[str] | None = None
    fixed: bool = True


class Column(Frozen):
    """A declared column with its type in the database. `sql_type` is the database's own name for the type."""

    name: str
    type: Type
    sql_type: str
    nullable: bool = True
    physical: Interval = ANY_NUMBER
    declared: Interval = ANY_NUMBER
    domain: Domain | None = None
    step: Fraction | None = None
    bins: tuple[float, ...] | None = None
    search: bool = False


class ValidCombinations(Frozen):
    """The distinct combinations of values in some columns of a public table, or those that a public table allows in some columns
    of a private one. NULL is one of the values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar | None, ...], ...] = field(repr=False)

    def __hash__(self) -> int:
        return hash(self.columns)  # the rows are many

    def values(self, column: str) -> list[Scalar | None]:
        """The value of a column in each combination."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]


class OwnerStep(Frozen):
    """One step from a table towards the entity: its `columns`, as `types`, equal the key `references` of `table`."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]
    types: tuple[Type, ...]


class OwnerPath(Frozen):
    """The location of the entity's name for a row: follow `steps`, then read `column` there. Without steps, the column is in
    the row.

    `type` is the type that carries the entity's name; `not_null` says that the database forbids NULL there. Where entities are
    of several kinds, the name is carried together with the number of the kind, so that no two entities share a name: as name *
    `kinds` + `kind` where all names are integers of at most half a word, and otherwise as the text 'kind:name'.

    `beside` holds the other columns of the foreign key that contains the name. If one of them is NULL, the key references no
    row: deleting the entity does not delete the row, so the row belongs to no entity and is not read.
    """

    steps: tuple[OwnerStep, ...]
    column: str
    type: Type
    not_null: bool = False
    beside: tuple[str, ...] = ()
    kind: int = 0
    kinds: int = 1

    @property
    def in_row(self) -> bool:
        """Whether the name is an unchanged column of the row itself."""
        return not self.steps and self.kinds == 1


class Table(Frozen):
    """A table as one budget sees it: fitted to the database, with the path to its entity if it is private.

    unique   sets of columns that the *database* guarantees to be unique
    owners   the paths to the entities that a row belongs to: one, or several, such as the two ends of a friendship
    rows     the largest number of rows of one entity; None if the owner gave no limit
    rows_per_value  the largest number of rows of one value of a column, where rows of many entities are joined on it
    limits_hold  the owner says that these limits leave out no row; nothing of the kernel relies on it
    content  what tells released rows from others that have, or had, the same name and columns
    listings  the combinations of values that groups may have, if they are not too many
    growth   how it grows from period to period; None if it does not
    """

    name: str
    public: bool
    columns: Mapping[str, Column]
    key: tuple[str, ...] = ()
    unique: tuple[frozenset[str], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    owners: tuple[OwnerPath, ...] = ()
    rows: int | None = None
    rows_per_value: Mapping[str, int] = field(default_factory=dict)
    limits_hold: bool = field(default=False, repr=False)
    content: str = ""
    listings: tuple[ValidCombinations, ...] = ()
    growth: Growth | None = None

    @property
    def owner(self) -> OwnerPath | None:
        """The path to the entity where every row belongs to exactly one; None if rows belong to several, or to none."""
        return self.owners[0] if len(self.owners) == 1 else None
