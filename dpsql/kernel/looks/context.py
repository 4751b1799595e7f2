"""What a look has at hand."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.backends.reader import Reader
from dpsql.kernel.looks.elide import MostRows
from dpsql.kernel.noise.source import Source
from dpsql.plan.node import Node, Printing, fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The reader of private rows, the source of noise, the secret of truncation, and which truncations change nothing."""

    reader: Reader
    noise: Source
    printing: Printing
    most_rows: MostRows

    def sql(self, plan: Node) -> str:
        """The plan as it is executed."""
        return fold(self.most_rows.elide(plan), lambda node, below: node.render(below, self.printing))
