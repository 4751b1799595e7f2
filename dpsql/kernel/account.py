"""Accounts: what charges are counted by."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.catalog.names import normal


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account a charge belongs to: an analyst's, within a budget."""

    budget: str
    analyst: str

    @property
    def named(self) -> Account:
        """The same account under its normal name, by which events are counted."""
        return Account(budget=self.budget, analyst=normal(self.analyst))
