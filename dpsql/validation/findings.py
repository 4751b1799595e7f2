"""The findings of VALIDATE: for each check the decision and its certainty, all made from released and public values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from dpsql.answers.answer import Answer, AnswerColumn
from dpsql.answers.asked import Asked
from dpsql.answers.columns import of_rows
from dpsql.answers.described_columns import OF_CHECKS
from dpsql.frozen import Frozen, asdict, field, replace
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.validation.deciders.decider import CONFIDENCE, Outcome

YES, NO, INCONCLUSIVE, UNTESTED = "yes", "no", "inconclusive", "not tested"


class Finding(Frozen):
    """One check.

    query      its text
    cells      the groups, one empty one without GROUP BY
    synthetic  the answers on the synthetic table, by group
    low, high  the open intervals in which the private answers should lie, by group
    decision   yes, no, inconclusive or not tested
    decider    which decided
    p_outside  the chance of a result as good if an answer lay outside; None if the decider tells none
    p_inside   the chance of a result as bad if all lay within
    slack      the noisy number of entities that would have to be added or removed to change the truth; 1 or more means within
    spread     the standard deviation of its noise
    margin     half the width of its 95 % interval
    certain    a distance, in entities, from which a wrong yes or no has a chance of at most alpha
    mistakes   the greatest chance of a wrong yes or no by distance, for distances up to that one
    price      what this check took of the price
    unit       the most that an entity moves the answer, where that is known
    held       the limit on each entity's contribution to the private answer, where there was one
    even       for either end of the interval, whether each entity of a slack stands for a whole unit inside of it: not where rows
               with small values have to leave
    """

    query: str
    cells: tuple[tuple[Value, ...], ...]
    synthetic: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    decision: str
    decider: str
    p_outside: float | None = None
    p_inside: float | None = None
    slack: int | None = None
    spread: float | None = None
    margin: float | None = None
    certain: int | None = None
    mistakes: tuple[tuple[int, float], ...] = ()
    price: str = ""
    unit: float | None = None
    held: float | None = None
    even: tuple[bool, bool] = (True, True)

    @property
    def truth(self) -> tuple[float, float] | None:
        """An interval that covers the private answer with 97.5 % probability: at least as far inside the tolerance, or at most as
        far outside, as the lower bound of the slack implies. None if groups are decided together, or if a slack has no meaning in
        units of the answer."""
        if self.slack is None or self.margin is None or self.unit is None or len(self.low) != 1:
            return None
        least = self.slack - self.margin
        inwards = min((least - 1) * self.unit, (self.high[0] - self.low[0]) / 2)
        low, high = (inwards if even or inwards < 0 else 0.0 for even in self.even)
        return self.low[0] + low, self.high[0] - high

    @property
    def slacks(self) -> tuple[float, float] | None:
        """The 95 % interval of the slack; None if no slack was released."""
        return None if self.slack is None or self.margin is None else (self.slack - self.margin, self.slack + self.margin)

    @property
    def chances(self) -> str:
        """How the probability of a wrong decision decreases with the distance, in words."""
        return ", ".join(f"{chance:.2g} at {distance:,}" for distance, chance in self.mistakes)

    @property
    def tolerance(self) -> str:
        """Half the width of the interval; if groups differ, that of the narrowest and the widest interval."""
        widths = [(high - low) / 2 for low, high in zip(self.low, self.high, strict=True)]
        least, most = min(widths), max(widths)
        return f"± {in_six_digits(least)}" if least == most else f"± {in_six_digits(least)} to {in_six_digits(most)}"


class Validation(Frozen):
    """The findings of a statement, and what it cost. `suite` is how checks shared the price; `stored` as for answers; `asked`
    finds what a page says beside them, where a connection answered that is still open."""

    findings: tuple[Finding, ...]
    suite: str
    alpha: float
    cost: str = ""
    notes: tuple[str, ...] = ()
    stored: bool = False
    asked: Callable[[], Asked | None] | None = field(default=None, repr=False, compare=False)
    FIELD: ClassVar[str] = "validation"

    @property
    def counts(self) -> dict[str, int]:
        """The number of checks with each decision."""
        found = Counter(finding.decision for finding in self.findings)
        return {word: found[word] for word in (YES, NO, INCONCLUSIVE, UNTESTED) if found[word]}

    @property
    def occasion(self) -> Asked | None:
        """The facts that a page shows besides the findings."""
        return None if self.asked is None else self.asked()

    def named(self, queries: Sequence[str]) -> Validation:
        """The same findings under other texts of the queries."""
        pairs = zip(self.findings, queries, strict=True)
        return replace(self, findings=tuple(replace(found, query=text) for found, text in pairs))

    def as_json(self) -> str:
        """A form for the ledger, which `of_json` reads."""
        told = {**asdict(replace(self, asked=None)), "stored": False}
        del told["asked"]
        return json.dumps(told, ensure_ascii=True, separators=(",", ":"), default=str)

    def as_table(self) -> Answer:
        """One row for each check."""
        rows, errors, intervals = [], [], []
        for found in self.findings:
            rows.append((found.query, _shown(found.synthetic), found.tolerance, found.decision, _rounded(found.p_outside),
                         _rounded(found.p_inside), found.slack, found.certain, found.decider))
            errors.append((*(None,) * 6, found.spread, None, None))
            intervals.append((*(None,) * 6, found.slacks, None, None))
        shown = tuple(AnswerColumn(name=name, type=kind, exact=name != "slack", approximate=False) for name, kind in OF_CHECKS)
        return Answer(columns=shown, data=of_rows(rows, errors, intervals, len(shown)), confidence=CONFIDENCE,
                      cost=self.cost, notes=self.summary, stored=self.stored)

    @property
    def summary(self) -> tuple[str, ...]:
        """The counts in words, and the notes."""
        counted = ", ".join(f"{count} {word}" for word, count in self.counts.items())
        held = dict.fromkeys(f"each entity's contribution is limited to {found.held:,.6g}" for found in self.findings
                             if found.held is not None)
        return (f"{len(self.findings)} check{'s' if len(self.findings) != 1 else ''}: {counted}", *held, *self.notes)


def of_json(text: str) -> Validation:
    """A stored validation."""
    body = json.loads(text)
    findings = tuple(Finding(**{name: _frozen(value) for name, value in found.items()}) for found in body.pop("findings"))
    return Validation(findings=findings, **{**body, "notes": tuple(body["notes"]), "stored": True})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def in_six_digits(value: float) -> str:
    """A number with at most six significant digits, without an exponent unless it is huge or tiny."""
    return f"{float(f'{value:.6g}'):.12g}"


def _rounded(chance: float | None) -> float | None:
    return None if chance is None else float(f"{chance:.3g}")


def _shown(values: Sequence[float]) -> str:
    return f"{values[0]:,.10g}" if len(values) == 1 else f"{len(values)} groups"


# -- from outcomes to decisions


def decided(findings: Sequence[Finding], outcomes: Sequence[Outcome | None], alpha: Fraction) -> tuple[Finding, ...]:
    """The findings with their decisions.

    Where a decider tells the chances of its result, decisions are those that Benjamini and Hochberg's procedure makes at level
    alpha, on either side: the chances of different checks rest on independent noise, and each is at least as large as a uniform
    number if the check's truth is the other one, so among the "yes" an expected share of alpha at most is wrong, and
    among the "no" too. Elsewhere the decision is the decider's own.
    """
    yes = _rejected([None if made is None else made.p_outside for made in outcomes], float(alpha))
    no = _rejected([None if made is None else made.p_inside for made in outcomes], float(alpha))
    found = []
    for i, (finding, made) in enumerate(zip(findings, outcomes, strict=True)):
        if made is None:
            found.append(replace(finding, decision=UNTESTED))
        else:
            sure = YES if i in yes else NO if i in no else INCONCLUSIVE
            own = YES if made.within else NO
            found.append(replace(finding, decision=own if made.p_outside is None else sure, p_outside=made.p_outside,
                                 p_inside=made.p_inside, slack=made.slack, spread=made.spread, margin=made.margin,
                                 unit=finding.unit if made.held is None else made.held,
                                 held=finding.held if made.held is None else made.held))
    return tuple(found)


def _rejected(chances: Sequence[float | None], alpha: float) -> set[int]:
    """Which hypotheses Benjamini and Hochberg (1995) reject."""
    known = sorted((chance, i) for i, chance in enumerate(chances) if chance is not None)
    last = max((rank for rank, (chance, _) in enumerate(known, start=1) if chance <= alpha * rank / len(known)), default=0)
    return {i for _, i in known[:last]}
