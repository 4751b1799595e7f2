"""Tables that grow: how time is cut into periods, what a statement says that it reads, and which rows the scan of a period gives."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pytest
from support.laws.growing import Growing, GrowingFamily, growing_families, growing_plans, grown
from support.laws.bad_worlds import crowded
from support.sessions import scratch

from dpsql.backends.duckdb import DuckReader, attach_memory, lock_down
from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import Charge, Cost, concentrated, pure
