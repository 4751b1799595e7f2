"""Markers in the text of stored answers, by which they are found; the ledger has an index for each marker."""

from __future__ import annotations

MEASURED = '"measured"'  # answers with records of what was measured
SYNTHETIC = '{"synthetic table'  # synthetic tables, several together, and notes about them begin with it
ONLINE = '{"online model": '  # the stored form of each begins with it
MARKS = {"measured": MEASURED, "synthetic": SYNTHETIC, "online": ONLINE}
