"""The rows a statement asks about, with a limit on what one entity adds; or the refusal that says why there is none."""

from __future__ import annotations

from dataclasses import replace

from dpsql.errors import OptionError, Unsupported
from dpsql.options import Options
from dpsql.plan.certificate import first_unbounded, stabilities, stability
from dpsql.plan.node import Node, PublicFacts, Stability
from dpsql.plan.operators.groupby import GroupBy
from dpsql.plan.operators.join import Join
from dpsql.plan.operators.lookup import Lookup
from dpsql.plan.operators.scan import Scan
from dpsql.plan.question import Question
from dpsql.plan.rules.limit_keys import limit_keys
from dpsql.plan.rules.limit_rows import keep_rows, limit_rows
from dpsql.plan.rules.prune_columns import prune_columns
from dpsql.types import Span

FREQUENCY = "OPTIONS (bound = 'frequency', max_frequency = 10)"


def limited_view(question: Question, options: Options, public: PublicFacts, span: Span | None) -> tuple[Node, Stability]:
    """The rows that are asked about, with all limits enforced, and their stability.

    Raises Unsupported, located at `span` or at the operator responsible, where no bound can be found, and OptionError where rows
    cannot be limited as an option wants.
    """
    pruned = prune_columns(question.view)
    view = limit_rows(pruned)
    here = stability(view, public)
    if here.public:
        return view, here
    if options.max_rows is not None and here.owner is not None:
        view = keep_rows(view, options.max_rows, here.owner)
    elif options.max_rows is not None and here.owners and options.bound != "frequency":
        raise OptionError("max_rows needs rows that belong to one entity each", code="bound", subject="max_rows",
                          span=options.span.get("max_rows"), try_="bound = 'balance', or bound = 'extension', clip = 100")
    elif options.max_rows is not None:
        view = limit_rows(pruned, options.max_rows)
    if options.bound == "frequency" or (here.rows is None and not here.owners):
        view = limit_keys(view, public, lambda meeting: _frequency(options, meeting.declared))
    known = stabilities(view, public)
    here = known[id(view)]
    if here.rows is None and (not here.owners or (options.bound == "frequency" and here.owner is None)):
        raise _unbounded(view, {at: _alone(found) for at, found in known.items()}, span)
    return view, here


def _frequency(options: Options, declared: int | None) -> int | None:
    """The most rows of each value of a key: what is declared, and what the statement asks for, whichever is less."""
    given = [declared, options.max_frequency if options.bound == "frequency" else None]
    return min((most for most in given if most is not None), default=None)


def _alone(found: Stability) -> Stability:
    """What is known of rows, without owners that do not limit them."""
    return found if found.owner is not None else replace(found, owners=())


def _unbounded(view: Node, known: dict[int, Stability], span: Span | None) -> Unsupported:
    """Why there is no bound, at the lowest operator that has none, and what would give one."""
    node, lost = first_unbounded(view, known)
    tables = sorted({scan.table.name for scan in _scans(node) if not scan.table.public})
    keys, where = " and ".join(tables), getattr(node, "span", None) or span
    unlimited = sorted({scan.table.name for scan in _scans(node) if scan.owner is not None and scan.table.rows is None
                        and not scan.one_row})
    limits = f"; and rows_per_entity for {' and '.join(unlimited)} in the policy, or max_rows = 10" if unlimited else ""
    if isinstance(node, Join) and _linked(node) and _many(node, known):
        return Unsupported("the value of this subquery rests on the rows of many entities, so one of them could change it for many "
                           "rows", code="linked-group", span=where, subject=keys, try_="a link by the entity's key: WHERE inner.key "
                           f"= outer.key; or {FREQUENCY}" if node.equated else "a subquery without columns of the row around it, "
                           "whose value is then released first")
    if isinstance(node, Join) and _many(node, known):
        own = "AND the entity's key on both sides: ON a.key = b.key AND a.person = b.person"
        if node.keep_left or node.keep_right:
            return Unsupported(f"this join keeps a row of {keys} where none meets it, and one entity's rows can meet the rows of "
                               "many others", code="outer-private", span=where, subject=keys,
                               try_=(f"{own}; or {FREQUENCY}" if node.equated else own) + limits)
        return Unsupported(f"one entity's rows of {keys} can meet the rows of many others in this join, so there is no bound on "
                           "what it changes", code="many-to-many", span=where, subject=keys,
                           try_="a join along the foreign key to the entity, or " + (
                               f"{own}; or {FREQUENCY}" if node.equated else own) + limits)
    if isinstance(node, Lookup) and known[id(node.listed)].rows is not None and known[id(node.input)].rows is not None:
        return Unsupported("a list that depends on private rows could change the answer for everybody", code="private-list",
                           span=where, subject=keys, try_="a link by the entity's key, so that each row looks among its own "
                           "entity's rows" + (f"; or {FREQUENCY}" if node.looked_up else ""))
    if unlimited:
        told = " and ".join(unlimited)
        code = "inner-group" if isinstance(node, GroupBy) else "no-limit"
        return Unsupported(f"rows here rest on those of many entities, and how many rows of {told} one of them has is not limited",
                           code=code, span=where, subject=told,
                           try_=f"OPTIONS (max_rows = 10), or rows_per_entity for {told} in the policy"
                           + ("; or GROUP BY the entity's key too" if isinstance(node, GroupBy) else ""))
    return Unsupported(f"no bound is known on what one entity changes here: {lost.because}", code="unbounded", span=where,
                       subject=keys, try_="the entity's key among the columns of the subquery")


def _linked(node: Join) -> bool:
    """Whether the join stands for a subquery of aggregates that is linked to the rows around it: both stand at one place."""
    return isinstance(node.right, GroupBy) and node.span is not None and node.right.span == node.span


def _many(node: Join, known: dict[int, Stability]) -> bool:
    """Whether it is for the rows that meet that a join has no bound, and not for the rows of one entity alone."""
    left, right = known[id(node.left)], known[id(node.right)]
    return (not left.public and not right.public) and (node.right_of_left is None or node.left_of_right is None)


def _scans(node: Node) -> list[Scan]:
    return [node] if isinstance(node, Scan) else [scan for below in node.inputs for scan in _scans(below)]
