"""The sensitivity of a plan to one entity, derived a second time: no claim that an operator makes about itself is used here.

Only the fields of a plan's frozen values are read, as `shapes` knows them; what is unknown there has no bound. `claims`
compares the result with what the operators claim.

The following is derived for each relation. *Rows agree* on columns whose values are `=` or both NULL; so NaN agrees with NaN,
and -0.0 with 0.0.

  rows         the largest number of rows (as a multiset) that are added or removed with one entity
  owners       removing an entity removes exactly the rows that name it in one of these columns, and changes no other row
  frequencies  for sets of columns, the largest number of rows that agree on all of them, in any database
  norm         a bound on the norm of the vector of values, in some columns, of all rows that are added or removed with an entity

Numbers are integers, or infinite where there is no bound.

Rows *move* when they are added or removed. Two laws hold for every relation. (1) With owners o, p, ... the rows that move name
the entity in one of them, so there are at most frequency(o) + frequency(p) + ... (2) A relation that reads a private table is
private: it counts as moving by at least one row, whatever it contains; one that reads none is public, and does not move.

Grouping must not make different values equal, or rows that differed would agree. The SQL replaces each value by a settled form
when rows are grouped (`settled`). For numbers that form is `=` to the value; for other types where it may be a different value,
neither frequencies nor owners of such columns survive a grouping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from dpsql.frozen import Frozen, replace
from dpsql.trusted.kernel import shapes
from dpsql.trusted.kernel.shapes import Columns, columns_of, equated, grouping, inputs, keys_of, limited, reach, require, size

Some: TypeAlias = frozenset[str]
Number: TypeAlias = float
Meets: TypeAlias = Callable[[shapes.Node, tuple[str, ...], Some], int]
"""The largest number of rows of a public relation that agree on some columns, not counting rows with a NULL in one of the last
ones."""


class Known(Frozen):
    """The facts derived for a relation; see above."""

    columns: Columns
    rows: Number = math.inf
    owners: Some = frozenset()
    frequencies: Mapping[Some, Number]
    norm: shapes.Norm | None = None
    public: bool = False

    def __post_init__(self) -> None:
        require(self.rows >= 0 and all(rows >= 1 for rows in self.frequencies.values()))

    def frequency(self, of: Collection[str]) -> Number:
        return min((rows for agreed, rows in self.frequencies.items() if agreed <= set(of)), default=math.inf)

    def unlike(self, of: Collection[str]) -> bool:
        """Whether no two rows agree on these columns."""
        return self.frequency(of) <= 1

    def kept(self, names: Mapping[str, str]) -> dict[Some, Number]:
        """The frequencies that involve only the given columns, under new names."""
        return {frozenset(names[name] for name in agreed): rows for agreed, rows in self.frequencies.items()
                if agreed <= names.keys()}

    def named(self, names: Iterable[str]) -> Known:
        """The same with all columns renamed, in order."""
        new = dict(zip(self.columns, names, strict=True))
        return replace(self, columns={new[name]: column for name, column in self.columns.items()}, norm=None,
                       owners=frozenset(new[owner] for owner in self.owners), frequencies=self.kept(new))


class Checked(Frozen):
    """The facts derived for the input of a summary and the relations below it; the sensitivity of its sums in the l1 and l2
    norms; and whether an entity's rows are all in different cells."""

    below: Known
    relations: Mapping[int, Known]
    sums: tuple[tuple[Number, Number], ...] = ()
    disjoint_cells: bool = False


def check(plan: Any, meets: Meets, found: dict[int, Known] | None = None) -> Checked:
    """Derive the sensitivity of a summary; `found` is the same as in `known`. Raises Malformed if a plan is not a summary of a
    known kind.

    Proof, sums. Each row that moves adds a vector of a known l1 norm to one cell: rows * norm by the triangle inequality, in the
    l2 norm too. Where the rows of an entity, which move together, are in different cells, these vectors are orthogonal, and
    the square of the l2 norm is rows * norm^2. *Clipped* columns move by the vector whose norm is bounded; adding up entries
    of one cell does not increase an l1 norm but can increase an l2 norm, for which an entity's rows must therefore be in
    different cells.
    """
    require(type(plan) in shapes.SUMMARIES)
    relations = {} if found is None else found
    below = known(plan.input, meets, relations)
    shapes.check_summary(plan, below.columns)
    if not isinstance(plan, shapes.GroupedSums):
        return Checked(below=below, relations=relations)
    disjoint_cells = len(below.owners) == 1 and below.unlike(shapes.told_apart(below.columns, {*plan.keys, *below.owners}))
    sums = tuple(_moved(part, below, disjoint_cells) for part in plan.summands)
    return Checked(below=below, relations=relations, disjoint_cells=disjoint_cells, sums=sums)


def _moved(part: shapes.Summand, below: Known, disjoint_cells: bool) -> tuple[Number, Number]:
    if isinstance(part, shapes.Clipped):
        norm = below.norm
        if norm is None or not set(part.clipped) <= set(norm.columns) or (norm.order == 2 and not disjoint_cells):
            return math.inf, math.inf
        return norm.bound if norm.order == 1 else math.inf, norm.bound
    each = size(part, below.columns)
    most = _times(below.rows, each)
    return most, math.isqrt(max(0, int(most) * each - 1)) + 1 if disjoint_cells and most < math.inf else most


def known(node: shapes.Node, meets: Meets, found: dict[int, Known]) -> Known:
    """The facts derived for a relation and those below it; all are added to `found` by the identity of the relation."""
    if id(node) not in found:
        below = [known(part, meets, found) for part in inputs(node)]
        columns = columns_of(node, [part.columns for part in below])
        counts = {"meets": meets} if isinstance(node, shapes.Join | shapes.Lookup) else {}
        made = RULES[type(node)](node, columns, *below, **counts)
        if made.public or (below and all(part.public for part in below)):
            made = replace(made, rows=0, owners=frozenset(), norm=None, public=True)
        else:
            rows = max(1, min(made.rows, sum(made.frequency([owner]) for owner in made.owners) if made.owners else math.inf))
            made = made if rows == made.rows else replace(made, rows=rows)
        found[id(node)] = made
    return found[id(node)]


# -- relations: each is derived from its fields, its columns and what is known of its inputs


def _scan(node: shapes.Scan, columns: Columns) -> Known:
    """Removing an entity removes the rows whose owner is its name; owners are not NULL. No two rows agree on a key."""
    keys = dict.fromkeys(keys_of(node), 1)
    return Known(columns=columns, owners=frozenset(node.owners), frequencies=keys, public=node.table.public)


def _constants(node: shapes.Constants, columns: Columns) -> Known:
    return Known(columns=columns, frequencies={frozenset(): len(node.rows)}, public=True)


def _filter(node: shapes.Filter, columns: Columns, below: Known) -> Known:
    """Each row is kept or not on its own. Rows that agree on all columns except n can differ in n only by the values of n that
    the filter allows."""
    found = dict(below.frequencies)
    for name, left in limited(node.condition, below.columns).items():
        if math.isfinite(further := left.high - left.low):  # infinite where an end is
            ways = max(1, int(further) + 1)
            found = _fewest(found, {agreed - {name}: rows * ways for agreed, rows in found.items() if name in agreed})
    return replace(below, columns=columns, frequencies=found)


def _project(node: shapes.Project, columns: Columns, below: Known) -> Known:
    """One output row for each input row. Columns passed through unchanged keep their derived facts."""
    passed = {expr.column: name for name, _, expr in reversed(node.columns) if isinstance(expr, shapes.Ref)}
    owners = frozenset(passed[owner] for owner in below.owners) if below.owners <= passed.keys() else frozenset()
    norm = below.norm if below.norm is not None and set(below.norm.columns) <= passed.keys() else None
    norm = norm and replace(norm, columns=tuple(passed[column] for column in norm.columns))
    return Known(columns=columns, rows=below.rows, owners=owners, frequencies=below.kept(passed), norm=norm, public=below.public)


def _group_by(node: shapes.Grouping, columns: Columns, below: Known) -> Known:
    """Rows of a group agree on its keys and, where the owners are keys, name the same owners: the group is removed with them.
    Otherwise a row that moves changes one group. Without aggregates the group appears or disappears; with them it is replaced by
    another, which counts as two rows, or as one where no two rows share a group. No more groups can go, or come, than can
    exist."""
    keys, aggregates = grouping(node, columns)
    told = shapes.told_apart(below.columns, keys)
    found = _fewest(below.kept(told), {frozenset(keys): 1})
    owned = bool(below.owners) and below.owners <= told.keys()
    times = 1 if owned or not aggregates or (keys and below.unlike(told)) else 2
    return Known(columns=columns, rows=min(times * below.rows, 2 * found.get(frozenset(), math.inf)),
                 owners=below.owners if owned else frozenset(), frequencies=found)


def _join(node: shapes.Join, columns: Columns, left: Known, right: Known, meets: Meets) -> Known:
    """Write a, b for the numbers of left and right rows that move, m for the most right rows that match a left one, n for the
    converse, and l, r for 1 where unmatched left, right rows are kept, else 0. Let rows move one by one, removed rows first.

    Rows. A left row that is added makes at most m pairs, or is padded itself, and replaces at most m padded right rows: at most
    a max(l, m (1 + r)) rows move; likewise b max(r, n (1 + l)). With `bare` only the kept side is shown: a pair looks like the
    padded row that it replaces, so the l or r in 1 + l, 1 + r is 0. Public rows do not move, and are counted: those with a NULL
    compared by `=` match nothing, while under IS NOT DISTINCT FROM a NULL matches every NULL.

    Rows of one entity. Where the single left owner equals the single right owner in all pairs, an entity's rows match only its
    own: m <= b, n <= a, and P <= min(a m, b n) pairs, which contain at least P / m left and P / n right rows. So at most
    P + l (a - P / m) + r (b - P / n) rows move, which is linear in P and so largest at an end.

    Owners. A pair is removed with an owner of either row. A kept row that stays must not lose partners, so every owner of the
    other side must equal one of its own. Kept public rows have no owner.

    Frequencies. A row occurs in as many pairs as it has partners; padded columns are NULL in any number of rows. If of x left and
    y right rows that agree on merged columns, i and j are in pairs, there are i j + x - i + y - j rows, largest at an end.
    """
    l, r, shown = int(node.keep_left), int(node.keep_right), int(not node.bare)  # noqa: E741
    pairs = equated(node.condition, left.columns, right.columns)
    ours, theirs = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    present = frozenset(name for pair, strict in pairs.items() if strict for name in pair)
    m, n = right.frequency(theirs), left.frequency(ours)
    x, y = left.frequency([made.left for made in node.merged]), right.frequency([made.right for made in node.merged])
    found = _fewest({frozenset(made.id for made in node.merged): max(x * y, x + y)} if node.merged else {},
                    {} if r else {agreed: rows * max(m, l) for agreed, rows in left.frequencies.items()},
                    {} if l else {agreed: rows * max(n, r) for agreed, rows in right.frequencies.items()})
    if right.public and not left.public and m > 1:
        m = min(m, meets(node.right, theirs, present & right.columns.keys()))
    if left.public and not right.public and n > 1:
        n = min(n, meets(node.left, ours, present & left.columns.keys()))
    moved = sum(_times(side.rows, max(kept, partners * (1 + others * shown)))
                for side, partners, kept, others in ((left, m, l, r), (right, n, r, l)) if not side.public)
    same = {(a, b) for a, b in pairs if a in left.owners and b in right.owners}
    own = _own(left.rows, right.rows, m, n, l, r) if same and len(left.owners) == len(right.owners) == 1 else math.inf
    return Known(columns=columns, rows=min(moved, own), owners=_owners(node, left, right, same),
                 frequencies={agreed: rows for agreed, rows in found.items() if agreed <= columns.keys()})


def _own(a: Number, b: Number, m: Number, n: Number, l: int, r: int) -> Number:  # noqa: E741
    m, n = min(m, b), min(n, a)
    most, padded = min(_times(a, m), _times(b, n)), (a if l else 0) + (b if r else 0)
    if math.inf in (m, n, most, padded) or not m or not n:
        return math.inf
    return padded + max(0, math.floor(most * (1 - l / Fraction(m) - r / Fraction(n))))


def _owners(node: shapes.Join, left: Known, right: Known, same: set[tuple[str, str]]) -> Some:
    if left.public or right.public:
        kept, side = (node.keep_left, right) if left.public else (node.keep_right, left)
        return frozenset() if kept else side.owners
    ours, theirs = left.owners - {pair[0] for pair in same}, right.owners - {pair[1] for pair in same}
    if not left.owners or not right.owners or (node.keep_left and theirs) or (node.keep_right and ours):
        return frozenset()
    if not (node.keep_left and node.keep_right):
        return right.owners if node.keep_right else left.owners | theirs
    made = [merged for merged in node.merged if (merged.left, merged.right) in same]
    whole = left.owners == {merged.left for merged in made} and right.owners == {merged.right for merged in made}
    return frozenset(merged.id for merged in made) if whole else frozenset()


def _lookup(node: shapes.Lookup, columns: Columns, below: Known, listed: Known, meets: Meets) -> Known:
    """The mark of a row depends on that row alone if the list is public, and on listed rows of the row's own entities if every
    owner of these is looked up under an owner of the row. Otherwise a listed row that moves flips the marks of the rows that
    agree with it: they come or go if only one mark is kept, and otherwise change, which counts twice."""
    told = [(expr.column, column) for expr, column in node.keys if isinstance(expr, shapes.Ref)]
    if listed.public or (listed.owners and listed.owners <= {column for ours, column in told if ours in below.owners}):
        return replace(below, columns=columns)
    ours = tuple(ours for ours, _ in told)
    n = below.frequency(ours)
    if below.public and n > 1:
        n = min(n, meets(node.input, ours, frozenset(ours)))
    turned = _times(listed.rows, n * (2 if node.keep is None else 1))
    return Known(columns=columns, rows=below.rows + turned, frequencies=below.frequencies)


def _union_all(node: shapes.UnionAll, columns: Columns, *parts: Known) -> Known:
    """Rows that move, and rows that agree, add up over the parts. There are owners where all parts have them in the same
    positions."""
    sides = [part.named(columns) for part in parts]
    sums = {agreed: sum(side.frequency(agreed) for side in sides) for side in sides for agreed in side.frequencies}
    owners = sides[0].owners if len({side.owners for side in sides}) == 1 else frozenset[str]()
    return Known(columns=columns, rows=sum(side.rows for side in sides), owners=owners, frequencies=sums)


def _set_operation(node: shapes.SetOperation, columns: Columns, left: Known, right: Known) -> Known:
    """A row that occurs i times left and j times right occurs min(i, j) or max(i - j, 0) times, or once instead: at most as many
    rows move as left and right together. All copies of a row name the same owners. INTERSECT: a row is removed as soon as its
    copies on one side are, so it has the owners of both, and no more rows are removed than on a side that names all these.
    EXCEPT: an entity that removes a row on the right must remove it on the left too, or it would appear in the result."""
    a, b = left.named(columns), right.named(columns)
    told, rows, owners = shapes.told_apart(a.columns, columns), a.rows + b.rows, frozenset[str]()
    if node.kind == "intersect" and (a.owners or a.public) and (b.owners or b.public) and a.owners | b.owners <= told.keys():
        owners = a.owners | b.owners
        rows = min([rows, *(side.rows for side in (a, b) if side.owners == owners and owners)])
    if node.kind == "except" and a.owners and (b.public or (b.owners and b.owners <= a.owners)) and a.owners <= told.keys():
        owners, rows = a.owners, a.rows
    return Known(columns=columns, rows=rows, owners=owners, frequencies=_fewest(
        a.kept(told), b.kept(told) if node.kind == "intersect" else {}, {} if node.all else {frozenset(columns): 1}))


def _truncate(node: shapes.Truncate | shapes.TruncateKeys, columns: Columns, below: Known) -> Known:
    """Which rows of a group stay depends only on the group and a secret, as tied rows are equal: so only on the group's own
    entities if all owners are keys. Otherwise, where rows are kept by their order, a row that moves changes itself and at most
    one other, which takes its place or gives it up; how a `Truncate` spreads rows also depends on how many there are."""
    group = (node.owner,) if isinstance(node, shapes.Truncate) else node.keys
    found = _fewest(below.frequencies, {frozenset(group): node.rows})
    whole = _in_order(below, node.order or group, group)
    if whole and below.owners and below.owners <= set(group):
        return replace(below, frequencies=found)
    first = whole and isinstance(node, shapes.TruncateKeys)
    return Known(columns=columns, rows=2 * below.rows if first else math.inf, frequencies=found)


def _numbers(node: shapes.Numbers, columns: Columns, below: Known) -> Known:
    """A value of n rows appears with the numbers 1 to n: as many rows move as in the input, and they have no owner."""
    found = _fewest(below.kept(shapes.told_apart(below.columns, node.keys)), {frozenset(columns): 1})
    return Known(columns=columns, rows=below.rows, frequencies=found)


def _window(node: shapes.Window, columns: Columns, below: Known) -> Known:
    """The values of a row depend on its partition. (1) If all its rows have the same entities, or it is one row, it is removed
    with them. Otherwise let one row move at a time. (2) If a partition has at most m rows: m are removed, m - 1 added. (3) If
    each function reads f rows before and g after: the f rows after the one that moves and the g before it change, which counts
    twice."""
    ranked = [part.id for part in node.functions if part.function == "row_number"]
    found = _fewest(below.frequencies, {frozenset((*node.partition, name)): 1 for name in ranked})
    if not _in_order(below, node.ties, (*node.partition, *(term.column for term in node.order))):
        return Known(columns=columns, frequencies=found)
    if (below.owners and below.owners <= set(node.partition)) or below.unlike(node.partition):
        return replace(below, columns=columns, frequencies=found)
    back, ahead = (max(ends) for ends in zip(*map(reach, node.functions), strict=True))
    most = min(1 + 2 * (back + ahead), 2 * below.frequency(node.partition) - 1)
    return Known(columns=columns, frequencies=found, rows=_times(below.rows, most))


def _clip(node: shapes.Clip, columns: Columns, below: Known) -> Known:
    """The vector of each entity is scaled by a factor that depends only on its own rows; the entity's name is not part of the
    vector."""
    kept = below.kept({name: name for name in columns if name not in node.columns})
    if below.owners != {node.owner}:
        return Known(columns=columns, frequencies=kept)
    norm = shapes.Norm(order=node.order, bound=node.bound, columns=node.columns)
    return replace(below, columns=columns, frequencies=kept, norm=norm)


RULES: Mapping[type, Callable[..., Known]] = {
    shapes.Scan: _scan, shapes.Constants: _constants, shapes.Filter: _filter, shapes.Project: _project, shapes.Join: _join,
    shapes.GroupBy: _group_by, shapes.Distinct: _group_by, shapes.Contributions: _group_by, shapes.Norms: _group_by,
    shapes.Lookup: _lookup, shapes.UnionAll: _union_all, shapes.SetOperation: _set_operation, shapes.Window: _window,
    shapes.Truncate: _truncate, shapes.TruncateKeys: _truncate, shapes.Numbers: _numbers, shapes.Clip: _clip}


def _in_order(below: Known, order: Iterable[str], grouped: Iterable[str]) -> bool:
    """Whether rows of a group that tie in an order are equal in every column; zeros of different sign are not equal."""
    ordered, groups = set(order), set(grouped)
    equal = {name for name in groups if below.columns[name].type is not shapes.Type.DOUBLE}
    return below.columns.keys() <= ordered | equal or below.unlike(ordered | groups)


# -- numbers


def _times(x: Number, y: Number) -> Number:
    """A product in which zero times infinity is infinite: no bound stays no bound."""
    return math.inf if math.inf in (x, y) else x * y


def _fewest(*given: Mapping[Some, Number]) -> dict[Some, Number]:
    """The tightest of several sets of frequencies, all of which hold."""
    return {agreed: min(part[agreed] for part in given if agreed in part) for every in given for agreed in every}
