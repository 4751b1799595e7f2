"""What a question asks, of which rows, and how contributions to it are bounded: all that its parts and their tasks depend on."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.mechanisms.named_bounds import Bound
from dpsql.planning.contribution_bound import ContributionBound
from dpsql.planning.options import Options
from dpsql.questions.question import Question
from dpsql.trusted.plan.node import Node, Stability


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedQuestion:
    """A question with the decisions about its rows.

    view     the rows that are asked about, with declared limits and `max_rows` enforced
    known    the stability of the view
    decided  the bound on what an entity adds to sums, and the reason for it
    groups   in how many undeclared groups an entity counts
    """

    question: Question
    options: Options
    view: Node
    known: Stability
    decided: ContributionBound
    groups: int = 1

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key.column for key in self.question.keys)

    @property
    def owner(self) -> str:
        assert self.known.owner is not None
        return self.known.owner

    @property
    def bound(self) -> Bound:
        return self.decided.bound
