"""Which keys of a database of another kind name its entities here.

The database ties rows to an entity by its own equality: that of a primary key, and of the foreign key along which it deletes the
entity's rows. We tie them by the values that we read. Let the database find `ann` and `ANN` equal: then she is one entity there
and two here, and has twice the rows that a limit allows, or k times with k spellings. Let it tell two values apart that are read
as the same one: then they are one entity here, and of the rows that a limit keeps for it some leave with one of the two and are
replaced by rows of the other. Neither is what was claimed. So the two equalities have to be the same, on all values that are not
read as NULL (rows with those belong to nobody, each by itself).

Proof, for each key that is let through. `dialects` says of a column's type, and of the way it is read, what is compared; the type
is that of the catalog, with domains undone. `Dialect.unlike` says where a column is compared otherwise than its type is: by its
collation, or by operators of the owner's. What neither knows is refused. And a foreign key whose two columns are compared as the
same thing is compared so itself: no side is converted first, as a text is to the padded text that it references.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.backends.dialects import PLAIN, Dialect, Reading
from dpsql.errors import OperationalError

CODE = "key-equality"


def check_key(place: str, column: str, reading: Reading, unlike: Mapping[str, str], dialect: Dialect) -> None:
    """Raise OperationalError about `place`, a declared column that links rows to entities, if the database compares its values by
    another equality than dpsql does. `column` is its name in the database."""
    own = dialect.canonical.format(column)
    if not reading.equality:
        fits = " or ".join(f'type = "{kind}"' for kind in dialect.fitting_keys(reading.of))
        raise OperationalError(f"{place} links rows to entities, and its type in the database is {reading.of or 'unnamed'}: "
                               f"read as {reading.target}, equal values could become different names, or different ones the same",
                               code=CODE, subject=place,
                               try_=fits or f"a key of whole numbers or text, here and where it is referenced, such as {own}")
    if column in unlike:
        raise OperationalError(f"{place} links rows to entities, and the database does not compare it letter by letter: "
                               f"{unlike[column]}, so one entity could have rows under several names", code=CODE, subject=place,
                               try_=f"a key with one spelling for each entity, here and where it is referenced, such as {own}")


def check_pairs(equalities: Mapping[tuple[str, str], str], ties: Mapping[tuple[str, str], frozenset[tuple[str, str]]],
                in_databases: frozenset[str]) -> None:
    """Raise OperationalError if a foreign key links two columns, each given as (table, column), whose values are compared
    differently. `in_databases` are the tables that are in databases of other kinds, if not described yet; all others are in
    files."""
    for (table, column), others in ties.items():
        own, place = equalities[table, column], f"{table}.{column}"
        for other in sorted(others):
            theirs = equalities.get(other)
            if theirs is not None and theirs != own:
                raise OperationalError(f"{place} and {'.'.join(other)} link rows to entities, and are compared in different "
                                       f"ways: as {own}, and as {theirs}", code=CODE, subject=place,
                                       try_="the same type in the database for both, and in the policy")
            if other[0] not in in_databases and own not in PLAIN:
                raise OperationalError(f"{place} links rows to entities in files, and the database compares it as {own}, "
                                       "which files may spell differently", code=CODE, subject=place,
                                       try_="a key of whole numbers or text, or both tables in the database")
