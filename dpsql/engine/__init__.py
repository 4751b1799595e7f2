"""The river: statements from text to answer, by kinds. `answering` is where to begin."""

from dpsql.engine.accounts import budget_of, releases_of
from dpsql.engine.answering import Result, answer, explain
from dpsql.engine.many import check_all
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.engine.together import batched, explain_workload, workload
from dpsql.engine.validating import validate

__all__ = ["Parameters", "Result", "Session", "answer", "batched", "budget_of", "check_all", "explain", "explain_workload",
           "releases_of", "validate", "workload"]
