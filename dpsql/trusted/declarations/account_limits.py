"""How many statements of an account may go wrong, unless the policy says otherwise."""

from __future__ import annotations

INCIDENTS = 3  # how many may fail after their charge
LATE = 20  # how many outcomes may leave a server late until all later ones have to wait
FADES = 7  # days, up to and including today, whose late outcomes count
