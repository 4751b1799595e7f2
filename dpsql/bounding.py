"""The rows a statement asks about, with a limit on what one entity adds; or the refusal that says why there is none."""

from __future__ import annotations

from dpsql.errors import Unsupported
from dpsql.options import Options
from dpsql.plan.certificate import first_unbounded, stabilities
from dpsql.plan.node import Node, PublicFacts, Stability
from dpsql.plan.operators.join import Join
from dpsql.plan.operators.scan import Scan
from dpsql.plan.question import Question
from dpsql.plan.rules.limit_rows import keep_rows, limit_rows
from dpsql.plan.rules.prune_columns import prune_columns
from dpsql.types import Span


def limited_view(question: Question, options: Options, public: PublicFacts, span: Span | None) -> tuple[Node, Stability]:
    """The rows that are asked about, with all limits enforced, and their stability.

    Raises Unsupported, located at `span` or at the join responsible, where no bound can be found.
    """
    view = limit_rows(prune_columns(question.view))
    known = stabilities(view, public)
    here = known[id(view)]
    if options.max_rows is not None and here.owner is not None and not here.public:
        view = keep_rows(view, options.max_rows, here.owner)
        return view, stabilities(view, public)[id(view)]
    if not here.owners and here.rows is None:
        raise _unbounded(view, known, span)
    return view, here


def _unbounded(view: Node, known: dict[int, Stability], span: Span | None) -> Unsupported:
    node, lost = first_unbounded(view, known)
    tables = sorted({scan.table.name for scan in _scans(node) if not scan.table.public})
    if isinstance(node, Join):
        where = node.span or span
        keys = " and ".join(tables)
        if node.keep_left and known[id(node.left)].public:
            return Unsupported(f"this join keeps the rows of a public table, so whether they meet a row of {keys} would show",
                               code="outer-public", span=where, subject=keys,
                               try_=f"{tables[-1]} on the kept side: FROM {tables[-1]} LEFT JOIN ..., or an inner join")
        if node.keep_left:
            return Unsupported(f"this join keeps a row of {keys} where none meets it, so each row depends on the rows of others",
                               code="outer-private", span=where, subject=keys,
                               try_="JOIN in place of LEFT JOIN, or AND the entity's key on both sides")
        return Unsupported(f"one entity's rows of {keys} can meet the rows of many others in this join, so there is no bound on "
                           "what it changes", code="many-to-many", span=where, subject=keys,
                           try_="a join along the foreign key to the entity, or AND the entity's key on both sides: "
                           "ON a.key = b.key AND a.person = b.person")
    return Unsupported(f"no bound is known on what one entity changes here: {lost.because}", code="unbounded", span=span,
                       subject=", ".join(tables), try_="the entity's key among the columns of the subquery")


def _scans(node: Node) -> list[Scan]:
    return [node] if isinstance(node, Scan) else [scan for below in node.inputs for scan in _scans(below)]
