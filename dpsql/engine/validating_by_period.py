"""VALIDATE of queries that group by the period of a growing table: one decision for each period, charged to it and stored.

All groups of a check are decided together. Where these are of several periods, that would take two steps in each of them
(`trusted.kernel.period_reads`), and next month the decision would be another one. So the groups of each period are decided by
themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpsql.answers.described_columns import OF_CHECKS, DescribedColumn, columns_of
from dpsql.engine.charging import ChargeRequest, located
from dpsql.engine.conditions_of_periods import each_period, growing_scan, only_in
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters, shared_out
from dpsql.engine.period_by_period import dues_of, explained, periods_of
from dpsql.engine.room_for_periods import check_room
from dpsql.engine.session import Session
from dpsql.engine.validating import Checks, validation
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.planning.explain import Explanation
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.statement import Validate
from dpsql.trusted.declarations.growth import PeriodRange, names_of
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.validation.findings import Validation


@guarded
def validate(statement: Validate, session: Session, parameters: Parameters = (),
             synthetic: Mapping[str | None, Any] | None = None) -> Validation:
    """Decide whether synthetic tables answer queries like the private ones. `synthetic` maps the names of private tables
    (None: the only one) to the files or frames that replace them; without it, the statement names public tables. Raises a
    located error.
    """
    return checks_of(statement, session, parameters, synthetic).answer()


def checks_of(statement: Validate, session: Session, parameters: Parameters = (),
              synthetic: Mapping[str | None, Any] | None = None) -> Checks | ChecksByPeriod:
    """The plan of a VALIDATE statement. Raises a located error if it is wrong."""
    def planned(asked: Validate) -> Checks:
        return Checks(plan=validation(asked, session, parameters, synthetic), text=statement.text, session=session)

    scans: list[Scan | None] = [*_scans(statement, session, parameters)] if session.catalog.periods else [None]
    periods = {scan.periods if scan is not None else None for scan in scans}
    if len(periods) > 1 or None in periods:
        return planned(statement)
    each = each_period(scans[0]) if scans[0] is not None else []
    return ChecksByPeriod(parts=tuple(planned(_of_period(statement, scans, one)) for one in each),
                          names=tuple(names_of(one) for one in each))


def _scans(statement: Validate, session: Session, parameters: Parameters) -> Iterator[Scan | None]:
    """For each check, the scan whose periods its groups are of; None if it has none."""
    queries = [check.query for check in statement.checks]
    with located(statement.text):
        given_to_each = shared_out(parameters, queries)
    for query, given in zip(queries, given_to_each, strict=True):
        try:
            question = bind(query, session.catalog, session.kernel, session.scratch, given)
        except Error:  # reported where the statement is planned
            yield None
            continue
        yield growing_scan(query.tree, question.view) if periods_of(question, session) is not None else None


def _of_period(statement: Validate, scans: list[Scan | None], period: PeriodRange) -> Validate:
    return replace(statement, checks=tuple(
        check if scan is None else replace(check, query=only_in(check.query, scan, period))
        for check, scan in zip(statement.checks, scans, strict=True)))


class ChecksByPeriod(Frozen):
    """The checks of each period, in order."""

    parts: tuple[Checks, ...]
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return columns_of(OF_CHECKS)

    def explain(self) -> Explanation:
        return explained(self.parts, self.names, "decision", "decided")

    def dues(self) -> Iterator[ChargeRequest]:
        """The bills of the periods that were not decided before."""
        return dues_of(self.parts)

    def answer(self) -> Validation:
        with located(self.parts[0].text):
            check_room(self.parts, self.parts[0].session)
        made = [part.answer() for part in self.parts]
        new = [one for one in made if not one.stored]
        findings = tuple(replace(found, query=f"{found.query} (in {name})")
                         for one, name in zip(made, self.names, strict=True) for found in one.findings)
        cost = (new or made)[0].cost
        return replace(made[-1], findings=findings, cost=f"{len(new)} times {cost}" if len(new) > 1 else cost,
                       notes=tuple(dict.fromkeys(note for one in made for note in one.notes)), stored=not new)
