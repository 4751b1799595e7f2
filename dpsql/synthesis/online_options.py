"""OPTIONS of CREATE ONLINE MODEL."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.catalog.price import Price
from dpsql.frozen import Frozen
from dpsql.planning.options import Options, named_option, own_options, read_options
from dpsql.sql.text.statement import Option
from dpsql.synthesis.table_options import MOST_BINS, SHARED, number_option
from dpsql.trusted.accounting.cost import Cost

ONLINE_METHODS = ("pmw", "net")
OWN = ("method", "queries", "updates", "bins")
QUERIES, MOST_QUERIES = 1000, 10**9
MOST_UPDATES = 1000
FEW, MANY = 20, 60  # updates, for a small and a larger price
LARGE = Fraction(1, 1000)  # rho of a price for which there are many


class OnlineTerms(Frozen):
    """The choices of one online model.

    options  price and limit on rows, as of a SELECT
    method   how counts are answered: 'pmw' or 'net'
    queries  how many counts are going to be asked, about
    updates  how many of them may be measured; None: as many as suit the price
    bins     into how many parts the range of a column of numbers is cut; None: into the declared ones
    """

    options: Options
    method: str = ONLINE_METHODS[0]
    queries: int = QUERIES
    updates: int | None = None
    bins: int | None = None


def usual_updates(price: Cost) -> int:
    """The number of updates that a price should buy. With more updates the model becomes better, but all of its answers become
    less exact."""
    return MANY if price.epsilon is None and price.rho >= LARGE else FEW


def read_online_terms(given: Sequence[Option], *, default: Price | None) -> OnlineTerms:
    """Read the options of an online model. Raises OptionError, located, for an unknown name, a repeated one, or an impossible
    value."""
    own = own_options(given, OWN, SHARED, "an online model")
    options = read_options([option for option in given if option.name in SHARED], default=default,
                           confidence=Fraction(19, 20), known=())
    method = named_option(own.get("method"), ONLINE_METHODS)
    return OnlineTerms(options=options, method=ONLINE_METHODS[0] if method == "auto" else method,
                       queries=number_option(own.get("queries"), MOST_QUERIES) or QUERIES,
                       updates=number_option(own.get("updates"), MOST_UPDATES),
                       bins=number_option(own.get("bins"), MOST_BINS))
