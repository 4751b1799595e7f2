"""Groups of few entities are withheld if the policy says how many a group must have to be shown: `minimum_frequency = 10`.

Statistical offices are bound by such rules. The rule is about what is published; privacy does not depend on it. Which groups are
small is itself private, so the rule acts on a released number: a noisy count of entities, which is paid for out of the
statement's price. A group is shown if the lower end of its one-sided interval is above `entities - 1`.

Claim: a group of fewer entities is shown with a probability of at most `CHANCE` in `answers.answer`. Proof: the count is at
most `rows` times the number n of entities, whatever the rows are: it is the number of distinct entities of the rows that limits
keep (rows = 1), or a number of rows of which each entity keeps at most `rows`, and each of which names one. If a row belongs to
several entities, and the rows of an entity have no limit, it is the largest number of rows with at most one for each entity
(`Matchings`, rows = 1), which may be far less than n; the tolerance of the solver is subtracted. So for n <= entities - 1 the
group is shown only if the lower end lies above rows * (entities - 1) >= rows * n >= the count, which an interval allows
with at most that probability, if the distribution of its error is known: bounds, strategies and `consistency` that cause other
errors in counts are refused. Which groups are shown is then post-processing of released numbers.

Source: the rule as in Matsumoto, Takakura, Takagi and Hasegawa 2026 (DPSQL+), which tests a noisy count as well.
"""

from __future__ import annotations

from dpsql.catalog.model import Entity
from dpsql.errors import Unsupported
from dpsql.frozen import replace
from dpsql.questions.question import AggregateCall, MinimumFrequency, Question
from dpsql.trusted.plan.node import Stability
from dpsql.types import Type

COUNT = "#entities"


def with_minimum(question: Question, known: Stability, entity: Entity, *, linear: bool = False) -> Question:
    """The question, with a count of the entities of each group, so that small groups can be withheld.

    With `linear`, rows are counted instead, as workloads cannot count distinct entities; likewise where a row may belong to
    several entities, each with a limited number of rows: n rows name at least n / limit entities. Raises Unsupported, located, if
    nothing can be counted.
    """
    least, numbers = entity.minimum_frequency, question.aggregates or any(key.domain is None for key in question.keys)
    if known.public or not numbers:
        return question
    span = next((call.span for call in question.aggregates), None)
    if known.owner is None and known.owners and known.rows is None and not linear:
        call = AggregateCall(id=COUNT, function="count_entities", type=Type.BIGINT, span=span,
                             text=f"the number of entities ({entity.name})")
        minimum = MinimumFrequency(count=COUNT, rows=1, entities=least, entity=entity.name)
        return replace(question, aggregates=(*question.aggregates, call), minimum=minimum)
    if known.owner is None and (known.rows is None or not known.owners):
        several = "belongs to several entities" if known.owners else "is not that of one entity"
        raise Unsupported(f"the policy withholds groups of fewer than {least} entities ({entity.name}), and if a row "
                          f"{several}, the entities of a group cannot be counted", code="minimum-frequency", span=span,
                          try_="a query over rows that belong to one entity each")
    by_rows = linear or known.rows == 1 or known.owner is None
    rows = known.rows if by_rows else 1
    assert rows is not None
    owner = known.owner or min(known.owners, key=lambda one: (question.view.field(one).facts.nullable, one))
    named = question.view.field(owner).facts.nullable or not by_rows  # a row without an entity counts for none
    call = AggregateCall(id=COUNT, function="count" if by_rows else "count_distinct", columns=(owner,) if named else (),
                         type=Type.BIGINT, span=span, text=f"the number of entities ({entity.name})")
    minimum = MinimumFrequency(count=COUNT, rows=rows, entities=least, entity=entity.name)
    return replace(question, aggregates=(*question.aggregates, call), minimum=minimum)
