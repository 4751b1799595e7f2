"""VALIDATE: whether synthetic tables answer queries as the private ones do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsql.answers.described_columns import OF_CHECKS, DescribedColumn, columns_of
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, located
from dpsql.engine.parameters import Parameters, shared_out
from dpsql.engine.session import Session
from dpsql.planning.explain import Explanation
from dpsql.questions.identity import digest
from dpsql.sql.text.statement import Query, Validate
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.plan.node import Node
from dpsql.validation.check_plan import CheckPlan as ValidationPlan
from dpsql.validation.check_plan import planned
from dpsql.validation.deciders.all_deciders import NAMES as DECIDERS
from dpsql.validation.explain_checks import explained_validation
from dpsql.validation.findings import Validation, of_json
from dpsql.validation.prepare import Side, prepared
from dpsql.validation.suites import SUITES
from dpsql.validation.synthetic import Substitution, brought, declared
from dpsql.validation.terms import read_terms


class Checks(Charged[Validation]):
    """A planned validation."""

    plan: ValidationPlan

    @property
    def identity(self) -> str:
        return digest(self.session.policy, *self.plan.identity)

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_CHECKS)

    def explanation(self) -> Explanation:
        return explained_validation(self.plan, self.session.kernel, entity=self.session.catalog.entity.name,
                                    left=left_in_budget(self.session))

    def answer(self) -> Validation:
        return self.stored_or_paid()

    def read(self, stored: str) -> Validation:
        return of_json(stored).named([check.finding.query for check in self.plan.checks])

    def queried(self) -> tuple[Sequence[Node], Cost]:
        return [check.case.asked.view for check in self.plan.checks], self.plan.allotted

    def bill(self) -> ChargeRequest:
        return ChargeRequest(steps=self.plan.steps(), cost=self.plan.allotted, options=self.plan.terms.options,
                             views=[check.case.asked.view for check in self.plan.read_later])


def validation(statement: Validate, session: Session, parameters: Parameters,
               synthetic: Mapping[str | None, Any] | None) -> ValidationPlan:
    """The plan of a VALIDATE statement; no private rows are read. Raises a located error if it is wrong."""
    with located(statement.text):
        terms = read_terms(statement.options, default=session.price, deciders=DECIDERS, suites=tuple(SUITES))
        queries = [check.query for check in statement.checks]
        side = Side(catalog=session.catalog, public=session.kernel, scratch=session.scratch, options=terms.options)

        def stand(checked: Sequence[Query]) -> Substitution:
            if synthetic is not None:
                return brought(synthetic, checked, session.catalog, session.kernel, session.uploads)
            return declared(statement.standing, checked, session.catalog, session.kernel)

        checks = prepared(statement.checks, side, stand, shared_out(parameters, queries))
        return planned(checks, terms, session.budget, session.kernel)
