"""Every bound on an entity's contribution to sums, by its name in OPTIONS (bound = '...')."""

from __future__ import annotations

from dpsql.frozen import Frozen
from dpsql.mechanisms.local.join_sensitivity import JoinSensitivity
from dpsql.mechanisms.mechanism import Mechanism
from dpsql.mechanisms.truncation.balance import Balanced
from dpsql.mechanisms.truncation.bands import Bands
from dpsql.mechanisms.truncation.declared_level import DeclaredLevel
from dpsql.mechanisms.truncation.graph_degrees import DegreeCounts
from dpsql.mechanisms.truncation.race_to_the_top import RaceToTheTop
from dpsql.mechanisms.truncation.recursive import Recursive
from dpsql.mechanisms.truncation.removals import Removals


class Bound(Frozen):
    """A bound on what one entity contributes. A new one is one line of `BOUNDS`.

    name       in OPTIONS (bound = '...')
    does       what it does, in words that continue "each entity's contribution"
    one        whether it is for rows that belong to one entity each
    several    whether it is for rows that belong to several entities each
    needs      options that it requires
    takes      further options that it uses
    decomposes whether it decomposes a join and limits the rows of each relation, without changing the join itself
    degrees    whether it is for the degrees of a graph: the number of rows for one of the two entities that own each row
    each       whether it bounds one number per row, so that COUNT, SUM and AVG are computed from parts of one component
    about      whether the errors reported for its sums are approximate, so that intervals may cover less often than stated
    mechanism  the mechanism that answers its sums, which are tasks of type `Shared`; None if rows or totals are limited
               beforehand, so that any mechanism can answer
    """

    name: str
    does: str
    one: bool = False
    several: bool = False
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    decomposes: bool = False
    degrees: bool = False
    each: bool = False
    about: bool = False
    mechanism: Mechanism | None = None


BOUNDS: tuple[Bound, ...] = (
    Bound(name="clip", does="is scaled down until its total is within a limit", one=True, takes=("clip", "max_rows")),
    Bound(name="rows", does="comes from a limited number of its rows", one=True, takes=("max_rows",)),
    Bound(name="frequency", does="comes from a limited number of its rows, each joined with a limited number of others",
          one=True, several=True, takes=("max_rows", "max_frequency")),
    Bound(name="reservoir", does="comes from max_groups of its groups, clamped to clip in each", one=True, each=True,
          needs=("clip", "max_groups"), takes=("max_rows",)),
    Bound(name="bands", does="is counted in the band (power of two) of its total; significant bands are added up",
          one=True, takes=("max_groups", "max_rows"), each=True, about=True, mechanism=Bands()),
    Bound(name="balance", does="is limited to a level chosen privately, which balances bias and noise", one=True,
          several=True, takes=("clip", "max_rows"), each=True, mechanism=Balanced()),
    Bound(name="removals", does="is limited to a level chosen privately, by the number of entities to remove until none exceeds "
                                "it",
          one=True, several=True, takes=("clip", "max_rows"), each=True, mechanism=Removals()),
    Bound(name="recursive", does="is limited to a level chosen by the recursive mechanism", one=True, several=True,
          takes=("clip", "max_rows"), each=True, mechanism=Recursive()),
    Bound(name="r2t", does="is limited to each of several levels, and the largest noisy underestimate is released",
          one=True, several=True, takes=("clip", "max_rows"), each=True, about=True, mechanism=RaceToTheTop()),
    Bound(name="extension", does="is limited to a declared level, that of clip or rows_per_entity", one=True, several=True,
          needs=("clip",), takes=("max_rows",), each=True, mechanism=DeclaredLevel()),
    Bound(name="elastic", does="is covered by noise scaled to elastic sensitivity, computed from how often join values occur",
          one=True, several=True, takes=("max_rows",), decomposes=True, each=True, about=True,
          mechanism=JoinSensitivity("elastic", residual=False)),
    Bound(name="residual", does="is covered by noise scaled to residual sensitivity, computed from sizes of parts of the join",
          one=True, several=True, takes=("max_rows",), decomposes=True, each=True, about=True,
          mechanism=JoinSensitivity("residual", residual=True)),
    Bound(name="projection", does="comes from rows that were added one by one while both their entities were below the limit",
          degrees=True, takes=("max_rows",), each=True, mechanism=DegreeCounts("projection")),
    Bound(name="flow", does="comes from a limited number of its rows: as many as possible are kept, as evenly as possible",
          degrees=True, takes=("max_rows",), each=True, mechanism=DegreeCounts("flow")),
)
BY_NAME = {bound.name: bound for bound in BOUNDS}
