"""Mechanisms that a statement names although they have nothing to do in it."""

from __future__ import annotations

from dpsql.errors import OptionError
from dpsql.mechanisms.all_mechanisms import MECHANISMS
from dpsql.mechanisms.mechanism import Rejected, Task
from dpsql.mechanisms.select.undeclared_keys import RULES
from dpsql.planning.all_part_kinds import KINDS
from dpsql.planning.groups import cells_declared
from dpsql.planning.part_kind import Reach
from dpsql.planning.program import Program
from dpsql.questions.parts import Part


def check_mechanisms(program: Program) -> None:
    """Raises OptionError if a named mechanism is not used."""
    idle = unused(program)
    if idle:
        name, reason = next(iter(idle.items()))
        raise OptionError(f"{name} cannot answer this statement: {reason}", code="mechanism", subject=name,
                          span=program.options.span.get("mechanism"), try_="the statement without it; the best method is then "
                                                                           "chosen")


def unused(program: Program) -> dict[str, str]:
    """The mechanisms that were named but can answer no question of the statement, each with a reason."""
    found = _unused_in(program)
    others = [_unused_in(below) for _, below in program.first]
    return {name: reason for name, reason in found.items() if all(name in other for other in others)}


def _unused_in(program: Program) -> dict[str, str]:
    cells = cells_declared(program.question) + bool(program.undeclared_keys)
    samples = [_sample(i, part, program) for i, part in enumerate(program.decomposition.parts)]
    found = {}
    for name in program.options.mechanisms:
        if name in RULES:
            if program.rule is None or program.rule.name != name:
                found[name] = "it only selects groups with undeclared keys, and only at certain prices"
            continue
        mechanism = next(known for known in MECHANISMS if known.name == name)
        verdicts = [mechanism.judge(task, program.allotted, cells) for task in samples]
        reasons = [verdict.because for verdict in verdicts if isinstance(verdict, Rejected)]
        if len(reasons) == len(verdicts):
            found[name] = reasons[-1] if reasons else "nothing is measured"
    return found


def _sample(at: int, part: Part, program: Program) -> Task:
    """A task of this part's kind, to find out which mechanisms could do it."""
    if program.degrees is not None:
        return program.degrees.at_most(1).task(at, part, program.keys, program.bound.name)
    kind = KINDS[type(part)]
    if program.bound.mechanism is not None:
        return kind.shared_task(at, part, program, program.view, Reach())
    return kind.sample(at, part, program)
