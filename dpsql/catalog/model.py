"""The owner's declarations: tables, keys, the protected entity, domains, bounds and budgets. All of it is public.

Everything here is a frozen value. `policy` reads it from a file, and `schema` fits it to a database, which makes the `tables`
that the kernel reads. The privacy guarantee rests on these declarations: which table is public, which columns are keys and which
foreign keys a deletion follows. Limits and bounds, in contrast, are never trusted: they are enforced on the data.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fractions import Fraction

from dpsql.catalog.price import Price
from dpsql.catalog.reading import USUAL_CELL, CellReading, CsvFormat
from dpsql.frozen import Frozen, field
from dpsql.trusted.declarations.account_limits import INCIDENTS, LATE
from dpsql.trusted.declarations.growth import PeriodKind, PeriodRange
from dpsql.trusted.declarations.tables import ForeignKey, Scalar, Table


class ColumnPolicy(Frozen):
    """The owner's declaration of one column. Facts that are left out are unknown, so fewer queries can be answered.

    values       the complete list of values
    values_from  a column of a public table that lists the values, as (table, column)
    bounds       the least and greatest value; enforced by a clamp wherever a sum rests on it
    others       whether rows may have other values than the listed ones, or those of the range
    complete     the bounds were given as a range: in a whole-number column, every number between them is a value
    bins         cut points of a range, for `bin_floor(column)`
    step         values are rounded to multiples of this number before they are summed
    nullable     whether NULL (or NaN) may occur; a column declared free of it is treated accordingly
    search       bounds are unknown, and a statement may spend a part of its price to find them
    determines   other columns whose value follows from this one's, as the public table `by` says in columns of the same names
    type         the name of the type as which a column of a file or of another database is read; it replaces the type there
    reading      what is done to its cells before they are values
    like         the pattern of new texts in synthetic tables, where no values are listed
    """

    name: str
    type: str | None = None
    values: tuple[Scalar, ...] | None = None
    values_from: tuple[str, str] | None = None
    bounds: tuple[Scalar, Scalar] | None = None
    others: bool = True
    complete: bool = False
    bins: tuple[float, ...] | None = None
    step: Fraction | None = None
    nullable: bool = True
    search: bool = False
    determines: tuple[str, ...] = ()
    by: str | None = None
    reading: CellReading = USUAL_CELL
    like: str | None = None


IN_SPARK = "spark:"  # how the source of a table begins that only Spark can see


class SparkPolicy(Frozen):
    """Where queries are read in buckets by a cluster: the address of its master, and a folder in one of its file systems."""

    master: str
    store: str


class CalendarPolicy(Frozen):
    """Periods that begin on the days of the column `starts` of a public table. `days` are these days, as `date.toordinal` numbers
    them, in order; none before they are read (`calendars`)."""

    table: str
    starts: str
    days: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        return f"{self.table}.{self.starts}"


class GrowthPolicy(Frozen):
    """How a table grows: each row belongs to the period of its day, or time, in `column`. The first period contains the day
    `since`, and a period is closed so many days (`closes`) after its end. `rows` has the largest number of rows of one entity
    that are used in each period, by the name of the entity. `arrived` is the column of the time at which a row arrived, if rows
    that arrive later than that are dropped. `calendar` says when periods begin that are no days, weeks, months, quarters or
    years; the first one then begins on the day `since`."""

    column: str
    period: PeriodKind
    since: dt.date
    closes: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    arrived: str | None = None
    calendar: CalendarPolicy | None = None


class TablePolicy(Frozen):
    """A declared table.

    rows_per_entity   by the name of an entity: the largest number of rows of this table kept for one entity
    rows_per_value    by column: the largest number of rows kept for one value where rows of many entities are joined on it
    limits_hold       the owner says that no row is beyond these limits, so that intervals need not allow for rows left out
    source            the files that hold it, or the URI of a database of another kind
    relation          its name in that database, with the schema; None if it is called as here
    filter            a condition on its rows, in SQL of that database: others are not in the table
    sheet             the sheet of a workbook that holds it; None for the first one
    csv               how its files are written; None if nothing is said, which is the usual way
    expected          what `check --rows` reports of it and the owner meant, by the words in `EXPECTED`
    rules             what holds in every row, such as income = 0 OR hours > 0, for synthetic tables; see `engine.table_rules`
    row_key           a column that is not in its files, and names each of their rows; it is the key
    growth            how rows are added over time, with a limit on rows in each period; None if it does not grow
    """

    name: str
    public: bool = False
    key: tuple[str, ...] = ()
    columns: Mapping[str, ColumnPolicy] = field(default_factory=dict)
    foreign_keys: tuple[ForeignKey, ...] = ()
    rows_per_entity: Mapping[str, int] = field(default_factory=dict)
    rows_per_value: Mapping[str, int] = field(default_factory=dict)
    limits_hold: bool = False
    source: str | None = None
    relation: tuple[str, ...] | None = None
    filter: str | None = None
    sheet: str | None = None
    csv: CsvFormat | None = None
    expected: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    row_key: str | None = None
    growth: GrowthPolicy | None = None

    @property
    def in_spark(self) -> bool:
        """Whether only Spark can read the rows."""
        return self.source is not None and self.source.startswith(IN_SPARK)


class Entity(Frozen):
    """A protected entity: all rows of `table` with one value of `key`, and every row that depends on them through foreign keys.

    With `any_of`, it is one entity of any of these kinds, such as a customer or a supplier: neighbouring databases differ in
    one of them, and a row may depend on several. `table` and `key` are then those of the first kind.

    several             it has no table with one row for each: rows that share a value of the key are one entity
    minimum_frequency   groups of fewer entities are withheld from answers, as far as a noisy count can tell
    """

    name: str
    table: str
    key: str
    any_of: tuple[str, ...] = ()
    several: bool = False
    minimum_frequency: int = 1


PACE = 0.1  # seconds after which outcomes leave a server, or twice, four times, ... as many, unless the policy says otherwise
LONGEST_PACE = 3600  # seconds


class AgentTerms(Frozen):
    """What the policy says about an account that a program asks with: what it may spend each day (UTC), however it asks; and the
    price above which a person has to agree to a statement, where it asks by `dpsql mcp`. None where nothing is said."""

    per_day: Price | None = None
    confirm_above: Price | None = None


class Budget(Frozen):
    """A budget for one kind of entity: the total, and the part of each analyst.

    Names of analysts are in their normal form (`declarations.names`). `listed` holds those who may ask; None if everybody may.
    Up to `incidents` statements of each analyst may fail after their charge. After `late` outcomes that left a server late, each
    further one has all later ones of that analyst wait twice as long.

    Where tables grow, `per_period` is the limit on what statements spend on one entity in one period, and
    `per_analyst_and_period` the limit of each analyst there; the total is then the limit in all. `in_any` is the limit in any
    `in_any_periods` consecutive periods, and `per_analyst_in_any` that of each analyst there.

    With `share_answers`, an answer that one analyst paid for is free for the others (`kernel.chain`, *Told*).
    `agents` has further terms for the accounts of programs, by the names of their analysts.
    """

    name: str
    entity: str
    total: Price
    per_analyst: Price | None = None
    analysts: Mapping[str, Price] = field(default_factory=dict)
    per_statement: Price | None = None
    per_period: Price | None = None
    per_analyst_and_period: Price | None = None
    in_any: Price | None = None
    in_any_periods: int = 0
    per_analyst_in_any: Price | None = None
    listed: tuple[str, ...] | None = None
    incidents: int = INCIDENTS
    late: int = LATE
    share_answers: bool = False
    agents: Mapping[str, AgentTerms] = field(default_factory=dict)

    def of(self, analyst: str) -> Price | None:
        """The limit of one analyst, or None if only the total binds."""
        return self.analysts.get(analyst, self.per_analyst)


class Policy(Frozen):
    """The whole declaration. `digest` identifies it in the ledger's records; `path` and `text` locate errors. `memory` is what
    the engine may use, such as "4GB"; None leaves that to the engine. `store` is the folder of prepared stores; None for the one
    beside the ledger. `prepare` says whether a store of large data may be made in the background. `snapshots` is the folder of
    what is read of databases of other kinds, and `passwords` names the variables of the environment with the passwords of such
    databases, by their URIs. `spark` is the cluster by which a store is read; None if this machine reads. `pace` is the first
    step, in seconds, at which outcomes leave a server; None where they leave when they are made. Whatever a server sends leaves
    at multiples of `pace_stored`, in seconds; None for at once."""

    entities: Mapping[str, Entity]
    tables: Mapping[str, TablePolicy]
    budgets: Mapping[str, Budget]
    database: str | None = None
    ledger: str | None = None
    anchor: str | None = None
    uploads: tuple[str, ...] = ()
    memory: str | None = None
    store: str | None = None
    prepare: bool = True
    snapshots: str | None = None
    passwords: Mapping[str, str] = field(default_factory=dict)
    spark: SparkPolicy | None = None
    pace: float | None = PACE
    pace_stored: float | None = None
    path: str = ""
    text: str = ""
    digest: str = ""


class Catalog(Frozen):
    """Everything that can be queried under one budget.

    undeclared  tables of the database that the policy does not name, for a helpful refusal
    hidden      columns of the database that the policy does not name, or whose type is not supported, by table
    outside     declared tables that cannot be queried under this entity, each with the reason
    rules       what holds in every row of a table, by its name
    patterns    of new texts in synthetic tables, by table and column
    periods     the closed periods of each growing table, when a statement is planned (`growing`)
    read_on     the day on which the data were opened, or read into a snapshot: periods that close later are not read, as their
                rows may not be there; None if it is unknown, or no table grows
    """

    entity: Entity
    tables: Mapping[str, Table]
    undeclared: frozenset[str] = frozenset()
    hidden: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patterns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    periods: Mapping[str, PeriodRange] = field(default_factory=dict)
    read_on: dt.date | None = None

    @property
    def grows(self) -> bool:
        """Whether one of its tables grows."""
        return any(table.growth is not None for table in self.tables.values())

    def table(self, name: str) -> Table | None:
        """A table by its name, regardless of case."""
        return self.tables.get(name) or next(
            (table for key, table in self.tables.items() if key.lower() == name.lower()), None)
