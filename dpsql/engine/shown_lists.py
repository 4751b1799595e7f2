"""SHOW: what an analyst may know without a charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpsql.answers.listing import Tabular
from dpsql.answers.listings import listed_releases, listed_tables
from dpsql.engine.accounts import budget_of, releases_of
from dpsql.engine.session import Session

if TYPE_CHECKING:
    from dpsql.engine.standing_queries import PlanOf


def tables_of(session: Session, plan_of: PlanOf) -> Tabular:
    """The tables that statements may name; `plan_of` makes plans."""
    from dpsql.engine.standing_shapes import with_all_tables
    from dpsql.engine.stored_models import models

    return listed_tables(with_all_tables(session, plan_of).catalog,
                         {name: made.domain.columns for name, made in models(session).items()})


def _periods(session: Session) -> Tabular:
    from dpsql.engine.period_accounts import periods_of  # loaded only where tables grow

    return periods_of(session)


LISTS: Mapping[str, Callable[[Session], Tabular]] = {
    "budget": budget_of, "periods": _periods, "releases": lambda session: listed_releases(releases_of(session))}
