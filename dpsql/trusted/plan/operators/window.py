"""Window functions: columns computed from the rows around each row."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpsql.frozen import Frozen, field, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.facts import Facts, either
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability, columns_of, least
from dpsql.trusted.plan.operators.groupby import FOLDS, MOST_ROWS, Fold, fold_facts, fold_sql
from dpsql.trusted.plan.operators.ordering import Term, same, tied
from dpsql.types import Interval, Span, Type

RANKS = ("row_number", "rank", "dense_rank", "ntile")
SHIFTS = ("lag", "lead")
ENDS = ("first_value", "last_value")
MOST_OFFSET = 2**31
MOST_PLACES = 100  # as many can be shown as groups, those that nobody has too


class Frame(Frozen):
    """The rows of its partition that a row reads: from `start` to `end` rows after itself; None means all rows on that side.

    Without `rows` the frame consists of peers, rows that tie in the order, and an end of 0 means all of them; so of RANGE only
    the ends UNBOUNDED and CURRENT ROW.
    """

    rows: bool = False
    start: int | None = None
    end: int | None = None

    @property
    def whole(self) -> bool:
        return self.start is None and self.end is None

    @property
    def reach(self) -> tuple[int, int] | None:
        """How many rows before and after itself a row reads; None if unbounded."""
        if not self.rows or self.start is None or self.end is None:
            return None
        return max(0, -self.start), max(0, self.end)

    @property
    def most(self) -> int | None:
        """The largest number of rows in the frame; None if unbounded."""
        if not self.rows or self.start is None or self.end is None:
            return None
        return self.end - self.start + 1

    @property
    def empty(self) -> bool:
        """Whether the frame can be empty, because it excludes the current row."""
        return (self.start or 0) > 0 or (self.end or 0) < 0

    @property
    def valid(self) -> bool:
        ends = [end for end in (self.start, self.end) if end is not None]
        ordered = len(ends) < 2 or ends[0] <= ends[1]
        return ordered and all(abs(end) <= MOST_OFFSET and (self.rows or end == 0) for end in ends)

    def sql(self) -> str:
        def place(end: int | None, side: str) -> str:
            if end is None:
                return f"UNBOUNDED {side}"
            return "CURRENT ROW" if end == 0 else f"{-end} PRECEDING" if end < 0 else f"{end} FOLLOWING"

        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {place(self.start, 'PRECEDING')} AND {place(self.end, 'FOLLOWING')}"


WHOLE, RUNNING = Frame(), Frame(end=0)


class WindowFunction(Fold):
    """One window function: `function` is one of `RANKS`, `SHIFTS`, `ENDS` or `FOLDS`.

    frame      of `ENDS` and `FOLDS`
    number     how many rows `SHIFTS` look away, and into how many parts ntile cuts
    otherwise  the column that `SHIFTS` show where there is no such row; NULL without one
    """

    frame: Frame = WHOLE
    number: int = 1
    otherwise: str | None = None

    @property
    def reach(self) -> tuple[int, int] | None:
        """How many rows before and after it determine a row's value; None if unbounded."""
        if self.function in SHIFTS:
            return (self.number, 0) if self.function == "lag" else (0, self.number)
        return None if self.function in RANKS else self.frame.reach

    @property
    def by_peers(self) -> bool:
        """Whether the value depends only on the terms of the order, not on how ties are broken."""
        return self.function in ("rank", "dense_rank") or (self.function in FOLDS and (self.frame.whole or not self.frame.rows))

    def check(self) -> None:
        if self.function not in (*RANKS, *SHIFTS, *ENDS, *FOLDS):
            raise InvalidPlan(f"unknown window function {self.function}")
        if not self.frame.valid or not (self.function == "ntile") <= self.number <= MOST_OFFSET or isinstance(self.number, bool):
            raise InvalidPlan("a window function has an impossible frame")
        if (self.function in (*SHIFTS, *ENDS)) > (self.column is not None):
            raise InvalidPlan(f"{self.function} needs a column")


class Window(Node):
    """Every input row, with columns computed from the rows of its partition: those that agree with it on `partition` by `=`,
    or with NULL by NULL.

    Rows stand in the order of the terms, then of `ties`: a key of the relation, or all columns. So rows that still tie are equal
    in every column, and the result is a function of the rows as a multiset: which of equal rows comes first is open and makes
    no difference, as all functions of a window look at one and the same order. `most_rows`, if given, says how many rows a
    partition has, and narrows declared ranges.

    Proof. What is computed for a row depends on the rows of its partition alone. Write a for the rows that change below.
    (1) *Every owner is in the partition.* The rows of a partition belong to the same entities. With an entity its partitions
    leave whole, and no other changes: as many rows as below, with their owners. The same holds where each row has a partition
    of its own. (2) *At most m rows agree on `partition` in every database.* Only partitions in which a row changes change. If
    one does, the partition has at most m rows on one side and one less on the other: at most 2m - 1 differ. If more do, at most
    2m rows differ, which is no more for each. Together a (2m - 1). (3) *Every function looks at most f rows back and g rows
    ahead* in the order. Change the rows below one at a time. A row that comes in or leaves is one; of the others, the f rows
    after it and the g rows before it look at its place, and each leaves with its old value and comes with its new one. So a
    row changes at most 1 + 2 (f + g) rows, and all of them a (1 + 2 (f + g)). In (2) and (3) values depend on rows of other
    entities, so rows have no owner. (4) Otherwise one row could move the values of all others: no bound.
    """

    input: Node
    partition: tuple[str, ...]
    order: tuple[Term, ...]
    ties: tuple[str, ...]
    functions: tuple[WindowFunction, ...]
    most_rows: int | None = None
    span: Span | None = field(default=None, compare=False)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if not self.functions or not self.used | {*self.ties} <= set(self.input.env):
            raise InvalidPlan("a window needs functions, over columns that are there")
        return (*self.input.fields, *(Field(id=part.id, name=part.name, facts=over_facts(part, self.input.env, self.most_rows))
                                      for part in self.functions))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def used(self) -> frozenset[str]:
        """The input columns that it reads, besides `ties`."""
        given = (column for part in self.functions for column in (part.column, part.otherwise) if column is not None)
        return frozenset((*self.told, *given))

    @property
    def told(self) -> tuple[str, ...]:
        return (*self.partition, *(term.column for term in self.order))

    @property
    def total(self) -> bool:
        """Whether tied rows are equal in every column; otherwise the engine would choose which comes first."""
        signed = {column for column in self.told if self.input.env[column].type is not Type.DOUBLE}
        return self.keyed or set(self.input.env) <= {*self.ties, *signed}

    @property
    def keyed(self) -> bool:
        """Whether a key distinguishes all rows."""
        return any(key <= {*self.ties, *self.told} for key in self.input.unique)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        numbered = {frozenset((*self.partition, part.id)): 1 for part in self.functions if part.function == "row_number"}
        return least(self.input.max_frequencies, numbered)

    @property
    def reach(self) -> int | None:
        """How many other rows read a row; None if unbounded."""
        reaches = [part.reach for part in self.functions]
        if None in reaches:
            return None
        return max(reach[0] for reach in reaches if reach is not None) + max(reach[1] for reach in reaches if reach is not None)

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        owners, rows = below[0].owners, below[0].rows
        if below[0].public:
            return Stability(rows=0, because="public")
        if not self.total:
            return Stability(rows=None, because="the order does not distinguish all rows")
        if owners and set(owners) <= set(self.partition):
            return replace(below[0], because="each window holds rows of the same entities")
        most, reach = self.input.max_frequency(self.partition), self.reach
        if most is not None and most <= 1:
            return replace(below[0], because="each row has its own window")
        if rows is None:
            return Stability(rows=None, because="rows per entity are not limited below")
        bounds = []
        if most is not None:
            bounds.append((rows * (2 * most - 1), f"a row changes the others of its window, which has at most {most}"))
        if reach is not None:
            bounds.append((rows * (1 + 2 * reach), f"a row is read by {reach} other{'s' if reach != 1 else ''} at most"))
        if not bounds:
            return Stability(rows=None, because="a window mixes the rows of many entities")
        found, why = min(bounds)
        return Stability(rows=found, because=why)

    # -- printing

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        kept = [f"t0.{quote(field.id)} AS {quote(field.id)}" for field in self.input.fields]
        source, order = f"({below[0]}) AS t0", self._sorted("t0")
        if self._numbered:
            source = (f"(SELECT t1.*, ROW_NUMBER() OVER ({_window(self._group('t1'), self._sorted('t1'))}) AS \"#\" "
                      f"FROM ({below[0]}) AS t1) AS t0")
            order = ['t0."#"']
        parts = [f"{self._printed(part, order)} AS {quote(part.id)}" for part in self.functions]
        return f"SELECT {', '.join([*kept, *parts])} FROM {source}"

    @property
    def _numbered(self) -> bool:
        """Whether rows are numbered first, so that all functions see equal rows in one order."""
        return not self.keyed and sum(not part.by_peers for part in self.functions) > 1

    def _group(self, alias: str) -> list[str]:
        names = columns_of(alias, self.input)
        return [same(names[column], self.input.env[column].type) for column in self.partition]

    def _terms(self, alias: str) -> list[str]:
        names = columns_of(alias, self.input)
        return [term.sql(self.input, names) for term in self.order]

    def _sorted(self, alias: str) -> list[str]:
        """The order of all rows."""
        names = columns_of(alias, self.input)
        return [*self._terms(alias), *(part for column in self.ties for part in tied(self.input, column, names))]

    def _printed(self, part: WindowFunction, order: list[str]) -> str:
        names, group, terms = columns_of("t0", self.input), self._group("t0"), self._terms("t0")
        name = names[part.column] if part.column is not None else "*"
        if part.function in FOLDS:
            kind = self.input.env[part.column].type if part.column is not None else Type.BIGINT
            over = _window(group, [] if part.frame.whole else order if part.frame.rows else terms, part.frame)
            return fold_sql(part, name, kind, f" OVER ({over})")
        if part.function in ENDS:
            return f"{part.function.upper()}({name}) OVER ({self._end(part, group, order)})"
        over = _window(group, terms if part.by_peers else order)
        if part.function in SHIFTS:
            otherwise = f", {names[part.otherwise]}" if part.otherwise is not None else ""
            return f"{part.function.upper()}({name}, {part.number}{otherwise}) OVER ({over})"
        return f"{part.function.upper()}({part.number if part.function == 'ntile' else ''}) OVER ({over})"

    def _end(self, part: WindowFunction, group: list[str], order: list[str]) -> str:
        """The window for the first or last row of a frame. A frame of peers begins with the first row of all, or of the peers."""
        if part.frame.rows:
            return _window(group, order, part.frame)
        end = part.frame.start if part.function == "first_value" else part.frame.end
        names = columns_of("t0", self.input)
        peers = [same(names[term.column], self.input.env[term.column].type) for term in self.order] if end == 0 else []
        return _window([*group, *peers], order, Frame(rows=True))


def over_facts(part: WindowFunction, env: Mapping[str, Facts], most: int | None) -> Facts:
    """Facts about a window function over partitions of at most `most` rows. Raises InvalidPlan if it is not a window function."""
    part.check()
    below = env[part.column] if part.column is not None else None
    if part.function in RANKS:
        limits = [part.number if part.function == "ntile" else MOST_ROWS, *([most] if most is not None else [])]
        last = max(1, min(limits))
        declared = Interval(1, last if last < MOST_ROWS else math.inf)
        return Facts(type=Type.BIGINT, nullable=False, physical=Interval(1, limits[0]), declared=declared, whole=True,
                     domain=Domain(tuple(range(1, last + 1))) if last <= MOST_PLACES else None)
    if part.function in FOLDS:
        sizes = [size for size in (most, part.frame.most) if size is not None]
        return fold_facts(part, below, most=min(sizes, default=None), empty=part.frame.empty)
    if below is None:
        raise InvalidPlan(f"{part.function} shows a column")
    if part.function in ENDS:
        return replace(below, nullable=below.nullable or part.frame.empty)
    if part.otherwise is None:
        return replace(below, nullable=True)
    if env[part.otherwise].type is not below.type:
        raise InvalidPlan(f"{part.function} has a default of another type")
    return either(below, env[part.otherwise])


def _window(group: list[str], order: list[str], frame: Frame | None = None) -> str:
    """The text between the parentheses of OVER."""
    parts = [f"PARTITION BY {', '.join(group)}"] if group else []
    parts += [f"ORDER BY {', '.join(order)}"] if order else []
    return " ".join([*parts, *([frame.sql()] if frame is not None else [])])
