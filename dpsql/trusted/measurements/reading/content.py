"""Facts about the rows that the kernel uses to execute the same query faster.

Every limit on the rows of an entity stays in force, and so does every clamp: the certificate is that of the plan, and the SQL
text that is executed gives the same result on the present content of the database. There are two steps: `Content.learned` looks
up all facts that the text may depend on; `printed` is a function of the plan, these facts and the secret, and reads nothing.

Proof that, on a content for which the learned facts hold, the text gives the same multiset of rows as the plan printed node by
node.

(1) *Truncations that are left out.* `Truncate` keeps all rows of an entity that has at most `rows` of them. A truncation is
left out only by the owner of a private table, above its scan and perhaps others of the kind, where no entity has more than
`most` <= `rows` rows in the table, or in those of its periods that are scanned: so it would keep every row. The nodes above it
are printed from the plan, which still contains it, so a truncation further up chooses the same rows. (That choice depends on the
plan's facts about its input; another plan would mean another choice, for all entities.)
(2) *Shorter clamps.* The integer that `Quantizer.to_sql` gives a value in `reach` does not depend on `reach`. The column of a
scan lies within its `ends` in all rows that are scanned (but for NULL, which gives NULL in all texts); a filter or a truncation
only takes rows away; the range of an expression over columns in ranges is that of `facts`. Nothing else in the text uses a
range.
(3) *Two steps and two parts* give the same sums: see the proofs in `two_steps` and `two_parts`. So it is the same which of the
texts is executed.
(4) *In a store* are the rows of a table that have an owner, with the owners and places that the plan would work out
(`plan.stored`, `backends.store_writer`), and each bucket has those of a set of entities. So the text gives over all buckets
what the plan gives, and over each of them what the plan gives over its entities; which is merged where the kernel has found
that the plan is split by entity (`certificate.splits`, `Summary.merge_sql`). Of a table that grows the store may have several
parts, of which those without a row in the periods that are read are left out (`plan.stored.StoredTable`).
(5) *A part of a plan* that the kernel has found to be split by entity, while the plan is not, gives over all entities the rows
that it gives in each bucket, put together (4). So the text in which a table of these rows stands in the part's place gives the
same: what stands above is printed from the plan, which still contains the part, and depends on no order of rows. Tables that are
nowhere but in buckets elsewhere have no name in that text that the engine knows: were one read outside of a part, the statement
would fail.
(6) *Numbers of rows of each entity* are those of its table, where a relation has one row for each row there, with its owner: it
is above the scan, projections, and truncations that keep every row. In a bucket they are those of its entities (4).
(7) *Kept rows* are those that a statement inside of the text gives on this content, in a table whose name tells that
statement. So the text that reads this table gives the same; and so does every later text with the same statement, as long as the
reader is open and what it holds stays the same (`reader.Reader.hold`). In a store this holds for each bucket: the statement
contains the number of the bucket (`plan.stored`), and the name also tells which buckets they are, by the files and their states.

The answer is the same function of the data either way; only the time differs, which is outside the promise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.growth import PeriodRange
from dpsql.trusted.declarations.tables import OwnerPath, Table
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.nodes import Expr, columns
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Node, Printing, Summary, bottom_up
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.summands import GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate, rows_of_each
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.two_parts import clipped, in_two_parts
from dpsql.trusted.plan.operators.two_steps import in_two_steps
from dpsql.trusted.plan.stored import StoredTable
from dpsql.trusted.reader import PARTS, Parts, Query, Reader, kept_name, parts_name
from dpsql.types import ANY_NUMBER, Interval

Owned: TypeAlias = tuple[str, OwnerPath | None, PeriodRange | None]
Ranged: TypeAlias = tuple[str, str, PeriodRange | None]
FEWER_ROWS = Contributions, Distinct, GroupBy, Norms, SetOperation, Truncate, TruncateKeys


class Learned(Frozen):
    """Facts read from the tables of a plan, of growing ones in the periods that a scan reads: the largest number of rows of one
    entity, ranges of columns, and whether a short text is preferred to one in two parts, as tables are so small that an engine
    takes longer to plan than to execute."""

    most: Mapping[Owned, int]
    ends: Mapping[Ranged, Interval]
    short: bool = False

    def idle(self, node: Node) -> bool:
        """Whether a node is a truncation that keeps every row."""
        if not isinstance(node, Truncate) or (scan := _limited(node)) is None:
            return False
        return self.most.get(_owned(scan), math.inf) <= node.rows

    def reach(self, node: Node, wanted: Collection[str]) -> dict[str, Interval]:
        """Ranges of the given columns over the actual rows, if the columns come from one table."""
        match node:
            case Scan():
                return {column: self.ends[node.table.name, name, node.periods] for column, name in node.columns
                        if column in wanted and (node.table.name, name, node.periods) in self.ends}
            case Filter() | Truncate():
                return self.reach(node.input, wanted)
            case Project():
                below = Printing(reach=self.reach(node.input, _read(node, wanted))).seen(node.input)
                found = ((column, _range(expr, below)) for column, _, expr in node.columns if column in wanted)
                return {column: ends for column, ends in found if ends is not None}
        return {}


class RememberedAnswers(Protocol):
    """Answers to questions about rows, kept as long as the files are unchanged."""

    def recall(self, question: str) -> str | None: ...

    def note(self, question: str, answer: str) -> None: ...


class KeptStatements:
    """The statements of a text whose rows are kept, in the order in which they read each other; see (7)."""

    def __init__(self, read: str = "") -> None:
        self._made, self._read = dict[str, Parts](), read

    @property
    def tables(self) -> tuple[Parts, ...]:
        return tuple(self._made.values())

    def keep(self, statement: str) -> str:
        name = kept_name(statement, self._read)
        self._made.setdefault(name, Parts(name=name, statements=(statement,), kept=True))
        return f"SELECT * FROM {name}"


class Content:
    """Facts about tables, read on first use and kept in memory as long as the reader is open.

    Limits and clamps that the facts show to be idle are left out of the text, so a fact that understates the data would lift a
    limit. So `answers`, which keep them beyond that, are those of the very files that are open
    (`reader.Reader.content`), and only who knows the ledger's secret can have written them (`ledgers.proven_facts`).
    Nothing is read that no text depends on: a count needs no range, and a table whose key is the entity needs no number of
    rows.
    """

    def __init__(self, reader: Reader, answers: RememberedAnswers | None = None) -> None:
        self._reader, self._answers = reader, answers
        self._known: dict[str, list[Any]] = {}

    def _look_up(self, sql: str, parts: Sequence[Parts] = ()) -> list[Any]:
        """The single row of a query about all rows."""
        if sql not in self._known:
            answers, question = self._answers if self._reader.content else None, f"{_whole(sql, parts)} OF {self._reader.content}"
            kept = None if answers is None else answers.recall(question)
            self._known[sql] = list(self._reader.rows(sql, parts)[0]) if kept is None else json.loads(kept)
            if kept is None and answers is not None:
                answers.note(question, json.dumps(self._known[sql]))
        return self._known[sql]

    def learned(self, plan: Node) -> Learned:
        """All facts that the text of a plan may depend on."""
        scans = [scan for node in bottom_up(plan) if isinstance(node, Truncate) and (scan := _limited(node)) is not None]
        ranged = [place for node in bottom_up(plan) if isinstance(node, GroupedSums | Contributions) and not _in_steps(node)
                  for place in _sources(node.input, _clamped(node))]
        return Learned(most={_owned(scan): self.most_rows(scan) for scan in scans},
                       ends={(scan.table.name, column, scan.periods): self.ends(scan, column) for scan, column in ranged},
                       short=not self._reader.keeps and not self._all_stored(plan))

    def query(self, plan: Node, printing: Printing, split_parts: Callable[[Node], Sequence[Node]]) -> Query:
        """A plan in the form that is executed on this content: bucket by bucket, if a summary is split by entity and all of its
        private tables are in a store. Otherwise, parts of the plan are read in buckets if that pays. `split_parts` returns the
        largest parts of a plan that are split by entity."""
        learned, stored = self.learned(plan), self._all_stored(plan)
        parts = [part for part in split_parts(plan) if _private(part).keys() <= stored.keys()] if stored else []
        buckets = [replace(printing, stored=stored, bucket=i) for i in range(max([0, *(one.buckets for one in stored.values())]))]
        if isinstance(plan, Summary) and parts and parts[0] is plan.input and (merged := plan.merge_sql(PARTS)) is not None:
            kept = KeptStatements(of := self._reader.keeps_of)
            read = [replace(bucket, hold=False, keep=kept.keep if of else bucket.keep) for bucket in buckets]
            texts = tuple(printed(plan, learned, bucket) for bucket in read)
            combined = plan.combine_sql(PARTS) if plan.merge_keys else None
            return merged, (*kept.tables, Parts(statements=texts, combined=combined, keys=tuple(map(quote, plan.merge_keys))))
        tables: dict[tuple[str, ...], Parts] = {}
        names: dict[int, str] = {}
        for part in (part for part in parts if _pays(part, stored)):
            texts = tuple(printed(part, learned, bucket) for bucket in buckets)
            names[id(part)] = tables.setdefault(texts, Parts(name=parts_name(len(tables)), statements=texts)).name
        readable = {name: table for name, table in stored.items() if table.at_once or table.alone}
        kept, alone = KeptStatements(), self._reader.keeps and not stored
        chosen = replace(printing, stored=readable, keep=kept.keep if alone else printing.keep, native=alone)
        return printed(plan, learned, chosen, names), (*tables.values(), *kept.tables)

    def _all_stored(self, plan: Node) -> dict[str, StoredTable]:
        """The private tables of a plan that are in a store."""
        return {name: found for name, table in _private(plan).items() if (found := self._stored(table)) is not None}

    def _stored(self, table: Table) -> StoredTable | None:
        """A table in the store, if the store was prepared for exactly this table."""
        found = self._reader.stored.get(table.name)
        return found if found is not None and found.holds(table) else None

    def most_rows(self, scan: Scan) -> int:
        """The largest number of rows of one entity in the periods that are scanned, or a larger one where nothing more is known
        of the parts of a store."""
        table, owner = scan.table, scan.table.owner
        if owner is not None and not owner.steps and any(key == {owner.column} for key in table.unique):
            return 1
        if (stored := self._stored(table)) is not None:
            return stored.most_in(scan.periods)
        kept, owned = KeptStatements(), replace(scan, columns=(), owners=("owner",))
        printing = Printing(native=self._reader.keeps, keep=kept.keep if self._reader.keeps else Printing().keep)
        counted = rows_of_each(owned, owned.render((), Printing()), "owner", printing)
        return int(self._look_up(f'SELECT COALESCE(MAX(t2."#n"), 0) FROM ({counted}) AS t2', kept.tables)[0])

    def ends(self, scan: Scan, column: str) -> Interval:
        """The range of a numeric column in the periods that are scanned; unbounded if it contains NaN, or no number at all. In a
        store, only rows with an owner count, as no plan reads others."""
        table = scan.table
        if (stored := self._stored(table)) is not None:
            ends = stored.ends.get(column)
            return ANY_NUMBER if ends is None else Interval(*ends)
        kind, name = table.columns[column].type.value, quote(column)
        low, high = self._look_up(f"SELECT CAST(MIN(t0.{name}) AS {kind}), CAST(MAX(t0.{name}) AS {kind}) "
                                  f"FROM {quote(table.name)} AS t0{' WHERE ' if scan.periods else ''}"
                                  f"{' AND '.join(scan.in_periods())}")
        return Interval(low, high) if low is not None and math.isfinite(low) and math.isfinite(high) else ANY_NUMBER


def printed(plan: Node, learned: Learned, printing: Printing, tables: Mapping[int, str] = MappingProxyType({})) -> str:
    """The text of a plan, which is valid if the learned facts hold; see above. `tables` are the names of tables that contain the
    rows of parts of the plan, by the identity of the part."""
    if id(plan) in tables:
        return f"SELECT * FROM {tables[id(plan)]}"
    if isinstance(plan, GroupedSums) and plan.conditional and isinstance(plan.input, Project) and id(plan.input) not in tables:
        rows = printed(plan.input.input, learned, printing, tables)
        whole = _text(plan.input, (rows,), learned, printing)
        return in_two_steps(plan, rows, printing) or _text(plan, (whole,), learned, printing)
    if isinstance(plan, GroupedSums) and not learned.short and (given := clipped(plan, learned.idle)) is not None:
        return in_two_parts(plan, printed(given.input, learned, printing, tables), _seen(given, learned, printing))
    return _text(plan, tuple(printed(below, learned, printing, tables) for below in plan.inputs), learned, printing)


def _text(node: Node, below: tuple[str, ...], learned: Learned, printing: Printing) -> str:
    """The text of one node over those below it."""
    if learned.idle(node):
        return below[0]
    if isinstance(node, Truncate) and (placed := node.by_places(printing)) is not None:
        return placed
    if isinstance(node, Filter) and isinstance(node.input, Truncate) and learned.idle(node.input):
        return replace(node, input=node.input.input).render(below, printing)  # where the table is read
    return node.render(below, _seen(node, learned, printing))


def _seen(node: Node, learned: Learned, printing: Printing) -> Printing:
    """The printing options for one node, with what was learned of its rows."""
    reach = learned.reach(node.input, _clamped(node)) if isinstance(node, GroupedSums | Contributions) else printing.reach
    return replace(printing, reach=reach, idle=learned.idle)


# -- what a text depends on


def _pays(part: Node, stored: Mapping[str, StoredTable]) -> bool:
    """Whether a part of a plan is read bucket by bucket where the plan is not: where its rows are nowhere else; or where others
    read the buckets, and find fewer rows than there are in its tables.

    To read all buckets of this machine at once is as fast as to put rows of parts together, or faster.
    """
    read = [stored[name] for name in _private(part)]
    return any(table.alone for table in read) or (
        not all(table.at_once for table in read) and any(isinstance(node, FEWER_ROWS) for node in bottom_up(part)))


def _limited(node: Truncate) -> Scan | None:
    """The private table whose rows a truncation limits by their owner, if it is directly above the scan, or above other such
    truncations."""
    scan = node.input
    while isinstance(scan, Truncate) and scan.owner == node.owner:
        scan = scan.input
    return scan if isinstance(scan, Scan) and scan.table.owner is not None and scan.owners == (node.owner,) else None


def _owned(scan: Scan) -> Owned:
    """The rows of a scan that are counted by their owner: those of a table, or of some of its periods."""
    return scan.table.name, scan.table.owner, scan.periods


def _whole(sql: str, parts: Sequence[Parts]) -> str:
    """The text with the statement of each kept table written out instead of the table's name, which differs between processes."""
    for part in reversed(parts):
        sql = sql.replace(f"SELECT * FROM {part.name}", part.statements[0])
    return sql


def _range(expr: Expr, below: Mapping[str, Facts]) -> Interval | None:
    """The range of an expression; None, never an error, if the columns' ranges give none, because rows must not cause errors."""
    try:
        return facts(expr, below).physical
    except NotTotal:
        return None


def _in_steps(node: GroupedSums | Contributions) -> bool:
    """Whether grouped sums are printed in two steps, which use no learned fact."""
    return (isinstance(node, GroupedSums) and node.conditional and isinstance(node.input, Project)
            and in_two_steps(node, "", Printing()) is not None)


def _clamped(node: GroupedSums | Contributions) -> frozenset[str]:
    """The columns whose clamped values are summed."""
    return frozenset(part.column for part in node.summands if isinstance(part, GridSum | Moments))


def _sources(node: Node, wanted: Collection[str]) -> Iterator[tuple[Scan, str]]:
    """The numeric columns of a private table, and its scan, from which the given columns are computed, if they come from one
    table; see `reach`."""
    match node:
        case Scan() if not node.table.public:
            yield from ((node, name) for column, name in node.columns
                        if column in wanted and node.table.columns[name].type.numeric)
        case Filter() | Truncate():
            yield from _sources(node.input, wanted)
        case Project():
            yield from _sources(node.input, _read(node, wanted))


def _read(node: Project, wanted: Collection[str]) -> frozenset[str]:
    """The input columns that some columns of a projection read."""
    return frozenset[str]().union(*(columns(expr) for column, _, expr in node.columns if column in wanted))


def _private(plan: Node) -> dict[str, Table]:
    """The private tables that a plan reads, by name."""
    return {scan.table.name: scan.table for scan in bottom_up(plan) if isinstance(scan, Scan) and not scan.table.public}
