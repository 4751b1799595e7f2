"""Seconds to draw noise for many values: the sampler for many at once, beside OpenDP's.

    python tests/bench/noise.py
    python tests/bench/noise.py --values 100000 --runs 1
"""

from __future__ import annotations

import argparse

import numpy as np
from bench_clock import milliseconds, ratio, side_by_side, table

from dpsql.noise import inverse_cdf, source

SCALES = 0.05, 1.0, 10.0, 30.0, 100.0, 1e4, 2.0**40
FEW = source.MANY - 1  # values that still go to OpenDP


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--values", type=int, default=10**6, help="values that get noise")
    asked.add_argument("--runs", type=int, default=5, help="runs, of which the median counts")
    args = asked.parse_args()
    many, calls = np.zeros(args.values, dtype=np.int64), range(max(1, args.values // 50 // FEW))
    rows = []
    for kind in ("laplace", "gaussian"):
        ours, theirs = getattr(inverse_cdf, kind), getattr(source, kind)
        for scale in SCALES:
            def anew(run: int, ours=ours, scale=scale) -> None:
                inverse_cdf._table.cache_clear()
                ours(many[:1], scale)

            made, drawn, other = side_by_side([anew, lambda run, ours=ours, scale=scale: ours(many, scale),
                                               lambda run, theirs=theirs, scale=scale: [theirs([0] * FEW, scale) for _ in calls]],
                                              args.runs)
            slow = other.cpu * args.values / FEW / len(calls)
            rows.append([f"{kind}, scale {scale:g}", milliseconds(made.cpu), milliseconds(drawn.cpu), milliseconds(slow),
                         ratio(slow, drawn.cpu)])
    print(table(f"noise for {args.values:,} values: CPU milliseconds, median of {args.runs}",
                ["noise", "first draw", "all draws", "OpenDP", "times faster"], rows))


if __name__ == "__main__":
    main()
