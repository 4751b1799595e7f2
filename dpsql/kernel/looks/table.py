"""Which file looks at which request, and which plans that reads. A request that is not listed is not looked at."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from dpsql.kernel.looks import (
    above,
    balance,
    blocks,
    degrees,
    join_sum,
    keys,
    measure,
    partition,
    race,
    removals,
    select,
    slack,
    smooth,
    threshold,
    tree,
    vote,
)
from dpsql.kernel.looks.context import Context
from dpsql.plan.apart import taken_apart
from dpsql.plan.certificate import Certificate
from dpsql.plan.node import PublicFacts
from dpsql.plan.operators.summary import Summary
from dpsql.requests import (
    Above,
    Balance,
    Blocks,
    Degrees,
    Failing,
    Keys,
    Level,
    Measure,
    Partition,
    Race,
    Recursive,
    Release,
    Removed,
    Request,
    Select,
    Slack,
    Smooth,
    SmoothSum,
    Threshold,
    Tree,
    Vote,
)

# Where requests are looked at that need to know no more than what they ask.
LOOKS: Mapping[type, ModuleType] = {
    Measure: measure, Select: select, Threshold: threshold, Keys: keys, Race: race, Balance: balance, Level: balance,
    Degrees: degrees, Removed: removals, Recursive: removals, Blocks: blocks, Partition: partition, Tree: tree}


def look(request: Request, certificates: tuple[Certificate, ...], context: Context, public: PublicFacts) -> Release:
    """The noisy answer of a request whose cost was paid; one certificate for each of its plans."""
    match request:
        case Smooth():
            return smooth.look(request, certificates[0].rows, context)
        case Slack():
            return slack.look(request, certificates, context)
        case Failing():
            return slack.failing(request, certificates, context)
        case Above():
            return above.look(request, certificates[0], context)
        case Vote():
            return vote.look(request, certificates[0], context)
        case SmoothSum():
            return join_sum.look(request, taken_apart(request.plan.input, public), context)
    found: Release = LOOKS[type(request)].look(request, context)
    return found


def executed(request: Request) -> list[Summary]:
    """The plans that a request reads, one for each of its certificates."""
    match request:
        case Slack() | Failing():
            return [test.plan for test in request.tests]
        case Blocks() | Partition() | Tree():
            return [request.cells]
        case _:
            return [request.plan]
