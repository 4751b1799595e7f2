"""Race to the top: the highest of several noisy underestimates, without working out those that cannot win."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.kernel.looks.context import Context
from dpsql.kernel.looks.sets import Sums, read
from dpsql.requests import DiscreteGaussian, DiscreteLaplace, Held, Noise, Race


def look(request: Race, context: Context) -> Held:
    """See `Race` for the value. The noise is drawn first, before anything is known of a level."""
    totals, levels = [], []
    for parts in read(request.plan, request.levels, request.cells, context):
        won = [highest(part, [drawn(noise, context) - penalty for noise, penalty in zip(
            request.noises, request.penalties, strict=True)]) for part in parts]
        totals.append(sum(sign * value for sign, (value, _) in zip((1, -1), won, strict=False)))
        levels.append(tuple(place for _, place in won))
    return Held(totals=tuple(totals), levels=tuple(levels))


def drawn(noise: Noise, context: Context) -> int:
    match noise:
        case DiscreteLaplace(scale=scale):
            return context.noise.laplace([0], scale)[0]
        case DiscreteGaussian(sigma=sigma):
            return context.noise.gaussian([0], sigma)[0]


def highest(extension: Sums, shifts: Sequence[int]) -> tuple[int, int | None]:
    """max(0, max over j of F_j + shifts[j]) and the first j that reaches it; (0, None) where none is above 0.

    Proof that this is what working out every F_j would give. In each round low[j] <= F_j <= high[j]; take the j whose
    high[j] + shifts[j] is the largest, the first of several. If that is 0 or less, so is every F_i + shifts[i]. If F_j is
    known, then every other i has F_i + shifts[i] <= high[i] + shifts[i] <= F_j + shifts[j], and where they are equal i is later:
    j wins. Otherwise j is refined, which ends. The shifts, noise among them, decide which levels are worked out and nothing else:
    `refine` is not told of them, and F_j depends on nothing but the sets and the level (`kernel.extensions.value`), in whatever
    order levels are worked out. A level that is not worked out has an F_j all the same, which cannot win.
    """
    places = range(len(shifts))
    while True:
        best = max(places, key=lambda j: (extension.high[j] + shifts[j], -j))
        if extension.high[best] + shifts[best] <= 0:
            return 0, None
        if extension.exact(best):
            return extension.low[best] + shifts[best], best
        extension.refine(best)
