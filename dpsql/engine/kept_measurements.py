"""Measurements of the same version of the data that later statements use at no cost: those of the account and, where answers are
shared, those of other accounts of the budget under the same policy."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.batch.counted_keys import CountedKeys
from dpsql.batch.records import Record, decoded
from dpsql.engine.answered_groups import group_marginals
from dpsql.engine.session import Session
from dpsql.frozen import Frozen, replace
from dpsql.models.junction_tree import model_cells
from dpsql.models.noisy_marginals import MarginalMeasurement, combined
from dpsql.models.table_domain import TableDomain
from dpsql.trusted.kernel.marks import MEASURED


def kept_records(session: Session) -> list[Record]:
    """The records of all stored answers that the account was told, oldest first."""
    found = session.ledger.holding(session.account, session.kernel.version, MEASURED)
    return [record for each in found for record in decoded(each.body)]


def all_records(session: Session) -> list[Record]:
    """The records of the account, followed by those of other accounts if the budget shares answers. A plan may depend on the
    queries and the noise of the latter, but not on their numbers: the account sees these only when its statement is answered."""
    found = session.ledger.of_others(session.account, session.kernel.version, MEASURED) if session.budget.share_answers else []
    return [*kept_records(session), *(replace(record, charge=each.charge) for each in found for record in decoded(each.body)
                                      if record.policy == session.policy)]


def policy_of_records(session: Session) -> str:
    """The policy that records name, where they are shared with other accounts; otherwise ""."""
    return session.policy if session.budget.share_answers else ""


class KnownMarginals(Frozen):
    """Marginals that earlier statements have measured, and the charges of other accounts that paid for them."""

    marginals: tuple[MarginalMeasurement, ...] = ()
    charges: tuple[int, ...] = ()


def known_marginals(counted: CountedKeys, names: Mapping[str, str], domain: TableDomain, session: Session) -> KnownMarginals:
    """The marginals of a table that earlier statements have measured, by the names of its columns. Each set of columns occurs
    once; small ones come first, as far as they fit into one model."""
    from dpsql.synthesis.methods.aim import MOST_CELLS  # loaded when used: plans of workloads need only the records

    told = [(marginal, record.charge) for record in all_records(session) if record.asked.sums == counted.rows
            for marginal in counted.marginals(record, names)]
    told += group_marginals(counted, names, session)
    found: list[MarginalMeasurement] = []
    for each in sorted(combined(domain, (marginal for marginal, _ in told)), key=lambda each: each.values.size):
        if model_cells(domain, [*(one.columns for one in found), each.columns]) <= MOST_CELLS:
            found.append(each)
    used = {one.columns for one in found}
    return KnownMarginals(marginals=tuple(found), charges=tuple(sorted({
        charge for marginal, charge in told if charge and domain.ordered(marginal.columns) in used})))
