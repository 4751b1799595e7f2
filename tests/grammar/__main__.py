"""Statements full of constants without limit, from a checkout: `PYTHONPATH=.:tests python -m grammar --statements 50000 --seed 1`.

Each is answered, or refused with a located error and without a charge. What is neither is printed, once for each place in the code
where it failed; a small part of it is in the suite: `python -m pytest tests/grammar/test_constants.py`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from grammar.test_constants import Faults, outcome, session_for
from support.drawn_constants import Constants

AT_ONCE = 1000  # statements of one session, whose budget ends


def main() -> None:
    parser = argparse.ArgumentParser(prog="grammar", description=__doc__)
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    dice, drawn, outcomes, faults, begun = random.Random(given.seed), Constants(), Counter[str](), Faults(), time.monotonic()
    for first in range(0, given.statements, AT_ONCE):
        with tempfile.TemporaryDirectory() as folder, faults.noted():
            session = session_for(Path(folder))
            for _ in range(min(AT_ONCE, given.statements - first)):
                text = drawn.statement(dice)
                fault, code = outcome(text, session)
                outcomes[code] += 1
                if fault and faults.add(fault):
                    print(f"{fault}\n    {text}", flush=True)
            session.close()
        print(f"{time.monotonic() - begun:.0f} s: {sum(outcomes.values())} statements, {outcomes.most_common(8)}, "
              f"{sum(faults.found.values())} faults of {len(faults.found)} kinds", flush=True)


if __name__ == "__main__":
    main()
