"""OPTIONS of CREATE SYNTHETIC TABLE."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.catalog.price import Price
from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.planning.options import Options, named_option, own_options, read_options
from dpsql.sql.text.statement import Option

OWN = ("method", "score", "fit", "workload", "queries", "public", "rows", "bins", "rules", "made_up", "accept",
       "candidates", "no_copies")
SCORES, FITS, QUERIES = ("r", "mutual information"), ("network", "conditionals"), ("marginals", "single")
OF_METHODS = {"score": "privbayes", "fit": "privbayes", "public": "mwem_pub", "queries": "mwem"}  # options of one method each
SHARED = ("epsilon", "delta", "rho", "max_rows")  # with SELECT
MOST_BINS, MOST_ROWS, MOST_LINKED_ROWS = 1000, 10**8, 10**6
CANDIDATES, MOST_CANDIDATES = 8, 1000
ACCEPT = "accept = 'SELECT COUNT(*) FROM people_syn WHERE female WITHIN 5 PERCENT'"


class AcceptanceTerms(Frozen):
    """When a drawn table is accepted: the option with the criteria, and how many candidates are drawn at most."""

    option: Option
    candidates: int = CANDIDATES


class SynthesisTerms(Frozen):
    """The choices of one synthetic table.

    options  price and limit on rows, as of a SELECT
    method   the name of a method, or 'auto'
    score    how PrivBayes measures what parents tell of a column, or 'auto'
    fit      what PrivBayes makes of the counts, or 'auto'
    workload  what the table should be good at, as `named_workload` reads it; None if nothing is said
    single   whether a round of MWEM measures one count, and not a whole marginal
    public   the name of a public table for MWEM+PUB; None if none is named
    rows     how many rows are drawn; None: as many as the private rows seem to be
    bins     into how many parts the range of a column of numbers is cut; None: into the declared ones
    rules    what holds in every row, as `engine.table_rules` reads it; None if nothing is said
    made_up  columns that are made up, as `made_up_columns` reads it; None if there are none
    acceptance  when a drawn table is accepted; None: always
    """

    options: Options
    method: str = "auto"
    score: str = "auto"
    fit: str = "auto"
    workload: Option | None = None
    single: bool = False
    public: Option | None = None
    rows: int | None = None
    bins: int | None = None
    rules: Option | None = None
    made_up: Option | None = None
    acceptance: AcceptanceTerms | None = None


def read_terms(given: Sequence[Option], *, default: Price | None, methods: Sequence[str]) -> SynthesisTerms:
    """Read the options of a synthetic table. Raises OptionError, located, for an unknown name, a repeated one, or an impossible
    value."""
    own = own_options(given, OWN, SHARED, "a synthetic table")
    options = read_options([option for option in given if option.name in SHARED], default=default,
                           confidence=Fraction(19, 20), known=())
    method = named_option(own.get("method"), methods)
    for option in (own[name] for name, reader in OF_METHODS.items() if name in own and method != reader):
        reader = OF_METHODS[option.name]
        raise OptionError(f"{option.name} is an option of the method {reader} only", span=option.span, subject=option.name,
                          try_=f"method = '{reader}'")
    return SynthesisTerms(options=options, method=method, score=named_option(own.get("score"), SCORES),
                          fit=named_option(own.get("fit"), FITS), workload=own.get("workload"), public=own.get("public"),
                          single=named_option(own.get("queries"), QUERIES) == "single",
                          rows=number_option(own.get("rows"), MOST_ROWS), bins=number_option(own.get("bins"), MOST_BINS),
                          rules=own.get("rules"), made_up=own.get("made_up"),
                          acceptance=_acceptance(own))


def _acceptance(own: dict[str, Option]) -> AcceptanceTerms | None:
    """When a drawn table is accepted. Raises OptionError, located."""
    copies = own.get("no_copies")
    if copies is not None and copies.value is not False:
        raise OptionError("rows cannot be left out because they equal a real one: each missing row would reveal the real one "
                          "that it equals", span=copies.span, subject="no_copies", try_="fewer bins, or fewer columns, which "
                          "make real rows less unique; a drawn row that equals a real one does so by chance, and reveals nothing")
    accept, many = own.get("accept"), own.get("candidates")
    candidates = number_option(many, MOST_CANDIDATES)
    if accept is None:
        if many is not None:
            raise OptionError("candidates are compared by criteria, and there are none", span=many.span, subject="candidates",
                              try_=ACCEPT)
        return None
    if not isinstance(accept.value, str):
        raise OptionError("accept must be a text", span=accept.span, subject="accept", try_=ACCEPT)
    return AcceptanceTerms(option=accept, candidates=candidates or CANDIDATES)


def number_option(option: Option | None, most: int) -> int | None:
    if option is None:
        return None
    if isinstance(option.value, bool) or not isinstance(option.value, int) or not 1 <= option.value <= most:
        raise OptionError(f"{option.name} must be a whole number from 1 to {most}", span=option.span, subject=option.name,
                          try_=f"{option.name} = 100")
    return option.value
