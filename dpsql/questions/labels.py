"""One line for people on each operator of a plan and on each summand: what EXPLAIN PRIVACY shows of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from dpsql.questions.shown_expressions import show
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import FOLDS, GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.largest import Largest
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.statistics import Statistics
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import ENDS, SHIFTS, Frame, Window, WindowFunction


@singledispatch
def label(node: Node) -> str:
    """A label that says what an operator does."""
    raise TypeError(f"unknown operator {type(node).__name__}")


@label.register
def _(node: Arcs) -> str:
    tail, head = (node.input.names[end] for end in (node.tail, node.head))
    return f"Arcs between {tail} and {head}" if node.mutual else f"Arcs from {tail} to {head}"


@label.register
def _(node: Clip) -> str:
    return f"Clip each {node.input.names[node.owner]} to an l{node.order} norm of {node.bound}"


@label.register
def _(node: Constants) -> str:
    return f"Values ({len(node.rows)} rows)"


@label.register
def _(node: Contributions) -> str:
    names = dict(node.input.names)
    by = ", ".join(names[key] for key in (node.owner, *node.keys))
    return "Contributions " + "; ".join(summand_label(summand, names) for summand in node.summands) + f" by {by}"


@label.register
def _(node: Distinct) -> str:
    return "Distinct " + ", ".join(field.name for field in node.fields)


@label.register
def _(node: Filter) -> str:
    return f"Filter {show(node.condition, node.input.names)}"


@label.register
def _(node: GroupBy) -> str:
    names = node.input.names
    parts = [f"{part.function}({names[part.column] if part.column else '*'})" for part in node.folds]
    by = " by " + ", ".join(names[key] for key in node.keys) if node.keys else ""
    return "Group " + ", ".join(parts) + by


@label.register
def _(node: GroupedSums) -> str:
    names = dict(node.input.names)
    by = " by " + ", ".join(names[key] for key in node.keys) if node.keys else ""
    return "Tally " + "; ".join(summand_label(summand, names) for summand in node.summands) + by


@label.register
def _(node: Join) -> str:
    return f"{node.kind.capitalize()} on " + show(node.condition, {**node.left.names, **node.right.names})


@label.register
def _(node: JoinSum) -> str:
    return f"Sum {summand_label(node.summand, dict(node.input.names))}"


@label.register
def _(node: Largest) -> str:
    return f"List the largest {'' if node.sign == 1 else 'negated '}{summand_label(node.summand, dict(node.input.names))}"


@label.register
def _(node: Lookup) -> str:
    names = {**node.input.names, **node.listed.names}
    tests = [f"{show(expr, names)} in {names[column]}" for expr, column in node.keys]
    tests += [f"a row where {show(node.condition, names)}"] if node.condition is not None else []
    return {None: "Look up ", True: "Keep rows with ", False: "Keep rows without "}[node.keep] + " and ".join(tests)


@label.register
def _(node: Multiplicities) -> str:
    names = node.input.names
    by = " by " + ", ".join(names[key] for key in node.keys) if node.keys else ""
    return f"Count how often values of {names[node.column]} occur{by}"


@label.register
def _(node: Norms) -> str:
    return f"Size of what each {node.input.names[node.owner]} adds"


@label.register
def _(node: Numbers) -> str:
    return "Number the rows of each " + " and ".join(node.input.names[key] for key in node.keys)


@label.register
def _(node: OwnerSets) -> str:
    names = dict(node.input.names)
    return f"Share {summand_label(node.summand, names)} among {', '.join(names[name] for name in node.name_columns)}"


@label.register
def _(node: Project) -> str:
    shown = []
    for _, name, expr in node.columns:
        text = show(expr, node.input.names)
        shown.append(text if text == name else f"{text} AS {name}")
    return "Project " + ", ".join(shown)


@label.register
def _(node: Ranks) -> str:
    names = node.input.names
    by = " by " + ", ".join(names[key] for key in node.keys) if node.keys else ""
    return f"Rank {names[node.column]} in [{node.grid.low:g}, {node.grid.high:g}]{by}"


@label.register
def _(node: Scan) -> str:
    return f"Scan {node.table.name}" + (" (public)" if node.table.public else "")


@label.register
def _(node: SetOperation) -> str:
    return node.kind.capitalize() + (" all of " if node.all else " of ") + ", ".join(name for _, name in node.columns)


@label.register
def _(node: Statistics) -> str:
    return "Exact " + ", ".join(call.name or call.function for call in node.calls)


@label.register
def _(node: Truncate) -> str:
    return f"Keep at most {node.rows} row{'s' if node.rows > 1 else ''} of each {node.input.names[node.owner]}"


@label.register
def _(node: TruncateKeys) -> str:
    names = " and ".join(node.input.names[key] for key in node.keys) or "all"
    kept = f"{node.rows} rows" if node.rows > 1 else "1 row"
    if not node.first:
        return f"Keep at most {kept} of each {names}"
    return f"Keep the first {kept} of each {names} by {', '.join(_term(term, node.input.names) for term in node.first)}"


@label.register
def _(node: UnionAll) -> str:
    return f"Union all of {len(node.parts)}"


@label.register
def _(node: Window) -> str:
    names = node.input.names
    parts = [f"{part.function}({_argument(part, names)})" + (_frame(part.frame) if part.function in (*ENDS, *FOLDS) else "")
             for part in node.functions]
    by = " by " + ", ".join(names[column] for column in node.partition) if node.partition else ""
    ordered = " ordered by " + ", ".join(_term(term, names) for term in node.order) if node.order else ""
    return "Window " + ", ".join(parts) + by + ordered


def summand_label(summand: Summand, names: Mapping[str, str]) -> str:
    """A label for the number that is added up."""
    match summand:
        case Count():
            return ("rows" if summand.column is None else f"rows with {names[summand.column]}") + _where(summand, names)
        case GridSum():
            return f"{names[summand.column]} in [{summand.grid.low:g}, {summand.grid.high:g}]{_where(summand, names)}"
        case Moments():
            return (f"moments of {names[summand.column]} in [{summand.grid.low:g}, {summand.grid.high:g}] up to {summand.degree}"
                    f"{_where(summand, names)}")
        case Clipped():
            return "clipped contributions"
    raise TypeError(f"unknown summand {type(summand).__name__}")


def _where(summand: Summand, names: Mapping[str, str]) -> str:
    return "" if summand.when is None else f" where {names[summand.when]}"


def _term(term: Term, names: Mapping[str, str]) -> str:
    return names[term.column] + (" desc" if term.descending else "")


def _frame(frame: Frame) -> str:
    return "" if frame.whole else " " + frame.sql().lower()


def _argument(part: WindowFunction, names: Mapping[str, str]) -> str:
    given = [names[part.column]] if part.column is not None else ["*"] if part.function == "count" else []
    given += [str(part.number)] if part.function == "ntile" or (part.function in SHIFTS and part.number != 1) else []
    return ", ".join(given)
