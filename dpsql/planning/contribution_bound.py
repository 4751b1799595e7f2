"""How an entity's contribution to a statement's sums is bounded, and why; or why the bound that was named cannot be used.

The choice rests on public facts: whom rows belong to, the declared limits, the options, the aggregates. Where each row belongs to
one entity and nothing limits the rows, scaling totals down to a learned limit has less error than leaving out rows, and less
than bands, levels and races (`tests/bench/tpch.py`); so rows are limited only for aggregates that are not sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.mechanisms.named_bounds import BOUNDS, BY_NAME, Bound
from dpsql.planning.declared_rows import declared_rows
from dpsql.planning.groups import not_listed
from dpsql.planning.options import SPEED, Options
from dpsql.planning.slack_ranges import is_slack
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules.modes import candidates
from dpsql.trusted.plan.node import Node, Stability

TOTALS = ("clip", "reservoir", "bands")
MANY_ROWS = 16  # if the policy allows an entity this many rows, sums and quantiles learn a smaller limit
MOST_CELLS = 1000  # for bounds that solve a problem of its own for every cell


class ContributionBound(Frozen):
    """A bound, and the reason for it."""

    bound: Bound
    because: str


PUBLIC = ContributionBound(bound=BY_NAME["rows"], because="public rows need no limit")
WHOLE = ContributionBound(bound=BY_NAME["rows"], because="the limit that was learned is not worth the intervals that it opens")


class BoundedQuestion(Frozen):
    """What a question asks, of which rows, and how contributions to it are bounded: all that its parts and their tasks depend on.

    view     the rows that are asked about, with declared limits and `max_rows` enforced
    known    the stability of the view
    decided  the bound on what an entity adds to sums, and the reason for it
    groups   in how many undeclared groups an entity counts
    """

    question: Question
    options: Options
    view: Node
    known: Stability
    decided: ContributionBound
    groups: int = 1

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key.column for key in self.question.keys)

    @property
    def owner(self) -> str:
        assert self.known.owner is not None
        return self.known.owner

    @property
    def bound(self) -> Bound:
        return self.decided.bound


def decided(question: Question, options: Options, known: Stability, searched: Sequence[str], cells: int, *,
            complete: bool) -> ContributionBound:
    """The bound for the sums over a private view; `complete` says that no declared limit leaves out rows of it. Raises
    OptionError, located, if the named bound cannot be used."""
    if options.bound == "auto":
        found = _automatic(question, options, known, searched, complete=complete)
    else:
        found = ContributionBound(bound=BY_NAME[options.bound], because="asked for")
        _check_ownership(found.bound, options, known)
    if question.minimum is not None and found.bound.about:
        raise OptionError(f"{question.minimum}, decided by counts with a known error; with bound = "
                          f"'{found.bound.name}' it is not", code="minimum-frequency", subject="bound",
                          span=options.span.get("bound"), try_="the statement without it")
    declared = found.bound.name == "extension" and (known.rows or declared_rows(question.view)) is not None
    check_options(found.bound, options, met=("clip",) if declared else ())
    if found.bound.each and options.bound != "auto":
        _check_aggregates(found.bound, question.aggregates, shared=known.owner is None and bool(known.owners))
    elif found.bound.name == "clip":
        _check_clip(question, known, searched)
    if found.bound.name in TOTALS and _of_one(question, known):
        raise OptionError("each group is one entity here, so an entity has no total over several groups to limit", code="bound",
                          subject="bound", span=question.keys[0].span, try_="bound = 'rows'")
    if found.bound.each and searched and known.rows is None:
        column = question.view.field(searched[0]).name
        raise OptionError(f"a search for the bounds of {column} needs a limit on rows", code="no-bounds", subject=column,
                          span=next(call.span for call in question.aggregates if searched[0] in call.columns),
                          try_=f"bounds = [low, high] for the column in the policy, or LEAST(GREATEST({column}, 0), 1000)")
    hidden = [key for key in question.keys if key.domain is None]
    if hidden and known.owner is not None and found.bound.mechanism is not None and found.bound.name != "bands":
        raise OptionError(f"bound = '{found.bound.name}' computes every group by itself, and {not_listed(question, hidden[0])}",
                          code="bound", subject="bound", span=hidden[0].span,
                          try_="values = [...] for the column in the policy; or bound = 'clip' where rows have one owner")
    cells *= max((len(candidates(call)) for call in question.aggregates if call.aggregate.kind is Kind.MODE), default=1) or 1
    if found.bound.mechanism is not None and cells > MOST_CELLS:
        raise OptionError(f"bound = '{found.bound.name}' computes every group by itself, and there are {cells}, more than "
                          f"{MOST_CELLS}", code="too-many-groups", subject="bound", span=question.keys[-1].span,
                          try_="fewer or coarser keys")
    if found.bound.name == "bands" and question.keys and options.max_groups is None and known.rows is None:
        raise _fail(options, "bound", "bound = 'bands' with groups needs a limit on the number of groups that one entity is in",
                    "bound = 'bands', max_groups = 4")
    return found


def _automatic(question: Question, options: Options, known: Stability, searched: Sequence[str], *,
               complete: bool) -> ContributionBound:
    if options.clip is not None and known.owners:
        name = "clip" if known.owner is not None else "extension"
        return ContributionBound(bound=BY_NAME[name], because="clip is the limit")
    if options.prefer == SPEED and known.rows is not None:
        return ContributionBound(bound=BY_NAME["rows"], because=f"one entity has at most {known.rows} of these rows, and with "
                                 "prefer = 'speed' no limit is learned beside a declared one")
    if _is_heavy(question, options, known, searched):
        return ContributionBound(bound=BY_NAME["clip"], because=f"an entity may have {known.rows} of these rows, each at its "
                                 "bound, and totals that are scaled down to a learned limit need far less noise")
    if _is_slack(question, options, known, searched):
        return ContributionBound(bound=BY_NAME["clip"], because="hardly any difference of two columns is as large as their "
                                 "declared ranges allow, and totals that are scaled down to a learned limit need far less noise")
    if not complete and _is_spread(question, options, known):
        return ContributionBound(bound=BY_NAME["clip"], because=f"an entity may have {known.rows} of these rows, hardly all in "
                                 "one group, and numbers that are scaled down to a learned limit need less noise")
    if known.rows is not None:
        return ContributionBound(bound=BY_NAME["rows"], because=f"one entity has at most {known.rows} of these rows")
    if known.owner is None and not question.keys and (rows := declared_rows(question.view)) is not None and not _summed(question):
        return ContributionBound(bound=BY_NAME["extension"],
                                 because=f"the policy declares that at most {rows} rows name one entity")
    if known.owner is None:
        return ContributionBound(bound=BY_NAME["balance"],
                                 because="a row belongs to several entities, so no row can be left out for one of "
                                 "them alone; of the ways to limit sums to a level, this has the smallest error")
    others = _others(question, known)
    if others or searched:
        what = call_in_words(others[0]) if others else "a search for bounds"
        return ContributionBound(bound=BY_NAME["rows"], because=f"{what} needs a limit on rows")
    if not any(call.aggregate.summed for call in question.aggregates):
        return ContributionBound(bound=BY_NAME["rows"], because="each entity counts once")
    if _of_one(question, known):
        return ContributionBound(bound=BY_NAME["rows"], because="each group is one entity, whose total is the answer")
    if _counts_by_groups(question) and _is_pure(options):
        return ContributionBound(bound=BY_NAME["rows"], because="a few rows in each of several groups cannot be scaled down, as "
                                 "they are whole numbers, and leaving out rows loses no more")
    return ContributionBound(bound=BY_NAME["clip"],
                             because="nothing limits an entity's rows here, and totals that are scaled down lose "
                             "less than rows that are left out")


def _is_heavy(question: Question, options: Options, known: Stability, searched: Sequence[str]) -> bool:
    """Whether the policy allows an entity so many rows, each at its bound, that hardly any entity has such a total."""
    many = known.owner is not None and (known.rows or 0) >= MANY_ROWS and options.max_rows is None
    summed = any(_adds_values(call) for call in question.aggregates)
    return many and summed and not (searched or _others(question, known) or _of_one(question, known))


def _is_slack(question: Question, options: Options, known: Stability, searched: Sequence[str]) -> bool:
    """Whether the statement asks only for totals, of columns whose declared range is likely far wider than their values."""
    return known.owner is not None and options.max_rows is None and not searched and not _of_one(question, known) and (
        all(key.domain is not None for key in question.keys)) and bool(question.aggregates) and all(
        _adds_values(call) and is_slack(question.view, call.columns[0]) for call in question.aggregates)


def _is_spread(question: Question, options: Options, known: Stability) -> bool:
    """Whether the l2 norm of an entity's numbers of rows is likely far below the number that the policy allows. Where intervals
    are open in any case, a limit on it makes none worse."""
    many = known.owner is not None and (known.rows or 0) >= MANY_ROWS and options.max_rows is None
    of_rho = options.price is not None and options.price.rho is not None
    return many and of_rho and _counts_by_groups(question) and not _of_one(question, known)


def _counts_by_groups(question: Question) -> bool:
    """Whether the statement asks only for numbers of rows, by groups that are declared."""
    return bool(question.keys) and all(key.domain is not None for key in question.keys) and all(
        call.aggregate.kind is Kind.COUNT for call in question.aggregates)


def _is_pure(options: Options) -> bool:
    """Whether the price can only be spent as a pure epsilon, whose noise is for l1 norms."""
    return options.price is not None and options.price.epsilon is not None and not options.price.delta


def _adds_values(call: AggregateCall) -> bool:
    """Whether it is SUM or AVG."""
    return call.aggregate.kind is Kind.TOTAL or call.aggregate.average


def _summed(question: Question) -> bool:
    """Whether the statement asks for totals, or for sums of squares or products.

    For these a limit of rows is a loose bound where values differ much; and each group would get noise for the whole limit at
    its share of the price. A level chosen privately does better: for variances and covariances of values with a heavy tail the
    error is a third to an eighth.
    """
    return any(call.aggregate.kind is Kind.TOTAL or call.aggregate.squared for call in question.aggregates)


def _others(question: Question, known: Stability) -> list[AggregateCall]:
    """The aggregates that need a limit of rows: all but sums and the number of entities."""
    return [call for call in question.aggregates if not call.aggregate.summed and not (
        call.aggregate.counts and call.columns == (known.owner,) and not question.keys)]


def _of_one(question: Question, known: Stability) -> bool:
    """Whether each group is one entity."""
    return known.owner in [key.column for key in question.keys]


def call_in_words(call: AggregateCall) -> str:
    return call.text or call.function.upper()


def _fail(options: Options, name: str, reason: str, try_: str) -> OptionError:
    return OptionError(reason, code="bound", subject=name, span=options.span.get(name), try_=try_)


def _check_ownership(bound: Bound, options: Options, known: Stability) -> None:
    if bound.degrees:
        raise _fail(options, "bound", f"bound = '{bound.name}' is for the degrees of a graph, whose rows belong to two entities "
                    "each", "SELECT degree, COUNT(*) FROM (SELECT a, COUNT(*) AS degree FROM ... GROUP BY a) GROUP BY degree")
    if known.owner is not None and not bound.one:
        raise _fail(options, "bound", f"bound = '{bound.name}' is for rows that belong to several entities each, and these "
                    "belong to one", _ways(one=True))
    if known.owner is None and known.owners and not bound.several and (known.rows is None or bound.name in TOTALS):
        raise _fail(options, "bound", f"bound = '{bound.name}' needs rows that belong to one entity each, and these belong to "
                    f"{len(known.owners)}", _ways(one=False))
    if not known.owners and bound.name not in ("rows", "frequency") and not bound.decomposes:
        raise _fail(options, "bound", f"bound = '{bound.name}' needs rows that belong to known entities, and these rows mix "
                    "several", "bound = 'rows'")


def _ways(*, one: bool) -> str:
    """What to write instead."""
    return " or ".join(f"bound = '{bound.name}'" + "".join(f", {name} = ..." for name in bound.needs)
                       for bound in BOUNDS if (bound.one if one else bound.several))


def check_options(bound: Bound, options: Options, met: Sequence[str] = ()) -> None:
    """Raises OptionError if a required option is missing that the policy has not `met`, or if one is given that the bound does
    not use."""
    missing = [name for name in bound.needs if getattr(options, name) is None and name not in met]
    if missing:
        raise _fail(options, "bound", f"bound = '{bound.name}' needs {' and '.join(missing)}",
                    f"bound = '{bound.name}'" + "".join(f", {name} = {getattr(options, name) or 100}" for name in bound.needs
                                                        if name not in met))
    for name, other in (("clip", "clip"), ("max_frequency", "frequency")):
        if getattr(options, name) is not None and name not in (*bound.needs, *bound.takes):
            raise _fail(options, name, f"{name} has no effect with bound = '{bound.name}'", f"bound = '{other}'")


def _check_aggregates(bound: Bound, calls: Sequence[AggregateCall], *, shared: bool) -> None:
    """Raises OptionError for aggregates that are not made of sums of one number per row. Where rows belong to several entities,
    squares and products are such numbers too."""
    def fits(call: AggregateCall) -> bool:
        return call.aggregate.plain or (shared and call.aggregate.kind in (Kind.MEAN, Kind.SPREAD, Kind.PAIR, Kind.MODE))

    for call in calls:
        entities = call.aggregate.kind is Kind.DISTINCT and not call.columns  # which the policy asks for
        if not fits(call) and not entities:
            fine = list(dict.fromkeys(call_in_words(other) for other in calls if fits(other)))
            also = f"; it bounds {', '.join(fine)}" if fine else ""
            kinds = "COUNT, SUM, AVG and aggregates computed from them" if shared else "COUNT, SUM and AVG"
            raise OptionError(f"{call_in_words(call)} is not bounded by bound = '{bound.name}', which is for {kinds}{also}",
                              code="bound", subject=call_in_words(call), span=call.span,
                              try_="a statement of its own for it" if fine else "bound = 'rows'" if bound.one and not shared else
                              "bound = 'auto'")


def _check_clip(question: Question, known: Stability, searched: Sequence[str]) -> None:
    """Raises OptionError if an aggregate is not a sum, and no limit of rows is there beside the clip."""
    others = _others(question, known)
    if known.rows is None and (searched or others):
        what = "the search for bounds" if searched else call_in_words(others[0])
        raise OptionError(f"clip limits sums, but {what} needs a limit on rows", code="clip", subject="bound",
                          span=None if searched else others[0].span, try_="max_rows = 10, or rows_per_entity in the policy")
