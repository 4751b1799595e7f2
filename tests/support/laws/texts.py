"""The statements of `texts.sql`.

`TEXTS` may be asked about either kind of entity, `HOUSEHOLD` only about households: there a person's rows are one household's,
and the table of households itself is theirs. Most of `ALGEBRA` need limits of keys.
"""

from __future__ import annotations

from pathlib import Path

from support.sections import sections

_LISTS = sections(Path(__file__).with_suffix(".sql"))
TEXTS, HOUSEHOLD, ALGEBRA = _LISTS["TEXTS"], _LISTS["HOUSEHOLD"], _LISTS["ALGEBRA"]
