"""Whether a request that was answered moves further between neighbours than it was charged for."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from forging import losses
from forging.losses import ALL, LAWS, NEVER, Loss, pure
from forging.watched import Step, Watch, watching
from oracle.moves import LAWS as ORACLE
from oracle.moves import View, compare_rows, read_rows
from oracle.replay import Family

from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements.boxes import Tree
from dpsql.trusted.measurements.buckets import Partition
from dpsql.trusted.measurements.flip_distance import NoisyFlipDistance
from dpsql.trusted.measurements.frequent_keys import Keys
from dpsql.trusted.measurements.online_comparisons import Comparisons, Opened, Opening
from dpsql.trusted.measurements.select import Segment, Select
from dpsql.trusted.measurements.several.balanced_levels import Balance
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums, Removed
from dpsql.trusted.measurements.several.smooth_join_sum import SmoothSum
from dpsql.trusted.noise.key_selection import GaussianThreshold
from dpsql.trusted.plan.cells import cell_of
from dpsql.trusted.plan.certificate import Certificate

INCIDENT = -1e18  # in place of a drawn value
CLOSE = 1 + 1e-9  # rounding of what is computed here in floats
UNTOLD = 10**15  # an epsilon so large that floats cannot tell it from any loss


class Found(Frozen, kw_only=False):
    """A claim that does not hold: on which neighbour, and how far what moved."""

    neighbour: str
    what: str
    moved: float
    claimed: float

    def __str__(self) -> str:
        return f"{self.what} moved {self.moved:.6g}, claimed {self.claimed:.6g} (without {self.neighbour})"


class Look(Frozen, kw_only=False):
    """What one release handed over, and what it released where no noise is added; or the fault in which it ended."""

    steps: tuple[Step, ...]
    released: Any
    fault: Exception | None = None


def judged(request: Any, certificates: Sequence[Certificate], charged: Cost, family: Family, *, planned: bool = True,
           only: int | None = None) -> Iterator[Found]:
    """Everything in which a request moves further than it was charged for; with `planned` the rows below its plans too. `only`: the
    neighbour of this number, in place of all."""
    views = {name: View(kernel) for at, (name, kernel) in enumerate(family.kernels.items(), -1) if name is None or only in (None, at)}
    kept: dict[str | None, dict[int, list[int]]] = {name: {} for name in views}
    for way in [Watch(**way) for way in _ways(request)]:
        looks = {name: looked(request, certificates, view, dataclasses.replace(way, scores=kept[name])) for name, view in views.items()}
        if isinstance(request, Select) and not request.flip:
            looks = {}  # all ways together, below
            break
        for name, there in looks.items():
            if name is not None:
                yield from _compared(request, charged, looks[None], there, str(name), views, certificates, way)
    if not looks:
        drawn = {name: _drawn_values(request, certificates, view) for name, view in views.items()}
        for name, there in drawn.items():
            if name is not None:
                yield from _told_apart(drawn[None], there, charged, str(name))
    if not planned and not isinstance(request, Opening):
        return
    rows = {name: _tried(lambda view=view: read_rows(request, certificates, view)) for name, view in views.items()}
    for name, there in rows.items():
        if name is not None and not isinstance(there, Exception) and not isinstance(rows[None], Exception):
            yield from (Found(str(name), move.what, move.moved, move.claimed) for move in compare_rows(certificates, rows[None], there) if move.broken)
            if isinstance(request, Opening):
                yield from _over(_of_updates(request, rows[None], there), charged, str(name))


def judged_comparisons(request: Comparisons, certificates: Sequence[Certificate], opened: Opened, family: Family) -> Iterator[Found]:
    """Everything in which comparisons move further than was paid for when their model was opened."""
    read, compare = ORACLE[Comparisons]
    counts = {name: _tried(lambda kernel=kernel: read(request, certificates, View(kernel))) for name, kernel in family.kernels.items()}
    for name, there in counts.items():
        if name is not None and isinstance(there, Exception) is not isinstance(counts[None], Exception):
            yield Found(str(name), f"the outcome ({there!r:.90})", 1, 0)
        elif name is not None and not isinstance(there, Exception):
            moves = [replace(move, claimed=opened.moved if move.what != "both ways" else 0) for move in compare(request, certificates, counts[None], there)
                     if move.what != "both ways" or opened.adds]
            yield from (Found(str(name), move.what, move.moved, move.claimed) for move in moves if move.broken)


def _ways(request: Any) -> list[dict[str, Any]]:
    """How a release is driven, so that every choice is made once that decides what is released next."""
    if isinstance(request, Balance | Removed | RecursiveSums):
        levels = sorted({0, len(request.levels) // 2, len(request.levels) - 1})
        return [{"first": i - request.shift} if isinstance(request, RecursiveSums) else {"choose": i} for i in levels]
    return [{"split": True}, {"split": False}] if isinstance(request, Tree) else [{}]


def looked(request: Any, certificates: Sequence[Certificate], view: View, way: Watch) -> Look:
    watch = dataclasses.replace(way, steps=[])
    with watching(watch):
        try:
            released = Kernel._look(view.kernel, request, tuple(certificates), replace(view.kernel._context(), noise=watch))
        except Exception as fault:
            return Look(tuple(watch.steps), None, fault)
    return Look(tuple(watch.steps), released)


def _tried(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except Exception as fault:
        return fault


def _compared(request: Any, charged: Cost, here: Look, there: Look, name: str, views: Any, certificates: Any, way: Watch) -> Iterator[Found]:
    if (here.fault is None) != (there.fault is None):
        yield Found(name, f"the outcome ({here.fault or there.fault!r:.90})", 1, 0)
        return
    if here.fault is not None:  # though it was answered: it depends on what is drawn
        yield Found(name, f"an incident by chance ({here.fault!r:.90})", 1, 0)
        return
    try:
        steps = (_completed(request, here, views[None]), _completed(request, there, views[name]))
    except ValueError as fault:
        yield Found(name, f"what is released ({fault})", 1, 0)
        return
    if isinstance(request, Keys):
        steps = _by_key(request, steps, views[None], views[name], certificates)
    if [(step.kind, step.scales, _length(step)) for step in steps[0] if step.kind != "dilated"] != [
            (step.kind, step.scales, _length(step)) for step in steps[1] if step.kind != "dilated"] and not isinstance(request, SmoothSum):
        yield Found(name, "the draws", 1, 0)
        return
    total, dilations = Loss(), []
    for mine, yours in zip(*steps, strict=True):
        if mine.kind == "dilated":
            dilations.append((mine, yours))
        elif mine.kind == "tree" and not way.split:
            total += losses.unsplit(mine, yours)
        elif isinstance(request, DegreeHistogram):
            total += _shifted(mine, yours)
        elif isinstance(request, Keys) and isinstance(request.rule, GaussianThreshold):
            total += losses.shown_above(mine, yours, request.rule.threshold)
        else:
            total += LAWS[mine.kind](mine, yours)
    if isinstance(request, Partition):
        total += _partitioned(request, certificates, views[None], views[name])
    for mine, yours in dilations:
        left = _real(charged.epsilon or 0) - total.epsilon
        total += Loss(0, 0, losses.dilated(mine, yours, left))
    yield from _over(total, charged, name)


def _length(step: Step) -> int:
    return len(step.numbers) if isinstance(step.numbers, list) else 1


def _over(moved: Loss, charged: Cost, name: str) -> Iterator[Found]:
    if charged.epsilon is not None and charged.epsilon > UNTOLD:
        return
    claims = [("rho", moved.rho, charged.rho, CLOSE, 0.0), ("delta", moved.delta, charged.delta, 1 + 1e-6, 1e-15)]
    if charged.epsilon is not None:
        claims.append(("epsilon", moved.epsilon, charged.epsilon, CLOSE, 0.0))
    for what, far, price, close, least in claims:
        if not far <= _real(price) * close + least:  # also where it is no number
            yield Found(name, what, far, _real(price))


def _real(price: Any) -> float:
    try:
        return float(price)
    except OverflowError:
        return math.inf


def _completed(request: Any, look: Look, view: View) -> list[Step]:
    """The steps, in which noise that was drawn by itself has the number that it was added to."""
    alone = [at for at, step in enumerate(look.steps) if step.kind.startswith("alone ")]
    steps = list(look.steps)
    if alone:
        told = look.released.slacks if isinstance(request, NoisyFlipDistance) else look.released.totals
        if len(told) != len(alone):
            raise ValueError("noise is drawn for other numbers than are released")
        for at, number in zip(alone, told, strict=True):
            steps[at] = Step(steps[at].kind.removeprefix("alone "), [number], steps[at].scales)
    return steps


# -- measurements that need more than their draws


def _by_key(request: Keys, steps: tuple[list[Step], ...], here: View, there: View, certificates: Any) -> tuple[list[Step], ...]:
    """The counts of each key that one of the two databases has, in one order."""
    (mine,), (yours,) = steps
    width = len(request.plan.keys)
    found = []
    for view in (here, there):
        counts: Counter[Any] = Counter()
        for row in view.context.rows(request.plan):
            counts[cell_of(row[:width])] += row[width]
        found.append(counts)
    keys = list(found[0].keys() | found[1].keys())
    return tuple([Step(step.kind, [counts[key] for key in keys], step.scales)] for step, counts in zip((mine, yours), found, strict=True))


def _shifted(mine: Step, yours: Step) -> Loss:
    """Only differences of the numbers are told, so all of them may be moved alike."""
    change = [x - y for x, y in zip(mine.numbers, yours.numbers, strict=True)]
    shifts = {sorted(change)[len(change) // 2], round(sum(change) / len(change)), 0} if change else {0}
    options = [LAWS[mine.kind](Step(mine.kind, [part - shift for part in change], mine.scales), Step(mine.kind, [0] * len(change), mine.scales)) for shift in shifts]
    return min(options, key=lambda loss: (loss.epsilon, loss.rho))


def _partitioned(request: Partition, certificates: Any, here: View, there: View) -> Loss:
    """See `noise.partition`: twice the distance of the places, in units of the noise that is drawn."""
    read, _ = ORACLE[Partition]
    mine, yours = read(request, certificates, here), read(request, certificates, there)
    return pure(2 * sum(abs(mine[key] - yours[key]) for key in mine.keys() | yours.keys()) / float(request.scale))


def _of_updates(request: Opening, mine: Any, yours: Any) -> Loss:
    """What comparisons could lose that ask about the rows which the entity changes, for every update that was paid for."""
    fewer, more = ((mine[0] - yours[0]).total(), (yours[0] - mine[0]).total())
    apart = fewer + more
    if not apart:
        return Loss()
    both = apart if not (fewer and more) else 2 * apart
    each = pure(both / float(request.scale_limit) + both / float(request.scale_query)) if min(request.scale_limit, request.scale_query) > 0 else ALL
    noise = request.noise
    kind, scale = ("laplace", noise.scale) if hasattr(noise, "scale") else ("gaussian", noise.sigma)
    each += LAWS[kind](Step(kind, [apart], (scale,)), Step(kind, [0], (scale,)))
    return Loss(each.epsilon * request.updates, each.rho * request.updates)


class Pieces(Frozen, kw_only=False):
    """The distribution of one drawn value: where its pieces begin, how wide they are, and the logarithms of their chances.

    The choice that is listed last may be of all values from `low` to `high` that are in no piece, of which each has `rest`.
    """

    starts: tuple[float, ...]
    widths: tuple[float, ...]
    logs: tuple[float, ...]
    low: float
    high: float
    rest: float

    def density(self, value: float) -> float:
        at = int(np.searchsorted(self.starts, value, side="right")) - 1
        if at < 0 or value >= self.starts[at] + self.widths[at]:
            return self.rest if self.low <= value <= self.high else -math.inf
        return self.logs[at] - math.log(self.widths[at])

    @property
    def edges(self) -> set[float]:
        return {self.low, *self.starts, *(start + width for start, width in zip(self.starts, self.widths, strict=True))}


def _drawn_values(request: Select, certificates: Any, view: View) -> list[Pieces] | Exception:
    """The distribution of each value that is drawn, from the release alone: driven to each piece in turn."""
    first = looked(request, certificates, view, Watch())
    if first.fault is not None:
        return first.fault
    scores = [step for step in first.steps if step.kind == "exponential"]
    told = [value for values in first.released.values for value in values]
    if len(scores) != len(told):
        return NotImplementedError("values are drawn in blocks, of which this database has too few")
    parts = [part for segments in request.segments for part in segments]
    found: list[list[tuple[float, float, float]]] = [[] for _ in told]
    rest = [-math.inf] * len(told)
    logs = [losses._log_chances(step.numbers, step.scales[0]) for step in scores]
    for i in range(max(map(len, logs))):
        look = first if i == 0 else looked(request, certificates, view, Watch(choose=i))
        if look.fault is not None:
            return look.fault
        ends = [step.numbers for step in look.steps if step.kind == "below"]
        values = [value for values in look.released.values for value in values]
        for at, (value, width) in enumerate(zip(values, ends, strict=True)):
            if i == len(logs[at]) - 1 and width > 0 and parts[at].low <= value <= parts[at].high:
                rest[at] = float(logs[at][i]) - math.log(width)
            elif i < len(logs[at]) and logs[at][i] > NEVER:
                found[at].append((float(value), float(width), float(logs[at][i])) if width > 0 else (INCIDENT, 1.0, float(logs[at][i])))
    return [_merged(pieces, part, others) for pieces, part, others in zip(found, parts, rest, strict=True)]


def _merged(pieces: list[tuple[float, float, float]], part: Segment, rest: float) -> Pieces:
    """Pieces in order; those that begin alike are one, with the chances of all."""
    logs: dict[tuple[float, float], float] = {}
    for start, width, log in pieces:
        logs[start, width] = float(np.logaddexp(logs.get((start, width), -math.inf), log))
    ordered = sorted(logs)
    return Pieces(tuple(start for start, _ in ordered), tuple(width for _, width in ordered), tuple(logs[piece] for piece in ordered),
                  float(part.low), float(part.high), rest)


def _told_apart(mine: list[Pieces] | Exception, yours: list[Pieces] | Exception, charged: Cost, name: str) -> Iterator[Found]:
    if isinstance(mine, Exception) or isinstance(yours, Exception):
        both = isinstance(mine, Exception) and isinstance(yours, Exception)
        yield Found(name, f"{'an incident by chance' if both else 'the outcome'} ({mine if isinstance(mine, Exception) else yours!r:.90})", 1, 0)
        return
    if any(INCIDENT in piece.starts for piece in (*mine, *yours)):
        yield Found(name, "an incident by chance (a number below none)", 1, 0)
    total = Loss()
    for here, there in zip(mine, yours, strict=True):
        pairs = [(here.density(value), there.density(value)) for value in here.edges | there.edges]
        seen = [(a, b) for a, b in pairs if max(a, b) > NEVER / 2]
        total += losses.ratio(*map(np.array, zip(*seen, strict=True))) if seen else Loss()
    yield from _over(total, charged, name)
