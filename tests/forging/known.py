"""Forgeries that were once answered for less than they told, or ended in an incident, by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from forging.corpus import Base, Corpus
from forging.forger import Forgery
from support.forged import fields_of, made_of

from dpsql.frozen import replace
from dpsql.trusted.measurements.boxes import Tree
from dpsql.trusted.measurements.buckets import Numbered
from dpsql.trusted.measurements.flip_distance import DistinctWithin
from dpsql.trusted.measurements.select import Target
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.functions import HELD
from dpsql.trusted.plan.expr.nodes import TRUE, Call, Case, Cast, Literal, Placeholder, predicate, whole
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import ANY_NUMBER, Interval, Type


def forged(value: Any, **fields: Any) -> Any:
    """A frozen value with other fields, of which its class was not told."""
    return made_of(type(value), {**fields_of(value), **fields})


def scan_of(plan: Node) -> Scan:
    """The table that a plan reads."""
    return plan if isinstance(plan, Scan) else scan_of(plan.inputs[0])


def base_of(corpus: Corpus, name: str, fits: Callable[[Any], bool] = lambda request: True) -> Base:
    return next(base for base in corpus.bases if base.name == name and fits(base.request))


def sums_for_ranks(corpus: Corpus) -> Forgery:
    """`Select` over two sums in place of ranks: a value, and a number of rows that one row changes by thousands."""
    base = base_of(corpus, "Select", lambda request: not request.plan.keys and not request.flip)
    grid = Quantizer(low=0.0, high=3.0, step=Fraction(1, 1000), from_low=True)
    column = base.request.plan.column
    plan = GroupedSums(input=base.request.plan.input, keys=(), summands=(Count(), GridSum(column=column, grid=grid)))
    segment = replace(base.request.segments[0][0], low=0, high=40)
    return Forgery(forged(base.request, plan=plan, segments=((segment,),)), base, "Select.plan: sums for ranks")


def sums_for_values(corpus: Corpus) -> Forgery:
    """`DistinctWithin` over sums in place of multiplicities."""
    base = base_of(corpus, "NoisyFlipDistance", lambda request: any(type(test) is DistinctWithin for test in request.tests))
    test = next(test for test in base.request.tests if type(test) is DistinctWithin)
    grid = Quantizer(low=0.0, high=3.0, step=Fraction(1, 1000), from_low=True)
    select = base_of(corpus, "Select", lambda request: not request.plan.keys)
    plan = GroupedSums(input=select.request.plan.input, keys=(), summands=(Count(), GridSum(column=select.request.plan.column, grid=grid)))
    return Forgery(forged(base.request, tests=(forged(test, plan=plan, cells=((),), first=(10,), last=(2000,)),)), base, "DistinctWithin.plan: sums for values")


def crumbled(corpus: Corpus) -> Forgery:
    """Many segments whose ends are no whole numbers, each of which holds the same value."""
    base = base_of(corpus, "Select", lambda request: not request.plan.keys and not request.flip)
    first = base.request.segments[0][0]
    segments = tuple(forged(first, low=0.001 * i, high=0.001 * i + 0.0005) for i in range(399))
    return Forgery(forged(base.request, segments=(segments,)), base, "Segment.low: crumbs")


def heavier(corpus: Corpus) -> Forgery:
    """Penalties of 1.9, for which scores are cut off to whole numbers."""
    base = base_of(corpus, "Select", lambda request: not request.plan.keys and not request.flip)
    segment = forged(base.request.segments[0][0], below=1.9, above=1.9, low=0, high=3, target=Target(fraction=Fraction(1, 2)))
    return Forgery(forged(base.request, segments=((segment,),), scale=2.0), base, "Segment.below: 1.9")


def beyond(corpus: Corpus) -> Forgery:
    """A quantile of 2, which lies beyond all values."""
    base = base_of(corpus, "Smooth")
    return Forgery(forged(base.request, target=forged(base.request.target, fraction=Fraction(2))), base, "Target.fraction: 2")


def undecided(corpus: Corpus) -> Forgery:
    """A CASE without a condition, which no engine can read: the statement failed after it was charged."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    case = Case(branches=(), otherwise=TRUE, type=Type.BOOLEAN)
    plan = replace(base.request.plan, input=Filter(input=base.request.plan.input, condition=case))
    return Forgery(forged(base.request, plan=plan), base, "Case.branches: none")


def worded(corpus: Corpus) -> Forgery:
    """A constant that is a text in a column of whole numbers from 0 to 1: nothing looked at its value, and it was not clamped."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    narrow = Field(id="v", name="v", facts=Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, 1)))
    listed = Constants(columns=(narrow,), rows=(("1000000000",),))
    grid = Quantizer(low=0.0, high=1.0, step=Fraction(1), from_low=True)
    plan = GroupedSums(input=Join(left=base.request.plan.input, right=listed, condition=TRUE), keys=(), summands=(GridSum(column="v", grid=grid),))
    return Forgery(forged(base.request, plan=plan, noises=(DiscreteLaplace(scale=3.0),)), base, "Constants.rows: a text for a number")


def between_floats(corpus: Corpus) -> Forgery:
    """A grid whose ends are whole numbers that no float is: it is printed with others, and was twice as long as it said."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    owned = Project(input=base.request.plan.input, columns=(
        *((field.id, field.name, field.ref) for field in base.request.plan.input.fields),
        ("v", "v", Literal(value=2**60 + 256, type=Type.BIGINT))))
    grid = made_of(Quantizer, {"low": 2**60 + 128, "high": 2**60 + 257, "step": Fraction(1, 2), "from_low": True})
    plan = GroupedSums(input=owned, keys=(), summands=(made_of(GridSum, {"when": None, "column": "v", "grid": grid}),))
    return Forgery(forged(base.request, plan=plan, noises=(DiscreteLaplace(scale=3.0),)), base, "Quantizer.low: no float")


def without_columns(corpus: Corpus) -> Forgery:
    """A list of no columns, which no engine can read."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    plan = GroupedSums(input=Project(input=base.request.plan.input, columns=()), keys=(), summands=(Count(),))
    return Forgery(forged(base.request, plan=plan, noises=(DiscreteLaplace(scale=3.0),)), base, "Project.columns: none")


def too_wide(corpus: Corpus) -> Forgery:
    """A cast to a number of 99 digits, which the engine does not have."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    cast = Cast(input=Literal(value=1, type=Type.BIGINT), target="DECIMAL(99,0)", type=Type.DOUBLE)
    plan = replace(base.request.plan, input=Filter(input=base.request.plan.input, condition=predicate("is null", cast)))
    return Forgery(forged(base.request, plan=plan), base, "Cast.target: 99 digits")


def of_no_pattern(corpus: Corpus) -> Forgery:
    """A regular expression that the engine does not accept."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    broken = predicate("regexp_matches", Literal(value="a", type=Type.VARCHAR), Literal(value="(", type=Type.VARCHAR))
    plan = replace(base.request.plan, input=Filter(input=base.request.plan.input, condition=broken))
    return Forgery(forged(base.request, plan=plan), base, "regexp_matches: (")


def of_no_value(corpus: Corpus) -> Forgery:
    """A value that is put in its place before anything is asked, and was not."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    awaited = Placeholder(id="q1", physical=ANY_NUMBER, declared=ANY_NUMBER, type=Type.BOOLEAN)
    plan = replace(base.request.plan, input=Filter(input=base.request.plan.input, condition=awaited))
    return Forgery(forged(base.request, plan=plan), base, "Filter.condition: a placeholder")


def listed(corpus: Corpus) -> Forgery:
    """More rows than a plan may list."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    rows = Constants(columns=(Field(id="v", name="v", facts=Facts(type=Type.BIGINT, nullable=False)),), rows=((1,),) * 100_001)
    plan = replace(base.request.plan, input=Join(left=base.request.plan.input, right=rows, condition=TRUE))
    return Forgery(forged(base.request, plan=plan), base, "Constants.rows: too many")


def halved(corpus: Corpus) -> Forgery:
    """A tree over so many axes that the parts of its first box fill all memory."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    view = Project(input=base.request.plan.input, columns=tuple((f"a{i}", f"a{i}", Literal(value=0, type=Type.BIGINT)) for i in range(62)))
    axes = tuple(made_of(Numbered, {"column": f"a{i}", "values": (0, 1), "numbers": (0, 1), "rest": None}) for i in range(62))
    return Forgery(made_of(Tree, {"view": view, "axes": axes, "scale": 1.0, "decay": 44, "leaf": DiscreteLaplace(scale=3.0)}), base, "Tree.axes: 62")


def of_no_values(corpus: Corpus) -> Forgery:
    """An axis without values, along which nothing can be counted: the statement failed after it was charged."""
    base = base_of(corpus, "DependentParents")
    axes = tuple(replace(axis, values=(), rest=None) for axis in base.request.axes)
    return Forgery(forged(base.request, axes=axes), base, "Axis.values: none")


def never_ending(corpus: Corpus) -> Forgery:
    """A beta of which more distances would follow than can be looked at: the statement failed after it was charged."""
    base = base_of(corpus, "SmoothSum")
    return Forgery(forged(base.request, noise=forged(base.request.noise, beta=1e-9)), base, "Student.beta: 1e-9")


def without_cells(corpus: Corpus) -> Forgery:
    """A choice among the counts of no cells at all, of which none is the farthest: the statement failed after it was charged."""
    base = base_of(corpus, "FarthestCount")
    axes = tuple(forged(axis, values=(), counted=None, rest=None) for axis in base.request.axes)
    return Forgery(forged(base.request, axes=axes, expected=tuple(() for _ in base.request.marginals)), base, "Axis.values: none, of a count")


def of_no_float(corpus: Corpus) -> Forgery:
    """Noise whose scale is a whole number that no float is: it was paid for as it is, and drawn with the float next to it."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    plan = replace(base.request.plan, summands=(Count(),))
    return Forgery(forged(base.request, plan=plan, noises=(DiscreteLaplace(scale=2**53 + 1),)), base, "DiscreteLaplace.scale: no float")


def too_wide_a_float(corpus: Corpus) -> Forgery:
    """Noise whose scale is beyond all floats: the statement failed after it was charged."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    plan = replace(base.request.plan, summands=(Count(),))
    return Forgery(forged(base.request, plan=plan, noises=(DiscreteLaplace(scale=10**400),)), base, "DiscreteLaplace.scale: beyond floats")


def unlimited(corpus: Corpus) -> Forgery:
    """A limit of more rows than 64 bits can count, of rows that are nothing but their owner: the engine lists as many numbers."""
    base = base_of(corpus, "NoisySums", lambda request: not request.plan.keys)
    scan = scan_of(base.request.plan)
    owner = Project(input=scan, columns=(("o", "o", scan.field(scan.owners[0]).ref),))
    plan = GroupedSums(input=Truncate(input=owner, rows=2**63, owner="o", order=()), keys=(), summands=(Count(),))
    return Forgery(forged(base.request, plan=plan, noises=(DiscreteLaplace(scale=3.0),)), base, "Truncate.rows: 2^63")


def kept_elsewhere(corpus: Corpus) -> Forgery:
    """Constants beyond the range in which their column says that its rows are: what is held there was said to be no NULL, and is."""
    base = base_of(corpus, "Balance", lambda request: request.plan.cell is not None)
    plan = base.request.plan
    number = Field(id="v9", name="v", facts=Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, 100), kept=Interval(0, 1)))
    both = Join(left=plan.input, right=Constants(columns=(number,), rows=((50,), (0,))), condition=TRUE)
    held = Call(function=HELD, args=(number.ref, whole(0), whole(1)), type=Type.BIGINT)
    columns = [(field.id, field.name, field.ref) for field in plan.input.fields if field.id != plan.cell]
    view = Project(input=both, columns=(*columns, (plan.cell, "cell", held)))
    return Forgery(forged(base.request, plan=replace(plan, input=view)), base, "Facts.kept: beyond a constant")


def unsmooth(corpus: Corpus) -> Forgery:
    """An epsilon for which a bound is so smooth that its logarithm is rounded by many times what it may change: how large the noise is
    was told for hundreds of times the price."""
    base = base_of(corpus, "Smooth", lambda request: not request.plan.keys)
    below = base.request.plan.input
    view = Project(input=below, columns=(*((field.id, field.name, field.ref) for field in below.fields), ("v7", "v", whole(50))))
    plan = replace(base.request.plan, input=view, column="v7", when=None, grid=Quantizer(low=0.0, high=100.0, step=Fraction(1), from_low=True))
    changed = {"plan": plan, "epsilon": Fraction(2.7725895540579865e-11), "delta": Fraction(1, 2), "epsilon_size": Fraction(1, 256)}
    return Forgery(forged(base.request, **changed), base, "Smooth.epsilon: hardly any")


def halves(corpus: Corpus) -> Iterator[Forgery]:
    """Numbers of any type in fields that nothing looked at."""
    for name, fields in UNCHECKED.items():
        base = base_of(corpus, name)
        for field, value in fields.items():
            yield Forgery(forged(base.request, **{field: value(getattr(base.request, field))}), base, f"{name}.{field}")
    keys = base_of(corpus, "Keys", lambda request: hasattr(request.rule, "delta"))
    yield Forgery(forged(keys.request, rule=forged(keys.request.rule, delta=Fraction(3, 2))), keys, "TruncatedGeometric.delta: 3/2")
    sums = base_of(corpus, "NoisySums", lambda request: type(request.noises[0]) is DiscreteGaussian)
    yield Forgery(forged(sums.request, noises=tuple(forged(noise, sigma=-noise.sigma) for noise in sums.request.noises)), sums, "DiscreteGaussian.sigma: negative")


UNCHECKED: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    "Race": {"penalties": lambda penalties: tuple(penalty + 0.5 for penalty in penalties), "levels": lambda levels: tuple(float(level) for level in levels)},
    "Balance": {"log_priors": lambda priors: tuple(str(prior) for prior in priors), "levels": lambda levels: tuple(level + 0.5 for level in levels)},
    "RecursiveSums": {"shift": lambda shift: shift + 0.5}, "Smooth": {"epsilon_size": lambda size: Fraction(0), "epsilon": lambda epsilon: 0.5},
    "Select": {"flip": lambda flip: "no"}, "DegreeHistogram": {"most": lambda most: most + 1e-12, "way": lambda way: None},
    "SmoothSum": {"epsilon_size": lambda size: Fraction(-1, 2), "residual": lambda residual: 1}}
KNOWN: tuple[Callable[[Corpus], Forgery], ...] = (sums_for_ranks, sums_for_values, crumbled, heavier, beyond, undecided,
                                                    worded, between_floats, without_columns, of_no_values, too_wide,
                                                    of_no_pattern, of_no_value, listed, halved, never_ending,
                                                    without_cells, of_no_float, too_wide_a_float, unlimited, kept_elsewhere)
HELD_NOW: tuple[Callable[[Corpus], Forgery], ...] = (unsmooth,)
