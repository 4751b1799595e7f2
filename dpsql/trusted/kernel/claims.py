"""Compares the claims of operators about a plan with the bounds that the kernel derives itself.

Operators claim a stability, and the SQL they print relies on their claims about rows that agree; `checker` derives both again.
The kernel uses a claim only if the derivation confirms it: a claim below the derived bound is a fault of dpsql, and the plan is
not executed. (A claim above it costs more than necessary, but is no fault.)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from dpsql.errors import Error, InternalError
from dpsql.frozen import field_names
from dpsql.trusted.kernel.checker import Checked, Known, check, known
from dpsql.trusted.kernel.period_certificate import certificate_in_period
from dpsql.trusted.kernel.period_reads import PeriodReads, reads_of
from dpsql.trusted.kernel.plan_size import RelationSize, check_size, expressions
from dpsql.trusted.kernel.shapes import components, ends_of, size
from dpsql.trusted.kernel.split_by_entity import split_by_entity
from dpsql.trusted.plan.certificate import Certificate, splits, stabilities
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Placeholder, walk
from dpsql.trusted.plan.expr.printing import literal, quote
from dpsql.trusted.plan.node import Node, Printing, PublicFacts, SplitBy, Stability, Summary, bottom_up, fold
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Clipped, Summand
from dpsql.trusted.reader import Reader, ReaderFault, is_interruption, unread
from dpsql.types import Type


class Disagreement(InternalError):
    """A claim about a plan was not confirmed. The text is constant."""

    code = "claims"

    def __init__(self) -> None:
        super().__init__("the kernel could not confirm the bounds of this statement, so it is not answered",
                         try_="another statement; this is a fault of dpsql, please report it")


class Claims:
    """Compares the claims of plans with what is derived for them. For one thread at a time, as a kernel is.

    What was claimed, derived and confirmed of a relation is kept until `begin`, and is valid wherever the same object is used.
    Proof: plans are frozen, and are the kernel's own copies, to which nobody else has a reference (`copied_request`); the plans
    that were compared are kept too, so that no other object gets the ids of their relations; and the only other input, which
    public rows agree, stays the same until `forget`.
    """

    def __init__(self, reader: Reader, public: PublicFacts, printing: Printing) -> None:
        self._public, self._meets = public, Meets(reader, printing)
        self.begin()

    def begin(self) -> None:
        """Forget the plans that were compared before."""
        self._plans = list[Node]()
        self._sizes, self._claimed = dict[int, RelationSize](), dict[int, Stability]()
        self._found, self._confirmed = dict[int, Known](), set[int]()

    def size(self, plan: Node) -> None:
        """Raises OperationalError if a plan is too large, before anything walks it as a tree."""
        self._plans.append(plan)
        with _refused():
            check_size(plan, self._sizes)

    def claimed(self, plan: Node) -> dict[int, Stability]:
        """The claims of the relations of a plan whose size was checked; see `certificate.stabilities`."""
        return stabilities(plan, self._public, self._claimed)

    def relation(self, node: Node, rows: int | None = None) -> None:
        """Raises Disagreement if a relation, or one below it, claims more than is derived, or if more than `rows` rows can
        move.
        """
        self.size(node)
        with _refused():
            derived = known(node, self._meets, self._found)
            self._compare(node)
            _none([] if rows is None else _stronger(Stability(rows=rows), derived))

    def summary(self, plan: Summary, claimed: Certificate) -> None:
        """Raises Disagreement if a certificate, or a part of its plan, claims more than is derived."""
        self.size(plan)
        with _refused():
            found = check(plan, self._meets, self._found)
            self._compare(plan.input)
            _none([*_stronger(claimed.below, found.below), *_tighter(claimed, found), *_smaller(plan, found.below)])
            nodes = {id(node): node for node in bottom_up(plan)}.values()
            parts = (part for node in nodes for expr in expressions(node) for part in walk(expr))
            _none("no engine can read it" for part in parts if not self._can_be_run(part))

    def split_parts(self, plan: Node) -> tuple[Node, ...]:
        """The largest relations in a plan that are split by entity: such a relation over all entities consists of those over
        disjoint sets of entities. Raises Disagreement if this is claimed for one but not derived."""
        relation = plan.input if isinstance(plan, Summary) else plan
        self._plans.append(plan)
        with _refused():
            claimed = splits(relation, self.claimed(relation))
            parts = tuple(_first(relation, lambda node: claimed[id(node)] is SplitBy.ENTITIES))
            known(relation, self._meets, self._found)
            _none("split by entity" for part in parts if not split_by_entity(part, self._found))
        return parts

    def reads(self, plans: Iterable[Node]) -> PeriodReads | None:
        """The periods that relations and summaries, whose claims were confirmed, read; see `period_reads`. Raises ValueError if
        they are of different kinds."""
        return reads_of(plans, Derived(self._found))

    def in_period(self, plan: Summary, certificate: Certificate) -> Certificate | None:
        """The certificate of a plan, whose claims were confirmed, for an entity in one period; see `period_certificate`."""
        if self.reads([plan]) is None:
            return None
        return certificate_in_period(plan, certificate, Derived(self._found))

    def _can_be_run(self, part: Expr) -> bool:
        """Whether an engine can evaluate a part of an expression: it accepts its pattern, if there is one, and the part is not a
        placeholder."""
        if isinstance(part, Call) and part.function.startswith("regexp_"):
            pattern = part.args[1]
            return isinstance(pattern, Literal) and self._meets.is_pattern(str(pattern.value))
        return not isinstance(part, Placeholder)

    def forget(self) -> None:
        """Forget earlier counts, as a name now refers to other public rows."""
        self._meets.forget()
        self.begin()

    def _compare(self, node: Node) -> None:
        claimed = self.claimed(node)
        for below in () if id(node) in self._confirmed else bottom_up(node):
            if id(below) not in self._confirmed:
                _none(disagreements(below, claimed, self._found))
                self._confirmed.add(id(below))


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """A context in which every error of deriving a claim becomes a refusal of the plan."""
    try:
        yield
    except Error:
        raise
    except Exception:
        raise Disagreement() from None


def _none(found: Iterable[str]) -> None:
    if [*found]:
        raise Disagreement()


def _first(plan: Node, holds: Callable[[Node], bool]) -> Iterator[Node]:
    """The topmost nodes that satisfy a condition."""
    if holds(plan):
        yield plan
        return
    for below in plan.inputs:
        yield from _first(below, holds)


def disagreements(node: Node, claims: Mapping[int, Stability], found: Mapping[int, Known]) -> Iterator[str]:
    """The places in a relation where more is claimed than derived."""
    derived = found[id(node)]
    yield from (f"{type(node).__name__}: {what}" for what in _stronger(claims[id(node)], derived))
    if [(field.id, field.facts.type) for field in node.fields] != [(name, of.type) for name, of in derived.columns.items()]:
        yield f"{type(node).__name__}: columns"
    for agreed, rows in node.max_frequencies.items():
        most = derived.frequency(agreed)
        if not most <= rows or not agreed <= derived.columns.keys():
            yield f"{type(node).__name__}: {rows} rows agree on {sorted(agreed)}, derived {most}"


def _stronger(claimed: Stability, derived: Known) -> Iterator[str]:
    if claimed.rows is not None and not derived.rows <= claimed.rows:
        yield f"{claimed.rows} rows, derived {derived.rows}"
    if claimed.public and not derived.public:
        yield "public"
    if claimed.owners and set(claimed.owners) != derived.owners:
        yield f"owners {claimed.owners}, derived {set(derived.owners)}"
    if claimed.norm is not None and (derived.norm is None or derived.norm.order != claimed.norm.order
                                     or derived.norm.bound > claimed.norm.bound
                                     or not set(claimed.norm.columns) <= set(derived.norm.columns)):
        yield f"norm {claimed.norm}, derived {derived.norm}"


def _tighter(claimed: Certificate, derived: Checked) -> Iterator[str]:
    if len(claimed.summands) != len(derived.sums):
        yield "summands"
    for given, (l1, l2) in zip(claimed.summands, derived.sums, strict=False):
        if not (given.l1 is None or l1 <= given.l1) or not l2 <= given.l2:
            yield f"{given}, derived {l1}, {l2}"
    if claimed.disjoint_cells and not derived.disjoint_cells:
        yield "disjoint_cells"


def _smaller(plan: Summary, below: Known) -> Iterator[str]:
    """The summands and grids whose claims about themselves are too small; noise is scaled and rows are ranked by these claims."""
    values = (getattr(plan, name) for name in field_names(type(plan)))
    for part in (part for value in values for part in (value if isinstance(value, tuple) else (value,))):
        if isinstance(part, Summand) and not isinstance(part, Clipped) and part.l1 < size(part, below.columns):
            yield f"{part} adds more"
        if isinstance(part, Summand) and part.components != components(part):
            yield f"{part} has more numbers"
        grid = part if isinstance(part, Quantizer) else getattr(part, "grid", None)
        if grid is not None and (grid.least, grid.most) != ends_of(grid):
            yield f"{grid} has other ends"


class Derived:
    """What the checker derived of the owners of relations."""

    def __init__(self, found: Mapping[int, Known]) -> None:
        self._found = found

    def one_owner(self, node: Node) -> bool:
        return len(self._found[id(node)].owners) == 1

    def is_split(self, node: Node) -> bool:
        return split_by_entity(node, self._found)

    def owner(self, node: Node) -> str | None:
        found = self._found[id(node)]
        return next(iter(found.owners)) if len(found.owners) == 1 and not found.public else None

    def frequency(self, node: Node, columns: Collection[str]) -> int | None:
        claimed, derived = node.max_frequency([*columns]), self._found[id(node)].frequency(columns)
        return None if claimed is None or derived == math.inf else max(claimed, int(derived))

    def size(self, node: Node, summand: Summand) -> int:
        return max(summand.l1, size(summand, self._found[id(node)].columns))


class Meets:
    """Counts how many rows of a public relation agree; see `checker.Meets`."""

    def __init__(self, reader: Reader, printing: Printing) -> None:
        """`printing` is that of the statement itself, so that the counted rows are the rows it will join."""
        self._reader, self._printing = reader, printing
        self._counted: dict[str, int] = {}

    def __call__(self, relation: Node, columns: tuple[str, ...], present: frozenset[str]) -> int:
        source = fold(relation, lambda node, below: node.render(below, self._printing))
        tests = " AND ".join(f"(t0.{quote(column)} IS NOT NULL)" for column in sorted(present)) or "TRUE"
        groups = " GROUP BY " + ", ".join(f"t0.{quote(column)}" for column in columns) if columns else ""
        counted = f"SELECT COUNT(*) AS \"n\" FROM ({source}) AS t0 WHERE {tests}{groups}"
        query = f"SELECT COALESCE(MAX(t1.\"n\"), 0) FROM ({counted}) AS t1"
        if query not in self._counted:
            try:
                self._counted[query] = int(self._reader.rows(query)[0][0])
            except ReaderFault as fault:
                raise unread(fault) from None
        return self._counted[query]

    def is_pattern(self, text: str) -> bool:
        """Whether the engine accepts a regular expression."""
        query = f"SELECT CAST(regexp_matches('', {literal(text, Type.VARCHAR)}) AS INTEGER)"
        if query not in self._counted:
            try:
                self._counted[query] = len(self._reader.rows(query))
            except ReaderFault as fault:
                if is_interruption(fault):
                    raise unread(fault) from None
                self._counted[query] = 0
        return self._counted[query] == 1

    def forget(self) -> None:
        self._counted.clear()
