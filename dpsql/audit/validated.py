"""A VALIDATE statement that is planned once and decided many times, for statistics on its decisions. See `prepared`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.engine.session import Session
from dpsql.engine.validating import validation
from dpsql.sql.text.statement import Validate
from dpsql.validation.findings import Validation


class Validated:
    """One VALIDATE statement of a session. Nothing is charged, so its decisions are not private."""

    def __init__(self, statement: Validate, session: Session, synthetic: Mapping[str | None, Any] | None = None) -> None:
        self.session = session
        self.plan = validation(statement, session, (), synthetic)

    def decide(self) -> Validation:
        made: Validation = self.session.kernel._serve(self.plan.steps(), self.plan.allotted)
        return made
