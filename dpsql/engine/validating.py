"""Whether synthetic tables answer queries as the private ones do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsql.engine.charging import located, paid
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters, shared_out
from dpsql.engine.session import Session
from dpsql.plan.identity import digest
from dpsql.sql.text.statement import Query, Validate
from dpsql.validation.check_plan import Plan as ValidationPlan
from dpsql.validation.check_plan import planned
from dpsql.validation.deciders.all_deciders import NAMES as DECIDERS
from dpsql.validation.findings import Validation
from dpsql.validation.findings import of_json as validation_of
from dpsql.validation.prepare import Side, prepared
from dpsql.validation.suites import SUITES
from dpsql.validation.synthetic import Stand, brought, declared
from dpsql.validation.terms import read_terms


@guarded
def validate(statement: Validate, session: Session, parameters: Parameters = (),
             synthetic: Mapping[str | None, Any] | None = None) -> Validation:
    """Whether synthetic tables answer queries as the private ones do. `synthetic` are files or frames by the names of the
    private tables that they stand for (None: the only one); without it, the statement names public tables.
    """
    plan = validation(statement, session, parameters, synthetic)
    identity = digest(session.policy, *plan.identity)
    stored = session.ledger.stored(session.account, identity, session.kernel.version)
    if stored is not None:
        return validation_of(stored).named([check.finding.query for check in plan.checks])
    made: Validation = paid(plan.steps(), plan.purse, plan.terms.options, identity, statement.text, session,
                            [check.case.asked.view for check in plan.checks])
    return made


def validation(statement: Validate, session: Session, parameters: Parameters,
               synthetic: Mapping[str | None, Any] | None) -> ValidationPlan:
    """The plan of a VALIDATE; nothing private is read. Raises what is wrong with it, located."""
    with located(statement.text):
        terms = read_terms(statement.options, default=session.price, deciders=DECIDERS, suites=tuple(SUITES))
        queries = [check.query for check in statement.checks]
        side = Side(catalog=session.catalog, public=session.kernel, scratch=session.scratch, options=terms.options)

        def stand(checked: Sequence[Query]) -> Stand:
            if synthetic is not None:
                return brought(synthetic, checked, session.catalog, session.kernel, session.uploads)
            return declared(statement.standing, checked, session.catalog, session.kernel)

        checks = prepared(statement.checks, side, stand, shared_out(parameters, queries))
        return planned(checks, terms, session.budget, session.kernel)
