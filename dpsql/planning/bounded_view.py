"""The rows a statement asks about, with a limit on what one entity adds; or the refusal that says why there is none."""

from __future__ import annotations

from dpsql.errors import OptionError, Unsupported
from dpsql.frozen import replace
from dpsql.mechanisms.named_bounds import BOUNDS, BY_NAME
from dpsql.planning.frequency_limits import mixed, with_limits
from dpsql.planning.options import Options
from dpsql.questions.question import Question
from dpsql.questions.rules.limit_rows import keep_rows, limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.recognise_degrees import NearlyDegrees, degrees_of
from dpsql.sql.text.refusals import RELEASED_RANK
from dpsql.trusted.plan.certificate import first_unbounded, stabilities, stability
from dpsql.trusted.plan.decompose_join import MOST_RELATIONS, NotDecomposable, decompose_join
from dpsql.trusted.plan.node import Node, PublicFacts, Stability, bottom_up
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.window import RANKS, Window
from dpsql.types import Span

FREQUENCY = "OPTIONS (bound = 'frequency', max_frequency = 10) if no value has more rows than that"


def limited_view(question: Question, options: Options, public: PublicFacts, span: Span | None) -> tuple[Node, Stability]:
    """The rows that a statement reads, with every limit enforced, and their stability. A limit still to be learned is 1 here.
    Rows of growing tables show their periods, from which follows what they cost there.

    Raises Unsupported, located at `span` or at the operator responsible, if there is no bound, and OptionError where an
    option asks for a limit that cannot be enforced.
    """
    view, here = _limited_view(question, options, public, span)
    if all(scan.periods is None for scan in bottom_up(view) if isinstance(scan, Scan)):
        return view, here
    from dpsql.questions.rules.limit_in_periods import show_periods  # loaded only where tables grow

    shown = show_periods(view)
    return (view, here) if shown is view else (shown, stability(shown, public))


def _limited_view(question: Question, options: Options, public: PublicFacts, span: Span | None) -> tuple[Node, Stability]:
    pruned = prune_columns(question.view)
    if options.bound in BY_NAME and BY_NAME[options.bound].decomposes:
        return _apart(limit_rows(pruned, lambda scan: options.max_rows), options.bound, public, span)
    limited = view = limit_rows(pruned)
    known = stabilities(view, public)
    here = known[id(view)]
    if here.public or (here.rows is not None and options.max_rows is None):
        return view, here
    if _told_by_degrees(question, view, here, options, public):
        return view, here
    if options.max_rows is not None and here.owner is not None:
        view = keep_rows(view, options.max_rows, here.owner)
    elif options.max_rows is not None and here.owners and options.bound != "frequency":
        raise OptionError("max_rows needs rows that belong to one entity each", code="bound", subject="max_rows",
                          span=options.span.get("max_rows"), try_="bound = 'balance', or bound = 'extension', clip = 100")
    elif mixed(here, options) or options.max_rows is not None:
        view, _ = with_limits(question, options, public)
    if view is not limited:
        known = stabilities(view, public)
        here = known[id(view)]
    if here.rows is None and (not here.owners or mixed(here, options)):
        alone = {at: _alone(found) for at, found in known.items()}
        if isinstance(first_unbounded(view, alone)[0], Scan) and not here.owners:
            raise _lost(view, known, span)
        raise _unbounded(view, alone, span)
    return view, here


def _told_by_degrees(question: Question, view: Node, here: Stability, options: Options, public: PublicFacts) -> bool:
    """Whether the rows are the degrees of a graph, which can be counted although their stability is unbounded.

    Raises Unsupported if the query is close to that form but not of it, and OptionError where another bound is asked for.
    """
    if here.owners or here.rows is not None or options.bound == "frequency":
        return False
    try:
        graph = degrees_of(view, question.read, public)
    except NearlyDegrees as fault:
        raise Unsupported(str(fault), code="degrees", span=fault.span, try_=fault.try_) from None
    if graph is not None and options.bound != "auto" and not BY_NAME[options.bound].degrees:
        ways = " or ".join(f"bound = '{bound.name}'" for bound in BOUNDS if bound.degrees)
        raise OptionError(f"bound = '{options.bound}' does not apply to degrees of a graph", code="bound",
                          subject="bound", span=options.span.get("bound"), try_=ways)
    return graph is not None


def _apart(view: Node, bound: str, public: PublicFacts, span: Span | None) -> tuple[Node, Stability]:
    """A join in which one entity changes a bounded number of rows of each relation, although not of their join."""
    known = stability(view, public)
    if not known.public:
        try:
            decompose_join(view, public)
        except NotDecomposable as fault:
            raise _not_apart(fault, f"bound = '{bound}'", span) from None
    return view, known


def _not_apart(fault: NotDecomposable, bound: str, span: Span | None) -> Unsupported:
    """Why a join cannot be split into relations with a limit each; located at the operator responsible, or the nearest join."""
    where = getattr(fault.node, "span", None) or (fault.join.span if fault.join is not None else None) or span
    needed = f"{bound} needs a limit of the rows that one entity has in each table"
    scans = [scan for scan in _scans(fault.node) if not scan.table.public and not scan.one_row]
    shared = sorted({scan.table.name for scan in scans if scan.owner is None})
    unlimited = sorted({scan.table.name for scan in scans if scan.owner is not None and scan.table.rows is None})
    if shared:
        return Unsupported(f"{needed}, and a row of {shared[0]} belongs to several entities, so that none of them has a limit of "
                           "its own", code="several-owners", span=where, subject=shared[0],
                           try_="bound = 'balance', bound = 'r2t', or bound = 'extension', clip = 100")
    if unlimited:
        return Unsupported(f"{needed}, and {unlimited[0]} has none", code="no-limit", span=where, subject=unlimited[0],
                           try_=f"max_rows = 10 beside it, or rows_per_entity for {unlimited[0]} in the policy")
    if isinstance(fault.node, Join) and (fault.node.keep_left or fault.node.keep_right):
        return Unsupported(f"{bound} is for inner joins: in an outer join, other rows determine whether a row gets NULLs",
                           code="outer-private", span=where, try_=f"JOIN in place of the outer join, or {FREQUENCY}")
    if fault.relations:
        return Unsupported(f"{bound} evaluates a join without each subset of its relations, and this one has {fault.relations} "
                           f"relations, more than {MOST_RELATIONS}", code="too-many-relations", span=where,
                           try_="bound = 'balance'")
    return Unsupported(f"{bound} needs a limit on what one entity changes in each relation, and here there is none: "
                       f"{fault.because}", code="not-apart", span=where, try_=FREQUENCY)


def _alone(found: Stability) -> Stability:
    """The stability of rows, without owners whose rows have no limit."""
    return found if found.owner is not None else replace(found, owners=())


def _lost(view: Node, known: dict[int, Stability], span: Span | None) -> Unsupported:
    """The refusal where rows of several entities each are turned into rows that depend on other rows."""
    node, _ = first_unbounded(view, known)
    shared = sorted({scan.table.name for scan in _scans(node) if len(known[id(scan)].owners) > 1})
    what = {Join: "a row that this join keeps or duplicates", Lookup: "the result of this test for a row",
            GroupBy: "a group", Window: "the value of these windows in a row"}.get(type(node), "a row here")
    table = " and ".join(shared)
    return Unsupported(f"a row of {table} belongs to several entities, and {what} depends on other rows, so one entity could "
                       "change it for many", code="several-owners", span=getattr(node, "span", None) or span,
                       subject=table, try_=f"inner joins, and COUNT, SUM or AVG of their rows; or an entity that owns each row "
                       f"of {table} alone")


def _unbounded(view: Node, known: dict[int, Stability], span: Span | None) -> Unsupported:
    """Why there is no bound, located at the lowest operator that has none, and what would give one."""
    node, lost = first_unbounded(view, known)
    tables = sorted({scan.table.name for scan in _scans(node) if not scan.table.public})
    keys, where = " and ".join(tables), getattr(node, "span", None) or span
    unlimited = sorted({scan.table.name for scan in _scans(node) if scan.owner is not None and scan.table.rows is None
                        and not scan.one_row})
    limits = f"; and rows_per_entity for {' and '.join(unlimited)} in the policy, or max_rows = 10" if unlimited else ""
    if isinstance(node, Join) and for_subquery(node) and _many(node, known):
        linked = f"a link by the entity's key: WHERE inner.key = outer.key; or {FREQUENCY}"
        return Unsupported("the value of this subquery depends on the rows of many entities, so one of them could change it for "
                           "many rows", code="linked-group", span=where, subject=keys, try_=linked if node.equated else
                           "a subquery without columns of the outer row, whose value is then released first")
    if isinstance(node, Join) and _many(node, known):
        own = "AND the entity's key on both sides: ON a.key = b.key AND a.person = b.person"
        if node.keep_left or node.keep_right:
            return Unsupported(f"this join keeps rows of {keys} without a match, and one entity's rows can match those of "
                               "many others", code="outer-private", span=where, subject=keys,
                               try_=(f"{own}; or {FREQUENCY}" if node.equated else own) + limits)
        return Unsupported(f"one entity's rows of {keys} can match the rows of many others in this join, so there is no bound on "
                           "what it changes", code="many-to-many", span=where, subject=keys,
                           try_="a join along the foreign key to the entity, or " + (
                               f"{own}; or {FREQUENCY}" if node.equated else own) + limits)
    if isinstance(node, Lookup) and known[id(node.listed)].rows is not None and known[id(node.input)].rows is not None:
        return Unsupported("this list depends on private rows, so one of them could change the answer for all others",
                           code="private-list", span=where, subject=keys,
                           try_="a link by the entity's key, so that each row is compared only with rows of its own entity"
                           + (f"; or {FREQUENCY}" if node.looked_up else ""))
    if isinstance(node, Window) and node.reach is None and node.input.max_frequency(node.partition) is None:
        return Unsupported("these windows contain rows of many entities, so one entity could change the result for all others",
                           code="shared-window", span=where, subject=keys,
                           try_="PARTITION BY the entity's key" + limits + f"; or {_in_place_of(node)}")
    if unlimited:
        told = " and ".join(unlimited)
        code = "inner-group" if isinstance(node, GroupBy) else "no-limit"
        lists = (above.listed for above in bottom_up(view) if isinstance(above, Lookup))
        listed = any(below is node for rows in lists for below in bottom_up(rows))
        more = "bound = 'frequency', max_frequency = 10, " if listed else ""  # which a list of private rows needs, too
        return Unsupported(f"each row here depends on the rows of many entities, and the number of rows of {told} that one "
                           "of them has is not limited", code=code, span=where, subject=told,
                           try_=f"OPTIONS ({more}max_rows = 10), or rows_per_entity for {told} in the policy"
                           + ("; or GROUP BY the entity's key too" if isinstance(node, GroupBy) else ""))
    return Unsupported(f"no bound is known on what one entity changes here: {lost.because}", code="unbounded", span=where,
                       subject=keys, try_="the entity's key among the columns of the subquery")


def _in_place_of(node: Window) -> str:
    """What to write instead of a window over rows of many entities."""
    if node.partition:
        return FREQUENCY
    ranked = any(part.function in RANKS or part.function == "count" for part in node.functions)  # a count is a rank, too
    return f"{RELEASED_RANK}, a quantile that is released first" if ranked else "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"


def for_subquery(node: Join) -> bool:
    """Whether the join implements a correlated subquery of aggregates; then join and subquery have the same position in the
    text."""
    return isinstance(node.right, GroupBy) and node.span is not None and node.right.span == node.span


def _many(node: Join, known: dict[int, Stability]) -> bool:
    """Whether a join has no bound because its rows match too many, and not because one entity has too many rows."""
    left, right = known[id(node.left)], known[id(node.right)]
    return (not left.public and not right.public) and (node.right_of_left is None or node.left_of_right is None)


def _scans(node: Node) -> list[Scan]:
    return [node] if isinstance(node, Scan) else [scan for below in node.inputs for scan in _scans(below)]
