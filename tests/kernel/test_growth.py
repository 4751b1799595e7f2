"""Tables that grow: how time is cut into periods, what a statement says that it reads, and which rows the scan of a period gives."""

from __future__ import annotations



