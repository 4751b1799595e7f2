"""What an account was told before about the same version of the data: measurements that later statements use for nothing."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.batch.counted_keys import CountedKeys
from dpsql.batch.records import Record, decoded
from dpsql.engine.answered_groups import group_marginals
from dpsql.engine.session import Session
from dpsql.models.junction_tree import model_cells
from dpsql.models.noisy_marginals import MarginalMeasurement, combined
from dpsql.models.table_domain import TableDomain
from dpsql.synthesis.methods.aim import MOST_CELLS
from dpsql.trusted.kernel.marks import MEASURED


def kept_records(session: Session) -> list[Record]:
    """The records of all stored answers, oldest first."""
    bodies = session.ledger.holding(session.account, session.kernel.version, MEASURED)
    return [record for body in bodies for record in decoded(body)]


def known_marginals(counted: CountedKeys, names: Mapping[str, str], domain: TableDomain, session: Session) -> tuple[
        MarginalMeasurement, ...]:
    """The marginals of a table that earlier statements have measured, by the names of its columns. Each set of columns occurs
    once; small ones come first, as far as they fit into one model."""
    told = [marginal for record in kept_records(session) if record.asked.sums == counted.rows
            for marginal in counted.marginals(record, names)]
    told += group_marginals(counted, names, session)
    found: list[MarginalMeasurement] = []
    for each in sorted(combined(domain, told), key=lambda each: each.values.size):
        if model_cells(domain, [*(one.columns for one in found), each.columns]) <= MOST_CELLS:
            found.append(each)
    return tuple(found)
